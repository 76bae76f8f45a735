//! One request out and its answer back, within limits, and every failure told by what to do next.
//!
//! It follows no redirect, repeats nothing, keeps no connection: an effect is had once or not at all, and an answer
//! that did not come whole is [`CallError::Unknown`].

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use reqwest::{Client, RequestBuilder, Response};
use secrecy::{ExposeSecret, SecretString};

use super::log_text;
use crate::domain::Timestamp;
use crate::ports::CallError;

/// Largest answer that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How much of a log is read through to get at its end, in bytes, where the system sends all of it.
const LOG_BYTES_READ_MAX: usize = 64 << 20;

/// How long to wait after 429 without `Retry-After`.
const WAIT_UNSAID: Duration = Duration::from_secs(60);

/// The longest wait that is believed.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Most words of the other side that are passed on, in characters.
const WORDS_MAX: usize = 300;

/// A secret shorter than this is not looked for: it would blot out ordinary words.
const SECRET_BYTES_MIN: usize = 6;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status code.
    pub status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Makes the client. `timeout` bounds a whole exchange.
///
/// # Errors
/// When the TLS side cannot be set up.
pub fn client(timeout: Duration) -> reqwest::Result<Client> {
    Client::builder()
        .user_agent(concat!("retest-bot/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // A kept connection can die under a request, and nobody could tell whether the request had arrived.
        .pool_max_idle_per_host(0)
        .referer(false)
        .timeout(timeout)
        .connect_timeout(timeout.min(Duration::from_secs(10)))
        .build()
}

/// Sends a request and reads its whole answer.
///
/// # Errors
/// `Unreachable` when no connection was made; `Unknown` when the answer did not come, or not whole.
pub async fn send(request: RequestBuilder) -> Result<Answer, CallError> {
    let mut response = request.send().await.map_err(|e| failure(&e))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| failure(&e))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(CallError::Unknown { log: format!("the answer is larger than {ANSWER_BYTES_MAX} bytes") });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status: response.status(), headers: response.headers().clone(), body: body.into() })
}

/// Reads the end of a log, at most `bytes_max` bytes, and says whether its beginning was cut.
///
/// # Errors
/// As [`send`]; an unsuccessful answer is no error here, the caller words it.
pub async fn send_for_tail(request: RequestBuilder, bytes_max: usize) -> Result<Tail, CallError> {
    let request = request.header(header::RANGE, format!("bytes=-{}", bytes_max.max(1)));
    let mut response = request.send().await.map_err(|e| failure(&e))?;
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        // The log is empty: no range of it exists.
        return Ok(Tail::Read { bytes: Vec::new(), cut: false });
    }
    if !response.status().is_success() {
        let body = words_of(&mut response).await;
        return Ok(Tail::Answered(Answer { status: response.status(), headers: response.headers().clone(), body }));
    }
    let mut cut = response.status() == StatusCode::PARTIAL_CONTENT && !starts_at_zero(response.headers());
    let mut kept: VecDeque<u8> = VecDeque::new();
    let mut read = 0_usize;
    while let Some(chunk) = response.chunk().await.map_err(|e| failure(&e))? {
        read = read.saturating_add(chunk.len());
        kept.extend(chunk.iter());
        let over = kept.len().saturating_sub(bytes_max);
        cut |= over > 0;
        kept.drain(..over);
        if read > LOG_BYTES_READ_MAX {
            break;
        }
    }
    Ok(Tail::Read { bytes: kept.into(), cut })
}

/// What asking for a log gave.
#[derive(Debug)]
pub enum Tail {
    /// Its end.
    Read {
        /// The last bytes.
        bytes: Vec<u8>,
        /// Whether something came before them.
        cut: bool,
    },
    /// Something else than a log.
    Answered(Answer),
}

/// The beginning of an unsuccessful answer; what cannot be read of it is left out.
async fn words_of(response: &mut Response) -> Bytes {
    response.chunk().await.ok().flatten().unwrap_or_default()
}

/// The head of an answer with the beginning of its body, for the words of a refusal.
pub async fn beginning_of(mut response: Response) -> Answer {
    let body = words_of(&mut response).await;
    Answer { status: response.status(), headers: response.headers().clone(), body }
}

fn starts_at_zero(headers: &HeaderMap) -> bool {
    let range = headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.trim().starts_with("bytes 0-"))
}

/// What a request that got no whole answer means.
///
/// reqwest's words hold the address, and an address may hold a token: they are left out.
pub fn failure(error: &reqwest::Error) -> CallError {
    let (kind, sent) = match error {
        e if e.is_builder() => return CallError::refused("the request cannot be built"),
        e if e.is_connect() => ("no connection", false),
        e if e.is_timeout() => ("no answer in time", true),
        e if e.is_body() || e.is_decode() => ("the answer broke off", true),
        _ => ("the connection broke", true),
    };
    let log = format!("{kind}{}", causes(error));
    if sent { CallError::Unknown { log } } else { CallError::Unreachable { log } }
}

fn causes(error: &reqwest::Error) -> String {
    let first = std::error::Error::source(error);
    let chain = std::iter::successors(first, |error| error.source());
    log_text::one_line(&chain.map(|error| format!(": {error}")).collect::<String>(), WORDS_MAX)
}

