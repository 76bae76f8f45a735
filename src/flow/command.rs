//! Works on one comment or button: what was asked, may they, which jobs, and the answer, stored in one transaction.
//!
//! Order of the rules: own and foreign bots, edits and old comments fall out before anybody is asked; the head is bound
//! to what was known when the comment arrived; rights are looked up, while the record is read; then `decide` plans.
//! Read next: `keep.rs`, `dispatch.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use retest_commands::{Command, Grammar, Parsed, ParsedCommand, Retest};

use super::asked::{Approval, Asked, TRIES_MAX, approve};
use super::lines::{
    as_retest, cancel_lines, cancelled, dispatch_key, forced, help_lines, leave_line, line, mistake_line, refusal_line,
    right_of, started_text, title, whole,
};
use super::points::Point;
use super::snapshot::{AskError, job_query};
use super::world::{EditedComments, FlowError, World};
use crate::decide::{
    AnswerLine, Ask, Authorised, JobView, Needed, Readers, Reason, Refusal, RefusalKind, Snapshot, StartItem, Terms,
    Verb, Wish, authorise, code, job_list, needed, pinned,
};
use crate::domain::{
    Change, ChangeAction, CommentAction, CommentEvent, CommitSha, ForgeEvent, PressEvent, Pressed, Retry, RetryId,
    RetryState, Role, Series, Timestamp, WaitOn,
};
use crate::ports::{CallError, Forge};
use crate::store::{CommandView, PostKind, StoredDelivery, ViewQuery};

/// A comment that arrives later than this may be about a head that its writer did not see.
const FRESH: std::time::Duration = std::time::Duration::from_secs(120);

/// The identifier of our check run's button.
pub(super) const BUTTON: &str = "retest-failed";

/// What commands come to: everything that is stored in the one transaction.
#[derive(Default)]
pub(super) struct Outcome {
    pub answers: Vec<(String, Vec<AnswerLine>)>,
    pub start: Vec<Retry>,
    pub cancel: Vec<RetryId>,
    pub approve: Option<Approval>,
    pub decided: super::flake_command::Decided,
    pub refused: bool,
    pub informed: bool,
}

impl World {
    /// Works on one delivery that holds a command. False when it was put off: later ones of its change must wait.
    pub(super) async fn work_on_command(&self, delivery: &StoredDelivery) -> Result<bool, FlowError> {
        let Some(forge) = self.forges.get(&delivery.forge) else {
            self.store.give_up_delivery(delivery.row, "its forge is no longer configured").await?;
            return Ok(true);
        };
        self.reach(Point::Accepted)?;
        let result = match &delivery.event {
            ForgeEvent::Comment(comment) => self.work_on_comment(forge.as_ref(), delivery, comment).await,
            ForgeEvent::Press(press) => self.work_on_press(forge.as_ref(), delivery, press).await,
            ForgeEvent::Change { .. }
            | ForgeEvent::Jobs(_)
            | ForgeEvent::Push(_)
            | ForgeEvent::Issue(_)
            | ForgeEvent::Queue(_) => Ok(()),
        };
        match result {
            Ok(()) => Ok(true),
            Err(AskError::Flow(error)) => Err(error),
            Err(AskError::Call(error)) => self.put_off(delivery, &error).await,
        }
    }

    async fn put_off(&self, delivery: &StoredDelivery, error: &CallError) -> Result<bool, FlowError> {
        tracing::warn!(delivery = %delivery.id, %error, tries = delivery.tries, "a command waits: its forge could not be asked");
        self.count_failure(delivery.forge.as_str(), error);
        self.remember_throttles().await?;
        let fresh = self.now().since(delivery.at) < self.rules.comment_age_max;
        if error.is_passing() && fresh {
            let until = self.now().plus(error.wait(delivery.tries + 1));
            self.store.put_off_delivery(delivery.row, until, &error.to_string()).await?;
            return Ok(false);
        }
        self.store.give_up_delivery(delivery.row, &error.to_string()).await?;
        Ok(true)
    }

