//! The REST API under `/api/v1`: registers jobs, takes `run` events for the planner or the dispatcher, tells of retries.
//!
//! Every handler is described where it stands, and only what is described is routed, so that `openapi.json` and the routes
//! cannot differ. Every refusal is a problem document (RFC 9457) that says what to do next.
//! Read next: `auth.rs` for who may what, `events.rs` for what an event comes to.

mod auth;
mod events;
mod flakes;
mod jobs;
mod problem;
mod retries;
mod wire;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http as HttpAuth, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use auth::{ApiToken, Scope};

use self::problem::Problem;
use super::Http;

/// Largest body of a request, in bytes: a job definition is the largest thing in one.
const BODY_BYTES_MAX: usize = 256 << 10;

#[derive(OpenApi)]
#[openapi(
    info(title = "retest-bot", description = "Jobs of revisions, retries, and run events."),
    modifiers(&Security),
    security(("token" = [])),
)]
struct Document;

struct Security;

impl utoipa::Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpAuth::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("token", scheme);
    }
}

/// The routes; the description of all others is among them.
pub(super) fn router() -> Router<Http> {
    let described: OpenApiRouter<Http> = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(jobs::put))
        .routes(routes!(jobs::list))
        .routes(routes!(events::post))
        .routes(routes!(flakes::list))
        .routes(routes!(retries::list))
        .routes(routes!(retries::get, retries::cancel));
    let (router, document) = described.split_for_parts();
    router
        .route("/api/v1/openapi.json", get(move || async move { Json(document) }))
        .route("/api/{*rest}", axum::routing::any(nothing))
}

async fn nothing(Path(rest): Path<String>) -> Response {
    let detail = format!("there is nothing at /api/{rest}; /api/v1/openapi.json describes what there is");
    Problem::new(StatusCode::NOT_FOUND, detail).into_response()
}
