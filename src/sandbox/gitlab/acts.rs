//! What people do on the sandbox's site: projects, rights, merge requests, issues, and the words they write.
//!
//! Each act that GitLab tells of queues its webhook. Naming a project, merge request or note that does not exist is a
//! mistake of the test and panics. Read next: `acts_ci.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::GitLabSandbox;
use super::events::{ChangeEvent, uuid};
use super::new::{NewMergeRequest, NewNote, NoteKind};
use super::quick_actions;
use super::state::{BASE_SHA, DEVELOPER, Kind, Member, MergeRequest, Note, On, Project, State, Token};

impl GitLabSandbox {
    /// Adds a private project `group/sub/name` with the branch `main`, the bot in it as Developer, and answers its id;
    /// the id of the known one when it exists.
    pub fn add_project(&self, path_with_namespace: &str) -> u64 {
        self.with(|state| {
            if let Some(known) = state.paths.get(path_with_namespace) {
                return *known;
            }
            let id = state.add_project(path_with_namespace, None);
            let member = Member { level: DEVELOPER, state: "active".to_owned(), expires_at: None };
            let bot = state.bot;
            state.project_mut(id).members.insert(bot, member);
            id
        })
    }

    /// Moves a project to another path; reads under the old one get 301 from now on, writes 405.
    pub fn rename_project(&self, project: u64, path_with_namespace: &str) {
        self.with(|state| {
            path_with_namespace.clone_into(&mut state.project_mut(project).path);
            state.paths.insert(path_with_namespace.to_owned(), project);
        });
    }

    /// Forks a project into a contributor's namespace. The bot is no member there and sees nothing of it.
    pub fn add_fork(&self, project: u64) -> u64 {
        self.with(|state| {
            let forks = state.projects.values().filter(|fork| fork.fork_of == Some(project)).count();
            let path = format!("contributor-{}/{}", forks + 1, state.project(project).name());
            state.add_project(&path, Some(project))
        })
    }

    /// Shows a project to everybody, or to members only.
    pub fn set_public(&self, project: u64, public: bool) {
        self.with(|state| state.project_mut(project).public = public);
    }

    /// Gives a person an access level (10 guest, 20 reporter, 30 developer, 40 maintainer, 50 owner); 0 removes them.
    pub fn set_level(&self, project: u64, username: &str, access_level: u64) {
        self.with(|state| {
            let user = state.user(username);
            let members = &mut state.project_mut(project).members;
            if access_level == 0 {
                members.remove(&user);
            } else {
                members.insert(user, Member { level: access_level, state: "active".to_owned(), expires_at: None });
            }
        });
    }

    /// Changes how a membership stands: `state` such as `active` or `blocked`, and the day on which it ends.
    pub fn set_membership(&self, project: u64, username: &str, state_word: &str, expires_at: Option<&str>) {
        self.with(|state| {
            let user = state.user(username);
            if let Some(member) = state.project_mut(project).members.get_mut(&user) {
                state_word.clone_into(&mut member.state);
                member.expires_at = expires_at.map(str::to_owned);
            }
        });
    }

    /// The id of a person, made on demand.
    pub fn user_id(&self, username: &str) -> u64 {
        self.with(|state| state.user(username))
    }

    /// Adds a token of a person; with the scope `api` when `writes`, else `read_api`.
    pub fn add_token(&self, token: &str, username: &str, writes: bool) {
        self.with(|state| {
            let user = state.user(username);
            state.tokens.push(Token { text: token.to_owned(), user, writes, revoked: false });
        });
    }

    /// Revokes a token.
    pub fn revoke_token(&self, token: &str) {
        self.with(|state| {
            for known in state.tokens.iter_mut().filter(|known| known.text == token) {
                known.revoked = true;
            }
        });
    }

    /// Puts a file into the default branch.
    pub fn put_file(&self, project: u64, path: &str, text: &str) {
        self.with(|state| {
            let home = state.project_mut(project);
            home.files.insert((home.default_branch.clone(), path.to_owned()), text.to_owned());
        });
    }

    /// Puts a file into another branch.
    pub fn put_file_at(&self, project: u64, branch: &str, path: &str, text: &str) {
        self.with(|state| {
            let key = (branch.to_owned(), path.to_owned());
            state.project_mut(project).files.insert(key, text.to_owned());
        });
    }

    /// Takes a file out of the default branch.
    pub fn remove_file(&self, project: u64, path: &str) {
        self.with(|state| {
            let home = state.project_mut(project);
            home.files.remove(&(home.default_branch.clone(), path.to_owned()));
        });
    }

    /// Gives a person an access level in a group, named by its full path; 0 removes them.
    pub fn set_group_level(&self, group: &str, username: &str, access_level: u64) {
        self.with(|state| {
            let user = state.user(username);
            let members = state.groups.entry(group.to_owned()).or_default();
            if access_level == 0 {
                members.remove(&user);
            } else {
                members.insert(user, Member { level: access_level, state: "active".to_owned(), expires_at: None });
            }
        });
    }

