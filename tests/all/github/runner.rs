//! GitHub Actions as a runner: restarts, what it refuses, what a lost answer means, following, logs.

use std::time::Duration;

use http::Method;
use retest_bot::domain::{ChangeKey, CommitSha, DispatchKey, JobName, JobState, RunHandle, RunOrder, RunRef, WaitOn};
use retest_bot::ports::{CallError, DispatchError, DispatchOrder, Found, JobOrder, Runner as _};
use retest_bot::sandbox::github::{NewJob, NewPull, NewWorkflow};
use retest_bot::sandbox::wire::Fault;

use super::{HEAD, REPO, Site, app};

/// A site with one run of the workflow `CI` whose jobs ended as told.
async fn with_run(ends: &[(&str, &str)]) -> (Site, u64) {
    let site = Site::new(app()).await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let job = |(name, _): &(&str, &str)| NewJob { name: (*name).into(), needs: Vec::new() };
    let workflow = NewWorkflow {
        name: "CI".into(),
        path: ".github/workflows/ci.yml".into(),
        event: "pull_request".into(),
        jobs: ends.iter().map(job).collect(),
        needs_approval: false,
    };
    let run = site.sandbox.start_workflow(REPO, HEAD, workflow);
    for (name, end) in ends {
        if !end.is_empty() {
            site.sandbox.finish_job(run, name, end);
        }
    }
    (site, run)
}

/// An order for jobs by name, repeating each one's newest record.
fn order(site: &Site, run: u64, names: &[&str], whole_group: bool) -> DispatchOrder {
    let records = site.sandbox.jobs(REPO, HEAD);
    let job = |name: &&str| {
        let newest = records.iter().filter(|r| r.run_id == run && r.name == **name).max_by_key(|r| r.attempt);
        let newest = newest.expect("a job of that name");
        JobOrder {
            key: DispatchKey::new(format!("key-{name}")),
            job: JobName::new(*name),
            scope: "CI".into(),
            source_run: Some(RunRef::new(format!("{run}/{}/{}", newest.attempt, newest.id))),
            source_order: RunOrder(run as i64, i64::from(newest.attempt)),
            overrides: Default::default(),
        }
    };
    DispatchOrder {
        repo: site.repo.clone(),
        change: ChangeKey { repo: site.repo.key.clone(), number: 1 },
        sha: CommitSha::parse(HEAD).expect("a commit"),
        group: Some(run.to_string()),
        jobs: names.iter().map(job).collect(),
        whole_group,
    }
}

async fn start(site: &Site, order: &DispatchOrder) -> RunHandle {
    site.runner.dispatch(order).await.expect("taken").runs.remove(0).1
}

#[tokio::test]
async fn one_job_is_restarted_by_itself_and_followed_into_its_new_attempt() {
    let (site, run) = with_run(&[("unit", "failure"), ("lint", "failure")]).await;
    let job = JobName::new("unit");
    let handle = start(&site, &order(&site, run, &["unit"], false)).await;
    assert_eq!(site.count(&Method::POST, "/rerun"), 1);
    assert_eq!(handle.order, RunOrder(run as i64, 2));
    let seen = site.runner.observe(&site.repo, &job, &handle).await.expect("observed");
    assert_eq!((seen.state, seen.order), (JobState::Pending, RunOrder(run as i64, 2)));
    site.sandbox.start_job(run, "unit");
    let seen = site.runner.observe(&site.repo, &job, &handle).await.expect("observed");
    assert_eq!(seen.state, JobState::Running);
    site.sandbox.finish_job(run, "unit", "success");
    let seen = site.runner.observe(&site.repo, &job, &handle).await.expect("observed");
    assert_eq!(seen.state, JobState::Passed);
    assert!(seen.run.expect("named").as_str().starts_with(&format!("{run}/2/")));
    let lint = site.sandbox.jobs(REPO, HEAD).into_iter().filter(|j| j.name == "lint").count();
    assert_eq!(lint, 1, "the other job was left alone");
}

