//! `/jobs`, also `/retest ?`: lists the jobs of the head.

use crate::arguments::{Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::Fault;
use crate::selection::Selection;

/// The arguments of `/jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    /// Which jobs; empty: all.
    pub selection: Selection,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "jobs",
    usage: "/jobs [JOB …]",
    summary: "Lists this head's jobs: state, runs, runner, and why one cannot be run again.",
    right: "read",
    examples: &[
        Example { line: "/jobs", does: "all jobs" },
        Example { line: "/jobs lava-*", does: "those of a pattern" },
        Example { line: "/retest ?", does: "the same list, as other bots do it" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    Ok(Command::Jobs(Jobs { selection: input.read(Accepts::Words)?.selection }))
}

impl Jobs {
    pub(crate) fn view(&self) -> CommandView {
        CommandView { args: self.selection.texts(), ..CommandView::default() }
    }
}
