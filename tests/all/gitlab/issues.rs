//! Issues: read, written, commented on, and told by webhooks.

use retest_bot::domain::{ChangeAction, Issue, IssueEvent};
use retest_bot::ports::IssuePost;
use retest_bot::sandbox::gitlab::NewIssue;
use serde_json::{Value, json};

use super::*;

const FLAKE: &str = "<!-- retest-bot:flake -->";

fn labels(list: &[&str]) -> Vec<String> {
    list.iter().map(|label| (*label).to_owned()).collect()
}

fn new(title: &str, list: &[&str]) -> NewIssue {
    NewIssue { title: title.into(), description: "text".into(), labels: labels(list), ..NewIssue::default() }
}

fn post(number: Option<u64>, title: &str, body: &str, list: &[&str]) -> IssuePost {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    IssuePost { number, title: some(title), body: some(body), labels: labels(list) }
}

async fn flakes(house: &House) -> Vec<Issue> {
    house.forge.labelled_issues(&house.repo, "flake").await.expect("a list")
}

#[tokio::test]
async fn labelled_issues_are_all_open_ones_of_all_pages_and_none_that_is_hidden() {
    let house = house().await;
    for n in 0..230 {
        let list: &[&str] = if n % 2 == 0 { &["flake", "arm"] } else { &["bug"] };
        house.sandbox.add_issue(house.project(), "ann", new(&format!("issue {n}"), list));
    }
    house.sandbox.add_issue(house.project(), "ann", NewIssue { closed: true, ..new("closed", &["flake"]) });
    house.sandbox.add_issue(house.project(), "ann", NewIssue { confidential: true, ..new("hidden", &["flake"]) });
    house.sandbox.add_issue(house.project(), "ann", NewIssue { kind: "incident".into(), ..new("fire", &["flake"]) });
    house.sandbox.add_issue(house.project(), "ann", new("capital", &["Flake"]));
    let found = flakes(&house).await;
    assert_eq!(found.len(), 115);
    assert!(found.is_sorted_by_key(|issue| issue.number), "oldest first");
    assert_eq!((found[0].title.as_str(), &found[0].labels), ("issue 0", &labels(&["flake", "arm"])));
    assert_eq!((found[0].body.as_str(), found[0].updated_at.ms()), ("text", NOW_MS));
    assert!(found[0].url.ends_with("/group/sub/proj/-/issues/1"), "{}", found[0].url);
    house.sandbox.add_issue(house.project(), "ann", new("no label", &[]));
    for word in ["None", "any"] {
        assert_eq!(house.forge.labelled_issues(&house.repo, word).await, Ok(Vec::new()), "{word} is no label here");
    }
}

#[tokio::test]
async fn an_issue_that_is_hidden_or_none_is_not_there_and_is_never_written_to() {
    let house = house().await;
    house.sandbox.set_level(house.project(), "retest-bot", 30);
    let open = house.sandbox.add_issue(house.project(), "ann", new("open", &["flake"]));
    let hidden =
        house.sandbox.add_issue(house.project(), "ann", NewIssue { confidential: true, ..new("h", &["flake"]) });
    let task =
        house.sandbox.add_issue(house.project(), "ann", NewIssue { kind: "task".into(), ..new("t", &["flake"]) });
    let ask = |number: u64| house.forge.issue(&house.repo, number);
    assert_eq!(ask(open).await.expect("an answer").map(|issue| issue.open), Some(true));
    for (number, why) in [(hidden, "confidential"), (task, "a task"), (999, "never was")] {
        assert_eq!(ask(number).await, Ok(None), "{why}");
        let refused = house.forge.put_issue(&house.repo, &post(Some(number), "", "new", &["flake"])).await;
        assert!(matches!(refused, Err(CallError::Refused { .. })), "{why}: {refused:?}");
    }
    assert_eq!(house.sandbox.wire().count(&Method::PUT, "/issues/"), 0);
    house.sandbox.wire().break_next(None, "/issues/", 1, Fault::ResetBefore);
    assert!(ask(open).await.is_err(), "not known is not gone");
    let gone = Repo { key: RepoKey { id: 999_999, ..house.repo.key.clone() }, ..house.repo.clone() };
    assert!(house.forge.issue(&gone, open).await.is_err(), "no project is not no issue");
}

