//! Commits over REST: statuses, check runs and suites, and which changes a commit belongs to.
//!
//! Read next: `bodies_ci.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::ask::{Answer, Ask, counted, list, list_of, page, with_links};
use super::bodies::Whose;
use super::routes_repo::{is_app, sha_of};
use super::state::{Check, Output, State, Status};

/// Longest description of a status, in characters.
const DESCRIPTION_CHARS_MAX: usize = 140;

/// Postings of one context on one commit.
const STATUSES_MAX: usize = 1_000;

/// Longest summary and text of a check run, in characters.
const OUTPUT_CHARS_MAX: usize = 65_535;

/// Annotations in one request.
const ANNOTATIONS_MAX: usize = 50;

/// Buttons of a check run: how many, and the longest label, description and identifier.
const ACTIONS_MAX: usize = 3;
const ACTION_FIELDS: [(&str, usize); 3] = [("label", 20), ("description", 40), ("identifier", 20)];

pub(super) fn route(state: &mut State, ask: &Ask, id: u64, rest: &[&str]) -> Answer {
    match (ask.method.as_str(), rest) {
        ("POST", ["statuses", sha]) => post_status(state, ask, id, sha),
        ("GET", ["commits", at, tail @ ..]) => match sha_of(state.repo(id), at) {
            Some(sha) => commit(state, ask, (id, &sha), tail),
            None => Answer::error(422, &format!("No commit found for SHA: {at}")),
        },
        ("POST", ["check-runs"]) => create_check(state, ask, id),
        (_, ["check-runs", check, tail @ ..]) => {
            let found = check.parse().ok().and_then(|check: u64| state.checks.get(&check));
            match found.filter(|check| check.repo_id == id).map(|check| check.id) {
                Some(check) => one_check(state, ask, check, tail),
                None => Answer::not_found(),
            }
        }
        (_, ["check-suites", suite, tail @ ..]) => {
            let found = suite.parse().ok().and_then(|suite: u64| state.suites.get(&suite));
            match found.filter(|suite| suite.repo_id == id).map(|suite| suite.id) {
                Some(suite) => one_suite(state, ask, suite, tail),
                None => Answer::not_found(),
            }
        }
        _ => Answer::not_found(),
    }
}

fn post_status(state: &mut State, ask: &Ask, id: u64, sha: &str) -> Answer {
    let repo = state.repo(id);
    if !repo.commits.contains(&sha.to_lowercase()) {
        return Answer::error(422, &format!("No commit found for SHA: {sha}"));
    }
    let wanted = ask.text("state").unwrap_or_default();
    if !["error", "failure", "pending", "success"].contains(&wanted) {
        return Answer::invalid("Status", "state", "state is not included in the list");
    }
    let description = ask.text("description");
    if description.is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        let text = "description is too long (maximum is 140 characters)";
        return Answer::invalid("Status", "description", text);
    }
    let target_url = ask.text("target_url").filter(|url| !url.is_empty());
    if target_url.is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
        return Answer::invalid("Status", "target_url", "target_url must use http(s) scheme");
    }
    let context = ask.text("context").filter(|text| !text.is_empty()).unwrap_or("default");
    let same = repo.statuses.iter().filter(|s| s.sha == sha && s.context.eq_ignore_ascii_case(context)).count();
    if same >= STATUSES_MAX {
        let text = "This SHA and context has reached the maximum number of statuses.";
        return Answer::invalid("Status", "context", text);
    }
    let status = Status {
        id: 0,
        sha: sha.to_lowercase(),
        context: context.to_owned(),
        state: wanted.to_owned(),
        description: description.map(str::to_owned),
        target_url: target_url.map(str::to_owned),
        creator: state.login_of(&ask.who),
        created_ms: 0,
    };
    let status_id = state.add_status(id, status);
    let repo = state.repo(id);
    let status = repo.statuses.iter().find(|status| status.id == status_id);
    status.map_or_else(Answer::not_found, |status| Answer::created(state.status_body(repo, status)))
}

fn commit(state: &State, ask: &Ask, (id, sha): (u64, &str), tail: &[&str]) -> Answer {
    let repo = state.repo(id);
    let newest_first = || repo.statuses.iter().rev().filter(|status| status.sha == sha);
    match tail {
        [] => Answer::ok(state.commit_body(repo, sha)),
        ["pulls"] => {
            let found = repo.pulls_at(sha).filter(|(issue, pull)| issue.open && !pull.from_fork);
            list(&state.api, ask, found.map(|(issue, pull)| state.pull_body(repo, issue, pull)).collect())
        }
        ["statuses"] => list_of(&state.api, ask, newest_first().collect(), |status| state.status_body(repo, status)),
        ["status"] => {
            let mut seen = BTreeSet::new();
            let newest: Vec<&Status> = newest_first().filter(|s| seen.insert(s.context.to_lowercase())).collect();
            combined(state, ask, (id, sha), &newest)
        }
        ["check-runs"] => checks(state, ask, |check| check.repo_id == id && check.head_sha == sha),
        ["check-suites"] => {
            let suites = state.suites.values().filter(|suite| {
                suite.repo_id == id
                    && suite.head_sha == sha
                    && ask.query("app_id").is_none_or(|app| app == suite.app_id.to_string())
            });
            counted(&state.api, ask, ("check_suites", suites.collect()), |suite| state.suite_body(suite))
        }
        _ => Answer::not_found(),
    }
}

