//! Templates whose values are data, never syntax, wherever they stand.
//!
//! Every value is escaped for its place and carries a mark that no value can contain; after rendering, the marks show
//! where values landed, and a value in a place where escaping would not hold (outside a JSON string, in the host of an
//! address) is refused. The template itself is the operator's and trusted, but for its mistakes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::HeaderValue;
use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, UndefinedBehavior, Value};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

/// Stands before every escaped value; a private-use character, so that operators do not miss it.
const VALUE_MARK: char = '\u{e000}';
/// Stands before every value that the filter `tojson` wrote with its own quotes.
const JSON_MARK: char = '\u{e001}';

/// All but the unreserved characters of RFC 3986 section 2.3.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The values of one rendering.
pub(super) type Values = BTreeMap<&'static str, Value>;

/// The place a value stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Address,
    Json,
    Form,
    Header,
}

/// One compiled template.
#[derive(Debug)]
struct Compiled {
    environment: Environment<'static>,
    /// The values that it reads.
    used: BTreeSet<String>,
}

/// The address of a request; scheme, host and port are fixed when it is compiled.
#[derive(Debug)]
pub(super) struct AddressTemplate {
    compiled: Compiled,
    base: Url,
}

/// The value of a header.
#[derive(Debug)]
pub(super) struct HeaderTemplate(Compiled);

/// The body of a request.
#[derive(Debug)]
pub(super) struct BodyTemplate {
    compiled: Compiled,
    position: Position,
}

impl AddressTemplate {
    /// Compiles a template that may use the values `known`.
    ///
    /// # Errors
    /// In words for the operator: not an address with a fixed scheme and host, an unknown value, wrong syntax.
    pub(super) fn new(source: &str, known: &[&'static str]) -> Result<Self, String> {
        let fixed = source.split('{').next().unwrap_or_default();
        let host_end = fixed.split_once("://").and_then(|(_, rest)| rest.find('/'));
        let whole = host_end.is_some() || fixed == source;
        let base = Url::parse(fixed).ok().filter(|_| whole);
        let Some(base) = base.filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host()) else {
            return Err("an address begins with `http://HOST/` or `https://HOST/`, without values in it".to_owned());
        };
        if !base.username().is_empty() || base.password().is_some() {
            return Err("an address holds no user name and no password; use `bearer_token` or a header".to_owned());
        }
        let template = Self { compiled: compile(source, known, Position::Address)?, base };
        try_out(known, |values| template.render(values).map(drop))?;
        Ok(template)
    }

    /// The host and port that every rendering keeps, the usual port written out.
    pub(super) fn host(&self) -> String {
        host_of(&self.base)
    }

    /// The names of the values that it reads.
    pub(super) const fn used(&self) -> &BTreeSet<String> {
        &self.compiled.used
    }

    /// The address with these values.
    ///
    /// # Errors
    /// In words for the person who asked: a value is missing or cannot stand in an address.
    pub(super) fn render(&self, values: &Values) -> Result<Url, String> {
        let marked = self.compiled.render(values)?;
        if marked.contains(|c: char| c == '#' || c.is_whitespace() || c.is_control()) {
            return Err("the address has a `#` or a blank in it".to_owned());
        }
        let path = marked.split_once('?').map_or(marked.as_str(), |(path, _)| path);
        for segment in path.split('/').filter(|segment| segment.contains(VALUE_MARK)) {
            let bare = segment.replace(VALUE_MARK, "");
            let decoded = percent_decode_str(&bare).decode_utf8_lossy();
            if matches!(decoded.as_ref(), "" | "." | "..") {
                return Err(format!("`{decoded}` cannot be a part of the address"));
            }
        }
        let url = Url::parse(&marked.replace(VALUE_MARK, "")).map_err(|e| format!("the address: {e}"))?;
        let same = url.scheme() == self.base.scheme()
            && url.host() == self.base.host()
            && url.port() == self.base.port()
            && url.username().is_empty()
            && url.password().is_none();
        if same { Ok(url) } else { Err("the address would lead to another host".to_owned()) }
    }
}

