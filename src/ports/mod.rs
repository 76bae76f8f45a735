//! What the flow needs of the world outside: forges, runners, a clock, and the one signature check.
//!
//! Traits and plain values. Adapters live in `forge/` and `runner/`; only `app.rs` names them.
//! Every call can fail in one of four ways ([`CallError`]); the caller never reads a status code.

mod call;
mod clock;
mod forge;
mod runner;
mod signature;

pub use call::CallError;
pub use clock::{Clock, ManualClock, SystemClock};
pub use forge::{
    CheckPost, Decoded, FileNow, Forge, ForgeKind, IssuePost, PostedStatus, Reaction, ReportPost, StatusPost,
    StatusState, Wanted, WebhookError, WebhookRequest,
};
pub use runner::{
    Abilities, DEFINITION, DispatchError, DispatchOrder, Found, JobOrder, LogTail, Runner, RunnerKind, Started,
    SuccessorNaming, Told,
};
pub use signature::{Secrets, hmac_sha256_matches, token_matches};
