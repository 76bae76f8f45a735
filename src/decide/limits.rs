//! How much may be restarted: per command, job and head, change, person, repository, runner, hour and day.
//!
//! Pure: what was used comes in as [`Used`], counted from the store, so that a restart forgets nothing. An answer names the
//! limit, its figure, when there is room again, and who can lift it. Read next: `terms.rs` for where figures come from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::inert::code;
use super::plan::{JobView, Snapshot};
use super::reason::Reason;
use crate::domain::{Role, RunnerName, Timestamp};

/// An hour.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// A day.
pub const DAY: Duration = Duration::from_secs(86_400);

/// Who has set a figure, and so can change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// Whoever runs the bot, in its configuration.
    Operator,
    /// Those who look after the repository, in its policy.
    Repository,
}

/// A limit that may not be passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The most; `u32::MAX` is no limit.
    pub max: u32,
    /// Whose word it is.
    pub by: SetBy,
}

impl Figure {
    /// No limit.
    pub const NONE: Self = Self::operator(u32::MAX);

    /// A figure of the operator.
    pub const fn operator(max: u32) -> Self {
        Self { max, by: SetBy::Operator }
    }

    /// Whether it limits anything.
    pub const fn is_set(self) -> bool {
        self.max != u32::MAX
    }
}

/// What may be started at most. All but `jobs_per_command` and `times` are lifted for the exempt role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that one command may start.
    pub jobs_per_command: Figure,
    /// Runs of one job that are asked for at once.
    pub times: Figure,
    /// Retries of one job on one head.
    pub job_and_head: Figure,
    /// Time from one retry of a job on a head to the next, in seconds.
    pub cooldown_s: Figure,
    /// Retries of one change within an hour.
    pub change_hour: Figure,
    /// Retries of one change within a day.
    pub change_day: Figure,
    /// Retries of one person on a forge within an hour.
    pub asker_hour: Figure,
    /// Retries of one person on a forge within a day.
    pub asker_day: Figure,
    /// Retries in one repository within a day.
    pub repository_day: Figure,
    /// Retries on one runner, whoever asks, within a day.
    pub runner_day: Figure,
    /// From this role on the limits do not hold; none when nobody is exempt.
    pub exempt: Option<Role>,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Self = Self {
        jobs_per_command: Figure::NONE,
        times: Figure::NONE,
        job_and_head: Figure::NONE,
        cooldown_s: Figure::operator(0),
        change_hour: Figure::NONE,
        change_day: Figure::NONE,
        asker_hour: Figure::NONE,
        asker_day: Figure::NONE,
        repository_day: Figure::NONE,
        runner_day: Figure::NONE,
        exempt: None,
    };
}

impl Default for Limits {
    /// The defaults of the configuration file (a test compares them).
    fn default() -> Self {
        Self {
            jobs_per_command: Figure::operator(100),
            times: Figure::operator(10),
            job_and_head: Figure::operator(10),
            change_hour: Figure::operator(200),
            change_day: Figure::operator(1_000),
            asker_hour: Figure::operator(200),
            asker_day: Figure::operator(1_000),
            ..Self::NONE
        }
    }
}

/// Retries within a span that ends now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub retries: u32,
    /// When the one was asked for that must leave the span before there is room for one more: the oldest of them, or,
    /// where there are more than the limit, the newest one that is too many.
    pub leaves_first: Option<Timestamp>,
}

/// What the last hour and day have used of the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Of this change within an hour.
    pub change_hour: Count,
    /// Of this change within a day.
    pub change_day: Count,
    /// Of this person within an hour.
    pub asker_hour: Count,
    /// Of this person within a day.
    pub asker_day: Count,
    /// Of this repository within a day.
    pub repository_day: Count,
    /// Of each runner within a day, where that is limited.
    pub runner_day: BTreeMap<RunnerName, Count>,
}

impl Used {
    /// Counts retries that are planned and not stored yet.
    pub fn add_planned<'r>(&mut self, runners: impl Iterator<Item = &'r RunnerName>) {
        for runner in runners {
            let counts = [&mut self.change_hour, &mut self.change_day, &mut self.asker_hour, &mut self.asker_day];
            for count in counts.into_iter().chain([&mut self.repository_day]) {
                count.retries = count.retries.saturating_add(1);
            }
            let of_runner = self.runner_day.entry(runner.clone()).or_default();
            of_runner.retries = of_runner.retries.saturating_add(1);
        }
    }
}

/// A job to be started, by its place in the snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starts {
    pub at: usize,
    /// How often, one run after the other.
    pub runs: u32,
}

