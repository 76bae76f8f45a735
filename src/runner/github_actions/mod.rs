//! GitHub Actions as a runner: restarts jobs of a workflow run, and follows them by attempt.
//!
//! GitHub has no key for a restart and answers with no id. What stands in for both is the attempt number: a restart
//! can only be taken when the whole run is over, and every restart makes a new attempt. So a second request for the
//! same job is refused by GitHub itself, and a lost answer is settled by looking for the job in a newer attempt.
//! It never approves runs of first-time contributors, and starts nothing that has not run before.

mod handle;
mod log;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::handle::{Handle, SourceRun, order};
use self::log::Ring;
use crate::api::github::wire::{ActionsJob, JobPage, WorkflowRun};
use crate::api::github::{Failure, GitHubApi, Need, Write, repo_path, words};
use crate::domain::{JobName, JobState, Repo, RunHandle, RunObservation, RunnerName, WaitOn};
use crate::ports::{
    Abilities, CallError, DispatchError, DispatchOrder, Found, JobOrder, LogTail, Runner, RunnerKind, Started,
    SuccessorNaming,
};

/// GitHub restarts runs for 30 days.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Restarts of one run; beyond it GitHub still answers 201, and the attempt fails without running.
const RESTARTS_MAX: u32 = 50;
/// When to look again at a run that is not over, should its end not be heard of.
const PARKED_LOOK: Duration = Duration::from_secs(30);

const RESTART: Need = Need { doing: "restart jobs", permission: "Actions: write" };
const CANCEL: Need = Need { doing: "cancel the workflow run", permission: "Actions: write" };
const READ: Need = Need { doing: "read the workflow run", permission: "Actions: read" };
const READ_LOG: Need = Need { doing: "read the job's log", permission: "Actions: read" };

/// GitHub Actions of one configured GitHub.
#[derive(Debug)]
pub struct GitHubActions {
    name: RunnerName,
    api: Arc<GitHubApi>,
    abilities: Abilities,
}

impl GitHubActions {
    /// The runner of that name; share the forge's client, so that limits and tokens are shared.
    pub const fn new(name: RunnerName, api: Arc<GitHubApi>) -> Self {
        let abilities = Abilities {
            successor: SuccessorNaming::NewAttempt,
            reported_by_forge: true,
            restarts_group: true,
            needs_group_over: true,
            runs_dependents: true,
            age_max: Some(AGE_MAX),
            restarts_max: Some(RESTARTS_MAX),
            finds_by_key: true,
            takes_overrides: false,
            cancels: true,
            starts_fresh: false,
            out_of_reach_for_forks: false,
            tails_log: true,
        };
        Self { name, api, abilities }
    }

    async fn run(&self, repo: &Repo, run: u64) -> Result<WorkflowRun, Failure> {
        self.api.get(repo, &format!("{}/actions/runs/{run}", repo_path(repo)), READ).await
    }

