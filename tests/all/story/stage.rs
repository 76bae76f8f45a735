//! The stage of a story: one forge, one lab, the bot, a clock set by hand, a real database. Everything talks HTTP.

use std::sync::Arc;
use std::time::Duration;

use retest_bot::app::{App, Life};
use retest_bot::domain::Timestamp;
use retest_bot::flow::{FlowError, StopAt, World, run_until_idle};
use retest_bot::http::{Bounds, serve};
use retest_bot::ports::{Clock, ManualClock};
use retest_bot::sandbox::github::{self, GitHubSandbox};
use retest_bot::sandbox::gitlab::{self, GitLabSandbox};
use retest_bot::sandbox::wire::Wire;
use retest_bot::settings::Settings;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::keys::secrets;
use super::lab::Lab;

pub const HEAD: &str = "1111111111111111111111111111111111111111";
pub const NEXT: &str = "2222222222222222222222222222222222222222";
pub(super) const REPO: &str = "acme/board";
pub const SECRET: &str = "story-webhook-secret-of-enough-bytes";
pub(super) const TOKEN: &str = "story-token-that-opens-the-sandbox";
/// The token of a LAVA that plays along.
pub const LAVA_TOKEN: &str = "story-token-that-opens-the-lab";
pub(super) const SIGNING: &str = "whsec_c3Rvcnktc2lnbmluZy1rZXktb2YtMzItYnl0ZXMtISE=";
pub const START_MS: i64 = 1_780_000_000_000;

/// Which forge a story plays on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    GitHub,
    GitLab,
}

pub(super) enum Sandbox {
    GitHub(GitHubSandbox),
    GitLab { forge: GitLabSandbox, project: u64 },
}

/// What a story starts from.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// More configuration, appended.
    pub extra: String,
    /// Whether the change comes from a fork.
    pub fork: bool,
    /// GitHub: whether the bot is an App.
    pub app: bool,
    /// GitHub: whether GitHub's own API description watches every call.
    pub referee: bool,
    /// GitLab: whether webhooks are signed.
    pub signing: bool,
}

pub struct Stage {
    pub side: Side,
    pub(super) sandbox: Sandbox,
    pub lab: Lab,
    pub clock: ManualClock,
    pub number: u64,
    referee: Option<crate::prism::Prism>,
    folder: TempDir,
    script: Script,
    life: Option<Running>,
    lives: u32,
}

struct Running {
    world: Arc<World>,
    url: String,
    stop: CancellationToken,
}

impl Stage {
    /// Sets the stage: the change is open at [`HEAD`], and the bot has heard of it.
    pub async fn set(side: Side) -> Self {
        Self::set_with(side, Script::default()).await
    }

    pub async fn set_with(side: Side, script: Script) -> Self {
        let sandbox = match side {
            Side::GitHub => {
                let app = github::AppOptions { id: 77, slug: "retest-bot".into(), installation_id: 78 };
                let options = github::Options {
                    app: script.app.then_some(app),
                    token: (!script.app).then(|| TOKEN.to_owned()),
                    start_ms: START_MS,
                    ..Default::default()
                };
                let forge = GitHubSandbox::start(options).await.expect("a sandbox");
                forge.add_repo(REPO);
                let people =
                    [("maya", "maintain"), ("wil", "write"), ("tom", "triage"), ("ann", "read"), ("sam", "read")];
                for (login, role) in people.into_iter().chain([(github::TOKEN_LOGIN, "write")]) {
                    forge.set_role(REPO, login, role);
                }
                Sandbox::GitHub(forge)
            }
            Side::GitLab => {
                let options = gitlab::Options {
                    token: TOKEN.into(),
                    bot_username: "retest-bot".into(),
                    start_ms: START_MS,
                    path_prefix: None,
                };
                let forge = GitLabSandbox::start(options).await.expect("a sandbox");
                let project = forge.add_project(REPO);
                for (login, level) in
                    [("maya", 40), ("wil", 30), ("tom", 20), ("ann", 10), ("sam", 10), ("retest-bot", 30)]
                {
                    forge.set_level(project, login, level);
                }
                Sandbox::GitLab { forge, project }
            }
        };
        let referee = match &sandbox {
            Sandbox::GitHub(forge) if script.referee => Some(crate::prism::start(&forge.base_url()).await),
            _ => None,
        };
        let mut stage = Self {
            side,
            referee,
            sandbox,
            lab: Lab::start().await,
            clock: ManualClock::at(Timestamp::from_ms(START_MS)),
            number: 0,
            folder: tempfile::tempdir().expect("a folder"),
            script,
            life: None,
            lives: 0,
        };
        stage.start(StopAt::Never).await;
        stage.open().await;
        stage.settle().await;
        stage
    }

