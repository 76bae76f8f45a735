//! Follows started retries to their end, and settles the doubtful ones by asking their runner.
//!
//! Webhooks usually bring the news first (`facts.rs`); this loop makes sure that a lost one changes only the delay.

use std::sync::Arc;

use super::dispatch::{Order, dispatch_order, step};
use super::world::{FlowError, Progress, World};
use crate::domain::{
    Conclusion, DispatchKey, JobObservation, JobState, Origin, Repo, Retry, RetryEvent, RetryState, RunHandle,
    RunObservation, RunRef, RunnerName, Timestamp,
};
use crate::ports::{CallError, Found};
use crate::store::Tx;

/// Looks in a row that a runner may refuse before its run counts as gone: a token may be expired for a while.
const REFUSALS_MAX: u32 = 3;

/// Retries looked at per pass.
const BATCH: u32 = 200;

impl World {
    /// One pass over the retries that are due for a look.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn follow_pass(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let mut done = 0;
        for (retry, _) in self.store.due_to_follow(self.now(), BATCH).await? {
            if self.flies(&retry.key) {
                continue; // its dispatcher is at work
            }
            let Some(held) = self.tasks.occupy(format!("follow {}", retry.key)) else { continue };
            done += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.look_at(retry).await });
        }
        Ok(Progress { done })
    }

    async fn look_at(&self, seen: Retry) -> Result<(), FlowError> {
        // It was read before it was occupied: somebody may have moved it on, or have taken it up again.
        let Some(retry) = self.store.retry_by_key(&seen.key).await? else { return Ok(()) };
        if retry.state != seen.state || retry.due_at != seen.due_at || self.flies(&retry.key) {
            return Ok(());
        }
        let now = self.now();
        if now >= retry.deadline_at {
            let mut tx = self.store.begin().await?;
            if let Some(mut retry) = tx.retry(retry.id).await? {
                self.expire(&mut tx, &mut retry, now).await?;
            }
            tx.commit().await?;
            self.wake.report.notify_one();
            return Ok(());
        }
        let (Some(_), Some(repo)) = (self.runner(&retry.runner), self.store.repo(&retry.change.repo).await?) else {
            return self.close_lost(&retry, "its runner is no longer configured").await;
        };
        match (&retry.state, &retry.handle) {
            (RetryState::Dispatched | RetryState::Running, Some(handle)) => self.observe(&repo, &retry, handle).await,
            _ => self.settle(&repo, &retry).await,
        }
    }

    /// Asks for the state of a run.
    async fn observe(&self, repo: &Repo, retry: &Retry, handle: &RunHandle) -> Result<(), FlowError> {
        let Some(entry) = self.runner(&retry.runner) else { return Ok(()) };
        let seen = match entry.runner.observe(repo, &retry.job, handle).await {
            Ok(seen) => seen,
            Err(error @ CallError::Refused { .. }) if retry.tries < REFUSALS_MAX => {
                return self.look_later(retry, &error).await;
            }
            Err(CallError::Refused { log, .. }) => {
                tracing::warn!(runner = %retry.runner, key = %retry.key, %log, "a run is gone from its runner");
                return self.close_lost(retry, &log).await;
            }
            Err(error) => return self.look_later(retry, &error).await,
        };
        self.take_observation(retry, &seen).await
    }

    /// Somebody said that there is news of a run: it is looked at next. False when no run of the runner has this key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn look_soon(&self, key: &DispatchKey, runner: &RunnerName) -> Result<bool, FlowError> {
        let Some(known) = self.store.retry_by_key(key).await?.filter(|r| r.runner == *runner) else { return Ok(false) };
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let followed = |r: &Retry| matches!(r.state, RetryState::Dispatched | RetryState::Running) && r.due_at > now;
        if let Some(mut retry) = tx.retry(known.id).await?.filter(followed) {
            retry.due_at = now;
            retry.tries = 0; // it may have been told a moment before it can be read: the next look is soon, too
            tx.put_retry(&retry, None).await?;
            tx.commit().await?;
            self.wake.follow.notify_one();
        }
        Ok(true)
    }

    /// Takes news of a run that we started into the record and the retry. Webhooks of runners, polling and callbacks
    /// all end here.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take_observation(&self, retry: &Retry, seen: &RunObservation) -> Result<(), FlowError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let given = retry.handle.clone();
        let Some(mut retry) = tx.retry(retry.id).await?.filter(|r| r.state.is_open()) else { return Ok(()) };
        // A callback may be faster than the runner's answer, and then brings the handle with it.
        retry.handle = retry.handle.or(given);
        self.put_followed(&mut tx, &retry, seen, now).await?;
        let changed = self.see_run(&mut tx, &mut retry, seen).await?;
        if retry.state.is_open() {
            retry.tries = if changed { 0 } else { retry.tries.saturating_add(1) };
            retry.due_at = now.plus(self.poll_after(&retry)).min(retry.deadline_at);
            tx.put_retry(&retry, None).await?;
        }
        tx.commit().await?;
        self.wake.report.notify_one();
        self.wake.dispatch.notify_one();
        self.wake.follow.notify_one();
        Ok(())
    }

    /// Keeps the record's newest run true for runs that nobody else reports.
    pub(super) async fn put_followed(
        &self,
        tx: &mut Tx,
        retry: &Retry,
        seen: &RunObservation,
        now: Timestamp,
    ) -> Result<(), FlowError> {
        let Some(handle) = &retry.handle else { return Ok(()) };
        let known = tx.job(&retry.change.repo, &retry.sha, &retry.job, &retry.scope).await?.map(|job| job.newest);
        let news = JobObservation {
            name: retry.job.clone(),
            scope: retry.scope.clone(),
            origin: known.as_ref().map_or(Origin::Followed, |k| k.origin.clone()),
            run: seen.run.clone().unwrap_or_else(|| RunRef::new(handle.id.clone())),
            // What our own runs have in the second place counts restarts; their own clocks and ours need not agree.
            order: if self.is_native(retry) { seen.order.max(handle.order) } else { handle.order },
            group: retry.group.clone(),
            state: seen.state,
            cause: seen.cause.clone(),
            url: seen.url.clone().or_else(|| handle.url.clone()),
            allow_failure: known.as_ref().is_some_and(|k| k.allow_failure),
            manual: false,
            needs: known.and_then(|k| k.needs),
            at: now,
        };
        self.take_run(tx, (&retry.change.repo, &retry.sha), &news, Some(&retry.runner)).await?;
        Ok(())
    }

    /// Asks whether a retry was started whose answer got lost, or whose dispatcher died.
    async fn settle(&self, repo: &Repo, retry: &Retry) -> Result<(), FlowError> {
        let Some(entry) = self.runner(&retry.runner) else { return Ok(()) };
        let order = dispatch_order(&Order::one(retry.clone()), repo.clone());
        let found = match entry.runner.find(&order).await {
            Ok(found) => found,
            Err(error) if error.is_passing() => return self.look_later(retry, &error).await,
            Err(error) => {
                tracing::warn!(runner = %retry.runner, key = %retry.key, %error, "the runner cannot say whether a run was started");
                Found::CannotTell
            }
        };
        let now = self.now();
        let mut tx = self.store.begin().await?;
        let still = |r: &Retry| r.state == retry.state && !self.flies(&r.key);
        let Some(mut retry) = tx.retry(retry.id).await?.filter(still) else { return Ok(()) };
        tracing::info!(runner = %retry.runner, key = %retry.key, ?found, "read back a doubtful dispatch");
        match &found {
            Found::Sent(started) => self.save_started(&mut tx, &mut retry, started).await?,
            Found::NotSent => {
                step(&mut retry, RetryEvent::NotSent);
                retry.due_at = now;
                tx.put_retry(&retry, None).await?;
            }
            Found::CannotTell => {
                step(&mut retry, RetryEvent::Ended(Conclusion::Lost));
                retry.ended_at = Some(now);
                retry.cause = Some("no answer, and the runner cannot be asked".into());
                self.metrics.retry_ended(retry.runner.as_str(), "lost");
                tx.put_retry(&retry, None).await?;
                self.release_waiting(&mut tx, &retry, now).await?;
            }
        }
        tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
        tx.commit().await?;
        self.wake.dispatch.notify_one();
        self.wake.report.notify_one();
        Ok(())
    }

    async fn look_later(&self, retry: &Retry, error: &CallError) -> Result<(), FlowError> {
        tracing::info!(runner = %retry.runner, key = %retry.key, %error, "a look at a run failed; it is looked at again later");
        self.count_failure(retry.runner.as_str(), error);
        let mut tx = self.store.begin().await?;
        let Some(mut retry) = tx.retry(retry.id).await?.filter(|r| r.state.is_open()) else { return Ok(()) };
        retry.tries = retry.tries.saturating_add(1);
        let wait = error.wait(retry.tries).max(self.poll_after(&retry));
        retry.due_at = self.now().plus(wait).min(retry.deadline_at);
        if retry.state == RetryState::Dispatching {
            // Its dispatcher is gone: from here on it is a doubt.
            step(&mut retry, RetryEvent::NoAnswer);
        }
        tx.put_retry(&retry, None).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn close_lost(&self, retry: &Retry, why: &str) -> Result<(), FlowError> {
        let order = retry.handle.as_ref().map_or(retry.source_order, |h| h.order);
        let seen = RunObservation { state: JobState::Lost, cause: Some(why.to_owned()), url: None, run: None, order };
        self.take_observation(retry, &seen).await
    }
}