    /// The newest record of a job in one attempt. Records carried over from earlier attempts do not count.
    async fn job_in(&self, repo: &Repo, handle: &Handle, attempt: u64) -> Result<Option<ActionsJob>, Failure> {
        let path = format!("{}/actions/runs/{}/attempts/{attempt}/jobs", repo_path(repo), handle.run);
        let listed = match self.api.pages::<JobPage>(repo, &path, READ).await {
            Ok(listed) => listed,
            // The attempt is not there yet, or the run is gone: the run itself tells which.
            Err(Failure { status: Some(404), .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let ours = listed.into_iter().filter(|job| job.name == handle.job && job.attempt() >= handle.attempt);
        Ok(ours.max_by_key(|job| (job.attempt(), job.id)))
    }

    /// The job's record in the expected attempt or a later one, else the run as it is.
    async fn locate(&self, repo: &Repo, handle: &Handle) -> Result<Result<ActionsJob, WorkflowRun>, Failure> {
        if let Some(job) = self.job_in(repo, handle, handle.attempt).await? {
            return Ok(Ok(job));
        }
        let run = self.run(repo, handle.run).await?;
        let newest = run.run_attempt.unwrap_or(1);
        // Another job of the run may have been restarted in between: ours is then in a later attempt.
        for attempt in (handle.attempt + 1..=newest).rev() {
            if let Some(job) = self.job_in(repo, handle, attempt).await? {
                return Ok(Ok(job));
            }
        }
        Ok(Err(run))
    }

    /// The orders with the runs that they repeat, all of one workflow run.
    fn sources(order: &DispatchOrder) -> Result<Vec<(&JobOrder, SourceRun)>, CallError> {
        let mut sources = Vec::with_capacity(order.jobs.len());
        for job in &order.jobs {
            let source = job.source_run.as_ref().and_then(|run| SourceRun::parse(run.as_str()));
            let source = source.ok_or_else(|| {
                CallError::refused("GitHub Actions restarts only what has run before on this commit; push to start it.")
            })?;
            sources.push((job, source));
        }
        let first = sources.first().map(|(_, source)| source.run);
        if first.is_none() || sources.iter().any(|(_, source)| Some(source.run) != first) {
            return Err(CallError::Refused {
                user: "These jobs do not belong to one workflow run.".to_owned(),
                log: format!("an order for {} jobs of several runs or none", sources.len()),
            });
        }
        Ok(sources)
    }

    fn started(sources: &[(&JobOrder, SourceRun)]) -> Started {
        let runs = sources.iter().map(|(job, source)| {
            let attempt = source.attempt.saturating_add(1);
            let handle = Handle { run: source.run, attempt, job: job.job.as_str().to_owned() };
            (job.key.clone(), handle.to_run(None))
        });
        Started { runs: runs.collect(), also: Vec::new() }
    }
}

/// Says no before GitHub would say yes and run nothing.
fn within_limit(sources: &[(&JobOrder, SourceRun)]) -> Result<(), CallError> {
    let attempts = sources.iter().map(|(_, source)| source.attempt).max().unwrap_or(0);
    // Attempt 1 is no restart, so attempt 51 is the 50th one.
    if attempts <= u64::from(RESTARTS_MAX) {
        return Ok(());
    }
    Err(CallError::refused(format!(
        "GitHub restarts a workflow run at most {RESTARTS_MAX} times, and this one has had them; push to start a new one."
    )))
}

fn is_already_running(failure: &Failure) -> bool {
    failure.status == Some(403) && failure.message.to_ascii_lowercase().contains("already running")
}

fn observation(job: &ActionsJob) -> RunObservation {
    let reading = words::actions_job(&job.status, job.conclusion.as_deref(), job.ran());
    let name = SourceRun { run: job.run_id, attempt: job.attempt(), job: job.id };
    RunObservation {
        state: reading.state,
        cause: reading.cause,
        url: job.html_url.clone(),
        run: Some(name.to_ref()),
        order: order(job.run_id, job.attempt()),
    }
}

#[async_trait]
impl Runner for GitHubActions {
    fn name(&self) -> &RunnerName {
        &self.name
    }

    fn kind(&self) -> RunnerKind {
        RunnerKind::GitHubActions
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        let sources = Self::sources(order)?;
        within_limit(&sources)?;
        let (base, run) = (repo_path(&order.repo), sources[0].1.run);
        let path = if order.whole_group || sources.len() > 1 {
            format!("{base}/actions/runs/{run}/rerun-failed-jobs")
        } else {
            format!("{base}/actions/jobs/{}/rerun", sources[0].1.job)
        };
        match self.api.write(&order.repo, &Write::post(path, None, RESTART)).await {
            Ok(_) => Ok(Self::started(&sources)),
            Err(failure) if is_already_running(&failure) => {
                Err(DispatchError::Parked { on: WaitOn::Group(run.to_string()), look_after: PARKED_LOOK })
            }
            Err(failure) => Err(CallError::from(failure).into()),
        }
    }

    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        let sources = Self::sources(order)?;
        let run = self.run(&order.repo, sources[0].1.run).await?;
        let newest = run.run_attempt.unwrap_or(1);
        let mut runs = Vec::with_capacity(sources.len());
        for (job, source) in &sources {
            let wanted = Handle { run: source.run, attempt: source.attempt + 1, job: job.job.as_str().to_owned() };
            if newest < wanted.attempt {
                return Ok(Found::NotSent);
            }
            match self.locate(&order.repo, &wanted).await? {
                Ok(found) => {
                    let handle = Handle { attempt: found.attempt(), ..wanted };
                    runs.push((job.key.clone(), handle.to_run(found.html_url)));
                }
                // A newer attempt without our job was somebody else's. While it goes on, GitHub refuses a second
                // restart, so that asking again is safe even if our job were still to appear in it.
                Err(_) => return Ok(Found::NotSent),
            }
        }
        Ok(Found::Sent(Started { runs, also: Vec::new() }))
    }

    async fn observe(&self, repo: &Repo, job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let wanted = Handle::parse(&handle.id, job.as_str())?;
        let run = match self.locate(repo, &wanted).await? {
            Ok(job) => return Ok(observation(&job)),
            Err(run) => run,
        };
        let over = run.status.as_deref() == Some("completed") && run.run_attempt.unwrap_or(1) >= wanted.attempt;
        let (state, cause) = if over {
            (JobState::Lost, Some("the job is in no attempt that was made".to_owned()))
        } else {
            (JobState::Pending, None)
        };
        Ok(RunObservation { state, cause, url: handle.url.clone(), run: None, order: handle.order })
    }

    async fn cancel(&self, repo: &Repo, job: &JobName, handle: &RunHandle) -> Result<(), CallError> {
        let wanted = Handle::parse(&handle.id, job.as_str())?;
        // Only the whole run can be cancelled: when our job is over, what goes on is somebody else's.
        if let Ok(job) = self.locate(repo, &wanted).await?
            && job.status == "completed"
        {
            return Ok(());
        }
        let path = format!("{}/actions/runs/{}/cancel", repo_path(repo), wanted.run);
        match self.api.write(repo, &Write::post(path, None, CANCEL)).await {
            Ok(_) | Err(Failure { status: Some(409), .. }) => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn log_tail(&self, repo: &Repo, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError> {
        let job = match SourceRun::parse(&handle.id) {
            Some(source) => source.job,
            None => match self.locate(repo, &Handle::parse(&handle.id, "")?).await? {
                Ok(job) => job.id,
                Err(_) => return Err(CallError::refused("GitHub has no log of this run yet.")),
            },
        };
        let mut ring = Ring::new(bytes_max);
        let path = format!("{}/actions/jobs/{job}/logs", repo_path(repo));
        self.api.download(repo, &path, READ_LOG, |piece| ring.push(piece)).await?;
        Ok(ring.into_tail())
    }
}
