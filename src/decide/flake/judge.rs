//! Whether a failed run is retried although nobody asked: every condition of DESIGN section 7, in one place and in one order.
//!
//! Pure: counts, switches and matches come in, a [`Verdict`] goes out; it never reads a log and never starts anything. What speaks
//! against a retry for good is asked before what passes by itself. **Invariant:** [`Verdict::Retry`] is given only where all
//! conditions hold, and within every budget. Read next: `breaker.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::breaker::Breaker;
use super::rules::{Failure, Match, can_be_flake, is_user_error};
use crate::decide::{Standalone, code, plain};
use crate::domain::{Evidence, LabelOrigin, Seen, Timestamp};

/// Earlier heads of a change on which a job failed at the end, from which its failure is the change's own.
const FAILED_HEADS: u32 = 2;
/// Longest wait before a retry by doubling; a rule may ask for a longer one itself.
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);
/// Retries of a job on a head by a label on the change, which has no budget of its own: as a rule that does not say.
const CHANGE_LABEL_RETRIES: u32 = 1;
/// The same within 24 hours.
const CHANGE_LABEL_PER_DAY: u32 = 20;

/// What people said about retries of one change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeSwitch {
    /// Nothing.
    #[default]
    Unset,
    /// `/autoretry on`.
    On,
    /// `/autoretry off`.
    Off,
}

/// Everything that switches retries on or off. Whoever says no wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches<'a> {
    /// The operator's `[autoretry] enabled`.
    pub operator: bool,
    /// The repository's.
    pub policy: bool,
    /// The job's `auto_retry`, of operator and repository together.
    pub job: bool,
    /// The command on the change.
    pub change: ChangeSwitch,
    /// The label on the change that allows, where it is there.
    pub auto_label: Option<&'a str>,
    /// The label on the change that forbids, where it is there.
    pub never_label: Option<&'a str>,
}

impl Switches<'_> {
    /// Everything on, nothing said about the change.
    pub const ON: Self = Self {
        operator: true,
        policy: true,
        job: true,
        change: ChangeSwitch::Unset,
        auto_label: None,
        never_label: None,
    };
}

/// The operator's bounds on all that is retried unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Retries of one job on one head, whatever the labels.
    pub job_and_head: u32,
    /// Retries on one change within 24 hours.
    pub change_day: u32,
    /// Retries on one runner within 24 hours.
    pub runner_day: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { job_and_head: 3, change_day: 20, runner_day: 200 }
    }
}

/// What one label has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentByLabel {
    /// On this job and head.
    pub job_and_head: u32,
    /// In this repository within 24 hours.
    pub day: u32,
}

/// What is used up of the budgets, by retries that nobody asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On this job and head, by all labels.
    pub job_and_head: u32,
    /// On this change within 24 hours.
    pub change_day: u32,
    /// On this runner within 24 hours.
    pub runner_day: u32,
    /// By each label; none is nothing.
    pub labels: BTreeMap<(LabelOrigin, String), SpentByLabel>,
}

/// All that is known when a failure is judged.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The run that failed.
    pub failure: Failure<'a>,
    /// Whether the job stands alone.
    pub standalone: &'a Standalone,
    /// What is on and off.
    pub switches: Switches<'a>,
    /// The rules that cover the failure: by cause, then by log.
    pub matches: &'a [Match],
    /// Whether the CI system is about to run the job again by itself.
    pub native_pending: bool,
    /// Whether the revision still is the head of its change.
    pub is_head: bool,
    /// The breaker of the runner.
    pub breaker: Breaker,
    /// Earlier heads of the change on which this job's last run failed.
    pub failed_heads: u32,
    /// What the operator allows.
    pub budgets: Budgets,
    /// What is used up.
    pub spent: &'a Spent,
    /// The key of the retry that would be stored; the wait is varied by it.
    pub key: &'a str,
    /// What the runner asked to be left alone for.
    pub wait_min: Duration,
}

