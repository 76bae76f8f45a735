//! What operator and repository decide about retries that nobody asked for, beside the rules.
//!
//! Read next: `judge.rs`.

use std::time::Duration;

use super::breaker::BreakerRule;
use super::judge::Budgets;
use super::rules::FlakeRule;

/// What the operator has decided.
#[derive(Clone, Debug)]
pub struct AutoretryRules {
    /// Whether anything is retried unasked.
    pub enabled: bool,
    /// The label by which issues describe flakes; none when issues are not read.
    pub issue_label: Option<String>,
    /// The label on a change that allows; none when no label does.
    pub auto_label: Option<String>,
    /// The label on a change that forbids; none when no label does.
    pub never_label: Option<String>,
    /// Bytes of a log's end that are read.
    pub log_bytes_max: usize,
    /// What may be retried at most, whatever the rules say.
    pub budgets: Budgets,
    /// When a runner gets no retries.
    pub breaker: BreakerRule,
    /// How often issues are looked at without being told.
    pub issues_every: Duration,
    /// Failures of a job that passed on the same head later, and that no label covers, from which a label is proposed;
    /// none when none is.
    pub propose_after: Option<u32>,
    /// The span in which they count.
    pub propose_within: Duration,
    /// Time without a failure after which a label is proposed for closing.
    pub close_after: Duration,
    /// The operator's rules.
    pub rules: Vec<FlakeRule>,
}

impl Default for AutoretryRules {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            enabled: true,
            issue_label: Some("flake".into()),
            auto_label: Some("retest/auto".into()),
            never_label: Some("retest/never".into()),
            log_bytes_max: 10 * 1024 * 1024,
            budgets: Budgets::default(),
            breaker: BreakerRule::default(),
            issues_every: Duration::from_secs(15 * 60),
            propose_after: Some(3),
            propose_within: 14 * DAY,
            close_after: 60 * DAY,
            rules: Vec::new(),
        }
    }
}

/// What a repository has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoretryTerms {
    /// Whether anything is retried unasked here; it can only switch off.
    pub enabled: bool,
    /// What must pass after a picked retest before the aggregate status turns green.
    pub clean: CleanBefore,
}

impl Default for AutoretryTerms {
    fn default() -> Self {
        Self { enabled: true, clean: CleanBefore::Nothing }
    }
}

/// What must pass after single jobs were picked for a retest, before the aggregate status turns green.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanBefore {
    /// Nothing more than the jobs themselves.
    #[default]
    Nothing,
    /// Each of the jobs, so many times one after the other.
    Passes(u32),
    /// Every required job, once, on the same head.
    Full,
}
