//! Sets the stage of the demo: two forges with one change each, CI systems that keep going, the bot, real processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::app::{App, Life};
use crate::ports::{Clock, SystemClock};
use crate::sandbox::github::{self, GitHubSandbox};
use crate::sandbox::gitlab::{self, GitLabSandbox};
use crate::settings::Settings;

/// The repository on GitHub.
pub(super) const GITHUB_REPO: &str = "kernel/linux";
/// The project on GitLab.
pub(super) const GITLAB_REPO: &str = "labs/firmware";
/// The head commit of both changes.
pub(super) const HEAD: &str = "3f2c9a1e5b7d8c6f4a2b1c0d9e8f7a6b5c4d3e2f";

const WEBHOOK_SECRET: &str = "a-demo-webhook-secret-of-enough-bytes";
const GITHUB_TOKEN: &str = "ghp_demoTokenThatOpensNothingAtAll000000";
const GITLAB_TOKEN: &str = "glpat-demo-token-that-opens-nothing";

/// How long a CI job of the sandbox takes in each state.
const JOB_STEP: Duration = Duration::from_millis(1_200);

/// The stage. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub github: GitHubSandbox,
    pub gitlab: GitLabSandbox,
    /// The pull request's number.
    pub pull: u64,
    /// The merge request's number.
    pub merge_request: u64,
    /// The GitLab project.
    pub project: u64,
    /// The pipeline of the merge request.
    pub pipeline: u64,
    /// Where the bot answers.
    pub bot_url: String,
    _folder: Arc<Folder>,
}

/// A folder that goes away with the stage.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Stage {
    /// Starts everything.
    ///
    /// # Errors
    /// When a port or a folder cannot be had.
    pub async fn set() -> anyhow::Result<Self> {
        let clock = SystemClock;
        let start_ms = clock.now().ms();
        let folder = std::env::temp_dir().join(format!("retest-bot-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        let folder = Arc::new(Folder(folder));
        let github_options =
            github::Options { token: Some(GITHUB_TOKEN.into()), start_ms, ..github::Options::default() };
        let github = GitHubSandbox::start(github_options).await?;
        let gitlab_options = gitlab::Options {
            token: GITLAB_TOKEN.into(),
            bot_username: "retest-bot".into(),
            start_ms,
            path_prefix: None,
        };
        let gitlab = GitLabSandbox::start(gitlab_options).await?;
        let bot_url = start_bot(&folder.0, &github, &gitlab).await?;
        github.hook(&format!("{bot_url}/webhooks/github"), WEBHOOK_SECRET);
        let secret = gitlab::HookSecret { token: Some(WEBHOOK_SECRET.into()), signing: None };
        gitlab.hook(&format!("{bot_url}/webhooks/gitlab"), secret);
        github.auto_deliver();
        gitlab.auto_deliver();
        let pull = act_github(&github);
        let (project, merge_request, pipeline) = act_gitlab(&gitlab);
        keep_time(&github, &gitlab, project);
        Ok(Self { github, gitlab, pull, merge_request, project, pipeline, bot_url, _folder: folder })
    }
}

async fn start_bot(folder: &std::path::Path, github: &GitHubSandbox, gitlab: &GitLabSandbox) -> anyhow::Result<String> {
    let lab = folder.join("lab.sh");
    std::fs::write(&lab, LAB_SCRIPT)?;
    let text = configuration(folder, github, gitlab);
    let secrets: BTreeMap<String, String> =
        [("WEBHOOK", WEBHOOK_SECRET), ("GITHUB_TOKEN", GITHUB_TOKEN), ("GITLAB_TOKEN", GITLAB_TOKEN)]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
    let settings = Settings::parse(&text, &secrets).map_err(|e| anyhow::anyhow!("the demo's configuration:\n{e}"))?;
    let life = Life { report_delay: Some(Duration::from_millis(300)), ..Life::ordinary(Arc::new(SystemClock))? };
    let app = App::build(&settings, life).await?;
    let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(app.serve(listener, None, CancellationToken::new()));
    Ok(url)
}

/// The lab: one board that hangs at the first try of a job, one that never boots, one that works.
const LAB_SCRIPT: &str = r#"echo "lab: job $RETEST_JOB for $RETEST_SHA, run $RETEST_ATTEMPT"
echo "lab: power on"
sleep 2
case "$1" in
  broken) echo "lab: no prompt after 2 s, giving up"; exit 1 ;;
  *) echo "lab: login prompt seen"; sleep 1; echo "lab: 12 tests passed" ;;
esac
"#;

