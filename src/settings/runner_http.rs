//! The http runner's own keys, checked: the requests that start, find, look at and cancel a run of any system.
//!
//! Refused: addresses whose host a value could change, hosts that are not allowed, a runner whose end nobody would hear of,
//! secrets in headers, pointers that point nowhere. Read next: `template.rs`, which checks the templates.

use super::check::{Check, MINUTE};
use super::raw;
use super::runner::Surroundings;
use super::secret::{Purpose, Secret};
use super::template::{self, CALLBACK_NAMES, Place, Template, UrlTemplate};
use super::words::{BodyFormat, Method, RunState};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

/// What an http runner has.
#[derive(Debug, Clone)]
pub struct Http {
    /// The request that starts a run.
    pub start: Start,
    /// How to look at a run; `None` only with `callback`.
    pub poll: Option<Poll>,
    /// How to find a run by our key.
    pub find: Option<Find>,
    /// How to cancel a run.
    pub cancel: Option<Cancel>,
    /// What the tokens of callbacks are made from; `None` when the other system does not call back.
    pub callback: Option<Secret>,
    /// Secret sent with every request.
    pub token: Option<HttpToken>,
    /// Hosts that may be contacted, with the port unless it is the scheme's own; those of all addresses above are among them.
    pub allowed_hosts: Vec<String>,
}

/// A secret that goes into a header.
#[derive(Debug, Clone)]
pub struct HttpToken {
    /// The secret.
    pub secret: Secret,
    /// The header's name.
    pub header: String,
    /// The word before the secret, without the blank; empty for none.
    pub scheme: String,
}

/// The request that starts a run.
#[derive(Debug, Clone)]
pub struct Start {
    /// Its method.
    pub method: Method,
    /// Its address.
    pub url: UrlTemplate,
    /// Further headers, by lower-case name. Those without a value in them go with every request.
    pub headers: BTreeMap<String, Template>,
    /// Its body.
    pub body: Option<Body>,
    /// JSON pointer to the run's id in the answer.
    pub id_pointer: Option<String>,
    /// JSON pointer to the run's page in the answer.
    pub url_pointer: Option<String>,
    /// Status codes that mean the run was accepted; at least one.
    pub success: Vec<u16>,
    /// Time for this and every other request of the runner.
    pub timeout: Duration,
}

/// The body of a request, by how values are escaped in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// JSON.
    Json(Template),
    /// A form.
    Form(Template),
}

impl Body {
    /// The template, whatever it gives.
    pub fn template(&self) -> &Template {
        match self {
            Self::Json(template) | Self::Form(template) => template,
        }
    }
}

/// How to look at a run.
#[derive(Debug, Clone)]
pub struct Poll {
    /// Address that answers with the run.
    pub url: UrlTemplate,
    /// JSON pointer to its state.
    pub state_pointer: String,
    /// What each word of the other system means, besides our own words, which mean themselves.
    pub states: BTreeMap<String, RunState>,
    /// JSON pointer to its page.
    pub url_pointer: Option<String>,
    /// JSON pointer to the reason why it failed.
    pub cause_pointer: Option<String>,
    /// Address of its log.
    pub log_url: Option<UrlTemplate>,
}

/// How to find a run by our key.
#[derive(Debug, Clone)]
pub struct Find {
    /// Address that answers with the run, or 404.
    pub url: UrlTemplate,
    /// JSON pointer to its id.
    pub id_pointer: String,
}

/// How to cancel a run.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// The request's method.
    pub method: Method,
    /// Its address.
    pub url: UrlTemplate,
}

