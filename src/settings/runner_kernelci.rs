//! The KernelCI runner's own keys, checked.
//!
//! Refused: an instance that nothing could be asked of, half of a fallback, globs that are none.
//! Read next: `runner_job.rs` for what can be said about its jobs.

use super::check::{Check, DAY};
use super::raw;
use super::secret::{Purpose, Secret};
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::time::Duration;
use url::Url;

/// What a KernelCI runner has.
#[derive(Debug, Clone)]
pub struct Kernelci {
    /// Address of the API.
    pub api_url: Url,
    /// Token that retries are published with; this or `pipeline` is there.
    pub token: Option<Secret>,
    /// Address and token of the pipeline's own service.
    pub pipeline: Option<(Url, Secret)>,
    /// Only nodes of these trees.
    pub trees: Option<GlobSet>,
    /// Only nodes of these branches.
    pub branches: Option<GlobSet>,
    /// Only jobs on these platforms.
    pub platforms: Option<GlobSet>,
    /// Only jobs in these runtimes.
    pub runtimes: Option<GlobSet>,
    /// Time for a new node to appear.
    pub appears_within: Duration,
    /// Least retry counter, 1 to 1,000.
    pub counter_min: i64,
    /// Whether builds may be run again.
    pub retry_builds: bool,
    /// Beginning of the address of a node's page.
    pub page: Option<String>,
    /// Any request may take this long.
    pub timeout: Duration,
}

/// Checks the section of a KernelCI runner.
pub(super) fn kernelci(check: &mut Check<'_>, path: &str, raw: Option<&raw::Kernelci>) -> Option<Kernelci> {
    let path = format!("{path}.kernelci");
    let raw = check.needed(&path, raw, "add [runner.kernelci] with `api_url` and `token`")?;
    let at = |key: &str| format!("{path}.{key}");
    let api_url = check.needed(&at("api_url"), raw.api_url.as_ref(), "write the address of the Maestro API");
    let api_url = api_url.and_then(|url| check.address(&at("api_url"), url));
    let token = raw.token.as_ref().map(|token| check.secret(&at("token"), token, Purpose::Token));
    let pipeline = pipeline(check, &path, raw);
    if raw.token.is_none() && raw.pipeline_url.is_none() && !check.is_gone(&at("token")) {
        let hint = "give the token of an account that may publish, or `pipeline_url` and `pipeline_token`";
        check.fault(&at("token"), "is missing, so nothing could be run again", hint);
    }
    if let Some(page) = &raw.page {
        let web = Url::parse(page).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !web || page.contains(char::is_whitespace) {
            check.fault(&at("page"), "is no web address", "write its beginning; the node's id is put behind it");
        }
    }
    let appears_within = check.duration(&at("appears_within"), &raw.appears_within, Duration::from_secs(10)..=DAY);
    let timeout = check.duration(&at("timeout"), &raw.timeout, Duration::from_millis(100)..=Duration::from_secs(300));
    Some(Kernelci {
        token: token.flatten(),
        pipeline,
        trees: globs(check, &at("trees"), &raw.trees),
        branches: globs(check, &at("branches"), &raw.branches),
        platforms: globs(check, &at("platforms"), &raw.platforms),
        runtimes: globs(check, &at("runtimes"), &raw.runtimes),
        counter_min: check.whole(&at("counter_min"), raw.counter_min, 1..=1000),
        retry_builds: raw.retry_builds,
        page: raw.page.clone(),
        api_url: api_url?,
        appears_within: appears_within?,
        timeout: timeout?,
    })
}

fn pipeline(check: &mut Check<'_>, path: &str, raw: &raw::Kernelci) -> Option<(Url, Secret)> {
    let (url_path, token_path) = (format!("{path}.pipeline_url"), format!("{path}.pipeline_token"));
    match (&raw.pipeline_url, &raw.pipeline_token) {
        (None, None) => None,
        (Some(url), Some(token)) => {
            let url = check.address(&url_path, url);
            let token = check.secret(&token_path, token, Purpose::Token);
            url.zip(token)
        }
        (Some(_), None) => {
            check.fault(
                &token_path,
                "is missing beside `pipeline_url`",
                "give the token with the permission `testretry`",
            );
            None
        }
        (None, Some(_)) => {
            check.fault(&url_path, "is missing beside `pipeline_token`", "give the address of the pipeline's service");
            None
        }
    }
}

/// Globs in which `*` also passes a `/`, as branches have it; none when there are none.
fn globs(check: &mut Check<'_>, path: &str, patterns: &[String]) -> Option<GlobSet> {
    if patterns.is_empty() {
        return None;
    }
    let mut set = GlobSetBuilder::new();
    for (i, pattern) in patterns.iter().enumerate() {
        match Glob::new(pattern) {
            Ok(glob) => {
                set.add(glob);
            }
            Err(error) => check.bad_glob(&format!("{path}[{i}]"), &error),
        }
    }
    Some(set.build().unwrap_or_else(|_| GlobSet::empty()))
}