    async fn work_on_comment(
        &self,
        forge: &dyn Forge,
        delivery: &StoredDelivery,
        comment: &CommentEvent,
    ) -> Result<(), AskError> {
        let Some(policy) = self.policy_for_comment(forge, delivery, comment).await? else {
            return Ok(self.pass_over(delivery, comment).await?);
        };
        let parsed = self.commands_of(comment, &policy.grammar);
        let Some(parsed) = parsed.filter(|p| !p.commands.is_empty() || !p.mistakes.is_empty()) else {
            return Ok(self.pass_over(delivery, comment).await?);
        };
        let (view, role) = self.look(forge, delivery, comment, (&parsed, &policy.terms)).await?;
        let (change, head_then, view) = self.change_for(forge, delivery, comment, view).await?;
        let repo = match &view {
            Some(view) => view.repo.clone(),
            None => self.store.repo(&comment.repo.key).await?,
        };
        let asked = Asked {
            forge,
            repo: repo.unwrap_or_else(|| comment.repo.clone()),
            change,
            actor: comment.author.clone(),
            comment: Some(comment.comment.clone()),
            internal: comment.internal,
            head_seen: head_then.is_some() && delivery.at.since(comment.created_at) <= FRESH,
            delivery,
            view,
            role,
            policy,
        };
        let gate = self.gate(&asked.change, head_then.as_ref(), comment.created_at, delivery.at);
        let outcome = match gate {
            Err(refusal) => refused_whole(&parsed, &refusal),
            Ok(()) => self.answer_all(&asked, &parsed).await?,
        };
        Ok(self.keep(&asked, outcome).await?)
    }

    async fn work_on_press(
        &self,
        forge: &dyn Forge,
        delivery: &StoredDelivery,
        press: &PressEvent,
    ) -> Result<(), AskError> {
        let ours = match &press.pressed {
            Pressed::Rerun => true,
            Pressed::Button(identifier) => identifier == BUTTON,
        };
        let changes = self.store.changes_at(&press.repo.key, &press.sha).await?;
        if !ours || changes.is_empty() {
            let mut tx = self.store.begin().await?;
            tx.done(delivery.row, Some("no open change has this head, or the button is not ours")).await?;
            tx.commit().await?;
            return Ok(());
        }
        let policy = self.in_force(forge, &press.repo, delivery.tries >= TRIES_MAX).await?;
        let pressed = ParsedCommand { command: Command::Retest(Retest::default()), line: 1 };
        let parsed = Parsed { commands: vec![pressed], mistakes: Vec::new() };
        for change in changes {
            let asked = Asked {
                forge,
                repo: press.repo.clone(),
                change,
                actor: press.sender.clone(),
                comment: None,
                internal: false,
                head_seen: true,
                delivery,
                view: None,
                role: None,
                policy: Arc::clone(&policy),
            };
            let outcome = self.answer_all(&asked, &parsed).await?;
            // The press has set our check back at the forge: it must be posted again, whatever came of it.
            self.store.forget_posted(&press.repo.key, &press.sha, PostKind::Check).await?;
            self.keep(&asked, outcome).await?;
        }
        Ok(())
    }

    async fn pass_over(&self, delivery: &StoredDelivery, comment: &CommentEvent) -> Result<(), FlowError> {
        let mut tx = self.store.begin().await?;
        tx.put_repo(&comment.repo).await?;
        tx.done(delivery.row, Some("no command")).await?;
        Ok(tx.commit().await?)
    }

    /// The commands of a comment; none when it is of a kind that must not command.
    fn commands_of(&self, comment: &CommentEvent, grammar: &Grammar) -> Option<Parsed> {
        match &comment.action {
            CommentAction::Created => Some(retest_commands::parse(&comment.body, grammar)),
            CommentAction::Edited { before: Some(before) }
                if self.rules.edited == EditedComments::NewCommands && comment.sender.id == comment.author.id =>
            {
                Some(retest_commands::new_commands(before, &comment.body, grammar))
            }
            CommentAction::Edited { .. } | CommentAction::Deleted => None,
        }
    }

