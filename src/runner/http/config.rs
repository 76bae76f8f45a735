//! What the operator declares for an HTTP runner, compiled and checked once.
//!
//! It refuses what could send a secret or a job somewhere else: an address whose host is not fixed or not allowed.
//! Read next: `template.rs` for what values may do, `mod.rs` for what is asked when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use globset::GlobMatcher;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use super::template::{AddressTemplate, BodyTemplate, HeaderTemplate, Values};
use crate::domain::{JobName, JobState, RunnerName};

/// The values of an order, for every template.
const ORDER_VALUES: [&str; 12] = [
    "forge",
    "runner",
    "repository",
    "change",
    "sha",
    "job",
    "scope",
    "key",
    "source_run",
    "overrides",
    "callback_url",
    "callback_token",
];

/// The values of a run, for `poll` and `cancel`: those of its order, and its id.
const RUN_VALUES: [&str; 13] = [
    "forge",
    "runner",
    "repository",
    "change",
    "sha",
    "job",
    "scope",
    "key",
    "source_run",
    "overrides",
    "callback_url",
    "callback_token",
    "id",
];

/// An HTTP runner as configured.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The runner's configured name.
    pub name: RunnerName,
    /// The jobs that it runs.
    pub jobs: Vec<HttpJob>,
    /// How a run is started.
    pub start: StartRequest,
    /// How a run is looked at; without it, only callbacks tell how it ends.
    pub poll: Option<PollRequest>,
    /// The system's words for states, in our words; our own words need no entry.
    pub states: BTreeMap<String, JobState>,
    /// How a run is found by our key when the answer to its start got lost.
    pub find: Option<FindRequest>,
    /// How a run is cancelled.
    pub cancel: Option<CancelRequest>,
    /// Whether the system may tell us of its runs by itself.
    pub callback: Option<Callback>,
    /// Sent with every request.
    pub token: Option<HttpToken>,
    /// Hosts that may be asked, `HOST:PORT`, or `HOST` for the usual port; empty: those of the configured addresses.
    pub allowed_hosts: Vec<String>,
}

/// A secret that goes with every request, such as `Authorization: Bearer …`.
#[derive(Clone, Debug)]
pub struct HttpToken {
    /// The header.
    pub header: String,
    /// The word before the secret; empty for none.
    pub scheme: String,
    /// The secret.
    pub secret: SecretString,
}

/// Jobs of an HTTP runner.
#[derive(Clone, Debug)]
pub struct HttpJob {
    /// A name, or a pattern with `*`, `?`, `[…]` or `{…}`.
    pub pattern: String,
    /// The fields that a person may change with `key=value`; templates read them as `overrides.KEY`.
    pub overrides: Vec<String>,
}

/// The request that starts a run.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Its method.
    pub method: String,
    /// Its address, a template.
    pub url: String,
    /// Headers, templates; those without values go with every other request too (an API key, say).
    pub headers: Vec<(String, SecretString)>,
    /// Its body, a template.
    pub body: Option<HttpBody>,
    /// Where the answer (JSON) names the run; without it our key is its name.
    pub id_pointer: Option<String>,
    /// Where the answer (JSON) has a page for people.
    pub url_pointer: Option<String>,
    /// Status codes that mean "started"; empty: 200 to 299.
    pub success: Vec<u16>,
    /// How long any request to this system may take in all.
    pub timeout: Duration,
}

/// A body and how its values are escaped.
#[derive(Clone, Debug)]
pub enum HttpBody {
    /// JSON text.
    Json(String),
    /// `name=value&…`.
    Form(String),
}

/// How a run is looked at.
#[derive(Clone, Debug)]
pub struct PollRequest {
    /// The address, a template.
    pub url: String,
    /// Where the answer (JSON) has the state.
    pub state_pointer: String,
    /// Where it has a page for people.
    pub url_pointer: Option<String>,
    /// Where it says why a run failed.
    pub cause_pointer: Option<String>,
    /// The address of the log, a template.
    pub log_url: Option<String>,
}

/// How a run is found by our key.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The address, a template.
    pub url: String,
    /// Where the answer (JSON) names the run; null or nothing there, or 404, means that it was not started. A system
    /// that may say so of a run that it is just starting must not be given here: the job would be started twice.
    pub id_pointer: String,
}

/// How a run is cancelled.
#[derive(Clone, Debug)]
pub struct CancelRequest {
    /// The method.
    pub method: String,
    /// The address, a template.
    pub url: String,
}

/// How the system tells us of its runs.
#[derive(Clone, Debug)]
pub struct Callback {
    /// The address of this runner's callbacks at our own server, without the key; `callback_url` is it plus `/KEY`.
    pub url: String,
    /// What the per-run tokens are made from.
    pub secret: SecretString,
}

/// Why an HTTP runner cannot be set up: which key, and what is wrong with it.
#[derive(Debug, Error)]
#[error("http runner: `{key}`: {why}")]
pub struct HttpConfigError {
    /// The key as configured.
    pub key: &'static str,
    /// What is wrong.
    pub why: String,
}