/// Checks the keys of an http runner.
pub(super) fn http(check: &mut Check<'_>, path: &str, raw: &raw::Runner, around: &Surroundings<'_>) -> Option<Http> {
    let at = |key: &str| format!("{path}.{key}");
    let callback = raw.callback.unwrap_or(false);
    if callback && !around.has_public_url && !check.is_gone("server.public_url") {
        let hint = "set `server.public_url` to the address by which the other system reaches this server";
        check.fault(&at("callback"), "nobody could call back: `server.public_url` is missing", hint);
    }
    if !callback && raw.poll.is_none() && !check.is_gone(&at("callback")) {
        let text = "is missing, and so is `callback`: nobody would hear of the end of a run";
        check.fault(&at("poll"), text, "add [runner.poll] with `url` and `states`, or callback = true");
    }
    let order = if callback { Place::OrderWithCallback } else { Place::Order };
    let hint = "write start = { url = \"https://ci.example/jobs/{{ job }}\" }";
    let start = check.needed(&at("start"), raw.start.as_ref(), hint);
    let start = start.and_then(|raw| self::start(check, &at("start"), raw, order));
    let poll = raw.poll.as_ref().and_then(|raw| poll(check, &at("poll"), raw));
    let find = raw.find.as_ref().and_then(|raw| find(check, &at("find"), raw, order));
    let cancel = raw.cancel.as_ref().and_then(|raw| {
        let url = needed_url(check, &format!("{path}.cancel.url"), raw.url.as_ref(), Place::Run);
        Some(Cancel { method: raw.method, url: url? })
    });
    let token = token(check, path, raw);
    let callback = callback_secret(check, path, raw);
    let mut http = Http { start: start?, poll, find, cancel, callback, token, allowed_hosts: Vec::new() };
    check_names(check, path, &http);
    http.allowed_hosts = allowed_hosts(check, path, raw.allowed_hosts.as_deref(), &http);
    Some(http)
}

fn needed_url(check: &mut Check<'_>, path: &str, url: Option<&String>, place: Place) -> Option<UrlTemplate> {
    let url = check.needed(path, url, "write it like `https://ci.example/jobs/{{ job }}`")?;
    check.url_template(path, url, place)
}

fn start(check: &mut Check<'_>, path: &str, raw: &raw::Start, place: Place) -> Option<Start> {
    let at = |key: &str| format!("{path}.{key}");
    let url = needed_url(check, &at("url"), raw.url.as_ref(), place);
    let mut headers = BTreeMap::new();
    for (name, value) in &raw.headers {
        let path = super::wording::join(&at("headers"), name);
        header_name(check, &path, name);
        if value.contains(['\r', '\n', '\0']) {
            check.fault(&path, "has a line break in it", "a header is one line");
        }
        if let Some(template) = check.template(&path, value, place) {
            headers.insert(name.to_ascii_lowercase(), template);
        }
    }
    if raw.success.is_empty() {
        check.fault(&at("success"), "is empty, so no run could ever start", "leave the key out for 200, 201 and 202");
    }
    for (i, code) in raw.success.iter().enumerate() {
        check.whole::<u16>(&format!("{path}.success[{i}]"), u64::from(*code), 200..=499);
    }
    for (key, value) in [("id_pointer", &raw.id_pointer), ("url_pointer", &raw.url_pointer)] {
        if let Some(value) = value {
            pointer(check, &at(key), value);
        }
    }
    let timeout = check.duration(&at("timeout"), &raw.timeout, Duration::from_millis(100)..=5 * MINUTE);
    let body = raw.body.as_ref().and_then(|body| match raw.body_format {
        BodyFormat::Json => check.json_template(&at("body"), body, place).map(Body::Json),
        BodyFormat::Form => check.template(&at("body"), body, place).map(Body::Form),
    });
    Some(Start {
        method: raw.method,
        url: url?,
        headers,
        body,
        id_pointer: raw.id_pointer.clone(),
        url_pointer: raw.url_pointer.clone(),
        success: raw.success.clone(),
        timeout: timeout?,
    })
}

