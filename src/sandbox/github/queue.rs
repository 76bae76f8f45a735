//! The merge queue of the sandbox: entries are tested on commits of their own, merged in order, ejected on failure.
//!
//! The required contexts of the branch decide: an entry is ejected as soon as one of them fails on its commit, and merged
//! when all have passed and nothing stands before it. What stood behind an ejected entry is built anew. It does not play:
//! groups of several changes, time limits, priorities. Read next: `acts_ci.rs`, which sets the required contexts.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::GitHubSandbox;
use super::hooks::Note;
use super::state::{BASE_SHA, State};

/// A change in the queue.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub number: u64,
    pub sha: String,
    pub branch: String,
    pub base_ref: String,
    pub base_sha: String,
}

/// Where a change stands with the merge queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum QueuePlace {
    /// It never was in the queue.
    Never,
    /// It waits for the required contexts on this commit.
    Waiting(String),
    /// It was merged by the queue.
    Merged,
    /// It was thrown out because a required context failed.
    Ejected,
    /// Somebody took it out.
    Removed,
}

impl GitHubSandbox {
    /// Puts a change into the merge queue of its base branch, as its author; answers the commit that is tested.
    ///
    /// # Panics
    /// When the change is closed or in the queue already.
    pub fn enqueue(&self, repo: &str, number: u64) -> String {
        self.with(|state| {
            let (author, pull) = state.pull_mut(repo, number);
            let base_ref = pull.base_ref.clone();
            let home = state.named(repo);
            assert!(home.issues[&number].open, "only an open change is put into the queue");
            assert!(home.queue.iter().all(|entry| entry.number != number), "the change is in the queue already");
            let id = home.id;
            home.queue_ends.remove(&number);
            state.note_pull(repo, number, &author, ("enqueued", json!({})));
            let sha = state.build_entry(id, number, &base_ref);
            state.judge_queue(id);
            sha
        })
    }

    /// Somebody takes a change out of the queue.
    pub fn dequeue(&self, repo: &str, number: u64) {
        self.with(|state| {
            let id = state.named(repo).id;
            state.leave_queue(id, number, ("removed", "MANUAL"));
        });
    }

    /// Where a change stands with the merge queue.
    pub fn queue_place(&self, repo: &str, number: u64) -> QueuePlace {
        self.with(|state| {
            let repo = state.named(repo);
            if let Some(entry) = repo.queue.iter().find(|entry| entry.number == number) {
                return QueuePlace::Waiting(entry.sha.clone());
            }
            match repo.queue_ends.get(&number).copied() {
                None => QueuePlace::Never,
                Some("merged") => QueuePlace::Merged,
                Some("ejected") => QueuePlace::Ejected,
                Some(_) => QueuePlace::Removed,
            }
        })
    }
}

impl State {
    /// Makes the commit and the branch of an entry at the end of the queue, and asks for checks.
    fn build_entry(&mut self, id: u64, number: u64, base_ref: &str) -> String {
        let salt = self.id();
        let home = self.repo_mut(id);
        let before = home.queue.iter().rfind(|entry| entry.base_ref == base_ref).map(|entry| entry.sha.clone());
        let known = before.or_else(|| home.branches.get(base_ref).cloned());
        let base_sha = known.unwrap_or_else(|| BASE_SHA.to_owned());
        let sha = hex::encode(Sha256::digest(format!("queue {number} {base_sha} {salt}")));
        let sha = sha.get(..40).unwrap_or_default().to_owned();
        let branch = format!("gh-readonly-queue/{base_ref}/pr-{number}-{base_sha}");
        home.commits.insert(sha.clone());
        home.branches.insert(branch.clone(), sha.clone());
        let entry = Entry { number, sha: sha.clone(), branch, base_ref: base_ref.to_owned(), base_sha };
        home.queue.push(entry.clone());
        self.note_queue_push(id, &entry.branch, &"0".repeat(40), &sha);
        self.note_group(id, &entry, ("checks_requested", json!({})));
        sha
    }

    fn note_queue_push(&mut self, id: u64, branch: &str, before: &str, after: &str) {
        let body = json!({
            "ref": format!("refs/heads/{branch}"), "before": before, "after": after, "base_ref": null,
            "created": before.starts_with("0000"), "deleted": after.starts_with("0000"), "forced": false, "commits": [],
            "head_commit": null, "compare": "https://github.example/compare",
            "pusher": {"name": "github-merge-queue[bot]", "email": null},
        });
        self.emit(&Note::new("push", id, "github-merge-queue[bot]"), body);
    }

