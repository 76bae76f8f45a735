//! What GitHub knows of a commit's jobs: its own Actions, other Apps' check runs, and plain statuses.
//!
//! None of the three sources contains the others (forge-github reference, section 6), so all are read, to the last
//! page; of each job the newest run is kept. Our own statuses and check runs are no jobs.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::GitHub;
use super::decode::{ACTIONS_SLUG, signed};
use crate::api::github::wire::{ActionsJob, CheckPage, CheckRun, ClassicChecks, CommitStatus, JobPage, Rule, RunPage};
use crate::api::github::{Failure, Need, repo_path, segment, timestamp, words};
use crate::domain::{CommitSha, JobName, JobObservation, Origin, Repo, RunOrder, RunRef, Timestamp};
use crate::ports::CallError;

const READ_RUNS: Need = Need { doing: "list workflow runs", permission: "Actions: read" };
const READ_CHECKS: Need = Need { doing: "list check runs", permission: "Checks: read" };
const READ_STATUSES: Need = Need { doing: "list commit statuses", permission: "Commit statuses: read" };
const READ_RULES: Need = Need { doing: "read the branch's rules", permission: "Metadata: read" };

impl GitHub {
    /// Every job of a commit, with its newest run.
    pub(super) async fn jobs_of(&self, repo: &Repo, sha: &CommitSha) -> Result<Vec<JobObservation>, CallError> {
        let at = self.clock.now();
        self.learn_own_login().await?;
        let mut jobs = self.actions_jobs(repo, sha, at).await?;
        let path = format!("{}/commits/{sha}/check-runs?filter=latest", repo_path(repo));
        let checks = self.api.pages::<CheckPage>(repo, &path, READ_CHECKS).await?;
        jobs.extend(newest(checks.into_iter().filter_map(|check| self.foreign_check(check, at))));
        jobs.extend(self.statuses(repo, sha, at).await?);
        Ok(jobs)
    }

    async fn actions_jobs(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        at: Timestamp,
    ) -> Result<Vec<JobObservation>, CallError> {
        let path = format!("{}/actions/runs?head_sha={sha}", repo_path(repo));
        let mut runs = self.api.pages::<RunPage>(repo, &path, READ_RUNS).await?;
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.id));
        let mut seen = HashSet::new();
        runs.retain(|run| seen.insert((run.workflow_id, run.event.clone())));
        let mut jobs = Vec::new();
        for run in runs {
            // `filter=latest` has left out jobs of earlier attempts before: all are read, and sorted out here.
            let path = format!("{}/actions/runs/{}/jobs?filter=all", repo_path(repo), run.id);
            let listed = self.api.pages::<JobPage>(repo, &path, READ_RUNS).await?;
            let named = run.name.unwrap_or_default();
            jobs.extend(newest_attempts(listed).into_iter().map(|job| actions_job(job, &named, at)));
        }
        Ok(newest(jobs.into_iter()))
    }

    fn foreign_check(&self, check: CheckRun, at: Timestamp) -> Option<JobObservation> {
        let app = check.app.as_ref();
        let slug = app.and_then(|a| a.slug.clone()).unwrap_or_default();
        let ours = self.hooks.app_id.is_some() && app.map(|a| a.id) == self.hooks.app_id;
        if ours || slug == ACTIONS_SLUG {
            return None;
        }
        let reading = words::check(&check.status, check.conclusion.as_deref());
        let started = check.started_at.as_deref().and_then(timestamp);
        Some(JobObservation {
            name: JobName::new(check.name),
            scope: slug.clone(),
            origin: Origin::Check(slug),
            run: RunRef::new(check.id.to_string()),
            order: RunOrder(signed(check.id), started.map_or(0, Timestamp::ms)),
            group: None,
            state: reading.state,
            cause: reading.cause,
            url: check.details_url.or(check.html_url),
            allow_failure: false,
            manual: reading.manual,
            needs: None,
            at,
        })
    }

    async fn statuses(&self, repo: &Repo, sha: &CommitSha, at: Timestamp) -> Result<Vec<JobObservation>, CallError> {
        let path = format!("{}/commits/{sha}/statuses", repo_path(repo));
        // Newest first: the first of a context stands. Contexts are not case sensitive.
        let listed: Vec<CommitStatus> = self.api.pages::<Vec<CommitStatus>>(repo, &path, READ_STATUSES).await?;
        let mut seen = HashSet::new();
        let standing = listed.into_iter().filter(|status| seen.insert(status.context.to_lowercase()));
        let foreign = standing
            .filter(|status| !status.creator.as_ref().is_some_and(|creator| self.hooks.is_own_login(&creator.login)));
        Ok(foreign.map(|status| status_job(status, at)).collect())
    }

    /// The contexts that rulesets and, where we may read it, the classic protection of a branch require.
    pub(super) async fn required_contexts(&self, repo: &Repo, base_ref: &str) -> Result<Vec<String>, CallError> {
        let branch = segment(base_ref);
        let path = format!("{}/rules/branches/{branch}", repo_path(repo));
        let rules = readable(self.api.pages::<Vec<Rule>>(repo, &path, READ_RULES).await)?.unwrap_or_default();
        let checks = rules.into_iter().filter(|rule| rule.kind == "required_status_checks");
        let checks = checks.filter_map(|rule| rule.parameters).flat_map(|found| found.required_status_checks);
        let mut names: BTreeSet<String> = checks.map(|check| check.context).collect();
        let path = format!("{}/branches/{branch}/protection/required_status_checks", repo_path(repo));
        let classic = readable(self.api.get::<ClassicChecks>(repo, &path, READ_RULES).await)?.unwrap_or_default();
        names.extend(classic.contexts);
        names.extend(classic.checks.into_iter().map(|check| check.context));
        Ok(names.into_iter().collect())
    }
}