/// What a plan starts so far, counted as it grows: a look at it costs the same however long the plan is.
#[derive(Debug, Default)]
pub(super) struct Planned<'s> {
    jobs: usize,
    runs: u32,
    of_runner: BTreeMap<&'s RunnerName, u32>,
}

impl<'s> Planned<'s> {
    /// Counts what is started next.
    pub fn add(&mut self, snapshot: &'s Snapshot, new: &[Starts]) {
        self.jobs = self.jobs.saturating_add(new.len());
        self.runs = self.runs.saturating_add(runs(new));
        if snapshot.limits.runner_day.is_set() {
            for one in new {
                let Some(runner) = runner(snapshot, one) else { continue };
                let of_runner = self.of_runner.entry(runner).or_default();
                *of_runner = of_runner.saturating_add(one.runs);
            }
        }
    }
}

fn runner<'s>(snapshot: &'s Snapshot, one: &Starts) -> Option<&'s RunnerName> {
    snapshot.jobs.get(one.at).and_then(|view| view.job.runner.as_ref())
}

/// Which limit would be passed by starting `new` after `before`; none when none.
pub(super) fn reached(
    snapshot: &Snapshot,
    (before, new): (&Planned<'_>, &[Starts]),
    role: Role,
) -> Option<(Reason, String)> {
    let limits = &snapshot.limits;
    let jobs = limits.jobs_per_command;
    if before.jobs.saturating_add(new.len()) > usize::try_from(jobs.max).unwrap_or(usize::MAX) {
        let text = format!(
            "one command starts at most {} jobs ({}); give another command for this one",
            jobs.max,
            named("jobs_per_command_max", jobs)
        );
        return Some((Reason::TooMany, text));
    }
    if let Some(asked) = new.iter().map(|one| one.runs).max().filter(|runs| *runs > limits.times.max) {
        let (max, key) = (limits.times.max, named("times_max", limits.times));
        let text = format!(
            "{} asks for more runs at once than the {max} that the operator allows ({key})",
            code(&format!("times={asked}"))
        );
        return Some((Reason::TooMany, text));
    }
    if limits.exempt.is_some_and(|least| role >= least) {
        return None;
    }
    let views = || new.iter().filter_map(|one| snapshot.jobs.get(one.at));
    let used_up =
        views().find(|view| view.wishes.saturating_sub(view.unasked) >= limits.job_and_head.max).map(|view| {
            let text = format!(
                "retried {} times on this head, which is the most that {} allows ({}); push, or {}",
                view.wishes.saturating_sub(view.unasked),
                whose(limits.job_and_head.by),
                named("retries_per_job_and_head", limits.job_and_head),
                lift(limits, limits.job_and_head.by)
            );
            (Reason::AttemptsUsed, text)
        });
    used_up
        .or_else(|| views().find_map(|view| cooling_down(snapshot, view)))
        .or_else(|| window_full(snapshot, (before, new)))
}

fn cooling_down(snapshot: &Snapshot, view: &JobView) -> Option<(Reason, String)> {
    let pause = snapshot.limits.cooldown_s;
    let free = view.last_retry_at?.plus(Duration::from_secs(u64::from(pause.max)));
    if free <= snapshot.now {
        return None;
    }
    let text = format!(
        "was retried a moment ago, and {} wants a pause of {} between two retries of a job ({}); there is room again {}; {}",
        whose(pause.by),
        span(Duration::from_secs(u64::from(pause.max))),
        named("cooldown", pause),
        when(free, snapshot.now),
        lift(&snapshot.limits, pause.by)
    );
    Some((Reason::Limited, text))
}

/// A limit over a span.
struct Window<'w> {
    who: &'w str,
    within: Duration,
    key: &'w str,
    figure: Figure,
    used: Count,
    /// Retries of this command that count, too: those planned before, and those to be planned.
    planned: (u32, u32),
}

