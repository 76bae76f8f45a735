//! Policies of repositories: read from the default branch only, kept, looked at again, and never a reason for silence.

use http::Method;
use retest_bot::sandbox::wire::{Fault, Reply};

use super::on_both_forges;
use super::stage::{Script, Side, Stage};

on_both_forges! {
    a_policy_names_jobs_groups_and_phrases,
    a_phrase_of_the_policy_is_known_after_a_restart,
    a_policy_in_the_change_itself_has_no_effect,
    a_policy_that_is_taken_away_holds_no_longer,
    a_broken_policy_is_told_once_and_the_last_good_one_holds,
    a_broken_policy_leaves_the_operators_rules_where_the_operator_says_so,
    the_last_policy_holds_while_the_forge_does_not_answer,
    a_policy_is_kept_over_a_restart,
    a_changed_policy_is_looked_at_behind_the_back_of_a_command,
    a_job_that_must_not_be_started_again_says_why,
    members_of_a_team_may_what_their_role_does_not_allow,
    a_team_that_cannot_be_asked_for_lets_nobody_through,
    a_right_that_was_taken_away_is_gone_after_a_minute,
    a_locked_operator_is_not_loosened,
    a_policy_can_be_turned_off_by_the_operator,
    the_policy_decides_how_the_bot_speaks,
    a_quiet_repository_gets_a_report_only_when_there_is_something_to_say,
    the_policy_chooses_between_runners_that_both_take_the_job,
    a_policy_forbids_a_command,
}

fn extra(text: &str) -> Script {
    Script { extra: text.to_owned(), ..Script::default() }
}

/// Every look at the policy fails like this, until nobody breaks it any more.
fn break_looks(stage: &Stage, times: u32, reply: Reply) {
    let part = if stage.side == Side::GitHub { "/contents/" } else { "/repository/files/" };
    stage.forge().break_next(Some(Method::GET), part, times, Fault::Answer(reply));
}

fn looks(stage: &Stage) -> usize {
    let requests = stage.forge().requests();
    requests.iter().filter(|r| r.path.contains("/contents/") || r.path.contains("/repository/files/")).count()
}

async fn a_policy_names_jobs_groups_and_phrases(side: Side) {
    let stage = Stage::set(side).await;
    stage
        .policy(
            "[commands]\naliases = [{ phrase = \"once more please\", means = \"/retest\" }]\n\
             [[job]]\nname = \"lava-x86\"\naliases = [\"x86\"]\ngroups = [\"hardware\"]\n\
             [[job]]\npattern = \"board-*\"\ngroups = [\"hardware\"]\n",
        )
        .await;
    for job in ["lava-x86", "lava-arm64", "board-7"] {
        stage.lab_status(job, false).await;
    }
    stage.comment("tom", "/retest X86").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.comment("tom", "/retest hardware").await;
    let started: Vec<String> = stage.lab.runs().into_iter().map(|run| run.job).collect();
    assert_eq!(started, ["lava-x86", "board-7"], "{}", stage.report());
    stage.comment("tom", "once more please").await;
    assert_eq!(stage.lab.runs().len(), 3, "the phrase means /retest: {}", stage.report());
    stage.end().await;
}

async fn a_phrase_of_the_policy_is_known_after_a_restart(side: Side) {
    let mut stage = Stage::set(side).await;
    stage.policy("[commands]\naliases = [{ phrase = \"once more please\", means = \"/retest\" }]").await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/help").await;
    stage.restart().await;
    stage.comment("tom", "once more please").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.end().await;
}

async fn a_policy_in_the_change_itself_has_no_effect(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let open_to_all = "[rights]\nretest = \"none\"";
    stage.policy_in_the_change(open_to_all).await;
    stage.comment("sam", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty(), "the change cannot give itself rights: {}", stage.report());
    assert!(stage.report().contains("needs the *triage* role"), "{}", stage.report());
    stage.policy(open_to_all).await;
    stage.comment("sam", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "on the default branch it counts: {}", stage.report());
    stage.end().await;
}

