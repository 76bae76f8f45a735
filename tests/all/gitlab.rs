//! Claims about the forge GitLab and the runner GitLab CI, against the sandbox GitLab over real HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use retest_bot::api::gitlab::{GitLabAccess, GitLabClient};
use retest_bot::domain::{
    Actor, Change, ChangeKey, CommentKind, CommentRef, CommitSha, DispatchKey, ForgeEvent, JobName, JobObservation,
    JobState, Origin, Repo, RepoKey, Role, RunHandle, RunRef, Timestamp,
};
use retest_bot::forge::gitlab::{GitLabConfig, GitLabForge, SigningKey};
use retest_bot::ports::{
    CallError, Decoded, DispatchError, DispatchOrder, Forge, Found, JobOrder, ManualClock, Reaction, ReportPost,
    Runner, Secrets, Started, StatusPost, StatusState, WebhookRequest,
};
use retest_bot::runner::gitlab_ci::GitLabCi;
use retest_bot::sandbox::gitlab::{
    GitLabSandbox, HookSecret, NewJob, NewMergeRequest, NewNote, NewPipeline, NoteKind, Options,
};
use retest_bot::sandbox::wire::{Fault, Reply, Wire};

const HEAD: &str = "3f2c9a1d5b6e7f8091a2b3c4d5e6f70812345678";
const NOW_MS: i64 = 1_700_000_000_000;
const HOOK_TOKEN: &str = "a-webhook-token-of-enough-length";
const SIGNING: &str = "whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=";
const MARKER: &str = "<!-- retest-bot report -->";

struct House {
    sandbox: GitLabSandbox,
    clock: ManualClock,
    forge: GitLabForge,
    runner: GitLabCi,
    repo: Repo,
    iid: u64,
}

/// A GitLab with one project and one merge request by `ann`.
async fn house() -> House {
    let options = Options {
        token: "glpat-bot".into(),
        bot_username: "retest-bot".into(),
        start_ms: NOW_MS,
        path_prefix: Some("/gitlab".into()),
    };
    let sandbox = GitLabSandbox::start(options).await.expect("a loopback port");
    let project = sandbox.add_project("group/sub/proj");
    sandbox.set_level(project, "ann", 30);
    let iid = sandbox.open_merge_request(project, "ann", HEAD, NewMergeRequest::default());
    let clock = ManualClock::at(Timestamp::from_ms(NOW_MS));
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build();
    let access = GitLabAccess {
        url: sandbox.base_url().parse().expect("an address"),
        token: "glpat-bot".into(),
        request_timeout: Duration::from_secs(5),
        pause_between_writes: Duration::ZERO,
    };
    let client = Arc::new(GitLabClient::new(http.expect("a client"), access, Arc::new(clock.clone())));
    let config = GitLabConfig {
        name: "lab".into(),
        webhook_tokens: Secrets::new(vec![HOOK_TOKEN.into()]),
        signing_keys: vec![SigningKey::parse(SIGNING).expect("a key")],
        bot_login: None,
        repositories: None,
        may_hold_command: Arc::new(|text| text.contains("/retest")),
    };
    let key = RepoKey { forge: "lab".into(), id: project };
    House {
        forge: GitLabForge::new(Arc::clone(&client), config),
        runner: GitLabCi::new("gitlab-ci".into(), client),
        repo: Repo { key, full_name: "group/sub/proj".into(), installation: None, default_branch: None },
        sandbox,
        clock,
        iid,
    }
}

impl House {
    fn project(&self) -> u64 {
        self.repo.key.id
    }

    fn key(&self) -> ChangeKey {
        ChangeKey { repo: self.repo.key.clone(), number: self.iid }
    }

    async fn change(&self) -> Change {
        self.forge.change(&self.repo, self.iid).await.expect("the merge request")
    }

    async fn jobs(&self) -> Vec<JobObservation> {
        self.forge.list_jobs(&self.repo, &self.change().await).await.expect("its jobs")
    }

