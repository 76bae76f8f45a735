//! retest-bot restarts the failed standalone CI jobs of a pull or merge request, follows them, and posts the truth back.
//!
//! Read `ARCHITECTURE.md` for the layer table and the life of a `/retest`; then `domain/`, `decide/`, `flow/`.

pub mod api;
pub mod app;
pub mod cli;
pub mod decide;
pub mod domain;
pub mod flow;
pub mod forge;
pub mod http;
pub mod ports;
pub mod runner;
pub mod sandbox;
pub mod settings;
pub mod store;
