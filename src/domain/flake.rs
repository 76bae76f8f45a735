//! What a retry that nobody asked for says of itself, and what forges tell of flake issues and merge queues.

use serde::{Deserialize, Serialize};

use super::{CommitSha, Repo, Timestamp};

/// Where a label of a flake comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelOrigin {
    /// A rule of the operator's configuration.
    Operator,
    /// A rule of the repository's policy.
    Repository,
    /// An open issue of the repository, by number.
    Issue(u64),
    /// A label on the change, or `/autoretry on`.
    Change,
}

/// Why a failure counts as a known flake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The label, as people know it: the name of a rule, `#123` of an issue, the label on the change.
    pub label: String,
    /// Where the label comes from.
    pub origin: LabelOrigin,
    /// What was seen.
    pub seen: Seen,
}

/// What was seen of a known flake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The runner's typed cause, or the way in which the run ended.
    Cause(String),
    /// A line of the log.
    Log {
        /// Its number, counted from 1 in the text that was read; `from_end` says from where.
        line: u64,
        /// Whether the beginning of the log was cut, so that the number counts within the tail.
        cut: bool,
        /// The line, cut and with secrets masked.
        excerpt: String,
    },
    /// Nothing but the label: every failure of the change counts.
    Label,
}

/// A retry that the bot began by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unasked {
    /// Why.
    pub evidence: Evidence,
    /// The k-th retry of this job on this head that nobody asked for, counted from 1.
    pub number: u32,
    /// How many there may be.
    pub of: u32,
}

/// An issue of a repository, as far as flakes are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Its number in the repository (GitLab: `iid`).
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Its page.
    pub url: String,
    /// Whether it is open.
    pub open: bool,
    /// Its labels.
    pub labels: Vec<String>,
    /// When the forge last changed it.
    pub updated_at: Timestamp,
}

/// An issue was opened, edited, labelled, closed or deleted; a deleted one counts as closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueEvent {
    /// The repository.
    pub repo: Repo,
    /// The issue now.
    pub issue: Issue,
}

/// A merge queue wants a commit tested that holds changes merged with what stands before them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEvent {
    /// The repository.
    pub repo: Repo,
    /// The change that the entry is about.
    pub number: u64,
    /// The commit that is tested.
    pub sha: CommitSha,
    /// The branch that it wants to enter; empty where the forge does not tell it (GitLab: that of the change).
    pub base_ref: String,
    /// Whether the entry has left the queue: merged, ejected or rebuilt. GitLab does not tell it: there an entry is over
    /// with its pipeline, or when its change is merged, closed or moves.
    pub over: bool,
    /// When we heard of it.
    pub at: Timestamp,
}
