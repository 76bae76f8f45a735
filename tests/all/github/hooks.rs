//! Deliveries: authenticity first, then what GitHub says in our words.

use std::sync::Arc;

use axum::http::StatusCode;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use retest_bot::domain::{
    ChangeAction, CommentAction, CommentKind, ForgeEvent, JobState, Origin, Pressed, RunOrder, Timestamp,
};
use retest_bot::forge::github::{GitHub, GitHubForgeConfig};
use retest_bot::ports::{Decoded, Forge as _, Secrets, WebhookError, WebhookRequest};
use retest_bot::sandbox::github::{NewJob, NewPull, NewWorkflow};
use retest_bot::sandbox::wire::Wire;
use serde_json::{Value, json};

use super::{APP, HEAD, INSTALLATION, REPO, SECRET, START_MS, Site, app};

const NEXT: &str = "2222222222222222222222222222222222222222";

pub fn signed(event: &str, body: impl Into<Bytes>) -> WebhookRequest {
    let body = body.into();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(SECRET.as_bytes()).expect("any length");
    mac.update(&body);
    let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
    let mut headers = HeaderMap::new();
    let pairs = [
        ("x-github-event", event),
        ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        ("x-hub-signature-256", signature.as_str()),
        ("content-type", "application/json"),
    ];
    for (name, value) in pairs {
        headers.insert(name, value.parse().expect("a header"));
    }
    WebhookRequest { headers, body, at: Timestamp::from_ms(START_MS) }
}

fn repository() -> Value {
    json!({"id": 5, "full_name": REPO, "default_branch": "main"})
}

fn comment(action: &str, body: &str) -> Value {
    json!({
        "action": action,
        "issue": {"number": 7, "state": "open", "pull_request": {"url": "u"}},
        "comment": {
            "id": 31, "body": body, "created_at": "2027-01-15T08:00:00Z",
            "user": {"id": 4, "login": "ann", "type": "User"},
        },
        "repository": repository(),
        "sender": {"id": 4, "login": "ann", "type": "User"},
        "installation": {"id": INSTALLATION},
    })
}

fn receive(site: &Site, event: &str, body: &Value) -> Decoded {
    site.forge.receive(&signed(event, body.to_string())).expect("authentic")
}

fn wanted(decoded: Decoded) -> ForgeEvent {
    match decoded {
        Decoded::Wanted(wanted) => wanted.event,
        other => panic!("wanted, not {other:?}"),
    }
}

fn why_ignored(decoded: &Decoded) -> &'static str {
    match decoded {
        Decoded::Ignored(why) => why,
        other => panic!("ignored, not {other:?}"),
    }
}

#[tokio::test]
async fn only_what_is_signed_with_a_secret_of_ours_is_looked_at() {
    let site = Site::new(app()).await;
    let good = signed("issue_comment", comment("created", "/retest").to_string());
    let with = |header: Option<&str>, body: &str| {
        let mut request = WebhookRequest { body: Bytes::from(body.to_owned()), ..good.clone() };
        request.headers.remove("x-hub-signature-256");
        if let Some(value) = header {
            request.headers.insert("x-hub-signature-256", value.parse().expect("a header"));
        }
        site.forge.receive(&request).map(|_| ())
    };
    let signature = good.headers["x-hub-signature-256"].to_str().expect("text").to_owned();
    let body = std::str::from_utf8(&good.body).expect("text");
    let sha1 = signature.replace("sha256=", "sha1=");
    let table = [
        (Some(signature.as_str()), body, Ok(()), "the true one"),
        (None, body, Err(WebhookError::Unsigned), "none"),
        (Some(signature.as_str()), "{}", Err(WebhookError::WrongSignature), "of another body"),
        (Some(&signature[..70]), body, Err(WebhookError::WrongSignature), "cut"),
        (Some(sha1.as_str()), body, Err(WebhookError::WrongSignature), "weaker digest"),
        (Some("sha256=zz"), "no JSON", Err(WebhookError::WrongSignature), "not parsed before it is checked"),
    ];
    for (header, body, result, why) in table {
        assert_eq!(with(header, body), result, "{why}");
    }
}

