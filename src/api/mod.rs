//! HTTP clients of the outside world and their wire structs.

pub mod gitlab;
