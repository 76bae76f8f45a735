//! A retry: one wish to run a job again, and the only state machine of the program.
//!
//! `Requested` → `Waiting` → `Dispatching` → `Dispatched` → `Running` → `Finished`. The row is written as `Dispatching`
//! before the outside call, so that a crash leaves a question ("was it sent?") and never a second run.
//! **Invariant:** a closed retry never opens again ([`RetryState::step`] refuses it).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Actor, ChangeKey, CommentRef, CommitSha, Conclusion, DispatchKey, JobName, RunHandle, RunRef, RunnerName, Timestamp,
};

/// The store's number of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RetryId(pub i64);

/// What a waiting retry waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitOn {
    /// A group (workflow run, pipeline) must be over first.
    Group(String),
    /// The jobs that it needs must have passed on the same head first.
    Jobs(Vec<JobName>),
    /// Nothing but time.
    Time,
    /// A point in time that was chosen for it.
    Until(Timestamp),
}

/// Where a retry stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryState {
    /// Wished for and stored.
    Requested,
    /// Not to be started yet.
    Waiting(WaitOn),
    /// Being started: the outside call is under way or its result is not stored.
    Dispatching,
    /// The runner took it.
    Dispatched,
    /// The runner executes it.
    Running,
    /// No answer came: it may or may not have been started. Left only by asking the runner.
    Uncertain,
    /// Over.
    Finished(Conclusion),
    /// The runner refused; its reason.
    Rejected(String),
    /// The head moved or the change was closed.
    Superseded,
    /// Cancelled on request.
    Cancelled,
    /// Not over by its deadline.
    Expired,
}

/// What can happen to a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryEvent {
    /// It must wait.
    Parked(WaitOn),
    /// What it waited for is there.
    Released,
    /// Somebody else started the job anew while it waited: that run grants the wish.
    Joined,
    /// A dispatcher took it and is about to call the runner.
    Claimed,
    /// The runner accepted it.
    Accepted,
    /// The runner certainly did not take it and may be asked again.
    NotSent,
    /// Nobody can tell whether the call worked.
    NoAnswer,
    /// The runner refused it for good.
    Refused(String),
    /// The run executes.
    Started,
    /// The run is over.
    Ended(Conclusion),
    /// The head moved or the change was closed.
    HeadGone,
    /// Somebody cancelled it.
    CancelAsked,
    /// Its deadline passed.
    DeadlinePassed,
}

/// An event that cannot happen in that state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllegalStep {
    /// The state.
    pub state: RetryState,
    /// The event.
    pub event: RetryEvent,
}

impl fmt::Display for IllegalStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a retry that is {} cannot meet {:?}", self.state.word(), self.event)
    }
}

impl std::error::Error for IllegalStep {}

impl RetryState {
    /// The word for the store, JSON and metrics.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Waiting(_) => "waiting",
            Self::Dispatching => "dispatching",
            Self::Dispatched => "dispatched",
            Self::Running => "running",
            Self::Uncertain => "uncertain",
            Self::Finished(_) => "finished",
            Self::Rejected(_) => "rejected",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// The word for texts.
    pub const fn for_people(&self) -> &'static str {
        match self {
            Self::Requested | Self::Dispatching => "about to start",
            Self::Waiting(_) => "queued",
            Self::Dispatched => "started",
            Self::Uncertain => "being looked for",
            Self::Running
            | Self::Finished(_)
            | Self::Rejected(_)
            | Self::Superseded
            | Self::Cancelled
            | Self::Expired => self.word(),
        }
    }

    /// Whether something is still to come.
    pub const fn is_open(&self) -> bool {
        match self {
            Self::Requested
            | Self::Waiting(_)
            | Self::Dispatching
            | Self::Dispatched
            | Self::Running
            | Self::Uncertain => true,
            Self::Finished(_) | Self::Rejected(_) | Self::Superseded | Self::Cancelled | Self::Expired => false,
        }
    }

    /// Whether a run may exist in the runner: it must be followed, and cancelled when the retry is.
    pub const fn may_have_run(&self) -> bool {
        matches!(self, Self::Dispatching | Self::Dispatched | Self::Running | Self::Uncertain)
    }

    /// The next state.
    ///
    /// # Errors
    /// [`IllegalStep`] when the event cannot happen here; the caller keeps the old state.
    pub fn step(&self, event: RetryEvent) -> Result<Self, IllegalStep> {
        use RetryEvent as E;
        let next = match (self, &event) {
            (state, _) if !state.is_open() => None,
            (_, E::HeadGone) => Some(Self::Superseded),
            (_, E::CancelAsked) => Some(Self::Cancelled),
            (_, E::DeadlinePassed) => Some(Self::Expired),
            (Self::Requested | Self::Waiting(_) | Self::Dispatching, E::Parked(on)) => Some(Self::Waiting(on.clone())),
            (Self::Waiting(_), E::Released) => Some(Self::Requested),
            (Self::Requested | Self::Waiting(_), E::Joined) => Some(Self::Dispatched),
            (Self::Requested, E::Claimed) => Some(Self::Dispatching),
            (Self::Dispatching | Self::Uncertain, E::Accepted) => Some(Self::Dispatched),
            (Self::Dispatching | Self::Uncertain, E::NotSent) => Some(Self::Requested),
            (Self::Dispatching | Self::Uncertain, E::NoAnswer) => Some(Self::Uncertain),
            (Self::Requested | Self::Waiting(_) | Self::Dispatching | Self::Uncertain, E::Refused(why)) => {
                Some(Self::Rejected(why.clone()))
            }
            (Self::Dispatching | Self::Dispatched | Self::Running | Self::Uncertain, E::Started) => Some(Self::Running),
            (Self::Dispatching | Self::Dispatched | Self::Running | Self::Uncertain, E::Ended(end)) => {
                Some(Self::Finished(*end))
            }
            _ => None,
        };
        next.ok_or_else(|| IllegalStep { state: self.clone(), event })
    }
}

