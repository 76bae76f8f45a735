//! What an answer of GitLab, or the lack of one, means for the caller (forge-gitlab reference, 8 and 9).
//!
//! The one rule behind the table: an error that may have come after the request took effect is `Unknown` for a write
//! and `Unreachable` for a read; everything else says whether asking again can help. Texts for people name the missing
//! role or scope and who can grant it; GitLab's own words are kept for the log.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri};
use thiserror::Error;

use crate::domain::Timestamp;
use crate::ports::CallError;

/// Wait after a 429 that names no time: GitLab's own application limits count by the minute and send no header.
pub(super) const THROTTLE_UNNAMED: Duration = Duration::from_secs(10);
/// The shortest wait after a 429.
const THROTTLE_MIN: Duration = Duration::from_secs(1);
/// The longest wait that a header may ask for; a wrong clock on either side must not silence us for longer.
const THROTTLE_MAX: Duration = Duration::from_secs(3_600);
/// Wait after 409: the lock around the statuses of one commit is held for seconds.
const LOCKED_WAIT: Duration = Duration::from_secs(2);
/// Longest part of a foreign message that is kept, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// A failed call: what to do next, and what GitLab said, for the few callers that know better than the table.
#[derive(Clone, Debug, Error)]
#[error("{error}")]
pub struct Failure {
    /// What to do next.
    pub error: CallError,
    /// The status code, when there was an answer.
    pub status: Option<u16>,
    /// GitLab's own words, one line; empty when there was no answer.
    pub message: String,
}

impl Failure {
    /// A call that was refused before it was sent, or for a reason of our own.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { error: CallError::refused(text), status: None, message: String::new() }
    }

    /// Whether GitLab answered with this status and these words in its message, in any case.
    pub fn says(&self, status: u16, words: &str) -> bool {
        self.status == Some(status) && self.message.to_ascii_lowercase().contains(&words.to_ascii_lowercase())
    }
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// One call, for texts and for the rule.
#[derive(Clone, Debug)]
pub(super) struct Call {
    write: bool,
    what: String,
}

impl Call {
    pub(super) fn new(method: &Method, uri: &Uri) -> Self {
        // GraphQL asks by POST and changes nothing.
        let write = *method != Method::GET && !uri.path().ends_with("/api/graphql");
        Self { write, what: format!("{method} {}", uri.path()) }
    }

    pub(super) const fn is_write(&self) -> bool {
        self.write
    }

    /// No answer, or half of one: the request may have taken effect.
    pub(super) fn lost(&self, why: &str) -> CallError {
        let log = format!("{}: {why}", self.what);
        if self.write { CallError::Unknown { log } } else { CallError::Unreachable { log } }
    }

    pub(super) fn lost_failure(&self, why: &str) -> Failure {
        Failure { error: self.lost(why), status: None, message: String::new() }
    }

    /// An error of the transport.
    pub(super) fn transport(&self, error: &reqwest::Error) -> Failure {
        let chain = chain_of(error);
        // Not connected means not sent. A request that could not be built was not sent either.
        let error = if error.is_connect() || error.is_builder() {
            CallError::Unreachable { log: format!("{}: {chain}", self.what) }
        } else {
            self.lost(&chain)
        };
        Failure { error, status: None, message: String::new() }
    }

