//! Statuses and our check run: how the retries of a revision stand, for machines and merge queues.
//!
//! **Invariant:** a status is pending only while something is still to come that has a deadline. Read next: `report.rs`.

use super::flake::CleanBefore;
use super::inert::{code_in_table, link};
use super::report::{JOBS_MAX, newest, standing};
use crate::domain::{CommitSha, Conclusion, Job, JobState, Retry, RetryState, Timestamp};
use crate::ports::{CheckPost, StatusPost, StatusState};

/// What the operator has said about posts.
#[derive(Clone, Debug)]
pub struct Posts {
    /// The name of the aggregate status.
    pub aggregate: String,
    /// A page for people, such as the console's page of the change.
    pub target_url: Option<String>,
    /// Whether the aggregate is posted on every head with jobs, and not only once something was retried.
    pub always: bool,
}

/// A status of ours that a person set to success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overridden {
    /// The status.
    pub context: String,
    /// Who, by login.
    pub actor: String,
    /// Why, in their words.
    pub reason: String,
}

/// What counts beside the retries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Failures that are being judged, or whose retry is held back: something is still to come.
    pub undecided: u32,
    /// Statuses that people set to success.
    pub overridden: &'a [Overridden],
    /// What an owner wants to see before the aggregate is green, and what of it is missing; none when nothing is.
    pub unclean: Option<&'a str>,
    /// How the jobs of the head stand; none where the aggregate is about retries alone.
    pub whole: Option<Whole>,
}

/// How the jobs stand without which a change is not to be merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// How many.
    pub jobs: u32,
    /// Those that passed, or that may be skipped.
    pub passed: u32,
    /// Those whose end is still to come.
    pub open: u32,
}

impl Whole {
    /// Counts the required jobs where any is known as required, else all that may not fail.
    pub fn of(jobs: &[Job], required: &[String]) -> Self {
        let mut whole = Self::default();
        let known = |name: &str| jobs.iter().any(|job| job.newest.name.as_str() == name);
        for job in jobs {
            let name = job.newest.name.as_str();
            let counts = if required.is_empty() {
                !job.newest.allow_failure && !job.newest.manual
            } else {
                required.iter().any(|required| required == name)
            };
            if !counts {
                continue;
            }
            whole.jobs += 1;
            match job.newest.state {
                JobState::Passed | JobState::Skipped => whole.passed += 1,
                JobState::Missing | JobState::Pending | JobState::Running => whole.open += 1,
                JobState::Failed
                | JobState::Infrastructure
                | JobState::TimedOut
                | JobState::Cancelled
                | JobState::Superseded
                | JobState::Lost => {}
            }
        }
        let unheard = required.iter().filter(|name| !known(name)).count();
        let unheard = u32::try_from(unheard).unwrap_or(u32::MAX);
        (whole.jobs, whole.open) = (whole.jobs + unheard, whole.open + unheard);
        whole
    }
}

/// What is missing before the aggregate may be green after single jobs were picked for a retest; none when nothing is.
///
/// Picking the failed ones lets a defect through that fails one run in five: who fears that wants several passes of each
/// picked job, or one full pass.
pub fn unclean(clean: CleanBefore, retries: &[Retry], jobs: &[Job], last_failure: Option<Timestamp>) -> Option<String> {
    let passed = |retry: &&&Retry| retry.state == RetryState::Finished(Conclusion::Passed);
    match clean {
        CleanBefore::Nothing => None,
        CleanBefore::Passes(wanted) => newest(retries).iter().filter(passed).find_map(|last| {
            let mine = retries.iter().rev().filter(|retry| retry.job == last.job && retry.scope == last.scope);
            let row = mine.take_while(|retry| retry.state == RetryState::Finished(Conclusion::Passed)).count();
            let row = u32::try_from(row).unwrap_or(u32::MAX);
            (row < wanted).then(|| format!("{} passed {row} of {wanted} times in a row", last.job))
        }),
        CleanBefore::Full => {
            let failed_at = last_failure?;
            let old = |job: &&Job| {
                !job.newest.allow_failure && job.newest.state == JobState::Passed && job.newest.at <= failed_at
            };
            let old = jobs.iter().filter(old).count();
            (old > 0 && !retries.is_empty())
                .then(|| format!("{old} jobs have not passed since the last failure: /retest all"))
        }
    }
}

