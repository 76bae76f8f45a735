//! What the operator declares for the exec runner, checked once, and the environment that a run gets from it.
//!
//! It refuses at load what could hurt later: an empty command, a variable that an override could abuse. Read next:
//! `mod.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::domain::{JobName, RunnerName};
use crate::ports::{CallError, DispatchOrder, JobOrder};

/// The variables of the bot's own environment that a run inherits; everything else stays with the bot.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

/// Longest value of an override, in bytes.
const OVERRIDE_BYTES_MAX: usize = 4_096;

/// Smallest log limit, in bytes: below it neither the beginning nor the end would say anything.
const LOG_BYTES_MIN: u64 = 1_024;

/// Variables by which whoever sets them makes a program load or run something else.
const RESERVED: [&str; 29] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "SHELL",
    "USER",
    "LOGNAME",
    "IFS",
    "ENV",
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "PROMPT_COMMAND",
    "PS4",
    "CDPATH",
    "LOCPATH",
    "NLSPATH",
    "GCONV_PATH",
    "TERMINFO",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "JAVA_TOOL_OPTIONS",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "MAKEFLAGS",
    "CC",
    "CXX",
    "HOSTALIASES",
];

/// Beginnings of such variables.
const RESERVED_PREFIXES: [&str; 16] = [
    "RETEST_",
    "LD_",
    "DYLD_",
    "BASH_FUNC_",
    "GLIBC_",
    "MALLOC_",
    "PYTHON",
    "PERL",
    "RUBY",
    "NODE_",
    "NPM_",
    "GIT_",
    "SSH_",
    "CARGO_",
    "SSL_",
    "_",
];

/// The exec runner as configured.
#[derive(Clone, Debug)]
pub struct ExecConfig {
    /// The runner's configured name.
    pub name: RunnerName,
    /// Where runs are kept: one directory each, made when missing. On a local disk; one bot process per directory.
    pub state_directory: PathBuf,
    /// The program that supervises a run: this program itself, which knows the hidden subcommand `exec-supervise DIR`.
    pub supervisor: PathBuf,
    /// The jobs, each name once.
    pub jobs: Vec<ExecJob>,
    /// How many runs may execute at once; at least 1. More wait.
    pub processes_max: usize,
    /// How long a run that is ended may take to end by itself (TERM) before it is killed (KILL). Usual: 5 s.
    pub grace: Duration,
}

/// One job that runs as a process on this machine.
#[derive(Clone, Debug)]
pub struct ExecJob {
    /// The job's name as people write it after `/retest`.
    pub name: JobName,
    /// Program and arguments, handed over as they are: no shell reads them.
    pub command: Vec<String>,
    /// Where the command starts; without one, each run gets an empty directory of its own.
    pub working_directory: Option<PathBuf>,
    /// How long a run may take before it is ended as timed out.
    pub time_limit: Duration,
    /// Variables for the command besides the `RETEST_…` ones.
    pub environment: BTreeMap<String, String>,
    /// The fields that a person may change with `key=value`: each reaches the command as the variable of the same name
    /// in capitals (`kernel` and `KERNEL` both as `KERNEL`).
    pub overrides: Vec<String>,
    /// How much of the output is kept, in bytes, at least 1,024: the first half, and the end.
    pub log_bytes_max: u64,
    /// Exit codes that mean "could not judge" rather than "failed", such as 75 (`EX_TEMPFAIL` of sysexits.h).
    pub infrastructure_codes: Vec<i32>,
}

/// Why the exec runner cannot be set up.
#[derive(Debug, Error)]
pub enum ExecConfigError {
    /// A value cannot be used; the text names the job and the key.
    #[error("exec runner: {0}")]
    Value(String),
    /// The state directory cannot be made or read.
    #[error("exec runner: state directory `{path}`: {error}")]
    State {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl ExecConfig {
    /// Checks everything that can be checked before the first run.
    pub(super) fn check(&self) -> Result<(), ExecConfigError> {
        let bad = |text: String| Err(ExecConfigError::Value(text));
        if self.processes_max == 0 {
            return bad("`processes_max` must be at least 1".to_owned());
        }
        let mut names = BTreeSet::new();
        for job in &self.jobs {
            if !names.insert(&job.name) {
                return bad(format!("job `{}` is declared twice", job.name));
            }
            if let Err(why) = job.check() {
                return bad(format!("job `{}`: {why}", job.name));
            }
        }
        Ok(())
    }

    /// The job of that name.
    pub(super) fn job(&self, name: &JobName) -> Option<&ExecJob> {
        self.jobs.iter().find(|job| job.name == *name)
    }
}

impl ExecJob {
    fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("`command` names no program".to_owned());
        }
        if self.command.iter().chain(self.environment.values()).any(|text| text.contains('\0')) {
            return Err("a NUL byte can stand in no argument and no variable".to_owned());
        }
        if self.time_limit.is_zero() {
            return Err("`time_limit` must be more than nothing".to_owned());
        }
        if self.log_bytes_max < LOG_BYTES_MIN {
            return Err(format!("`log_bytes_max` must be at least {LOG_BYTES_MIN}"));
        }
        if let Some(name) = self.environment.keys().find(|name| !is_environment_name(name)) {
            return Err(format!("`environment`: `{}` cannot be set", name.escape_debug()));
        }
        let mut variables = BTreeSet::new();
        for key in &self.overrides {
            let Some(variable) = override_variable(key) else {
                return Err(format!("`overrides`: `{}` cannot be left to a comment", key.escape_debug()));
            };
            if !variables.insert(variable) {
                return Err(format!("`overrides`: `{key}` means the same variable as another one"));
            }
        }
        Ok(())
    }