    /// Opens a merge request and answers its number.
    pub fn open_merge_request(&self, project: u64, author: &str, head_sha: &str, new: NewMergeRequest) -> u64 {
        self.with(|state| {
            let author = state.user(author);
            state.open_change(project, author, head_sha, new)
        })
    }

    /// Pushes a new head, by the author.
    pub fn push(&self, project: u64, iid: u64, sha: &str) {
        self.with(|state| {
            let now = state.now_ms;
            let change = state.change_mut(project, iid);
            let oldrev = Some(change.sha().to_owned());
            change.heads.push(sha.to_owned());
            change.updated_ms = now;
            let (author, source, branch) = (change.author, change.source_project, change.source_branch.clone());
            state.know_commit(project, source, &branch, sha);
            let event = ChangeEvent { action: "update", oldrev, ..ChangeEvent::default() };
            state.tell_change((project, iid), author, &event);
        });
    }

    /// Somebody pushes to a branch of the project itself.
    pub fn push_branch(&self, project: u64, branch: &str, sha: &str) {
        self.with(|state| {
            state.know_commit(project, project, branch, sha);
            state.tell_push(project, branch, sha);
        });
    }

    /// Closes a merge request, by its author.
    pub fn close(&self, project: u64, iid: u64) {
        self.with(|state| state.set_change_state((project, iid), None, "closed", "close"));
    }

    /// Opens a merge request again, by its author.
    pub fn reopen(&self, project: u64, iid: u64) {
        self.with(|state| state.set_change_state((project, iid), None, "opened", "reopen"));
    }

    /// Merges a merge request, by its author.
    pub fn merge(&self, project: u64, iid: u64) {
        self.with(|state| state.set_change_state((project, iid), None, "merged", "merge"));
    }

    /// Approves a merge request.
    pub fn approve(&self, project: u64, iid: u64, username: &str) {
        self.with(|state| {
            let user = state.user(username);
            let approved = &mut state.change_mut(project, iid).approved_by;
            if !approved.contains(&user) {
                approved.push(user);
            }
            state.tell_change((project, iid), user, &ChangeEvent { action: "approved", ..ChangeEvent::default() });
        });
    }

    /// Sets the labels of a merge request.
    pub fn set_labels(&self, project: u64, iid: u64, username: &str, labels: &[&str]) {
        self.with(|state| {
            let user = state.user(username);
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            state.set_change_labels((project, iid), user, labels);
        });
    }

    /// Writes a comment and answers its id; 0 when it held quick actions only and was not saved.
    pub fn note(&self, project: u64, iid: u64, username: &str, body: &str) -> u64 {
        self.note_as(project, iid, username, NewNote { body: body.to_owned(), kind: NoteKind::Plain })
    }

    /// Writes a note of any kind and answers its id; 0 when it was not saved.
    pub fn note_as(&self, project: u64, iid: u64, username: &str, new: NewNote) -> u64 {
        self.with(|state| {
            let user = state.user(username);
            state.write_note(project, On::MergeRequest(iid), user, new).unwrap_or(0)
        })
    }

    /// Edits a note; `username` need not be its author (a maintainer may edit any).
    pub fn edit_note(&self, note: u64, username: &str, body: &str) {
        self.with(|state| {
            let user = state.user(username);
            state.edit_note(note, user, body);
        });
    }

    /// Deletes a note; GitLab tells no hook of it.
    pub fn delete_note(&self, note: u64) {
        self.with(|state| state.notes.remove(&note));
    }

    /// The quick actions that were obeyed on a merge request: who wrote them, and the line.
    pub fn quick_actions(&self, project: u64, iid: u64) -> Vec<(String, String)> {
        self.with(|state| {
            let obeyed = &state.change(project, iid).obeyed;
            obeyed.iter().map(|(user, line)| (state.person(*user).username.clone(), line.clone())).collect()
        })
    }
}

impl State {
    fn add_project(&mut self, path: &str, fork_of: Option<u64>) -> u64 {
        let id = self.id(Kind::Project);
        let project = Project {
            id,
            path: path.to_owned(),
            default_branch: "main".to_owned(),
            public: false,
            fork_of,
            created_ms: self.now_ms,
            members: BTreeMap::new(),
            branches: BTreeMap::from([("main".to_owned(), BASE_SHA.to_owned())]),
            commits: BTreeSet::from([BASE_SHA.to_owned()]),
            files: BTreeMap::new(),
            ci: Vec::new(),
            fork_pipelines_in_parent: true,
            jobs_max: 100_000,
            merge_requests: BTreeMap::new(),
            issues: BTreeMap::new(),
            pipeline_iid: 0,
            train: Vec::new(),
            train_ends: BTreeMap::new(),
        };
        self.projects.insert(id, project);
        self.paths.insert(path.to_owned(), id);
        id
    }

    /// A pushed commit: in the branch of the source project, and known to the target through the merge request.
    pub fn know_commit(&mut self, target: u64, source: u64, branch: &str, sha: &str) {
        self.project_mut(target).commits.insert(sha.to_owned());
        let source = self.project_mut(source);
        source.commits.insert(sha.to_owned());
        source.branches.insert(branch.to_owned(), sha.to_owned());
    }

