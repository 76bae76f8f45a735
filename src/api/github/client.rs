//! The client that adapters use: reads, pages, writes and downloads, each for one repository.
//!
//! **Invariants:** no write leaves twice (but for one re-issue to a renamed repository, which the first request did
//! not reach); no credential leaves for another host; a limited installation is not called.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::access::{Access, Key, USER_AGENT};
use super::cache::{Cache, Kept};
use super::exchange::{Lost, Outgoing, Raw, exchange};
use super::limits::Limits;
use super::outcome::{Asked, Failure, Need, message};
use super::wire::Id;
use super::{Auth, GitHubConfig, SetupError};
use crate::domain::{Repo, Timestamp};
use crate::ports::Clock;

/// Redirects followed for one read.
const REDIRECTS_MAX: usize = 3;
/// Pages read of one list: 1,000 pages of 100 are more than any list that we read can hold.
const PAGES_MAX: usize = 1_000;
/// Requests under way at once; GitHub's limit is 100 for all that act as one App.
const CONCURRENT_MAX: usize = 50;

/// What a path segment keeps as it is (RFC 3986, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One text as one segment of a path, or one value of a query.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// `/repos/OWNER/NAME`.
pub fn repo_path(repo: &Repo) -> String {
    let (owner, name) = repo.full_name.split_once('/').unwrap_or((&repo.full_name, ""));
    format!("/repos/{}/{}", segment(owner), segment(name))
}

/// The answer to a list: an array, or an object around one.
pub trait Page: DeserializeOwned {
    /// What is listed.
    type Item;
    /// The items of this page.
    fn items(self) -> Vec<Self::Item>;
}

impl<T: DeserializeOwned> Page for Vec<T> {
    type Item = T;
    fn items(self) -> Self {
        self
    }
}

/// A request that changes something.
#[derive(Clone, Debug)]
pub struct Write {
    /// POST, PATCH, PUT or DELETE.
    pub method: Method,
    /// Path below the API's base.
    pub path: String,
    /// JSON.
    pub body: Option<serde_json::Value>,
    /// What it is for.
    pub need: Need,
}

impl Write {
    /// A POST.
    pub const fn post(path: String, body: Option<serde_json::Value>, need: Need) -> Self {
        Self { method: Method::POST, path, body, need }
    }

    /// A PATCH.
    pub const fn patch(path: String, body: serde_json::Value, need: Need) -> Self {
        Self { method: Method::PATCH, path, body: Some(body), need }
    }
}

/// Which page of a list to read.
enum PageLink {
    Next,
    Last,
    Previous,
}

impl PageLink {
    const fn rel(&self) -> &'static str {
        match self {
            Self::Next => "rel=\"next\"",
            Self::Last => "rel=\"last\"",
            Self::Previous => "rel=\"prev\"",
        }
    }

    /// Path and query of that page, from a `Link` header; the host in it is not ours to follow.
    fn of(&self, headers: &HeaderMap) -> Option<String> {
        let links = headers.get(header::LINK)?.to_str().ok()?;
        let link = links.split(", ").find(|link| link.contains(self.rel()))?;
        let address = link.trim_start().strip_prefix('<')?.split_once('>')?.0;
        Some(address.parse::<Uri>().ok()?.path_and_query()?.as_str().to_owned())
    }
}

/// When an installation was last written to; held while writing, so that writes go one after the other.
type Gate = Arc<tokio::sync::Mutex<Option<Instant>>>;

/// One configured GitHub. Share one among all adapters: limits, tokens and kept answers are in it.
pub struct GitHubApi {
    config: GitHubConfig,
    http: reqwest::Client,
    limits: Arc<Limits>,
    access: Access,
    cache: Cache,
    gates: Mutex<HashMap<Option<u64>, Gate>>,
    turns: tokio::sync::Semaphore,
}

impl fmt::Debug for GitHubApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHubApi").field("name", &self.config.name).finish_non_exhaustive()
    }
}

