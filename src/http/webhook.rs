//! `POST /webhooks/{forge}`: verify, decode, store, answer.
//!
//! | Answer | When |
//! |---|---|
//! | 202 | authentic: stored, a duplicate, none of our business, or not in the documented form |
//! | 401, 403 | no signature; a wrong one |
//! | 404 | no forge of that name |
//! | 408, 413, 415 | the body came too slowly, is over the cap, or is in a form that is not read |
//! | 503 | it could not be stored; nothing is half-done, send it again |

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::StreamExt;

use super::Http;
use crate::domain::ForgeName;
use crate::ports::{Decoded, WebhookError, WebhookRequest};
use crate::store::NewDelivery;

/// What the sender of an unstored delivery should wait before it tries again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

pub(super) async fn receive(
    State(http): State<Http>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let name = ForgeName::new(name);
    let Some(forge) = http.world.forges.get(&name) else {
        return (
            StatusCode::NOT_FOUND,
            "no forge of that name is configured; see the webhook URLs that `retest-bot check` prints\n",
        )
            .into_response();
    };
    let now = http.world.now();
    let count = |outcome: &'static str| http.world.metrics.delivery(name.as_str(), outcome, now.ms() / 1_000);
    if !SIGNED_BY.iter().any(|name| headers.contains_key(*name)) {
        count("refused");
        return refuse(&name, WebhookError::Unsigned);
    }
    let body = match read_body(&http, &headers, body).await {
        Ok(body) => body,
        Err(refused) => {
            count(if refused.status() == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "unread" });
            return refused;
        }
    };
    let decoded = match forge.receive(&WebhookRequest { headers, body, at: now }) {
        Ok(decoded) => decoded,
        Err(error) => {
            count("refused");
            return refuse(&name, error);
        }
    };
    let (outcome, answer) = match decoded {
        Decoded::Ignored(why) => {
            tracing::debug!(forge = %name, why, "delivery ignored");
            ("ignored", (StatusCode::ACCEPTED, "ignored\n").into_response())
        }
        Decoded::Malformed(what) => {
            tracing::warn!(forge = %name, %what, "an authentic delivery is not in the form that the forge documents");
            (
                "malformed",
                (StatusCode::ACCEPTED, "accepted, but not in the documented form; see the log\n").into_response(),
            )
        }
        Decoded::Wanted(wanted) if !is_plain_name(&wanted.event.repo().full_name) => {
            tracing::warn!(forge = %name, delivery = %wanted.id, "a delivery names a repository that cannot be");
            ("malformed", (StatusCode::ACCEPTED, "accepted, but its repository has no usable name\n").into_response())
        }
        Decoded::Wanted(wanted) => {
            let id = wanted.id.clone();
            let new = NewDelivery { forge: name.clone(), id: wanted.id, event: wanted.event, at: now };
            match http.world.store.take_in(new).await {
                Ok(Some(stored)) => {
                    tracing::debug!(forge = %name, delivery = %id, "delivery stored");
                    http.world.take_up(stored);
                    ("stored", (StatusCode::ACCEPTED, "stored\n").into_response())
                }
                Ok(None) => ("duplicate", (StatusCode::ACCEPTED, "known already\n").into_response()),
                Err(error) => {
                    tracing::error!(forge = %name, delivery = %id, %error, "a delivery could not be stored");
                    ("unstored", busy())
                }
            }
        }
    };
    count(outcome);
    answer
}

fn refuse(forge: &ForgeName, error: WebhookError) -> Response {
    match error {
        WebhookError::Unsigned => {
            tracing::warn!(%forge, "a delivery without a signature was refused; set the secret at the forge's hook");
            StatusCode::UNAUTHORIZED.into_response()
        }
        WebhookError::WrongSignature => {
            tracing::warn!(%forge, "a delivery with a wrong signature was refused; compare the secrets");
            StatusCode::FORBIDDEN.into_response()
        }
        WebhookError::Unreadable(text) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("{text}\n")).into_response(),
    }
}

fn busy() -> Response {
    let text = "it could not be stored; nothing was done, send it again\n";
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_AFTER)], text).into_response()
}

/// Headers of which an authentic delivery has one; without any, the body is not even read.
const SIGNED_BY: [&str; 3] = ["x-hub-signature-256", "x-gitlab-token", "webhook-signature"];

/// Reads a body within the size cap, the deadline, and the memory that all bodies share. Memory is charged as bytes
/// arrive: a sender that only announces a large body holds nothing.
pub(super) async fn read_body(http: &Http, headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let too_large = || {
        let text = format!("the body is over {} bytes\n", http.body_bytes_max);
        (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
    };
    let told = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<usize>().ok());
    if told.is_some_and(|length| length > http.body_bytes_max) {
        return Err(too_large());
    }
    let cut_off = || (StatusCode::BAD_REQUEST, "the body was cut off\n").into_response();
    let reading = async {
        let mut whole = BytesMut::new();
        let mut shares = Vec::new();
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| cut_off())?;
            if whole.len() + piece.len() > http.body_bytes_max {
                return Err(too_large());
            }
            let kib = u32::try_from(piece.len().div_ceil(1_024)).unwrap_or(u32::MAX);
            shares.push(http.budget.acquire_many(kib).await.map_err(|_| busy())?);
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    match tokio::time::timeout(http.body_timeout, reading).await {
        Ok(result) => result,
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body came too slowly\n").into_response()),
    }
}

/// Whether a repository's name can stand in an address: no empty, `.` or `..` segment.
fn is_plain_name(full_name: &str) -> bool {
    full_name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