#[tokio::test]
async fn a_form_is_decoded_after_its_encoded_bytes_were_checked_and_other_kinds_are_refused_with_a_hint() {
    let site = Site::new(app()).await;
    let json = comment("created", "/retest \"a&b=c\" é").to_string();
    let form = form_urlencoded::Serializer::new(String::new()).append_pair("payload", &json).finish();
    let mut request = signed("issue_comment", form);
    request.headers.insert("content-type", "application/x-www-form-urlencoded".parse().expect("a header"));
    let ForgeEvent::Comment(said) = wanted(site.forge.receive(&request).expect("decoded")) else { panic!("a comment") };
    assert_eq!(said.body, "/retest \"a&b=c\" é");

    request.headers.insert("content-type", "text/xml".parse().expect("a header"));
    let Err(WebhookError::Unreadable(hint)) = site.forge.receive(&request) else { panic!("unreadable") };
    assert!(hint.contains("application/json"), "{hint}");
}

#[tokio::test]
async fn a_comment_becomes_an_event_with_all_that_github_tells() {
    let site = Site::new(app()).await;
    let mut body = comment("edited", "/retest lint");
    body["changes"] = json!({"body": {"from": "/retest"}});
    body["sender"] = json!({"id": 8, "login": "bob", "type": "User"});
    let ForgeEvent::Comment(said) = wanted(receive(&site, "issue_comment", &body)) else { panic!("a comment") };
    assert_eq!(said.action, CommentAction::Edited { before: Some("/retest".into()) });
    assert_eq!((said.author.id, said.sender.id), (4, 8), "somebody else edited it");
    assert_eq!((said.change.number, said.comment.id, said.comment.kind), (7, 31, CommentKind::Issue));
    assert_eq!((said.repo.key.id, said.repo.installation), (5, Some(INSTALLATION)));
    assert_eq!(said.created_at, Timestamp::from_ms(1_800_000_000_000));
    assert!(said.open && said.head.is_none() && !said.internal);
}

#[tokio::test]
async fn what_is_none_of_our_business_is_told_apart_before_anything_is_stored() {
    let site = Site::new(app()).await;
    let patch = |change: fn(&mut Value)| {
        let mut body = comment("created", "/retest");
        change(&mut body);
        body
    };
    let table = [
        ("issue_comment", patch(|b| b["issue"]["pull_request"] = Value::Null), "comment not on a pull request"),
        ("issue_comment", patch(|b| b["comment"]["body"] = json!("thanks!")), "no command"),
        ("issue_comment", patch(|b| b["comment"]["performed_via_github_app"] = json!({"id": APP})), "our own comment"),
        ("issue_comment", patch(|b| b["action"] = json!("pinned")), "action not used"),
        ("issue_comment", json!({"action": "brand_new", "comment": 7}), "action not used"),
        ("workflow_run", json!({"action": "requested"}), "action not used"),
        ("star", json!({"action": "created"}), "event not used"),
        ("ping", json!({"zen": "z"}), "ping"),
    ];
    for (event, body, why) in table {
        assert_eq!(why_ignored(&receive(&site, event, &body)), why, "{body}");
    }
}

#[tokio::test]
async fn nulls_and_unknown_words_do_no_harm_and_a_broken_payload_is_told_with_its_place() {
    let site = Site::new(app()).await;
    let mut body = comment("created", "/retest");
    body["comment"]["user"] = Value::Null;
    body["sender"] = Value::Null;
    body["installation"] = Value::Null;
    body["issue"]["state"] = json!("some_new_state");
    let ForgeEvent::Comment(said) = wanted(receive(&site, "issue_comment", &body)) else { panic!("a comment") };
    assert_eq!((said.author.login.as_str(), said.author.id), ("ghost", 0));
    body["comment"]["id"] = json!("31");
    let Decoded::Malformed(problem) = receive(&site, "issue_comment", &body) else { panic!("malformed") };
    assert!(problem.contains("comment.id"), "{problem}");
}

#[tokio::test]
async fn only_repositories_on_the_operators_list_are_heard() {
    let site = Site::new(app()).await;
    let mut globs = globset::GlobSetBuilder::new();
    globs.add(globset::Glob::new("other/*").expect("a glob"));
    let config = GitHubForgeConfig {
        webhook_secrets: Secrets::new(vec![SECRET.into()]),
        repositories: Some(globs.build().expect("globs")),
        bot_login: None,
        may_hold_command: Arc::new(|_| true),
    };
    let forge = GitHub::new(Arc::clone(&site.api), config, Arc::new(site.clock.clone()));
    let mut body = comment("created", "/retest");
    let decoded = forge.receive(&signed("issue_comment", body.to_string())).expect("authentic");
    assert_eq!(why_ignored(&decoded), "repository not listed");
    body["repository"]["full_name"] = json!("other/board");
    wanted(forge.receive(&signed("issue_comment", body.to_string())).expect("authentic"));
}

