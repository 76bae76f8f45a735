//! From HTTP to the rules and back: authentication, limits, moved repositories, paging headers, ETags.
//!
//! One fallback handler serves every path; the tables of paths are the `match`es of the route files.
//! Read next: `routes_repo.rs`.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ask::{Answer, Ask, Content};
use super::auth::Who;
use super::bodies::Whose;
use super::state::State;
use super::{routes_app, routes_repo};

/// Versions the service accepts in `X-GitHub-Api-Version`.
const VERSIONS: [&str; 2] = ["2022-11-28", "2026-03-10"];

/// Paths anybody may read, and which cost nothing.
const OPEN: [&str; 3] = ["zen", "meta", "rate_limit"];

/// Start of the paths that log downloads redirect to; they stand for another host.
pub(super) const LOGS: &str = "_logs";

pub(super) fn router(state: Arc<Mutex<State>>) -> Router {
    Router::new().fallback(handle).with_state(state)
}

async fn handle(
    Shared(state): Shared<Arc<Mutex<State>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (answer, free) = match open_ask(&state, &method, &uri, &headers, &body) {
        Ok(ask) => serve(&mut state, &ask),
        Err(answer) => (answer, true),
    };
    let read = method == Method::GET || method == Method::HEAD;
    finish(&mut state, &headers, answer, read && !free)
}

/// Parses and authenticates a request.
fn open_ask(state: &State, method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Result<Ask, Answer> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text("user-agent").is_empty() {
        let reason = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header";
        return Err(Answer::error(403, reason));
    }
    let version = text("x-github-api-version");
    if !version.is_empty() && !VERSIONS.contains(&version) {
        return Err(Answer::error(400, &format!("\"{version}\" is not a valid version.")));
    }
    let raw_path = uri.path().to_owned();
    let decode = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned();
    let mut path: Vec<String> = raw_path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    if path.starts_with(&["api".to_owned(), "v3".to_owned()]) {
        path.drain(..2);
    }
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body).map_err(|_| Answer::error(400, "Problems parsing JSON"))?
    };
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let log = path.first().is_some_and(|part| part == LOGS);
    let who = if log { Who::Nobody } else { state.who(headers)? };
    Ok(Ask { method: method.clone(), path, raw_path, query, body, accept: text("accept").to_owned(), who })
}

/// Answers a request; the flag says that it cost nothing of the budget.
fn serve(state: &mut State, ask: &Ask) -> (Answer, bool) {
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    if path.first().is_some_and(|part| *part == LOGS) {
        return (routes_repo::log_text(state, &path), true);
    }
    if path.first().is_some_and(|part| OPEN.contains(part)) {
        return (open_route(state, ask, &path), true);
    }
    if let Err(limit) = state.spend() {
        return (limit, true);
    }
    if ask.who == Who::Nobody {
        return (Answer::error(401, "Requires authentication"), false);
    }
    (route(state, ask, &path), false)
}

fn open_route(state: &mut State, _ask: &Ask, path: &[&str]) -> Answer {
    match path {
        ["zen"] => Answer::text("Anything added dilutes everything else."),
        ["meta"] => Answer::ok(json!({"verifiable_password_authentication": true})),
        ["rate_limit"] => {
            state.budget.roll(state.now_ms);
            Answer::ok(state.budget.body(state.now_ms))
        }
        _ => Answer::not_found(),
    }
}

fn route(state: &mut State, ask: &Ask, path: &[&str]) -> Answer {
    match (ask.method.as_str(), path) {
        ("GET", ["user"]) => match &ask.who {
            Who::Person(login) => Answer::ok(state.full_user_body(login)),
            Who::Nobody | Who::App | Who::Installation(_) => {
                Answer::error(403, "Resource not accessible by integration")
            }
        },
        ("GET", ["users", login]) => match state.users.contains_key(&login.to_lowercase()) {
            true => Answer::ok(state.full_user_body(login)),
            false => Answer::not_found(),
        },
        ("GET", ["search", "issues"]) => routes_app::search(state, ask),
        ("GET", ["installation", "repositories"]) => installation_repositories(state, ask),
        (_, ["app", ..] | ["orgs", ..]) => routes_app::route(state, ask, path),
        (_, ["repos", owner, name, rest @ ..]) => by_name(state, ask, &format!("{owner}/{name}"), rest),
        (_, ["repositories", id, rest @ ..]) => match id.parse().ok().filter(|id| state.repos.contains_key(id)) {
            Some(id) => in_repo(state, ask, id, rest),
            None => Answer::not_found(),
        },
        _ => Answer::not_found(),
    }
}

