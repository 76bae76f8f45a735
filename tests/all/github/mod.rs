//! The GitHub client, forge and runner against the sandbox GitHub, over real HTTP.

mod calls;
mod examples;
mod forge;
mod hooks;
mod issues;
mod queue;
mod referee;
mod runner;

use std::sync::Arc;
use std::time::Duration;

use retest_bot::api::github::{Auth, GitHubApi, GitHubConfig};
use retest_bot::domain::{Actor, ForgeName, Repo, RepoKey, RunnerName, Timestamp};
use retest_bot::forge::github::{GitHub, GitHubForgeConfig};
use retest_bot::ports::{Clock as _, ManualClock, Secrets};
use retest_bot::runner::github_actions::GitHubActions;
use retest_bot::sandbox::github::{AppOptions, GitHubSandbox, Options};

pub const REPO: &str = "acme/board";
pub const HEAD: &str = "1111111111111111111111111111111111111111";
pub const APP: u64 = 77;
pub const INSTALLATION: u64 = 9;
pub const SECRET: &str = "a-webhook-secret-of-enough-length";
pub const START_MS: i64 = 1_800_000_000_000;
const TOKEN: &str = "a-personal-token";

/// A sandbox with one repository, and everything of ours that talks to it.
pub struct Site {
    pub sandbox: GitHubSandbox,
    pub clock: ManualClock,
    pub api: Arc<GitHubApi>,
    pub forge: GitHub,
    pub runner: GitHubActions,
    pub repo: Repo,
}

pub fn app() -> Auth {
    let pem = include_str!("../../fixtures/github/app-key.pem");
    Auth::App { id: APP, private_key_pem: pem.into() }
}

pub fn token() -> Auth {
    Auth::Token(TOKEN.into())
}

fn options() -> Options {
    Options {
        app: Some(AppOptions { id: APP, slug: "retest-bot".into(), installation_id: INSTALLATION }),
        token: Some(TOKEN.into()),
        public_url: None,
        start_ms: START_MS,
    }
}

impl Site {
    pub async fn new(auth: Auth) -> Self {
        Self::with_timeout(auth, Duration::from_secs(20)).await
    }

    pub async fn with_timeout(auth: Auth, request_timeout: Duration) -> Self {
        let sandbox = GitHubSandbox::start(options()).await.expect("a loopback port");
        let api_url = sandbox.base_url();
        Self::over(sandbox, &api_url, auth, request_timeout)
    }

    /// A sandbox on `listener` that is reached, and speaks of itself, under another address.
    pub async fn behind(auth: Auth, listener: tokio::net::TcpListener, public_url: &str) -> Self {
        let options = Options { public_url: Some(public_url.into()), ..options() };
        let sandbox = GitHubSandbox::start_on(listener, options).expect("a server");
        Self::over(sandbox, public_url, auth, Duration::from_secs(20))
    }

    fn over(sandbox: GitHubSandbox, api_url: &str, auth: Auth, request_timeout: Duration) -> Self {
        let id = sandbox.add_repo(REPO);
        let clock = ManualClock::at(Timestamp::from_ms(START_MS));
        let config = GitHubConfig {
            name: ForgeName::new("github"),
            api_url: api_url.parse().expect("an address"),
            api_version: "2022-11-28".into(),
            auth,
            request_timeout,
            pause_between_writes: Duration::ZERO,
        };
        let installation = config.auth.app_id().map(|_| INSTALLATION);
        let api = GitHubApi::new(config, http_client(), Arc::new(clock.clone())).expect("a client");
        let api = Arc::new(api);
        let forge_config = GitHubForgeConfig {
            webhook_secrets: Secrets::new(vec![SECRET.into()]),
            repositories: None,
            bot_login: None,
            may_hold_command: Arc::new(|text| text.contains('/')),
        };
        let forge = GitHub::new(Arc::clone(&api), forge_config, Arc::new(clock.clone()));
        let runner = GitHubActions::new(RunnerName::new("actions"), Arc::clone(&api));
        let repo = Repo {
            key: RepoKey { forge: ForgeName::new("github"), id },
            full_name: REPO.into(),
            installation,
            default_branch: None,
        };
        Self { sandbox, clock, api, forge, runner, repo }
    }

    /// Moves our clock and GitHub's alike.
    pub fn wait(&self, span: Duration) {
        self.clock.advance(span);
        self.sandbox.set_now(self.clock.now().ms());
    }

    pub fn actor(&self, login: &str) -> Actor {
        Actor { id: self.sandbox.user_id(login), login: login.into(), is_bot: false }
    }

    /// How many requests with this method and path part arrived.
    pub fn count(&self, method: &http::Method, path_part: &str) -> usize {
        self.sandbox.wire().count(method, path_part)
    }
}

pub fn http_client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().expect("a client")
}