async fn a_policy_that_is_taken_away_holds_no_longer(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy("[rights]\nretest = \"admin\"\nretest_author = false").await;
    stage.comment("wil", "/retest lava-x86").await;
    assert!(stage.report().contains("needs the *admin* role"), "{}", stage.report());
    stage.no_policy().await;
    stage.comment("wil", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.end().await;
}

const NEVER: &str = "[[job]]\nname = \"lava-x86\"\nretryable = false\nreason = \"it wears the flash\"\n";

async fn a_broken_policy_is_told_once_and_the_last_good_one_holds(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy(NEVER).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.policy(&NEVER.replace("reason", "reasn")).await;
    for _ in 0..2 {
        stage.comment("tom", "/retest lava-x86").await;
    }
    let report = stage.report();
    assert_eq!(report.matches("cannot be used").count(), 1, "told once: {report}");
    assert!(report.contains("line 4") && report.contains("did you mean `reason`?"), "{report}");
    assert!(report.contains("what it said before holds"), "{report}");
    assert_eq!(report.matches("it wears the flash").count(), 3, "the last good one holds: {report}");
    stage.policy("what is this").await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.report().matches("cannot be used").count(), 2, "another version is told anew: {}", stage.report());
    assert!(stage.lab.runs().is_empty());
    stage.end().await;
}

async fn a_broken_policy_leaves_the_operators_rules_where_the_operator_says_so(side: Side) {
    let stage = Stage::set_with(side, extra("[policy]\nwhen_broken = \"defaults\"")).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy(NEVER).await;
    stage.comment("tom", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty(), "{}", stage.report());
    stage.policy(&format!("{NEVER}standalne = true")).await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    assert!(stage.report().contains("what the operator has set holds"), "{}", stage.report());
    stage.end().await;
}

async fn the_last_policy_holds_while_the_forge_does_not_answer(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy(NEVER).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(3_600).await;
    break_looks(&stage, 20, Reply::message(500, "down"));
    stage.comment("tom", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty(), "{}", stage.report());
    assert_eq!(stage.report().matches("it wears the flash").count(), 2, "{}", stage.report());
}

async fn a_policy_is_kept_over_a_restart(side: Side) {
    let mut stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy(NEVER).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.restart().await;
    break_looks(&stage, 20, Reply::message(500, "down"));
    stage.comment("tom", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty(), "{}", stage.report());
    assert_eq!(stage.report().matches("it wears the flash").count(), 2, "{}", stage.report());
}

async fn a_changed_policy_is_looked_at_behind_the_back_of_a_command(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.policy("").await;
    stage.comment("tom", "/jobs").await;
    stage.forge().forget_requests();
    match side {
        Side::GitHub => stage.github().put_file("acme/board", ".retest.toml", NEVER),
        Side::GitLab => stage.gitlab().0.put_file(stage.gitlab().1, ".retest.toml", NEVER),
    }
    stage.comment("tom", "/jobs").await;
    assert_eq!(looks(&stage), 0, "within the minute nobody asks");
    stage.pass_s(61).await;
    stage.comment("tom", "/retest lava-arm64").await;
    assert_eq!(
        (looks(&stage), stage.lab.runs().len()),
        (1, 1),
        "after it the forge is asked, when the command is done"
    );
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(looks(&stage), 1);
    assert!(stage.report().contains("it wears the flash"), "the next command knows: {}", stage.report());
    stage.end().await;
}

async fn a_job_that_must_not_be_started_again_says_why(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", false).await;
    stage.policy(&NEVER.replace("it wears the flash", "ask @maya, see #12")).await;
    stage.comment("maya", "/retest").await;
    let report = stage.report();
    assert!(report.contains("lets nobody start it again") && report.contains("`@maya"), "{report}");
    assert!(!report.contains(" @maya") && !report.contains(" #12"), "inert: {report}");
    assert_eq!(stage.lab.runs().len(), 1, "the other one starts");
    stage.end().await;
}

const TEAM: &str = "[rights]\ntest = [\"maintain\", \"team:acme/ci\", \"group:acme/ci\"]";

async fn members_of_a_team_may_what_their_role_does_not_allow(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy(TEAM).await;
    stage.in_team("sam", true);
    stage.in_team("maya", false);
    stage.comment("wil", "/test lava-x86").await;
    assert!(stage.lab.runs().is_empty(), "{}", stage.report());
    assert!(stage.report().contains("needs *maintain* or `team:acme/ci` or `group:acme/ci`"), "{}", stage.report());
    stage.comment("sam", "/test lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "a reader in the team: {}", stage.report());
    stage.comment("maya", "/test lava-arm64").await;
    assert_eq!(stage.lab.runs().len(), 2, "a maintainer outside of it: {}", stage.report());
    stage.end().await;
}

async fn a_team_that_cannot_be_asked_for_lets_nobody_through(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy(TEAM).await;
    stage.in_team("sam", true);
    let part = if side == Side::GitHub { "/memberships/" } else { "/groups/" };
    let refusal = Reply::message(403, "Resource not accessible by integration");
    stage.forge().break_next(Some(Method::GET), part, 50, Fault::Answer(refusal));
    stage.comment("sam", "/test lava-x86").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("could not be looked up, which counts as no"), "{}", stage.report());
    stage.end().await;
}

