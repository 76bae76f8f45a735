//! Issues: read, written, commented on, and told by webhooks.

use std::time::Duration;

use axum::http::StatusCode;
use http::Method;
use retest_bot::domain::{ChangeAction, ForgeEvent, Issue, IssueEvent};
use retest_bot::ports::{CallError, Decoded, Forge as _, IssuePost, ReportPost, WebhookRequest};
use retest_bot::sandbox::github::NewPull;
use retest_bot::sandbox::wire::{Fault, Wire};
use serde_json::{Value, json};

use super::hooks::signed;
use super::{HEAD, REPO, Site, app, token};

const MARKER: &str = "<!-- retest-bot:flake -->";

fn post(number: Option<u64>, title: &str, body: &str, labels: &[&str]) -> IssuePost {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    IssuePost { number, title: some(title), body: some(body), labels }
}

fn comment(known: Option<u64>, text: &str) -> ReportPost {
    ReportPost { body: format!("{MARKER}\n{text}"), marker: MARKER.into(), known, internal: false }
}

async fn flakes(site: &Site) -> Vec<Issue> {
    site.forge.labelled_issues(&site.repo, "flake").await.expect("a list")
}

#[tokio::test]
async fn labelled_issues_are_all_open_ones_of_all_pages_and_no_change() {
    let site = Site::new(app()).await;
    for n in 0..230 {
        let labels: &[&str] = if n % 2 == 0 { &["flake", "arm"] } else { &["bug"] };
        site.sandbox.open_issue(REPO, "ann", &format!("issue {n}"), "text", labels);
    }
    let closed = site.sandbox.open_issue(REPO, "ann", "closed", "text", &["flake"]);
    site.sandbox.close_issue(REPO, closed, "ann");
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull { labels: vec!["flake".into()], ..NewPull::default() });
    let capital = site.sandbox.open_issue(REPO, "ann", "capital", "", &["Flake"]);
    let found = flakes(&site).await;
    assert_eq!(found.len(), 116);
    assert!(found.is_sorted_by_key(|issue| issue.number), "oldest first");
    let last = &found[115];
    assert_eq!((last.number, last.open, last.body.as_str()), (capital, true, ""), "capitals are the same to GitHub");
    assert_eq!((found[0].title.as_str(), &found[0].labels[..]), ("issue 0", &["flake".into(), "arm".into()][..]));
    assert!(found[0].url.ends_with("/acme/board/issues/1"), "{}", found[0].url);
    let none = site.forge.labelled_issues(&site.repo, "flake,arm").await;
    assert_eq!(none, Ok(Vec::new()), "a comma is part of a label's name, not two labels");
}

#[tokio::test]
async fn an_unchanged_list_of_issues_costs_nothing() {
    let site = Site::new(app()).await;
    site.sandbox.open_issue(REPO, "ann", "one", "text", &["flake"]);
    let first = flakes(&site).await;
    site.sandbox.set_budget(5_000, 3, 403);
    for _ in 0..6 {
        assert_eq!(flakes(&site).await, first);
    }
}

#[tokio::test]
async fn a_repository_without_issues_has_none_and_a_failed_list_is_an_error() {
    let site = Site::new(app()).await;
    site.sandbox.set_issues_off(REPO, true);
    assert_eq!(flakes(&site).await, Vec::new());
    site.sandbox.set_issues_off(REPO, false);
    site.sandbox.grant_app(&[("metadata", "read"), ("checks", "write")]);
    let refused = site.forge.labelled_issues(&site.repo, "flake").await;
    let Err(CallError::Refused { user, .. }) = refused else { panic!("{refused:?}") };
    assert!(user.contains("Issues: read"), "{user}");
}

