//! What an answer of GitHub means for us, and the texts for people.
//!
//! Pure. The rules are those of the forge-github reference, section 13: a 403 has four meanings, a 404 often means
//! "not allowed", and whatever may have happened to a write is never called a failure.

use http::StatusCode;
use serde::Deserialize;

use super::exchange::{Lost, Raw};
use crate::ports::CallError;

/// Longest text of GitHub that is shown to a person, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// What a call is for: the texts of its refusals are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// After "cannot": `restart jobs`, `read the pull request`.
    pub doing: &'static str,
    /// The App permission that it takes, as GitHub's settings page names it, with its level.
    pub permission: &'static str,
}

/// A call that did not give what was asked, with what adapters decide by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status; none when no whole answer came.
    pub status: Option<u16>,
    /// GitHub's message, empty when there is none.
    pub message: String,
    /// The failure in the words of the port.
    pub error: CallError,
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// How the call went out; texts differ by it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub need: Need,
    /// `POST /repos/o/r/statuses/…`, for the log.
    pub endpoint: String,
    pub writes: bool,
    /// As an App's installation; else with a token.
    pub as_app: bool,
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    errors: Option<serde_json::Value>,
}

/// GitHub's own words in an error answer: `message`, and the texts of `errors`.
pub(super) fn message(raw: &Raw) -> String {
    let body: ErrorBody = serde_json::from_slice(&raw.body).unwrap_or_default();
    let mut parts: Vec<String> = body.message.into_iter().collect();
    for error in body.errors.as_ref().and_then(|e| e.as_array()).into_iter().flatten() {
        let text = |key: &str| error.get(key).and_then(|v| v.as_str()).unwrap_or_default();
        match (error.as_str(), text("message"), text("field"), text("code")) {
            (Some(plain), ..) => parts.push(plain.to_owned()),
            (None, "", "", "") => {}
            (None, "", field, code) => parts.push(format!("{field} {code}").trim().to_owned()),
            (None, message, ..) => parts.push(message.to_owned()),
        }
    }
    parts.join("; ")
}

impl Failure {
    /// The installation must be left alone.
    pub(super) fn throttled(asked: &Asked, status: Option<u16>, wait: std::time::Duration) -> Self {
        let log = format!("{}: rate limit", asked.endpoint);
        Self { status, message: String::new(), error: CallError::Throttled { retry_after: wait, log } }
    }

    /// No whole answer came.
    pub(super) fn lost(asked: &Asked, lost: Lost) -> Self {
        let error = match lost {
            Lost::BeforeSending(text) => CallError::Unreachable { log: format!("{}: {text}", asked.endpoint) },
            Lost::AfterSending(text) => maybe_done(asked, &text),
        };
        Self { status: None, message: String::new(), error }
    }

    /// A good status with a body that is not what GitHub documents.
    pub(super) fn unreadable(asked: &Asked, status: StatusCode, problem: &str) -> Self {
        Self {
            status: Some(status.as_u16()),
            message: String::new(),
            error: CallError::Unreachable { log: format!("{}: unreadable answer: {problem}", asked.endpoint) },
        }
    }

    /// An answer that is neither a success nor a limit.
    pub(super) fn of_answer(asked: &Asked, raw: &Raw) -> Self {
        let message = message(raw);
        let status = raw.status.as_u16();
        // Proxies and gateways answer in forms of their own.
        let said = if message.is_empty() { String::from_utf8_lossy(&raw.body) } else { message.as_str().into() };
        let text = format!("{status} {}", one_line(&said));
        let error = if raw.status.is_server_error() || status == 408 {
            maybe_done(asked, &text)
        } else {
            let log = format!("{}: {text}", asked.endpoint);
            CallError::Refused { user: refusal(asked, status, &message), log }
        };
        Self { status: Some(status), message, error }
    }
}

fn maybe_done(asked: &Asked, text: &str) -> CallError {
    let log = format!("{}: {text}", asked.endpoint);
    if asked.writes { CallError::Unknown { log } } else { CallError::Unreachable { log } }
}

