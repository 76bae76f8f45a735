//! What tests and the demo hand in: the starting options and the things that people make.
//!
//! Empty texts get a sensible value, so that a caller names only what its story is about. Read next: `acts.rs`.

/// How a sandbox starts.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Access token of the bot, with the scope `api`.
    pub token: String,
    /// User name of the bot; its account is made at the start.
    pub bot_username: String,
    /// The sandbox's clock, in milliseconds since 1970.
    pub start_ms: i64,
    /// Path below which the instance lives, such as `/gitlab`; at the root when `None`.
    pub path_prefix: Option<String>,
}

/// What `GitLabSandbox::open_merge_request` needs to know.
#[derive(Clone, Debug, Default)]
pub struct NewMergeRequest {
    /// Project of the head, from `add_fork`; the target project itself when `None`.
    pub source_project: Option<u64>,
    /// Branch to enter; the default branch when empty.
    pub target_branch: String,
    /// Branch of the head; `change-IID` when empty.
    pub source_branch: String,
    /// Title; `Change IID` when empty.
    pub title: String,
    /// Not ready for review.
    pub draft: bool,
    /// Names of labels.
    pub labels: Vec<String>,
}

/// A job as a CI file would declare it.
#[derive(Clone, Debug, Default)]
pub struct NewJob {
    /// Name, unique in its pipeline.
    pub name: String,
    /// Stage; stages come in the order in which they are first named. `test` when empty.
    pub stage: String,
    /// Names of jobs that must pass first; when empty, all jobs of the earlier stages must.
    pub needs: Vec<String>,
    /// Needs nothing at all (`needs: []`), whatever its stage.
    pub starts_at_once: bool,
    /// Waits for a person.
    pub manual: bool,
    /// The pipeline passes without it.
    pub allow_failure: bool,
    /// A trigger job: it runs a downstream pipeline and has no log.
    pub bridge: bool,
}

/// A pipeline to start.
#[derive(Clone, Debug, Default)]
pub struct NewPipeline {
    /// Its commit.
    pub sha: String,
    /// The merge request that it is for; of the parent project when it runs in a fork.
    pub mr_iid: Option<u64>,
    /// What made it; `merge_request_event` for a merge request, else `push`, when empty.
    pub source: String,
    /// Its ref; follows from the source when empty.
    pub git_ref: String,
    /// Its jobs, in order.
    pub jobs: Vec<NewJob>,
    /// The pipeline and the bridge in it that trigger this one; the bridge is made when it does not exist.
    pub child_of: Option<(u64, String)>,
    /// Who started it; the author of the merge request, else `root`, when empty.
    pub username: String,
}

/// What kind of note.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum NoteKind {
    /// An ordinary comment.
    #[default]
    Plain,
    /// Visible to members only.
    Internal,
    /// Written by GitLab itself.
    System,
    /// On a line of the diff; starts a thread.
    OnDiff,
    /// A reply in the thread of this note.
    ReplyTo(u64),
}

/// A note to write.
#[derive(Clone, Debug, Default)]
pub struct NewNote {
    /// Text.
    pub body: String,
    /// Kind.
    pub kind: NoteKind,
}

/// An issue to open.
#[derive(Clone, Debug, Default)]
pub struct NewIssue {
    /// Title.
    pub title: String,
    /// Text.
    pub description: String,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Closed from the start.
    pub closed: bool,
    /// Visible to members only.
    pub confidential: bool,
    /// `incident`, `task` …; an ordinary `issue` when empty.
    pub kind: String,
}