    async fn job(&self, name: &str) -> JobObservation {
        let jobs = self.jobs().await;
        jobs.into_iter().find(|job| job.name.as_str() == name).unwrap_or_else(|| panic!("no job {name}"))
    }

    /// A merge request pipeline with these jobs in it.
    fn pipeline(&self, jobs: Vec<NewJob>) -> u64 {
        let new = NewPipeline { sha: HEAD.into(), mr_iid: Some(self.iid), jobs, ..NewPipeline::default() };
        self.sandbox.start_pipeline(self.project(), new)
    }

    /// The same with one job that has failed.
    fn failed(&self, name: &str) -> u64 {
        let pipeline = self.pipeline(vec![plain(name)]);
        self.sandbox.finish_job(pipeline, name, "failed", None);
        pipeline
    }

    fn order(&self, job: &JobObservation) -> DispatchOrder {
        DispatchOrder {
            repo: self.repo.clone(),
            change: self.key(),
            sha: sha(),
            group: job.group.clone(),
            jobs: vec![JobOrder {
                key: DispatchKey::new("key-1"),
                job: job.name.clone(),
                scope: job.scope.clone(),
                source_run: Some(job.run.clone()),
                source_order: job.order,
                overrides: Default::default(),
            }],
            whole_group: false,
        }
    }

    async fn retry(&self, job: &JobObservation) -> RunHandle {
        only(self.runner.dispatch(&self.order(job)).await.expect("started"))
    }

    async fn observe(&self, handle: &RunHandle) -> retest_bot::domain::RunObservation {
        self.runner.observe(&self.repo, &JobName::new("any"), handle).await.expect("a run")
    }

    fn retries(&self) -> usize {
        self.sandbox.wire().count(&Method::POST, "/retry")
    }

    async fn post(&self, state: StatusState, text: &str) -> Result<retest_bot::ports::PostedStatus, CallError> {
        let post = StatusPost { context: "retest".into(), state, description: text.into(), target_url: None };
        self.forge.post_status(&self.repo, &self.change().await, &sha(), &post).await
    }

    fn report(&self, body: &str, known: Option<u64>, internal: bool) -> ReportPost {
        ReportPost { body: format!("{MARKER}\n{body}"), marker: MARKER.into(), known, internal }
    }
}

fn sha() -> CommitSha {
    CommitSha::parse(HEAD).expect("a commit")
}

fn plain(name: &str) -> NewJob {
    NewJob { name: name.into(), ..NewJob::default() }
}

fn only(started: Started) -> RunHandle {
    assert_eq!(started.runs.len(), 1);
    started.runs.into_iter().next().map(|(_, handle)| handle).expect("one run")
}

fn user_text(error: DispatchError) -> String {
    match error {
        DispatchError::Call(CallError::Refused { user, .. }) => user,
        other => panic!("{other:?}"),
    }
}

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
    assert_eq!(house.job("lava-x86").await.run.as_str(), newer.to_string());
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
async fn more_than_a_page_of_jobs_is_listed() {
    let house = house().await;
    house.pipeline((0..230).map(|n| plain(&format!("job-{n}"))).collect());
    let mut names: Vec<_> = house.jobs().await.into_iter().map(|job| job.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 230);
}

#[tokio::test]
async fn needs_are_those_of_graphql_and_a_listing_does_without() {
    let house = house().await;
    let needing =
        |name: &str, needs: &[&str]| NewJob { needs: needs.iter().map(|n| (*n).to_owned()).collect(), ..plain(name) };
    let optional = NewJob { allow_failure: true, stage: "build".into(), ..plain("docs") };
    let build = NewJob { stage: "build".into(), ..plain("build") };
    house.pipeline(vec![build, optional, needing("lava-x86", &["build", "docs"]), plain("unit")]);
    let needs = |job: JobObservation| job.needs.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(needs(house.job("lava-x86").await), Some(vec!["build".to_owned()]), "what may fail is not waited for");
    assert_eq!(needs(house.job("unit").await), None, "it goes by its stage");
    house.sandbox.wire().break_next(None, "/graphql", 1, Fault::Answer(Reply::message(500, "no")));
    assert_eq!(needs(house.job("lava-x86").await), None, "listed all the same");
}

