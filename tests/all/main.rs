//! All integration tests of the program, in one binary.

mod exec;
mod http_runner;
mod prism;
mod story;
