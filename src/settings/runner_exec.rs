//! The exec runner's own keys, checked: which local processes there are.
//!
//! Refused: templates and empty programs in an argument vector, since values reach a process through its environment only.
//! Read next: `runner_job.rs` for what an exec job shares with all others.

use super::check::{Check, DAY, MINUTE};
use super::raw;
use super::runner_job;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// What an exec runner has.
#[derive(Debug, Clone)]
pub struct Exec {
    /// Folder for the state, logs and working folders of runs. No other runner has the same.
    pub directory: PathBuf,
    /// Processes at once.
    pub processes_max: usize,
    /// Time a run that is ended has to end by itself before it is killed.
    pub grace: Duration,
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
    /// Bytes of its log that are kept, at least 4,096.
    pub log_bytes_max: u64,
    /// Exit codes that mean "could not judge" instead of "failed"; 0 is not among them.
    pub infrastructure_codes: Vec<i32>,
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
    let grace = raw.grace.as_deref().unwrap_or(raw::GRACE);
    let grace = check.duration(&format!("{path}.grace"), grace, Duration::ZERO..=10 * MINUTE);
    let commands = raw.job.iter().enumerate();
    let commands = commands.filter_map(|(i, job)| command(check, &format!("{path}.job[{i}]"), job)).collect();
    Some(Exec { directory: directory.map(PathBuf::from)?, processes_max, grace: grace?, commands })
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
        runner_job::variable(check, &path, name, name);
        if value.contains('\0') {
            check.fault(&path, "has a NUL character in it", "no process can be given it");
        }
    }
    if raw.working_directory.as_ref().is_some_and(String::is_empty) {
        check.fault(&at("working_directory"), "is empty", "name a folder, or leave the key out");
    }
    override_variables(check, path, &raw.overrides);
    let infrastructure_codes = raw.infrastructure_codes.clone().unwrap_or(raw::INFRASTRUCTURE_CODES.to_vec());
    if infrastructure_codes.iter().any(|code| !(1..=255).contains(code)) {
        check.fault(&at("infrastructure_codes"), "has a number that is no failing exit code", "choose from 1 to 255");
    }
    let log_bytes_max = raw.log_bytes_max.unwrap_or(raw::LOG_BYTES_MAX);
    Some(ExecCommand {
        job: raw.name.clone()?,
        command: command?.clone(),
        working_directory: raw.working_directory.as_ref().map(PathBuf::from),
        time_limit: time_limit?,
        environment,
        infrastructure_codes,
        log_bytes_max: check.whole(&at("log_bytes_max"), log_bytes_max, 4096..=1024 * 1024 * 1024),
    })
}

/// Overrides reach a process as variables of the same name in capitals; none may decide which code runs.
fn override_variables(check: &mut Check<'_>, path: &str, overrides: &[String]) {
    /// Variables that decide which program or library runs.
    const LOADERS: [&str; 8] = ["PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "SHELLOPTS", "PS4"];
    /// Beginnings of such variables.
    const LOADER_STARTS: [&str; 6] = ["LD_", "PYTHON", "PERL", "NODE_", "GIT_", "SSH_"];
    let mut seen = BTreeSet::new();
    for (i, key) in overrides.iter().enumerate() {
        let path = format!("{path}.overrides[{i}]");
        let variable = key.to_ascii_uppercase().replace('-', "_");
        runner_job::variable(check, &path, key, &variable);
        if LOADERS.contains(&variable.as_str()) || LOADER_STARTS.iter().any(|start| variable.starts_with(start)) {
            let text = format!("`{key}` decides which code runs, and anybody who may comment could set it");
            check.fault(&path, text, "pass a value of your own and check it in the job");
        }
        if !seen.insert(variable) {
            check.fault(&path, format!("`{key}` sets the same variable as an earlier one"), "keep one of them");
        }
    }
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
