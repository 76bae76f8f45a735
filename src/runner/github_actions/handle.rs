//! Names of runs: what stands in a [`RunRef`] and in the id of a [`RunHandle`].

use serde::{Deserialize, Serialize};

use crate::domain::{RunHandle, RunOrder, RunRef};
use crate::ports::CallError;

/// A run of a job as the forge names it: `RUN/ATTEMPT/JOB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceRun {
    pub run: u64,
    pub attempt: u64,
    pub job: u64,
}

impl SourceRun {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(|part| part.parse::<u64>().ok());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(run)), Some(Some(attempt)), Some(Some(job)), None) => Some(Self { run, attempt, job }),
            _ => None,
        }
    }

    pub fn to_ref(self) -> RunRef {
        RunRef::new(format!("{}/{}/{}", self.run, self.attempt, self.job))
    }
}

/// What is needed to find the new run of a job. GitHub's answer to a restart has no id: the run keeps its own, and the
/// job appears in an attempt of at least this number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handle {
    pub run: u64,
    pub attempt: u64,
    /// The job's name.
    pub job: String,
}

impl Handle {
    pub fn to_run(&self, url: Option<String>) -> RunHandle {
        RunHandle { id: serde_json::json!(self).to_string(), order: order(self.run, self.attempt), url }
    }

    /// Reads a handle of ours. A forge's name of a run is taken as well: its log can be read without a restart.
    pub fn parse(id: &str, job: &str) -> Result<Self, CallError> {
        if let Ok(handle) = serde_json::from_str(id) {
            return Ok(handle);
        }
        let source = SourceRun::parse(id).ok_or_else(|| CallError::Refused {
            user: "This run's name cannot be read any more.".to_owned(),
            log: format!("no handle of GitHub Actions: {}", id.escape_debug()),
        })?;
        Ok(Self { run: source.run, attempt: source.attempt, job: job.to_owned() })
    }
}

pub(super) fn order(run: u64, attempt: u64) -> RunOrder {
    let signed = |id: u64| i64::try_from(id).unwrap_or(i64::MAX);
    RunOrder(signed(run), signed(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_store() {
        let handle = Handle { run: 7, attempt: 2, job: "build / test (\"a\", b)".into() };
        let stored = handle.to_run(None);
        assert_eq!(Handle::parse(&stored.id, "ignored"), Ok(handle));
        assert_eq!(stored.order, RunOrder(7, 2));
    }

    #[test]
    fn names_that_are_not_ours_are_refused() {
        assert_eq!(Handle::parse("7/2/9", "lint"), Ok(Handle { run: 7, attempt: 2, job: "lint".into() }));
        for id in ["", "7/2", "7/2/9/1", "a/b/c", "{}"] {
            assert!(Handle::parse(id, "lint").is_err(), "{id}");
        }
    }
}
