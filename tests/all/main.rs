//! All integration tests of the program, in one binary.

mod exec;
mod github;
mod http_runner;
mod prism;
