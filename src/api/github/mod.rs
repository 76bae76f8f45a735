//! GitHub's REST API, as far as this program needs it.
//!
//! octocrab signs the App's tokens and carries the requests; everything that decides what an answer means is ours:
//! limits ([`GitHubApi::throttled_until`]), redirects, conditional requests, and the four ways a call can fail.
//! It refuses to repeat a write, to follow a redirect to another host, and to decode more than it needs.
//! Read next: `client.rs`, then `outcome.rs`.

mod access;
mod cache;
mod client;
mod exchange;
mod limits;
mod outcome;
mod when;
pub mod wire;
pub mod words;

use std::time::Duration;

use secrecy::SecretString;
use thiserror::Error;
use url::Url;

use crate::domain::ForgeName;

pub use client::{GitHubApi, Page, Write, repo_path, segment};
pub use outcome::{Failure, Need};
pub use when::{iso, timestamp};

/// What one configured GitHub needs to be called.
#[derive(Clone, Debug)]
pub struct GitHubConfig {
    /// The configured name of the forge.
    pub name: ForgeName,
    /// `https://api.github.com`, or `https://HOST/api/v3` for GitHub Enterprise Server.
    pub api_url: Url,
    /// The text of `X-GitHub-Api-Version`, such as `2022-11-28`.
    pub api_version: String,
    /// Who we are.
    pub auth: Auth,
    /// How long one request, its answer included, may take.
    pub request_timeout: Duration,
    /// Least time between two writes of one installation; GitHub advises one second. Zero for no pause.
    pub pause_between_writes: Duration,
}

/// Who we are at GitHub.
#[derive(Clone, Debug)]
pub enum Auth {
    /// A GitHub App; repositories are reached through its installations.
    App {
        /// The App's numeric id.
        id: u64,
        /// Its private key, PKCS#1 or PKCS#8 in PEM.
        private_key_pem: SecretString,
    },
    /// A personal access token: no check runs, everything else works.
    Token(SecretString),
}

impl Auth {
    /// The App's id; none with a token.
    pub const fn app_id(&self) -> Option<u64> {
        match self {
            Self::App { id, .. } => Some(*id),
            Self::Token(_) => None,
        }
    }
}

/// Why a client could not be made of its configuration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("forge `{forge}`: {problem}")]
pub struct SetupError {
    /// The configured name of the forge.
    pub forge: String,
    /// What is wrong, without any secret.
    pub problem: String,
}