    /// Reads what a comment's commands need of the record; meanwhile looks up the writer's role, unless the comment will be
    /// refused without it.
    async fn look(
        &self,
        forge: &dyn Forge,
        delivery: &StoredDelivery,
        comment: &CommentEvent,
        (parsed, terms): (&Parsed, &Terms),
    ) -> Result<(CommandView, Option<Result<Role, CallError>>), AskError> {
        let meant = parsed.commands.iter().find_map(|one| match &one.command {
            Command::Retest(wish) if !wish.flags.with_needs => Some(needed(&terms.own_names(&wish.selection))),
            Command::Test(wish) => Some(needed(&terms.own_names(&wish.selection))),
            _ => None,
        });
        let jobs = job_query(meant.as_ref().unwrap_or(&Needed::All));
        let query = ViewQuery {
            change: &comment.change,
            arrived: delivery.row,
            asker: comment.author.id,
            limits: &terms.limits,
            now: self.now(),
            jobs: &jobs,
        };
        let asks = !parsed.commands.is_empty()
            && comment.open
            && self.is_confirmed(&comment.change)
            && delivery.at.since(comment.created_at) <= self.rules.comment_age_max;
        let role = async {
            match asks {
                true => Some(self.role(forge, &comment.repo, &comment.author).await),
                false => None,
            }
        };
        let (view, role) = tokio::join!(self.store.command_view(&query), role);
        Ok((view?, role))
    }

    /// The change of a comment, the head that the commenter can have seen, and the view of the record if it is about the
    /// change as it is now.
    async fn change_for(
        &self,
        forge: &dyn Forge,
        delivery: &StoredDelivery,
        comment: &CommentEvent,
        view: CommandView,
    ) -> Result<(Change, Option<CommitSha>, Option<CommandView>), AskError> {
        let then = view.change.as_ref().and_then(|s| s.head_then.clone());
        if let Some(stored) = &view.change {
            // A push or a close that no webhook told of would bind the command to the wrong head for ever.
            let known = self.is_confirmed(&comment.change) && stored.change.open == comment.open;
            if known && comment.head.as_ref().is_none_or(|head| *head == stored.change.head) {
                return Ok((stored.change.clone(), comment.head.clone().or(then), Some(view)));
            }
        }
        let change = forge.change(&comment.repo, comment.change.number).await?;
        let mut tx = self.store.begin().await?;
        tx.put_repo(&comment.repo).await?;
        let action = if change.open { ChangeAction::Edited } else { ChangeAction::Closed };
        self.take_change(&mut tx, &change, action, (delivery.row, delivery.at)).await?;
        let change = tx.change(&comment.change).await?.unwrap_or(change);
        tx.commit().await?;
        Ok((change, comment.head.clone().or(then), None))
    }

    /// The rules that refuse a whole comment without asking anybody.
    fn gate(
        &self,
        change: &Change,
        head_then: Option<&CommitSha>,
        written: Timestamp,
        arrived: Timestamp,
    ) -> Result<(), Refusal> {
        if !change.open {
            return Err(Refusal::new(
                RefusalKind::Closed,
                "the change is closed, so nothing is started on it; reopen it first",
            ));
        }
        if arrived.since(written) > self.rules.comment_age_max {
            let text = "the comment is too old to be acted on now; comment again if it is still wanted";
            return Err(Refusal::new(RefusalKind::TooOld, text));
        }
        match head_then {
            Some(then) if *then != change.head => {
                let (then, now) = (code(then.short()), code(change.head.short()));
                let text =
                    format!("the head moved from {then} to {now} after the comment; comment again to mean {now}");
                Err(Refusal::new(RefusalKind::HeadMoved, text))
            }
            _ => Ok(()),
        }
    }

