//! Deliveries after the fact: the list the service keeps, sending again, and ways to lose, repeat and reorder.
//!
//! Read next: `hooks.rs`.

use serde_json::{Map, Value, json};

use super::GitHubSandbox;
use super::ask::{Answer, Ask, link, list, with_links};
use super::hooks::{Delivery, Event, Hook, NO_ANSWER, Note};
use super::state::{State, iso};

impl GitHubSandbox {
    /// How many events wait to be sent.
    pub fn pending_webhooks(&self) -> usize {
        self.with(|state| state.queue.len())
    }

    /// Loses the queued events of this name without a trace: they were never sent (all when empty).
    pub fn drop_webhooks(&self, event: &str) {
        self.with(|state| state.queue.retain(|queued| !event.is_empty() && queued.event != event));
    }

    /// Makes the queued events of this name fail on the way (all when empty): recorded, and open to redelivery.
    pub fn fail_webhooks(&self, event: &str) {
        self.with(|state| {
            for queued in state.queue.iter_mut().filter(|queued| event.is_empty() || queued.event == event) {
                queued.fails = true;
            }
        });
    }

    /// Queues every waiting event `times` more, right behind itself, under the same GUID.
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

    /// Shuffles the waiting events; the same seed gives the same order.
    pub fn shuffle_webhooks(&self, seed: u64) {
        self.with(|state| {
            let mut random = seed;
            let queue = state.queue.make_contiguous();
            for at in (1..queue.len()).rev() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                queue.swap(at, (random >> 33) as usize % (at + 1));
            }
        });
    }

    /// Queues everything once sent under this GUID again, as the site's "redeliver" does.
    pub fn redeliver(&self, guid: &str) {
        self.with(|state| {
            let mut ids = std::collections::BTreeMap::new();
            for delivery in state.deliveries.iter().filter(|delivery| delivery.event.guid == guid) {
                ids.insert(delivery.hook_id, delivery.id);
            }
            for id in ids.into_values() {
                state.send_again(id);
            }
        });
    }

    /// Queues a `ping` for every hook.
    pub fn ping(&self) {
        self.with(|state| {
            let Some(repo_id) = state.repos.keys().next().copied() else { return };
            for hook in state.hooks.clone() {
                state.ping(&hook, repo_id);
            }
        });
    }
}

impl State {
    fn ping(&mut self, hook: &Hook, repo_id: u64) {
        let body = json!({
            "zen": "Anything added dilutes everything else.",
            "hook_id": hook.id,
            "hook": hook_body(self, hook, repo_id),
        });
        let owner = self.repo(repo_id).owner.clone();
        self.emit(&Note::new("ping", repo_id, &owner), body);
        if let Some(event) = self.queue.back_mut() {
            event.to_hook = Some(hook.id);
        }
    }

    fn send_again(&mut self, delivery_id: u64) -> bool {
        let Some(delivery) = self.deliveries.iter().find(|delivery| delivery.id == delivery_id) else {
            return false;
        };
        let event = Event { to_hook: Some(delivery.hook_id), again: true, fails: false, ..delivery.event.clone() };
        self.queue.push_back(event);
        self.wake.notify_one();
        true
    }

    /// The deliveries a list shows: those of the App's hooks, or of one hook.
    fn deliveries_of(&self, hook_id: Option<u64>) -> impl Iterator<Item = &Delivery> {
        let of = move |id: u64| match hook_id {
            Some(wanted) => id == wanted,
            None => self.hooks.iter().any(|hook| hook.of_app && hook.id == id),
        };
        self.deliveries.iter().filter(move |delivery| of(delivery.hook_id))
    }

    fn delivery_body(&self, delivery: &Delivery) -> Value {
        let of_app = self.hooks.iter().any(|hook| hook.of_app && hook.id == delivery.hook_id);
        let installation = self.app.as_ref().filter(|_| of_app).map(|app| app.installation_id);
        let status = match delivery.status_code {
            NO_ANSWER => "failed to connect to host".to_owned(),
            200..=299 => "OK".to_owned(),
            code => format!("Invalid HTTP Response: {code}"),
        };
        json!({
            "id": delivery.id,
            "guid": delivery.event.guid,
            "delivered_at": iso(delivery.delivered_ms),
            "redelivery": delivery.redelivery,
            "duration": 0.02,
            "status": status,
            "status_code": delivery.status_code,
            "event": delivery.event.event,
            "action": delivery.event.action,
            "installation_id": installation,
            "repository_id": delivery.event.repo_id,
            "throttled_at": null,
        })
    }
}

