//! Paths under one repository: which permission each needs, rights of people, rules of branches, files.
//!
//! Read next: `routes_change.rs`, `routes_ci.rs`, `routes_checks.rs`.

use axum::http::Method;
use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ask::{Answer, Ask, list};
use super::auth::Who;
use super::bodies::Whose;
use super::state::{Repo, State};
use super::{deliveries, routes_app, routes_change, routes_checks, routes_ci};

pub(super) fn route(state: &mut State, ask: &Ask, id: u64, rest: &[&str]) -> Answer {
    if let Some(refusal) = permission(state, ask, rest) {
        return refusal;
    }
    match (ask.method.as_str(), rest) {
        ("GET", []) => Answer::ok(state.repo_body(state.repo(id), Whose::Own)),
        ("GET", ["installation"]) => routes_app::installation(state),
        ("GET", ["collaborators", login, "permission"]) => role(state, id, login),
        ("GET", ["rules", "branches", branch @ ..]) => rules(state, ask, id, &branch.join("/")),
        ("GET", ["branches", branch @ .., "protection", "required_status_checks"]) => {
            protection(state, ask, id, &branch.join("/"))
        }
        ("GET", ["branches", branch @ ..]) => branch_of(state, id, &branch.join("/")),
        ("GET", ["contents", path @ ..]) => contents(state, ask, id, &path.join("/")),
        ("POST", ["dispatches"]) => dispatch(state, ask, id),
        (_, ["hooks", ..]) => deliveries::repo_hooks(state, ask, id, rest),
        (_, ["issues" | "pulls", ..]) => routes_change::route(state, ask, id, rest),
        (_, ["actions", ..]) => routes_ci::route(state, ask, id, rest),
        (_, ["check-runs" | "check-suites" | "statuses" | "commits", ..]) => routes_checks::route(state, ask, id, rest),
        _ => Answer::not_found(),
    }
}

/// The refusal of a token that lacks the permission a path needs, `None` when it may go on.
fn permission(state: &State, ask: &Ask, rest: &[&str]) -> Option<Answer> {
    let level = if ask.method == Method::GET { "read" } else { "write" };
    let name = match rest {
        ["issues", "comments", _, "reactions", ..] => "issues",
        ["issues"] | ["issues", _] if level == "write" => "issues",
        ["issues", ..] if state.need(&ask.who, "pull_requests", level).is_ok() => return None,
        ["issues", ..] => "issues",
        ["pulls", ..] | ["commits", _, "pulls"] => "pull_requests",
        ["statuses", ..] | ["commits", _, "status" | "statuses"] => "statuses",
        ["check-runs" | "check-suites", ..] | ["commits", _, "check-runs" | "check-suites"] => "checks",
        ["actions", ..] => "actions",
        ["contents" | "dispatches" | "commits", ..] | ["branches", _] => "contents",
        ["branches", ..] => "administration",
        ["hooks", ..] => "repository_hooks",
        _ => "metadata",
    };
    state.need(&ask.who, name, level).err()
}

/// What `permission` says of a role.
fn coarse(role: &str) -> &'static str {
    match role {
        "admin" => "admin",
        "maintain" | "write" => "write",
        "triage" | "read" => "read",
        _ => "none",
    }
}

fn role(state: &State, id: u64, login: &str) -> Answer {
    if !state.users.contains_key(&login.to_lowercase()) {
        return Answer::error(404, &format!("{login} is not a user"));
    }
    let repo = state.repo(id);
    let everyone = if repo.private { "none" } else { "read" };
    let role = repo.roles.get(&login.to_lowercase()).map_or(everyone, String::as_str);
    let permission = coarse(role);
    let mut user = state.user_body(login);
    user["role_name"] = role.into();
    user["permissions"] = json!({
        "admin": role == "admin",
        "maintain": matches!(role, "admin" | "maintain"),
        "push": matches!(role, "admin" | "maintain" | "write"),
        "triage": matches!(role, "admin" | "maintain" | "write" | "triage"),
        "pull": role != "none",
    });
    Answer::ok(json!({"permission": permission, "role_name": role, "user": user}))
}

fn rules(state: &State, ask: &Ask, id: u64, branch: &str) -> Answer {
    let repo = state.repo(id);
    let rules = repo.required.get(branch).map(|contexts| {
        let checks: Vec<Value> = contexts.iter().map(|context| json!({"context": context})).collect();
        json!({
            "type": "required_status_checks",
            "ruleset_source_type": "Repository",
            "ruleset_source": repo.full_name(),
            "ruleset_id": repo.id,
            "parameters": {
                "required_status_checks": checks,
                "strict_required_status_checks_policy": false,
                "do_not_enforce_on_create": false,
            },
        })
    });
    list(&state.api, ask, rules.into_iter().collect())
}

