//! The list of commands, and what every command offers to its readers.
//!
//! One file per command holds its words, its struct, its parse function and its examples; this file only lists them.
//! To add a command: write its file, add a variant here, add its `DOC` to [`COMMANDS`]; the compiler names the rest.

use std::collections::BTreeMap;

use crate::arguments::Input;
use crate::mistake::Fault;
use crate::{
    Autoretry, Cancel, Flake, Help, Jobs, OkToTest, Override, Retest, Test, Why, autoretry, cancel, flake, help, jobs,
    ok_to_test, override_status, retest, test, why,
};

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `/retest`
    Retest(Retest),
    /// `/test`
    Test(Test),
    /// `/cancel`
    Cancel(Cancel),
    /// `/jobs`, `/retest ?`
    Jobs(Jobs),
    /// `/help`, `--help` after any command, the bot's name alone
    Help(Help),
    /// `/ok-to-test`
    OkToTest(OkToTest),
    /// `/flake`
    Flake(Flake),
    /// `/autoretry`
    Autoretry(Autoretry),
    /// `/override`
    Override(Override),
    /// `/why`
    Why(Why),
}

/// A command in parts that serialise without knowing it: what `retest-bot parse` prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandView {
    /// The command's name, without slash.
    pub name: &'static str,
    /// Words, without quotes.
    pub args: Vec<String>,
    /// `key=value`, our own options (`times`, `sha`, `issue`, `reason`) and overrides alike.
    pub options: BTreeMap<String, String>,
    /// Flags that are set, without dashes: `force`, `dry-run`, `with-needs`.
    pub flags: Vec<&'static str>,
}

impl Command {
    /// The command's name, without slash: a name of [`COMMANDS`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Retest(_) => retest::DOC.name,
            Self::Test(_) => test::DOC.name,
            Self::Cancel(_) => cancel::DOC.name,
            Self::Jobs(_) => jobs::DOC.name,
            Self::Help(_) => help::DOC.name,
            Self::OkToTest(_) => ok_to_test::DOC.name,
            Self::Flake(_) => flake::DOC.name,
            Self::Autoretry(_) => autoretry::DOC.name,
            Self::Override(_) => override_status::DOC.name,
            Self::Why(_) => why::DOC.name,
        }
    }

    /// The command in parts.
    pub fn view(&self) -> CommandView {
        let parts = match self {
            Self::Retest(command) => command.view(),
            Self::Test(command) => command.view(),
            Self::Cancel(command) => command.view(),
            Self::Jobs(command) => command.view(),
            Self::Help(command) => command.view(),
            Self::OkToTest(command) => command.view(),
            Self::Flake(command) => command.view(),
            Self::Autoretry(command) => command.view(),
            Self::Override(command) => command.view(),
            Self::Why(command) => command.view(),
        };
        CommandView { name: self.name(), ..parts }
    }
}

/// What people read about a command: `/help` and `docs/commands.md` are made of these.
#[derive(Clone, Copy, Debug)]
pub struct CommandDoc {
    /// Its name, without slash.
    pub name: &'static str,
    /// How it is written, without prefix.
    pub usage: &'static str,
    /// What it does, in one sentence without its subject.
    pub summary: &'static str,
    /// Who may use it unless the policy says otherwise.
    pub right: &'static str,
    /// Lines that work as they stand; each is a test.
    pub examples: &'static [Example],
    /// Reads what follows the name.
    pub(crate) parse: fn(&Input<'_>) -> Result<Command, Fault>,
}

impl CommandDoc {
    /// Whether the name is long enough to be ours even where it is misspelt or stands in a sentence: `/tst` or
    /// `and /test` may mean anything.
    pub(crate) fn is_distinctive(&self) -> bool {
        self.name.len() >= 6
    }
}

/// A line and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// The whole line.
    pub line: &'static str,
    /// What it does, in half a sentence.
    pub does: &'static str,
}

/// Every command, in the order of the help.
pub const COMMANDS: &[CommandDoc] = &[
    retest::DOC,
    test::DOC,
    cancel::DOC,
    jobs::DOC,
    help::DOC,
    ok_to_test::DOC,
    flake::DOC,
    autoretry::DOC,
    override_status::DOC,
    why::DOC,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grammar, parse};

    #[test]
    fn every_example_is_its_command_and_no_mistake() {
        let grammar = Grammar::default();
        for doc in COMMANDS {
            assert!(!doc.examples.is_empty(), "{} has examples", doc.name);
            assert!(doc.usage.starts_with(&format!("/{}", doc.name)), "{}", doc.usage);
            for example in doc.examples {
                let parsed = parse(example.line, &grammar);
                assert_eq!(parsed.mistakes, [], "{}", example.line);
                let names: Vec<_> = parsed.commands.iter().map(|c| c.command.name()).collect();
                assert_eq!(names, [doc.name], "{}", example.line);
            }
        }
    }

    #[test]
    fn no_two_commands_share_a_name_or_an_example() {
        let names: std::collections::BTreeSet<_> = COMMANDS.iter().map(|doc| doc.name).collect();
        let lines: Vec<_> = COMMANDS.iter().flat_map(|doc| doc.examples).map(|e| e.line).collect();
        let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
        assert_eq!((names.len(), lines.len()), (COMMANDS.len(), distinct.len()));
    }
}
