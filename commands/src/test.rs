//! `/test`: starts jobs whatever their state.
//!
//! The same words as `/retest`, but it needs one: many jobs cost much, so "everything" has to be written.

use std::collections::BTreeMap;

use crate::arguments::{Accepts, Flags, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::jobs::Jobs;
use crate::mistake::{Fault, MistakeKind};
use crate::retest::Retest;
use crate::selection::Selection;

/// The arguments of `/test`; each means what it means in [`Retest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Test {
    /// Which jobs; never empty.
    pub selection: Selection,
    /// `key=value`: inputs of the new runs, as far as the job's policy allows them.
    pub overrides: BTreeMap<String, String>,
    /// Switches.
    pub flags: Flags,
    /// Only if this is the head.
    pub sha: Option<String>,
    /// Runs of each job, 1 to 50.
    pub times: Option<u32>,
    /// The issue that is looked into.
    pub issue: Option<u64>,
    /// Why, for the record.
    pub reason: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "test",
    usage: "/test JOB … [KEY=VALUE …] [--with-needs] [--dry-run] [--sha=SHA] [times=N] [-- REASON]",
    summary: "Starts the named jobs, whether or not they have run or failed.",
    right: "write",
    examples: &[
        Example { line: "/test lava-x86", does: "starts it, even if it never ran" },
        Example { line: "/test lava-* platform=qemu", does: "a pattern, with another input" },
        Example { line: "/test all", does: "everything" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let read = input.read(Accepts::Everything)?;
    if read.asks_list {
        return Ok(Command::Jobs(Jobs { selection: read.selection }));
    }
    if read.selection.is_empty() {
        let hint = format!("name a job: {} JOB, or all", input.grammar.spelled(DOC.name));
        return Err(Fault::new(MistakeKind::MissingArgument, DOC.name, hint));
    }
    let Retest { selection, overrides, flags, sha, times, issue, reason } = Retest::from(read);
    Ok(Command::Test(Test { selection, overrides, flags, sha, times, issue, reason }))
}

impl Test {
    pub(crate) fn view(&self) -> CommandView {
        let Self { selection, overrides, flags, sha, times, issue, reason } = self.clone();
        Retest { selection, overrides, flags, sha, times, issue, reason }.view()
    }
}
