//! Prometheus counters of the loops. One registry per program, so that tests do not share it.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels2 = Vec<(&'static str, String)>;

/// Seconds from a comment's arrival to the first accepted dispatch; a lab takes minutes, so the tail is long.
const BUCKETS: [f64; 10] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

/// The counters. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    deliveries: Family<Labels2, Counter>,
    commands: Family<Labels2, Counter>,
    retries: Family<Labels2, Counter>,
    calls_failed: Family<Labels2, Counter>,
    unasked: Family<Labels2, Counter>,
    posts: Family<Labels2, Counter>,
    open: Family<Labels2, Gauge>,
    dispatch_seconds: Histogram,
    last_delivery: Family<Labels2, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A fresh registry.
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            deliveries: Family::default(),
            commands: Family::default(),
            retries: Family::default(),
            calls_failed: Family::default(),
            unasked: Family::default(),
            posts: Family::default(),
            open: Family::default(),
            dispatch_seconds: Histogram::new(BUCKETS),
            last_delivery: Family::default(),
        };
        let mut registry = metrics.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let r = registry.sub_registry_with_prefix("retest");
        r.register("deliveries", "Webhook deliveries by forge and outcome", metrics.deliveries.clone());
        r.register("commands", "Commands by name and outcome", metrics.commands.clone());
        r.register("retries", "Retries that ended, by runner and outcome", metrics.retries.clone());
        r.register(
            "unasked",
            "Retries of known flakes that nobody asked for, by runner and label",
            metrics.unasked.clone(),
        );
        r.register("calls_failed", "Failed outside calls by system and kind", metrics.calls_failed.clone());
        r.register(
            "posts",
            "Statuses, check runs, reports and reactions posted, by forge and kind",
            metrics.posts.clone(),
        );
        r.register("retries_open", "Open retries by state", metrics.open.clone());
        r.register(
            "dispatch_seconds",
            "Seconds from a command's arrival to its accepted dispatch",
            metrics.dispatch_seconds.clone(),
        );
        r.register(
            "last_delivery_seconds",
            "When a forge was last heard, seconds since 1970",
            metrics.last_delivery.clone(),
        );
        drop(registry);
        metrics
    }

    /// A delivery was received: `stored`, `duplicate`, `ignored`, `malformed`, `refused`, `too_large`, `unread` (too
    /// slow or cut off), `unstored`.
    pub fn delivery(&self, forge: &str, outcome: &'static str, now_s: i64) {
        self.deliveries.get_or_create(&vec![("forge", forge.to_owned()), ("outcome", outcome.to_owned())]).inc();
        self.last_delivery.get_or_create(&vec![("forge", forge.to_owned())]).set(now_s);
    }

    /// A command was answered.
    pub fn command(&self, name: &str, outcome: &'static str) {
        self.commands.get_or_create(&vec![("command", name.to_owned()), ("outcome", outcome.to_owned())]).inc();
    }

    /// A retry ended.
    pub fn retry_ended(&self, runner: &str, outcome: &str) {
        self.retries.get_or_create(&vec![("runner", runner.to_owned()), ("outcome", outcome.to_owned())]).inc();
    }

    /// A known flake was retried although nobody asked.
    pub fn unasked(&self, runner: &str, label: &str) {
        self.unasked.get_or_create(&vec![("runner", runner.to_owned()), ("label", label.to_owned())]).inc();
    }

    /// An outside call failed.
    pub fn call_failed(&self, system: &str, kind: &'static str) {
        self.calls_failed.get_or_create(&vec![("system", system.to_owned()), ("kind", kind.to_owned())]).inc();
    }

    /// Something was posted on a forge.
    pub fn posted(&self, forge: &str, kind: &'static str) {
        self.posts.get_or_create(&vec![("forge", forge.to_owned()), ("kind", kind.to_owned())]).inc();
    }

    /// A command's first dispatch was accepted this long after it arrived.
    pub fn dispatched(&self, after: std::time::Duration) {
        self.dispatch_seconds.observe(after.as_secs_f64());
    }

    /// How many retries are open in each state.
    pub fn set_open(&self, counts: &[(String, i64)]) {
        self.open.clear();
        for (state, count) in counts {
            self.open.get_or_create(&vec![("state", state.clone())]).set(*count);
        }
    }

    /// The text that Prometheus reads (OpenMetrics 1.0).
    pub fn render(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        encode(&mut text, &registry).ok();
        text
    }
}
