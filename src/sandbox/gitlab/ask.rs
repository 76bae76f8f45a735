//! A request as the rules see it, and the shapes of answers: three kinds of error, plain text, pages.
//!
//! Read next: `routes.rs`.

use axum::http::Method;
use serde_json::{Value, json};

/// Most rows of a page.
const PER_PAGE_MAX: usize = 100;

/// Rows of a page when nothing is asked.
const PER_PAGE: usize = 20;

/// Either way an answer; the error side ends the handling early.
pub(super) type Outcome = Result<Answer, Answer>;

/// An authenticated request.
#[derive(Debug)]
pub(super) struct Ask {
    pub method: Method,
    /// Decoded parts of the path below `/api/v4`.
    pub path: Vec<String>,
    /// The path as sent, for links to other pages.
    pub raw_path: String,
    /// The query alone, for links to other pages.
    pub query: Vec<(String, String)>,
    /// Query and body, whatever form the body has; lists have `[]` at the end of their key.
    pub params: Vec<(String, String)>,
    pub json: Value,
    pub user: u64,
}

impl Ask {
    pub fn text(&self, key: &str) -> Option<&str> {
        self.params.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// A text that is neither missing nor empty.
    pub fn some(&self, key: &str) -> Option<&str> {
        self.text(key).filter(|text| !text.is_empty())
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        self.text(key).map(|text| matches!(text, "true" | "1" | "t" | "on" | "yes"))
    }

    /// `key[]=a&key[]=b`, or `key=a`.
    pub fn list(&self, key: &str) -> Vec<&str> {
        let many = format!("{key}[]");
        let fits = |name: &str| name == key || name == many;
        self.params.iter().filter(|(name, _)| fits(name)).map(|(_, value)| value.as_str()).collect()
    }

    /// `key=a,b`, or a list.
    pub fn commas(&self, key: &str) -> Option<Vec<String>> {
        let given = self.list(key);
        if given.is_empty() {
            return None;
        }
        let parts = given.into_iter().flat_map(|text| text.split(',')).map(str::trim);
        Some(parts.filter(|part| !part.is_empty()).map(str::to_owned).collect())
    }
}

/// Flattens a JSON body into parameters.
pub(super) fn params_of_json(json: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut params = Vec::new();
    for (key, value) in json.as_object().into_iter().flatten() {
        match value {
            Value::Null | Value::Object(_) => {}
            Value::Array(items) => params.extend(items.iter().map(|item| (format!("{key}[]"), text(item)))),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => params.push((key.clone(), text(value))),
        }
    }
    params
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

    pub fn nothing() -> Self {
        Self { status: 204, content: Content::Nothing, headers: Vec::new() }
    }

    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content: Content::Text(body.into()), headers: Vec::new() }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// First shape of error: `{"message": "…"}`.
    pub fn message(status: u16, text: impl Into<String>) -> Self {
        Self::json(status, json!({ "message": text.into() }))
    }

    /// Second shape: `{"message": {"field": ["…"]}}`.
    pub fn field(field: &str, text: &str) -> Self {
        Self::json(400, json!({"message": {field: [text]}}))
    }

    /// Third shape: `{"error": "…"}`.
    pub fn error(status: u16, text: &str) -> Self {
        Self::json(status, json!({ "error": text }))
    }

    /// The third shape with a description.
    pub fn described(status: u16, error: &str, description: &str) -> Self {
        Self::json(status, json!({"error": error, "error_description": description}))
    }

    pub fn forbidden() -> Self {
        Self::message(403, "403 Forbidden")
    }

    pub fn not_found(what: &str) -> Self {
        Self::message(404, format!("404 {what} Not Found"))
    }

    /// A row that does not exist.
    pub fn no_row() -> Self {
        Self::message(404, "404 Not found")
    }

    /// A path that the interface does not have.
    pub fn no_route() -> Self {
        Self::error(404, "404 Not Found")
    }
}

/// A page of a list that tells its total.
pub(super) fn page<T>(base: &str, ask: &Ask, items: Vec<T>, render: impl Fn(T) -> Value) -> Answer {
    let total = items.len();
    let (answer, pages) = paged(base, ask, (items, render), true);
    answer.with("x-total", total.to_string()).with("x-total-pages", pages.to_string())
}

/// A page of a list of jobs or pipelines of any length: no total and no last page are told.
pub(super) fn page_uncounted<T>(base: &str, ask: &Ask, items: Vec<T>, render: impl Fn(T) -> Value) -> Answer {
    paged(base, ask, (items, render), false).0
}

/// The page and how many there are. Only the rows of the page are rendered: a list may have 100,000.
fn paged<T>(base: &str, ask: &Ask, (items, render): (Vec<T>, impl Fn(T) -> Value), counted: bool) -> (Answer, usize) {
    let size = ask.number("per_page").map_or(PER_PAGE, |n| n as usize).clamp(1, PER_PAGE_MAX);
    let at = ask.number("page").map_or(1, |n| n as usize).max(1);
    let last = items.len().div_ceil(size).max(1);
    let part: Vec<Value> = items.into_iter().skip((at - 1) * size).take(size).map(render).collect();
    let previous = (at > 1).then(|| at - 1);
    let next = (at < last).then(|| at + 1);
    let mut links = Vec::new();
    let mut link = |page: Option<usize>, rel: &str| {
        if let Some(page) = page {
            links.push(format!("<{}>; rel=\"{rel}\"", url_of_page(base, ask, page, size)));
        }
    };
    link(previous, "prev");
    link(next, "next");
    link(Some(1), "first");
    link(counted.then_some(last), "last");
    let told = |page: Option<usize>| page.map_or_else(String::new, |page| page.to_string());
    let answer = Answer::ok(Value::Array(part))
        .with("link", links.join(", "))
        .with("x-page", at.to_string())
        .with("x-per-page", size.to_string())
        .with("x-next-page", told(next))
        .with("x-prev-page", told(previous));
    (answer, last)
}

fn url_of_page(base: &str, ask: &Ask, page: usize, size: usize) -> String {
    let kept = ask.query.iter().filter(|(name, _)| name != "page" && name != "per_page");
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(kept)
        .append_pair("page", &page.to_string())
        .append_pair("per_page", &size.to_string())
        .finish();
    // `raw_path` repeats the path prefix of the instance, which `base` ends with.
    let host = base.find("://").and_then(|at| base.get(at + 3..)?.find('/').map(|slash| at + 3 + slash));
    let host = host.and_then(|end| base.get(..end)).unwrap_or(base);
    format!("{host}{}?{query}", ask.raw_path)
}
