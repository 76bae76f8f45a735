//! Who asks, what they may do, and how much of it: tokens, permissions, and GitHub's limits.
//!
//! A JWT is checked for its shape, algorithm, issuer and life time, not for its signature: the sandbox has no key.
//! Read next: `routes.rs`.

use axum::http::HeaderMap;
use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ask::{Answer, Ask};
use super::state::{State, iso};

/// Life of an installation token.
const TOKEN_LIFE_MS: i64 = 3_600_000;

/// Longest life GitHub grants a JWT, plus the minute clients set `iat` back.
const JWT_LIFE_S_MAX: i64 = 660;

/// Length of the primary limit's window.
const WINDOW_MS: i64 = 3_600_000;

/// The asker of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Who {
    Nobody,
    /// The App itself, by JWT.
    App,
    /// The installation, by a token it minted (index into the tokens).
    Installation(usize),
    Person(String),
}

#[derive(Debug)]
pub(super) struct Token {
    pub text: String,
    pub expires_ms: i64,
    /// Repository ids the token is narrowed to; empty means all.
    pub repos: Vec<u64>,
    /// Permissions the token is narrowed to, by name.
    pub permissions: std::collections::BTreeMap<String, String>,
    pub narrowed: bool,
}

/// The primary limit.
#[derive(Debug)]
pub(super) struct Budget {
    pub limit: u64,
    pub used: u64,
    pub reset_ms: i64,
    /// What an exhausted budget answers: 403 or 429.
    pub status: u16,
}

impl Budget {
    pub fn new(now_ms: i64) -> Self {
        Self { limit: 5_000, used: 0, reset_ms: now_ms + WINDOW_MS, status: 403 }
    }

    /// Opens a new window when the old one is over.
    pub fn roll(&mut self, now_ms: i64) {
        if now_ms >= self.reset_ms {
            self.used = 0;
            self.reset_ms = now_ms + WINDOW_MS;
        }
    }

    pub fn body(&self, now_ms: i64) -> Value {
        let core = json!({
            "limit": self.limit,
            "used": self.used,
            "remaining": self.limit.saturating_sub(self.used),
            "reset": self.reset_ms / 1_000,
        });
        let search = json!({"limit": 30, "used": 0, "remaining": 30, "reset": now_ms / 1_000 + 60});
        json!({"resources": {"core": core, "search": search}, "rate": core})
    }
}

/// A limit that strikes regardless of the budget.
#[derive(Clone, Debug)]
pub struct Throttle {
    /// 403 or 429.
    pub status: u16,
    /// Seconds of `retry-after`; none sends a limit without that header.
    pub retry_after_s: Option<u64>,
    /// How many requests it strikes.
    pub times: u32,
}

impl State {
    /// Finds out who asks, or gives the 401 that answers them.
    pub fn who(&self, headers: &HeaderMap) -> Result<Who, Answer> {
        let Some(value) = headers.get("authorization").and_then(|value| value.to_str().ok()) else {
            return Ok(Who::Nobody);
        };
        let text = value.split_once(' ').map_or(value, |(_, token)| token).trim();
        if let Some((_, login)) = self.personal.iter().find(|(token, _)| token == text) {
            return Ok(Who::Person(login.clone()));
        }
        let known = self.tokens.iter().position(|token| token.text == text);
        if known.is_some() && self.suspended {
            return Err(Answer::error(403, "This installation has been suspended"));
        }
        if let Some(at) = known.filter(|at| self.tokens[*at].expires_ms > self.now_ms) {
            return Ok(Who::Installation(at));
        }
        if known.is_none() && self.is_our_jwt(text) {
            return Ok(Who::App);
        }
        Err(Answer::error(401, "Bad credentials"))
    }

