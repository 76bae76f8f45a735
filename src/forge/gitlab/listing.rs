//! Every job of a merge request's head: its pipelines, what they trigger, and foreign commit statuses.
//!
//! Per source (branch push, merge request event …) the newest pipeline counts. Pipelines that live in the fork are
//! listed as far as they can be seen and marked, so that the runner can say why it cannot restart their jobs.

use std::collections::{BTreeMap, HashSet};

use super::GitLabForge;
use super::jobs::{self, JobFacts, PipelineFacts, observation};
use crate::api::gitlab::{JobWords, Needs, PipelineAddress, wire};
use crate::domain::{Change, JobObservation, Repo};
use crate::ports::CallError;

/// How deep triggered pipelines are followed: GitLab lets child pipelines have children, no deeper.
const DEPTH_MAX: u32 = 2;
/// How many pipelines of one head are read at most.
const PIPELINES_MAX: usize = 60;

/// A pipeline still to be read.
struct Todo {
    address: PipelineAddress,
    iid: Option<u64>,
    depth: u32,
    /// The bridge that triggered it: told in its place where the pipeline itself cannot be seen.
    bridge: Option<(wire::Job, PipelineFacts)>,
    wire: wire::Pipeline,
}

/// Lists them.
pub(super) async fn list_jobs(
    forge: &GitLabForge,
    repo: &Repo,
    change: &Change,
) -> Result<Vec<JobObservation>, CallError> {
    let home = repo.key.id;
    let pipelines = forge.client.merge_request_pipelines(home, change.key.number).await?;
    let mut listing = Listing { forge, repo, jobs: Vec::new(), ids: HashSet::new(), pipelines: HashSet::new() };
    let mut todo: Vec<Todo> = pipelines_of_head(pipelines, change)
        .into_iter()
        .map(|wire| {
            let project = wire.project_id.unwrap_or(home);
            let address = PipelineAddress { project, pipeline: wire.id, in_fork: project != home };
            Todo { address, iid: wire.iid, depth: 0, bridge: None, wire }
        })
        .collect();
    while let Some(next) = todo.pop() {
        if listing.pipelines.len() < PIPELINES_MAX && listing.pipelines.insert(next.address.pipeline) {
            todo.extend(listing.read(next).await?);
        }
    }
    listing.statuses(change).await?;
    jobs::remember_causes(&forge.client, home, &listing.jobs);
    Ok(listing.jobs)
}

/// The newest pipeline per source among those of the head. A merged-results pipeline has another commit: it belongs to the
/// head when GitLab shows it as the head pipeline. A merge train's is about the train's commit and about no other.
fn pipelines_of_head(all: Vec<wire::Pipeline>, change: &Change) -> Vec<wire::Pipeline> {
    let mut newest: BTreeMap<String, wire::Pipeline> = BTreeMap::new();
    for pipeline in all {
        let of_head = pipeline.sha.eq_ignore_ascii_case(change.head.as_str());
        let of_train = pipeline.git_ref.ends_with("/train");
        if !of_head && (of_train || change.head_pipeline != Some(pipeline.id)) {
            continue;
        }
        let source = pipeline.source.clone().unwrap_or_default();
        // Pipelines of statuses alone hold no jobs, and triggered ones are reached through their bridge.
        if source == "external" || source == "parent_pipeline" {
            continue;
        }
        if newest.get(&source).is_none_or(|known| known.id < pipeline.id) {
            newest.insert(source, pipeline);
        }
    }
    newest.into_values().collect()
}

struct Listing<'a> {
    forge: &'a GitLabForge,
    repo: &'a Repo,
    jobs: Vec<JobObservation>,
    /// Ids of all jobs and bridges seen: the list of statuses repeats them.
    ids: HashSet<u64>,
    pipelines: HashSet<u64>,
}

