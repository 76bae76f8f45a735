//! The runner modules: each translates one kind of system that executes jobs into our words.
//!
//! A module implements [`crate::ports::Runner`] and nothing else; only `app.rs` names the modules, and they never
//! import each other. What several share stands in [`log_text`] (logs as text) and [`wire`] (one request and its answer).

pub mod exec;
pub mod github_actions;
pub mod gitlab_ci;
pub mod http;
pub mod kernelci;
pub mod lava;
pub mod log_text;
pub mod wire;
