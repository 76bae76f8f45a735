//! The REST API: who may what, jobs that others register, events for either stage, and the description of it all.

mod client;
mod events;
mod flakes;
mod jobs;

use http::StatusCode;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::story::{Script, Side, Stage};

pub const FULL: &str = "full-token-6f1d3c5a9b8e7042d1c3b5a7968f0e2d";
const READER: &str = "reader-token-0a8b6c4d2e0f8a9b7c5d3e1f908a6b4c";
const BOUND: &str = "bound-token-1d3c5a9b8e7042d1c3b5a7968f0e2d4c";
const STRANGER: &str = "stranger-token-9b8e7042d1c3b5a7968f0e2d4c6b8a";

fn hash(token: &str) -> String {
    hex::encode(Sha256::digest(token))
}

/// Tokens of all kinds, and a template for the lab.
pub fn configuration() -> String {
    let all = r#"["jobs:read", "jobs:write", "retries:read", "retries:create", "retries:force", "runs:create"]"#;
    let token = |name: &str, token: &str, scopes: &str, repositories: &str| {
        let hash = hash(token);
        format!(
            "[[api.tokens]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nscopes = {scopes}\nrepositories = {repositories}\n"
        )
    };
    let template = r#"
[[template]]
name = "boot"
runner = "lab"
job = "lava-x86"
required = ["kernel"]
defaults = { platform = "x86" }
overrides = { KERNEL = "{{ kernel }}" }
"#;
    [
        token("farm", FULL, all, "[\"**\"]"),
        token("reader", READER, r#"["jobs:read"]"#, "[\"**\"]"),
        token("bound", BOUND, all, "[\"acme/*\"]"),
        token("stranger", STRANGER, all, "[\"others/*\"]"),
        template.to_owned(),
    ]
    .concat()
}

pub async fn stage(side: Side) -> Stage {
    Stage::set_with(side, Script { extra: configuration(), ..Script::default() }).await
}

/// Sends a request and gives the status and the JSON.
pub async fn send(
    stage: &Stage,
    token: &str,
    (method, path): (http::Method, &str),
    body: Option<&Value>,
) -> (StatusCode, Value) {
    let url = format!("{}/api/v1{path}", stage.bot_url());
    let mut request = reqwest::Client::new().request(method, url);
    if !token.is_empty() {
        request = request.bearer_auth(token);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
