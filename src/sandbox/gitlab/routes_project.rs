//! Everything below `/projects/:id`: the project itself, members, files and hooks; the rest is handed on.
//!
//! Read next: `routes_change.rs`, `routes_ci.rs`.

use base64::Engine as _;
use serde_json::json;

use super::ask::{Answer, Ask, Outcome, page};
use super::hooks::HookSecret;
use super::state::{MAINTAINER, On, State};
use super::{routes_change, routes_ci, routes_issues, routes_notes, statuses};

/// Refuses somebody below this access level.
pub(super) fn need(state: &State, ask: &Ask, project: u64, level: u64) -> Result<(), Answer> {
    if state.level(project, ask.user) < level { Err(Answer::forbidden()) } else { Ok(()) }
}

/// A number in a path.
pub(super) fn number(text: &str, what: &str) -> Result<u64, Answer> {
    text.parse().map_err(|_| Answer::error(400, &format!("{what} is invalid")))
}

pub(super) fn serve(state: &mut State, ask: &Ask, project: u64, rest: &[&str]) -> Outcome {
    match (ask.method.as_str(), rest) {
        ("GET", []) => Ok(Answer::ok(state.project_body(state.project(project)))),
        ("GET", ["members", "all"] | ["members"]) => {
            let members = &state.project(project).members;
            let members = members.iter().collect();
            Ok(page(&state.base, ask, members, |(user, member)| state.member_body(*user, member)))
        }
        ("GET", ["members", "all", user] | ["members", user]) => member(state, project, number(user, "user_id")?),
        ("GET" | "HEAD", ["repository", "files", path, "raw"]) => raw_file(state, ask, project, path),
        ("GET" | "HEAD", ["repository", "files", path]) => file(state, ask, project, path),
        ("GET", ["repository", "commits", sha, "statuses"]) => statuses::list(state, ask, project, sha),
        ("GET", ["repository", "commits", sha]) => commit(state, project, sha),
        ("GET", ["repository", "branches", branch]) => one_branch(state, project, branch),
        ("POST", ["statuses", sha]) => statuses::post(state, ask, project, sha),

        (_, ["merge_requests", iid, "notes", tail @ ..]) => {
            let on = On::MergeRequest(known_change(state, project, iid)?);
            routes_notes::serve(state, ask, (project, on), tail)
        }
        ("POST", ["merge_requests", iid, "discussions", thread, "notes"]) => {
            let on = On::MergeRequest(known_change(state, project, iid)?);
            routes_notes::reply(state, ask, (project, on), thread)
        }
        (_, ["merge_requests", tail @ ..]) => routes_change::serve(state, ask, project, tail),
        (_, ["issues", iid, "notes", tail @ ..]) => {
            let iid = routes_issues::find(state, ask, project, iid)?.iid;
            routes_notes::serve(state, ask, (project, On::Issue(iid)), tail)
        }
        (_, ["issues", tail @ ..]) => routes_issues::serve(state, ask, project, tail),
        (_, ["hooks", tail @ ..]) => hooks(state, ask, project, tail),
        (_, ["pipelines" | "pipeline" | "jobs" | "trigger", ..]) => routes_ci::serve(state, ask, project, rest),
        _ => Err(Answer::no_route()),
    }
}

/// The number of a merge request that exists.
pub(super) fn known_change(state: &State, project: u64, iid: &str) -> Result<u64, Answer> {
    let iid = number(iid, "merge_request_iid")?;
    let known = state.project(project).merge_requests.contains_key(&iid);
    if known { Ok(iid) } else { Err(Answer::no_row()) }
}

fn member(state: &State, project: u64, user: u64) -> Outcome {
    let member = state.project(project).members.get(&user).ok_or_else(Answer::no_row)?;
    Ok(Answer::ok(state.member_body(user, member)))
}

/// The text of a file at a branch; any other ref is looked up as if it were the default branch's commit.
fn text_of<'a>(state: &'a State, ask: &Ask, project: u64, path: &str) -> Result<(&'a str, String), Answer> {
    let home = state.project(project);
    let wanted = match ask.some("ref") {
        None | Some("HEAD") => home.default_branch.as_str(),
        Some(wanted) => wanted,
    };
    let at_default = home.branches.get(&home.default_branch).is_some_and(|sha| sha == wanted);
    let branch = if at_default { home.default_branch.as_str() } else { wanted };
    if !home.branches.contains_key(branch) {
        return Err(Answer::not_found("Commit"));
    }
    let text = home.files.get(&(branch.to_owned(), path.to_owned()));
    text.map(|text| (text.as_str(), branch.to_owned())).ok_or_else(|| Answer::not_found("File"))
}

