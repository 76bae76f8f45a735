//! The JSON of people, projects, changes and notes as REST shows them, and GitLab's ways to write a date.
//!
//! Read next: `bodies_ci.rs`, `payloads.rs`.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::state::{Award, Issue, Member, MergeRequest, Note, On, Project, State};

fn date(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}

/// `2026-12-01T02:14:00.000Z`, as REST has it.
pub(super) fn iso(ms: i64) -> String {
    date(ms).format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// `2026-12-01 02:14:00 UTC`, as most webhooks have it.
pub(super) fn utc(ms: i64) -> String {
    date(ms).format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `2026-12-01T02:14:00Z`.
pub(super) fn zulu(ms: i64) -> String {
    date(ms).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-12-01T02:14:00+00:00`, as commits have it.
pub(super) fn zoned(ms: i64) -> String {
    date(ms).format("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

impl State {
    pub fn web_url(&self, project: &Project) -> String {
        format!("{}/{}", self.base, project.path)
    }

    pub fn change_url(&self, change: &MergeRequest) -> String {
        format!("{}/-/merge_requests/{}", self.web_url(self.project(change.project)), change.iid)
    }

    pub fn user_body(&self, id: u64) -> Value {
        let user = self.person(id);
        json!({
            "id": user.id,
            "username": user.username,
            "public_email": null,
            "name": user.name,
            "state": "active",
            "locked": false,
            "avatar_url": format!("{}/uploads/-/system/user/avatar/{}/avatar.png", self.base, user.id),
            "web_url": format!("{}/{}", self.base, user.username),
        })
    }

    pub fn member_body(&self, user: u64, member: &Member) -> Value {
        let mut body = self.user_body(user);
        let more = json!({
            "access_level": member.level,
            "state": member.state,
            "membership_state": "active",
            "created_at": iso(0),
            "created_by": null,
            "expires_at": member.expires_at,
        });
        extend(&mut body, more);
        body
    }

    pub fn project_body(&self, project: &Project) -> Value {
        let url = self.web_url(project);
        let namespace = project.namespace();
        json!({
            "id": project.id,
            "description": null,
            "name": project.name(),
            "name_with_namespace": project.path.replace('/', " / "),
            "path": project.name(),
            "path_with_namespace": project.path,
            "created_at": iso(project.created_ms),
            "default_branch": project.default_branch,
            "topics": [],
            "ssh_url_to_repo": format!("git@gitlab.example:{}.git", project.path),
            "http_url_to_repo": format!("{url}.git"),
            "web_url": url,
            "readme_url": null,
            "avatar_url": null,
            "forks_count": self.projects.values().filter(|fork| fork.fork_of == Some(project.id)).count(),
            "star_count": 0,
            "last_activity_at": iso(self.now_ms),
            "namespace": {
                "id": 1, "name": namespace, "path": namespace, "kind": "group", "full_path": namespace,
                "parent_id": null, "avatar_url": null, "web_url": format!("{}/groups/{namespace}", self.base),
            },
            "archived": false,
            "visibility": if project.public { "public" } else { "private" },
            "jobs_enabled": true,
            "merge_requests_enabled": true,
            "issues_enabled": true,
            "public_jobs": true,
            "ci_allow_fork_pipelines_to_run_in_parent_project": project.fork_pipelines_in_parent,
            "forked_from_project": project.fork_of.map(|id| json!({
                "id": id, "path_with_namespace": self.project(id).path,
            })),
            "permissions": {"project_access": null, "group_access": null},
        })
    }

    /// A merge request; `head_pipeline` and a few more stand only in the body of a single one.
    pub fn change_body(&self, change: &MergeRequest, single: bool) -> Value {
        let url = self.change_url(change);
        let short = format!("!{}", change.iid);
        let full = format!("{}{short}", self.project(change.project).path);
        let references = json!({"short": short, "relative": short, "full": full});
        let mut body = json!({
            "id": change.id,
            "iid": change.iid,
            "project_id": change.project,
            "title": change.title,
            "description": change.description,
            "state": change.state,
            "created_at": iso(change.created_ms),
            "updated_at": iso(change.updated_ms),
            "merged_at": null,
            "closed_at": null,
            "target_branch": change.target_branch,
            "source_branch": change.source_branch,
            "user_notes_count": self.notes_on(change.project, On::MergeRequest(change.iid)).count(),
            "upvotes": 0,
            "downvotes": 0,
            "author": self.user_body(change.author),
            "assignees": [],
            "assignee": null,
            "reviewers": [],
            "source_project_id": change.source_project,
            "target_project_id": change.project,
            "labels": change.labels,
            "draft": change.draft,
            "work_in_progress": change.draft,
            "imported": false,
            "milestone": null,
            "merge_when_pipeline_succeeds": false,
            "merge_status": "can_be_merged",
            "detailed_merge_status": if change.draft { "draft_status" } else { "mergeable" },
            "sha": change.sha(),
            "merge_commit_sha": null,
            "squash_commit_sha": null,
            "discussion_locked": null,
            "should_remove_source_branch": null,
            "force_remove_source_branch": true,
            "reference": format!("!{}", change.iid),
            "references": references,
            "web_url": url,
            "has_conflicts": false,
            "blocking_discussions_resolved": true,
        });
        if single {
            let head = self.head_pipeline(change).map(|pipeline| self.pipeline_body(pipeline));
            let more = json!({
                "head_pipeline": head,
                "pipeline": head,
                "diff_refs": {
                    "base_sha": super::state::BASE_SHA,
                    "head_sha": change.sha(),
                    "start_sha": super::state::BASE_SHA,
                },
                "merge_error": null,
                "first_contribution": false,
                "changes_count": "1",
                "user": {"can_merge": false},
            });
            extend(&mut body, more);
        }
        body
    }

    pub fn notes_on(&self, project: u64, on: On) -> impl Iterator<Item = &Note> {
        self.notes.values().filter(move |note| note.project == project && note.on == on)
    }

    pub fn note_body(&self, note: &Note) -> Value {
        let (noteable, iid, id) = self.noteable(note);
        json!({
            "id": note.id,
            "type": note.kind,
            "body": note.body,
            "attachment": null,
            "author": self.user_body(note.author),
            "created_at": iso(note.created_ms),
            "updated_at": iso(note.updated_ms),
            "system": note.system,
            "noteable_id": id,
            "noteable_type": noteable,
            "project_id": note.project,
            "resolvable": note.kind.is_some(),
            "confidential": note.internal,
            "internal": note.internal,
            "imported": false,
            "noteable_iid": iid,
            "commands_changes": {},
        })
    }

    /// The word, the number and the id of what a note stands on.
    pub fn noteable(&self, note: &Note) -> (&'static str, u64, u64) {
        match note.on {
            On::MergeRequest(iid) => ("MergeRequest", iid, self.change(note.project, iid).id),
            On::Issue(iid) => {
                let issue = self.project(note.project).issues.get(&iid);
                ("Issue", iid, issue.map_or(0, |issue| issue.id))
            }
        }
    }

    pub fn award_body(&self, note: &Note, award: &Award) -> Value {
        json!({
            "id": award.id,
            "name": award.name,
            "user": self.user_body(award.user),
            "created_at": iso(self.now_ms),
            "updated_at": iso(self.now_ms),
            "awardable_id": note.id,
            "awardable_type": "Note",
            "url": null,
        })
    }

    pub fn issue_body(&self, project: &Project, issue: &Issue) -> Value {
        json!({
            "id": issue.id,
            "iid": issue.iid,
            "project_id": project.id,
            "title": issue.title,
            "description": issue.description,
            "state": if issue.open { "opened" } else { "closed" },
            "created_at": iso(issue.created_ms),
            "updated_at": iso(issue.updated_ms),
            "closed_at": (!issue.open).then(|| iso(issue.updated_ms)),
            "labels": issue.labels,
            "milestone": null,
            "assignees": [],
            "author": self.user_body(issue.author),
            "type": issue.kind.to_uppercase(),
            "issue_type": issue.kind,
            "confidential": issue.confidential,
            "user_notes_count": self.notes_on(project.id, On::Issue(issue.iid)).count(),
            "web_url": format!("{}/-/issues/{}", self.web_url(project), issue.iid),
            "references": {
                "short": format!("#{}", issue.iid),
                "relative": format!("#{}", issue.iid),
                "full": format!("{}#{}", project.path, issue.iid),
            },
        })
    }
}

/// Adds the fields of one object to another.
pub(super) fn extend(body: &mut Value, more: Value) {
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
}
