//! `/flake`: links a job's failure to the issue of a known flake.

use crate::arguments::{Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::{Fault, MistakeKind};
use crate::selection::Selection;

/// The arguments of `/flake`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flake {
    /// Whose failure; empty only with an issue: every failed job.
    pub selection: Selection,
    /// The issue; none: look for one, or offer a new one.
    pub issue: Option<u64>,
    /// What was seen, for the record.
    pub reason: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "flake",
    usage: "/flake [JOB …] [#ISSUE] [-- REASON]",
    summary: "Says that a job's failure is a known flake, and links it to its issue.",
    right: "triage",
    examples: &[
        Example { line: "/flake lava-x86 #123", does: "links the failure to issue 123" },
        Example { line: "/flake lava-x86 -- network timeout in the lab", does: "records it without an issue" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let read = input.read(Accepts::Issue)?;
    if read.selection.is_empty() && read.issue.is_none() {
        let hint = format!("name the job and its issue: {} JOB #123", input.grammar.spelled(DOC.name));
        return Err(Fault::new(MistakeKind::MissingArgument, DOC.name, hint));
    }
    Ok(Command::Flake(Flake { selection: read.selection, issue: read.issue, reason: read.reason }))
}

impl Flake {
    pub(crate) fn view(&self) -> CommandView {
        let own = [("issue", self.issue.map(|n| n.to_string())), ("reason", self.reason.clone())];
        let options = own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        CommandView { args: self.selection.texts(), options, ..CommandView::default() }
    }
}
