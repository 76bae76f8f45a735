//! Serves an axum router on loopback, records every request, and breaks the wire on command.
//!
//! Faults act below HTTP where they must: a reset closes the connection with no answer, before or after the request
//! took effect, so that clients meet what a failing network really does to them.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use tower::ServiceExt;

/// Largest request body the sandbox reads, in bytes.
const REQUEST_BYTES_MAX: usize = 32 << 20;

/// One way to misbehave.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answers this instead of handling the request, which therefore has no effect.
    Answer(Reply),
    /// Handles the request, then answers this instead of the true reply.
    AnswerAfterEffect(Reply),
    /// Closes the connection with no answer; the request has no effect.
    ResetBefore,
    /// Handles the request, then closes the connection with no answer.
    ResetAfterEffect,
    /// Never answers (until the client gives up); the request has no effect.
    Hang,
    /// Handles the request, then sends only the first half of the body and closes the connection.
    Truncate,
}

/// A canned answer of a [`Fault`].
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status code.
    pub status: u16,
    /// Headers to send, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Body text; sent as JSON when it starts with `{` or `[`, else as plain text.
    pub body: String,
}

impl Reply {
    /// A bare answer with a GitHub-like JSON message.
    pub fn message(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "message": message }).to_string();
        Self { status, headers: Vec::new(), body }
    }

    /// Adds a header; `name` must be lower case.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn into_response(self) -> Response<Body> {
        let json = self.body.starts_with(['{', '[']);
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = if json { "application/json; charset=utf-8" } else { "text/plain" };
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response
    }
}

/// A request as the sandbox received it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// HTTP method.
    pub method: Method,
    /// Path without the query.
    pub path: String,
    /// Query text, empty when there is none.
    pub query: String,
    /// Headers, the credentials among them: tests look at who asked.
    pub headers: HeaderMap,
    /// Body bytes.
    pub body: Bytes,
}

#[derive(Debug)]
struct Rule {
    method: Option<Method>,
    path_part: String,
    left: u32,
    fault: Fault,
}

#[derive(Debug, Default)]
struct Inner {
    rules: VecDeque<Rule>,
    seen: Vec<Recorded>,
}

/// The listening side of a sandbox: its address, its history and its faults. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Wire {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
}

impl Wire {
    /// Serves `router` on a free loopback port until the runtime ends.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn serve(router: Router) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        Self::serve_on(listener, router)
    }

    /// Serves `router` on a listener that is already bound.
    ///
    /// # Errors
    /// When the listener has no local address.
    pub fn serve_on(listener: tokio::net::TcpListener, router: Router) -> std::io::Result<Self> {
        let wire = Self { address: listener.local_addr()?, inner: Arc::default() };
        let server = wire.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (router, wire) = (router.clone(), server.clone());
                let service = hyper::service::service_fn(move |request| {
                    let (router, wire) = (router.clone(), wire.clone());
                    async move { wire.handle(request, router).await }
                });
                let io = hyper_util::rt::TokioIo::new(stream);
                tokio::spawn(async move {
                    // A reset ends the connection with an error: that is the point of it.
                    hyper::server::conn::http1::Builder::new().serve_connection(io, service).await.ok();
                });
            }
        });
        Ok(wire)
    }

    /// `http://127.0.0.1:PORT`, without a trailing slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The next `times` requests with this method (any when `None`) whose path contains `path_part` meet `fault`.
    pub fn break_next(&self, method: Option<Method>, path_part: &str, times: u32, fault: Fault) {
        let rule = Rule { method, path_part: path_part.to_owned(), left: times, fault };
        self.lock().rules.push_back(rule);
    }

    /// Forgets every fault that has not struck yet.
    pub fn heal(&self) {
        self.lock().rules.clear();
    }

    /// All requests so far, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        self.lock().seen.clone()
    }

    /// How many requests had this method and a path containing `path_part`.
    pub fn count(&self, method: &Method, path_part: &str) -> usize {
        self.lock().seen.iter().filter(|r| r.method == *method && r.path.contains(path_part)).count()
    }

    /// Forgets the history.
    pub fn forget_requests(&self) {
        self.lock().seen.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault_for(&self, method: &Method, path: &str) -> Option<Fault> {
        let mut inner = self.lock();
        let hit = |r: &Rule| r.method.as_ref().is_none_or(|m| m == method) && path.contains(&r.path_part);
        let at = inner.rules.iter().position(hit)?;
        let rule = inner.rules.get_mut(at)?;
        let fault = rule.fault.clone();
        rule.left = rule.left.saturating_sub(1);
        if rule.left == 0 {
            inner.rules.remove(at);
        }
        Some(fault)
    }

    async fn handle(&self, request: Request<hyper::body::Incoming>, router: Router) -> std::io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(Body::new(body), REQUEST_BYTES_MAX).await.map_err(std::io::Error::other)?;
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        self.lock().seen.push(Recorded {
            method: method.clone(),
            path: path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers.clone(),
            body: body.clone(),
        });
        let request = Request::from_parts(parts, Body::from(body));
        let answer = |router: Router| async move {
            let result: Result<Response<Body>, Infallible> = router.oneshot(request).await;
            result.unwrap_or_else(|never| match never {})
        };
        match self.fault_for(&method, &path) {
            None => Ok(answer(router).await),
            Some(Fault::Answer(reply)) => Ok(reply.into_response()),
            Some(Fault::AnswerAfterEffect(reply)) => {
                answer(router).await;
                Ok(reply.into_response())
            }
            Some(Fault::ResetBefore) => Err(std::io::Error::other("reset by command")),
            Some(Fault::ResetAfterEffect) => {
                answer(router).await;
                Err(std::io::Error::other("reset by command"))
            }
            Some(Fault::Hang) => {
                tokio::time::sleep(Duration::from_secs(3_600)).await;
                Err(std::io::Error::other("hung by command"))
            }
            Some(Fault::Truncate) => truncate(answer(router).await).await,
        }
    }
}

/// Keeps the headers (the full `Content-Length` among them) and half of the body, then breaks the connection.
async fn truncate(response: Response<Body>) -> std::io::Result<Response<Body>> {
    let (mut parts, body) = response.into_parts();
    let whole = axum::body::to_bytes(body, REQUEST_BYTES_MAX).await.map_err(std::io::Error::other)?;
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(whole.len()));
    let half = whole.slice(..whole.len() / 2);
    let stream = futures_util::stream::iter([Ok(half), Err(std::io::Error::other("truncated by command"))]);
    Ok(Response::from_parts(parts, Body::from_stream(stream)))
}