#[tokio::test]
async fn an_issue_is_opened_with_its_labels_and_changed_without_losing_any() {
    let house = house().await;
    house.sandbox.set_level(house.project(), "retest-bot", 30);
    let made =
        house.forge.put_issue(&house.repo, &post(None, "Flake: `lava`", "text", &["flake"])).await.expect("made");
    assert_eq!((made.labels.clone(), made.open), (labels(&["flake"]), true));
    house.sandbox.set_issue_labels(house.project(), made.number, "ann", &["flake", "arm"]);
    let wish = post(Some(made.number), "", "more text", &["flake", "lab"]);
    let changed = house.forge.put_issue(&house.repo, &wish).await.expect("changed");
    let stands = house.sandbox.issue(house.project(), made.number).expect("an issue");
    assert_eq!((stands.title.as_str(), stands.description.as_str()), ("Flake: `lava`", "more text"));
    assert_eq!((stands.labels.clone(), changed.labels), (labels(&["flake", "arm", "lab"]), stands.labels));
    assert_eq!(stands.author, "retest-bot");
    house.forge.put_issue(&house.repo, &wish).await.expect("as it stands");
    assert_eq!(house.sandbox.wire().count(&Method::PUT, "/issues/"), 1, "what stands already is not written again");
    let nameless = house.forge.put_issue(&house.repo, &post(None, "", "text", &[])).await;
    assert!(matches!(nameless, Err(CallError::Refused { .. })), "{nameless:?}");
    house.sandbox.wire().break_next(Some(Method::POST), "/issues", 1, Fault::Truncate);
    let lost = house.forge.put_issue(&house.repo, &post(None, "t", "text", &["flake"])).await.expect_err("half");
    assert!(matches!(lost, CallError::Unknown { .. }), "{lost}");
}

#[tokio::test]
async fn our_comment_on_an_issue_is_one_and_found_among_impostors() {
    let house = house().await;
    house.sandbox.set_level(house.project(), "retest-bot", 30);
    let issue = house.sandbox.add_issue(house.project(), "ann", new("one", &["flake"]));
    let comment = |known, text: &str| ReportPost {
        body: format!("{FLAKE}\n{text}"),
        marker: FLAKE.into(),
        known,
        internal: false,
    };
    house.sandbox.issue_note(house.project(), issue, "eve", &format!("{FLAKE}\nnot ours"));
    let first = house.forge.post_issue_comment(&house.repo, issue, &comment(None, "seen 1 time")).await.expect("made");
    house.sandbox.issue_note(house.project(), issue, "eve", &format!("{FLAKE}\nnot ours either"));
    for known in [None, Some(first)] {
        let again = house.forge.post_issue_comment(&house.repo, issue, &comment(known, "seen 2 times")).await;
        assert_eq!(again, Ok(first));
    }
    let notes = house.sandbox.issue_notes(house.project(), issue);
    let ours: Vec<_> = notes.iter().filter(|note| note.author == "retest-bot").collect();
    assert_eq!((ours.len(), ours[0].body.as_str()), (1, format!("{FLAKE}\nseen 2 times").as_str()));
    house.sandbox.delete_note(first);
    let anew = house.forge.post_issue_comment(&house.repo, issue, &comment(Some(first), "seen 3 times")).await;
    assert!(anew.is_ok_and(|id| id != first));
}

fn receive(house: &House, body: &Value) -> Decoded {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-gitlab-token", HOOK_TOKEN.parse().expect("a header"));
    let request = WebhookRequest { headers, body: body.to_string().into(), at: Timestamp::from_ms(NOW_MS) };
    house.forge.receive(&request).expect("authentic")
}

/// What the bot hears of what the sandbox tells.
async fn heard(house: &House) -> Vec<Decoded> {
    let receiver = Wire::serve(axum::Router::new().fallback(|| async { "" })).await.expect("a port");
    house.sandbox.hook(&receiver.base_url(), HookSecret { token: Some(HOOK_TOKEN.into()), signing: None });
    house.sandbox.deliver().await;
    let decode = |request: retest_bot::sandbox::wire::Recorded| {
        let request = WebhookRequest { headers: request.headers, body: request.body, at: Timestamp::from_ms(NOW_MS) };
        house.forge.receive(&request).expect("authentic")
    };
    receiver.requests().into_iter().map(decode).collect()
}

