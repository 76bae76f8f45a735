//! GitLab's words for the state of a job, in ours.
//!
//! The grouping of failure reasons is ours, the names are GitLab's (forge-gitlab reference, 4.1). Unknown words never
//! fail: an unknown status is pending, an unknown reason is a plain failure that keeps its name.

use crate::domain::JobState;

/// What GitLab says of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobWords<'a> {
    /// `status`.
    pub status: &'a str,
    /// `failure_reason`; GitLab also sends one with jobs that did not fail.
    pub failure_reason: Option<&'a str>,
    /// `stage`.
    pub stage: &'a str,
    /// Whether a runner is named.
    pub has_runner: bool,
}

/// The same in our words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReading {
    /// The state.
    pub state: JobState,
    /// Why it failed; none when it did not.
    pub cause: Option<String>,
    /// Whether it waits for a person to start it.
    pub manual: bool,
    /// Whether it is a commit status that something outside posted, and no job of GitLab's.
    pub external: bool,
}

/// Reads the state of a job.
///
/// A commit status posted as `failed` carries the reason `api_failure`, which for a job means a broken runner: the
/// stage `external` and the missing runner tell them apart.
pub fn read_job(words: JobWords<'_>) -> JobReading {
    let external = words.stage == "external" && !words.has_runner;
    let failed = words.status == "failed";
    let cause = words.failure_reason.filter(|reason| failed && !external && !reason.is_empty());
    let state = match words.status {
        "running" | "canceling" => JobState::Running,
        "success" => JobState::Passed,
        "failed" if external => JobState::Failed,
        "failed" => failed_state(cause.unwrap_or_default()),
        "canceled" => JobState::Cancelled,
        "skipped" => JobState::Skipped,
        // created, pending, preparing, scheduled, manual, waiting_for_resource, waiting_for_callback, and words to come
        _ => JobState::Pending,
    };
    JobReading { state, cause: cause.map(str::to_owned), manual: words.status == "manual", external }
}

/// Whether a pipeline in this status is over.
pub fn is_over(pipeline_status: &str) -> bool {
    matches!(pipeline_status, "success" | "failed" | "canceled" | "skipped")
}

fn failed_state(reason: &str) -> JobState {
    match reason {
        "job_execution_timeout" => JobState::TimedOut,
        "runner_system_failure"
        | "stuck_or_timeout_failure"
        | "api_failure"
        | "scheduler_failure"
        | "data_integrity_failure"
        | "runner_unsupported"
        | "no_matching_runner"
        | "unknown_failure"
        | "environment_creation_failure"
        | "reached_downstream_pipeline_trigger_rate_limit" => JobState::Infrastructure,
        _ => JobState::Failed,
    }
}

/// Why a job that failed for this reason must not be retried, in words for the person who asked; none when it may be.
pub fn never_retry(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "missing_dependency_failure" => "its inputs have expired: artifacts of an earlier job are gone",
        "stale_schedule" => "it was scheduled too long ago",
        "archived_failure" => "GitLab has archived its pipeline",
        "unmet_prerequisites" => "what GitLab must set up before it could not be set up",
        "forward_deployment_failure" | "failed_outdated_deployment_job" => "a newer deployment has taken its place",
        "protected_environment_failure" => "its environment is protected",
        "deployment_rejected" => "its deployment was rejected",
        "ci_quota_exceeded" => "the CI minutes are used up",
        "user_blocked" => "the user of its pipeline is blocked",
        "project_deleted" => "its project is being deleted",
        "builds_disabled" => "CI is switched off in its project",
        "secrets_provider_not_found" => "its secrets provider is not set up",
        "pipeline_loop_detected" => "its pipeline calls itself",
        "trace_size_exceeded" => "its log grew past the limit",
        "ip_restriction_failure" => "the group restricts addresses and its runner has another one",
        "insufficient_bridge_permissions" | "insufficient_upstream_permissions" => {
            "the user of its pipeline lacks rights in the other project"
        }
        "downstream_bridge_project_not_found" | "upstream_bridge_project_not_found" => {
            "the project at the other end of the trigger is not found"
        }
        "invalid_bridge_trigger" | "bridge_pipeline_is_child_pipeline" => "its trigger is not allowed",
        "downstream_pipeline_creation_failed" => "the configuration of the downstream pipeline is broken",
        "reached_max_descendant_pipelines_depth" | "reached_max_pipeline_hierarchy_size" => {
            "too many pipelines trigger each other"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: &str, reason: &str) -> JobReading {
        read_job(JobWords { status, failure_reason: Some(reason), stage: "test", has_runner: true })
    }

    #[test]
    fn a_failure_is_told_by_its_reason() {
        let table = [
            ("script_failure", JobState::Failed, "the script said no"),
            ("job_execution_timeout", JobState::TimedOut, "the job's own time limit"),
            ("runner_system_failure", JobState::Infrastructure, "the runner died"),
            ("stuck_or_timeout_failure", JobState::Infrastructure, "no runner took it"),
            ("unknown_failure", JobState::Infrastructure, "GitLab does not know"),
            ("missing_dependency_failure", JobState::Failed, "no retry helps"),
            ("a_reason_of_the_year_2030", JobState::Failed, "unknown reasons are plain failures"),
        ];
        for (reason, state, why) in table {
            let reading = read("failed", reason);
            assert_eq!((reading.state, reading.cause.as_deref()), (state, Some(reason)), "{reason}: {why}");
        }
    }

    #[test]
    fn every_other_status_has_a_state_and_no_cause() {
        let table = [
            ("success", JobState::Passed, false),
            ("canceled", JobState::Cancelled, false),
            ("canceling", JobState::Running, false),
            ("skipped", JobState::Skipped, false),
            ("manual", JobState::Pending, true),
            ("created", JobState::Pending, false),
            ("waiting_for_callback", JobState::Pending, false),
            ("a word to come", JobState::Pending, false),
        ];
        for (status, state, manual) in table {
            let reading = read(status, "unknown_failure");
            assert_eq!((reading.state, reading.manual, reading.cause), (state, manual, None), "{status}");
        }
    }

    #[test]
    fn a_failed_commit_status_is_no_infrastructure_failure() {
        let words =
            JobWords { status: "failed", failure_reason: Some("api_failure"), stage: "external", has_runner: false };
        let reading = read_job(words);
        assert_eq!((reading.state, reading.external, reading.cause), (JobState::Failed, true, None));
        let job = read_job(JobWords { has_runner: true, ..words });
        assert_eq!((job.state, job.external), (JobState::Infrastructure, false), "a stage may be called external");
    }

    #[test]
    fn only_hopeless_reasons_forbid_a_retry() {
        assert!(never_retry("missing_dependency_failure").is_some_and(|why| why.contains("expired")));
        for reason in ["script_failure", "runner_system_failure", "something new"] {
            assert_eq!(never_retry(reason), None, "{reason}");
        }
    }
}
