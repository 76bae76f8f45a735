//! A repository's policy exactly as written: names, types and defaults, nothing else.
//!
//! As `../raw/mod.rs` for the operator's file: serde refuses unknown keys and wrong types, schemars makes the schema.
//! Read next: `mod.rs`, which checks it.

use super::super::document::Document;
use super::super::raw::{Alias, Flake};
use super::super::schema;
use super::super::who::RawWho;
use super::super::words::Clean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Policy of a repository for retest-bot")]
pub struct File {
    /// Who may give each command here. What is left out is as the operator has it.
    pub rights: Rights,
    /// How much may be restarted here. What is left out is as the operator has it.
    pub limits: Limits,
    /// How the bot speaks on changes of this repository.
    pub report: Report,
    /// How comments are read here.
    pub commands: Commands,
    /// What the bot cannot know of jobs. The first entry that fits a job counts.
    pub job: Vec<Job>,
    /// Which of the operator's runners a job belongs to, where several could run it.
    pub runner: Vec<Runner>,
    /// What makes a failure a known flake here, beside the operator's rules and issues.
    pub flake: Vec<Flake>,
    /// Retries of known flakes that nobody asks for.
    pub autoretry: Autoretry,
}

impl Document for File {
    fn schema() -> Value {
        schema::of::<Self>()
    }
}

/// Who may give each command here: a role, or a list of one role, teams, groups and people.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    /// For `/retest`.
    pub retest: Option<RawWho>,
    /// Whether the author of a change may `/retest` it below that role, when the head is their own branch here or was approved.
    pub retest_author: Option<bool>,
    /// For `--force`: also jobs that passed.
    pub force: Option<RawWho>,
    /// For `/test`.
    pub test: Option<RawWho>,
    /// For `/cancel` of other people's retries; who asked may always cancel.
    pub cancel: Option<RawWho>,
    /// For `/ok-to-test`: who may approve heads of forks.
    pub ok_to_test: Option<RawWho>,
    /// For `/help`, `/jobs` and `/why`.
    pub help: Option<RawWho>,
    /// For `/flake`: who may label a failure as a known flake.
    pub flake: Option<RawWho>,
    /// For `/autoretry`; the author of a change may always switch it off, and on where the author may `/retest`.
    pub autoretry: Option<RawWho>,
    /// For `/override`: who may set one of the bot's statuses to success.
    #[serde(rename = "override")]
    pub override_status: Option<RawWho>,
}

/// Retries of known flakes that nobody asks for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Autoretry {
    /// Whether there are any here. It can only switch off what the operator has switched on.
    pub enabled: bool,
    /// After single jobs were picked for a retest: `full`, every required job must pass on the head before the aggregate status
    /// turns green; `off`, what `clean_passes` says.
    pub clean: Clean,
    /// After single jobs were picked for a retest, each must pass so many times before the aggregate status turns green.
    pub clean_passes: u64,
}

impl Default for Autoretry {
    fn default() -> Self {
        Self { enabled: true, clean: Clean::Off, clean_passes: 1 }
    }
}

/// How much may be restarted here.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Retries of one job on one head.
    pub retries_per_job_and_head: Option<u64>,
    /// Pause from one retry of a job on a head to the next.
    pub cooldown: Option<String>,
    /// Retries on one change within an hour.
    pub retries_per_change_per_hour: Option<u64>,
    /// Retries on one change within 24 hours.
    pub retries_per_change_per_day: Option<u64>,
    /// Retries asked for by one person within an hour, on the whole forge.
    pub retries_per_actor_per_hour: Option<u64>,
    /// Retries asked for by one person within 24 hours, on the whole forge.
    pub retries_per_actor_per_day: Option<u64>,
    /// Retries in this repository within 24 hours.
    pub retries_per_repository_per_day: Option<u64>,
    /// Jobs one command may start.
    pub jobs_per_command_max: Option<u64>,
}

/// How the bot speaks on changes of this repository.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Report {
    /// Whether there is a report: the one comment per change that is kept up to date.
    pub comment: bool,
    /// Whether statuses and check runs are posted.
    pub statuses: bool,
    /// Whether the report waits until something is to be said that reactions and statuses do not tell: a refusal, a list, a failure.
    pub quiet: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self { comment: true, statuses: true, quiet: false }
    }
}

/// How comments are read here.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Commands {
    /// Habits of this project: a line that is just `phrase` is read as `means`. Those of the operator hold, too.
    pub aliases: Vec<Alias>,
    /// Commands that nobody may use here, by name.
    pub disabled: Vec<String>,
}

/// What is known of a job, or of all jobs whose names match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    /// The job's name. Excludes `pattern`.
    pub name: Option<String>,
    /// A glob over names of jobs; `*` matches `/` too.
    pub pattern: Option<String>,
    /// Whether a new run needs nothing but the revision and inputs that still exist. Without it the runner is asked.
    pub standalone: Option<bool>,
    /// Jobs that must have passed on the head before. Without it the runner is asked.
    pub needs: Option<Vec<String>>,
    /// Whether it may be started again at all; where it may not, `reason` says why.
    pub retryable: bool,
    /// Why it must not be started again; shown to who asks.
    pub reason: Option<String>,
    /// Who alone may start it again, of those who may give the command.
    pub retest: Option<RawWho>,
    /// Fields that may be changed with `key=value`, each with who may; `asker` is everybody who may start the job. Of the fields that
    /// the runner takes, those not listed may not be changed. Without it: all that the runner takes.
    pub overrides: Option<BTreeMap<String, RawWho>>,
    /// Whether it must pass before a merge. Without it the forge is asked.
    pub required: Option<bool>,
    /// What it runs on, for `/retest platform:NAME`.
    pub platform: Option<String>,
    /// Whether known flakes of it may be retried unasked. Whoever says no, operator or repository, wins.
    #[schemars(extend("default" = true))]
    pub auto_retry: Option<bool>,
    /// Groups it belongs to: `/retest GROUP` means all of them.
    pub groups: Vec<String>,
    /// With `name` only: other names that people may write for it.
    pub aliases: Vec<String>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: None,
            pattern: None,
            standalone: None,
            needs: None,
            retryable: true,
            reason: None,
            retest: None,
            overrides: None,
            required: None,
            platform: None,
            auto_retry: None,
            groups: Vec::new(),
            aliases: Vec::new(),
        }
    }
}

/// Jobs that belong to one of the operator's runners.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Runner {
    /// The runner's name in the operator's configuration.
    #[schemars(required)]
    pub name: Option<String>,
    /// Globs over names of jobs.
    pub jobs: Vec<String>,
}
