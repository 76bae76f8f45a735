//! Jobs and their runs. The newest run of a job decides its state.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{JobName, RunRef, RunnerName, Timestamp};

/// The state of a job on a revision (the words of DESIGN section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Required or declared, never reported on this revision.
    Missing,
    /// Waiting to start.
    Pending,
    /// Executing.
    Running,
    /// Ended well.
    Passed,
    /// Ended with failed tests or a failed script.
    Failed,
    /// Died of its infrastructure.
    Infrastructure,
    /// Ran out of time.
    TimedOut,
    /// Cancelled by a person.
    Cancelled,
    /// Cancelled because something newer took its place.
    Superseded,
    /// Not run, by rule or because a job before it failed.
    Skipped,
    /// Nobody can tell what became of it.
    Lost,
}

impl JobState {
    /// All states, in the order of DESIGN section 11.
    pub const ALL: [Self; 11] = [
        Self::Missing,
        Self::Pending,
        Self::Running,
        Self::Passed,
        Self::Failed,
        Self::Infrastructure,
        Self::TimedOut,
        Self::Cancelled,
        Self::Superseded,
        Self::Skipped,
        Self::Lost,
    ];

    /// The word for JSON, the store and texts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Infrastructure => "infrastructure",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
            Self::Skipped => "skipped",
            Self::Lost => "lost",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// Whether a plain `/retest` means a job in this state: it failed, timed out, was lost, died of its
    /// infrastructure, or was cancelled by a person (DESIGN section 4).
    pub const fn is_restartable(self) -> bool {
        matches!(self, Self::Failed | Self::Infrastructure | Self::TimedOut | Self::Cancelled | Self::Lost)
    }

    /// Whether the run is over.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Missing | Self::Pending | Self::Running)
    }

    /// How far a run has come: a report of a lower rank about the same run is old news.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Missing => 0,
            Self::Pending => 1,
            Self::Running => 2,
            _ => 3,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "timed out",
            Self::Infrastructure => "infrastructure failure",
            other => other.as_str(),
        })
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Ended well.
    Passed,
    /// Failed tests or a failed script.
    Failed,
    /// Died of its infrastructure.
    Infrastructure,
    /// Ran out of time.
    TimedOut,
    /// Cancelled by a person.
    Cancelled,
    /// Cancelled because something newer took its place.
    Superseded,
    /// Not run.
    Skipped,
    /// Nobody can tell.
    Lost,
}

impl Conclusion {
    /// The job state that this end means.
    pub const fn state(self) -> JobState {
        match self {
            Self::Passed => JobState::Passed,
            Self::Failed => JobState::Failed,
            Self::Infrastructure => JobState::Infrastructure,
            Self::TimedOut => JobState::TimedOut,
            Self::Cancelled => JobState::Cancelled,
            Self::Superseded => JobState::Superseded,
            Self::Skipped => JobState::Skipped,
            Self::Lost => JobState::Lost,
        }
    }

    /// The end that this state means; none while the run is not over.
    pub const fn of(state: JobState) -> Option<Self> {
        match state {
            JobState::Missing | JobState::Pending | JobState::Running => None,
            JobState::Passed => Some(Self::Passed),
            JobState::Failed => Some(Self::Failed),
            JobState::Infrastructure => Some(Self::Infrastructure),
            JobState::TimedOut => Some(Self::TimedOut),
            JobState::Cancelled => Some(Self::Cancelled),
            JobState::Superseded => Some(Self::Superseded),
            JobState::Skipped => Some(Self::Skipped),
            JobState::Lost => Some(Self::Lost),
        }
    }
}

/// Orders the runs of one job: the greater is the newer. What the two numbers are is each runner's affair
/// (GitHub Actions: run id and attempt; GitLab CI: job id; statuses and processes: milliseconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunOrder(pub i64, pub i64);

/// Who reported a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A GitHub Actions job.
    Actions,
    /// A GitLab CI job.
    GitLabCi,
    /// A check run of another GitHub App, by its slug.
    Check(String),
    /// A commit status of something outside.
    Status,
    /// A run that we started and follow ourselves.
    Followed,
    /// Told by the runner's own listing, or by an outside system that registers its jobs with us.
    Reported,
}

/// One report about one run of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobObservation {
    /// The job's name.
    pub name: JobName,
    /// What the name is unique in: the workflow's name, or `""` where names are unique on the revision.
    pub scope: String,
    /// Who reported it.
    pub origin: Origin,
    /// The runner's name of the run.
    pub run: RunRef,
    /// Which of two runs is newer.
    pub order: RunOrder,
    /// What must be restarted together or one after the other: the workflow run, the pipeline.
    pub group: Option<String>,
    /// The run's state.
    pub state: JobState,
    /// The runner's word for why it failed.
    pub cause: Option<String>,
    /// The run's page for people.
    pub url: Option<String>,
    /// Whether the change may be merged although it failed.
    pub allow_failure: bool,
    /// Whether it waits for a person to start it.
    pub manual: bool,
    /// The jobs that it needs, when the runner tells them.
    pub needs: Option<Vec<JobName>>,
    /// When the report was made.
    pub at: Timestamp,
}

/// A job on a revision as the record holds it: its newest run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The newest run as last reported.
    pub newest: JobObservation,
    /// The configured runner that can run it again; none when nobody here can.
    pub runner: Option<RunnerName>,
    /// Whether the change cannot be merged without it.
    pub required: bool,
    /// How many runs of it were seen on this revision.
    pub runs: u32,
    /// What it runs on, when its runner or an outside system told; what the operator declares goes first.
    #[serde(default)]
    pub platform: Option<String>,
    /// Whether it stands alone, when an outside system told.
    #[serde(default)]
    pub standalone: Option<bool>,
}

/// A job as a runner lists it, or as an outside system registers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedJob {
    /// The run.
    pub seen: JobObservation,
    /// What it runs on.
    pub platform: Option<String>,
    /// Whether it stands alone; none when nobody said.
    pub standalone: Option<bool>,
}

/// The handle of a run that we started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHandle {
    /// What the runner module needs to find the run again; opaque to everybody else.
    pub id: String,
    /// Reports about the job with at least this order are about our run or a newer one.
    pub order: RunOrder,
    /// The run's page for people, when it is known already.
    pub url: Option<String>,
}

/// What a runner says of a run that we started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunObservation {
    /// The run's state.
    pub state: JobState,
    /// The runner's word for why it failed.
    pub cause: Option<String>,
    /// The run's page for people.
    pub url: Option<String>,
    /// The run, when the runner names it only after the start.
    pub run: Option<RunRef>,
    /// Its place among the runs of the job.
    pub order: RunOrder,
}
