//! GitLab CI as a runner: a retry is a new job of the same name in the same pipeline.
//!
//! Jobs run in the pipeline that the merge request has already; this module never makes a pipeline, because that would
//! run foreign code with the project's rights. Jobs that run in a fork are refused with the reason. A lost answer is
//! harmless: GitLab retries a job once, and the newer job of that name is found again ([`Runner::find`]).
//! Read next: `start.rs` for the way of one order, `../../api/gitlab/calls.rs` for the calls.

mod log;
mod start;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::api::gitlab::{Failure, GitLabClient, JobAddress, JobWords, PipelineAddress, read_job, wire};
use crate::domain::{JobName, JobState, Repo, RunHandle, RunObservation, RunOrder, RunRef, RunnerName};
use crate::ports::{
    Abilities, CallError, DispatchError, DispatchOrder, Found, LogTail, Runner, RunnerKind, Started, SuccessorNaming,
};

/// The CI of one GitLab instance.
pub struct GitLabCi {
    name: RunnerName,
    abilities: Abilities,
    client: Arc<GitLabClient>,
}

/// What a handle holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Handle {
    project: u64,
    job: u64,
    pipeline: Option<u64>,
    name: String,
}

impl GitLabCi {
    /// A runner that speaks through `client`, the same as the forge of that instance uses.
    pub fn new(name: RunnerName, client: Arc<GitLabClient>) -> Self {
        let abilities = Abilities {
            successor: SuccessorNaming::NewId,
            reported_by_forge: true,
            restarts_group: false,
            needs_group_over: false,
            // Later jobs that were skipped because of the failed one run after it.
            runs_dependents: true,
            age_max: None,
            restarts_max: None,
            finds_by_key: true,
            takes_overrides: false,
            cancels: true,
            // A manual job can be started for the first time, but it is reported already, waiting.
            starts_fresh: false,
            // A pipeline in the fork is refused by itself; one that a maintainer ran in this project is in reach.
            out_of_reach_for_forks: false,
            tails_log: true,
        };
        Self { name, abilities, client }
    }
}

fn order_of(job: u64) -> RunOrder {
    RunOrder(i64::try_from(job).unwrap_or(i64::MAX), 0)
}

fn address_of(handle: &RunHandle, home: u64) -> Result<(JobAddress, Option<Handle>), CallError> {
    if let Ok(own) = serde_json::from_str::<Handle>(&handle.id) {
        return Ok((JobAddress { project: own.project, job: own.job }, Some(own)));
    }
    // Logs are also read of runs that we did not start: their handle is the run's name.
    let plain = JobAddress::parse(&handle.id, home);
    plain.map(|address| (address, None)).ok_or_else(|| CallError::refused("this is no run of GitLab CI"))
}

fn observed(job: &wire::Job, run: Option<RunRef>) -> RunObservation {
    let words = JobWords {
        status: &job.status,
        failure_reason: job.failure_reason.as_deref(),
        stage: &job.stage,
        has_runner: job.runner.is_some(),
    };
    let reading = read_job(words);
    RunObservation {
        state: reading.state,
        cause: reading.cause,
        url: job.web_url.clone(),
        run,
        order: order_of(job.id),
    }
}

/// Whether GitLab's own `retry:` may have put a newer job in this one's place: that one decides. Newer versions tell.
fn may_have_successor(job: &wire::Job, state: JobState) -> bool {
    let failed = matches!(state, JobState::Failed | JobState::Infrastructure | JobState::TimedOut);
    failed && job.retried != Some(false)
}

#[async_trait]
impl Runner for GitLabCi {
    fn name(&self) -> &RunnerName {
        &self.name
    }

    fn kind(&self) -> RunnerKind {
        RunnerKind::GitLabCi
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        Ok(start::dispatch(&self.client, order).await?)
    }

    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        start::find(&self.client, order).await
    }

    async fn observe(&self, repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let (address, own) = address_of(handle, repo.key.id)?;
        let job = self.client.job(address).await?;
        let seen = observed(&job, None);
        let pipeline = job.pipeline.as_ref().map(|p| p.id).or_else(|| own.and_then(|own| own.pipeline));
        if let (Some(pipeline), true) = (pipeline, may_have_successor(&job, seen.state)) {
            let pipeline = PipelineAddress { project: address.project, pipeline, in_fork: false };
            let newest = start::newest(&self.client, pipeline, &job.name, start::Which::Current).await?;
            if let Some(newer) = newest.filter(|newest| newest.id > job.id) {
                let run = JobAddress { project: address.project, job: newer.id }.run_ref(repo.key.id);
                return Ok(observed(&newer, Some(RunRef::new(run))));
            }
        }
        Ok(seen)
    }

    async fn cancel(&self, repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<(), CallError> {
        let (address, _) = address_of(handle, repo.key.id)?;
        let Err(refused) = self.client.cancel_job(address).await else { return Ok(()) };
        match &refused {
            // GitLab's answer for a job that is over differs between versions: look whether it is.
            Failure { error: CallError::Refused { .. }, .. } => {
                let job = self.client.job(address).await?;
                if observed(&job, None).state.is_final() { Ok(()) } else { Err(refused.into()) }
            }
            _ => Err(refused.into()),
        }
    }

    async fn log_tail(&self, repo: &Repo, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError> {
        let (address, _) = address_of(handle, repo.key.id)?;
        // Colours and marks take room: read twice as much, then clean and cut.
        let (raw, cut) = self.client.trace_tail(address, bytes_max.saturating_mul(2)).await?;
        let text = log::readable(&raw, cut, bytes_max);
        let cut = cut || text.len() >= bytes_max;
        Ok(LogTail { text, cut })
    }
}
