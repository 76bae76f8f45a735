//! Known flakes: retried by themselves, within a budget, told with their evidence, and held back when they must be.

use super::issues::QueueState;
use super::on_both_forges;
use super::stage::{HEAD, NEXT, Script, Side, Stage};

on_both_forges! {
    a_flake_that_its_log_shows_is_run_again_and_passes,
    a_flake_that_fails_to_the_end_uses_up_its_budget_and_no_more,
    a_failure_that_no_label_covers_is_left_alone_in_silence,
    a_typed_cause_is_enough_and_the_lab_gets_the_job_again,
    an_outage_opens_the_breaker_and_the_change_is_told_that_it_waits,
    a_label_that_is_taken_away_ends_what_waits,
    a_head_that_moves_ends_what_waits,
    of_two_labels_the_first_pays_and_the_other_is_on_record,
    a_rule_that_the_change_itself_brings_has_no_effect,
    a_restart_between_failure_and_retry_loses_and_doubles_nothing,
    a_job_that_failed_on_two_earlier_heads_is_no_flake,
    a_cancelled_run_is_no_flake,
    a_measured_run_is_not_retried_unasked,
    a_merge_queue_waits_for_a_flake,
    a_policy_switches_it_off_for_a_job_and_for_the_repository,
    a_local_process_whose_log_shows_a_flake_runs_again,
    a_chain_waits_while_a_need_may_be_a_flake,
}

pub(super) const USB: &str = "usb 1-1: device descriptor read/64, error -110";

/// A rule that knows the flake by its log.
pub(super) const RULE: &str =
    "[[flake]]\nlabel = \"usb-reset\"\njobs = [\"unit\"]\nlog = [\"usb .*: device descriptor read\"]\nretries = 2\n";

pub(super) async fn with_rules(side: Side, extra: &str) -> Stage {
    Stage::set_with(side, Script { extra: extra.into(), ..Script::default() }).await
}

/// `unit` fails with this log; what follows at once has happened.
pub(super) async fn fails(stage: &Stage, group: u64, log: &str) {
    stage.log_of(group, "unit", log);
    stage.end_native(group, "unit", false);
    stage.settle().await;
}

async fn a_flake_that_its_log_shows_is_run_again_and_passes(side: Side) {
    let stage = with_rules(side, RULE).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, &format!("boot\n\u{1b}[31m{USB}\u{1b}[0m\nFAILED\n")).await;
    assert_eq!(stage.native_runs(group, "unit"), 1, "what the CI repeats by itself comes first");
    stage.pass_s(16).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.status("retest").as_str()), (2, "pending"));
    let report = stage.report();
    for says in ["known flake `usb-reset`", "log line 2", USB, "retry 1 of 2 that nobody asked for"] {
        assert!(report.contains(says), "{says}: {report}");
    }
    stage.end_native(group, "unit", true);
    stage.settle().await;
    assert_eq!(stage.status("retest"), "success");
    assert!(stage.report().contains("passed on run 2"), "green after a retry does not look like plain green");
    stage.end().await;
}

async fn a_flake_that_fails_to_the_end_uses_up_its_budget_and_no_more(side: Side) {
    let stage = with_rules(side, RULE).await;
    let group = stage.start_native(&["unit"]);
    for runs in [2, 3, 3, 3] {
        fails(&stage, group, USB).await;
        stage.pass_s(16).await;
        assert_eq!(stage.native_runs(group, "unit"), runs, "{:?}", stage.reports());
    }
    assert_eq!(stage.status("retest"), "failure");
    let report = stage.report();
    assert!(report.contains("is not retried by itself") && report.contains("allows 2 retries"), "{report}");
    // A person still can.
    stage.comment("tom", "/retest unit").await;
    assert_eq!(stage.native_runs(group, "unit"), 4, "{}", stage.report());
    stage.end().await;
}

