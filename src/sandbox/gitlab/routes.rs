//! From HTTP to the rules and back: path prefix, authentication, throttle, moved projects, headers of every reply.
//!
//! One fallback handler serves every path, matched on the path as sent, because a project may be named by its path with
//! encoded slashes. The tables of paths are the `match`es of the route files. Read next: `routes_project.rs`.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ask::{Answer, Ask, Content, Outcome, page, params_of_json};
use super::graphql;
use super::routes_project;
use super::state::State;

/// Length of the throttle's period.
const MINUTE_MS: i64 = 60_000;

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
    let answer = match state.throttled() {
        Some(answer) => answer,
        None => serve(&mut state, &method, &uri, (&headers, &body)).unwrap_or_else(|refusal| refusal),
    };
    finish(&state, &method, &headers, answer)
}

fn serve(state: &mut State, method: &Method, uri: &Uri, (headers, body): (&HeaderMap, &Bytes)) -> Outcome {
    let raw_path = uri.path();
    let below = raw_path.strip_prefix(state.prefix.as_str()).ok_or_else(not_gitlab)?;
    let graphql = below == "/api/graphql" && *method == Method::POST;
    if !graphql && !below.starts_with("/api/v4/") {
        return Err(not_gitlab());
    }
    let user = state.authenticate(method, headers, graphql)?;
    let query: Vec<(String, String)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let (json, of_body) = read_body(headers, body)?;
    let mut params = query.clone();
    params.extend(of_body);
    let decode = |part: &str| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned();
    let path = below.trim_start_matches("/api/v4").trim_matches('/').split('/').map(decode).collect();
    let ask = Ask { method: method.clone(), path, raw_path: raw_path.to_owned(), query, params, json, user };
    if graphql { Ok(graphql::answer(state, &ask)) } else { rest(state, &ask) }
}

/// A page of the site, not of the interface.
fn not_gitlab() -> Answer {
    Answer::text(404, "<!DOCTYPE html><title>The page could not be found (404)</title>")
        .with("content-type", "text/html; charset=utf-8")
}

fn read_body(headers: &HeaderMap, body: &Bytes) -> Result<(Value, Vec<(String, String)>), Answer> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if body.is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    if kind.starts_with("application/json") {
        let bad = |_| Answer::error(400, "There was a problem in the JSON you submitted");
        let json: Value = serde_json::from_slice(body).map_err(bad)?;
        let params = params_of_json(&json);
        return Ok((json, params));
    }
    if kind.starts_with("application/x-www-form-urlencoded") {
        return Ok((Value::Null, form_urlencoded::parse(body).into_owned().collect()));
    }
    Err(Answer::error(406, "The requested content-type is not supported."))
}

fn rest(state: &mut State, ask: &Ask) -> Outcome {
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    match (ask.method.as_str(), path.as_slice()) {
        ("GET", ["user"]) => Ok(Answer::ok(state.user_body(ask.user))),
        ("GET", ["version"]) => Ok(Answer::ok(json!({"version": "19.5.0-ee", "revision": "5a4db0x"}))),
        ("GET", ["metadata"]) => Ok(Answer::ok(json!({
            "version": "19.5.0-ee", "revision": "5a4db0x", "enterprise": true,
            "kas": {"enabled": false, "externalUrl": null, "version": null},
        }))),
        ("GET", ["personal_access_tokens", "self"]) => Ok(Answer::ok(own_token(state, ask))),
        ("GET", ["users"]) => {
            let wanted = ask.some("username").unwrap_or_default();
            let users = state.users.values().filter(|user| user.username.eq_ignore_ascii_case(wanted));
            Ok(page(&state.base, ask, users.collect(), |user| state.user_body(user.id)))
        }
        ("GET", ["users", id]) => match id.parse().ok().filter(|id| state.users.contains_key(id)) {
            Some(id) => Ok(Answer::ok(state.user_body(id))),
            None => Err(Answer::message(404, "404 User Not Found")),
        },
        ("GET", ["projects"]) => {
            let seen = state.projects.values().filter(|project| state.sees(project.id, ask.user));
            Ok(page(&state.base, ask, seen.collect(), |project| state.project_body(project)))
        }
        ("GET", ["groups", path, "members", "all", user]) => group_member(state, path, user),
        (_, ["projects", id, rest @ ..]) => {
            let project = find_project(state, ask, id)?;
            routes_project::serve(state, ask, project, rest)
        }
        _ => Err(Answer::no_route()),
    }
}

/// A membership in a group or one above it, as the nearest group has it.
fn group_member(state: &State, path: &str, user: &str) -> Outcome {
    let user = routes_project::number(user, "user_id")?;
    if !state.groups.contains_key(path) {
        return Err(Answer::not_found("Group"));
    }
    let above = path.match_indices('/').map(|(at, _)| path.get(..at).unwrap_or_default());
    let nearest_first = std::iter::once(path).chain(above.collect::<Vec<_>>().into_iter().rev());
    let mut members = nearest_first.filter_map(|group| state.groups.get(group)?.get(&user));
    members.next().map(|member| Answer::ok(state.member_body(user, member))).ok_or_else(Answer::no_row)
}

