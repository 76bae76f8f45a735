//! One request and its whole answer. No judgement here: what an answer means is told in `outcome.rs`.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use octocrab::{OctoBody, Octocrab};

/// Largest answer that we take, in bytes; GitHub's largest pages of 100 stay below 4 MiB.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// A request before it is signed.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub method: Method,
    /// Path and query below the API's base.
    pub path: String,
    /// JSON.
    pub body: Option<Bytes>,
    pub if_none_match: Option<HeaderValue>,
}

impl Outgoing {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, if_none_match: None }
    }

    /// Whether the request can change anything.
    pub fn writes(&self) -> bool {
        self.method != Method::GET
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// No whole answer came.
#[derive(Clone, Debug)]
pub(super) enum Lost {
    /// The request certainly had no effect: no connection, or it could not even be built.
    BeforeSending(String),
    /// It may have had one: time-out, reset, or an answer that broke off.
    AfterSending(String),
}

/// Sends one request, once, and reads the answer to its end within `timeout`.
pub(super) async fn exchange(
    crab: &Octocrab,
    out: &Outgoing,
    api_version: &HeaderValue,
    timeout: Duration,
) -> Result<Raw, Lost> {
    let request = build(out, api_version).map_err(|e| Lost::BeforeSending(e.to_string()))?;
    let whole = async {
        let answer = crab.execute(request).await.map_err(|e| lost(&e))?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|e| Lost::AfterSending(format!("the answer broke off: {}", innermost(e.as_ref()))))?;
        Ok(Raw { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    };
    match tokio::time::timeout(timeout, whole).await {
        Ok(result) => result,
        Err(_) => Err(Lost::AfterSending(format!("no answer within {timeout:?}"))),
    }
}

fn build(out: &Outgoing, api_version: &HeaderValue) -> Result<Request<OctoBody>, http::Error> {
    let mut request = Request::builder()
        .method(out.method.clone())
        .uri(out.path.as_str())
        .header(header::ACCEPT, "application/vnd.github+json")
        .header("x-github-api-version", api_version.clone());
    if let Some(etag) = &out.if_none_match {
        request = request.header(header::IF_NONE_MATCH, etag.clone());
    }
    match &out.body {
        Some(json) => request.header(header::CONTENT_TYPE, "application/json").body(OctoBody::from(json.clone())),
        None => request.body(OctoBody::empty()),
    }
}

/// Finds reqwest's error below octocrab's layers and tells whether anything was sent.
fn lost(error: &octocrab::Error) -> Lost {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(here) = at {
        if let Some(cause) = here.downcast_ref::<reqwest::Error>() {
            let text = innermost(cause);
            let unsent = cause.is_connect() || cause.is_builder();
            return if unsent { Lost::BeforeSending(text) } else { Lost::AfterSending(text) };
        }
        // octocrab boxes its own errors, whose `source` does not show the box itself.
        if let Some(octocrab::Error::Service { source, .. }) = here.downcast_ref::<octocrab::Error>() {
            at = Some(source.as_ref());
            continue;
        }
        at = here.source();
    }
    match error {
        octocrab::Error::Service { .. } | octocrab::Error::Hyper { .. } | octocrab::Error::Reqwest { .. } => {
            Lost::AfterSending(innermost(error))
        }
        _ => Lost::BeforeSending(innermost(error)),
    }
}

/// The last text of a chain of errors; the ones before it repeat addresses and back-traces.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}
