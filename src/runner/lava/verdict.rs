//! What LAVA's words mean: states, health, and the error types of incomplete jobs.
//!
//! The type comes from the job's own result `lava/job`, never from a message; without that result the job was lost with
//! its worker. It refuses to call a type infrastructure that it does not know. Read next: `client.rs`.

use crate::domain::JobState;

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not over; `Pending` or `Running`.
    Open(JobState),
    /// Over: ran to its end, which does not say that its tests passed.
    Complete,
    /// Over: could not run to its end.
    Incomplete,
    /// Over: somebody cancelled it.
    Canceled,
    /// Over, and LAVA does not say how.
    Unknown,
}

/// Reads `state` and `health`.
pub(super) fn standing(state: &str, health: &str) -> Standing {
    match (state, health) {
        ("Finished", "Complete") => Standing::Complete,
        ("Finished", "Incomplete") => Standing::Incomplete,
        ("Finished", "Canceled") => Standing::Canceled,
        ("Finished", _) => Standing::Unknown,
        ("Submitted" | "Scheduling" | "Scheduled", _) => Standing::Open(JobState::Pending),
        // Running, Canceling, and words of versions to come.
        _ => Standing::Open(JobState::Running),
    }
}

/// What an error type says about the run: whether the lab failed, the job, or time ran out.
pub(super) fn of_error(error_type: &str) -> JobState {
    match error_type {
        "Infrastructure"
        | "Bug"
        | "Configuration"
        | "MultinodeTimeout"
        | "FastbootDeviceNotFound"
        | "ObjectNotPersisted" => JobState::Infrastructure,
        "LAVATimeout" => JobState::TimedOut,
        "Canceled" => JobState::Cancelled,
        // `Job` and `Test` are about the job; a type of a version to come is proven nothing.
        _ => JobState::Failed,
    }
}

/// Which of several members of a multinode group tells how the group ended: the rest ends because of it.
pub(super) const fn weight(state: JobState) -> u8 {
    match state {
        JobState::Failed => 6,
        JobState::TimedOut => 5,
        JobState::Infrastructure => 4,
        JobState::Lost => 3,
        JobState::Cancelled => 2,
        JobState::Superseded | JobState::Skipped => 1,
        JobState::Missing | JobState::Pending | JobState::Running | JobState::Passed => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_health_are_read_as_lava_means_them() {
        let table = [
            ("Submitted", "Unknown", Standing::Open(JobState::Pending), "in the queue"),
            ("Scheduling", "Unknown", Standing::Open(JobState::Pending), "waits for its group"),
            ("Scheduled", "Unknown", Standing::Open(JobState::Pending), "has its device"),
            ("Running", "Unknown", Standing::Open(JobState::Running), "runs"),
            ("Canceling", "Unknown", Standing::Open(JobState::Running), "is not over yet"),
            ("Finished", "Complete", Standing::Complete, "ran to its end"),
            ("Finished", "Incomplete", Standing::Incomplete, "did not"),
            ("Finished", "Canceled", Standing::Canceled, "was cancelled"),
            ("Finished", "Unknown", Standing::Unknown, "nobody can tell"),
            ("Resting", "Unknown", Standing::Open(JobState::Running), "a word to come does not end a run"),
        ];
        for (state, health, wanted, why) in table {
            assert_eq!(standing(state, health), wanted, "{why}");
        }
    }

    #[test]
    fn only_what_is_known_to_be_the_labs_fault_is_infrastructure() {
        let table = [
            ("Infrastructure", JobState::Infrastructure),
            ("Bug", JobState::Infrastructure),
            ("Configuration", JobState::Infrastructure),
            ("MultinodeTimeout", JobState::Infrastructure),
            ("LAVATimeout", JobState::TimedOut),
            ("Canceled", JobState::Cancelled),
            ("Job", JobState::Failed),
            ("Test", JobState::Failed),
            ("Newcomer", JobState::Failed),
        ];
        for (error_type, wanted) in table {
            assert_eq!(of_error(error_type), wanted, "{error_type}");
        }
    }

    #[test]
    fn a_failure_in_a_group_outweighs_what_follows_from_it() {
        let order = [JobState::Passed, JobState::Cancelled, JobState::Infrastructure, JobState::Failed];
        assert!(order.windows(2).all(|pair| weight(pair[0]) < weight(pair[1])));
    }
}
