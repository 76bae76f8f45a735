//! `/flake`: links a job's failure to the issue of a known flake.

use crate::arguments::{Accepts, Input};
use crate::command::{Command, CommandDoc, CommandView, Example};
use crate::mistake::{Fault, MistakeKind};
use crate::selection::Selection;

/// The arguments of `/flake`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flake {
    /// Whose failure; empty only with an issue: every failed job.
    pub selection: Selection,
    /// Where the flake is described.
    pub issue: FlakeIssue,
    /// A text that the log holds where it happens.
    pub log: Option<String>,
    /// What was seen, for the record.
    pub reason: Option<String>,
}

/// Where a flake is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlakeIssue {
    /// In an issue that is there.
    Number(u64),
    /// In one to be opened.
    New,
}

pub(crate) const DOC: CommandDoc = CommandDoc {
    name: "flake",
    usage: "/flake [JOB …] #ISSUE|new [\"LOG TEXT\"] [-- REASON]",
    summary: "Says that a job's failure is a known flake: writes it into its issue, or opens one, so that it is retried from now on.",
    right: "triage",
    examples: &[
        Example { line: "/flake lava-x86 #123", does: "links the failure to issue 123" },
        Example {
            line: "/flake lava-x86 #123 \"usb 1-1: device descriptor read\"",
            does: "also says by which text of the log it is known",
        },
        Example { line: "/flake lava-x86 new", does: "opens an issue for it" },
    ],
    parse,
};

fn parse(input: &Input<'_>) -> Result<Command, Fault> {
    let read = input.read(Accepts::Issue)?;
    let name = input.grammar.spelled(DOC.name);
    let issue = match (read.issue, read.new_issue) {
        (Some(number), false) => FlakeIssue::Number(number),
        (None, true) => FlakeIssue::New,
        (None, false) => {
            let hint = format!("name the job and its issue: {name} JOB #123, or {name} JOB new");
            return Err(Fault::new(MistakeKind::MissingArgument, DOC.name, hint));
        }
        (Some(_), true) => {
            let hint = format!("one of both: {name} JOB #123, or {name} JOB new");
            return Err(Fault::new(MistakeKind::BadValue, "new", hint));
        }
    };
    Ok(Command::Flake(Flake { selection: read.selection, issue, log: read.quoted, reason: read.reason }))
}

impl Flake {
    pub(crate) fn view(&self) -> CommandView {
        let issue = match self.issue {
            FlakeIssue::Number(number) => number.to_string(),
            FlakeIssue::New => "new".to_owned(),
        };
        let own = [("issue", Some(issue)), ("log", self.log.clone()), ("reason", self.reason.clone())];
        let options = own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        CommandView { args: self.selection.texts(), options, ..CommandView::default() }
    }
}
