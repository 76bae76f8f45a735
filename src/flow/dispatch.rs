//! Starts retries in their runners: stored intent, one call, stored result.
//!
//! **Invariant:** a runner is called only for a retry that is committed as `Dispatching` and owned by this process, and
//! only while its head is the change's head. A lost answer leads to a question, never to a second call.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use super::points::Point;
use super::world::{FlowError, Progress, RunnerEntry, World};
use crate::domain::{
    Repo, RepoKey, Retry, RetryEvent, RetryState, RunHandle, RunObservation, RunOrder, Timestamp, WaitOn,
};
use crate::ports::{CallError, DispatchError, DispatchOrder, JobOrder, Started};
use crate::store::{GroupFacts, Tx};

/// Retries looked at per pass.
const BATCH: u32 = 200;

/// One call to be made: retries that are claimed.
#[derive(Clone, Debug)]
pub(super) struct Order {
    first: Retry,
    rest: Vec<Retry>,
    whole_group: bool,
    /// The repository, and the version of the store at which all of this was so.
    as_of: Option<(u64, Repo)>,
}

/// What becomes of retries that are to be started.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The calls to be made; their retries are claimed.
    pub orders: Vec<Order>,
    /// Retries whose group is busy.
    pub parked: Vec<Retry>,
}

impl Order {
    /// A call for one retry.
    pub(super) const fn one(retry: Retry) -> Self {
        Self { first: retry, rest: Vec::new(), whole_group: false, as_of: None }
    }

    /// The same call, as was so at this version of the store.
    pub(super) fn dated(self, version: u64, repo: &Repo) -> Self {
        Self { as_of: Some((version, repo.clone())), ..self }
    }

    /// The retries.
    pub(super) fn retries(&self) -> impl Iterator<Item = &Retry> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

impl World {
    /// One pass: what commands handed over, what is due, and cancellations.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn dispatch_pass(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let due = self.claim_due().await?;
        let mut done = due.len();
        self.carry_out_all(due);
        done += self.cancel_due().await?;
        Ok(Progress { done })
    }

    fn carry_out_all(self: &Arc<Self>, orders: Vec<Order>) {
        for order in orders {
            let world = Arc::clone(self);
            self.spawn(None, async move { world.carry_out(order).await });
        }
    }

