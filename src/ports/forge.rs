//! What the flow asks of a forge.

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;

use super::CallError;
use crate::domain::{
    Actor, Change, ChangeKey, CommentRef, CommitSha, DeliveryId, ForgeEvent, ForgeName, Issue, JobObservation, Repo,
    Role, Team, Timestamp,
};

/// Which kind of forge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForgeKind {
    /// GitHub or GitHub Enterprise.
    GitHub,
    /// GitLab, any instance.
    GitLab,
}

/// One webhook request as it arrived.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    /// Headers.
    pub headers: HeaderMap,
    /// The raw body: signatures cover these bytes.
    pub body: Bytes,
    /// When it arrived.
    pub at: Timestamp,
}

/// A webhook request that must not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookError {
    /// No signature or token: 401.
    Unsigned,
    /// Wrong signature or token, or a signature too old: 403.
    WrongSignature,
    /// The body is not in a form that we read; the text says what to set at the forge: 415.
    Unreadable(String),
}

/// What an authentic delivery holds.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// Something for us.
    Wanted(Box<Wanted>),
    /// Authentic, but none of our business (the reason, for metrics and the log).
    Ignored(&'static str),
    /// Authentic, and not in the form that the forge documents: where and what.
    Malformed(String),
}

/// A decoded delivery.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The forge's id of the delivery.
    pub id: DeliveryId,
    /// What happened.
    pub event: ForgeEvent,
}

/// A reaction to a comment: the first, quick answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    /// Read and understood: 👀.
    Seen,
    /// Jobs were started: 🚀.
    Started,
    /// Nothing was started; the report says why: 😕.
    Refused,
    /// Done, nothing to start: 👍.
    Done,
}

/// The four states of a status, as GitHub has them; GitLab's are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusState {
    /// Not over.
    Pending,
    /// Executing; GitHub knows only pending.
    Running,
    /// Ended well.
    Success,
    /// Ended badly.
    Failure,
    /// Could not be told, or was cancelled.
    Error,
}

/// A status that should stand on a commit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StatusPost {
    /// The name of the status: a job's name, or the aggregate's.
    pub context: String,
    /// Its state.
    pub state: StatusState,
    /// One sentence; adapters cut it to the forge's limit (GitHub 140 characters, GitLab 255).
    pub description: String,
    /// A page for people.
    pub target_url: Option<String>,
}

/// A status as it was last posted, and what the forge needs to continue it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PostedStatus {
    /// What was posted.
    pub post: StatusPost,
    /// The forge's id of it.
    pub id: Option<u64>,
}

/// A check run that should stand on a commit (GitHub Apps only).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CheckPost {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: StatusState,
    /// One line.
    pub title: String,
    /// Markdown, cut to 65,535 characters by the adapter.
    pub summary: String,
    /// Our own id of it.
    pub external_id: String,
    /// Buttons: identifier (20 characters), label (20), description (40); shown once the check run is completed.
    pub buttons: Vec<(String, String, String)>,
    /// A page for people.
    pub details_url: Option<String>,
}

/// The report of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPost {
    /// Markdown; the hidden marker is its first line.
    pub body: String,
    /// The hidden marker by which the report is found again.
    pub marker: String,
    /// The comment that holds the report, once it is known.
    pub known: Option<u64>,
    /// Visible to members only (GitLab's internal notes), because the command was.
    pub internal: bool,
}

/// An issue to open or to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuePost {
    /// The one to change; none opens a new one.
    pub number: Option<u64>,
    /// Its title; none leaves it as it is.
    pub title: Option<String>,
    /// Its text, Markdown; none leaves it as it is.
    pub body: Option<String>,
    /// Labels that it shall carry beside those that it has.
    pub labels: Vec<String>,
}

/// A small text file on the default branch of a repository, as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileNow {
    /// There is none.
    Absent,
    /// It is the one of the version that was named.
    Unchanged,
    /// Its text.
    Text {
        /// What tells this text from others: an ETag or the id of the content. To be named the next time.
        version: String,
        /// The text; bytes that are no UTF-8 are replaced.
        text: String,
    },
}

/// One configured forge.
#[async_trait]
pub trait Forge: Send + Sync {
    /// Its configured name.
    fn name(&self) -> &ForgeName;
    /// Its kind.
    fn kind(&self) -> ForgeKind;

    /// Checks the signature, then decodes. No outside call, no database, no parsing before the check.
    ///
    /// # Errors
    /// [`WebhookError`]: not authentic, or in a form that cannot be read.
    fn receive(&self, request: &WebhookRequest) -> Result<Decoded, WebhookError>;

    /// Whether every job and status of a commit is told by webhooks. GitLab tells nothing of statuses that others post,
    /// so there they must be listed.
    fn tells_statuses(&self) -> bool {
        true
    }

