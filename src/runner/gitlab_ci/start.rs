//! The way of one order: retry the run, and where GitLab says that it cannot be retried, find out why.
//!
//! One request with an effect leaves per order. A refused retry changed nothing, so that a manual job may be played
//! after it, and a job that somebody else has restarted meanwhile is adopted: both grant the wish.

use super::{Handle, order_of};
use crate::api::gitlab::{Failure, GitLabClient, JobAddress, JobWords, PipelineAddress, never_retry, read_job, wire};
use crate::domain::{JobState, RunHandle};
use crate::ports::{CallError, DispatchOrder, Found, JobOrder, Started};

const IN_FORK: &str = "it runs in the fork that the merge request comes from, out of the bot's reach: its author can retry \
                       it there, or a maintainer can run a pipeline for the merge request in this project";
const NEVER_RAN: &str = "it has no job in a pipeline of this head, and GitLab restarts only jobs that exist: push a \
                         commit, or run a new pipeline for the merge request";
const NOT_RETRYABLE: &str = "GitLab does not let this job be retried: its pipeline is archived or the job was erased; run a \
                             new pipeline for the merge request";
const STILL_RUNNING: &str = "its newest run is not over yet; wait for its end";

/// Which jobs of a pipeline are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// The newest of each name.
    Current,
    /// Those that were retried too.
    All,
}

/// Where the job of an order lives.
struct Target<'a> {
    order: &'a JobOrder,
    home: u64,
    source: Option<JobAddress>,
    group: Option<PipelineAddress>,
}

impl<'a> Target<'a> {
    fn of(order: &'a DispatchOrder) -> Result<Self, CallError> {
        let [job] = order.jobs.as_slice() else {
            return Err(CallError::refused("GitLab restarts one job per call"));
        };
        let home = order.repo.key.id;
        let group = order.group.as_deref().and_then(|group| PipelineAddress::parse(group, home));
        if group.is_some_and(|group| group.in_fork) {
            return Err(CallError::refused(IN_FORK));
        }
        let source = job.source_run.as_ref().and_then(|run| JobAddress::parse(run.as_str(), home));
        Ok(Self { order: job, home, source, group })
    }

    /// The pipeline: as told, else as the source job says.
    async fn pipeline(&self, client: &GitLabClient) -> Result<Option<PipelineAddress>, Failure> {
        let (Some(source), None) = (self.source, self.group) else { return Ok(self.group) };
        let job = client.job(source).await?;
        let pipeline = job.pipeline.map(|p| p.id);
        Ok(pipeline.map(|pipeline| PipelineAddress { project: source.project, pipeline, in_fork: false }))
    }

    fn started(&self, project: u64, job: u64, url: Option<String>) -> Started {
        let pipeline = self.group.map(|group| group.pipeline);
        let handle = Handle { project, job, pipeline, name: self.order.job.as_str().to_owned() };
        // A struct of numbers and texts always becomes JSON; the plain name would be understood as well.
        let plain = JobAddress { project, job }.run_ref(self.home);
        let id = serde_json::to_string(&handle).unwrap_or(plain);
        Started { runs: vec![(self.order.key.clone(), RunHandle { id, order: order_of(job), url })], also: Vec::new() }
    }

    /// Whether this job is a later run than the one that is to be repeated.
    fn is_newer(&self, job: &wire::Job) -> bool {
        order_of(job.id) > self.order.source_order && self.source.is_none_or(|source| job.id > source.job)
    }
}

/// Starts the job.
pub(super) async fn dispatch(client: &GitLabClient, order: &DispatchOrder) -> Result<Started, CallError> {
    let target = Target::of(order)?;
    let Some(source) = target.source else {
        return Ok(first_run(client, &target).await?);
    };
    if let Some(why) = client.known_hopeless(source) {
        return Err(hopeless(why));
    }
    match client.retry_job(source).await {
        Ok(job) => Ok(target.started(source.project, job.id, job.web_url)),
        Err(failure) if failure.says(403, "not retryable") => Ok(not_retryable(client, &target, source).await?),
        Err(failure) => Err(failure.into()),
    }
}

