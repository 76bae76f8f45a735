//! Webhooks: headers, signatures, payloads of people's acts, and hooks that are switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::Router;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::deliveries::sign;
use super::tests::{HEAD, NEXT, Site};
use super::*;
use crate::sandbox::wire::{Recorded, Wire};

const SIGNING: &str = "whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=";

/// A receiver whose answer can be changed.
async fn receiver() -> (Wire, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(202));
    let shared = Arc::clone(&status);
    let answer = move || {
        let status = shared.load(Ordering::SeqCst);
        async move { StatusCode::from_u16(status).unwrap() }
    };
    (Wire::serve(Router::new().fallback(answer)).await.unwrap(), status)
}

fn header<'a>(request: &'a Recorded, name: &str) -> &'a str {
    request.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

fn both() -> HookSecret {
    HookSecret { token: Some("a plain secret".to_owned()), signing: Some(SIGNING.to_owned()) }
}

#[test]
fn the_signature_is_that_of_the_published_vector() {
    let id = "f5e5f430-f57b-4e6e-9fac-d9128cd7232f";
    let signature = sign(SIGNING, (id, 1_700_000_000), br#"{"object_kind":"note"}"#);
    assert_eq!(signature, "v1,dm7G+GyB3GEwvfzlS5m4F0j+dyKvWK0OC8mJVsErgtM=");
}

#[tokio::test]
async fn a_delivery_carries_gitlabs_headers_and_one_key_however_often_it_is_sent() {
    let site = Site::new().await;
    let (wire, _) = receiver().await;
    site.gitlab.hook(&wire.base_url(), both());
    site.gitlab.hook(&wire.base_url(), HookSecret::default());
    site.gitlab.note(site.project, site.iid, "ann", "/retest");
    assert_eq!(site.gitlab.pending_webhooks(), 1);
    site.gitlab.duplicate_webhooks(1);
    let sent = site.gitlab.deliver().await;
    assert_eq!(sent.iter().map(|sent| sent.event.as_str()).collect::<Vec<_>>(), ["Note Hook"; 4]);
    assert_eq!(
        (sent[0].uuid.as_str(), sent[0].status),
        (sent[2].uuid.as_str(), Some(202)),
        "the duplicate has its key"
    );
    assert_ne!(sent[0].uuid, sent[1].uuid, "each hook has keys of its own");
    site.gitlab.redeliver(&sent[0].uuid);
    assert_eq!(site.gitlab.deliver().await.iter().map(|sent| &sent.uuid).collect::<Vec<_>>(), [&sent[0].uuid]);

    let requests = wire.requests();
    let (first, second) = (&requests[0], &requests[1]);
    assert_eq!(header(first, "x-gitlab-event"), "Note Hook");
    assert_eq!(header(first, "x-gitlab-token"), "a plain secret");
    assert_eq!((header(first, "idempotency-key"), header(first, "webhook-id")), (&*sent[0].uuid, &*sent[0].uuid));
    assert_eq!(header(first, "webhook-timestamp"), "1800000000");
    let signature = sign(SIGNING, (&sent[0].uuid, 1_800_000_000), &first.body);
    assert_eq!(header(first, "webhook-signature"), signature);
    assert_eq!(header(first, "x-gitlab-instance"), site.gitlab.base_url());
    assert_eq!(header(first, "x-gitlab-event-uuid"), header(second, "x-gitlab-event-uuid"), "shared by all hooks");
    assert_ne!(header(first, "x-gitlab-webhook-uuid"), header(&requests[4], "x-gitlab-webhook-uuid"), "new per send");
    assert!(header(second, "webhook-signature").is_empty() && header(second, "x-gitlab-token").is_empty());
}

#[tokio::test]
async fn a_failing_hook_is_switched_off_for_a_minute_then_two_and_at_the_fortieth_failure_for_good() {
    let site = Site::new().await;
    let (wire, status) = receiver().await;
    site.gitlab.hook(&wire.base_url(), HookSecret::default());
    status.store(401, Ordering::SeqCst);
    let start = site.gitlab.now_ms();
    let send = async || {
        site.gitlab.note(site.project, site.iid, "ann", "hello");
        site.gitlab.deliver().await.len()
    };
    for failures in 1..=4 {
        assert_eq!(send().await, 1, "failure {failures}");
        assert_eq!(site.gitlab.hook_state()[0].failures, failures);
    }
    assert_eq!(site.gitlab.hook_state()[0].disabled_until, Some(start + 60_000), "the fourth in a row");
    assert_eq!(send().await, 0, "lost");
    site.gitlab.set_now(start + 60_001);
    assert_eq!(send().await, 1, "one more chance");
    assert_eq!(site.gitlab.hook_state()[0].disabled_until, Some(start + 60_001 + 120_000), "twice as long");
    site.gitlab.set_now(start + 300_000);
    status.store(302, Ordering::SeqCst);
    assert_eq!(send().await, 1);
    let healthy =
        HookState { id: site.gitlab.hook_state()[0].id, disabled_until: None, failures: 0, off_for_good: false };
    assert_eq!(site.gitlab.hook_state()[0], healthy, "a redirect is a success, and success forgets");

    status.store(500, Ordering::SeqCst);
    for failure in 1..=40_i64 {
        site.gitlab.set_now(start + 1_000_000 + failure * 86_400_001);
        assert_eq!(send().await, 1, "failure {failure}: the time out is a day at most");
    }
    site.gitlab.set_now(start + 900 * 86_400_000);
    assert_eq!(send().await, 0, "off for good");
    assert!(site.gitlab.hook_state()[0].off_for_good);
    site.gitlab.set_level(site.project, "retest-bot", 40);
    let shown = site.get(&format!("/projects/:id/hooks/{}", healthy.id)).await;
    assert_eq!((&shown.body["alert_status"], &shown.body["token_present"]), (&json!("disabled"), &json!(false)));
    site.gitlab.enable_hooks();
    assert_eq!(send().await, 1);
}

#[tokio::test]
async fn events_are_lost_and_reordered_on_command() {
    let site = Site::new().await;
    let (wire, _) = receiver().await;
    site.gitlab.hook(&wire.base_url(), HookSecret::default());
    site.gitlab.note(site.project, site.iid, "ann", "first");
    site.gitlab.push(site.project, site.iid, NEXT);
    site.gitlab.close(site.project, site.iid);
    site.gitlab.reverse_webhooks();
    site.gitlab.drop_webhooks("Note Hook");
    site.gitlab.deliver().await;
    let actions: Vec<Value> = wire
        .requests()
        .iter()
        .map(|request| serde_json::from_slice::<Value>(&request.body).unwrap()["object_attributes"]["action"].clone())
        .collect();
    assert_eq!(actions, [json!("close"), json!("update")]);
}

#[tokio::test]
async fn a_note_hook_names_the_head_and_an_internal_note_is_told_apart() {
    let site = Site::new().await;
    let id = site.gitlab.note(site.project, site.iid, "ann", "/retest lava-x86");
    site.gitlab.edit_note(id, "sam", "/retest all");
    let kind = NoteKind::Internal;
    site.gitlab.note_as(site.project, site.iid, "ann", NewNote { body: "/retest".to_owned(), kind });
    site.gitlab.note_as(site.project, site.iid, "ann", NewNote { body: "x".to_owned(), kind: NoteKind::System });
    let events = site.events();
    let names: Vec<_> = events.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["Note Hook", "Note Hook", "Confidential Note Hook"], "GitLab's own notes send nothing");
    let (new, edited, internal) = (&events[0].1, &events[1].1, &events[2].1);
    assert_eq!((&new["object_kind"], &new["object_attributes"]["action"]), (&json!("note"), &json!("create")));
    assert_eq!(new["merge_request"]["last_commit"]["id"], HEAD);
    assert_eq!(
        (&new["object_attributes"]["noteable_type"], &new["project_id"]),
        (&json!("MergeRequest"), &json!(site.project))
    );
    assert_eq!(new["object_attributes"]["created_at"], "2027-01-15 08:00:00 UTC");
    assert_eq!(
        (&edited["object_attributes"]["action"], &edited["user"]["username"]),
        (&json!("update"), &json!("sam"))
    );
    assert_eq!(edited["object_attributes"]["author_id"], new["user"]["id"]);
    assert_eq!(
        (&internal["event_type"], &internal["object_attributes"]["internal"]),
        (&json!("confidential_note"), &json!(true))
    );
}