fn configuration(folder: &std::path::Path, github: &GitHubSandbox, gitlab: &GitLabSandbox) -> String {
    let (folder, github, gitlab) = (folder.display(), github.base_url(), gitlab.base_url());
    format!(
        r#"
[store]
path = "{folder}/retest-bot.db"

[[forge]]
name = "github"
kind = "github"
api_url = "{github}"
webhook_secrets = [{{ env = "WEBHOOK" }}]
token = {{ env = "GITHUB_TOKEN" }}
pause_between_writes = "0s"

[[forge]]
name = "gitlab"
kind = "gitlab"
api_url = "{gitlab}"
webhook_tokens = [{{ env = "WEBHOOK" }}]
token = {{ env = "GITLAB_TOKEN" }}
pause_between_writes = "0s"

[[runner]]
name = "actions"
kind = "github_actions"

[[runner]]
name = "pipelines"
kind = "gitlab_ci"

[[runner]]
name = "lab"
kind = "exec"
directory = "{folder}/exec"
poll_min = "1s"
poll_max = "2s"

[[runner.job]]
name = "lava-x86"
command = ["/bin/sh", "{folder}/lab.sh", "good"]
required = true

[[runner.job]]
name = "lava-arm64"
command = ["/bin/sh", "{folder}/lab.sh", "broken"]

[commands]
mention = ["retest-bot"]

[rights]
role_cache = "10s"
"#
    )
}

fn act_github(github: &GitHubSandbox) -> u64 {
    github.add_repo(GITHUB_REPO);
    for (login, role) in [("maya", "maintain"), ("ann", "read"), ("sam", "read")] {
        github.set_role(GITHUB_REPO, login, role);
    }
    let title = "x86: keep the console alive over suspend".to_owned();
    let pull = github.open_pull(GITHUB_REPO, "ann", HEAD, github::NewPull { title, ..github::NewPull::default() });
    let job = |name: &str, needs: &[&str]| github::NewJob {
        name: name.into(),
        needs: needs.iter().map(|n| (*n).to_owned()).collect(),
    };
    let run = github.start_workflow(
        GITHUB_REPO,
        HEAD,
        github::NewWorkflow {
            name: "CI".into(),
            path: ".github/workflows/ci.yml".into(),
            event: "pull_request".into(),
            jobs: vec![
                job("build", &[]),
                job("unit (ubuntu, 3.12)", &["build"]),
                job("package", &["unit (ubuntu, 3.12)"]),
            ],
            ..github::NewWorkflow::default()
        },
    );
    github.finish_job(run, "build", "success");
    github.finish_job(run, "unit (ubuntu, 3.12)", "failure");
    let lab = "https://lab.example/job/";
    github.set_status(GITHUB_REPO, HEAD, "lava-x86", "failure", "board did not answer", &format!("{lab}411"));
    github.set_status(GITHUB_REPO, HEAD, "lava-arm64", "failure", "no login prompt", &format!("{lab}412"));
    github.set_status(GITHUB_REPO, HEAD, "docs", "success", "built", &format!("{lab}413"));
    pull
}

fn act_gitlab(gitlab: &GitLabSandbox) -> (u64, u64, u64) {
    let project = gitlab.add_project(GITLAB_REPO);
    for (user, level) in [("maya", 40), ("ann", 30), ("sam", 10)] {
        gitlab.set_level(project, user, level);
    }
    let new =
        gitlab::NewMergeRequest { title: "boot: retry the DHCP request".into(), ..gitlab::NewMergeRequest::default() };
    let merge_request = gitlab.open_merge_request(project, "ann", HEAD, new);
    let job = |name: &str, stage: &str| gitlab::NewJob {
        name: name.into(),
        stage: stage.into(),
        ..gitlab::NewJob::default()
    };
    let pipeline = gitlab.start_pipeline(
        project,
        gitlab::NewPipeline {
            sha: HEAD.into(),
            mr_iid: Some(merge_request),
            source: "merge_request_event".into(),
            jobs: vec![job("build", "build"), job("boot-qemu", "test"), job("lint", "test")],
            ..gitlab::NewPipeline::default()
        },
    );
    gitlab.finish_job(pipeline, "build", "success", None);
    gitlab.finish_job(pipeline, "lint", "success", None);
    gitlab.finish_job(pipeline, "boot-qemu", "failed", Some("runner_system_failure"));
    gitlab.external_status(project, HEAD, "lava-x86", "failed", Some("https://lab.example/job/77"));
    (project, merge_request, pipeline)
}

/// Keeps the sandboxes' clocks right and their CI jobs moving: what was restarted starts, then passes.
fn keep_time(github: &GitHubSandbox, gitlab: &GitLabSandbox, project: u64) {
    let (github, gitlab) = (github.clone(), gitlab.clone());
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(JOB_STEP);
        loop {
            tick.tick().await;
            let now = SystemClock.now().ms();
            github.set_now(now);
            gitlab.set_now(now);
            for job in github.jobs(GITHUB_REPO, HEAD) {
                match job.status.as_str() {
                    "queued" => github.start_job(job.run_id, &job.name),
                    "in_progress" => github.finish_job(job.run_id, &job.name, "success"),
                    _ => {}
                }
            }
            for pipeline in gitlab.pipelines(project) {
                let pipeline = pipeline.id;
                for job in gitlab.jobs(pipeline) {
                    match job.status.as_str() {
                        "pending" => gitlab.start_job(pipeline, &job.name),
                        "running" => gitlab.finish_job(pipeline, &job.name, "success", None),
                        _ => {}
                    }
                }
            }
        }
    });
}
