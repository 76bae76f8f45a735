//! Judges failed runs: whether a known flake is behind one, and whether the bot runs the job again by itself.
//!
//! The failures of a repository are judged one after the other, so that budgets hold. Logs are read outside the transaction;
//! what counts is read within it. **Invariant:** a retry that nobody asked for is stored in the transaction that marks the
//! failure as judged, so that a crash leaves both or neither. Read next: `decide/flake/judge.rs`, which decides; `hold.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use retest_commands::{Selection, Selector};

use super::lines::dispatch_key;
use super::policy::InForce;
use super::snapshot::{AskError, facts};
use super::world::{FlowError, Progress, World};
use crate::decide::{
    Ask, Asker, Breaker, Case, ChangeSwitch, DAY, Failure, JobView, Limits, Match, Rights, RuleSet, Snapshot, Spent,
    SpentByLabel, Switches, Verb, Verdict, Wish, authorise, judge,
};
use crate::domain::{
    Actor, Change, Conclusion, Evidence, Job, LabelOrigin, Origin, Repo, RepoKey, Retry, RetryId, RetryState, Role,
    RunHandle, Timestamp, Unasked, WaitOn,
};
use crate::ports::CallError;
use crate::store::{FailedRun, JobQuery, Tx};

/// Failures looked at per pass.
const BATCH: u32 = 200;

/// Failed tries to read a log or to ask a forge after which a failure is judged by what is known.
const TRIES_MAX: u32 = 6;

/// Time until the next look at what is held back without a date.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A failure is not held back for longer: every pending has an end.
const HELD_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What is kept as the verdict where a retry was stored.
pub(super) const RETRIED: &str = "retried";

/// The repository whose failures are judged.
struct Scene {
    repo: Repo,
    policy: Arc<InForce>,
    labels: Arc<RuleSet>,
}

/// One failure with what the record says of it.
struct Found {
    change: Change,
    job: Job,
    end: Conclusion,
    cause: Option<String>,
    retries: Vec<Retry>,
}

impl World {
    /// The bot as somebody who asks.
    pub(super) fn itself() -> Actor {
        Actor { id: 0, login: "retest-bot".into(), is_bot: true }
    }

    /// Whether a failure that is not judged yet may come to a retry, as far as is known without asking anybody: then what
    /// waits for the change's checks goes on waiting.
    pub(super) async fn may_be_retried(&self, change: &Change, failure: &FailedRun) -> Result<bool, FlowError> {
        let flakes = &self.rules.flakes;
        let switch = self.switched(&change.key).await?;
        let (Some(runner), Some(end)) = (&failure.runner, Conclusion::of(failure.state)) else { return Ok(false) };
        if !flakes.enabled || flakes.never(change).is_some() || switch == ChangeSwitch::Off {
            return Ok(false);
        }
        if flakes.auto(change).is_some() || switch == ChangeSwitch::On {
            return Ok(true);
        }
        let labels = self.labels_of(&failure.repo, &self.last_policy(&failure.repo)).await?;
        let about = Failure { job: &failure.job, runner, end, cause: failure.cause.as_deref() };
        Ok(!labels.by_cause(&about).is_empty() || labels.wants_log(&about))
    }

