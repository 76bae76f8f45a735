//! A GitHub that lives in this process: state that moves, GitHub's REST wire format, and its webhooks.
//!
//! The paths, bodies and refusals are those of GitHub's own description, so a client cannot tell it from the service
//! by anything the bot uses. It refuses what the service refuses (see `reruns.rs`, `routes_ci.rs`). Its clock is set
//! by hand. Read next: `state.rs`, then `acts.rs` for what people do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::wire::Wire;

mod actions;
mod acts;
mod acts_app;
mod acts_ci;
mod acts_issues;
mod ask;
mod auth;
mod bodies;
mod bodies_change;
mod bodies_ci;
mod deliveries;
mod hooks;
mod queue;
mod reruns;
mod routes;
mod routes_app;
mod routes_change;
mod routes_checks;
mod routes_ci;
mod routes_issues;
mod routes_repo;
mod state;
mod views;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_ci;

pub use auth::Throttle;
pub use queue::QueuePlace;
pub use views::{CheckView, CommentView, IssueView, JobView, PullView, RunView, StatusEntry, StatusView};

use state::State;

/// Login behind the personal token of [`Options`].
pub const TOKEN_LOGIN: &str = "retest-user";

/// The GitHub App installed on every repository of the sandbox.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// App id; the issuer of its JWT.
    pub id: u64,
    /// Name in URLs; the App's login is `SLUG[bot]`.
    pub slug: String,
    /// Its one installation.
    pub installation_id: u64,
}

/// How a sandbox starts.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The App under test, if it is one.
    pub app: Option<AppOptions>,
    /// A personal token of [`TOKEN_LOGIN`].
    pub token: Option<String>,
    /// Start of absolute URLs in bodies, without a trailing slash; the listening address when `None`.
    pub public_url: Option<String>,
    /// The sandbox's clock, in milliseconds since 1970.
    pub start_ms: i64,
}

/// What [`GitHubSandbox::open_pull`] needs to know; empty texts get a sensible value.
#[derive(Clone, Debug, Default)]
pub struct NewPull {
    /// The head lies in a fork of the author's.
    pub from_fork: bool,
    /// Commit of the base branch.
    pub base_sha: String,
    /// Base branch; the default branch when empty.
    pub base_ref: String,
    /// Head branch; `change-N` when empty.
    pub head_ref: String,
    /// Title; `Change N` when empty.
    pub title: String,
    /// Not ready for review.
    pub draft: bool,
    /// Names of labels.
    pub labels: Vec<String>,
}

/// A job of a workflow.
#[derive(Clone, Debug, Default)]
pub struct NewJob {
    /// Name, unique in its workflow; also the name of its check run.
    pub name: String,
    /// Names of jobs that must pass first.
    pub needs: Vec<String>,
}

/// A workflow file.
#[derive(Clone, Debug, Default)]
pub struct NewWorkflow {
    /// Name shown to people.
    pub name: String,
    /// Path of the file, such as `.github/workflows/ci.yml`.
    pub path: String,
    /// Trigger, such as `pull_request`.
    pub event: String,
    /// Its jobs.
    pub jobs: Vec<NewJob>,
    /// The run waits for a maintainer's approval (conclusion `action_required`).
    pub needs_approval: bool,
}

/// One webhook that was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivered {
    /// Value of `X-GitHub-Event`.
    pub event: String,
    /// The payload's `action`.
    pub action: Option<String>,
    /// Value of `X-GitHub-Delivery`.
    pub guid: String,
    /// HTTP status of the receiver, `None` when no answer came.
    pub status: Option<u16>,
}

/// A running sandbox GitHub. Cheap to clone; all clones are the same one.
#[derive(Clone, Debug)]
pub struct GitHubSandbox {
    wire: Wire,
    state: Arc<Mutex<State>>,
    client: reqwest::Client,
}

impl GitHubSandbox {
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
        let mut state = State::new(options.app, options.start_ms);
        state.user_of_kind("sandbox", "Organization");
        if let Some(app) = state.app.clone() {
            state.user(&format!("{}[bot]", app.slug));
        }
        if let Some(token) = options.token {
            state.user(TOKEN_LOGIN);
            state.personal.push((token, TOKEN_LOGIN.to_owned()));
        }
        let state = Arc::new(Mutex::new(state));
        let wire = Wire::serve_on(listener, routes::router(Arc::clone(&state)))?;
        let client = reqwest::Client::builder()
            .no_proxy()
            // Receivers are plain loopback HTTP: reading the system's certificates would only cost time.
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(std::io::Error::other)?;
        let api = options.public_url.unwrap_or_else(|| wire.base_url());
        let sandbox = Self { wire, state, client };
        sandbox.with(|state| state.api = api.trim_end_matches('/').to_owned());
        Ok(sandbox)
    }

    /// Its address, history and faults.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Where the REST API listens, without a trailing slash.
    pub fn base_url(&self) -> String {
        self.wire.base_url()
    }

    /// Sets the clock, in milliseconds since 1970.
    pub fn set_now(&self, epoch_ms: i64) {
        self.with(|state| state.now_ms = epoch_ms);
    }

    /// Reads the clock, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        self.with(|state| state.now_ms)
    }

    /// Moves the clock on by so many milliseconds.
    pub fn advance(&self, by_ms: i64) {
        self.with(|state| state.now_ms += by_ms);
    }

    /// Sets the primary limit: requests per hour and how many are left; `status` (403 or 429) answers the rest.
    pub fn set_budget(&self, limit: u64, remaining: u64, status: u16) {
        self.with(|state| {
            state.budget.limit = limit;
            state.budget.used = limit.saturating_sub(remaining);
            state.budget.status = status;
        });
    }

    /// Makes the next requests hit a secondary limit; earlier throttles strike first.
    pub fn throttle(&self, throttle: Throttle) {
        self.with(|state| state.throttles.push_back(throttle));
    }

    /// Gives the App exactly these permissions, by name (`read` or `write`); tokens already minted lose the others.
    pub fn grant_app(&self, permissions: &[(&str, &str)]) {
        let given: BTreeMap<String, String> =
            permissions.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect();
        self.with(|state| state.permissions = given);
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
