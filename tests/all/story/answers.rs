//! Answers: everybody learns what happened and why, nobody is paged, and nothing of ours runs anything.

use super::on_both_forges;
use super::stage::{Script, Side, Stage};

on_both_forges! {
    a_reader_is_told_which_right_is_missing,
    the_author_of_a_head_in_the_repository_may_retest,
    the_author_of_a_fork_may_retest_only_after_approval,
    an_unknown_name_gets_the_nearest_one,
    a_slip_of_the_pen_runs_nothing_and_gets_one_hint,
    a_cancel_in_the_same_comment_takes_the_retest_back,
    every_answer_of_a_long_comment_is_shown,
    the_list_of_jobs_says_what_can_be_restarted,
    help_lists_the_commands_that_the_asker_may_use,
    an_approval_can_be_taken_back,
    a_bot_is_not_obeyed_whatever_its_role,
    a_comment_that_is_taken_away_runs_nothing_more,
    a_comment_without_a_command_gets_no_answer,
    a_command_in_code_or_quotes_is_not_obeyed,
    the_report_is_one_comment_edited_in_place,
    the_reports_of_the_bot_are_never_obeyed,
    a_job_that_nobody_here_runs_is_named_as_such,
    names_that_look_like_markup_stay_inert,
    a_command_on_a_closed_change_is_refused,
    an_old_comment_runs_nothing,
}

async fn a_reader_is_told_which_right_is_missing(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let comment = stage.comment("sam", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty());
    let report = stage.report();
    assert!(report.contains("needs the *triage* role") && report.contains("`sam` has *read*"), "{report}");
    assert_eq!(stage.reactions(comment), ["confused"]);
    assert_eq!(stage.status("retest"), "", "a refusal leaves no status");
    stage.end().await;
}

