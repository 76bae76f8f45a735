//! A GitLab that lives in this process: state that moves, REST v4 and its one GraphQL query, and webhooks.
//!
//! Paths, bodies and refusals are those of the service, as far as the bot meets them. Its clock is set by hand. What it
//! leaves out: git itself, approval rules, external status checks of the top tier, keyset pages.
//! Read next: `state.rs`, then `engine.rs` for what moves a pipeline.

use std::sync::{Arc, Mutex, PoisonError};

use super::wire::Wire;

mod acts;
mod acts_ci;
mod acts_issues;
mod ask;
mod bodies;
mod bodies_ci;
mod deliveries;
mod engine;
mod events;
mod graphql;
mod hooks;
mod new;
mod payloads;
mod payloads_issue;
mod quick_actions;
mod restart;
mod routes;
mod routes_change;
mod routes_ci;
mod routes_issues;
mod routes_notes;
mod routes_project;
mod state;
mod statuses;
mod train;
mod views;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ci;
#[cfg(test)]
mod tests_hooks;
#[cfg(test)]
mod tests_status;

pub use deliveries::Delivered;
pub use hooks::{HookSecret, HookState};
pub use new::{NewIssue, NewJob, NewMergeRequest, NewNote, NewPipeline, NoteKind, Options};
pub use train::TrainPlace;
pub use views::{IssueView, JobView, MergeRequestView, NoteView, PipelineView, StatusView};

use state::State;

/// A running sandbox GitLab. Cheap to clone; all clones are the same one.
#[derive(Clone, Debug)]
pub struct GitLabSandbox {
    wire: Wire,
    state: Arc<Mutex<State>>,
    client: reqwest::Client,
}

impl GitLabSandbox {
    /// Starts one on a free loopback port.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(options: Options) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        Self::start_on(listener, options)
    }

    /// Starts one on a listener that is already bound; must be called inside a runtime.
    ///
    /// # Errors
    /// When the listener has no local address or the HTTP client cannot be made.
    pub fn start_on(listener: tokio::net::TcpListener, options: Options) -> std::io::Result<Self> {
        let state = Arc::new(Mutex::new(State::new(&options)));
        let wire = Wire::serve_on(listener, routes::router(Arc::clone(&state)))?;
        // Webhooks go out over plain HTTP on loopback: reading the system's certificates would only cost time.
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(std::io::Error::other)?;
        let sandbox = Self { wire, state, client };
        let address = sandbox.wire.base_url();
        sandbox.with(|state| state.base = format!("{address}{}", state.prefix));
        Ok(sandbox)
    }

    /// Its address, history and faults.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The instance's address with its path prefix, without a trailing slash; the REST interface is below `/api/v4`.
    pub fn base_url(&self) -> String {
        self.with(|state| state.base.clone())
    }

    /// Sets the clock, in milliseconds since 1970.
    pub fn set_now(&self, epoch_ms: i64) {
        self.with(|state| state.now_ms = epoch_ms);
    }

    /// Reads the clock, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.with(|state| state.now_ms)
    }

    /// Allows so many requests a minute of the sandbox's clock; more get 429 in plain text.
    pub fn set_rate_limit(&self, per_minute: u64) {
        self.with(|state| state.throttle.limit = per_minute);
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
