//! All integration tests of the program, in one binary.

mod exec;
mod github;
mod gitlab;
mod http_runner;
mod prism;
mod story;
