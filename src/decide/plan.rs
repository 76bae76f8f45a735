//! Decides which jobs a command starts, and what is said of the others.
//!
//! Pure: all it knows comes in as a [`Snapshot`], all it wants goes out as a [`Plan`]. It never talks to a runner.
//! **Invariant:** every job that a command means is in the plan once, started or left with a reason.
//! Read next: `flow/command.rs`, which makes it so.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use retest_commands::Selection;

use super::authorise::Authorised;
use super::closure::Closure;
use super::inert::code;
use super::limits::{Limits, Planned, Starts, Used, reached};
use super::reason::Reason;
use super::select::{Picked, pick};
use super::standalone::Standalone;
use super::terms::JobTerms;
use crate::domain::{Change, Job, JobName, JobState, RetryState, RunnerName, Timestamp};

/// Jobs left alone that are named one by one in an answer; the rest is counted.
const LEFT_NAMED_MAX: usize = 30;

/// Needed jobs that are named one by one; the rest is counted.
const NEEDS_NAMED_MAX: usize = 5;

/// Restarts before a runner's limit at which the limit is told.
const RESTARTS_NEAR: u32 = 5;

/// Time before a runner's age limit at which the limit is told: three days.
const AGE_NEAR: std::time::Duration = std::time::Duration::from_secs(3 * 86_400);

/// A retry of a job that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRetry {
    /// Where it stands.
    pub state: RetryState,
    /// Its run's page.
    pub url: Option<String>,
}

/// A job with what the planner must know beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// The job.
    pub job: Job,
    /// Whether it stands alone.
    pub standalone: Standalone,
    /// A retry under way.
    pub open: Option<Box<OpenRetry>>,
    /// Retries of it on this head so far.
    pub retries: u32,
    /// Those of them that count against the operator's limit: several runs asked for at once count once.
    pub wishes: u32,
    /// The platform that its runner declares for it.
    pub platform: Option<String>,
    /// Fields of it that a person may change.
    pub overrides: Vec<String>,
    /// Names that mean it together with others.
    pub groups: Vec<String>,
    /// What the repository's policy demands where it is started; none for nothing.
    pub terms: Option<Box<JobTerms>>,
    /// When it was last retried on this head.
    pub last_retry_at: Option<Timestamp>,
}

/// What the planner must know of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerFacts {
    /// How long after a run it can be repeated.
    pub age_max: Option<std::time::Duration>,
    /// It can start a job that never ran on the revision.
    pub starts_fresh: bool,
    /// Changes from forks run where we cannot reach them.
    pub out_of_reach_for_forks: bool,
    /// Runs of one job on one head at most, the first included.
    pub attempts_max: u32,
    /// Jobs depending on a restarted one run along.
    pub runs_dependents: bool,
    /// It repeats a run as it was, with the base branch of then.
    pub repeats_base: bool,
    /// How many restarts one group takes in all; its runs are then counted by the second number of their order.
    pub restarts_max: Option<u32>,
}

/// All that is known when a command is decided.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The change.
    pub change: Change,
    /// Jobs of its head: all of them, or those that the selection needs.
    pub jobs: Vec<JobView>,
    /// The configured runners.
    pub runners: BTreeMap<RunnerName, RunnerFacts>,
    /// Limits.
    pub limits: Limits,
    /// What the last hour and day have used of them.
    pub used: Used,
    /// When the base branch last moved, as far as that is known.
    pub base_moved: Option<Timestamp>,
    /// Now.
    pub now: Timestamp,
}

/// Restart what failed, or start whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `/retest`.
    Retest,
    /// `/test`.
    Test,
}

/// What a command wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Which command.
    pub verb: Verb,
    /// Which jobs.
    pub selection: &'a Selection,
    /// Also what passed.
    pub force: bool,
    /// Also what a chained job needs, first.
    pub with_needs: bool,
    /// Runs of each job, one after the other; 1 unless a flake is to be measured.
    pub times: u32,
    /// Fields to change.
    pub overrides: &'a BTreeMap<String, String>,
}

/// A job to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartItem {
    /// Its place in the snapshot.
    pub at: usize,
    /// Why, for people.
    pub why: String,
    /// Jobs that must pass first.
    pub after: Vec<JobName>,
    /// Whether it was asked for, rather than needed by one that was: only then are its fields changed.
    pub asked: bool,
}