    /// One pass over the failures that are to be judged.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn judge_pass(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let mut done = 0;
        let mut by_repo: BTreeMap<RepoKey, Vec<FailedRun>> = BTreeMap::new();
        for failure in self.store.due_failures(self.now(), BATCH).await? {
            by_repo.entry(failure.repo.clone()).or_default().push(failure);
        }
        done += self.tell_issues().await?.done;
        done += self.notice_sightings().await? + self.list_wanted();
        for (repo, failures) in by_repo {
            let Some(held) = self.tasks.occupy(format!("judge {}/{}", repo.forge, repo.id)) else { continue };
            done += failures.len();
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.judge_all(&repo, failures).await });
        }
        Ok(Progress { done })
    }

    async fn judge_all(&self, repo: &RepoKey, failures: Vec<FailedRun>) -> Result<(), FlowError> {
        let known = self.store.repo(repo).await?;
        let (Some(forge), Some(repo)) = (self.forges.get(&repo.forge), known) else {
            return self.let_be(&failures, "its forge is no longer configured").await;
        };
        let forge = forge.as_ref();
        let settle = failures.iter().all(|failure| failure.tries >= TRIES_MAX);
        let policy = match self.in_force(forge, &repo, settle).await {
            Ok(policy) => policy,
            Err(AskError::Flow(error)) => return Err(error),
            Err(AskError::Call(error)) => return self.later(&failures, &error).await,
        };
        self.refresh_issues(forge, &repo).await?;
        let labels = self.labels_of(&repo.key, &policy).await?;
        let scene = Scene { repo, policy, labels };
        for failure in &failures {
            self.judge_one(&scene, failure).await?;
        }
        self.wake.report.notify_one();
        self.wake.dispatch.notify_one();
        Ok(())
    }

    async fn let_be(&self, failures: &[FailedRun], why: &str) -> Result<(), FlowError> {
        let mut tx = self.store.begin().await?;
        for failure in failures {
            tx.judged(failure.id, None, why).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn later(&self, failures: &[FailedRun], error: &CallError) -> Result<(), FlowError> {
        tracing::warn!(%error, failures = failures.len(), "failures are judged later");
        for failure in failures {
            let until = self.now().plus(error.wait(failure.tries + 1).max(Duration::from_secs(1)));
            self.store.put_off_failure(failure.id, until).await?;
        }
        Ok(())
    }

    async fn judge_one(&self, scene: &Scene, failure: &FailedRun) -> Result<(), FlowError> {
        let found = match self.find(&scene.repo, failure).await? {
            Ok(found) => found,
            Err(why) => return self.let_be(std::slice::from_ref(failure), why).await,
        };
        let Some(runner) = &failure.runner else {
            return self.let_be(std::slice::from_ref(failure), "nobody here can run it again").await;
        };
        let found = match self.typed(scene, failure, found).await {
            Ok(found) => found,
            Err(error) if failure.tries < TRIES_MAX => return self.later(std::slice::from_ref(failure), &error).await,
            Err(_) => return self.let_be(std::slice::from_ref(failure), "its runner does not answer").await,
        };
        let about = Failure { job: &failure.job, runner, end: found.end, cause: found.cause.as_deref() };
        let mut matches = scene.labels.by_cause(&about);
        if matches.is_empty() && scene.labels.wants_log(&about) {
            match self.seen_in_log(scene, failure, &found).await? {
                Ok(seen) => matches = seen,
                Err(error) if error.is_passing() && failure.tries < TRIES_MAX => {
                    return self.later(std::slice::from_ref(failure), &error).await;
                }
                Err(error) => {
                    tracing::warn!(%runner, job = %failure.job, %error, "a log cannot be read; the failure is judged without it");
                    self.count_failure(runner.as_str(), &error);
                }
            }
        }
        self.decide(scene, failure, &found, &matches).await
    }

    /// What the record says of a failure; or why there is nothing to judge.
    async fn find(&self, repo: &Repo, failure: &FailedRun) -> Result<Result<Found, &'static str>, FlowError> {
        let mut changes = self.store.changes_at(&repo.key, &failure.sha).await?;
        let change = match changes.is_empty() {
            false => changes.swap_remove(0),
            true => match self.queued(&repo.key, &failure.sha).await? {
                Some(change) => change,
                None => return Ok(Err("it is not the head of an open change")),
            },
        };
        let named = JobQuery::Named(vec![failure.job.to_string()]);
        let jobs = self.store.jobs(&repo.key, &failure.sha, &named).await?;
        let job = jobs.into_iter().find(|job| job.newest.name == failure.job && job.newest.scope == failure.scope);
        let Some(job) = job.filter(|job| job.newest.run == failure.run) else {
            return Ok(Err("a newer run has taken its place"));
        };
        let Some(end) = Conclusion::of(job.newest.state).filter(|_| job.newest.state.is_restartable()) else {
            return Ok(Err("it is no failure any more"));
        };
        let mut retries = self.store.retries_of(&change.key, &failure.sha).await?;
        let mine = |retry: &Retry| retry.job == failure.job && retry.scope == failure.scope;
        if retries.iter().any(|retry| mine(retry) && retry.state.is_open()) {
            return Ok(Err("a retry of it is under way"));
        }
        if retries.iter().rev().find(|retry| mine(retry)).is_some_and(|retry| retry.series.is_some()) {
            return Ok(Err("it was one of several runs that somebody wanted to count"));
        }
        retries.retain(mine);
        let cause = job.newest.cause.clone();
        Ok(Ok(Found { change, job, end, cause, retries }))
    }

    /// The failure with its typed cause: a status says only that something failed, and its runner knows more.
    async fn typed(&self, scene: &Scene, failure: &FailedRun, found: Found) -> Result<Found, CallError> {
        let seen = &found.job.newest;
        let told_by_status = matches!(seen.origin, Origin::Status | Origin::Check(_)) && seen.cause.is_none();
        let asked_for = scene.labels.rules().iter().any(|rule| rule.jobs.iter().any(|which| which.fits(&seen.name)));
        let entry = failure.runner.as_ref().and_then(|runner| self.runner(runner));
        let Some(entry) = entry.filter(|_| told_by_status && asked_for && !seen.run.as_str().is_empty()) else {
            return Ok(found);
        };
        let handle = RunHandle { id: seen.run.to_string(), order: seen.order, url: seen.url.clone() };
        match entry.runner.observe(&scene.repo, &seen.name, &handle).await {
            Ok(told) if told.state.is_restartable() => {
                let end = Conclusion::of(told.state).unwrap_or(found.end);
                Ok(Found { end, cause: told.cause, ..found })
            }
            Err(error) if error.is_passing() => {
                self.count_failure(entry.runner.name().as_str(), &error);
                Err(error)
            }
            Ok(_) | Err(_) => Ok(found), // it knows nothing of the run: what the status says must do
        }
    }

    /// The rules that a line of the run's log fits.
    async fn seen_in_log(
        &self,
        scene: &Scene,
        failure: &FailedRun,
        found: &Found,
    ) -> Result<Result<Vec<Match>, CallError>, FlowError> {
        let Some(entry) = failure.runner.as_ref().and_then(|runner| self.runner(runner)) else {
            return Ok(Ok(Vec::new()));
        };
        if !entry.runner.abilities().tails_log {
            return Ok(Ok(Vec::new()));
        }
        let seen = &found.job.newest;
        let ours = found.retries.iter().rev().find_map(|retry| retry.handle.as_ref());
        let handle = match ours.filter(|_| !entry.runner.abilities().reported_by_forge) {
            Some(handle) if handle.order >= seen.order => handle.clone(),
            _ => RunHandle { id: seen.run.to_string(), order: seen.order, url: seen.url.clone() },
        };
        let tail = match entry.runner.log_tail(&scene.repo, &handle, self.rules.flakes.log_bytes_max).await {
            Ok(tail) => tail,
            Err(error) => return Ok(Err(error)),
        };
        let (labels, end) = (Arc::clone(&scene.labels), found.end);
        let (job, runner, cause) = (failure.job.clone(), entry.runner.name().clone(), found.cause.clone());
        // Megabytes against hundreds of patterns: not on a thread that others wait for.
        let matched = tokio::task::spawn_blocking(move || {
            let about = Failure { job: &job, runner: &runner, end, cause: cause.as_deref() };
            labels.in_log(&about, &tail.text, tail.cut)
        });
        Ok(Ok(matched.await.unwrap_or_default()))
    }

    async fn decide(
        &self,
        scene: &Scene,
        failure: &FailedRun,
        found: &Found,
        matches: &[Match],
    ) -> Result<(), FlowError> {
        let Some(runner) = &failure.runner else { return Ok(()) };
        let (now, change) = (self.now(), &found.change);
        let place = (&scene.repo, &failure.sha, &scene.policy.terms);
        let views = self.views(place, (vec![found.job.clone()], None), &found.retries).await;
        let view = match views {
            Ok(mut views) => views.pop(),
            Err(AskError::Flow(error)) => return Err(error),
            Err(AskError::Call(error)) => return self.later(std::slice::from_ref(failure), &error).await,
        };
        let Some(view) = view else { return Ok(()) };
        let number = view.retries + 1;
        let key = dispatch_key(&change.key, &failure.sha, (failure.job.as_str(), &failure.scope), number);
        let failed_heads = self.store.heads_failed(&change.key, &failure.sha, &failure.job).await?;
        let flakes = &self.rules.flakes;
        let (auto, never) = (flakes.auto(change), flakes.never(change));
        let switches = Switches {
            operator: flakes.enabled,
            policy: scene.policy.terms.autoretry.enabled,
            job: self.auto_retries(scene, &view),
            change: self.switched(&change.key).await?,
            auto_label: auto.as_deref(),
            never_label: never.as_deref(),
        };
        // From here on nobody else writes: what is counted holds until it is stored.
        let mut tx = self.store.begin().await?;
        if !tx.is_undecided(failure.id).await? {
            return Ok(());
        }
        let spent = self.spent(change, (failure, found), matches, &switches).await?;
        let breaker = self.breaker_now(&mut tx, (runner, &key), now).await?;
        let verdict = judge(&Case {
            failure: Failure { job: &failure.job, runner, end: found.end, cause: found.cause.as_deref() },
            standalone: &view.standalone,
            switches,
            matches,
            native_pending: false, // a run that the CI began by itself is the newest one by now
            is_head: true,         // looked up above
            breaker,
            failed_heads,
            budgets: flakes.budgets,
            spent: &spent,
            key: key.as_str(),
            wait_min: Duration::ZERO,
        });
        let first = matches.first().map(|found| &found.evidence);
        match verdict {
            Verdict::Leave { text, .. } => tx.judged(failure.id, first, &text).await?,
            Verdict::Wait { text, .. } if now.since(failure.at) > HELD_MAX => {
                tx.judged(failure.id, first, &format!("{text}; given up after a day")).await?;
            }
            Verdict::Wait { until, text, .. } => {
                let until = until.unwrap_or_else(|| now.plus(LOOK_AGAIN)).max(now.plus(Duration::from_secs(1)));
                tx.hold_back(failure.id, until, first, &text).await?;
            }
            Verdict::Retry { evidence, also, number: k, of, delay } => {
                let unasked = Unasked { evidence, number: k, of };
                let retry = self.unasked_retry(found, &view, unasked, (key, now, delay));
                match self.startable(scene, found, view).await? {
                    Err(text) => tx.judged(failure.id, Some(&evidence_of(&retry)), &text).await?,
                    Ok(()) => {
                        self.store_unasked(&mut tx, failure, &retry, &also).await?;
                        if let Breaker::HalfOpen { .. } = breaker {
                            tx.put_probe(runner, &retry.key).await?;
                        }
                    }
                }
            }
        }
        tx.want_report(&change.key, &failure.sha, now.plus(self.rules.report_delay)).await?;
        Ok(tx.commit().await?)
    }

    /// Stores a retry that nobody asked for, with what was decided about the failure.
    async fn store_unasked(
        &self,
        tx: &mut Tx,
        failure: &FailedRun,
        retry: &Retry,
        also: &[Evidence],
    ) -> Result<(), FlowError> {
        let now = self.now();
        let evidence = evidence_of(retry);
        if tx.new_retry(retry, None).await?.is_none() {
            return Ok(tx.judged(failure.id, Some(&evidence), "a retry of it is under way").await?);
        }
        let others: Vec<&str> = also.iter().map(|evidence| evidence.label.as_str()).collect();
        let others = if others.is_empty() { String::new() } else { format!("; also covered by {}", others.join(", ")) };
        let what = format!("retried unasked: known flake {}{others}", evidence.label);
        tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), false), &what, now).await?;
        tx.judged(failure.id, Some(&evidence), RETRIED).await?;
        if let LabelOrigin::Issue(number) = evidence.origin {
            tx.want_issue_comment(&retry.change.repo, number, now.plus(super::issues::COMMENT_PAUSE)).await?;
        }
        self.metrics.unasked(retry.runner.as_str(), &evidence.label);
        Ok(())
    }

    /// What was used of the budgets, as is committed.
    async fn spent(
        &self,
        change: &Change,
        (failure, found): (&FailedRun, &Found),
        matches: &[Match],
        switches: &Switches<'_>,
    ) -> Result<Spent, FlowError> {
        let Some(runner) = &failure.runner else { return Ok(Spent::default()) };
        let since = self.now().minus(DAY);
        let unasked: Vec<&Evidence> =
            found.retries.iter().filter_map(|retry| Some(&retry.unasked.as_ref()?.evidence)).collect();
        let mut names: Vec<(LabelOrigin, String)> =
            matches.iter().map(|one| (one.evidence.origin.clone(), one.evidence.label.clone())).collect();
        names.extend(switches.auto_label.map(|label| (LabelOrigin::Change, label.to_owned())));
        let mut spent = Spent { job_and_head: u32::try_from(unasked.len()).unwrap_or(u32::MAX), ..Spent::default() };
        names.push((LabelOrigin::Change, "/autoretry on".to_owned()));
        for (origin, label) in names {
            let counted = self.store.unasked((&change.key, runner), &label, since).await?;
            (spent.change_day, spent.runner_day) = (counted.change, counted.runner);
            let here = unasked.iter().filter(|e| e.label == label && e.origin == origin).count();
            let by_label = SpentByLabel { job_and_head: u32::try_from(here).unwrap_or(u32::MAX), day: counted.label };
            spent.labels.insert((origin, label), by_label);
        }
        Ok(spent)
    }

    /// What people said about unasked retries of a change.
    pub(super) async fn switched(&self, change: &crate::domain::ChangeKey) -> Result<ChangeSwitch, FlowError> {
        Ok(match self.store.switch(change).await? {
            None => ChangeSwitch::Unset,
            Some(true) => ChangeSwitch::On,
            Some(false) => ChangeSwitch::Off,
        })
    }

    /// Whether operator and repository let the job be retried unasked.
    fn auto_retries(&self, scene: &Scene, view: &JobView) -> bool {
        let name = &view.job.newest.name;
        let entry = view.job.runner.as_ref().and_then(|runner| self.runner(runner));
        let operators = entry.and_then(|entry| entry.declared(name));
        scene.policy.terms.declared(name, operators).auto_retry != Some(false)
    }

    /// Whether the planner would start the job, if the bot were somebody; or why not. Of the limits those hold that spare machines.
    async fn startable(&self, scene: &Scene, found: &Found, view: JobView) -> Result<Result<(), String>, FlowError> {
        let change = found.change.clone();
        let terms = &scene.policy.terms.limits;
        let limits = Limits { repository_day: terms.repository_day, runner_day: terms.runner_day, ..Limits::NONE };
        let used = self.store.used(&change.key, Self::itself().id, &limits, self.now()).await?;
        let asker = Asker::with_role(Self::itself(), Role::Admin);
        let proof = match authorise(Ask::Retest, &change, &asker, &Rights::default()) {
            Ok(proof) => proof,
            Err(refusal) => return Ok(Err(refusal.text)),
        };
        let name = view.job.newest.name.to_string();
        let snapshot = Snapshot {
            change,
            jobs: vec![view],
            runners: self.runners.iter().map(|entry| (entry.runner.name().clone(), facts(entry))).collect(),
            limits,
            used,
            base_moved: None,
            now: self.now(),
        };
        let selection = Selection { words: vec![Selector::Name(name)], ..Selection::default() };
        let overrides = BTreeMap::new();
        let wish = Wish {
            verb: Verb::Retest,
            selection: &selection,
            force: false,
            with_needs: false,
            times: 1,
            overrides: &overrides,
        };
        let plan = crate::decide::plan(&snapshot, &wish, &proof);
        Ok(match plan.leave.first() {
            Some(left) if plan.start.is_empty() => Err(left.text.clone()),
            _ => Ok(()),
        })
    }

    fn unasked_retry(
        &self,
        found: &Found,
        view: &JobView,
        unasked: Unasked,
        (key, now, delay): (crate::domain::DispatchKey, Timestamp, Duration),
    ) -> Retry {
        let seen = &view.job.newest;
        let runner = view.job.runner.clone().unwrap_or_else(|| "none".into());
        let deadline = self.runner(&runner).map_or(HELD_MAX, |entry| entry.deadline);
        let due_at = now.plus(delay);
        let state = if delay.is_zero() { RetryState::Requested } else { RetryState::Waiting(WaitOn::Until(due_at)) };
        Retry {
            id: RetryId(0),
            key,
            change: found.change.key.clone(),
            sha: found.change.head.clone(),
            job: seen.name.clone(),
            scope: seen.scope.clone(),
            runner,
            state,
            asker: Self::itself(),
            why: format!("{} on this head", seen.state),
            source_run: (!seen.run.as_str().is_empty()).then(|| seen.run.clone()),
            source_order: seen.order,
            group: seen.group.clone(),
            handle: None,
            cause: None,
            overrides: BTreeMap::new(),
            number: view.retries + 1,
            series: None,
            unasked: Some(unasked),
            comment: None,
            internal: false,
            also: Vec::new(),
            created_at: now,
            due_at,
            tries: 0,
            dispatched_at: None,
            ended_at: None,
            deadline_at: due_at.plus(deadline),
        }
    }
}

fn evidence_of(retry: &Retry) -> Evidence {
    match &retry.unasked {
        Some(unasked) => unasked.evidence.clone(),
        None => Evidence { label: String::new(), origin: LabelOrigin::Change, seen: crate::domain::Seen::Label },
    }
}
