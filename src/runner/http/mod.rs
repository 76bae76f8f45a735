//! The HTTP runner: any system that starts a job when it is asked over HTTP.
//!
//! Templates say how it is asked (`template.rs`), JSON pointers where its answers have what we need, and a table what
//! its words mean; it may also tell us by itself. It refuses to leave the configured hosts and to repeat a request.
//! Read next: `config.rs` for what can be declared, `../wire.rs` for what a failure means.

mod config;
mod template;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use minijinja::Value;
use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use self::config::Plan;
use self::template::{AddressTemplate, Values};
use super::wire::{Answer, Tail};
use super::{log_text, wire};
use crate::domain::{DispatchKey, JobName, JobState, Repo, RunHandle, RunObservation, RunOrder, RunRef, RunnerName};
use crate::ports::{
    Abilities, CallError, Clock, DispatchError, DispatchOrder, Found, JobOrder, LogTail, Runner, RunnerKind, Started,
    SuccessorNaming, hmac_sha256_matches,
};

pub use self::config::{
    Callback, CancelRequest, FindRequest, HttpBody, HttpConfig, HttpConfigError, HttpJob, HttpToken, PollRequest,
    StartRequest,
};

/// Longest name of a run that is believed, in bytes.
const ID_BYTES_MAX: usize = 500;

/// Longest cause in characters.
const CAUSE_CHARS_MAX: usize = 300;

/// The values of an order that are kept with the handle when an address about the run reads them.
const KEPT_VALUES: [&str; 5] = ["change", "sha", "job", "scope", "source_run"];

/// Why nothing can be asked about a run whose start was never answered.
const NAMELESS: &str = "it never told the name of this run";

/// Largest callback in bytes.
const CALLBACK_BYTES_MAX: usize = 64 << 10;

/// Longest address of a page in bytes.
const URL_BYTES_MAX: usize = 2_000;

/// The token that a callback about the run `key` must bear: the hex HMAC-SHA256 of the key.
///
/// It is worth nothing for another run, and need not be stored.
pub fn callback_token(secret: &SecretString, key: &DispatchKey) -> String {
    // HMAC takes a key of any length: this never fails.
    let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.expose_secret().as_bytes()) else {
        return String::new();
    };
    mac.update(key.as_str().as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

/// One system behind HTTP.
#[derive(Debug)]
pub struct HttpRunner {
    plan: Plan,
    abilities: Abilities,
    client: reqwest::Client,
    clock: Arc<dyn Clock>,
}

/// What a handle's id holds besides our key: what requests about the run need. A bare key stands for itself.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// The system's own name of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    key: String,
    /// Values of the order that an address reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, String>,
    /// The order's overrides, when an address reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overrides: Option<BTreeMap<String, String>>,
}

impl Kept {
    fn of(handle: &RunHandle) -> Self {
        serde_json::from_str(&handle.id).unwrap_or_else(|_| Self { key: handle.id.clone(), ..Self::default() })
    }
}

/// What a callback says.
#[derive(Debug, Deserialize)]
struct Told {
    state: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    cause: Option<String>,
}

impl HttpRunner {
    /// Compiles the templates and checks everything that can be checked without asking.
    ///
    /// # Errors
    /// [`HttpConfigError`]: which key, and what is wrong with it.
    pub fn new(config: HttpConfig, clock: Arc<dyn Clock>) -> Result<Self, HttpConfigError> {
        let plan = Plan::new(config)?;
        let client = wire::client(plan.config.start.timeout)
            .map_err(|e| HttpConfigError { key: "start", why: format!("the HTTP client: {e}") })?;
        let named = plan.config.start.id_pointer.is_some();
        let abilities = Abilities {
            successor: if named { SuccessorNaming::NewId } else { SuccessorNaming::OurKey },
            reported_by_forge: false,
            restarts_group: false,
            needs_group_over: false,
            runs_dependents: false,
            age_max: None,
            restarts_max: None,
            finds_by_key: plan.find.is_some(),
            takes_overrides: plan.config.jobs.iter().any(|job| !job.overrides.is_empty()),
            cancels: plan.cancel.is_some(),
            starts_fresh: true,
            out_of_reach_for_forks: false,
            tails_log: plan.log.is_some(),
        };
        Ok(Self { plan, abilities, client, clock })
    }

    fn who(&self) -> String {
        format!("runner `{}`", self.plan.config.name)
    }

    fn refusal(&self, why: &str) -> CallError {
        CallError::refused(format!("{}: {why}", self.who()))
    }