/// A job, or a word of the command, that starts nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveItem {
    /// The job or the word as it was written.
    pub name: String,
    /// The reason.
    pub reason: Reason,
    /// The sentence (inert Markdown, without the name).
    pub text: String,
}

/// What a command comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs to start.
    pub start: Vec<StartItem>,
    /// Everything else that was meant.
    pub leave: Vec<LeaveItem>,
}

/// Decides a `/retest` or a `/test`.
pub fn plan(snapshot: &Snapshot, wish: &Wish<'_>, proof: &Authorised) -> Plan {
    let picked = pick(wish.selection, &snapshot.jobs);
    let mut making = Making {
        snapshot,
        wish,
        proof,
        closure: Closure::new(snapshot, wish, proof),
        before: Planned::default(),
        started: BTreeSet::new(),
        plan: Plan::default(),
    };
    words_without_jobs(&picked, wish, snapshot, &mut making.plan);
    for (&at, &named) in &picked.jobs {
        let Some(view) = snapshot.jobs.get(at).filter(|_| !making.started.contains(&at)) else { continue };
        let chained = wish.with_needs && is_chained(view) && view.open.is_none();
        let verdict = if chained { making.chain((at, view), named) } else { making.one((at, view), named) };
        if let Err((reason, text)) = verdict {
            making.plan.leave.push(LeaveItem { name: view.job.newest.name.to_string(), reason, text });
        }
    }
    making.plan
}

/// A plan that is being made.
struct Making<'s> {
    snapshot: &'s Snapshot,
    wish: &'s Wish<'s>,
    proof: &'s Authorised,
    closure: Closure<'s>,
    before: Planned<'s>,
    /// What chains have started: it is not planned again when its own turn comes.
    started: BTreeSet<usize>,
    plan: Plan,
}

impl Making<'_> {
    /// A job by itself.
    fn one(&mut self, (at, view): (usize, &JobView), named: bool) -> Result<(), Left> {
        let why = judge(view, named, self.snapshot, self.wish, self.proof)?;
        let new = [Starts { at, runs: self.wish.times.max(1) }];
        self.room_for(&new)?;
        self.before.add(self.snapshot, &new);
        if self.wish.with_needs {
            self.closure.starts(at);
        }
        self.plan.start.push(StartItem { at, why, after: Vec::new(), asked: true });
        Ok(())
    }

    /// A job with what must run before it.
    fn chain(&mut self, (at, view): (usize, &JobView), named: bool) -> Result<(), Left> {
        // A plan that is full already is not worth a walk.
        self.room_for(&[Starts { at, runs: 1 }])?;
        let items = self.closure.of(at, named)?;
        // Only what was asked for runs several times; what it needs runs once.
        let runs = |item: &StartItem| if item.asked { self.wish.times.max(1) } else { 1 };
        let new: Vec<Starts> = items.iter().map(|item| Starts { at: item.at, runs: runs(item) }).collect();
        if let Err(left) = self.room_for(&new) {
            self.closure.take_back();
            return Err(left);
        }
        self.before.add(self.snapshot, &new);
        if !items.iter().any(|item| item.at == at) {
            self.plan.leave.push(runs_along(view));
        }
        self.started.extend(items.iter().map(|item| item.at));
        self.closure.starts(at);
        self.plan.start.extend(items);
        Ok(())
    }

    /// Whether the limits have room for so much more.
    fn room_for(&self, new: &[Starts]) -> Result<(), Left> {
        reached(self.snapshot, (&self.before, new), self.proof.asker().role).map_or(Ok(()), Err)
    }
}

/// Whether other jobs must run first, or nobody can tell.
fn is_chained(view: &JobView) -> bool {
    view.standalone != Standalone::Yes
}

fn runs_along(view: &JobView) -> LeaveItem {
    let text = "its runner starts it by itself once the jobs before it have passed".to_owned();
    LeaveItem { name: view.job.newest.name.to_string(), reason: Reason::RunsAlong, text }
}

