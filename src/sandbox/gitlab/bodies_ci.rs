//! The JSON of pipelines, jobs, bridges and commit statuses as REST shows them.
//!
//! Read next: `payloads.rs`.

use serde_json::{Value, json};

use super::bodies::{extend, iso};
use super::state::{Job, JobKind, Pipeline, State};

/// Seconds between two moments.
pub(super) fn seconds(from: Option<i64>, to: Option<i64>) -> Option<f64> {
    from.zip(to).map(|(from, to)| (to - from) as f64 / 1_000.0)
}

impl State {
    pub fn pipeline_url(&self, pipeline: &Pipeline) -> String {
        format!("{}/-/pipelines/{}", self.web_url(self.project(pipeline.project)), pipeline.id)
    }

    /// A pipeline in a list, and inside a job.
    pub fn pipeline_row(&self, pipeline: &Pipeline) -> Value {
        json!({
            "id": pipeline.id,
            "iid": pipeline.iid,
            "project_id": pipeline.project,
            "sha": pipeline.sha,
            "ref": pipeline.git_ref,
            "status": pipeline.status,
            "source": pipeline.source,
            "created_at": iso(pipeline.created_ms),
            "updated_at": iso(pipeline.updated_ms),
            "web_url": self.pipeline_url(pipeline),
        })
    }

    /// A single pipeline.
    pub fn pipeline_body(&self, pipeline: &Pipeline) -> Value {
        let mut body = self.pipeline_row(pipeline);
        let icon = format!("status_{}", pipeline.status);
        let more = json!({
            "before_sha": "0000000000000000000000000000000000000000",
            "tag": false,
            "name": null,
            "yaml_errors": null,
            "user": self.user_body(pipeline.user),
            "started_at": pipeline.started_ms.map(iso),
            "finished_at": pipeline.finished_ms.map(iso),
            "committed_at": null,
            "duration": seconds(pipeline.started_ms, pipeline.finished_ms).map(|seconds| seconds as i64),
            "queued_duration": null,
            "coverage": null,
            "archived": pipeline.archived,
            "detailed_status": {
                "icon": icon, "text": label(pipeline.status), "label": label(pipeline.status),
                "group": pipeline.status, "tooltip": label(pipeline.status), "has_details": true,
                "details_path": format!("/-/pipelines/{}", pipeline.id), "illustration": null, "favicon": "",
            },
        });
        extend(&mut body, more);
        body
    }

    pub fn job_url(&self, job: &Job) -> String {
        format!("{}/-/jobs/{}", self.web_url(self.project(job.project)), job.id)
    }

    /// A job, or a bridge with what it triggered.
    pub fn job_body(&self, job: &Job) -> Value {
        let pipeline = self.pipeline(job.pipeline);
        let mut body = json!({
            "id": job.id,
            "status": job.status,
            "stage": job.new.stage,
            "name": job.new.name,
            "ref": pipeline.git_ref,
            "tag": false,
            "coverage": null,
            "allow_failure": job.new.allow_failure,
            "created_at": iso(job.created_ms),
            "started_at": job.started_ms.map(iso),
            "finished_at": job.finished_ms.map(iso),
            "erased_at": null,
            "duration": seconds(job.started_ms, job.finished_ms),
            "queued_duration": seconds(Some(job.created_ms), job.started_ms),
            "user": self.user_body(job.user),
            "commit": {
                "id": pipeline.sha,
                "short_id": pipeline.sha.get(..8),
                "title": "A commit of the sandbox",
                "created_at": iso(pipeline.created_ms),
                "message": "A commit of the sandbox\n",
                "author_name": self.person(pipeline.user).name,
            },
            "pipeline": self.pipeline_row(pipeline),
            "web_url": self.job_url(job),
            "project": {"ci_job_token_scope_enabled": false},
        });
        if let Some(reason) = &job.failure_reason {
            extend(&mut body, json!({ "failure_reason": reason }));
        }
        let more = match job.kind {
            JobKind::Bridge => {
                let downstream = job.downstream.map(|id| self.pipeline_row(self.pipeline(id)));
                json!({ "downstream_pipeline": downstream })
            }
            JobKind::Build | JobKind::Status => json!({
                "artifacts": [],
                "runner": job.runner.then(runner_body),
                "runner_manager": null,
                "artifacts_expire_at": null,
                "archived": pipeline.archived,
                "tag_list": [],
            }),
        };
        extend(&mut body, more);
        body
    }

    /// A job or status as the list of commit statuses shows it.
    pub fn status_body(&self, job: &Job) -> Value {
        let pipeline = self.pipeline(job.pipeline);
        let url = match job.kind {
            JobKind::Status => job.target_url.clone(),
            JobKind::Build | JobKind::Bridge => Some(self.job_url(job)),
        };
        json!({
            "id": job.id,
            "sha": pipeline.sha,
            "ref": job.git_ref,
            "status": job.status,
            "name": job.new.name,
            "target_url": url,
            "description": job.description,
            "created_at": iso(job.created_ms),
            "started_at": job.started_ms.map(iso),
            "finished_at": job.finished_ms.map(iso),
            "allow_failure": job.new.allow_failure,
            "coverage": null,
            "pipeline_id": job.pipeline,
            "author": self.user_body(job.user),
        })
    }
}

/// The one runner of the sandbox, as REST shows it.
fn runner_body() -> Value {
    json!({
        "id": 11, "description": "sandbox runner", "ip_address": null, "active": true, "paused": false,
        "is_shared": true, "runner_type": "instance_type", "name": "gitlab-runner", "online": true,
        "created_by": null, "created_at": iso(0), "status": "online", "job_execution_status": "idle",
    })
}

/// The word of a status as people read it.
pub(super) fn label(status: &str) -> &str {
    match status {
        "success" => "passed",
        "manual" => "blocked",
        other => other,
    }
}
