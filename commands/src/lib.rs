//! The chat grammar of retest-bot: finds commands such as `/retest lava-x86` in a comment.
//!
//! Pure: text and a [`Grammar`] in, [`Parsed`] out. No clock, no I/O, no regular expression, no knowledge of any job. It
//! never panics, and a megabyte of any text takes milliseconds. One command per line, in the writer's own prose only;
//! what is nearly a command becomes a [`Mistake`] and runs nothing; what belongs to other bots is passed over.
//!
//! The way of a comment: `scan` (can any line be ours?) → `regions` (which stretches matter?) → `prose` (which lines are
//! the writer's own?) → `line` (what is the line?) → `words` and `arguments` → one file per command.
//!
//! ```
//! use retest_commands::{Command, Grammar, parse};
//!
//! let parsed = parse("Looks like the lab was down.\n\n/retest lava-x86, thanks!", &Grammar::default());
//! assert_eq!(parsed.commands[0].line, 3);
//! assert!(matches!(&parsed.commands[0].command, Command::Retest(r) if r.selection.texts() == ["lava-x86"]));
//! ```

mod command;
mod grammar;

mod autoretry;
mod cancel;
mod flake;
mod help;
mod jobs;
mod ok_to_test;
mod override_status;
mod retest;
mod test;
mod why;

mod arguments;
mod selection;

mod email;
mod hint;
mod line;
mod markup;
mod mistake;
mod normalise;
mod prose;
mod regions;
mod scan;
mod words;

pub use arguments::{Flags, OVERRIDES_MAX, TIMES_MAX, VALUE_BYTES_MAX, WORDS_MAX};
pub use autoretry::{Autoretry, Switch};
pub use cancel::Cancel;
pub use command::{COMMANDS, Command, CommandDoc, CommandView, Example};
pub use flake::{Flake, FlakeIssue};
pub use grammar::{ALIASES_MAX, Alias, Grammar, GrammarError, GrammarSettings, TAIL};
pub use help::Help;
pub use jobs::Jobs;
pub use line::LINE_BYTES_MAX;
pub use mistake::{Mistake, MistakeKind, TEXT_CHARS_MAX};
pub use ok_to_test::OkToTest;
pub use override_status::Override;
pub use retest::Retest;
pub use selection::{NAME_BYTES_MAX, Selection, Selector, URL_BYTES_MAX};
pub use test::Test;
pub use why::Why;

/// Most mistakes of one comment that are told.
pub const MISTAKES_MAX: usize = 20;

/// What a comment holds for us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Commands in their order. A command that is repeated word for word is there once.
    pub commands: Vec<ParsedCommand>,
    /// What was meant as a command and is none, in its order; at most one guess ([`MistakeKind::is_guess`]).
    pub mistakes: Vec<Mistake>,
}

/// A command and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedCommand {
    /// The command.
    pub command: Command,
    /// The line of the comment, counted from 1.
    pub line: u32,
}

/// Finds the commands of a comment.
///
/// A mistake stops its own line only; the commands on other lines stand. A comment that is too long to be read with
/// certainty yields [`MistakeKind::TooLong`] alone, and only if a line of it starts like a command.
pub fn parse(text: &str, grammar: &Grammar) -> Parsed {
    let scan = scan::scan(text, grammar);
    if scan.candidates.is_empty() {
        return Parsed::default();
    }
    let readable = if text.len() > grammar.text_bytes_max { None } else { prose::lines(text, &scan).ok() };
    match readable {
        Some(lines) => read_lines(&lines, grammar),
        None if scan.is_sure => Parsed { commands: Vec::new(), mistakes: vec![too_long(text)] },
        None => Parsed::default(),
    }
}

/// The commands of an edited comment that its earlier text did not have, and its new mistakes.
pub fn new_commands(before: &str, after: &str, grammar: &Grammar) -> Parsed {
    let old = parse(before, grammar);
    let mut new = parse(after, grammar);
    new.commands.retain(|c| !old.commands.iter().any(|o| o.command == c.command));
    new.mistakes.retain(|m| !old.mistakes.iter().any(|o| (o.kind, &o.text) == (m.kind, &m.text)));
    new
}

fn read_lines(lines: &[prose::Line], grammar: &Grammar) -> Parsed {
    let mut out = Parsed::default();
    for prose in lines {
        match line::read(prose, grammar) {
            Ok(None) => {}
            Ok(Some(command)) if out.commands.iter().any(|c| c.command == command) => {}
            Ok(Some(_)) if out.commands.len() >= grammar.commands_max => {
                out.mistakes.push(Mistake {
                    kind: MistakeKind::TooMany,
                    text: format!("more than {} commands", grammar.commands_max),
                    hint: "put the others into another comment".to_owned(),
                    line: prose.number,
                });
                break;
            }
            Ok(Some(command)) => out.commands.push(ParsedCommand { command, line: prose.number }),
            Err(mistake) if mistake.kind.is_guess() && out.mistakes.iter().any(|m| m.kind.is_guess()) => {}
            Err(mistake) => out.mistakes.push(mistake),
        }
        if out.mistakes.len() >= MISTAKES_MAX {
            break;
        }
    }
    out
}

fn too_long(text: &str) -> Mistake {
    Mistake {
        kind: MistakeKind::TooLong,
        text: format!("a comment of {} bytes", text.len()),
        hint: "put the command into a comment of its own".to_owned(),
        line: 1,
    }
}