#[tokio::test]
async fn an_issue_that_is_a_change_or_gone_is_none() {
    let site = Site::new(app()).await;
    site.sandbox.add_repo("acme/other");
    let issue = site.sandbox.open_issue(REPO, "ann", "one", "text", &["flake"]);
    let deleted = site.sandbox.open_issue(REPO, "ann", "two", "text", &["flake"]);
    let moved = site.sandbox.open_issue(REPO, "ann", "three", "text", &["flake"]);
    let pull = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    site.sandbox.delete_issue(REPO, deleted, "ann");
    for _ in 0..2 {
        site.sandbox.open_issue("acme/other", "ann", "there", "", &[]);
    }
    let there = site.sandbox.transfer_issue(REPO, moved, "ann", "acme/other");
    assert_eq!(there, moved, "the same number by chance");
    let ask = |number: u64| site.forge.issue(&site.repo, number);
    assert_eq!(ask(issue).await.expect("an answer").map(|found| found.title), Some("one".into()));
    for (number, why) in [(deleted, "deleted"), (moved, "moved away"), (pull, "a change"), (999, "never was")] {
        assert_eq!(ask(number).await, Ok(None), "{why}");
        let refused = site.forge.put_issue(&site.repo, &post(Some(number), "", "new text", &["flake"])).await;
        assert!(matches!(refused, Err(CallError::Refused { .. })), "{why}: {refused:?}");
    }
    assert_eq!(site.count(&Method::PATCH, "/issues/"), 0, "nothing was written to any of them");
    site.sandbox.rename_repo(REPO, "acme/board-2");
    assert!(ask(issue).await.expect("an answer").is_some(), "of a renamed repository it still is");
    site.sandbox.wire().break_next(None, "/issues/", 1, Fault::ResetBefore);
    assert!(ask(issue).await.is_err(), "not known is not gone");
}

#[tokio::test]
async fn an_issue_is_opened_with_its_labels_and_changed_without_losing_any() {
    let site = Site::new(app()).await;
    let made = site.forge.put_issue(&site.repo, &post(None, "Flake: `lava`", "text", &["flake"])).await.expect("made");
    assert_eq!((made.labels.as_slice(), made.open), (&["flake".to_owned()][..], true));
    site.sandbox.label(REPO, made.number, "ann", "arm");
    site.wait(Duration::from_secs(60));
    let labels = ["flake", "lab"];
    let changed = site.forge.put_issue(&site.repo, &post(Some(made.number), "", "more text", &labels)).await;
    let changed = changed.expect("changed");
    assert!(changed.updated_at > made.updated_at);
    let stands = site.sandbox.issue(REPO, made.number).expect("an issue");
    assert_eq!((stands.title.as_str(), stands.body.as_str()), ("Flake: `lava`", "more text"), "the title is left");
    assert_eq!(
        (stands.labels.as_slice(), changed.labels),
        (&["flake", "arm", "lab"].map(String::from)[..], stands.labels.clone())
    );
    assert_eq!(stands.author, "retest-bot[bot]");
    site.sandbox.wire().forget_requests();
    let again = post(Some(made.number), "Flake: `lava`", "more text", &["lab"]);
    site.forge.put_issue(&site.repo, &again).await.expect("as it stands");
    let writes = site.sandbox.wire().requests().iter().filter(|request| request.method != Method::GET).count();
    assert_eq!(writes, 0, "what stands already is not written again");
    let nameless = site.forge.put_issue(&site.repo, &post(None, "", "text", &[])).await;
    assert!(matches!(nameless, Err(CallError::Refused { .. })), "{nameless:?}");
}

#[tokio::test]
async fn an_opened_issue_whose_answer_got_lost_is_unknown() {
    let site = Site::new(app()).await;
    site.sandbox.wire().break_next(Some(Method::POST), "/issues", 1, Fault::Truncate);
    let lost =
        site.forge.put_issue(&site.repo, &post(None, "t", "text", &["flake"])).await.expect_err("half an answer");
    assert!(matches!(lost, CallError::Unknown { .. }), "{lost}");
    assert_eq!(flakes(&site).await.len(), 1, "a list tells whether it was made");
}

