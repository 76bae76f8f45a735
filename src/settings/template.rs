//! Templates of http runners, checked when the configuration is read.
//!
//! A template that compiles, names only what exists and renders with sample values is accepted; one whose value could move a
//! request to another host is refused. Rendering for real, and escaping values for the place they stand in, is the http
//! runner's. **Invariant:** nothing before the path of an address is a template. Read next: `runner_http.rs`.

use super::check::Check;
use minijinja::{Environment, UndefinedBehavior, Value};
use std::fmt;
use url::Url;

/// Names every template may use: the order that is carried out.
pub const ORDER_NAMES: [&str; 9] =
    ["job", "sha", "repository", "change", "forge", "runner", "key", "source_run", "overrides"];
/// Names that exist where the runner reports by callback: where to, and the run's own token.
pub const CALLBACK_NAMES: [&str; 2] = ["callback_url", "callback_token"];
/// Name of the run's id, which exists once the run was started.
pub const ID_NAME: &str = "id";
/// Filters that templates may use beside minijinja's own: a value as JSON, and a value percent-encoded.
pub const FILTERS: [&str; 2] = ["tojson", "urlencode"];

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
    /// `HOST:PORT`, with the scheme's own port filled in.
    pub fn host_and_port(&self) -> String {
        host_and_port(&self.origin)
    }
}

/// `HOST:PORT` of an http or https address, with the scheme's own port filled in.
pub(super) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{host}:{port}")
}

/// The names that exist where a template stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// Whether the runner reports by callback.
    pub callback: bool,
    /// Whether the run has been started.
    pub started: bool,
}

impl Scope {
    fn names(self) -> Vec<&'static str> {
        let mut names = ORDER_NAMES.to_vec();
        if self.callback {
            names.extend(CALLBACK_NAMES);
        }
        if self.started {
            names.push(ID_NAME);
        }
        names
    }
}

impl Check<'_> {
    /// Compiles a template and tries it out.
    pub fn template(&mut self, path: &str, source: &str, scope: Scope) -> Option<Template> {
        self.rendered(path, source, scope)?;
        Some(Template { source: source.to_owned() })
    }

    /// What a template gives with sample values.
    fn rendered(&mut self, path: &str, source: &str, scope: Scope) -> Option<String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        for filter in FILTERS {
            environment.add_filter(filter, |value: Value| value.to_string());
        }
        let template = match environment.template_from_str(source) {
            Ok(template) => template,
            Err(error) => {
                self.bad_template(path, &error);
                return None;
            }
        };
        let names = scope.names();
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
        if CALLBACK_NAMES.contains(&name) {
            let hint = "write `callback = true` in the runner's section";
            self.fault(path, format!("uses `{name}`, but this runner has no callback"), hint);
        } else if name == ID_NAME {
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
    pub fn url_template(&mut self, path: &str, source: &str, scope: Scope) -> Option<UrlTemplate> {
        let origin = self.origin(path, source)?;
        if source.contains("{%") || source.contains("{#") || source.contains('#') {
            self.fault(path, "has a block, a comment or a `#` in it", "an address takes values `{{ … }}` only");
            return None;
        }
        let text = self.rendered(path, source, scope)?;
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
        let end = source[after_scheme..].find(['/', '?', '#']).map_or(source.len(), |i| after_scheme + i);
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

/// A value for each name, of the kind it really has.
fn samples(names: &[&str]) -> Value {
    let sample = |name: &str| match name {
        "change" => Value::from(7),
        "overrides" => Value::from_pairs(std::iter::empty::<(String, String)>()),
        _ => Value::from("sample"),
    };
    Value::from_pairs(names.iter().map(|name| (*name, sample(name))))
}
