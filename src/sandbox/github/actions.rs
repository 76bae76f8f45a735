//! GitHub Actions in the sandbox: a run goes through attempts, an attempt through jobs, and each says so by webhook.
//!
//! **Invariant:** an attempt is completed if and only if every job planned for it is. Jobs that need others come
//! into being when those are done: queued when all passed, skipped otherwise. Read next: `reruns.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::hooks::Note;
use super::state::{ACTIONS_APP_ID, Attempt, Check, Job, Output, Run, State, Workflow};
use super::{NewJob, NewWorkflow};

/// Text GitHub puts on a job whose runner vanished.
const LOST_TEXT: &str = "The hosted runner lost communication with the server.";

impl State {
    pub fn start_run(&mut self, repo_id: u64, sha: &str, actor: &str, new: NewWorkflow) -> u64 {
        let workflow_id = self.workflow_of(repo_id, &new);
        let id = self.id();
        let suite_id = self.new_suite(repo_id, ACTIONS_APP_ID, sha, Some(id));
        let repo = self.repo_mut(repo_id);
        repo.commits.insert(sha.to_owned());
        let queued = repo.queue.iter().find(|entry| entry.sha == sha).map(|entry| entry.branch.clone());
        let branch = queued.or_else(|| repo.pulls_at(sha).map(|(_, pull)| pull.head_ref.clone()).next());
        let head_branch = branch.unwrap_or_else(|| repo.default_branch.clone());
        self.user(actor);
        let run_number = 1 + self.runs.values().filter(|run| run.workflow_id == workflow_id).count() as u64;
        let attempt = self.attempt(1, actor, new.jobs.iter().map(|job| job.name.clone()).collect());
        let held = new.needs_approval;
        let run = Run {
            id,
            repo_id,
            workflow_id,
            suite_id,
            run_number,
            spec: new,
            head_sha: sha.to_owned(),
            head_branch,
            actor: actor.to_owned(),
            created_ms: self.now_ms,
            attempts: vec![attempt],
            unretryable: false,
            job_ids: Vec::new(),
            newest: BTreeMap::new(),
        };
        self.runs.insert(id, run);
        self.note_run(id, "requested");
        if held {
            self.end_attempt(id, "action_required");
        } else {
            self.settle(id);
        }
        id
    }

    pub fn attempt(&self, number: u32, by: &str, planned: BTreeSet<String>) -> Attempt {
        Attempt {
            number,
            status: "queued".to_owned(),
            conclusion: None,
            started_ms: self.now_ms,
            updated_ms: self.now_ms,
            triggered_by: by.to_owned(),
            planned,
        }
    }

    /// The workflow of this file, made when unknown.
    pub fn workflow_of(&mut self, repo_id: u64, new: &NewWorkflow) -> u64 {
        let known = self.workflows.values().find(|w| w.repo_id == repo_id && w.new.path == new.path);
        if let Some(workflow) = known {
            return workflow.id;
        }
        let id = self.id();
        let workflow = Workflow { id, repo_id, new: new.clone(), created_ms: self.now_ms };
        self.workflows.insert(id, workflow);
        id
    }

    /// Brings jobs into being whose needs are done, then ends the attempt if nothing is left to do.
    pub fn settle(&mut self, run_id: u64) {
        loop {
            let ready = self.ready(run_id);
            if ready.is_empty() {
                break;
            }
            for (name, passed) in ready {
                let job = self.new_job(run_id, &name);
                if !passed {
                    self.complete_job(job, "skipped");
                }
            }
        }
        let attempt = self.run(run_id).latest();
        let ended = |name: &String| {
            let job = self.newest_job(run_id, name);
            job.is_some_and(|job| job.attempt == attempt.number && job.conclusion.is_some())
        };
        if attempt.conclusion.is_none() && attempt.planned.iter().all(ended) {
            let conclusion = self.conclusion_of(run_id);
            self.end_attempt(run_id, conclusion);
        }
    }

    /// The planned jobs that do not exist yet and whose needs are all completed; with each, whether those passed.
    fn ready(&self, run_id: u64) -> Vec<(String, bool)> {
        let run = self.run(run_id);
        let attempt = run.latest();
        if attempt.conclusion.is_some() {
            return Vec::new();
        }
        let result = |name: &str| {
            let job = self.newest_job(run_id, name)?;
            let stale = attempt.planned.contains(name) && job.attempt != attempt.number;
            if stale { None } else { job.conclusion.as_deref() }
        };
        let missing = run.spec.jobs.iter().filter(|job| {
            let newest = self.newest_job(run_id, &job.name);
            attempt.planned.contains(&job.name) && newest.is_none_or(|newest| newest.attempt != attempt.number)
        });
        let with_results = missing.filter_map(|job| {
            let results: Option<Vec<&str>> = job.needs.iter().map(|need| result(need)).collect();
            Some((job.name.clone(), results?.iter().all(|result| *result == "success")))
        });
        with_results.collect()
    }

