//! The JSON Schema of the configuration file, for editors and for `retest-bot schema`.
//!
//! Made from the structs that serde reads the file with. TOML has no null, so what schemars says about null is taken out.
//! Read next: `raw/mod.rs`, where the descriptions and defaults come from.

use super::document::Document;
use super::raw;
use schemars::JsonSchema;
use serde_json::{Map, Value};

/// The JSON Schema (draft 2020-12) of the configuration file.
pub fn json_schema() -> Value {
    of::<raw::File>()
}

impl Document for raw::File {
    fn schema() -> Value {
        json_schema()
    }
}

/// The JSON Schema of a file.
pub(super) fn of<D: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(D).to_value();
    without_null(&mut schema);
    schema
}

/// Removes null as a type and as a default, and the defaults of whole sections, which only repeat those of their keys.
///
/// A key whose default is null although null is not allowed is one that must be given: it gets into `required`.
fn without_null(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(object) => {
            if let Some(Value::Object(properties)) = object.get("properties") {
                let required: Vec<Value> = properties
                    .iter()
                    .filter(|(_, rule)| must_be_given(rule))
                    .map(|(key, _)| key.as_str().into())
                    .collect();
                if !required.is_empty() {
                    object.insert("required".into(), required.into());
                }
            }
            without_null_here(object);
            object.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

fn must_be_given(rule: &Value) -> bool {
    let null = Value::from("null");
    let listed = rule.get("type").and_then(Value::as_array).is_some_and(|types| types.contains(&null));
    let chosen = rule.get("anyOf").and_then(Value::as_array);
    let chosen = chosen.is_some_and(|choices| choices.iter().any(|choice| choice.get("type") == Some(&null)));
    rule.get("default") == Some(&Value::Null) && !listed && !chosen
}

fn without_null_here(object: &mut Map<String, Value>) {
    if matches!(object.get("default"), Some(Value::Null | Value::Object(_))) {
        object.remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|c| c.get("type") != Some(&Value::from("null")));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only);
        }
    }
}

/// Sections that have a key of this name, as TOML writes their headers.
pub(super) fn homes_of(key: &str, schema: &Value) -> Vec<String> {
    let mut homes = Vec::new();
    sections(schema, schema, "", &mut |header, properties| {
        if properties.contains_key(key) {
            homes.push(header.to_owned());
        }
    });
    homes
}

/// Calls `visit` with the header and the properties of every section below `node`, outer ones first.
fn sections(schema: &Value, node: &Value, name: &str, visit: &mut dyn FnMut(&str, &Map<String, Value>)) {
    let Some(properties) = node.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (key, property) in properties {
        let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        let listed = property.get("items");
        let Some(section) = definition(schema, listed.unwrap_or(property)) else {
            continue;
        };
        let Some(inner) = section.get("properties").and_then(Value::as_object) else {
            continue;
        };
        let header = if listed.is_some() { format!("[[{name}]]") } else { format!("[{name}]") };
        visit(&header, inner);
        sections(schema, section, &name, visit);
    }
}

/// The definition that `node` refers to.
pub(super) fn definition<'s>(schema: &'s Value, node: &Value) -> Option<&'s Value> {
    let reference = node.get("$ref")?.as_str()?;
    schema.pointer(reference.strip_prefix('#')?)
}
