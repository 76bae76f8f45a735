//! A KernelCI in this process: the Maestro API, the scheduler behind its events, and the pipeline's `jobretry`.
//!
//! It has the schema and the quirks of the real one: publishing answers `null` and says nothing of what comes of it, the
//! scheduler ignores events in the wrong state and those that it has seen, `jobretry` says "OK" and starts nothing, a
//! new node does not name the one it repeats. Time and the scheduler move on command. Read next: `state.rs`.

mod routes;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use self::state::State;
use super::wire::Wire;

/// What it starts from.
#[derive(Clone, Debug)]
pub struct Options {
    /// The token that may publish.
    pub token: String,
    /// The token that may ask for `jobretry`.
    pub pipeline_token: String,
    /// Its clock, in milliseconds since 1970 UTC.
    pub start_ms: i64,
}

/// A job to put below a build.
#[derive(Clone, Debug)]
pub struct NewJob<'a> {
    /// Its name.
    pub name: &'a str,
    /// The board.
    pub platform: &'a str,
    /// The lab.
    pub runtime: &'a str,
}

/// The sandbox. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KernelCiSandbox {
    wire: Wire,
    state: Arc<Mutex<State>>,
}

impl KernelCiSandbox {
    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(options: Options) -> std::io::Result<Self> {
        let state = Arc::new(Mutex::new(State::new(options)));
        Ok(Self { wire: Wire::serve(routes::router(Arc::clone(&state))).await?, state })
    }

    /// The wire: its history and its faults.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Address of the API, without `/latest`.
    pub fn api_url(&self) -> String {
        self.wire.base_url()
    }

    /// Address of the pipeline's service, without `/api`.
    pub fn pipeline_url(&self) -> String {
        format!("{}/pipeline", self.wire.base_url())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets its clock.
    pub fn set_now(&self, ms: i64) {
        self.state().now_ms = ms;
    }

    /// A finished checkout of a commit; its id.
    pub fn checkout(&self, tree: &str, branch: &str, commit: &str) -> String {
        self.state().checkout(tree, branch, commit)
    }

    /// A finished build below a checkout, with this result; its id.
    pub fn build(&self, checkout: &str, name: &str, result: &str) -> String {
        self.state().build(checkout, name, result)
    }

    /// A running job below a build; its id.
    pub fn job(&self, build: &str, new: &NewJob<'_>) -> String {
        self.state().job(build, new, 0)
    }

    /// Ends a node with a result and, for `incomplete`, an error code and its message.
    pub fn end(&self, node: &str, result: &str, error: Option<(&str, &str)>) {
        self.state().end(node, result, error);
    }

    /// The newest node of that name.
    pub fn newest(&self, name: &str) -> Option<Value> {
        self.state().nodes.iter().rev().find(|node| node["name"] == name).cloned()
    }

    /// How many nodes of that name there are.
    pub fn count(&self, name: &str) -> usize {
        self.state().nodes.iter().filter(|node| node["name"] == name).count()
    }

    /// What was published on the channel `retry` so far.
    pub fn events(&self) -> Vec<Value> {
        self.state().events.clone()
    }

    /// Lets the scheduler work on what was published: a node for each job that matches; how many it made.
    pub fn schedule(&self) -> usize {
        self.state().schedule()
    }

    /// Lets the scheduler lose what was published and not yet worked on, as a full queue does.
    pub fn drop_events(&self) {
        self.state().queue.clear();
    }
}
