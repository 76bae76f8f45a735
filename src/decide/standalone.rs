//! Whether a job can be run again alone: the one constructor (DESIGN section 4).

use std::collections::HashMap;

use crate::domain::{Job, JobName, JobState};

/// Whether a new run of a job needs nothing but the revision and inputs that still exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standalone {
    /// It does.
    Yes,
    /// It needs these jobs, which have not passed.
    Needs(Vec<JobName>),
    /// It did, but its inputs are gone.
    Gone(String),
    /// Nobody can tell.
    Unknown,
    /// The operator of its runner keeps it from being run again; why, for people.
    Barred(String),
}

/// GitLab's `failure_reason` for inputs that have expired.
const INPUTS_GONE: [&str; 1] = ["missing_dependency_failure"];

impl Standalone {
    /// Decides from, in this order: what the operator or the repository declares; what the runner tells of needs (all
    /// passed: yes; else the missing ones, by name); the nature of the job (one that ran to its end had all it needs).
    pub fn of(job: &Job, declared: Option<bool>, others: &HashMap<&JobName, JobState>) -> Self {
        if let Some(cause) = job.newest.cause.as_deref().filter(|c| INPUTS_GONE.contains(c)) {
            return Self::Gone(cause.to_owned());
        }
        match declared {
            Some(true) => return Self::Yes,
            Some(false) => return Self::Needs(job.newest.needs.clone().unwrap_or_default()),
            None => {}
        }
        if let Some(needs) = &job.newest.needs {
            let passed = |name: &&JobName| others.get(*name).is_none_or(|s| *s == JobState::Passed);
            let missing: Vec<JobName> = needs.iter().filter(|n| !passed(n)).cloned().collect();
            return if missing.is_empty() { Self::Yes } else { Self::Needs(missing) };
        }
        if job.newest.manual {
            return Self::Yes; // its runner offers it, so what it needs is there
        }
        match job.newest.state {
            JobState::Failed
            | JobState::Infrastructure
            | JobState::TimedOut
            | JobState::Passed
            | JobState::Cancelled
            | JobState::Lost
            | JobState::Superseded => Self::Yes,
            JobState::Missing | JobState::Pending | JobState::Running | JobState::Skipped => Self::Unknown,
        }
    }
}
