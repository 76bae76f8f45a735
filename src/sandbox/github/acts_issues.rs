//! What people do with issues and labels on the sandbox's site; each act queues its webhook.
//!
//! Read next: `routes_issues.rs`, which does the same over HTTP.

use serde_json::{Value, json};

use super::GitHubSandbox;
use super::hooks::Note;
use super::state::{Gone, Issue, Pull, State};

/// What an edit of an issue changes; what is none stays.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub title: Option<String>,
    pub body: Option<String>,
    pub open: Option<bool>,
    pub labels: Option<Vec<String>>,
}

impl GitHubSandbox {
    /// Opens an issue and answers its number.
    pub fn open_issue(&self, repo: &str, author: &str, title: &str, body: &str, labels: &[&str]) -> u64 {
        self.with(|state| {
            let id = state.named(repo).id;
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            state.open_issue(id, author, (title, body), labels)
        })
    }

    /// Changes the text of an issue, as `login`.
    pub fn edit_issue(&self, repo: &str, number: u64, login: &str, body: &str) {
        self.change_issue(repo, number, login, Edit { body: Some(body.to_owned()), ..Edit::default() });
    }

    /// Closes an issue, as `login`.
    pub fn close_issue(&self, repo: &str, number: u64, login: &str) {
        self.change_issue(repo, number, login, Edit { open: Some(false), ..Edit::default() });
    }

    /// Opens a closed issue again, as `login`.
    pub fn reopen_issue(&self, repo: &str, number: u64, login: &str) {
        self.change_issue(repo, number, login, Edit { open: Some(true), ..Edit::default() });
    }

    fn change_issue(&self, repo: &str, number: u64, login: &str, edit: Edit) {
        self.with(|state| {
            let id = state.named(repo).id;
            state.edit_issue((id, number), login, edit);
        });
    }

    /// Deletes an issue, as `login`; requests for it get 410 from now on.
    pub fn delete_issue(&self, repo: &str, number: u64, login: &str) {
        self.with(|state| {
            let id = state.named(repo).id;
            state.note_issue((id, number), login, ("deleted", json!({})));
            let repo = state.repo_mut(id);
            repo.issues.remove(&number);
            repo.moved.insert(number, Gone::Deleted);
        });
    }

    /// Moves an issue to another repository, as `login`, and answers its new number; requests for it get 301.
    pub fn transfer_issue(&self, repo: &str, number: u64, login: &str, to: &str) -> u64 {
        self.with(|state| {
            let (from, to) = (state.named(repo).id, state.named(to).id);
            state.note_issue((from, number), login, ("transferred", json!({})));
            let mut issue = state.repo_mut(from).issues.remove(&number).expect("the issue exists");
            let new = state.repo(to).next_number();
            issue.number = new;
            state.repo_mut(to).issues.insert(new, issue);
            state.repo_mut(from).moved.insert(number, Gone::To(to, new));
            state.note_issue((to, new), login, ("opened", json!({})));
            new
        })
    }

    /// Switches the issues of a repository off or on; lists of them get 410 while they are off.
    pub fn set_issues_off(&self, repo: &str, off: bool) {
        self.with(|state| state.named(repo).issues_off = off);
    }

    /// Adds a label to a change or issue, as `login`.
    pub fn label(&self, repo: &str, number: u64, login: &str, label: &str) {
        self.with(|state| state.set_label(repo, number, login, (label, true)));
    }

    /// Takes a label off a change or issue, as `login`.
    pub fn unlabel(&self, repo: &str, number: u64, login: &str, label: &str) {
        self.with(|state| state.set_label(repo, number, login, (label, false)));
    }
}

impl State {
    pub fn open_issue(&mut self, repo_id: u64, author: &str, (title, body): (&str, &str), labels: Vec<String>) -> u64 {
        let name = self.repo(repo_id).full_name();
        let number = self.add_issue(&name, author, title.to_owned(), labels.clone(), |_| None);
        if let Some(issue) = self.repo_mut(repo_id).issues.get_mut(&number) {
            body.clone_into(&mut issue.body);
        }
        self.note_issue((repo_id, number), author, ("opened", json!({})));
        for label in labels {
            let more = json!({"label": self.label_body(self.repo(repo_id), &label)});
            self.note_issue((repo_id, number), author, ("labeled", more));
        }
        number
    }

