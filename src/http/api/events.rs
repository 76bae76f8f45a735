//! `POST …/events`: a `run` event for the planner or the dispatcher.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use globset::{Glob, GlobMatcher};
use sha2::{Digest, Sha256};

use super::auth::{Caller, Scope};
use super::jobs;
use super::problem::Problem;
use super::wire::{self, EventIn, EventOut, FilterIn, LeftOut, RetryOut, RunIn, StageIn};
use crate::domain::{CommitSha, Repo, RunnerName};
use crate::flow::{Filter, PlannerPlace, PlannerWish, Request, RequestOutcome, RunWish, Wanted};
use crate::http::Http;
use crate::ports::DEFINITION;

/// Longest reason in characters.
const REASON_CHARS_MAX: usize = 200;

/// Longest idempotency key in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Takes a `run` event. To the planner: run again what of a revision, or of a build, ended badly or is named. To the
/// dispatcher: start one run as described. The retries in the answer are stored and can be followed by their ids.
/// The header `Idempotency-Key` makes a repetition harmless: it gets the first answer.
#[utoipa::path(
    post,
    path = "/api/v1/events",
    params(("Idempotency-Key" = Option<String>, Header, description = "Your own key of this event, at most 255 bytes")),
    request_body = EventIn,
    responses(
        (status = 202, description = "Stored; follow the retries", body = EventOut),
        (status = 200, description = "Nothing to start; `left` says why", body = EventOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Nothing was stored; send it again", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn post(State(http): State<Http>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    // Which scope is needed stands in the body; a caller without a token does not get that far.
    let caller = Caller::check(&http, &headers, Scope::RetriesCreate)
        .or_else(|problem| Caller::check(&http, &headers, Scope::RunsCreate).map_err(|_| problem))?;
    let (event, bytes): (EventIn, _) = wire::read(&http, &headers, body).await?;
    if event.kind != "run" {
        return Err(Problem::wrong("`kind` must be `run`; no other event is taken"));
    }
    let once = once(&headers, &bytes)?;
    let reason = reason(event.reason.as_deref());
    let wanted = match event.to {
        StageIn::Planner => {
            caller.may(Scope::RetriesCreate)?;
            Wanted::Planner(planner(&http, &caller, event).await?)
        }
        StageIn::Dispatcher => {
            caller.may(Scope::RunsCreate)?;
            Wanted::Dispatcher(dispatcher(&http, &caller, event).await?)
        }
    };
    let request = Request { client: caller.client(), once, wanted, reason };
    let outcome = http.world.request(&request, |outcome| text(&answer(outcome))).await?;
    tracing::info!(client = %request.client.name, retries = outcome.retries.len(), left = outcome.left.len(), "a run event was taken");
    let (body, nothing) = match outcome.earlier {
        Some(earlier) => {
            let nothing = earlier.contains("\"retries\":[]");
            (earlier, nothing)
        }
        None => (text(&answer(&outcome)), outcome.retries.is_empty()),
    };
    let status = if nothing { StatusCode::OK } else { StatusCode::ACCEPTED };
    let kind = HeaderValue::from_static("application/json");
    Ok((status, [(header::CONTENT_TYPE, kind)], body).into_response())
}

fn answer(outcome: &RequestOutcome) -> EventOut {
    EventOut {
        retries: outcome.retries.iter().map(|retry| RetryOut::new(retry, None, None)).collect(),
        left: outcome.left.iter().map(LeftOut::new).collect(),
    }
}

fn text(answer: &EventOut) -> String {
    serde_json::to_string(answer).unwrap_or_default()
}

fn once(headers: &HeaderMap, body: &[u8]) -> Result<Option<(String, String)>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().unwrap_or_default();
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Problem::wrong(format!("`Idempotency-Key` must be 1 to {KEY_BYTES_MAX} plain characters")));
    }
    Ok(Some((key.to_owned(), hex::encode(Sha256::digest(body)))))
}

fn reason(text: Option<&str>) -> Option<String> {
    let plain: String = text?.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
    (!plain.trim().is_empty()).then(|| plain.trim().to_owned())
}

async fn planner(http: &Http, caller: &Caller<'_>, event: EventIn) -> Result<PlannerWish, Problem> {
    if event.run.is_some() {
        return Err(Problem::wrong(
            "`run` is for the dispatcher; the planner takes `revision` or `node`, and `filter`",
        ));
    }
    if event.force {
        caller.may(Scope::RetriesForce)?;
    }
    let place = match (&event.revision, &event.node) {
        (Some(revision), None) => {
            let repo = jobs::repo(http, caller, &revision.forge, &revision.repository).await?;
            PlannerPlace::Revision(repo, jobs::sha(&revision.sha)?)
        }
        (None, Some(node)) => {
            let runner = node_runner(http, node.runner.as_deref())?;
            reaches_node(http, caller, &runner, &node.id).await?;
            PlannerPlace::Node(runner, node.id.clone())
        }
        _ => return Err(Problem::wrong("name exactly one of `revision` and `node`")),
    };
    Ok(PlannerWish { place, filter: filter(&event.filter)?, overrides: event.overrides, force: event.force })
}

