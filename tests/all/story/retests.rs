//! The main job: what a `/retest` starts, and what comes back.

use super::on_both_forges;
use super::stage::{HEAD, NEXT, Script, Side, Stage};
use http::Method;

on_both_forges! {
    a_red_lab_status_goes_over_pending_to_green,
    a_run_that_fails_again_stays_red_and_says_so,
    a_plain_retest_starts_every_failed_job_and_no_other,
    a_failed_native_job_is_restarted_and_followed,
    two_failed_native_jobs_named_one_by_one_each_run_once,
    a_passed_job_is_left_alone_until_forced,
    force_needs_the_write_role,
    a_job_that_never_ran_is_started_by_test,
    the_same_command_twice_in_one_comment_runs_once,
    a_second_person_joins_the_retry_under_way,
    overrides_reach_the_runner_only_when_declared,
    a_job_that_matches_a_pattern_of_the_lab_can_be_retested,
    a_dry_run_starts_nothing,
    cancel_stops_the_run_and_closes_the_status,
    a_third_retest_counts_its_runs,
    retries_per_job_and_head_are_limited,
    a_pinned_commit_that_is_not_the_head_is_refused,
}

async fn a_red_lab_status_goes_over_pending_to_green(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    assert_eq!(stage.status("lava-x86"), "failure");
    let comment = stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.status("lava-x86"), "pending");
    assert_eq!(stage.status("retest"), "pending", "merge queues wait");
    assert_eq!(stage.reactions(comment), ["rocket"]);
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("success", "success"));
    assert!(stage.report().contains("passed on run 2"), "{}", stage.report());
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

async fn a_run_that_fails_again_stays_red_and_says_so(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest").await;
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("failure", "failure"));
    assert!(stage.report().contains("failed again, on run 2"), "{}", stage.report());
    stage.end().await;
}

async fn a_plain_retest_starts_every_failed_job_and_no_other(side: Side) {
    let stage = Stage::set(side).await;
    for (name, passed) in [("lava-x86", false), ("lava-arm64", false), ("board-7", true)] {
        stage.lab_status(name, passed).await;
    }
    stage.comment("tom", "/retest").await;
    let mut started: Vec<String> = stage.lab.runs().into_iter().map(|r| r.job).collect();
    started.sort();
    assert_eq!(started, ["lava-arm64", "lava-x86"]);
    stage.end().await;
}

async fn a_failed_native_job_is_restarted_and_followed(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.native_run(&["build", "unit"], &["unit"]).await;
    stage.comment("tom", "/retest unit").await;
    assert_eq!(stage.native_runs(group, "unit"), 2);
    assert_eq!(stage.status("retest"), "pending");
    stage.end_native(group, "unit", true);
    stage.settle().await;
    assert_eq!(stage.status("retest"), "success");
    assert_eq!(stage.status("unit"), "", "the forge reports it itself");
    stage.end().await;
}

async fn two_failed_native_jobs_named_one_by_one_each_run_once(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.native_run(&["a", "b", "c"], &["a", "b", "c"]).await;
    stage.comment("tom", "/retest a b").await;
    // GitHub takes one restart of a run at a time: the second waits for the first.
    for _ in 0..2 {
        for job in ["a", "b"] {
            if stage.native_runs(group, job) > 1 {
                stage.end_native(group, job, true);
            }
        }
        stage.settle().await;
        stage.pass_s(60).await;
    }
    assert_eq!(stage.status("retest"), "success", "{}", stage.report());
    let report = stage.report();
    assert!(report.contains("**`a`**") && report.contains("**`b`**") && !report.contains("**`c`**"), "{report}");
    stage.end().await;
}

async fn a_passed_job_is_left_alone_until_forced(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", true).await;
    let comment = stage.comment("wil", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("already passed"), "{}", stage.report());
    assert_eq!(stage.reactions(comment), ["confused"]);
    stage.comment("wil", "/retest lava-x86 --force").await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

async fn force_needs_the_write_role(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", true).await;
    stage.comment("tom", "/retest lava-x86 --force").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("needs the *write* role"), "{}", stage.report());
    stage.end().await;
}

async fn a_job_that_never_ran_is_started_by_test(side: Side) {
    let stage = Stage::set(side).await;
    stage.comment("wil", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty(), "a retest repeats, it does not begin");
    stage.comment("wil", "/test lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("lava-x86"), "success");
    stage.end().await;
}

async fn the_same_command_twice_in_one_comment_runs_once(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86\n\nand also\n\n/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

async fn a_second_person_joins_the_retry_under_way(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.comment("maya", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    assert!(stage.report().contains("joined"), "{}", stage.report());
    stage.end().await;
}

async fn overrides_reach_the_runner_only_when_declared(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86 ROOTFS=evil").await;
    assert!(stage.lab.runs().is_empty(), "not declared");
    stage.comment("tom", "/retest lava-x86 KERNEL=https://k.example/vmlinuz").await;
    let runs = stage.lab.runs();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].overrides["KERNEL"], "https://k.example/vmlinuz");
    stage.end().await;
}

async fn a_job_that_matches_a_pattern_of_the_lab_can_be_retested(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("board-9000", false).await;
    stage.comment("tom", "/retest board-*").await;
    assert_eq!(stage.lab.runs().iter().map(|r| r.job.as_str()).collect::<Vec<_>>(), ["board-9000"]);
    stage.end().await;
}

async fn a_dry_run_starts_nothing(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest --dry-run").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("would be started"), "{}", stage.report());
    assert_eq!(stage.status("retest"), "");
    stage.end().await;
}

async fn cancel_stops_the_run_and_closes_the_status(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.comment("sam", "/cancel").await;
    assert_ne!(stage.lab.runs()[0].state, "cancelled", "sam may not");
    stage.comment("tom", "/cancel lava-x86").await;
    assert_eq!(stage.lab.runs()[0].state, "cancelled");
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("error", "failure"));
    stage.end().await;
}

async fn a_third_retest_counts_its_runs(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    for end in ["bad", "bad", "ok"] {
        stage.comment("tom", "/retest lava-x86").await;
        stage.lab.set("lava-x86", end);
        stage.pass_s(60).await;
    }
    assert!(stage.report().contains("passed on run 4"), "{}", stage.report());
    assert_eq!(stage.status("retest"), "success");
    stage.end().await;
}

async fn retries_per_job_and_head_are_limited(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    for _ in 0..7 {
        stage.comment("tom", "/retest lava-x86").await;
        stage.lab.set("lava-x86", "bad");
        stage.pass_s(60).await;
    }
    assert_eq!(stage.lab.runs().len(), 4, "five runs of a job on a head, the first included");
    assert!(stage.report().contains("ran 5 times on this head, and 5 is the most"), "{}", stage.report());
    stage.end().await;
}

async fn a_pinned_commit_that_is_not_the_head_is_refused(side: Side) {
    let stage = Stage::set_with(side, Script::default()).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", &format!("/retest lava-x86 --sha={}", &NEXT[..10])).await;
    assert!(stage.lab.runs().is_empty());
    stage.comment("tom", &format!("/retest lava-x86 --sha={}", &HEAD[..10])).await;
    assert_eq!(stage.lab.runs().len(), 1);
    assert_eq!(stage.lab.wire.count(&Method::POST, "/runs"), 1);
    stage.end().await;
}
