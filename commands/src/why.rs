//! `/why`: explains the last decision about a job.

use crate::arguments::{Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::Fault;

/// The arguments of `/why`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// The job; several words are one name. None: the last decision about the change.
    pub job: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "why",
    usage: "/why [JOB]",
    summary: "Explains the last decision about a job, from the record.",
    right: "read",
    examples: &[
        Example { line: "/why lava-x86", does: "why it was or was not started" },
        Example { line: "/why", does: "the last decision about this change" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let selection = input.read(Accepts::Words)?.selection;
    let job = selection.whole.clone().or_else(|| Some(selection.texts().join(" ")).filter(|name| !name.is_empty()));
    Ok(Command::Why(Why { job }))
}

impl Why {
    pub(crate) fn view(&self) -> CommandView {
        CommandView { args: self.job.iter().cloned().collect(), ..CommandView::default() }
    }
}
