//! Claims about webhooks, on payloads written for them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::api::gitlab::{GitLabAccess, GitLabClient};
use crate::domain::{JobObservation, JobState, Origin, RunOrder};
use crate::forge::gitlab::{GitLabConfig, SigningKey};
use crate::ports::{Forge, ManualClock, Secrets};

const TOKEN: &str = "a-webhook-token-of-enough-length";
/// The vector of the reference (forge-gitlab, 2.2), computed with another implementation.
const KEY: &str = "whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=";
const KEY_ID: &str = "f5e5f430-f57b-4e6e-9fac-d9128cd7232f";
const KEY_SIGNATURE: &str = "v1,dm7G+GyB3GEwvfzlS5m4F0j+dyKvWK0OC8mJVsErgtM=";
const SIGNED_AT: i64 = 1_700_000_000_000;
const HEAD: &str = "562e173be03b8ff2efb05345d12df18815438a4b";
const MERGED: &str = "1111111111111111111111111111111111111111";

fn forge_with(change: impl FnOnce(&mut GitLabConfig)) -> GitLabForge {
    let access = GitLabAccess {
        url: "https://gitlab.example/prefix".parse().expect("an address"),
        token: "glpat-x".into(),
        request_timeout: Duration::from_secs(1),
        pause_between_writes: Duration::ZERO,
    };
    let clock = Arc::new(ManualClock::at(Timestamp::from_ms(SIGNED_AT)));
    let client = GitLabClient::new(reqwest::Client::new(), access, clock);
    let mut config = GitLabConfig {
        name: "lab".into(),
        webhook_tokens: Secrets::new(vec![TOKEN.into()]),
        signing_keys: vec![SigningKey::parse(KEY).expect("a key")],
        bot_login: Some("retest-bot".into()),
        repositories: None,
        may_hold_command: Arc::new(|text| text.contains('/')),
    };
    change(&mut config);
    GitLabForge::new(Arc::new(client), config)
}

fn forge() -> GitLabForge {
    forge_with(|_| {})
}

fn request(headers: &[(&'static str, &str)], body: &[u8]) -> WebhookRequest {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a header"));
    }
    WebhookRequest { headers: map, body: Bytes::copy_from_slice(body), at: Timestamp::from_ms(SIGNED_AT) }
}

fn decoded(forge: &GitLabForge, body: &Value) -> Decoded {
    let request = request(&[("x-gitlab-token", TOKEN)], body.to_string().as_bytes());
    forge.receive(&request).expect("authentic")
}

fn event(body: &Value) -> ForgeEvent {
    match decoded(&forge(), body) {
        Decoded::Wanted(wanted) => wanted.event,
        other => panic!("{other:?}"),
    }
}

fn comment(body: &Value) -> CommentEvent {
    match event(body) {
        ForgeEvent::Comment(comment) => *comment,
        other => panic!("{other:?}"),
    }
}

fn jobs(body: &Value) -> JobEvent {
    match event(body) {
        ForgeEvent::Jobs(jobs) => *jobs,
        other => panic!("{other:?}"),
    }
}

fn project() -> Value {
    json!({"id": 5, "path_with_namespace": "group/sub/proj", "web_url": "https://gitlab.example/prefix/group/sub/proj",
           "default_branch": "main"})
}

fn merge_request() -> Value {
    json!({"iid": 7, "state": "opened", "source_branch": "topic", "target_branch": "main", "source_project_id": 5,
           "target_project_id": 5, "last_commit": {"id": HEAD}, "author_id": 8, "labels": [{"title": "ci"}],
           "head_pipeline_id": 31, "draft": false})
}

fn note() -> Value {
    json!({
        "object_kind": "note", "event_type": "note", "user": {"id": 3, "username": "ann"}, "project_id": 5,
        "project": project(), "merge_request": merge_request(),
        "object_attributes": {"id": 1244, "note": "/retest", "noteable_type": "MergeRequest", "author_id": 3,
            "created_at": "2023-11-14 22:13:20 UTC", "updated_at": "2023-11-14 22:13:20 UTC", "system": false,
            "internal": false, "action": "create", "commit_id": ""}
    })
}

fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    *body.pointer_mut(pointer).expect("a place in the body") = value;
    body
}

