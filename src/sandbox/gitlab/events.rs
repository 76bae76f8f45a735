//! What happened, in the order in which it did, waiting to be sent.
//!
//! A payload shows the state at the moment of the event. Forks have hooks of their own, which nobody set: their events
//! reach no one. Read next: `payloads.rs`, `deliveries.rs`.

use std::borrow::Cow;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::state::{JobKind, Kind, Note, State};

/// An event that waits.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Counts events; the delivery ids are made of it.
    pub number: u64,
    /// Value of `X-Gitlab-Event`.
    pub name: Cow<'static, str>,
    pub payload: Value,
    /// Shared by all hooks that fire for one request.
    pub event_uuid: String,
    /// Sent before: goes to this hook alone, under the same key.
    pub again_to: Option<u64>,
}

/// What happened to a merge request.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangeEvent {
    /// Value of `object_attributes.action`.
    pub action: &'static str,
    /// The head before, when code changed.
    pub oldrev: Option<String>,
    /// Value of `changes`.
    pub changes: Value,
}

impl State {
    fn emit(&mut self, project: u64, name: &'static str, payload: Value) {
        if self.project(project).fork_of.is_none() {
            self.emit_as(name.into(), payload);
        }
    }

    /// Queues anything under any name.
    pub fn emit_as(&mut self, name: Cow<'static, str>, payload: Value) {
        if self.silent {
            return;
        }
        let number = self.id(Kind::Event);
        let event_uuid = uuid(&format!("event {number}"));
        self.queue.push_back(Event { number, name, payload, event_uuid, again_to: None });
        self.wake.notify_one();
    }

    /// A branch has a new end.
    pub fn tell_push(&mut self, project: u64, branch: &str, sha: &str) {
        let payload = self.push_hook(project, branch, sha);
        self.emit(project, "Push Hook", payload);
    }

    /// A job was made or moved. Bridges and statuses from outside send no such hook.
    pub fn tell_job(&mut self, id: u64) {
        let job = self.job(id);
        if job.kind == JobKind::Build && !self.silent {
            let (project, payload) = (job.project, self.job_hook(job));
            self.emit(project, "Job Hook", payload);
        }
    }

    /// A pipeline has another status.
    pub fn tell_pipeline(&mut self, id: u64) {
        if self.silent {
            return;
        }
        let pipeline = self.pipeline(id);
        let (project, payload) = (pipeline.project, self.pipeline_hook(pipeline));
        self.emit(project, "Pipeline Hook", payload);
    }

    /// A merge request was opened, changed, closed.
    pub fn tell_change(&mut self, (project, iid): (u64, u64), user: u64, event: &ChangeEvent) {
        let payload = self.merge_request_hook(self.change(project, iid), user, event);
        self.emit(project, "Merge Request Hook", payload);
    }

    /// An issue or another work item was opened, changed, closed.
    pub fn tell_issue(&mut self, (project, iid): (u64, u64), user: u64, action: &str, changes: &Value) {
        let home = self.project(project);
        let Some(issue) = home.issues.get(&iid) else { return };
        let name = match (issue.kind.as_str(), issue.confidential) {
            ("issue", true) => "Confidential Issue Hook",
            ("issue", false) => "Issue Hook",
            _ => "Work Item Hook",
        };
        let payload = self.issue_hook(home, issue, user, (action, changes));
        self.emit(project, name, payload);
    }

    /// A note was written or edited by `user`. Notes of GitLab itself send nothing.
    pub fn tell_note(&mut self, note: &Note, user: u64, action: &str) {
        if note.system {
            return;
        }
        let name = if note.internal { "Confidential Note Hook" } else { "Note Hook" };
        let payload = self.note_hook(note, user, action);
        self.emit(note.project, name, payload);
    }
}

/// A stable UUID of a text.
pub(super) fn uuid(text: &str) -> String {
    let hex = hex::encode(Sha256::digest(text.as_bytes()));
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}