#[tokio::test]
async fn our_comment_on_an_issue_is_one_and_found_among_impostors() {
    let site = Site::new(token()).await;
    let issue = site.sandbox.open_issue(REPO, "ann", "one", "text", &["flake"]);
    site.sandbox.comment(REPO, issue, "eve", &format!("{MARKER}\nnot ours"));
    let first = site.forge.post_issue_comment(&site.repo, issue, &comment(None, "seen 1 time")).await.expect("made");
    site.sandbox.comment(REPO, issue, "eve", &format!("{MARKER}\nnot ours either"));
    for known in [None, Some(first)] {
        let again = site.forge.post_issue_comment(&site.repo, issue, &comment(known, "seen 2 times")).await;
        assert_eq!(again, Ok(first));
    }
    let ours: Vec<_> = site.sandbox.comments(REPO, issue).into_iter().filter(|c| c.author != "eve").collect();
    assert_eq!((ours.len(), ours[0].body.as_str()), (1, format!("{MARKER}\nseen 2 times").as_str()));
    site.sandbox.delete_comment(REPO, first, "ann");
    let anew = site.forge.post_issue_comment(&site.repo, issue, &comment(Some(first), "seen 3 times")).await;
    assert!(anew.is_ok_and(|id| id != first));
}

/// What the bot hears of what the sandbox tells, by event and action.
async fn heard(site: &Site, receiver: &Wire) -> Vec<(String, Decoded)> {
    receiver.forget_requests();
    site.sandbox.deliver().await;
    let of = |request: retest_bot::sandbox::wire::Recorded| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let event = request.headers["x-github-event"].to_str().expect("text").to_owned();
        let request = WebhookRequest {
            headers: request.headers,
            body: request.body,
            at: retest_bot::domain::Timestamp::from_ms(0),
        };
        let name = format!("{event}.{}", body["action"].as_str().unwrap_or_default());
        (name, site.forge.receive(&request).expect("authentic"))
    };
    receiver.requests().into_iter().map(of).collect()
}

fn issue_of(decoded: &Decoded) -> &IssueEvent {
    match decoded {
        Decoded::Wanted(wanted) => match &wanted.event {
            ForgeEvent::Issue(event) => event,
            other => panic!("an issue, not {other:?}"),
        },
        other => panic!("wanted, not {other:?}"),
    }
}

#[tokio::test]
async fn whatever_happens_to_an_issue_is_heard_and_one_that_is_gone_counts_as_closed() {
    let site = Site::new(app()).await;
    site.sandbox.add_repo("acme/other");
    let receiver = Wire::serve(axum::Router::new().fallback(|| async { StatusCode::ACCEPTED })).await.expect("a port");
    site.sandbox.hook(&receiver.base_url(), super::SECRET);
    let number = site.sandbox.open_issue(REPO, "ann", "one", "```toml\n```", &[]);
    site.sandbox.label(REPO, number, "ann", "flake");
    site.sandbox.edit_issue(REPO, number, "ann", "new text");
    site.sandbox.unlabel(REPO, number, "ann", "flake");
    site.sandbox.close_issue(REPO, number, "ann");
    site.sandbox.reopen_issue(REPO, number, "ann");
    site.sandbox.transfer_issue(REPO, number, "ann", "acme/other");
    let second = site.sandbox.open_issue(REPO, "ann", "two", "", &[]);
    site.sandbox.delete_issue(REPO, second, "ann");
    let heard = heard(&site, &receiver).await;
    let told: Vec<_> = heard
        .iter()
        .map(|(name, decoded)| {
            let event = issue_of(decoded);
            (name.as_str(), event.issue.open, event.issue.body.as_str(), event.issue.labels.join(","))
        })
        .collect();
    let row = |name, open, body, labels: &str| (name, open, body, labels.to_owned());
    assert_eq!(
        told,
        [
            row("issues.opened", true, "```toml\n```", ""),
            row("issues.labeled", true, "```toml\n```", "flake"),
            row("issues.edited", true, "new text", "flake"),
            row("issues.unlabeled", true, "new text", ""),
            row("issues.closed", false, "new text", ""),
            row("issues.reopened", true, "new text", ""),
            row("issues.transferred", false, "new text", ""),
            row("issues.opened", true, "new text", ""),
            row("issues.opened", true, "", ""),
            row("issues.deleted", false, "", ""),
        ]
    );
    let (_, first) = &heard[0];
    let event = issue_of(first);
    assert_eq!(
        (event.issue.number, &event.repo.key, event.repo.installation),
        (number, &site.repo.key, site.repo.installation)
    );
    assert_eq!(issue_of(&heard[7].1).repo.full_name, "acme/other");
    assert_eq!(event.issue.updated_at.ms(), super::START_MS);
}

