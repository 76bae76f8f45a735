//! JSON of what ran on a commit: workflow runs, jobs, check runs and suites, statuses.
//!
//! Read next: `actions.rs`, `routes_ci.rs`.

use serde_json::{Value, json};

use super::bodies::{Whose, extend};
use super::state::{Attempt, Check, Job, Repo, Run, State, Status, Suite, Workflow, iso, iso_or_null};

impl State {
    /// The open changes with this head, as runs and checks list them: none for heads in forks.
    pub fn pulls_of(&self, repo: &Repo, sha: &str) -> Value {
        let small = json!({"id": repo.id, "url": self.repo_url(repo), "name": repo.name});
        let open = repo.pulls_at(sha).filter(|(issue, pull)| issue.open && !pull.from_fork);
        open.map(|(issue, pull)| {
            json!({
                "id": issue.id,
                "number": issue.number,
                "url": format!("{}/pulls/{}", self.repo_url(repo), issue.number),
                "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": small},
                "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": small},
            })
        })
        .collect()
    }

    pub fn workflow_body(&self, workflow: &Workflow) -> Value {
        let repo = self.repo(workflow.repo_id);
        let new = &workflow.new;
        let web = self.web_url(repo);
        json!({
            "id": workflow.id,
            "node_id": format!("W_{}", workflow.id),
            "name": new.name,
            "path": new.path,
            "state": "active",
            "created_at": iso(workflow.created_ms),
            "updated_at": iso(workflow.created_ms),
            "url": format!("{}/actions/workflows/{}", self.repo_url(repo), workflow.id),
            "html_url": format!("{web}/blob/{}/{}", repo.default_branch, new.path),
            "badge_url": format!("{web}/actions/workflows/{}/badge.svg", workflow.id),
        })
    }

    /// The run as it stood in one of its attempts.
    pub fn run_body(&self, run: &Run, attempt: &Attempt) -> Value {
        let repo = self.repo(run.repo_id);
        let api = self.repo_url(repo);
        let url = format!("{api}/actions/runs/{}", run.id);
        let own = if attempt.number == run.latest().number {
            url.clone()
        } else {
            format!("{url}/attempts/{}", attempt.number)
        };
        let fork = repo.pulls_at(&run.head_sha).find(|(_, pull)| pull.from_fork);
        let whose = fork.map_or(Whose::Own, |(issue, _)| Whose::ForkOf(&issue.author));
        let previous = attempt.number.checked_sub(1).filter(|n| *n > 0);
        json!({
            "id": run.id,
            "node_id": format!("WFR_{}", run.id),
            "name": run.spec.name,
            "display_title": "A commit of the sandbox",
            "head_branch": run.head_branch,
            "head_sha": run.head_sha,
            "path": run.spec.path,
            "run_number": run.run_number,
            "run_attempt": attempt.number,
            "event": run.spec.event,
            "status": attempt.status,
            "conclusion": attempt.conclusion,
            "workflow_id": run.workflow_id,
            "workflow_url": format!("{api}/actions/workflows/{}", run.workflow_id),
            "check_suite_id": run.suite_id,
            "check_suite_node_id": format!("CS_{}", run.suite_id),
            "check_suite_url": format!("{api}/check-suites/{}", run.suite_id),
            "url": own,
            "html_url": format!("{}/actions/runs/{}", self.web_url(repo), run.id),
            "jobs_url": format!("{url}/jobs"),
            "logs_url": format!("{url}/logs"),
            "artifacts_url": format!("{url}/artifacts"),
            "cancel_url": format!("{url}/cancel"),
            "rerun_url": format!("{url}/rerun"),
            "previous_attempt_url": previous.map(|n| format!("{url}/attempts/{n}")),
            "referenced_workflows": [],
            "pull_requests": self.pulls_of(repo, &run.head_sha),
            "created_at": iso(run.created_ms),
            "updated_at": iso(attempt.updated_ms),
            "run_started_at": iso(attempt.started_ms),
            "actor": self.user_body(&run.actor),
            "triggering_actor": self.user_body(&attempt.triggered_by),
            "head_commit": self.head_commit(&run.head_sha),
            "repository": self.small_repo(repo, Whose::Own),
            "head_repository": self.small_repo(repo, whose),
        })
    }

    pub fn job_body(&self, job: &Job) -> Value {
        let run = self.run(job.run_id);
        let repo = self.repo(job.repo_id);
        let api = self.repo_url(repo);
        let with_runner = job.started_ms.is_some() && !job.lost && job.conclusion.as_deref() != Some("skipped");
        json!({
            "id": job.id,
            "node_id": format!("CR_{}", job.id),
            "run_id": job.run_id,
            "run_attempt": job.attempt,
            "run_url": format!("{api}/actions/runs/{}", job.run_id),
            "workflow_name": run.spec.name,
            "name": job.name,
            "head_sha": run.head_sha,
            "head_branch": run.head_branch,
            "url": format!("{api}/actions/jobs/{}", job.id),
            "html_url": format!("{}/actions/runs/{}/job/{}", self.web_url(repo), job.run_id, job.id),
            "check_run_url": format!("{api}/check-runs/{}", job.check_id),
            "status": job.status,
            "conclusion": job.conclusion,
            "created_at": iso(job.created_ms),
            "started_at": iso(job.started_ms.unwrap_or(job.created_ms)),
            "completed_at": iso_or_null(job.completed_ms),
            "steps": if with_runner { steps(job) } else { json!([]) },
            "labels": ["ubuntu-latest"],
            "runner_id": with_runner.then_some(7),
            "runner_name": with_runner.then_some("sandbox runner 7"),
            "runner_group_id": with_runner.then_some(1),
            "runner_group_name": with_runner.then_some("sandbox runners"),
        })
    }

    pub fn check_body(&self, check: &Check) -> Value {
        let repo = self.repo(check.repo_id);
        let url = format!("{}/check-runs/{}", self.repo_url(repo), check.id);
        let html = format!("{}/runs/{}", self.web_url(repo), check.id);
        let output = &check.output;
        json!({
            "id": check.id,
            "node_id": format!("CR_{}", check.id),
            "name": check.name,
            "head_sha": check.head_sha,
            "external_id": check.external_id,
            "url": url,
            "html_url": html,
            "details_url": check.details_url.as_ref().unwrap_or(&html),
            "status": check.status,
            "conclusion": check.conclusion,
            "started_at": iso_or_null(check.started_ms),
            "completed_at": iso_or_null(check.completed_ms),
            "output": {
                "title": output.title,
                "summary": output.summary,
                "text": output.text,
                "annotations_count": output.annotations.len(),
                "annotations_url": format!("{url}/annotations"),
            },
            "check_suite": {"id": check.suite_id},
            "app": self.app_body(check.app_id),
            "pull_requests": self.pulls_of(repo, &check.head_sha),
        })
    }

    /// The check run as webhooks carry it: with more of its suite.
    pub fn check_event_body(&self, check: &Check) -> Value {
        let mut body = self.check_body(check);
        if let Some(suite) = self.suites.get(&check.suite_id) {
            body["check_suite"] = self.suite_core(suite);
        }
        body
    }

    fn suite_core(&self, suite: &Suite) -> Value {
        let repo = self.repo(suite.repo_id);
        let own = repo.pulls_at(&suite.head_sha).find(|(_, pull)| !pull.from_fork);
        json!({
            "id": suite.id,
            "node_id": format!("CS_{}", suite.id),
            "head_branch": own.map(|(_, pull)| pull.head_ref.as_str()),
            "head_sha": suite.head_sha,
            "status": suite.status,
            "conclusion": suite.conclusion,
            "url": format!("{}/check-suites/{}", self.repo_url(repo), suite.id),
            "before": super::state::BASE_SHA,
            "after": suite.head_sha,
            "pull_requests": self.pulls_of(repo, &suite.head_sha),
            "app": self.app_body(suite.app_id),
            "created_at": iso(suite.created_ms),
            "updated_at": iso(suite.updated_ms),
        })
    }

    pub fn suite_body(&self, suite: &Suite) -> Value {
        let repo = self.repo(suite.repo_id);
        let mut body = self.suite_core(suite);
        let more = json!({
            "head_commit": self.head_commit(&suite.head_sha),
            "repository": self.small_repo(repo, Whose::Own),
            "latest_check_runs_count": self.checks.values().filter(|check| check.suite_id == suite.id).count(),
            "check_runs_url": format!("{}/check-suites/{}/check-runs", self.repo_url(repo), suite.id),
            "rerequestable": suite.run_id.is_none(),
            "runs_rerequestable": suite.run_id.is_none(),
        });
        extend(&mut body, more);
        body
    }

    /// A status as the list of all statuses gives it.
    pub fn status_body(&self, repo: &Repo, status: &Status) -> Value {
        let creator = self.user_body(&status.creator);
        json!({
            "id": status.id,
            "node_id": format!("SC_{}", status.id),
            "url": format!("{}/statuses/{}", self.repo_url(repo), status.sha),
            "avatar_url": creator["avatar_url"],
            "state": status.state,
            "description": status.description,
            "target_url": status.target_url,
            "context": status.context,
            "created_at": iso(status.created_ms),
            "updated_at": iso(status.created_ms),
            "creator": creator,
        })
    }
}

/// A set-up step that passed and the step that made the job's result.
fn steps(job: &Job) -> Value {
    let started = iso_or_null(job.started_ms);
    let done = iso_or_null(job.completed_ms);
    json!([
        {"name": "Set up job", "status": "completed", "conclusion": "success", "number": 1,
         "started_at": started, "completed_at": started},
        {"name": format!("Run {}", job.name), "status": job.status, "conclusion": job.conclusion, "number": 2,
         "started_at": started, "completed_at": done},
    ])
}