    fn note_group(&mut self, id: u64, entry: &Entry, (action, more): (&str, serde_json::Value)) {
        let mut body = json!({
            "merge_group": {
                "head_sha": entry.sha,
                "head_ref": format!("refs/heads/{}", entry.branch),
                "base_sha": entry.base_sha,
                "base_ref": format!("refs/heads/{}", entry.base_ref),
                "head_commit": self.head_commit(&entry.sha),
            },
        });
        super::bodies::extend(&mut body, more);
        self.emit(&Note::new("merge_group", id, "github-merge-queue[bot]").action(action), body);
    }

    /// Whether the required contexts of an entry have passed; none while one of them is still to come.
    fn verdict(&self, id: u64, entry: &Entry) -> Option<bool> {
        let none = Vec::new();
        let required = self.repo(id).required.get(&entry.base_ref).unwrap_or(&none);
        let results: Vec<Option<bool>> = required.iter().map(|context| self.context(id, &entry.sha, context)).collect();
        if results.contains(&Some(false)) {
            return Some(false);
        }
        results.iter().all(Option::is_some).then_some(true)
    }

    /// What stands under a name on a commit, a status or a check run, whichever is newer.
    fn context(&self, id: u64, sha: &str, name: &str) -> Option<bool> {
        let status = self.repo(id).statuses.iter().rfind(|s| s.sha == sha && s.context.eq_ignore_ascii_case(name));
        let of_check = |c: &&super::state::Check| c.repo_id == id && c.head_sha == sha && c.name == name;
        let check = self.checks.values().rfind(of_check);
        let check_is_newer = check.map(|c| c.id) > status.map(|s| s.id);
        if check_is_newer {
            let word = check?.conclusion.as_deref()?;
            return Some(matches!(word, "success" | "neutral" | "skipped"));
        }
        match status?.state.as_str() {
            "pending" => None,
            word => Some(word == "success"),
        }
    }

    /// Merges and ejects whatever can be decided now.
    pub fn judge_queue(&mut self, id: u64) {
        loop {
            let queue = self.repo(id).queue.clone();
            let failed = queue.iter().find(|entry| self.verdict(id, entry) == Some(false));
            if let Some(entry) = failed {
                self.leave_queue(id, entry.number, ("ejected", "CI_FAILURE"));
                continue;
            }
            let first_of_its_branch = |entry: &&Entry| {
                queue.iter().find(|other| other.base_ref == entry.base_ref).map(|e| e.number) == Some(entry.number)
            };
            let ready = queue.iter().filter(first_of_its_branch).find(|entry| self.verdict(id, entry) == Some(true));
            let Some(entry) = ready else { return };
            self.merge_entry(id, entry);
        }
    }

    fn merge_entry(&mut self, id: u64, entry: &Entry) {
        let now = self.now_ms;
        let home = self.repo_mut(id);
        home.queue.retain(|other| other.number != entry.number);
        home.queue_ends.insert(entry.number, "merged");
        home.branches.remove(&entry.branch);
        let before = home.branches.insert(entry.base_ref.clone(), entry.sha.clone()).unwrap_or_default();
        if let Some(issue) = home.issues.get_mut(&entry.number) {
            (issue.open, issue.closed_ms, issue.updated_ms) = (false, Some(now), now);
            if let Some(pull) = &mut issue.pull {
                pull.merged = true;
            }
        }
        let name = home.full_name();
        self.note_queue_push(id, &entry.base_ref, &before, &entry.sha);
        self.note_pull(&name, entry.number, "github-merge-queue[bot]", ("closed", json!({})));
        self.note_group(id, entry, ("destroyed", json!({"reason": "merged"})));
        self.note_queue_push(id, &entry.branch, &entry.sha, &"0".repeat(40));
    }

    /// Takes an entry out; what stood behind it is built anew.
    fn leave_queue(&mut self, id: u64, number: u64, (end, reason): (&'static str, &str)) {
        let home = self.repo_mut(id);
        let Some(at) = home.queue.iter().position(|entry| entry.number == number) else { return };
        let entry = home.queue.remove(at);
        home.queue_ends.insert(number, end);
        home.branches.remove(&entry.branch);
        let behind: Vec<Entry> =
            home.queue.iter().skip(at).filter(|other| other.base_ref == entry.base_ref).cloned().collect();
        home.queue.retain(|other| behind.iter().all(|gone| gone.number != other.number));
        let name = home.full_name();
        self.note_group(id, &entry, ("destroyed", json!({"reason": "dequeued"})));
        self.note_pull(&name, number, "github-merge-queue[bot]", ("dequeued", json!({ "reason": reason })));
        for old in behind {
            self.repo_mut(id).branches.remove(&old.branch);
            self.note_group(id, &old, ("destroyed", json!({"reason": "invalidated"})));
            self.build_entry(id, old.number, &old.base_ref);
        }
    }
}
