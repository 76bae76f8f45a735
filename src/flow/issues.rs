//! Our one comment on each issue that labels a flake: how its block is understood or what is wrong with it, and what the label did.
//!
//! One comment, edited in place; a comment that would say the same is not sent again. Read next: `labels.rs`.

use std::sync::Arc;
use std::time::Duration;

use super::world::{FlowError, Progress, World};
use crate::decide::{IssueView, Rate, issue_comment};
use crate::domain::{LabelOrigin, Timestamp};
use crate::ports::ReportPost;
use crate::store::FlakeIssue;

/// Issues looked at per pass.
const BATCH: u32 = 20;

/// Between a hit and the comment that counts it: an outage makes one edit and not a hundred.
pub(super) const COMMENT_PAUSE: Duration = Duration::from_secs(600);

/// How often an issue is looked at although nothing happened: its label may be unseen for long.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// Failed tries after which a comment waits for the next look.
const TRIES_MAX: u32 = 6;

/// The hidden first line of our comment on an issue.
const MARKER: &str = "<!-- retest-bot:flake -->";

/// Over which time hits are counted.
const COUNTED: Duration = Duration::from_secs(30 * 24 * 3_600);

impl World {
    /// One pass over the issues whose comment is to be written.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn tell_issues(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let mut done = 0;
        for known in self.store.due_issues(self.now(), BATCH).await? {
            let name = format!("issue {}/{}/{}", known.repo.forge, known.repo.id, known.issue.number);
            let Some(held) = self.tasks.occupy(name) else { continue };
            done += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.tell_issue(&known).await });
        }
        Ok(Progress { done })
    }

    async fn tell_issue(&self, known: &FlakeIssue) -> Result<(), FlowError> {
        let now = self.now();
        let number = known.issue.number;
        let repo = self.store.repo(&known.repo).await?;
        let (Some(forge), Some(repo)) = (self.forges.get(&known.repo.forge), repo) else {
            return Ok(self.store.told_issue(&known.repo, number, None, None).await?);
        };
        let look_again = Some(now.plus(LOOK_EVERY));
        let block = (self.rules.flakes.read_issue)(number, &known.issue.body).is_some();
        if !known.issue.open || !self.rules.flakes.counts(&known.issue) || (!block && known.comment.is_none()) {
            // Many projects have such a label on issues that are not for us: they are left alone.
            let told = known.comment.map(|comment| (comment, known.told.as_deref().unwrap_or_default()));
            return Ok(self.store.told_issue(&known.repo, number, told, None).await?);
        }
        let body = self.comment_on(known, now).await?;
        if known.told.as_deref() == Some(body.as_str()) {
            let told = known.comment.map(|comment| (comment, body.as_str()));
            return Ok(self.store.told_issue(&known.repo, number, told, look_again).await?);
        }
        let post = ReportPost { body: body.clone(), marker: MARKER.to_owned(), known: known.comment, internal: false };
        match forge.post_issue_comment(&repo, number, &post).await {
            Ok(comment) => {
                self.metrics.posted(forge.name().as_str(), "issue");
                self.store.told_issue(&known.repo, number, Some((comment, &body)), look_again).await?;
            }
            Err(error) => {
                tracing::warn!(repository = %repo.full_name, issue = number, %error, "a comment on a flake's issue failed");
                self.count_failure(forge.name().as_str(), &error);
                let again = error.is_passing() && known.tries < TRIES_MAX;
                let until = again.then(|| now.plus(error.wait(known.tries + 1))).or(look_again);
                self.store.told_issue(&known.repo, number, None, until).await?;
            }
        }
        Ok(())
    }

    /// What our comment on an issue says.
    async fn comment_on(&self, known: &FlakeIssue, now: Timestamp) -> Result<String, FlowError> {
        let label = format!("#{}", known.issue.number);
        let read = (self.rules.flakes.read_issue)(known.issue.number, &known.issue.body);
        let counted = self.store.failures_since(&known.repo, None, now.minus(COUNTED)).await?;
        let mut hits: Vec<&crate::store::FailedRun> = counted
            .iter()
            .filter(|f| f.evidence.as_ref().is_some_and(|e| e.origin == LabelOrigin::Issue(known.issue.number)))
            .collect();
        hits.sort_by_key(|hit| hit.at);
        let of: u64 = match &read {
            Some(Ok(rule)) => {
                let runs = self.store.runs_since(&known.repo, now.minus(COUNTED)).await?;
                let mine = runs.into_iter().filter(|(job, _)| rule.jobs.iter().any(|which| which.fits(job)));
                mine.map(|(_, runs)| runs).sum()
            }
            Some(Err(_)) | None => 0,
        };
        let last = hits.last().map(|hit| (hit.at, hit.job.clone(), hit.sha.clone()));
        let quiet = now.since(last.as_ref().map_or(known.issue.updated_at, |(at, _, _)| *at));
        Ok(issue_comment(&IssueView {
            label: &label,
            rule: read.as_ref().map(|read| read.as_ref().map_err(Vec::as_slice)),
            hits: Rate::new(u64::try_from(hits.len()).unwrap_or(u64::MAX), of),
            passed_later: hits.iter().filter(|hit| hit.passed_at.is_some()).count(),
            last,
            unseen_too_long: (quiet >= self.rules.flakes.close_after).then_some(quiet),
            marker: MARKER,
        }))
    }
}
