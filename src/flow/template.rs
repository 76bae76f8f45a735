//! Job descriptions as templates: "run test T on platform P with the kernel at URL K", filled in by a client's parameters.
//!
//! Every value is data: in a definition it is written as a JSON string with its quotes, which YAML reads alike, so that
//! no value ends its own string. Nothing is looked up and nothing started here. Read next: `request_run.rs`.

use std::collections::BTreeMap;

use minijinja::value::ValueKind;
use minijinja::{Environment, UndefinedBehavior, Value};
use thiserror::Error;

use crate::domain::{JobName, RunnerName};

/// Longest value of a parameter, in bytes.
const VALUE_BYTES_MAX: usize = 4_096;

/// A job description of the configuration.
#[derive(Clone, Debug)]
pub struct RunTemplate {
    /// Its name.
    pub name: String,
    /// The runner that runs it.
    pub runner: RunnerName,
    /// What the run is called; for runners that declare jobs, one of them.
    pub job: JobName,
    /// The parameters with their defaults; one without must be given.
    pub parameters: BTreeMap<String, Option<String>>,
    /// The whole definition, for runners that take one.
    pub definition: Option<String>,
    /// Fields of the job, for runners that take overrides.
    pub overrides: BTreeMap<String, String>,
}

/// Why a description cannot be filled in; a sentence for the client.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct TemplateError(pub String);

impl RunTemplate {
    /// The overrides that the parameters come to, the definition among them.
    ///
    /// # Errors
    /// [`TemplateError`]: which parameter is missing, unknown or not usable.
    pub fn fill(&self, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, TemplateError> {
        let known: Vec<String> = self.parameters.keys().map(|key| format!("`{key}`")).collect();
        if let Some(key) = given.keys().find(|key| !self.parameters.contains_key(*key)) {
            let text = format!("template `{}` has no parameter `{key}`; it has {}", self.name, known.join(", "));
            return Err(TemplateError(text));
        }
        let mut values = BTreeMap::new();
        for (key, usual) in &self.parameters {
            let value = given.get(key).or(usual.as_ref());
            let value = value.ok_or_else(|| TemplateError(format!("parameter `{key}` is missing")))?;
            if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
                let text =
                    format!("parameter `{key}` is longer than {VALUE_BYTES_MAX} bytes or has control characters");
                return Err(TemplateError(text));
            }
            values.insert(key.as_str(), value.as_str());
        }
        let mut filled = BTreeMap::new();
        for (key, source) in &self.overrides {
            filled.insert(key.clone(), render(&plain(), source, &values)?);
        }
        if let Some(source) = &self.definition {
            filled.insert(crate::ports::DEFINITION.to_owned(), render(&quoting(), source, &values)?);
        }
        Ok(filled)
    }
}

fn plain() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}

/// Writes every text as a JSON string; numbers and truth values, which only the template itself can have, as they are.
fn quoting() -> Environment<'static> {
    let mut environment = plain();
    environment.set_formatter(|out, _, value| {
        let text = match value.kind() {
            ValueKind::Number | ValueKind::Bool => value.to_string(),
            _ => serde_json::Value::from(value.to_string()).to_string(),
        };
        out.write_str(&text)?;
        Ok(())
    });
    environment
}

fn render(environment: &Environment<'_>, source: &str, values: &BTreeMap<&str, &str>) -> Result<String, TemplateError> {
    let context = Value::from_pairs(values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let text = environment.render_str(source, context);
    text.map_err(|error| TemplateError(format!("the template cannot be filled in: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot() -> RunTemplate {
        RunTemplate {
            name: "boot".into(),
            runner: "lab".into(),
            job: "boot".into(),
            parameters: [("kernel".to_owned(), None), ("platform".to_owned(), Some("x86".to_owned()))].into(),
            definition: Some("device_type: {{ platform }}\nkernel: {{ kernel }}\n".into()),
            overrides: [("KERNEL".to_owned(), "{{ kernel }}".to_owned())].into(),
        }
    }

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_value_never_ends_its_own_string_in_a_definition() {
        let evil = "x\", actions: [{command: \"boom";
        let filled = boot().fill(&given(&[("kernel", evil)])).expect("filled in");
        let wanted = format!("device_type: \"x86\"\nkernel: {}\n", serde_json::json!(evil));
        assert_eq!(filled["definition"].trim_end(), wanted.trim_end());
        assert_eq!(filled["KERNEL"], evil, "a field is no syntax");
    }

    #[test]
    fn a_missing_an_unknown_and_a_broken_parameter_are_named() {
        let table = [
            (given(&[]), "`kernel` is missing", "no default"),
            (given(&[("kernel", "u"), ("kernle", "u")]), "no parameter `kernle`", "a slip"),
            (given(&[("kernel", "a\nb")]), "control characters", "a line end"),
        ];
        for (parameters, part, why) in table {
            let error = boot().fill(&parameters).expect_err(why);
            assert!(error.0.contains(part), "{why}: {error}");
        }
    }
}