/// What the sandbox delivers for `act`, as the forge decodes it.
async fn heard(site: &Site, receiver: &Wire, act: impl FnOnce(&Site)) -> Vec<Decoded> {
    site.sandbox.deliver().await;
    receiver.forget_requests();
    act(site);
    site.sandbox.deliver().await;
    let requests = receiver.requests().into_iter();
    requests
        .map(|r| {
            let request = WebhookRequest { headers: r.headers, body: r.body, at: Timestamp::from_ms(START_MS) };
            site.forge.receive(&request).expect("authentic")
        })
        .collect()
}

async fn listening() -> (Site, Wire) {
    let site = Site::new(app()).await;
    let router = axum::Router::new().fallback(|| async { StatusCode::ACCEPTED });
    let receiver = Wire::serve(router).await.expect("a port");
    site.sandbox.hook(&format!("{}/webhooks/github", receiver.base_url()), SECRET);
    (site, receiver)
}

fn events(decoded: Vec<Decoded>) -> Vec<ForgeEvent> {
    let wanted = decoded.into_iter().filter_map(|d| match d {
        Decoded::Wanted(wanted) => Some(wanted.event),
        Decoded::Ignored(_) => None,
        Decoded::Malformed(problem) => panic!("{problem}"),
    });
    wanted.collect()
}

#[tokio::test]
async fn the_life_of_a_change_is_heard() {
    let (site, receiver) = listening().await;
    let new = NewPull { from_fork: true, ..NewPull::default() };
    let opened = heard(&site, &receiver, |s| {
        s.sandbox.open_pull(REPO, "eve", HEAD, new);
    });
    let number = 1;
    let table = [
        (opened.await, ChangeAction::Opened, HEAD),
        (heard(&site, &receiver, |s| s.sandbox.push(REPO, number, NEXT)).await, ChangeAction::HeadMoved, NEXT),
        (heard(&site, &receiver, |s| s.sandbox.label(REPO, number, "ann", "x")).await, ChangeAction::Edited, NEXT),
        (heard(&site, &receiver, |s| s.sandbox.close_pull(REPO, number, false)).await, ChangeAction::Closed, NEXT),
        (heard(&site, &receiver, |s| s.sandbox.reopen_pull(REPO, number)).await, ChangeAction::Opened, NEXT),
    ];
    for (decoded, wanted, sha) in table {
        let found = events(decoded).into_iter().find_map(|event| match event {
            ForgeEvent::Change { change, action, repo } => Some((change, action, repo)),
            _ => None,
        });
        let (change, action, repo) = found.expect("news of the change");
        assert_eq!((action, change.head.as_str(), change.from_fork), (wanted, sha, true));
        assert_eq!(change.open, wanted != ChangeAction::Closed);
        assert_eq!(repo.installation, Some(INSTALLATION));
    }
}

#[tokio::test]
async fn comments_of_every_kind_are_heard() {
    let (site, receiver) = listening().await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let said = heard(&site, &receiver, |s| {
        s.sandbox.comment(REPO, number, "bob", "/retest");
        s.sandbox.review_comment(REPO, number, "bob", "/retest lint");
        s.sandbox.review(REPO, number, "bob", "/retest unit", "commented");
    });
    let kinds: Vec<_> = events(said.await)
        .into_iter()
        .filter_map(|event| match event {
            ForgeEvent::Comment(c) => Some((c.comment.kind, c.body, c.head.map(|sha| sha.to_string()))),
            _ => None,
        })
        .collect();
    let head = Some(HEAD.to_owned());
    let wanted = [
        (CommentKind::Issue, "/retest".to_owned(), None),
        (CommentKind::ReviewLine, "/retest lint".to_owned(), head.clone()),
        (CommentKind::Review, "/retest unit".to_owned(), head),
    ];
    for kind in wanted {
        assert!(kinds.contains(&kind), "{kind:?} in {kinds:?}");
    }
}

