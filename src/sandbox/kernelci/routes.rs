//! The sandbox over HTTP: the part of the Maestro API that clients use, and the pipeline's `jobretry`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Path, Query, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::state::State;

type World = Arc<Mutex<State>>;

pub(super) fn router(state: World) -> Router {
    Router::new()
        .route("/latest/nodes", get(nodes))
        .route("/latest/node/{id}", get(node))
        .route("/latest/publish/{channel}", post(publish))
        .route("/pipeline/api/jobretry", post(jobretry))
        .with_state(state)
}

fn lock(state: &World) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(code: StatusCode, body: Value) -> Response {
    (code, Json(body)).into_response()
}

async fn node(Shared(state): Shared<World>, Path(id): Path<String>) -> Response {
    // No such node is the literal `null`, with 200.
    answer(StatusCode::OK, lock(&state).node(&id).cloned().unwrap_or(Value::Null))
}

async fn nodes(Shared(state): Shared<World>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let number = |name: &str, usual: usize| {
        let given = query.iter().find(|(key, _)| key == name);
        given.and_then(|(_, value)| value.parse().ok()).unwrap_or(usual)
    };
    let (limit, offset) = (number("limit", 50), number("offset", 0));
    let state = lock(&state);
    let fits = |node: &&Value| {
        let conditions = query.iter().filter(|(key, _)| !matches!(key.as_str(), "limit" | "offset"));
        conditions.into_iter().all(|(key, wanted)| condition(node, key, wanted))
    };
    let found: Vec<&Value> = state.nodes.iter().filter(fits).collect();
    let items: Vec<&Value> = found.iter().skip(offset).take(limit).copied().collect();
    answer(StatusCode::OK, json!({"items": items, "total": found.len(), "limit": limit, "offset": offset}))
}

/// One condition of a query: a path of fields, an operator behind `__`, and the word `null` for null.
fn condition(node: &Value, key: &str, wanted: &str) -> bool {
    let (path, operator) = key.split_once("__").unwrap_or((key, "eq"));
    let value = path.split('.').fold(node, |at, field| &at[field]);
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match operator {
        "in" => wanted.split(',').any(|one| one == text),
        "nin" => wanted.split(',').all(|one| one != text),
        "ne" => text != wanted,
        "gte" => text.as_str() >= wanted,
        "gt" => text.as_str() > wanted,
        "lte" => text.as_str() <= wanted,
        "lt" => text.as_str() < wanted,
        _ => text == wanted,
    }
}

async fn publish(
    Shared(state): Shared<World>,
    Path(channel): Path<String>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let mut state = lock(&state);
    let given = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given != format!("Bearer {}", state.options.token) {
        return answer(StatusCode::UNAUTHORIZED, json!({"detail": "Unauthorized"}));
    }
    let data = body["data"].clone();
    if data.as_object().is_none_or(serde_json::Map::is_empty) {
        return answer(StatusCode::UNPROCESSABLE_ENTITY, json!({"detail": "empty data"}));
    }
    if channel == "retry" {
        state.events.push(data.clone());
        state.queue.push(data);
    }
    answer(StatusCode::OK, Value::Null)
}

async fn jobretry(Shared(state): Shared<World>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let state = lock(&state);
    let said = |code, text: &str| answer(code, json!({ "message": text }));
    let given = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given != state.options.pipeline_token {
        return said(StatusCode::UNAUTHORIZED, "Unauthorized"); // a word before the token is wrong, too
    }
    let Some(node) = body["nodeid"].as_str().and_then(|id| state.node(id)) else {
        return said(StatusCode::NOT_FOUND, "Node not found");
    };
    if node["kind"] != "job" {
        return said(StatusCode::BAD_REQUEST, "Node is not a job");
    }
    let Some(build) = node["parent"].as_str().and_then(|id| state.node(id)) else {
        return said(StatusCode::NOT_FOUND, "Kernel build not found");
    };
    if build["state"] != "done" {
        return said(StatusCode::BAD_REQUEST, "Kernel build is not done");
    }
    if build["result"] != "pass" {
        return said(StatusCode::BAD_REQUEST, "Kernel build result is not pass");
    }
    // The event that follows has the state `done`, for which no entry of the scheduler waits: nothing is made.
    said(StatusCode::OK, "OK")
}