/// The configuration, compiled.
#[derive(Debug)]
pub(super) struct Plan {
    pub config: HttpConfig,
    pub jobs: Vec<(GlobMatcher, HttpJob)>,
    pub method: Method,
    pub start: AddressTemplate,
    pub headers: Vec<(HeaderName, HeaderTemplate)>,
    pub token: Option<(HeaderName, HeaderValue)>,
    pub body: Option<BodyTemplate>,
    pub poll: Option<AddressTemplate>,
    pub log: Option<AddressTemplate>,
    pub find: Option<AddressTemplate>,
    pub cancel: Option<(Method, AddressTemplate)>,
    /// What must never appear in a text.
    pub secrets: Vec<SecretString>,
}

impl Plan {
    /// Compiles and checks.
    pub(super) fn new(config: HttpConfig) -> Result<Self, HttpConfigError> {
        let start = address("start.url", &config.start.url, &ORDER_VALUES)?;
        let poll = config.poll.as_ref().map(|poll| address("poll.url", &poll.url, &RUN_VALUES)).transpose()?;
        let log_url = config.poll.as_ref().and_then(|poll| poll.log_url.as_ref());
        let log = log_url.map(|url| address("poll.log_url", url, &RUN_VALUES)).transpose()?;
        let find = config.find.as_ref().map(|find| address("find.url", &find.url, &ORDER_VALUES)).transpose()?;
        let cancel = config.cancel.as_ref().map(|cancel| {
            Ok((method("cancel.method", &cancel.method)?, address("cancel.url", &cancel.url, &RUN_VALUES)?))
        });
        let cancel = cancel.transpose()?;
        check_pointers(&config)?;
        check_callback(&config)?;
        if config.start.timeout.is_zero() {
            return Err(HttpConfigError { key: "start.timeout", why: "must be more than nothing".to_owned() });
        }
        if let Some(code) = config.start.success.iter().find(|code| StatusCode::from_u16(**code).is_err()) {
            return Err(HttpConfigError { key: "start.success", why: format!("{code} is no status code") });
        }
        let plan = Self {
            jobs: jobs(&config.jobs)?,
            method: method("start.method", &config.start.method)?,
            headers: headers(&config.start.headers)?,
            token: config.token.as_ref().map(token).transpose()?,
            body: body(config.start.body.as_ref())?,
            secrets: secrets(&config),
            start,
            poll,
            log,
            find,
            cancel,
            config,
        };
        plan.check_hosts()?;
        Ok(plan)
    }

    fn check_hosts(&self) -> Result<(), HttpConfigError> {
        let cancel = self.cancel.as_ref().map(|(_, address)| address);
        let all = [Some(&self.start), self.poll.as_ref(), self.log.as_ref(), self.find.as_ref(), cancel];
        let allowed: BTreeSet<&str> = self.config.allowed_hosts.iter().map(String::as_str).collect();
        let is_allowed = |host: &str| {
            let usual = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80"));
            allowed.is_empty() || allowed.contains(host) || usual.is_some_and(|host| allowed.contains(host))
        };
        match all.into_iter().flatten().map(AddressTemplate::host).find(|host| !is_allowed(host)) {
            Some(host) => Err(HttpConfigError { key: "allowed_hosts", why: format!("`{host}` is not among them") }),
            None => Ok(()),
        }
    }

    /// The job as declared.
    pub(super) fn job(&self, name: &JobName) -> Option<&HttpJob> {
        let exact = self.jobs.iter().find(|(_, job)| job.pattern == name.as_str());
        exact.or_else(|| self.jobs.iter().find(|(glob, _)| glob.is_match(name.as_str()))).map(|(_, job)| job)
    }

    /// The headers that say the same in every request, the token among them.
    pub(super) fn constant_headers(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let constant = self.headers.iter().filter(|(_, template)| template.is_constant());
        let constant =
            constant.filter_map(|(name, template)| Some((name.clone(), template.render(&Values::new()).ok()?)));
        constant.chain(self.token.clone())
    }

    /// The names of the values that the requests about a run read.
    pub(super) fn run_names(&self) -> BTreeSet<&str> {
        let cancel = self.cancel.as_ref().map(|(_, address)| address);
        let all = [self.poll.as_ref(), self.log.as_ref(), cancel];
        all.into_iter().flatten().flat_map(|address| address.used().iter().map(String::as_str)).collect()
    }

    /// Whether this status means that the run was started.
    pub(super) fn is_success(&self, status: StatusCode) -> bool {
        let codes = &self.config.start.success;
        if codes.is_empty() { status.is_success() } else { codes.contains(&status.as_u16()) }
    }
}

