//! Stores what a command came to, in one transaction: answers, retries claimed for their runners, the reaction, the end of
//! the delivery.
//!
//! When nothing was written since the record was read for the command, everything is known beforehand, and the whole
//! transaction is one text for the database. Else each row is stored and looked at in turn. Read next: `dispatch.rs`.

use std::collections::BTreeMap;

use super::asked::{Approval, Asked};
use super::command::Outcome;
use super::dispatch::Order;
use super::lines::{audit_line, joined};
use super::points::Point;
use super::world::{FlowError, World};
use crate::decide::{Answer, AnswerLine};
use crate::domain::{Retry, RetryEvent, RetryState, Timestamp};
use crate::ports::Reaction;
use crate::store::{CommandView, Tx};

/// Retries of one command that are stored with one text; more of them would make it a long one.
const AT_ONCE_MAX: usize = 16;

/// Answers to commands: how each was written, and its lines.
type Answers = [(String, Vec<AnswerLine>)];

impl World {
    /// Stores everything that a comment came to, and claims what can start at once: one transaction.
    pub(super) async fn keep(&self, asked: &Asked<'_>, outcome: Outcome) -> Result<(), FlowError> {
        let known = match &asked.view {
            // What is wrong with the policy is told once, and whether it was must be looked up.
            Some(view)
                if outcome.cancel.is_empty()
                    && outcome.approve.is_none()
                    && outcome.decided.is_empty()
                    && asked.policy.trouble.is_none() =>
            {
                self.keep_as_read(asked, view, &outcome).await?
            }
            _ => None,
        };
        let orders = match known {
            Some(orders) => orders,
            None => self.keep_step_by_step(asked, &outcome).await?,
        };
        if !outcome.decided.is_empty() {
            self.labels.doubt(&asked.repo.key);
            self.wake.judge.notify_one();
        }
        self.reach(Point::Planned)?;
        if orders.is_empty() {
            self.wake.report.notify_one(); // else the dispatch does, once its call has left
        }
        if !outcome.cancel.is_empty() {
            self.wake.dispatch.notify_one(); // it cancels the runs
        }
        self.hand_over(orders);
        Ok(())
    }

    /// Stores it with one text, if nothing was written since the record was read. None when that is not so.
    async fn keep_as_read(
        &self,
        asked: &Asked<'_>,
        view: &CommandView,
        outcome: &Outcome,
    ) -> Result<Option<Vec<Order>>, FlowError> {
        let mut tx = self.store.begin().await?;
        if !tx.is_first_since(view.version) || view.repo.is_none() || outcome.start.len() > AT_ONCE_MAX {
            return Ok(None);
        }
        let now = self.now();
        let (ready, waiting): (Vec<Retry>, Vec<Retry>) =
            outcome.start.iter().cloned().partition(|retry| retry.state == RetryState::Requested);
        if !ready.iter().all(|retry| view.holds(retry)) {
            return Ok(None); // a name that fitted nothing had all jobs looked through
        }
        let groups = BTreeMap::from([(asked.change.key.repo.clone(), view.groups.clone())]);
        let claims = self.claims(ready, &groups, now);
        for retry in waiting.iter().chain(&claims.parked) {
            tx.add_retry(retry, None).await?;
            self.note_request(&mut tx, retry, now).await?;
        }
        for retry in claims.orders.iter().flat_map(Order::retries) {
            tx.add_retry(retry, Some(&self.me)).await?;
            self.note_request(&mut tx, retry, now).await?;
            // Before the commit makes the row visible: `follow` takes a claimed row that nobody carries for one left behind.
            self.fly(&retry.key, true);
        }
        self.write_down(&mut tx, asked, outcome, (&outcome.answers, !outcome.start.is_empty())).await?;
        match tx.commit_as().await {
            Ok(version) => Ok(Some(claims.orders.into_iter().map(|order| order.dated(version, &asked.repo)).collect())),
            Err(error) => {
                for retry in claims.orders.iter().flat_map(Order::retries) {
                    self.fly(&retry.key, false);
                }
                // Another change with this head has an open retry of the job: it is joined, step by step.
                if error.is_conflict() { Ok(None) } else { Err(error.into()) }
            }
        }
    }

