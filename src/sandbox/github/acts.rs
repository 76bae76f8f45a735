//! What people do on the sandbox's site: repositories, rights, changes, and the words they write.
//!
//! Each act that GitHub tells of queues its webhook. Naming a repository, change or comment that does not exist is a
//! mistake of the test and panics. Read next: `acts_issues.rs`, `acts_ci.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::hooks::{Hook, Note};
use super::state::{BASE_SHA, Comment, LineOf, Pull, Repo, Review, State};
use super::{GitHubSandbox, NewPull};

impl GitHubSandbox {
    /// Adds a hook: the App's when the sandbox has an App, else one of the repositories.
    ///
    /// Several hooks each get every event, under the same GUID. An empty secret leaves deliveries unsigned.
    pub fn hook(&self, url: &str, secret: &str) {
        let of_app = self.with(|state| state.app.is_some());
        self.add_hook(url, secret, of_app);
    }

    /// Points every hook to another address, as an operator does when the receiver moves.
    pub fn move_hooks(&self, url: &str) {
        self.with(|state| {
            for hook in &mut state.hooks {
                url.clone_into(&mut hook.url);
            }
        });
    }

    /// Adds a repository hook, whether or not there is an App.
    pub fn repo_hook(&self, url: &str, secret: &str) {
        self.add_hook(url, secret, false);
    }

    fn add_hook(&self, url: &str, secret: &str, of_app: bool) {
        self.with(|state| {
            let id = state.id();
            state.hooks.push(Hook { id, url: url.to_owned(), secret: secret.to_owned(), of_app });
            state.wake.notify_one();
        });
    }

    /// Adds a personal token of a person.
    pub fn add_token(&self, token: &str, login: &str) {
        self.with(|state| {
            state.user(login);
            state.personal.push((token.to_owned(), login.to_owned()));
        });
    }

    /// Adds a public repository `owner/name` and answers its id; the id of the known one when it exists.
    pub fn add_repo(&self, full_name: &str) -> u64 {
        self.with(|state| {
            if let Some(id) = state.repo_id(full_name) {
                return id;
            }
            let (owner, name) = full_name.split_once('/').unwrap_or(("sandbox", full_name));
            state.user_of_kind(owner, "Organization");
            let id = state.id();
            let repo = Repo {
                id,
                owner: owner.to_owned(),
                name: name.to_owned(),
                private: false,
                default_branch: "main".to_owned(),
                created_ms: state.now_ms,
                issues: BTreeMap::new(),
                comments: BTreeMap::new(),
                reviews: BTreeMap::new(),
                statuses: Vec::new(),
                commits: BTreeSet::from([BASE_SHA.to_owned()]),
                branches: BTreeMap::from([("main".to_owned(), BASE_SHA.to_owned())]),
                roles: BTreeMap::new(),
                files: BTreeMap::new(),
                required: BTreeMap::new(),
                moved: BTreeMap::new(),
                issues_off: false,
                queue: Vec::new(),
                queue_ends: BTreeMap::new(),
                dispatches: Vec::new(),
            };
            state.repos.insert(id, repo);
            state.names.insert(format!("{owner}/{name}").to_lowercase(), id);
            id
        })
    }

    /// Gives a repository another `owner/name`; requests under the old one get 301 from now on.
    pub fn rename_repo(&self, old: &str, new: &str) {
        self.with(|state| {
            let (owner, name) = new.split_once('/').unwrap_or(("sandbox", new));
            state.user_of_kind(owner, "Organization");
            let repo = state.named(old);
            repo.owner = owner.to_owned();
            repo.name = name.to_owned();
            let id = repo.id;
            state.names.insert(new.to_lowercase(), id);
        });
    }

    /// Hides a repository from people without a role, or shows it.
    pub fn set_private(&self, repo: &str, private: bool) {
        self.with(|state| state.named(repo).private = private);
    }

    /// Sets a person's role: `admin`, `maintain`, `write`, `triage`, `read` or `none`.
    pub fn set_role(&self, repo: &str, login: &str, role: &str) {
        self.with(|state| {
            state.user(login);
            state.named(repo).roles.insert(login.to_lowercase(), role.to_owned());
        });
    }

    /// The id of a person or bot, made on demand.
    pub fn user_id(&self, login: &str) -> u64 {
        self.with(|state| state.user(login))
    }

    /// Makes a person a member of an organisation, and of `team` unless that is empty.
    pub fn add_member(&self, organization: &str, team: &str, login: &str) {
        self.with(|state| {
            state.user(login);
            let key = |team: &str| (organization.to_lowercase(), team.to_lowercase(), login.to_lowercase());
            state.members.insert(key(""));
            state.members.insert(key(team));
        });
    }

    /// Puts a file on the default branch.
    pub fn put_file(&self, repo: &str, path: &str, text: &str) {
        self.with(|state| {
            let repo = state.named(repo);
            repo.files.insert((repo.default_branch.clone(), path.to_owned()), text.to_owned());
        });
    }

    /// Takes somebody out of a team.
    pub fn remove_member(&self, organization: &str, team: &str, login: &str) {
        let key = (organization.to_lowercase(), team.to_lowercase(), login.to_lowercase());
        self.with(|state| state.members.remove(&key));
    }