fn words_without_jobs(picked: &Picked, wish: &Wish<'_>, snapshot: &Snapshot, plan: &mut Plan) {
    let head = code(snapshot.change.head.short());
    for (word, nearest) in &picked.unknown {
        let hint = match nearest {
            Some(name) => format!("did you mean {}?", code(name)),
            None => format!("{} lists the jobs", code("/retest ?")),
        };
        let text = format!("no job of that name on {head}; {hint}");
        plan.leave.push(LeaveItem { name: word.clone(), reason: Reason::Unknown, text });
    }
    for (word, names) in &picked.ambiguous {
        let list: Vec<String> = names.iter().map(|n| code(n)).collect();
        let text = format!("fits several jobs: {}; write the one you mean exactly", list.join(", "));
        plan.leave.push(LeaveItem { name: word.clone(), reason: Reason::Ambiguous, text });
    }
    let nothing = picked.jobs.is_empty() && picked.unknown.is_empty() && picked.ambiguous.is_empty();
    if nothing && wish.verb == Verb::Retest {
        let words: Vec<String> = wish.selection.texts().iter().map(|w| code(w)).collect();
        let text = if words.is_empty() {
            format!("nothing to restart: no job of {head} ended badly")
        } else {
            format!("nothing to restart: no job of {head} that ended badly is meant by {}", words.join(", "))
        };
        plan.leave.push(LeaveItem { name: String::new(), reason: Reason::Nothing, text });
    }
}

pub(super) type Left = (Reason, String);

/// Whether a job is started, and why; or why not. The first rule that speaks decides.
fn judge(
    view: &JobView,
    named: bool,
    snapshot: &Snapshot,
    wish: &Wish<'_>,
    proof: &Authorised,
) -> Result<String, Left> {
    if let Some(open) = &view.open {
        let text = format!(
            "a retry of it is under way ({}); joined{}",
            super::inert::link(open.state.for_people(), open.url.as_deref()),
            not_taken(wish)
        );
        return Err((Reason::Joined, text));
    }
    let why = wanted(view, named, wish)?;
    let near = startable(view, snapshot, wish, proof)?;
    stands_alone(view)?;
    changeable(view, wish, proof)?;
    Ok(why + &near)
}

/// What a wish that joins another does not get.
fn not_taken(wish: &Wish<'_>) -> String {
    let mut what = Vec::new();
    if wish.times > 1 {
        what.push(code(&format!("times={}", wish.times)));
    }
    what.extend(wish.overrides.iter().map(|(key, value)| code(&format!("{key}={value}"))));
    if what.is_empty() {
        return String::new();
    }
    format!(", but {} is not part of it: ask for that once it is over", what.join(", "))
}

/// Whether its runner takes it now, whatever it needs; with what should be known before a limit bites.
pub(super) fn startable(
    view: &JobView,
    snapshot: &Snapshot,
    wish: &Wish<'_>,
    proof: &Authorised,
) -> Result<String, Left> {
    let runner = view.job.runner.as_ref().and_then(|name| snapshot.runners.get(name));
    let Some(runner) = runner else {
        let text = "not managed here: no configured runner starts it; the operator can add one that does".to_owned();
        return Err((Reason::Unmanaged, text));
    };
    view.terms.as_ref().map_or(Ok(()), |terms| terms.allow(proof))?;
    reachable(view, snapshot, wish, (runner, proof))?;
    if view.wishes.saturating_add(1) >= runner.attempts_max {
        let text = format!(
            "ran {} times on this head, and {} is the most that the operator allows of its runner ({}); push, or ask the operator to raise it",
            view.wishes.saturating_add(1),
            runner.attempts_max,
            code("attempts_max")
        );
        return Err((Reason::AttemptsUsed, text));
    }
    Ok(near_limits(view, snapshot, runner))
}

/// Whether the fields that the asker wants changed may be changed in this job.
pub(super) fn changeable(view: &JobView, wish: &Wish<'_>, proof: &Authorised) -> Result<(), Left> {
    if wish.overrides.is_empty() {
        return Ok(());
    }
    let none = JobTerms::default();
    let terms = view.terms.as_deref().unwrap_or(&none);
    wish.overrides.keys().try_for_each(|key| terms.allow_override(key, &view.overrides, proof))
}