/// Newest first, by cursor.
pub(super) fn list_of(state: &State, ask: &Ask, hook_id: Option<u64>) -> Answer {
    let size = ask.number("per_page").map_or(30, |n| n as usize).clamp(1, 100);
    let before = ask.query("cursor").and_then(|cursor| cursor.strip_prefix("v1_")).and_then(|id| id.parse().ok());
    let good = |delivery: &Delivery| (200..300).contains(&delivery.status_code);
    let wanted = state.deliveries_of(hook_id).filter(|delivery| match ask.query("status") {
        Some("success") => good(delivery),
        Some("failure") => !good(delivery),
        _ => true,
    });
    let mut rest: Vec<&Delivery> = wanted.filter(|delivery| before.is_none_or(|id: u64| delivery.id < id)).collect();
    rest.reverse();
    let more = rest.len() > size;
    rest.truncate(size);
    let next =
        rest.last().filter(|_| more).map(|last| link(&state.api, ask, ("cursor", format!("v1_{}", last.id)), "next"));
    let bodies = rest.into_iter().map(|delivery| state.delivery_body(delivery)).collect();
    with_links(Answer::ok(Value::Array(bodies)), next)
}

fn find<'a>(state: &'a State, id: &str, hook_id: Option<u64>) -> Option<&'a Delivery> {
    let id: u64 = id.parse().ok()?;
    state.deliveries_of(hook_id).find(|delivery| delivery.id == id)
}

/// One delivery with its payload, which can so be read back without a redelivery.
pub(super) fn read(state: &State, id: &str, hook_id: Option<u64>) -> Answer {
    let Some(delivery) = find(state, id, hook_id) else { return Answer::not_found() };
    let headers: Map<String, Value> =
        delivery.request_headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let mut body = state.delivery_body(delivery);
    let payload: Value = serde_json::from_slice(&delivery.body).unwrap_or_default();
    body["request"] = json!({"headers": headers, "payload": payload});
    body["response"] = json!({"headers": {}, "payload": delivery.response});
    Answer::ok(body)
}

/// Asks for a redelivery.
pub(super) fn again(state: &mut State, id: &str, hook_id: Option<u64>) -> Answer {
    match find(state, id, hook_id).map(|delivery| delivery.id) {
        Some(id) if state.send_again(id) => Answer::json(202, json!({})),
        _ => Answer::not_found(),
    }
}

/// `/hooks` of a repository.
pub(super) fn repo_hooks(state: &mut State, ask: &Ask, repo_id: u64, rest: &[&str]) -> Answer {
    let known = |state: &State, id: &str| {
        let id: u64 = id.parse().ok()?;
        state.hooks.iter().find(|hook| !hook.of_app && hook.id == id).cloned()
    };
    match (ask.method.as_str(), rest) {
        ("GET", ["hooks"]) => {
            let hooks = state.hooks.iter().filter(|hook| !hook.of_app);
            list(&state.api, ask, hooks.map(|hook| hook_body(state, hook, repo_id)).collect())
        }
        ("POST", ["hooks"]) => {
            let config = &ask.body["config"];
            let Some(url) = config["url"].as_str() else {
                return Answer::invalid("Hook", "url", "Config must contain URL for webhooks");
            };
            let secret = config["secret"].as_str().unwrap_or_default().to_owned();
            let hook = Hook { id: state.id(), url: url.to_owned(), secret, of_app: false };
            state.hooks.push(hook.clone());
            Answer::created(hook_body(state, &hook, repo_id))
        }
        ("GET", ["hooks", id]) => match known(state, id) {
            Some(hook) => Answer::ok(hook_body(state, &hook, repo_id)),
            None => Answer::not_found(),
        },
        ("POST", ["hooks", id, "pings"]) => match known(state, id) {
            Some(hook) => {
                state.ping(&hook, repo_id);
                Answer::nothing(204)
            }
            None => Answer::not_found(),
        },
        (_, ["hooks", id, "deliveries", tail @ ..]) => {
            let Some(hook) = known(state, id) else { return Answer::not_found() };
            match (ask.method.as_str(), tail) {
                ("GET", []) => list_of(state, ask, Some(hook.id)),
                ("GET", [id]) => read(state, id, Some(hook.id)),
                ("POST", [id, "attempts"]) => again(state, id, Some(hook.id)),
                _ => Answer::not_found(),
            }
        }
        _ => Answer::not_found(),
    }
}

fn hook_body(state: &State, hook: &Hook, repo_id: u64) -> Value {
    let config = json!({"content_type": "json", "url": hook.url, "insecure_ssl": "0", "secret": "********"});
    let url = format!("{}/hooks/{}", state.repo_url(state.repo(repo_id)), hook.id);
    let mut body = json!({
        "type": if hook.of_app { "App" } else { "Repository" },
        "id": hook.id,
        "name": "web",
        "active": true,
        "events": ["*"],
        "config": config,
        "created_at": iso(0),
        "updated_at": iso(0),
    });
    let more = if hook.of_app {
        json!({"app_id": state.own_app_id(), "deliveries_url": format!("{}/app/hook/deliveries", state.api)})
    } else {
        json!({
            "url": url,
            "test_url": format!("{url}/test"),
            "ping_url": format!("{url}/pings"),
            "deliveries_url": format!("{url}/deliveries"),
            "last_response": {"code": null, "status": "unused", "message": null},
        })
    };
    super::bodies::extend(&mut body, more);
    body
}