/// How the retries of a revision stand together: none when nothing was retried.
///
/// Pending while one is open, so that merge queues wait; success when every retried job ended passed; failure otherwise.
pub fn aggregate(retries: &[Retry], posts: &Posts, beside: &Beside<'_>) -> Option<StatusPost> {
    let jobs = newest(retries);
    let whole = beside.whole.filter(|whole| whole.jobs > 0);
    if jobs.is_empty() && whole.is_none() {
        return None;
    }
    let post = |(state, description)| StatusPost {
        context: posts.aggregate.clone(),
        state,
        description,
        target_url: posts.target_url.clone(),
    };
    let by_person = |context: &str| beside.overridden.iter().find(|one| one.context == context);
    if let Some(person) = by_person(&posts.aggregate) {
        return Some(post((StatusState::Success, set_by(person))));
    }
    let mut open = jobs.iter().filter(|r| r.state.is_open()).count();
    let passes = |r: &&&Retry| {
        r.state == RetryState::Finished(Conclusion::Passed)
            || (!r.state.is_open() && by_person(r.job.as_str()).is_some())
    };
    let passed = jobs.iter().filter(passes).count();
    let total = jobs.len();
    if total == 0
        || whole.is_some_and(|whole| open == 0 && beside.undecided == 0 && passed == total && whole.passed < whole.jobs)
    {
        return whole.map(|whole| post(of_whole(whole, beside.undecided)));
    }
    open += usize::try_from(beside.undecided).unwrap_or(usize::MAX);
    let of = if total == 1 { "1 job".to_owned() } else { format!("{total} jobs") };
    let (state, description) = if beside.undecided > 0 {
        let left = beside.undecided;
        (StatusState::Pending, format!("{left} failures are looked at; {} of {of} under way", open - left as usize))
    } else if let (Some(missing), true) = (beside.unclean, open == 0 && passed == total) {
        (StatusState::Failure, missing.to_owned())
    } else if open > 0 {
        (StatusState::Pending, format!("{open} of {of} under way, {passed} passed"))
    } else if passed == total {
        let runs = jobs.iter().map(|r| r.number + 1).max().unwrap_or(1);
        (StatusState::Success, format!("{of} passed after a retest, at most {runs} runs each"))
    } else {
        (StatusState::Failure, format!("{} of {of} did not pass, {passed} passed", total - passed))
    };
    Some(post((state, description)))
}

fn set_by(person: &Overridden) -> String {
    format!("set by {}: {}", person.actor, person.reason)
}

/// The aggregate where it is about all jobs of the head.
fn of_whole(whole: Whole, undecided: u32) -> (StatusState, String) {
    let Whole { jobs, passed, open } = whole;
    let failed = jobs.saturating_sub(passed).saturating_sub(open);
    if undecided > 0 {
        (StatusState::Pending, format!("{undecided} failures are looked at; {passed} of {jobs} jobs passed"))
    } else if failed > 0 {
        (StatusState::Failure, format!("{failed} of {jobs} jobs did not pass"))
    } else if open > 0 {
        (StatusState::Pending, format!("{open} of {jobs} jobs under way, {passed} passed"))
    } else {
        (StatusState::Success, format!("{jobs} jobs passed"))
    }
}

/// The status of each retried job whose runner the forge does not report itself.
pub fn job_statuses<'a>(
    retries: &'a [Retry],
    overridden: &[Overridden],
    unreported: impl Fn(&Retry) -> bool,
) -> Vec<StatusPost> {
    let status = |retry: &&'a Retry| -> Option<StatusPost> {
        let run = retry.number + 1;
        let (state, description) = match &retry.state {
            RetryState::Requested | RetryState::Dispatching | RetryState::Uncertain => {
                (StatusState::Pending, format!("run {run}: about to start"))
            }
            RetryState::Waiting(_) => (StatusState::Pending, format!("run {run}: queued")),
            RetryState::Dispatched => (StatusState::Pending, format!("run {run}: started")),
            RetryState::Running => (StatusState::Running, format!("run {run}: running")),
            RetryState::Finished(Conclusion::Passed) => (StatusState::Success, format!("passed on run {run}")),
            RetryState::Finished(end) => (failed_as(*end), format!("{} on run {run}", end.state())),
            RetryState::Rejected(_) => (StatusState::Failure, "not restarted: its runner refused".into()),
            RetryState::Superseded => (StatusState::Error, "superseded by a newer head".into()),
            RetryState::Cancelled => (StatusState::Error, "cancelled on request".into()),
            RetryState::Expired => (StatusState::Error, "not over by its deadline".into()),
        };
        let target_url = retry.handle.as_ref().and_then(|h| h.url.clone());
        Some(StatusPost { context: retry.job.to_string(), state, description, target_url })
    };
    let mine: Vec<&Retry> = newest(retries).into_iter().filter(|r| unreported(r)).collect();
    let mut posts: Vec<StatusPost> = Vec::new();
    for retry in mine {
        let Some(mut post) = status(&retry) else { continue };
        // Names are unique in their scope only: whoever was retried first on this head has the plain name.
        if posts.iter().any(|p| p.context == post.context) {
            post.context = format!("{} / {}", retry.scope, post.context);
        }
        if let Some(person) = overridden.iter().find(|one| one.context == post.context) {
            (post.state, post.description) = (StatusState::Success, set_by(person));
        }
        posts.push(post);
    }
    posts
}

