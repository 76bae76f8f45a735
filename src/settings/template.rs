//! Templates of http runners, checked when the configuration is read.
//!
//! A template that compiles, names only what exists and renders with sample values is accepted; one whose value could move a
//! request to another host is refused. Rendering for real, and escaping values for the place they stand in, is the http
//! runner's. **Invariant:** nothing before the path of an address is a template. Read next: `runner_http.rs`.

use super::check::Check;
use minijinja::{Environment, Value};
use std::fmt;
use url::Url;

/// Names that templates of `start` and `find` may use: the order that is carried out.
pub const ORDER_NAMES: [&str; 9] =
    ["forge", "repository", "change", "sha", "job", "scope", "key", "source_run", "overrides"];
/// Names that they may use besides where the runner reports by callback: where to, and the run's own token.
pub const CALLBACK_NAMES: [&str; 2] = ["callback_url", "callback_token"];
/// Names that templates of `poll` and `cancel` may use: the run.
pub const RUN_NAMES: [&str; 5] = ["forge", "repository", "job", "id", "key"];
/// Names that the address of a log may use.
pub const LOG_NAMES: [&str; 4] = ["forge", "repository", "id", "key"];

/// A text with `{{ names }}`, in minijinja's language. It compiles and names nothing unknown.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
}

impl Template {
    /// The text as written.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// An address that is a template from the path on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlTemplate {
    /// Scheme, host and port, which no value can change.
    pub origin: Url,
    /// The whole address as written, origin included.
    pub template: Template,
}

impl UrlTemplate {
    /// The host, with its port unless it is the usual one of the scheme.
    pub fn host(&self) -> String {
        host_of(&self.origin)
    }
}

/// The host of an address, with its port unless it is the usual one of the scheme.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Where a template stands, which decides the names there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In what starts or finds a run of a runner without callback.
    Order,
    /// The same of a runner with callback.
    OrderWithCallback,
    /// In what looks at a run or cancels it.
    Run,
    /// In the address of a log.
    Log,
}

impl Place {
    fn names(self) -> Vec<&'static str> {
        match self {
            Self::Order => ORDER_NAMES.to_vec(),
            Self::OrderWithCallback => ORDER_NAMES.into_iter().chain(CALLBACK_NAMES).collect(),
            Self::Run => RUN_NAMES.to_vec(),
            Self::Log => LOG_NAMES.to_vec(),
        }
    }
}

impl Check<'_> {
    /// Compiles the template of a header or a form and tries it out.
    pub fn template(&mut self, path: &str, source: &str, place: Place) -> Option<Template> {
        self.rendered(path, source, place, &Environment::new())?;
        Some(Template { source: source.to_owned() })
    }

    /// Compiles the template of a JSON body and tries it out.
    pub fn json_template(&mut self, path: &str, source: &str, place: Place) -> Option<Template> {
        let mut environment = Environment::new();
        environment.add_filter("tojson", |value: &Value| serde_json::to_string(value).unwrap_or_default());
        let text = self.rendered(path, source, place, &environment)?;
        if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            let hint = "write values as \"{{ job }}\" or {{ job | tojson }}, or choose body_format = \"form\"";
            self.fault(path, "does not give JSON", hint);
            return None;
        }
        Some(Template { source: source.to_owned() })
    }

    /// What a template gives with sample values.
    fn rendered(&mut self, path: &str, source: &str, place: Place, environment: &Environment<'_>) -> Option<String> {
        let template = match environment.template_from_str(source) {
            Ok(template) => template,
            Err(error) => {
                self.bad_template(path, &error);
                return None;
            }
        };
        let names = place.names();
        let mut used: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        used.sort();
        let unknown: Vec<&String> = used.iter().filter(|name| !names.contains(&name.as_str())).collect();
        for name in &unknown {
            self.unknown_name(path, name, &names);
        }
        if !unknown.is_empty() {
            return None;
        }
        match template.render(samples(&names)) {
            Ok(text) => Some(text),
            Err(error) => {
                self.bad_template(path, &error);
                None
            }
        }
    }

    fn unknown_name(&mut self, path: &str, name: &str, names: &[&str]) {
        if CALLBACK_NAMES.contains(&name) && names.contains(&"sha") {
            let hint = "write `callback = true` in the runner's section";
            self.fault(path, format!("uses `{name}`, but this runner has no callback"), hint);
        } else if name == "id" {
            self.fault(path, "uses `id`, but the run has none before it is started", "use `key`, which is ours");
        } else {
            self.one_of(path, name, names);
        }
    }

    fn bad_template(&mut self, path: &str, error: &minijinja::Error) {
        let detail = error.detail().map(|d| format!(" ({d})")).unwrap_or_default();
        let line = error.line().map(|l| format!(" in its line {l}")).unwrap_or_default();
        self.fault(
            path,
            format!("is not a working template: {}{detail}{line}", error.kind()),
            "values stand in `{{ job }}`; the language is that of minijinja (Jinja)",
        );
    }

    /// An address that is a template from the path on.
    pub fn url_template(&mut self, path: &str, source: &str, place: Place) -> Option<UrlTemplate> {
        let origin = self.origin(path, source)?;
        if source.contains("{%") || source.contains("{#") || source.contains('#') {
            self.fault(path, "has a block, a comment or a `#` in it", "an address takes values `{{ … }}` only");
            return None;
        }
        let text = self.rendered(path, source, place, &Environment::new())?;
        let same = Url::parse(&text).is_ok_and(|url| url.origin() == origin.origin());
        if !same || text.contains(char::is_whitespace) {
            self.fault(path, "does not give an address", "write it like `https://ci.example/jobs/{{ job }}`");
            return None;
        }
        Some(UrlTemplate { origin, template: Template { source: source.to_owned() } })
    }

    /// Scheme, host and port of an address whose path may be a template.
    fn origin(&mut self, path: &str, source: &str) -> Option<Url> {
        let after_scheme = source.find("://").map_or(0, |i| i + 3);
        let end = source[after_scheme..].find('/').map_or(source.len(), |i| after_scheme + i);
        let origin = &source[..end];
        if ["{{", "{%", "{#"].iter().any(|open| origin.contains(open)) {
            self.fault(
                path,
                "has a template before its path, so a value could send the request elsewhere",
                "write scheme, host and port out; values may stand from the path on",
            );
            return None;
        }
        self.address(path, origin)
    }
}

/// A value for each name; overrides are empty, as they mostly are.
fn samples(names: &[&str]) -> Value {
    let sample = |name: &str| match name {
        "overrides" => Value::from_pairs(std::iter::empty::<(String, String)>()),
        _ => Value::from("sample"),
    };
    Value::from_pairs(names.iter().map(|name| (*name, sample(name))))
}
