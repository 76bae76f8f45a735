//! Brings what people see up to date: reactions, statuses, check runs, the report.
//!
//! Rendered from the store and compared with what was posted, so that an unchanged post is never sent again, and a post
//! that was not remembered is sent once more: statuses are idempotent by context, the report by its hidden marker.

use std::sync::Arc;

use super::points::Point;
use super::world::{FlowError, Progress, World};
use crate::decide::{Readers, ReportView, aggregate, check_run, has_news, job_statuses, render};
use crate::domain::{Change, Repo, Retry};
use crate::ports::{CallError, CheckPost, Forge, PostedStatus, ReportPost};
use crate::store::{DueReaction, PostKind, Unreported};

/// Things looked at per pass.
const BATCH: u32 = 100;

/// Answers shown in a report at most.
const ANSWERS_MAX: u32 = 40;

/// Failed tries after which a reaction is given up; a status or a report never is.
const REACTION_TRIES_MAX: u32 = 6;

/// A check run as it was last posted; the id is none where the forge cannot have one.
#[derive(serde::Serialize, serde::Deserialize)]
struct PostedCheck {
    id: Option<u64>,
    post: CheckPost,
}

impl World {
    /// One pass over everything that is due to be posted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn report_pass(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let mut done = 0;
        for wanted in self.store.due_reactions(self.now(), BATCH).await? {
            let Some(held) = self.tasks.occupy(format!("reaction {}", wanted.row)) else { continue };
            done += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.react_one(&wanted).await });
        }
        for wanted in self.store.due_reports(self.now(), BATCH).await? {
            let key = &wanted.change;
            let name = format!("report {}/{}/{}", key.repo.forge, key.repo.id, key.number);
            let Some(held) = self.tasks.occupy(name) else { continue };
            done += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.report_one(&wanted).await });
        }
        Ok(Progress { done })
    }

    async fn react_one(&self, wanted: &DueReaction) -> Result<(), FlowError> {
        let forge = self.forges.get(&wanted.change.repo.forge);
        let repo = self.store.repo(&wanted.change.repo).await?;
        let (Some(forge), Some(repo)) = (forge, repo) else {
            return Ok(self.store.set_reaction(wanted.row, None).await?);
        };
        let until = match forge.react(&repo, &wanted.change, &wanted.comment, wanted.reaction).await {
            Ok(()) => {
                self.metrics.posted(forge.name().as_str(), "reaction");
                None
            }
            Err(error) => {
                tracing::warn!(repository = %repo.full_name, %error, "a reaction could not be made");
                self.count_failure(forge.name().as_str(), &error);
                let again = error.is_passing() && wanted.tries < REACTION_TRIES_MAX;
                again.then(|| self.now().plus(error.wait(wanted.tries + 1)))
            }
        };
        Ok(self.store.set_reaction(wanted.row, until).await?)
    }

    async fn report_one(&self, wanted: &Unreported) -> Result<(), FlowError> {
        let forge = self.forges.get(&wanted.change.repo.forge);
        let repo = self.store.repo(&wanted.change.repo).await?;
        let change = self.store.change(&wanted.change, i64::MAX).await?;
        let (Some(forge), Some(repo), Some(change)) = (forge, repo, change) else {
            return Ok(self.store.reported(wanted).await?);
        };
        let result = self.post_all(forge.as_ref(), &repo, &change.change, wanted).await?;
        match result {
            Ok(()) => self.store.reported(wanted).await?,
            Err(error) => {
                tracing::warn!(repository = %repo.full_name, change = wanted.change.number, %error, "a post failed");
                self.count_failure(forge.name().as_str(), &error);
                if error.is_passing() {
                    self.store.put_off_report(wanted, self.now().plus(error.wait(wanted.tries + 1))).await?;
                } else {
                    self.store.reported(wanted).await?;
                }
            }
        }
        Ok(())
    }

    async fn post_all(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
        wanted: &Unreported,
    ) -> Result<Result<(), CallError>, FlowError> {
        let retries = self.store.retries_of(&wanted.change, &wanted.sha).await?;
        let style = self.style(&repo.key);
        let (mut statuses, mut check, mut report) = (Ok(()), Ok(()), Ok(()));
        if style.statuses {
            statuses = self.post_statuses(forge, repo, change, (wanted, &retries)).await?;
            check = self.post_check(forge, repo, wanted, &retries).await?;
        }
        if self.rules.reports && style.comment && change.head == wanted.sha {
            report = self.post_report(forge, repo, change, (&retries, style.quiet)).await?;
        }
        // One refusal does not stop the others; one that passes is what is told, so that it is tried again.
        Ok(first_passing(first_passing(statuses, check), report))
    }

    async fn post_statuses(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
        (wanted, retries): (&Unreported, &[Retry]),
    ) -> Result<Result<(), CallError>, FlowError> {
        let unreported = |r: &Retry| self.runner(&r.runner).is_none_or(|e| !e.runner.abilities().reported_by_forge);
        let mut posts = job_statuses(retries, unreported);
        posts.extend(aggregate(retries, &self.rules.posts));
        let posted: Vec<(String, PostedStatus)> = self.store.posted(&repo.key, &wanted.sha, PostKind::Status).await?;
        let mut result = Ok(());
        for post in posts {
            if posted.iter().any(|(_, old)| old.post == post) {
                continue;
            }
            match forge.post_status(repo, change, &wanted.sha, &post).await {
                Ok(new) => {
                    self.metrics.posted(forge.name().as_str(), "status");
                    self.reach(Point::StatusPosted)?;
                    let place = (&repo.key, &wanted.sha);
                    self.store.put_posted(place, PostKind::Status, &post.context, &new, self.now()).await?;
                }
                Err(error) => result = first_passing(result, Err(error)),
            }
        }
        Ok(result)
    }

    async fn post_check(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        wanted: &Unreported,
        retries: &[Retry],
    ) -> Result<Result<(), CallError>, FlowError> {
        let Some(post) = check_run(retries, &self.rules.posts, &wanted.sha) else { return Ok(Ok(())) };
        let posted: Vec<(String, PostedCheck)> = self.store.posted(&repo.key, &wanted.sha, PostKind::Check).await?;
        let known = posted.into_iter().find(|(name, _)| *name == post.name).map(|(_, old)| old);
        if known.as_ref().is_some_and(|old| old.post == post) {
            return Ok(Ok(()));
        }
        let id = match forge.post_check(repo, &wanted.sha, known.and_then(|old| old.id), &post).await {
            Ok(None) => return Ok(Ok(())),
            Ok(id) => id,
            Err(error) => return Ok(Err(error)),
        };
        self.metrics.posted(forge.name().as_str(), "check");
        let name = post.name.clone();
        let new = PostedCheck { id, post };
        self.store.put_posted((&repo.key, &wanted.sha), PostKind::Check, &name, &new, self.now()).await?;
        Ok(Ok(()))
    }

    async fn post_report(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
        (retries, quiet): (&[Retry], bool),
    ) -> Result<Result<(), CallError>, FlowError> {
        let answers = self.store.answers(&change.key, ANSWERS_MAX).await?;
        let mut result = Ok(());
        for readers in Readers::ALL {
            let (known, text) = self.store.report(&change.key, readers).await?;
            let for_them = answers.iter().any(|a| readers.may_read(a.internal))
                || retries.iter().any(|r| readers.may_read(r.internal));
            if known.is_none() && (!for_them || (quiet && !has_news(readers, retries, &answers))) {
                continue; // nothing was ever told them here, and nothing need be
            }
            let body = render(&ReportView { sha: &change.head, retries, answers: &answers, readers });
            if text.as_deref() == Some(body.as_str()) {
                continue;
            }
            let internal = readers == Readers::Members;
            let post = ReportPost { body: body.clone(), marker: readers.marker().to_owned(), known, internal };
            match forge.post_report(repo, &change.key, &post).await {
                Ok(id) => {
                    self.metrics.posted(forge.name().as_str(), "report");
                    self.reach(Point::ReportPosted)?;
                    self.store.put_report(&change.key, readers, id, &body).await?;
                }
                Err(error) => result = first_passing(result, Err(error)),
            }
        }
        Ok(result)
    }
}

/// Of two results the failure that may pass, else the first failure.
fn first_passing(first: Result<(), CallError>, second: Result<(), CallError>) -> Result<(), CallError> {
    match (first, second) {
        (Err(first), Err(second)) if !first.is_passing() && second.is_passing() => Err(second),
        (Err(first), _) => Err(first),
        (Ok(()), second) => second,
    }
}
