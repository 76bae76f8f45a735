//! Claims about GitLab as forge and as runner, against the sandbox GitLab over real HTTP: here the house they live in.

mod client;
mod forge;
mod issues;
mod runner;
mod train;

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use retest_bot::api::gitlab::{GitLabAccess, GitLabClient};
use retest_bot::domain::{
    Actor, Change, ChangeKey, CommentKind, CommentRef, CommitSha, DispatchKey, ForgeEvent, JobName, JobObservation,
    JobState, Origin, Repo, RepoKey, Role, RunHandle, RunRef, Team, Timestamp,
};
use retest_bot::forge::gitlab::{GitLabConfig, GitLabForge, SigningKey};
use retest_bot::ports::{
    CallError, Decoded, DispatchError, DispatchOrder, FileNow, Forge, Found, JobOrder, ManualClock, Reaction,
    ReportPost, Runner, Secrets, Started, StatusPost, StatusState, WebhookRequest,
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
