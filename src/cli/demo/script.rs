//! Plays the demo's stories on a terminal: each a comment and what must come of it. Ends with 1 when one goes wrong.

use std::process::ExitCode;
use std::time::Duration;

use super::stage::{GITHUB_REPO, HEAD, Stage};

/// How long a story may take before it counts as gone wrong.
const PATIENCE: Duration = Duration::from_secs(40);

/// Pause between two looks at the stage.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Plays all stories, one after the other.
pub(super) async fn play(stage: &Stage) -> anyhow::Result<ExitCode> {
    let mut stories = Stories { stage, wrong: 0, right: 0 };
    stories
        .wait("the stage is set: two red labs and a red job", || {
            status(stage, "lava-x86") == "failure" && gitlab_job(stage, "boot-qemu") == "failed"
        })
        .await?;
    stories.say("ann", "/retest lava-x86")?;
    stories
        .wait("`lava-x86` is pending, and so is the aggregate", || {
            status(stage, "lava-x86") == "pending" && status(stage, "retest") == "pending"
        })
        .await?;
    stories.wait("a real process ran; `lava-x86` is green", || status(stage, "lava-x86") == "success").await?;
    stories.say("sam", "/retest")?;
    stories
        .wait("sam may only read and is told which role is missing", || {
            report(stage).contains("needs the *triage* role")
        })
        .await?;
    stories.say("maya", "/retest lava-x68")?;
    stories
        .wait("a name that nobody knows gets the nearest one", || report(stage).contains("did you mean `lava-x86`?"))
        .await?;
    stories.say("maya", "/retest \"unit (ubuntu, 3.12)\" lava-arm64")?;
    stories
        .wait("the job of the forge's CI ran again and passed", || {
            let jobs = stage.github.jobs(GITHUB_REPO, HEAD);
            jobs.iter().any(|j| {
                j.name == "unit (ubuntu, 3.12)" && j.attempt == 2 && j.conclusion.as_deref() == Some("success")
            })
        })
        .await?;
    stories
        .wait("the broken board failed again and stays red, and so does the aggregate", || {
            status(stage, "lava-arm64") == "failure" && status(stage, "retest") == "failure"
        })
        .await?;
    stories.say_gitlab("maya", "/retest")?;
    stories
        .wait("GitLab: the failed job has a new run, the lab's status is green", || {
            gitlab_job(stage, "boot-qemu") == "success" && gitlab_status(stage, "lava-x86") == "success"
        })
        .await?;
    stories.wait("GitLab: the aggregate is green", || gitlab_status(stage, "retest") == "success").await?;
    super::super::print_line(&format!("\n{} passed, {} failed", stories.right, stories.wrong))?;
    Ok(if stories.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Stories<'a> {
    stage: &'a Stage,
    right: u32,
    wrong: u32,
}

impl Stories<'_> {
    fn say(&self, login: &str, body: &str) -> anyhow::Result<()> {
        super::super::print_line(&format!("\n{login} comments on GitHub: {body}"))?;
        self.stage.github.comment(GITHUB_REPO, self.stage.pull, login, body);
        Ok(())
    }

    fn say_gitlab(&self, login: &str, body: &str) -> anyhow::Result<()> {
        super::super::print_line(&format!("\n{login} comments on GitLab: {body}"))?;
        self.stage.gitlab.note(self.stage.project, self.stage.merge_request, login, body);
        Ok(())
    }

    async fn wait(&mut self, what: &str, done: impl Fn() -> bool) -> anyhow::Result<()> {
        let looks = PATIENCE.as_millis() / LOOK_EVERY.as_millis();
        for _ in 0..looks {
            if done() {
                self.right += 1;
                super::super::print_line(&format!("  ✔ {what}"))?;
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.wrong += 1;
        super::super::print_line(&format!("  ✘ {what}: not within {} s", PATIENCE.as_secs()))?;
        super::super::print_line(&format!("--- the report on GitHub ---\n{}", report(self.stage)))?;
        Ok(())
    }
}

fn status(stage: &Stage, name: &str) -> String {
    let found = stage.github.statuses(GITHUB_REPO, HEAD).into_iter().find(|s| s.context == name);
    found.map(|s| s.state).unwrap_or_default()
}

fn gitlab_status(stage: &Stage, name: &str) -> String {
    let all = stage.gitlab.statuses(stage.project, HEAD);
    all.into_iter().filter(|s| s.name == name).max_by_key(|s| s.id).map(|s| s.state).unwrap_or_default()
}

fn gitlab_job(stage: &Stage, name: &str) -> String {
    let found = stage.gitlab.jobs(stage.pipeline).into_iter().find(|j| j.name == name && !j.retried);
    found.map(|j| j.status).unwrap_or_default()
}

fn report(stage: &Stage) -> String {
    let all = stage.github.comments(GITHUB_REPO, stage.pull);
    all.into_iter().find(|c| crate::decide::is_own_text(&c.body)).map(|c| c.body).unwrap_or_default()
}