fn own_token(state: &State, ask: &Ask) -> Value {
    let writes = state.tokens.iter().any(|token| token.user == ask.user && token.writes);
    json!({
        "id": 1,
        "name": "sandbox",
        "revoked": false,
        "created_at": super::bodies::iso(0),
        "scopes": [if writes { "api" } else { "read_api" }],
        "user_id": ask.user,
        "active": true,
        "expires_at": null,
    })
}

/// The project of an id or path; one that the asker may not see does not exist for them.
fn find_project(state: &State, ask: &Ask, id: &str) -> Result<u64, Answer> {
    let by_number = id.parse().ok().filter(|id| state.projects.contains_key(id));
    let found = by_number.or_else(|| state.paths.get(id).copied());
    let project = found.filter(|id| state.sees(*id, ask.user)).ok_or_else(|| Answer::not_found("Project"))?;
    if by_number.is_none() && state.project(project).path != id {
        if ask.method != Method::GET && ask.method != Method::HEAD {
            let text = "405 Method Not Allowed - Non GET methods are not allowed for moved projects";
            return Err(Answer::message(405, text));
        }
        let encoded = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string();
        let mut parts: Vec<&str> = ask.raw_path.split('/').collect();
        let number = project.to_string();
        if let Some(at) = parts.iter().position(|part| *part == "projects").map(|at| at + 1)
            && let Some(part) = parts.get_mut(at)
        {
            *part = &number;
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(&ask.query).finish();
        let target = format!("{}{}{query}", parts.join("/"), if query.is_empty() { "" } else { "?" });
        let text = format!("This resource has been moved from {encoded}");
        return Err(Answer::text(301, text).with("location", target));
    }
    Ok(project)
}

impl State {
    /// Whose token it is. GraphQL tells nobody's token by showing nothing; the asker is then the user 0.
    fn authenticate(&self, method: &Method, headers: &HeaderMap, graphql: bool) -> Result<u64, Answer> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let Some(given) = text("private-token").or(bearer) else {
            return if graphql { Ok(0) } else { Err(Answer::message(401, "401 Unauthorized")) };
        };
        let token = self.tokens.iter().find(|token| token.text == given && !given.is_empty());
        let token = token.ok_or_else(|| Answer::message(401, "401 Unauthorized"))?;
        if token.revoked {
            let text = "Token was revoked. You have to re-authorize from the user.";
            return Err(Answer::described(401, "invalid_token", text));
        }
        let reads = *method == Method::GET || *method == Method::HEAD || graphql;
        if !reads && !token.writes {
            let text = "The request requires higher privileges than provided by the access token.";
            return Err(Answer::described(403, "insufficient_scope", text));
        }
        Ok(token.user)
    }

    /// Counts a request; the refusal when it is one too many.
    fn throttled(&mut self) -> Option<Answer> {
        let now = self.now_ms;
        let throttle = &mut self.throttle;
        if now >= throttle.reset_ms || throttle.reset_ms - now > MINUTE_MS {
            (throttle.observed, throttle.reset_ms) = (0, now + MINUTE_MS);
        }
        throttle.observed += 1;
        let after = (throttle.reset_ms - now + 999) / 1_000;
        (throttle.observed > throttle.limit)
            .then(|| Answer::text(429, "Retry later\n").with("retry-after", after.to_string()))
    }
}

/// Adds what every reply carries, and answers 304 to a conditional read of something unchanged.
fn finish(state: &State, method: &Method, asked: &HeaderMap, answer: Answer) -> Response<Body> {
    let (mut status, kind, body) = match answer.content {
        Content::Nothing => (answer.status, None, Vec::new()),
        Content::Json(value) => (answer.status, Some("application/json"), value.to_string().into_bytes()),
        Content::Text(text) => (answer.status, Some("text/plain"), text.into_bytes()),
    };
    let mut headers = HeaderMap::new();
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    let throttle = &state.throttle;
    let (reset, left) = (throttle.reset_ms / 1_000, throttle.limit.saturating_sub(throttle.observed));
    let mut told = answer.headers;
    told.extend([
        ("ratelimit-limit", throttle.limit.to_string()),
        ("ratelimit-name", "throttle_authenticated_api".to_owned()),
        ("ratelimit-observed", throttle.observed.to_string()),
        ("ratelimit-remaining", left.to_string()),
        ("ratelimit-reset", reset.to_string()),
        ("x-request-id", format!("sandbox-{}", throttle.observed)),
    ]);
    if status == 429 {
        told.push(("ratelimit-resettime", super::bodies::utc(throttle.reset_ms)));
    }
    let reads = *method == Method::GET && status == 200;
    if reads {
        let hash = hex::encode(Sha256::digest(&body));
        told.push(("etag", format!("W/\"{}\"", hash.get(..32).unwrap_or_default())));
    }
    for (name, value) in told {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let known = asked.get(header::IF_NONE_MATCH);
    let unchanged = reads && known.is_some() && known == headers.get(header::ETAG);
    if unchanged {
        status = 304;
    }
    let empty = unchanged || *method == Method::HEAD;
    let mut response = Response::new(Body::from(if empty { Vec::new() } else { body }));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}
