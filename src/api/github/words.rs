//! GitHub's words for states, in ours. Unknown words never fail: GitHub adds new ones without notice.

use crate::domain::JobState;

/// What a status and a conclusion say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The state.
    pub state: JobState,
    /// GitHub's word or our finding, where it tells more than the state.
    pub cause: Option<String>,
    /// Whether it waits for a person.
    pub manual: bool,
}

impl Reading {
    const fn plain(state: JobState) -> Self {
        Self { state, cause: None, manual: false }
    }

    fn because(state: JobState, cause: &str) -> Self {
        Self { state, cause: Some(cause.to_owned()), manual: false }
    }
}

/// Reads a check run or a workflow run: `status`, and `conclusion` once it is completed.
pub fn check(status: &str, conclusion: Option<&str>) -> Reading {
    match (status, conclusion) {
        ("completed", Some(word)) => concluded(word),
        ("completed", None) => Reading::because(JobState::Lost, "completed without a conclusion"),
        ("in_progress", _) => Reading::plain(JobState::Running),
        // `waiting` is an environment that wants an approval.
        ("waiting", _) => Reading { state: JobState::Pending, cause: Some("waiting".to_owned()), manual: true },
        _ => Reading::plain(JobState::Pending),
    }
}

/// Reads a job of GitHub Actions. `ran` says whether a runner took it and began a step: a failure without that is one
/// of the infrastructure (forge-github reference, section 7.2).
pub fn actions_job(status: &str, conclusion: Option<&str>, ran: bool) -> Reading {
    match (status, conclusion, ran) {
        ("completed", Some("failure"), false) => {
            Reading::because(JobState::Infrastructure, "no runner began a step of it")
        }
        _ => check(status, conclusion),
    }
}

/// Reads a commit status.
pub fn status(state: &str) -> Reading {
    match state {
        "success" => Reading::plain(JobState::Passed),
        "failure" => Reading::plain(JobState::Failed),
        "error" => Reading::because(JobState::Infrastructure, "error"),
        _ => Reading::plain(JobState::Pending),
    }
}

fn concluded(word: &str) -> Reading {
    match word {
        "success" | "neutral" => Reading::plain(JobState::Passed),
        "failure" => Reading::plain(JobState::Failed),
        "timed_out" => Reading::plain(JobState::TimedOut),
        "cancelled" => Reading::plain(JobState::Cancelled),
        "skipped" => Reading::plain(JobState::Skipped),
        "startup_failure" => Reading::because(JobState::Infrastructure, word),
        // A person has to approve the run; a retest never does that.
        "action_required" => Reading { state: JobState::Pending, cause: Some(word.to_owned()), manual: true },
        other => Reading::because(JobState::Lost, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_github_has_one_state_and_new_words_do_no_harm() {
        use JobState as S;
        let table = [
            (("queued", None), true, S::Pending),
            (("requested", None), true, S::Pending),
            (("some_new_word", None), true, S::Pending),
            (("in_progress", None), true, S::Running),
            (("completed", Some("success")), true, S::Passed),
            (("completed", Some("neutral")), true, S::Passed),
            (("completed", Some("failure")), true, S::Failed),
            (("completed", Some("failure")), false, S::Infrastructure),
            (("completed", Some("startup_failure")), false, S::Infrastructure),
            (("completed", Some("timed_out")), true, S::TimedOut),
            (("completed", Some("cancelled")), true, S::Cancelled),
            (("completed", Some("skipped")), false, S::Skipped),
            (("completed", Some("stale")), true, S::Lost),
            (("completed", Some("some_new_word")), true, S::Lost),
            (("completed", None), true, S::Lost),
        ];
        for ((word, end), ran, state) in table {
            assert_eq!(actions_job(word, end, ran).state, state, "{word} {end:?} ran: {ran}");
        }
    }

    #[test]
    fn what_waits_for_a_persons_approval_is_not_restartable() {
        for reading in [check("completed", Some("action_required")), check("waiting", None)] {
            assert!(reading.manual && !reading.state.is_restartable(), "{reading:?}");
        }
    }
}