    fn open_change(&mut self, project: u64, author: u64, head_sha: &str, new: NewMergeRequest) -> u64 {
        let (id, now) = (self.id(Kind::MergeRequest), self.now_ms);
        let home = self.project_mut(project);
        let iid = home.merge_requests.keys().next_back().map_or(1, |last| last + 1);
        let or = |text: String, other: String| if text.is_empty() { other } else { text };
        let change = MergeRequest {
            id,
            iid,
            project,
            author,
            title: or(new.title, format!("Change {iid}")),
            description: String::new(),
            source_project: new.source_project.unwrap_or(project),
            source_branch: or(new.source_branch, format!("change-{iid}")),
            target_branch: or(new.target_branch, home.default_branch.clone()),
            heads: vec![head_sha.to_owned()],
            state: "opened",
            draft: new.draft,
            labels: new.labels,
            approved_by: Vec::new(),
            created_ms: now,
            updated_ms: now,
            obeyed: Vec::new(),
        };
        let (source, branch) = (change.source_project, change.source_branch.clone());
        home.merge_requests.insert(iid, change);
        self.know_commit(project, source, &branch, head_sha);
        self.tell_change((project, iid), author, &ChangeEvent { action: "open", ..ChangeEvent::default() });
        iid
    }

    /// Opens or closes; by the author when no one is named. Nothing happens when it is so already.
    pub fn set_change_state(
        &mut self,
        (project, iid): (u64, u64),
        user: Option<u64>,
        to: &'static str,
        action: &'static str,
    ) {
        let now = self.now_ms;
        let change = self.change_mut(project, iid);
        let user = user.unwrap_or(change.author);
        if change.state != to && change.state != "merged" {
            (change.state, change.updated_ms) = (to, now);
            self.tell_change((project, iid), user, &ChangeEvent { action, ..ChangeEvent::default() });
        }
    }

    pub fn set_change_labels(&mut self, (project, iid): (u64, u64), user: u64, labels: Vec<String>) {
        let now = self.now_ms;
        let change = self.change_mut(project, iid);
        let previous = std::mem::replace(&mut change.labels, labels.clone());
        if previous == labels {
            return;
        }
        change.updated_ms = now;
        let titles = |labels: &[String]| labels.iter().map(|title| json!({ "title": title })).collect::<Vec<_>>();
        let changes = json!({"labels": {"previous": titles(&previous), "current": titles(&labels)}});
        self.tell_change((project, iid), user, &ChangeEvent { action: "update", changes, ..ChangeEvent::default() });
    }

    /// Saves a note and tells the hooks; nothing is saved when only quick actions stood in it.
    pub fn write_note(&mut self, project: u64, on: On, user: u64, new: NewNote) -> Option<u64> {
        let body = self.obey(project, on, user, &new.body);
        if body.trim().is_empty() {
            return None;
        }
        let (id, now) = (self.id(Kind::Note), self.now_ms);
        let thread = match new.kind {
            NoteKind::ReplyTo(first) => self.notes.get(&first).map(|note| note.discussion.clone()),
            _ => None,
        };
        let note = Note {
            id,
            project,
            on,
            author: user,
            body,
            internal: new.kind == NoteKind::Internal,
            system: new.kind == NoteKind::System,
            kind: match new.kind {
                NoteKind::OnDiff => Some("DiffNote"),
                NoteKind::ReplyTo(_) => Some("DiscussionNote"),
                NoteKind::Plain | NoteKind::Internal | NoteKind::System => None,
            },
            discussion: thread.unwrap_or_else(|| uuid(&format!("discussion {id}")).replace('-', "")),
            awards: Vec::new(),
            created_ms: now,
            updated_ms: now,
            edits: 0,
        };
        self.notes.insert(id, note.clone());
        if let On::MergeRequest(iid) = on {
            self.change_mut(project, iid).updated_ms = now;
        }
        self.tell_note(&note, user, "create");
        Some(id)
    }

    /// Edits a note; quick actions are obeyed and stripped here too.
    pub fn edit_note(&mut self, id: u64, user: u64, body: &str) {
        let Some(note) = self.notes.get(&id) else { panic!("no note {id} in the sandbox") };
        let body = self.obey(note.project, note.on, user, body);
        let now = self.now_ms;
        let Some(note) = self.notes.get_mut(&id) else { return };
        (note.body, note.updated_ms, note.edits) = (body, now, note.edits + 1);
        let note = note.clone();
        self.tell_note(&note, user, "update");
    }

    /// Obeys the quick actions of a text and answers the rest of it.
    fn obey(&mut self, project: u64, on: On, user: u64, body: &str) -> String {
        let (kept, lines) = quick_actions::split(body);
        let On::MergeRequest(iid) = on else { return kept };
        for line in lines {
            match line.trim().to_ascii_lowercase().as_str() {
                "/close" => self.set_change_state((project, iid), Some(user), "closed", "close"),
                "/reopen" => self.set_change_state((project, iid), Some(user), "opened", "reopen"),
                _ => {}
            }
            self.change_mut(project, iid).obeyed.push((user, line));
        }
        kept
    }
}