    /// Learns who we are there, so that our own comments and statuses are told from others'. Called once at the start;
    /// doing without it costs nothing but certainty.
    ///
    /// # Errors
    /// As every call.
    async fn learn_self(&self) -> Result<(), CallError> {
        Ok(())
    }

    /// Until when this forge wants to be left alone, when it does. Kept over a restart by the caller.
    fn throttled_until(&self) -> Option<Timestamp> {
        None
    }

    /// Leaves this forge alone until then: what an earlier life was told.
    fn throttle_until(&self, _until: Timestamp) {}

    /// Whether this actor or App is this bot itself.
    fn is_me(&self, actor: &Actor, via_app: Option<u64>) -> bool;

    /// What the actor may do, asked by id where the forge can (GitLab), else by login with the id compared (GitHub).
    ///
    /// # Errors
    /// A failed look-up never means a right.
    async fn role(&self, repo: &Repo, actor: &Actor) -> Result<Role, CallError>;

    /// Whether the actor is an active member of a team. A team of another kind of forge has no members here.
    ///
    /// # Errors
    /// A failed look-up never means a right.
    async fn belongs(&self, repo: &Repo, team: &Team, actor: &Actor) -> Result<bool, CallError>;

    /// A file on the default branch, asked for conditionally: `known` is the version of the caller's copy.
    ///
    /// # Errors
    /// As every call. No repository, or none that we may read, is an error; no file is not.
    async fn file(&self, repo: &Repo, path: &str, known: Option<&str>) -> Result<FileNow, CallError>;

    /// The change as it is now.
    ///
    /// # Errors
    /// As every call.
    async fn change(&self, repo: &Repo, number: u64) -> Result<Change, CallError>;

    /// Every job that the forge knows of the change's head: its own CI's newest runs, foreign checks, statuses. All pages.
    ///
    /// # Errors
    /// As every call.
    async fn list_jobs(&self, repo: &Repo, change: &Change) -> Result<Vec<JobObservation>, CallError>;

    /// The names of the jobs without which nothing enters `base_ref`.
    ///
    /// # Errors
    /// As every call.
    async fn required_jobs(&self, repo: &Repo, base_ref: &str) -> Result<Vec<String>, CallError>;

    /// Reacts to a comment; doing it twice does no harm. Silently nothing where the forge has no reactions (GitHub reviews).
    ///
    /// # Errors
    /// As every call.
    async fn react(
        &self,
        repo: &Repo,
        change: &ChangeKey,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), CallError>;

    /// Posts a status. Idempotent by context; the caller never posts an unchanged one.
    ///
    /// # Errors
    /// As every call.
    async fn post_status(
        &self,
        repo: &Repo,
        change: &Change,
        sha: &CommitSha,
        post: &StatusPost,
    ) -> Result<PostedStatus, CallError>;

    /// Creates or updates our check run; `None` when this forge cannot (no App).
    ///
    /// # Errors
    /// As every call.
    async fn post_check(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        known: Option<u64>,
        post: &CheckPost,
    ) -> Result<Option<u64>, CallError>;

    /// Creates or edits the report and says which comment it is. A report whose comment is unknown is looked for by its
    /// marker before a new one is made.
    ///
    /// # Errors
    /// As every call.
    async fn post_report(&self, repo: &Repo, change: &ChangeKey, post: &ReportPost) -> Result<u64, CallError>;

    /// The open issues that carry a label, oldest first. All pages; changes are not issues, and neither is one that not
    /// everybody who reads the repository may see (GitLab's confidential issues).
    ///
    /// # Errors
    /// As every call.
    async fn labelled_issues(&self, repo: &Repo, label: &str) -> Result<Vec<Issue>, CallError>;

    /// An issue as it is now; none when there is none of that number, or it is a change, a confidential issue, or one that
    /// was moved to another repository.
    ///
    /// # Errors
    /// As every call.
    async fn issue(&self, repo: &Repo, number: u64) -> Result<Option<Issue>, CallError>;

    /// Opens an issue, or changes an existing one: its text, and labels that it shall carry beside its own. What stands
    /// already is not written again. A label that does not exist yet is made by its first use.
    ///
    /// # Errors
    /// As every call; refused where [`Self::issue`] sees none. Opening may have worked after [`CallError::Unknown`].
    async fn put_issue(&self, repo: &Repo, post: &IssuePost) -> Result<Issue, CallError>;

    /// Creates or edits our one comment on an issue and says which it is. A comment that is not known is looked for by its
    /// marker first, among our own.
    ///
    /// # Errors
    /// As every call.
    async fn post_issue_comment(&self, repo: &Repo, number: u64, post: &ReportPost) -> Result<u64, CallError>;

    /// Comments on changes since a time, oldest first, as events to store: those that no webhook brought are among them.
    ///
    /// # Errors
    /// As every call.
    async fn missed_comments(&self, repo: &Repo, since: Timestamp) -> Result<Vec<Wanted>, CallError>;
}
