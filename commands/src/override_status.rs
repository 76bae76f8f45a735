//! `/override`: sets one of the bot's own statuses to success, with a reason on record.

use crate::arguments::{Accepts, Arguments, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::{Fault, MistakeKind};

/// The arguments of `/override`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The status by its name.
    pub status: String,
    /// Why it may be ignored; never empty.
    pub reason: String,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "override",
    usage: "/override STATUS \"REASON\"",
    summary: "Sets one of the bot's statuses to success, with your reason on record.",
    right: "maintain",
    examples: &[
        Example {
            line: "/override lava-x86 \"board is on fire, see #123\"",
            does: "the status lava-x86 becomes green",
        },
        Example { line: "/override \"build / test\" -- tested by hand", does: "a name with blanks" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let Arguments { selection, reason, last_is_quoted, .. } = input.read(Accepts::Words)?;
    let mut names = selection.texts();
    let reason = reason.or_else(|| names.pop_if(|_| last_is_quoted && selection.words.len() > 1));
    let status = selection.whole.unwrap_or_else(|| names.join(" "));
    match reason {
        Some(reason) if !status.is_empty() && !reason.trim().is_empty() => {
            Ok(Command::Override(Override { status, reason }))
        }
        _ => {
            let hint = format!("{} STATUS \"why it may be ignored\"", input.grammar.spelled(DOC.name));
            Err(Fault::new(MistakeKind::MissingArgument, input.args.trim(), hint))
        }
    }
}

impl Override {
    pub(crate) fn view(&self) -> CommandView {
        let options = [("reason".to_owned(), self.reason.clone())].into();
        CommandView { args: vec![self.status.clone()], options, ..CommandView::default() }
    }
}