#[tokio::test]
async fn only_a_push_names_the_head_before() {
    let site = Site::new().await;
    site.gitlab.push(site.project, site.iid, NEXT);
    site.gitlab.set_labels(site.project, site.iid, "ann", &["retest/auto"]);
    site.gitlab.approve(site.project, site.iid, "sam");
    site.gitlab.merge(site.project, site.iid);
    site.gitlab.reopen(site.project, site.iid);
    let events = site.events();
    let seen: Vec<_> = events
        .iter()
        .map(|(_, body)| {
            (body["object_attributes"]["action"].clone(), body["object_attributes"].get("oldrev").cloned())
        })
        .collect();
    let expected = [("update", Some(json!(HEAD))), ("update", None), ("approved", None), ("merge", None)];
    assert_eq!(seen, expected.map(|(action, oldrev)| (json!(action), oldrev)), "what is merged cannot be opened again");
    assert_eq!(events[0].1["object_attributes"]["last_commit"]["id"], NEXT);
    assert_eq!(events[1].1["changes"]["labels"]["current"][0]["title"], "retest/auto");
}

#[tokio::test]
async fn any_payload_can_be_sent_and_in_silent_mode_none_is() {
    let site = Site::new().await;
    site.gitlab.silent_mode(true);
    site.gitlab.note(site.project, site.iid, "ann", "hello");
    site.gitlab.silent_mode(false);
    site.gitlab.send_raw("Emoji Hook", json!({"what": "a custom template"}));
    assert_eq!(site.events(), [("Emoji Hook".into(), json!({"what": "a custom template"}))]);
}

#[tokio::test]
async fn webhooks_go_out_by_themselves_when_told_to() {
    let site = Site::new().await;
    let (wire, _) = receiver().await;
    site.gitlab.auto_deliver();
    site.gitlab.hook(&wire.base_url(), HookSecret::default());
    site.gitlab.note(site.project, site.iid, "ann", "hello");
    let arrived = async {
        while wire.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), arrived).await.unwrap();
    assert_eq!(header(&wire.requests()[0], "x-gitlab-event"), "Note Hook");
}