    /// An answer that is no success.
    pub(super) fn answer(&self, status: StatusCode, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Failure {
        let message = message_of(body);
        let log = format!("{}: {} {message}", self.what, status.as_u16());
        let error = match status.as_u16() {
            429 => CallError::Throttled { retry_after: throttle_span(headers, now), log },
            401 => CallError::Unreachable {
                log: format!("{log}: the token is revoked or has expired; set a new one with the scope `api`"),
            },
            409 => CallError::Throttled { retry_after: LOCKED_WAIT, log },
            408 | 500..=599 => self.lost(&format!("{} {message}", status.as_u16())),
            code => CallError::Refused { user: user_text(code, &message), log },
        };
        Failure { error, status: Some(status.as_u16()), message }
    }
}

/// How long a 429 asks to wait: `Retry-After`, else until `RateLimit-Reset`, else a fixed span.
fn throttle_span(headers: &HeaderMap, now: Timestamp) -> Duration {
    let after = number(headers, "retry-after").map(Duration::from_secs);
    let span = after.or_else(|| reset_span(headers, now)).unwrap_or(THROTTLE_UNNAMED);
    span.clamp(THROTTLE_MIN, THROTTLE_MAX)
}

/// How long until `RateLimit-Reset` (Unix seconds); none when it is not told or past.
fn reset_span(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let reset = i64::try_from(number(headers, "ratelimit-reset")?).ok()?;
    let span = Timestamp::from_ms(reset.checked_mul(1_000)?).since(now);
    (!span.is_zero()).then_some(span)
}

/// How long a successful answer asks us to be silent: it used the last request of its period (a minute).
pub(super) fn used_up(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    (number(headers, "ratelimit-remaining") == Some(0)).then_some(())?;
    reset_span(headers, now).map(|span| span.min(Duration::from_secs(60)))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// One line out of GitLab's three shapes of error, or of whatever else came.
fn message_of(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(body) else {
        return one_line(&String::from_utf8_lossy(body));
    };
    let text = match (value.get("message"), value.get("error")) {
        (Some(serde_json::Value::String(message)), _) => message.clone(),
        (Some(serde_json::Value::Object(fields)), _) => {
            let told = fields.iter().map(|(field, errors)| match errors.as_array() {
                Some(list) => {
                    let list: Vec<&str> = list.iter().filter_map(serde_json::Value::as_str).collect();
                    format!("{field} {}", list.join(", "))
                }
                None => format!("{field} {errors}"),
            });
            told.collect::<Vec<_>>().join("; ")
        }
        (Some(other), _) => other.to_string(),
        (None, Some(error)) => {
            let word = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
            match value.get("error_description").and_then(serde_json::Value::as_str) {
                Some(description) => format!("{word}: {description}"),
                None => word,
            }
        }
        (None, None) => String::from_utf8_lossy(body).into_owned(),
    };
    one_line(&text)
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE_CHARS_MAX).collect()
}

fn user_text(status: u16, message: &str) -> String {
    let lower = message.to_ascii_lowercase();
    match status {
        403 if lower.contains("insufficient_scope") => {
            "GitLab refused: the bot's token lacks the scope `api`; the operator of the bot must set a token that has it"
                .to_owned()
        }
        403 => "GitLab refused: the bot needs the Developer role in this project and, on a protected branch, the right \
                to push or merge there; a maintainer of the project can grant both"
            .to_owned(),
        404 => "GitLab does not show it to the bot: it is gone, or the bot is no member of the project with at least \
                the Developer role; a maintainer of the project can add it"
            .to_owned(),
        422 if lower.contains("limit") => {
            "GitLab refused: the pipeline has reached its limit of jobs; push a new commit or start a new pipeline"
                .to_owned()
        }
        300..=399 => "GitLab sent the request elsewhere; the operator of the bot must correct the configured address"
            .to_owned(),
        _ => format!("GitLab refused (status {status}); the operator of the bot finds its words in the log"),
    }
}

fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: Method) -> Call {
        Call::new(&method, &Uri::from_static("/api/v4/projects/1/jobs/2/retry"))
    }

    fn kind(error: &CallError) -> &'static str {
        match error {
            CallError::Refused { .. } => "refused",
            CallError::Throttled { .. } => "throttled",
            CallError::Unreachable { .. } => "unreachable",
            CallError::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn an_answer_says_what_to_do_next() {
        let table = [
            (400, "refused", "refused", "asking the same again does not help"),
            (401, "unreachable", "unreachable", "the work waits until the operator has set a new token"),
            (403, "refused", "refused", "a role is missing"),
            (404, "refused", "refused", "gone or not visible"),
            (409, "throttled", "throttled", "the lock of the commit's statuses"),
            (422, "refused", "refused", "the limit of jobs"),
            (429, "throttled", "throttled", "the rate limit"),
            (301, "refused", "refused", "a write is never sent to another place"),
            (500, "unreachable", "unknown", "it may have worked"),
            (502, "unreachable", "unknown", "it may have worked"),
            (503, "unreachable", "unknown", "it may have worked"),
        ];
        for (status, read, write, why) in table {
            let code = StatusCode::from_u16(status).expect("a status");
            let answer = |method| call(method).answer(code, &HeaderMap::new(), b"{}", Timestamp::default()).error;
            assert_eq!(kind(&answer(Method::GET)), read, "GET {status}: {why}");
            assert_eq!(kind(&answer(Method::POST)), write, "POST {status}: {why}");
        }
    }

    #[test]
    fn a_lost_answer_of_graphql_is_that_of_a_read() {
        let call = Call::new(&Method::POST, &Uri::from_static("/gitlab/api/graphql"));
        assert_eq!(kind(&call.lost("reset")), "unreachable");
    }

    #[test]
    fn all_shapes_of_error_give_one_line() {
        let table = [
            (r#"{"message":"401 Unauthorized"}"#, "401 Unauthorized"),
            (r#"{"message":{"name":["has already been taken","is odd"]}}"#, "name has already been taken, is odd"),
            (r#"{"error":"insufficient_scope","error_description":"more needed"}"#, "insufficient_scope: more needed"),
            (r#"{"error":"404 Not Found"}"#, "404 Not Found"),
            ("Retry later\n", "Retry later"),
            ("<html>\n <b>502</b>", "<html> <b>502</b>"),
            (r#"{"message":["a"]}"#, r#"["a"]"#),
        ];
        for (body, message) in table {
            assert_eq!(message_of(body.as_bytes()), message);
        }
    }

    #[test]
    fn a_throttle_lasts_as_long_as_the_headers_say_and_never_less_than_a_second() {
        let now = Timestamp::from_ms(1_000_000);
        let table = [
            (vec![("retry-after", "42")], 42, "the header of HTTP wins"),
            (vec![("retry-after", "0")], 1, "at least a second"),
            (vec![("ratelimit-reset", "1030")], 30, "until the period ends"),
            (vec![("retry-after", "5"), ("ratelimit-reset", "1030")], 5, "the more exact one"),
            (vec![("ratelimit-reset", "12")], 10, "a reset in the past says nothing"),
            (vec![], 10, "no header at all"),
            (vec![("retry-after", "999999")], 3_600, "not for ever"),
        ];
        for (given, seconds, why) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.insert(name, http::HeaderValue::from_static(value));
            }
            assert_eq!(throttle_span(&headers, now), Duration::from_secs(seconds), "{why}");
        }
    }

    #[test]
    fn texts_for_people_say_what_is_missing_and_who_can_grant_it() {
        let scope = user_text(403, "insufficient_scope: The request requires higher privileges");
        assert!(scope.contains("scope `api`") && scope.contains("operator"), "{scope}");
        let role = user_text(403, "403 Forbidden");
        assert!(role.contains("Developer") && role.contains("maintainer"), "{role}");
        let gone = user_text(404, "404 Project Not Found");
        assert!(gone.contains("member") && gone.contains("maintainer"), "{gone}");
    }
}