fn raw_file(state: &State, ask: &Ask, project: u64, path: &str) -> Outcome {
    let (text, branch) = text_of(state, ask, project, path)?;
    Ok(Answer::text(200, text)
        .with("content-disposition", "inline")
        .with("x-gitlab-file-path", path)
        .with("x-gitlab-ref", branch)
        .with("x-gitlab-size", text.len().to_string()))
}

fn file(state: &State, ask: &Ask, project: u64, path: &str) -> Outcome {
    let (text, branch) = text_of(state, ask, project, path)?;
    let commit = state.project(project).branches.get(&branch);
    Ok(Answer::ok(json!({
        "file_name": path.rsplit('/').next(),
        "file_path": path,
        "size": text.len(),
        "encoding": "base64",
        "content": base64::engine::general_purpose::STANDARD.encode(text),
        "ref": branch,
        "commit_id": commit,
        "last_commit_id": commit,
        "execute_filemode": false,
    })))
}

fn commit(state: &State, project: u64, sha: &str) -> Outcome {
    let home = state.project(project);
    let full = home.commits.iter().find(|known| known.as_str() == sha || (sha.len() >= 7 && known.starts_with(sha)));
    let full = full.or_else(|| home.branches.get(sha)).ok_or_else(|| Answer::not_found("Commit"))?;
    Ok(Answer::ok(json!({
        "id": full,
        "short_id": full.get(..8),
        "title": "A commit of the sandbox",
        "message": "A commit of the sandbox\n",
        "author_name": "Sandbox",
        "created_at": super::bodies::iso(home.created_ms),
        "parent_ids": [],
        "status": null,
        "project_id": project,
        "web_url": format!("{}/-/commit/{full}", state.web_url(home)),
    })))
}

fn one_branch(state: &State, project: u64, branch: &str) -> Outcome {
    let home = state.project(project);
    let sha = home.branches.get(branch).ok_or_else(|| Answer::not_found("Branch"))?;
    Ok(Answer::ok(json!({
        "name": branch,
        "commit": {"id": sha, "short_id": sha.get(..8)},
        "merged": false,
        "protected": branch == home.default_branch,
        "default": branch == home.default_branch,
        "can_push": false,
    })))
}

/// The labels after `labels`, `add_labels` and `remove_labels`.
pub(super) fn labels_after(ask: &Ask, before: &[String]) -> Vec<String> {
    let mut labels = ask.commas("labels").unwrap_or_else(|| before.to_vec());
    for label in ask.commas("add_labels").unwrap_or_default() {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let gone = ask.commas("remove_labels").unwrap_or_default();
    labels.retain(|label| !gone.contains(label));
    labels
}

fn hooks(state: &mut State, ask: &Ask, project: u64, tail: &[&str]) -> Outcome {
    need(state, ask, project, MAINTAINER)?;
    let now = state.now_ms;
    match (ask.method.as_str(), tail) {
        ("GET", []) => Ok(page(&state.base, ask, state.hooks.iter().collect(), |hook| hook.body(project, now))),
        ("POST", []) => {
            let url = ask.some("url").ok_or_else(|| Answer::error(400, "url is missing"))?.to_owned();
            let own = |key: &str| ask.some(key).map(str::to_owned);
            let signing = own("signing_token");
            if signing.as_ref().is_some_and(|text| !text.starts_with("whsec_")) {
                return Err(Answer::field("signing_token", "is invalid"));
            }
            let id = state.add_hook(&url, HookSecret { token: own("token"), signing });
            let body = state.hooks.iter().find(|hook| hook.id == id).map(|hook| hook.body(project, now));
            Ok(Answer::created(json!(body)))
        }
        ("GET", [id]) => {
            let id = number(id, "hook_id")?;
            let hook = state.hooks.iter().find(|hook| hook.id == id).ok_or_else(Answer::no_row)?;
            Ok(Answer::ok(hook.body(project, now)))
        }
        ("DELETE", [id]) => {
            let id = number(id, "hook_id")?;
            state.hooks.retain(|hook| hook.id != id);
            Ok(Answer::nothing())
        }
        _ => Err(Answer::no_route()),
    }
}