#[tokio::test]
async fn all_failed_jobs_of_a_run_take_one_call() {
    let (site, run) = with_run(&[("unit", "failure"), ("lint", "failure"), ("docs", "success")]).await;
    let started = site.runner.dispatch(&order(&site, run, &["unit", "lint"], true)).await.expect("taken");
    assert_eq!(started.runs.len(), 2);
    assert_eq!(site.count(&Method::POST, "/rerun-failed-jobs"), 1);
    let posts = site.sandbox.wire().requests().into_iter().filter(|r| r.method == Method::POST);
    assert_eq!(posts.filter(|r| !r.path.ends_with("/access_tokens")).count(), 1);
    for (key, handle) in started.runs {
        let job = JobName::new(key.as_str().trim_start_matches("key-"));
        let seen = site.runner.observe(&site.repo, &job, &handle).await.expect("observed");
        assert_eq!(seen.state, JobState::Pending, "{job}");
    }
}

#[tokio::test]
async fn a_run_that_is_not_over_parks_the_order_on_it() {
    let (site, run) = with_run(&[("unit", "failure"), ("lint", "")]).await;
    let parked = site.runner.dispatch(&order(&site, run, &["unit"], false)).await.expect_err("not yet");
    let DispatchError::Parked { on, look_after } = parked else { panic!("parked, not {parked:?}") };
    assert_eq!(on, WaitOn::Group(run.to_string()));
    assert!(look_after >= Duration::from_secs(30));
    site.sandbox.finish_job(run, "lint", "success");
    start(&site, &order(&site, run, &["unit"], false)).await;
}

#[tokio::test]
async fn what_github_never_restarts_is_refused_in_its_own_words() {
    let (site, run) = with_run(&[("unit", "failure")]).await;
    let wanted = order(&site, run, &["unit"], false);
    site.sandbox.forbid_rerun(run);
    let refused = site.runner.dispatch(&wanted).await.expect_err("never");
    let DispatchError::Call(CallError::Refused { user, .. }) = refused else { panic!("refused, not {refused:?}") };
    assert!(user.contains("cannot be retried"), "{user}");

    let (site, run) = with_run(&[("unit", "failure")]).await;
    let wanted = order(&site, run, &["unit"], false);
    site.wait(Duration::from_secs(31 * 24 * 3_600));
    let refused = site.runner.dispatch(&wanted).await.expect_err("too old");
    let DispatchError::Call(CallError::Refused { user, .. }) = refused else { panic!("refused, not {refused:?}") };
    assert!(user.contains("over a month ago"), "{user}");
}