    /// Starts a life of the bot on the same database; the forges' hooks point to it.
    pub async fn start(&mut self, stop_at: StopAt) {
        self.lives += 1;
        let settings =
            Settings::parse(&self.configuration(), &secrets()).unwrap_or_else(|e| panic!("configuration:\n{e}"));
        let life = Life {
            clock: Arc::new(self.clock.clone()),
            me: format!("life-{}", self.lives),
            supervisor: env!("CARGO_BIN_EXE_retest-bot").into(),
            stop_at,
            report_delay: Some(Duration::ZERO),
        };
        let app = App::build(&settings, life).await.expect("the bot");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let stop = CancellationToken::new();
        let bounds = Bounds {
            connections_max: 64,
            header_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(5),
        };
        tokio::spawn(serve(listener, app.router(), bounds, stop.clone()));
        let first = self.life.is_none() && self.lives == 1;
        self.life = Some(Running { world: Arc::clone(&app.world), url: url.clone(), stop });
        self.point_hooks(&url, first);
    }

    fn point_hooks(&self, url: &str, first: bool) {
        match &self.sandbox {
            Sandbox::GitHub(forge) if first => forge.hook(&format!("{url}/webhooks/forge"), SECRET),
            Sandbox::GitHub(forge) => forge.move_hooks(&format!("{url}/webhooks/forge")),
            Sandbox::GitLab { forge, .. } if first => {
                let signing = self.script.signing.then(|| SIGNING.to_owned());
                let secret = gitlab::HookSecret { token: signing.is_none().then(|| SECRET.into()), signing };
                forge.hook(&format!("{url}/webhooks/forge"), secret);
            }
            Sandbox::GitLab { forge, .. } => forge.move_hooks(&format!("{url}/webhooks/forge")),
        }
    }

    /// Ends this life as a crash would: nothing is drained or said goodbye to.
    pub async fn crash(&mut self) {
        let life = self.life.take().expect("a life");
        life.stop.cancel();
        life.world.store.close().await;
    }

    pub async fn restart(&mut self) {
        self.crash().await;
        self.start(StopAt::Never).await;
    }

