//! Issues over REST: the list, a new one, one, an edit.
//!
//! Read next: `acts_issues.rs`, which does the same without HTTP.

use serde_json::Value;

use super::acts_issues::Edit;
use super::ask::{Answer, Ask, list_of};
use super::auth::Who;
use super::routes_change::{BODY_CHARS_MAX, since, wanted_state};
use super::state::{Gone, State};

/// The list, and a new one.
pub(super) fn all(state: &mut State, ask: &Ask, id: u64) -> Answer {
    if state.repo(id).issues_off {
        return Answer::error(410, "Issues has been disabled in this repository.");
    }
    match ask.method.as_str() {
        "GET" => listed(state, ask, id),
        "POST" => create(state, ask, id),
        _ => Answer::not_found(),
    }
}

fn listed(state: &State, ask: &Ask, id: u64) -> Answer {
    let repo = state.repo(id);
    let labels: Vec<&str> = ask.query("labels").unwrap_or_default().split(',').filter(|l| !l.is_empty()).collect();
    let since = since(ask);
    let mut found: Vec<_> = repo
        .issues
        .values()
        .filter(|issue| {
            wanted_state(ask, issue.open)
                && labels.iter().all(|label| issue.labels.iter().any(|held| held.eq_ignore_ascii_case(label)))
                && since.is_none_or(|ms| issue.updated_ms >= ms)
        })
        .collect();
    if ask.query("sort") == Some("updated") {
        found.sort_by_key(|issue| issue.updated_ms);
    }
    if ask.query("direction") != Some("asc") {
        found.reverse();
    }
    list_of(&state.api, ask, found, |issue| state.issue_body(repo, issue))
}

/// The answer for an issue that is not here any more; none when it never was, or is.
pub(super) fn gone(state: &State, id: u64, number: u64) -> Option<Answer> {
    match state.repo(id).moved.get(&number)? {
        Gone::Deleted => Some(Answer::error(410, "This issue was deleted")),
        Gone::To(repo, number) => {
            let url = format!("{}/repositories/{repo}/issues/{number}", state.api);
            let body = serde_json::json!({"message": "Moved Permanently", "url": url});
            Some(Answer::json(301, body).with("location", url))
        }
    }
}

/// People without the right to push set no labels: they are dropped without a word.
fn may_label(state: &State, ask: &Ask, id: u64) -> bool {
    let role = |login: &String| state.repo(id).roles.get(&login.to_lowercase()).map(String::as_str);
    match &ask.who {
        Who::Person(login) => matches!(role(login), Some("admin" | "maintain" | "write" | "triage")),
        Who::Nobody | Who::App | Who::Installation(_) => true,
    }
}

fn texts(ask: &Ask) -> Result<Edit, Answer> {
    let text = |key: &str| ask.text(key).map(str::to_owned);
    let edit = Edit {
        title: text("title"),
        body: text("body"),
        open: text("state").map(|state| state != "closed"),
        labels: ask.body["labels"].as_array().map(|labels| labels.iter().filter_map(name_of).collect()),
    };
    if edit.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
        return Err(Answer::invalid("Issue", "title", "title can't be blank"));
    }
    if edit.body.as_ref().is_some_and(|body| body.chars().count() > BODY_CHARS_MAX) {
        return Err(Answer::invalid("Issue", "body", "body is too long (maximum is 65536 characters)"));
    }
    Ok(edit)
}

/// A label is given by its name, or as an object with it.
fn name_of(label: &Value) -> Option<String> {
    label.as_str().or_else(|| label["name"].as_str()).map(str::to_owned)
}

fn create(state: &mut State, ask: &Ask, id: u64) -> Answer {
    let edit = match texts(ask) {
        Ok(edit) => edit,
        Err(refusal) => return refusal,
    };
    let Some(title) = edit.title else {
        return Answer::invalid("Issue", "title", "title is missing");
    };
    let labels = edit.labels.filter(|_| may_label(state, ask, id)).unwrap_or_default();
    let login = state.login_of(&ask.who);
    let number = state.open_issue(id, &login, (&title, &edit.body.unwrap_or_default()), labels);
    let repo = state.repo(id);
    Answer::created(state.issue_body(repo, &repo.issues[&number]))
}

/// `PATCH`: whatever is named is set; the labels that are named replace those that it had.
pub(super) fn edit(state: &mut State, ask: &Ask, (id, number): (u64, u64)) -> Answer {
    let mut edit = match texts(ask) {
        Ok(edit) => edit,
        Err(refusal) => return refusal,
    };
    if !may_label(state, ask, id) {
        edit.labels = None;
    }
    let login = state.login_of(&ask.who);
    state.edit_issue((id, number), &login, edit);
    let repo = state.repo(id);
    Answer::ok(state.issue_body(repo, &repo.issues[&number]))
}