/// What becomes of a failed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run it again.
    Retry {
        /// The label that pays for it, and what was seen.
        evidence: Evidence,
        /// Other labels that cover the failure, too.
        also: Vec<Evidence>,
        /// The k-th retry of the job on this head that nobody asked for, counted from 1.
        number: u32,
        /// How many there may be with what is left.
        of: u32,
        /// How long to wait first.
        delay: Duration,
    },
    /// Look again later: all else holds.
    Wait {
        /// Why.
        why: Left,
        /// When it may be different; none where an event tells.
        until: Option<Timestamp>,
        /// A sentence for people (inert Markdown).
        text: String,
    },
    /// Leave it as it is.
    Leave {
        /// Why.
        why: Left,
        /// A sentence for people (inert Markdown).
        text: String,
    },
}

/// Why a failed run is not retried by itself, now or at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// It did not end in a way that a flake does.
    NoFailure,
    /// It needs other jobs, or nobody can tell.
    NotStandalone,
    /// The operator or the repository has switched it off.
    SwitchedOff,
    /// Somebody has switched it off for the change.
    Forbidden,
    /// It is switched off for the job.
    JobExcluded,
    /// A person must mend what is wrong.
    UserError,
    /// No label covers it.
    NoLabel,
    /// The job failed on earlier heads of the change as well.
    FailsAlways,
    /// The labels that cover it have no retry of this job on this head left.
    JobBudget,
    /// The labels that cover it have used up their day.
    LabelBudget,
    /// The change has used up its day.
    ChangeBudget,
    /// The runner has used up its day.
    RunnerBudget,
    /// Something newer is the head.
    HeadMoved,
    /// The CI system runs it again by itself.
    NativeRetry,
    /// The runner fails broadly.
    BreakerOpen,
}

impl Left {
    /// All, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::NoFailure,
        Self::NotStandalone,
        Self::SwitchedOff,
        Self::Forbidden,
        Self::JobExcluded,
        Self::UserError,
        Self::NoLabel,
        Self::FailsAlways,
        Self::JobBudget,
        Self::LabelBudget,
        Self::ChangeBudget,
        Self::RunnerBudget,
        Self::HeadMoved,
        Self::NativeRetry,
        Self::BreakerOpen,
    ];

    /// The word in JSON and in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoFailure => "no_failure",
            Self::NotStandalone => "not_standalone",
            Self::SwitchedOff => "switched_off",
            Self::Forbidden => "forbidden",
            Self::JobExcluded => "job_excluded",
            Self::UserError => "user_error",
            Self::NoLabel => "no_label",
            Self::FailsAlways => "fails_always",
            Self::JobBudget => "job_budget",
            Self::LabelBudget => "label_budget",
            Self::ChangeBudget => "change_budget",
            Self::RunnerBudget => "runner_budget",
            Self::HeadMoved => "head_moved",
            Self::NativeRetry => "native_retry",
            Self::BreakerOpen => "breaker_open",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|left| left.as_str() == word)
    }
}

/// A label that covers the failure, with its budget.
struct Candidate {
    evidence: Evidence,
    retries: u32,
    per_day: u32,
    delay: Duration,
}

/// Decides about one failed run.
pub fn judge(case: &Case<'_>) -> Verdict {
    let leave = |(why, text)| Verdict::Leave { why, text };
    if let Some(no) = not_eligible(case).or_else(|| switched_off(&case.switches)).or_else(|| hopeless(case)) {
        return leave(no);
    }
    let candidates = candidates(case);
    if candidates.is_empty() {
        return leave((Left::NoLabel, "no label of a known flake covers this failure".to_owned()));
    }
    if case.failed_heads >= FAILED_HEADS {
        let text = format!(
            "{} failed on {} earlier heads of this change as well, so it is taken for a failure of the change and not for a flake",
            code(case.failure.job.as_str()),
            case.failed_heads
        );
        return leave((Left::FailsAlways, text));
    }
    if let Some(no) = spent_by_all(case) {
        return leave(no);
    }
    let payer = match payer(case, &candidates) {
        Ok(at) => at,
        Err(no) => return leave(no),
    };
    if !case.is_head {
        return leave((Left::HeadMoved, "the head of the change has moved".to_owned()));
    }
    passing(case).unwrap_or_else(|| retry(case, candidates, payer))
}