#[tokio::test]
async fn the_limit_of_restarts_and_a_job_that_never_ran_are_refused_without_a_call() {
    let (site, run) = with_run(&[("unit", "failure")]).await;
    let mut spent = order(&site, run, &["unit"], false);
    spent.jobs[0].source_run = Some(RunRef::new(format!("{run}/51/4711")));
    let mut never_ran = order(&site, run, &["unit"], false);
    never_ran.jobs[0].source_run = None;
    for (wanted, says) in [(spent, "at most 50 times"), (never_ran, "has run before")] {
        let refused = site.runner.dispatch(&wanted).await.expect_err("refused");
        let DispatchError::Call(CallError::Refused { user, .. }) = refused else { panic!("refused, not {refused:?}") };
        assert!(user.contains(says), "{user}");
    }
    assert_eq!(site.count(&Method::POST, "/rerun"), 0);
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_looking_for_the_new_attempt() {
    let table = [(Fault::ResetAfterEffect, true), (Fault::ResetBefore, false), (Fault::Truncate, true)];
    for (fault, taken) in table {
        let (site, run) = with_run(&[("unit", "failure")]).await;
        let wanted = order(&site, run, &["unit"], false);
        site.sandbox.wire().break_next(Some(Method::POST), "/rerun", 1, fault.clone());
        let lost = site.runner.dispatch(&wanted).await.expect_err("no answer");
        assert!(matches!(lost, DispatchError::Call(CallError::Unknown { .. })), "{fault:?}: {lost:?}");
        match site.runner.find(&wanted).await.expect("an answer") {
            Found::Sent(started) => {
                assert!(taken, "{fault:?}");
                assert_eq!(started.runs[0].1.order, RunOrder(run as i64, 2));
            }
            Found::NotSent => assert!(!taken, "{fault:?}"),
            Found::CannotTell => panic!("attempts tell: {fault:?}"),
        }
    }
}

#[tokio::test]
async fn a_newer_attempt_of_another_job_is_not_taken_for_ours() {
    let (site, run) = with_run(&[("unit", "failure"), ("lint", "failure")]).await;
    let ours = order(&site, run, &["unit"], false);
    start(&site, &order(&site, run, &["lint"], false)).await;
    assert_eq!(site.runner.find(&ours).await, Ok(Found::NotSent), "attempt 2 is lint's");
    site.sandbox.finish_job(run, "lint", "success");
    let handle = start(&site, &ours).await;
    let seen = site.runner.observe(&site.repo, &JobName::new("unit"), &handle).await.expect("observed");
    assert_eq!((seen.state, seen.order), (JobState::Pending, RunOrder(run as i64, 3)), "found in attempt 3");
}

#[tokio::test]
async fn a_cancelled_run_ends_and_cancelling_what_is_over_is_a_success() {
    let (site, run) = with_run(&[("unit", "failure")]).await;
    let job = JobName::new("unit");
    let handle = start(&site, &order(&site, run, &["unit"], false)).await;
    site.sandbox.start_job(run, "unit");
    site.runner.cancel(&site.repo, &job, &handle).await.expect("cancelled");
    let seen = site.runner.observe(&site.repo, &job, &handle).await.expect("observed");
    assert_eq!(seen.state, JobState::Cancelled);
    site.runner.cancel(&site.repo, &job, &handle).await.expect("over already");
    assert_eq!(site.count(&Method::POST, "/cancel"), 1, "nobody else's attempt is cancelled");
}

#[tokio::test]
async fn a_job_whose_runner_vanished_died_of_its_infrastructure() {
    let (site, run) = with_run(&[("unit", "failure")]).await;
    let handle = start(&site, &order(&site, run, &["unit"], false)).await;
    site.sandbox.lose_job(run, "unit");
    let seen = site.runner.observe(&site.repo, &JobName::new("unit"), &handle).await.expect("observed");
    assert_eq!(seen.state, JobState::Infrastructure);
    assert!(seen.cause.is_some());
}

#[tokio::test]
async fn a_run_that_is_gone_is_refused_and_not_waited_for() {
    let (site, _) = with_run(&[("unit", "failure")]).await;
    let handle =
        RunHandle { id: r#"{"run":4711,"attempt":2,"job":"unit"}"#.into(), order: RunOrder(4_711, 2), url: None };
    let error = site.runner.observe(&site.repo, &JobName::new("unit"), &handle).await.expect_err("gone");
    assert!(matches!(error, CallError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn the_end_of_a_log_is_read_without_our_credentials() {
    let (site, run) = with_run(&[("unit", "failure")]).await;
    let handle = start(&site, &order(&site, run, &["unit"], false)).await;
    site.sandbox.finish_job(run, "unit", "failure");
    let log: String = (0..5_000).map(|n| format!("2027-01-15T08:00:00Z \u{1b}[31mline {n}\u{1b}[0m\r\n")).collect();
    site.sandbox.job_log(run, "unit", &log);
    let tail = site.runner.log_tail(&site.repo, &handle, 2_000).await.expect("a log");
    assert!(tail.cut && tail.text.len() <= 2_000);
    assert!(tail.text.trim_end().ends_with("line 4999"), "{}", tail.text);
    assert!(!tail.text.contains('\u{1b}'));
    let requests = site.sandbox.wire().requests();
    let download = requests.last().expect("the download");
    assert!(!download.path.ends_with("/logs") && !download.headers.contains_key("authorization"), "{}", download.path);
}

#[tokio::test]
async fn each_run_of_a_job_keeps_its_own_log_from_failure_to_success() {
    let (site, run) = with_run(&[("unit", "")]).await;
    site.sandbox.job_log(run, "unit", "usb 1-1: device descriptor read/64, error -110\n");
    site.sandbox.lose_job(run, "unit");
    let order = order(&site, run, &["unit"], false);
    let first = order.jobs.iter().find_map(|job| job.source_run.clone()).expect("a run");
    let first = RunHandle { id: first.to_string(), order: RunOrder(run as i64, 1), url: None };
    let second = start(&site, &order).await;
    site.sandbox.job_log(run, "unit", "all well\n");
    site.sandbox.finish_job(run, "unit", "success");
    let log = async |handle: &RunHandle| site.runner.log_tail(&site.repo, handle, 1_000).await.expect("a log").text;
    assert!(log(&first).await.contains("error -110"), "known by the run that a webhook told");
    assert_eq!(log(&second).await.trim(), "all well");
    let seen = site.runner.observe(&site.repo, &JobName::new("unit"), &second).await.expect("observed");
    assert_eq!(seen.state, JobState::Passed);
}
