//! Pipelines and jobs: lists, one, log, retry, play, cancel, and new pipelines.
//!
//! Read next: `restart.rs`.

use serde_json::Value;

use super::ask::{Answer, Ask, Outcome, page_uncounted};
use super::new::NewPipeline;
use super::restart::NotRetryable;
use super::routes_project::{need, number};
use super::state::{DEVELOPER, Job, JobKind, Pipeline, State};

/// The words that `scope[]` may hold.
const SCOPES: [&str; 13] = [
    "created",
    "waiting_for_resource",
    "preparing",
    "waiting_for_callback",
    "pending",
    "running",
    "success",
    "failed",
    "canceling",
    "canceled",
    "skipped",
    "manual",
    "scheduled",
];

pub(super) fn serve(state: &mut State, ask: &Ask, project: u64, rest: &[&str]) -> Outcome {
    match (ask.method.as_str(), rest) {
        ("GET", ["pipelines"]) => Ok(pipelines(state, ask, project)),
        (_, ["pipelines", id, tail @ ..]) => {
            let id = number(id, "pipeline_id")?;
            if state.pipelines.get(&id).is_none_or(|pipeline| pipeline.project != project) {
                return Err(Answer::no_row());
            }
            of_pipeline(state, ask, id, tail)
        }
        ("POST", ["pipeline"]) => run(state, ask, project),
        ("GET", ["jobs"]) => {
            let all: Vec<u64> = state.jobs.values().filter(|job| job.project == project).map(|job| job.id).collect();
            jobs(state, ask, &all, JobKind::Build)
        }
        (_, ["jobs", id, tail @ ..]) => {
            let id = number(id, "job_id")?;
            let known = |job: &Job| job.project == project && job.kind != JobKind::Status;
            if !state.jobs.get(&id).is_some_and(known) {
                return Err(Answer::no_row());
            }
            of_job(state, ask, id, tail)
        }
        _ => Err(Answer::no_route()),
    }
}

fn pipelines(state: &State, ask: &Ask, project: u64) -> Answer {
    let fits = |pipeline: &&Pipeline| {
        pipeline.project == project
            && ask.some("sha").is_none_or(|wanted| wanted == pipeline.sha)
            && ask.some("ref").is_none_or(|wanted| wanted == pipeline.git_ref)
            && ask.some("status").is_none_or(|wanted| wanted == pipeline.status)
            // Child pipelines are listed only when asked for.
            && match ask.some("source") {
                Some(wanted) => wanted == pipeline.source,
                None => pipeline.source != "parent_pipeline",
            }
    };
    let found = state.pipelines.values().rev().filter(fits);
    page_uncounted(&state.base, ask, found.collect(), |pipeline| state.pipeline_row(pipeline))
}

