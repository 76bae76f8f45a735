//! What holds unasked retries back: the breaker of a runner, and what was decided since one was stored.
//!
//! Read next: `decide/flake/breaker.rs` for when a breaker opens.

use std::time::Duration;

use super::world::{FlowError, World};
use crate::decide::{Breaker, ChangeSwitch, Probe};
use crate::domain::{
    Change, ChangeKey, CommitSha, Conclusion, DispatchKey, LabelOrigin, RepoKey, Retry, RetryEvent, RetryState,
    RunnerName, Timestamp, WaitOn,
};
use crate::store::Tx;

/// Time until the next look at a retry that its runner's breaker holds back without a date.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl World {
    /// The breaker of a runner as it stands now; a new state is stored. `of` is the retry that asks: a half-open breaker lets
    /// its own probe through.
    pub(super) async fn breaker_now(
        &self,
        tx: &mut Tx,
        (runner, of): (&RunnerName, &DispatchKey),
        now: Timestamp,
    ) -> Result<Breaker, FlowError> {
        let rule = &self.rules.flakes.breaker;
        let (old, probe) = self.store.breaker(runner).await?;
        let health = self.store.health(runner, old.counted_from(rule, now)).await?;
        let fares = match &probe {
            Some(key) if key != of => self.fares(key).await?,
            Some(_) | None => Probe::None,
        };
        let new = old.step(rule, health, fares, now);
        if std::mem::discriminant(&new) != std::mem::discriminant(&old) {
            tracing::warn!(%runner, ?new, heads = health.heads, failing = health.failing, "the breaker of a runner moved");
            tx.put_breaker(runner, &new, now).await?;
        }
        Ok(new)
    }

    /// How a retry fares that tries whether its runner has recovered.
    async fn fares(&self, key: &DispatchKey) -> Result<Probe, FlowError> {
        let state = self.store.retry_by_key(key).await?.map(|retry| retry.state);
        Ok(match state {
            Some(state) if state.is_open() => Probe::Running,
            Some(RetryState::Finished(Conclusion::Passed)) => Probe::Passed,
            Some(RetryState::Finished(end)) if end.state().is_restartable() && end != Conclusion::Cancelled => {
                Probe::Failed
            }
            Some(RetryState::Rejected(_) | RetryState::Expired) => Probe::Failed,
            Some(_) | None => Probe::None, // it tells nothing of the runner
        })
    }

    /// Whether a retry that nobody asked for may go now that its time has come: its label still holds, nobody has switched
    /// it off, and its runner is not held back. Else it is ended, or put off.
    pub(super) async fn may_go(&self, tx: &mut Tx, retry: &mut Retry, now: Timestamp) -> Result<bool, FlowError> {
        let Some(unasked) = retry.unasked.clone() else { return Ok(true) };
        if let Some(why) = self.forbidden_since(retry, &unasked.evidence.origin, &unasked.evidence.label).await? {
            let what = format!("not retried unasked after all: {why}");
            tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), retry.internal), &what, now).await?;
            retry.cause = Some(why);
            self.abandon(tx, retry, RetryEvent::CancelAsked, now).await?;
            return Ok(false);
        }
        let breaker = self.breaker_now(tx, (&retry.runner, &retry.key), now).await?;
        if breaker.lets_through() {
            if let Breaker::HalfOpen { .. } = breaker {
                tx.put_probe(&retry.runner, &retry.key).await?;
            }
            retry.cause = None;
            return Ok(true);
        }
        let until = match breaker {
            Breaker::Open { until } => until,
            Breaker::HalfOpen { .. } | Breaker::Closed { .. } => now.plus(LOOK_AGAIN),
        };
        retry.due_at = until.max(now.plus(Duration::from_secs(1))).min(retry.deadline_at);
        retry.cause = Some("many changes fail on its runner at present".into());
        if let Ok(next) = retry.state.step(RetryEvent::Parked(WaitOn::Until(retry.due_at))) {
            retry.state = next;
        }
        tx.put_retry(retry, None).await?;
        tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
        Ok(false)
    }

    /// What was decided against a waiting retry since it was stored; none when nothing was.
    async fn forbidden_since(
        &self,
        retry: &Retry,
        origin: &LabelOrigin,
        label: &str,
    ) -> Result<Option<String>, FlowError> {
        let flakes = &self.rules.flakes;
        let Some(change) = self.store.change(&retry.change, i64::MAX).await?.map(|stored| stored.change) else {
            return Ok(Some("its change is not known any more".into()));
        };
        let switch = self.switched(&retry.change).await?;
        if !flakes.enabled || flakes.never(&change).is_some() || switch == ChangeSwitch::Off {
            return Ok(Some("retries of flakes were switched off".into()));
        }
        let holds = match origin {
            LabelOrigin::Change => flakes.auto(&change).is_some() || switch == ChangeSwitch::On,
            LabelOrigin::Operator => flakes.rules.rules.iter().any(|rule| rule.label == label),
            LabelOrigin::Repository | LabelOrigin::Issue(_) => {
                let policy = self.last_policy(&retry.change.repo);
                let labels = self.labels_of(&retry.change.repo, &policy).await?;
                labels.rules().iter().any(|rule| rule.origin == *origin && rule.label == label)
            }
        };
        Ok((!holds).then(|| format!("{label} is no label any more")))
    }

    /// The change that a merge queue tests at a commit, with that commit as its head; none when no queue does.
    pub(super) async fn queued(&self, repo: &RepoKey, sha: &CommitSha) -> Result<Option<Change>, FlowError> {
        let Some((number, base_ref)) = self.store.queue_entry(repo, sha).await? else { return Ok(None) };
        let key = ChangeKey { repo: repo.clone(), number };
        let Some(stored) = self.store.change(&key, i64::MAX).await? else { return Ok(None) };
        let base_ref = if base_ref.is_empty() { stored.change.base_ref.clone() } else { base_ref };
        // What the queue merged is no fork's any more: whoever let it in has looked at it.
        Ok(Some(Change { head: sha.clone(), base_ref, from_fork: false, head_pipeline: None, ..stored.change }))
    }
}
