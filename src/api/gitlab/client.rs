//! Sends requests to one GitLab instance over the shared HTTP client.
//!
//! It adds the token, keeps the time limit, follows one permanent redirect of a read on the same host, and stays silent
//! while GitLab has asked for silence. It never repeats a write. Every failure leaves it as a [`Failure`].

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gitlab::api::{ApiError, AsyncClient, AsyncQuery, Endpoint, Pageable, Pagination, RestClient};
use http::{HeaderValue, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use url::Url;

use super::classify::{self, Call, Failure};
use super::{JobAddress, never_retry};
use crate::domain::Timestamp;
use crate::ports::{CallError, Clock};

/// Largest answer that is read, in bytes; a page of 100 rows is far below it.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Largest log that is streamed through to reach its end, in bytes.
const TRACE_BYTES_MAX: usize = 256 << 20;
/// Longest time that streaming a log may take.
const TRACE_TIMEOUT: Duration = Duration::from_secs(60);
/// How many hopeless jobs are remembered.
const HOPELESS_MAX: usize = 4_096;

/// How to reach one GitLab instance.
#[derive(Clone, Debug)]
pub struct GitLabAccess {
    /// The instance's address, with the path prefix where it has one.
    pub url: Url,
    /// Personal, project or group access token with the scope `api`.
    pub token: SecretString,
    /// Longest time for one request with its answer.
    pub request_timeout: Duration,
    /// Shortest time between two writes; zero for none.
    pub pause_between_writes: Duration,
}

/// A client of one instance. Share it (`Arc`): limits are remembered in it.
pub struct GitLabClient {
    http: reqwest::Client,
    base: Url,
    token: SecretString,
    request_timeout: Duration,
    pause_between_writes: Duration,
    last_write: tokio::sync::Mutex<Option<tokio::time::Instant>>,
    clock: Arc<dyn Clock>,
    blocked_until_ms: AtomicI64,
    hopeless: Mutex<Hopeless>,
}

#[derive(Default)]
struct Hopeless {
    why: HashMap<JobAddress, &'static str>,
    oldest: VecDeque<JobAddress>,
}

impl fmt::Debug for GitLabClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitLabClient").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl GitLabClient {
    /// A client over `http`, which must follow no redirect: a followed POST would turn into a GET.
    pub fn new(http: reqwest::Client, access: GitLabAccess, clock: Arc<dyn Clock>) -> Self {
        let GitLabAccess { url: mut base, token, request_timeout, pause_between_writes } = access;
        base.set_query(None);
        base.set_fragment(None);
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Self {
            http,
            base,
            token,
            request_timeout,
            pause_between_writes,
            last_write: tokio::sync::Mutex::new(None),
            clock,
            blocked_until_ms: AtomicI64::new(0),
            hopeless: Mutex::default(),
        }
    }

    /// The instance's address; its path ends with a slash.
    pub const fn base(&self) -> &Url {
        &self.base
    }

    /// Until when GitLab wants no request; none when it takes some.
    pub fn throttled_until(&self) -> Option<Timestamp> {
        let until = Timestamp::from_ms(self.blocked_until_ms.load(Ordering::Relaxed));
        (until > self.clock.now()).then_some(until)
    }

    /// Sends nothing until then: what an earlier process was told is kept in the store and handed in here.
    pub fn throttle_until(&self, until: Timestamp) {
        self.blocked_until_ms.fetch_max(until.ms(), Ordering::Relaxed);
    }

    /// The time, as the client was given it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Remembers that a job failed for a reason that no retry can mend (forge-gitlab reference, 4.1), so that the runner
    /// can say so without a look-up. Forgotten with the process and after 4,096 more; a retry then just fails again.
    pub fn remember_cause(&self, job: JobAddress, cause: &str) {
        let Some(why) = never_retry(cause) else { return };
        let mut known = self.hopeless.lock().unwrap_or_else(PoisonError::into_inner);
        if known.why.insert(job, why).is_none() {
            known.oldest.push_back(job);
        }
        if known.oldest.len() > HOPELESS_MAX
            && let Some(gone) = known.oldest.pop_front()
        {
            known.why.remove(&gone);
        }
    }

    /// Why a retry of this job cannot help, when that is known.
    pub fn known_hopeless(&self, job: JobAddress) -> Option<&'static str> {
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner).why.get(&job).copied()
    }

    /// Sends one request and decodes its answer.
    pub(super) async fn ask<T, E>(&self, endpoint: E) -> Result<T, Failure>
    where
        T: DeserializeOwned + 'static,
        E: Endpoint + Sync,
    {
        let call = self.call_of(&endpoint);
        endpoint.query_async(self).await.map_err(|error| settle(error, &call))
    }

    /// Sends one request whose answer is of no interest.
    pub(super) async fn tell<E: Endpoint + Sync>(&self, endpoint: E) -> Result<(), Failure> {
        let call = self.call_of(&endpoint);
        gitlab::api::ignore(endpoint).query_async(self).await.map_err(|error| settle(error, &call))
    }

    /// Reads all pages.
    pub(super) async fn all<T, E>(&self, endpoint: E) -> Result<Vec<T>, Failure>
    where
        T: DeserializeOwned + Send + 'static,
        E: Endpoint + Pageable + Sync,
    {
        let call = self.call_of(&endpoint);
        gitlab::api::paged(endpoint, Pagination::All).query_async(self).await.map_err(|error| settle(error, &call))
    }

    fn call_of(&self, endpoint: &impl Endpoint) -> Call {
        let uri = format!("/{}", endpoint.endpoint()).parse().unwrap_or_default();
        Call::new(&endpoint.method(), &uri)
    }

    /// The last `bytes_max` bytes of a job's log, and whether there were more. The log is streamed, never held whole.
    pub async fn trace_tail(&self, job: JobAddress, bytes_max: usize) -> Result<(Vec<u8>, bool), Failure> {
        let path = format!("projects/{}/jobs/{}/trace", job.project, job.job);
        let url = self.rest_endpoint(&path).map_err(|error| Failure::refused(error.to_string()))?;
        let call = Call::new(&http::Method::GET, &format!("/{path}").parse().unwrap_or_default());
        let mut request = reqwest::Request::new(http::Method::GET, url);
        *request.timeout_mut() = Some(TRACE_TIMEOUT.max(self.request_timeout));
        let mut response = self.execute(request, &call).await?;
        if !response.status().is_success() {
            return Err(self.refusal(&call, response).await);
        }
        let (mut tail, mut seen) = (Vec::new(), 0_usize);
        while let Some(chunk) = response.chunk().await.map_err(|error| call.transport(&error))? {
            seen = seen.saturating_add(chunk.len());
            tail.extend_from_slice(&chunk);
            if tail.len() > bytes_max.saturating_mul(2) {
                tail.drain(..tail.len() - bytes_max);
            }
            if seen > TRACE_BYTES_MAX {
                return Err(Failure::refused("the log is too large to read to its end"));
            }
        }
        if tail.len() > bytes_max {
            tail.drain(..tail.len() - bytes_max);
        }
        Ok((tail, seen > bytes_max))
    }

    /// A file on the default branch as it is stored: its version and its bytes; none when it still is of the version
    /// `known`. A 404 whose message does not speak of the project means that there is no such file.
    pub async fn file(
        &self,
        project: u64,
        path: &str,
        known: Option<&str>,
    ) -> Result<Option<(String, Bytes)>, Failure> {
        let path = format!("projects/{project}/repository/files/{}/raw?ref=HEAD", super::calls::segment(path));
        let url = self.rest_endpoint(&path).map_err(|error| Failure::refused(error.to_string()))?;
        let call = Call::new(&http::Method::GET, &format!("/{path}").parse().unwrap_or_default());
        let mut request = reqwest::Request::new(http::Method::GET, url);
        *request.timeout_mut() = Some(self.request_timeout);
        if let Some(etag) = known.and_then(|known| HeaderValue::from_str(known).ok()) {
            request.headers_mut().insert(header::IF_NONE_MATCH, etag);
        }
        let response = self.execute(request, &call).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(self.refusal(&call, response).await);
        }
        let named = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let version = named("etag").or_else(|| named("x-gitlab-blob-id")).unwrap_or_default();
        Ok(Some((version, read_body(response, &call).await?)))
    }

    async fn send(&self, builder: http::request::Builder, body: Vec<u8>) -> Result<http::Response<Bytes>, Failure> {
        let request = builder.body(body).map_err(|error| Failure::refused(error.to_string()))?;
        let call = Call::new(request.method(), request.uri());
        let mut request = reqwest::Request::try_from(request).map_err(|error| call.transport(&error))?;
        *request.timeout_mut() = Some(self.request_timeout);
        let response = self.execute(request, &call).await?;
        if !response.status().is_success() {
            return Err(self.refusal(&call, response).await);
        }
        let mut whole = http::Response::new(Bytes::new());
        *whole.status_mut() = response.status();
        *whole.headers_mut() = response.headers().clone();
        *whole.body_mut() = read_body(response, &call).await?;
        Ok(whole)
    }

    /// Adds the token and sends. A read that meets a permanent redirect on the same host is sent once more.
    async fn execute(&self, mut request: reqwest::Request, call: &Call) -> Result<reqwest::Response, Failure> {
        if let Some(until) = self.throttled_until() {
            let retry_after = until.since(self.clock.now());
            let log = "GitLab asked for silence; nothing was sent".to_owned();
            return Err(Failure {
                error: CallError::Throttled { retry_after, log },
                status: None,
                message: String::new(),
            });
        }
        let mut token = HeaderValue::from_str(self.token.expose_secret())
            .map_err(|_| Failure::refused("the GitLab token has characters that no header can carry"))?;
        token.set_sensitive(true);
        request.headers_mut().insert("private-token", token);
        if call.is_write() {
            self.pause().await;
        }
        let again = if call.is_write() { None } else { request.try_clone() };
        let response = self.http.execute(request).await.map_err(|error| call.transport(&error))?;
        let response = match (again, moved_on_same_host(&response)) {
            (Some(mut again), Some(target)) => {
                *again.url_mut() = target;
                self.http.execute(again).await.map_err(|error| call.transport(&error))?
            }
            _ => response,
        };
        if let Some(span) = classify::used_up(response.headers(), self.clock.now()) {
            self.throttle_until(self.clock.now().plus(span));
        }
        Ok(response)
    }

    /// Waits for this write's turn. Writes that come together stand in line.
    async fn pause(&self) {
        if self.pause_between_writes.is_zero() {
            return;
        }
        let mut last = self.last_write.lock().await;
        if let Some(last) = *last {
            tokio::time::sleep_until(last + self.pause_between_writes).await;
        }
        *last = Some(tokio::time::Instant::now());
    }

    async fn refusal(&self, call: &Call, response: reqwest::Response) -> Failure {
        let (status, headers) = (response.status(), response.headers().clone());
        // A body that breaks off adds nothing to the status that we have.
        let body = read_body(response, call).await.unwrap_or_default();
        let failure = call.answer(status, &headers, &body, self.clock.now());
        if status == StatusCode::TOO_MANY_REQUESTS
            && let CallError::Throttled { retry_after, .. } = &failure.error
        {
            self.throttle_until(self.clock.now().plus(*retry_after));
        }
        failure
    }
}