impl Listing<'_> {
    /// Reads one pipeline and names those that it triggered.
    async fn read(&mut self, next: Todo) -> Result<Vec<Todo>, CallError> {
        let client = &self.forge.client;
        let home = self.repo.key.id;
        let facts = PipelineFacts { address: next.address, home, downstream: next.depth > 0, at: client.now() };
        let jobs = match client.pipeline_jobs(next.address).await.map_err(CallError::from) {
            Ok(jobs) => jobs,
            Err(CallError::Refused { .. }) if next.depth > 0 || next.address.in_fork => {
                self.stand_in(next, &facts);
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let mut needs = self.needs(&next, !jobs.is_empty()).await;
        // What may fail is not waited for: its failure does not keep a job from running again.
        let optional: HashSet<&str> =
            jobs.iter().filter(|job| job.allow_failure).map(|job| job.name.as_str()).collect();
        needs.values_mut().for_each(|names| names.retain(|name| !optional.contains(name.as_str())));
        for job in &jobs {
            self.ids.insert(job.id);
            self.jobs.push(observation(&facts, &job_facts(job, needs.get(&job.name))));
        }
        if next.address.in_fork {
            return Ok(Vec::new());
        }
        let bridges = match client.bridges(next.address).await.map_err(CallError::from) {
            Err(CallError::Refused { .. }) if next.depth > 0 => Vec::new(),
            other => other?,
        };
        let mut found = Vec::new();
        for mut bridge in bridges {
            self.ids.insert(bridge.id);
            match bridge.downstream_pipeline.take() {
                Some(wire) if next.depth < DEPTH_MAX => {
                    let project = wire.project_id.unwrap_or(next.address.project);
                    let address = PipelineAddress { project, pipeline: wire.id, in_fork: false };
                    let bridge = Some((bridge, facts));
                    found.push(Todo { address, iid: wire.iid, depth: next.depth + 1, bridge, wire });
                }
                // It failed to trigger anything, or deeper than is followed: the bridge itself is the job.
                _ => self.jobs.push(observation(&facts, &job_facts(&bridge, None))),
            }
        }
        Ok(found)
    }

    /// A pipeline whose jobs cannot be seen is told by its bridge, or, in a fork, as one job that cannot be restarted:
    /// silence would say that nothing failed.
    fn stand_in(&mut self, hidden: Todo, facts: &PipelineFacts) {
        if let Some((bridge, above)) = &hidden.bridge {
            self.jobs.push(observation(above, &job_facts(bridge, None)));
            return;
        }
        let words = JobWords { status: &hidden.wire.status, ..JobWords::default() };
        let job = JobFacts {
            id: hidden.address.pipeline,
            name: "pipeline in the fork",
            words,
            allow_failure: false,
            url: hidden.wire.web_url.clone(),
            needs: None,
        };
        self.jobs.push(observation(facts, &job));
    }

    /// Only GraphQL knows needs; an instance that does not answer it is served without.
    async fn needs(&self, pipeline: &Todo, has_jobs: bool) -> Needs {
        let here = pipeline.address.project == self.repo.key.id && has_jobs;
        let Some(iid) = pipeline.iid.filter(|_| here) else { return Needs::new() };
        match self.forge.client.needs(&self.repo.full_name, iid).await {
            Ok(needs) => needs,
            Err(failure) => {
                tracing::debug!(pipeline = pipeline.address.pipeline, error = %failure, "needs are not known");
                Needs::new()
            }
        }
    }

    async fn statuses(&mut self, change: &Change) -> Result<(), CallError> {
        let home = self.repo.key.id;
        let statuses = match self.forge.client.commit_statuses(home, change.head.as_str()).await {
            Ok(statuses) => statuses,
            Err(failure) if failure.status == Some(404) => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        for status in statuses {
            let page = format!("/-/jobs/{}", status.id);
            let is_job =
                self.ids.contains(&status.id) || status.target_url.as_deref().is_some_and(|u| u.ends_with(&page));
            if is_job || self.forge.is_mine(status.author.as_ref()).await {
                continue;
            }
            let address = PipelineAddress { project: home, pipeline: 0, in_fork: false };
            let facts = PipelineFacts { address, home, downstream: false, at: self.forge.client.now() };
            // As GitLab stores them: in the stage `external`, without a runner.
            let words = JobWords { status: &status.status, stage: "external", ..JobWords::default() };
            let job = JobFacts {
                id: status.id,
                name: &status.name,
                words,
                allow_failure: status.allow_failure,
                url: status.target_url.clone(),
                needs: None,
            };
            self.jobs.push(observation(&facts, &job));
        }
        Ok(())
    }
}

fn job_facts<'a>(job: &'a wire::Job, needs: Option<&'a Vec<String>>) -> JobFacts<'a> {
    let words = JobWords {
        status: &job.status,
        failure_reason: job.failure_reason.as_deref(),
        stage: &job.stage,
        has_runner: job.runner.is_some(),
    };
    let allow_failure = job.allow_failure;
    JobFacts { id: job.id, name: &job.name, words, allow_failure, url: job.web_url.clone(), needs }
}
