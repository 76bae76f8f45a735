//! Asks one LAVA instance over REST v0.2, within limits, and reads its answers.
//!
//! Reading has no effect, so that a read without an answer is never in doubt; a submission without one is. It never logs a
//! body: a job's record holds the secret of its worker. Read next: `mod.rs`.

use std::time::Duration;

use http::{HeaderValue, Method, StatusCode, header};
use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::wire::{self, Answer};
use super::definition::Definition;
use super::log::LogReader;
use crate::domain::{JobState, Timestamp};
use crate::ports::{CallError, LogTail};

/// Failed test cases that are asked for at once.
const CASES_PAGE: usize = 200;

/// Pages of failed test cases, or of suites, that are read at most.
const PAGES_MAX: usize = 50;

/// Members of a multinode group that are looked at.
const MEMBERS_MAX: usize = 100;

/// How much of a log is read through to get at its end, in bytes.
const LOG_BYTES_READ_MAX: usize = 64 << 20;

/// One instance.
#[derive(Debug)]
pub(super) struct Client {
    who: String,
    base: String,
    token: SecretString,
    header: HeaderValue,
    http: reqwest::Client,
}

/// What is needed of a job's record.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct LavaJob {
    pub id: u64,
    pub state: String,
    pub health: String,
    #[serde(default)]
    pub description: Option<String>,
    /// As LAVA wrote it out again.
    pub definition: String,
    /// As it was submitted; of a group's member: its own part.
    #[serde(default)]
    pub original_definition: Option<String>,
    /// The whole group's, as it was submitted.
    #[serde(default)]
    pub multinode_definition: Option<String>,
}

impl LavaJob {
    /// What was submitted, for the whole group when it is of one.
    pub(super) fn submitted(&self) -> &str {
        let given = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        match (&self.multinode_definition, &self.original_definition) {
            (Some(text), _) if given(&self.multinode_definition) => text,
            (_, Some(text)) if given(&self.original_definition) => text,
            _ => &self.definition,
        }
    }

    /// Whether it is a member of a multinode group.
    pub(super) fn is_member(&self) -> bool {
        self.multinode_definition.as_deref().is_some_and(|text| !text.trim().is_empty())
    }
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    #[serde(default)]
    next: Option<String>,
    results: Vec<T>,
}

#[derive(Debug, Deserialize)]
struct Suite {
    id: u64,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    suite: u64,
    #[serde(default)]
    metadata: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Submitted {
    job_ids: Vec<Value>,
}

impl Client {
    pub(super) fn new(name: &str, base: &str, token: &SecretString, timeout: Duration) -> Result<Self, String> {
        let mut value = HeaderValue::from_str(&format!("Token {}", token.expose_secret()))
            .map_err(|_| "the token cannot stand in a header".to_owned())?;
        value.set_sensitive(true);
        Ok(Self {
            who: format!("LAVA `{name}`"),
            base: base.to_owned(),
            token: token.clone(),
            header: value,
            http: wire::client(timeout).map_err(|error| format!("the HTTP client: {error}"))?,
        })
    }

    pub(super) fn who(&self) -> &str {
        &self.who
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let url = format!("{}/api/v0.2/{path}", self.base);
        let request = self.http.request(method, url).header(header::AUTHORIZATION, self.header.clone());
        if query.is_empty() { request } else { request.query(query) }
    }

