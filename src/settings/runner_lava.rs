//! The lava runner's own keys, checked: the instance, which suites count, how the job of a revision is known.
//!
//! Refused: an instance without address or token, metadata that any revision's job could carry, values that no revision has,
//! a callback that could not reach us. Read next: `runner_pattern.rs`, which joins statuses to its jobs.

use super::check::{Check, MINUTE};
use super::raw;
use super::runner::Surroundings;
use super::secret::{Purpose, Secret};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

/// Fields of a LAVA job that people may be allowed to override.
const OVERRIDES: [&str; 9] =
    ["device_type", "dtb", "kernel", "modules", "nfsrootfs", "priority", "ramdisk", "rootfs", "tags"];

/// The values that metadata and tags may hold.
const VALUES: [&str; 4] = ["{change}", "{job}", "{repository}", "{sha}"];

/// What a lava runner has.
#[derive(Debug, Clone)]
pub struct Lava {
    /// The instance's address, without a slash at the end.
    pub url: Url,
    /// The token of the account that submits.
    pub token: Secret,
    /// Time for any request.
    pub timeout: Duration,
    /// Suites whose failed cases count.
    pub suites: GlobSet,
    /// Metadata that the LAVA job of a job carries.
    pub metadata: BTreeMap<String, String>,
    /// Device tags that it asks for.
    pub tags: Vec<String>,
    /// Beginnings of the addresses that overrides may have; empty: any.
    pub url_prefixes: Vec<String>,
    /// What the tokens of callbacks are made from; `None` when LAVA is only polled.
    pub callback: Option<Secret>,
}

impl Lava {
    /// The address of a job's page, as a pattern.
    pub(super) fn page(&self) -> String {
        format!("{}/scheduler/job/{{id}}", self.url.as_str().trim_end_matches('/'))
    }
}

/// Checks the keys of a lava runner.
pub(super) fn lava(check: &mut Check<'_>, path: &str, raw: &raw::Runner, around: &Surroundings<'_>) -> Option<Lava> {
    overrides(check, path, &raw.job);
    let path = format!("{path}.lava");
    let hint = "add [runner.lava] with `url` and `token`";
    let raw = check.needed(&path, raw.lava.as_ref(), hint)?;
    let at = |key: &str| format!("{path}.{key}");
    let url = check.needed(&at("url"), raw.url.as_ref(), "write it like `https://lava.example`");
    let url = url.and_then(|url| check.address(&at("url"), url));
    let token = check.needed(&at("token"), raw.token.as_ref(), "write token = { env = \"LAVA_TOKEN\" }");
    let token = token.and_then(|token| check.secret(&at("token"), token, Purpose::Token));
    let timeout = check.duration(&at("timeout"), &raw.timeout, Duration::from_millis(100)..=5 * MINUTE);
    let suites = suites(check, &at("suites"), &raw.suites);
    for (key, value) in &raw.metadata {
        values(check, &super::wording::join(&at("metadata"), key), value);
    }
    for (i, tag) in raw.tags.iter().enumerate() {
        values(check, &format!("{path}.tags[{i}]"), tag);
    }
    if !raw.metadata.is_empty() && !raw.metadata.values().any(|value| value.contains("{sha}")) {
        let hint = "name the commit: metadata = { commit = \"{sha}\" }";
        check.fault(&at("metadata"), "would take a job of any other revision too", hint);
    }
    for (i, prefix) in raw.url_prefixes.iter().enumerate() {
        prefix_of(check, &format!("{path}.url_prefixes[{i}]"), prefix);
    }
    let callback = raw.callback_secret.as_ref().and_then(|secret| {
        if !around.has_public_url && !check.is_gone("server.public_url") {
            let hint = "set `server.public_url` to the address by which LAVA reaches this server";
            check.fault(&at("callback_secret"), "nobody could call back: `server.public_url` is missing", hint);
        }
        check.secret(&at("callback_secret"), secret, Purpose::Webhook)
    });
    Some(Lava {
        url: url?,
        token: token?,
        timeout: timeout?,
        suites,
        metadata: raw.metadata.clone(),
        tags: raw.tags.clone(),
        url_prefixes: raw.url_prefixes.clone(),
        callback,
    })
}

fn overrides(check: &mut Check<'_>, path: &str, jobs: &[raw::Job]) {
    for (i, job) in jobs.iter().enumerate() {
        for (k, key) in job.overrides.iter().enumerate() {
            check.one_of(&format!("{path}.job[{i}].overrides[{k}]"), key, &OVERRIDES);
        }
    }
}

fn suites(check: &mut Check<'_>, path: &str, globs: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for (i, glob) in globs.iter().enumerate() {
        match Glob::new(glob) {
            Ok(glob) => {
                set.add(glob);
            }
            Err(error) => check.bad_glob(&format!("{path}[{i}]"), &error),
        }
    }
    set.build().unwrap_or_else(|_| GlobSet::empty())
}

/// A text whose values in braces are known.
fn values(check: &mut Check<'_>, path: &str, text: &str) {
    let mut rest = text.to_owned();
    for value in VALUES {
        rest = rest.replace(value, "");
    }
    if text.is_empty() || rest.contains(['{', '}']) {
        let text = format!("`{text}` holds something that no revision has");
        check.fault(path, text, format!("use {}", super::wording::listed(&VALUES)));
    }
}

/// A beginning that ends behind the host, so that no other host begins like it.
fn prefix_of(check: &mut Check<'_>, path: &str, prefix: &str) {
    let rest = prefix.strip_prefix("https://").or_else(|| prefix.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split_once('/')).map(|(host, _)| host);
    if host.is_none_or(|host| host.is_empty() || host.contains('@')) {
        let text = format!("`{prefix}` does not end behind a host");
        check.fault(path, text, "write it like `https://storage.example/kernels/`");
    }
}
