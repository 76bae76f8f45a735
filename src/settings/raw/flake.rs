//! `[[flake]]` and `[autoretry]` as written, and the block in an issue.
//!
//! Read next: `../flake.rs`, which checks them.

use super::super::document::Document;
use super::super::schema;
use super::super::words::FlakeEnd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Retries of one job on one head unless the rule says otherwise.
const RETRIES: u64 = 1;
/// Retries in 24 hours unless the rule says otherwise.
const RETRIES_PER_DAY: u64 = 20;
/// Wait unless the rule says otherwise.
const DELAY: &str = "0s";

/// What makes a failure a known flake: the job, and the runner's cause, a line of the log, or the end alone.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Flake {
    /// Its name in reports and statistics. Lower-case letters, digits and `-`.
    #[schemars(required)]
    pub label: Option<String>,
    /// Globs over names of jobs; `*` matches `/` too. At least one.
    pub jobs: Vec<String>,
    /// Only runs of this runner.
    pub runner: Option<String>,
    /// Only runs that ended so. Without it: all of these ends.
    pub ends: Vec<FlakeEnd>,
    /// Globs over the runner's typed cause, such as `Infrastructure*`; letter case does not count.
    pub causes: Vec<String>,
    /// Regular expressions, each for one line at the end of the log. Where there are `causes` too, one of both is enough.
    pub log: Vec<String>,
    /// Retries of one job on one head by this label.
    pub retries: u64,
    /// Retries by this label in one repository within 24 hours.
    pub retries_per_day: u64,
    /// Wait before the first retry; doubled each time up to 15 min.
    pub delay: String,
}

impl Default for Flake {
    fn default() -> Self {
        Self {
            label: None,
            jobs: Vec::new(),
            runner: None,
            ends: Vec::new(),
            causes: Vec::new(),
            log: Vec::new(),
            retries: RETRIES,
            retries_per_day: RETRIES_PER_DAY,
            delay: DELAY.into(),
        }
    }
}

/// A known flake as an issue describes it in its first `toml` block. Its label is the issue's number.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Known flake in an issue, for retest-bot")]
pub struct IssueFlake {
    /// The one job, by its exact name. Excludes `jobs`.
    pub job: Option<String>,
    /// Globs over names of jobs; `*` matches `/` too.
    pub jobs: Vec<String>,
    /// Only runs of this runner.
    pub runner: Option<String>,
    /// Only runs that ended so. Without it: all of these ends.
    pub ends: Vec<FlakeEnd>,
    /// Globs over the runner's typed cause, such as `Infrastructure*`; letter case does not count.
    pub causes: Vec<String>,
    /// Regular expressions, each for one line at the end of the log. Where there are `causes` too, one of both is enough.
    pub log: Vec<String>,
    /// Retries of one job on one head because of this issue.
    pub retries: u64,
    /// Retries because of this issue within 24 hours.
    pub retries_per_day: u64,
    /// Wait before the first retry; doubled each time up to 15 min.
    pub delay: String,
}

impl Default for IssueFlake {
    fn default() -> Self {
        let Flake { jobs, runner, ends, causes, log, retries, retries_per_day, delay, label: job } = Flake::default();
        Self { job, jobs, runner, ends, causes, log, retries, retries_per_day, delay }
    }
}

impl Document for IssueFlake {
    fn schema() -> Value {
        schema::of::<Self>()
    }
}

/// Retries of known flakes that nobody asks for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Autoretry {
    /// Whether there are any.
    pub enabled: bool,
    /// Open issues with this label describe flakes in a `toml` block; `""`: issues are not read.
    pub issue_label: String,
    /// A change with this label has every failure of it retried once; `""`: no label does that.
    pub auto_label: String,
    /// A change with this label has nothing retried unasked; `""`: no label does that.
    pub never_label: String,
    /// Retries of one job on one head that nobody asked for, whatever the rules say.
    pub retries_max: u64,
    /// The same on one change within 24 hours.
    pub retries_per_change_per_day: u64,
    /// The same on one runner within 24 hours.
    pub retries_per_runner_per_day: u64,
    /// Bytes at the end of a log in which patterns are looked for.
    pub log_bytes_max: u64,
    /// Issues are looked at so often, beside every webhook about them.
    pub issues_every: String,
    /// So many failures of a job that passed on the same head later, and that no label covers, make the bot propose one; 0: never.
    pub propose_after: u64,
    /// The span in which they count.
    pub propose_within: String,
    /// A label without a failure for so long is proposed for closing.
    pub close_after: String,
    /// When a runner that fails broadly gets no retries.
    pub breaker: Breaker,
}

impl Default for Autoretry {
    fn default() -> Self {
        Self {
            enabled: true,
            issue_label: "flake".into(),
            auto_label: "retest/auto".into(),
            never_label: "retest/never".into(),
            retries_max: 3,
            retries_per_change_per_day: 20,
            retries_per_runner_per_day: 200,
            log_bytes_max: 10 * 1024 * 1024,
            issues_every: "15m".into(),
            propose_after: 3,
            propose_within: "14d".into(),
            close_after: "60d".into(),
            breaker: Breaker::default(),
        }
    }
}

/// When a runner that fails broadly gets no retries.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Breaker {
    /// How far back runs are looked at.
    pub window: String,
    /// Heads that must have been seen before anything is concluded.
    pub heads_min: u64,
    /// Share of failing heads from which it opens, in per cent.
    pub share_percent: u64,
    /// How long it stays open before one retry tries whether the runner has recovered.
    pub open_for: String,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { window: "1h".into(), heads_min: 5, share_percent: 50, open_for: "15m".into() }
    }
}
