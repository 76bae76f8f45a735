//! What the program answers over HTTP: webhooks, runners' callbacks, the REST API, health, metrics.
//!
//! A webhook is verified, decoded, stored durably and answered; nobody is called before that. Everything authentic is
//! answered 2xx, wanted or not, so that no forge switches its hook off. Read next: `webhook.rs`, `serve.rs`.

mod api;
mod callback;
mod serve;
mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

pub use api::{ApiToken, Scope};
pub use serve::{Bounds, serve};

use crate::flow::World;

/// What the handlers share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http {
    world: Arc<World>,
    body_bytes_max: usize,
    body_timeout: Duration,
    /// Bytes of bodies that may be in memory at the same time, in KiB.
    budget: Arc<Semaphore>,
    draining: Arc<AtomicBool>,
    tokens: Arc<[ApiToken]>,
}

/// Bytes of request bodies in memory at the same time: two of the largest, or some thousand ordinary ones.
const BUDGET_KIB: usize = 64 * 1_024;

impl Http {
    /// Handlers over a world. `body_bytes_max` is the size cap of one body, in bytes.
    pub fn new(world: Arc<World>, body_bytes_max: usize, body_timeout: Duration) -> Self {
        let budget_kib = BUDGET_KIB.max(body_bytes_max.div_ceil(1_024) * 2);
        Self {
            world,
            body_bytes_max,
            body_timeout,
            budget: Arc::new(Semaphore::new(budget_kib)),
            draining: Arc::default(),
            tokens: Arc::default(),
        }
    }

    /// The same with tokens of the REST API; without any, it answers nobody.
    #[must_use]
    pub fn with_api(mut self, tokens: Vec<ApiToken>) -> Self {
        self.tokens = tokens.into();
        self
    }

    /// From now on `/readyz` says no, so that a load balancer looks elsewhere.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// All routes but the metrics.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/webhooks/{forge}", post(webhook::receive))
            .route("/callbacks/{runner}/{key}", post(callback::receive))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(ready))
            .merge(api::router())
            .with_state(self.clone())
            .layer(CatchPanicLayer::new())
    }

    /// The metrics route.
    pub fn metrics_router(&self) -> Router {
        Router::new().route("/metrics", get(metrics)).with_state(self.clone())
    }
}

async fn ready(State(http): State<Http>) -> Response {
    if http.draining.load(Ordering::SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, "going down\n").into_response();
    }
    if http.world.store.takes_nothing() && http.world.store.write_something().await.is_err() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the store takes nothing: is the disk full?\n").into_response();
    }
    match http.world.store.ping().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => {
            tracing::error!(%error, "not ready: the store does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response()
        }
    }
}

async fn metrics(State(http): State<Http>) -> Response {
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], http.world.metrics.render()).into_response()
}
