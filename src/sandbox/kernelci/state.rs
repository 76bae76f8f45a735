//! The node tree of the sandbox and the scheduler's rules.
//!
//! Read next: `routes.rs`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{NewJob, Options};

/// How long the scheduler remembers what it scheduled, in milliseconds.
const DUPLICATES_MS: i64 = 600_000;

/// Everything the sandbox knows.
#[derive(Debug)]
pub(super) struct State {
    pub options: Options,
    pub now_ms: i64,
    pub nodes: Vec<Value>,
    pub events: Vec<Value>,
    /// Published and not yet worked on.
    pub queue: Vec<Value>,
    /// Parent, job, runtime, platform and counter, with when they were scheduled.
    scheduled: BTreeMap<String, i64>,
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        let now_ms = options.start_ms;
        let scheduled = BTreeMap::new();
        Self { options, now_ms, nodes: Vec::new(), events: Vec::new(), queue: Vec::new(), scheduled }
    }

    fn time(&self) -> String {
        let at = chrono::DateTime::from_timestamp_millis(self.now_ms).unwrap_or_default();
        at.format("%Y-%m-%dT%H:%M:%S%.6f").to_string() // no zone, as the API writes it
    }

    pub(super) fn node(&self, id: &str) -> Option<&Value> {
        self.nodes.iter().find(|node| node["id"] == id)
    }

    fn add(&mut self, kind: &str, name: &str, parent: Option<&str>, fields: Value) -> String {
        let id = format!("66b0c0ffee{:014x}", self.nodes.len() + 1);
        let above = parent.and_then(|parent| self.node(parent)).cloned().unwrap_or(Value::Null);
        let mut path = above["path"].as_array().cloned().unwrap_or_default();
        path.push(json!(name));
        let mut node = json!({
            "id": id, "kind": kind, "name": name, "path": path, "group": name, "parent": parent,
            "state": "running", "result": null, "artifacts": {}, "debug": {}, "jobfilter": null, "platform_filter": [],
            "data": {"kernel_revision": above["data"]["kernel_revision"], "error_code": null, "error_msg": null},
            "created": self.time(), "updated": self.time(), "timeout": self.time(), "holdoff": null,
            "owner": "production", "submitter": "service:pipeline", "treeid": "5d41402abc4b2a76b9719d911017c592",
            "user_groups": [], "processed_by_kcidb_bridge": false, "retry_counter": 0,
        });
        merge(&mut node, fields);
        self.nodes.push(node);
        id
    }

    pub(super) fn checkout(&mut self, tree: &str, branch: &str, commit: &str) -> String {
        let revision =
            json!({"tree": tree, "branch": branch, "commit": commit, "url": "https://git.example/linux.git"});
        let fields = json!({"state": "done", "result": "pass", "data": {"kernel_revision": revision}});
        self.add("checkout", "checkout", None, fields)
    }

    pub(super) fn build(&mut self, checkout: &str, name: &str, result: &str) -> String {
        let data =
            json!({"arch": "x86_64", "defconfig": "x86_64_defconfig", "platform": "kubernetes", "runtime": "k8s-all"});
        let fields = json!({"state": "done", "result": result, "data": data});
        self.add("kbuild", name, Some(checkout), fields)
    }

    pub(super) fn job(&mut self, build: &str, new: &NewJob<'_>, counter: i64) -> String {
        let data = json!({"platform": new.platform, "runtime": new.runtime, "job_id": "48213", "device": null});
        self.add("job", new.name, Some(build), json!({"data": data, "retry_counter": counter}))
    }

    pub(super) fn end(&mut self, id: &str, result: &str, error: Option<(&str, &str)>) {
        let time = self.time();
        let Some(node) = self.nodes.iter_mut().find(|node| node["id"] == id) else { return };
        let (code, message) = error.unzip();
        let data = json!({"error_code": code, "error_msg": message});
        merge(node, json!({"state": "done", "result": result, "updated": time, "data": data}));
    }

    /// A retry event makes a node for each job of its build that passes both filters and was not just scheduled.
    pub(super) fn schedule(&mut self) -> usize {
        let mut made = 0;
        for event in std::mem::take(&mut self.queue) {
            let id = event["id"].as_str().unwrap_or_default().to_owned();
            // Every entry of the shipped configuration asks for `available`; the input node is read anew from the API.
            if event["state"] != "available" || event["kind"] != "kbuild" || self.node(&id).is_none() {
                continue;
            }
            let counter = event["retry_counter"].as_i64().unwrap_or(0);
            for (name, platform, runtime) in self.places(&id) {
                if !lists(&event["jobfilter"], &name, true) || !lists(&event["platform_filter"], &platform, false) {
                    continue;
                }
                let key = format!("{id} {name} {runtime} {platform} {counter}");
                let since = self.now_ms - DUPLICATES_MS;
                if self.scheduled.get(&key).is_some_and(|at| *at > since) {
                    continue; // silently, as the real one
                }
                self.scheduled.insert(key, self.now_ms);
                self.job(&id, &NewJob { name: &name, platform: &platform, runtime: &runtime }, counter);
                made += 1;
            }
        }
        made
    }

    /// The jobs that the configuration has for a build: those that ran below it once.
    fn places(&self, build: &str) -> Vec<(String, String, String)> {
        let mut places = Vec::new();
        for node in self.nodes.iter().filter(|node| node["parent"] == build && node["kind"] == "job") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let place = (text(&node["name"]), text(&node["data"]["platform"]), text(&node["data"]["runtime"]));
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }
}

/// Whether a filter lets a word pass: an absent one passes all, an empty one does for platforms only.
fn lists(filter: &Value, word: &str, absent_only: bool) -> bool {
    match filter.as_array() {
        None => true,
        Some(words) if words.is_empty() => !absent_only,
        Some(words) => words.iter().any(|own| own == word),
    }
}

/// Lays `over` on `base`, objects field by field.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