/// Finds a repository by name; a former name is answered with the place of the repository's id.
fn by_name(state: &mut State, ask: &Ask, name: &str, rest: &[&str]) -> Answer {
    let Some(id) = state.repo_id(name) else { return Answer::not_found() };
    if state.repo(id).full_name().eq_ignore_ascii_case(name) {
        return in_repo(state, ask, id, rest);
    }
    let mut url = format!("{}/repositories/{id}", state.api);
    for part in rest {
        url.push('/');
        url.push_str(&percent_encoding::utf8_percent_encode(part, percent_encoding::NON_ALPHANUMERIC).to_string());
    }
    if !ask.query.is_empty() {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&ask.query).finish();
        url = format!("{url}?{query}");
    }
    let body = json!({
        "message": "Moved Permanently",
        "url": url,
        "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
    });
    Answer::json(301, body).with("location", url)
}

fn in_repo(state: &mut State, ask: &Ask, id: u64, rest: &[&str]) -> Answer {
    if matches!((&ask.who, rest), (Who::App, ["installation"])) {
        return routes_app::installation(state);
    }
    if ask.who == Who::App {
        return Answer::error(401, "A JSON web token could not be decoded");
    }
    if !state.reaches(&ask.who, id) || hidden(state, ask, id) {
        return Answer::not_found();
    }
    routes_repo::route(state, ask, id, rest)
}

/// A private repository does not exist for people without a role.
fn hidden(state: &State, ask: &Ask, id: u64) -> bool {
    let repo = state.repo(id);
    match &ask.who {
        Who::Person(login) => repo.private && !repo.roles.contains_key(&login.to_lowercase()),
        Who::Nobody | Who::App | Who::Installation(_) => false,
    }
}

fn installation_repositories(state: &State, ask: &Ask) -> Answer {
    if !matches!(ask.who, Who::Installation(_)) {
        return Answer::error(
            403,
            "You must authenticate with an installation access token in order to list repositories for an installation.",
        );
    }
    let seen = state.repos.values().filter(|repo| state.reaches(&ask.who, repo.id));
    let render = |repo| state.repo_body(repo, Whose::Own);
    super::ask::counted(&state.api, ask, ("repositories", seen.collect()), render)
}

/// Adds the headers every reply has; a readable reply gets an `ETag`, or becomes 304 and is given back to the budget.
fn finish(state: &mut State, headers: &HeaderMap, answer: Answer, taggable: bool) -> Response<Body> {
    let (bytes, kind) = match &answer.content {
        Content::Nothing => (Vec::new(), None),
        Content::Json(body) => (body.to_string().into_bytes(), Some("application/json; charset=utf-8")),
        Content::Text(text) => (text.clone().into_bytes(), Some("text/plain; charset=utf-8")),
    };
    let mut response = Response::new(Body::from(bytes.clone()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if taggable && answer.status == 200 {
        let tag = etag(headers, &bytes);
        if headers.get("if-none-match").is_some_and(|value| value.as_bytes() == tag.as_bytes()) {
            state.budget.used = state.budget.used.saturating_sub(1);
            *response.body_mut() = Body::empty();
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        set(&mut response, "etag", &tag);
    }
    if let Some(kind) = kind.filter(|_| response.status() != StatusCode::NOT_MODIFIED) {
        set(&mut response, "content-type", kind);
    }
    let budget = &state.budget;
    set(&mut response, "x-ratelimit-limit", &budget.limit.to_string());
    set(&mut response, "x-ratelimit-remaining", &budget.limit.saturating_sub(budget.used).to_string());
    set(&mut response, "x-ratelimit-used", &budget.used.to_string());
    set(&mut response, "x-ratelimit-reset", &(budget.reset_ms / 1_000).to_string());
    set(&mut response, "x-ratelimit-resource", "core");
    set(&mut response, "x-github-media-type", "github.v3; format=json");
    set(&mut response, "x-github-api-version-selected", VERSIONS[0]);
    for (name, value) in &answer.headers {
        set(&mut response, name, value);
    }
    response
}

/// Depends on the token, as on the service: a new token makes every stored tag useless.
fn etag(headers: &HeaderMap, bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(headers.get("authorization").map(HeaderValue::as_bytes).unwrap_or_default());
    hash.update(bytes);
    format!("W/\"{}\"", hex::encode(hash.finalize()))
}

fn set(response: &mut Response<Body>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
}