#[tokio::test]
async fn jobs_are_heard_from_queue_to_end_and_the_end_of_their_run_is_told() {
    let (site, receiver) = listening().await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let workflow = NewWorkflow {
        name: "CI".into(),
        path: ".github/workflows/ci.yml".into(),
        event: "pull_request".into(),
        jobs: vec![NewJob { name: "unit".into(), needs: Vec::new() }],
        needs_approval: false,
    };
    let mut run = 0;
    let decoded = heard(&site, &receiver, |s| {
        run = s.sandbox.start_workflow(REPO, HEAD, workflow);
        s.sandbox.start_job(run, "unit");
        s.sandbox.finish_job(run, "unit", "failure");
    });
    let (mut states, mut over) = (Vec::new(), Vec::new());
    for event in events(decoded.await) {
        let ForgeEvent::Jobs(news) = event else { continue };
        over.extend(news.group_over);
        for job in news.jobs {
            assert_eq!((job.name.as_str(), job.scope.as_str(), &job.origin), ("unit", "CI", &Origin::Actions));
            assert_eq!(job.order, RunOrder(run as i64, 1));
            assert!(job.run.as_str().starts_with(&format!("{run}/1/")));
            states.push(job.state);
        }
    }
    assert_eq!(
        states,
        [JobState::Pending, JobState::Running, JobState::Failed],
        "GitHub Actions' checks are not told twice"
    );
    assert_eq!(over, [run.to_string()]);
}

#[tokio::test]
async fn statuses_and_checks_of_others_are_jobs_and_ours_are_not() {
    let (site, receiver) = listening().await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    site.forge.learn_own_login().await.expect("our name");
    let decoded = heard(&site, &receiver, |s| {
        s.sandbox.set_status(REPO, HEAD, "lava-x86", "error", "", "https://lava.example/2");
        s.sandbox.foreign_check(REPO, HEAD, "other-ci", "e2e", Some("failure"));
    });
    let jobs: Vec<_> = events(decoded.await)
        .into_iter()
        .filter_map(|event| match event {
            ForgeEvent::Jobs(news) => Some(news.jobs),
            _ => None,
        })
        .flatten()
        .map(|job| (job.name.as_str().to_owned(), job.origin, job.state))
        .collect();
    assert!(jobs.contains(&("lava-x86".into(), Origin::Status, JobState::Infrastructure)), "{jobs:?}");
    assert!(jobs.contains(&("e2e".into(), Origin::Check("other-ci".into()), JobState::Failed)), "{jobs:?}");

    let ours = json!({
        "id": 1, "sha": HEAD, "context": "retest", "state": "pending", "repository": repository(),
        "sender": {"id": 3, "login": "Retest-Bot[bot]", "type": "Bot"},
    });
    assert_eq!(why_ignored(&receive(&site, "status", &ours)), "our own status");
    let check = json!({
        "action": "completed", "repository": repository(),
        "check_run": {"id": 1, "name": "retest", "head_sha": HEAD, "status": "completed", "app": {"id": APP}},
    });
    assert_eq!(why_ignored(&receive(&site, "check_run", &check)), "our own check run");
}

#[tokio::test]
async fn buttons_on_our_check_are_presses_by_the_person_and_others_buttons_are_not_ours() {
    let site = Site::new(app()).await;
    let check = |action: &str, app: u64| {
        json!({
            "action": action, "repository": repository(), "sender": {"id": 4, "login": "ann"},
            "check_run": {"id": 1, "name": "retest", "head_sha": HEAD, "app": {"id": app, "slug": "x"}},
            "check_suite": {"head_sha": HEAD, "app": {"id": app, "slug": "x"}},
            "requested_action": {"identifier": "retest-failed"},
        })
    };
    let table = [
        ("check_run", "rerequested", Pressed::Rerun),
        ("check_run", "requested_action", Pressed::Button("retest-failed".into())),
        ("check_suite", "rerequested", Pressed::Rerun),
    ];
    for (event, action, pressed) in table {
        let ForgeEvent::Press(press) = wanted(receive(&site, event, &check(action, APP))) else { panic!("a press") };
        assert_eq!((press.pressed, press.sender.id, press.sha.as_str()), (pressed, 4, HEAD), "{event} {action}");
        assert_eq!(why_ignored(&receive(&site, event, &check(action, 1))), "a button of another App");
    }
}
