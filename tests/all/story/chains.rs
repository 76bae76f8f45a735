//! Jobs that need one another, several runs at once, and the record that explains them.

use axum::http::Method;
use retest_bot::sandbox::wire::{Fault, Reply};

use super::on_both_forges;
use super::stage::{NEXT, Script, Side, Stage};

on_both_forges! {
    a_chained_job_waits_for_what_it_needs,
    a_need_that_fails_ends_the_chain_and_says_so,
    a_need_that_its_runner_refuses_ends_the_wait_at_once,
    waiting_for_a_need_does_not_use_up_a_jobs_own_time,
    what_a_joined_wish_does_not_get_is_told,
    a_chain_survives_a_restart,
    cancelling_a_need_ends_what_waits_for_it,
    times_runs_one_after_the_other_and_counts_them,
    the_forges_own_ci_measures_a_flake_as_well,
    cancel_ends_a_series,
    times_needs_the_write_role,
    why_tells_what_was_decided_from_the_record,
    somebody_elses_run_grants_a_waiting_wish,
    a_base_that_moved_since_is_told_where_the_run_is_repeated_as_it_was,
    a_required_job_that_never_reported_is_meant_by_a_plain_retest,
}

/// `boot` needs `flash`; both run in the lab.
async fn chain(side: Side) -> Stage {
    let extra = "[[runner.job]]\nname = \"flash\"\n[[runner.job]]\nname = \"boot\"\nneeds = [\"flash\"]\n";
    let stage = Stage::set_with(side, Script { extra: extra.into(), ..Script::default() }).await;
    stage.lab_status("flash", false).await;
    stage.lab_status("boot", false).await;
    stage
}

fn jobs_of(stage: &Stage) -> Vec<String> {
    stage.lab.runs().into_iter().map(|run| run.job).collect()
}

async fn a_chained_job_waits_for_what_it_needs(side: Side) {
    let stage = chain(side).await;
    stage.comment("tom", "/retest boot").await;
    assert_eq!(jobs_of(&stage), [""; 0], "chained: {}", stage.report());
    assert!(stage.report().contains("`--with-needs`"), "{}", stage.report());
    stage.comment("tom", "/retest boot --with-needs").await;
    assert_eq!(jobs_of(&stage), ["flash"]);
    assert_eq!((stage.status("boot").as_str(), stage.status("retest").as_str()), ("pending", "pending"));
    assert!(stage.report().contains("starts once `flash` passed"), "{}", stage.report());
    stage.lab.set("flash", "ok");
    stage.pass_s(60).await;
    assert_eq!(jobs_of(&stage), ["flash", "boot"]);
    stage.lab.set("boot", "ok");
    stage.pass_s(60).await;
    assert_eq!((stage.status("boot").as_str(), stage.status("retest").as_str()), ("success", "success"));
    stage.end().await;
}

async fn a_need_that_fails_ends_the_chain_and_says_so(side: Side) {
    let stage = chain(side).await;
    stage.comment("tom", "/retest boot --with-needs").await;
    stage.lab.set("flash", "bad");
    stage.pass_s(60).await;
    stage.pass_s(60).await;
    assert_eq!(jobs_of(&stage), ["flash"], "boot never starts");
    assert_eq!((stage.status("boot").as_str(), stage.status("retest").as_str()), ("failure", "failure"));
    assert!(stage.report().contains("it needs flash, which ended as failed"), "{}", stage.report());
    stage.end().await;
}

async fn a_need_that_its_runner_refuses_ends_the_wait_at_once(side: Side) {
    let extra = "[[runner.job]]\nname = \"flash\"\n[[runner.job]]\nname = \"boot\"\nneeds = [\"flash\"]\n";
    let stage = Stage::set_with(side, Script { extra: extra.into(), ..Script::default() }).await;
    stage.lab_status("flash", true).await;
    stage.lab_status("boot", false).await;
    let no = Fault::Answer(Reply::message(422, "the board is retired"));
    stage.lab.wire.break_next(Some(Method::POST), "/jobs/flash", 1, no);
    stage.comment("wil", "/retest flash --force\n/retest boot --with-needs").await;
    stage.settle().await;
    assert_eq!(jobs_of(&stage), [""; 0], "boot does not start on what an older flash left behind");
    assert_eq!(stage.status("retest"), "failure", "nobody waits: {}", stage.report());
    assert!(stage.report().contains("it needs flash, which ended as rejected"), "{}", stage.report());
    stage.end().await;
}

