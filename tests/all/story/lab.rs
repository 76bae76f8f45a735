//! A lab with an HTTP interface: starts runs when asked, ends them when told, and finds them by our key.

use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use retest_bot::sandbox::wire::Wire;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct LabRun {
    pub id: u64,
    pub key: String,
    pub job: String,
    pub state: String,
    pub overrides: Value,
}

#[derive(Clone, Debug)]
pub struct Lab {
    pub wire: Wire,
    runs: Arc<Mutex<Vec<LabRun>>>,
}

impl Lab {
    pub async fn start() -> Self {
        let runs: Arc<Mutex<Vec<LabRun>>> = Arc::default();
        let router = Router::new()
            .route("/jobs/{job}/runs", post(begin))
            .route("/runs", get(find))
            .route("/runs/{id}", get(look).delete(stop))
            .with_state(Arc::clone(&runs));
        Self { wire: Wire::serve(router).await.expect("a loopback port"), runs }
    }

    pub fn runs(&self) -> Vec<LabRun> {
        self.runs.lock().expect("lab").clone()
    }

    /// Sets the state of the newest run of a job.
    pub fn set(&self, job: &str, state: &str) {
        let mut runs = self.runs.lock().expect("lab");
        let run = runs.iter_mut().rev().find(|r| r.job == job).expect("a run of the job");
        run.state = state.to_owned();
    }
}

type Runs = State<Arc<Mutex<Vec<LabRun>>>>;

async fn begin(State(runs): Runs, Path(job): Path<String>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers.get("idempotency-key").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let mut runs = runs.lock().expect("lab");
    let id = 9_000 + runs.len() as u64;
    runs.push(LabRun { id, key, job, state: "queued".into(), overrides: body["overrides"].clone() });
    (StatusCode::CREATED, Json(json!({ "id": id, "web_url": format!("https://lab.example/runs/{id}") })))
        .into_response()
}

async fn find(State(runs): Runs, Query(query): Query<Vec<(String, String)>>) -> Response {
    let key = query.iter().find(|(name, _)| name == "key").map(|(_, v)| v.clone()).unwrap_or_default();
    match runs.lock().expect("lab").iter().find(|r| r.key == key) {
        Some(run) => Json(json!({ "id": run.id })).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn look(State(runs): Runs, Path(id): Path<u64>) -> Response {
    match runs.lock().expect("lab").iter().find(|r| r.id == id) {
        Some(run) => {
            Json(json!({ "state": run.state, "web_url": format!("https://lab.example/runs/{id}") })).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn stop(State(runs): Runs, Path(id): Path<u64>) -> Response {
    let mut runs = runs.lock().expect("lab");
    match runs.iter_mut().find(|r| r.id == id) {
        Some(run) => {
            run.state = "cancelled".into();
            StatusCode::NO_CONTENT.into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
