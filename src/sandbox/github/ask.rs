//! One request and one answer of the sandbox GitHub, between HTTP and the rules; paging lives here too.
//!
//! Read next: `routes.rs`.

use axum::http::Method;
use serde_json::{Value, json};

use super::auth::Who;

/// Largest page GitHub gives.
const PER_PAGE_MAX: usize = 100;

/// A request that passed authentication.
#[derive(Debug)]
pub(super) struct Ask {
    pub method: Method,
    /// Decoded path parts.
    pub path: Vec<String>,
    /// The path as sent, for links to other pages.
    pub raw_path: String,
    pub query: Vec<(String, String)>,
    pub body: Value,
    pub accept: String,
    pub who: Who,
}

impl Ask {
    pub fn query(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A text field of the JSON body.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.body.get(key).and_then(Value::as_str)
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.query(key).and_then(|text| text.parse().ok())
    }
}

#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    Json(Value),
    Text(String),
}

#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub content: Content,
    pub headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub fn json(status: u16, body: Value) -> Self {
        Self { status, content: Content::Json(body), headers: Vec::new() }
    }

    pub fn ok(body: Value) -> Self {
        Self::json(200, body)
    }

    pub fn created(body: Value) -> Self {
        Self::json(201, body)
    }

    pub fn nothing(status: u16) -> Self {
        Self { status, content: Content::Nothing, headers: Vec::new() }
    }

    pub fn text(body: &str) -> Self {
        Self { status: 200, content: Content::Text(body.to_owned()), headers: Vec::new() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// GitHub's error body.
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(
            status,
            json!({
                "message": message,
                "documentation_url": "https://docs.github.com/rest",
                "status": status.to_string(),
            }),
        )
    }

    pub fn not_found() -> Self {
        Self::error(404, "Not Found")
    }

    /// 422 with one entry in `errors`, whose text stands in its `message`.
    pub fn invalid(resource: &str, field: &str, message: &str) -> Self {
        Self::json(
            422,
            json!({
                "message": "Validation Failed",
                "errors": [{"resource": resource, "code": "custom", "field": field, "message": message}],
                "documentation_url": "https://docs.github.com/rest",
                "status": "422",
            }),
        )
    }
}

/// The asked page of a list and the links to its neighbours.
pub(super) fn page<T>(api: &str, ask: &Ask, items: Vec<T>) -> (Vec<T>, Option<String>) {
    let size = ask.number("per_page").map_or(30, |n| n as usize).clamp(1, PER_PAGE_MAX);
    let at = ask.number("page").map_or(1, |n| n as usize).max(1);
    let last = items.len().div_ceil(size).max(1);
    let part: Vec<T> = items.into_iter().skip((at - 1) * size).take(size).collect();
    let mut links = Vec::new();
    if at > 1 {
        links.push(link(api, ask, ("page", (at - 1).min(last).to_string()), "prev"));
    }
    if at < last {
        links.push(link(api, ask, ("page", (at + 1).to_string()), "next"));
        links.push(link(api, ask, ("page", last.to_string()), "last"));
    }
    if at > 1 {
        links.push(link(api, ask, ("page", "1".to_owned()), "first"));
    }
    (part, (!links.is_empty()).then(|| links.join(", ")))
}

/// One entry of a `Link` header: the same request with one query field replaced.
pub(super) fn link(api: &str, ask: &Ask, (key, value): (&str, String), rel: &str) -> String {
    let kept = ask.query.iter().filter(|(name, _)| name != key);
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).append_pair(key, &value).finish();
    format!("<{api}{}?{query}>; rel=\"{rel}\"", ask.raw_path)
}

/// A paged array.
pub(super) fn list(api: &str, ask: &Ask, items: Vec<Value>) -> Answer {
    list_of(api, ask, items, |item| item)
}

/// A paged array of which only the asked page is rendered.
pub(super) fn list_of<T>(api: &str, ask: &Ask, items: Vec<T>, render: impl Fn(T) -> Value) -> Answer {
    let (part, links) = page(api, ask, items);
    with_links(Answer::ok(part.into_iter().map(render).collect()), links)
}

/// A paged array inside an object with `total_count`; only the asked page is rendered.
pub(super) fn counted<T>(api: &str, ask: &Ask, (key, items): (&str, Vec<T>), render: impl Fn(T) -> Value) -> Answer {
    let total = items.len();
    let (part, links) = page(api, ask, items);
    let mut body = serde_json::Map::new();
    body.insert("total_count".to_owned(), total.into());
    body.insert(key.to_owned(), part.into_iter().map(render).collect());
    with_links(Answer::ok(Value::Object(body)), links)
}

pub(super) fn with_links(answer: Answer, links: Option<String>) -> Answer {
    match links {
        Some(links) => answer.with("link", links),
        None => answer,
    }
}
