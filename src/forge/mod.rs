//! Forges: each module translates one kind of forge into our words. They never import each other.

pub mod gitlab;