/// Whether a job's pattern is a plain name.
pub(super) fn is_name(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

fn address(key: &'static str, source: &str, known: &[&'static str]) -> Result<AddressTemplate, HttpConfigError> {
    AddressTemplate::new(source, known).map_err(|why| HttpConfigError { key, why })
}

fn method(key: &'static str, word: &str) -> Result<Method, HttpConfigError> {
    let all = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let found = all.into_iter().find(|method| method.as_str() == word);
    found.ok_or_else(|| HttpConfigError { key, why: format!("`{word}` is none of GET, POST, PUT, PATCH, DELETE") })
}

fn jobs(jobs: &[HttpJob]) -> Result<Vec<(GlobMatcher, HttpJob)>, HttpConfigError> {
    let compile = |job: &HttpJob| {
        let text = if is_name(&job.pattern) { globset::escape(&job.pattern) } else { job.pattern.clone() };
        let glob = globset::GlobBuilder::new(&text).literal_separator(false).backslash_escape(true).build();
        let glob = glob.map_err(|e| HttpConfigError { key: "jobs.name", why: e.to_string() })?;
        Ok((glob.compile_matcher(), job.clone()))
    };
    jobs.iter().map(compile).collect()
}

fn headers(headers: &[(String, SecretString)]) -> Result<Vec<(HeaderName, HeaderTemplate)>, HttpConfigError> {
    let bad = |why: String| HttpConfigError { key: "start.headers", why };
    let compile = |(name, value): &(String, SecretString)| {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad(format!("`{name}` is no header")))?;
        if matches!(header.as_str(), "host" | "content-length" | "transfer-encoding" | "connection" | "idempotency-key")
        {
            return Err(bad(format!("`{name}` is set by the bot itself")));
        }
        // The reason is not repeated with the value: it may be a secret.
        let template = HeaderTemplate::new(value.expose_secret(), &ORDER_VALUES);
        Ok((header, template.map_err(|why| bad(format!("`{name}`: {why}")))?))
    };
    headers.iter().map(compile).collect()
}

fn token(token: &HttpToken) -> Result<(HeaderName, HeaderValue), HttpConfigError> {
    let bad = |why: &str| HttpConfigError { key: "token", why: why.to_owned() };
    let name = HeaderName::from_bytes(token.header.as_bytes()).map_err(|_| bad("its header cannot name one"))?;
    let text = format!("{} {}", token.scheme, token.secret.expose_secret());
    let mut value = HeaderValue::from_str(text.trim_start()).map_err(|_| bad("it cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn body(body: Option<&HttpBody>) -> Result<Option<BodyTemplate>, HttpConfigError> {
    let compiled = match body {
        None => return Ok(None),
        Some(HttpBody::Json(source)) => BodyTemplate::json(source, &ORDER_VALUES),
        Some(HttpBody::Form(source)) => BodyTemplate::form(source, &ORDER_VALUES),
    };
    compiled.map(Some).map_err(|why| HttpConfigError { key: "start.body", why })
}

fn check_pointers(config: &HttpConfig) -> Result<(), HttpConfigError> {
    let (poll, find) = (config.poll.as_ref(), config.find.as_ref());
    let all = [
        ("start.id_pointer", config.start.id_pointer.as_ref()),
        ("start.url_pointer", config.start.url_pointer.as_ref()),
        ("poll.state_pointer", poll.map(|poll| &poll.state_pointer)),
        ("poll.url_pointer", poll.and_then(|poll| poll.url_pointer.as_ref())),
        ("poll.cause_pointer", poll.and_then(|poll| poll.cause_pointer.as_ref())),
        ("find.id_pointer", find.map(|find| &find.id_pointer)),
    ];
    for (key, pointer) in all {
        // RFC 6901: the empty pointer is the whole document.
        if pointer.is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
            return Err(HttpConfigError { key, why: "a JSON pointer begins with `/`".to_owned() });
        }
    }
    Ok(())
}

fn check_callback(config: &HttpConfig) -> Result<(), HttpConfigError> {
    let bad = |why: &str| Err(HttpConfigError { key: "callback", why: why.to_owned() });
    match &config.callback {
        None if config.poll.is_none() => bad("with neither `poll` nor `callback` no run would ever end"),
        None => Ok(()),
        Some(callback) if callback.secret.expose_secret().len() < 16 => bad("the secret has fewer than 16 bytes"),
        Some(callback) if !callback.url.starts_with("http") => bad("our own address is missing"),
        Some(_) => Ok(()),
    }
}

/// The token, the callback secret, and headers that are named like secrets.
fn secrets(config: &HttpConfig) -> Vec<SecretString> {
    let telling = ["auth", "token", "key", "secret", "cookie", "password"];
    let is_secret = |name: &str| telling.iter().any(|part| name.to_ascii_lowercase().contains(part));
    let headers = config.start.headers.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone());
    let callback = config.callback.as_ref().map(|callback| callback.secret.clone());
    config.token.iter().map(|token| token.secret.clone()).chain(callback).chain(headers).collect()
}
