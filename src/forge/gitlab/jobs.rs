//! Jobs of GitLab CI in our words, the same whether a webhook or a listing tells them.

use crate::api::gitlab::{GitLabClient, JobAddress, JobWords, PipelineAddress, read_job};
use crate::domain::{JobName, JobObservation, Origin, RunOrder, RunRef, Timestamp};

/// What is common to the jobs of one pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineFacts {
    /// Which pipeline.
    pub address: PipelineAddress,
    /// The project of the change.
    pub home: u64,
    /// Whether another pipeline triggered it.
    pub downstream: bool,
    /// When the report was made.
    pub at: Timestamp,
}

impl PipelineFacts {
    /// What the names of its jobs are unique in. Downstream pipelines come many to a revision, often with the same
    /// names of jobs: each is a scope of its own, by its id, which is all that webhooks and listings both tell.
    pub fn scope(&self) -> String {
        if self.downstream { format!("pipeline {}", self.address.pipeline) } else { String::new() }
    }
}

/// What is told of one job.
#[derive(Clone, Debug)]
pub(super) struct JobFacts<'a> {
    /// Instance-wide id.
    pub id: u64,
    /// Name.
    pub name: &'a str,
    /// State words.
    pub words: JobWords<'a>,
    /// Whether the pipeline passes without it.
    pub allow_failure: bool,
    /// Page.
    pub url: Option<String>,
    /// What it needs, where known.
    pub needs: Option<&'a Vec<String>>,
}

/// The observation of one job.
pub(super) fn observation(pipeline: &PipelineFacts, job: &JobFacts<'_>) -> JobObservation {
    let reading = read_job(job.words);
    let address = JobAddress { project: pipeline.address.project, job: job.id };
    JobObservation {
        name: JobName::new(job.name),
        scope: pipeline.scope(),
        origin: if reading.external { Origin::Status } else { Origin::GitLabCi },
        run: RunRef::new(address.run_ref(pipeline.home)),
        order: order(job.id),
        group: (!reading.external).then(|| pipeline.address.group(pipeline.home)),
        state: reading.state,
        cause: reading.cause,
        url: job.url.clone(),
        allow_failure: job.allow_failure,
        manual: reading.manual,
        needs: job.needs.map(|names| names.iter().map(|name| JobName::new(name.as_str())).collect()),
        at: pipeline.at,
    }
}

/// Job ids rise: the greater is the newer run.
pub(super) fn order(id: u64) -> RunOrder {
    RunOrder(i64::try_from(id).unwrap_or(i64::MAX), 0)
}

/// Tells the client which of these no retry can mend, for the runner.
pub(super) fn remember_causes(client: &GitLabClient, home: u64, jobs: &[JobObservation]) {
    for job in jobs {
        if let (Some(cause), Some(address)) = (&job.cause, JobAddress::parse(job.run.as_str(), home)) {
            client.remember_cause(address, cause);
        }
    }
}