/// Whether the job's state is one that the command means.
pub(super) fn wanted(view: &JobView, named: bool, wish: &Wish<'_>) -> Result<String, Left> {
    let state = view.job.newest.state;
    let measured = named && wish.times > 1;
    let forced = wish.force || measured || wish.verb == Verb::Test;
    let left = |reason, text: &str| Err((reason, text.to_owned()));
    match state {
        JobState::Failed if view.job.newest.allow_failure && !named && wish.verb == Verb::Retest => {
            left(Reason::Passed, "allowed to fail, so it blocks nothing; name it to restart it")
        }
        s if s.is_restartable() => Ok(format!("{s} on this head")),
        JobState::Running => left(Reason::Running, "still running; its result is to come"),
        JobState::Pending if view.job.newest.manual => {
            if wish.verb == Verb::Test {
                Ok("started by hand".into())
            } else {
                left(Reason::Manual, "waits for a person to start it: `/test` does")
            }
        }
        JobState::Pending => left(Reason::Pending, "waiting to start by itself"),
        JobState::Passed | JobState::Skipped | JobState::Superseded if forced => {
            Ok(format!("{state}, and started all the same as asked"))
        }
        JobState::Passed => left(Reason::Passed, "already passed; `--force` runs it again"),
        JobState::Skipped => left(Reason::Skipped, "was skipped: nothing failed in it"),
        JobState::Superseded => left(Reason::Superseded, "was replaced by something newer"),
        JobState::Missing if wish.verb == Verb::Test => Ok("started as asked".into()),
        JobState::Missing if view.job.required => Ok("required, and never reported on this head".into()),
        JobState::Missing => left(Reason::NotReported, "never ran on this head; `/test` starts it"),
        JobState::Failed | JobState::Infrastructure | JobState::TimedOut | JobState::Cancelled | JobState::Lost => {
            Ok(format!("{state} on this head"))
        }
    }
}

/// Whether its runner can reach it now.
fn reachable(
    view: &JobView,
    snapshot: &Snapshot,
    wish: &Wish<'_>,
    (runner, proof): (&RunnerFacts, &Authorised),
) -> Result<(), Left> {
    let seen = &view.job.newest;
    if snapshot.change.from_fork && runner.out_of_reach_for_forks {
        let text = "runs in the fork, out of this bot's reach; ask the author to retry it there, or a maintainer to run the pipeline in this project";
        return Err((Reason::ForkOutOfReach, text.to_owned()));
    }
    let fresh = matches!(seen.state, JobState::Missing | JobState::Skipped) || seen.manual;
    if fresh && !proof.trusted_head() {
        let text = format!(
            "never ran on this head of a fork; somebody with {} can approve it with `/ok-to-test`",
            proof.approvers()
        );
        return Err((Reason::NotApproved, text));
    }
    if matches!(seen.state, JobState::Missing | JobState::Skipped) && !runner.starts_fresh {
        let text = "never ran on this head, and its runner can only repeat runs; push, or start it there".to_owned();
        return Err((Reason::NotReported, text));
    }
    match runner.age_max {
        _ if runner.restarts_max.is_some_and(|max| restarts(view).saturating_add(wish.times) > max) => {
            let max = runner.restarts_max.unwrap_or_default();
            if restarts(view) < max {
                let left = max - restarts(view);
                return Err((
                    Reason::Expired,
                    format!("its runner takes only {left} more restarts of its run; ask for fewer"),
                ));
            }
            Err((
                Reason::Expired,
                format!("its run was restarted {max} times, and its runner takes no more; push to run it afresh"),
            ))
        }
        Some(max) if snapshot.now.since(seen.at) > max => {
            let days = max.as_secs() / 86_400;
            Err((
                Reason::Expired,
                format!("older than {days} days, and its runner repeats nothing older; push to run it afresh"),
            ))
        }
        _ => Ok(()),
    }
}

/// How often the run of a job was restarted, where its runner counts attempts.
fn restarts(view: &JobView) -> u32 {
    u32::try_from(view.job.newest.order.1.saturating_sub(1)).unwrap_or(0)
}

