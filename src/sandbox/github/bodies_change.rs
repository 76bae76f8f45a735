//! JSON of changes, issues and what people write on them.
//!
//! Read next: `routes_change.rs`.

use serde_json::{Value, json};

use super::bodies::{Whose, extend};
use super::state::{Comment, Issue, Pull, Reaction, Repo, Review, State, iso, iso_or_null};

/// The reactions GitHub knows.
pub(super) const REACTIONS: [&str; 8] = ["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"];

impl State {
    /// What GitHub calls the association of a person with a repository; says nothing of rights.
    pub fn association(&self, repo: &Repo, login: &str) -> &'static str {
        match repo.roles.get(&login.to_lowercase()).map(String::as_str) {
            Some("admin" | "maintain") => "MEMBER",
            Some("write" | "triage") => "COLLABORATOR",
            _ => "CONTRIBUTOR",
        }
    }

    pub fn label_body(&self, repo: &Repo, name: &str) -> Value {
        let id = repo.id + name.bytes().map(u64::from).sum::<u64>();
        let path: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        json!({
            "id": id,
            "node_id": format!("LA_{id}"),
            "url": format!("{}/labels/{path}", self.repo_url(repo)),
            "name": name,
            "description": "A label of the sandbox",
            "color": "ededed",
            "default": false,
        })
    }

    pub fn labels_body(&self, repo: &Repo, issue: &Issue) -> Value {
        issue.labels.iter().map(|name| self.label_body(repo, name)).collect()
    }

    /// The change as an issue: no head, no branch.
    pub fn issue_body(&self, repo: &Repo, issue: &Issue) -> Value {
        let url = format!("{}/issues/{}", self.repo_url(repo), issue.number);
        let kind = if issue.pull.is_some() { "pull" } else { "issues" };
        let web = format!("{}/{kind}/{}", self.web_url(repo), issue.number);
        let comments = repo.comments.values().filter(|c| c.number == issue.number && c.line.is_none()).count();
        let mut body = json!({
            "id": issue.id,
            "node_id": format!("I_{}", issue.id),
            "url": url,
            "repository_url": self.repo_url(repo),
            "labels_url": format!("{url}/labels{{/name}}"),
            "comments_url": format!("{url}/comments"),
            "events_url": format!("{url}/events"),
            "timeline_url": format!("{url}/timeline"),
            "html_url": web,
            "number": issue.number,
            "title": issue.title,
            "user": self.user_body(&issue.author),
            "labels": self.labels_body(repo, issue),
            "state": if issue.open { "open" } else { "closed" },
            "state_reason": null,
            "locked": issue.locked,
            "active_lock_reason": null,
            "assignee": null,
            "assignees": [],
            "milestone": null,
            "comments": comments,
            "created_at": iso(issue.created_ms),
            "updated_at": iso(issue.updated_ms),
            "closed_at": iso_or_null(issue.closed_ms),
            "author_association": self.association(repo, &issue.author),
            "body": issue.body,
            "reactions": rollup(&url, &issue.reactions),
            "performed_via_github_app": null,
        });
        if let Some(pull) = &issue.pull {
            let more = json!({
                "draft": pull.draft,
                "pull_request": {
                    "url": format!("{}/pulls/{}", self.repo_url(repo), issue.number),
                    "html_url": web,
                    "diff_url": format!("{web}.diff"),
                    "patch_url": format!("{web}.patch"),
                    "merged_at": if pull.merged { iso_or_null(issue.closed_ms) } else { Value::Null },
                },
            });
            extend(&mut body, more);
        }
        body
    }

    fn head_repo(&self, repo: &Repo, issue: &Issue, pull: &Pull) -> Value {
        if pull.fork_deleted {
            return Value::Null;
        }
        let whose = if pull.from_fork { Whose::ForkOf(&issue.author) } else { Whose::Own };
        self.repo_body(repo, whose)
    }

    /// The change as lists give it.
    pub fn pull_body(&self, repo: &Repo, issue: &Issue, pull: &Pull) -> Value {
        let api = self.repo_url(repo);
        let number = issue.number;
        let url = format!("{api}/pulls/{number}");
        let issue_url = format!("{api}/issues/{number}");
        let statuses = format!("{api}/statuses/{}", pull.head_sha);
        let web = format!("{}/pull/{number}", self.web_url(repo));
        let head_owner = if pull.from_fork { &issue.author } else { &repo.owner };
        let mut body = json!({
            "id": issue.id,
            "node_id": format!("PR_{}", issue.id),
            "url": url,
            "html_url": web,
            "diff_url": format!("{web}.diff"),
            "patch_url": format!("{web}.patch"),
            "issue_url": issue_url,
            "commits_url": format!("{url}/commits"),
            "review_comments_url": format!("{url}/comments"),
            "review_comment_url": format!("{api}/pulls/comments{{/number}}"),
            "comments_url": format!("{issue_url}/comments"),
            "statuses_url": statuses,
            "number": number,
            "state": if issue.open { "open" } else { "closed" },
            "locked": issue.locked,
            "active_lock_reason": null,
            "title": issue.title,
            "user": self.user_body(&issue.author),
            "body": issue.body,
            "labels": self.labels_body(repo, issue),
            "milestone": null,
            "assignee": null,
            "assignees": [],
            "requested_reviewers": [],
            "requested_teams": [],
            "created_at": iso(issue.created_ms),
            "updated_at": iso(issue.updated_ms),
            "closed_at": iso_or_null(issue.closed_ms),
            "merged_at": if pull.merged { iso_or_null(issue.closed_ms) } else { Value::Null },
            "merge_commit_sha": reversed(&pull.head_sha),
            "draft": pull.draft,
            "head": {
                "label": format!("{head_owner}:{}", pull.head_ref),
                "ref": pull.head_ref,
                "sha": pull.head_sha,
                "user": self.user_body(head_owner),
                "repo": self.head_repo(repo, issue, pull),
            },
            "base": {
                "label": format!("{}:{}", repo.owner, pull.base_ref),
                "ref": pull.base_ref,
                "sha": pull.base_sha,
                "user": self.user_body(&repo.owner),
                "repo": self.repo_body(repo, Whose::Own),
            },
            "author_association": self.association(repo, &issue.author),
            "auto_merge": null,
        });
        body["_links"] = json!({
            "self": {"href": url},
            "html": {"href": web},
            "issue": {"href": issue_url},
            "comments": {"href": format!("{issue_url}/comments")},
            "review_comments": {"href": format!("{url}/comments")},
            "review_comment": {"href": format!("{api}/pulls/comments{{/number}}")},
            "commits": {"href": format!("{url}/commits")},
            "statuses": {"href": statuses},
        });
        body
    }

    /// The change as `GET /pulls/NUMBER` and webhooks give it.
    pub fn full_pull_body(&self, repo: &Repo, issue: &Issue, pull: &Pull) -> Value {
        let count = |line: bool| {
            repo.comments.values().filter(|c| c.number == issue.number && c.line.is_some() == line).count()
        };
        let mut body = self.pull_body(repo, issue, pull);
        let more = json!({
            "merged": pull.merged,
            "mergeable": if issue.open { json!(true) } else { Value::Null },
            "rebaseable": null,
            "mergeable_state": if issue.open { "clean" } else { "unknown" },
            "merged_by": if pull.merged { self.user_body(&repo.owner) } else { Value::Null },
            "comments": count(false),
            "review_comments": count(true),
            "maintainer_can_modify": false,
            "commits": 1,
            "additions": 1,
            "deletions": 0,
            "changed_files": 1,
        });
        extend(&mut body, more);
        body
    }

    pub fn reaction_body(&self, reaction: &Reaction) -> Value {
        json!({
            "id": reaction.id,
            "node_id": format!("REA_{}", reaction.id),
            "user": self.user_body(&reaction.login),
            "content": reaction.content,
            "created_at": iso(reaction.created_ms),
        })
    }

    pub fn comment_body(&self, repo: &Repo, comment: &Comment) -> Value {
        let api = self.repo_url(repo);
        let number = comment.number;
        let is_pull = repo.issues.get(&number).is_some_and(|issue| issue.pull.is_some());
        let web = format!("{}/{}/{number}", self.web_url(repo), if is_pull { "pull" } else { "issues" });
        let common = json!({
            "id": comment.id,
            "body": comment.body,
            "user": self.user_body(&comment.author),
            "author_association": self.association(repo, &comment.author),
            "created_at": iso(comment.created_ms),
            "updated_at": iso(comment.updated_ms),
        });
        let mut body = match &comment.line {
            None => {
                let url = format!("{api}/issues/comments/{}", comment.id);
                json!({
                    "node_id": format!("IC_{}", comment.id),
                    "url": url,
                    "html_url": format!("{web}#issuecomment-{}", comment.id),
                    "issue_url": format!("{api}/issues/{number}"),
                    "reactions": rollup(&url, &comment.reactions),
                    "performed_via_github_app": comment.via_app.map(|app| self.app_body(app)),
                })
            }
            Some(line) => {
                let url = format!("{api}/pulls/comments/{}", comment.id);
                let html = format!("{web}#discussion_r{}", comment.id);
                let mut body = json!({
                    "node_id": format!("PRRC_{}", comment.id),
                    "url": url,
                    "html_url": html,
                    "pull_request_url": format!("{api}/pulls/{number}"),
                    "pull_request_review_id": line.review_id,
                    "diff_hunk": "@@ -1 +1 @@",
                    "path": "README.md",
                    "position": 1, "original_position": 1, "line": 1, "original_line": 1, "side": "RIGHT",
                    "start_line": null, "original_start_line": null, "start_side": null, "subject_type": "line",
                    "commit_id": line.commit_sha,
                    "original_commit_id": line.commit_sha,
                    "reactions": rollup(&url, &comment.reactions),
                    "_links": {
                        "self": {"href": url},
                        "html": {"href": html},
                        "pull_request": {"href": format!("{api}/pulls/{number}")},
                    },
                });
                if let Some(parent) = line.in_reply_to {
                    extend(&mut body, json!({"in_reply_to_id": parent}));
                }
                body
            }
        };
        extend(&mut body, common);
        body
    }

    pub fn review_body(&self, repo: &Repo, review: &Review) -> Value {
        let html = format!("{}/pull/{}#pullrequestreview-{}", self.web_url(repo), review.number, review.id);
        let pull = format!("{}/pulls/{}", self.repo_url(repo), review.number);
        json!({
            "id": review.id,
            "node_id": format!("PRR_{}", review.id),
            "user": self.user_body(&review.author),
            "body": review.body,
            "state": review.state,
            "html_url": html,
            "pull_request_url": pull,
            "author_association": self.association(repo, &review.author),
            "submitted_at": iso(review.submitted_ms),
            "commit_id": review.commit_sha,
            "_links": {"html": {"href": html}, "pull_request": {"href": pull}},
        })
    }
}

/// Counts of each reaction, as GitHub appends them to whatever can be reacted to.
fn rollup(url: &str, reactions: &[Reaction]) -> Value {
    let mut body = json!({"url": format!("{url}/reactions"), "total_count": reactions.len()});
    for kind in REACTIONS {
        body[kind] = reactions.iter().filter(|reaction| reaction.content == kind).count().into();
    }
    body
}

/// Stands for the test merge commit of a head.
fn reversed(sha: &str) -> String {
    sha.chars().rev().collect()
}
