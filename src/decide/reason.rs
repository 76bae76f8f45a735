//! The closed list of reasons. Every job of a plan has one; `docs/reasons.md` documents each.

use serde::Serialize;

/// Why a job was started or left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Started.
    Started,
    /// Would be started; `--dry-run` was given.
    WouldStart,
    /// A retry of it is under way already; this wish joins it.
    Joined,
    /// It passed.
    Passed,
    /// Its run is not over.
    Running,
    /// It is waiting to start by itself.
    Pending,
    /// It waits for a person to start it.
    Manual,
    /// It was skipped: nothing failed in it.
    Skipped,
    /// Something newer took its place.
    Superseded,
    /// It needs other jobs.
    NotStandalone,
    /// Its runner starts it by itself once the jobs before it have passed.
    RunsAlong,
    /// Too old for its runner, or its inputs are gone.
    Expired,
    /// No job of that name on this head.
    Unknown,
    /// The name fits several jobs.
    Ambiguous,
    /// No configured runner can start it.
    Unmanaged,
    /// It was retried too often on this head.
    AttemptsUsed,
    /// A limit over an hour or a day is reached, or the job was retried a moment ago.
    Limited,
    /// It runs in the fork, out of reach.
    ForkOutOfReach,
    /// The fork's head is not approved.
    NotApproved,
    /// It never ran on this head.
    NotReported,
    /// The repository's policy lets nobody start it again.
    NotRetryable,
    /// The repository's policy keeps it for people with another right.
    NoRight,
    /// A field was to be changed that the job's policy does not allow.
    OverrideRefused,
    /// More jobs than one command may start.
    TooMany,
    /// Something in the command was not understood.
    NotUnderstood,
    /// Listed, as asked.
    Listed,
    /// Cancelled, as asked.
    Cancelled,
    /// There was nothing to do.
    Nothing,
    /// Written into the issue of a known flake.
    Linked,
    /// Retries that nobody asks for were switched on or off.
    Switched,
    /// A status of ours was set to success.
    Overridden,
    /// The repository's policy cannot be used as it stands.
    PolicyBroken,
}

impl Reason {
    /// All reasons, in the order of the documentation.
    pub const ALL: [Self; 32] = [
        Self::Started,
        Self::WouldStart,
        Self::Joined,
        Self::Passed,
        Self::Running,
        Self::Pending,
        Self::Manual,
        Self::Skipped,
        Self::Superseded,
        Self::NotStandalone,
        Self::RunsAlong,
        Self::Expired,
        Self::Unknown,
        Self::Ambiguous,
        Self::Unmanaged,
        Self::AttemptsUsed,
        Self::Limited,
        Self::ForkOutOfReach,
        Self::NotApproved,
        Self::NotReported,
        Self::NotRetryable,
        Self::NoRight,
        Self::OverrideRefused,
        Self::TooMany,
        Self::NotUnderstood,
        Self::Listed,
        Self::Cancelled,
        Self::Nothing,
        Self::Linked,
        Self::Switched,
        Self::Overridden,
        Self::PolicyBroken,
    ];

    /// The word in JSON and in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::WouldStart => "would_start",
            Self::Joined => "joined",
            Self::Passed => "passed",
            Self::Running => "running",
            Self::Pending => "pending",
            Self::Manual => "manual",
            Self::Skipped => "skipped",
            Self::Superseded => "superseded",
            Self::NotStandalone => "not_standalone",
            Self::RunsAlong => "runs_along",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
            Self::Ambiguous => "ambiguous",
            Self::Unmanaged => "unmanaged",
            Self::AttemptsUsed => "attempts_used",
            Self::Limited => "limited",
            Self::ForkOutOfReach => "fork_out_of_reach",
            Self::NotApproved => "not_approved",
            Self::NotReported => "not_reported",
            Self::NotRetryable => "not_retryable",
            Self::NoRight => "no_right",
            Self::OverrideRefused => "override_refused",
            Self::TooMany => "too_many",
            Self::NotUnderstood => "not_understood",
            Self::Listed => "listed",
            Self::Cancelled => "cancelled",
            Self::Nothing => "nothing",
            Self::Linked => "linked",
            Self::Switched => "switched",
            Self::Overridden => "overridden",
            Self::PolicyBroken => "policy_broken",
        }
    }
}

/// Why a whole command was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The asker's role does not suffice.
    Role,
    /// The rights could not be looked up.
    RightsUnknown,
    /// The head moved after the comment was written.
    HeadMoved,
    /// The change is closed.
    Closed,
    /// The comment is older than the operator allows.
    TooOld,
    /// The pinned commit is not the head.
    NotThisHead,
    /// This version does not do it.
    Unsupported,
}

impl RefusalKind {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Role,
        Self::RightsUnknown,
        Self::HeadMoved,
        Self::Closed,
        Self::TooOld,
        Self::NotThisHead,
        Self::Unsupported,
    ];

    /// The word in JSON and in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Role => "role",
            Self::RightsUnknown => "rights_unknown",
            Self::HeadMoved => "head_moved",
            Self::Closed => "closed",
            Self::TooOld => "too_old",
            Self::NotThisHead => "not_this_head",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A refused command: the kind, and a sentence for the asker (inert Markdown).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The word.
    #[serde(rename = "reason")]
    pub kind: RefusalKind,
    /// The sentence.
    pub text: String,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}