    /// Hands claimed retries over to be started as soon as the command that claimed them is done with.
    pub(super) fn hand_over(&self, orders: Vec<Order>) {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner).extend(orders);
    }

    /// Starts what commands have handed over, without waiting for a look into the store.
    pub(super) fn carry_out_handed_over(self: &Arc<Self>) {
        let orders = std::mem::take(&mut *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner));
        self.carry_out_all(orders);
    }

    async fn claim_due(&self) -> Result<Vec<Order>, FlowError> {
        let now = self.now();
        let due = self.store.due_to_start(now, BATCH).await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let mut tx = self.store.begin().await?;
        let mut ready = Vec::new();
        for old in due {
            let Some(mut retry) = tx.retry(old.id).await?.filter(|r| r.state == old.state) else { continue };
            if self.expire(&mut tx, &mut retry, now).await? {
                continue;
            }
            if let RetryState::Waiting(WaitOn::Jobs(needs)) = retry.state.clone()
                && !self.after_needs(&mut tx, &mut retry, &needs, now).await?
            {
                continue;
            }
            if !self.may_go(&mut tx, &mut retry, now).await? {
                continue;
            }
            if let RetryState::Waiting(_) = retry.state
                && let Ok(next) = retry.state.step(RetryEvent::Released)
            {
                retry.state = next;
            }
            ready.push(retry);
        }
        let orders = self.claim(&mut tx, ready, now).await?;
        tx.commit().await?;
        Ok(orders)
    }

    /// Claims requested retries in the transaction that stored or released them.
    pub(super) async fn claim(&self, tx: &mut Tx, ready: Vec<Retry>, now: Timestamp) -> Result<Vec<Order>, FlowError> {
        let mut groups: BTreeMap<RepoKey, GroupFacts> = BTreeMap::new();
        for retry in &ready {
            let Some(group) = self.group_of(retry) else { continue };
            let facts = groups.entry(retry.change.repo.clone()).or_default();
            if !facts.bad.contains_key(group) {
                let bad = self.store.bad_in_group(&retry.change.repo, &retry.sha, group).await?;
                facts.bad.insert(group.to_owned(), bad);
                if self.store.open_in_group(&retry.change.repo, group).await?.iter().any(|r| r.state.may_have_run()) {
                    facts.busy.insert(group.to_owned());
                }
            }
        }
        let claims = self.claims(ready, &groups, now);
        for retry in &claims.parked {
            tx.put_retry(retry, None).await?;
            tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
        }
        for retry in claims.orders.iter().flat_map(Order::retries) {
            tx.put_retry(retry, Some(&self.me)).await?;
            // Before the commit makes the row visible: `follow` takes a claimed row that nobody carries for one left behind.
            self.fly(&retry.key, true);
        }
        Ok(claims.orders)
    }

    /// The group of a retry whose runner takes one restart of a group at a time.
    fn group_of<'r>(&self, retry: &'r Retry) -> Option<&'r str> {
        let grouped = self.runner(&retry.runner).is_some_and(|e| e.runner.abilities().needs_group_over);
        retry.group.as_deref().filter(|_| grouped)
    }

    /// What becomes of retries that are to be started. Those of a group that takes one restart at a time are claimed
    /// together when they are all its failed jobs, else one by one, the others waiting.
    pub(super) fn claims(&self, ready: Vec<Retry>, facts: &BTreeMap<RepoKey, GroupFacts>, now: Timestamp) -> Claims {
        let mut claims = Claims::default();
        let mut groups: BTreeMap<(RepoKey, String), Vec<Retry>> = BTreeMap::new();
        for retry in ready {
            match self.group_of(&retry) {
                Some(group) => {
                    let key = (retry.change.repo.clone(), group.to_owned());
                    groups.entry(key).or_default().push(retry);
                }
                None => claims.orders.push(Order::one(claimed(retry))),
            }
        }
        for ((repo, group), mut retries) in groups {
            let facts = facts.get(&repo);
            let busy = facts.is_some_and(|facts| facts.busy.contains(&group));
            let mut bad = facts.and_then(|facts| facts.bad.get(&group)).cloned().unwrap_or_default();
            let mut wanted: Vec<(String, String)> =
                retries.iter().map(|r| (r.job.to_string(), r.scope.clone())).collect();
            bad.sort();
            wanted.sort();
            let whole_group = wanted.len() > 1 && wanted == bad;
            let go = match (busy, whole_group) {
                (true, _) => Vec::new(),
                (false, true) => std::mem::take(&mut retries),
                (false, false) => vec![retries.remove(0)],
            };
            for mut retry in retries {
                if let Ok(next) = retry.state.step(RetryEvent::Parked(WaitOn::Group(group.clone()))) {
                    retry.state = next;
                }
                retry.due_at = now.plus(self.poll_after(&retry));
                retry.tries += 1;
                claims.parked.push(retry);
            }
            let mut go = go.into_iter().map(claimed);
            if let Some(first) = go.next() {
                claims.orders.push(Order { first, rest: go.collect(), whole_group, as_of: None });
            }
        }
        claims
    }

    /// Time until the next look at a retry: doubled at each look, between the runner's bounds.
    pub(super) fn poll_after(&self, retry: &Retry) -> std::time::Duration {
        let (min, max) = self
            .runner(&retry.runner)
            .map_or((10, 300), |e| (e.poll_min.as_secs().max(1), e.poll_max.as_secs().max(1)));
        let doubled = min.saturating_mul(1_u64 << retry.tries.min(16));
        std::time::Duration::from_secs(doubled.min(max))
    }

    /// Closes a retry whose deadline has passed.
    pub(super) async fn expire(&self, tx: &mut Tx, retry: &mut Retry, now: Timestamp) -> Result<bool, FlowError> {
        if now < retry.deadline_at {
            return Ok(false);
        }
        self.abandon(tx, retry, RetryEvent::DeadlinePassed, now).await
    }

    async fn carry_out(&self, order: Order) -> Result<(), FlowError> {
        let result = self.call_and_save(&order).await;
        for retry in order.retries() {
            self.fly(&retry.key, false);
        }
        result
    }

    async fn call_and_save(&self, order: &Order) -> Result<(), FlowError> {
        let first = &order.first;
        self.reach(Point::Claimed)?;
        let repo = match &order.as_of {
            // Nothing was written since the claim was committed, so head and claim are as it left them.
            Some((version, repo)) if self.store.is_still(*version) => Some(repo.clone()),
            _ => self.store.repo(&first.change.repo).await?,
        };
        let (Some(entry), Some(repo)) = (self.runner(&first.runner), repo) else {
            let why = format!("the runner `{}` is no longer configured", first.runner);
            return self.save(order, Err(DispatchError::Call(CallError::refused(why)))).await;
        };
        if !self.still_holds(order).await? {
            return Ok(()); // cancelled or superseded in the meantime
        }
        let call = dispatch_order(order, repo);
        let result = {
            let mut calling = std::pin::pin!(entry.runner.dispatch(&call));
            tokio::select! {
                biased;
                result = &mut calling => result,
                () = tokio::task::yield_now() => {
                    // The reaction to the comment goes out while the runner is thinking.
                    self.wake.report.notify_one();
                    tracing::info!(runner = %first.runner, jobs = call.jobs.len(), key = %first.key, "dispatching");
                    calling.await
                }
            }
        };
        if result.is_ok() {
            self.reach(Point::Dispatched)?;
        }
        if let Err(DispatchError::Call(error)) = &result {
            self.count_failure(first.runner.as_str(), error);
        }
        self.save(order, result).await
    }

    /// Whether the retries still are as they were claimed and their head is the change's head. What is not is put right.
    async fn still_holds(&self, order: &Order) -> Result<bool, FlowError> {
        let first = &order.first;
        if order.as_of.as_ref().is_some_and(|(version, _)| self.store.is_still(*version)) {
            return Ok(true);
        }
        if !self.all_claimed(order).await? {
            return Ok(false);
        }
        let head = self.store.change(&first.change, i64::MAX).await?;
        if first.change.is_none() || head.is_some_and(|c| c.change.open && c.change.head == first.sha) {
            return Ok(true);
        }
        if self.store.queue_entry(&first.change.repo, &first.sha).await?.is_some() {
            return Ok(true);
        }
        let mut tx = self.store.begin().await?;
        for retry in order.retries() {
            if let Some(mut retry) = tx.retry_by_key(&retry.key).await? {
                self.abandon(&mut tx, &mut retry, RetryEvent::HeadGone, self.now()).await?;
            }
        }
        tx.commit().await?;
        Ok(false)
    }

    /// Whether every retry of an order still is as it was claimed; those that are go back to be started by themselves.
    async fn all_claimed(&self, order: &Order) -> Result<bool, FlowError> {
        let mut all = true;
        for retry in order.retries() {
            let now = self.store.retry_by_key(&retry.key).await?;
            all &= now.is_some_and(|r| r.state == RetryState::Dispatching);
        }
        if all {
            return Ok(true);
        }
        let mut tx = self.store.begin().await?;
        for retry in order.retries() {
            if let Some(mut retry) = tx.retry_by_key(&retry.key).await?.filter(|r| r.state == RetryState::Dispatching) {
                step(&mut retry, RetryEvent::NotSent);
                retry.due_at = self.now();
                tx.put_retry(&retry, None).await?;
            }
        }
        tx.commit().await?;
        self.wake.dispatch.notify_one();
        Ok(false)
    }

    async fn save(&self, order: &Order, result: Result<Started, DispatchError>) -> Result<(), FlowError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        for claimed in order.retries() {
            let Some(mut retry) = tx.retry_by_key(&claimed.key).await? else { continue };
            match &result {
                Ok(started) => self.save_started(&mut tx, &mut retry, started).await?,
                Err(DispatchError::Parked { on, look_after }) => {
                    step(&mut retry, RetryEvent::Parked(on.clone()));
                    retry.due_at = now.plus(*look_after);
                    tx.put_retry(&retry, None).await?;
                }
                Err(DispatchError::Call(error)) => self.save_failure(&mut tx, &mut retry, error, now).await?,
            }
            tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
        }
        tx.commit().await?;
        self.wake.report.notify_one();
        self.wake.follow.notify_one();
        Ok(())
    }

    /// Stores the handle of an accepted run; a retry that was closed meanwhile has its run cancelled.
    pub(super) async fn save_started(
        &self,
        tx: &mut Tx,
        retry: &mut Retry,
        started: &Started,
    ) -> Result<(), FlowError> {
        let now = self.now();
        let handle = started.runs.iter().find(|(key, _)| *key == retry.key).map(|(_, handle)| handle.clone());
        retry.handle = handle
            .or_else(|| retry.handle.take())
            .map(|handle| later_than(retry.source_order, handle, self.is_native(retry)));
        retry.also.clone_from(&started.also);
        if retry.also.is_empty()
            && let Some(group) = retry.group.as_deref()
            && self.runner(&retry.runner).is_some_and(|e| e.runner.abilities().runs_dependents)
        {
            retry.also = self.store.skipped_in_group(&retry.change.repo, &retry.sha, group).await?;
        }
        let was_open = retry.state.is_open();
        step(retry, RetryEvent::Accepted);
        retry.dispatched_at = Some(now);
        retry.tries = 0;
        retry.due_at = now.plus(self.poll_after(retry));
        tx.put_retry(retry, None).await?;
        tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), retry.internal), "accepted by its runner", now)
            .await?;
        self.metrics.dispatched(now.since(retry.created_at));
        if !was_open {
            tx.want_cancellation(retry.id, now).await?;
            return Ok(());
        }
        // A report about the new run may have been faster than the runner's answer.
        let newest = tx.job(&retry.change.repo, &retry.sha, &retry.job, &retry.scope).await?;
        if let (Some(job), Some(handle)) = (newest, &retry.handle)
            && job.newest.order >= handle.order
            && self.is_native(retry)
        {
            let seen = RunObservation {
                state: job.newest.state,
                cause: job.newest.cause.clone(),
                url: job.newest.url.clone(),
                run: Some(job.newest.run.clone()),
                order: job.newest.order,
            };
            self.see_run(tx, retry, &seen).await?;
        }
        Ok(())
    }

    async fn save_failure(
        &self,
        tx: &mut Tx,
        retry: &mut Retry,
        error: &CallError,
        now: Timestamp,
    ) -> Result<(), FlowError> {
        retry.tries += 1;
        match error {
            CallError::Refused { user, .. } => {
                step(retry, RetryEvent::Refused(user.clone()));
                retry.ended_at = Some(now);
                self.metrics.retry_ended(retry.runner.as_str(), "rejected");
                tx.audit(
                    &retry.change,
                    &retry.sha,
                    (retry.job.as_str(), retry.internal),
                    &format!("refused: {user}"),
                    now,
                )
                .await?;
            }
            CallError::Throttled { .. } | CallError::Unreachable { .. } => step(retry, RetryEvent::NotSent),
            CallError::Unknown { .. } => step(retry, RetryEvent::NoAnswer),
        }
        retry.due_at = now.plus(error.wait(retry.tries)).min(retry.deadline_at);
        tx.put_retry(retry, None).await?;
        if !retry.state.is_open() {
            self.release_waiting(tx, retry, now).await?;
        }
        Ok(())
    }

    async fn cancel_due(self: &Arc<Self>) -> Result<usize, FlowError> {
        let mut count = 0;
        for (retry, tries) in self.store.due_cancellations(self.now(), BATCH).await? {
            let Some(held) = self.tasks.occupy(format!("cancel {}", retry.key)) else { continue };
            count += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.cancel_one(&retry, tries).await });
        }
        Ok(count)
    }

    async fn cancel_one(&self, retry: &Retry, tries: u32) -> Result<(), FlowError> {
        let repo = self.store.repo(&retry.change.repo).await?;
        let until = match (self.runner(&retry.runner), &retry.handle, repo) {
            (Some(entry), Some(handle), Some(repo)) => match entry.runner.cancel(&repo, &retry.job, handle).await {
                Ok(()) => None,
                Err(error) => {
                    tracing::warn!(%error, runner = %retry.runner, key = %retry.key, "a run could not be cancelled");
                    self.count_failure(retry.runner.as_str(), &error);
                    (error.is_passing() && tries < 10).then(|| self.now().plus(error.wait(tries + 1)))
                }
            },
            // Without a handle the runner is asked by key first; there is nothing to cancel when it knows none.
            (Some(entry), None, Some(repo)) => self.cancel_unknown(entry, &repo, retry).await,
            _ => None,
        };
        Ok(self.store.set_cancellation(retry.id, until).await?)
    }

    async fn cancel_unknown(&self, entry: &RunnerEntry, repo: &Repo, retry: &Retry) -> Option<Timestamp> {
        let order = dispatch_order(&Order::one(retry.clone()), repo.clone());
        if self.flies(&retry.key) {
            return Some(self.now().plus(std::time::Duration::from_secs(1)));
        }
        if let Ok(crate::ports::Found::Sent(started)) = entry.runner.find(&order).await {
            for (_, handle) in &started.runs {
                entry.runner.cancel(repo, &retry.job, handle).await.ok();
            }
        }
        None
    }

    pub(super) fn count_failure(&self, system: &str, error: &CallError) {
        let kind = match error {
            CallError::Refused { .. } => "refused",
            CallError::Throttled { .. } => "throttled",
            CallError::Unreachable { .. } => "unreachable",
            CallError::Unknown { .. } => "unknown",
        };
        self.metrics.call_failed(system, kind);
    }
}