impl Answer {
    /// The answer as JSON.
    ///
    /// # Errors
    /// `Unknown`: it succeeded, and what it says cannot be read.
    pub fn json(&self) -> Result<serde_json::Value, CallError> {
        serde_json::from_slice(&self.body)
            .map_err(|e| CallError::Unknown { log: format!("the answer is no JSON: {e}") })
    }

    /// What an unsuccessful answer means.
    pub fn failure(&self, who: &str, secrets: &[SecretString], now: Timestamp) -> CallError {
        let words = mask(&self.words(), secrets);
        let log = format!("{who} answered {}: {words}", self.status);
        match self.status.as_u16() {
            429 => CallError::Throttled { retry_after: self.retry_after(now).unwrap_or(WAIT_UNSAID), log },
            503 => match self.retry_after(now) {
                Some(retry_after) => CallError::Throttled { retry_after, log },
                None => CallError::Unknown { log },
            },
            // 408: the request did not come whole, as far as the other side knows.
            408 | 500.. => CallError::Unknown { log },
            300..400 => {
                CallError::Refused { user: format!("{who} sent us elsewhere; redirects are not followed"), log }
            }
            _ if words.is_empty() => CallError::Refused { user: format!("{who} answered {}", self.status), log },
            _ => CallError::Refused { user: log.clone(), log },
        }
    }

    /// `Retry-After`: seconds or an HTTP date (RFC 9110 section 10.2.3).
    fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let text = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let at = chrono::DateTime::parse_from_rfc2822(text).ok()?;
                Timestamp::from_ms(at.timestamp_millis()).since(now)
            }
        };
        Some(wait.min(WAIT_MAX))
    }

    /// The other side's own words: the usual fields of a JSON answer, or plain text; no page of markup.
    fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let found = match serde_json::from_slice::<serde_json::Value>(&self.body) {
            Ok(json) => ["/message", "/error/message", "/error", "/detail", "/title", "/errors/0/message", "/errors/0"]
                .iter()
                .find_map(|pointer| json.pointer(pointer)?.as_str().map(str::to_owned))
                .unwrap_or_default(),
            Err(_) if text.trim_start().starts_with('<') => String::new(),
            Err(_) => text.into_owned(),
        };
        log_text::one_line(&found, WORDS_MAX)
    }
}

/// The text without our secrets.
pub fn mask(text: &str, secrets: &[SecretString]) -> String {
    let long = secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| secret.len() >= SECRET_BYTES_MIN);
    long.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>, body: &str) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
        }
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    fn throttled(error: &CallError) -> Option<u64> {
        if let CallError::Throttled { retry_after, .. } = error { Some(retry_after.as_secs()) } else { None }
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        // 2015-10-21 07:28:00 UTC is 1,445,412,480 s after 1970.
        let now = Timestamp::from_ms(1_445_412_480_000 - 90_000);
        let table = [
            (429, Some("7"), Some(7), "seconds"),
            (503, Some("120"), Some(120), "seconds with 503"),
            (429, Some("Wed, 21 Oct 2015 07:28:00 GMT"), Some(90), "a date"),
            (429, Some("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0), "a date gone by"),
            (429, None, Some(60), "429 that says nothing"),
            (429, Some("soon"), Some(60), "no number and no date"),
            (429, Some("99999999999"), Some(86_400), "longer than is believed"),
            (503, None, None, "503 that says nothing may have worked"),
            (500, Some("5"), None, "500 is no rate limit"),
        ];
        for (status, text, seconds, why) in table {
            assert_eq!(throttled(&answer(status, text, "").failure("ci", &[], now)), seconds, "{why}");
        }
    }

    #[test]
    fn an_answer_tells_whether_asking_again_is_safe() {
        let kind = |status| match answer(status, None, "no").failure("ci", &[], Timestamp::default()) {
            CallError::Refused { .. } => "refused",
            CallError::Throttled { .. } => "throttled",
            CallError::Unreachable { .. } => "unreachable",
            CallError::Unknown { .. } => "unknown",
        };
        for status in [301, 302, 307, 400, 401, 403, 404, 409, 422] {
            assert_eq!(kind(status), "refused", "{status}");
        }
        for status in [408, 500, 502, 503, 504] {
            assert_eq!(kind(status), "unknown", "{status}");
        }
    }

    #[test]
    fn the_other_sides_words_are_bounded_and_hold_no_secret_and_no_markup() {
        let secret = SecretString::from("hunter2hunter2");
        let said = |body: &str| match answer(400, None, body).failure(
            "ci",
            std::slice::from_ref(&secret),
            Timestamp::default(),
        ) {
            CallError::Refused { user, .. } => user,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(r#"{"message": "no such\nboard"}"#), "ci answered 400 Bad Request: no such board");
        assert_eq!(said("bad token hunter2hunter2"), "ci answered 400 Bad Request: bad token ***");
        assert_eq!(said("<html><body>x</body></html>"), "ci answered 400 Bad Request");
        assert!(said(&"x".repeat(10_000)).chars().count() < 400);
    }
}
