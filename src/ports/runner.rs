//! What the flow asks of a runner.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::CallError;
use crate::domain::{
    ChangeKey, CommitSha, DispatchKey, Job, JobName, ListedJob, Repo, RunHandle, RunObservation, RunOrder, RunRef,
    RunnerName, Timestamp, WaitOn,
};

/// Which runner module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunnerKind {
    /// GitHub Actions.
    GitHubActions,
    /// GitLab CI.
    GitLabCi,
    /// Processes on this machine.
    Exec,
    /// Any system with an HTTP interface.
    Http,
    /// A LAVA lab.
    Lava,
    /// KernelCI: the Maestro API and its pipeline.
    KernelCi,
}

impl RunnerKind {
    /// The word for configuration, JSON and texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitHubActions => "github_actions",
            Self::GitLabCi => "gitlab_ci",
            Self::Exec => "exec",
            Self::Http => "http",
            Self::Lava => "lava",
            Self::KernelCi => "kernelci",
        }
    }
}

/// How the runner names the successor of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessorNaming {
    /// The same run gets a new attempt.
    NewAttempt,
    /// A new id, told in the reply.
    NewId,
    /// Our own key.
    OurKey,
}

/// What a runner can and cannot do (DESIGN section 3): shown to users, read by the planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// How a new run is named.
    pub successor: SuccessorNaming,
    /// The forge reports this runner's jobs itself, so that we post no status per job.
    pub reported_by_forge: bool,
    /// One call can restart all failed jobs of a group.
    pub restarts_group: bool,
    /// A group must be over before anything of it can be restarted, and takes one restart at a time.
    pub needs_group_over: bool,
    /// Jobs that depend on the restarted one run along.
    pub runs_dependents: bool,
    /// How long after the first run it can be repeated.
    pub age_max: Option<Duration>,
    /// How many restarts one group takes in all.
    pub restarts_max: Option<u32>,
    /// It can be asked for a run by our key, or knows by itself that a run was repeated.
    pub finds_by_key: bool,
    /// It takes changed fields.
    pub takes_overrides: bool,
    /// A run can be cancelled.
    pub cancels: bool,
    /// It can start a job that never ran on the revision.
    pub starts_fresh: bool,
    /// Jobs run in the forge of the fork and cannot be reached for changes from forks.
    pub out_of_reach_for_forks: bool,
    /// The end of the log can be read.
    pub tails_log: bool,
}

/// One job to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOrder {
    /// The unique key; travels to the runner where it can.
    pub key: DispatchKey,
    /// The job.
    pub job: JobName,
    /// What its name is unique in.
    pub scope: String,
    /// The run that is repeated; none for a first run.
    pub source_run: Option<RunRef>,
    /// That run's place.
    pub source_order: RunOrder,
    /// Changed fields, already checked against the job's policy.
    pub overrides: BTreeMap<String, String>,
}

/// One call to a runner: one job, or several of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchOrder {
    /// The repository.
    pub repo: Repo,
    /// The change.
    pub change: ChangeKey,
    /// The commit to run.
    pub sha: CommitSha,
    /// The group that all jobs belong to.
    pub group: Option<String>,
    /// The jobs; more than one only where the runner restarts groups.
    pub jobs: Vec<JobOrder>,
    /// Whether `jobs` are all the failed jobs of the group.
    pub whole_group: bool,
}

/// The runner took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The new run of each job, by key.
    pub runs: Vec<(DispatchKey, RunHandle)>,
    /// Jobs that run along, when the runner tells.
    pub also: Vec<JobName>,
}

/// The runner did not take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatchError {
    /// Not yet: the group is not over, or another restart of it is under way. Nothing was done.
    Parked {
        /// What to wait for.
        on: WaitOn,
        /// Look again after this long even if nothing is heard.
        look_after: Duration,
    },
    /// The call failed.
    Call(CallError),
}

impl From<CallError> for DispatchError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Whether an order whose answer got lost was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was, or somebody else restarted the same: both grant the wish.
    Sent(Started),
    /// It certainly was not.
    NotSent,
    /// The runner cannot tell.
    CannotTell,
}

/// The end of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTail {
    /// The last bytes as text, without ANSI codes.
    pub text: String,
    /// Whether the beginning was cut.
    pub cut: bool,
}

/// What a callback brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// How the run stands; the caller is who may say so.
    State(RunObservation),
    /// That there is news, from somebody who may only wake us: the runner is asked.
    Look,
}
/// The override under which a whole job definition travels, made from a template of the configuration or sent by a client
/// that may start runs. Nobody can write it in a comment.
pub const DEFINITION: &str = "definition";

/// One configured runner.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Its configured name.
    fn name(&self) -> &RunnerName;
    /// Its module.
    fn kind(&self) -> RunnerKind;
    /// What it can do.
    fn abilities(&self) -> &Abilities;

    /// Starts the jobs of one order. At most one request that has an effect leaves this call, and none is repeated.
    ///
    /// # Errors
    /// [`DispatchError`]; after [`CallError::Unknown`] the caller asks [`Runner::find`] before anything else.
    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError>;

    /// Whether an order was taken whose answer got lost.
    ///
    /// # Errors
    /// As every call.
    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError>;

    /// How a run stands.
    ///
    /// # Errors
    /// As every call; `Refused` means that the runner knows no such run (any more).
    async fn observe(&self, repo: &Repo, job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError>;

    /// Cancels a run. Success when it is over already.
    ///
    /// # Errors
    /// As every call.
    async fn cancel(&self, repo: &Repo, job: &JobName, handle: &RunHandle) -> Result<(), CallError>;

    /// The end of a run's log, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As every call.
    async fn log_tail(&self, repo: &Repo, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError>;

    /// Whether [`Runner::list`] tells anything: jobs that no webhook of a forge ever tells of.
    fn lists(&self) -> bool {
        false
    }

    /// Every job that the runner knows of a commit, each run of it, oldest first. All pages.
    ///
    /// # Errors
    /// As every call.
    async fn list(&self, _repo: &Repo, _sha: &CommitSha) -> Result<Vec<ListedJob>, CallError> {
        Ok(Vec::new())
    }

    /// The commit of one of the runner's own things, such as a build, by its id there; none when it knows no such id.
    ///
    /// # Errors
    /// As every call; refused where the runner has no such things.
    async fn commit_of(&self, _id: &str) -> Result<Option<CommitSha>, CallError> {
        Err(CallError::refused("this runner has no builds that could be named"))
    }

    /// Why the operator keeps this job from being run again here, as a sentence for people; none when nothing speaks
    /// against it.
    fn bars(&self, _job: &Job) -> Option<String> {
        None
    }

    /// Fields of a job that a person may change.
    fn allowed_overrides(&self, _job: &JobName) -> Vec<String> {
        Vec::new()
    }

    /// Clears away what is left of runs that ended before a time. Blocks; called from a thread of its own.
    ///
    /// # Errors
    /// What could not be cleared away, for the log.
    fn sweep(&self, _before: Timestamp) -> Result<usize, String> {
        Ok(0)
    }

    /// Whether two of its names mean the same run.
    fn is_same_run(&self, a: &RunRef, b: &RunRef) -> bool {
        a == b
    }

    /// A result that the outside system pushed to us for a run of ours: its handle id and what it says.
    ///
    /// # Errors
    /// Refused when the token is wrong or the runner takes no callbacks.
    fn callback(&self, _key: &DispatchKey, _token: &str, _body: &[u8]) -> Result<Told, CallError> {
        Err(CallError::refused("this runner takes no callbacks"))
    }
}