fn poll(check: &mut Check<'_>, path: &str, raw: &raw::Poll) -> Option<Poll> {
    let at = |key: &str| format!("{path}.{key}");
    let url = needed_url(check, &at("url"), raw.url.as_ref(), Place::Run);
    let log_url = raw.log_url.as_ref().and_then(|url| check.url_template(&at("log_url"), url, Place::Log));
    pointer(check, &at("state_pointer"), &raw.state_pointer);
    for (key, value) in [("url_pointer", &raw.url_pointer), ("cause_pointer", &raw.cause_pointer)] {
        if let Some(value) = value {
            pointer(check, &at(key), value);
        }
    }
    Some(Poll {
        url: url?,
        state_pointer: raw.state_pointer.clone(),
        states: raw.states.clone(),
        url_pointer: raw.url_pointer.clone(),
        cause_pointer: raw.cause_pointer.clone(),
        log_url,
    })
}

fn find(check: &mut Check<'_>, path: &str, raw: &raw::Find, place: Place) -> Option<Find> {
    let url = needed_url(check, &format!("{path}.url"), raw.url.as_ref(), place);
    if let Some(url) = &url
        && !uses(&url.template, "key")
    {
        let hint = "put `{{ key }}` into it, and into the request that starts the run";
        check.fault(&format!("{path}.url"), "does not name the run by our key", hint);
    }
    let pointer_path = format!("{path}.id_pointer");
    let id = check.needed(&pointer_path, raw.id_pointer.as_ref(), "write \"/id\" if the answer is {\"id\": …}")?;
    pointer(check, &pointer_path, id);
    Some(Find { url: url?, id_pointer: id.clone() })
}

fn token(check: &mut Check<'_>, path: &str, raw: &raw::Runner) -> Option<HttpToken> {
    let header = raw.token_header.clone().unwrap_or_else(|| raw::TOKEN_HEADER.to_owned());
    let scheme = raw.token_scheme.clone().unwrap_or_else(|| raw::TOKEN_SCHEME.to_owned());
    let header_path = format!("{path}.token_header");
    if !is_header_name(&header) {
        check.fault(&header_path, format!("`{header}` cannot name a header"), "write it like `PRIVATE-TOKEN`");
    }
    if !scheme.chars().all(|c| c.is_ascii_graphic()) {
        check.fault(&format!("{path}.token_scheme"), "is not one word", "write it like `Bearer`, or \"\" for none");
    }
    if raw.token.is_none() && (raw.token_header.is_some() || raw.token_scheme.is_some()) {
        let hint = "write token = { env = \"NAME\" }, or take the key out";
        check.fault(&format!("{path}.token"), "is missing, though its header is described", hint);
    }
    let secret = check.secret(&format!("{path}.token"), raw.token.as_ref()?, Purpose::Token)?;
    Some(HttpToken { secret, header, scheme })
}

/// The secret of callbacks, given exactly when there are callbacks.
fn callback_secret(check: &mut Check<'_>, path: &str, raw: &raw::Runner) -> Option<Secret> {
    let path = format!("{path}.callback_secret");
    match (raw.callback, &raw.callback_secret) {
        (Some(true), secret) => {
            let hint = "write callback_secret = { env = \"NAME\" } and keep it: open runs need the same one";
            let secret = check.needed(&path, secret.as_ref(), hint)?;
            check.secret(&path, secret, Purpose::Webhook)
        }
        (Some(false) | None, Some(_)) => {
            check.fault(&path, "is given, but nothing is called back", "write `callback = true`, or take it out");
            None
        }
        (Some(false) | None, None) => None,
    }
}

/// Names that only make sense together: an id that is used must be known, a callback must be announced.
fn check_names(check: &mut Check<'_>, path: &str, http: &Http) {
    let start = &http.start;
    let later = [
        ("poll.url", http.poll.as_ref().map(|poll| &poll.url)),
        ("poll.log_url", http.poll.as_ref().and_then(|poll| poll.log_url.as_ref())),
        ("cancel.url", http.cancel.as_ref().map(|cancel| &cancel.url)),
    ];
    for (key, url) in later {
        if start.id_pointer.is_none() && url.is_some_and(|url| uses(&url.template, "id")) {
            let hint = "write start.id_pointer = \"/id\", or use `{{ key }}`";
            check.fault(&format!("{path}.{key}"), "uses `id`, but `start.id_pointer` is missing", hint);
        }
    }
    if http.find.is_some() && start.id_pointer.is_none() {
        let text = "needs `start.id_pointer`: without it a run has no name but our key";
        check.fault(&format!("{path}.find"), text, "write start.id_pointer = \"/id\"");
    }
    let mut told = start.headers.values().chain(start.body.as_ref().map(Body::template)).chain([&start.url.template]);
    if http.callback.is_some() && !told.any(|template| CALLBACK_NAMES.iter().any(|name| uses(template, name))) {
        let hint = "put `{{ callback_url }}` into start.body, start.headers or start.url";
        check.fault(&format!("{path}.callback"), "the other system is not told where to call back", hint);
    }
}

