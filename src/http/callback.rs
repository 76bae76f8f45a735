//! `POST /callbacks/{runner}/{key}`: a runner tells the result of a run that we started, with that run's own token.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{Http, webhook};
use crate::domain::{DispatchKey, Retry, RunHandle, RunnerName};
use crate::ports::Told;

pub(super) async fn receive(
    State(http): State<Http>,
    Path((runner, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let refuse = || (StatusCode::FORBIDDEN, "wrong token, or no such run\n").into_response();
    let key = DispatchKey::new(key);
    let token =
        headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()).and_then(|v| v.strip_prefix("Bearer "));
    let (Some(entry), Some(token)) = (http.world.runner(&RunnerName::new(runner)), token) else { return refuse() };
    let body = match webhook::read_body(&http, &headers, body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let seen = match entry.runner.callback(&key, token, &body) {
        Ok(seen) => seen,
        Err(error) => {
            tracing::warn!(runner = %entry.runner.name(), %key, %error, "a callback was refused");
            return refuse();
        }
    };
    let taken = match &seen {
        Told::State(seen) => take(&http, entry.runner.name(), &key, seen).await,
        Told::Look => http.world.look_soon(&key, entry.runner.name()).await,
    };
    match taken {
        Ok(true) => (StatusCode::ACCEPTED, "taken\n").into_response(),
        Ok(false) => refuse(),
        Err(error) => {
            tracing::error!(%key, %error, "a callback could not be stored");
            (StatusCode::SERVICE_UNAVAILABLE, "it could not be stored; send it again\n").into_response()
        }
    }
}

async fn take(
    http: &Http,
    runner: &RunnerName,
    key: &DispatchKey,
    seen: &crate::domain::RunObservation,
) -> Result<bool, crate::flow::FlowError> {
    let world = &http.world;
    let mine = |r: &Retry| r.runner == *runner;
    let Some(mut retry) = world.store.retry_by_key(key).await?.filter(mine) else { return Ok(false) };
    if retry.handle.is_none() {
        // The callback was faster than the answer to the start; it also settles a doubt.
        retry.handle = Some(RunHandle { id: key.to_string(), order: seen.order, url: seen.url.clone() });
    }
    world.take_observation(&retry, seen).await?;
    Ok(true)
}