    async fn answer_all(&self, asked: &Asked<'_>, parsed: &Parsed) -> Result<Outcome, AskError> {
        let mut outcome = Outcome::default();
        for mistake in &parsed.mistakes {
            outcome.refused = true;
            outcome.answers.push((mistake.text.clone(), vec![mistake_line(mistake)]));
        }
        if parsed.commands.is_empty() {
            return Ok(outcome);
        }
        let asker = match self.asker_of(asked, parsed).await {
            Ok(asker) => asker,
            Err(error) if error.is_passing() && !asked.settles() => return Err(error.into()),
            Err(error) => {
                self.count_failure(asked.forge.name().as_str(), &error);
                let text =
                    "your rights on this repository could not be looked up, so nothing was started; try again later";
                return Ok(refused_whole(parsed, &Refusal::new(RefusalKind::RightsUnknown, text)));
            }
        };
        let mut retries = match &asked.view {
            Some(view) => view.retries.clone(),
            None => self.store.retries_of(&asked.change.key, &asked.change.head).await?,
        };
        for one in &parsed.commands {
            let may = |ask| authorise(ask, &asked.change, &asker, &asked.policy.terms.rights);
            let title = title(&one.command);
            let lines = match &one.command {
                Command::Retest(wish) => {
                    let proof = may(right_of(wish));
                    self.start(asked, (Verb::Retest, wish), proof, (&mut retries, &mut outcome)).await?
                }
                Command::Test(wish) => {
                    self.start(asked, (Verb::Test, &as_retest(wish)), may(Ask::Test), (&mut retries, &mut outcome))
                        .await?
                }
                Command::Cancel(wish) => {
                    let meant: Vec<&Retry> = cancelled(&wish.selection, &retries);
                    let own = meant.iter().all(|r| r.asker.id == asked.actor.id);
                    let goes_on = |r: &Retry| self.goes_on(r);
                    may(Ask::Cancel { own })
                        .map(|_| cancel_lines(&meant, goes_on, (&mut outcome.cancel, &mut outcome.start)))
                }
                Command::Jobs(_) => self.list(asked, may(Ask::Help), &retries).await?,
                Command::Help(help) => {
                    may(Ask::Help).map(|_| help_lines(help.topic.as_deref(), &asked.policy.grammar, &may))
                }
                Command::OkToTest(wish) => {
                    may(Ask::OkToTest).and_then(|_| approve(asked, wish)).map(|(approval, lines)| {
                        outcome.approve = Some(approval);
                        lines
                    })
                }
                Command::Why(why) => {
                    self.explain((&asked.change, Readers::of(asked.internal)), why.job.as_deref(), may(Ask::Help))
                        .await?
                }
                Command::Flake(wish) => self.flake(asked, wish, may(Ask::Flake), &mut outcome).await?,
                Command::Autoretry(wish) => {
                    let on = wish.switch == retest_commands::Switch::On;
                    Self::autoretry(wish, may(Ask::Autoretry { on }), &retries, &mut outcome)
                }
                Command::Override(wish) => {
                    self.override_status(asked, wish, may(Ask::Override), (&retries, &mut outcome))
                }
            };
            let lines = lines.unwrap_or_else(|refusal| {
                outcome.refused = true;
                vec![refusal_line(&refusal)]
            });
            outcome.informed |= matches!(one.command, Command::Jobs(_) | Command::Help(_) | Command::Why(_));
            self.metrics.command(one.command.name(), if outcome.refused { "refused" } else { "answered" });
            outcome.answers.push((title, lines));
        }
        Ok(outcome)
    }

