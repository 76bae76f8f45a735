//! HTTP clients of the outside world and their wire structs.
//!
//! One folder per system. They speak the system's own words; `forge/` and `runner/` translate them into ours.

pub mod github;
pub mod gitlab;
