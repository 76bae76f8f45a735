//! Who may use the API: bearer tokens, known by their hash, with scopes and repositories.
//!
//! A token is hashed and compared with every configured hash in constant time, so that neither the time nor the answer
//! tells how near a guess was. Nothing here logs what was sent.

use axum::http::{HeaderMap, StatusCode, header};
use globset::GlobSet;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::Problem;
use crate::domain::Repo;
use crate::flow::Client;
use crate::http::Http;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// See the jobs of a revision.
    JobsRead,
    /// Register and update jobs.
    JobsWrite,
    /// See retries.
    RetriesRead,
    /// Ask the planner for retries, and cancel them.
    RetriesCreate,
    /// Also for jobs that passed.
    RetriesForce,
    /// Ask the dispatcher for a described run.
    RunsCreate,
}

impl Scope {
    /// The word of the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobsRead => "jobs:read",
            Self::JobsWrite => "jobs:write",
            Self::RetriesRead => "retries:read",
            Self::RetriesCreate => "retries:create",
            Self::RetriesForce => "retries:force",
            Self::RunsCreate => "runs:create",
        }
    }
}

/// A token by its hash.
#[derive(Clone, Debug)]
pub struct ApiToken {
    /// Who it belongs to.
    pub name: String,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Repositories it may touch.
    pub repositories: GlobSet,
}

/// A client whose token was right, and has the scope that was asked for.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    token: &'a ApiToken,
}

impl<'a> Caller<'a> {
    /// Checks the token of a request.
    ///
    /// # Errors
    /// 401 without a right token, 403 without the scope.
    pub(super) fn check(http: &'a Http, headers: &HeaderMap, scope: Scope) -> Result<Self, Problem> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|text| text.split_once(' ')).filter(|(word, _)| word.eq_ignore_ascii_case("bearer"));
        let refuse = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, detail).with("www-authenticate", "Bearer");
        let Some((_, given)) = given else {
            return Err(refuse(
                "send a token: `Authorization: Bearer TOKEN`; the operator declares tokens in [[api.tokens]]",
            ));
        };
        let hash: [u8; 32] = Sha256::digest(given.trim().as_bytes()).into();
        // Every hash is compared whole, whether or not an earlier one fitted.
        let mut found = None;
        for token in http.tokens.iter() {
            if bool::from(token.sha256.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        let Some(token) = found else {
            tracing::warn!("a request of the API with a wrong token was refused");
            return Err(refuse("this token is not known here; compare its SHA-256 with [[api.tokens]]"));
        };
        let caller = Self { token };
        caller.may(scope)?;
        Ok(caller)
    }

    /// Whether it has one more scope.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Problem> {
        if self.token.scopes.contains(&scope) {
            return Ok(());
        }
        let detail =
            format!("token `{}` lacks the scope `{}`; the operator can add it", self.token.name, scope.as_str());
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }

    /// Whether it may touch a repository. To those that it may not, the answer is as if there were none.
    pub(super) fn reaches(&self, repo: &Repo) -> bool {
        self.token.repositories.is_match(&repo.full_name)
    }

    /// Whether it may touch what belongs to no repository.
    pub(super) fn reaches_all(&self) -> bool {
        self.token.repositories.is_match("")
    }

    pub(super) fn client(&self) -> Client {
        Client { name: self.token.name.clone() }
    }
}