    /// The run's conclusion: over the newest record of each job, whatever attempt it is of.
    fn conclusion_of(&self, run_id: u64) -> &'static str {
        let names = self.run(run_id).spec.jobs.iter().map(|job| job.name.as_str());
        let results: Vec<&str> = names
            .filter_map(|name| self.newest_job(run_id, name))
            .filter_map(|job| job.conclusion.as_deref())
            .collect();
        if results.iter().any(|r| matches!(*r, "failure" | "timed_out")) {
            "failure"
        } else if results.contains(&"cancelled") {
            "cancelled"
        } else if results.iter().all(|r| *r == "skipped") && !results.is_empty() {
            "skipped"
        } else {
            "success"
        }
    }

    fn new_job(&mut self, run_id: u64, name: &str) -> u64 {
        let (id, check_id, now) = (self.id(), self.id(), self.now_ms);
        let run = self.run(run_id);
        let (repo_id, suite_id, attempt, sha) = (run.repo_id, run.suite_id, run.latest().number, run.head_sha.clone());
        let web = self.web_url(self.repo(repo_id));
        let job = Job {
            id,
            run_id,
            repo_id,
            attempt,
            name: name.to_owned(),
            status: "queued".to_owned(),
            conclusion: None,
            check_id,
            created_ms: now,
            started_ms: None,
            completed_ms: None,
            log: String::new(),
            lost: false,
        };
        let check = Check {
            id: check_id,
            suite_id,
            repo_id,
            app_id: ACTIONS_APP_ID,
            head_sha: sha,
            name: name.to_owned(),
            status: "queued".to_owned(),
            conclusion: None,
            external_id: format!("job-{id}"),
            details_url: Some(format!("{web}/actions/runs/{run_id}/job/{id}")),
            output: Output::default(),
            actions: Vec::new(),
            started_ms: Some(now),
            completed_ms: None,
        };
        self.jobs.insert(id, job);
        let run = self.run_mut(run_id);
        run.job_ids.push(id);
        run.newest.insert(name.to_owned(), id);
        self.checks.insert(check_id, check);
        self.note_job(id, "queued");
        self.note_check(check_id, "created", None);
        id
    }

    pub fn start_job(&mut self, job_id: u64) {
        let now = self.now_ms;
        let Some(job) = self.jobs.get_mut(&job_id).filter(|job| job.status == "queued") else { return };
        job.status = "in_progress".to_owned();
        job.started_ms = Some(now);
        let (run_id, check_id) = (job.run_id, job.check_id);
        if let Some(check) = self.checks.get_mut(&check_id) {
            check.status = "in_progress".to_owned();
            check.started_ms = Some(now);
        }
        self.note_job(job_id, "in_progress");
        let run = self.run_mut(run_id);
        if run.latest().status == "queued" {
            let attempt = run.latest_mut();
            attempt.status = "in_progress".to_owned();
            attempt.updated_ms = now;
            let suite_id = run.suite_id;
            if let Some(suite) = self.suites.get_mut(&suite_id) {
                suite.status = "in_progress".to_owned();
            }
            self.note_run(run_id, "in_progress");
        }
    }

    /// Ends a job without looking at the rest of its run; a job that already ended stays as it is.
    pub fn complete_job(&mut self, job_id: u64, conclusion: &str) {
        let now = self.now_ms;
        let Some(job) = self.jobs.get_mut(&job_id).filter(|job| job.conclusion.is_none()) else { return };
        job.status = "completed".to_owned();
        job.conclusion = Some(conclusion.to_owned());
        job.completed_ms = Some(now);
        let (check_id, lost, name) = (job.check_id, job.lost, job.name.clone());
        if let Some(check) = self.checks.get_mut(&check_id) {
            check.status = "completed".to_owned();
            check.conclusion = Some(conclusion.to_owned());
            check.completed_ms = Some(now);
            if lost {
                check.output.annotations.push(annotation(LOST_TEXT));
            } else if conclusion == "failure" {
                check.output.annotations.push(annotation(&format!("{name}: process completed with exit code 1.")));
            }
        }
        self.note_job(job_id, "completed");
        self.note_check(check_id, "completed", None);
    }

    pub fn finish_job(&mut self, job_id: u64, conclusion: &str) {
        self.start_job(job_id);
        self.complete_job(job_id, conclusion);
        if let Some(job) = self.jobs.get(&job_id) {
            let run_id = job.run_id;
            self.settle(run_id);
        }
    }

    /// Cancels what is left of the newest attempt.
    pub fn cancel_run(&mut self, run_id: u64) {
        let open: Vec<u64> = self.jobs_of(run_id).filter(|job| job.conclusion.is_none()).map(|job| job.id).collect();
        for job in open {
            self.complete_job(job, "cancelled");
        }
        self.end_attempt(run_id, "cancelled");
    }

    pub fn end_attempt(&mut self, run_id: u64, conclusion: &str) {
        let now = self.now_ms;
        let run = self.run_mut(run_id);
        let attempt = run.latest_mut();
        attempt.status = "completed".to_owned();
        attempt.conclusion = Some(conclusion.to_owned());
        attempt.updated_ms = now;
        let suite_id = run.suite_id;
        self.set_suite(suite_id, "completed", Some(conclusion));
        self.note_run(run_id, "completed");
        self.note_suite(suite_id, "completed", None);
    }

    pub fn set_suite(&mut self, suite_id: u64, status: &str, conclusion: Option<&str>) {
        let now = self.now_ms;
        if let Some(suite) = self.suites.get_mut(&suite_id) {
            suite.status = status.to_owned();
            suite.conclusion = conclusion.map(str::to_owned);
            suite.updated_ms = now;
        }
    }

    pub fn note_run(&mut self, run_id: u64, action: &str) {
        let run = self.run(run_id);
        let attempt = run.latest();
        let body = json!({
            "workflow_run": self.run_body(run, attempt),
            "workflow": self.workflows.get(&run.workflow_id).map(|workflow| self.workflow_body(workflow)),
        });
        let (repo_id, sender) = (run.repo_id, attempt.triggered_by.clone());
        self.emit(&Note::new("workflow_run", repo_id, &sender).action(action), body);
    }

    fn note_job(&mut self, job_id: u64, action: &str) {
        let Some(job) = self.jobs.get(&job_id) else { return };
        let (repo_id, sender) = (job.repo_id, self.run(job.run_id).latest().triggered_by.clone());
        let body = json!({"workflow_job": self.job_body(job)});
        self.emit(&Note::new("workflow_job", repo_id, &sender).action(action), body);
    }

    /// Tells of a check run; `rerequested` and `requested_action` reach its own App only.
    pub fn note_check(&mut self, check_id: u64, action: &str, press: Option<(&str, serde_json::Value)>) {
        let Some(check) = self.checks.get(&check_id) else { return };
        let mut body = json!({"check_run": self.check_event_body(check)});
        let (repo_id, app_id) = (check.repo_id, check.app_id);
        let sender = press.as_ref().map_or_else(|| self.app_login(app_id), |(login, _)| (*login).to_owned());
        if let Some((_, more)) = press.as_ref() {
            super::bodies::extend(&mut body, more.clone());
        }
        let mut note = Note::new("check_run", repo_id, &sender).action(action);
        if press.is_some() {
            note = note.only_for(app_id);
        }
        self.emit(&note, body);
        if action == "completed" {
            self.judge_queue(repo_id);
        }
    }

    /// Tells of a check suite; with `presser` it is a press of "re-run" and reaches its own App only.
    pub fn note_suite(&mut self, suite_id: u64, action: &str, presser: Option<&str>) {
        let Some(suite) = self.suites.get(&suite_id) else { return };
        let body = json!({"check_suite": self.suite_body(suite)});
        let (repo_id, app_id) = (suite.repo_id, suite.app_id);
        let sender = presser.map_or_else(|| self.app_login(app_id), str::to_owned);
        let mut note = Note::new("check_suite", repo_id, &sender).action(action);
        if presser.is_some() {
            note = note.only_for(app_id);
        }
        self.emit(&note, body);
    }

    pub fn app_login(&self, app_id: u64) -> String {
        let slug = self.apps.iter().find(|app| app.id == app_id).map_or("unknown", |app| app.slug.as_str());
        format!("{slug}[bot]")
    }
}

/// `picked` and all jobs that need one of them, directly or not.
pub(super) fn with_dependents(jobs: &[NewJob], mut picked: BTreeSet<String>) -> BTreeSet<String> {
    loop {
        let before = picked.len();
        for job in jobs {
            if job.needs.iter().any(|need| picked.contains(need)) {
                picked.insert(job.name.clone());
            }
        }
        if picked.len() == before {
            return picked;
        }
    }
}

fn annotation(message: &str) -> serde_json::Value {
    json!({
        "path": ".github", "blob_href": "http://localhost/blob", "start_line": 1, "end_line": 1,
        "start_column": null, "end_column": null, "annotation_level": "failure",
        "title": "", "message": message, "raw_details": "",
    })
}