    /// A request to a rendered address with the headers that go with every one.
    fn request(
        &self,
        method: http::Method,
        to: &AddressTemplate,
        values: &Values,
    ) -> Result<RequestBuilder, CallError> {
        let url = to.render(values).map_err(|why| self.refusal(&why))?;
        let mut request = self.client.request(method, url);
        for (name, value) in self.plan.constant_headers() {
            request = request.header(name, value);
        }
        Ok(request)
    }

    /// The request that starts a run.
    fn start_request(&self, order: &DispatchOrder, job: &JobOrder) -> Result<RequestBuilder, CallError> {
        let plan = &self.plan;
        let values = self.order_values(order, job);
        let mut request = self.request(plan.method.clone(), &plan.start, &values)?;
        request = request.header("idempotency-key", job.key.as_str());
        for (name, template) in plan.headers.iter().filter(|(_, template)| !template.is_constant()) {
            request = request.header(name, template.render(&values).map_err(|why| self.refusal(&why))?);
        }
        if let Some(template) = &plan.body {
            if plan.headers.iter().all(|(name, _)| *name != http::header::CONTENT_TYPE) {
                request = request.header(http::header::CONTENT_TYPE, template.media_type());
            }
            request = request.body(template.render(&values).map_err(|why| self.refusal(&why))?);
        }
        Ok(request)
    }

    fn order_values(&self, order: &DispatchOrder, job: &JobOrder) -> Values {
        let source = job.source_run.as_ref().map_or_else(|| Value::from(()), |run| Value::from(run.as_str()));
        let mut values = self.common_values(&order.repo, &job.key);
        values.extend([
            ("change", Value::from(order.change.number)),
            ("sha", Value::from(order.sha.as_str())),
            ("job", Value::from(job.job.as_str())),
            ("scope", Value::from(job.scope.as_str())),
            ("source_run", source),
            ("overrides", table(&job.overrides)),
        ]);
        values
    }

    fn common_values(&self, repo: &Repo, key: &DispatchKey) -> Values {
        let (url, token) = match &self.plan.config.callback {
            Some(callback) => {
                let url = format!("{}/{key}", callback.url.trim_end_matches('/'));
                (Value::from(url), Value::from(callback_token(&callback.secret, key)))
            }
            None => (Value::from(()), Value::from(())),
        };
        Values::from([
            ("forge", Value::from(repo.key.forge.as_str())),
            ("runner", Value::from(self.plan.config.name.as_str())),
            ("repository", Value::from(repo.full_name.as_str())),
            ("key", Value::from(key.as_str())),
            ("callback_url", url),
            ("callback_token", token),
        ])
    }

    /// The values for requests about a run; none when the run is known by our key alone (a callback was faster than the
    /// answer to the start) and more is needed to ask for it.
    fn run_values(&self, repo: &Repo, kept: &Kept) -> Option<Values> {
        let mut values = self.common_values(repo, &DispatchKey::new(&kept.key));
        let named = self.plan.config.start.id_pointer.is_some();
        if let Some(id) = kept.id.as_ref().or((!named).then_some(&kept.key)) {
            values.insert("id", Value::from(id.as_str()));
        }
        for name in KEPT_VALUES {
            match kept.values.get(name) {
                Some(text) if name == "change" => values.insert(name, Value::from(text.parse::<u64>().ok()?)),
                Some(text) => values.insert(name, Value::from(text.as_str())),
                None => None,
            };
        }
        if let Some(overrides) = &kept.overrides {
            values.insert("overrides", table(overrides));
        }
        // A first run repeats none, so this one may be missing for good.
        let may_be_missing = |name: &str| name == "source_run" && !kept.values.is_empty();
        let names = self.plan.run_names();
        let complete = names.into_iter().all(|name| values.contains_key(name) || may_be_missing(name));
        complete.then(|| {
            values.entry("source_run").or_insert_with(|| Value::from(()));
            values
        })
    }