/// What should be known of the new run: a limit of the runner that is near, a base that is old. Empty without any.
fn near_limits(view: &JobView, snapshot: &Snapshot, runner: &RunnerFacts) -> String {
    let mut text = String::new();
    if let Some(max) = runner.restarts_max
        && restarts(view) + RESTARTS_NEAR >= max
    {
        text.push_str(&format!("; restart {} of the {max} that its runner takes", restarts(view) + 1));
    }
    if let Some(max) = runner.age_max
        && snapshot.now.since(view.job.newest.at) + AGE_NEAR > max
    {
        text.push_str(&format!("; its runner repeats nothing older than {} days", max.as_secs() / 86_400));
    }
    if runner.repeats_base && snapshot.base_moved.is_some_and(|moved| moved > view.job.newest.at) {
        let base = code(&snapshot.change.base_ref);
        text.push_str(&format!(
            "; repeated as it was, without what came to {base} since: update the branch for a run with it"
        ));
    }
    text
}

fn stands_alone(view: &JobView) -> Result<(), Left> {
    let name = view.job.newest.name.as_str();
    match &view.standalone {
        Standalone::Yes => Ok(()),
        Standalone::Needs(needs) => {
            let list: Vec<String> = needs.iter().take(NEEDS_NAMED_MAX).map(|n| code(n.as_str())).collect();
            let more = needs.len().saturating_sub(NEEDS_NAMED_MAX);
            let of = match (list.is_empty(), more) {
                (true, _) => "other jobs".to_owned(),
                (false, 0) => list.join(", "),
                (false, more) => format!("{} and {more} more", list.join(", ")),
            };
            Err((
                Reason::NotStandalone,
                format!("chained behind {of}; restart that first, or add {}", code("--with-needs")),
            ))
        }
        Standalone::Gone(cause) => Err((
            Reason::Expired,
            format!("its inputs are gone ({}); restart the job that makes them, or push", code(cause)),
        )),
        Standalone::Barred(why) => Err((Reason::NotStandalone, super::inert::plain_words(why))),
        Standalone::Unknown => Err((
            Reason::NotStandalone,
            format!(
                "nobody can tell whether {} stands alone; {} in {} of the default branch says so",
                code(name),
                code(&format!("[[job]] name = \"{name}\" standalone = true")),
                code(".retest.toml")
            ),
        )),
    }
}

/// The jobs of a head with their states, for `/retest ?`: each with why it would not be restarted.
pub fn job_list(snapshot: &Snapshot, proof: &Authorised) -> Vec<LeaveItem> {
    let (selection, overrides) = (Selection::default(), BTreeMap::new());
    let wish = Wish {
        verb: Verb::Retest,
        selection: &selection,
        force: false,
        with_needs: false,
        times: 1,
        overrides: &overrides,
    };
    let mut out: Vec<LeaveItem> = Vec::new();
    for view in snapshot.jobs.iter().take(LEFT_NAMED_MAX) {
        let seen = &view.job.newest;
        let can = match judge(view, true, snapshot, &wish, proof) {
            _ if view.open.is_some() => "a retry of it is under way".to_owned(),
            Ok(_) => "can be restarted".to_owned(),
            Err((_, text)) => text,
        };
        let runner = view.job.runner.as_ref().map_or(String::new(), |r| format!(", runner {}", code(r.as_str())));
        let runs = view.job.runs;
        let state = super::inert::link(&seen.state.to_string(), seen.url.as_deref());
        let text = format!("{state}, {runs} run{}{runner}; {can}", if runs == 1 { "" } else { "s" });
        out.push(LeaveItem { name: seen.name.to_string(), reason: Reason::Listed, text });
    }
    if snapshot.jobs.len() > LEFT_NAMED_MAX {
        let text = format!("and {} more jobs", snapshot.jobs.len() - LEFT_NAMED_MAX);
        out.push(LeaveItem { name: String::new(), reason: Reason::Listed, text });
    }
    out
}

/// States by job name, for [`Standalone::of`]: of those jobs that others need, which often are none.
pub fn states<'j, I>(jobs: I) -> HashMap<&'j JobName, JobState>
where
    I: IntoIterator<Item = &'j Job, IntoIter: Clone>,
{
    let jobs = jobs.into_iter();
    let needed: HashSet<&JobName> = jobs.clone().flat_map(|job| job.newest.needs.iter().flatten()).collect();
    if needed.is_empty() {
        return HashMap::new();
    }
    jobs.map(|job| (&job.newest.name, job.newest.state)).filter(|(name, _)| needed.contains(name)).collect()
}

#[cfg(test)]
pub(super) mod tests;