    fn configuration(&self) -> String {
        let (kind, url, secrets) = match &self.sandbox {
            Sandbox::GitHub(forge) => ("github", forge.base_url(), "webhook_secrets"),
            Sandbox::GitLab { forge, .. } => ("gitlab", forge.base_url(), "webhook_tokens"),
        };
        let native = match self.side {
            Side::GitHub => "github_actions",
            Side::GitLab => "gitlab_ci",
        };
        let url = self.referee.as_ref().map_or(url, |prism| prism.url.clone());
        let auth = match (self.script.app, self.script.signing) {
            (true, _) => "app = { id = 77, private_key = { env = \"KEY\" } }",
            (false, true) => "token = { env = \"TOKEN\" }\nsigning_keys = [{ env = \"SIGNING\" }]",
            (false, false) => "token = { env = \"TOKEN\" }",
        };
        let (folder, lab, extra) = (self.folder.path().display(), self.lab.wire.base_url(), &self.script.extra);
        format!(
            r#"
[store]
path = "{folder}/bot.db"
[[forge]]
name = "forge"
kind = "{kind}"
api_url = "{url}"
{secrets} = [{{ env = "SECRET" }}]
{auth}
pause_between_writes = "0s"
request_timeout = "2s"
[[runner]]
name = "ci"
kind = "{native}"
[[runner]]
name = "lab"
kind = "http"
poll_min = "10s"
poll_max = "40s"
deadline = "2h"
[runner.start]
url = "{lab}/jobs/{{{{ job }}}}/runs"
body = '{{"sha": {{{{ sha | tojson }}}}, "overrides": {{{{ overrides | tojson }}}}}}'
headers = {{ Content-Type = "application/json" }}
id_pointer = "/id"
url_pointer = "/web_url"
timeout = "1s"
[runner.poll]
url = "{lab}/runs/{{{{ id }}}}"
state_pointer = "/state"
url_pointer = "/web_url"
states = {{ queued = "pending", ok = "passed", bad = "failed", offline = "infrastructure" }}
[runner.find]
url = "{lab}/runs?key={{{{ key }}}}"
id_pointer = "/id"
[runner.cancel]
method = "DELETE"
url = "{lab}/runs/{{{{ id }}}}"
[[runner.job]]
name = "lava-x86"
overrides = ["KERNEL"]
[[runner.job]]
name = "lava-arm64"
[[runner.job]]
pattern = "board-*"
{extra}
"#
        )
    }

    async fn open(&mut self) {
        let fork = self.script.fork;
        self.number = match &self.sandbox {
            Sandbox::GitHub(forge) => {
                forge.open_pull(REPO, "ann", HEAD, github::NewPull { from_fork: fork, ..Default::default() })
            }
            Sandbox::GitLab { forge, project } => {
                let source_project = fork.then(|| forge.add_fork(*project));
                forge.open_merge_request(
                    *project,
                    "ann",
                    HEAD,
                    gitlab::NewMergeRequest { source_project, ..Default::default() },
                )
            }
        };
    }

    pub fn world(&self) -> &Arc<World> {
        &self.life.as_ref().expect("a life").world
    }

    pub fn bot_url(&self) -> &str {
        &self.life.as_ref().expect("a life").url
    }

