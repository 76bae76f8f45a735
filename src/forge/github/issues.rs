//! Issues: those that label flakes, and what we write into them.
//!
//! Pull requests are issues too at GitHub; they are never taken for one here, and never written to from here. An issue
//! that was moved to another repository is none of this one any more. Read next: `answers.rs` for the comment.

use serde_json::{Value, json};

use super::GitHub;
use crate::api::github::wire::{Issue as WireIssue, IssueLabel, Repository};
use crate::api::github::{Failure, Need, Write, repo_path, segment, timestamp};
use crate::domain::{Issue, Repo, Timestamp};
use crate::ports::{CallError, IssuePost};

const READ_ISSUES: Need = Need { doing: "read issues", permission: "Issues: read" };
const WRITE_ISSUES: Need = Need { doing: "write an issue", permission: "Issues: write" };
const READ_REPOSITORY: Need = Need { doing: "read the repository", permission: "Metadata: read" };

impl GitHub {
    /// The open issues with this label, oldest first. A repository without issues has none.
    pub(super) async fn issues_labelled(&self, repo: &Repo, label: &str) -> Result<Vec<Issue>, CallError> {
        // A comma in the query separates labels; a label that has one is looked for among all issues.
        let by_label = if label.contains(',') { String::new() } else { format!("&labels={}", segment(label)) };
        let path = format!("{}/issues?state=open&sort=created&direction=asc{by_label}", repo_path(repo));
        let listed = match self.api.pages::<Vec<WireIssue>>(repo, &path, READ_ISSUES).await {
            Ok(listed) => listed,
            // The repository has its issues switched off.
            Err(Failure { status: Some(410), .. }) => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        let now = self.clock.now();
        let issues = listed.into_iter().filter(|issue| issue.pull_request.is_none()).map(|issue| issue_of(issue, now));
        // Labels at GitHub are the same in capitals.
        let fits = |issue: &Issue| issue.open && issue.labels.iter().any(|own| own.eq_ignore_ascii_case(label));
        let mut issues: Vec<Issue> = issues.filter(fits).collect();
        issues.sort_by_key(|issue| issue.number);
        issues.dedup_by_key(|issue| issue.number);
        Ok(issues)
    }

    /// One issue; none when it never was, was deleted or moved away, or is a pull request.
    pub(super) async fn one_issue(&self, repo: &Repo, number: u64) -> Result<Option<Issue>, CallError> {
        let path = format!("{}/issues/{number}", repo_path(repo));
        let issue: WireIssue = match self.api.get(repo, &path, READ_ISSUES).await {
            Ok(issue) => issue,
            Err(Failure { status: Some(404 | 410), .. }) => return Ok(None),
            Err(failure) => return Err(failure.into()),
        };
        if issue.number != number || issue.pull_request.is_some() || !self.is_of(repo, &issue).await? {
            return Ok(None);
        }
        Ok(Some(issue_of(issue, self.clock.now())))
    }

    /// Whether the issue is this repository's. GitHub answers for a moved issue with the one it became, and for a renamed
    /// repository with its new name: the two are told apart by asking for the repository.
    async fn is_of(&self, repo: &Repo, issue: &WireIssue) -> Result<bool, CallError> {
        let named = |full_name: &str| {
            let address = issue.repository_url.to_ascii_lowercase();
            address.is_empty() || address.ends_with(&format!("/repos/{}", full_name.to_ascii_lowercase()))
        };
        if named(&repo.full_name) {
            return Ok(true);
        }
        let now: Repository = self.api.get(repo, &repo_path(repo), READ_REPOSITORY).await?;
        Ok(now.id == repo.key.id && named(&now.full_name))
    }

    /// Opens an issue or changes one; nothing is written that stands already.
    pub(super) async fn write_issue(&self, repo: &Repo, post: &IssuePost) -> Result<Issue, CallError> {
        let Some(number) = post.number else { return self.open_issue(repo, post).await };
        let known = self.one_issue(repo, number).await?;
        let mut now = known.ok_or_else(|| CallError::refused(format!("There is no issue #{number} here.")))?;
        let mut body = json!({});
        if let Some(title) = post.title.as_ref().filter(|title| **title != now.title) {
            body["title"] = json!(title);
        }
        if let Some(text) = post.body.as_ref().filter(|text| **text != now.body) {
            body["body"] = json!(text);
        }
        let path = format!("{}/issues/{number}", repo_path(repo));
        if body.as_object().is_some_and(|fields| !fields.is_empty()) {
            let write = Write::patch(path.clone(), body, WRITE_ISSUES);
            now = self.written(repo, &write).await?;
        }
        let lacks = |label: &&String| !now.labels.iter().any(|own| own.eq_ignore_ascii_case(label));
        let missing: Vec<&String> = post.labels.iter().filter(lacks).collect();
        if !missing.is_empty() {
            let write = Write::post(format!("{path}/labels"), Some(json!({ "labels": missing })), WRITE_ISSUES);
            let labels = self.api.write_and_read::<Vec<IssueLabel>>(repo, &write).await?;
            match labels {
                Some(labels) => now.labels = labels.into_iter().filter_map(IssueLabel::into_name).collect(),
                None => now.labels.extend(missing.into_iter().cloned()),
            }
        }
        Ok(now)
    }

    async fn open_issue(&self, repo: &Repo, post: &IssuePost) -> Result<Issue, CallError> {
        let title = post.title.as_deref().ok_or_else(|| CallError::refused("A new issue needs a title."))?;
        let body: Value = json!({
            "title": title, "body": post.body.as_deref().unwrap_or_default(), "labels": post.labels,
        });
        let write = Write::post(format!("{}/issues", repo_path(repo)), Some(body), WRITE_ISSUES);
        self.written(repo, &write).await
    }

    async fn written(&self, repo: &Repo, write: &Write) -> Result<Issue, CallError> {
        let issue = self.api.write_and_read::<WireIssue>(repo, write).await?;
        let unread = || CallError::Unknown { log: format!("{} {}: no issue in the answer", write.method, write.path) };
        Ok(issue_of(issue.ok_or_else(unread)?, self.clock.now()))
    }
}

fn issue_of(issue: WireIssue, now: Timestamp) -> Issue {
    Issue {
        number: issue.number,
        title: issue.title,
        body: issue.body,
        url: issue.html_url,
        open: issue.state == "open",
        labels: issue.labels.into_iter().filter_map(IssueLabel::into_name).collect(),
        updated_at: issue.updated_at.as_deref().and_then(timestamp).unwrap_or(now),
    }
}
