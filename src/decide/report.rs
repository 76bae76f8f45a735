//! What people read: the report, the statuses, the check run. Rendered from what is stored, never from what was heard.
//!
//! **Invariant:** no line of ours starts with `/`, mentions anybody, or holds foreign text outside a code span.

use super::answer::Answer;
use super::inert::{code, code_in_table, link};
use super::reason::Reason;
use crate::domain::{CommitSha, Conclusion, JobName, Retry, RetryState, WaitOn};
use crate::ports::{CheckPost, StatusPost, StatusState};

/// The hidden first line of every report: by it we find ours again, and never obey it.
pub const MARKER: &str = "<!-- retest-bot:report -->";

/// The same for the report that members alone can read: the answers to internal notes.
pub const MEMBERS_MARKER: &str = "<!-- retest-bot:members-report -->";

/// Characters after which no older answer is added: a report stays something that people read.
const ANSWERS_UP_TO: usize = 12_000;

/// Jobs listed in a report at most; the rest is counted.
const JOBS_MAX: usize = 100; // with their lines far below the 65,536 characters that GitHub takes

/// Whether a text was written by us: it carries our hidden marker.
pub fn is_own_text(body: &str) -> bool {
    body.contains("<!-- retest-bot:")
}

/// What a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct ReportView<'a> {
    /// The revision's commit.
    pub sha: &'a CommitSha,
    /// Every retry on it, oldest first.
    pub retries: &'a [Retry],
    /// The newest answers to commands, oldest first.
    pub answers: &'a [Answer],
    /// Whose report it is.
    pub readers: Readers,
}

/// Who can read a report. What an internal note asked for is told to members only; all else to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Everybody who can read the change.
    Everybody,
    /// Members only.
    Members,
}

impl Readers {
    /// Both, the public one first.
    pub const ALL: [Self; 2] = [Self::Everybody, Self::Members];

    /// Who reads the answer to something that is internal or not.
    pub const fn of(internal: bool) -> Self {
        if internal { Self::Members } else { Self::Everybody }
    }

    /// The hidden first line of their report.
    pub const fn marker(self) -> &'static str {
        match self {
            Self::Everybody => MARKER,
            Self::Members => MEMBERS_MARKER,
        }
    }

    /// Whether something that is internal or not belongs into their report.
    pub const fn may_read(self, internal: bool) -> bool {
        matches!((self, Self::of(internal)), (Self::Everybody, Self::Everybody) | (Self::Members, Self::Members))
    }
}

/// What the operator has said about posts.
#[derive(Clone, Debug)]
pub struct Posts {
    /// The name of the aggregate status.
    pub aggregate: String,
    /// A page for people, such as the console's page of the change.
    pub target_url: Option<String>,
}

/// The newest retry of each job, in order of the jobs' first retries, with the older ones' count.
fn newest(retries: &[Retry]) -> Vec<&Retry> {
    let mut out: Vec<&Retry> = Vec::new();
    for retry in retries {
        match out.iter_mut().find(|r| r.job == retry.job && r.scope == retry.scope) {
            Some(slot) => *slot = retry,
            None => out.push(retry),
        }
    }
    out
}

/// Where a retry stands, in words.
fn standing(retry: &Retry) -> (&'static str, String) {
    let run = retry.number + 1;
    match &retry.state {
        RetryState::Requested => ("⏳", "about to start".into()),
        RetryState::Waiting(WaitOn::Group(group)) => ("⏳", format!("queued behind run {}", code(group))),
        RetryState::Waiting(WaitOn::Jobs(needs)) => ("⏳", format!("starts once {} passed", names(needs))),
        RetryState::Waiting(WaitOn::Time) => ("⏳", "queued: its runner takes no more at present".into()),
        RetryState::Dispatching => ("⏳", "being started".into()),
        RetryState::Dispatched => ("🚀", "started".into()),
        RetryState::Running => ("🔄", "running".into()),
        RetryState::Uncertain => ("❓", "asking its runner whether it was started: the answer got lost".into()),
        RetryState::Finished(end) => ended(*end, run, retry.cause.as_deref()),
        RetryState::Rejected(why) => ("🚫", format!("not restarted: {}", said(why))),
        RetryState::Superseded => ("⚪", "superseded: the head moved or the change was closed".into()),
        RetryState::Cancelled => ("⚪", "cancelled on request".into()),
        RetryState::Expired => ("⌛", "not over by its deadline, so no longer followed".into()),
    }
}

