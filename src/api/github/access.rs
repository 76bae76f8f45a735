//! Who we are towards a repository: the token itself, or an installation's short-lived token for that one repository.
//!
//! A token is minted once however many calls want it first, is narrowed to the repository, kept in memory only, and
//! renewed before it ends. octocrab signs the App's JWT.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method};
use octocrab::Octocrab;
use octocrab::models::AppId;
use secrecy::{ExposeSecret, SecretString};

use super::exchange::{Outgoing, Raw, exchange};
use super::limits::Limits;
use super::outcome::{Asked, Failure, Need, message};
use super::wire::{Id, Token};
use super::{Auth, GitHubConfig, SetupError, timestamp};
use crate::domain::{Repo, Timestamp};
use crate::ports::Clock;

/// Name sent with every request; GitHub refuses requests without one.
pub(super) const USER_AGENT: &str = concat!("retest-bot/", env!("CARGO_PKG_VERSION"));
/// A token that ends sooner than this is renewed first.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// Life of a token whose answer does not tell it; GitHub grants an hour.
const LIFE_UNTOLD: Duration = Duration::from_secs(3_000);

const FIND_INSTALLATION: Need = Need { doing: "find the App's installation", permission: "an installation of the App" };
const MINT: Need = Need { doing: "enter this repository", permission: "an installation of the App" };

/// A client that is signed for one purpose.
#[derive(Clone)]
pub(super) struct Key {
    pub crab: Arc<Octocrab>,
    /// Changes with the token; ETags are good for one generation only.
    pub generation: u64,
    /// What limits are counted by.
    pub installation: Option<u64>,
}

struct Minted {
    key: Key,
    ends_at: Timestamp,
}

type Slot = Arc<tokio::sync::Mutex<Option<Minted>>>;

/// Gives out signed clients.
pub(super) struct Access {
    /// The App by its JWT, or the token.
    base: Arc<Octocrab>,
    app_id: Option<u64>,
    clock: Arc<dyn Clock>,
    limits: Arc<Limits>,
    api_version: HeaderValue,
    timeout: Duration,
    slots: Mutex<HashMap<(u64, u64), Slot>>,
    /// Installations found for repositories that came without one.
    found: Mutex<HashMap<u64, u64>>,
    generations: AtomicU64,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("app_id", &self.app_id).finish_non_exhaustive()
    }
}

impl Access {
    /// Must be called inside a Tokio runtime: octocrab starts a task.
    pub fn new(
        config: &GitHubConfig,
        http: reqwest::Client,
        clock: Arc<dyn Clock>,
        limits: Arc<Limits>,
    ) -> Result<Self, SetupError> {
        let problem = |problem: String| SetupError { forge: config.name.to_string(), problem };
        let builder = Octocrab::builder()
            .base_uri(config.api_url.as_str())
            .map_err(|_| problem(format!("`{}` is no usable API address", config.api_url)))?
            .add_header(http::header::USER_AGENT, USER_AGENT.to_owned());
        let builder = match &config.auth {
            Auth::App { id, private_key_pem } => builder
                .app_from_rsa_pem(AppId(*id), private_key_pem.expose_secret().as_bytes())
                .map_err(|_| problem("the App's private key is no RSA key in PEM".to_owned()))?,
            Auth::Token(token) => {
                HeaderValue::from_str(token.expose_secret())
                    .map_err(|_| problem("the token holds characters that no token has".to_owned()))?;
                builder.personal_token(SecretString::from(token.expose_secret()))
            }
        };
        let base =
            builder.build_with_reqwest(http).map_err(|_| problem("the HTTP client cannot be built".to_owned()))?;
        let api_version = HeaderValue::from_str(&config.api_version)
            .map_err(|_| problem("the API version must be a date such as 2022-11-28".to_owned()))?;
        Ok(Self {
            base: Arc::new(base),
            app_id: config.auth.app_id(),
            clock,
            limits,
            api_version,
            timeout: config.request_timeout,
            slots: Mutex::default(),
            found: Mutex::default(),
            generations: AtomicU64::new(1),
        })
    }

    /// The App itself, or the token.
    pub fn own(&self) -> Key {
        Key { crab: Arc::clone(&self.base), generation: 0, installation: None }
    }

