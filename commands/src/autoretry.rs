//! `/autoretry`: switches retries without being asked on or off for one change.

use crate::arguments::{Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::{Fault, MistakeKind};

/// The arguments of `/autoretry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autoretry {
    /// Which way.
    pub switch: Switch,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Labelled flakes of this change are retried.
    On,
    /// Nothing is retried unless asked.
    Off,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "autoretry",
    usage: "/autoretry on|off",
    summary: "Lets the bot retry labelled flakes of this change by itself, or forbids it.",
    right: "author, or triage",
    examples: &[
        Example { line: "/autoretry on", does: "labelled flakes are retried" },
        Example { line: "/autoretry off", does: "nothing runs unasked" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let words = input.read(Accepts::Words)?.selection.texts();
    let word = words.first().map(|w| w.to_ascii_lowercase()).unwrap_or_default();
    let switch = match (word.as_str(), words.len()) {
        ("on", 1) => Switch::On,
        ("off", 1) => Switch::Off,
        (_, count) => {
            let kind = if count == 0 { MistakeKind::MissingArgument } else { MistakeKind::BadValue };
            let name = input.grammar.spelled(DOC.name);
            return Err(Fault::new(kind, &words.join(" "), format!("{name} on, or {name} off")));
        }
    };
    Ok(Command::Autoretry(Autoretry { switch }))
}

impl Autoretry {
    pub(crate) fn view(&self) -> CommandView {
        let word = match self.switch {
            Switch::On => "on",
            Switch::Off => "off",
        };
        CommandView { args: vec![word.to_owned()], ..CommandView::default() }
    }
}