    /// The whole environment of a run, and nothing of the bot's beyond [`inherited`].
    pub(super) fn environment_of(
        &self,
        order: &DispatchOrder,
        job: &JobOrder,
        attempt: u32,
        inherited: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, CallError> {
        let mut all = inherited.clone();
        all.extend(self.environment.clone());
        for (key, value) in &job.overrides {
            let allowed = self.overrides.contains(key);
            let Some(variable) = override_variable(key).filter(|_| allowed) else {
                return Err(CallError::refused(format!("`{}` cannot be changed for this job", key.escape_debug())));
            };
            if value.len() > OVERRIDE_BYTES_MAX || value.chars().any(char::is_control) {
                let text = format!("the value of `{key}` is too long or has control characters");
                return Err(CallError::refused(text));
            }
            all.insert(variable, value.clone());
        }
        let revision = [
            ("RETEST_FORGE", order.repo.key.forge.to_string()),
            ("RETEST_REPOSITORY", order.repo.full_name.clone()),
            ("RETEST_CHANGE", order.change.number.to_string()),
            ("RETEST_SHA", order.sha.to_string()),
            ("RETEST_JOB", job.job.to_string()),
            ("RETEST_KEY", job.key.to_string()),
            ("RETEST_ATTEMPT", attempt.to_string()),
        ];
        for (name, value) in revision {
            // A NUL would end the variable early; no forge allows one in a name, so nothing is lost.
            all.insert(name.to_owned(), value.replace('\0', ""));
        }
        Ok(all)
    }
}

/// What a run inherits of the bot's environment.
pub(super) fn inherited() -> BTreeMap<String, String> {
    INHERITED.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}

/// Whether the operator may set this variable: a plain name, and none of ours.
fn is_environment_name(name: &str) -> bool {
    let start = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    name.bytes().next().is_some_and(start)
        && name.bytes().all(|b| start(b) || b.is_ascii_digit())
        && !name.starts_with("RETEST_")
}

/// The variable that a comment's `key=…` sets, when a comment may set it: `[A-Z_][A-Z0-9_]*` in capitals, and none by
/// which a program is made to load or run something else.
fn override_variable(key: &str) -> Option<String> {
    let name: String = key.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_uppercase() }).collect();
    let reserved = RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|p| name.starts_with(p));
    (is_environment_name(&name) && !reserved).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_never_sets_a_variable_that_makes_a_program_run_something_else() {
        let table = [
            ("kernel", Some("KERNEL"), "a field as people write it"),
            ("KERNEL", Some("KERNEL"), "the variable itself"),
            ("boot-args", Some("BOOT_ARGS"), "a dash"),
            ("PATH", None, "where programs are found"),
            ("path", None, "the same in small letters"),
            ("LD_PRELOAD", None, "what is loaded into every program"),
            ("ld-library-path", None, "the same with dashes"),
            ("BASH_ENV", None, "what bash runs first"),
            ("PYTHONPATH", None, "where Python finds modules"),
            ("GIT_SSH_COMMAND", None, "what git runs"),
            ("RETEST_SHA", None, "ours"),
            ("2FAST", None, "no name"),
            ("A=B", None, "no name"),
            ("", None, "nothing"),
            ("KÄRNEL", None, "not ASCII"),
        ];
        for (key, variable, why) in table {
            assert_eq!(override_variable(key).as_deref(), variable, "{key}: {why}");
        }
    }

    fn job() -> ExecJob {
        ExecJob {
            name: "unit".into(),
            command: vec!["true".into()],
            working_directory: None,
            time_limit: Duration::from_secs(1),
            environment: BTreeMap::new(),
            overrides: Vec::new(),
            log_bytes_max: LOG_BYTES_MIN,
            infrastructure_codes: Vec::new(),
        }
    }

    #[test]
    fn a_job_that_cannot_work_is_refused_at_load() {
        assert_eq!(job().check(), Ok(()));
        type Change = fn(&mut ExecJob);
        let broken: [(&str, Change); 8] = [
            ("no program", |j| j.command.clear()),
            ("an empty program", |j| j.command = vec![String::new()]),
            ("a NUL", |j| j.command.push("a\0b".into())),
            ("no time", |j| j.time_limit = Duration::ZERO),
            ("no log", |j| j.log_bytes_max = 10),
            ("our variable", |j| drop(j.environment.insert("RETEST_SHA".into(), "x".into()))),
            ("PATH left to comments", |j| j.overrides.push("PATH".into())),
            ("one variable twice", |j| j.overrides = vec!["kernel".into(), "KERNEL".into()]),
        ];
        for (why, change) in broken {
            let mut job = job();
            change(&mut job);
            assert!(job.check().is_err(), "{why}");
        }
    }
}