/// The runner of a node: the named one, or the only one that knows builds.
fn node_runner(http: &Http, name: Option<&str>) -> Result<RunnerName, Problem> {
    if let Some(name) = name {
        return Ok(RunnerName::new(name));
    }
    let mut knowing = http.world.runners.iter().filter(|entry| entry.runner.lists());
    match (knowing.next(), knowing.next()) {
        (Some(only), None) => Ok(only.runner.name().clone()),
        (None, _) => Err(Problem::wrong("no configured runner knows builds; name a `revision`")),
        (Some(_), Some(_)) => Err(Problem::wrong("several runners know builds; name one in `node.runner`")),
    }
}

/// A node is within reach when everything is, or when the change whose head was built is.
async fn reaches_node(http: &Http, caller: &Caller<'_>, runner: &RunnerName, id: &str) -> Result<(), Problem> {
    if caller.reaches_all() {
        return Ok(());
    }
    let entry = http.world.runner(runner);
    let commit = match entry {
        Some(entry) => entry.runner.commit_of(id).await.map_err(crate::flow::RequestError::from)?,
        None => None,
    };
    for change in http.world.store.changes_anywhere(&commit.ok_or_else(|| out_of_reach(id))?).await? {
        if let Some(repo) = http.world.store.repo(&change.key.repo).await? {
            // The first one is what the planner takes.
            return if caller.reaches(&repo) { Ok(()) } else { Err(out_of_reach(id)) };
        }
    }
    Err(out_of_reach(id))
}

fn out_of_reach(id: &str) -> Problem {
    Problem::unknown(format!("no node `{id}` is within the repositories of this token"))
}

fn filter(given: &FilterIn) -> Result<Filter, Problem> {
    let globs = |words: &[String]| -> Result<Vec<GlobMatcher>, Problem> {
        let glob = |word: &String| Glob::new(word).map(|glob| glob.compile_matcher());
        let globs: Result<Vec<GlobMatcher>, globset::Error> = words.iter().map(glob).collect();
        globs.map_err(|error| Problem::wrong(format!("`filter`: {error}")))
    };
    Ok(Filter { jobs: globs(&given.jobs)?, platforms: globs(&given.platforms)? })
}

async fn dispatcher(http: &Http, caller: &Caller<'_>, event: EventIn) -> Result<RunWish, Problem> {
    let planners = event.node.is_some() || event.force || !event.overrides.is_empty();
    let filtered = !event.filter.jobs.is_empty() || !event.filter.platforms.is_empty();
    if planners || filtered {
        let detail = "`node`, `filter`, `overrides` and `force` are for the planner; the dispatcher takes `run`";
        return Err(Problem::wrong(detail));
    }
    let run = event.run.ok_or_else(|| Problem::wrong("`run` is missing: what shall be started?"))?;
    let revision: Option<(Repo, CommitSha)> = match &event.revision {
        Some(revision) => {
            let repo = jobs::repo(http, caller, &revision.forge, &revision.repository).await?;
            Some((repo, jobs::sha(&revision.sha)?))
        }
        None if caller.reaches_all() => None,
        None => {
            let detail = "this token is bound to repositories; name the `revision` that the run is about";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
    };
    let (runner, job, overrides) = described(http, run)?;
    if http.world.runner(&runner).is_none() {
        return Err(Problem::unknown(format!("no runner is called `{runner}`")));
    }
    Ok(RunWish { runner, job, overrides, revision })
}

/// Runner, name and fields of a described run.
fn described(http: &Http, run: RunIn) -> Result<(RunnerName, String, BTreeMap<String, String>), Problem> {
    match (run.template, run.runner, run.job) {
        (Some(name), None, None) if run.definition.is_none() => {
            let templates = &http.world.rules.templates;
            let template = templates.iter().find(|template| template.name == name).ok_or_else(|| {
                let known: Vec<&str> = templates.iter().map(|t| t.name.as_str()).collect();
                Problem::unknown(format!("no template is called `{name}`; there are: {}", known.join(", ")))
            })?;
            let filled = template.fill(&run.parameters).map_err(|error| Problem::wrong(error.to_string()))?;
            Ok((template.runner.clone(), template.job.to_string(), filled))
        }
        (None, Some(runner), Some(job)) if !job.trim().is_empty() && job.len() <= 255 => {
            let mut overrides = run.parameters;
            overrides.extend(run.definition.map(|definition| (DEFINITION.to_owned(), definition)));
            Ok((RunnerName::new(runner), job, overrides))
        }
        _ => Err(Problem::wrong("describe the run either by `template` alone, or by `runner` and `job`")),
    }
}