impl RestClient for GitLabClient {
    type Error = Failure;

    fn rest_endpoint(&self, path: &str) -> Result<Url, ApiError<Failure>> {
        Ok(self.base.join("api/v4/")?.join(path)?)
    }

    fn instance_endpoint(&self, path: &str) -> Result<Url, ApiError<Failure>> {
        Ok(self.base.join(path)?)
    }
}

#[async_trait::async_trait]
impl AsyncClient for GitLabClient {
    async fn rest_async(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<http::Response<Bytes>, ApiError<Failure>> {
        self.send(request, body).await.map_err(ApiError::client)
    }
}

/// The crate's error as ours. All that is no success was classified by the client already; what remains is an answer
/// that does not have the expected form, after which a write may have worked.
fn settle(error: ApiError<Failure>, call: &Call) -> Failure {
    match error {
        ApiError::Client { source } => source,
        ApiError::UrlParse { source } => Failure::refused(source.to_string()),
        ApiError::Body { source } => Failure::refused(source.to_string()),
        ApiError::GitlabService { status, .. } => call.lost_failure(&format!("{status} with a body that is no JSON")),
        other => call.lost_failure(&other.to_string()),
    }
}

fn moved_on_same_host(response: &reqwest::Response) -> Option<Url> {
    let moved = matches!(response.status(), StatusCode::MOVED_PERMANENTLY | StatusCode::PERMANENT_REDIRECT);
    let location = response.headers().get(header::LOCATION).filter(|_| moved)?.to_str().ok()?;
    let target = response.url().join(location).ok()?;
    (target.origin() == response.url().origin()).then_some(target)
}

async fn read_body(mut response: reqwest::Response, call: &Call) -> Result<Bytes, Failure> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| call.transport(&error))? {
        if whole.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(call.lost_failure("the answer is larger than 32 MiB"));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}