    /// Changes an issue or change and tells of every part of it; nothing is told of what stood so already.
    pub fn edit_issue(&mut self, (repo_id, number): (u64, u64), login: &str, edit: Edit) {
        self.user(login);
        let now = self.now_ms;
        let name = self.repo(repo_id).full_name();
        let issue = self.repo_mut(repo_id).issues.get_mut(&number).expect("the issue exists");
        issue.updated_ms = now;
        let mut changes = json!({});
        if let Some(title) = edit.title.filter(|title| *title != issue.title) {
            changes["title"] = json!({"from": std::mem::replace(&mut issue.title, title)});
        }
        if let Some(body) = edit.body.filter(|body| *body != issue.body) {
            changes["body"] = json!({"from": std::mem::replace(&mut issue.body, body)});
        }
        let turned = edit.open.filter(|open| *open != issue.open);
        if let Some(open) = turned {
            issue.open = open;
            issue.closed_ms = (!open).then_some(now);
        }
        let held = issue.labels.clone();
        if changes.as_object().is_some_and(|changes| !changes.is_empty()) {
            self.note_issue((repo_id, number), login, ("edited", json!({ "changes": changes })));
        }
        if let Some(open) = turned {
            self.note_issue((repo_id, number), login, (if open { "reopened" } else { "closed" }, json!({})));
        }
        let Some(labels) = edit.labels else { return };
        for label in held.iter().filter(|label| !labels.contains(label)) {
            self.set_label(&name, number, login, (label, false));
        }
        for label in labels.iter().filter(|label| !held.contains(label)) {
            self.set_label(&name, number, login, (label, true));
        }
    }

    /// Adds an issue, or with `pull` a change, and tells nobody yet.
    pub fn add_issue(
        &mut self,
        repo: &str,
        author: &str,
        title: String,
        labels: Vec<String>,
        pull: impl FnOnce(u64) -> Option<Pull>,
    ) -> u64 {
        self.user(author);
        let (id, now) = (self.id(), self.now_ms);
        let repo = self.named(repo);
        let number = repo.next_number();
        let pull = pull(number);
        let issue = Issue {
            id,
            number,
            author: author.to_owned(),
            title: if title.is_empty() { format!("Change {number}") } else { title },
            body: String::new(),
            labels,
            open: true,
            locked: false,
            created_ms: now,
            updated_ms: now,
            closed_ms: None,
            reactions: Vec::new(),
            pull,
        };
        repo.issues.insert(number, issue);
        number
    }

    /// Tells of an issue, or of the change that it is.
    fn note_issue(&mut self, (repo_id, number): (u64, u64), by: &str, (action, more): (&str, Value)) {
        let repo = self.repo(repo_id);
        let issue = repo.issues.get(&number).expect("the issue exists");
        if issue.pull.is_some() {
            let name = repo.full_name();
            self.note_pull(&name, number, by, (action, more));
            return;
        }
        let mut body = json!({"issue": self.issue_body(repo, issue)});
        super::bodies::extend(&mut body, more);
        self.emit(&Note::new("issues", repo_id, by).action(action), body);
    }

    pub fn set_label(&mut self, repo: &str, number: u64, login: &str, (label, on): (&str, bool)) {
        let (repo_id, now) = (self.named(repo).id, self.now_ms);
        let issue = self.repo_mut(repo_id).issues.get_mut(&number).expect("the change exists");
        issue.updated_ms = now;
        issue.labels.retain(|name| name != label);
        if on {
            issue.labels.push(label.to_owned());
        }
        let more = json!({"label": self.label_body(self.repo(repo_id), label)});
        self.note_issue((repo_id, number), login, (if on { "labeled" } else { "unlabeled" }, more));
    }
}
