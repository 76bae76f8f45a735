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
    /// Whether an approval is taken back.
    pub cancel: bool,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "ok-to-test",
    usage: "/ok-to-test [SHA|cancel]",
    summary: "Approves this head of a fork, so that its author may retest it; a new push needs a new approval.",
    right: "write",
    examples: &[
        Example { line: "/ok-to-test", does: "the head as it stands" },
        Example { line: "/ok-to-test 3f2c9a1", does: "only if that is still the head" },
        Example { line: "/ok-to-test cancel", does: "takes the approval back" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let words = input.read(Accepts::Words)?.selection.texts();
    let sha = match words.as_slice() {
        [] => None,
        [word] if word.eq_ignore_ascii_case("cancel") => {
            return Ok(Command::OkToTest(OkToTest { sha: None, cancel: true }));
        }
        [word] => Some(arguments::sha(word, word)?),
        [_, second, ..] => {
            return Err(Fault::new(MistakeKind::BadValue, second, "one commit, `cancel`, or nothing"));
        }
    };
    Ok(Command::OkToTest(OkToTest { sha, cancel: false }))
}

impl OkToTest {
    pub(crate) fn view(&self) -> CommandView {
        let cancel = self.cancel.then(|| "cancel".to_owned());
        CommandView { args: self.sha.iter().cloned().chain(cancel).collect(), ..CommandView::default() }
    }
}
