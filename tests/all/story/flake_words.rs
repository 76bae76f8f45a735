//! What people say about flakes: issues with a block, `/flake`, `/autoretry`, labels on a change, `/override`.

use super::flakes::{RULE, USB, fails, with_rules};
use super::on_both_forges;
use super::stage::{HEAD, NEXT, Side, Stage};

on_both_forges! {
    an_open_issue_with_a_block_labels_a_flake_and_counts_its_hits,
    a_bad_block_gets_one_comment_and_stops_nothing_else,
    an_issue_of_that_label_without_a_block_is_left_alone,
    flake_writes_the_block_of_an_issue_and_the_failure_is_judged_again,
    flake_new_opens_one_issue_even_when_the_command_is_worked_on_twice,
    flake_takes_the_triage_role,
    a_lost_issue_webhook_changes_only_the_delay,
    the_labels_on_a_change_allow_and_forbid,
    autoretry_off_ends_what_waits_and_on_lets_it_go_again,
    override_turns_our_own_status_green_until_the_head_moves,
    a_job_without_a_label_that_fails_and_passes_is_proposed_for_one_once,
    a_picked_retest_needs_clean_passes_where_the_owner_wants_them,
    a_picked_retest_needs_a_full_pass_where_the_owner_wants_one,
}

const BLOCK: &str =
    "Seen in the lab.\n\n```toml\njob = \"unit\"\nlog = [\"usb .*: device descriptor read\"]\nretries = 2\n```\n";

async fn an_open_issue_with_a_block_labels_a_flake_and_counts_its_hits(side: Side) {
    let stage = Stage::set(side).await;
    let issue = stage.issue("usb", BLOCK, &["flake"]);
    stage.settle().await;
    let comment = stage.issue_comments(issue);
    assert!(comment.len() == 1 && comment[0].contains("**Understood.**"), "{comment:?}");
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "{:?}", stage.reports());
    stage.end_native(group, "unit", true);
    stage.settle().await;
    stage.pass_s(700).await;
    let comment = stage.issue_comments(issue);
    assert!(comment.len() == 1 && comment[0].contains("| 1 |") && comment[0].contains("1 of 1"), "{comment:?}");
    stage.end().await;
}

async fn a_bad_block_gets_one_comment_and_stops_nothing_else(side: Side) {
    let stage = Stage::set(side).await;
    let bad = stage.issue("all", "```toml\njob = \"unit\"\nlog = [\".*\"]\nretires = 3\n```\n", &["flake"]);
    stage.issue("usb", BLOCK, &["flake"]);
    stage.settle().await;
    let comments = stage.issue_comments(bad);
    assert!(comments.len() == 1 && comments[0].contains("cannot be used"), "{comments:?}");
    assert!(comments[0].contains("retires"), "{comments:?}");
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "the good one works");
    stage.edit_issue(bad, BLOCK);
    stage.settle().await;
    let comments = stage.issue_comments(bad);
    assert!(comments.len() == 1 && comments[0].contains("**Understood.**"), "edited in place: {comments:?}");
    stage.end().await;
}

async fn an_issue_of_that_label_without_a_block_is_left_alone(side: Side) {
    let stage = Stage::set(side).await;
    let old = stage.issue("a flake that people talk about", "It fails at times.", &["flake"]);
    stage.settle().await;
    stage.pass_s(3_600).await;
    assert_eq!(stage.issue_comments(old).len(), 0);
    stage.end().await;
}

async fn flake_writes_the_block_of_an_issue_and_the_failure_is_judged_again(side: Side) {
    let stage = Stage::set(side).await;
    let issue = stage.issue("usb resets", "It fails at times.\n", &[]);
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 1);
    stage.comment("tom", &format!("/flake unit #{issue} \"device descriptor read/64\"")).await;
    let text = stage.issue_text(issue);
    assert!(text.starts_with("It fails at times.") && text.contains("jobs = [\"unit\"]"), "{text}");
    assert_eq!(stage.issue_labels(issue), ["flake"]);
    assert_eq!(stage.native_runs(group, "unit"), 2, "{}", stage.report());
    assert!(stage.report().contains("was written into"), "{}", stage.report());
    stage.comment("tom", &format!("/flake unit #{issue} \"device descriptor read/64\"")).await;
    assert_eq!(stage.issue_text(issue), text, "said twice it is the same");
    stage.end().await;
}

async fn flake_new_opens_one_issue_even_when_the_command_is_worked_on_twice(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.comment("tom", "/flake unit new \"device descriptor read/64\"").await;
    let issues = stage.issues();
    let issue = *issues.last().expect("an issue");
    assert_eq!(stage.issue_title(issue), "Flake: unit");
    assert_eq!(stage.issue_labels(issue), ["flake"]);
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "{}", stage.report());
    assert_eq!(stage.issues(), issues);
    stage.end().await;
}

