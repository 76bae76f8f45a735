//! `/retest`: runs the failed jobs of the head again.
//!
//! Without words it means every job whose newest run failed, timed out, was lost, died of infrastructure or was
//! cancelled by a person. What the words mean, and whether a job can run alone, is the planner's business.

use std::collections::BTreeMap;

use crate::arguments::{Accepts, Arguments, Flags, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::jobs::Jobs;
use crate::mistake::Fault;
use crate::selection::Selection;

/// The arguments of `/retest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retest {
    /// Which jobs; empty: those that failed.
    pub selection: Selection,
    /// `key=value`: inputs of the new runs, as far as the job's policy allows them.
    pub overrides: BTreeMap<String, String>,
    /// Switches.
    pub flags: Flags,
    /// Only if this is the head: the whole commit or its beginning, 7 digits at least, lower case.
    pub sha: Option<String>,
    /// Runs of each job, 1 to 50, to measure a flake.
    pub times: Option<u32>,
    /// The issue that the failure is blamed on.
    pub issue: Option<u64>,
    /// Why, for the record.
    pub reason: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "retest",
    usage: "/retest [JOB …] [KEY=VALUE …] [--with-needs] [--force] [--dry-run] [--sha=SHA] [times=N] [#ISSUE] [-- REASON]",
    summary: "Runs failed jobs of this head again: all of them, or the named ones.",
    right: "author of an approved head, or triage",
    examples: &[
        Example { line: "/retest", does: "every failed job" },
        Example { line: "/retest lava-x86 lava-arm64", does: "these two" },
        Example { line: "/retest unit tests (ubuntu, 3.11)", does: "the job of that name" },
        Example {
            line: "/retest \"build / test (ubuntu, 3.12)\" lava-*",
            does: "one with blanks in its name, and a pattern",
        },
        Example { line: "/retest required", does: "failed jobs that block merging" },
        Example { line: "/retest runner:lava", does: "failed jobs of one runner" },
        Example { line: "/retest https://lava.example.org/scheduler/job/424242", does: "the job of that page" },
        Example { line: "/retest lava-x86 kernel=v6.12", does: "with another input, where the policy allows it" },
        Example { line: "/retest deploy --with-needs", does: "with the jobs it needs, in order" },
        Example { line: "/retest lava-x86 times=5", does: "five runs, to measure a flake" },
        Example { line: "/retest lava-x86 #1234 -- mirror was down", does: "blamed on an issue, with a reason" },
        Example { line: "/retest all --dry-run", does: "only says what would run" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let read = input.read(Accepts::Everything)?;
    if read.asks_list {
        return Ok(Command::Jobs(Jobs { selection: read.selection }));
    }
    Ok(Command::Retest(Retest::from(read)))
}

impl From<Arguments> for Retest {
    fn from(read: Arguments) -> Self {
        let Arguments { selection, overrides, flags, sha, times, issue, reason, .. } = read;
        Self { selection, overrides, flags, sha, times, issue, reason }
    }
}

impl Retest {
    pub(crate) fn view(&self) -> CommandView {
        let mut options = self.overrides.clone();
        let own = [
            ("sha", self.sha.clone()),
            ("times", self.times.map(|n| n.to_string())),
            ("issue", self.issue.map(|n| n.to_string())),
            ("reason", self.reason.clone()),
        ];
        options.extend(own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        CommandView { args: self.selection.texts(), options, flags: self.flags.names(), ..CommandView::default() }
    }
}