    fn is_our_jwt(&self, text: &str) -> bool {
        let Some(app) = &self.app else { return false };
        let mut parts = text.split('.').map(|part| {
            let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).ok()?;
            Some(serde_json::from_slice::<Value>(&bytes).unwrap_or_default())
        });
        let (Some(Some(header)), Some(Some(claims)), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let issuer = match &claims["iss"] {
            Value::String(text) => text == &app.id.to_string() || *text == format!("Iv1.{}", app.id),
            other => other.as_u64() == Some(app.id),
        };
        let life = claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(exp, iat)| exp - iat);
        header["alg"] == "RS256" && issuer && life.is_some_and(|s| (1..=JWT_LIFE_S_MAX).contains(&s))
    }

    /// The login that changes are made under.
    pub fn login_of(&self, who: &Who) -> String {
        match (who, &self.app) {
            (Who::Person(login), _) => login.clone(),
            (_, Some(app)) => format!("{}[bot]", app.slug),
            _ => "ghost".to_owned(),
        }
    }

    /// Refuses an installation token that lacks `name` at `level`; people may do everything.
    pub fn need(&self, who: &Who, name: &str, level: &str) -> Result<(), Answer> {
        let Who::Installation(at) = who else { return Ok(()) };
        let token = &self.tokens[*at];
        let granted = if token.narrowed { &token.permissions } else { &self.permissions };
        let of_app = self.permissions.get(name).map(String::as_str);
        let of_token = granted.get(name).map(String::as_str);
        let enough = |held: Option<&str>| matches!(held, Some("write" | "admin")) || held == Some(level);
        if enough(of_app) && enough(of_token) {
            return Ok(());
        }
        Err(Answer::error(403, "Resource not accessible by integration"))
    }

    /// Whether an installation token reaches this repository.
    pub fn reaches(&self, who: &Who, repo_id: u64) -> bool {
        match who {
            Who::Installation(at) => {
                let repos = &self.tokens[*at].repos;
                repos.is_empty() || repos.contains(&repo_id)
            }
            Who::Nobody | Who::App | Who::Person(_) => true,
        }
    }

    /// `POST /app/installations/ID/access_tokens`.
    pub fn mint(&mut self, installation: &str, ask: &Ask) -> Answer {
        let Some(app) = self.app.clone() else { return Answer::not_found() };
        if installation.parse() != Ok(app.installation_id) {
            return Answer::not_found();
        }
        if self.suspended {
            return Answer::error(403, "This installation has been suspended");
        }
        let mut repos: Vec<u64> = Vec::new();
        for name in ask.body["repositories"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            match self.repos.values().find(|repo| repo.name.eq_ignore_ascii_case(name)) {
                Some(repo) => repos.push(repo.id),
                None => return Answer::error(422, "There is at least one repository that does not exist"),
            }
        }
        for id in ask.body["repository_ids"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
            if !self.repos.contains_key(&id) {
                return Answer::error(422, "There is at least one repository that does not exist");
            }
            repos.push(id);
        }
        let asked = ask.body["permissions"].as_object();
        let mut permissions = self.permissions.clone();
        if let Some(asked) = asked {
            permissions = asked
                .iter()
                .map(|(name, level)| (name.clone(), level.as_str().unwrap_or_default().to_owned()))
                .collect();
            if permissions.keys().any(|name| !self.permissions.contains_key(name)) {
                let text = "The permissions requested are not granted to this installation.";
                return Answer::error(422, text);
            }
            permissions.entry("metadata".to_owned()).or_insert_with(|| "read".to_owned());
        }
        let number = self.id();
        let token = Token {
            text: stateless_token(app.id, number),
            expires_ms: self.now_ms + TOKEN_LIFE_MS,
            repos,
            permissions,
            narrowed: asked.is_some(),
        };
        let mut body = json!({
            "token": token.text,
            "expires_at": iso(token.expires_ms),
            "permissions": token.permissions,
            "repository_selection": if token.repos.is_empty() { "all" } else { "selected" },
        });
        if !token.repos.is_empty() {
            let repos = token.repos.iter().map(|id| self.repo_body(self.repo(*id), super::bodies::Whose::Own));
            body["repositories"] = repos.collect();
        }
        self.tokens.push(token);
        Answer::created(body)
    }

    /// Spends one request of the budget, or gives the answer of the limit that was hit.
    pub fn spend(&mut self) -> Result<(), Answer> {
        self.budget.roll(self.now_ms);
        if let Some(throttle) = self.throttles.front_mut() {
            let (status, wait) = (throttle.status, throttle.retry_after_s);
            throttle.times = throttle.times.saturating_sub(1);
            if throttle.times == 0 {
                self.throttles.pop_front();
            }
            let text = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
            let answer = Answer::error(status, text);
            return Err(match wait {
                Some(seconds) => answer.with("retry-after", seconds.to_string()),
                None => answer,
            });
        }
        if self.budget.used >= self.budget.limit {
            return Err(Answer::error(self.budget.status, "API rate limit exceeded for installation."));
        }
        self.budget.used += 1;
        Ok(())
    }
}

/// A token of the long form GitHub moves to: opaque, about 520 characters, with dots and dashes.
fn stateless_token(app_id: u64, number: u64) -> String {
    let mut tail = String::new();
    for part in 0_u64..8 {
        let seed = format!("sandbox token {number} part {part}");
        tail.push_str(&hex::encode(Sha256::digest(seed.as_bytes())));
        tail.push(if part % 2 == 0 { '-' } else { '.' });
    }
    format!("ghs_{app_id}_{}", tail.trim_end_matches('.'))
}