    /// What an unsuccessful answer means; a bad token is told as such.
    fn failure(&self, answer: &Answer, now: Timestamp) -> CallError {
        match (answer.status, answer.failure(&self.who, std::slice::from_ref(&self.token), now)) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, CallError::Refused { log, .. }) => {
                let user = format!("{} does not accept the token of this bot; tell whoever runs it", self.who);
                CallError::Refused { user, log }
            }
            (_, error) => error,
        }
    }

    /// Reads JSON; none where there is nothing. A refused token passes when the operator mends it: a run is not gone.
    async fn read(&self, path: &str, query: &[(&str, &str)], now: Timestamp) -> Result<Option<Value>, CallError> {
        let answer = wire::send(self.request(Method::GET, path, query)).await.map_err(unsent)?;
        match answer.status.as_u16() {
            200..300 => answer.json().map(Some).map_err(unsent),
            404 => Ok(None),
            _ => Err(unsent(self.failure(&answer, now))),
        }
    }

    async fn read_as<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        now: Timestamp,
    ) -> Result<Option<T>, CallError> {
        let Some(json) = self.read(path, query, now).await? else { return Ok(None) };
        let odd = |error: serde_json::Error| CallError::Unreachable {
            log: format!("{}: `{path}` is not what LAVA answers: {error}", self.who),
        };
        serde_json::from_value(json).map(Some).map_err(odd)
    }

    /// A job's record; none when there is none that we may see.
    pub(super) async fn job(&self, id: u64, now: Timestamp) -> Result<Option<LavaJob>, CallError> {
        self.read_as(&format!("jobs/{id}/"), &[], now).await
    }

    /// Jobs whose definition holds a text, oldest or newest first.
    pub(super) async fn jobs_with(
        &self,
        text: &str,
        ordering: &str,
        now: Timestamp,
    ) -> Result<Vec<LavaJob>, CallError> {
        let query = [("definition__contains", text), ("ordering", ordering), ("limit", "20")];
        let page: Option<Page<LavaJob>> = self.read_as("jobs/", &query, now).await?;
        Ok(page.map(|page| page.results).unwrap_or_default())
    }

    /// The members of a multinode group, by id.
    pub(super) async fn members(&self, group: &str, now: Timestamp) -> Result<Vec<LavaJob>, CallError> {
        let limit = MEMBERS_MAX.to_string();
        let query = [("target_group", group), ("ordering", "id"), ("limit", limit.as_str())];
        let page: Option<Page<LavaJob>> = self.read_as("jobs/", &query, now).await?;
        Ok(page.map(|page| page.results).unwrap_or_default())
    }

    /// Submits a definition: the names of its jobs, more than one for a multinode group.
    ///
    /// # Errors
    /// `Refused` for what LAVA or its schema rejects; `Unknown` when it may have been taken.
    pub(super) async fn submit(&self, definition: &str, now: Timestamp) -> Result<Vec<String>, CallError> {
        let request = self.request(Method::POST, "jobs/", &[]).json(&json!({ "definition": definition }));
        let answer = wire::send(request).await?;
        if answer.status != StatusCode::CREATED {
            return Err(self.failure(&answer, now));
        }
        let unread = |log: String| CallError::Unknown { log: format!("{} took a job and {log}", self.who) };
        let told: Submitted =
            serde_json::from_value(answer.json()?).map_err(|error| unread(format!("said: {error}")))?;
        let ids: Option<Vec<String>> = told.job_ids.iter().map(name_of).collect();
        ids.filter(|ids| !ids.is_empty()).ok_or_else(|| unread("named none".to_owned()))
    }

    /// Cancels a job. LAVA answers the same whether it will or not: the caller looks again.
    pub(super) async fn cancel(&self, id: u64, now: Timestamp) -> Result<(), CallError> {
        self.read(&format!("jobs/{id}/cancel/"), &[], now).await.map(|_| ())
    }

    /// Failed cases of the suites that count, as `suite/case`.
    pub(super) async fn failed_cases(
        &self,
        id: u64,
        counts: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Result<Vec<String>, CallError> {
        let failed: Vec<Case> = self.pages(&format!("jobs/{id}/tests/"), "fail", now).await?;
        if failed.is_empty() {
            return Ok(Vec::new());
        }
        let suites: Vec<Suite> = self.pages(&format!("jobs/{id}/suites/"), "", now).await?;
        let name = |case: &Case| suites.iter().find(|suite| suite.id == case.suite).map(|suite| suite.name.as_str());
        let counted = failed.iter().filter_map(|case| Some((name(case)?, case))).filter(|(suite, _)| counts(suite));
        Ok(counted.map(|(suite, case)| format!("{suite}/{}", case.name)).collect())
    }

    async fn pages<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        result: &str,
        now: Timestamp,
    ) -> Result<Vec<T>, CallError> {
        let limit = CASES_PAGE.to_string();
        let mut all = Vec::new();
        for page in 0..PAGES_MAX {
            let offset = (page * CASES_PAGE).to_string();
            let mut query = vec![("limit", limit.as_str()), ("offset", offset.as_str()), ("ordering", "id")];
            if !result.is_empty() {
                query.push(("result", result));
            }
            let Some(Page { next, results }) = self.read_as::<Page<T>>(path, &query, now).await? else { break };
            all.extend(results);
            if next.is_none() {
                break;
            }
        }
        Ok(all)
    }

    /// Error type and message of an incomplete job, from its own result; none when it left none.
    pub(super) async fn error_of(&self, id: u64, now: Timestamp) -> Result<Option<(String, String)>, CallError> {
        let query = [("suite__name", "lava"), ("name", "job"), ("ordering", "id"), ("limit", "20")];
        let page: Option<Page<Case>> = self.read_as(&format!("jobs/{id}/tests/"), &query, now).await?;
        let cases = page.map(|page| page.results).unwrap_or_default();
        let last = cases.iter().rev().find(|case| case.name == "job").and_then(|case| case.metadata.as_ref());
        Ok(last.and_then(error_in))
    }

    /// The end of a job's log as text, read line by line.
    pub(super) async fn log_tail(&self, id: u64, bytes_max: usize, now: Timestamp) -> Result<LogTail, CallError> {
        let request = self.request(Method::GET, &format!("jobs/{id}/logs/"), &[]);
        let mut response = request.send().await.map_err(|error| unsent(wire::failure(&error)))?;
        match response.status() {
            status if status.is_success() => {}
            // A job that has not begun has no log.
            StatusCode::NOT_FOUND => return Ok(LogTail::default()),
            _ => return Err(self.failure(&wire::beginning_of(response).await, now)),
        }
        let mut reader = LogReader::new(bytes_max);
        let mut read = 0_usize;
        while let Some(chunk) = response.chunk().await.map_err(|error| unsent(wire::failure(&error)))? {
            reader.take(&chunk);
            read = read.saturating_add(chunk.len());
            if read > LOG_BYTES_READ_MAX {
                break;
            }
        }
        let tail = reader.end();
        Ok(LogTail { text: wire::mask(&tail.text, std::slice::from_ref(&self.token)), ..tail })
    }

    /// A text of LAVA's without our token.
    pub(super) fn masked(&self, text: &str) -> String {
        wire::mask(text, std::slice::from_ref(&self.token))
    }
}

