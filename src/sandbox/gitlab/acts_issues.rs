//! What people do with issues on the sandbox's site; each act queues its webhook. GitLab tells nobody of a deleted issue.
//!
//! Read next: `routes_issues.rs`, which does the same over HTTP.

use serde_json::{Value, json};

use super::GitLabSandbox;
use super::new::{NewIssue, NewNote, NoteKind};
use super::quick_actions;
use super::state::{Issue, Kind, On, State};

/// What an edit of an issue changes; what is none stays.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub title: Option<String>,
    pub description: Option<String>,
    pub labels: Option<Vec<String>>,
    pub open: Option<bool>,
    pub confidential: Option<bool>,
}

impl GitLabSandbox {
    /// Opens an issue and answers its number.
    pub fn add_issue(&self, project: u64, username: &str, new: NewIssue) -> u64 {
        self.with(|state| {
            let author = state.user(username);
            state.open_issue(project, author, new)
        })
    }

    /// Changes the text of an issue.
    pub fn edit_issue(&self, project: u64, iid: u64, username: &str, description: &str) {
        let edit = Edit { description: Some(description.to_owned()), ..Edit::default() };
        self.change_issue(project, iid, username, edit);
    }

    /// Sets the labels of an issue.
    pub fn set_issue_labels(&self, project: u64, iid: u64, username: &str, labels: &[&str]) {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.change_issue(project, iid, username, Edit { labels: Some(labels), ..Edit::default() });
    }

    /// Closes an issue.
    pub fn close_issue(&self, project: u64, iid: u64, username: &str) {
        self.change_issue(project, iid, username, Edit { open: Some(false), ..Edit::default() });
    }

    /// Opens a closed issue again.
    pub fn reopen_issue(&self, project: u64, iid: u64, username: &str) {
        self.change_issue(project, iid, username, Edit { open: Some(true), ..Edit::default() });
    }

    /// Makes an issue visible to members only, or to everybody.
    pub fn set_confidential(&self, project: u64, iid: u64, username: &str, confidential: bool) {
        self.change_issue(project, iid, username, Edit { confidential: Some(confidential), ..Edit::default() });
    }

    /// Writes a comment on an issue and answers its id; 0 when it held quick actions only and was not saved.
    pub fn issue_note(&self, project: u64, iid: u64, username: &str, body: &str) -> u64 {
        self.with(|state| {
            let user = state.user(username);
            let new = NewNote { body: body.to_owned(), kind: NoteKind::Plain };
            state.write_note(project, On::Issue(iid), user, new).unwrap_or(0)
        })
    }

    fn change_issue(&self, project: u64, iid: u64, username: &str, edit: Edit) {
        self.with(|state| {
            let user = state.user(username);
            state.edit_issue((project, iid), user, edit);
        });
    }

    /// Deletes an issue; GitLab tells no hook of it.
    pub fn delete_issue(&self, project: u64, iid: u64) {
        self.with(|state| state.project_mut(project).issues.remove(&iid));
    }
}

impl State {
    /// Opens an issue; quick actions in its text are stripped, as on the service.
    pub fn open_issue(&mut self, project: u64, author: u64, new: NewIssue) -> u64 {
        let (id, now) = (self.id(Kind::Issue), self.now_ms);
        let issues = &mut self.project_mut(project).issues;
        let iid = issues.keys().next_back().map_or(1, |last| last + 1);
        let issue = Issue {
            id,
            iid,
            author,
            title: new.title,
            description: quick_actions::split(&new.description).0,
            labels: new.labels,
            open: !new.closed,
            confidential: new.confidential,
            kind: if new.kind.is_empty() { "issue".to_owned() } else { new.kind },
            created_ms: now,
            updated_ms: now,
        };
        issues.insert(iid, issue);
        self.tell_issue((project, iid), author, "open", &json!({}));
        iid
    }

    /// Changes an issue and tells of it once; nothing is told when nothing changed.
    pub fn edit_issue(&mut self, (project, iid): (u64, u64), user: u64, edit: Edit) {
        let now = self.now_ms;
        let held = self.project_mut(project).issues.get_mut(&iid);
        let issue = held.unwrap_or_else(|| panic!("no issue {iid} in the sandbox's project {project}"));
        let mut changes = json!({});
        let change = |from: Value, to: Value| json!({"previous": from, "current": to});
        if let Some(title) = edit.title.filter(|title| *title != issue.title) {
            changes["title"] = change(json!(issue.title), json!(title));
            issue.title = title;
        }
        let description = edit.description.map(|text| quick_actions::split(&text).0);
        if let Some(text) = description.filter(|text| *text != issue.description) {
            changes["description"] = change(json!(issue.description), json!(text));
            issue.description = text;
        }
        if let Some(labels) = edit.labels.filter(|labels| *labels != issue.labels) {
            let titles = |labels: &[String]| labels.iter().map(|title| json!({ "title": title })).collect();
            changes["labels"] = change(titles(&issue.labels), titles(&labels));
            issue.labels = labels;
        }
        if let Some(hidden) = edit.confidential.filter(|hidden| *hidden != issue.confidential) {
            changes["confidential"] = change(json!(issue.confidential), json!(hidden));
            issue.confidential = hidden;
        }
        let mut action = "update";
        if let Some(open) = edit.open.filter(|open| *open != issue.open) {
            let id = |open: bool| json!(if open { 1 } else { 2 });
            changes["state_id"] = change(id(issue.open), id(open));
            issue.open = open;
            action = if open { "reopen" } else { "close" };
        }
        if changes.as_object().is_some_and(|changes| !changes.is_empty()) {
            issue.updated_ms = now;
            self.tell_issue((project, iid), user, action, &changes);
        }
    }
}
