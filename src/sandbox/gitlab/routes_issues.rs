//! Issues over REST: the list with its filters, one, a new one, an edit.
//!
//! Read next: `acts_issues.rs`, which does the same without HTTP.

use super::acts_issues::Edit;
use super::ask::{Answer, Ask, Outcome, page};
use super::new::NewIssue;
use super::routes_project::{labels_after, need, number};
use super::state::{DEVELOPER, Issue, State};

/// Lowest level that sees confidential issues of others, and that sets labels.
const REPORTER: u64 = 20;

pub(super) fn serve(state: &mut State, ask: &Ask, project: u64, tail: &[&str]) -> Outcome {
    match (ask.method.as_str(), tail) {
        ("GET", []) => Ok(list(state, ask, project)),
        ("POST", []) => create(state, ask, project),
        ("GET", [iid]) => {
            let issue = find(state, ask, project, iid)?;
            Ok(Answer::ok(state.issue_body(state.project(project), issue)))
        }
        ("PUT", [iid]) => edit(state, ask, project, iid),
        _ => Err(Answer::no_route()),
    }
}

/// Confidential issues are shown to reporters and above, and to whoever wrote them.
fn sees(state: &State, ask: &Ask, project: u64, issue: &Issue) -> bool {
    !issue.confidential || issue.author == ask.user || state.level(project, ask.user) >= REPORTER
}

/// The issue, if the asker may see it.
pub(super) fn find<'a>(state: &'a State, ask: &Ask, project: u64, iid: &str) -> Result<&'a Issue, Answer> {
    let issue = state.project(project).issues.get(&number(iid, "issue_iid")?);
    issue.filter(|issue| sees(state, ask, project, issue)).ok_or_else(Answer::no_row)
}

fn list(state: &State, ask: &Ask, project: u64) -> Answer {
    let home = state.project(project);
    let wanted = ask.commas("labels").unwrap_or_default();
    let search = ask.some("search").map(str::to_lowercase);
    let labelled = |issue: &Issue| match wanted.as_slice() {
        [one] if one.eq_ignore_ascii_case("none") => issue.labels.is_empty(),
        [one] if one.eq_ignore_ascii_case("any") => !issue.labels.is_empty(),
        all => all.iter().all(|label| issue.labels.contains(label)),
    };
    let fits = |issue: &&Issue| {
        let opened = match ask.some("state") {
            Some("opened") => issue.open,
            Some("closed") => !issue.open,
            _ => true,
        };
        let text = format!("{}\n{}", issue.title, issue.description).to_lowercase();
        sees(state, ask, project, issue)
            && labelled(issue)
            && opened
            && ask.some("issue_type").is_none_or(|kind| kind == issue.kind)
            && ask.flag("confidential").is_none_or(|hidden| hidden == issue.confidential)
            && search.as_ref().is_none_or(|search| text.contains(search.as_str()))
    };
    let mut found: Vec<&Issue> = home.issues.values().filter(fits).collect();
    if ask.some("order_by") == Some("updated_at") {
        found.sort_by_key(|issue| issue.updated_ms);
    }
    if ask.some("sort") != Some("asc") {
        found.reverse();
    }
    page(&state.base, ask, found, |issue| state.issue_body(home, issue))
}

fn create(state: &mut State, ask: &Ask, project: u64) -> Outcome {
    let title = ask.some("title").ok_or_else(|| Answer::error(400, "title is missing"))?.to_owned();
    // Who may not set labels gets an issue without them.
    let labels = if state.level(project, ask.user) >= REPORTER { labels_after(ask, &[]) } else { Vec::new() };
    let new = NewIssue {
        title,
        description: ask.text("description").unwrap_or_default().to_owned(),
        labels,
        closed: false,
        confidential: ask.flag("confidential") == Some(true),
        kind: ask.some("issue_type").unwrap_or_default().to_owned(),
    };
    let iid = state.open_issue(project, ask.user, new);
    let home = state.project(project);
    let issue = home.issues.get(&iid).ok_or_else(Answer::no_row)?;
    Ok(Answer::created(state.issue_body(home, issue)))
}

fn edit(state: &mut State, ask: &Ask, project: u64, iid: &str) -> Outcome {
    let issue = find(state, ask, project, iid)?;
    let (iid, labels) = (issue.iid, labels_after(ask, &issue.labels));
    if issue.author != ask.user {
        need(state, ask, project, DEVELOPER)?;
    }
    let edit = Edit {
        title: ask.some("title").map(str::to_owned),
        description: ask.text("description").map(str::to_owned),
        labels: Some(labels),
        open: match ask.some("state_event") {
            Some("close") => Some(false),
            Some("reopen") => Some(true),
            _ => None,
        },
        confidential: ask.flag("confidential"),
    };
    state.edit_issue((project, iid), ask.user, edit);
    let home = state.project(project);
    let issue = home.issues.get(&iid).ok_or_else(Answer::no_row)?;
    Ok(Answer::ok(state.issue_body(home, issue)))
}
