//! The loops: intake, dispatch, follow, report, catch-up. They call `decide`, they never decide.
//!
//! A pass takes no input: it reads the store and does what is due. A webhook only wakes a loop, so that a restart, a
//! lost webhook and normal life are one path. Every intent is stored before the call that carries it out.
//! Read next: `intake.rs`, `command.rs`, `dispatch.rs`, `follow.rs`, `report.rs`, `driver.rs`.

mod asked;
mod catch_up;
mod command;
mod dispatch;
mod driver;
mod ends;
mod facts;
mod flake_command;
mod follow;
mod hold;
mod intake;
mod issues;
mod join;
mod judge;
mod keep;
mod labels;
mod lines;
mod metrics;
mod needs;
mod people;
mod points;
mod policy;
mod propose;
mod report;
mod request;
mod request_run;
mod snapshot;
mod tasks;
mod template;
mod why;
mod world;

pub use driver::{Driver, run_until_idle};
pub use join::JoinPattern;
pub use labels::{ExtendIssue, FlakeRules, ReadIssue};
pub use metrics::Metrics;
pub use points::{Point, StopAt, Stopped};
pub use policy::{Phrases, PolicyRules, ReadPolicy, WhenBroken};
pub use request::{Client, Filter, PlannerPlace, PlannerWish, Request, RequestError, RequestOutcome, RunWish, Wanted};
pub use template::{RunTemplate, TemplateError};
pub use world::{EditedComments, FlowError, Parts, Progress, Rules, RunnerEntry, Wake, World};
