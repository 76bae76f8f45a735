//! All integration tests of the program, in one binary.

mod deploy;
mod exec;
mod http_runner;
mod prism;
