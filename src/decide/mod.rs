//! Every decision, as a plain function over values.
//!
//! Nothing here waits, reads a clock, calls anybody or logs. The flow collects a [`Snapshot`], calls these functions,
//! and does what they say. Read next: `plan.rs`.

mod answer;
mod authorise;
mod closure;
mod inert;
mod plan;
mod reason;
mod report;
mod select;
mod standalone;

pub use answer::{Answer, AnswerLine};
pub use authorise::{Ask, Authorised, Rights, authorise};
pub use inert::{code, link, plain, plain_words, recorded};
pub use plan::{
    JobView, LastHour, LeaveItem, Limits, OpenRetry, Plan, RunnerFacts, Snapshot, StartItem, Verb, Wish, job_list,
    plan, states,
};
pub use reason::{Reason, Refusal, RefusalKind};
pub use report::{MARKER, Posts, ReportView, aggregate, check_run, is_own_text, job_statuses, render};
pub use select::{Needed, needed};
pub use standalone::Standalone;