    /// Takes a file off the default branch.
    pub fn remove_file(&self, repo: &str, path: &str) {
        self.with(|state| {
            let repo = state.named(repo);
            repo.files.remove(&(repo.default_branch.clone(), path.to_owned()));
        });
    }

    /// Puts a file on another ref (a branch or a commit); other files there are those of the default branch.
    pub fn put_file_at(&self, repo: &str, at: &str, path: &str, text: &str) {
        self.with(|state| state.named(repo).files.insert((at.to_owned(), path.to_owned()), text.to_owned()));
    }

    /// Opens a change and answers its number.
    pub fn open_pull(&self, repo: &str, author: &str, head_sha: &str, new: NewPull) -> u64 {
        self.with(|state| {
            let number = state.add_issue(repo, author, new.title.clone(), new.labels.clone(), |number| {
                let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
                Some(Pull {
                    head_sha: head_sha.to_owned(),
                    head_ref: or(&new.head_ref, &format!("change-{number}")),
                    base_sha: or(&new.base_sha, BASE_SHA),
                    base_ref: or(&new.base_ref, "main"),
                    from_fork: new.from_fork,
                    fork_deleted: false,
                    draft: new.draft,
                    merged: false,
                })
            });
            state.named(repo).commits.insert(head_sha.to_owned());
            state.note_pull(repo, number, author, ("opened", json!({})));
            number
        })
    }

    /// Moves the head of a change, as its author pushes.
    pub fn push(&self, repo: &str, number: u64, new_sha: &str) {
        self.with(|state| {
            let (author, pull) = state.pull_mut(repo, number);
            let before = std::mem::replace(&mut pull.head_sha, new_sha.to_owned());
            state.named(repo).commits.insert(new_sha.to_owned());
            let more = json!({"before": before, "after": new_sha});
            state.note_pull(repo, number, &author, ("synchronize", more));
        });
    }

    /// Somebody pushes to a branch of the repository itself.
    pub fn push_branch(&self, repo: &str, branch: &str, new_sha: &str) {
        self.with(|state| {
            let named = state.named(repo);
            let before = named.branches.insert(branch.to_owned(), new_sha.to_owned()).unwrap_or_else(|| "0".repeat(40));
            named.commits.insert(new_sha.to_owned());
            let (repo_id, owner) = (named.id, named.owner.clone());
            let body = json!({
                "ref": format!("refs/heads/{branch}"), "before": before, "after": new_sha, "base_ref": null,
                "created": false, "deleted": false, "forced": false, "commits": [], "head_commit": null,
                "compare": format!("https://github.example/{repo}/compare"), "pusher": {"name": owner, "email": null},
            });
            state.emit(&Note::new("push", repo_id, &owner), body);
        });
    }

    /// Closes a change, merged or not.
    pub fn close_pull(&self, repo: &str, number: u64, merged: bool) {
        self.with(|state| {
            let now = state.now_ms;
            let (author, pull) = state.pull_mut(repo, number);
            pull.merged = merged;
            let issue = state.named(repo).issues.get_mut(&number).expect("the change exists");
            issue.open = false;
            issue.closed_ms = Some(now);
            state.note_pull(repo, number, &author, ("closed", json!({})));
        });
    }

    /// Opens a closed change again.
    pub fn reopen_pull(&self, repo: &str, number: u64) {
        self.with(|state| {
            let (author, _) = state.pull_mut(repo, number);
            let issue = state.named(repo).issues.get_mut(&number).expect("the change exists");
            issue.open = true;
            issue.closed_ms = None;
            state.note_pull(repo, number, &author, ("reopened", json!({})));
        });
    }

    /// Deletes the fork a change comes from: its head repository becomes null.
    pub fn delete_fork(&self, repo: &str, number: u64) {
        self.with(|state| state.pull_mut(repo, number).1.fork_deleted = true);
    }

    /// Locks the conversation: comments get 403.
    pub fn lock(&self, repo: &str, number: u64) {
        self.with(|state| {
            let issue = state.named(repo).issues.get_mut(&number).expect("the change exists");
            issue.locked = true;
        });
    }

