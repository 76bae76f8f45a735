//! What CI systems and people at their buttons do: statuses, workflow runs, other Apps' checks, lost and late webhooks.
//!
//! Read next: `actions.rs`.

use serde_json::json;

use super::hooks::Note;
use super::state::{Check, Output, State, Status};
use super::{GitHubSandbox, NewWorkflow};

/// The login other CI systems post statuses under.
const FOREIGN_CI: &str = "other-ci[bot]";

impl GitHubSandbox {
    /// Posts a status as another CI system would; empty `description` and `target_url` are left out.
    pub fn set_status(&self, repo: &str, sha: &str, context: &str, state: &str, description: &str, target_url: &str) {
        let or_none = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (description, target_url) = (or_none(description), or_none(target_url));
        self.with(|held| {
            let repo = held.named(repo);
            repo.commits.insert(sha.to_owned());
            let status = Status {
                id: 0,
                sha: sha.to_owned(),
                context: context.to_owned(),
                state: state.to_owned(),
                description,
                target_url,
                creator: FOREIGN_CI.to_owned(),
                created_ms: 0,
            };
            let repo_id = repo.id;
            held.add_status(repo_id, status);
        });
    }

    /// Starts a run of a workflow on a commit, by the change's author (or `ghost`); answers the run's id.
    pub fn start_workflow(&self, repo: &str, sha: &str, new: NewWorkflow) -> u64 {
        self.with(|state| {
            let repo = state.named(repo);
            let author = repo.pulls_at(sha).map(|(issue, _)| issue.author.clone()).next();
            let repo_id = repo.id;
            state.start_run(repo_id, sha, &author.unwrap_or_else(|| "ghost".to_owned()), new)
        })
    }

    /// Makes a workflow known without running it, for `workflow_dispatch`; answers its id.
    pub fn add_workflow(&self, repo: &str, new: NewWorkflow) -> u64 {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            state.workflow_of(repo_id, &new)
        })
    }

    /// A runner takes the job of the newest attempt.
    pub fn start_job(&self, run_id: u64, job_name: &str) {
        self.with(|state| {
            let job = state.job_id(run_id, job_name);
            state.start_job(job);
        });
    }

    /// Ends the job of the newest attempt (`success`, `failure`, `cancelled`, `timed_out`, `skipped`), starting it if need be.
    ///
    /// Jobs that need it become queued or skipped; after the last job the run completes.
    pub fn finish_job(&self, run_id: u64, job_name: &str, conclusion: &str) {
        self.with(|state| {
            let job = state.job_id(run_id, job_name);
            state.finish_job(job, conclusion);
        });
    }

    /// The job's runner vanishes: it fails with no runner, no steps and an annotation that says so.
    pub fn lose_job(&self, run_id: u64, job_name: &str) {
        self.with(|state| {
            let id = state.job_id(run_id, job_name);
            if let Some(job) = state.jobs.get_mut(&id) {
                job.lost = true;
            }
            state.finish_job(id, "failure");
        });
    }

    /// Sets the log of the job's newest record.
    pub fn job_log(&self, run_id: u64, job_name: &str, text: &str) {
        self.with(|state| {
            let id = state.job_id(run_id, job_name);
            if let Some(job) = state.jobs.get_mut(&id) {
                text.clone_into(&mut job.log);
            }
        });
    }

    /// Somebody cancels the run on the site.
    pub fn cancel_run(&self, run_id: u64) {
        self.with(|state| state.cancel_run(run_id));
    }

    /// Makes GitHub refuse every re-run of this run ("cannot be retried").
    pub fn forbid_rerun(&self, run_id: u64) {
        self.with(|state| state.run_mut(run_id).unretryable = true);
    }

    /// Presses "re-run" on the whole run, on the site, as `login`; false when GitHub refuses.
    pub fn press_rerun_run(&self, run_id: u64, login: &str) -> bool {
        self.with(|state| state.rerun(run_id, super::reruns::Scope::All, login).status == 201)
    }

    /// Whether `filter=latest` lists only the last attempt's jobs, as the service did for a time in 2025.
    pub fn set_latest_trap(&self, on: bool) {
        self.with(|state| state.latest_trap = on);
    }

    /// Another App (by slug) reports a check; `None` leaves it in progress. Answers the check run's id.
    ///
    /// A check of that App with the same name on the commit is updated, not repeated.
    pub fn foreign_check(&self, repo: &str, sha: &str, app: &str, name: &str, conclusion: Option<&str>) -> u64 {
        self.with(|state| {
            let app_id = state.app_named(app);
            let repo = state.named(repo);
            repo.commits.insert(sha.to_owned());
            let repo_id = repo.id;
            let suite_id = state.suite_for(repo_id, app_id, sha);
            let known = state.checks.values().find(|check| check.suite_id == suite_id && check.name == name);
            let (id, created) = match known.map(|check| check.id) {
                Some(id) => (id, false),
                None => (state.foreign_new(repo_id, (suite_id, app_id), sha, name), true),
            };
            let now = state.now_ms;
            if let Some(check) = state.checks.get_mut(&id) {
                check.status = if conclusion.is_some() { "completed" } else { "in_progress" }.to_owned();
                check.conclusion = conclusion.map(str::to_owned);
                check.completed_ms = conclusion.map(|_| now);
            }
            if created {
                state.note_check(id, "created", None);
            }
            if conclusion.is_some() {
                state.note_check(id, "completed", None);
            }
            id
        })
    }

    /// The App that owns a check links it to a page of its own; the next report of the check tells it.
    pub fn link_check(&self, check_id: u64, page: &str) {
        self.with(|state| {
            if let Some(check) = state.checks.get_mut(&check_id) {
                check.details_url = Some(page.to_owned());
            }
        });
    }

    /// Sets the required contexts of a branch, seen by its rules and by classic protection alike.
    pub fn required(&self, repo: &str, branch: &str, contexts: &[&str]) {
        let contexts = contexts.iter().map(|context| (*context).to_owned()).collect();
        self.with(|state| state.named(repo).required.insert(branch.to_owned(), contexts));
    }

    /// Presses "re-run" at a check run, as `login`; its App hears of it.
    pub fn press_rerun_check(&self, _repo: &str, check_run_id: u64, login: &str) {
        self.with(|state| {
            let suite_id = state.checks.get(&check_run_id).expect("the check run exists").suite_id;
            state.set_suite(suite_id, "queued", None);
            state.note_check(check_run_id, "rerequested", Some((login, json!({}))));
        });
    }

    /// Presses "re-run all" at a check suite, as `login`; its App hears of it.
    pub fn press_rerun_suite(&self, _repo: &str, check_suite_id: u64, login: &str) {
        self.with(|state| {
            state.set_suite(check_suite_id, "queued", None);
            state.note_suite(check_suite_id, "rerequested", Some(login));
        });
    }

    /// Presses a button of a check run, as `login`; its App hears of it.
    pub fn press_button(&self, check_run_id: u64, identifier: &str, login: &str) {
        let more = json!({"requested_action": {"identifier": identifier}});
        self.with(|state| state.note_check(check_run_id, "requested_action", Some((login, more))));
    }
}

