//! Limits: each at its edge, with the clock set by hand and a restart in between.

use std::time::Duration;

use retest_bot::ports::Clock as _;

use super::on_both_forges;
use super::stage::{Script, Side, Stage};

on_both_forges! {
    every_limit_over_a_span_holds_over_a_restart_to_its_last_millisecond,
    a_pause_between_retries_holds_over_a_restart,
    a_tighter_figure_of_the_policy_holds_and_is_named_as_its_own,
    an_exempt_role_is_not_bound,
}

const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;

async fn fail_again(stage: &Stage, job: &str) {
    stage.lab.set(job, "bad");
    stage.pass_s(60).await;
}

async fn every_limit_over_a_span_holds_over_a_restart_to_its_last_millisecond(side: Side) {
    let rows = [
        ("retries_per_change_per_hour", HOUR_S, "this change had 2 retries within the last hour"),
        ("retries_per_actor_per_hour", HOUR_S, "you had 2 retries within the last hour"),
        ("retries_per_change_per_day", DAY_S, "this change had 2 retries within the last 24 hours"),
        ("retries_per_actor_per_day", DAY_S, "you had 2 retries within the last 24 hours"),
        ("retries_per_repository_per_day", DAY_S, "this repository had 2 retries within the last 24 hours"),
        ("retries_per_runner_per_day", DAY_S, "its runner had 2 retries within the last 24 hours"),
    ];
    for (key, span_s, words) in rows {
        let script = Script { extra: format!("[limits]\n{key} = 2"), ..Script::default() };
        let mut stage = Stage::set_with(side, script).await;
        stage.lab_status("lava-x86", false).await;
        let first = stage.clock.now();
        for _ in 0..2 {
            stage.comment("tom", "/retest lava-x86").await;
            fail_again(&stage, "lava-x86").await;
        }
        assert_eq!(stage.lab.runs().len(), 2, "{key}: {}", stage.report());
        stage.restart().await;
        stage.comment("tom", "/retest lava-x86").await;
        let report = stage.report();
        assert_eq!(stage.lab.runs().len(), 2, "{key}: {report}");
        for part in [words, &format!("`limits.{key}`"), "UTC (in ", "the operator can raise it"] {
            assert!(report.contains(part), "{key}: {part}: {report}");
        }
        let edge = Duration::from_secs(span_s) - stage.clock.now().since(first);
        stage.pass(edge - Duration::from_millis(1)).await;
        stage.comment("tom", "/retest lava-x86").await;
        assert_eq!(stage.lab.runs().len(), 2, "{key}: a millisecond before: {}", stage.report());
        stage.pass(Duration::from_millis(1)).await;
        stage.comment("tom", "/retest lava-x86").await;
        assert_eq!(stage.lab.runs().len(), 3, "{key}: at the edge: {}", stage.report());
        stage.end().await;
    }
}

async fn a_pause_between_retries_holds_over_a_restart(side: Side) {
    let script = Script { extra: "[limits]\ncooldown = \"10m\"".into(), ..Script::default() };
    let mut stage = Stage::set_with(side, script).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    fail_again(&stage, "lava-x86").await;
    stage.restart().await;
    stage.comment("wil", "/retest").await;
    assert_eq!(stage.lab.runs().len(), 2, "the pause is of one job: {}", stage.report());
    assert!(
        stage.report().contains("a pause of 10 min") && stage.report().contains("(in 9 min)"),
        "{}",
        stage.report()
    );
    stage.pass_s(540).await;
    stage.comment("wil", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 3, "{}", stage.report());
    stage.end().await;
}

async fn a_tighter_figure_of_the_policy_holds_and_is_named_as_its_own(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.policy("[limits]\nretries_per_change_per_hour = 1\nretries_per_actor_per_hour = 100000").await;
    stage.comment("tom", "/retest").await;
    let report = stage.report();
    assert_eq!(stage.lab.runs().len(), 1, "{report}");
    assert!(report.contains("1 is the most that the repository's policy allows"), "{report}");
    assert!(report.contains("in its `.retest.toml`") && report.contains("a maintainer can raise it there"), "{report}");
    stage.end().await;
}

async fn an_exempt_role_is_not_bound(side: Side) {
    let limits = "[limits]\nretries_per_change_per_hour = 1\nexempt_role = \"maintain\"";
    let stage = Stage::set_with(side, Script { extra: limits.into(), ..Script::default() }).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.comment("tom", "/retest").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    assert!(stage.report().contains("somebody with *maintain* is not bound by it"), "{}", stage.report());
    stage.comment("maya", "/retest").await;
    assert_eq!(stage.lab.runs().len(), 2, "{}", stage.report());
    stage.end().await;
}
