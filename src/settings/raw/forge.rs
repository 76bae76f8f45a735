//! `[[forge]]` as written, and how a secret is pointed to.
//!
//! One flat struct serves both kinds, so that a key of the other kind gets a fault of its own instead of "unknown".
//! Read next: `../forge.rs`, which says which key belongs to which kind.

use super::super::words::ForgeKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of GitHub's REST API asked for unless the file says otherwise.
pub const API_VERSION: &str = "2022-11-28";

/// One GitHub or GitLab instance.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Forge {
    /// Our name for it; its webhooks arrive at `/webhooks/NAME`. Lower-case letters, digits and `-`.
    #[schemars(required)]
    pub name: Option<String>,
    /// `github` or `gitlab`.
    #[schemars(required)]
    pub kind: Option<ForgeKind>,
    /// GitHub: API address, `https://api.github.com` unless given; Enterprise Server has it at `https://HOST/api/v3`.
    /// GitLab: address of the instance with its path prefix, `https://gitlab.com` unless given.
    pub api_url: Option<String>,
    /// Address people see in their browser. Derived from `api_url` unless given.
    pub web_url: Option<String>,
    /// GitHub only: secrets of the webhooks, each at least 24 bytes. Any one of them verifies a delivery, so that a new one can be rolled out first.
    pub webhook_secrets: Vec<Secret>,
    /// GitLab only: plain secret tokens of the webhooks, each at least 24 bytes.
    pub webhook_tokens: Vec<Secret>,
    /// GitLab only: signing tokens of the webhooks (`whsec_…`). May stand beside `webhook_tokens`; one of the two is needed.
    pub signing_keys: Vec<Secret>,
    /// GitHub only: act as this App. Excludes `token`.
    pub app: Option<App>,
    /// Access token. GitHub: instead of `app`. GitLab: always.
    pub token: Option<Secret>,
    /// Repositories a verified delivery may touch, as globs over the full name: `*` stays within one path segment, `**` does not.
    pub repositories: Vec<String>,
    /// GitHub only: version of the REST API asked for.
    #[schemars(extend("default" = API_VERSION))]
    pub api_version: Option<String>,
    /// One call to the forge may take this long.
    pub request_timeout: String,
    /// The login we act as, so that our own comments are ignored. Asked from the forge unless given.
    pub bot_login: Option<String>,
    /// Pause between two writes to this forge; GitHub advises a second. `0s` for none.
    pub pause_between_writes: String,
}

impl Default for Forge {
    fn default() -> Self {
        Self {
            name: None,
            kind: None,
            api_url: None,
            web_url: None,
            webhook_secrets: Vec::new(),
            webhook_tokens: Vec::new(),
            signing_keys: Vec::new(),
            app: None,
            token: None,
            repositories: vec!["**".into()],
            api_version: None,
            request_timeout: "20s".into(),
            bot_login: None,
            pause_between_writes: "1s".into(),
        }
    }
}

/// A GitHub App.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct App {
    /// The App's number, from its settings page.
    #[schemars(required)]
    pub id: Option<u64>,
    /// Its private key in PEM form.
    #[schemars(required)]
    pub private_key: Option<Secret>,
}

/// Where a secret is found: exactly one of `env` and `file`. The secret itself never stands in the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secret {
    /// Name of the environment variable that holds it.
    pub env: Option<String>,
    /// File that holds it; one newline at the end does not count.
    pub file: Option<String>,
    /// A name for it in logs and metrics, to see whether an old one is still in use. Never part of the secret.
    pub id: Option<String>,
}
