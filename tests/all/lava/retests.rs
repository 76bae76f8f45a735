//! From a red status to a new job and back.

use http::Method;
use retest_bot::sandbox::lava::End;

use super::{HEAD, JOB, Lab, Side, on_both_forges};

on_both_forges! {
    a_red_status_of_a_lab_goes_over_a_new_job_to_green,
    an_infrastructure_error_is_told_by_its_type,
    failed_test_cases_fail_a_job_that_lava_calls_complete,
    failed_cases_count_only_in_the_suites_that_were_named,
    cancel_reaches_the_lab,
    an_override_changes_its_field_and_nothing_else,
    a_multinode_group_is_submitted_whole_and_the_report_says_so,
    a_late_status_of_the_old_job_changes_nothing,
    a_job_that_the_ci_started_itself_takes_the_place_of_ours,
    a_second_retest_repeats_the_newest_run,
    metadata_finds_the_job_that_a_status_does_not_name,
    a_status_that_points_to_a_foreign_job_is_not_followed,
}

/// Whether a definition carries this metadata, as JSON.
fn says(definition: &str, key: &str, value: &str) -> bool {
    definition.replace(' ', "").contains(&format!("\"{key}\":\"{value}\""))
}

async fn a_red_status_of_a_lab_goes_over_a_new_job_to_green(side: Side) {
    let lab = Lab::set(side, "").await;
    let old = lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    let new = lab.newest();
    assert_eq!(lab.lava.jobs().len(), 2);
    assert!(new.definition.contains("\"retest.key\""), "{}", new.definition);
    assert!(says(&new.definition, "retest.source", &old.to_string()), "{}", new.definition);
    assert!(new.definition.ends_with(JOB.trim_start_matches("# boots the kernel of a revision\n")), "the rest stays");
    assert_eq!(lab.stage.status("lava-x86"), "pending");
    assert_eq!(lab.stage.lab.runs().len(), 0, "the page decides before the declaration of another runner");
    lab.lava.set_state(new.id, "Running");
    lab.stage.pass_s(15).await;
    lab.lava.finish(new.id, &End::Complete(&[("boots", "pass")]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("lava-x86"), "success");
    assert_eq!(lab.stage.status("retest"), "success");
    assert!(lab.stage.report().contains(&format!("[run]({})", lab.page(new.id))), "{}", lab.stage.report());
    lab.stage.end().await;
}

async fn an_infrastructure_error_is_told_by_its_type(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    let table = [
        (
            End::Incomplete("Infrastructure", "bootloader did not answer"),
            "died of its infrastructure",
            "Infrastructure: bootloader did not answer",
        ),
        (End::Incomplete("Job", "kernel panic"), "failed again", "Job: kernel panic"),
        (
            End::Incomplete("LAVATimeout", "lava-test-shell timed out"),
            "timed out",
            "LAVATimeout: lava-test-shell timed out",
        ),
        (End::Gone, "died of its infrastructure", "left no result of its own"),
    ];
    for (end, state, cause) in table {
        lab.stage.comment("tom", "/retest lava-x86").await;
        lab.lava.finish(lab.newest().id, &end);
        lab.stage.pass_s(60).await;
        let report = lab.stage.report();
        assert!(report.contains(state) && report.contains(cause), "{end:?}: {report}");
        assert_ne!(lab.stage.status("lava-x86"), "success");
    }
    lab.stage.end().await;
}

async fn failed_test_cases_fail_a_job_that_lava_calls_complete(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    lab.lava.finish(lab.newest().id, &End::Complete(&[("boots", "pass"), ("memory", "fail"), ("odd", "skip")]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("lava-x86"), "failure");
    let report = lab.stage.report();
    assert!(report.contains("Test: 1 test case failed: 0_smoke/memory"), "{report}");
    lab.stage.end().await;
}

async fn failed_cases_count_only_in_the_suites_that_were_named(side: Side) {
    for (suites, state) in
        [("suites = []", "success"), ("suites = [\"long-*\"]", "success"), ("suites = [\"smoke\"]", "failure")]
    {
        let lab = Lab::set(side, suites).await;
        lab.red("lava-x86", JOB).await;
        lab.stage.comment("tom", "/retest lava-x86").await;
        lab.lava.finish(lab.newest().id, &End::Complete(&[("memory", "fail")]));
        lab.stage.pass_s(60).await;
        assert_eq!(lab.stage.status("lava-x86"), state, "{suites}");
        lab.stage.end().await;
    }
}

async fn cancel_reaches_the_lab(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    let id = lab.newest().id;
    lab.lava.set_state(id, "Running");
    lab.stage.pass_s(15).await;
    lab.stage.comment("tom", "/cancel lava-x86").await;
    assert_eq!(lab.newest().state, "Canceling");
    assert_eq!(lab.lava.wire().count(&Method::GET, "/cancel/"), 1);
    assert_eq!(lab.stage.status("lava-x86"), "error");
    lab.stage.end().await;
}

async fn an_override_changes_its_field_and_nothing_else(side: Side) {
    let lab = Lab::set(
        side,
        "url_prefixes = [\"https://storage.example/\"]\n[[runner.job]]\npattern = \"lava-*\"\noverrides = [\"kernel\"]",
    )
    .await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86 kernel=https://evil.example/k").await;
    assert_eq!(lab.lava.jobs().len(), 1, "not from there");
    assert!(lab.stage.report().contains("may not come from there"), "{}", lab.stage.report());
    lab.stage.comment("tom", "/retest lava-x86 kernel=https://storage.example/new").await;
    let new = lab.newest().definition;
    assert!(new.contains("kernel: {url: \"https://storage.example/new\"}") && new.contains("{group: [lab]}"), "{new}");
    lab.stage.comment("tom", "/retest lava-x86 device_type=other").await;
    assert_eq!(lab.lava.jobs().len(), 2, "not declared");
    lab.lava.finish(lab.newest().id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    lab.stage.end().await;
}

async fn a_multinode_group_is_submitted_whole_and_the_report_says_so(side: Side) {
    let lab = Lab::set(side, "").await;
    let group = "job_name: pair\ntimeouts: {job: {minutes: 5}}\nprotocols:\n  lava-multinode:\n    roles: {a: {device_type: x, count: 2}}\nactions: []\n";
    let first = lab.lava.submit(group);
    // The page of the second member: LAVA names it by the first one's number.
    lab.stage.post_lab_status("pair", false, &format!("{}/scheduler/job/{first}.1", lab.lava.base_url()));
    lab.stage.settle().await;
    lab.stage.comment("tom", "/retest pair").await;
    let jobs = lab.lava.jobs();
    assert_eq!(jobs.len(), 4, "both members again");
    let (a, b) = (jobs[2].id, jobs[3].id);
    assert!(lab.stage.report().contains(&format!("runs along: `{a}.1 (multinode)`")), "{}", lab.stage.report());
    lab.lava.finish(a, &End::Complete(&[("x", "pass")]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("pair"), "pending", "one of them still runs");
    lab.lava.finish(b, &End::Incomplete("MultinodeTimeout", "partner missing"));
    lab.stage.pass_s(60).await;
    let report = lab.stage.report();
    assert!(report.contains(&format!("MultinodeTimeout: partner missing (job {b})")), "{report}");
    lab.stage.end().await;
}

async fn a_late_status_of_the_old_job_changes_nothing(side: Side) {
    let lab = Lab::set(side, "").await;
    let old = lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    let new = lab.newest().id;
    lab.lava.finish(new, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    for page in [lab.page(old), lab.page(new)] {
        lab.stage.post_lab_status("lava-x86", false, &page);
    }
    lab.stage.pass_s(60).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(lab.lava.jobs().len(), 2, "the newest run has passed, whatever comes late: {}", lab.stage.report());
    lab.stage.end().await;
}

async fn a_job_that_the_ci_started_itself_takes_the_place_of_ours(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    lab.lava.finish(lab.newest().id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    let theirs = lab.red("lava-x86", &JOB.replace("medium", "low")).await;
    lab.stage.comment("tom", "/retest").await;
    let new = lab.newest();
    assert_eq!(lab.lava.jobs().len(), 4, "{}", lab.stage.report());
    assert!(new.definition.contains(&format!("\"{theirs}\"")) && new.definition.contains("priority: low"));
    lab.lava.finish(new.id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    lab.stage.end().await;
}

async fn a_second_retest_repeats_the_newest_run(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    let second = lab.newest().id;
    lab.lava.finish(second, &End::Incomplete("Job", "panic"));
    lab.stage.pass_s(60).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    let third = lab.newest();
    assert!(says(&third.definition, "retest.source", &second.to_string()), "{}", third.definition);
    assert!(says(&third.definition, "retest.number", "2"), "{}", third.definition);
    lab.lava.finish(third.id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    assert!(lab.stage.report().contains("passed on run 3"), "{}", lab.stage.report());
    lab.stage.end().await;
}

/// A check of another App cannot be changed by us: a status of the same name stands beside it.
#[tokio::test]
async fn a_check_of_another_app_is_joined_and_answered_by_a_status_of_its_name() {
    let lab = Lab::set(Side::GitHub, "").await;
    let (forge, old) = (lab.stage.github(), lab.lava.submit(JOB));
    let check = forge.foreign_check("acme/board", HEAD, "lab-app", "boot", None);
    forge.link_check(check, &lab.page(old));
    forge.foreign_check("acme/board", HEAD, "lab-app", "boot", Some("failure"));
    lab.stage.settle().await;
    lab.stage.comment("tom", "/retest boot").await;
    let new = lab.newest();
    assert!(says(&new.definition, "retest.source", &old.to_string()), "{}", lab.stage.report());
    lab.lava.finish(new.id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("boot"), "success");
    forge.foreign_check("acme/board", HEAD, "lab-app", "boot", Some("failure"));
    lab.stage.settle().await;
    lab.stage.comment("tom", "/retest").await;
    assert_eq!(lab.lava.jobs().len(), 2, "what the App says again of the repeated job is old: {}", lab.stage.report());
    lab.stage.end().await;
}

const BY_METADATA: &str = "metadata = { commit = \"{sha}\", ci_job = \"{job}\" }";

async fn metadata_finds_the_job_that_a_status_does_not_name(side: Side) {
    let lab = Lab::set(side, &format!("{BY_METADATA}\n[[runner.job]]\nname = \"boot-arm\"")).await;
    let marked = |job: &str| format!("{JOB}metadata:\n  commit: '{HEAD}'\n  ci_job: {job}\n");
    lab.lava.submit(&marked("boot-arm").replace("medium", "low"));
    lab.lava.submit(&marked("boot-x86"));
    lab.stage.lab_status("boot-arm", false).await;
    lab.stage.comment("tom", "/retest boot-arm").await;
    let new = lab.newest();
    assert_eq!(lab.lava.jobs().len(), 3, "{}", lab.stage.report());
    assert!(new.definition.contains("priority: low"), "{}", new.definition);
    lab.lava.finish(new.id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("boot-arm"), "success");
    lab.stage.end().await;
}

async fn a_status_that_points_to_a_foreign_job_is_not_followed(side: Side) {
    let lab = Lab::set(side, BY_METADATA).await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(lab.lava.jobs().len(), 1);
    assert!(lab.stage.report().contains("does not carry the metadata"), "{}", lab.stage.report());
    lab.stage.end().await;
}
