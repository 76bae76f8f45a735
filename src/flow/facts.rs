//! Takes facts into the record: changes and their heads, jobs and their runs. What a fact means for open retries is
//! done in the same transaction.

use super::world::{FlowError, World};
use crate::domain::{
    Change, ChangeAction, ChangeKey, CommitSha, Conclusion, ForgeEvent, JobEvent, JobObservation, JobState, QueueEvent,
    Repo, Retry, RetryEvent, RetryState, RunHandle, RunObservation, Timestamp,
};
use crate::store::{StoredDelivery, Tx};

impl World {
    /// Takes a batch of facts into the record, all or nothing.
    pub(super) async fn apply_facts(&self, facts: &[StoredDelivery]) -> Result<(), FlowError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        for fact in facts {
            self.want_policy(fact.event.repo());
            match &fact.event {
                ForgeEvent::Change { repo, change, action } => {
                    tx.put_repo(repo).await?;
                    self.take_change(&mut tx, change, *action, (fact.row, fact.at)).await?;
                }
                ForgeEvent::Jobs(event) => {
                    tx.put_repo(&event.repo).await?;
                    self.take_jobs(&mut tx, event, now).await?;
                }
                ForgeEvent::Push(push) => {
                    tx.put_repo(&push.repo).await?;
                    tx.put_branch(&push.repo.key, &push.branch, &push.sha, push.at).await?;
                }
                ForgeEvent::Issue(event) => {
                    tx.put_repo(&event.repo).await?;
                    self.take_issue(&mut tx, event, now).await?;
                }
                ForgeEvent::Queue(event) => {
                    tx.put_repo(&event.repo).await?;
                    self.take_queue(&mut tx, event, now).await?;
                }
                ForgeEvent::Comment(_) | ForgeEvent::Press(_) => {}
            }
            tx.done(fact.row, None).await?;
        }
        tx.commit().await?;
        for fact in facts {
            if let ForgeEvent::Issue(event) = &fact.event {
                self.labels.doubt(&event.repo.key);
            }
        }
        self.wake.dispatch.notify_one();
        self.wake.report.notify_one();
        Ok(())
    }

    /// Takes news of a merge queue: an entry that is gone needs no runs any more.
    async fn take_queue(&self, tx: &mut Tx, event: &QueueEvent, now: Timestamp) -> Result<(), FlowError> {
        tx.put_queue_entry(event).await?;
        if self.rules.posts.always && !event.over {
            let change = ChangeKey { repo: event.repo.key.clone(), number: event.number };
            tx.want_report(&change, &event.sha, now.plus(self.rules.report_delay)).await?;
        }
        if event.over {
            for mut retry in tx.open_retries(&event.repo.key, &event.sha).await? {
                self.abandon(tx, &mut retry, RetryEvent::HeadGone, now).await?;
            }
        }
        Ok(())
    }

    /// Takes news of a change into the record; what it means for open retries is done with it.
    pub(super) async fn take_change(
        &self,
        tx: &mut Tx,
        news: &Change,
        action: ChangeAction,
        (row, at): (i64, Timestamp),
    ) -> Result<(), FlowError> {
        let old = tx.change(&news.key).await?;
        if old.as_ref().is_some_and(|old| old.updated_at > news.updated_at) {
            return Ok(());
        }
        let change = merged(old.as_ref(), news);
        tx.put_change(&change, row).await?;
        let moved = old.as_ref().is_some_and(|old| old.head != change.head);
        if moved && action == ChangeAction::HeadMoved {
            // The head appeared while we listened, so every job event about it is still to come.
            tx.put_revision(&change.key.repo, &change.head, at).await?;
        }
        self.confirm(&change.key);
        if self.rules.posts.always && change.open && old.as_ref().is_none_or(|old| old.head != change.head) {
            tx.want_report(&change.key, &change.head, self.now().plus(self.rules.report_delay)).await?;
        }
        if action == ChangeAction::Closed {
            self.doubt_policy(&change.key.repo); // it may have been merged
        }
        let auto = |change: &Change| self.rules.flakes.auto(change).is_some();
        if auto(&change) && !old.as_ref().is_some_and(auto) {
            tx.judge_again((&change.key.repo, &change.head), None, self.now()).await?;
            self.wake.judge.notify_one();
        }
        if moved || !change.open {
            tx.drop_queue_entries(&change.key).await?;
        }
        let head = change.open.then_some(&change.head);
        let mut abandoned = false;
        for mut retry in tx.open_elsewhere(&change.key, head).await? {
            abandoned |= self.abandon(tx, &mut retry, RetryEvent::HeadGone, self.now()).await?;
        }
        if abandoned {
            // The report is about the present head; that of the old one must not stay as it was.
            tx.want_report(&change.key, &change.head, self.now().plus(self.rules.report_delay)).await?;
        }
        Ok(())
    }

    /// Closes a retry from our side and has its run cancelled where nobody else will.
    pub(super) async fn abandon(
        &self,
        tx: &mut Tx,
        retry: &mut Retry,
        event: RetryEvent,
        now: Timestamp,
    ) -> Result<bool, FlowError> {
        let ran = retry.state.may_have_run();
        let asked = event == RetryEvent::CancelAsked;
        let Ok(next) = retry.state.step(event) else { return Ok(false) };
        retry.state = next;
        retry.ended_at = Some(now);
        tx.put_retry(retry, None).await?;
        self.close_record(tx, retry, now).await?;
        tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), retry.internal), retry.state.word(), now).await?;
        tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
        self.metrics.retry_ended(retry.runner.as_str(), retry.state.word());
        self.release_waiting(tx, retry, now).await?;
        let abilities = self.runner(&retry.runner).map(|entry| entry.runner.abilities());
        // A forge's own CI cancels what a new head makes needless; everything else was started by us and is ours to stop.
        if ran && abilities.is_some_and(|a| a.cancels && (asked || !a.reported_by_forge)) {
            tx.want_cancellation(retry.id, now).await?;
        }
        Ok(true)
    }

    /// Ends the record of a run that we no longer follow and that nobody else reports, so that it can be retested.
    async fn close_record(&self, tx: &mut Tx, retry: &Retry, now: Timestamp) -> Result<(), FlowError> {
        let Some(handle) = retry.handle.as_ref().filter(|_| !self.is_native(retry)) else { return Ok(()) };
        let state = match retry.state {
            RetryState::Cancelled | RetryState::Superseded => JobState::Cancelled,
            _ => JobState::Lost,
        };
        let end = RunObservation { state, cause: None, url: None, run: None, order: handle.order };
        self.put_followed(tx, retry, &end, now).await
    }

    /// Takes reports about jobs into the record and steps the retries that they are about.
    pub(super) async fn take_jobs(&self, tx: &mut Tx, event: &JobEvent, now: Timestamp) -> Result<(), FlowError> {
        let open = tx.open_retries(&event.repo.key, &event.sha).await?;
        for seen in &event.jobs {
            self.take_job(tx, &event.repo, &event.sha, seen, &open).await?;
        }
        if let Some(group) = &event.group_over {
            self.want_listing(event);
            for mut retry in tx.waiting_on_group(&event.repo.key, group).await? {
                if let Ok(next) = retry.state.step(RetryEvent::Released) {
                    retry.state = next;
                    retry.due_at = now;
                    retry.tries = 0;
                    tx.put_retry(&retry, None).await?;
                }
            }
        }
        Ok(())
    }

    async fn take_job(
        &self,
        tx: &mut Tx,
        repo: &Repo,
        sha: &CommitSha,
        seen: &JobObservation,
        open: &[Retry],
    ) -> Result<(), FlowError> {
        let key = &repo.key;
        let Some((seen, runner)) = self.placed(tx, (repo, sha), seen, open).await? else { return Ok(()) };
        let seen = &seen;
        if !self.take_run(tx, (key, sha), seen, runner.as_ref()).await? {
            return Ok(());
        }
        let mine = open.iter().find(|r| r.job == seen.name && r.scope == seen.scope);
        let Some(retry) = mine else { return Ok(()) };
        let Some(mut retry) = tx.retry(retry.id).await?.filter(|r| r.state.is_open()) else { return Ok(()) };
        // What others post about a job that we run elsewhere is not about our run.
        if self.is_native(&retry) && self.is_about(&mut retry, seen) {
            if retry.handle.is_none() {
                retry.handle = Some(RunHandle { id: seen.run.to_string(), order: seen.order, url: seen.url.clone() });
            }
            let news = RunObservation {
                state: seen.state,
                cause: seen.cause.clone(),
                url: seen.url.clone(),
                run: Some(seen.run.clone()),
                order: seen.order,
            };
            self.see_run(tx, &mut retry, &news).await?;
        }
        Ok(())
    }

    /// Whether a report is about the run that a retry wants, be it that somebody else started it.
    fn is_about(&self, retry: &mut Retry, seen: &JobObservation) -> bool {
        if let Some(handle) = &retry.handle {
            return seen.order >= handle.order;
        }
        if seen.order <= retry.source_order || self.flies(&retry.key) {
            return false;
        }
        if retry.state.may_have_run() {
            return true; // a newer run than the one that was repeated answers the question whether it was started
        }
        // A new attempt carries old failures over under a new number: those are no run of the job.
        let runs = Conclusion::of(seen.state).is_none() || seen.state == JobState::Passed;
        match retry.state.step(RetryEvent::Joined) {
            Ok(next) if runs => {
                retry.state = next;
                retry.dispatched_at = Some(self.now());
                true
            }
            _ => false,
        }
    }

    /// Whether the forge itself reports the runs of this retry's runner.
    pub(super) fn is_native(&self, retry: &Retry) -> bool {
        self.runner(&retry.runner).is_some_and(|entry| entry.runner.abilities().reported_by_forge)
    }

    /// Steps a retry by what was seen of its run, writes it back, and says whether that was news.
    pub(super) async fn see_run(
        &self,
        tx: &mut Tx,
        retry: &mut Retry,
        seen: &RunObservation,
    ) -> Result<bool, FlowError> {
        let now = self.now();
        let event = match Conclusion::of(seen.state) {
            Some(end) => RetryEvent::Ended(end),
            None if seen.state == JobState::Running => RetryEvent::Started,
            None => RetryEvent::Accepted,
        };
        let before = retry.clone();
        if let Ok(next) = retry.state.step(event) {
            retry.state = next;
        }
        if let (Some(handle), Some(url)) = (retry.handle.as_mut(), &seen.url) {
            handle.url = Some(url.clone());
        }
        if seen.cause.is_some() {
            retry.cause = seen.cause.clone();
        }
        if *retry == before {
            return Ok(false);
        }
        let changed = retry.state != before.state;
        if changed && !retry.state.is_open() {
            retry.ended_at = Some(now);
            self.metrics.retry_ended(retry.runner.as_str(), seen.state.as_str());
        }
        tx.put_retry(retry, None).await?;
        if changed {
            let what = format!("run {}: {}", retry.number + 1, seen.state.as_str());
            tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), retry.internal), &what, now).await?;
        }
        if changed && !retry.state.is_open() {
            self.continue_series(tx, retry, now).await?;
            self.release_waiting(tx, retry, now).await?;
        }
        tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
        Ok(changed)
    }
}

/// The change after the news: what the news does not tell stays as it was.
fn merged(old: Option<&Change>, news: &Change) -> Change {
    let mut change = news.clone();
    if let Some(old) = old {
        change.approved_head = change.approved_head.or_else(|| old.approved_head.clone());
        if old.head == change.head {
            change.head_pipeline = change.head_pipeline.or(old.head_pipeline);
        }
        change.source_ref = change.source_ref.or_else(|| old.source_ref.clone());
        change.author = change.author.or_else(|| old.author.clone());
    }
    change
}
