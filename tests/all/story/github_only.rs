//! What only GitHub has: Apps with check runs and buttons, restarts of whole runs, review comments, moved names.

use super::stage::{HEAD, Script, Side, Stage};
use http::Method;

const REPO: &str = "acme/board";

async fn as_app() -> Stage {
    Stage::set_with(Side::GitHub, Script { app: true, ..Script::default() }).await
}

#[tokio::test]
async fn an_app_shows_a_check_run_whose_button_retests_under_the_pressers_rights() {
    let stage = as_app().await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    let check =
        || stage.github().check_runs(REPO, HEAD).into_iter().find(|c| c.name == "retest").expect("our check run");
    assert_ne!(check().status, "completed");
    assert!(check().actions.is_empty(), "no button while it runs");
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    assert_eq!(check().conclusion.as_deref(), Some("failure"));
    let summary = check().summary.unwrap_or_default();
    assert!(summary.contains("| Job | State |") && summary.contains("`lava-x86`"), "{summary}");
    let (identifier, _) = check().actions[0].clone();
    stage.github().press_button(check().id, &identifier, "sam");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1, "sam may only read");
    stage.github().press_button(check().id, &identifier, "tom");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 2);
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(check().conclusion.as_deref(), Some("success"));
    assert!(check().actions.is_empty(), "nothing is left to retest");
    stage.end().await;
}

#[tokio::test]
async fn the_forges_own_rerun_button_does_what_the_command_does() {
    let stage = as_app().await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    let check = stage.github().check_runs(REPO, HEAD).into_iter().find(|c| c.name == "retest").expect("our check run");
    stage.github().press_rerun_check(REPO, check.id, "tom");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 2);
    stage.end().await;
}

#[tokio::test]
async fn a_whole_story_breaks_no_rule_of_githubs_own_description() {
    let stage = Stage::set_with(Side::GitHub, Script { app: true, referee: true, ..Script::default() }).await;
    stage.lab_status("lava-x86", false).await;
    let run = stage.native_run(&["unit", "lint"], &["unit"]).await;
    stage.comment("tom", "/retest").await;
    stage.comment("sam", "/retest ?").await;
    stage.lab.set("lava-x86", "bad");
    stage.end_native(run, "unit", true);
    stage.pass_s(60).await;
    stage.comment("maya", "/retest required").await;
    assert_eq!(stage.status("lava-x86"), "failure", "{}", stage.report());
    let violations = stage.violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

#[tokio::test]
async fn all_failed_jobs_of_a_run_take_one_call() {
    let stage = Stage::set(Side::GitHub).await;
    stage.native_run(&["a", "b", "c"], &["a", "b"]).await;
    stage.comment("tom", "/retest").await;
    assert_eq!(stage.forge().count(&Method::POST, "/rerun-failed-jobs"), 1);
    assert_eq!(stage.forge().count(&Method::POST, "/rerun"), 1, "and no other restart");
    stage.end().await;
}

#[tokio::test]
async fn a_failed_job_of_a_run_that_is_not_over_waits_for_its_end() {
    let stage = Stage::set(Side::GitHub).await;
    let run = stage.start_native(&["slow", "unit"]);
    stage.end_native(run, "unit", false);
    stage.settle().await;
    stage.comment("tom", "/retest unit").await;
    assert_eq!(stage.native_runs(run, "unit"), 1, "GitHub refuses while the run is going");
    assert!(stage.report().contains("queued behind run"), "{}", stage.report());
    stage.end_native(run, "slow", true);
    stage.settle().await;
    assert_eq!(stage.native_runs(run, "unit"), 2, "{}", stage.report());
    stage.end().await;
}

#[tokio::test]
async fn one_comment_through_two_hooks_makes_one_command() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.github().hook(&format!("{}/webhooks/forge", stage.bot_url()), super::stage::SECRET);
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

#[tokio::test]
async fn a_comment_that_no_webhook_brought_is_caught_up_once() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.world().catch_up_pass().await.expect("the first look only remembers the time");
    stage.pass_s(10).await;
    stage.say("tom", "/retest lava-x86");
    stage.lose_webhooks("issue_comment", "");
    stage.settle().await;
    assert!(stage.lab.runs().is_empty());
    for _ in 0..3 {
        stage.pass_s(60).await;
        stage.world().catch_up_pass().await.expect("a look");
        stage.settle().await;
    }
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

#[tokio::test]
async fn an_edit_runs_only_what_is_new_and_only_when_the_author_edited() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    let comment = stage.comment("tom", "/retest lava-x86").await;
    stage.github().edit_comment(REPO, comment, "tom", "/retest lava-x86\n/retest lava-arm64");
    stage.settle().await;
    let jobs: Vec<String> = stage.lab.runs().into_iter().map(|r| r.job).collect();
    assert_eq!(jobs, ["lava-x86", "lava-arm64"]);
    let other = stage.comment("sam", "looks good").await;
    stage.github().edit_comment(REPO, other, "maya", "/retest lava-x86 --force");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 2, "maya's edit of sam's comment commands nothing");
    stage.end().await;
}

