//! `/ok-to-test`: approves a fork's head for retests.
//!
//! The approval belongs to the head that was known when the comment arrived. With a commit it holds for that commit or
//! not at all, so that what was reviewed is what runs.

use crate::arguments::{self, Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::{Fault, MistakeKind};

/// The arguments of `/ok-to-test`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkToTest {
    /// The commit that was reviewed, whole or its beginning, 7 digits at least, lower case.
    pub sha: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "ok-to-test",
    usage: "/ok-to-test [SHA]",
    summary: "Approves this head of a fork, so that its author may retest it; a new push needs a new approval.",
    right: "write",
    examples: &[
        Example { line: "/ok-to-test", does: "the head as it stands" },
        Example { line: "/ok-to-test 3f2c9a1", does: "only if that is still the head" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let words = input.read(Accepts::Words)?.selection.texts();
    let sha = match words.as_slice() {
        [] => None,
        [word] => Some(arguments::sha(word, word)?),
        [_, second, ..] => {
            return Err(Fault::new(MistakeKind::BadValue, second, "one commit, or none"));
        }
    };
    Ok(Command::OkToTest(OkToTest { sha }))
}

impl OkToTest {
    pub(crate) fn view(&self) -> CommandView {
        CommandView { args: self.sha.iter().cloned().collect(), ..CommandView::default() }
    }
}
