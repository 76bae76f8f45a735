//! The closed sets of words a configuration may use where a choice has to be made.
//!
//! Each enum is both what the file may say and what the rest of the program matches on, so a word can neither be
//! accepted here and unknown there, nor the other way round. Nothing here checks anything.
//! Read next: `raw/mod.rs`, which uses them as the types of keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Shape of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people: one readable line per entry.
    Text,
    /// For collectors: one JSON object per line.
    Json,
}

/// Which software a forge runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ForgeKind {
    /// github.com, GitHub Enterprise Cloud or GitHub Enterprise Server.
    #[serde(rename = "github")]
    Github,
    /// gitlab.com or a self-managed GitLab.
    #[serde(rename = "gitlab")]
    Gitlab,
}

/// Which module drives a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunnerModule {
    /// Jobs of GitHub Actions workflow runs, through a GitHub forge.
    GithubActions,
    /// Jobs of GitLab pipelines, through a GitLab forge.
    GitlabCi,
    /// Local processes declared in this configuration.
    Exec,
    /// Any other system, by templated requests.
    Http,
    /// Jobs of a LAVA lab.
    Lava,
    /// KernelCI: its Maestro API and pipeline.
    Kernelci,
}

/// A role a person has on a repository, lowest first, so that `<` compares rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// No role at all: anybody who can comment.
    None,
    /// May read the repository (GitLab: guest or planner).
    Read,
    /// May manage issues and changes (GitLab: reporter).
    Triage,
    /// May push (GitLab: developer).
    Write,
    /// May manage the repository without its dangerous settings (GitLab: maintainer).
    Maintain,
    /// May do everything (GitLab: owner).
    Admin,
}

/// What an edited comment may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Edited {
    /// An edit never runs anything.
    Ignore,
    /// An edit by the comment's own author runs the commands the earlier text did not have.
    NewCommands,
}

/// What a token of the REST API may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ApiScope {
    /// See the jobs of a revision.
    #[serde(rename = "jobs:read")]
    JobsRead,
    /// Register and update jobs of a revision.
    #[serde(rename = "jobs:write")]
    JobsWrite,
    /// See retries.
    #[serde(rename = "retries:read")]
    RetriesRead,
    /// Ask the planner for retries, and cancel them.
    #[serde(rename = "retries:create")]
    RetriesCreate,
    /// Ask it also for jobs that passed.
    #[serde(rename = "retries:force")]
    RetriesForce,
    /// Ask the dispatcher for a described run.
    #[serde(rename = "runs:create")]
    RunsCreate,
}

/// What holds while a repository's policy cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenBroken {
    /// What it said when it could be used last; the operator's configuration alone when it never could.
    LastGood,
    /// The operator's configuration alone.
    Defaults,
}

/// What a repository's policy may make easier than the operator has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MayLoosen {
    /// Rights: without it an asker needs what the operator wants and what the policy wants.
    Rights,
    /// Limits: without it the tighter figure counts.
    Limits,
    /// Whether a job stands alone, also where the operator has declared that it does not.
    Jobs,
    /// Which of the operator's runners a job belongs to.
    Runners,
}

/// How a run ended that may be a flake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlakeEnd {
    /// Its tests or its script failed.
    Failed,
    /// It died of its infrastructure.
    Infrastructure,
    /// It ran out of time.
    TimedOut,
    /// Nobody can tell.
    Lost,
}

/// What must pass after a picked retest before the aggregate status turns green.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clean {
    /// The picked jobs, as often as `clean_passes` says.
    Off,
    /// Every required job, once more.
    Full,
}

/// Method of a templated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

/// What the body of a templated request is, which decides how values are escaped in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BodyFormat {
    /// JSON: values stand inside strings, or bring their quotes with the filter `tojson`.
    Json,
    /// A form: `name={{ value }}&…`.
    Form,
}

/// What a word of the other system means for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Accepted, not begun.
    Pending,
    /// Begun, not ended.
    Running,
    /// Ended: passed.
    Passed,
    /// Ended: the job itself failed.
    Failed,
    /// Ended: the system under the job failed.
    Infrastructure,
    /// Ended: took too long.
    TimedOut,
    /// Ended: stopped by a person.
    Cancelled,
    /// Ended: a newer revision took its place.
    Superseded,
    /// Ended: was not run.
    Skipped,
    /// Ended: nobody knows how.
    Lost,
}

impl RunState {
    /// Whether a run in this state has ended.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }
}

/// Writes a word as the configuration file spells it.
fn spell(word: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match serde_json::to_value(word) {
        Ok(serde_json::Value::String(text)) => f.write_str(&text),
        _ => Err(fmt::Error),
    }
}

macro_rules! display_as_spelt {
    ($($name:ty),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                spell(self, f)
            }
        }
    )+};
}

display_as_spelt!(
    ApiScope,
    LogFormat,
    ForgeKind,
    RunnerModule,
    Role,
    Edited,
    WhenBroken,
    MayLoosen,
    FlakeEnd,
    Clean,
    Method,
    BodyFormat,
    RunState
);
