//! Forges, their CI and a KernelCI living in this process, speaking the real wire formats over loopback HTTP.
//!
//! The demo, the stories and the crash tests talk to it through the real clients. It keeps state (heads move, runs
//! gain attempts, statuses are a state machine) and misbehaves on command ([`wire::Fault`]).
//! It refuses to know anything of the bot: no `crate::` import leaves this folder. Read next: `wire.rs`.

pub mod github;
pub mod gitlab;
pub mod kernelci;
pub mod lava;
pub mod wire;