    async fn start(
        &self,
        asked: &Asked<'_>,
        (verb, wish): (Verb, &Retest),
        proof: Result<Authorised, Refusal>,
        (retries, outcome): (&mut Vec<Retry>, &mut Outcome),
    ) -> Result<Result<Vec<AnswerLine>, Refusal>, AskError> {
        let proof = match proof.and_then(|proof| pinned(&asked.change, wish.sha.as_deref()).map(|()| proof)) {
            Ok(proof) => proof,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let terms = &asked.policy.terms;
        let selection = terms.own_names(&wish.selection);
        // What a chained job needs may be any job of the revision.
        let needed = if wish.flags.with_needs { Needed::All } else { needed(&selection) };
        let place = (&asked.repo, &asked.change, terms);
        let mut record =
            self.complete_record(asked.forge, (&asked.repo, &asked.change), &needed, asked.view.as_ref()).await?;
        let used = self.used(asked, &outcome.start).await?;
        let seen = asked.view.as_ref().filter(|_| !record.changed).and_then(|view| view.jobs_of(&job_query(&needed)));
        // What a job needs may be any job; else those that are not meant need no view.
        let meant = (!wish.flags.with_needs).then_some(&selection);
        let mut snapshot = self.snapshot(asked.forge, place, (&needed, seen, meant), retries).await?;
        snapshot.used.clone_from(&used);
        let wish_now = Wish {
            verb,
            selection: &selection,
            force: forced(wish),
            with_needs: wish.flags.with_needs,
            times: wish.times.unwrap_or(1),
            overrides: &wish.overrides,
        };
        let mut plan = crate::decide::plan(&snapshot, &wish_now, &proof);
        if !record.listed && (plan.start.is_empty() || self.lacks_a_run(&snapshot, &plan)) {
            // Nothing to start: before that is said, make sure that no webhook was lost.
            record.gap = self.list_record(asked.forge, &asked.repo, &asked.change).await?;
            snapshot = self.snapshot(asked.forge, place, (&needed, None, meant), retries).await?;
            snapshot.used = used;
            plan = crate::decide::plan(&snapshot, &wish_now, &proof);
        }
        if let Some(gap) = record.gap.filter(|_| plan.start.is_empty() && asked.delivery.tries < TRIES_MAX) {
            return Err(gap.into()); // a runner that may know the job did not answer
        }
        let mut lines: Vec<AnswerLine> = Vec::new();
        for item in &plan.start {
            let Some(view) = snapshot.jobs.get(item.at) else { continue };
            if wish.flags.dry_run {
                lines.push(line(
                    view.job.newest.name.as_str(),
                    Reason::WouldStart,
                    format!("would be started{}: {}", series_of(wish, item), item.why),
                ));
                continue;
            }
            let retry = self.retry_of(asked, view, item, wish);
            lines.push(line(view.job.newest.name.as_str(), Reason::Started, started_text(&item.why, &retry)));
            retries.push(retry.clone());
            outcome.start.push(retry);
        }
        lines.extend(plan.leave.iter().map(leave_line));
        outcome.informed |= wish.flags.dry_run;
        Ok(Ok(lines))
    }

    /// Whether the run of a cancelled retry goes on, because its runner cannot cancel.
    fn goes_on(&self, retry: &Retry) -> bool {
        retry.state.may_have_run() && self.runner(&retry.runner).is_some_and(|e| !e.runner.abilities().cancels)
    }

    fn retry_of(&self, asked: &Asked<'_>, view: &JobView, item: &StartItem, wish: &Retest) -> Retry {
        let now = self.now();
        let seen = &view.job.newest;
        let number = view.retries + 1;
        let runner = view.job.runner.clone().unwrap_or_else(|| "none".into());
        let deadline = self.runner(&runner).map_or(std::time::Duration::from_secs(86_400), |e| e.deadline);
        let ran = !seen.run.as_str().is_empty();
        let needs = item.after.clone();
        let state = if needs.is_empty() { RetryState::Requested } else { RetryState::Waiting(WaitOn::Jobs(needs)) };
        let series = wish.times.filter(|n| *n > 1 && item.asked).map(|of| Series { place: 1, of });
        Retry {
            id: RetryId(0),
            key: dispatch_key(&asked.change.key, &asked.change.head, (seen.name.as_str(), &seen.scope), number),
            change: asked.change.key.clone(),
            sha: asked.change.head.clone(),
            job: seen.name.clone(),
            scope: seen.scope.clone(),
            runner,
            state,
            asker: asked.actor.clone(),
            why: item.why.clone(),
            source_run: ran.then(|| seen.run.clone()),
            source_order: seen.order,
            group: seen.group.clone(),
            handle: None,
            cause: None,
            overrides: if item.asked { wish.overrides.clone() } else { BTreeMap::new() },
            number,
            series,
            unasked: None,
            comment: asked.comment.clone(),
            internal: asked.internal,
            also: Vec::new(),
            created_at: asked.delivery.at,
            due_at: now,
            tries: 0,
            dispatched_at: None,
            ended_at: None,
            deadline_at: now.plus(deadline),
        }
    }

    async fn list(
        &self,
        asked: &Asked<'_>,
        proof: Result<Authorised, Refusal>,
        retries: &[Retry],
    ) -> Result<Result<Vec<AnswerLine>, Refusal>, AskError> {
        let proof = match proof {
            Ok(proof) => proof,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.complete_record(asked.forge, (&asked.repo, &asked.change), &Needed::All, None).await?;
        let place = (&asked.repo, &asked.change, &asked.policy.terms);
        let snapshot: Snapshot = self.snapshot(asked.forge, place, (&Needed::All, None, None), retries).await?;
        let mut lines: Vec<AnswerLine> = job_list(&snapshot, &proof).iter().map(leave_line).collect();
        if lines.is_empty() {
            lines.push(whole(Reason::Nothing, format!("no job is known on {}", code(asked.change.head.short()))));
        }
        Ok(Ok(lines))
    }
}

fn refused_whole(parsed: &Parsed, refusal: &Refusal) -> Outcome {
    let title = parsed.commands.first().map_or_else(String::new, |c| title(&c.command));
    Outcome { answers: vec![(title, vec![refusal_line(refusal)])], refused: true, ..Outcome::default() }
}

/// How many runs of a job are asked for, when it is more than one.
fn series_of(wish: &Retest, item: &StartItem) -> String {
    match wish.times {
        Some(times) if times > 1 && item.asked => format!(" {times} times, one run after the other"),
        _ => String::new(),
    }
}
