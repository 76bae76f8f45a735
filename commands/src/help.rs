//! `/help`, also `--help` after any command and the bot's name alone: which commands this person may use here.

use crate::arguments::Input;
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::Fault;

/// The arguments of `/help`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// The command asked about, without slash; one of [`crate::COMMANDS`]. None: all of them.
    pub topic: Option<String>,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "help",
    usage: "/help [COMMAND]",
    summary: "Shows the commands you may use here.",
    right: "read",
    examples: &[
        Example { line: "/help", does: "all commands" },
        Example { line: "/help retest", does: "one command" },
        Example { line: "/retest --help", does: "the same" },
    ],
    parse,
};

/// Words that name no command are ignored: who asks for help gets help.
fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let word = input.args.split_whitespace().next().unwrap_or_default();
    let named = input.grammar.find(word.trim_matches(|c: char| c.is_ascii_punctuation()));
    Ok(Command::Help(Help { topic: named.map(|doc| doc.name.to_owned()) }))
}

impl Help {
    pub(crate) fn view(&self) -> CommandView {
        CommandView { args: self.topic.iter().cloned().collect(), ..CommandView::default() }
    }
}
