//! Following: heads that move, lost and doubled webhooks, deadlines, doubts.

use std::time::Duration;

use http::Method;
use retest_bot::sandbox::wire::{Fault, Reply};

use super::on_both_forges;
use super::stage::{HEAD, NEXT, Side, Stage};

on_both_forges! {
    a_moved_head_supersedes_the_retry_and_stops_its_run,
    a_closed_change_supersedes_the_retry,
    a_command_about_a_head_that_moved_meanwhile_is_refused,
    lost_webhooks_of_a_native_run_change_only_the_delay,
    every_webhook_twice_changes_nothing,
    webhooks_in_reverse_order_converge,
    a_retry_that_never_ends_expires_and_its_status_is_closed,
    a_run_that_the_lab_forgot_is_lost_and_can_be_retested,
    an_infrastructure_failure_is_named,
    statuses_are_posted_once_per_state,
    a_cancelled_job_can_be_retested,
    an_expired_job_can_be_retested,
    a_lost_push_webhook_is_noticed_at_the_next_command,
    one_command_costs_one_permission_read_one_dispatch_one_status_and_one_reaction,
}

async fn a_moved_head_supersedes_the_retry_and_stops_its_run(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.push(NEXT);
    stage.settle().await;
    assert_eq!(stage.status_at(HEAD, "lava-x86"), "error");
    assert_eq!(stage.status_at(HEAD, "retest"), "failure");
    assert_eq!(stage.lab.runs()[0].state, "cancelled");
    stage.end().await;
}

async fn a_closed_change_supersedes_the_retry(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.close();
    stage.settle().await;
    assert_eq!(stage.status("lava-x86"), "error");
    assert_eq!(stage.lab.runs()[0].state, "cancelled");
    stage.end().await;
}

async fn a_command_about_a_head_that_moved_meanwhile_is_refused(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    // The comment is stored first, the push right after it, and only then is anything worked on.
    stage.say("tom", "/retest lava-x86");
    stage.deliver().await;
    stage.push(NEXT);
    stage.settle().await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("the head moved"), "{}", stage.report());
    stage.end().await;
}

async fn lost_webhooks_of_a_native_run_change_only_the_delay(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.native_run(&["unit"], &["unit"]).await;
    stage.comment("tom", "/retest unit").await;
    stage.end_native(group, "unit", true);
    for (github, gitlab) in [("workflow_job", "Job Hook"), ("workflow_run", "Pipeline Hook"), ("check_run", "Job Hook")]
    {
        stage.lose_webhooks(github, gitlab);
    }
    stage.settle().await;
    assert_eq!(stage.status("retest"), "pending", "nobody told us");
    stage.pass_s(700).await;
    assert_eq!(stage.status("retest"), "success", "we asked");
    stage.end().await;
}

async fn every_webhook_twice_changes_nothing(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.say("tom", "/retest lava-x86");
    stage.duplicate_webhooks(3);
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1);
    assert_eq!(stage.reports().len(), 1);
    stage.end().await;
}

async fn webhooks_in_reverse_order_converge(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.start_native(&["unit"]);
    stage.end_native(group, "unit", false);
    stage.reverse_webhooks();
    stage.settle().await;
    stage.comment("tom", "/retest unit").await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "the late news of its start did not undo its end");
    stage.end().await;
}

async fn a_retry_that_never_ends_expires_and_its_status_is_closed(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass(Duration::from_secs(2 * 3_600 + 60)).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("error", "failure"));
    assert!(stage.report().contains("deadline"), "{}", stage.report());
    stage.end().await;
}

async fn a_run_that_the_lab_forgot_is_lost_and_can_be_retested(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.wire.break_next(Some(Method::GET), "/runs/", 50, Fault::Answer(Reply::message(404, "no such run")));
    for _ in 0..6 {
        stage.pass_s(60).await;
    }
    stage.lab.wire.heal();
    assert!(stage.report().contains("lost"), "{}", stage.report());
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 2);
    stage.end().await;
}

async fn an_infrastructure_failure_is_named(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "offline");
    stage.pass_s(60).await;
    assert!(stage.report().contains("died of its infrastructure"), "{}", stage.report());
    stage.end().await;
}

async fn statuses_are_posted_once_per_state(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    let posted = stage.forge().count(&Method::POST, "/statuses/");
    for _ in 0..5 {
        stage.pass_s(60).await;
    }
    assert_eq!(stage.forge().count(&Method::POST, "/statuses/"), posted, "nothing changed, nothing was sent");
    stage.end().await;
}

async fn one_command_costs_one_permission_read_one_dispatch_one_status_and_one_reaction(side: Side) {
    let stage = Stage::set(side).await;
    // The record is complete: the head appeared, and its run ended, while the bot listened.
    let group = stage.native_run(&["unit", "lint"], &["unit"]).await;
    stage.comment("tom", "/retest unit").await;
    stage.end_native(group, "unit", false);
    stage.settle().await;
    stage.pass_s(16).await; // the failure is judged
    stage.pass_s(3_600).await;
    stage.forge().forget_requests();
    stage.comment("tom", "/retest unit").await;
    let calls: Vec<String> = stage.forge().requests().iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    let count = |method: &str, parts: &[&str]| {
        calls.iter().filter(|c| c.starts_with(method) && parts.iter().any(|p| c.contains(p))).count()
    };
    assert_eq!(count("GET", &["/permission", "/members/"]), 1, "{calls:#?}");
    assert_eq!(count("POST", &["/rerun", "/retry"]), 1, "{calls:#?}");
    assert_eq!(count("POST", &["/statuses/"]), 1, "{calls:#?}");
    assert_eq!(count("POST", &["/reactions", "/award_emoji"]), 1, "{calls:#?}");
    // The report is edited once for the start, and once more when the new run's page is known.
    let edits = count("PATCH", &["/comments/"]) + count("PUT", &["/notes/"]);
    assert!((1..=2).contains(&edits), "{calls:#?}");
    // After an hour the repository's policy is looked at once, conditionally and beside the role.
    assert_eq!(count("GET", &["/contents/", "/repository/files/"]), 1, "{calls:#?}");
    assert_eq!(calls.len(), 5 + edits, "nothing else is asked: {calls:#?}");
    stage.end_native(group, "unit", false);
    stage.pass_s(30).await;
    stage.forge().forget_requests();
    stage.comment("tom", "/retest unit").await;
    let reads = stage.forge().requests().iter().filter(|r| r.method == Method::GET).count();
    assert_eq!(reads, 0, "within the minute role and policy are known: {:#?}", stage.forge().requests());
    stage.end().await;
}

async fn a_cancelled_job_can_be_retested(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "running");
    stage.pass_s(60).await;
    stage.comment("tom", "/cancel").await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 2, "{}", stage.report());
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("lava-x86"), "success");
    stage.end().await;
}

async fn an_expired_job_can_be_retested(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "running");
    stage.pass_s(60).await;
    stage.pass(Duration::from_secs(3 * 3_600)).await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 2, "{}", stage.report());
    stage.end().await;
}

async fn a_lost_push_webhook_is_noticed_at_the_next_command(side: Side) {
    let mut stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.push(NEXT);
    stage.lose_webhooks("pull_request", "Merge Request Hook");
    stage.restart().await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs()[0].state, "cancelled", "the old head's run was stopped: {}", stage.report());
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}
