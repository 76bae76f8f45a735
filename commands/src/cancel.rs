//! `/cancel`: stops retries and the runs they started.

use crate::arguments::{Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::Fault;
use crate::selection::Selection;

/// The arguments of `/cancel`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    /// Which jobs; empty: every retry of the change.
    pub selection: Selection,
    /// Why, for the record.
    pub reason: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "cancel",
    usage: "/cancel [JOB …] [-- REASON]",
    summary: "Cancels retries and their runs: all of this change, or the named ones.",
    right: "who asked for the retry, or write",
    examples: &[
        Example { line: "/cancel", does: "every retry of this change" },
        Example { line: "/cancel lava-x86", does: "the retry of one job" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let read = input.read(Accepts::Words)?;
    Ok(Command::Cancel(Cancel { selection: read.selection, reason: read.reason }))
}

impl Cancel {
    pub(crate) fn view(&self) -> CommandView {
        let options = self.reason.iter().map(|r| ("reason".to_owned(), r.clone())).collect();
        CommandView { args: self.selection.texts(), options, ..CommandView::default() }
    }
}
