//! Webhooks: what happened is queued, and sent, signed and recorded when told.
//!
//! Every hook gets every event under the same GUID, except presses on an App's check, which only App hooks get.
//! Nothing is ever sent again by itself. Read next: `deliveries.rs`.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::bodies::{Whose, fields};
use super::state::State;
use super::{Delivered, GitHubSandbox};

/// Time the receiver has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Status code the service records when no answer came.
pub(super) const NO_ANSWER: u16 = 502;

/// Where webhooks go.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub id: u64,
    pub url: String,
    pub secret: String,
    /// The App's hook; else one of a repository.
    pub of_app: bool,
}

/// Something that happened, waiting to be sent.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub event: String,
    pub action: Option<String>,
    pub guid: String,
    pub payload: Map<String, Value>,
    pub repo_id: u64,
    /// Only this App hears of it.
    pub only_for: Option<u64>,
    /// Goes to this hook alone.
    pub to_hook: Option<u64>,
    /// Was sent before.
    pub again: bool,
    /// Recorded as failed without reaching the receiver.
    pub fails: bool,
}

/// One attempt to deliver.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub id: u64,
    pub hook_id: u64,
    pub delivered_ms: i64,
    pub redelivery: bool,
    pub status_code: u16,
    pub response: String,
    pub request_headers: Vec<(String, String)>,
    pub event: Event,
    pub body: Vec<u8>,
}

/// The head of an event: what, where, by whom.
#[derive(Debug)]
pub(super) struct Note<'a> {
    event: &'a str,
    action: Option<&'a str>,
    repo_id: u64,
    sender: &'a str,
    only_for: Option<u64>,
}

impl<'a> Note<'a> {
    pub fn new(event: &'a str, repo_id: u64, sender: &'a str) -> Self {
        Self { event, action: None, repo_id, sender, only_for: None }
    }

    pub fn action(mut self, action: &'a str) -> Self {
        self.action = Some(action);
        self
    }

    pub fn only_for(mut self, app_id: u64) -> Self {
        self.only_for = Some(app_id);
        self
    }
}

/// A delivery ready to be sent.
struct Parcel {
    hook: Hook,
    event: Event,
    body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl State {
    /// Queues an event with the fields that all events share.
    pub fn emit(&mut self, note: &Note<'_>, body: Value) {
        self.user(note.sender);
        let number = self.id();
        let repo = self.repo(note.repo_id);
        let mut payload = fields(body);
        if let Some(action) = note.action {
            payload.insert("action".to_owned(), action.into());
        }
        payload.insert("repository".to_owned(), self.repo_body(repo, Whose::Own));
        payload.insert("organization".to_owned(), self.organization_body(&repo.owner));
        payload.insert("sender".to_owned(), self.user_body(note.sender));
        self.queue.push_back(Event {
            event: note.event.to_owned(),
            action: note.action.map(str::to_owned),
            guid: guid(number),
            payload,
            repo_id: note.repo_id,
            only_for: note.only_for,
            to_hook: None,
            again: false,
            fails: false,
        });
        self.wake.notify_one();
    }

    fn parcel(&self, hook: &Hook, event: Event) -> Parcel {
        let mut payload = event.payload.clone();
        let app = self.app.as_ref().filter(|_| hook.of_app);
        if let Some(app) = app {
            let id = app.installation_id;
            payload.entry("installation").or_insert_with(|| json!({"id": id, "node_id": format!("I_{id}")}));
        }
        let body = Value::Object(payload).to_string().into_bytes();
        let (kind, target) = match app {
            Some(app) => ("integration", app.id),
            None => ("repository", event.repo_id),
        };
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", "GitHub-Hookshot/5a4db0x".to_owned()),
            ("x-github-event", event.event.clone()),
            ("x-github-delivery", event.guid.clone()),
            ("x-github-hook-id", hook.id.to_string()),
            ("x-github-hook-installation-target-type", kind.to_owned()),
            ("x-github-hook-installation-target-id", target.to_string()),
        ];
        if !hook.secret.is_empty() {
            headers.push(("x-hub-signature-256", sign(&hook.secret, &body)));
        }
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Parcel { hook: hook.clone(), event, body, headers }
    }

    /// Takes everything that is queued, once per hook that gets it; nothing while no hook is known.
    fn take_parcels(&mut self) -> Vec<Parcel> {
        if self.hooks.is_empty() {
            return Vec::new();
        }
        let events: Vec<Event> = self.queue.drain(..).collect();
        let mut parcels = Vec::new();
        for event in events {
            for hook in &self.hooks {
                let heard = event.only_for.is_none_or(|app| hook.of_app && self.own_app_id() == Some(app));
                if heard && event.to_hook.is_none_or(|id| id == hook.id) {
                    parcels.push(self.parcel(hook, event.clone()));
                }
            }
        }
        parcels
    }

    fn record(&mut self, parcel: Parcel, answer: Option<(u16, String)>) -> Delivered {
        let id = self.id();
        let status = answer.as_ref().map(|(status, _)| *status);
        let (status_code, response) = answer.unwrap_or((NO_ANSWER, String::new()));
        let delivered = Delivered {
            event: parcel.event.event.clone(),
            action: parcel.event.action.clone(),
            guid: parcel.event.guid.clone(),
            status,
        };
        self.deliveries.push(Delivery {
            id,
            hook_id: parcel.hook.id,
            delivered_ms: self.now_ms,
            redelivery: parcel.event.again,
            status_code,
            response,
            request_headers: parcel.headers,
            event: parcel.event,
            body: parcel.body,
        });
        delivered
    }
}

impl GitHubSandbox {
    /// Sends everything queued, in order, one after the other; empty while no hook is known.
    ///
    /// `status` of an entry is `None` when no answer came within 10 s. What the receiver causes meanwhile stays queued.
    pub async fn deliver(&self) -> Vec<Delivered> {
        let parcels = self.with(State::take_parcels);
        let mut delivered = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            let answer = if parcel.event.fails { None } else { send(&self.client, &parcel).await };
            delivered.push(self.with(|state| state.record(parcel, answer)));
        }
        delivered
    }

    /// Sends webhooks as they come, in the background, until the runtime ends.
    pub fn auto_deliver(&self) {
        let (sandbox, wake) = (self.clone(), self.with(|state| state.wake.clone()));
        tokio::spawn(async move {
            loop {
                wake.notified().await;
                sandbox.deliver().await;
            }
        });
        self.with(|state| state.wake.notify_one());
    }
}

async fn send(client: &reqwest::Client, parcel: &Parcel) -> Option<(u16, String)> {
    let mut request = client.post(&parcel.hook.url).timeout(ANSWER_WITHIN).body(parcel.body.clone());
    for (name, value) in &parcel.headers {
        request = request.header(name, value);
    }
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.text().await.unwrap_or_default()))
}

/// `sha256=` and the HMAC of the body, as in `X-Hub-Signature-256`.
pub(super) fn sign(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// A stable GUID for event number `number`.
fn guid(number: u64) -> String {
    let text = hex::encode(Sha256::digest(number.to_be_bytes()));
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..32])
}
