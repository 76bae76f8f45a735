//! What a forge tells us, in our words. This is what the receiver stores: small, decoded once, forge-neutral.

use serde::{Deserialize, Serialize};

use super::{Actor, Change, ChangeKey, CommitSha, IssueEvent, JobObservation, QueueEvent, Repo, Timestamp};

/// Where a comment stands; reactions and replies differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentKind {
    /// A comment in the conversation of a pull request.
    Issue,
    /// A comment on a line of a pull request.
    ReviewLine,
    /// The text of a pull request review; it takes no reactions.
    Review,
    /// A note on a merge request.
    Note,
}

/// What happened to a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentAction {
    /// It is new.
    Created,
    /// Its text changed; the earlier text where the forge tells it.
    Edited {
        /// The text before.
        before: Option<String>,
    },
    /// It was taken away.
    Deleted,
}

/// Where to answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommentRef {
    /// Where it stands.
    pub kind: CommentKind,
    /// The forge's numeric id of it.
    pub id: u64,
}

/// A comment on a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentEvent {
    /// The repository.
    pub repo: Repo,
    /// The change it stands on.
    pub change: ChangeKey,
    /// Which comment.
    pub comment: CommentRef,
    /// What happened.
    pub action: CommentAction,
    /// Whose text it is.
    pub author: Actor,
    /// Who caused the event; differs from the author when somebody edits another person's comment.
    pub sender: Actor,
    /// The text.
    pub body: String,
    /// When the comment was written.
    pub created_at: Timestamp,
    /// The head of the change, where the forge tells it with the comment (GitLab, reviews).
    pub head: Option<CommitSha>,
    /// Whether only members can see it (GitLab's internal notes).
    pub internal: bool,
    /// The change as the comment's payload told it (GitLab tells most of it; GitHub nothing).
    pub change_facts: Option<Box<Change>>,
    /// The GitHub App through which it was written.
    pub via_app: Option<u64>,
    /// Whether the change is open, as the payload says.
    pub open: bool,
}

/// What happened to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeAction {
    /// It is new (or open again) with this head.
    Opened,
    /// Its head moved.
    HeadMoved,
    /// It was closed or merged.
    Closed,
    /// Title, labels or the like.
    Edited,
}

/// News of jobs of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEvent {
    /// The repository.
    pub repo: Repo,
    /// The revision's commit.
    pub sha: CommitSha,
    /// The jobs.
    pub jobs: Vec<JobObservation>,
    /// A group (workflow run, pipeline) that is over now, by name: retries parked on it can go.
    pub group_over: Option<String>,
}

/// Somebody pushed to, or merged into, the default branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushEvent {
    /// The repository.
    pub repo: Repo,
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// Its new end.
    pub sha: CommitSha,
    /// When we heard of it.
    pub at: Timestamp,
}

/// Which of the forge's own buttons was pressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pressed {
    /// "Re-run" on our check run, or on our check suite: the same as `/retest`.
    Rerun,
    /// A button that we put on our check run, by its identifier.
    Button(String),
}

/// Somebody pressed a re-run button.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PressEvent {
    /// The repository.
    pub repo: Repo,
    /// The commit whose checks were looked at.
    pub sha: CommitSha,
    /// Who pressed.
    pub sender: Actor,
    /// What was pressed.
    pub pressed: Pressed,
    /// When.
    pub at: Timestamp,
}

/// An authentic delivery that concerns us, decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ForgeEvent {
    /// A comment on a change.
    Comment(Box<CommentEvent>),
    /// A change was opened, moved, closed or edited.
    Change {
        /// The repository.
        repo: Repo,
        /// The change now.
        change: Box<Change>,
        /// What happened.
        action: ChangeAction,
    },
    /// News of jobs.
    Jobs(Box<JobEvent>),
    /// The default branch moved: what ran against it before ran against an older base.
    Push(Box<PushEvent>),
    /// A re-run button.
    Press(Box<PressEvent>),
    /// An issue changed: it may label a flake.
    Issue(Box<IssueEvent>),
    /// A merge queue made or dropped a commit.
    Queue(Box<QueueEvent>),
}

impl ForgeEvent {
    /// The repository that the event belongs to.
    pub fn repo(&self) -> &Repo {
        match self {
            Self::Comment(event) => &event.repo,
            Self::Change { repo, .. } => repo,
            Self::Jobs(event) => &event.repo,
            Self::Push(event) => &event.repo,
            Self::Press(event) => &event.repo,
            Self::Issue(event) => &event.repo,
            Self::Queue(event) => &event.repo,
        }
    }

    /// A text that is the same for every delivery of the same happening, whatever its delivery id: two hooks of one
    /// repository then make one command. None where doing a thing twice does no harm.
    pub fn dedupe_key(&self) -> Option<String> {
        let Self::Comment(event) = self else { return None };
        let action = match &event.action {
            CommentAction::Created => "created".to_owned(),
            CommentAction::Deleted => "deleted".to_owned(),
            // Each edit has its own text; the same text again asks for nothing new.
            CommentAction::Edited { .. } => format!("edited:{}", fingerprint(&event.body)),
        };
        let id = event.comment.id;
        Some(format!("{}:{:?}:{id}:{action}", event.repo.key.id, event.comment.kind))
    }
}

/// FNV-1a, 64 bits: tells edits of one comment apart; nobody is kept out by it.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