async fn waiting_for_a_need_does_not_use_up_a_jobs_own_time(side: Side) {
    let stage = chain(side).await;
    stage.comment("tom", "/retest boot --with-needs").await;
    for _ in 0..11 {
        stage.pass_s(600).await; // a run may take two hours
    }
    stage.lab.set("flash", "ok");
    stage.pass_s(60).await;
    assert_eq!(jobs_of(&stage), ["flash", "boot"], "{}", stage.report());
    for _ in 0..11 {
        stage.pass_s(600).await;
    }
    stage.lab.set("boot", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("boot"), "success", "{}", stage.report());
    stage.end().await;
}

async fn what_a_joined_wish_does_not_get_is_told(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("wil", "/retest lava-x86\n/retest lava-x86 times=5 KERNEL=next").await;
    assert_eq!(jobs_of(&stage), ["lava-x86"]);
    let says = "joined, but `times=5`, `KERNEL=next` is not part of it: ask for that once it is over";
    assert!(stage.report().contains(says), "{}", stage.report());
    stage.end().await;
}

async fn a_chain_survives_a_restart(side: Side) {
    let mut stage = chain(side).await;
    stage.comment("tom", "/retest boot --with-needs").await;
    stage.lab.set("flash", "ok");
    stage.restart().await;
    stage.pass_s(60).await;
    stage.restart().await;
    stage.pass_s(60).await;
    assert_eq!(jobs_of(&stage), ["flash", "boot"], "each once");
    stage.lab.set("boot", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("boot"), "success");
    stage.end().await;
}

async fn cancelling_a_need_ends_what_waits_for_it(side: Side) {
    let stage = chain(side).await;
    stage.comment("tom", "/retest boot --with-needs").await;
    stage.comment("tom", "/cancel flash").await;
    stage.pass_s(60).await;
    assert_eq!(jobs_of(&stage), ["flash"]);
    assert!(stage.report().contains("it needs flash, which ended as cancelled"), "{}", stage.report());
    assert_eq!(stage.status("retest"), "failure", "nothing is left pending");
    stage.end().await;
}

async fn times_runs_one_after_the_other_and_counts_them(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", true).await;
    stage.comment("wil", "/retest lava-x86 times=5").await;
    for (place, end) in ["ok", "bad", "ok", "ok", "bad"].into_iter().enumerate() {
        assert_eq!(stage.lab.runs().len(), place + 1, "one at a time: {}", stage.report());
        assert_eq!(stage.status("retest"), "pending", "the series is not over");
        stage.lab.set("lava-x86", end);
        stage.pass_s(60).await;
    }
    assert_eq!(stage.lab.runs().len(), 5);
    let keys: std::collections::BTreeSet<String> = stage.lab.runs().into_iter().map(|run| run.key).collect();
    assert_eq!(keys.len(), 5, "every run has a key of its own");
    assert!(stage.report().contains("run 5 of 5 asked for: 3 passed, 2 failed"), "{}", stage.report());
    // Five runs asked for at once are one wish: the limit of five runs by hand is not used up.
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 6, "{}", stage.report());
    stage.end().await;
}

async fn the_forges_own_ci_measures_a_flake_as_well(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.native_run(&["unit", "lint"], &["unit"]).await;
    stage.comment("wil", "/retest unit times=3").await;
    for (runs, passed) in [(2, true), (3, false), (4, true)] {
        assert_eq!(stage.native_runs(group, "unit"), runs, "{}", stage.report());
        stage.end_native(group, "unit", passed);
        stage.settle().await;
    }
    assert_eq!(stage.native_runs(group, "unit"), 4, "three runs beside the first");
    assert!(stage.report().contains("run 3 of 3 asked for: 2 passed, 1 failed"), "{}", stage.report());
    assert_eq!(stage.status("retest"), "success", "the newest run decides");
    stage.end().await;
}

async fn cancel_ends_a_series(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("wil", "/retest lava-x86 times=5").await;
    stage.comment("wil", "/cancel lava-x86").await;
    stage.pass_s(60).await;
    assert_eq!((stage.lab.runs().len(), stage.status("lava-x86").as_str()), (1, "error"));
    stage.end().await;
}

