//! When GitHub lets a run go again, and what a new attempt consists of.
//!
//! The rules are those of the service: only a completed run, one attempt at a time, 30 days, 50 re-runs. A re-run over
//! the cap is accepted and then fails by itself, as reported of the service. Read next: `routes_ci.rs`.

use std::collections::BTreeSet;

use super::actions::with_dependents;
use super::ask::Answer;
use super::state::State;

/// Age after which a run cannot be re-run, counted from its creation.
const AGE_MS_MAX: i64 = 30 * 24 * 3_600_000;

/// Full and partial re-runs of one run together.
const RERUNS_MAX: u32 = 50;

/// What a re-run starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope {
    /// Every job.
    All,
    /// The jobs whose newest record failed or was cancelled, and what needs them.
    Failed,
    /// One job, by id, and what needs it.
    Job(u64),
}

impl State {
    /// Starts a new attempt of a run, or says in GitHub's words why not.
    pub fn rerun(&mut self, run_id: u64, scope: Scope, by: &str) -> Answer {
        let run = self.run(run_id);
        if run.latest().conclusion.is_none() {
            return Answer::error(403, "This workflow is already running");
        }
        if self.now_ms - run.created_ms > AGE_MS_MAX {
            let text = "Unable to re-run this workflow run because it was created over a month ago";
            return Answer::error(403, text);
        }
        let held = run.latest().conclusion.as_deref() == Some("action_required");
        let planned = self.planned(run_id, scope);
        if self.run(run_id).unretryable || held || planned.is_empty() {
            return Answer::error(403, "This workflow run cannot be retried");
        }
        let number = self.run(run_id).latest().number + 1;
        let suite_id = self.run(run_id).suite_id;
        self.user(by);
        let over = number > RERUNS_MAX + 1;
        let attempt = self.attempt(number, by, if over { BTreeSet::new() } else { planned });
        self.run_mut(run_id).attempts.push(attempt);
        if over {
            self.end_attempt(run_id, "failure");
        } else {
            self.set_suite(suite_id, "queued", None);
            self.note_run(run_id, "requested");
            self.settle(run_id);
        }
        Answer::created(serde_json::json!({}))
    }

    fn planned(&self, run_id: u64, scope: Scope) -> BTreeSet<String> {
        let jobs = &self.run(run_id).spec.jobs;
        let picked: BTreeSet<String> = match scope {
            Scope::All => jobs.iter().map(|job| job.name.clone()).collect(),
            Scope::Failed => {
                let failed = |name: &str| {
                    let result = self.newest_job(run_id, name).and_then(|job| job.conclusion.as_deref());
                    matches!(result, Some("failure" | "cancelled" | "timed_out"))
                };
                jobs.iter().filter(|job| failed(&job.name)).map(|job| job.name.clone()).collect()
            }
            Scope::Job(id) => self.jobs.get(&id).map(|job| job.name.clone()).into_iter().collect(),
        };
        with_dependents(jobs, picked)
    }

    /// Lets a run go that waited for a maintainer's approval.
    pub fn approve(&mut self, run_id: u64) -> Answer {
        let run = self.run_mut(run_id);
        if run.latest().conclusion.as_deref() != Some("action_required") {
            return Answer::error(403, "This workflow run is not waiting for approval");
        }
        let attempt = run.latest_mut();
        attempt.conclusion = None;
        attempt.status = "queued".to_owned();
        let suite_id = run.suite_id;
        self.set_suite(suite_id, "queued", None);
        self.settle(run_id);
        Answer::created(serde_json::json!({}))
    }
}