    /// The one job of an order, when it may be started here with these fields.
    fn wanted<'a>(&self, order: &'a DispatchOrder) -> Result<&'a JobOrder, CallError> {
        let [wanted] = order.jobs.as_slice() else {
            return Err(self.refusal(&format!("one run has one job, not {}", order.jobs.len())));
        };
        let Some(job) = self.plan.job(&wanted.job) else {
            return Err(self.refusal(&format!("no job `{}` is declared here", wanted.job)));
        };
        match wanted.overrides.keys().find(|key| !job.overrides.contains(key)) {
            Some(key) => Err(self.refusal(&format!("`{}` cannot be changed for this job", key.escape_debug()))),
            None => Ok(wanted),
        }
    }

    fn failure(&self, answer: &Answer, key: &str) -> CallError {
        answer.failure(&self.who(), &self.secrets(key), self.clock.now())
    }

    /// What no text about the run may hold: the configured secrets, and the run's own callback token.
    fn secrets(&self, key: &str) -> Vec<SecretString> {
        let callback = self.plan.config.callback.as_ref();
        let token = callback.map(|callback| callback_token(&callback.secret, &DispatchKey::new(key)).into());
        self.plan.secrets.iter().cloned().chain(token).collect()
    }

    fn started(&self, order: &DispatchOrder, id: Option<String>, url: Option<String>) -> Result<Started, CallError> {
        let wanted = self.wanted(order)?;
        let names = self.plan.run_names();
        let text = |name: &str| match name {
            "change" => Some(order.change.number.to_string()),
            "sha" => Some(order.sha.to_string()),
            "job" => Some(wanted.job.to_string()),
            "scope" => Some(wanted.scope.clone()),
            "source_run" => wanted.source_run.as_ref().map(ToString::to_string),
            _ => None,
        };
        let kept = Kept {
            id,
            key: wanted.key.to_string(),
            values: names.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?))).collect(),
            overrides: names.contains("overrides").then(|| wanted.overrides.clone()),
        };
        let bare = kept.id.is_none() && kept.values.is_empty() && kept.overrides.is_none();
        let id = match serde_json::to_string(&kept) {
            Ok(text) if !bare => text,
            Ok(_) | Err(_) => kept.key,
        };
        let handle = RunHandle { id, order: RunOrder(self.clock.now().ms(), 0), url };
        Ok(Started { runs: vec![(wanted.key.clone(), handle)], also: Vec::new() })
    }

    /// The state that a word means; an unknown one means that the run goes on, and is told as the cause.
    fn state_of(&self, word: &str, key: &str) -> (JobState, Option<String>) {
        let known = self.plan.config.states.get(word).copied().or_else(|| JobState::parse(word));
        known.map_or_else(|| (JobState::Running, self.words(word, key)), |state| (state, None))
    }

    /// Words of the other side: one line, bounded, without our secrets; none when nothing is left.
    fn words(&self, text: &str, key: &str) -> Option<String> {
        let masked = wire::mask(text, &self.secrets(key));
        Some(log_text::one_line(&masked, CAUSE_CHARS_MAX)).filter(|line| !line.is_empty())
    }
}

#[async_trait]
impl Runner for HttpRunner {
    fn name(&self) -> &RunnerName {
        &self.plan.config.name
    }