fn not_eligible(case: &Case<'_>) -> Option<(Left, String)> {
    if !can_be_flake(case.failure.end) {
        let text = format!("a run that ended {} is no flake", case.failure.end.state());
        return Some((Left::NoFailure, text));
    }
    let text = match case.standalone {
        Standalone::Yes => return None,
        Standalone::Needs(jobs) if jobs.is_empty() => "it does not stand alone".to_owned(),
        Standalone::Needs(jobs) => {
            let names: Vec<String> = jobs.iter().take(3).map(|job| code(job.as_str())).collect();
            format!("it does not stand alone: it needs {}{}", names.join(", "), if jobs.len() > 3 { ", …" } else { "" })
        }
        Standalone::Gone(what) => format!("its inputs are gone: {}", code(what)),
        Standalone::Unknown => "nobody can tell whether it stands alone".to_owned(),
        Standalone::Barred(why) => format!("its runner's operator bars it: {}", plain(why)),
    };
    Some((Left::NotStandalone, text))
}

fn switched_off(switches: &Switches<'_>) -> Option<(Left, String)> {
    let no = |why, text: &str| Some((why, text.to_owned()));
    if !switches.operator {
        return no(Left::SwitchedOff, "the operator has switched retries of flakes off");
    }
    if !switches.policy {
        return no(Left::SwitchedOff, "the repository's policy has switched retries of flakes off");
    }
    if let Some(label) = switches.never_label {
        return Some((Left::Forbidden, format!("the change carries the label {}", code(label))));
    }
    if switches.change == ChangeSwitch::Off {
        return Some((Left::Forbidden, format!("somebody said {} on this change", code("/autoretry off"))));
    }
    if switches.job { None } else { no(Left::JobExcluded, "retries of flakes are switched off for this job") }
}

fn hopeless(case: &Case<'_>) -> Option<(Left, String)> {
    let cause = case.failure.cause.filter(|cause| is_user_error(cause))?;
    let text = format!("the cause {} is one that a person must mend", code(cause));
    Some((Left::UserError, text))
}

/// The labels that cover the failure, first the rules in their order, then the label on the change.
fn candidates(case: &Case<'_>) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for found in case.matches {
        // A rule that matched by cause and by log counts once.
        if !all.iter().any(|c| c.evidence.origin == found.evidence.origin && c.evidence.label == found.evidence.label) {
            let rule = &found.rule;
            all.push(Candidate {
                evidence: found.evidence.clone(),
                retries: rule.retries,
                per_day: rule.per_day,
                delay: rule.delay,
            });
        }
    }
    all.sort_by(|a, b| a.evidence.origin.cmp(&b.evidence.origin));
    let by_switch = (case.switches.change == ChangeSwitch::On).then_some("/autoretry on");
    if let Some(label) = case.switches.auto_label.or(by_switch) {
        let evidence = Evidence { label: label.to_owned(), origin: LabelOrigin::Change, seen: Seen::Label };
        let (retries, per_day) = (CHANGE_LABEL_RETRIES, CHANGE_LABEL_PER_DAY);
        all.push(Candidate { evidence, retries, per_day, delay: Duration::ZERO });
    }
    all
}

/// A budget that is used up whatever the label.
fn spent_by_all(case: &Case<'_>) -> Option<(Left, String)> {
    let (budgets, spent) = (&case.budgets, case.spent);
    let table = [
        (Left::JobBudget, "this job on this head was", spent.job_and_head, budgets.job_and_head, ""),
        (Left::ChangeBudget, "jobs of this change were", spent.change_day, budgets.change_day, " in 24 hours"),
        (Left::RunnerBudget, "jobs of its runner were", spent.runner_day, budgets.runner_day, " in 24 hours"),
    ];
    let (why, who, used, max, within) = table.into_iter().find(|(_, _, used, max, _)| used >= max)?;
    let text = format!("{who} retried unasked {used} times{within}, and {max} is the most that the operator allows");
    Some((why, text))
}

