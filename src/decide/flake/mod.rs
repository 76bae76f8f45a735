//! Known flakes: which failures a label covers, and whether the bot may retry one by itself (DESIGN section 7).
//!
//! Pure, as all of `decide`: logs come in as text, counts as numbers. Read next: `rules.rs` for what a rule is, `judge.rs` for the
//! decision.

mod breaker;
mod judge;
mod lint;
mod log;
mod mask;
mod needles;
mod rate;
mod rules;
mod tell;
mod terms;

pub use breaker::{Breaker, BreakerRule, Health, Probe};
pub use judge::{Budgets, Case, ChangeSwitch, Left, Spent, SpentByLabel, Switches, Verdict, judge, retry_wait};
pub use lint::{RuleFault, lint, unknown_jobs};
pub use mask::masked;
pub use rate::Rate;
pub use rules::{Failure, FlakeRule, Match, RuleSet, is_user_error};
pub use tell::{IssueView, evidence_text, issue_comment};
pub use terms::{AutoretryRules, AutoretryTerms, CleanBefore};
