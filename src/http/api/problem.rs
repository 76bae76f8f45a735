//! Refusals of the API: problem documents (RFC 9457) whose `detail` says what to do next.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::flow::{FlowError, RequestError};
use crate::ports::CallError;
use crate::store::StoreError;

/// What a client should wait after an answer that may be better next time, in seconds.
const RETRY_AFTER_S: u64 = 5;

/// A refusal.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: the status says the kind.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status code.
    status: u16,
    /// What is wrong and what to do next.
    detail: String,
    #[serde(skip)]
    header: Option<(&'static str, Box<str>)>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        Self { kind: "about:blank", title, status: status.as_u16(), detail: detail.into(), header: None }
    }

    pub(super) fn unknown(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn wrong(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// The same with a header; `name` must be lower case.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.header = Some((name, value.into()));
        self
    }

    fn later(detail: impl Into<String>, seconds: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with("retry-after", &seconds.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a request of the API could not be carried out");
        Self::later("the store did not do it; nothing was kept, send the same request again", RETRY_AFTER_S)
    }
}

impl From<FlowError> for Problem {
    fn from(error: FlowError) -> Self {
        tracing::error!(%error, "a request of the API could not be carried out");
        Self::later("it could not be stored; nothing was started, send the same request again", RETRY_AFTER_S)
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Wrong(text) => Self::wrong(text),
            RequestError::Unknown(text) => Self::unknown(text),
            RequestError::Conflict(text) => Self::new(StatusCode::CONFLICT, text),
            RequestError::Later(error) => {
                tracing::warn!(%error, "a request of the API waits for a forge or runner");
                let seconds = match &error {
                    CallError::Throttled { retry_after, .. } => retry_after.as_secs().max(1),
                    CallError::Refused { .. } | CallError::Unreachable { .. } | CallError::Unknown { .. } => {
                        RETRY_AFTER_S
                    }
                };
                let text = "a forge or runner did not answer, so nothing was started; send the same request again";
                Self::later(text, seconds)
            }
            RequestError::Flow(error) => error.into(),
        }
    }
}
