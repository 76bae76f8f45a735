//! Retries that depend on others: those that wait for jobs to pass, and those that follow one another in a series.
//!
//! Whether a need is met is read from the record, not remembered: a restart, a lost webhook and somebody else's run of
//! the needed job come to the same. Nothing is decided here about what may start. Read next: `dispatch.rs`.

use super::lines::dispatch_key;
use super::world::{FlowError, World};
use crate::domain::{Conclusion, JobName, JobState, Retry, RetryEvent, RetryId, RetryState, Series, Timestamp, WaitOn};
use crate::store::{JobQuery, Tx};

/// How the jobs stand that a retry waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// All have passed.
    Met,
    /// At least one is still to end.
    Open {
        /// Whether a retry of ours is on it, which has a deadline of its own.
        followed: bool,
    },
    /// One ended otherwise and nobody runs it again: how it ended.
    Failed(JobName, String),
}

impl World {
    /// How the jobs stand that a retry waits for. A need that was to be run again counts by that retry, not by an older
    /// success, unless it has passed since.
    pub(super) async fn needs_of(&self, retry: &Retry, needs: &[JobName]) -> Result<Needs, FlowError> {
        let names = needs.iter().map(ToString::to_string).collect();
        let jobs = self.store.jobs(&retry.change.repo, &retry.sha, &JobQuery::Named(names)).await?;
        let retries = self.store.retries_of(&retry.change, &retry.sha).await?;
        let failures = self.store.failures_of(&retry.change.repo, &retry.sha).await?;
        let judged = |need: &JobName| failures.iter().any(|(failure, due)| *due && failure.job == *need);
        let (mut open, mut followed) = (false, false);
        for need in needs {
            let since = |r: &&Retry| r.job == *need && r.ended_at.is_none_or(|at| at >= retry.created_at);
            let latest = retries.iter().filter(since).max_by_key(|r| r.id);
            let named = || jobs.iter().filter(|job| job.newest.name == *need);
            let job = named().find(|job| job.newest.scope == retry.scope).or_else(|| named().next());
            let state = job.map(|job| job.newest.state);
            match latest.map(|r| (&r.state, r.ended_at)) {
                Some((RetryState::Finished(Conclusion::Passed), _)) => {}
                Some((closed, Some(ended))) => {
                    let again = job.is_some_and(|job| job.newest.at > ended);
                    match state {
                        Some(JobState::Passed) if again => {}
                        Some(JobState::Pending | JobState::Running) if again => open = true,
                        _ if judged(need) => open = true,
                        _ => return Ok(Needs::Failed(need.clone(), ended_as(closed))),
                    }
                }
                Some((_, None)) => (open, followed) = (true, true),
                None => match state {
                    Some(JobState::Passed) => {}
                    Some(state) if state.is_restartable() && judged(need) => open = true,
                    Some(state) if state.is_restartable() => return Ok(Needs::Failed(need.clone(), state.to_string())),
                    // Skipped so far, or not heard of: what starts it may be on its way. The deadline ends the wait.
                    Some(_) | None => open = true,
                },
            }
        }
        Ok(if open { Needs::Open { followed } } else { Needs::Met })
    }

    /// Lets a due retry go that waited for jobs, keeps it waiting, or ends it. True when it may be claimed.
    pub(super) async fn after_needs(
        &self,
        tx: &mut Tx,
        retry: &mut Retry,
        needs: &[JobName],
        now: Timestamp,
    ) -> Result<bool, FlowError> {
        match self.needs_of(retry, needs).await? {
            Needs::Met => {
                retry.deadline_at = self.deadline_from(retry, now); // its own time begins now
                return Ok(true);
            }
            Needs::Open { followed } => {
                if followed {
                    retry.deadline_at = self.deadline_from(retry, now);
                }
                retry.due_at = now.plus(self.poll_after(retry)).min(retry.deadline_at);
                retry.tries = retry.tries.saturating_add(1);
                tx.put_retry(retry, None).await?;
            }
            Needs::Failed(need, state) => {
                let why = format!("it needs {need}, which ended as {state}");
                if let Ok(next) = retry.state.step(RetryEvent::Refused(why.clone())) {
                    retry.state = next;
                    retry.ended_at = Some(now);
                    tx.put_retry(retry, None).await?;
                    tx.audit(
                        &retry.change,
                        &retry.sha,
                        (retry.job.as_str(), retry.internal),
                        &format!("not started: {why}"),
                        now,
                    )
                    .await?;
                    tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
                    self.metrics.retry_ended(retry.runner.as_str(), "rejected");
                    self.release_waiting(tx, retry, now).await?;
                }
            }
        }
        Ok(false)
    }

    /// When a retry expires whose time begins now.
    fn deadline_from(&self, retry: &Retry, now: Timestamp) -> Timestamp {
        self.runner(&retry.runner).map_or(retry.deadline_at, |entry| now.plus(entry.deadline))
    }

    /// Something of this revision ended: those that wait for jobs of it look again.
    pub(super) async fn release_waiting(&self, tx: &mut Tx, ended: &Retry, now: Timestamp) -> Result<(), FlowError> {
        for mut retry in tx.open_retries(&ended.change.repo, &ended.sha).await? {
            if let RetryState::Waiting(WaitOn::Jobs(_)) = retry.state {
                retry.due_at = now;
                tx.put_retry(&retry, None).await?;
            }
        }
        self.wake.dispatch.notify_one();
        Ok(())
    }

    /// The next run of a series, whatever came of the last one; a run that was cancelled ends the series.
    pub(super) async fn continue_series(&self, tx: &mut Tx, ended: &Retry, now: Timestamp) -> Result<(), FlowError> {
        let (RetryState::Finished(end), Some(series)) = (&ended.state, ended.series) else { return Ok(()) };
        let stopped = matches!(end, Conclusion::Cancelled | Conclusion::Superseded);
        if series.place >= series.of || stopped {
            return Ok(());
        }
        let Some(entry) = self.runner(&ended.runner) else { return Ok(()) };
        let newest = tx.job(&ended.change.repo, &ended.sha, &ended.job, &ended.scope).await?.map(|job| job.newest);
        let number = ended.number + 1;
        let mut next = Retry {
            id: RetryId(0),
            key: dispatch_key(&ended.change, &ended.sha, (ended.job.as_str(), &ended.scope), number),
            state: RetryState::Requested,
            handle: None,
            cause: None,
            number,
            series: Some(Series { place: series.place + 1, ..series }),
            also: Vec::new(),
            created_at: now,
            due_at: now,
            tries: 0,
            dispatched_at: None,
            ended_at: None,
            deadline_at: now.plus(entry.deadline),
            ..ended.clone()
        };
        if let Some(newest) = newest {
            next.source_run = Some(newest.run);
            next.source_order = newest.order;
            next.group = newest.group;
        }
        if tx.new_retry(&next, None).await?.is_some() {
            let what = format!("run {} of {} asked for", series.place + 1, series.of);
            tx.audit(&next.change, &next.sha, (next.job.as_str(), next.internal), &what, now).await?;
            self.wake.dispatch.notify_one();
        }
        Ok(())
    }
}

/// How a retry ended, for people.
fn ended_as(state: &RetryState) -> String {
    match state {
        RetryState::Finished(end) => end.state().to_string(),
        other => other.word().to_owned(),
    }
}
