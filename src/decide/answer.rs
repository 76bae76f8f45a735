//! The answer to one command, line by line.

use serde::{Deserialize, Serialize};

use crate::domain::JobName;

/// One line of an answer: what happened to one job, or to the whole command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerLine {
    /// The job; none when the line is about the whole command.
    pub job: Option<JobName>,
    /// The reason's word from the documented list.
    pub reason: String,
    /// The sentence: Markdown that is already inert.
    pub text: String,
}

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Who asked, by login.
    pub asker: String,
    /// The command as it was understood, for example `retest lava-x86`.
    pub command: String,
    /// Line by line what happened.
    pub lines: Vec<AnswerLine>,
    /// The head that the command was about, short.
    pub head: String,
    /// The delivery, for people who look into the log.
    pub delivery: String,
    /// Whether only members may see it.
    pub internal: bool,
}