#[tokio::test]
async fn labels_on_a_change_are_heard_as_an_edit_with_the_labels_that_it_has_now() {
    let site = Site::new(app()).await;
    let receiver = Wire::serve(axum::Router::new().fallback(|| async { StatusCode::ACCEPTED })).await.expect("a port");
    site.sandbox.hook(&receiver.base_url(), super::SECRET);
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    site.sandbox.label(REPO, number, "ann", "retest/auto");
    site.sandbox.unlabel(REPO, number, "ann", "retest/auto");
    let mut labels = Vec::new();
    for (name, decoded) in heard(&site, &receiver).await.into_iter().skip(1) {
        let Decoded::Wanted(wanted) = decoded else { panic!("{name}: {decoded:?}") };
        let ForgeEvent::Change { change, action, .. } = wanted.event else { panic!("{name}") };
        assert_eq!(action, ChangeAction::Edited, "{name}");
        labels.push((name, change.labels));
    }
    let row =
        |name: &str, labels: &[&str]| (name.to_owned(), labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
    assert_eq!(labels, [row("pull_request.labeled", &["retest/auto"]), row("pull_request.unlabeled", &[])]);
}

#[tokio::test]
async fn payloads_of_issues_and_queues_that_are_not_as_documented_are_told_and_those_of_no_use_ignored() {
    let site = Site::new(app()).await;
    let repository = json!({"id": 5, "full_name": REPO, "default_branch": "main"});
    let issue = json!({"number": 7, "state": "open", "title": "t", "body": null, "labels": [{"name": "flake"}]});
    let of_pull = json!({"number": 7, "state": "open", "pull_request": {"url": "u"}});
    let group =
        |head_ref: &str, sha: &str| json!({"head_sha": sha, "head_ref": head_ref, "base_ref": "refs/heads/main"});
    let queue = "refs/heads/gh-readonly-queue/main/pr-7-1111";
    let table = [
        ("issues", json!({"action": "opened", "issue": issue, "repository": repository}), "wanted"),
        ("issues", json!({"action": "opened", "issue": of_pull, "repository": repository}), "ignored"),
        ("issues", json!({"action": "pinned", "issue": 7}), "ignored"),
        ("issues", json!({"action": "opened", "issue": {"number": "7"}, "repository": repository}), "malformed"),
        ("issues", json!({"action": "opened", "repository": repository}), "malformed"),
        (
            "merge_group",
            json!({"action": "checks_requested", "merge_group": group(queue, HEAD), "repository": repository}),
            "wanted",
        ),
        (
            "merge_group",
            json!({"action": "destroyed", "merge_group": group(queue, HEAD), "repository": repository}),
            "wanted",
        ),
        ("merge_group", json!({"action": "brand_new", "merge_group": null}), "ignored"),
        (
            "merge_group",
            json!({"action": "destroyed", "merge_group": group(queue, "no-sha"), "repository": repository}),
            "malformed",
        ),
        (
            "merge_group",
            json!({"action": "destroyed", "merge_group": group("refs/heads/main", HEAD), "repository": repository}),
            "malformed",
        ),
        ("merge_group", json!({"action": "destroyed", "repository": repository}), "malformed"),
    ];
    for (event, body, wanted) in table {
        let decoded = site.forge.receive(&signed(event, body.to_string())).expect("authentic");
        let got = match decoded {
            Decoded::Wanted(_) => "wanted",
            Decoded::Ignored(_) => "ignored",
            Decoded::Malformed(_) => "malformed",
        };
        assert_eq!(got, wanted, "{event}: {body}");
    }
}
