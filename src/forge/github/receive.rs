//! From a webhook request to a [`ForgeEvent`]: signature first, then one pass over the body.
//!
//! No outside call, no database. Whatever is authentic is taken: unknown events and actions are `Ignored`, never an
//! error, because GitHub adds new ones without notice. Read next: `hooks.rs`, `decode.rs`.

use std::borrow::Cow;

use http::{HeaderMap, header};

use super::Hooks;
use super::hooks::{Common, text};
use super::{decode, decode_issue};
use crate::domain::DeliveryId;
use crate::ports::{Decoded, Wanted, WebhookError, WebhookRequest, hmac_sha256_matches};

/// Why a payload became no event.
#[derive(Debug)]
pub(super) enum Skip {
    /// Authentic, but none of our business.
    Ignored(&'static str),
    /// Not what GitHub documents: where and what.
    Malformed(String),
}

pub(super) fn receive(hooks: &Hooks, request: &WebhookRequest) -> Result<Decoded, WebhookError> {
    verify(hooks, request)?;
    let event = named(&request.headers, "x-github-event")?;
    let id = DeliveryId::new(named(&request.headers, "x-github-delivery")?);
    let body = json_of(request)?;
    Ok(match decode::event(hooks, event, &body, request.at) {
        Ok(event) => Decoded::Wanted(Box::new(Wanted { id, event })),
        Err(Skip::Ignored(why)) => Decoded::Ignored(why),
        // An action that we do not use may look different from those that we do.
        Err(Skip::Malformed(_)) if !uses_action(event, &body) => Decoded::Ignored("action not used"),
        Err(Skip::Malformed(problem)) => Decoded::Malformed(format!("{event}: {problem}")),
    })
}

fn verify(hooks: &Hooks, request: &WebhookRequest) -> Result<(), WebhookError> {
    let given = request.headers.get("x-hub-signature-256").ok_or(WebhookError::Unsigned)?;
    let digits = given.as_bytes().strip_prefix(b"sha256=").ok_or(WebhookError::WrongSignature)?;
    let mut signature = [0_u8; 32];
    hex::decode_to_slice(digits, &mut signature).map_err(|_| WebhookError::WrongSignature)?;
    let authentic = hmac_sha256_matches(hooks.secrets.bytes(), &[&request.body], &signature);
    if authentic { Ok(()) } else { Err(WebhookError::WrongSignature) }
}

fn named<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, WebhookError> {
    let value = headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    value.ok_or_else(|| WebhookError::Unreadable(format!("the header `{name}` is missing: is this a GitHub webhook?")))
}

/// The JSON of the body; the signature has covered the bytes as they came, encoded or not.
fn json_of(request: &WebhookRequest) -> Result<Cow<'_, [u8]>, WebhookError> {
    let kind = request.headers.get(header::CONTENT_TYPE).map_or(&b"application/json"[..], |value| value.as_bytes());
    if kind.starts_with(b"application/json") {
        return Ok(Cow::Borrowed(&request.body));
    }
    let hint = "set the webhook's content type to application/json";
    if !kind.starts_with(b"application/x-www-form-urlencoded") {
        return Err(WebhookError::Unreadable(format!("this content type is not read: {hint}")));
    }
    let payload = form_urlencoded::parse(&request.body).find(|(name, _)| name == "payload");
    let payload = payload.map(|(_, json)| Cow::Owned(json.into_owned().into_bytes()));
    payload.ok_or_else(|| WebhookError::Unreadable(format!("the form has no field `payload`: {hint}")))
}

fn uses_action(event: &str, body: &[u8]) -> bool {
    let Ok(common) = serde_json::from_slice::<Common<'_>>(body) else { return true };
    let action = text(&common.action);
    match event {
        "issue_comment" | "pull_request_review_comment" => matches!(action, "created" | "edited" | "deleted"),
        "pull_request_review" => matches!(action, "submitted" | "edited"),
        "pull_request" => decode::change_action(action).is_some(),
        "issues" => decode_issue::uses_issue_action(action),
        "merge_group" => decode_issue::group_is_over(action).is_some(),
        "check_run" => matches!(action, "created" | "completed" | "rerequested" | "requested_action"),
        "check_suite" => action == "rerequested",
        "workflow_run" => action == "completed",
        "workflow_job" => matches!(action, "queued" | "waiting" | "in_progress" | "completed"),
        _ => true,
    }
}
