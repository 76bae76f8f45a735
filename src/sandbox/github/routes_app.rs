//! `/app`, `/orgs` and `/search`: the App itself, its installation and deliveries, membership, issue search.
//!
//! Read next: `deliveries.rs`.

use axum::http::Method;
use serde_json::{Value, json};

use super::ask::{Answer, Ask, counted, list};
use super::auth::Who;
use super::bodies::extend;
use super::deliveries;
use super::state::{State, iso};

pub(super) fn route(state: &mut State, ask: &Ask, path: &[&str]) -> Answer {
    match path {
        ["orgs", org, rest @ ..] => organization(state, ask, org, rest),
        _ if ask.who != Who::App => Answer::error(401, "A JSON web token could not be decoded"),
        ["app", rest @ ..] => app(state, ask, rest),
        _ => Answer::not_found(),
    }
}

fn app(state: &mut State, ask: &Ask, rest: &[&str]) -> Answer {
    let Some(own) = state.app.clone() else { return Answer::not_found() };
    match (ask.method.as_str(), rest) {
        ("GET", []) => Answer::ok(state.app_body(own.id)),
        ("GET", ["installations"]) => {
            let mut body = installation_body(state);
            // The description of the list, unlike that of the single installation, asks of an account what
            // a person and an enterprise have together.
            let more = json!({"name": "sandbox", "slug": "sandbox", "created_at": iso(0), "updated_at": iso(0)});
            extend(&mut body["account"], more);
            list(&state.api, ask, vec![body])
        }
        ("GET", ["installations", id]) if id.parse() == Ok(own.installation_id) => installation(state),
        ("POST", ["installations", id, "access_tokens"]) => state.mint(id, ask),
        ("GET" | "PATCH", ["hook", "config"]) => hook_config(state, ask),
        ("GET", ["hook", "deliveries"]) => deliveries::list_of(state, ask, None),
        ("GET", ["hook", "deliveries", id]) => deliveries::read(state, id, None),
        ("POST", ["hook", "deliveries", id, "attempts"]) => deliveries::again(state, id, None),
        _ => Answer::not_found(),
    }
}

fn hook_config(state: &mut State, ask: &Ask) -> Answer {
    let Some(hook) = state.hooks.iter_mut().find(|hook| hook.of_app) else { return Answer::not_found() };
    if ask.method == Method::PATCH {
        if let Some(url) = ask.text("url") {
            url.clone_into(&mut hook.url);
        }
        if let Some(secret) = ask.text("secret") {
            secret.clone_into(&mut hook.secret);
        }
    }
    Answer::ok(json!({"url": hook.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"}))
}

pub(super) fn installation(state: &State) -> Answer {
    match state.app {
        Some(_) => Answer::ok(installation_body(state)),
        None => Answer::not_found(),
    }
}

pub(super) fn installation_body(state: &State) -> Value {
    let Some(app) = &state.app else { return Value::Null };
    let owner = state.repos.values().next().map_or("sandbox", |repo| repo.owner.as_str());
    let account = state.user_body(owner);
    json!({
        "id": app.installation_id,
        "app_id": app.id,
        "app_slug": app.slug,
        "client_id": format!("Iv1.{}", app.id),
        "target_id": account["id"],
        "target_type": "Organization",
        "single_file_name": null,
        "repository_selection": "all",
        "access_tokens_url": format!("{}/app/installations/{}/access_tokens", state.api, app.installation_id),
        "repositories_url": format!("{}/installation/repositories", state.api),
        "html_url": format!("{}/organizations/{owner}/settings/installations/{}", state.api, app.installation_id),
        "events": ["check_run", "issue_comment", "pull_request", "status", "workflow_job", "workflow_run"],
        "account": account,
        "permissions": state.permissions,
        "created_at": iso(0),
        "updated_at": iso(0),
        "suspended_by": if state.suspended { state.user_body(owner) } else { Value::Null },
        "suspended_at": if state.suspended { json!(iso(state.now_ms)) } else { Value::Null },
    })
}

fn organization(state: &State, ask: &Ask, org: &str, rest: &[&str]) -> Answer {
    let member = |team: &str, login: &str| {
        state.members.contains(&(org.to_lowercase(), team.to_lowercase(), login.to_lowercase()))
    };
    match (ask.method.as_str(), rest) {
        ("GET", ["installation"]) if ask.who == Who::App => installation(state),
        _ if ask.who == Who::App => Answer::error(401, "A JSON web token could not be decoded"),
        ("GET", ["members", login]) if member("", login) => Answer::nothing(204),
        ("GET", ["memberships", login]) if member("", login) => Answer::ok(json!({
            "state": "active",
            "role": "member",
            "organization_url": format!("{}/orgs/{org}", state.api),
            "url": format!("{}/orgs/{org}/memberships/{login}", state.api),
            "organization": state.organization_body(org),
            "user": state.user_body(login),
        })),
        ("GET", ["teams", team, "memberships", login]) if member(team, login) => Answer::ok(json!({
            "state": "active",
            "role": "member",
            "url": format!("{}/teams/{team}/memberships/{login}", state.api),
        })),
        _ => Answer::not_found(),
    }
}

/// `GET /search/issues`: understands `repo:`, `is:`, `label:`, `state:` and plain words, all of which must match.
pub(super) fn search(state: &State, ask: &Ask) -> Answer {
    let query = ask.query("q").unwrap_or_default();
    if matches!(ask.who, Who::Person(_)) && !["is:issue", "is:pull-request", "is:pr"].iter().any(|w| query.contains(w))
    {
        return Answer::invalid("Search", "q", "Query must include 'is:issue' or 'is:pull-request'");
    }
    let words: Vec<&str> = query.split_whitespace().collect();
    let mut found = Vec::new();
    for repo in state.repos.values() {
        for issue in repo.issues.values() {
            let text = format!("{} {}", issue.title, issue.body).to_lowercase();
            let matches = words.iter().all(|word| match word.split_once(':') {
                Some(("repo", name)) => repo.full_name().eq_ignore_ascii_case(name),
                Some(("is" | "state" | "type", "open")) => issue.open,
                Some(("is" | "state" | "type", "closed")) => !issue.open,
                Some(("is" | "type", "issue")) => issue.pull.is_none(),
                Some(("is" | "type", "pr" | "pull-request")) => issue.pull.is_some(),
                Some(("label", name)) => issue.labels.iter().any(|l| l == name.trim_matches('"')),
                _ => text.contains(&word.trim_matches('"').to_lowercase()),
            });
            if matches {
                let mut body = state.issue_body(repo, issue);
                body["score"] = json!(1.0);
                found.push(body);
            }
        }
    }
    let mut answer = counted(&state.api, ask, ("items", found), |body| body);
    if let super::ask::Content::Json(body) = &mut answer.content {
        body["incomplete_results"] = json!(false);
    }
    answer
}