fn combined(state: &State, ask: &Ask, (id, sha): (u64, &str), newest: &[&Status]) -> Answer {
    let repo = state.repo(id);
    let has = |wanted: &str| newest.iter().any(|status| status.state == wanted);
    let total = if has("error") || has("failure") {
        "failure"
    } else if has("pending") || newest.is_empty() {
        "pending"
    } else {
        "success"
    };
    let (part, links) = page(&state.api, ask, newest.to_vec());
    let part: Vec<Value> = part.into_iter().map(|status| state.status_body(repo, status)).collect();
    let url = format!("{}/commits/{sha}", state.repo_url(repo));
    let body = json!({
        "state": total,
        "sha": sha,
        "total_count": newest.len(),
        "statuses": part,
        "repository": state.small_repo(repo, Whose::Own),
        "commit_url": url,
        "url": format!("{url}/status"),
    });
    with_links(Answer::ok(body), links)
}

/// Check runs, newest per suite and name unless `filter=all`.
fn checks(state: &State, ask: &Ask, fits: impl Fn(&Check) -> bool) -> Answer {
    let all = ask.query("filter") == Some("all");
    let found = state.checks.values().filter(|check| {
        fits(check)
            && ask.query("check_name").is_none_or(|name| name == check.name)
            && ask.query("status").is_none_or(|status| status == check.status)
            && ask.query("app_id").is_none_or(|app| app == check.app_id.to_string())
    });
    let mut found: Vec<&Check> = found.collect();
    if !all {
        let newest: BTreeMap<(u64, &str), u64> =
            state.checks.values().map(|check| ((check.suite_id, check.name.as_str()), check.id)).collect();
        found.retain(|check| newest.get(&(check.suite_id, check.name.as_str())) == Some(&check.id));
    }
    counted(&state.api, ask, ("check_runs", found), |check| state.check_body(check))
}

fn create_check(state: &mut State, ask: &Ask, repo_id: u64) -> Answer {
    let Some(app_id) = state.own_app_id().filter(|_| is_app(ask)) else {
        return Answer::error(403, "You must authenticate via a GitHub App.");
    };
    let (Some(name), Some(sha)) = (ask.text("name"), ask.text("head_sha")) else {
        return Answer::error(422, "Invalid request. \"name\", \"head_sha\" weren't supplied.");
    };
    if !state.repo(repo_id).commits.contains(sha) {
        return Answer::error(422, &format!("No commit found for SHA: {sha}"));
    }
    let (id, suite_id) = (state.id(), state.suite_for(repo_id, app_id, sha));
    let mut check = Check {
        id,
        suite_id,
        repo_id,
        app_id,
        head_sha: sha.to_owned(),
        name: name.to_owned(),
        status: "queued".to_owned(),
        conclusion: None,
        external_id: String::new(),
        details_url: None,
        output: Output::default(),
        actions: Vec::new(),
        started_ms: Some(state.now_ms),
        completed_ms: None,
    };
    if let Err(refusal) = apply(&mut check, ask, state.now_ms) {
        return refusal;
    }
    state.checks.insert(id, check);
    state.note_check(id, "created", None);
    after_check(state, id, false);
    let check = state.checks.get(&id);
    check.map_or_else(Answer::not_found, |check| Answer::created(state.check_body(check)))
}