async fn a_failure_that_no_label_covers_is_left_alone_in_silence(side: Side) {
    let stage = with_rules(side, RULE).await;
    let group = stage.start_native(&["unit", "lint"]);
    stage.log_of(group, "lint", USB);
    stage.end_native(group, "lint", false);
    fails(&stage, group, "assertion failed: left == right").await;
    stage.pass_s(16).await;
    stage.pass_s(600).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.native_runs(group, "lint")), (1, 1));
    assert!(stage.reports().is_empty() && stage.status("retest").is_empty(), "{:?}", stage.reports());
    stage.end().await;
}

async fn a_typed_cause_is_enough_and_the_lab_gets_the_job_again(side: Side) {
    let rule = "[[flake]]\nlabel = \"lab-down\"\njobs = [\"lava-*\"]\nends = [\"infrastructure\"]\ndelay = \"60s\"\n";
    let stage = with_rules(side, rule).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "offline");
    stage.pass_s(41).await;
    assert_eq!((stage.lab.runs().len(), stage.status("retest").as_str()), (1, "pending"), "{}", stage.report());
    assert!(stage.report().contains("starts at "), "{}", stage.report());
    stage.pass_s(61).await;
    assert_eq!(stage.lab.runs().len(), 2, "{}", stage.report());
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("success", "success"));
    assert!(stage.report().contains("passed on run 3") && stage.report().contains("`lab-down`"), "{}", stage.report());
    stage.end().await;
}

async fn an_outage_opens_the_breaker_and_the_change_is_told_that_it_waits(side: Side) {
    let rule = "[[flake]]\nlabel = \"lost\"\njobs = [\"lava-*\"]\nends = [\"infrastructure\"]\nretries = 3\n\
                [autoretry.breaker]\nheads_min = 2\nopen_for = \"15m\"\n";
    let stage = with_rules(side, rule).await;
    for head in [HEAD, NEXT] {
        if head == NEXT {
            stage.push(NEXT);
            stage.settle().await;
        }
        stage.comment("wil", "/test lava-x86").await;
        stage.lab.set("lava-x86", "offline");
        stage.pass_s(41).await;
    }
    assert_eq!(stage.lab.runs().len(), 3, "the second head that fails opens it: {}", stage.report());
    let report = stage.report();
    assert!(report.contains("is held back") && report.contains("many changes fail there"), "{report}");
    assert_eq!(stage.status_at(NEXT, "retest"), "pending", "something is still to come");
    stage.pass_s(14 * 60).await;
    assert_eq!(stage.lab.runs().len(), 3);
    stage.pass_s(120).await;
    assert_eq!(stage.lab.runs().len(), 4, "one retry tries whether it has recovered: {}", stage.report());
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status_at(NEXT, "retest"), "success");
    stage.end().await;
}

async fn a_label_that_is_taken_away_ends_what_waits(side: Side) {
    let stage = with_rules(side, "").await;
    let block = "```toml\njob = \"unit\"\nlog = [\"usb .*: device descriptor read\"]\ndelay = \"10m\"\n```";
    let issue = stage.issue("Flake: usb", block, &["flake"]);
    stage.settle().await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.status("retest"), "pending", "{:?}", stage.reports());
    assert!(stage.report().contains(&format!("known flake `#{issue}`")), "{}", stage.report());
    stage.close_issue(issue);
    stage.settle().await;
    stage.pass_s(601).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.status("retest").as_str()), (1, "failure"));
    assert!(stage.report().contains("is no label any more"), "{}", stage.report());
    stage.end().await;
}

async fn a_head_that_moves_ends_what_waits(side: Side) {
    let stage = with_rules(side, &format!("{RULE}delay = \"5m\"\n")).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.status("retest"), "pending");
    stage.push(NEXT);
    stage.settle().await;
    stage.pass_s(400).await;
    assert_eq!(stage.native_runs(group, "unit"), 1);
    assert_eq!(stage.status_at(HEAD, "retest"), "failure", "nothing is left pending");
    stage.end().await;
}

