//! The bodies of webhooks: note, merge request, pipeline and job, with the field sets and the several ways to write a
//! date of the service.
//!
//! They differ from REST on purpose: the job hook is flat and prefixed, its `commit.id` is the pipeline's id, and the
//! ref of a merge request's pipeline is its source branch. Read next: `payloads_issue.rs`, `events.rs`.

use serde_json::{Value, json};

use super::bodies::{extend, iso, utc, zoned, zulu};
use super::bodies_ci::{label, seconds};
use super::events::ChangeEvent;
use super::state::{Job, JobKind, MergeRequest, Note, On, Pipeline, Project, State};

const NO_SHA: &str = "0000000000000000000000000000000000000000";

impl State {
    /// A person in a webhook.
    pub fn hook_user(&self, id: u64) -> Value {
        let user = self.person(id);
        json!({
            "id": user.id,
            "name": user.name,
            "username": user.username,
            "avatar_url": format!("{}/uploads/-/system/user/avatar/{}/avatar.png", self.base, user.id),
            "email": "[REDACTED]",
        })
    }

    /// A project in a webhook; the old names of some fields are still sent with notes and merge requests.
    pub fn push_hook(&self, project: u64, branch: &str, sha: &str) -> Value {
        json!({
            "object_kind": "push",
            "event_name": "push",
            "before": "0".repeat(40),
            "after": sha,
            "ref": format!("refs/heads/{branch}"),
            "ref_protected": true,
            "checkout_sha": sha,
            "message": null,
            "user_id": 1,
            "user_username": "root",
            "project_id": project,
            "project": self.hook_project(self.project(project), true),
            "commits": [],
            "total_commits_count": 0,
        })
    }

    pub fn hook_project(&self, project: &Project, old_names: bool) -> Value {
        let url = self.web_url(project);
        let (ssh, http) = (format!("git@gitlab.example:{}.git", project.path), format!("{url}.git"));
        let mut body = json!({
            "id": project.id,
            "name": project.name(),
            "description": null,
            "web_url": url,
            "avatar_url": null,
            "git_ssh_url": ssh,
            "git_http_url": http,
            "namespace": project.namespace(),
            "visibility_level": if project.public { 20 } else { 0 },
            "path_with_namespace": project.path,
            "default_branch": project.default_branch,
            "ci_config_path": null,
        });
        if old_names {
            extend(&mut body, json!({"homepage": url, "url": ssh, "ssh_url": ssh, "http_url": http}));
        }
        body
    }

    pub fn hook_repository(&self, project: &Project) -> Value {
        json!({
            "name": project.name(),
            "url": format!("git@gitlab.example:{}.git", project.path),
            "description": null,
            "homepage": self.web_url(project),
        })
    }

    fn hook_commit(&self, project: &Project, sha: &str, at_ms: i64) -> Value {
        json!({
            "id": sha,
            "message": "A commit of the sandbox\n",
            "title": "A commit of the sandbox",
            "timestamp": zoned(at_ms),
            "url": format!("{}/-/commit/{sha}", self.web_url(project)),
            "author": {"name": "Sandbox", "email": "[REDACTED]"},
        })
    }

    pub fn hook_labels(&self, project: u64, labels: &[String]) -> Value {
        let label = |(at, title): (usize, &String)| {
            json!({
                "id": at as u64 + 1,
                "title": title,
                "color": "#3cb371",
                "project_id": project,
                "created_at": utc(0),
                "updated_at": utc(0),
                "template": false,
                "description": null,
                "type": "ProjectLabel",
                "group_id": null,
            })
        };
        labels.iter().enumerate().map(label).collect()
    }

    /// A merge request inside a webhook.
    fn hook_change(&self, change: &MergeRequest) -> Value {
        let target = self.project(change.project);
        let mut body = json!({
            "id": change.id,
            "iid": change.iid,
            "target_branch": change.target_branch,
            "source_branch": change.source_branch,
            "source_project_id": change.source_project,
            "target_project_id": change.project,
            "author_id": change.author,
            "title": change.title,
            "description": change.description,
            "created_at": zulu(change.created_ms),
            "updated_at": zulu(change.updated_ms),
            "head_pipeline_id": self.head_pipeline(change).map(|pipeline| pipeline.id),
            "merge_status": "can_be_merged",
            "detailed_merge_status": if change.draft { "draft_status" } else { "mergeable" },
            "state": change.state,
            "state_id": match change.state { "closed" => 2, "merged" => 3, _ => 1 },
            "draft": change.draft,
            "work_in_progress": change.draft,
            "labels": self.hook_labels(change.project, &change.labels),
            "source": self.hook_project(self.project(change.source_project), true),
            "target": self.hook_project(target, true),
            "last_commit": self.hook_commit(target, change.sha(), change.updated_ms),
            "url": self.change_url(change),
        });
        // What the sandbox has no use for is sent all the same, as it stands on a young merge request.
        let more = json!({
            "assignee_id": null,
            "assignee_ids": [],
            "reviewer_ids": [],
            "last_edited_at": null,
            "last_edited_by_id": null,
            "milestone_id": null,
            "merge_commit_sha": null,
            "merge_error": null,
            "merge_params": {"force_remove_source_branch": "1"},
            "merge_user_id": null,
            "merge_when_pipeline_succeeds": false,
            "blocking_discussions_resolved": true,
            "first_contribution": false,
            "time_estimate": 0,
            "total_time_spent": 0,
            "time_change": 0,
            "human_total_time_spent": null,
            "human_time_change": null,
            "human_time_estimate": null,
        });
        extend(&mut body, more);
        body
    }