#[tokio::test]
async fn foreign_statuses_are_jobs_and_our_own_are_not() {
    let house = house().await;
    house.failed("unit");
    house.sandbox.external_status(house.project(), HEAD, "lab/boot", "failed", Some("https://lab.example/jobs/12"));
    house.post(StatusState::Pending, "waits").await.expect("posted");
    let mut seen: Vec<_> = house.jobs().await.into_iter().map(|job| (job.name.to_string(), job.origin)).collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(seen, [("lab/boot".to_owned(), Origin::Status), ("unit".to_owned(), Origin::GitLabCi)]);
    let status = house.job("lab/boot").await;
    assert_eq!((status.state, status.cause.clone()), (JobState::Failed, None), "no infrastructure failure");
    assert_eq!(status.url.as_deref(), Some("https://lab.example/jobs/12"));
}

#[tokio::test]
async fn a_status_is_pinned_to_the_merge_request_pipeline_and_a_repeated_state_is_success() {
    let house = house().await;
    house.failed("unit");
    let posts = [
        (StatusState::Pending, "1 of 2"),
        (StatusState::Pending, "2 of 2"),
        (StatusState::Running, "runs"),
        (StatusState::Running, "still runs"),
        (StatusState::Success, "all passed"),
        (StatusState::Failure, "a later retry failed"),
    ];
    for (state, text) in posts {
        let posted = house.post(state, text).await.expect(text);
        assert_eq!(posted.post.description, text);
    }
    let change = house.change().await;
    let pipelines = house.sandbox.wire().requests().into_iter().filter(|r| r.path.contains("/statuses/"));
    let pinned = format!("pipeline_id={}", change.head_pipeline.expect("a pipeline"));
    for post in pipelines.filter(|r| r.method == Method::POST) {
        let body = String::from_utf8_lossy(&post.body).into_owned();
        assert!(body.contains(&pinned) && body.contains("ref=refs%2Fmerge-requests%2F"), "{body}");
    }
}

#[tokio::test]
async fn a_stale_pipeline_is_looked_up_again() {
    let house = house().await;
    house.failed("unit");
    let mut change = house.change().await;
    let truth = change.head_pipeline;
    (change.head_pipeline, change.source_ref) = (Some(1), None);
    let post = StatusPost {
        context: "retest".into(),
        state: StatusState::Success,
        description: "é".repeat(300),
        target_url: Some(format!("https://bot.example/{}", "x".repeat(300))),
    };
    house.forge.post_status(&house.repo, &change, &sha(), &post).await.expect("posted to the right one");
    let last = house.sandbox.wire().requests().pop().expect("a request");
    let body = String::from_utf8_lossy(&last.body).into_owned();
    assert!(body.contains(&format!("pipeline_id={}", truth.expect("a pipeline"))), "{body}");
    assert!(!body.contains("target_url"), "an address that is too long is left out, not cut");
}

#[tokio::test]
async fn a_held_lock_is_passing_and_a_full_pipeline_is_not() {
    let house = house().await;
    house.failed("unit");
    house.sandbox.lock_statuses(1);
    let held = house.post(StatusState::Pending, "waits").await.expect_err("locked");
    assert!(held.is_passing(), "{held:?}");
    house.post(StatusState::Pending, "waits").await.expect("the lock is gone");
    house.sandbox.set_job_limit(house.project(), 1);
    let post = StatusPost {
        context: "another".into(),
        state: StatusState::Pending,
        description: String::new(),
        target_url: None,
    };
    let full = house.forge.post_status(&house.repo, &house.change().await, &sha(), &post).await.expect_err("full");
    assert!(matches!(&full, CallError::Refused { user, .. } if user.contains("limit")), "{full:?}");
}