impl State {
    /// The newest record of a job.
    ///
    /// # Panics
    /// When the run has no such job (yet): a mistake of the test.
    fn job_id(&self, run_id: u64, name: &str) -> u64 {
        let job = self.newest_job(run_id, name);
        job.unwrap_or_else(|| panic!("run {run_id} has no job `{name}` now: it may wait for one it needs")).id
    }

    fn foreign_new(&mut self, repo_id: u64, (suite_id, app_id): (u64, u64), sha: &str, name: &str) -> u64 {
        let id = self.id();
        let check = Check {
            id,
            suite_id,
            repo_id,
            app_id,
            head_sha: sha.to_owned(),
            name: name.to_owned(),
            status: "queued".to_owned(),
            conclusion: None,
            external_id: String::new(),
            details_url: None,
            output: Output::default(),
            actions: Vec::new(),
            started_ms: Some(self.now_ms),
            completed_ms: None,
        };
        self.checks.insert(id, check);
        id
    }

    /// Appends a status, stamped with id and time, and tells of it.
    pub fn add_status(&mut self, repo_id: u64, mut status: Status) -> u64 {
        let creator = status.creator.clone();
        self.user(&creator);
        status.id = self.id();
        status.created_ms = self.now_ms;
        let repo = self.repo(repo_id);
        let heads = repo.pulls_at(&status.sha).filter(|(_, pull)| !pull.from_fork);
        let api = self.repo_url(repo);
        let branches: Vec<serde_json::Value> = heads
            .map(|(_, pull)| {
                let commit = json!({"sha": status.sha, "url": format!("{api}/commits/{}", status.sha)});
                json!({"name": pull.head_ref, "commit": commit, "protected": false})
            })
            .collect();
        let mut body = self.status_body(repo, &status);
        let more = json!({
            "sha": status.sha,
            "name": repo.full_name(),
            "commit": self.commit_body(repo, &status.sha),
            "branches": branches,
        });
        super::bodies::extend(&mut body, more);
        let id = status.id;
        self.repo_mut(repo_id).statuses.push(status);
        self.emit(&Note::new("status", repo_id, &creator), body);
        self.judge_queue(repo_id);
        id
    }
}