/// Whether a template uses a name.
fn uses(template: &Template, name: &str) -> bool {
    let environment = minijinja::Environment::new();
    environment
        .template_from_str(template.source())
        .is_ok_and(|template| template.undeclared_variables(false).contains(name))
}

/// The hosts that may be contacted, checked against those of all addresses.
fn allowed_hosts(check: &mut Check<'_>, path: &str, raw: Option<&[String]>, http: &Http) -> Vec<String> {
    let urls = [
        ("start.url", Some(&http.start.url)),
        ("poll.url", http.poll.as_ref().map(|poll| &poll.url)),
        ("poll.log_url", http.poll.as_ref().and_then(|poll| poll.log_url.as_ref())),
        ("find.url", http.find.as_ref().map(|find| &find.url)),
        ("cancel.url", http.cancel.as_ref().map(|cancel| &cancel.url)),
    ];
    let used = urls.into_iter().filter_map(|(key, url)| Some((key, url?)));
    let Some(raw) = raw else {
        let mut hosts: Vec<String> = used.map(|(_, url)| url.host()).collect();
        hosts.sort();
        hosts.dedup();
        return hosts;
    };
    let mut allowed = Vec::new();
    for (i, host) in raw.iter().enumerate() {
        match host_as_written(host) {
            Some(host) => allowed.push(host),
            None => {
                let hint = "write `ci.example` or `ci.example:8443`";
                check.fault(&format!("{path}.allowed_hosts[{i}]"), format!("`{host}` is not a host"), hint);
            }
        }
    }
    for (key, url) in used {
        let host = url.host();
        if !allowed.contains(&host) {
            let hint = format!("add `{host}` there, or correct the address");
            check.fault(&format!("{path}.{key}"), "its host is not among `allowed_hosts`", hint);
        }
    }
    allowed
}

/// The host, with its port unless that is a usual one.
fn host_as_written(text: &str) -> Option<String> {
    if text.is_empty() || text.contains(['/', '@', '?', '#', ' ']) {
        return None;
    }
    let url = Url::parse(&format!("https://{text}")).ok()?;
    Some(template::host_of(&url)).map(|host| host.trim_end_matches(":80").to_owned())
}

/// A JSON pointer (RFC 6901): empty, or parts that each start with `/`.
fn pointer(check: &mut Check<'_>, path: &str, text: &str) {
    let bad_escape = text.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1']));
    if (!text.is_empty() && !text.starts_with('/')) || bad_escape {
        check.fault(path, format!("`{text}` is not a JSON pointer"), "write it like `/result/state`");
    }
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn header_name(check: &mut Check<'_>, path: &str, name: &str) {
    /// Headers that carry secrets.
    const SECRET: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "private-token"];
    /// Headers that frame the request.
    const FRAMING: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "idempotency-key"];
    let lower = name.to_ascii_lowercase();
    if !is_header_name(name) {
        check.fault(path, format!("`{name}` cannot name a header"), "use letters, digits and `-`");
    } else if SECRET.contains(&lower.as_str()) {
        check.fault(path, "would hold a secret in clear", "use `token` and `token_header` of the runner");
    } else if FRAMING.contains(&lower.as_str()) {
        check.fault(path, format!("`{name}` is set by the client itself"), "take it out");
    }
}