    pub const fn api_version(&self) -> &HeaderValue {
        &self.api_version
    }

    /// A client for one repository.
    pub async fn key(&self, repo: &Repo) -> Result<Key, Failure> {
        if self.app_id.is_none() {
            return Ok(self.own());
        }
        let installation = match repo.installation {
            Some(id) => id,
            None => self.find_installation(repo).await?,
        };
        let slot = self.slot(installation, repo.key.id);
        // Held while minting: whoever comes second finds the token of the first.
        let mut minted = slot.lock().await;
        if let Some(good) = minted.as_ref().filter(|m| m.ends_at > self.clock.now().plus(RENEW_BEFORE)) {
            return Ok(good.key.clone());
        }
        let fresh = self.mint(installation, repo.key.id).await?;
        let key = fresh.key.clone();
        *minted = Some(fresh);
        Ok(key)
    }

    /// The installation whose limits count for the repository, as far as it is known without asking.
    pub fn installation(&self, repo: &Repo) -> Option<u64> {
        self.app_id?;
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        repo.installation.or_else(|| found.get(&repo.key.id).copied())
    }

    /// Forgets a token that GitHub no longer takes. Whether another one can be had.
    pub async fn renew(&self, repo: &Repo, refused: &Key) -> bool {
        let Some(installation) = refused.installation else { return false };
        let slot = self.slot(installation, repo.key.id);
        let mut minted = slot.lock().await;
        if minted.as_ref().is_some_and(|m| m.key.generation == refused.generation) {
            *minted = None;
        }
        true
    }

    fn slot(&self, installation: u64, repo_id: u64) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry((installation, repo_id)).or_default())
    }

    async fn mint(&self, installation: u64, repo_id: u64) -> Result<Minted, Failure> {
        let body = serde_json::json!({ "repository_ids": [repo_id] }).to_string();
        let out = Outgoing {
            method: Method::POST,
            path: format!("/app/installations/{installation}/access_tokens"),
            body: Some(Bytes::from(body)),
            if_none_match: None,
        };
        let (asked, raw) = self.ask(&out, MINT).await?;
        let token: Token = serde_json::from_slice(&raw.body).map_err(|e| {
            Failure::unreadable(&asked, raw.status, &format!("line {} column {}", e.line(), e.column()))
        })?;
        let secret = SecretString::from(token.token);
        let crab = self
            .base
            .user_access_token(secret)
            .map_err(|_| Failure::unreadable(&asked, raw.status, "the token cannot be used"))?;
        let told = token.expires_at.as_deref().and_then(timestamp);
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let key = Key { crab: Arc::new(crab), generation, installation: Some(installation) };
        Ok(Minted { key, ends_at: told.unwrap_or_else(|| self.clock.now().plus(LIFE_UNTOLD)) })
    }

    async fn find_installation(&self, repo: &Repo) -> Result<u64, Failure> {
        if let Some(known) = self.installation(repo) {
            return Ok(known);
        }
        let out = Outgoing::get(format!("{}/installation", super::repo_path(repo)));
        let (asked, raw) = self.ask(&out, FIND_INSTALLATION).await?;
        let Id { id } =
            serde_json::from_slice(&raw.body).map_err(|e| Failure::unreadable(&asked, raw.status, &e.to_string()))?;
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(repo.key.id, id);
        Ok(id)
    }

    /// Asks as the App. Minting changes nothing that anybody would miss, so a lost answer is simply asked for again.
    async fn ask(&self, out: &Outgoing, need: Need) -> Result<(Asked, Raw), Failure> {
        let endpoint = format!("{} {}", out.method, out.path);
        let asked = Asked { need, endpoint, writes: false, as_app: true };
        let raw = exchange(&self.base, out, &self.api_version, self.timeout).await;
        let raw = raw.map_err(|lost| Failure::lost(&asked, lost))?;
        if raw.status.is_success() {
            return Ok((asked, raw));
        }
        match self.limits.learn(None, raw.status, &raw.headers, &message(&raw)) {
            Some(wait) => Err(Failure::throttled(&asked, Some(raw.status.as_u16()), wait)),
            None => Err(Failure::of_answer(&asked, &raw)),
        }
    }
}
