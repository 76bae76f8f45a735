//! The routes of the stand-in, with LAVA's own answers: 403 for a bad token, cancel by GET, 404 for what is not there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, Query, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{SandboxJob, State};

type Lab = Shared<Arc<Mutex<State>>>;
type Asked = Query<Vec<(String, String)>>;

pub(super) fn router(state: Arc<Mutex<State>>) -> Router {
    Router::new()
        .route("/api/v0.2/jobs/", get(list).post(submit))
        .route("/api/v0.2/jobs/{id}/", get(show))
        .route("/api/v0.2/jobs/{id}/cancel/", get(cancel))
        .route("/api/v0.2/jobs/{id}/tests/", get(tests))
        .route("/api/v0.2/jobs/{id}/suites/", get(suites))
        .route("/api/v0.2/jobs/{id}/logs/", get(logs))
        .with_state(state)
}

fn locked(lab: &Arc<Mutex<State>>) -> MutexGuard<'_, State> {
    lab.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state, for somebody whose token is right; anonymous people may read.
fn open<'l>(
    lab: &'l Arc<Mutex<State>>,
    headers: &HeaderMap,
    write: bool,
) -> Result<MutexGuard<'l, State>, Box<Response>> {
    let state = locked(lab);
    let refuse = |text: &str| Box::new((StatusCode::FORBIDDEN, Json(json!({ "detail": text }))).into_response());
    match headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) {
        Some(given) if given == format!("Token {}", state.token) => Ok(state),
        Some(_) => Err(refuse("Invalid token.")),
        None if write => Err(refuse("Authentication credentials were not provided.")),
        None => Ok(state),
    }
}

fn gone() -> Response {
    (StatusCode::NOT_FOUND, Json(json!({ "detail": "Not found." }))).into_response()
}

fn asked<'q>(query: &'q [(String, String)], key: &str) -> Option<&'q str> {
    query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

/// One page of a list, as Django REST framework answers it.
fn page(query: &[(String, String)], all: &[Value]) -> Response {
    let number = |key: &str, usual: usize| asked(query, key).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (offset, limit) = (number("offset", 0), number("limit", 50));
    let results: Vec<&Value> = all.iter().skip(offset).take(limit).collect();
    let next = (offset + results.len() < all.len()).then(|| format!("?limit={limit}&offset={}", offset + limit));
    Json(json!({ "count": all.len(), "next": next, "previous": null, "results": results })).into_response()
}

fn body(job: &SandboxJob) -> Value {
    let line = |key: &str| {
        let found = job.definition.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        found.map(|text| text.trim_matches(['"', '\'']).to_owned())
    };
    let group = job.member.map(|(first, place)| {
        let own = format!("    sub_id: {place}\n    target_group: group-{first}\n");
        format!("{}\nprotocols:\n  lava-multinode:\n{own}", without_protocols(&job.definition))
    });
    json!({
        "id": job.id, "submitter": "ci", "viewing_groups": [], "description": line("job_name"), "health_check": false,
        "requested_device_type": line("device_type"), "tags": [], "actual_device": null,
        "submit_time": "2026-01-01T00:00:00.000000Z", "start_time": null, "end_time": null,
        "state": job.state, "health": job.health, "priority": 50,
        "definition": group.as_ref().unwrap_or(&job.definition),
        "original_definition": group.as_ref().unwrap_or(&job.definition),
        "multinode_definition": if group.is_some() { job.definition.as_str() } else { "" },
        "failure_tags": [], "failure_comment": null, "token": "secret-of-the-worker",
    })
}

fn without_protocols(definition: &str) -> String {
    let mut inside = false;
    let kept = definition.lines().filter(|line| {
        inside = if line.starts_with([' ', '-', '#']) { inside } else { line.starts_with("protocols:") };
        !inside
    });
    kept.collect::<Vec<_>>().join("\n")
}

async fn list(Shared(lab): Lab, headers: HeaderMap, Query(query): Asked) -> Response {
    let state = match open(&lab, &headers, false) {
        Ok(state) => state,
        Err(refused) => return *refused,
    };
    let fits = |job: &&SandboxJob| {
        let of_group = |wanted: &str| job.member.is_some_and(|(first, _)| wanted == format!("group-{first}"));
        asked(&query, "definition__contains").is_none_or(|text| job.definition.contains(text))
            && asked(&query, "target_group").is_none_or(of_group)
    };
    let mut found: Vec<Value> = state.jobs.iter().filter(fits).map(body).collect();
    if asked(&query, "ordering") == Some("-id") {
        found.reverse();
    }
    page(&query, &found)
}