async fn flake_takes_the_triage_role(side: Side) {
    let stage = Stage::set(side).await;
    let issue = stage.issue("usb resets", "It fails at times.\n", &[]);
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.comment("sam", &format!("/flake unit #{issue}")).await;
    stage.comment("sam", "/autoretry on").await;
    stage.comment("tom", "/override retest \"it is fine\"").await;
    assert_eq!(stage.issue_text(issue).trim_end(), "It fails at times.");
    let report = stage.report();
    assert!(report.matches("*triage*").count() >= 2 && report.contains("*maintain*"), "{report}");
    stage.end().await;
}

async fn a_lost_issue_webhook_changes_only_the_delay(side: Side) {
    let stage = Stage::set(side).await;
    stage.lose_webhooks("issues", "Issue Hook");
    stage.issue("usb", BLOCK, &["flake"]);
    stage.settle().await;
    stage.pass_s(1_000).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "listed before the failure was judged: {:?}", stage.reports());
    stage.end().await;
}

async fn the_labels_on_a_change_allow_and_forbid(side: Side) {
    let stage = with_rules(side, RULE).await;
    let group = stage.start_native(&["unit", "lint"]);
    stage.end_native(group, "lint", true);
    fails(&stage, group, "assertion failed").await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 1);
    stage.label_change("retest/auto", true);
    stage.settle().await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "any failure, once: {:?}", stage.reports());
    assert!(stage.report().contains("`retest/auto` on this change"), "{}", stage.report());
    stage.label_change("retest/never", true);
    stage.settle().await;
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "never wins: {}", stage.report());
    stage.end().await;
}

async fn autoretry_off_ends_what_waits_and_on_lets_it_go_again(side: Side) {
    let stage = with_rules(side, &format!("{RULE}delay = \"5m\"\n")).await;
    let group = stage.start_native(&["unit"]);
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    assert_eq!(stage.status("retest"), "pending");
    stage.comment("ann", "/autoretry off").await;
    assert!(stage.report().contains("1 waiting ended"), "{}", stage.report());
    stage.pass_s(400).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.status("retest").as_str()), (1, "failure"));
    stage.comment("tom", "/retest unit").await;
    fails(&stage, group, USB).await;
    stage.pass_s(16).await;
    stage.pass_s(400).await;
    assert_eq!(stage.native_runs(group, "unit"), 2, "off: {}", stage.report());
    stage.comment("ann", "/autoretry on").await;
    stage.pass_s(700).await; // the second wait is twice as long
    assert_eq!(stage.native_runs(group, "unit"), 3, "on: {}", stage.report());
    stage.end().await;
}

async fn override_turns_our_own_status_green_until_the_head_moves(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("failure", "failure"));
    stage.comment("maya", "/override unit \"not ours\"").await;
    assert!(stage.report().contains("is no status of this bot"), "{}", stage.report());
    stage.comment("maya", "/override lava-x86 \"board is on fire\"").await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("success", "success"));
    stage.comment("sam", "/why lava-x86").await;
    assert!(stage.report().contains("board is on fire"), "{}", stage.report());
    stage.push(NEXT);
    stage.settle().await;
    assert_eq!(stage.status_at(HEAD, "retest"), "success");
    stage.comment("wil", "/test lava-x86").await;
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    assert_eq!(stage.status_at(NEXT, "retest"), "failure", "a new head undoes it");
    stage.end().await;
}

async fn a_job_without_a_label_that_fails_and_passes_is_proposed_for_one_once(side: Side) {
    let stage = with_rules(side, "[autoretry]\npropose_after = 2\n").await;
    for (head, told) in [(HEAD, 0), (NEXT, 1), ("6666666666666666666666666666666666666666", 1)] {
        if head != HEAD {
            stage.push(head);
            stage.settle().await;
        }
        stage.comment("wil", "/test lava-x86").await;
        stage.lab.set("lava-x86", "bad");
        stage.pass_s(60).await;
        stage.comment("tom", "/retest lava-x86").await;
        stage.lab.set("lava-x86", "ok");
        stage.pass_s(60).await;
        stage.pass_s(60).await;
        let proposals = stage.report().matches("/flake lava-x86 new").count();
        assert_eq!(proposals, told, "{head}: {}", stage.report());
    }
    stage.end().await;
}

async fn a_picked_retest_needs_clean_passes_where_the_owner_wants_them(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy("[autoretry]\nclean_passes = 2\n").await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("wil", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("success", "failure"));
    stage.comment("wil", "/retest lava-x86 --force").await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("retest"), "success", "{}", stage.report());
    stage.end().await;
}

async fn a_picked_retest_needs_a_full_pass_where_the_owner_wants_one(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy("[autoretry]\nclean = \"full\"\n").await;
    stage.lab_status("lava-arm64", true).await;
    stage.pass_s(5).await;
    stage.lab_status("lava-x86", false).await;
    stage.pass_s(5).await;
    stage.comment("wil", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("retest"), "failure", "lava-arm64 passed before the last failure: {}", stage.report());
    stage.comment("wil", "/retest lava-arm64 --force").await;
    stage.lab.set("lava-arm64", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("retest"), "success", "{}", stage.report());
    stage.end().await;
}
