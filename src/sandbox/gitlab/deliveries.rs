//! Sends what waits, signs it, and loses, repeats and reorders it on command.
//!
//! One delivery has one `Idempotency-Key` per hook, kept when it is sent again. Nothing is sent again by itself.
//! Read next: `hooks.rs`.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::GitLabSandbox;
use super::events::{Event, uuid};
use super::hooks::Hook;
use super::state::State;

/// Time the receiver has to answer: GitLab's default `webhook_timeout`.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// One webhook that was sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivered {
    /// Value of `X-Gitlab-Event`.
    pub event: String,
    /// Value of `Idempotency-Key`, and of `webhook-id` where the hook signs.
    pub uuid: String,
    /// The hook that it went to.
    pub hook: u64,
    /// HTTP status of the receiver, `None` when no answer came within 10 s.
    pub status: Option<u16>,
}

/// A delivery that was made, for sending it again.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    key: String,
    hook: u64,
    event: Event,
}

struct Parcel {
    hook: Hook,
    event: Event,
    key: String,
    body: Vec<u8>,
    headers: Vec<(&'static str, String)>,
}

impl State {
    /// Takes what waits, once per hook; nothing while there is no hook.
    fn take_events(&mut self) -> Vec<(u64, Event)> {
        if self.hooks.is_empty() {
            return Vec::new();
        }
        let events: Vec<Event> = self.queue.drain(..).collect();
        let ids: Vec<u64> = self.hooks.iter().map(|hook| hook.id).collect();
        let mut pairs = Vec::new();
        for event in events {
            let heard = |id: &&u64| event.again_to.is_none_or(|only| only == **id);
            pairs.extend(ids.iter().filter(heard).map(|id| (*id, event.clone())));
        }
        pairs
    }

    /// The request for one hook; nothing while the hook is disabled: the event is lost for it.
    fn parcel(&self, hook: u64, event: Event) -> Option<Parcel> {
        let hook = self.hooks.iter().find(|known| known.id == hook)?.clone();
        if !hook.is_executable(self.now_ms) {
            return None;
        }
        let key = uuid(&format!("delivery {} of {}", event.number, hook.id));
        let body = event.payload.to_string().into_bytes();
        let sends = self.sent.len();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", "GitLab/19.5.0".to_owned()),
            ("x-gitlab-event", event.name.to_string()),
            ("x-gitlab-instance", self.base.clone()),
            ("x-gitlab-event-uuid", event.event_uuid.clone()),
            ("x-gitlab-webhook-uuid", uuid(&format!("send {sends}"))),
            ("idempotency-key", key.clone()),
        ];
        if let Some(token) = &hook.secret.token {
            headers.push(("x-gitlab-token", token.clone()));
        }
        if let Some(signing) = &hook.secret.signing {
            let seconds = self.now_ms.div_euclid(1_000);
            headers.push(("webhook-signature", sign(signing, (&key, seconds), &body)));
            headers.push(("webhook-id", key.clone()));
            headers.push(("webhook-timestamp", seconds.to_string()));
        }
        Some(Parcel { hook, event, key, body, headers })
    }

    fn record(&mut self, parcel: Parcel, status: Option<u16>) -> Delivered {
        let now = self.now_ms;
        if let Some(hook) = self.hooks.iter_mut().find(|hook| hook.id == parcel.hook.id) {
            hook.count(status, now);
        }
        let event = parcel.event.name.to_string();
        let delivered = Delivered { event, uuid: parcel.key.clone(), hook: parcel.hook.id, status };
        self.sent.push(Sent { key: parcel.key, hook: parcel.hook.id, event: parcel.event });
        delivered
    }
}

impl GitLabSandbox {
    /// Sends everything that waits, in order, one after the other; empty while no hook is known.
    ///
    /// Events for a disabled hook are lost and not listed. What the receiver causes meanwhile stays queued.
    pub async fn deliver(&self) -> Vec<Delivered> {
        let pairs = self.with(State::take_events);
        let mut delivered = Vec::with_capacity(pairs.len());
        for (hook, event) in pairs {
            let Some(parcel) = self.with(|state| state.parcel(hook, event)) else { continue };
            let status = send(&self.client, &parcel).await;
            delivered.push(self.with(|state| state.record(parcel, status)));
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

    /// Silent mode of the instance: what happens from now on reaches no hook, until it is switched off again.
    pub fn silent_mode(&self, on: bool) {
        self.with(|state| state.silent = on);
    }

    /// Queues any payload under any event name: other hooks of GitLab, old field sets, custom body templates.
    pub fn send_raw(&self, event: &str, payload: serde_json::Value) {
        self.with(|state| state.emit_as(event.to_owned().into(), payload));
    }

    /// How many events wait to be sent.
    pub fn pending_webhooks(&self) -> usize {
        self.with(|state| state.queue.len())
    }

    /// Loses the queued events of this name, such as `Job Hook` (all when empty).
    pub fn drop_webhooks(&self, event: &str) {
        self.with(|state| state.queue.retain(|queued| !event.is_empty() && queued.name != event));
    }

    /// Queues every waiting event `times` more, right behind itself, under the same key.
    pub fn duplicate_webhooks(&self, times: usize) {
        self.with(|state| {
            let events: Vec<Event> = state.queue.drain(..).collect();
            for event in events {
                state.queue.extend(std::iter::repeat_n(event, times + 1));
            }
        });
    }

    /// Turns the order of the waiting events round.
    pub fn reverse_webhooks(&self) {
        self.with(|state| state.queue.make_contiguous().reverse());
    }

    /// Queues what was sent under this key again, to the same hook, as "resend" on the page of the hook does.
    pub fn redeliver(&self, uuid: &str) {
        self.with(|state| {
            let known = state.sent.iter().rev().find(|sent| sent.key == uuid).cloned();
            if let Some(Sent { hook, event, .. }) = known {
                state.queue.push_back(Event { again_to: Some(hook), ..event });
                state.wake.notify_one();
            }
        });
    }
}

async fn send(client: &reqwest::Client, parcel: &Parcel) -> Option<u16> {
    let mut request = client.post(&parcel.hook.url).timeout(ANSWER_WITHIN).body(parcel.body.clone());
    for (name, value) in &parcel.headers {
        request = request.header(*name, value);
    }
    Some(request.send().await.ok()?.status().as_u16())
}

/// The value of `webhook-signature` of the Standard Webhooks specification: `v1,` and the HMAC of
/// `{id}.{seconds}.{body}`. A signing token that is no `whsec_` and base64 gives a signature that nobody accepts.
pub(super) fn sign(signing: &str, (id, seconds): (&str, i64), body: &[u8]) -> String {
    let key = signing.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok()).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}
