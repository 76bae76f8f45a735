//! Changes, issues, comments, reactions, reviews and labels over REST.
//!
//! Read next: `acts.rs`, which does the same without HTTP.

use serde_json::{Value, json};

use super::ask::{Answer, Ask, list, list_of};
use super::bodies_change::REACTIONS;
use super::routes_issues;
use super::state::{Comment, Issue, LineOf, Pull, Reaction, Repo, State};

/// Longest comment, in characters.
pub(super) const BODY_CHARS_MAX: usize = 65_536;

pub(super) fn route(state: &mut State, ask: &Ask, id: u64, rest: &[&str]) -> Answer {
    match (ask.method.as_str(), rest) {
        ("GET", ["pulls"]) => pulls(state, ask, id),
        (_, ["issues"]) => routes_issues::all(state, ask, id),
        (_, ["issues" | "pulls", "comments", comment, tail @ ..]) => {
            let line = rest.first() == Some(&"pulls");
            let found = comment.parse().ok().and_then(|at| state.repo(id).comments.get(&at));
            match found.filter(|comment| comment.line.is_some() == line).map(|comment| comment.id) {
                Some(comment) => one_comment(state, ask, (id, comment), tail),
                None => Answer::not_found(),
            }
        }
        ("GET", ["issues", "comments"]) => comments(state, ask, id, |comment| comment.line.is_none()),
        (_, ["issues" | "pulls", number, tail @ ..]) => {
            let pulls_only = rest.first() == Some(&"pulls");
            let found = number.parse().ok().and_then(|number: u64| state.repo(id).issues.get(&number));
            match found.filter(|issue| issue.pull.is_some() || !pulls_only).map(|issue| issue.number) {
                Some(number) if pulls_only => one_pull(state, ask, (id, number), tail),
                Some(number) => one_issue(state, ask, (id, number), tail),
                None => {
                    let gone = number.parse().ok().and_then(|number| routes_issues::gone(state, id, number));
                    gone.unwrap_or_else(Answer::not_found)
                }
            }
        }
        _ => Answer::not_found(),
    }
}

fn each_pull(repo: &Repo) -> impl DoubleEndedIterator<Item = (&Issue, &Pull)> {
    repo.issues.values().filter_map(|issue| Some((issue, issue.pull.as_ref()?)))
}

/// Whether the `state` of a query (open when absent) wants this.
pub(super) fn wanted_state(ask: &Ask, open: bool) -> bool {
    match ask.query("state") {
        Some("all") => true,
        Some("closed") => !open,
        _ => open,
    }
}

fn pulls(state: &State, ask: &Ask, id: u64) -> Answer {
    let repo = state.repo(id);
    let fits = |issue: &Issue, pull: &Pull| {
        let owner = if pull.from_fork { &issue.author } else { &repo.owner };
        wanted_state(ask, issue.open)
            && ask.query("base").is_none_or(|base| base == pull.base_ref)
            && ask.query("head").is_none_or(|head| head == format!("{owner}:{}", pull.head_ref))
    };
    let mut found: Vec<(&Issue, &Pull)> = each_pull(repo).filter(|(issue, pull)| fits(issue, pull)).collect();
    if ask.query("direction") != Some("asc") {
        found.reverse();
    }
    list_of(&state.api, ask, found, |(issue, pull)| state.pull_body(repo, issue, pull))
}

/// `since` in milliseconds.
pub(super) fn since(ask: &Ask) -> Option<i64> {
    let time = chrono::DateTime::parse_from_rfc3339(ask.query("since")?).ok()?;
    Some(time.timestamp_millis())
}

fn comments(state: &State, ask: &Ask, id: u64, fits: impl Fn(&Comment) -> bool) -> Answer {
    let repo = state.repo(id);
    let since = since(ask);
    let found = repo.comments.values().filter(|c| fits(c) && since.is_none_or(|ms| c.updated_ms >= ms));
    list_of(&state.api, ask, found.collect(), |comment| state.comment_body(repo, comment))
}

/// The text of a new comment, or why it is refused.
fn checked_body(ask: &Ask, resource: &str) -> Result<String, Answer> {
    let body = ask.text("body").unwrap_or_default();
    if body.trim().is_empty() {
        return Err(Answer::invalid(resource, "body", "body cannot be blank"));
    }
    if body.chars().count() > BODY_CHARS_MAX {
        return Err(Answer::invalid(resource, "body", "body is too long (maximum is 65536 characters)"));
    }
    Ok(body.to_owned())
}