fn hopeless(why: &str) -> CallError {
    CallError::refused(format!("a retry cannot help: {why}; run a new pipeline for the merge request"))
}

/// A job without a run: only a manual one that waits in the pipeline can be started.
async fn first_run(client: &GitLabClient, target: &Target<'_>) -> Result<Started, Failure> {
    let Some(pipeline) = target.group else { return Err(Failure::refused(NEVER_RAN)) };
    match newest(client, pipeline, target.order.job.as_str(), Which::Current).await? {
        Some(job) if job.status == "manual" => play(client, target, pipeline.project, &job).await,
        Some(job) if !state(&job).is_final() => Ok(target.started(pipeline.project, job.id, job.web_url)),
        Some(job) => {
            let address = JobAddress { project: pipeline.project, job: job.id };
            let new = client.retry_job(address).await?;
            Ok(target.started(pipeline.project, new.id, new.web_url))
        }
        None => Err(Failure::refused(NEVER_RAN)),
    }
}

/// GitLab refused the retry: the job waits for its first start, or was restarted by somebody else, or is not over.
async fn not_retryable(client: &GitLabClient, target: &Target<'_>, source: JobAddress) -> Result<Started, Failure> {
    let Some(pipeline) = target.pipeline(client).await? else { return Err(Failure::refused(NOT_RETRYABLE)) };
    let Some(job) = newest(client, pipeline, target.order.job.as_str(), Which::Current).await? else {
        return Err(Failure::refused(NOT_RETRYABLE));
    };
    if job.status == "manual" {
        return play(client, target, pipeline.project, &job).await;
    }
    if target.is_newer(&job) {
        return Ok(target.started(source.project, job.id, job.web_url));
    }
    let why = job.failure_reason.as_deref().filter(|_| job.status == "failed").and_then(never_retry);
    let text = match why {
        Some(why) => return Err(Failure { error: hopeless(why), status: None, message: String::new() }),
        None if !state(&job).is_final() => STILL_RUNNING,
        None => NOT_RETRYABLE,
    };
    Err(Failure::refused(text))
}

async fn play(client: &GitLabClient, target: &Target<'_>, project: u64, job: &wire::Job) -> Result<Started, Failure> {
    let played = client.play_job(JobAddress { project, job: job.id }).await?;
    Ok(target.started(project, played.id, played.web_url))
}

/// Whether the order was taken: a newer job of the name exists, or a manual one does not wait any more.
pub(super) async fn find(client: &GitLabClient, order: &DispatchOrder) -> Result<Found, CallError> {
    let target = Target::of(order)?;
    let Some(pipeline) = target.pipeline(client).await? else { return Ok(Found::CannotTell) };
    let job = newest(client, pipeline, target.order.job.as_str(), Which::All).await?;
    Ok(match job {
        Some(job) if target.is_newer(&job) => Found::Sent(target.started(pipeline.project, job.id, job.web_url)),
        // The source run itself: a played job keeps its id, and then it is on its way.
        Some(job) if job.status != "manual" && !state(&job).is_final() => {
            Found::Sent(target.started(pipeline.project, job.id, job.web_url))
        }
        Some(_) | None => Found::NotSent,
    })
}

fn state(job: &wire::Job) -> JobState {
    let words = JobWords { status: &job.status, stage: &job.stage, ..JobWords::default() };
    read_job(words).state
}

/// The newest job or bridge of that name in a pipeline.
pub(super) async fn newest(
    client: &GitLabClient,
    pipeline: PipelineAddress,
    name: &str,
    which: Which,
) -> Result<Option<wire::Job>, Failure> {
    let jobs = match which {
        Which::Current => client.pipeline_jobs(pipeline).await?,
        Which::All => client.pipeline_jobs_and_retried(pipeline).await?,
    };
    let newest = |jobs: Vec<wire::Job>| jobs.into_iter().filter(|job| job.name == name).max_by_key(|job| job.id);
    match newest(jobs) {
        Some(job) => Ok(Some(job)),
        None => Ok(newest(client.bridges(pipeline).await?)),
    }
}
