//! Runners: one module per system that executes jobs. They never import each other.

pub mod gitlab_ci;
