//! Every decision, as a plain function over values.
//!
//! Nothing here waits, reads a clock, calls anybody or logs. The flow collects a [`Snapshot`], calls these functions,
//! and does what they say. Read next: `plan.rs`.

mod answer;
mod authorise;
mod closure;
mod flake;
mod inert;
mod limits;
mod need;
mod plan;
mod reason;
mod report;
mod select;
mod sift;
mod standalone;
mod statuses;
mod terms;

pub use answer::{Answer, AnswerLine};
pub use authorise::{Ask, Authorised, Rights, authorise, pinned};
pub use flake::{
    AutoretryRules, AutoretryTerms, Breaker, BreakerRule, Budgets, Case, ChangeSwitch, CleanBefore, Failure, FlakeRule,
    Health, IssueView, Left, Match, Probe, Rate, RuleFault, RuleSet, Spent, SpentByLabel, Switches, Verdict,
    evidence_text, is_user_error, issue_comment, judge, lint, masked, retry_wait, unknown_jobs,
};
pub use inert::{code, link, plain, plain_words, recorded};
pub use limits::{Count, DAY, Figure, HOUR, Limits, SetBy, Used};
pub use need::{Asker, Grant, Need};
pub use plan::{
    JobView, LeaveItem, OpenRetry, Plan, RunnerFacts, Snapshot, StartItem, Verb, Wish, job_list, plan, states,
};
pub use reason::{Reason, Refusal, RefusalKind};
pub use report::{FlakeNote, MARKER, MEMBERS_MARKER, Readers, ReportView, has_news, is_own_text, render};
pub use select::{Needed, needed};
pub use sift::{Sifted, sift};
pub use standalone::Standalone;
pub use statuses::{Beside, Overridden, Posts, Whole, aggregate, check_run, job_statuses, unclean};
pub use terms::{
    Declared, Declares, JobRule, JobTerms, MayLoosen, Policy, PolicyLimits, PolicyRights, Style, Terms, whole_seconds,
};