/// Unprotected (404) and not for us to see (403) are the same here: nothing is known to be required.
fn readable<T>(result: Result<T, Failure>) -> Result<Option<T>, CallError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Failure { status: Some(403 | 404), error: CallError::Refused { .. }, .. }) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Per name the record of the greatest attempt, then of the greatest id.
fn newest_attempts(listed: Vec<ActionsJob>) -> Vec<ActionsJob> {
    let mut best: HashMap<String, ActionsJob> = HashMap::new();
    for job in listed {
        let newer = best.get(&job.name).is_none_or(|known| (known.attempt(), known.id) < (job.attempt(), job.id));
        if newer {
            best.insert(job.name.clone(), job);
        }
    }
    let mut jobs: Vec<ActionsJob> = best.into_values().collect();
    jobs.sort_unstable_by_key(|job| job.id);
    jobs
}

/// Per name and scope the newest run, in a steady order.
fn newest(jobs: impl Iterator<Item = JobObservation>) -> Vec<JobObservation> {
    let mut best: HashMap<(String, String), JobObservation> = HashMap::new();
    for job in jobs {
        let key = (job.scope.clone(), job.name.as_str().to_owned());
        if best.get(&key).is_none_or(|known| known.order < job.order) {
            best.insert(key, job);
        }
    }
    let mut jobs: Vec<JobObservation> = best.into_values().collect();
    jobs.sort_unstable_by(|a, b| (a.order, a.name.as_str()).cmp(&(b.order, b.name.as_str())));
    jobs
}

fn actions_job(job: ActionsJob, workflow: &str, at: Timestamp) -> JobObservation {
    let reading = words::actions_job(&job.status, job.conclusion.as_deref(), job.ran());
    let attempt = job.attempt();
    JobObservation {
        run: RunRef::new(format!("{}/{attempt}/{}", job.run_id, job.id)),
        order: RunOrder(signed(job.run_id), signed(attempt)),
        group: Some(job.run_id.to_string()),
        scope: job.workflow_name.unwrap_or_else(|| workflow.to_owned()),
        name: JobName::new(job.name),
        origin: Origin::Actions,
        state: reading.state,
        cause: reading.cause,
        url: job.html_url,
        allow_failure: false,
        manual: reading.manual,
        needs: None,
        at,
    }
}

fn status_job(status: CommitStatus, at: Timestamp) -> JobObservation {
    let reading = words::status(&status.state);
    let posted = status.updated_at.as_deref().and_then(timestamp).unwrap_or(at);
    JobObservation {
        name: JobName::new(status.context),
        scope: String::new(),
        origin: Origin::Status,
        run: RunRef::new(status.id.to_string()),
        order: RunOrder(posted.ms(), 0),
        group: None,
        state: reading.state,
        cause: reading.cause,
        url: status.target_url.filter(|url| !url.is_empty()),
        allow_failure: false,
        manual: reading.manual,
        needs: None,
        at,
    }
}