    pub fn merge_request_hook(&self, change: &MergeRequest, user: u64, event: &ChangeEvent) -> Value {
        let project = self.project(change.project);
        let mut attributes = self.hook_change(change);
        extend(&mut attributes, json!({"action": event.action, "system": false}));
        if let Some(oldrev) = &event.oldrev {
            extend(&mut attributes, json!({ "oldrev": oldrev }));
        }
        json!({
            "object_kind": "merge_request",
            "event_type": "merge_request",
            "user": self.hook_user(user),
            "project": self.hook_project(project, true),
            "object_attributes": attributes,
            "labels": self.hook_labels(change.project, &change.labels),
            "changes": if event.changes.is_null() { json!({}) } else { event.changes.clone() },
            "repository": self.hook_repository(project),
            "assignees": [],
            "reviewers": [],
        })
    }

    pub fn note_hook(&self, note: &Note, user: u64, action: &str) -> Value {
        let project = self.project(note.project);
        let (noteable, _, noteable_id) = self.noteable(note);
        let kind = if note.internal { "confidential_note" } else { "note" };
        let mut body = json!({
            "object_kind": "note",
            "event_type": kind,
            "user": self.hook_user(user),
            "project_id": note.project,
            "project": self.hook_project(project, true),
            "object_attributes": {
                "attachment": null,
                "author_id": note.author,
                "change_position": null,
                "commit_id": null,
                "created_at": utc(note.created_ms),
                "discussion_id": note.discussion,
                "id": note.id,
                "internal": note.internal,
                "line_code": null,
                "note": note.body,
                "noteable_id": noteable_id,
                "noteable_type": noteable,
                "original_position": null,
                "position": null,
                "project_id": note.project,
                "resolved_at": null,
                "resolved_by_id": null,
                "resolved_by_push": null,
                "st_diff": null,
                "system": note.system,
                "type": note.kind,
                "updated_at": utc(note.updated_ms),
                "updated_by_id": (note.edits > 0).then_some(user),
                "description": note.body,
                "url": self.note_url(note),
                "action": action,
            },
            "repository": self.hook_repository(project),
        });
        let more = match note.on {
            On::MergeRequest(iid) => json!({"merge_request": self.hook_change(self.change(note.project, iid))}),
            On::Issue(iid) => {
                let issue = project.issues.get(&iid).map(|issue| self.issue_body(project, issue));
                json!({ "issue": issue })
            }
        };
        extend(&mut body, more);
        body
    }

    fn note_url(&self, note: &Note) -> String {
        let page = match note.on {
            On::MergeRequest(iid) => format!("merge_requests/{iid}"),
            On::Issue(iid) => format!("issues/{iid}"),
        };
        format!("{}/-/{page}#note_{}", self.web_url(self.project(note.project)), note.id)
    }

    pub fn pipeline_hook(&self, pipeline: &Pipeline) -> Value {
        let project = self.project(pipeline.project);
        let change = pipeline.merge_request.map(|(project, iid)| self.change(project, iid));
        // The service shows the branch of the merge request here, not `refs/merge-requests/…`.
        let of_change = change.filter(|_| pipeline.source == "merge_request_event");
        let git_ref = of_change.map_or(&pipeline.git_ref, |change| &change.source_branch);
        let builds: Vec<Value> =
            self.latest(pipeline.id).filter(|job| job.kind == JobKind::Build).map(|job| self.hook_build(job)).collect();
        let mut body = json!({
            "object_kind": "pipeline",
            "object_attributes": {
                "id": pipeline.id,
                "iid": pipeline.iid,
                "name": null,
                "ref": git_ref,
                "tag": false,
                "sha": pipeline.sha,
                "before_sha": NO_SHA,
                "source": pipeline.source,
                "status": pipeline.status,
                "detailed_status": label(pipeline.status),
                "stages": pipeline.stages,
                "created_at": utc(pipeline.created_ms),
                "finished_at": pipeline.finished_ms.map(utc),
                "duration": seconds(pipeline.started_ms, pipeline.finished_ms).map(|seconds| seconds as i64),
                "queued_duration": null,
                "protected_ref": false,
                "variables": [],
                "url": self.pipeline_url(pipeline),
            },
            "merge_request": of_change.map(|change| json!({
                "id": change.id,
                "iid": change.iid,
                "title": change.title,
                "source_branch": change.source_branch,
                "source_project_id": change.source_project,
                "target_branch": change.target_branch,
                "target_project_id": change.project,
                "state": change.state,
                "merge_status": "can_be_merged",
                "detailed_merge_status": "mergeable",
                "url": self.change_url(change),
            })),
            "user": self.hook_user(pipeline.user),
            "project": self.hook_project(project, false),
            "commit": self.hook_commit(project, &pipeline.sha, pipeline.created_ms),
            "builds": builds,
        });
        if let Some(source) = self.source_pipeline(pipeline) {
            extend(&mut body, json!({ "source_pipeline": source }));
        }
        body
    }