fn protection(state: &State, ask: &Ask, id: u64, branch: &str) -> Answer {
    if let Err(refusal) = state.need(&ask.who, "administration", "read") {
        return refusal;
    }
    let repo = state.repo(id);
    let Some(contexts) = repo.required.get(branch) else { return Answer::error(404, "Branch not protected") };
    let url = format!("{}/branches/{branch}/protection/required_status_checks", state.repo_url(repo));
    let checks: Vec<Value> = contexts.iter().map(|context| json!({"context": context, "app_id": null})).collect();
    Answer::ok(json!({
        "url": url,
        "contexts_url": format!("{url}/contexts"),
        "strict": false,
        "contexts": contexts,
        "checks": checks,
    }))
}

fn branch_of(state: &State, id: u64, branch: &str) -> Answer {
    let repo = state.repo(id);
    let Some(sha) = sha_of(repo, branch) else { return Answer::error(404, "Branch not found") };
    let url = format!("{}/branches/{branch}", state.repo_url(repo));
    Answer::ok(json!({
        "name": branch,
        "commit": state.commit_body(repo, &sha),
        "_links": {"self": url, "html": format!("{}/tree/{branch}", state.web_url(repo))},
        "protected": repo.required.contains_key(branch),
        "protection": {},
        "protection_url": format!("{url}/protection"),
    }))
}

/// The commit a branch, a full or a short SHA stands for.
pub(super) fn sha_of(repo: &Repo, name: &str) -> Option<String> {
    let heads = repo.issues.values().filter_map(|issue| issue.pull.as_ref()).filter(|pull| !pull.from_fork);
    let mut named = heads.filter(|pull| pull.head_ref == name).map(|pull| pull.head_sha.clone());
    let branch = repo.branches.get(name).cloned().or_else(|| named.next());
    let short = || {
        let long_enough = name.len() >= 7;
        repo.commits.iter().find(|sha| long_enough && sha.starts_with(&name.to_lowercase())).cloned()
    };
    branch.or_else(short)
}

fn contents(state: &State, ask: &Ask, id: u64, path: &str) -> Answer {
    let repo = state.repo(id);
    let at = ask.query("ref").unwrap_or(&repo.default_branch);
    let key = |at: &str| (at.to_owned(), path.to_owned());
    let found = repo.files.get(&key(at)).or_else(|| repo.files.get(&key(&repo.default_branch)));
    let Some(text) = found else { return Answer::not_found() };
    if ask.accept.contains("raw") {
        return Answer::text(text).with("content-type", "application/vnd.github.raw+json; charset=utf-8");
    }
    let sha = hex::encode(&Sha256::digest(text.as_bytes())[..20]);
    let url = format!("{}/contents/{path}?ref={at}", state.repo_url(repo));
    let git = format!("{}/git/blobs/{sha}", state.repo_url(repo));
    let html = format!("{}/blob/{at}/{path}", state.web_url(repo));
    let mut encoded = base64::engine::general_purpose::STANDARD.encode(text);
    let breaks: Vec<usize> = (60..encoded.len()).step_by(60).rev().collect();
    for at in breaks {
        encoded.insert(at, '\n');
    }
    Answer::ok(json!({
        "type": "file",
        "encoding": "base64",
        "size": text.len(),
        "name": path.rsplit('/').next(),
        "path": path,
        "content": format!("{encoded}\n"),
        "sha": sha,
        "url": url,
        "git_url": git,
        "html_url": html,
        "download_url": format!("{}/raw/{at}/{path}", state.web_url(repo)),
        "_links": {"self": url, "git": git, "html": html},
    }))
}

/// `POST /dispatches`: 204 and no id, as on the service.
fn dispatch(state: &mut State, ask: &Ask, id: u64) -> Answer {
    let Some(kind) = ask.text("event_type").filter(|kind| !kind.is_empty() && kind.chars().count() <= 100) else {
        return Answer::invalid("RepositoryDispatch", "event_type", "event_type must have 1 to 100 characters");
    };
    let payload = ask.body.get("client_payload").cloned().unwrap_or_else(|| json!({}));
    if payload.as_object().is_none_or(|object| object.len() > 10) {
        return Answer::invalid("RepositoryDispatch", "client_payload", "No more than 10 properties are allowed");
    }
    state.repo_mut(id).dispatches.push((kind.to_owned(), payload));
    Answer::nothing(204)
}

/// The place a log download redirects to: `_logs/JOB`.
pub(super) fn log_text(state: &State, path: &[&str]) -> Answer {
    let job = match path {
        [_, id] => id.parse().ok().and_then(|id| state.jobs.get(&id)),
        _ => None,
    };
    job.map_or_else(Answer::not_found, |job| Answer::text(&job.log))
}

/// Whether the asker is an App's installation: only those may write checks.
pub(super) fn is_app(ask: &Ask) -> bool {
    matches!(ask.who, Who::Installation(_))
}
