//! Issues: those that label flakes, and what we write into them.
//!
//! A confidential issue is treated as not there: whatever stands in it may come out in a report that everybody reads.
//! The same goes for incidents, tasks and other work items, which are none of the issues that people label.

use super::GitLabForge;
use crate::api::gitlab::{IssueText, wire};
use crate::domain::{Issue, Repo, Timestamp};
use crate::ports::{CallError, IssuePost};

/// The open issues with this label, oldest first.
pub(super) async fn labelled(forge: &GitLabForge, repo: &Repo, label: &str) -> Result<Vec<Issue>, CallError> {
    let listed = forge.client.open_issues(repo.key.id, label).await?;
    let now = forge.client.now();
    // `None` and `Any` are no labels but wishes of their own in this list: each issue must say that it has the label.
    let fits = |issue: &Issue| issue.open && issue.labels.iter().any(|own| own == label);
    let mut issues: Vec<Issue> =
        listed.into_iter().filter(|wire| is_plain(wire, repo)).map(|wire| issue_of(wire, now)).filter(fits).collect();
    issues.sort_by_key(|issue| issue.number);
    issues.dedup_by_key(|issue| issue.number);
    Ok(issues)
}

/// One issue; none when it never was, or is none for everybody's eyes.
pub(super) async fn one(forge: &GitLabForge, repo: &Repo, number: u64) -> Result<Option<Issue>, CallError> {
    match forge.client.issue(repo.key.id, number).await {
        Ok(wire) => Ok(Some(wire).filter(|wire| is_plain(wire, repo)).map(|wire| issue_of(wire, forge.client.now()))),
        Err(failure) if failure.status == Some(404) && !failure.says(404, "project not found") => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Opens an issue or changes one; nothing is written that stands already.
pub(super) async fn put(forge: &GitLabForge, repo: &Repo, post: &IssuePost) -> Result<Issue, CallError> {
    let project = repo.key.id;
    let labels: Vec<&str> = post.labels.iter().map(String::as_str).collect();
    let Some(number) = post.number else {
        let title = post.title.as_deref().ok_or_else(|| CallError::refused("A new issue needs a title."))?;
        let text = IssueText { title: Some(title), description: post.body.as_deref(), add_labels: &labels };
        return Ok(issue_of(forge.client.create_issue(project, text).await?, forge.client.now()));
    };
    let known = one(forge, repo, number).await?;
    let known = known.ok_or_else(|| CallError::refused(format!("There is no issue #{number} here.")))?;
    let missing: Vec<&str> = labels.into_iter().filter(|label| known.labels.iter().all(|own| own != label)).collect();
    let text = IssueText {
        title: post.title.as_deref().filter(|title| *title != known.title),
        description: post.body.as_deref().filter(|body| *body != known.body),
        add_labels: &missing,
    };
    if text.title.is_none() && text.description.is_none() && missing.is_empty() {
        return Ok(known);
    }
    Ok(issue_of(forge.client.edit_issue(project, number, text).await?, forge.client.now()))
}

/// An issue of this project that everybody who reads the project may read.
fn is_plain(wire: &wire::Issue, repo: &Repo) -> bool {
    let here = wire.project_id.is_none_or(|project| project == repo.key.id);
    let issue = wire.issue_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("issue"));
    here && issue && wire.confidential != Some(true)
}

fn issue_of(wire: wire::Issue, now: Timestamp) -> Issue {
    Issue {
        number: wire.iid,
        title: wire.title,
        body: wire.description.unwrap_or_default(),
        url: wire.web_url.unwrap_or_default(),
        open: wire.state == "opened",
        labels: wire.labels,
        updated_at: wire.updated_at.unwrap_or(now),
    }
}