fn of_pipeline(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Outcome {
    let project = state.pipeline(id).project;
    match (ask.method.as_str(), tail) {
        ("GET", []) => Ok(Answer::ok(state.pipeline_body(state.pipeline(id)))),
        ("GET", ["jobs"]) => jobs(state, ask, &state.pipeline(id).jobs, JobKind::Build),
        ("GET", ["bridges"]) => jobs(state, ask, &state.pipeline(id).jobs, JobKind::Bridge),
        ("POST", ["retry"]) => {
            need(state, ask, project, DEVELOPER)?;
            state.retry_pipeline(id, ask.user);
            Ok(Answer::created(state.pipeline_body(state.pipeline(id))))
        }
        ("POST", ["cancel"]) => {
            need(state, ask, project, DEVELOPER)?;
            state.cancel_pipeline(id);
            Ok(Answer::ok(state.pipeline_body(state.pipeline(id))))
        }
        _ => Err(Answer::no_route()),
    }
}

/// Newest first; what was retried is left out unless asked for, in lists of a pipeline.
fn jobs(state: &State, ask: &Ask, ids: &[u64], kind: JobKind) -> Outcome {
    let scopes = ask.list("scope");
    if scopes.iter().any(|scope| !SCOPES.contains(scope)) {
        return Err(Answer::error(400, "scope does not have a valid value"));
    }
    let of_pipeline = ask.path.iter().any(|part| part == "pipelines");
    let retried_too = !of_pipeline || ask.flag("include_retried") == Some(true);
    let fits = |job: &&Job| {
        job.kind == kind && (retried_too || !job.retried) && (scopes.is_empty() || scopes.contains(&job.status))
    };
    let found = ids.iter().rev().filter_map(|id| state.jobs.get(id)).filter(fits);
    Ok(page_uncounted(&state.base, ask, found.collect(), |job| state.job_body(job)))
}

fn of_job(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Outcome {
    let job = state.job(id);
    let (project, kind) = (job.project, job.kind);
    match (ask.method.as_str(), tail) {
        ("GET", []) if kind == JobKind::Build => Ok(Answer::ok(state.job_body(job))),
        ("GET", ["trace"]) if kind == JobKind::Build => {
            Ok(Answer::text(200, job.log.clone()).with("content-disposition", format!("infile; filename=\"{id}.log\"")))
        }
        ("POST", ["retry"]) => {
            need(state, ask, project, DEVELOPER)?;
            let new = state.retry_job(id, ask.user);
            let new = new.map_err(|NotRetryable| Answer::message(403, "403 Forbidden - Job is not retryable"))?;
            Ok(Answer::created(state.job_body(state.job(new))))
        }
        ("POST", ["play"]) => {
            need(state, ask, project, DEVELOPER)?;
            if !state.is_playable(id) {
                return Err(Answer::message(400, "400 Bad request - Unplayable Job"));
            }
            let new = state.play_job(id, ask.user, variables(ask, "job_variables_attributes"));
            Ok(Answer::ok(state.job_body(state.job(new))))
        }
        ("POST", ["cancel"]) if kind == JobKind::Build => {
            need(state, ask, project, DEVELOPER)?;
            state.cancel_job(id);
            Ok(Answer::created(state.job_body(state.job(id))))
        }
        _ => Err(Answer::no_row()),
    }
}

/// `[{"key": …, "value": …}]` in a JSON body, or `name[][key]=…&name[][value]=…` in a form.
fn variables(ask: &Ask, name: &str) -> Vec<(String, String)> {
    let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
    let items = ask.json.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut found: Vec<(String, String)> =
        items.filter_map(|item| Some((text(item, "key")?, text(item, "value")?))).collect();
    let (key, value) = (format!("{name}[][key]"), format!("{name}[][value]"));
    for (field, text) in &ask.params {
        if *field == key {
            found.push((text.clone(), String::new()));
        } else if *field == value
            && let Some((_, last)) = found.last_mut()
        {
            last.clone_from(text);
        }
    }
    found
}

/// `POST /projects/:id/pipeline`: a new pipeline of a branch.
fn run(state: &mut State, ask: &Ask, project: u64) -> Outcome {
    need(state, ask, project, DEVELOPER)?;
    let branch = ask.some("ref").ok_or_else(|| Answer::error(400, "ref is missing"))?.to_owned();
    let home = state.project(project);
    let Some(sha) = home.branches.get(&branch).cloned() else {
        return Err(Answer::field("base", "Reference not found"));
    };
    if home.ci.is_empty() {
        return Err(Answer::field("base", "The resulting pipeline would have been empty."));
    }
    let new =
        NewPipeline { sha, source: "api".to_owned(), git_ref: branch, jobs: home.ci.clone(), ..NewPipeline::default() };
    let id = state.create_pipeline(project, new, ask.user);
    let given = variables(ask, "variables");
    for job in state.pipeline(id).jobs.clone() {
        state.job_mut(job).variables.clone_from(&given);
    }
    Ok(Answer::created(state.pipeline_body(state.pipeline(id))))
}
