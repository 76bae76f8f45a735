//! What people read: the report, the statuses, the check run. Rendered from what is stored, never from what was heard.
//!
//! **Invariant:** no line of ours starts with `/`, mentions anybody, or holds foreign text outside a code span.

use super::answer::Answer;
use super::flake::evidence_text;
use super::inert::{code, link};
use super::reason::Reason;
use crate::domain::{CommitSha, Conclusion, Evidence, JobName, Retry, RetryState, WaitOn};

/// The hidden first line of every report: by it we find ours again, and never obey it.
pub const MARKER: &str = "<!-- retest-bot:report -->";

/// The same for the report that members alone can read: the answers to internal notes.
pub const MEMBERS_MARKER: &str = "<!-- retest-bot:members-report -->";

/// Characters after which no older answer is added: a report stays something that people read.
const ANSWERS_UP_TO: usize = 12_000;

/// Jobs listed in a report at most; the rest is counted.
pub(super) const JOBS_MAX: usize = 100; // with their lines far below the 65,536 characters that GitHub takes

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
    /// Known flakes on it that no retry tells of.
    pub flakes: &'a [FlakeNote],
    /// Whose report it is.
    pub readers: Readers,
}

/// A failure with a known flake behind it, and what was decided about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlakeNote {
    /// The job.
    pub job: JobName,
    /// What was seen.
    pub evidence: Evidence,
    /// Why it is not retried, or what it waits for (inert Markdown).
    pub verdict: String,
    /// Whether it is only held back.
    pub held: bool,
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

/// The newest retry of each job, in order of the jobs' first retries, with the older ones' count.
pub(super) fn newest(retries: &[Retry]) -> Vec<&Retry> {
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
pub(super) fn standing(retry: &Retry) -> (&'static str, String) {
    let run = retry.number + 1;
    match &retry.state {
        RetryState::Requested => ("⏳", "about to start".into()),
        RetryState::Waiting(WaitOn::Group(group)) => ("⏳", format!("queued behind run {}", code(group))),
        RetryState::Waiting(WaitOn::Jobs(needs)) => ("⏳", format!("starts once {} passed", names(needs))),
        RetryState::Waiting(WaitOn::Until(at)) => {
            let why =
                retry.cause.as_ref().map_or_else(String::new, |why| format!(": {}", super::inert::plain_words(why)));
            ("⏳", format!("starts at {}{why}", clock(*at)))
        }
        RetryState::Waiting(WaitOn::Time) => ("⏳", "queued: its runner takes no more at present".into()),
        RetryState::Dispatching => ("⏳", "being started".into()),
        RetryState::Dispatched => ("🚀", "started".into()),
        RetryState::Running => ("🔄", "running".into()),
        RetryState::Uncertain => ("❓", "asking its runner whether it was started: the answer got lost".into()),
        RetryState::Finished(end) => ended(*end, run, retry.cause.as_deref()),
        RetryState::Rejected(why) => ("🚫", format!("not restarted: {}", said(why))),
        RetryState::Superseded => ("⚪", "superseded: the head moved or the change was closed".into()),
        RetryState::Cancelled => match (&retry.unasked, &retry.cause) {
            (Some(_), Some(why)) => ("⚪", format!("not retried after all: {}", code(why))),
            _ => ("⚪", "cancelled on request".into()),
        },
        RetryState::Expired => ("⌛", "not over by its deadline, so no longer followed".into()),
    }
}

/// A point in time for people, in UTC.
fn clock(at: crate::domain::Timestamp) -> String {
    let at = chrono::DateTime::from_timestamp_millis(at.ms()).unwrap_or_default();
    at.format("%H:%M:%S UTC").to_string()
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
    format!(" · run {} of {} asked for: {} passed, {} failed", series.place, series.of, count(true), count(false))
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
    if view.readers == Readers::Everybody {
        for note in view.flakes.iter().take(JOBS_MAX) {
            let (icon, what) =
                if note.held { ("⏸️", "is held back") } else { ("⚠️", "is not retried by itself") };
            let seen = evidence_text(&note.evidence);
            out.push_str(&format!(
                "\n- {icon} **{}** {what}: {}  \n  <sub>{seen}</sub>\n",
                code(note.job.as_str()),
                note.verdict
            ));
        }
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
    let series = series_text(retry, all);
    let why = super::inert::plain_words(&retry.why);
    let who = match &retry.unasked {
        None => format!("{why}; asked by {}", code(&retry.asker.login)),
        Some(unasked) => format!(
            "{}; retry {} of {} that nobody asked for",
            evidence_text(&unasked.evidence),
            unasked.number,
            unasked.of
        ),
    };
    format!("\n- {icon} **{}**: {text}{series}{run}{also}  \n  <sub>{who}</sub>\n", code(retry.job.as_str()))
}

fn answer_text(answer: &Answer, sha: &CommitSha) -> String {
    let on = if answer.head == sha.short() { String::new() } else { format!(" on {}", code(&answer.head)) };
    let mut out = match answer.command.is_empty() {
        true => format!("\n**Noticed**{on}:\n"),
        false => format!("\n**{}** asked for {}{on}:\n", code(&answer.asker), code(&answer.command)),
    };
    for line in &answer.lines {
        match &line.job {
            Some(job) => out.push_str(&format!("- {}: {}\n", code(job.as_str()), line.text)),
            None => out.push_str(&format!("- {}\n", line.text)),
        }
    }
    if !answer.delivery.is_empty() {
        out.push_str(&format!("\n<sub>delivery {}</sub>\n", code(&answer.delivery)));
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::decide::AnswerLine;
    use crate::decide::plan::tests::{actor, change};
    use crate::domain::{DispatchKey, RetryId, RunHandle, RunOrder, Timestamp};

    pub(in crate::decide) fn retry(job: &str, state: RetryState, number: u32) -> Retry {
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
            flakes: &[],
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
        let of = |readers| {
            render(&ReportView { sha: &change().head, retries: &retries, answers: &answers, flakes: &[], readers })
        };
        let (open, members) = (of(Readers::Everybody), of(Readers::Members));
        assert!(open.contains("lava-x86") && open.contains("by-ann"), "{open}");
        assert!(!open.contains("secret") && !open.contains("insider"), "{open}");
        assert!(members.contains("lava-secret") && members.contains("by-insider"), "{members}");
        assert!(!members.contains("lava-x86"), "told once, to everybody: {members}");
        assert!(members.starts_with(MEMBERS_MARKER) && open.starts_with(MARKER));
    }
}