    /// The wire of the forge: its history and its faults.
    pub fn forge(&self) -> &Wire {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.wire(),
            Sandbox::GitLab { forge, .. } => forge.wire(),
        }
    }

    pub fn github(&self) -> &GitHubSandbox {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge,
            Sandbox::GitLab { .. } => panic!("this story plays on GitHub"),
        }
    }

    pub fn gitlab(&self) -> (&GitLabSandbox, u64) {
        match &self.sandbox {
            Sandbox::GitLab { forge, project } => (forge, *project),
            Sandbox::GitHub(_) => panic!("this story plays on GitLab"),
        }
    }

    /// Sends webhooks and runs passes until nothing moves any more at this moment of the clock.
    pub async fn settle(&self) {
        self.try_settle().await.expect("a pass");
    }

    pub async fn try_settle(&self) -> Result<(), FlowError> {
        for _ in 0..50 {
            let sent = self.deliver().await;
            let done = run_until_idle(self.world()).await?;
            if sent == 0 && done == 0 {
                return Ok(());
            }
        }
        panic!("the story does not come to rest");
    }

    /// Sends the queued webhooks; every one of them must be taken.
    pub async fn deliver(&self) -> usize {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let sent = forge.deliver().await;
                assert!(sent.iter().all(|d| d.status == Some(202)), "a webhook was not taken: {sent:?}");
                sent.len()
            }
            Sandbox::GitLab { forge, .. } => {
                let sent = forge.deliver().await;
                assert!(sent.iter().all(|d| d.status == Some(202)), "a webhook was not taken: {sent:?}");
                sent.len()
            }
        }
    }

    /// Moves every clock on, then settles.
    pub async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.set_now(self.clock.now().ms()),
            Sandbox::GitLab { forge, .. } => forge.set_now(self.clock.now().ms()),
        }
        self.settle().await;
    }

    pub async fn pass_s(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds)).await;
    }

    /// Somebody comments; nothing is sent yet.
    pub fn say(&self, login: &str, body: &str) -> u64 {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.comment(REPO, self.number, login, body),
            Sandbox::GitLab { forge, project } => forge.note(*project, self.number, login, body),
        }
    }

    /// Somebody comments, and everything that follows at once happens.
    pub async fn comment(&self, login: &str, body: &str) -> u64 {
        let id = self.say(login, body);
        self.settle().await;
        id
    }

    /// A lab posts a status on the head.
    pub async fn lab_status(&self, name: &str, passed: bool) {
        self.post_lab_status(name, passed, &format!("https://lab.example/old/{name}"));
        self.settle().await;
    }

    /// A lab posts a status on the head with the page of its run; nothing is sent yet.
    pub fn post_lab_status(&self, name: &str, passed: bool, page: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let state = if passed { "success" } else { "failure" };
                forge.set_status(REPO, HEAD, name, state, "posted by the lab", page);
            }
            Sandbox::GitLab { forge, project } => {
                forge.external_status(*project, HEAD, name, if passed { "success" } else { "failed" }, Some(page));
            }
        }
    }

    /// The forge's own CI runs these jobs on the head; those in `failed` fail, the others pass. Returns the group's id.
    pub async fn native_run(&self, jobs: &[&str], failed: &[&str]) -> u64 {
        let group = self.start_native(jobs);
        for job in jobs {
            self.end_native(group, job, !failed.contains(job));
        }
        self.settle().await;
        group
    }

    pub fn start_native(&self, jobs: &[&str]) -> u64 {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let jobs = jobs.iter().map(|name| github::NewJob { name: (*name).to_owned(), needs: vec![] }).collect();
                let new = github::NewWorkflow {
                    name: "CI".into(),
                    path: ".github/workflows/ci.yml".into(),
                    event: "pull_request".into(),
                    jobs,
                    ..Default::default()
                };
                forge.start_workflow(REPO, HEAD, new)
            }
            Sandbox::GitLab { forge, project } => {
                let job = |name: &&str| gitlab::NewJob {
                    name: (*name).to_owned(),
                    stage: "test".into(),
                    ..Default::default()
                };
                let new = gitlab::NewPipeline {
                    sha: HEAD.into(),
                    mr_iid: Some(self.number),
                    source: "merge_request_event".into(),
                    jobs: jobs.iter().map(job).collect(),
                    ..Default::default()
                };
                forge.start_pipeline(*project, new)
            }
        }
    }

    pub fn end_native(&self, group: u64, job: &str, passed: bool) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.finish_job(group, job, if passed { "success" } else { "failure" }),
            Sandbox::GitLab { forge, .. } => {
                let (status, reason) = if passed { ("success", None) } else { ("failed", Some("script_failure")) };
                forge.finish_job(group, job, status, reason);
            }
        }
    }

    /// How many runs a native job had.
    pub fn native_runs(&self, group: u64, job: &str) -> usize {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let attempt = forge
                    .jobs(REPO, HEAD)
                    .into_iter()
                    .filter(|j| j.name == job && j.run_id == group)
                    .map(|j| j.attempt);
                attempt.max().unwrap_or(0) as usize
            }
            Sandbox::GitLab { forge, .. } => forge.jobs(group).into_iter().filter(|j| j.name == job).count(),
        }
    }

    pub fn push(&self, sha: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.push(REPO, self.number, sha),
            Sandbox::GitLab { forge, project } => forge.push(*project, self.number, sha),
        }
    }

    /// The default branch moves on.
    pub fn push_base(&self, sha: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.push_branch(REPO, "main", sha),
            Sandbox::GitLab { forge, project } => forge.push_branch(*project, "main", sha),
        }
    }

    pub fn close(&self) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.close_pull(REPO, self.number, false),
            Sandbox::GitLab { forge, project } => forge.close(*project, self.number),
        }
    }

    pub fn lose_webhooks(&self, github: &str, gitlab: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.drop_webhooks(github),
            Sandbox::GitLab { forge, .. } => forge.drop_webhooks(gitlab),
        }
    }

    pub fn duplicate_webhooks(&self, times: usize) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.duplicate_webhooks(times),
            Sandbox::GitLab { forge, .. } => forge.duplicate_webhooks(times),
        }
    }

    pub fn reverse_webhooks(&self) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.reverse_webhooks(),
            Sandbox::GitLab { forge, .. } => forge.reverse_webhooks(),
        }
    }

    /// The state of a status on the head, in GitHub's words; empty when there is none.
    pub fn status(&self, name: &str) -> String {
        self.status_at(HEAD, name)
    }

    pub fn status_at(&self, sha: &str, name: &str) -> String {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let found = forge.statuses(REPO, sha).into_iter().find(|s| s.context == name);
                found.map(|s| s.state).unwrap_or_default()
            }
            Sandbox::GitLab { forge, project } => {
                let found = forge.statuses(*project, sha).into_iter().filter(|s| s.name == name).max_by_key(|s| s.id);
                match found.map(|s| s.state).unwrap_or_default().as_str() {
                    "running" => "pending".into(),
                    "failed" => "failure".into(),
                    "canceled" => "error".into(),
                    other => other.to_owned(),
                }
            }
        }
    }

    /// The comments of the bot: the report is the only one.
    pub fn reports(&self) -> Vec<String> {
        let said: Vec<String> = match &self.sandbox {
            Sandbox::GitHub(forge) => forge.comments(REPO, self.number).into_iter().map(|c| c.body).collect(),
            Sandbox::GitLab { forge, project } => {
                forge.notes(*project, self.number).into_iter().map(|n| n.body).collect()
            }
        };
        said.into_iter().filter(|body| body.contains("<!-- retest-bot:")).collect()
    }

    /// The one report.
    pub fn report(&self) -> String {
        let reports = self.reports();
        assert_eq!(reports.len(), 1, "one report per change: {reports:#?}");
        reports.into_iter().next().unwrap_or_default()
    }

    /// Reactions to a comment, in GitHub's words.
    pub fn reactions(&self, comment: u64) -> Vec<String> {
        let names: Vec<String> = match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let found = forge.comments(REPO, self.number).into_iter().find(|c| c.id == comment);
                found.map(|c| c.reactions.into_iter().map(|(_, name)| name).collect()).unwrap_or_default()
            }
            Sandbox::GitLab { forge, project } => {
                let found = forge.notes(*project, self.number).into_iter().find(|n| n.id == comment);
                found.map(|n| n.emoji.into_iter().map(|(_, name)| name).collect()).unwrap_or_default()
            }
        };
        names.into_iter().map(|n| if n == "thumbsup" { "+1".to_owned() } else { n }).collect()
    }

    /// What the referee saw against GitHub's description.
    pub fn violations(mut self) -> Vec<String> {
        self.referee.take().expect("a referee").violations()
    }

    /// Ends a story: every wish is closed or waits for something, and nothing unread or unsent is left.
    pub async fn end(self) {
        self.settle().await;
        let waiting =
            self.world().store.waiting_deliveries(Timestamp::from_ms(i64::MAX / 2), 10).await.expect("the store");
        assert!(waiting.is_empty(), "unread deliveries: {waiting:?}");
        let due = self.world().store.due_reports(self.clock.now(), 10).await.expect("the store");
        assert!(due.is_empty(), "unsent reports: {due:?}");
    }
}