async fn times_needs_the_write_role(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86 times=3").await;
    assert!(stage.lab.runs().is_empty() && stage.report().contains("*write*"), "{}", stage.report());
    stage.end().await;
}

async fn why_tells_what_was_decided_from_the_record(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", true).await;
    stage.comment("tom", "/retest lava-x86 lava-arm64").await;
    stage.lab.set("lava-x86", "offline");
    stage.pass_s(60).await;
    stage.comment("sam", "/why lava-x86").await;
    let report = stage.report();
    for says in ["`lava-x86` is infrastructure failure on this head", "accepted by its runner", "run 2: infrastructure"]
    {
        assert!(report.contains(says), "{says}: {report}");
    }
    stage.comment("sam", "/why lava-arm64").await;
    let report = stage.report();
    assert!(report.contains("`tom` asked for `/retest lava-x86 lava-arm64`: already passed"), "{report}");
    stage.comment("sam", "/why lava-mips").await;
    assert!(stage.report().contains("nothing is on record about `lava-mips`"), "{}", stage.report());
    assert_eq!(stage.lab.runs().len(), 1, "asking starts nothing");
    stage.end().await;
}

async fn a_base_that_moved_since_is_told_where_the_run_is_repeated_as_it_was(side: Side) {
    let stage = Stage::set(side).await;
    stage.push_base("3333333333333333333333333333333333333333");
    stage.settle().await;
    stage.pass_s(1).await;
    let says = "without what came to `main` since: update the branch";
    stage.native_run(&["unit", "lint"], &["unit", "lint"]).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest unit").await;
    assert!(!stage.report().contains(says), "it ran against the base as it is: {}", stage.report());
    stage.pass_s(1).await;
    stage.push_base(NEXT);
    stage.settle().await;
    stage.comment("tom", "/retest lint lava-x86").await;
    let report = stage.report();
    let lines: Vec<&str> = report.lines().filter(|line| line.contains(says)).collect();
    assert!(lines.iter().any(|line| line.starts_with("- `lint`")), "{report}");
    assert!(!lines.iter().any(|line| line.contains("lava-x86")), "a lab runs the head as it is: {report}");
}

async fn a_required_job_that_never_reported_is_meant_by_a_plain_retest(side: Side) {
    let extra = "[[runner.job]]\nname = \"smoke\"\nrequired = true\n[[runner.job]]\nname = \"nightly\"\n";
    let stage = Stage::set_with(side, Script { extra: extra.into(), ..Script::default() }).await;
    stage.comment("tom", "/retest").await;
    assert_eq!(jobs_of(&stage), ["smoke"], "nightly is declared, not required: {}", stage.report());
    stage.lab.set("smoke", "ok");
    stage.pass_s(60).await;
    stage.comment("tom", "/retest").await;
    assert_eq!(jobs_of(&stage), ["smoke"], "it has reported now, and passed");
    stage.end().await;
}

/// GitHub takes one restart of a workflow run at a time, so that the second job waits; GitLab has no such wait.
async fn somebody_elses_run_grants_a_waiting_wish(side: Side) {
    let stage = Stage::set(side).await;
    let run = stage.native_run(&["unit", "lint", "docs"], &["unit", "lint", "docs"]).await;
    stage.comment("tom", "/retest unit").await;
    stage.comment("tom", "/retest lint").await;
    match side {
        Side::GitHub => {
            assert_eq!(stage.native_runs(run, "lint"), 1, "it waits for the attempt under way");
            stage.end_native(run, "unit", true);
            assert!(stage.github().press_rerun_run(run, "maya"), "the run is over");
            stage.settle().await;
            assert_eq!(stage.native_runs(run, "lint"), 3, "started once, by hand, and not by us again");
        }
        Side::GitLab => assert_eq!(stage.native_runs(run, "lint"), 2),
    }
    for job in ["unit", "lint", "docs"] {
        if stage.native_runs(run, job) == if side == Side::GitHub { 3 } else { 2 } {
            stage.end_native(run, job, true);
        }
    }
    stage.settle().await;
    assert_eq!(stage.status("retest"), "success", "{}", stage.report());
    stage.end().await;
}
