//! The words of the trade: what every other module means by a change, a job, a run, a retry.
//!
//! Values only: no I/O, no clock, no log. A type that can be wrong has private fields and one constructor.
//! The types derive serde so that the store can keep whole values in its JSON columns; wire formats of the outside
//! world live in `api/`, never here. Read next: `retry.rs`, the only state machine.

mod change;
mod event;
mod flake;
mod ids;
mod job;
mod people;
mod retry;
mod time;

pub use change::{Change, ChangeKey, Repo, RepoKey};
pub use event::{
    ChangeAction, CommentAction, CommentEvent, CommentKind, CommentRef, ForgeEvent, JobEvent, PressEvent, Pressed,
    PushEvent,
};
pub use flake::{Evidence, Issue, IssueEvent, LabelOrigin, QueueEvent, Seen, Unasked};
pub use ids::{CommitSha, DeliveryId, DispatchKey, ForgeName, JobName, NotASha, RunRef, RunnerName};
pub use job::{Conclusion, Job, JobObservation, JobState, ListedJob, Origin, RunHandle, RunObservation, RunOrder};
pub use people::{Actor, Role, Team, UnknownRole};
pub use retry::{IllegalStep, Retry, RetryEvent, RetryId, RetryState, Series, WaitOn};
pub use time::Timestamp;