async fn of_two_labels_the_first_pays_and_the_other_is_on_record(side: Side) {
    let second = "[[flake]]\nlabel = \"any-usb\"\njobs = [\"u*\"]\nlog = [\"device descriptor read/64\"]\n";
    let stage = with_rules(side, &format!("{RULE}{second}")).await;
    let group = stage.start_native(&["unit"]);
    for runs in [2, 3, 4, 4] {
        fails(&stage, group, USB).await;
        stage.pass_s(16).await;
        assert_eq!(stage.native_runs(group, "unit"), runs, "two by the one, one by the other: {:?}", stage.reports());
    }
    stage.comment("sam", "/why unit").await;
    let report = stage.report();
    assert!(report.contains("known flake usb-reset; also covered by any-usb"), "{report}");
    assert!(report.contains("known flake any-usb; also covered by usb-reset"), "{report}");
    stage.end().await;
}

async fn a_rule_that_the_change_itself_brings_has_no_effect(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy_in_the_change(RULE).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 1, "the change grants itself nothing");
    stage.policy(RULE).await;
    stage.comment("tom", "/retest unit").await;
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 3, "the same on the default branch: {}", stage.report());
    stage.end().await;
}

async fn a_restart_between_failure_and_retry_loses_and_doubles_nothing(side: Side) {
    let mut stage = with_rules(side, &format!("{RULE}delay = \"1m\"\n")).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.restart().await; // the failure is not judged yet
    stage.pass_s(16).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.status("retest").as_str()), (1, "pending"));
    stage.restart().await; // the retry waits
    stage.pass_s(61).await;
    stage.restart().await; // it runs
    stage.pass_s(61).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "{}", stage.report());
    stage.end_native(group, "unit", true);
    stage.settle().await;
    assert_eq!(stage.status("retest"), "success");
    stage.end().await;
}

async fn a_job_that_failed_on_two_earlier_heads_is_no_flake(side: Side) {
    let rule = "[[flake]]\nlabel = \"lab-down\"\njobs = [\"lava-*\"]\nends = [\"infrastructure\"]\n";
    let stage = with_rules(side, rule).await;
    let heads = ["4444444444444444444444444444444444444444", "5555555555555555555555555555555555555555", NEXT];
    for (place, head) in heads.into_iter().enumerate() {
        stage.push(head);
        stage.settle().await;
        stage.comment("wil", "/test lava-x86").await;
        let started = stage.lab.runs().len();
        stage.lab.set("lava-x86", "offline");
        stage.pass_s(41).await;
        let retried = stage.lab.runs().len() - started;
        assert_eq!(retried, usize::from(place < 2), "head {place}: {}", stage.report());
        if retried == 1 {
            stage.lab.set("lava-x86", "bad");
            stage.pass_s(41).await;
        }
    }
    assert!(stage.report().contains("failed on 2 earlier heads"), "{}", stage.report());
    stage.end().await;
}

async fn a_cancelled_run_is_no_flake(side: Side) {
    let rule =
        "[[flake]]\nlabel = \"lab-down\"\njobs = [\"lava-*\"]\nends = [\"infrastructure\", \"lost\", \"timed_out\"]\n";
    let stage = with_rules(side, rule).await;
    stage.lab_status("lava-x86", true).await;
    stage.comment("wil", "/test lava-x86").await;
    stage.comment("wil", "/cancel lava-x86").await;
    stage.pass_s(60).await;
    stage.pass_s(60).await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.end().await;
}

async fn a_measured_run_is_not_retried_unasked(side: Side) {
    let rule = "[[flake]]\nlabel = \"lab-down\"\njobs = [\"lava-*\"]\nends = [\"infrastructure\"]\nretries = 5\n";
    let stage = with_rules(side, rule).await;
    stage.lab_status("lava-x86", true).await;
    stage.comment("wil", "/retest lava-x86 times=2").await;
    for _ in 0..4 {
        stage.lab.set("lava-x86", "offline");
        stage.pass_s(60).await;
    }
    assert_eq!(stage.lab.runs().len(), 2, "as many as were asked for: {}", stage.report());
    stage.end().await;
}