    /// Writes on a change or issue; answers the comment's id.
    pub fn comment(&self, repo: &str, number: u64, login: &str, body: &str) -> u64 {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            state.add_comment(repo_id, number, login, body, None)
        })
    }

    /// Changes a comment's text, as `login` (its author or a maintainer).
    pub fn edit_comment(&self, repo: &str, id: u64, login: &str, body: &str) {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            state.edit_comment(repo_id, id, login, body);
        });
    }

    /// Deletes a comment, as `login`.
    pub fn delete_comment(&self, repo: &str, id: u64, login: &str) {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            state.delete_comment(repo_id, id, login);
        });
    }

    /// Writes on a line of the change's diff; answers the comment's id.
    pub fn review_comment(&self, repo: &str, number: u64, login: &str, body: &str) -> u64 {
        self.with(|state| state.add_line_comment(repo, (number, None), login, body))
    }

    /// Answers another comment on a line of the diff; answers the new comment's id.
    pub fn review_reply(&self, repo: &str, to: u64, login: &str, body: &str) -> u64 {
        self.with(|state| {
            let number = state.named(repo).comments.get(&to).expect("the comment exists").number;
            state.add_line_comment(repo, (number, Some(to)), login, body)
        })
    }

    /// Submits a review (`approved`, `changes_requested`, `commented`); answers its id.
    pub fn review(&self, repo: &str, number: u64, login: &str, body: &str, verdict: &str) -> u64 {
        self.with(|state| {
            let id = state.id();
            let submitted_ms = state.now_ms;
            let commit_sha = state.pull_mut(repo, number).1.head_sha.clone();
            let review = Review {
                id,
                number,
                author: login.to_owned(),
                body: body.to_owned(),
                state: verdict.to_uppercase(),
                commit_sha,
                submitted_ms,
            };
            state.user(login);
            let repo_id = state.named(repo).id;
            state.repo_mut(repo_id).reviews.insert(id, review);
            let repo = state.repo(repo_id);
            let mut body = json!({
                "review": state.review_body(repo, &repo.reviews[&id]),
                "pull_request": state.pull_event_body(repo_id, number),
            });
            body["review"]["state"] = verdict.to_lowercase().into();
            state.emit(&Note::new("pull_request_review", repo_id, login).action("submitted"), body);
            id
        })
    }
}

impl State {
    pub fn pull_mut(&mut self, repo: &str, number: u64) -> (String, &mut Pull) {
        let now = self.now_ms;
        let issue = self.named(repo).issues.get_mut(&number).expect("the change exists");
        issue.updated_ms = now;
        (issue.author.clone(), issue.pull.as_mut().expect("it is a change, not an issue"))
    }

    pub fn pull_event_body(&self, repo_id: u64, number: u64) -> serde_json::Value {
        let repo = self.repo(repo_id);
        let issue = &repo.issues[&number];
        issue.pull.as_ref().map_or(serde_json::Value::Null, |pull| self.full_pull_body(repo, issue, pull))
    }

    pub fn note_pull(&mut self, repo: &str, number: u64, by: &str, (action, more): (&str, serde_json::Value)) {
        let repo_id = self.named(repo).id;
        let mut body = json!({"number": number, "pull_request": self.pull_event_body(repo_id, number)});
        super::bodies::extend(&mut body, more);
        self.emit(&Note::new("pull_request", repo_id, by).action(action), body);
    }

    fn add_line_comment(&mut self, repo: &str, (number, to): (u64, Option<u64>), login: &str, body: &str) -> u64 {
        let review_id = self.id();
        let commit_sha = self.pull_mut(repo, number).1.head_sha.clone();
        let repo_id = self.named(repo).id;
        let line = LineOf { review_id, commit_sha, in_reply_to: to };
        self.add_comment(repo_id, number, login, body, Some(line))
    }

    /// Writes a comment, under a diff line when `line` is set.
    pub fn add_comment(&mut self, repo_id: u64, number: u64, login: &str, body: &str, line: Option<LineOf>) -> u64 {
        self.user(login);
        let (id, now) = (self.id(), self.now_ms);
        let own = self.app.as_ref().filter(|app| login == format!("{}[bot]", app.slug)).map(|app| app.id);
        let comment = Comment {
            id,
            number,
            author: login.to_owned(),
            body: body.to_owned(),
            reactions: Vec::new(),
            created_ms: now,
            updated_ms: now,
            edits: 0,
            via_app: own,
            line,
        };
        self.repo_mut(repo_id).comments.insert(id, comment);
        self.note_comment(repo_id, id, login, ("created", json!({})));
        id
    }

    pub fn edit_comment(&mut self, repo_id: u64, id: u64, login: &str, body: &str) {
        self.user(login);
        let now = self.now_ms;
        let comment = self.repo_mut(repo_id).comments.get_mut(&id).expect("the comment exists");
        let old = std::mem::replace(&mut comment.body, body.to_owned());
        comment.updated_ms = now;
        comment.edits += 1;
        self.note_comment(repo_id, id, login, ("edited", json!({"changes": {"body": {"from": old}}})));
    }

    pub fn delete_comment(&mut self, repo_id: u64, id: u64, login: &str) {
        self.note_comment(repo_id, id, login, ("deleted", json!({})));
        self.repo_mut(repo_id).comments.remove(&id);
    }

    fn note_comment(&mut self, repo_id: u64, id: u64, by: &str, (action, more): (&str, serde_json::Value)) {
        let repo = self.repo(repo_id);
        let comment = repo.comments.get(&id).expect("the comment exists");
        let number = comment.number;
        let mut body = json!({"comment": self.comment_body(repo, comment)});
        let event = if comment.line.is_some() {
            body["pull_request"] = self.pull_event_body(repo_id, number);
            "pull_request_review_comment"
        } else {
            body["issue"] = self.issue_body(repo, repo.issues.get(&number).expect("the change exists"));
            "issue_comment"
        };
        super::bodies::extend(&mut body, more);
        self.emit(&Note::new(event, repo_id, by).action(action), body);
    }
}
