//! All integration tests of the program, in one binary.

mod deploy;
mod exec;
mod github;
mod gitlab;
mod gitlab_client;
mod http_runner;
mod prism;
mod story;