fn one_comment(state: &mut State, ask: &Ask, (repo_id, id): (u64, u64), tail: &[&str]) -> Answer {
    let login = state.login_of(&ask.who);
    match (ask.method.as_str(), tail) {
        ("GET", []) => {}
        ("PATCH", []) => match checked_body(ask, "IssueComment") {
            Ok(body) => {
                let author = state.repo(repo_id).comments.get(&id).map(|comment| comment.author.clone());
                if author.is_some_and(|author| author != login) && !may_moderate(state, repo_id, &login) {
                    return Answer::error(403, "Resource not accessible by integration");
                }
                state.edit_comment(repo_id, id, &login, &body);
            }
            Err(refusal) => return refusal,
        },
        ("DELETE", []) => {
            state.delete_comment(repo_id, id, &login);
            return Answer::nothing(204);
        }
        (_, ["reactions", tail @ ..]) => {
            state.user(&login);
            let (new_id, now) = (state.id(), state.now_ms);
            let Some(comment) = state.repo_mut(repo_id).comments.get_mut(&id) else { return Answer::not_found() };
            let changed = react(&mut comment.reactions, ask, tail, (&login, new_id, now));
            return reactions_answer(state, ask, changed);
        }
        _ => return Answer::not_found(),
    }
    let repo = state.repo(repo_id);
    repo.comments.get(&id).map_or_else(Answer::not_found, |c| Answer::ok(state.comment_body(repo, c)))
}

/// Apps act with their permission; people need the write role to change another's words.
fn may_moderate(state: &State, repo_id: u64, login: &str) -> bool {
    let role = state.repo(repo_id).roles.get(&login.to_lowercase());
    login.ends_with("[bot]") || matches!(role.map(String::as_str), Some("admin" | "maintain" | "write"))
}

enum Reacted {
    All(Vec<Reaction>),
    New(Reaction),
    Old(Reaction),
    Gone,
    Unknown,
    BadContent,
}

fn react(held: &mut Vec<Reaction>, ask: &Ask, tail: &[&str], (login, id, now): (&str, u64, i64)) -> Reacted {
    match (ask.method.as_str(), tail) {
        ("GET", []) => Reacted::All(held.clone()),
        ("POST", []) => {
            let content = ask.text("content").unwrap_or_default();
            if !REACTIONS.contains(&content) {
                return Reacted::BadContent;
            }
            let same = held.iter().find(|r| r.login.eq_ignore_ascii_case(login) && r.content == content);
            if let Some(old) = same {
                return Reacted::Old(old.clone());
            }
            let new = Reaction { id, login: login.to_owned(), content: content.to_owned(), created_ms: now };
            held.push(new.clone());
            Reacted::New(new)
        }
        ("DELETE", [id]) => {
            let before = held.len();
            held.retain(|reaction| reaction.id.to_string() != *id);
            if held.len() < before { Reacted::Gone } else { Reacted::Unknown }
        }
        _ => Reacted::Unknown,
    }
}

fn reactions_answer(state: &State, ask: &Ask, reacted: Reacted) -> Answer {
    match reacted {
        Reacted::All(all) => {
            let wanted = all.iter().filter(|r| ask.query("content").is_none_or(|content| content == r.content));
            list(&state.api, ask, wanted.map(|reaction| state.reaction_body(reaction)).collect())
        }
        Reacted::New(reaction) => Answer::created(state.reaction_body(&reaction)),
        Reacted::Old(reaction) => Answer::ok(state.reaction_body(&reaction)),
        Reacted::Gone => Answer::nothing(204),
        Reacted::Unknown => Answer::not_found(),
        Reacted::BadContent => Answer::invalid("Reaction", "content", "content is not a known reaction"),
    }
}

