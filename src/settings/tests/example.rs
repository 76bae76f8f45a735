//! The shipped example and the schema say what the code does.

use super::{right, wrong};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn config(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

fn example() -> String {
    std::fs::read_to_string(config("example.toml")).expect("config/example.toml is there")
}

/// The example with its commented keys (`#key = …`) taken in.
fn with_commented_keys() -> String {
    let uncommented = |line: &str| {
        let key = line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        key.unwrap_or(line).to_owned()
    };
    example().lines().map(uncommented).collect::<Vec<_>>().join("\n")
}

fn as_json(text: &str) -> Value {
    let table: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
    serde_json::to_value(table).expect("TOML fits into JSON")
}

/// Calls `visit` with every key of the document: its path, the section's name and key in the schema, its rules, its value.
fn walk(schema: &Value, rules: &Value, value: &Value, path: &str, visit: &mut dyn FnMut(&str, &str, &Value, &Value)) {
    let rules = super::super::schema::definition(schema, rules).unwrap_or(rules);
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(schema, rules.get("items").unwrap_or(&Value::Null), item, &format!("{path}[{i}]"), visit);
            }
        }
        Value::Object(keys) => {
            for (key, value) in keys {
                let Some(rule) = rules.get("properties").and_then(|p| p.get(key)) else { continue };
                let section = rules.get("description").and_then(Value::as_str).unwrap_or_default();
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                visit(&path, &format!("{section}::{key}"), rule, value);
                walk(schema, rule, value, &path, visit);
            }
        }
        _ => {}
    }
}

/// Every key of every section of the schema.
fn keys_of(schema: &Value) -> BTreeSet<String> {
    let definitions = schema["$defs"].as_object().expect("there are sections").values();
    definitions
        .chain([schema])
        .filter_map(|section| Some((section.get("description")?.as_str()?, section.get("properties")?.as_object()?)))
        .flat_map(|(section, keys)| keys.keys().map(move |key| format!("{section}::{key}")))
        .collect()
}

#[test]
fn the_example_is_accepted_without_a_warning() {
    let settings = right(&example());
    assert_eq!(settings.warnings(), &[] as &[String]);
    let kinds: Vec<String> = settings.runners.iter().map(|runner| runner.module().to_string()).collect();
    let all = ["github_actions", "gitlab_ci", "exec", "http", "kernelci", "lava"];
    assert_eq!(kinds, all, "each module is shown");
}

#[test]
fn the_example_has_every_key_of_the_schema() {
    let schema = super::super::json_schema();
    let document = as_json(&with_commented_keys());
    let mut shown = BTreeSet::new();
    walk(&schema, &schema, &document, "", &mut |_, key, _, _| {
        shown.insert(key.to_owned());
    });
    let all = keys_of(&schema);
    assert!(all.len() > 100, "the schema was not understood: {all:?}");
    let missing: Vec<&String> = all.difference(&shown).collect();
    assert!(missing.is_empty(), "not in config/example.toml: {missing:#?}");
}

#[test]
fn every_default_the_example_shows_is_the_codes_default() {
    let schema = super::super::json_schema();
    let mut compared = 0;
    walk(&schema, &schema, &as_json(&with_commented_keys()), "", &mut |path, _, rule, value| {
        let Some(default) = rule.get("default") else { return };
        if *default == Value::Array(Vec::new()) {
            return; // None by default: what is shown is an example, and the text says so.
        }
        assert_eq!(value, default, "{path}");
        compared += 1;
    });
    assert!(compared > 50, "only {compared} defaults compared");
}

#[test]
fn leaving_a_default_of_the_example_out_changes_nothing() {
    let schema = super::super::json_schema();
    let text = example();
    let whole = format!("{:?}", right(&text));
    let mut paths = Vec::new();
    walk(&schema, &schema, &as_json(&text), "", &mut |path, _, rule, _| {
        if rule.get("default").is_some_and(|default| *default != Value::Array(Vec::new())) {
            paths.push(path.to_owned());
        }
    });
    assert!(paths.len() > 50, "{paths:?}");
    for path in paths {
        let mut table: toml::Value = toml::from_str(&text).expect("TOML");
        remove(&mut table, &path);
        let without = toml::to_string(&table).expect("TOML");
        assert_eq!(format!("{:?}", right(&without)), whole, "without {path}");
    }
}

/// Takes the key at `path` out.
fn remove(value: &mut toml::Value, path: &str) {
    let (parents, key) = path.rsplit_once('.').expect("keys stand in sections");
    let mut place = value;
    for part in parents.split('.') {
        let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
        place = place.get_mut(name).expect("it is there");
        if let Ok(index) = indexes.trim_end_matches(']').parse::<usize>() {
            place = place.get_mut(index).expect("it is there");
        }
    }
    place.as_table_mut().expect("a section").remove(key).expect("it was there");
}

#[test]
fn each_key_of_the_example_is_refused_when_misspelt() {
    let text = example();
    let keys: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(" = ").map(|(key, _)| key))
        .collect();
    for key in keys {
        let misspelt = text.replacen(&format!("\n{key} = "), &format!("\n{key}q = "), 1);
        let fault = wrong(&misspelt).into_iter().find(|fault| fault.text == format!("unknown key `{key}q`"));
        assert_eq!(fault.expect(key).hint, format!("did you mean `{key}`?"));
    }
}

#[test]
fn the_committed_schema_is_current() {
    let path = config("schema/retest-bot.schema.json");
    let current = format!("{:#}\n", super::super::json_schema());
    if std::env::var_os("RETEST_BOT_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).expect("written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "run this test once with RETEST_BOT_WRITE_SCHEMA=1 and commit {}", path.display());
}

#[test]
fn the_schema_describes_every_key_says_what_is_required_and_has_no_null() {
    let schema = super::super::json_schema();
    assert!(!schema.to_string().contains("null"), "TOML has no null");
    let sections = schema["$defs"].as_object().expect("there are sections");
    assert_eq!(schema["$defs"]["Forge"]["required"], serde_json::json!(["kind", "name"]));
    for (name, section) in sections {
        assert!(section.get("description").is_some(), "{name} has no description");
        for (key, rule) in section.get("properties").and_then(Value::as_object).into_iter().flatten() {
            assert!(rule.get("description").is_some(), "{name}.{key} has no description");
            assert!(rule.get("default") != Some(&Value::Null), "{name}.{key} is null");
        }
        if section.get("properties").is_some() {
            assert_eq!(section["additionalProperties"], Value::Bool(false), "{name} would take unknown keys");
        }
    }
}
