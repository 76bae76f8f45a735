//! A stand-in for GitHub's API: it answers at once, counts every call by kind, and stamps each restart of a job.
//!
//! It lives in the driver's process, so that its stamps and the driver's come from one monotonic clock.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A restart that was asked for: which job, and when the request had been read.
pub type Restart = (u64, Instant);

struct Shared {
    calls: Mutex<BTreeMap<&'static str, u64>>,
    restarts: Sender<Restart>,
}

/// The running stand-in; it ends with the program.
pub struct StandIn {
    /// Port on 127.0.0.1.
    pub port: u16,
    shared: Arc<Shared>,
    restarts: Receiver<Restart>,
}

impl StandIn {
    /// Starts it on a thread of its own.
    pub fn start() -> anyhow::Result<Self> {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (sender, restarts) = mpsc::channel();
        let shared = Arc::new(Shared { calls: Mutex::default(), restarts: sender });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    axum::serve(listener, router).await.ok();
                }
            });
        });
        Ok(Self { port, shared, restarts })
    }

    /// Waits for the restart of a job; restarts of others are passed over.
    pub fn restart_of(&self, job: u64) -> anyhow::Result<Instant> {
        loop {
            let (seen, at) = self.restarts.recv_timeout(Duration::from_secs(20)).context("no restart was asked for")?;
            if seen == job {
                return Ok(at);
            }
        }
    }

    /// The calls since the last time, by kind.
    pub fn take_calls(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut *self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no call has come for this long.
    pub fn until_quiet(&self, quiet: Duration) -> anyhow::Result<()> {
        let total = || self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).values().sum::<u64>();
        let started = Instant::now();
        let (mut seen, mut since) = (total(), Instant::now());
        while since.elapsed() < quiet {
            if started.elapsed() > Duration::from_secs(60) {
                bail!("the calls to the forge do not come to an end");
            }
            std::thread::sleep(Duration::from_millis(50));
            if total() != seen {
                (seen, since) = (total(), Instant::now());
            }
        }
        Ok(())
    }
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    let at = Instant::now();
    let parts: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let (kind, status, body) = reply(&method, &parts);
    if kind == "restart"
        && let Some(job) = parts.get(5).and_then(|id| id.parse().ok())
    {
        shared.restarts.send((job, at)).ok();
    }
    *shared.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(kind).or_default() += 1;
    (status, axum::Json(body)).into_response()
}

/// The kind of a call, and its answer. `parts` are those of `/repos/OWNER/NAME/…`.
fn reply(method: &Method, parts: &[&str]) -> (&'static str, StatusCode, Value) {
    let made = |kind| (kind, StatusCode::CREATED, json!({ "id": 700_000_001 }));
    let post = *method == Method::POST;
    match parts.get(3..).unwrap_or_default() {
        ["collaborators", login, "permission"] => {
            let id: u64 = login.strip_prefix("dev-").and_then(|id| id.parse().ok()).unwrap_or(0);
            let user = json!({ "id": id, "login": login, "type": "User" });
            ("permission", StatusCode::OK, json!({ "permission": "write", "role_name": "write", "user": user }))
        }
        ["actions", "jobs", _, "rerun"] if post => ("restart", StatusCode::CREATED, json!({})),
        ["statuses", _] if post => made("status"),
        ["issues", "comments", _, "reactions"] if post => made("reaction"),
        ["issues", _, "comments"] if post => made("report"),
        ["issues", "comments", _] => ("report", StatusCode::OK, json!({ "id": 700_000_001 })),
        ["issues", _, "comments"] => ("look for an earlier report", StatusCode::OK, json!([])),
        _ => ("anything else", StatusCode::NOT_FOUND, json!({ "message": "Not Found" })),
    }
}