impl GitHubApi {
    /// A client over a shared connection pool. `http` must not follow redirects: a followed POST would turn into a
    /// GET. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    /// [`SetupError`] when the address, key, token or version cannot be used.
    pub fn new(config: GitHubConfig, http: reqwest::Client, clock: Arc<dyn Clock>) -> Result<Self, SetupError> {
        let limits = Arc::new(Limits::new(Arc::clone(&clock)));
        let access = Access::new(&config, http.clone(), clock, Arc::clone(&limits))?;
        Ok(Self {
            config,
            http,
            limits,
            access,
            cache: Cache::default(),
            gates: Mutex::default(),
            turns: tokio::sync::Semaphore::new(CONCURRENT_MAX),
        })
    }

    /// What it was made of.
    pub const fn config(&self) -> &GitHubConfig {
        &self.config
    }

    /// The time before which nothing may be sent for this installation (`None`: the token, or the App itself), if a
    /// limit was hit and the time is still to come. The flow stores it, so that a restart does not forget it.
    pub fn throttled_until(&self, installation: Option<u64>) -> Option<Timestamp> {
        self.limits.until(installation)
    }

    /// Restores such a time; a longer wait already known stays.
    pub fn throttle_until(&self, installation: Option<u64>, until: Timestamp) {
        self.limits.block_until(installation, until);
    }

    /// Reads one thing of a repository. Asked conditionally: an unchanged answer costs nothing of the rate limit.
    ///
    /// # Errors
    /// [`Failure`]; nothing is changed whatever happens.
    pub async fn get<T: DeserializeOwned>(&self, repo: &Repo, path: &str, need: Need) -> Result<T, Failure> {
        let asked = self.asked(&Method::GET, path, need);
        let kept = self.fetch(repo, path, &asked).await?;
        decode(&asked, &kept.body)
    }

    /// Reads every page of a list. `path` may hold a query without `per_page`.
    ///
    /// # Errors
    /// [`Failure`] when any page fails: half a list is none.
    pub async fn pages<P: Page>(&self, repo: &Repo, path: &str, need: Need) -> Result<Vec<P::Item>, Failure> {
        let mut items = Vec::new();
        let mut at = Some(with_page_size(path));
        for _ in 0..PAGES_MAX {
            let Some(path) = at else { break };
            let asked = self.asked(&Method::GET, &path, need);
            let kept = self.fetch(repo, &path, &asked).await?;
            items.extend(decode::<P>(&asked, &kept.body)?.items());
            at = kept.next;
        }
        Ok(items)
    }

    /// Looks through a list that GitHub gives oldest first, from its end.
    ///
    /// # Errors
    /// [`Failure`] when a page fails before something was found.
    pub async fn find_newest<P: Page>(
        &self,
        repo: &Repo,
        path: &str,
        need: Need,
        is_it: impl Fn(&P::Item) -> bool + Send,
    ) -> Result<Option<P::Item>, Failure>
    where
        P::Item: Send,
    {
        let mut out = Outgoing::get(with_page_size(path));
        let asked = self.asked(&Method::GET, path, need);
        let first = self.send(repo, &mut out, &asked).await?;
        let mut at = PageLink::Last.of(&first.headers);
        for _ in 0..PAGES_MAX {
            let Some(path) = at else { break };
            let mut out = Outgoing::get(path);
            let page = self.send(repo, &mut out, &asked).await?;
            let previous = PageLink::Previous.of(&page.headers);
            // The first page has been read; it is looked through last.
            if previous.is_none() {
                break;
            }
            if let Some(hit) = decode::<P>(&asked, &page.body)?.items().into_iter().rev().find(|item| is_it(item)) {
                return Ok(Some(hit));
            }
            at = previous;
        }
        Ok(decode::<P>(&asked, &first.body)?.items().into_iter().rev().find(|item| is_it(item)))
    }