/// A read had no effect: without an answer nothing is in doubt, and a refusal may end with its reason.
fn unsent(error: CallError) -> CallError {
    match error {
        CallError::Unknown { log } => CallError::Unreachable { log },
        other => other,
    }
}

/// The name of a submitted job: a number, or `GROUP.MEMBER`.
fn name_of(value: &Value) -> Option<String> {
    let name = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let digits = |text: &str| !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    let fits = match name.split_once('.') {
        Some((group, member)) => digits(group) && digits(member),
        None => digits(&name),
    };
    fits.then_some(name)
}

/// `error_type` and `error_msg`: YAML in a text, or already read in versions to come.
fn error_in(metadata: &Value) -> Option<(String, String)> {
    match metadata {
        Value::String(text) => {
            let read = Definition::parse(text).ok()?;
            let of = |key: &str| read.text(key).map(str::to_owned);
            Some((of("error_type")?, of("error_msg").unwrap_or_default()))
        }
        other => {
            let of = |key: &str| other.get(key)?.as_str().map(str::to_owned);
            Some((of("error_type")?, of("error_msg").unwrap_or_default()))
        }
    }
}

/// Whether a state means that nothing is left to cancel.
pub(super) fn is_ending(job: &LavaJob) -> bool {
    matches!(job.state.as_str(), "Canceling" | "Finished")
}

/// Pending or running, for a group: it runs as soon as one of its members does.
pub(super) fn further(a: JobState, b: JobState) -> JobState {
    if a == JobState::Running || b == JobState::Running { JobState::Running } else { JobState::Pending }
}