fn window_full(snapshot: &Snapshot, (before, new): (&Planned<'_>, &[Starts])) -> Option<(Reason, String)> {
    let (limits, used) = (&snapshot.limits, &snapshot.used);
    let all = (before.runs, runs(new));
    let window = |who, within, key, figure, used| Window { who, within, key, figure, used, planned: all };
    let windows = [
        window("this change", HOUR, "retries_per_change_per_hour", limits.change_hour, used.change_hour),
        window("you", HOUR, "retries_per_actor_per_hour", limits.asker_hour, used.asker_hour),
        window("this change", DAY, "retries_per_change_per_day", limits.change_day, used.change_day),
        window("you", DAY, "retries_per_actor_per_day", limits.asker_day, used.asker_day),
        window("this repository", DAY, "retries_per_repository_per_day", limits.repository_day, used.repository_day),
    ];
    let full = |w: &Window<'_>| {
        let total = w.used.retries.saturating_add(w.planned.0).saturating_add(w.planned.1);
        w.figure.is_set() && total > w.figure.max
    };
    let of_runners = || match limits.runner_day.is_set() {
        true => of_runners(snapshot, (before, new)).into_iter().find(full),
        false => None,
    };
    let Window { who, within, key, figure, used, planned } = windows.into_iter().find(full).or_else(of_runners)?;
    let had = used.retries.saturating_add(planned.0);
    let free = used.leaves_first.unwrap_or(snapshot.now).plus(within);
    let text = format!(
        "{who} had {had} retries within the last {}, and {} is the most that {} allows ({}); there is room again {}; {}",
        if within == HOUR { "hour" } else { "24 hours" },
        figure.max,
        whose(figure.by),
        named(key, figure),
        when(free, snapshot.now),
        lift(limits, figure.by)
    );
    Some((Reason::Limited, text))
}

/// How many runs that is.
fn runs<'s>(starts: impl IntoIterator<Item = &'s Starts>) -> u32 {
    starts.into_iter().fold(0, |sum, one| sum.saturating_add(one.runs))
}

/// The windows of the runners that would get the new jobs.
fn of_runners<'s>(snapshot: &'s Snapshot, (before, new): (&Planned<'_>, &[Starts])) -> Vec<Window<'s>> {
    let names: BTreeSet<&RunnerName> = new.iter().filter_map(|one| runner(snapshot, one)).collect();
    let on = |name| runs(new.iter().filter(|one| runner(snapshot, one) == Some(name)));
    let window = |name: &&'s RunnerName| Window {
        who: "its runner",
        within: DAY,
        key: "retries_per_runner_per_day",
        figure: snapshot.limits.runner_day,
        used: snapshot.used.runner_day.get(*name).copied().unwrap_or_default(),
        planned: (before.of_runner.get(*name).copied().unwrap_or_default(), on(*name)),
    };
    names.iter().map(window).collect()
}

const fn whose(by: SetBy) -> &'static str {
    match by {
        SetBy::Operator => "the operator",
        SetBy::Repository => "the repository's policy",
    }
}

/// Where the figure stands.
fn named(key: &str, figure: Figure) -> String {
    match figure.by {
        SetBy::Operator => code(&format!("limits.{key}")),
        SetBy::Repository => format!("{} in its `.retest.toml`", code(&format!("limits.{key}"))),
    }
}

/// Who can lift a limit.
fn lift(limits: &Limits, by: SetBy) -> String {
    let raise = match by {
        SetBy::Operator => "the operator can raise it",
        SetBy::Repository => "a maintainer can raise it there",
    };
    match limits.exempt {
        Some(role) => format!("somebody with *{role}* is not bound by it, and {raise}"),
        None => raise.to_owned(),
    }
}

/// A span in the unit that people would use, rounded up.
fn span(span: Duration) -> String {
    let s = span.as_millis().div_ceil(1_000);
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min", s.div_ceil(60)),
        _ => format!("{} h", s.div_ceil(3_600)),
    }
}

/// `at 14:05 UTC (in 12 min)`, with the day when it is not within the next 12 hours.
fn when(at: Timestamp, now: Timestamp) -> String {
    let wait = at.since(now);
    let minute = chrono::DateTime::from_timestamp_millis(at.plus(Duration::from_millis(59_999)).ms());
    let form = if wait > DAY / 2 { "%d %b %H:%M" } else { "%H:%M" };
    let clock = minute.map_or_else(String::new, |t| format!("at {} UTC ", t.format(form)));
    format!("{clock}(in {})", span(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc_and_never_too_early() {
        let now = Timestamp::from_ms(1_780_000_000_000); // 28 May 2026 20:26:40 UTC
        let in_s = |s| when(now.plus(Duration::from_secs(s)), now);
        assert_eq!(in_s(40), "at 20:28 UTC (in 40 s)");
        assert_eq!(in_s(20), "at 20:27 UTC (in 20 s)", "on the minute");
        assert_eq!(in_s(21), "at 20:28 UTC (in 21 s)", "a second later is the next minute");
        assert_eq!(in_s(600), "at 20:37 UTC (in 10 min)");
        assert_eq!(in_s(86_000), "at 29 May 20:20 UTC (in 24 h)");
        assert_eq!((span(Duration::ZERO), span(Duration::from_millis(1))), ("0 s".into(), "1 s".into()));
    }
}
