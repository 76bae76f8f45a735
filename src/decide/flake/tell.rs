//! What people read about known flakes: our comment on an issue, and the lines of a report.
//!
//! Foreign text stands in code spans only, as everywhere.

use std::time::Duration;

use super::rate::Rate;
use super::rules::FlakeRule;
use crate::decide::Declares;
use crate::decide::inert::code;
use crate::domain::{CommitSha, Evidence, JobName, Seen, Timestamp};

/// Faults that a comment tells; the rest is counted.
const FAULTS_MAX: usize = 5;

/// What a comment on an issue is made of.
#[derive(Clone, Debug)]
pub struct IssueView<'a> {
    /// The label, `#123`.
    pub label: &'a str,
    /// What its block says; none when there is no block.
    pub rule: Option<Result<&'a FlakeRule, &'a [String]>>,
    /// Failures that the label covered within 30 days, of the runs of its jobs.
    pub hits: Rate,
    /// Those of them after which the job passed on the same head.
    pub passed_later: usize,
    /// The last one: when, which job, which head.
    pub last: Option<(Timestamp, JobName, CommitSha)>,
    /// How long nothing was seen of it, when that is long.
    pub unseen_too_long: Option<Duration>,
    /// The hidden first line.
    pub marker: &'a str,
}

/// Our comment on an issue, as Markdown.
pub fn issue_comment(view: &IssueView<'_>) -> String {
    let mut out = format!("{}\n", view.marker);
    match &view.rule {
        None => out.push_str(&format!(
            "**No block yet.** A fenced {} block in the text of this issue tells which failures it is about:\n\n{EXAMPLE}\n",
            code("toml")
        )),
        Some(Err(faults)) => {
            out.push_str("**The block cannot be used**, so nothing is retried because of this issue:\n\n");
            for fault in faults.iter().take(FAULTS_MAX) {
                out.push_str(&format!("- {}\n", code(fault)));
            }
            if faults.len() > FAULTS_MAX {
                out.push_str(&format!("- and {} more\n", faults.len() - FAULTS_MAX));
            }
            out.push_str("\nEdit the block; this comment follows.\n");
        }
        Some(Ok(rule)) => out.push_str(&understood(rule)),
    }
    if view.hits.hits > 0 || matches!(view.rule, Some(Ok(_))) {
        out.push_str(&counted(view));
    }
    if let Some(quiet) = view.unseen_too_long {
        let days = quiet.as_secs() / 86_400;
        out.push_str(&format!(
            "\n**Not seen for {days} days.** Close the issue if it is mended: then nothing is retried for it.\n"
        ));
    }
    out
}

const EXAMPLE: &str = "```toml\njob = \"lava-x86\"\nlog = [\"usb .*: device descriptor read\"]\nretries = 2\n```";

fn understood(rule: &FlakeRule) -> String {
    let list = |texts: Vec<String>| texts.iter().take(10).map(|text| code(text)).collect::<Vec<_>>().join(", ");
    let jobs: Vec<String> = rule
        .jobs
        .iter()
        .map(|which| match which {
            Declares::Job(name) => name.to_string(),
            Declares::Pattern(glob) => glob.glob().glob().to_owned(),
        })
        .collect();
    let mut signs = Vec::new();
    if !rule.causes.is_empty() {
        let causes = rule.causes.iter().map(|glob| glob.glob().glob().to_owned()).collect();
        signs.push(format!("the runner names {} as the cause", list(causes)));
    }
    if !rule.log.is_empty() {
        signs.push(format!("a line of the log fits {}", list(rule.log.clone())));
    }
    if signs.is_empty() {
        let ends = rule.ends.iter().map(|end| end.state().to_string()).collect();
        signs.push(format!("it ended as {}", list(ends)));
    }
    let times = if rule.retries == 1 { "once".to_owned() } else { format!("{} times", rule.retries) };
    format!(
        "**Understood.** When {} fails and {}, it is run again {times} per head, at most {} times in 24 hours.\n",
        list(jobs),
        signs.join(", or "),
        rule.per_day
    )
}

fn counted(view: &IssueView<'_>) -> String {
    let Rate { hits, of, share, low, high } = view.hits;
    if hits == 0 {
        return format!("\nNothing was seen of it within 30 days ({of} runs of its jobs).\n");
    }
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let last = view.last.as_ref().map_or_else(String::new, |(at, job, sha)| {
        let at = chrono::DateTime::from_timestamp_millis(at.ms()).unwrap_or_default().format("%Y-%m-%d %H:%M UTC");
        format!(" Last: {at}, {} on {}.", code(job.as_str()), code(sha.short()))
    });
    format!(
        "\n| Seen within 30 days | Share of the jobs' runs | Passed later on the same head |\n|---|---|---|\n\
         | {hits} | {} (95 % interval {} to {}, of {of} runs) | {} of {hits} |\n\n{}\n",
        percent(share),
        percent(low),
        percent(high),
        view.passed_later,
        last.trim_start()
    )
}

/// Why a failure counts as a known flake, in a few words (inert Markdown).
pub fn evidence_text(evidence: &Evidence) -> String {
    let label = code(&evidence.label);
    match &evidence.seen {
        Seen::Cause(cause) => format!("known flake {label}: its cause is {}", code(cause)),
        Seen::Log { line, cut, excerpt } => {
            let from = if *cut { " of the end that was read" } else { "" };
            format!("known flake {label}: log line {line}{from} says {}", code(excerpt))
        }
        Seen::Label => format!("{label} on this change lets failures be retried"),
    }
}
