//! Claims about GitLab CI as a runner: retries, lost answers, child pipelines, forks, logs.

use super::*;

#[tokio::test]
async fn a_retry_is_a_new_job_of_the_same_name_in_the_same_pipeline() {
    let house = house().await;
    let pipeline = house.failed("lava-x86");
    let job = house.job("lava-x86").await;
    assert_eq!((job.state, job.scope.as_str(), job.group), (JobState::Failed, "", Some(pipeline.to_string())));
    let job = house.job("lava-x86").await;
    let handle = house.retry(&job).await;
    assert!(handle.order > job.order, "the new run is newer");
    let newest = house.job("lava-x86").await;
    assert_eq!((newest.order, newest.state), (handle.order, JobState::Pending));
    assert_eq!(house.observe(&handle).await.state, JobState::Pending);
    house.sandbox.finish_job(pipeline, "lava-x86", "success", None);
    assert_eq!(house.observe(&handle).await.state, JobState::Passed);
    assert_eq!(house.retries(), 1);
}

#[tokio::test]
async fn one_dispatch_is_one_request() {
    let house = house().await;
    house.failed("lava-x86");
    let job = house.job("lava-x86").await;
    house.sandbox.wire().forget_requests();
    house.retry(&job).await;
    assert_eq!(house.sandbox.wire().requests().len(), 1);
}