/// Jobs by name, ten at most; the rest is counted.
fn names(jobs: &[JobName]) -> String {
    let named: Vec<String> = jobs.iter().take(10).map(|n| code(n.as_str())).collect();
    let more = jobs.len().saturating_sub(named.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    named.join(", ") + &more
}

/// How far several runs that were asked for at once have come; empty for a single one.
fn series_text(newest: &Retry, all: &[Retry]) -> String {
    let Some(series) = newest.series else { return String::new() };
    let first = newest.number.saturating_sub(series.place.saturating_sub(1));
    let mine = |r: &&Retry| r.job == newest.job && r.scope == newest.scope && r.number >= first;
    let count = |passed: bool| {
        let ended = |r: &&Retry| matches!(r.state, RetryState::Finished(end) if (end == Conclusion::Passed) == passed);
        all.iter().filter(mine).filter(ended).count()
    };
    format!(" · run {} of {} asked for: {} passed, {} did not", series.place, series.of, count(true), count(false))
}

fn said(text: &str) -> String {
    format!("its runner said {}", code(text))
}

fn ended(end: Conclusion, run: u32, cause: Option<&str>) -> (&'static str, String) {
    let cause = cause.map_or(String::new(), |c| format!(" ({})", code(c)));
    match end {
        Conclusion::Passed => ("✅", format!("passed on run {run}")),
        Conclusion::Failed => ("❌", format!("failed again, on run {run}{cause}")),
        Conclusion::Infrastructure => ("💥", format!("died of its infrastructure on run {run}{cause}")),
        Conclusion::TimedOut => ("⌛", format!("timed out on run {run}{cause}")),
        Conclusion::Cancelled => ("⚪", format!("cancelled in its runner, on run {run}{cause}")),
        Conclusion::Superseded => ("⚪", format!("replaced by something newer{cause}")),
        Conclusion::Skipped => ("⚪", format!("skipped by its runner{cause}")),
        Conclusion::Lost => (
            "❓",
            format!("lost: its runner knows nothing of run {run}{cause}; comment {} to try again", code("/retest")),
        ),
    }
}

/// Whether there is something to say that reactions and statuses do not tell: an answer other than "started", or a retry
/// that did not pass.
pub fn has_news(readers: Readers, retries: &[Retry], answers: &[Answer]) -> bool {
    let plain = [Reason::Started.as_str(), Reason::Joined.as_str(), Reason::Cancelled.as_str()];
    let spoken = answers.iter().filter(|answer| readers.may_read(answer.internal)).flat_map(|answer| &answer.lines);
    let bad = |retry: &&Retry| {
        let passed = retry.state == RetryState::Finished(Conclusion::Passed);
        !retry.state.is_open() && !passed && retry.state != RetryState::Cancelled
    };
    spoken.into_iter().any(|line| !plain.contains(&line.reason.as_str()))
        || retries.iter().filter(|retry| readers.may_read(retry.internal)).any(|retry| bad(&retry))
}

/// The report of a change, as Markdown.
pub fn render(view: &ReportView<'_>) -> String {
    let mut out = format!("{}\n### Retests of {}\n", view.readers.marker(), code(view.sha.short()));
    let mut jobs = newest(view.retries);
    jobs.retain(|retry| view.readers.may_read(retry.internal));
    if jobs.is_empty() {
        out.push_str("\nNo job was restarted on this head.\n");
    }
    for retry in jobs.iter().take(JOBS_MAX) {
        out.push_str(&job_line(retry, view.retries));
    }
    if jobs.len() > JOBS_MAX {
        out.push_str(&format!("\n- and {} more jobs\n", jobs.len() - JOBS_MAX));
    }
    let mut first = true;
    for answer in view.answers.iter().rev().filter(|answer| view.readers.may_read(answer.internal)) {
        let text = answer_text(answer, view.sha);
        if out.len() + text.len() > ANSWERS_UP_TO {
            out.push_str("\nOlder answers are not shown.\n");
            break;
        }
        if first {
            out.push_str("\n---\n");
            first = false;
        }
        out.push_str(&text);
    }
    let hint = code("/retest ?");
    out.push_str(&format!("\n<sub>{hint} lists the jobs of this head, {} the commands.</sub>\n", code("/help")));
    out
}

fn job_line(retry: &Retry, all: &[Retry]) -> String {
    let (icon, text) = standing(retry);
    let url = retry.handle.as_ref().and_then(|h| h.url.as_deref());
    let run = url.map_or(String::new(), |u| format!(" · {}", link("run", Some(u))));
    let also = if retry.also.is_empty() { String::new() } else { format!(" · runs along: {}", names(&retry.also)) };
    let asker = code(&retry.asker.login);
    let series = series_text(retry, all);
    format!(
        "\n- {icon} **{}**: {text}{series}{run}{also}  \n  <sub>{}; asked by {asker}</sub>\n",
        code(retry.job.as_str()),
        super::inert::plain_words(&retry.why)
    )
}

fn answer_text(answer: &Answer, sha: &CommitSha) -> String {
    let on = if answer.head == sha.short() { String::new() } else { format!(" on {}", code(&answer.head)) };
    let mut out = format!("\n**{}** asked for {}{on}:\n", code(&answer.asker), code(&answer.command));
    for line in &answer.lines {
        match &line.job {
            Some(job) => out.push_str(&format!("- {}: {}\n", code(job.as_str()), line.text)),
            None => out.push_str(&format!("- {}\n", line.text)),
        }
    }
    out.push_str(&format!("\n<sub>delivery {}</sub>\n", code(&answer.delivery)));
    out
}

/// How the retries of a revision stand together: none when nothing was retried.
///
/// Pending while one is open, so that merge queues wait; success when every retried job ended passed; failure otherwise.
pub fn aggregate(retries: &[Retry], posts: &Posts) -> Option<StatusPost> {
    let jobs = newest(retries);
    if jobs.is_empty() {
        return None;
    }
    let open = jobs.iter().filter(|r| r.state.is_open()).count();
    let passed = jobs.iter().filter(|r| r.state == RetryState::Finished(Conclusion::Passed)).count();
    let total = jobs.len();
    let of = if total == 1 { "1 job".to_owned() } else { format!("{total} jobs") };
    let (state, description) = if open > 0 {
        (StatusState::Pending, format!("{open} of {of} under way, {passed} passed"))
    } else if passed == total {
        let runs = jobs.iter().map(|r| r.number + 1).max().unwrap_or(1);
        (StatusState::Success, format!("{of} passed after a retest, at most {runs} runs each"))
    } else {
        (StatusState::Failure, format!("{} of {of} did not pass, {passed} passed", total - passed))
    };
    Some(StatusPost { context: posts.aggregate.clone(), state, description, target_url: posts.target_url.clone() })
}

/// The status of each retried job whose runner the forge does not report itself.
pub fn job_statuses<'a>(retries: &'a [Retry], unreported: impl Fn(&Retry) -> bool) -> Vec<StatusPost> {
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
pub fn check_run(retries: &[Retry], posts: &Posts, sha: &CommitSha) -> Option<CheckPost> {
    let status = aggregate(retries, posts)?;
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::decide::AnswerLine;
    use crate::decide::plan::tests::{actor, change};
    use crate::domain::{DispatchKey, RetryId, RunHandle, RunOrder, Timestamp};

    fn retry(job: &str, state: RetryState, number: u32) -> Retry {
        Retry {
            id: RetryId(1),
            key: DispatchKey::new("retest-1"),
            change: change().key,
            sha: change().head,
            job: job.into(),
            scope: String::new(),
            runner: "lab".into(),
            state,
            asker: actor(1, "ann"),
            why: "failed on this head".into(),
            source_run: None,
            source_order: RunOrder::default(),
            group: None,
            handle: Some(RunHandle {
                id: "1".into(),
                order: RunOrder(1, 0),
                url: Some("https://lab.example/1".into()),
            }),
            cause: None,
            overrides: BTreeMap::new(),
            number,
            series: None,
            unasked: None,
            comment: None,
            internal: false,
            also: vec!["package".into()],
            created_at: Timestamp::default(),
            due_at: Timestamp::default(),
            tries: 0,
            dispatched_at: None,
            ended_at: None,
            deadline_at: Timestamp::default(),
        }
    }

    fn posts() -> Posts {
        Posts { aggregate: "retest".into(), target_url: None }
    }

    #[test]
    fn the_report_reads_as_written_here() {
        let retries = [retry("lava-x86", RetryState::Finished(Conclusion::Passed), 2)];
        let line = AnswerLine { job: Some("lint".into()), reason: "passed".into(), text: "already passed".into() };
        let answer = Answer {
            asker: "ann".into(),
            command: "/retest lint".into(),
            lines: vec![line],
            head: "aaaaaaa".into(),
            delivery: "d-1".into(),
            internal: false,
        };
        let text = render(&ReportView {
            sha: &change().head,
            retries: &retries,
            answers: &[answer],
            readers: Readers::Everybody,
        });
        let wanted = "<!-- retest-bot:report -->\n### Retests of `aaaaaaa`\n\n\
            - ✅ **`lava-x86`**: passed on run 3 · [run](https://lab.example/1) · runs along: `package`  \n  \
            <sub>failed on this head; asked by `ann`</sub>\n\n---\n\n\
            **`ann`** asked for `/retest lint`:\n- `lint`: already passed\n\n<sub>delivery `d-1`</sub>\n\n\
            <sub>`/retest ?` lists the jobs of this head, `/help` the commands.</sub>\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn what_an_internal_note_asked_for_is_in_the_report_of_members_only() {
        let mut hidden = retry("lava-secret", RetryState::Running, 1);
        hidden.internal = true;
        hidden.asker = actor(9, "insider");
        let retries = [retry("lava-x86", RetryState::Running, 1), hidden];
        let answer = |asker: &str, internal| Answer {
            asker: asker.into(),
            command: format!("/retest by-{asker}"),
            lines: vec![],
            head: "aaaaaaa".into(),
            delivery: "d-1".into(),
            internal,
        };
        let answers = [answer("ann", false), answer("insider", true)];
        let of = |readers| render(&ReportView { sha: &change().head, retries: &retries, answers: &answers, readers });
        let (open, members) = (of(Readers::Everybody), of(Readers::Members));
        assert!(open.contains("lava-x86") && open.contains("by-ann"), "{open}");
        assert!(!open.contains("secret") && !open.contains("insider"), "{open}");
        assert!(members.contains("lava-secret") && members.contains("by-insider"), "{members}");
        assert!(!members.contains("lava-x86"), "told once, to everybody: {members}");
        assert!(members.starts_with(MEMBERS_MARKER) && open.starts_with(MARKER));
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
            assert_eq!(aggregate(&retries, &posts()).map(|s| s.state), state, "{why}");
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
            let statuses = job_statuses(&[retry("a", end.clone(), 1)], |_| true).pop().map(|s| s.state);
            assert!(matches!(statuses, Some(StatusState::Failure | StatusState::Error)), "{end:?}: {statuses:?}");
        }
    }

    #[test]
    fn the_check_run_offers_its_button_only_when_something_can_be_retested() {
        let check = |state| check_run(&[retry("a|b", state, 1)], &posts(), &change().head).expect("a check run");
        assert_eq!(check(RetryState::Finished(Conclusion::Failed)).buttons.len(), 1);
        assert!(check(RetryState::Finished(Conclusion::Passed)).buttons.is_empty());
        assert!(check(RetryState::Running).buttons.is_empty());
        assert!(check(RetryState::Running).summary.contains("`a\\|b`"), "a bar does not break the table");
    }
}