#[tokio::test]
async fn reacting_twice_does_no_harm() {
    let house = house().await;
    let note = house.sandbox.note(house.project(), house.iid, "ann", "/retest");
    let comment = CommentRef { kind: CommentKind::Note, id: note };
    for reaction in [Reaction::Seen, Reaction::Seen, Reaction::Started, Reaction::Refused, Reaction::Done] {
        house.forge.react(&house.repo, &house.key(), &comment, reaction).await.expect("reacted");
    }
}

#[tokio::test]
async fn the_report_is_one_note_found_by_its_marker_among_our_own() {
    let house = house().await;
    let post = async |report: ReportPost| house.forge.post_report(&house.repo, &house.key(), &report).await;
    house.sandbox.note(house.project(), house.iid, "eve", &format!("{MARKER}\nnot yours"));
    let first = post(house.report("one", None, false)).await.expect("written");
    for n in 0..120 {
        house.sandbox.note(house.project(), house.iid, "ann", &format!("remark {n}"));
    }
    assert_eq!(post(house.report("two", None, false)).await, Ok(first), "found on the second page");
    assert_eq!(post(house.report("three", Some(first), false)).await, Ok(first), "edited where it is known");
    let hidden = post(house.report("four", None, true)).await.expect("written for members");
    assert_ne!(hidden, first, "an internal answer never lands in the open note");
    assert_eq!(post(house.report("five", None, true)).await, Ok(hidden));
    house.sandbox.delete_note(first);
    let again = post(house.report("six", Some(first), false)).await.expect("written anew");
    assert!(again != first && again != hidden, "the deleted one is replaced");
}

#[tokio::test]
async fn a_role_is_the_level_of_an_active_membership() {
    let house = house().await;
    let role = async |login: &str| {
        let actor = Actor { id: house.sandbox.user_id(login), login: login.into(), is_bot: false };
        house.forge.role(&house.repo, &actor).await
    };
    let levels = [(10, Role::Read), (20, Role::Triage), (30, Role::Write), (40, Role::Maintain), (50, Role::Admin)];
    for (level, expected) in levels {
        house.sandbox.set_level(house.project(), "ben", level);
        assert_eq!(role("ben").await, Ok(expected), "level {level}");
    }
    house.sandbox.set_membership(house.project(), "ben", "active", Some("2023-11-14"));
    assert_eq!(role("ben").await, Ok(Role::None), "it ended today");
    assert_eq!(role("stranger").await, Ok(Role::None), "no member");
    house.sandbox.set_level(house.project(), "retest-bot", 0);
    assert!(role("ann").await.is_err(), "a project that we cannot see tells no role");
    house.sandbox.revoke_token("glpat-bot");
    let revoked = role("ann").await.expect_err("no token");
    assert!(revoked.is_passing(), "the work waits for a new token: {revoked:?}");
}

#[tokio::test]
async fn the_forge_learns_who_it_is_from_its_token() {
    let house = house().await;
    let me = Actor { id: house.sandbox.user_id("retest-bot"), login: "whatever".into(), is_bot: false };
    assert!(!house.forge.is_me(&me, None), "nothing is asked while deliveries are read");
    assert_eq!(house.forge.learn_me().await.map(|actor| actor.login), Ok("retest-bot".to_owned()));
    assert!(house.forge.is_me(&me, None));
    assert!(!house.forge.is_me(&Actor { id: me.id + 1_000, ..me }, None));
}