impl HeaderTemplate {
    /// As [`AddressTemplate::new`].
    pub(super) fn new(source: &str, known: &[&'static str]) -> Result<Self, String> {
        let template = Self(compile(source, known, Position::Header)?);
        try_out(known, |values| template.render(values).map(drop))?;
        Ok(template)
    }

    /// Whether it says the same for every job.
    pub(super) fn is_constant(&self) -> bool {
        self.0.used.is_empty()
    }

    /// The header's value.
    ///
    /// # Errors
    /// In words: a value is missing, or has a line break or another control character.
    pub(super) fn render(&self, values: &Values) -> Result<HeaderValue, String> {
        let text = self.0.render(values)?;
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| "a control character cannot stand in a header".to_owned())
    }
}

impl BodyTemplate {
    /// A JSON body: values stand inside strings (`"{{ job }}"`), or bring their own quotes (`{{ job | tojson }}`).
    pub(super) fn json(source: &str, known: &[&'static str]) -> Result<Self, String> {
        Self::new(source, known, Position::Json)
    }

    /// A form body: `name={{ job }}&other=…`.
    pub(super) fn form(source: &str, known: &[&'static str]) -> Result<Self, String> {
        Self::new(source, known, Position::Form)
    }

    fn new(source: &str, known: &[&'static str], position: Position) -> Result<Self, String> {
        let template = Self { compiled: compile(source, known, position)?, position };
        try_out(known, |values| template.render(values).map(drop))?;
        Ok(template)
    }

    /// Its media type.
    pub(super) const fn media_type(&self) -> &'static str {
        match self.position {
            Position::Form => "application/x-www-form-urlencoded",
            Position::Json | Position::Address | Position::Header => "application/json",
        }
    }

    /// The body.
    ///
    /// # Errors
    /// In words: a value is missing or stands where it would be syntax, or the whole is no JSON.
    pub(super) fn render(&self, values: &Values) -> Result<String, String> {
        let marked = self.compiled.render(values)?;
        match self.position {
            Position::Json => {
                let text = checked_json(&marked)?;
                let well_formed = serde_json::from_str::<serde::de::IgnoredAny>(&text);
                well_formed.map(|_| text).map_err(|e| format!("the body is no JSON: {e}"))
            }
            Position::Form | Position::Address | Position::Header => Ok(marked.trim().replace(VALUE_MARK, "")),
        }
    }
}

/// `HOST:PORT` of an address, the scheme's own port written out.
pub(super) fn host_of(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

impl Compiled {
    fn render(&self, values: &Values) -> Result<String, String> {
        let template = self.environment.get_template("it").map_err(|e| e.to_string())?;
        template
            .render(Value::from_pairs(values.iter().map(|(name, value)| (*name, value.clone()))))
            .map_err(|e| e.to_string())
    }
}

fn compile(source: &str, known: &[&'static str], position: Position) -> Result<Compiled, String> {
    if source.contains([VALUE_MARK, JSON_MARK]) {
        return Err("the characters U+E000 and U+E001 cannot stand in a template".to_owned());
    }
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // The position is fixed here: nothing in a template (`autoescape`, `safe`) can switch the escaping off.
    environment.set_formatter(move |out, _, value| write(position, out, value));
    for filter in ["safe", "escape", "e"] {
        environment.remove_filter(filter);
    }
    environment.add_filter("tojson", move |value: &Value| to_json(position, value));
    environment.add_filter("urlencode", move |value: &Value| url_encode(position, value));
    environment.add_template_owned("it", source.to_owned()).map_err(|e| e.to_string())?;
    let template = environment.get_template("it").map_err(|e| e.to_string())?;
    let used: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
    if let Some(name) = used.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no value `{name}` here; there are {}", known.join(", ")));
    }
    Ok(Compiled { environment, used })
}

/// Tries a template when it is compiled, so that most mistakes show at the start and not at the first run: once as a plain
/// `/retest` renders it, without overrides, and once with any that it may ask for.
fn try_out(known: &[&'static str], render: impl Fn(&Values) -> Result<(), String>) -> Result<(), String> {
    let values = |overrides: Value| -> Values {
        let value = |name: &str| match name {
            "overrides" => overrides.clone(),
            "change" => Value::from(1),
            _ => Value::from("1"),
        };
        known.iter().map(|name| (*name, value(name))).collect()
    };
    render(&values(Value::from_pairs(std::iter::empty::<(&str, &str)>())))
        .map_err(|why| format!("without overrides: {why}; `default` gives a value that may be missing"))?;
    render(&values(Value::from_object(Anything)))
}

/// Overrides of which every one is there.
#[derive(Debug)]
struct Anything;

impl Object for Anything {
    fn get_value(self: &Arc<Self>, _key: &Value) -> Option<Value> {
        Some(Value::from("1"))
    }
}

/// JSON text with its own quotes, made by the filter `tojson`.
#[derive(Debug)]
struct JsonText(String);

impl Object for JsonText {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// The filter `tojson`: in a JSON body the value with its own quotes, elsewhere the same as text, escaped for its place.
fn to_json(position: Position, value: &Value) -> Result<Value, Error> {
    let text = serde_json::to_string(value).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(match position {
        Position::Json => Value::from_object(JsonText(unmarked(&text))),
        Position::Address | Position::Form | Position::Header => Value::from(text),
    })
}

/// The filter `urlencode`: nothing where values are percent-encoded anyway, so that nothing is encoded twice.
fn url_encode(position: Position, value: &Value) -> Value {
    match position {
        Position::Address | Position::Form => value.clone(),
        Position::Json | Position::Header => Value::from(utf8_percent_encode(&value.to_string(), SEGMENT).to_string()),
    }
}

fn write(position: Position, out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    if let Some(JsonText(text)) = value.downcast_object_ref::<JsonText>() {
        return Ok(write!(out, "{JSON_MARK}{text}")?);
    }
    let text = match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => value.to_string(),
        ValueKind::None => String::new(),
        ValueKind::Undefined => return Err(Error::new(ErrorKind::UndefinedError, "a value is missing")),
        _ => return Err(Error::new(ErrorKind::InvalidOperation, "a list or table can only be written with `tojson`")),
    };
    match position {
        Position::Address => write!(out, "{VALUE_MARK}{}", utf8_percent_encode(&text, SEGMENT))?,
        Position::Form => {
            write!(out, "{VALUE_MARK}{}", form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>())?;
        }
        Position::Header => out.write_str(&text)?,
        // A number or `true` is one value inside quotes and outside; whether it is one is the template's doing.
        Position::Json if matches!(value.kind(), ValueKind::Number | ValueKind::Bool) => out.write_str(&text)?,
        Position::Json => {
            let quoted = serde_json::Value::String(text).to_string();
            let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            write!(out, "{VALUE_MARK}{}", unmarked(inside))?;
        }
    }
    Ok(())
}

/// JSON text with the marks, should a value hold them, written as escapes.
fn unmarked(json: &str) -> String {
    json.replace(VALUE_MARK, "\\ue000").replace(JSON_MARK, "\\ue001")
}

/// Takes the marks out of JSON text.
///
/// # Errors
/// In words, when a plain value stands outside a string or one with its own quotes inside.
fn checked_json(marked: &str) -> Result<String, String> {
    let mut text = String::with_capacity(marked.len());
    let (mut inside, mut escaped) = (false, false);
    for c in marked.chars() {
        match c {
            VALUE_MARK if inside && !escaped => continue,
            VALUE_MARK => return Err("a value stands outside quotes in the body; use the filter `tojson`".to_owned()),
            JSON_MARK if !inside => continue,
            JSON_MARK => return Err("`tojson` stands inside quotes in the body; leave one of them out".to_owned()),
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = inside && c == '\\' && !escaped;
        text.push(c);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 3] = ["job", "sha", "overrides"];

    fn values(job: &str) -> Values {
        let overrides = BTreeMap::from([("kernel", job)]);
        Values::from([("job", Value::from(job)), ("sha", "abc".into()), ("overrides", Value::from_pairs(overrides))])
    }

    /// What somebody might put into a job's name or an override.
    const TRICKS: [&str; 22] = [
        "plain",
        "build / test (ubuntu, 3.12)",
        "../../admin",
        "a/../b",
        "@evil.example",
        "evil.example:80",
        "//evil.example/x",
        "\\\\evil.example",
        "x?admin=1&y=2#z",
        "%2e%2e%2f",
        "\", \"admin\": true, \"x\": \"",
        "\\",
        "\\\"",
        "a\nb\r\nHost: evil",
        "\u{e000}\u{e001}",
        "{{ sha }}{% raw %}",
        "a=b&c=d",
        "a+b c;d",
        "\u{202e}ä日本",
        "</script>",
        "'",
        "\u{0}\u{7f}",
    ];

    #[test]
    fn a_value_never_changes_the_shape_of_an_address() {
        let template = AddressTemplate::new("https://ci.example:8443/jobs/{{ job }}/run?name={{ job }}&v=1", &KNOWN);
        let template = template.expect("compiles");
        for trick in TRICKS {
            let url = template.render(&values(trick)).expect(trick);
            assert_eq!(host_of(&url), "ci.example:8443", "{trick:?}");
            assert_eq!((url.scheme(), url.username(), url.fragment()), ("https", "", None), "{trick:?}");
            let segments: Vec<_> = url.path_segments().expect("a path").collect();
            let decoded = percent_decode_str(segments[1]).decode_utf8().expect("UTF-8");
            assert_eq!((segments.len(), segments[0], decoded.as_ref(), segments[2]), (3, "jobs", trick, "run"));
            let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            assert_eq!(query, [("name".to_owned(), trick.to_owned()), ("v".to_owned(), "1".to_owned())]);
        }
    }

    #[test]
    fn a_segment_that_is_empty_or_means_another_directory_is_refused() {
        let table = [
            ("/jobs/{{ job }}/run", "", "empty"),
            ("/jobs/{{ job }}", ".", "this directory"),
            ("/jobs/{{ job }}/x", "..", "the one above"),
            ("/jobs/.{{ job }}", ".", "the same in two pieces"),
            ("/jobs/{{ job }}{{ job }}", ".", "the same twice"),
            ("/jobs/%2e{{ job }}", ".", "the same, half of it encoded"),
        ];
        for (path, job, why) in table {
            let template = AddressTemplate::new(&format!("https://ci.example{path}"), &KNOWN).expect("compiles");
            assert!(template.render(&values(job)).is_err(), "{path}: {why}");
        }
    }

    #[test]
    fn an_address_whose_host_could_change_does_not_compile() {
        for source in [
            "https://{{ job }}/x",
            "https://ci.example{{ job }}/x",
            "https://ci.example:{{ job }}/x",
            "{{ job }}://ci.example/x",
            "https://{{ job }}@ci.example/x",
            "https://user:secret@ci.example/{{ job }}",
            "ftp://ci.example/{{ job }}",
            "https:///{{ job }}",
            "ci.example/{{ job }}",
            "https://ci.example/{{ secret }}",
            "https://ci.example/{{ job",
            "https://ci.example/{{ job | safe }}",
            "https://ci.example/{{ overrides.kernel }}",
        ] {
            assert!(AddressTemplate::new(source, &KNOWN).is_err(), "{source}");
        }
    }

    #[test]
    fn a_value_in_a_json_body_stays_one_value() {
        let source =
            r#"{"job": "{{ job }}", "all": {{ overrides | tojson }}, "text": "a {{ job | upper }} b", "n": 1}"#;
        let template = BodyTemplate::json(source, &KNOWN).expect("compiles");
        for trick in TRICKS {
            let body = template.render(&values(trick)).expect(trick);
            let body: serde_json::Value = serde_json::from_str(&body).expect(trick);
            let expected = serde_json::json!({
                "job": trick, "all": {"kernel": trick}, "text": format!("a {} b", trick.to_uppercase()), "n": 1,
            });
            assert_eq!(body, expected, "{trick:?}");
        }
    }

    #[test]
    fn a_value_where_escaping_would_not_hold_is_refused_whatever_it_is() {
        for source in [
            r#"{"job": {{ job }}}"#,
            r#"[{{ job }}]"#,
            r#"{"x": "\{{ job }}"}"#,
            r#"{"x": "{{ job | tojson }}"}"#,
            r#"{% autoescape false %}{"job": {{ job }}}{% endautoescape %}"#,
        ] {
            assert!(BodyTemplate::json(source, &KNOWN).is_err(), "{source}");
        }
        let hidden = r#"{"job": {% if job != "1" %}{{ job }}{% else %}0{% endif %}}"#;
        let template = BodyTemplate::json(hidden, &KNOWN).expect("the trial does not come there");
        for value in ["true", "2", "1, 2", "null", "\"x\""] {
            assert!(template.render(&values(value)).is_err(), "{value}");
        }
    }

    #[test]
    fn a_value_in_a_form_stays_one_field() {
        let template =
            BodyTemplate::form("job={{ job }}&kernel={{ overrides.kernel | default('') }}", &KNOWN).expect("compiles");
        for trick in TRICKS {
            let body = template.render(&values(trick)).expect(trick);
            let fields: Vec<(String, String)> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
            assert_eq!(fields, [("job".to_owned(), trick.to_owned()), ("kernel".to_owned(), trick.to_owned())]);
        }
    }

    #[test]
    fn a_value_with_a_line_break_never_becomes_a_header() {
        let template = HeaderTemplate::new("job={{ job }}", &KNOWN).expect("compiles");
        for (value, ok) in [("lava-x86", true), ("a\r\nX-Admin: 1", false), ("a\nb", false), ("\0", false)] {
            assert_eq!(template.render(&values(value)).is_ok(), ok, "{value:?}");
        }
    }

    #[test]
    fn an_override_that_may_be_missing_needs_a_default_from_the_start() {
        for source in ["p={{ overrides.platform }}", "p={{ overrides.platform | upper }}"] {
            assert!(BodyTemplate::form(source, &KNOWN).is_err(), "a plain /retest could not use {source}");
        }
        let lenient = BodyTemplate::form("p={{ overrides.platform | default('any') }}", &KNOWN).expect("compiles");
        assert_eq!(lenient.render(&values("x")).as_deref(), Ok("p=any"));
        let branch = BodyTemplate::form("{% if overrides.kernel %}k={{ overrides.kernel }}{% endif %}", &KNOWN);
        assert_eq!(branch.expect("compiles").render(&values("x")).as_deref(), Ok("k=x"));
    }

    #[test]
    fn encoding_by_hand_changes_nothing_where_values_are_encoded_anyway() {
        let address = AddressTemplate::new("https://ci.example/{{ job | urlencode }}", &KNOWN).expect("compiles");
        assert_eq!(address.render(&values("a/b")).expect("an address").path(), "/a%2Fb");
        let body = BodyTemplate::json(r#"{"to": "https://x/{{ job | urlencode }}", "n": {{ job | length }}}"#, &KNOWN);
        let body = body.expect("compiles").render(&values("a/\"b"));
        assert_eq!(body.as_deref(), Ok(r#"{"to": "https://x/a%2F%22b", "n": 4}"#));
    }
}