async fn the_author_of_a_head_in_the_repository_may_retest(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("ann", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

async fn the_author_of_a_fork_may_retest_only_after_approval(side: Side) {
    let stage = Stage::set_with(side, Script { fork: true, ..Script::default() }).await;
    if side == Side::GitHub {
        stage.lab_status("lava-x86", false).await;
    }
    stage.comment("ann", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("must be approved first"), "{}", stage.report());
    stage.comment("wil", "/ok-to-test").await;
    stage.comment("ann", "/retest lava-x86").await;
    match side {
        Side::GitHub => assert_eq!(stage.lab.runs().len(), 1),
        // GitLab takes no status on a commit of a fork, so nothing is known to have failed there.
        Side::GitLab => assert!(stage.report().contains("never ran on this head"), "{}", stage.report()),
    }
    stage.end().await;
}

async fn a_bot_is_not_obeyed_whatever_its_role(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let bot = if side == Side::GitHub { "helper[bot]" } else { "project_12_bot_0a1b" };
    stage.role(bot, "maintain");
    let comment = stage.comment(bot, "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty() && stage.reports().is_empty() && stage.reactions(comment).is_empty());
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "a person is");
    stage.end().await;
}

async fn a_comment_that_is_taken_away_runs_nothing_more(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let comment = stage.comment("tom", "/retest lava-x86").await;
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    stage.take_away(comment, "tom");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.end().await;
}

async fn an_approval_can_be_taken_back(side: Side) {
    let stage = Stage::set_with(side, Script { fork: true, ..Script::default() }).await;
    stage.comment("wil", "/ok-to-test").await;
    stage.comment("ann", "/ok-to-test cancel").await;
    assert!(stage.report().contains("`/ok-to-test` needs the *write* role"), "{}", stage.report());
    stage.comment("wil", "/ok-to-test cancel").await;
    assert!(stage.report().contains("the approval is taken back"), "{}", stage.report());
    stage.comment("ann", "/retest lava-x86").await;
    assert!(stage.report().contains("must be approved first"), "{}", stage.report());
    assert!(stage.lab.runs().is_empty());
    stage.end().await;
}

async fn an_unknown_name_gets_the_nearest_one(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x68").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("did you mean `lava-x86`?"), "{}", stage.report());
    stage.end().await;
}

async fn a_slip_of_the_pen_runs_nothing_and_gets_one_hint(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retset lava-x86").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("did you mean `/retest`?"), "{}", stage.report());
    stage.end().await;
}

async fn the_list_of_jobs_says_what_can_be_restarted(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", true).await;
    let comment = stage.comment("sam", "/retest ?").await;
    let report = stage.report();
    assert!(report.contains("`lava-x86`") && report.contains("can be restarted"), "{report}");
    assert!(report.contains("`lava-arm64`") && report.contains("already passed"), "{report}");
    assert_eq!(stage.reactions(comment), ["eyes"]);
    stage.end().await;
}

async fn help_lists_the_commands_that_the_asker_may_use(side: Side) {
    let stage = Stage::set(side).await;
    stage.comment("wil", "/help").await;
    for command in ["`/retest [", "[--force]", "[times=N]", "`/test", "`/cancel", "`/help", "`/ok-to-test"] {
        assert!(stage.report().contains(command), "a writer: {command}: {}", stage.report());
    }
    let stage = Stage::set(side).await;
    stage.comment("ann", "/help").await;
    let report = stage.report();
    assert!(report.contains("`/retest [") && report.contains("`/cancel") && report.contains("`/help"), "{report}");
    for command in ["`/test", "`/ok-to-test", "--force", "times=N"] {
        assert!(!report.contains(command), "the author, a reader: {command}: {report}");
    }
    stage.comment("ann", "/help test").await;
    assert!(stage.report().contains("`/test` needs the *write* role"), "{}", stage.report());
    stage.end().await;
}

async fn a_comment_without_a_command_gets_no_answer(side: Side) {
    let stage = Stage::set(side).await;
    for text in ["looks good to me", "see /etc/retest for the log", "I already tried /retest twice", ""] {
        let comment = stage.comment("tom", text).await;
        assert!(stage.reports().is_empty() && stage.reactions(comment).is_empty(), "{text:?}");
    }
    stage.end().await;
}

async fn a_command_in_code_or_quotes_is_not_obeyed(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    for text in
        ["```\n/retest lava-x86\n```", "> /retest lava-x86", "`/retest lava-x86`", "<!--\n/retest lava-x86\n-->"]
    {
        stage.comment("tom", text).await;
        assert!(stage.lab.runs().is_empty(), "{text:?}");
    }
    stage.end().await;
}

async fn the_report_is_one_comment_edited_in_place(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    for end in ["bad", "ok"] {
        stage.comment("tom", "/retest lava-x86").await;
        stage.lab.set("lava-x86", end);
        stage.pass_s(60).await;
    }
    stage.comment("sam", "/retest lava-x86").await;
    assert_eq!(stage.reports().len(), 1);
    stage.end().await;
}

async fn the_reports_of_the_bot_are_never_obeyed(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest nothing-like-this").await;
    let report = stage.report();
    // Somebody quotes the whole report, marker and all, with a command below it.
    stage.comment("tom", &format!("{report}\n\n/retest lava-x86")).await;
    assert!(stage.lab.runs().is_empty(), "text that carries our marker is ours");
    assert!(report.lines().all(|line| !line.starts_with('/')), "{report}");
}

async fn a_job_that_nobody_here_runs_is_named_as_such(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("somebody-elses-ci", false).await;
    stage.comment("tom", "/retest").await;
    assert!(stage.report().contains("`somebody-elses-ci`: not managed here"), "{}", stage.report());
    stage.end().await;
}

async fn names_that_look_like_markup_stay_inert(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("board-@everyone <b>x</b>", false).await;
    stage.comment("tom", "/retest board-*").await;
    let report = stage.report();
    assert!(report.contains("`board-@everyone <b>x</b>`"), "in a code span, as it is: {report}");
    stage.end().await;
}

async fn a_command_on_a_closed_change_is_refused(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.close();
    stage.comment("tom", "/retest lava-x86").await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("the change is closed"), "{}", stage.report());
    stage.end().await;
}

async fn an_old_comment_runs_nothing(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.say("tom", "/retest lava-x86");
    stage.pass(std::time::Duration::from_secs(73 * 3_600)).await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("too old"), "{}", stage.report());
    stage.end().await;
}

async fn a_cancel_in_the_same_comment_takes_the_retest_back(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86\n/cancel").await;
    assert!(stage.lab.runs().is_empty(), "{}", stage.report());
    assert!(stage.report().contains("`lava-x86`: cancelled"), "{}", stage.report());
    stage.end().await;
}

async fn every_answer_of_a_long_comment_is_shown(side: Side) {
    let stage = Stage::set(side).await;
    let lines: Vec<String> = (0..15).map(|n| format!("/retest nothing-{n}")).collect();
    stage.comment("tom", &lines.join("\n")).await;
    for n in 0..15 {
        assert!(stage.report().contains(&format!("`nothing-{n}`")), "{n}: {}", stage.report());
    }
    stage.end().await;
}
