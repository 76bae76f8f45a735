//! What is asked of KernelCI: its Maestro API (`/latest/…`) and its pipeline's `jobretry`.
//!
//! Reads may be repeated, so a lost answer of one is [`CallError::Unreachable`]; a lost answer of a write stays unknown.
//! Read next: `../wire.rs` for what a failure means.

use std::time::Duration;

use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use super::super::wire;
use super::node::Node;
use crate::domain::Timestamp;
use crate::ports::CallError;

/// Nodes per page: what KernelCI's own client asks for. A page of full nodes stays below the 1 MiB that is read.
const PAGE: usize = 100;

/// Pages of one list: 20,000 nodes are far above what one commit has.
const PAGES_MAX: usize = 200;

/// Where KernelCI is, and how to speak there.
#[derive(Clone, Debug)]
pub struct KernelCiAccess {
    /// Address of the API, without `/latest`.
    pub api_url: Url,
    /// Token of an account whose events the scheduler hears; without it nothing is published.
    pub token: Option<SecretString>,
    /// Address of the pipeline's own service, for `jobretry`; none when it is not to be used.
    pub pipeline: Option<Pipeline>,
    /// Any request may take this long.
    pub timeout: Duration,
}

/// The pipeline's own service.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its address, without `/api`.
    pub url: Url,
    /// A token with the permission `testretry`; sent as it is, without a word before it.
    pub token: SecretString,
}

#[derive(Debug)]
pub(super) struct Api {
    access: KernelCiAccess,
    client: reqwest::Client,
    secrets: Vec<SecretString>,
    who: String,
}

impl Api {
    pub(super) fn new(access: KernelCiAccess, who: String) -> reqwest::Result<Self> {
        let client = wire::client(access.timeout)?;
        let pipeline = access.pipeline.iter().map(|p| p.token.clone());
        let secrets = access.token.iter().cloned().chain(pipeline).collect();
        Ok(Self { access, client, secrets, who })
    }

    pub(super) fn can_publish(&self) -> bool {
        self.access.token.is_some()
    }

    pub(super) fn has_fallback(&self) -> bool {
        self.access.pipeline.is_some()
    }

    /// The address of a node, for people and for us.
    pub(super) fn node_url(&self, id: &str) -> String {
        self.url(&format!("latest/node/{id}"))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.access.api_url.as_str().trim_end_matches('/'))
    }

    /// One node; none when there is none, for which the API answers the word `null`.
    pub(super) async fn node(&self, id: &str, now: Timestamp) -> Result<Option<Node>, CallError> {
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Ok(None); // no id of theirs, and nothing that may stand in an address
        }
        let answer = wire::send(self.client.get(self.node_url(id))).await.map_err(read)?;
        match answer.status.as_u16() {
            404 | 422 => Ok(None),
            200..300 => Ok(Node::new(answer.json().map_err(read)?)),
            _ => Err(read(answer.failure(&self.who, &self.secrets, now))),
        }
    }

    /// All nodes that fit the query, oldest first. A list that does not come whole is a failure.
    pub(super) async fn nodes(&self, query: &[(&str, &str)], now: Timestamp) -> Result<Vec<Node>, CallError> {
        let mut found: Vec<Node> = Vec::new();
        for page in 0..PAGES_MAX {
            let offset = page * PAGE;
            let place = [("limit", PAGE.to_string()), ("offset", offset.to_string())];
            let request = self.client.get(self.url("latest/nodes")).query(query).query(&place);
            let answer = wire::send(request).await.map_err(read)?;
            if !answer.status.is_success() {
                return Err(read(answer.failure(&self.who, &self.secrets, now)));
            }
            let json = answer.json().map_err(read)?;
            let (Some(items), Some(total)) =
                (json.get("items").and_then(Value::as_array), json.get("total").and_then(Value::as_u64))
            else {
                return Err(CallError::refused(format!("{}: its list of nodes is not in the known form", self.who)));
            };
            for node in items.iter().cloned().filter_map(Node::new) {
                // A node made while we turn the page moves the others on: one of them comes twice then.
                if !found.iter().any(|known| known.id() == node.id()) {
                    found.push(node);
                }
            }
            if items.is_empty() || offset as u64 + items.len() as u64 >= total {
                found.sort_by_key(Node::created_ms);
                return Ok(found);
            }
        }
        Err(CallError::refused(format!("{}: more than {} nodes in one list", self.who, PAGES_MAX * PAGE)))
    }

    /// Publishes on the channel that the scheduler reads. The answer says nothing about what comes of it.
    pub(super) async fn publish_retry(&self, event: &Value, now: Timestamp) -> Result<(), CallError> {
        let Some(token) = &self.access.token else {
            return Err(CallError::refused(format!("{}: no token to publish with is configured", self.who)));
        };
        let request = self.client.post(self.url("latest/publish/retry")).bearer_auth(token.expose_secret());
        self.write(request.json(&json!({ "data": event })), now).await
    }

    /// Asks the pipeline for the same; its "OK" proves nothing either.
    pub(super) async fn jobretry(&self, node: &str, now: Timestamp) -> Result<(), CallError> {
        let Some(pipeline) = &self.access.pipeline else {
            return Err(CallError::refused(format!("{}: no pipeline address is configured", self.who)));
        };
        let url = format!("{}/api/jobretry", pipeline.url.as_str().trim_end_matches('/'));
        let request = self.client.post(url).header(http::header::AUTHORIZATION, pipeline.token.expose_secret());
        self.write(request.json(&json!({ "nodeid": node })), now).await
    }

    async fn write(&self, request: RequestBuilder, now: Timestamp) -> Result<(), CallError> {
        let answer = wire::send(request).await?;
        if answer.status.is_success() { Ok(()) } else { Err(answer.failure(&self.who, &self.secrets, now)) }
    }
}

/// A read has no effect: whatever became of it, asking again is safe.
fn read(error: CallError) -> CallError {
    match error {
        CallError::Unknown { log } => CallError::Unreachable { log },
        other @ (CallError::Refused { .. } | CallError::Throttled { .. } | CallError::Unreachable { .. }) => other,
    }
}