/// The text for the person on the change: what, why, and who can change it.
fn refusal(asked: &Asked, status: u16, message: &str) -> String {
    let Need { doing, permission } = asked.need;
    let who = if asked.as_app {
        "an owner of the organisation can grant it on the App's installation page"
    } else {
        "whoever runs this bot can give its token that permission"
    };
    match status {
        401 => format!(
            "GitHub does not accept this bot's credentials, so it cannot {doing}. Whoever runs the bot must renew them."
        ),
        403 if lacks_permission(message) => {
            format!("This bot cannot {doing}: it lacks the permission `{permission}` here; {who}.")
        }
        404 | 410 => format!(
            "GitHub shows this bot nothing to {doing}: it is gone, or the bot lacks the permission `{permission}` here; {who}."
        ),
        _ if message.is_empty() => format!("GitHub refused to {doing} (status {status})."),
        _ => format!("GitHub refused to {doing}: {}", quoted(message)),
    }
}

fn lacks_permission(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    text.contains("not accessible by")
        || text.contains("must have admin rights")
        || text.contains("must have push access")
}

/// A foreign text as inline code on one line: nobody is mentioned by it and no markup acts.
fn quoted(text: &str) -> String {
    format!("`{}`", one_line(text).replace('`', "'"))
}

fn one_line(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_CHARS_MAX).collect();
    flat.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn asked(writes: bool) -> Asked {
        let need = Need { doing: "restart jobs", permission: "Actions: write" };
        Asked { need, endpoint: "POST /x".into(), writes, as_app: true }
    }

    fn answer(status: u16, body: &str) -> Raw {
        let status = StatusCode::from_u16(status).expect("status");
        Raw { status, headers: HeaderMap::new(), body: Bytes::from(body.to_owned()) }
    }

    #[test]
    fn every_answer_is_classified_by_what_to_do_next() {
        let table = [
            // status, body, writes, kind, why
            (401, r#"{"message":"Bad credentials"}"#, false, "refused", "the operator must act"),
            (403, r#"{"message":"Resource not accessible by integration"}"#, true, "refused", "permission"),
            (403, r#"{"message":"This workflow run cannot be retried"}"#, true, "refused", "never possible"),
            (404, r#"{"message":"Not Found"}"#, false, "refused", "gone or hidden"),
            (409, r#"{"message":"Cannot cancel"}"#, true, "refused", "conflict"),
            (410, r#"{"message":"Gone"}"#, false, "refused", "expired"),
            (422, r#"{"message":"Validation Failed"}"#, true, "refused", "our fault"),
            (500, "", false, "unreachable", "a read can be repeated"),
            (500, "", true, "unknown", "a write may have worked"),
            (502, "<html>", true, "unknown", "a write may have worked"),
            (503, "", true, "unknown", "a write may have worked"),
        ];
        for (status, body, writes, kind, why) in table {
            let failure = Failure::of_answer(&asked(writes), &answer(status, body));
            let found = match failure.error {
                CallError::Refused { .. } => "refused",
                CallError::Throttled { .. } => "throttled",
                CallError::Unreachable { .. } => "unreachable",
                CallError::Unknown { .. } => "unknown",
            };
            assert_eq!((found, failure.status), (kind, Some(status)), "{status}: {why}");
        }
    }

    #[test]
    fn a_lost_write_is_unknown_unless_nothing_was_sent() {
        let kinds = [
            (true, Lost::BeforeSending("refused".into()), false),
            (true, Lost::AfterSending("reset".into()), true),
            (false, Lost::AfterSending("reset".into()), false),
        ];
        for (writes, lost, unknown) in kinds {
            let error = Failure::lost(&asked(writes), lost).error;
            assert_eq!(matches!(error, CallError::Unknown { .. }), unknown, "{error}");
            assert!(error.is_passing());
        }
    }

    #[test]
    fn a_missing_permission_is_named_with_the_person_who_can_grant_it() {
        let raw = answer(403, r#"{"message":"Resource not accessible by integration"}"#);
        let CallError::Refused { user, .. } = Failure::of_answer(&asked(true), &raw).error else { panic!("refused") };
        assert!(user.contains("`Actions: write`") && user.contains("owner of the organisation"), "{user}");
    }

    #[test]
    fn the_errors_of_a_validation_are_shown_and_can_do_no_mischief() {
        let raw =
            answer(422, r#"{"message":"Validation Failed","errors":[{"code":"custom","message":"a `b`\n@team"}]}"#);
        let CallError::Refused { user, .. } = Failure::of_answer(&asked(true), &raw).error else { panic!("refused") };
        assert!(user.contains("`Validation Failed; a 'b' @team`"), "{user}");
    }
}
