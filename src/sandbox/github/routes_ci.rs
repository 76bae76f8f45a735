//! GitHub Actions over REST: runs, attempts, jobs, logs, re-runs, cancelling, dispatching.
//!
//! Read next: `reruns.rs`.

use serde_json::{Value, json};

use super::ask::{Answer, Ask, counted};
use super::reruns::Scope;
use super::routes::LOGS;
use super::state::{Job, Run, State, Workflow};

pub(super) fn route(state: &mut State, ask: &Ask, id: u64, rest: &[&str]) -> Answer {
    match rest {
        ["actions", "runs"] => runs(state, ask, id, |_| true),
        ["actions", "runs", run, tail @ ..] => {
            let found = run.parse().ok().and_then(|run: u64| state.runs.get(&run));
            match found.filter(|run| run.repo_id == id).map(|run| run.id) {
                Some(run) => one_run(state, ask, run, tail),
                None => Answer::not_found(),
            }
        }
        ["actions", "jobs", job, tail @ ..] => {
            let found = job.parse().ok().and_then(|job: u64| state.jobs.get(&job));
            match found.filter(|job| job.repo_id == id).map(|job| job.id) {
                Some(job) => one_job(state, ask, job, tail),
                None => Answer::not_found(),
            }
        }
        ["actions", "workflows", tail @ ..] => workflows(state, ask, id, tail),
        _ => Answer::not_found(),
    }
}

fn runs(state: &State, ask: &Ask, id: u64, fits: impl Fn(&Run) -> bool) -> Answer {
    let is = |key: &str, value: &str| ask.query(key).is_none_or(|wanted| wanted == value);
    let found = state.runs.values().rev().filter(|run| {
        let attempt = run.latest();
        let result = attempt.conclusion.as_deref().unwrap_or_default();
        run.repo_id == id
            && fits(run)
            && is("head_sha", &run.head_sha)
            && is("branch", &run.head_branch)
            && is("event", &run.spec.event)
            && is("check_suite_id", &run.suite_id.to_string())
            && (is("status", &attempt.status) || is("status", result))
    });
    counted(&state.api, ask, ("workflow_runs", found.collect()), |run| state.run_body(run, run.latest()))
}

fn one_run(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Answer {
    let by = state.login_of(&ask.who);
    match (ask.method.as_str(), tail) {
        ("GET", []) => {
            let run = state.run(id);
            Answer::ok(state.run_body(run, run.latest()))
        }
        ("GET", ["jobs"]) => match ask.query("filter") {
            Some("all") => jobs(state, ask, state.jobs_of(id)),
            _ => latest_jobs(state, ask, id),
        },
        ("GET", ["attempts", number, tail @ ..]) => {
            let run = state.run(id);
            let found = number.parse().ok().and_then(|n: u32| run.attempts.iter().find(|a| a.number == n));
            match (found, tail) {
                (Some(attempt), []) => Answer::ok(state.run_body(run, attempt)),
                (Some(attempt), ["jobs"]) => {
                    jobs(state, ask, state.jobs_of(id).filter(|job| job.attempt == attempt.number))
                }
                _ => Answer::not_found(),
            }
        }
        ("GET", ["concurrency_groups"]) => Answer::ok(json!({"total_count": 0, "concurrency_groups": []})),
        ("POST", ["rerun"]) => state.rerun(id, Scope::All, &by),
        ("POST", ["rerun-failed-jobs"]) => state.rerun(id, Scope::Failed, &by),
        ("POST", ["cancel" | "force-cancel"]) => {
            if state.run(id).latest().conclusion.is_some() {
                return Answer::error(409, "Cannot cancel a workflow run that is completed.");
            }
            state.cancel_run(id);
            Answer::json(202, json!({}))
        }
        ("POST", ["approve"]) => state.approve(id),
        _ => Answer::not_found(),
    }
}

fn jobs<'a>(state: &State, ask: &Ask, found: impl Iterator<Item = &'a Job>) -> Answer {
    counted(&state.api, ask, ("jobs", found.collect()), |job| state.job_body(job))
}

/// The newest record of each job; under the trap, only those of the last attempt.
fn latest_jobs(state: &State, ask: &Ask, id: u64) -> Answer {
    let run = state.run(id);
    let last = run.latest().number;
    let newest = run.spec.jobs.iter().filter_map(|job| state.newest_job(id, &job.name));
    jobs(state, ask, newest.filter(|job| !state.latest_trap || job.attempt == last))
}

fn one_job(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Answer {
    let Some(job) = state.jobs.get(&id) else { return Answer::not_found() };
    match (ask.method.as_str(), tail) {
        ("GET", []) => Answer::ok(state.job_body(job)),
        ("GET", ["logs"]) if job.conclusion.is_none() => Answer::not_found(),
        ("GET", ["logs"]) => Answer::nothing(302).with("location", format!("{}/{LOGS}/{id}", state.api)),
        ("POST", ["rerun"]) => {
            let (run_id, by) = (job.run_id, state.login_of(&ask.who));
            state.rerun(run_id, Scope::Job(id), &by)
        }
        _ => Answer::not_found(),
    }
}

fn workflows(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Answer {
    let of_repo = |workflow: &&Workflow| workflow.repo_id == id;
    if let ("GET", []) = (ask.method.as_str(), tail) {
        let found = state.workflows.values().filter(of_repo).collect();
        return counted(&state.api, ask, ("workflows", found), |workflow| state.workflow_body(workflow));
    }
    let [name, tail @ ..] = tail else { return Answer::not_found() };
    let fits = |w: &&Workflow| w.id.to_string() == *name || w.new.path.rsplit('/').next() == Some(name);
    let Some(workflow) = state.workflows.values().filter(of_repo).find(fits) else {
        return Answer::not_found();
    };
    match (ask.method.as_str(), tail) {
        ("GET", []) => Answer::ok(state.workflow_body(workflow)),
        ("GET", ["runs"]) => {
            let wanted = workflow.id;
            runs(state, ask, id, |run| run.workflow_id == wanted)
        }
        ("POST", ["dispatches"]) => {
            let new = workflow.new.clone();
            dispatch(state, ask, id, new)
        }
        _ => Answer::not_found(),
    }
}

/// A fresh run on a branch or tag; a SHA is refused.
fn dispatch(state: &mut State, ask: &Ask, id: u64, mut new: super::NewWorkflow) -> Answer {
    let Some(name) = ask.text("ref") else { return Answer::error(422, "Invalid request. \"ref\" wasn't supplied.") };
    let is_sha = name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let sha = super::routes_repo::sha_of(state.repo(id), name).filter(|_| !is_sha);
    let Some(sha) = sha else { return Answer::error(422, &format!("No ref found for: {name}")) };
    if ask.body["inputs"].as_object().is_some_and(|inputs| inputs.len() > 25) {
        return Answer::error(422, "you may only define up to 25 inputs");
    }
    "workflow_dispatch".clone_into(&mut new.event);
    let by = state.login_of(&ask.who);
    let run = state.start_run(id, &sha, &by, new);
    if ask.body["return_run_details"] != Value::Bool(true) {
        return Answer::nothing(204);
    }
    let repo = state.repo(id);
    Answer::ok(json!({
        "workflow_run_id": run,
        "run_url": format!("{}/actions/runs/{run}", state.repo_url(repo)),
        "html_url": format!("{}/actions/runs/{run}", state.web_url(repo)),
    }))
}