fn one_issue(state: &mut State, ask: &Ask, (id, number): (u64, u64), tail: &[&str]) -> Answer {
    let login = state.login_of(&ask.who);
    match (ask.method.as_str(), tail) {
        ("GET", []) => {
            let repo = state.repo(id);
            Answer::ok(state.issue_body(repo, &repo.issues[&number]))
        }
        ("PATCH", []) => routes_issues::edit(state, ask, (id, number)),
        ("GET", ["comments"]) => comments(state, ask, id, |c| c.number == number && c.line.is_none()),
        ("POST", ["comments"]) => {
            if state.repo(id).issues[&number].locked && !may_moderate(state, id, &login) {
                return Answer::error(403, "Unable to create comment because issue is locked.");
            }
            match checked_body(ask, "IssueComment") {
                Ok(body) => {
                    let comment = state.add_comment(id, number, &login, &body, None);
                    let repo = state.repo(id);
                    Answer::created(state.comment_body(repo, &repo.comments[&comment]))
                }
                Err(refusal) => refusal,
            }
        }
        (_, ["reactions", tail @ ..]) => {
            state.user(&login);
            let (new_id, now) = (state.id(), state.now_ms);
            let Some(issue) = state.repo_mut(id).issues.get_mut(&number) else { return Answer::not_found() };
            let changed = react(&mut issue.reactions, ask, tail, (&login, new_id, now));
            reactions_answer(state, ask, changed)
        }
        (_, ["labels", tail @ ..]) => labels(state, ask, (id, number), tail),
        _ => Answer::not_found(),
    }
}

fn labels(state: &mut State, ask: &Ask, (id, number): (u64, u64), tail: &[&str]) -> Answer {
    let login = state.login_of(&ask.who);
    let name = state.repo(id).full_name();
    match (ask.method.as_str(), tail) {
        ("GET", []) => {}
        ("POST", []) => {
            let given = ask.body.get("labels").unwrap_or(&ask.body).as_array().cloned().unwrap_or_default();
            for label in given.iter().filter_map(Value::as_str) {
                state.set_label(&name, number, &login, (label, true));
            }
        }
        ("DELETE", [label]) => {
            if !state.repo(id).issues[&number].labels.iter().any(|held| held == label) {
                return Answer::error(404, "Label does not exist");
            }
            state.set_label(&name, number, &login, (label, false));
        }
        _ => return Answer::not_found(),
    }
    let repo = state.repo(id);
    Answer::ok(state.labels_body(repo, &repo.issues[&number]))
}

fn one_pull(state: &mut State, ask: &Ask, (id, number): (u64, u64), tail: &[&str]) -> Answer {
    let repo = state.repo(id);
    match (ask.method.as_str(), tail) {
        ("GET", []) => Answer::ok(state.pull_event_body(id, number)),
        ("GET", ["commits"]) => {
            let head = repo.issues[&number].pull.as_ref().map(|pull| state.commit_body(repo, &pull.head_sha));
            list(&state.api, ask, head.into_iter().collect())
        }
        ("GET", ["files"]) => {
            let web = state.web_url(repo);
            let file = json!({
                "sha": super::state::BASE_SHA, "filename": "README.md", "status": "modified",
                "additions": 1, "deletions": 0, "changes": 1,
                "blob_url": format!("{web}/blob/main/README.md"),
                "raw_url": format!("{web}/raw/main/README.md"),
                "contents_url": format!("{}/contents/README.md", state.repo_url(repo)),
            });
            list(&state.api, ask, vec![file])
        }
        ("GET", ["reviews"]) => {
            let reviews = repo.reviews.values().filter(|review| review.number == number);
            let bodies = reviews.map(|review| state.review_body(repo, review)).collect();
            list(&state.api, ask, bodies)
        }
        ("GET", ["comments"]) => comments(state, ask, id, |c| c.number == number && c.line.is_some()),
        ("POST", ["comments", parent, "replies"]) => reply(state, ask, (id, number), parent),
        _ => Answer::not_found(),
    }
}

/// Replies hang on the top-level comment only, as on the service.
fn reply(state: &mut State, ask: &Ask, (id, number): (u64, u64), parent: &str) -> Answer {
    let found = parent.parse().ok().and_then(|at: u64| state.repo(id).comments.get(&at));
    let top = found.filter(|comment| comment.number == number);
    let Some((at, line)) = top.and_then(|comment| Some((comment.id, comment.line.clone()?))) else {
        return Answer::not_found();
    };
    if line.in_reply_to.is_some() {
        return Answer::error(422, "in_reply_to must be a top-level comment");
    }
    match checked_body(ask, "PullRequestReviewComment") {
        Ok(body) => {
            let login = state.login_of(&ask.who);
            let line = LineOf { in_reply_to: Some(at), ..line };
            let comment = state.add_comment(id, number, &login, &body, Some(line));
            let repo = state.repo(id);
            Answer::created(state.comment_body(repo, &repo.comments[&comment]))
        }
        Err(refusal) => refusal,
    }
}
