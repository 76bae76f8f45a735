//! All integration tests of the program, in one binary.

mod api;
mod deploy;
mod exec;
mod github;
mod gitlab;
mod http_runner;
mod inert;
mod kernelci;
mod kill;
mod lava;
mod peers;
mod policy_cli;
mod prism;
mod receiver;
mod story;
mod tidy;