async fn submit(Shared(lab): Lab, headers: HeaderMap, Json(asked): Json<Value>) -> Response {
    let mut state = match open(&lab, &headers, true) {
        Ok(state) => state,
        Err(refused) => return *refused,
    };
    let refuse = |answer: Value| (StatusCode::BAD_REQUEST, Json(answer)).into_response();
    let Some(definition) = asked["definition"].as_str() else {
        return refuse(json!({ "definition": ["This field is required."] }));
    };
    if !definition.contains("timeouts:") {
        let text = "Problem with submitted job data: required key not provided @ data['timeouts']";
        return refuse(json!({ "message": text }));
    }
    if definition.contains("retired-board") {
        return refuse(
            json!({ "message": "Devices unavailable: No devices of the requested type are currently available" }),
        );
    }
    let ids = state.submit(definition);
    let named = |(place, id): (usize, &u64)| match ids.as_slice() {
        [only] => json!(only),
        _ => json!(format!("{}.{place}", ids.first().unwrap_or(id))),
    };
    let names: Vec<Value> = ids.iter().enumerate().map(named).collect();
    (StatusCode::CREATED, Json(json!({ "message": "job(s) successfully submitted", "job_ids": names }))).into_response()
}

/// Answers with one job.
fn with_job(
    lab: &Arc<Mutex<State>>,
    headers: &HeaderMap,
    id: &str,
    f: impl FnOnce(&mut SandboxJob) -> Response,
) -> Response {
    match open(lab, headers, false) {
        Ok(mut state) => match state.jobs.iter_mut().find(|job| job.id.to_string() == id) {
            Some(job) => f(job),
            None => gone(),
        },
        Err(refused) => *refused,
    }
}

async fn show(Shared(lab): Lab, headers: HeaderMap, Path(id): Path<String>) -> Response {
    with_job(&lab, &headers, &id, |job| Json(body(job)).into_response())
}

async fn cancel(Shared(lab): Lab, headers: HeaderMap, Path(id): Path<String>) -> Response {
    with_job(&lab, &headers, &id, |job| {
        match job.state.as_str() {
            "Finished" => {}
            "Running" => job.state = "Canceling".into(),
            _ => {
                job.state = "Finished".into();
                job.health = "Canceled".into();
            }
        }
        Json(json!({ "message": "Job cancel signal sent." })).into_response()
    })
}

/// The suites of a job in order of their first result.
fn suites_of(job: &SandboxJob) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (suite, ..) in &job.results {
        if !names.contains(&suite.as_str()) {
            names.push(suite);
        }
    }
    names
}

async fn suites(Shared(lab): Lab, headers: HeaderMap, Path(id): Path<String>, Query(query): Asked) -> Response {
    with_job(&lab, &headers, &id, |job| {
        let row = |(at, name): (usize, &str)| json!({ "id": at, "name": name, "job": job.id });
        page(&query, &suites_of(job).into_iter().enumerate().map(row).collect::<Vec<_>>())
    })
}

async fn tests(Shared(lab): Lab, headers: HeaderMap, Path(id): Path<String>, Query(query): Asked) -> Response {
    with_job(&lab, &headers, &id, |job| {
        let suites = suites_of(job);
        let rows = job.results.iter().enumerate().filter(|(_, (suite, case, result, _))| {
            let fits = |key: &str, own: &str| asked(&query, key).is_none_or(|wanted| wanted == own);
            fits("suite__name", suite) && fits("name", case) && fits("result", result)
        });
        let row = |(at, (suite, case, result, metadata)): (usize, &(String, String, String, String))| {
            let suite = suites.iter().position(|name| name == suite);
            json!({ "id": at, "result": result, "name": case, "metadata": metadata, "suite": suite, "unit": "" })
        };
        page(&query, &rows.map(row).collect::<Vec<_>>())
    })
}

async fn logs(Shared(lab): Lab, headers: HeaderMap, Path(id): Path<String>) -> Response {
    with_job(&lab, &headers, &id, |job| if job.log.is_empty() { gone() } else { job.log.clone().into_response() })
}
