//! The exec runner's own keys, checked: which local processes there are.
//!
//! Refused: templates and empty programs in an argument vector, since values reach a process through its environment only.
//! Read next: `runner_job.rs` for what an exec job shares with all others.

use super::check::{Check, DAY};
use super::raw;
use super::runner_job;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What an exec runner has.
#[derive(Debug, Clone)]
pub struct Exec {
    /// Folder for the state, logs and working folders of runs. No other runner has the same.
    pub directory: PathBuf,
    /// Processes at once.
    pub processes_max: usize,
    /// One per job, in the order of the file.
    pub commands: Vec<ExecCommand>,
}

/// The process of one exec job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecCommand {
    /// The job's name; the runner's `jobs` has an entry of the same name.
    pub job: String,
    /// Program and arguments, taken as they stand. Never empty.
    pub command: Vec<String>,
    /// Folder it starts in; `None`: an empty folder of the run's own.
    pub working_directory: Option<PathBuf>,
    /// Wall-clock limit.
    pub time_limit: Duration,
    /// Variables added to its environment.
    pub environment: BTreeMap<String, String>,
    /// Bytes of its log that are kept.
    pub log_bytes_max: u64,
}

impl Exec {
    /// The process of the job `name`.
    pub fn command(&self, name: &str) -> Option<&ExecCommand> {
        self.commands.iter().find(|command| command.job == name)
    }
}

/// Checks the keys of an exec runner.
pub(super) fn exec(check: &mut Check<'_>, path: &str, raw: &raw::Runner) -> Option<Exec> {
    let directory_path = format!("{path}.directory");
    let hint = "name a folder of its own, such as `/var/lib/retest-bot/exec`";
    let directory = check.needed(&directory_path, raw.directory.as_ref(), hint);
    if directory.is_some_and(String::is_empty) {
        check.fault(&directory_path, "is empty", hint);
    }
    let processes_max = raw.processes_max.unwrap_or(raw::PROCESSES_MAX);
    let processes_max = check.whole(&format!("{path}.processes_max"), processes_max, 1..=1000);
    let commands = raw.job.iter().enumerate();
    let commands = commands.filter_map(|(i, job)| command(check, &format!("{path}.job[{i}]"), job)).collect();
    Some(Exec { directory: directory.map(PathBuf::from)?, processes_max, commands })
}

fn command(check: &mut Check<'_>, path: &str, raw: &raw::Job) -> Option<ExecCommand> {
    let at = |key: &str| format!("{path}.{key}");
    let command = check.needed(&at("command"), raw.command.as_ref(), "write [\"program\", \"argument\", …]");
    if let Some(command) = command {
        argument_vector(check, &at("command"), command);
    }
    let time_limit = raw.time_limit.as_deref().unwrap_or(raw::TIME_LIMIT);
    let time_limit = check.duration(&at("time_limit"), time_limit, Duration::from_millis(100)..=30 * DAY);
    let environment = raw.environment.clone().unwrap_or_default();
    for (name, value) in &environment {
        let path = format!("{path}.environment.{name}");
        runner_job::variable(check, &path, name);
        if value.contains('\0') {
            check.fault(&path, "has a NUL character in it", "no process can be given it");
        }
    }
    if raw.working_directory.as_ref().is_some_and(String::is_empty) {
        check.fault(&at("working_directory"), "is empty", "name a folder, or leave the key out");
    }
    let log_bytes_max = raw.log_bytes_max.unwrap_or(raw::LOG_BYTES_MAX);
    Some(ExecCommand {
        job: raw.name.clone()?,
        command: command?.clone(),
        working_directory: raw.working_directory.as_ref().map(PathBuf::from),
        time_limit: time_limit?,
        environment,
        log_bytes_max: check.whole(&at("log_bytes_max"), log_bytes_max, 1024..=1024 * 1024 * 1024),
    })
}

fn argument_vector(check: &mut Check<'_>, path: &str, command: &[String]) {
    let program = command.first().map(String::as_str).unwrap_or_default();
    if program.is_empty() {
        check.fault(path, "names no program", "write [\"program\", \"argument\", …]");
    } else if command.len() == 1 && program.contains(' ') && !program.contains('/') {
        let words: Vec<String> = program.split_whitespace().map(|word| format!("{word:?}")).collect();
        check.fault(path, "is one word with blanks, and no shell splits it", format!("write [{}]", words.join(", ")));
    }
    for (i, argument) in command.iter().enumerate() {
        let path = format!("{path}[{i}]");
        if argument.contains('\0') {
            check.fault(&path, "has a NUL character in it", "no process can be given it");
        } else if ["{{", "{%"].iter().any(|open| argument.contains(open)) {
            let hint = "let the program read RETEST_JOB, RETEST_SHA and its overrides from its environment";
            check.fault(&path, "is a template, and arguments are taken as they stand", hint);
        }
    }
}