fn used_by(case: &Case<'_>, label: &Evidence) -> SpentByLabel {
    case.spent.labels.get(&(label.origin.clone(), label.label.clone())).copied().unwrap_or_default()
}

/// The first label whose budget has room.
fn payer(case: &Case<'_>, candidates: &[Candidate]) -> Result<usize, (Left, String)> {
    let room = |c: &Candidate| {
        let used = used_by(case, &c.evidence);
        used.job_and_head < c.retries && used.day < c.per_day
    };
    if let Some(at) = candidates.iter().position(room) {
        return Ok(at);
    }
    // Told of the label that would have paid first.
    let Some(first) = candidates.first() else { return Err((Left::NoLabel, String::new())) };
    let (used, label) = (used_by(case, &first.evidence), code(&first.evidence.label));
    Err(if used.job_and_head >= first.retries {
        let text = format!("{label} allows {} of this job on one head, and they are used up", times(first.retries));
        (Left::JobBudget, text)
    } else {
        (Left::LabelBudget, format!("{label} allows {} in 24 hours, and they are used up", times(first.per_day)))
    })
}

fn times(count: u32) -> String {
    if count == 1 { "1 retry".to_owned() } else { format!("{count} retries") }
}

/// What holds the retry up for a time.
fn passing(case: &Case<'_>) -> Option<Verdict> {
    if case.native_pending {
        let text = "the CI system is about to run it again by itself".to_owned();
        return Some(Verdict::Wait { why: Left::NativeRetry, until: None, text });
    }
    let (until, text) = match case.breaker {
        _ if case.breaker.lets_through() => return None,
        Breaker::Open { until } => (Some(until), "many changes fail there at present"),
        Breaker::HalfOpen { .. } | Breaker::Closed { .. } => (None, "one retry tries whether it has recovered"),
    };
    let text = format!("retries on {} are held back: {text}", code(case.failure.runner.as_str()));
    Some(Verdict::Wait { why: Left::BreakerOpen, until, text })
}

fn retry(case: &Case<'_>, mut candidates: Vec<Candidate>, payer: usize) -> Verdict {
    let paying = candidates.remove(payer);
    let number = case.spent.job_and_head + 1;
    let left = |c: &Candidate| c.retries.saturating_sub(used_by(case, &c.evidence).job_and_head);
    let more: u32 = candidates.iter().chain([&paying]).map(left).fold(0, u32::saturating_add);
    let of = case.spent.job_and_head.saturating_add(more).min(case.budgets.job_and_head).max(number);
    let own = used_by(case, &paying.evidence).job_and_head + 1;
    let delay = retry_wait(paying.delay, own, case.key).max(case.wait_min);
    let also = candidates.into_iter().map(|c| c.evidence).collect();
    Verdict::Retry { evidence: paying.evidence, also, number, of, delay }
}

/// Wait before the retry `number` (counted from 1) of a label whose first wait is `base`.
///
/// Doubled each time up to 15 min, or up to `base` where that is longer; then shortened by up to a fifth, so that retries of one
/// outage do not come back together. The same `key` always gives the same wait.
pub fn retry_wait(base: Duration, number: u32, key: &str) -> Duration {
    let doubled = base.saturating_mul(1_u32.checked_shl(number.saturating_sub(1)).unwrap_or(u32::MAX));
    let full = doubled.min(WAIT_MAX.max(base));
    let fifth = u64::try_from(full.as_millis() / 5).unwrap_or(u64::MAX);
    let off = if fifth == 0 { 0 } else { hash(key) % fifth };
    full.saturating_sub(Duration::from_millis(off))
}

/// FNV-1a with a final mix, so that keys that differ at the end only spread as well.
fn hash(text: &str) -> u64 {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (sum ^ (sum >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests;
