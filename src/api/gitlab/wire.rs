//! The answers of GitLab's REST interface, as little of them as we read.
//!
//! Lenient: unknown fields are passed over, words stay text, and everything that GitLab may leave out is an `Option`.

use serde::Deserialize;

use super::dates::lenient;
use crate::domain::Timestamp;

/// A user where GitLab names one.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// Numeric id.
    pub id: u64,
    /// Login.
    #[serde(default)]
    pub username: String,
}

/// `GET /projects/:id/members/all/:user_id`.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// 0 none … 60 admin.
    pub access_level: u64,
    /// `active`, or a word for somebody who is not.
    pub state: Option<String>,
    /// When the membership ends.
    #[serde(default, deserialize_with = "lenient")]
    pub expires_at: Option<Timestamp>,
}

/// `GET /projects/:id/merge_requests/:iid`, and a row of the list.
#[derive(Clone, Debug, Deserialize)]
pub struct MergeRequest {
    /// Number in the project.
    pub iid: u64,
    /// Head commit; null for an empty one.
    pub sha: Option<String>,
    /// `opened`, `closed`, `merged`, `locked`.
    #[serde(default)]
    pub state: String,
    /// Where the head lives; null when that project is gone.
    pub source_project_id: Option<u64>,
    /// Where the change wants to go.
    pub target_project_id: Option<u64>,
    /// Branch of the head.
    #[serde(default)]
    pub source_branch: String,
    /// Branch to enter.
    #[serde(default)]
    pub target_branch: String,
    /// Label names.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Who opened it.
    pub author: Option<User>,
    /// The pipeline of the head; null right after a push. Not in lists.
    pub head_pipeline: Option<Pipeline>,
}

/// A pipeline: full, in lists, and as the end of a bridge.
#[derive(Clone, Debug, Deserialize)]
pub struct Pipeline {
    /// Instance-wide id.
    pub id: u64,
    /// Number in its project.
    pub iid: Option<u64>,
    /// Its project; missing on old versions, where it is the project that was asked.
    pub project_id: Option<u64>,
    /// The commit; the merge result for merged-results pipelines.
    #[serde(default)]
    pub sha: String,
    /// Branch, or `refs/merge-requests/IID/…`.
    #[serde(default, rename = "ref")]
    pub git_ref: String,
    /// What made it, such as `merge_request_event`.
    pub source: Option<String>,
    /// Status word.
    #[serde(default)]
    pub status: String,
    /// Page.
    pub web_url: Option<String>,
}

/// A job or a bridge.
#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    /// Instance-wide id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Stage.
    #[serde(default)]
    pub stage: String,
    /// Status word.
    #[serde(default)]
    pub status: String,
    /// Why it failed.
    pub failure_reason: Option<String>,
    /// Whether the pipeline passes without it.
    #[serde(default)]
    pub allow_failure: bool,
    /// Whether a newer job of that name exists; newer versions tell.
    pub retried: Option<bool>,
    /// Whether a runner took it.
    pub runner: Option<serde::de::IgnoredAny>,
    /// Its pipeline.
    pub pipeline: Option<Pipeline>,
    /// Page.
    pub web_url: Option<String>,
    /// Bridges: what they started.
    pub downstream_pipeline: Option<Pipeline>,
}

/// A commit status.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    /// Instance-wide id, shared with jobs.
    pub id: u64,
    /// Context.
    #[serde(default)]
    pub name: String,
    /// Status word.
    #[serde(default)]
    pub status: String,
    /// Page.
    pub target_url: Option<String>,
    /// Whether the pipeline passes without it.
    #[serde(default)]
    pub allow_failure: bool,
    /// Who posted it.
    pub author: Option<User>,
}

/// A note.
#[derive(Clone, Debug, Deserialize)]
pub struct Note {
    /// Id.
    pub id: u64,
    /// Text.
    #[serde(default)]
    pub body: String,
    /// Who wrote it; null for a deleted account.
    pub author: Option<User>,
    /// When.
    #[serde(default, deserialize_with = "lenient")]
    pub created_at: Option<Timestamp>,
    /// When its text last changed.
    #[serde(default, deserialize_with = "lenient")]
    pub updated_at: Option<Timestamp>,
    /// Written by GitLab itself.
    #[serde(default)]
    pub system: bool,
    /// Visible to members only.
    #[serde(default)]
    pub internal: bool,
    /// The older word for the same.
    #[serde(default)]
    pub confidential: bool,
}

/// An issue, or another work item in the same list.
#[derive(Clone, Debug, Deserialize)]
pub struct Issue {
    /// Number in the project.
    pub iid: u64,
    /// Its project.
    pub project_id: Option<u64>,
    /// Title.
    #[serde(default)]
    pub title: String,
    /// Text.
    pub description: Option<String>,
    /// `opened` or `closed`.
    #[serde(default)]
    pub state: String,
    /// Label names.
    #[serde(default)]
    pub labels: Vec<String>,
    /// `issue`, `incident`, `task` …; missing on old versions, which know issues only.
    pub issue_type: Option<String>,
    /// Visible to members only.
    pub confidential: Option<bool>,
    /// When something in it last changed.
    #[serde(default, deserialize_with = "lenient")]
    pub updated_at: Option<Timestamp>,
    /// Page.
    pub web_url: Option<String>,
}

/// The answer of a write: its id and its page are all that is read, for a write must not fail because of the rest.
#[derive(Clone, Debug, Deserialize)]
pub struct Created {
    /// Id.
    pub id: u64,
    /// Page, where the thing has one.
    pub web_url: Option<String>,
}