#[tokio::test]
async fn missed_notes_come_oldest_first_and_once() {
    let house = house().await;
    let write = |kind, body: &str| {
        let note = NewNote { body: body.into(), kind };
        house.sandbox.note_as(house.project(), house.iid, "ann", note)
    };
    write(NoteKind::Plain, "/retest before");
    house.sandbox.set_now(NOW_MS + 60_000);
    let first = write(NoteKind::Plain, "/retest one");
    write(NoteKind::System, "/retest is mentioned");
    write(NoteKind::Plain, "no command");
    house.sandbox.set_now(NOW_MS + 61_000);
    let second = write(NoteKind::Internal, "/retest two");
    let since = Timestamp::from_ms(NOW_MS + 30_000);
    let missed = house.forge.missed_comments(&house.repo, since).await.expect("a look");
    let told: Vec<_> = missed
        .iter()
        .map(|wanted| match &wanted.event {
            ForgeEvent::Comment(c) => (c.comment.id, c.internal, c.author.login.clone(), c.change.number),
            other => panic!("{other:?}"),
        })
        .collect();
    let ann = || "ann".to_owned();
    assert_eq!(told, [(first, false, ann(), house.iid), (second, true, ann(), house.iid)]);
}

#[tokio::test]
async fn every_webhook_of_the_sandbox_is_authentic_and_readable() {
    let house = house().await;
    let ok = axum::Router::new().fallback(|| async { "" });
    let receiver = Wire::serve(ok).await.expect("a loopback port");
    let secrets = [
        HookSecret { token: Some(HOOK_TOKEN.into()), signing: None },
        HookSecret { token: None, signing: Some(SIGNING.into()) },
    ];
    for secret in secrets {
        house.sandbox.hook(&format!("{}/hook", receiver.base_url()), secret);
    }
    let pipeline = house.failed("lava-x86");
    house.sandbox.note(house.project(), house.iid, "ann", "/retest");
    house.retry(&house.job("lava-x86").await).await;
    house.sandbox.finish_job(pipeline, "lava-x86", "success", None);
    house.sandbox.push(house.project(), house.iid, &"4".repeat(40));
    house.sandbox.close(house.project(), house.iid);
    house.sandbox.deliver().await;
    let (mut comments, mut changes, mut jobs, mut over) = (0, 0, 0, 0);
    for request in receiver.requests() {
        let webhook = WebhookRequest { headers: request.headers, body: request.body, at: Timestamp::from_ms(NOW_MS) };
        let decoded = house.forge.receive(&webhook).expect("authentic");
        let Decoded::Wanted(wanted) = decoded else {
            assert!(matches!(decoded, Decoded::Ignored(_)), "{decoded:?}");
            continue;
        };
        match wanted.event {
            ForgeEvent::Comment(_) => comments += 1,
            ForgeEvent::Change { .. } => changes += 1,
            ForgeEvent::Jobs(event) => {
                jobs += 1;
                over += usize::from(event.group_over == Some(pipeline.to_string()));
            }
            ForgeEvent::Press(press) => panic!("{press:?}"),
        }
    }
    assert_eq!((comments, changes), (2, 6), "two hooks: one comment; opened, pushed, closed");
    assert!(jobs >= 8 && over >= 4, "{jobs} job events, {over} ends of the pipeline");
}

#[tokio::test]
async fn a_used_up_limit_silences_the_bot_before_it_is_told_to_wait() {
    let house = house().await;
    house.sandbox.set_rate_limit(3);
    house.sandbox.wire().forget_requests();
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(house.forge.change(&house.repo, house.iid).await.err());
    }
    let Some(Some(CallError::Throttled { retry_after, .. })) = answers.last() else { panic!("{answers:?}") };
    assert!(*retry_after <= Duration::from_secs(60), "a minute at most");
    assert!(house.sandbox.wire().requests().len() <= 3, "nothing is sent against the limit");
    house.clock.advance(Duration::from_secs(60));
    house.sandbox.set_now(NOW_MS + 60_000);
    assert!(house.forge.change(&house.repo, house.iid).await.is_ok());
}