/// The retry as it is while its runner is called.
fn claimed(mut retry: Retry) -> Retry {
    step(&mut retry, RetryEvent::Claimed);
    retry
}

/// The new run comes after the one that it repeats. Runs of our own are counted on from it: their clocks, and whatever
/// numbers the source was ordered by, need not agree.
fn later_than(source: RunOrder, mut handle: RunHandle, native: bool) -> RunHandle {
    let next = RunOrder(source.0, source.1 + 1);
    handle.order = if native || source == RunOrder::default() { handle.order.max(next) } else { next };
    handle
}

/// Steps a retry; an event that its state cannot meet changes nothing (it was closed in the meantime).
pub(super) fn step(retry: &mut Retry, event: RetryEvent) {
    match retry.state.step(event) {
        Ok(next) => retry.state = next,
        Err(illegal) => tracing::debug!(key = %retry.key, %illegal, "news about a closed retry"),
    }
}

/// The call that starts these retries.
pub(super) fn dispatch_order(order: &Order, repo: Repo) -> DispatchOrder {
    let job = |retry: &Retry| JobOrder {
        key: retry.key.clone(),
        job: retry.job.clone(),
        scope: retry.scope.clone(),
        source_run: retry.source_run.clone(),
        source_order: retry.source_order,
        overrides: retry.overrides.clone(),
    };
    let first = &order.first;
    DispatchOrder {
        repo,
        change: first.change.clone(),
        sha: first.sha.clone(),
        group: first.group.clone(),
        jobs: order.retries().map(job).collect(),
        whole_group: order.whole_group,
    }
}
