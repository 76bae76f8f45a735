//! Brings what people see up to date: reactions, statuses, check runs, the report.
//!
//! Rendered from the store and compared with what was posted, so that an unchanged post is never sent again, and a post
//! that was not remembered is sent once more: statuses are idempotent by context, the report by its hidden marker.

use std::sync::Arc;

use super::points::Point;
use super::world::{FlowError, Progress, World};
use crate::decide::{
    Beside, CleanBefore, FlakeNote, Overridden, Readers, ReportView, Whole, aggregate, check_run, has_news,
    job_statuses, render, unclean,
};
use crate::domain::{Change, Repo, Retry, Timestamp};
use crate::ports::{CallError, CheckPost, Forge, PostedStatus, ReportPost};
use crate::store::{DueReaction, FailedRun, JobQuery, PostKind, Unreported};

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

/// What is posted of a revision, beside the retries themselves.
struct Scene {
    retries: Vec<Retry>,
    flakes: Vec<FlakeNote>,
    undecided: u32,
    overridden: Vec<Overridden>,
    unclean: Option<String>,
    whole: Option<Whole>,
}

impl Scene {
    fn beside(&self) -> Beside<'_> {
        Beside {
            undecided: self.undecided,
            overridden: &self.overridden,
            unclean: self.unclean.as_deref(),
            whole: self.whole,
        }
    }
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
        let change = match change.change.head == wanted.sha {
            true => change.change,
            // A merge queue's commit has a pipeline of its own.
            false => self.queued(&repo.key, &wanted.sha).await?.unwrap_or(change.change),
        };
        let result = self.post_all(forge.as_ref(), &repo, &change, wanted).await?;
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
        let scene = self.scene_of(forge, repo, change, wanted).await?;
        let style = self.style(&repo.key);
        let (mut statuses, mut check, mut report) = (Ok(()), Ok(()), Ok(()));
        if style.statuses {
            statuses = self.post_statuses(forge, repo, change, (wanted, &scene)).await?;
            check = self.post_check(forge, repo, wanted, &scene).await?;
        }
        let queued = self.store.queue_entry(&repo.key, &wanted.sha).await?.is_some();
        if self.rules.reports && style.comment && change.head == wanted.sha && !queued {
            report = self.post_report(forge, repo, change, (&scene, style.quiet)).await?;
        }
        // One refusal does not stop the others; one that passes is what is told, so that it is tried again.
        Ok(first_passing(first_passing(statuses, check), report))
    }

    /// Everything that is told of a revision.
    async fn scene_of(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
        wanted: &Unreported,
    ) -> Result<Scene, FlowError> {
        let place = (&repo.key, &wanted.sha);
        let retries = self.store.retries_of(&wanted.change, &wanted.sha).await?;
        let failures = self.store.failures_of(place.0, place.1).await?;
        let open = |failure: &FailedRun| {
            retries.iter().any(|r| r.job == failure.job && r.scope == failure.scope && r.state.is_open())
        };
        let mut undecided = 0;
        for (failure, due) in &failures {
            let judged = *due && change.open && failure.passed_at.is_none() && !open(failure);
            undecided += u32::from(judged && self.may_be_retried(change, failure).await?);
        }
        let clean = self.last_policy(&repo.key).terms.autoretry.clean;
        let mut jobs = Vec::new();
        if self.rules.posts.always || (clean == CleanBefore::Full && !retries.is_empty()) {
            jobs = self.store.jobs(place.0, place.1, &JobQuery::All).await?;
        }
        let whole = match self.rules.posts.always && !jobs.is_empty() {
            true => {
                let mut required = self.required_names(forge, repo, change).await.unwrap_or_default();
                required.retain(|name| *name != self.rules.posts.aggregate); // it is what is made of the others
                Some(Whole::of(&jobs, &required))
            }
            false => None,
        };
        let last: Option<Timestamp> = failures.iter().map(|(failure, _)| failure.at).max();
        Ok(Scene {
            flakes: notes(&failures, open),
            undecided,
            overridden: self.store.overridden(place.0, place.1).await?,
            unclean: unclean(clean, &retries, &jobs, last),
            whole,
            retries,
        })
    }

    async fn post_statuses(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
        (wanted, scene): (&Unreported, &Scene),
    ) -> Result<Result<(), CallError>, FlowError> {
        let unreported = |r: &Retry| self.runner(&r.runner).is_none_or(|e| !e.runner.abilities().reported_by_forge);
        let mut posts = job_statuses(&scene.retries, &scene.overridden, unreported);
        posts.extend(aggregate(&scene.retries, &self.rules.posts, &scene.beside()));
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
        scene: &Scene,
    ) -> Result<Result<(), CallError>, FlowError> {
        let Some(post) = check_run(&scene.retries, &self.rules.posts, &scene.beside(), &wanted.sha) else {
            return Ok(Ok(()));
        };
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
        (scene, quiet): (&Scene, bool),
    ) -> Result<Result<(), CallError>, FlowError> {
        let (retries, flakes) = (scene.retries.as_slice(), scene.flakes.as_slice());
        let answers = self.store.answers(&change.key, ANSWERS_MAX).await?;
        let mut result = Ok(());
        for readers in Readers::ALL {
            let (known, text) = self.store.report(&change.key, readers).await?;
            let for_them = answers.iter().any(|a| readers.may_read(a.internal))
                || retries.iter().any(|r| readers.may_read(r.internal))
                || (readers == Readers::Everybody && !flakes.is_empty());
            if known.is_none() && (!for_them || (quiet && flakes.is_empty() && !has_news(readers, retries, &answers))) {
                continue; // nothing was ever told them here, and nothing need be
            }
            let body = render(&ReportView { sha: &change.head, retries, answers: &answers, flakes, readers });
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

/// What is told of failures with a known flake behind them: the newest of each job, unless a retry tells of it.
fn notes(failures: &[(FailedRun, bool)], open: impl Fn(&FailedRun) -> bool) -> Vec<FlakeNote> {
    let mut newest: Vec<&(FailedRun, bool)> = Vec::new();
    for one in failures {
        match newest.iter_mut().find(|(f, _)| f.job == one.0.job && f.scope == one.0.scope) {
            Some(slot) => *slot = one,
            None => newest.push(one),
        }
    }
    let told = newest.into_iter().filter(|(failure, _)| failure.passed_at.is_none() && !open(failure));
    let note = |(failure, held): &(FailedRun, bool)| {
        let verdict = failure.verdict.clone().filter(|verdict| verdict != super::judge::RETRIED)?;
        Some(FlakeNote { job: failure.job.clone(), evidence: failure.evidence.clone()?, verdict, held: *held })
    };
    told.filter_map(note).collect()
}