const fn failed_as(end: Conclusion) -> StatusState {
    match end {
        Conclusion::Passed => StatusState::Success,
        Conclusion::Failed | Conclusion::TimedOut => StatusState::Failure,
        Conclusion::Infrastructure
        | Conclusion::Cancelled
        | Conclusion::Superseded
        | Conclusion::Skipped
        | Conclusion::Lost => StatusState::Error,
    }
}

/// Our check run for a revision: the aggregate as a table, with a button while something did not pass.
pub fn check_run(retries: &[Retry], posts: &Posts, beside: &Beside<'_>, sha: &CommitSha) -> Option<CheckPost> {
    let status = aggregate(retries, posts, beside)?;
    let mut summary = String::from("| Job | State | Runs | Asked by |\n|---|---|---|---|\n");
    for retry in newest(retries).iter().take(JOBS_MAX) {
        let (icon, text) = standing(retry);
        let url = retry.handle.as_ref().and_then(|h| h.url.as_deref());
        summary.push_str(&format!(
            "| {} | {icon} {} | {} | {} |\n",
            link(&code_in_table(retry.job.as_str()), url),
            text.replace('|', "\\|"),
            retry.number + 1,
            code_in_table(&retry.asker.login)
        ));
    }
    let failed =
        newest(retries).iter().any(|r| !r.state.is_open() && r.state != RetryState::Finished(Conclusion::Passed));
    let buttons = if failed {
        vec![("retest-failed".into(), "Retest failed".into(), "Restart the failed standalone jobs".into())]
    } else {
        Vec::new()
    };
    Some(CheckPost {
        name: posts.aggregate.clone(),
        state: status.state,
        title: status.description,
        summary,
        external_id: format!("retest-{}", sha.short()),
        buttons,
        details_url: posts.target_url.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::change;
    use crate::decide::report::tests::retry;

    fn posts() -> Posts {
        Posts { aggregate: "retest".into(), target_url: None, always: false }
    }

    #[test]
    fn the_aggregate_is_pending_while_one_is_open_and_green_only_when_all_passed() {
        let passed = || retry("a", RetryState::Finished(Conclusion::Passed), 1);
        let table = [
            (vec![], None, "nothing was retried"),
            (vec![passed(), retry("b", RetryState::Running, 1)], Some(StatusState::Pending), "one is open"),
            (
                vec![passed(), retry("b", RetryState::Finished(Conclusion::Passed), 1)],
                Some(StatusState::Success),
                "all passed",
            ),
            (
                vec![passed(), retry("b", RetryState::Finished(Conclusion::Lost), 1)],
                Some(StatusState::Failure),
                "one is lost",
            ),
            (
                vec![retry("a", RetryState::Finished(Conclusion::Failed), 1), passed()],
                Some(StatusState::Success),
                "the newest counts",
            ),
        ];
        for (retries, state, why) in table {
            assert_eq!(aggregate(&retries, &posts(), &Beside::default()).map(|s| s.state), state, "{why}");
        }
    }

    #[test]
    fn every_end_closes_the_status_of_its_job() {
        let ends = [
            RetryState::Finished(Conclusion::Failed),
            RetryState::Rejected("no".into()),
            RetryState::Superseded,
            RetryState::Cancelled,
            RetryState::Expired,
        ];
        for end in ends {
            let statuses = job_statuses(&[retry("a", end.clone(), 1)], &[], |_| true).pop().map(|s| s.state);
            assert!(matches!(statuses, Some(StatusState::Failure | StatusState::Error)), "{end:?}: {statuses:?}");
        }
    }

    #[test]
    fn the_check_run_offers_its_button_only_when_something_can_be_retested() {
        let check = |state| {
            check_run(&[retry("a|b", state, 1)], &posts(), &Beside::default(), &change().head).expect("a check run")
        };
        assert_eq!(check(RetryState::Finished(Conclusion::Failed)).buttons.len(), 1);
        assert!(check(RetryState::Finished(Conclusion::Passed)).buttons.is_empty());
        assert!(check(RetryState::Running).buttons.is_empty());
        assert!(check(RetryState::Running).summary.contains("`a\\|b`"), "a bar does not break the table");
    }
}