    async fn keep_step_by_step(&self, asked: &Asked<'_>, outcome: &Outcome) -> Result<Vec<Order>, FlowError> {
        let now = self.now();
        let key = &asked.change.key;
        let mut tx = self.store.begin().await?;
        tx.put_repo(&asked.repo).await?;
        if let Some(approval) = &outcome.approve
            && let Some(mut change) = tx.change(key).await?
        {
            change.approved_head = match approval {
                Approval::Given(sha) => Some(sha.clone()),
                Approval::TakenBack => None,
            };
            tx.put_change(&change, asked.delivery.row).await?;
        }
        for id in &outcome.cancel {
            if let Some(mut retry) = tx.retry(*id).await? {
                self.abandon(&mut tx, &mut retry, RetryEvent::CancelAsked, now).await?;
            }
        }
        self.keep_decided(&mut tx, asked, outcome, now).await?;
        let mut answers = outcome.answers.clone();
        if let Some(trouble) = &asked.policy.trouble
            && let Some((_, lines)) = answers.last_mut()
            && tx.tell_of_policy(key, &trouble.version, now).await?
        {
            lines.push(trouble.line.clone());
        }
        let mut stored = Vec::new();
        for mut retry in outcome.start.iter().cloned() {
            if let Some(id) = tx.new_retry(&retry, None).await? {
                retry.id = id;
                self.note_request(&mut tx, &retry, now).await?;
                stored.push(retry);
            } else {
                joined(&mut answers, &retry);
            }
        }
        let started = !stored.is_empty();
        stored.retain(|retry| retry.state == RetryState::Requested); // the others wait for jobs
        let orders = self.claim(&mut tx, stored, now).await?;
        self.write_down(&mut tx, asked, outcome, (&answers, started)).await?;
        tx.commit().await?;
        Ok(orders)
    }

    /// Stores what was decided beside retries.
    async fn keep_decided(
        &self,
        tx: &mut Tx,
        asked: &Asked<'_>,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Result<(), FlowError> {
        let (decided, head) = (&outcome.decided, &asked.change.head);
        let place = (&asked.repo.key, head);
        for issue in &decided.issues {
            tx.put_flake_issue(place.0, issue, self.rules.flakes.counts(issue), now).await?;
        }
        for job in &decided.judge_again {
            tx.judge_again(place, Some(job), now).await?;
        }
        if let Some(on) = decided.switch {
            tx.put_switch(&asked.change.key, on, &asked.actor.login, now).await?;
            if on {
                tx.judge_again(place, None, now).await?;
            }
        }
        for status in &decided.overridden {
            tx.put_override(place, status, now).await?;
        }
        Ok(())
    }

    async fn note_request(&self, tx: &mut Tx, retry: &Retry, now: Timestamp) -> Result<(), FlowError> {
        let what = format!("requested by {}: {}", retry.asker.login, retry.why);
        Ok(tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), retry.internal), &what, now).await?)
    }

    /// What is stored whatever was started: answers, reaction, report, and that the delivery is done.
    async fn write_down(
        &self,
        tx: &mut Tx,
        asked: &Asked<'_>,
        outcome: &Outcome,
        (answers, started): (&Answers, bool),
    ) -> Result<(), FlowError> {
        let now = self.now();
        let (key, head) = (&asked.change.key, &asked.change.head);
        for (command, lines) in answers {
            let answer = Answer {
                asker: asked.actor.login.clone(),
                command: command.clone(),
                lines: lines.clone(),
                head: head.short().to_owned(),
                delivery: asked.delivery.id.to_string(),
                internal: asked.internal,
            };
            tx.put_answer(key, head, &answer, now).await?;
            for line in lines {
                let job = line.job.as_ref().map_or("", |j| j.as_str());
                tx.audit(key, head, (job, asked.internal), &audit_line(&answer, line), now).await?;
            }
        }
        if let Some(comment) = asked.comment.as_ref().filter(|_| self.rules.reactions) {
            let reaction = reaction_for(outcome, started);
            tx.want_reaction(key, comment, reaction, now).await?;
        }
        tx.want_report(key, head, now.plus(self.rules.report_delay)).await?;
        Ok(tx.done(asked.delivery.row, None).await?)
    }
}

fn reaction_for(outcome: &Outcome, started: bool) -> Reaction {
    if started {
        Reaction::Started
    } else if !outcome.cancel.is_empty() || outcome.approve.is_some() || !outcome.decided.is_empty() {
        Reaction::Done
    } else if outcome.informed && !outcome.refused {
        Reaction::Seen
    } else {
        Reaction::Refused
    }
}