fn without(mut body: Value, parent: &str, key: &str) -> Value {
    body.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|o| o.remove(key)).expect("a key to remove");
    body
}

#[test]
fn the_published_signature_passes_and_nothing_near_it_does() {
    let signed = |id: &str, at: &str, signature: &str, body: &[u8]| {
        let headers = [("webhook-id", id), ("webhook-timestamp", at), ("webhook-signature", signature)];
        forge().receive(&request(&headers, body)).err()
    };
    let body = br#"{"object_kind":"note"}"#;
    let at = "1700000000";
    let two = format!("v1,AAAA {KEY_SIGNATURE}");
    let wrong = Some(WebhookError::WrongSignature);
    assert_eq!(signed(KEY_ID, at, KEY_SIGNATURE, body), None);
    assert_eq!(signed(KEY_ID, at, &two, body), None, "any of several signatures");
    assert_eq!(signed("another id", at, KEY_SIGNATURE, body), wrong, "the id is signed");
    assert_eq!(signed(KEY_ID, "1700000001", KEY_SIGNATURE, body), wrong, "the time is signed");
    assert_eq!(signed(KEY_ID, at, KEY_SIGNATURE, br#"{"object_kind":"nota"}"#), wrong, "the body is signed");
    assert_eq!(signed(KEY_ID, at, &KEY_SIGNATURE.replace("v1,", "v2,"), body), wrong, "another scheme");
    assert_eq!(signed(KEY_ID, "soon", KEY_SIGNATURE, body), wrong, "a time that is none");
}

#[test]
fn a_signature_is_taken_for_five_minutes_either_way() {
    let headers = [("webhook-id", KEY_ID), ("webhook-timestamp", "1700000000"), ("webhook-signature", KEY_SIGNATURE)];
    for (shift_s, ok) in [(0, true), (300, true), (-300, true), (301, false), (-301, false)] {
        let mut request = request(&headers, br#"{"object_kind":"note"}"#);
        request.at = Timestamp::from_ms(SIGNED_AT + shift_s * 1_000);
        assert_eq!(forge().receive(&request).is_ok(), ok, "{shift_s} s");
    }
}

const BASE_SHA: &str = "4444444444444444444444444444444444444444";

fn push(branch: &str, after: &str) -> Value {
    json!({"object_kind": "push", "event_name": "push", "ref": branch, "after": after,
           "project": {"id": 7, "path_with_namespace": "acme/board", "default_branch": "main"}})
}

#[test]
fn a_push_to_the_default_branch_moves_the_base() {
    let Decoded::Wanted(wanted) = decoded(&forge(), &push("refs/heads/main", BASE_SHA)) else { panic!("not wanted") };
    let ForgeEvent::Push(push) = wanted.event else { panic!("no push") };
    assert_eq!((push.branch.as_str(), push.sha.as_str()), ("main", BASE_SHA));
}

#[test]
fn a_wrong_signature_is_not_made_good_by_the_right_token() {
    let headers = [
        ("x-gitlab-token", TOKEN),
        ("webhook-id", KEY_ID),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", "v1,AAAA"),
    ];
    let body = br#"{"object_kind":"push"}"#;
    assert_eq!(forge().receive(&request(&headers, body)).err(), Some(WebhookError::WrongSignature));
    let no_keys = forge_with(|config| config.signing_keys.clear());
    assert_eq!(
        no_keys.receive(&request(&headers, body)).err(),
        Some(WebhookError::WrongSignature),
        "nobody can check it"
    );
    assert!(forge().receive(&request(&headers[..1], body)).is_ok(), "the token alone, where nothing is signed");
}

#[test]
fn without_the_right_token_nothing_is_read() {
    let body = br#"{"object_kind":"push"}"#;
    assert_eq!(forge().receive(&request(&[], body)).err(), Some(WebhookError::Unsigned));
    let wrong = request(&[("x-gitlab-token", "a-webhook-token-of-enough-lengtH")], b"no json");
    assert_eq!(forge().receive(&wrong).err(), Some(WebhookError::WrongSignature));
}

#[test]
fn retries_of_one_delivery_have_one_id_and_two_hooks_of_one_request_have_two() {
    let id = |headers: &[(&'static str, &str)], body: &[u8]| delivery_id(&request(headers, body)).to_string();
    assert_eq!(id(&[("idempotency-key", "k"), ("webhook-id", "w")], b"x"), "k");
    assert_eq!(id(&[("webhook-id", "w"), ("x-gitlab-event-uuid", "u")], b"x"), "w");
    let shared = [("x-gitlab-event-uuid", "u")];
    assert_eq!(id(&shared, b"x"), id(&shared, b"x"), "the same body again");
    assert_ne!(id(&shared, b"x"), id(&shared, b"y"), "the event id is shared by all hooks of one request");
    assert_ne!(id(&[], b"x"), id(&[], b"y"));
}

#[test]
fn a_note_is_bound_to_the_head_that_its_payload_names() {
    let seen = comment(&note());
    assert_eq!((seen.change.number, seen.comment.id, seen.body.as_str()), (7, 1244, "/retest"));
    assert_eq!((seen.author.id, seen.author.login.as_str(), seen.author.is_bot), (3, "ann", false));
    assert_eq!(seen.head.as_ref().map(CommitSha::as_str), Some(HEAD));
    assert_eq!(seen.created_at, Timestamp::from_ms(1_700_000_000_000));
    assert!(seen.open && !seen.internal);
    assert_eq!(seen.repo.full_name, "group/sub/proj");
    assert_eq!(seen.repo.default_branch.as_deref(), Some("main"));
    let facts = seen.change_facts.expect("GitLab tells them");
    assert_eq!((facts.from_fork, facts.open, facts.base_ref.as_str()), (false, true, "main"));
    assert_eq!((facts.labels.as_slice(), facts.head_pipeline), (["ci".to_owned()].as_slice(), Some(31)));
    assert_eq!(facts.author.map(|author| author.id), Some(8));
}

#[test]
fn only_a_new_note_is_a_new_command() {
    let old_version = without(note(), "/object_attributes", "action");
    let edited_later = with(old_version.clone(), "/object_attributes/updated_at", json!("2023-11-14T22:14:00Z"));
    let edit = with(note(), "/object_attributes/action", json!("update"));
    let table = [
        (note(), true, "created"),
        (old_version, true, "before 16.11 there is no action: never edited"),
        (edited_later, false, "before 16.11: edited"),
        (edit.clone(), false, "edited"),
    ];
    for (body, new, why) in table {
        assert_eq!(comment(&body).action == CommentAction::Created, new, "{why}");
    }
    let by_other = with(edit, "/user", json!({"id": 4, "username": "ben"}));
    let seen = comment(&by_other);
    assert_eq!((seen.author.id, seen.sender.id), (3, 4), "somebody else's edit is not the author's");
}

#[test]
fn notes_that_cannot_command_are_put_aside() {
    let table = [
        (with(note(), "/object_attributes/note", json!("looks good")), "no command"),
        (with(note(), "/object_attributes/system", json!(true)), "GitLab's own"),
        (with(note(), "/object_attributes/noteable_type", json!("Issue")), "on an issue"),
        (with(note(), "/object_attributes/noteable_type", json!("Commit")), "on a commit"),
        (push("refs/heads/topic", BASE_SHA), "a push to another branch"),
        (push("refs/heads/main", &"0".repeat(40)), "a branch that is deleted"),
        (json!({"object_kind": "emoji"}), "an emoji"),
        (json!({"event_name": "project_create", "name": "x"}), "a system hook"),
    ];
    for (body, why) in table {
        assert!(matches!(decoded(&forge(), &body), Decoded::Ignored(_)), "{why}");
    }
}

#[test]
fn internal_notes_and_bots_and_forks_are_told() {
    let internal = with(note(), "/object_attributes/internal", json!(true));
    assert!(comment(&internal).internal);
    assert!(comment(&with(note(), "/event_type", json!("confidential_note"))).internal, "the older way to say it");
    let bot = with(note(), "/user/username", json!("project_5_bot_0a1b"));
    assert!(comment(&bot).author.is_bot);
    let fork = |source: Value| comment(&with(note(), "/merge_request/source_project_id", source)).change_facts;
    assert!(fork(json!(77)).expect("facts").from_fork);
    let gone = fork(Value::Null).expect("facts");
    assert!(gone.from_fork, "an unknown source counts as a fork");
    assert_eq!(gone.head_pipeline, None, "the fork's pipeline takes no status of ours");
}

#[test]
fn a_project_that_is_not_configured_is_ignored() {
    let mut globs = globset::GlobSetBuilder::new();
    globs.add(globset::Glob::new("group/**").expect("a glob"));
    let forge = forge_with(|config| config.repositories = globs.build().ok());
    assert!(matches!(decoded(&forge, &note()), Decoded::Wanted(_)));
    let other = with(note(), "/project/path_with_namespace", json!("other/proj"));
    assert!(matches!(decoded(&forge, &other), Decoded::Ignored(_)));
}

#[test]
fn what_cannot_be_read_says_where_it_broke() {
    let table = [
        (json!({"text": "a template"}), "custom template"),
        (with(note(), "/object_attributes/id", json!("x")), "object_attributes.id"),
        (without(note(), "", "merge_request"), "`merge_request` is missing"),
        (with(pipeline(), "/object_attributes/sha", json!("short")), "sha"),
    ];
    for (body, words) in table {
        match decoded(&forge(), &body) {
            Decoded::Malformed(text) => assert!(text.contains(words), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let request = request(&[("x-gitlab-token", TOKEN)], b"payload=%7B%7D");
    assert!(matches!(forge().receive(&request), Ok(Decoded::Malformed(_))), "not even JSON");
}

#[test]
fn a_merge_request_opens_moves_closes_or_is_edited() {
    let hook = |action: Value, oldrev: Value| {
        let mut attributes = merge_request();
        attributes["action"] = action;
        attributes["oldrev"] = oldrev;
        let body = json!({"object_kind": "merge_request", "user": {"id": 8, "username": "eve"}, "project": project(),
                          "object_attributes": attributes});
        match event(&body) {
            ForgeEvent::Change { change, action, .. } => (action, *change),
            other => panic!("{other:?}"),
        }
    };
    let table = [
        (json!("open"), Value::Null, ChangeAction::Opened),
        (json!("reopen"), Value::Null, ChangeAction::Opened),
        (json!("update"), json!(MERGED), ChangeAction::HeadMoved),
        (json!("update"), Value::Null, ChangeAction::Edited),
        (json!("approved"), Value::Null, ChangeAction::Edited),
        (json!("close"), Value::Null, ChangeAction::Closed),
        (json!("merge"), Value::Null, ChangeAction::Closed),
        (Value::Null, Value::Null, ChangeAction::Edited),
    ];
    for (word, oldrev, action) in table {
        assert_eq!(hook(word.clone(), oldrev).0, action, "{word}");
    }
    let (_, change) = hook(json!("open"), Value::Null);
    assert_eq!(change.author.map(|author| author.login).as_deref(), Some("eve"), "who opened it caused the hook");
}

fn pipeline() -> Value {
    json!({
        "object_kind": "pipeline", "project": project(), "merge_request": {"iid": 7},
        "object_attributes": {"id": 31, "ref": "refs/merge-requests/7/head", "sha": HEAD, "status": "failed",
            "source": "merge_request_event"},
        "builds": [
            {"id": 376, "stage": "test", "name": "lava-x86", "status": "failed", "failure_reason": "runner_system_failure",
             "allow_failure": false, "manual": false, "runner": {"id": 1}},
            {"id": 377, "stage": "test", "name": "unit", "status": "success", "failure_reason": "unknown_failure",
             "allow_failure": true, "manual": false, "runner": {"id": 1}},
            {"id": 378, "stage": "deploy", "name": "ship", "status": "manual", "allow_failure": true, "manual": true,
             "runner": null},
            {"id": 379, "stage": "external", "name": "lab/boot", "status": "failed", "failure_reason": "api_failure",
             "runner": null, "user": {"id": 40, "username": "lab"}},
            {"id": 380, "stage": "external", "name": "retest", "status": "failed", "failure_reason": "api_failure",
             "runner": null, "user": {"id": 41, "username": "retest-bot"}}
        ]
    })
}

#[test]
fn a_pipeline_tells_its_jobs_and_its_end() {
    let seen = jobs(&pipeline());
    assert_eq!((seen.sha.as_str(), seen.group_over.as_deref()), (HEAD, Some("31")));
    let short = |job: &JobObservation| (job.name.to_string(), job.state, job.origin.clone(), job.manual);
    let told: Vec<_> = seen.jobs.iter().map(short).collect();
    let expected = [
        ("lava-x86", JobState::Infrastructure, Origin::GitLabCi, false),
        ("unit", JobState::Passed, Origin::GitLabCi, false),
        ("ship", JobState::Pending, Origin::GitLabCi, true),
        ("lab/boot", JobState::Failed, Origin::Status, false),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(n, s, o, m)| (n.to_owned(), s, o, m)).collect();
    assert_eq!(told, expected, "our own status is no job");
    let first = &seen.jobs[0];
    assert_eq!((first.run.as_str(), first.order, first.group.as_deref()), ("376", RunOrder(376, 0), Some("31")));
    assert_eq!(first.cause.as_deref(), Some("runner_system_failure"));
    assert_eq!(first.url.as_deref(), Some("https://gitlab.example/prefix/group/sub/proj/-/jobs/376"));
    let running = jobs(&with(pipeline(), "/object_attributes/status", json!("running")));
    assert_eq!(running.group_over, None, "not over");
}

#[test]
fn a_merged_results_pipeline_belongs_to_the_head_where_the_hook_names_it() {
    let merged = with(pipeline(), "/object_attributes/ref", json!("refs/merge-requests/7/merge"));
    let merged = with(merged, "/object_attributes/sha", json!(MERGED));
    assert_eq!(jobs(&merged).sha.as_str(), MERGED, "nothing else is known");
    let named = with(merged, "/merge_request", json!({"iid": 7, "last_commit": {"id": HEAD}}));
    assert_eq!(jobs(&named).sha.as_str(), HEAD);
}

#[test]
fn jobs_of_child_pipelines_have_a_scope_of_their_own() {
    let mut child = pipeline();
    child["source_pipeline"] = json!({"project": {"id": 5}, "pipeline_id": 30, "job_id": 3401});
    assert_eq!(jobs(&child).jobs[0].scope, "pipeline 31");
    assert_eq!(jobs(&pipeline()).jobs[0].scope, "");
}

fn job_hook() -> Value {
    json!({
        "object_kind": "build", "ref": "topic", "sha": HEAD, "build_id": 381, "build_name": "lava-x86",
        "build_stage": "test", "build_status": "failed", "build_failure_reason": "missing_dependency_failure",
        "build_allow_failure": false, "pipeline_id": 31, "project_id": 5, "project_name": "Group / Sub / Proj",
        "user": {"id": 3, "username": "ann"}, "commit": {"id": 31, "sha": HEAD}, "runner": {"id": 1},
        "repository": {"homepage": "https://gitlab.example/prefix/group/sub/proj"}
    })
}

#[test]
fn a_job_hook_tells_one_job_of_the_project_that_its_page_names() {
    let seen = jobs(&job_hook());
    assert_eq!((seen.repo.full_name.as_str(), seen.repo.key.id), ("group/sub/proj", 5), "without the path prefix");
    assert_eq!((seen.sha.as_str(), seen.group_over), (HEAD, None));
    let job = &seen.jobs[0];
    assert_eq!((job.run.as_str(), job.state, job.group.as_deref()), ("381", JobState::Failed, Some("31")));
    assert_eq!(job.url.as_deref(), Some("https://gitlab.example/prefix/group/sub/proj/-/jobs/381"));
    let mut newer = job_hook();
    newer["project"] = project();
    assert_eq!(jobs(&newer).repo.default_branch.as_deref(), Some("main"));
}

#[test]
fn a_signature_of_any_length_is_refused_without_a_panic() {
    let standard = base64::engine::general_purpose::STANDARD;
    for length in [0, 1, 31, 33, 64] {
        let signature = format!("v1,{}", standard.encode(vec![0_u8; length]));
        let headers = [("webhook-id", KEY_ID), ("webhook-timestamp", "1700000000"), ("webhook-signature", &*signature)];
        assert!(forge().receive(&request(&headers, b"{}")).is_err(), "{length} bytes");
    }
}