    /// Reads something that belongs to the App itself, or to the token.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn get_own<T: DeserializeOwned>(&self, path: &str, need: Need) -> Result<T, Failure> {
        let asked = self.asked(&Method::GET, path, need);
        let raw = self.send_with(&self.access.own(), &Outgoing::get(path), &asked).await?;
        if raw.status.is_success() { decode(&asked, &raw.body) } else { Err(Failure::of_answer(&asked, &raw)) }
    }

    /// Changes something, at most once. The id in the answer, when it has one: an answer that cannot be read is a
    /// success all the same.
    ///
    /// # Errors
    /// [`Failure`]; after [`crate::ports::CallError::Unknown`] the change may have been made.
    pub async fn write(&self, repo: &Repo, write: &Write) -> Result<Option<u64>, Failure> {
        Ok(self.write_and_read::<Id>(repo, write).await?.map(|body| body.id))
    }

    /// The same, with more of the answer; none when it cannot be read.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn write_and_read<T: DeserializeOwned>(&self, repo: &Repo, write: &Write) -> Result<Option<T>, Failure> {
        let asked = self.asked(&write.method, &write.path, write.need);
        let mut out = Outgoing {
            method: write.method.clone(),
            path: write.path.clone(),
            body: write.body.as_ref().map(|json| Bytes::from(json.to_string())),
            if_none_match: None,
        };
        let gate = self.gate(self.access.installation(repo));
        let mut last = gate.lock().await;
        if let Some(at) = *last {
            tokio::time::sleep_until(at + self.config.pause_between_writes).await;
        }
        let result = self.send(repo, &mut out, &asked).await;
        *last = Some(Instant::now());
        drop(last);
        Ok(serde_json::from_slice(&result?.body).ok())
    }

    /// Downloads what a path redirects to, piece by piece. The other host gets no credential of ours.
    ///
    /// # Errors
    /// [`Failure`]; pieces may have been handed on before it.
    pub async fn download(
        &self,
        repo: &Repo,
        path: &str,
        need: Need,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), Failure> {
        let asked = self.asked(&Method::GET, path, need);
        let key = self.access.key(repo).await?;
        let mut raw = self.send_with(&key, &Outgoing::get(path), &asked).await?;
        // A renamed repository; the download itself is a 302.
        if let Some(path) = self.moved_to(&raw) {
            raw = self.send_with(&key, &Outgoing::get(path), &asked).await?;
        }
        if raw.status.is_success() {
            take(&raw.body);
            return Ok(());
        }
        if !raw.status.is_redirection() {
            return Err(Failure::of_answer(&asked, &raw));
        }
        let broken = |text: &str| Failure::lost(&asked, Lost::AfterSending(text.to_owned()));
        let address = raw.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let address = address.and_then(|text| self.config.api_url.join(text).ok());
        let address = address.filter(|url| url.scheme() == "https" || url.scheme() == self.config.api_url.scheme());
        let address = address.ok_or_else(|| broken("redirected to no usable address"))?;
        let download = async {
            let request = self.http.get(address).header(header::USER_AGENT, USER_AGENT);
            let answer = request.send().await.map_err(|_| broken("the download did not start"))?;
            if !answer.status().is_success() {
                return Err(broken(&format!("the download answered {}", answer.status())));
            }
            let mut pieces = answer.bytes_stream();
            while let Some(piece) = pieces.next().await {
                take(&piece.map_err(|_| broken("the download broke off"))?);
            }
            Ok(())
        };
        // A log may be long: four times the time of a plain answer.
        let result = tokio::time::timeout(self.config.request_timeout.saturating_mul(4), download).await;
        result.map_err(|_| broken("the download took too long"))?
    }

    fn asked(&self, method: &Method, path: &str, need: Need) -> Asked {
        let as_app = matches!(self.config.auth, Auth::App { .. });
        Asked { need, endpoint: format!("{method} {path}"), writes: *method != Method::GET, as_app }
    }

    fn gate(&self, installation: Option<u64>) -> Gate {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(installation).or_default())
    }

    /// A conditional read.
    async fn fetch(&self, repo: &Repo, path: &str, asked: &Asked) -> Result<Kept, Failure> {
        if let Some(wait) = self.limits.blocked(self.access.installation(repo)) {
            return Err(Failure::throttled(asked, None, wait));
        }
        let before = self.access.key(repo).await?;
        let known = self.cache.get(before.generation, path);
        let mut out = Outgoing::get(path);
        out.if_none_match = known.as_ref().map(|kept| kept.etag.clone());
        let raw = self.send(repo, &mut out, asked).await?;
        if let (StatusCode::NOT_MODIFIED, Some(known)) = (raw.status, known) {
            return Ok(known);
        }
        let next = PageLink::Next.of(&raw.headers);
        let Some(etag) = raw.headers.get(header::ETAG).cloned() else {
            return Ok(Kept { etag: header::HeaderValue::from_static(""), body: raw.body, next });
        };
        let kept = Kept { etag, body: raw.body, next };
        self.cache.put(before.generation, path, kept.clone());
        Ok(kept)
    }

    /// Sends for a repository: with its token, once more with a new one after a 401, and where a rename points to.
    /// Gives successes and 304 only.
    async fn send(&self, repo: &Repo, out: &mut Outgoing, asked: &Asked) -> Result<Raw, Failure> {
        let mut renewed = false;
        let mut redirects = if out.writes() { 1 } else { REDIRECTS_MAX };
        loop {
            if let Some(wait) = self.limits.blocked(self.access.installation(repo)) {
                return Err(Failure::throttled(asked, None, wait));
            }
            let key = self.access.key(repo).await?;
            let raw = self.send_with(&key, out, asked).await?;
            let conditional = out.if_none_match.is_some() && raw.status == StatusCode::NOT_MODIFIED;
            if raw.status.is_success() || conditional {
                return Ok(raw);
            }
            if raw.status == StatusCode::UNAUTHORIZED && !renewed && self.access.renew(repo, &key).await {
                renewed = true;
                continue;
            }
            match self.moved_to(&raw) {
                Some(path) if redirects > 0 => {
                    redirects -= 1;
                    out.path = path;
                }
                _ => return Err(Failure::of_answer(asked, &raw)),
            }
        }
    }

    /// One exchange, with the limits kept.
    async fn send_with(&self, key: &Key, out: &Outgoing, asked: &Asked) -> Result<Raw, Failure> {
        if let Some(wait) = self.limits.blocked(key.installation) {
            return Err(Failure::throttled(asked, None, wait));
        }
        let Ok(_turn) = self.turns.acquire().await else {
            return Err(Failure::lost(asked, Lost::BeforeSending("stopping".to_owned())));
        };
        let raw = exchange(&key.crab, out, self.access.api_version(), self.config.request_timeout).await;
        let raw = raw.map_err(|lost| Failure::lost(asked, lost))?;
        let text = if raw.status.is_success() { String::new() } else { message(&raw) };
        match self.limits.learn(key.installation, raw.status, &raw.headers, &text) {
            Some(wait) => Err(Failure::throttled(asked, Some(raw.status.as_u16()), wait)),
            None => Ok(raw),
        }
    }

    /// Where a renamed repository lives now: path and query, on our own host only.
    fn moved_to(&self, raw: &Raw) -> Option<String> {
        let lasting = matches!(
            raw.status,
            StatusCode::MOVED_PERMANENTLY | StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        let address = raw.headers.get(header::LOCATION)?.to_str().ok().filter(|_| lasting)?;
        let address = self.config.api_url.join(address).ok()?;
        let same = address.origin() == self.config.api_url.origin();
        same.then(|| match address.query() {
            Some(query) => format!("{}?{query}", address.path()),
            None => address.path().to_owned(),
        })
    }
}

fn with_page_size(path: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}per_page=100")
}

fn decode<T: DeserializeOwned>(asked: &Asked, body: &[u8]) -> Result<T, Failure> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|e| Failure::unreadable(asked, StatusCode::OK, &format!("at `{}`: {}", e.path(), e.inner())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_a_path_whatever_host_the_link_names() {
        let mut headers = HeaderMap::new();
        let link = "<https://elsewhere.example/api/v3/x?a=1&page=1>; rel=\"prev\", <https://elsewhere.example/api/v3/x?a=1&page=3>; rel=\"next\"";
        headers.insert(header::LINK, link.parse().expect("header"));
        assert_eq!(PageLink::Next.of(&headers).as_deref(), Some("/api/v3/x?a=1&page=3"));
        assert_eq!(PageLink::Previous.of(&headers).as_deref(), Some("/api/v3/x?a=1&page=1"));
        assert_eq!(PageLink::Last.of(&headers), None);
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        assert_eq!(segment("feature/a b?c#d"), "feature%2Fa%20b%3Fc%23d");
        assert_eq!(segment("helper[bot]"), "helper%5Bbot%5D");
    }
}
