//! The body of the issue hook, and that of other work items, which has the same fields.

use serde_json::{Value, json};

use super::bodies::{extend, utc};
use super::state::{Issue, Project, State};

impl State {
    pub fn issue_hook(&self, project: &Project, issue: &Issue, user: u64, (action, changes): (&str, &Value)) -> Value {
        let plain = issue.kind == "issue";
        let kind = if plain { "issue" } else { "work_item" };
        let capital = issue.kind.get(..1).unwrap_or_default().to_uppercase();
        let labels = self.hook_labels(project.id, &issue.labels);
        let mut attributes = json!({
            "author_id": issue.author,
            "closed_at": (!issue.open).then(|| utc(issue.updated_ms)),
            "confidential": issue.confidential,
            "created_at": utc(issue.created_ms),
            "description": issue.description,
            "id": issue.id,
            "iid": issue.iid,
            "project_id": project.id,
            "state_id": if issue.open { 1 } else { 2 },
            "title": issue.title,
            "updated_at": utc(issue.updated_ms),
            "updated_by_id": user,
            "type": format!("{capital}{}", issue.kind.get(1..).unwrap_or_default()),
            "url": format!("{}/-/issues/{}", self.web_url(project), issue.iid),
            "labels": labels,
            "state": if issue.open { "opened" } else { "closed" },
            "action": action,
        });
        // What the sandbox has no use for is sent all the same, as it stands on a young issue.
        let more = json!({
            "discussion_locked": null, "due_date": null, "last_edited_at": null, "last_edited_by_id": null,
            "milestone_id": null, "moved_to_id": null, "duplicated_to_id": null, "relative_position": null,
            "time_estimate": 0, "total_time_spent": 0, "time_change": 0, "human_total_time_spent": null,
            "human_time_change": null, "human_time_estimate": null, "assignee_ids": [], "assignee_id": null,
            "severity": "unknown", "customer_relations_contacts": [],
        });
        extend(&mut attributes, more);
        json!({
            "object_kind": kind,
            "event_type": if issue.confidential { format!("confidential_{kind}") } else { kind.to_owned() },
            "user": self.hook_user(user),
            "project": self.hook_project(project, true),
            "object_attributes": attributes,
            "labels": labels,
            "changes": changes,
            "repository": self.hook_repository(project),
        })
    }
}