#[tokio::test]
async fn a_second_retry_of_the_same_run_joins_the_first() {
    let house = house().await;
    let pipeline = house.failed("lava-x86");
    let job = house.job("lava-x86").await;
    let first = house.retry(&job).await;
    let second = house.retry(&job).await;
    assert_eq!((&second.id, second.order), (&first.id, first.order), "no third run");
    house.sandbox.finish_job(pipeline, "lava-x86", "failed", None);
    assert_eq!(house.retry(&job).await.order, first.order, "also when it is over");
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_looking() {
    let house = house().await;
    house.failed("lava-x86");
    let job = house.job("lava-x86").await;
    let order = house.order(&job);
    let lose = |fault| house.sandbox.wire().break_next(Some(Method::POST), "/retry", 1, fault);
    lose(Fault::ResetBefore);
    let lost = house.runner.dispatch(&order).await;
    assert!(matches!(lost, Err(DispatchError::Call(CallError::Unknown { .. }))), "{lost:?}");
    assert_eq!(house.runner.find(&order).await, Ok(Found::NotSent));
    lose(Fault::ResetAfterEffect);
    house.runner.dispatch(&order).await.expect_err("no answer came");
    let Ok(Found::Sent(started)) = house.runner.find(&order).await else { panic!("it was sent") };
    assert!(only(started).order > job.order);
}

#[tokio::test]
async fn a_manual_job_is_played_the_first_time_and_found_again() {
    let house = house().await;
    let pipeline = house.pipeline(vec![NewJob { manual: true, ..plain("ship") }]);
    let job = house.job("ship").await;
    assert_eq!((job.state, job.manual), (JobState::Pending, true));
    let order = house.order(&job);
    assert_eq!(house.runner.find(&order).await, Ok(Found::NotSent), "it still waits");
    let handle = house.retry(&job).await;
    assert_eq!(house.observe(&handle).await.state, JobState::Pending);
    assert!(matches!(house.runner.find(&order).await, Ok(Found::Sent(_))));
    let by_name = DispatchOrder { jobs: vec![JobOrder { source_run: None, ..order.jobs[0].clone() }], ..order };
    assert!(house.runner.dispatch(&by_name).await.is_ok(), "its pipeline and name are enough");
    house.sandbox.finish_job(pipeline, "ship", "success", None);
    assert_eq!(house.observe(&handle).await.state, JobState::Passed);
}

#[tokio::test]
async fn a_job_that_cannot_be_retried_is_refused_with_the_reason() {
    let house = house().await;
    let pipeline = house.pipeline(vec![plain("old"), plain("busy"), plain("gone")]);
    house.sandbox.finish_job(pipeline, "gone", "failed", Some("missing_dependency_failure"));
    house.sandbox.start_job(pipeline, "busy");
    house.sandbox.finish_job(pipeline, "old", "failed", None);
    let (old, busy, gone) = (house.job("old").await, house.job("busy").await, house.job("gone").await);
    let refused =
        async |job: &JobObservation| user_text(house.runner.dispatch(&house.order(job)).await.expect_err("no"));
    let text = refused(&gone).await;
    assert!(text.contains("inputs have expired"), "{text}");
    assert_eq!(house.retries(), 0, "what no retry can mend is not tried");
    assert!(refused(&busy).await.contains("not over yet"));
    house.sandbox.archive_pipeline(pipeline);
    assert!(refused(&old).await.contains("archived"));
    let nothing = JobObservation { name: JobName::new("other"), run: RunRef::new("lava-12"), ..old };
    assert!(refused(&nothing).await.contains("restarts only jobs that exist"));
}

#[tokio::test]
async fn a_job_that_gitlab_itself_retried_is_followed_to_the_newer_run() {
    let house = house().await;
    let pipeline = house.failed("lava-x86");
    let job = house.job("lava-x86").await;
    let handle = house.retry(&job).await;
    house.sandbox.finish_job(pipeline, "lava-x86", "failed", Some("runner_system_failure"));
    let failed = house.observe(&handle).await;
    assert_eq!((failed.state, failed.cause.as_deref()), (JobState::Infrastructure, Some("runner_system_failure")));
    let newer = house.sandbox.native_retry(pipeline, "lava-x86");
    let seen = house.observe(&handle).await;
    assert_eq!(seen.run.map(|run| run.to_string()), Some(newer.to_string()));
    assert!(seen.state == JobState::Pending && seen.order > handle.order);
    house.sandbox.finish_job(pipeline, "lava-x86", "success", None);
    assert_eq!(house.observe(&handle).await.state, JobState::Passed);
}

#[tokio::test]
async fn a_run_is_cancelled_once_and_cancelling_it_again_is_no_error() {
    let house = house().await;
    let pipeline = house.failed("lava-x86");
    let handle = house.retry(&house.job("lava-x86").await).await;
    for _ in 0..2 {
        house.runner.cancel(&house.repo, &JobName::new("lava-x86"), &handle).await.expect("cancelled");
    }
    assert_eq!(house.observe(&handle).await.state, JobState::Cancelled);
    assert_eq!(house.job("lava-x86").await.state, JobState::Cancelled);
    assert!(house.runner.abilities().cancels && pipeline > 0);
}

#[tokio::test]
async fn the_end_of_a_log_is_readable() {
    let house = house().await;
    let pipeline = house.pipeline(vec![plain("lava-x86")]);
    let noise = "section_start:1560896352:boot\r\u{1b}[0K".to_owned() + &"x".repeat(70) + "\n";
    house.sandbox.job_log(pipeline, "lava-x86", &noise.repeat(500));
    house.sandbox.job_log(pipeline, "lava-x86", "\u{1b}[31mno board answered\u{1b}[0m\n");
    let job = house.job("lava-x86").await;
    let handle = RunHandle { id: job.run.to_string(), order: job.order, url: None };
    let tail = house.runner.log_tail(&house.repo, &handle, 200).await.expect("a log");
    assert!(tail.cut && tail.text.len() <= 200, "{tail:?}");
    assert!(tail.text.ends_with("no board answered") && !tail.text.contains("section_start"), "{tail:?}");
}

#[tokio::test]
async fn jobs_of_child_pipelines_are_found_and_retried_where_they_are() {
    let house = house().await;
    let parent = house.pipeline(vec![plain("build"), NewJob { bridge: true, ..plain("trigger") }]);
    let child = |name: &str| NewPipeline {
        sha: HEAD.into(),
        jobs: vec![plain("build")],
        child_of: Some((parent, name.into())),
        ..NewPipeline::default()
    };
    let one = house.sandbox.start_pipeline(house.project(), child("trigger"));
    let two = house.sandbox.start_pipeline(house.project(), child("trigger-too"));
    house.sandbox.finish_job(one, "build", "failed", None);
    house.sandbox.finish_job(two, "build", "success", None);
    let jobs = house.jobs().await;
    let mut builds: Vec<_> = jobs.iter().map(|job| (job.name.to_string(), job.scope.clone(), job.state)).collect();
    builds.sort_by_key(|(_, scope, _)| scope.clone());
    let expected = [
        (String::new(), JobState::Pending),
        (format!("pipeline {one}"), JobState::Failed),
        (format!("pipeline {two}"), JobState::Passed),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(scope, state)| ("build".to_owned(), scope, state)).collect();
    assert_eq!(builds, expected, "three jobs of one name, no trigger job");
    let failed = jobs.into_iter().find(|job| job.state == JobState::Failed).expect("the child's");
    let handle = house.retry(&failed).await;
    house.sandbox.finish_job(one, "build", "success", None);
    assert_eq!(house.observe(&handle).await.state, JobState::Passed);
}

#[tokio::test]
async fn a_downstream_pipeline_in_another_project_is_reached_where_the_bot_is_a_member() {
    let house = house().await;
    let parent = house.pipeline(vec![plain("build")]);
    let other = house.sandbox.add_project("group/other");
    let new = NewPipeline {
        sha: "9".repeat(40),
        jobs: vec![plain("deploy-test")],
        child_of: Some((parent, "downstream".into())),
        ..NewPipeline::default()
    };
    let pipeline = house.sandbox.start_pipeline(other, new);
    house.sandbox.finish_job(pipeline, "deploy-test", "failed", None);
    let job = house.job("deploy-test").await;
    assert_eq!(job.group, Some(format!("{other}/{pipeline}")));
    let handle = house.retry(&job).await;
    assert_eq!(house.observe(&handle).await.state, JobState::Pending);
    house.sandbox.set_level(other, "retest-bot", 0);
    let hidden = house.job("downstream").await;
    assert_eq!(hidden.origin, Origin::GitLabCi, "told by its trigger job instead");
}

/// A merge request from a fork, whose pipeline runs there.
async fn fork_house() -> (House, u64, u64) {
    let mut house = house().await;
    let fork = house.sandbox.add_fork(house.project());
    let head = NewMergeRequest { source_project: Some(fork), ..NewMergeRequest::default() };
    house.iid = house.sandbox.open_merge_request(house.project(), "eve", HEAD, head);
    let new = NewPipeline {
        sha: HEAD.into(),
        mr_iid: Some(house.iid),
        jobs: vec![plain("lava-x86")],
        ..NewPipeline::default()
    };
    let pipeline = house.sandbox.start_pipeline(fork, new);
    house.sandbox.finish_job(pipeline, "lava-x86", "failed", None);
    (house, fork, pipeline)
}

#[tokio::test]
async fn a_pipeline_in_a_fork_is_told_and_refused_with_the_reason() {
    let (house, fork, pipeline) = fork_house().await;
    let change = house.change().await;
    assert!(change.from_fork);
    assert_eq!(change.head_pipeline, None, "it takes no status of ours");
    let job = house.job("pipeline in the fork").await;
    assert_eq!((job.state, job.group.clone()), (JobState::Failed, Some(format!("fork:{fork}/{pipeline}"))));
    let text = user_text(house.runner.dispatch(&house.order(&job)).await.expect_err("out of reach"));
    assert!(text.contains("runs in the fork") && text.contains("maintainer"), "{text}");
    house.sandbox.set_public(fork, true);
    let seen = house.job("lava-x86").await;
    let text = user_text(house.runner.dispatch(&house.order(&seen)).await.expect_err("seen, and still out of reach"));
    assert!(text.contains("runs in the fork"), "{text}");
    assert_eq!(house.retries(), 0);
}

#[tokio::test]
async fn each_run_of_a_job_keeps_its_own_log_and_cause_from_failure_to_success() {
    let house = house().await;
    let pipeline = house.pipeline(vec![plain("unit")]);
    house.sandbox.job_log(pipeline, "unit", "usb 1-1: device descriptor read/64, error -110\n");
    house.sandbox.finish_job(pipeline, "unit", "failed", Some("runner_system_failure"));
    let failed = house.job("unit").await;
    assert_eq!((failed.state, failed.cause.as_deref()), (JobState::Infrastructure, Some("runner_system_failure")));
    let first = RunHandle { id: failed.run.to_string(), order: failed.order, url: None };
    let second = house.retry(&failed).await;
    house.sandbox.job_log(pipeline, "unit", "all well\n");
    house.sandbox.finish_job(pipeline, "unit", "success", None);
    let log = async |handle: &RunHandle| house.runner.log_tail(&house.repo, handle, 1_000).await.expect("a log").text;
    assert!(log(&first).await.contains("error -110"));
    assert_eq!(log(&second).await.trim(), "all well");
    assert_eq!(house.observe(&second).await.state, JobState::Passed);
}