/// The place of a retry among several that one command asked for, to measure a flake: one after the other, whatever
/// comes of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Its place, counted from 1.
    pub place: u32,
    /// How many there are to be.
    pub of: u32,
}

/// One wish to run a job again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The store's number; zero until stored.
    pub id: RetryId,
    /// The unique key of the dispatch.
    pub key: DispatchKey,
    /// The change.
    pub change: ChangeKey,
    /// The revision's commit.
    pub sha: CommitSha,
    /// The job.
    pub job: JobName,
    /// What the job's name is unique in.
    pub scope: String,
    /// The runner that runs it.
    pub runner: RunnerName,
    /// Where it stands.
    pub state: RetryState,
    /// Who asked.
    pub asker: Actor,
    /// Why it was started, for people.
    pub why: String,
    /// The run that it repeats.
    pub source_run: Option<RunRef>,
    /// The place of that run among the runs of its job.
    pub source_order: super::RunOrder,
    /// What must be restarted together.
    pub group: Option<String>,
    /// The new run.
    pub handle: Option<RunHandle>,
    /// The runner's word for why the new run failed.
    pub cause: Option<String>,
    /// The fields that the asker changed.
    pub overrides: BTreeMap<String, String>,
    /// The k-th retry of this job on this head, counted from 1.
    pub number: u32,
    /// Its place among several runs that were asked for at once.
    #[serde(default)]
    pub series: Option<Series>,
    /// Why it was begun without being asked; none when somebody asked.
    #[serde(default)]
    pub unasked: Option<super::Unasked>,
    /// The comment that asked.
    pub comment: Option<CommentRef>,
    /// Whether that comment is visible to members only: who asked, and that somebody did, is then for members, too.
    #[serde(default)]
    pub internal: bool,
    /// The jobs that run along.
    pub also: Vec<JobName>,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Not to be touched before.
    pub due_at: Timestamp,
    /// How often it was tried or looked at in its present state.
    pub tries: u32,
    /// When its run was accepted.
    pub dispatched_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it expires.
    pub deadline_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use RetryEvent as E;

    fn all_states() -> Vec<RetryState> {
        vec![
            RetryState::Requested,
            RetryState::Waiting(WaitOn::Time),
            RetryState::Dispatching,
            RetryState::Dispatched,
            RetryState::Running,
            RetryState::Uncertain,
            RetryState::Finished(Conclusion::Passed),
            RetryState::Rejected("no".into()),
            RetryState::Superseded,
            RetryState::Cancelled,
            RetryState::Expired,
        ]
    }

    fn all_events() -> Vec<RetryEvent> {
        vec![
            E::Parked(WaitOn::Time),
            E::Released,
            E::Joined,
            E::Claimed,
            E::Accepted,
            E::NotSent,
            E::NoAnswer,
            E::Refused("no".into()),
            E::Started,
            E::Ended(Conclusion::Failed),
            E::HeadGone,
            E::CancelAsked,
            E::DeadlinePassed,
        ]
    }

    #[test]
    fn a_closed_retry_never_opens_again() {
        for state in all_states().into_iter().filter(|s| !s.is_open()) {
            for event in all_events() {
                assert!(state.step(event.clone()).is_err(), "{state:?} took {event:?}");
            }
        }
    }

    #[test]
    fn every_open_state_ends_when_the_head_goes_the_asker_cancels_or_time_runs_out() {
        for state in all_states().into_iter().filter(RetryState::is_open) {
            for event in [E::HeadGone, E::CancelAsked, E::DeadlinePassed] {
                assert!(!state.step(event).expect("always possible").is_open());
            }
        }
    }

    #[test]
    fn a_retry_that_was_sent_is_not_joined_to_another_run() {
        for state in all_states() {
            let waits = matches!(state, RetryState::Requested | RetryState::Waiting(_));
            assert_eq!(state.step(E::Joined).is_ok(), waits, "{state:?}");
        }
    }

    #[test]
    fn only_a_claimed_retry_can_be_accepted_and_doubt_is_left_by_asking() {
        assert!(RetryState::Requested.step(E::Accepted).is_err(), "accepted without a stored intent");
        assert_eq!(RetryState::Requested.step(E::Claimed), Ok(RetryState::Dispatching));
        assert_eq!(RetryState::Dispatching.step(E::NoAnswer), Ok(RetryState::Uncertain));
        assert!(RetryState::Uncertain.step(E::Claimed).is_err(), "sent again without asking");
        assert_eq!(RetryState::Uncertain.step(E::NotSent), Ok(RetryState::Requested));
        assert_eq!(RetryState::Uncertain.step(E::Accepted), Ok(RetryState::Dispatched));
    }
}