    fn kind(&self) -> RunnerKind {
        RunnerKind::Http
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        let wanted = self.wanted(order)?;
        let answer = wire::send(self.start_request(order, wanted)?).await?;
        if !self.plan.is_success(answer.status) {
            return Err(self.failure(&answer, wanted.key.as_str()).into());
        }
        let start = &self.plan.config.start;
        if start.id_pointer.is_none() && start.url_pointer.is_none() {
            return Ok(self.started(order, None, None)?);
        }
        let json = answer.json()?;
        let id = match &start.id_pointer {
            None => None,
            Some(pointer) => Some(name_at(&json, pointer).ok_or_else(|| CallError::Unknown {
                log: format!("{} started something and named no run at `{pointer}`", self.who()),
            })?),
        };
        let url = start.url_pointer.as_deref().and_then(|pointer| page_at(&json, pointer));
        Ok(self.started(order, id, url)?)
    }

    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        let wanted = self.wanted(order)?;
        let (Some(find), Some(address)) = (&self.plan.config.find, &self.plan.find) else {
            return Ok(Found::CannotTell);
        };
        let request = self.request(http::Method::GET, address, &self.order_values(order, wanted))?;
        let answer = wire::send(request).await?;
        match answer.status.as_u16() {
            404 => Ok(Found::NotSent),
            200..300 => match name_at(&answer.json()?, &find.id_pointer) {
                Some(id) => {
                    let named = self.plan.config.start.id_pointer.is_some();
                    self.started(order, named.then_some(id), None).map(Found::Sent)
                }
                None => Ok(Found::NotSent),
            },
            _ => Err(self.failure(&answer, wanted.key.as_str())),
        }
    }

    async fn observe(&self, repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let kept = Kept::of(handle);
        let run = Some(RunRef::new(kept.id.as_ref().unwrap_or(&kept.key)));
        let mut seen =
            RunObservation { state: JobState::Running, cause: None, url: handle.url.clone(), run, order: handle.order };
        let (Some(poll), Some(address)) = (&self.plan.config.poll, &self.plan.poll) else {
            // Only a callback can tell; until it comes, or the deadline, the run goes on.
            return Ok(seen);
        };
        let Some(values) = self.run_values(repo, &kept) else { return Ok(seen) };
        let answer = wire::send(self.request(http::Method::GET, address, &values)?).await?;
        if !answer.status.is_success() {
            return Err(self.failure(&answer, &kept.key));
        }
        let json = answer.json()?;
        (seen.state, seen.cause) = match json.pointer(&poll.state_pointer) {
            None => (JobState::Running, Some(format!("no state at `{}`", poll.state_pointer))),
            // Many systems have null here until a run is over.
            Some(serde_json::Value::Null) => (JobState::Running, None),
            Some(value) => self.state_of(&word_of(value), &kept.key),
        };
        let cause = poll.cause_pointer.as_deref().and_then(|pointer| json.pointer(pointer)?.as_str());
        if seen.state.is_final() && seen.state != JobState::Passed {
            seen.cause = cause.and_then(|text| self.words(text, &kept.key));
        }
        seen.url = poll.url_pointer.as_deref().and_then(|pointer| page_at(&json, pointer)).or(seen.url);
        Ok(seen)
    }

    async fn cancel(&self, repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<(), CallError> {
        let Some((method, address)) = &self.plan.cancel else {
            return Err(self.refusal("a run cannot be cancelled here"));
        };
        let kept = Kept::of(handle);
        let Some(values) = self.run_values(repo, &kept) else { return Err(self.refusal(NAMELESS)) };
        let answer = wire::send(self.request(method.clone(), address, &values)?).await?;
        match answer.status.as_u16() {
            // Gone or in conflict with its state: there is nothing left to cancel; the next look tells the end.
            200..300 | 404 | 409 | 410 => Ok(()),
            _ => Err(self.failure(&answer, &kept.key)),
        }
    }

    async fn log_tail(&self, repo: &Repo, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError> {
        let Some(address) = &self.plan.log else {
            return Err(self.refusal("the log cannot be read here"));
        };
        let kept = Kept::of(handle);
        let Some(values) = self.run_values(repo, &kept) else { return Err(self.refusal(NAMELESS)) };
        let request = self.request(http::Method::GET, address, &values)?;
        match wire::send_for_tail(request, bytes_max).await? {
            Tail::Read { bytes, cut } => {
                let tail = log_text::tail(&bytes, cut);
                Ok(LogTail { text: wire::mask(&tail.text, &self.secrets(&kept.key)), ..tail })
            }
            Tail::Answered(answer) => Err(self.failure(&answer, &kept.key)),
        }
    }

    fn allowed_overrides(&self, job: &JobName) -> Vec<String> {
        self.plan.job(job).map(|job| job.overrides.clone()).unwrap_or_default()
    }

    fn callback(&self, key: &DispatchKey, token: &str, body: &[u8]) -> Result<RunObservation, CallError> {
        let Some(callback) = &self.plan.config.callback else {
            return Err(self.refusal("it takes no callbacks"));
        };
        let given = hex::decode(token).unwrap_or_default();
        let secret = std::iter::once(callback.secret.expose_secret().as_bytes());
        if !hmac_sha256_matches(secret, &[key.as_str().as_bytes()], &given) {
            return Err(self.refusal("the token of the callback is wrong"));
        }
        if body.len() > CALLBACK_BYTES_MAX {
            return Err(self.refusal("the callback is too large"));
        }
        let told: Told = serde_json::from_slice(body).map_err(|e| self.refusal(&format!("the callback: {e}")))?;
        let (state, unknown) = self.state_of(&told.state, key.as_str());
        let cause = told.cause.and_then(|text| self.words(&text, key.as_str())).or(unknown);
        let url = told.url.filter(|url| is_page(url));
        Ok(RunObservation { state, cause, url, run: None, order: RunOrder(self.clock.now().ms(), 0) })
    }
}

fn table(overrides: &BTreeMap<String, String>) -> Value {
    Value::from_pairs(overrides.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// The name of a run in an answer: a text or a whole number.
fn name_at(json: &serde_json::Value, pointer: &str) -> Option<String> {
    let name = match json.pointer(pointer)? {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) if !number.is_f64() => number.to_string(),
        _ => return None,
    };
    (!name.is_empty() && name.len() <= ID_BYTES_MAX).then_some(name)
}

fn page_at(json: &serde_json::Value, pointer: &str) -> Option<String> {
    json.pointer(pointer)?.as_str().filter(|url| is_page(url)).map(str::to_owned)
}

/// Whether people may be sent there: a plain web address, nothing that a browser would execute.
fn is_page(url: &str) -> bool {
    let plain = url.len() <= URL_BYTES_MAX && !url.contains(|c: char| c.is_whitespace() || c.is_control());
    plain && url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn word_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