    /// What triggered a pipeline.
    fn source_pipeline(&self, pipeline: &Pipeline) -> Option<Value> {
        let bridge = self.job(pipeline.bridge?);
        let project = self.project(bridge.project);
        Some(json!({
            "project": {
                "id": project.id, "web_url": self.web_url(project), "path_with_namespace": project.path,
            },
            "job_id": bridge.id,
            "pipeline_id": bridge.pipeline,
        }))
    }

    fn hook_runner(job: &Job) -> Option<Value> {
        job.runner.then(|| {
            json!({
                "id": 11,
                "description": "sandbox runner",
                "runner_type": "instance_type",
                "active": true,
                "is_shared": true,
                "tags": ["linux"],
            })
        })
    }

    fn hook_build(&self, job: &Job) -> Value {
        json!({
            "id": job.id,
            "stage": job.new.stage,
            "name": job.new.name,
            "status": job.status,
            "created_at": utc(job.created_ms),
            "started_at": job.started_ms.map(utc),
            "finished_at": job.finished_ms.map(utc),
            "duration": seconds(job.started_ms, job.finished_ms),
            "queued_duration": seconds(Some(job.created_ms), job.started_ms),
            "failure_reason": job.failure_reason,
            "when": if job.new.manual { "manual" } else { "on_success" },
            "manual": job.new.manual,
            "allow_failure": job.new.allow_failure,
            "user": self.hook_user(job.user),
            "runner": Self::hook_runner(job),
            "artifacts_file": {"filename": null, "size": null},
            "environment": null,
        })
    }

    /// The flat job hook. A job that did not fail still carries a reason, as on the service.
    pub fn job_hook(&self, job: &Job) -> Value {
        let (project, pipeline) = (self.project(job.project), self.pipeline(job.pipeline));
        let mut repository = self.hook_repository(project);
        let more = json!({
            "git_http_url": format!("{}.git", self.web_url(project)),
            "git_ssh_url": format!("git@gitlab.example:{}.git", project.path),
            "visibility_level": if project.public { 20 } else { 0 },
        });
        extend(&mut repository, more);
        let mut body = json!({
            "object_kind": "build",
            "ref": pipeline.git_ref,
            "tag": false,
            "before_sha": NO_SHA,
            "sha": pipeline.sha,
            "build_id": job.id,
            "build_name": job.new.name,
            "build_stage": job.new.stage,
            "build_status": job.status,
            "build_created_at": iso(job.created_ms),
            "build_started_at": job.started_ms.map(iso),
            "build_finished_at": job.finished_ms.map(iso),
            "build_duration": seconds(job.started_ms, job.finished_ms),
            "build_queued_duration": seconds(Some(job.created_ms), job.started_ms),
            "build_allow_failure": job.new.allow_failure,
            "build_failure_reason": job.failure_reason.as_deref().unwrap_or("unknown_failure"),
            "retries_count": job.retries,
            "pipeline_id": pipeline.id,
            "project_id": project.id,
            "project_name": project.path.replace('/', " / "),
            "runner": Self::hook_runner(job),
            "user": self.hook_user(job.user),
            "commit": {
                "id": pipeline.id,
                "name": null,
                "sha": pipeline.sha,
                "message": "A commit of the sandbox\n",
                "author_name": "Sandbox",
                "author_email": "[REDACTED]",
                "author_url": "mailto:[REDACTED]",
                "status": pipeline.status,
                "duration": seconds(pipeline.started_ms, pipeline.finished_ms),
                "started_at": pipeline.started_ms.map(utc),
                "finished_at": pipeline.finished_ms.map(utc),
            },
            "repository": repository,
            "project": self.hook_project(project, false),
            "environment": null,
        });
        if let Some(source) = self.source_pipeline(pipeline) {
            extend(&mut body, json!({ "source_pipeline": source }));
        }
        body
    }
}