fn one_check(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Answer {
    let Some(check) = state.checks.get(&id) else { return Answer::not_found() };
    let own = is_app(ask) && state.own_app_id() == Some(check.app_id);
    match (ask.method.as_str(), tail) {
        ("GET", []) => Answer::ok(state.check_body(check)),
        ("GET", ["annotations"]) => list(&state.api, ask, check.output.annotations.clone()),
        ("PATCH", []) if !is_app(ask) => Answer::error(403, "You must authenticate via a GitHub App."),
        ("PATCH", []) if !own => Answer::error(
            403,
            "Invalid app_id `undefined` - check run can only be modified by the GitHub App that created it.",
        ),
        ("PATCH", []) => {
            let now = state.now_ms;
            let Some(check) = state.checks.get_mut(&id) else { return Answer::not_found() };
            let was_done = check.conclusion.is_some();
            if let Err(refusal) = apply(check, ask, now) {
                return refusal;
            }
            after_check(state, id, was_done);
            state.checks.get(&id).map_or_else(Answer::not_found, |check| Answer::ok(state.check_body(check)))
        }
        ("POST", ["rerequest"]) if !own => Answer::error(403, "This check run is not rerequestable"),
        ("POST", ["rerequest"]) => {
            let (suite_id, login) = (check.suite_id, state.login_of(&ask.who));
            state.set_suite(suite_id, "queued", None);
            state.note_check(id, "rerequested", Some((&login, json!({}))));
            Answer::created(json!({}))
        }
        _ => Answer::not_found(),
    }
}

/// Tells of a check that has just completed and brings its suite up to date.
fn after_check(state: &mut State, id: u64, was_done: bool) {
    let Some(check) = state.checks.get(&id) else { return };
    let (suite_id, done) = (check.suite_id, check.conclusion.is_some());
    let of_suite = || state.checks.values().filter(|check| check.suite_id == suite_id);
    let open = of_suite().any(|check| check.conclusion.is_none());
    let bad = of_suite().any(|c| !matches!(c.conclusion.as_deref(), Some("success" | "neutral" | "skipped")));
    if done && !was_done {
        state.note_check(id, "completed", None);
    }
    if open {
        state.set_suite(suite_id, "in_progress", None);
    } else {
        state.set_suite(suite_id, "completed", Some(if bad { "failure" } else { "success" }));
    }
}

/// Puts the fields of a request into a check run, or says which is wrong.
fn apply(check: &mut Check, ask: &Ask, now_ms: i64) -> Result<(), Answer> {
    let wrong = |field: &str, text: &str| Err(Answer::invalid("CheckRun", field, text));
    let mut output = check.output.clone();
    if let Some(sent) = ask.body.get("output").filter(|sent| !sent.is_null()) {
        for (field, slot) in
            [("summary", &mut output.summary), ("text", &mut output.text), ("title", &mut output.title)]
        {
            let Some(text) = sent[field].as_str() else { continue };
            if text.chars().count() > OUTPUT_CHARS_MAX {
                return wrong(field, &format!("{field} exceeds a maximum bytesize of 65535"));
            }
            *slot = Some(text.to_owned());
        }
        if output.summary.is_none() || output.title.is_none() {
            return wrong("output", "title and summary are required");
        }
        let annotations = sent["annotations"].as_array().cloned().unwrap_or_default();
        if annotations.len() > ANNOTATIONS_MAX {
            return wrong("annotations", "no more than 50 annotations are allowed");
        }
        output.annotations.extend(annotations.into_iter().map(whole_annotation));
    }
    let buttons = ask.body.get("actions").and_then(Value::as_array);
    if buttons.is_some_and(|buttons| buttons.len() > ACTIONS_MAX) {
        return wrong("actions", "no more than 3 actions are allowed");
    }
    for button in buttons.into_iter().flatten() {
        for (field, chars_max) in ACTION_FIELDS {
            match button[field].as_str() {
                Some(text) if text.chars().count() <= chars_max => {}
                _ => return wrong("actions", &format!("{field} must have 1 to {chars_max} characters")),
            }
        }
    }
    let conclusion = ask.text("conclusion");
    let status = if conclusion.is_some() { Some("completed") } else { ask.text("status") };
    match (status, conclusion) {
        (Some("completed"), None) => return wrong("conclusion", "conclusion is required when status is completed"),
        (_, Some("stale")) => return wrong("conclusion", "only GitHub can mark a check run as stale"),
        (Some(status), conclusion) => {
            check.status = status.to_owned();
            check.conclusion = conclusion.map(str::to_owned);
            check.completed_ms = conclusion.map(|_| now_ms);
        }
        (None, _) => {}
    }
    check.output = output;
    if let Some(buttons) = buttons {
        check.actions.clone_from(buttons);
    }
    if let Some(id) = ask.text("external_id") {
        id.clone_into(&mut check.external_id);
    }
    if let Some(url) = ask.text("details_url") {
        check.details_url = Some(url.to_owned());
    }
    if let Some(name) = ask.text("name") {
        name.clone_into(&mut check.name);
    }
    Ok(())
}

/// An annotation as sent, with the fields that the service adds when it lists it.
fn whole_annotation(sent: Value) -> Value {
    let mut whole = json!({
        "start_column": null, "end_column": null, "title": null, "raw_details": null,
        "blob_href": "http://localhost/blob",
    });
    super::bodies::extend(&mut whole, sent);
    whole
}

fn one_suite(state: &mut State, ask: &Ask, id: u64, tail: &[&str]) -> Answer {
    let Some(suite) = state.suites.get(&id) else { return Answer::not_found() };
    match (ask.method.as_str(), tail) {
        ("GET", []) => Answer::ok(state.suite_body(suite)),
        ("GET", ["check-runs"]) => checks(state, ask, |check| check.suite_id == id),
        ("POST", ["rerequest"]) => {
            let own = is_app(ask) && state.own_app_id() == Some(suite.app_id);
            let person = !is_app(ask) && suite.run_id.is_none();
            if !own && !person {
                return Answer::error(403, "This check suite is not rerequestable");
            }
            let login = state.login_of(&ask.who);
            state.set_suite(id, "queued", None);
            state.note_suite(id, "rerequested", Some(&login));
            Answer::created(json!({}))
        }
        _ => Answer::not_found(),
    }
}