/// The queue wants the aggregate of all jobs, which stays pending while a retry is due.
async fn a_merge_queue_waits_for_a_flake(side: Side) {
    let rule = "[[flake]]\nlabel = \"lost\"\njobs = [\"unit\"]\nends = [\"infrastructure\"]\ndelay = \"1m\"\n\
                [autoretry.breaker]\nheads_min = 50\n[status]\nalways = true\n";
    let stage = with_rules(side, rule).await;
    stage.require(&["retest"]);
    let queued = stage.enqueue(&["unit", "lint"]);
    stage.settle().await;
    assert_eq!(stage.status_at(&queued.sha, "retest"), "pending");
    stage.lose_native(queued.group, "unit");
    stage.settle().await;
    stage.end_native(queued.group, "lint", true);
    stage.settle().await;
    assert_eq!(stage.queue_state(), QueueState::Waiting, "a retry is due");
    stage.pass_s(16).await;
    assert_eq!((stage.queue_state(), stage.queue_runs(&queued, "unit")), (QueueState::Waiting, 1));
    stage.pass_s(61).await;
    assert_eq!((stage.queue_state(), stage.queue_runs(&queued, "unit")), (QueueState::Waiting, 2));
    stage.end_native(queued.group, "unit", true);
    stage.settle().await;
    assert_eq!(stage.queue_state(), QueueState::Merged, "{}", stage.status_at(&queued.sha, "retest"));
    stage.end().await;
}

async fn a_policy_switches_it_off_for_a_job_and_for_the_repository(side: Side) {
    let stage = with_rules(side, RULE).await;
    stage.policy("[[job]]\nname = \"unit\"\nauto_retry = false\n").await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 1, "{:?}", stage.reports());
    stage.policy("[autoretry]\nenabled = false\n").await;
    stage.comment("tom", "/retest unit").await;
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "{}", stage.report());
    stage.end().await;
}

/// A real process: it fails the first time it runs.
async fn a_local_process_whose_log_shows_a_flake_runs_again(side: Side) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display();
    let script = format!("test -e {place}/ran && exit 0; touch {place}/ran; echo '{USB}'; exit 1");
    let extra = format!(
        "[[runner]]\nname = \"here\"\nkind = \"exec\"\ndirectory = \"{place}/runs\"\npoll_min = \"1s\"\npoll_max = \"2s\"\n\
         [[runner.job]]\nname = \"smoke\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n{}",
        RULE.replace("\"unit\"", "\"smoke\"")
    );
    let stage = with_rules(side, &extra).await;
    stage.comment("wil", "/test smoke").await;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while stage.status("smoke") != "success" {
        assert!(std::time::Instant::now() < end, "not within 20 s: {}", stage.report());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await; // the process is real, and so is its time
        stage.pass_s(3).await;
    }
    let report = stage.report();
    assert!(report.contains("known flake `usb-reset`: log line 1") && report.contains("passed on run 3"), "{report}");
    assert_eq!(stage.status("retest"), "success");
    stage.end().await;
}

async fn a_chain_waits_while_a_need_may_be_a_flake(side: Side) {
    let extra = "[[runner.job]]\nname = \"flash\"\n[[runner.job]]\nname = \"boot\"\nneeds = [\"flash\"]\n\
                 [[flake]]\nlabel = \"lab-down\"\njobs = [\"flash\"]\nends = [\"infrastructure\"]\ndelay = \"60s\"\n";
    let stage = with_rules(side, extra).await;
    stage.lab_status("flash", false).await;
    stage.lab_status("boot", false).await;
    stage.comment("tom", "/retest boot --with-needs").await;
    stage.lab.set("flash", "offline");
    stage.pass_s(41).await;
    stage.pass_s(61).await;
    let jobs = || stage.lab.runs().into_iter().map(|run| run.job).collect::<Vec<_>>();
    assert_eq!(jobs(), ["flash", "flash"], "{}", stage.report());
    stage.lab.set("flash", "ok");
    stage.pass_s(41).await;
    assert_eq!(jobs(), ["flash", "flash", "boot"], "{}", stage.report());
    stage.lab.set("boot", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("boot"), "success");
    stage.end().await;
}