#[tokio::test]
async fn a_deleted_comment_commands_nothing_and_takes_nothing_back() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    let obeyed = stage.comment("tom", "/retest lava-x86").await;
    stage.github().delete_comment(REPO, obeyed, "tom");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1, "what it started goes on, `/cancel` would end it");
    let unheard = stage.say("tom", "/retest lava-arm64");
    stage.lose_webhooks("issue_comment", "");
    stage.github().delete_comment(REPO, unheard, "tom");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1, "the news of its end is no command, though it holds the text");
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("lava-x86"), "success");
    stage.end().await;
}

#[tokio::test]
async fn a_renamed_repository_is_followed() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.github().rename_repo(REPO, "acme/board-next");
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    let statuses = stage.github().statuses("acme/board-next", HEAD);
    let lava = statuses.iter().find(|s| s.context == "lava-x86").expect("the status");
    assert_eq!(lava.state, "success");
}

#[tokio::test]
async fn commands_in_a_review_and_on_a_line_count() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.github().review(REPO, stage.number, "tom", "Looks right.\n\n/retest lava-x86", "comment");
    stage.github().review_comment(REPO, stage.number, "tom", "/retest lava-arm64");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 2);
    stage.end().await;
}

#[tokio::test]
async fn required_jobs_can_be_meant() {
    let stage = Stage::set(Side::GitHub).await;
    stage.github().required(REPO, "main", &["lava-x86"]);
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.comment("tom", "/retest required").await;
    let jobs: Vec<String> = stage.lab.runs().into_iter().map(|r| r.job).collect();
    assert_eq!(jobs, ["lava-x86"]);
    stage.end().await;
}

#[tokio::test]
async fn a_forced_passed_job_beside_a_failed_one_runs_too() {
    let stage = Stage::set(Side::GitHub).await;
    let run = stage.native_run(&["a", "b"], &["a"]).await;
    stage.comment("wil", "/retest --force a b").await;
    assert_eq!(stage.forge().count(&Method::POST, "/rerun-failed-jobs"), 0, "it would leave `b` out");
    for _ in 0..4 {
        for job in ["a", "b"] {
            let jobs = stage.github().jobs(REPO, HEAD);
            if jobs.iter().any(|j| j.name == job && j.conclusion.is_none()) {
                stage.end_native(run, job, true);
            }
        }
        stage.pass_s(60).await;
    }
    assert_eq!(stage.status("retest"), "success", "{}", stage.report());
    stage.end().await;
}

#[tokio::test]
async fn an_edited_comment_is_not_caught_up_with() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.world().catch_up_pass().await.expect("the first look");
    let comment = stage.comment("tom", "nice work").await;
    stage.pass_s(5).await;
    stage.github().edit_comment(REPO, comment, "maya", "/retest lava-x86");
    stage.settle().await;
    stage.pass_s(60).await;
    stage.world().catch_up_pass().await.expect("a look");
    stage.settle().await;
    assert!(stage.lab.runs().is_empty(), "tom never wrote it");
    stage.end().await;
}
