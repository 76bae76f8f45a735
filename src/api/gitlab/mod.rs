//! GitLab's REST interface (v4), its GraphQL query for `needs`, and the structs of its answers and webhooks.
//!
//! The `gitlab` crate builds the requests; our own [`GitLabClient`] sends them over the shared HTTP client, so that
//! timeouts, rate limits and the meaning of every error are decided in one place (`classify.rs`).
//! It refuses to decide anything: no rights, no selection, no texts but those of errors. Read next: `client.rs`,
//! then `calls.rs`.

mod address;
mod calls;
mod classify;
mod client;
mod dates;
pub mod hooks;
mod issues;
mod needs;
mod notes;
pub mod wire;
mod words;

pub use address::{JobAddress, PipelineAddress};
pub use calls::{NewStatus, StatusWord};
pub use classify::Failure;
pub use client::{GitLabAccess, GitLabClient};
pub use dates::read_time;
pub use issues::IssueText;
pub use needs::Needs;
pub use notes::Noteable;
pub use words::{JobReading, JobWords, is_over, never_retry, read_job};