fn issue_of(decoded: &Decoded) -> Option<&IssueEvent> {
    let Decoded::Wanted(wanted) = decoded else { return None };
    let ForgeEvent::Issue(event) = &wanted.event else { return None };
    Some(event)
}

#[tokio::test]
async fn whatever_happens_to_an_issue_is_heard_and_a_hidden_one_counts_as_closed_without_a_word_of_it() {
    let house = house().await;
    let project = house.project();
    let iid = house.sandbox.add_issue(project, "ann", new("one", &[]));
    house.sandbox.set_issue_labels(project, iid, "ann", &["flake"]);
    house.sandbox.edit_issue(project, iid, "ann", "new text");
    house.sandbox.close_issue(project, iid, "ann");
    house.sandbox.reopen_issue(project, iid, "ann");
    house.sandbox.set_confidential(project, iid, "ann", true);
    house.sandbox.add_issue(project, "ann", NewIssue { kind: "incident".into(), ..new("fire", &["flake"]) });
    let heard = heard(&house).await;
    let told: Vec<_> = heard
        .iter()
        .filter_map(issue_of)
        .map(|event| (event.issue.open, event.issue.body.as_str(), event.issue.labels.join(",")))
        .collect();
    let row = |open, body, labels: &str| (open, body, labels.to_owned());
    assert_eq!(
        told,
        [
            row(true, "text", ""),
            row(true, "text", "flake"),
            row(true, "new text", "flake"),
            row(false, "new text", "flake"),
            row(true, "new text", "flake"),
            row(false, "", ""),
        ]
    );
    let last = heard.iter().filter_map(issue_of).next_back().expect("an issue");
    assert_eq!((last.issue.number, last.issue.title.as_str(), last.issue.url.as_str()), (iid, "", ""));
    assert_eq!(last.repo.key, house.repo.key);
    assert!(matches!(heard.last(), Some(Decoded::Ignored(_))), "an incident is no issue: {:?}", heard.last());
}

#[tokio::test]
async fn labels_on_a_merge_request_are_heard_as_an_edit_with_the_labels_that_it_has_now() {
    let house = house().await;
    house.sandbox.set_labels(house.project(), house.iid, "ann", &["retest/auto"]);
    house.sandbox.set_labels(house.project(), house.iid, "ann", &[]);
    let heard = heard(&house).await;
    let told: Vec<_> = heard
        .iter()
        .filter_map(|decoded| {
            let Decoded::Wanted(wanted) = decoded else { return None };
            let ForgeEvent::Change { change, action, .. } = &wanted.event else { return None };
            Some((*action, change.labels.clone()))
        })
        .collect();
    let edited = |list: &[&str]| (ChangeAction::Edited, labels(list));
    assert_eq!(told, [(ChangeAction::Opened, labels(&[])), edited(&["retest/auto"]), edited(&[])]);
}

#[tokio::test]
async fn issue_hooks_of_all_ages_are_read_and_those_that_are_not_as_documented_are_told() {
    let house = house().await;
    let project = json!({"id": 1, "path_with_namespace": "g/p", "web_url": "https://x/g/p", "default_branch": "main"});
    let hook = |attributes: Value| json!({"object_kind": "issue", "project": project, "object_attributes": attributes});
    let old = hook(
        json!({"iid": 23, "title": "t", "description": null, "state": "opened", "updated_at": "2013-12-03T17:15:43Z"}),
    );
    let decoded = receive(&house, &old);
    let event = issue_of(&decoded).expect("an issue");
    assert!(event.issue.open && event.issue.body.is_empty() && event.issue.labels.is_empty());
    let mut beside = old.clone();
    beside["labels"] = json!([{"title": "flake"}]);
    assert_eq!(issue_of(&receive(&house, &beside)).expect("an issue").issue.labels, ["flake"]);
    let mut hidden = old.clone();
    hidden["event_type"] = json!("confidential_issue");
    assert!(!issue_of(&receive(&house, &hidden)).expect("an issue").issue.open);
    for wrong in [json!({"iid": "23"}), json!({"title": "t"}), json!(7), json!({"iid": 1, "labels": "flake"})] {
        let decoded = receive(&house, &hook(wrong.clone()));
        assert!(matches!(decoded, Decoded::Malformed(_)), "{wrong}: {decoded:?}");
    }
}
