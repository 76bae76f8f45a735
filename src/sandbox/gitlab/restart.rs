//! Retry, play and cancel, of a job and of a whole pipeline, with GitLab's rules of who may and when.
//!
//! A retry makes a new job of the same name under the asker's name and wakes what was skipped because of the old one.
//! Read next: `routes_ci.rs`.

use std::collections::BTreeSet;

use super::engine::is_over;
use super::new::NewPipeline;
use super::state::{JobKind, State};

/// Why a job was not started again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NotRetryable;

impl State {
    /// A job can be retried once it ended, unless something newer took its place or its pipeline is archived.
    pub fn is_retryable(&self, job: u64) -> bool {
        let job = self.job(job);
        let ended = matches!(job.status, "success" | "failed" | "canceled");
        ended && !job.retried && !self.pipeline(job.pipeline).archived && job.kind != JobKind::Status
    }

    /// Retries a job or bridge and answers the new one's id.
    pub fn retry_job(&mut self, id: u64, user: u64) -> Result<u64, NotRetryable> {
        if !self.is_retryable(id) {
            return Err(NotRetryable);
        }
        let new = self.clone_job(id, user);
        self.reset_skipped_after(id);
        self.wake_bridge(self.job(id).pipeline);
        self.advance(self.job(id).pipeline);
        self.trigger_again(id, new, user);
        Ok(new)
    }

    fn clone_job(&mut self, id: u64, user: u64) -> u64 {
        let old = self.job(id).clone();
        let new = self.add_job(old.pipeline, old.kind, old.new, user);
        self.job_mut(new).at_once = true;
        new
    }

    /// A retried bridge makes a whole new downstream pipeline of the same jobs.
    fn trigger_again(&mut self, old: u64, new: u64, user: u64) {
        let Some(downstream) = self.job(old).downstream else { return };
        let bridge = self.job(new);
        let (parent, name) = (bridge.pipeline, bridge.new.name.clone());
        let pipeline = self.pipeline(downstream).clone();
        let mut names = BTreeSet::new();
        let rows = pipeline.jobs.iter().map(|id| self.job(*id)).filter(|job| job.kind != JobKind::Status);
        let jobs = rows.filter(|job| names.insert(&job.new.name)).map(|job| job.new.clone()).collect();
        let new = NewPipeline {
            sha: pipeline.sha,
            git_ref: pipeline.git_ref,
            jobs,
            child_of: Some((parent, name)),
            ..NewPipeline::default()
        };
        self.create_pipeline(pipeline.project, new, user);
    }

    /// What waited for this job and was skipped gets another chance: later stages, and what needs it, however far.
    pub fn reset_skipped_after(&mut self, id: u64) {
        let job = self.job(id);
        let (pipeline, name, user) = (job.pipeline, job.new.name.clone(), job.user);
        let stages = self.pipeline(pipeline).stages.clone();
        let place = |stage: &str| stages.iter().position(|known| known == stage);
        let own = place(&job.new.stage);
        let mut names = vec![name];
        let mut woken = Vec::new();
        loop {
            let dependent = |job: &super::state::Job| {
                let by_needs = job.new.starts_at_once || !job.new.needs.is_empty();
                let later = !by_needs && place(&job.new.stage) > own;
                job.status == "skipped" && (later || job.new.needs.iter().any(|need| names.contains(need)))
            };
            let found: Vec<(u64, String)> = self
                .latest(pipeline)
                .filter(|job| !woken.contains(&job.id) && dependent(job))
                .map(|job| (job.id, job.new.name.clone()))
                .collect();
            if found.is_empty() {
                break;
            }
            for (id, name) in found {
                woken.push(id);
                names.push(name);
            }
        }
        for id in woken {
            let job = self.job_mut(id);
            (job.status, job.user) = ("created", user);
        }
    }

    /// A pipeline that begins anew takes the bridge that triggered it out of its end.
    fn wake_bridge(&mut self, pipeline: u64) {
        let Some(bridge) = self.pipeline(pipeline).bridge else { return };
        if is_over(self.job(bridge).status) && !self.job(bridge).retried {
            self.set_job(bridge, "running", None);
            self.reset_skipped_after(bridge);
        }
    }

    /// Retries every failed or cancelled job of a pipeline.
    pub fn retry_pipeline(&mut self, pipeline: u64, user: u64) {
        let failed = self.latest(pipeline).filter(|job| matches!(job.status, "failed" | "canceled"));
        let failed: Vec<u64> = failed.map(|job| job.id).collect();
        for id in failed {
            // One that is not retryable is left as it is, as on the service.
            self.retry_job(id, user).ok();
        }
    }

    /// Whether a person may start this job: it waits for one, or did once and can be retried.
    pub fn is_playable(&self, id: u64) -> bool {
        let job = self.job(id);
        let waits = job.status == "manual" && !self.pipeline(job.pipeline).archived;
        job.new.manual && (waits || self.is_retryable(id))
    }

    /// Starts a manual job and answers the job that runs: itself, or the new one when it had run before.
    pub fn play_job(&mut self, id: u64, user: u64, variables: Vec<(String, String)>) -> u64 {
        if self.job(id).status != "manual" {
            return self.retry_job(id, user).unwrap_or(id);
        }
        let job = self.job_mut(id);
        (job.user, job.variables) = (user, variables);
        self.set_job(id, "pending", None);
        self.reset_skipped_after(id);
        let pipeline = self.job(id).pipeline;
        self.wake_bridge(pipeline);
        self.advance(pipeline);
        id
    }

    /// Cancels a job that has not ended; one that has stays as it is.
    pub fn cancel_job(&mut self, id: u64) {
        let job = self.job(id);
        if !is_over(job.status) && job.status != "manual" {
            let (pipeline, downstream) = (job.pipeline, job.downstream);
            self.set_job(id, "canceled", None);
            if let Some(downstream) = downstream {
                self.cancel_pipeline(downstream);
            }
            self.advance(pipeline);
        }
    }

    /// Cancels everything in a pipeline that has not ended.
    pub fn cancel_pipeline(&mut self, pipeline: u64) {
        let open = self.latest(pipeline).filter(|job| !is_over(job.status) && job.status != "manual");
        let open: Vec<u64> = open.map(|job| job.id).collect();
        for id in &open {
            self.set_job(*id, "canceled", None);
        }
        for downstream in open.iter().filter_map(|id| self.job(*id).downstream).collect::<Vec<_>>() {
            self.cancel_pipeline(downstream);
        }
        self.advance(pipeline);
    }
}