async fn a_right_that_was_taken_away_is_gone_after_a_minute(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy(TEAM).await;
    stage.in_team("sam", true);
    stage.comment("sam", "/test lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.comment("tom", "/retest nothing").await;
    stage.in_team("sam", false);
    stage.role("tom", "read");
    stage.lab_status("board-7", false).await;
    stage.pass_s(60).await;
    stage.comment("sam", "/test lava-arm64").await;
    stage.comment("tom", "/retest board-7").await;
    assert_eq!(stage.lab.runs().len(), 1, "neither team nor role hold any longer: {}", stage.report());
    stage.end().await;
}

async fn a_locked_operator_is_not_loosened(side: Side) {
    let stage = Stage::set_with(side, extra("[policy]\nmay_loosen = []\n[limits]\nretries_per_job_and_head = 1")).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy("[rights]\nretest = \"none\"\nforce = \"maintain\"\n[limits]\nretries_per_job_and_head = 9").await;
    stage.comment("sam", "/retest lava-x86").await;
    assert!(stage.report().contains("needs the *triage* role"), "{}", stage.report());
    stage.comment("wil", "/retest lava-x86 --force").await;
    assert!(stage.report().contains("needs the *maintain* role"), "harder is possible: {}", stage.report());
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    assert!(
        stage.report().contains("retried 1 times on this head, which is the most that the operator"),
        "{}",
        stage.report()
    );
    stage.end().await;
}

async fn a_policy_can_be_turned_off_by_the_operator(side: Side) {
    let stage = Stage::set_with(side, extra("[policy]\nenabled = false")).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy(NEVER).await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!((stage.lab.runs().len(), looks(&stage)), (1, 0), "{}", stage.report());
    stage.end().await;
}

async fn the_policy_decides_how_the_bot_speaks(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy("[report]\ncomment = false").await;
    let comment = stage.comment("tom", "/retest lava-x86").await;
    assert!(stage.reports().is_empty(), "{:?}", stage.reports());
    assert_eq!((stage.reactions(comment), stage.status("retest").as_str()), (vec!["rocket".to_owned()], "pending"));
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    stage.policy("[report]\nstatuses = false").await;
    stage.lab_status("lava-arm64", false).await;
    stage.comment("tom", "/retest lava-arm64").await;
    assert_eq!(stage.status("lava-arm64"), "failure", "as the lab left it");
    assert!(stage.report().contains("lava-arm64"), "{}", stage.report());
    stage.end().await;
}

async fn a_quiet_repository_gets_a_report_only_when_there_is_something_to_say(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy("[report]\nquiet = true").await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!((stage.reports().len(), stage.status("retest").as_str()), (0, "success"));
    stage.comment("sam", "/retest lava-x86").await;
    assert!(stage.report().contains("needs the *triage* role"), "a refusal is said: {}", stage.report());
    stage.end().await;
}

async fn the_policy_chooses_between_runners_that_both_take_the_job(side: Side) {
    let folder = tempfile::tempdir().expect("a folder");
    let other = format!(
        "[[runner]]\nname = \"other\"\nkind = \"exec\"\ndirectory = \"{}\"\n[[runner.job]]\nname = \"board-7\"\ncommand = [\"true\"]\n",
        folder.path().display()
    );
    let stage = Stage::set_with(side, extra(&other)).await;
    stage.lab_status("board-7", false).await;
    stage.lab_status("lava-x86", false).await;
    stage.policy("[[runner]]\nname = \"other\"\njobs = [\"board-*\", \"lava-*\"]").await;
    stage.comment("tom", "/jobs").await;
    let report = stage.report();
    let line = |job: &str| report.lines().find(|l| l.starts_with(&format!("- `{job}`"))).unwrap_or_default().to_owned();
    assert!(line("board-7").contains("runner `other`"), "both declare it, so the policy chooses: {report}");
    assert!(line("lava-x86").contains("runner `lab`"), "the other does not know it: {report}");
    stage.comment("tom", "/retest board-7").await;
    assert!(stage.lab.runs().is_empty(), "{}", stage.report());
    assert!(stage.report().contains("`board-7`: started"), "{}", stage.report());
}

async fn a_policy_forbids_a_command(side: Side) {
    let stage = Stage::set(side).await;
    stage.policy("[commands]\ndisabled = [\"test\"]").await;
    let comment = stage.comment("wil", "/test lava-x86").await;
    assert!(stage.lab.runs().is_empty() && stage.reactions(comment).is_empty(), "it is left to other bots");
    stage.comment("wil", "/help").await;
    assert!(!stage.report().contains("/test"), "{}", stage.report());
    stage.end().await;
}
