//! `[api]` and `[[template]]` as written.
//!
//! Read next: `../api.rs`, which checks them.

use super::super::words::ApiScope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The REST API.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// Who may use it; without a token it answers nobody.
    pub tokens: Vec<ApiToken>,
}

/// A token of the REST API, by its hash.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiToken {
    /// Who it belongs to. Lower-case letters, digits and `-`.
    #[schemars(required)]
    pub name: Option<String>,
    /// SHA-256 of the token in hex.
    #[schemars(required)]
    pub sha256: Option<String>,
    /// What it may do.
    pub scopes: Vec<ApiScope>,
    /// Repositories it may touch, as globs over the full name. What belongs to no repository needs `**`.
    pub repositories: Vec<String>,
}

impl Default for ApiToken {
    fn default() -> Self {
        Self { name: None, sha256: None, scopes: Vec::new(), repositories: vec!["**".into()] }
    }
}

/// A job description that clients of the API may start by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Template {
    /// Its name. Lower-case letters, digits and `-`.
    #[schemars(required)]
    pub name: Option<String>,
    /// The runner that runs it.
    #[schemars(required)]
    pub runner: Option<String>,
    /// What the run is called; for exec and http one of the runner's jobs.
    #[schemars(required)]
    pub job: Option<String>,
    /// Parameters that must be given.
    pub required: Vec<String>,
    /// Further parameters with their defaults.
    pub defaults: BTreeMap<String, String>,
    /// The whole definition, a template; each value brings its own quotes, as a JSON string.
    pub definition: Option<String>,
    /// Fields of the job, each a template.
    pub overrides: BTreeMap<String, String>,
}
