//! `[api]` and `[[template]]`, checked.
//!
//! Refused: tokens that may do nothing, hashes that are none or are of a guessable token, templates that do not compile, name
//! what is no parameter, or start what is not there.

use super::check::{Check, RepositoryGlobs};
use super::raw;
use super::words::{ApiScope, RunnerModule};
use minijinja::{Environment, Value};
use std::collections::BTreeMap;

/// SHA-256 of nothing: what `sha256sum` says of an empty variable.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// `[api]`: the REST API.
#[derive(Debug, Clone)]
pub struct Api {
    /// Who may use it.
    pub tokens: Vec<ApiToken>,
}

/// A token, by its hash.
#[derive(Debug, Clone)]
pub struct ApiToken {
    /// Who it belongs to; no two of one name.
    pub name: String,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
    /// What it may do; never empty.
    pub scopes: Vec<ApiScope>,
    /// Repositories it may touch.
    pub repositories: RepositoryGlobs,
}

/// `[[template]]`: a job description.
#[derive(Debug, Clone)]
pub struct JobTemplate {
    /// Its name.
    pub name: String,
    /// A runner of the file.
    pub runner: String,
    /// What the run is called there.
    pub job: String,
    /// All parameters, with their defaults.
    pub parameters: BTreeMap<String, Option<String>>,
    /// The whole definition.
    pub definition: Option<String>,
    /// Fields of the job.
    pub overrides: BTreeMap<String, String>,
}

/// Checks `[api]`.
pub(super) fn api(check: &mut Check<'_>, raw: &raw::Api) -> Api {
    let tokens = &raw.tokens;
    let names =
        tokens.iter().enumerate().filter_map(|(i, t)| Some((format!("api.tokens[{i}].name"), t.name.as_deref()?)));
    check.distinct(names, "token");
    let hashes =
        tokens.iter().enumerate().filter_map(|(i, t)| Some((format!("api.tokens[{i}].sha256"), t.sha256.as_deref()?)));
    check.distinct(hashes, "token's hash");
    let checked = tokens.iter().enumerate().filter_map(|(i, raw)| token(check, &format!("api.tokens[{i}]"), raw));
    Api { tokens: checked.collect() }
}

fn token(check: &mut Check<'_>, path: &str, raw: &raw::ApiToken) -> Option<ApiToken> {
    let at = |key: &str| format!("{path}.{key}");
    let name = check.needed(&at("name"), raw.name.as_ref(), "say who it belongs to, such as `board-farm`");
    let name = name.map(|name| check.slug(&at("name"), name));
    let how = "make one: token=$(openssl rand -hex 32); printf %s \"$token\" | sha256sum";
    let hash = check.needed(&at("sha256"), raw.sha256.as_ref(), how)?;
    let bytes = hex::decode(hash).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    if bytes.is_none() {
        check.fault(&at("sha256"), "is not a SHA-256 hash: 64 hex digits", how);
    } else if hash.eq_ignore_ascii_case(OF_NOTHING) {
        check.fault(&at("sha256"), "is the hash of an empty token", how);
    }
    if raw.scopes.is_empty() && !check.is_gone(&at("scopes")) {
        check.fault(&at("scopes"), "is empty, so the token may do nothing", "write [\"jobs:write\"] or another one");
    }
    Some(ApiToken {
        name: name?,
        sha256: bytes?,
        scopes: raw.scopes.clone(),
        repositories: check.repositories(&at("repositories"), &raw.repositories),
    })
}

/// Checks all of `[[template]]`.
pub(super) fn templates(check: &mut Check<'_>, raw: &[raw::Template], runners: &[raw::Runner]) -> Vec<JobTemplate> {
    let names = raw.iter().enumerate().filter_map(|(i, t)| Some((format!("template[{i}].name"), t.name.as_deref()?)));
    check.distinct(names, "template");
    raw.iter().enumerate().filter_map(|(i, raw)| template(check, &format!("template[{i}]"), raw, runners)).collect()
}

fn template(check: &mut Check<'_>, path: &str, raw: &raw::Template, runners: &[raw::Runner]) -> Option<JobTemplate> {
    let at = |key: &str| format!("{path}.{key}");
    let name = check.needed(&at("name"), raw.name.as_ref(), "choose one, such as `boot`");
    let name = name.map(|name| check.slug(&at("name"), name));
    let runner = check.needed(&at("runner"), raw.runner.as_ref(), "name one of the runners");
    let job = check.needed(&at("job"), raw.job.as_ref(), "write what the run is called");
    if let Some(runner) = runner {
        let known: Vec<&str> = runners.iter().filter_map(|r| r.name.as_deref()).collect();
        check.one_of(&at("runner"), runner, &known);
        if let (Some(job), Some(entry)) = (job, runners.iter().find(|r| r.name.as_ref() == Some(runner))) {
            check_job(check, &at("job"), job, entry);
        }
    }
    let mut parameters: BTreeMap<String, Option<String>> =
        raw.defaults.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    for (i, key) in raw.required.iter().enumerate() {
        if parameters.insert(key.clone(), None).is_some() {
            let text = format!("`{key}` has a default, or is named twice");
            check.fault(&format!("{path}.required[{i}]"), text, "keep one of them");
        }
    }
    for key in parameters.keys().filter(|key| !is_word(key)) {
        check.fault(path, format!("`{key}` cannot name a parameter"), "use letters, digits and `_`");
    }
    let texts = raw.definition.iter().map(|text| (at("definition"), text));
    let fields = raw.overrides.iter().map(|(key, text)| (format!("{path}.overrides.{key}"), text));
    for (path, text) in texts.chain(fields) {
        try_out(check, &path, text, &parameters);
    }
    Some(JobTemplate {
        name: name?,
        runner: runner?.clone(),
        job: check.words(&at("job"), job?, 255),
        parameters,
        definition: raw.definition.clone(),
        overrides: raw.overrides.clone(),
    })
}

/// A runner that starts only what it declares must declare this.
fn check_job(check: &mut Check<'_>, path: &str, job: &str, runner: &raw::Runner) {
    let own_list = matches!(runner.kind, Some(RunnerModule::Exec | RunnerModule::Http));
    let fits = |raw: &raw::Job| {
        let glob = raw.pattern.as_ref().and_then(|pattern| globset::Glob::new(pattern).ok());
        raw.name.as_deref() == Some(job) || glob.is_some_and(|glob| glob.compile_matcher().is_match(job))
    };
    if own_list && !runner.job.iter().any(fits) {
        let known: Vec<&str> = runner.job.iter().filter_map(|job| job.name.as_deref()).collect();
        check.one_of(path, job, &known);
    }
}

fn is_word(key: &str) -> bool {
    let starts_well = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Compiles a template, and fills it in with samples.
fn try_out(check: &mut Check<'_>, path: &str, text: &str, parameters: &BTreeMap<String, Option<String>>) {
    let environment = Environment::new();
    let tried = environment.template_from_str(text).and_then(|template| {
        let mut unknown: Vec<String> =
            template.undeclared_variables(false).into_iter().filter(|name| !parameters.contains_key(name)).collect();
        unknown.sort();
        template.render(Value::from_pairs(parameters.keys().map(|key| (key.as_str(), "sample"))))?;
        Ok(unknown)
    });
    match tried {
        Ok(unknown) => {
            let known: Vec<&str> = parameters.keys().map(String::as_str).collect();
            for name in unknown {
                check.one_of(path, &name, &known);
            }
        }
        Err(error) => check.fault(
            path,
            format!("is not a working template: {error}"),
            "values stand in `{{ kernel }}`; the language is that of minijinja (Jinja)",
        ),
    }
}
