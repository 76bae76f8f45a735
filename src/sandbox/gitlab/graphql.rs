//! The one GraphQL query that REST has no counterpart of: what the jobs of a pipeline need.
//!
//! A query is parsed into selections, which are then picked out of the whole JSON of the project. An unknown field is
//! an error, as on the service. It knows variables, aliases and arguments; no fragments, no mutations.

use serde_json::{Map, Value, json};

use super::ask::{Answer, Ask};
use super::engine::EXTERNAL;
use super::state::{Job, JobKind, Pipeline, State};

/// Most rows of a connection.
const ROWS_MAX: usize = 100;

/// A field with what is selected below it.
#[derive(Debug)]
struct Field {
    alias: String,
    name: String,
    arguments: Map<String, Value>,
    below: Vec<Field>,
}

/// `POST /api/graphql`.
pub(super) fn answer(state: &State, ask: &Ask) -> Answer {
    let Some(query) = ask.json.get("query").and_then(Value::as_str) else {
        return failed("Unexpected end of document");
    };
    let none = Value::Null;
    let fields = match parse(query, ask.json.get("variables").unwrap_or(&none)) {
        Ok(fields) => fields,
        Err(text) => return failed(&text),
    };
    let mut data = Map::new();
    for field in &fields {
        let value = match field.name.as_str() {
            "project" => project(state, ask, field),
            "currentUser" => match ask.user {
                0 => Ok(Value::Null),
                user => {
                    let gid = format!("gid://gitlab/User/{user}");
                    pick(&json!({"id": gid, "username": state.person(user).username}), &field.below, "CurrentUser")
                }
            },
            other => Err(unknown(other, "Query")),
        };
        match value {
            Ok(value) => data.insert(field.alias.clone(), value),
            Err(text) => return failed(&text),
        };
    }
    Answer::ok(json!({ "data": data }))
}

fn failed(text: &str) -> Answer {
    Answer::ok(json!({"errors": [{"message": text}]}))
}

fn unknown(field: &str, kind: &str) -> String {
    format!("Field '{field}' doesn't exist on type '{kind}'")
}

fn project(state: &State, ask: &Ask, field: &Field) -> Result<Value, String> {
    let path = field.arguments.get("fullPath").and_then(Value::as_str).unwrap_or_default();
    let seen = state.paths.get(path).filter(|id| ask.user != 0 && state.sees(**id, ask.user));
    let Some(id) = seen.copied().filter(|id| state.project(*id).path == path) else { return Ok(Value::Null) };
    let mut object = Map::new();
    for field in &field.below {
        let value = match field.name.as_str() {
            "id" => json!(format!("gid://gitlab/Project/{id}")),
            "fullPath" => json!(path),
            "pipeline" => pipeline(state, id, field)?,
            other => return Err(unknown(other, "Project")),
        };
        object.insert(field.alias.clone(), value);
    }
    Ok(Value::Object(object))
}

fn pipeline(state: &State, project: u64, field: &Field) -> Result<Value, String> {
    let text =
        |key: &str| field.arguments.get(key).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
    let fits = |pipeline: &&Pipeline| {
        pipeline.project == project
            && match (text("iid"), text("id"), text("sha")) {
                (Some(iid), _, _) => iid == pipeline.iid.to_string(),
                (None, Some(id), _) => id == gid("Ci::Pipeline", pipeline.id),
                (None, None, Some(sha)) => sha == pipeline.sha,
                (None, None, None) => false,
            }
    };
    let Some(pipeline) = state.pipelines.values().rev().find(fits) else { return Ok(Value::Null) };
    let mut object = Map::new();
    for field in &field.below {
        let value = match field.name.as_str() {
            "id" => json!(gid("Ci::Pipeline", pipeline.id)),
            "iid" => json!(pipeline.iid.to_string()),
            "sha" => json!(pipeline.sha),
            "ref" => json!(pipeline.git_ref),
            "status" => json!(pipeline.status.to_uppercase()),
            "source" => json!(pipeline.source),
            "stages" => {
                let stages = pipeline.stages.iter().collect();
                connection(stages, field, "CiStage", |name: &String| json!({ "name": name }))?
            }
            "jobs" => {
                let retried = field.arguments.get("retried").and_then(Value::as_bool);
                let rows = pipeline.jobs.iter().rev().map(|id| state.job(*id));
                let rows = rows.filter(|job| job.kind != JobKind::Status && job.new.stage != EXTERNAL);
                let rows = rows.filter(|job| retried.is_none_or(|retried| retried == job.retried));
                connection(rows.collect(), field, "CiJob", |job| job_object(state, job, asks_before(field)))?
            }
            other => return Err(unknown(other, "Pipeline")),
        };
        object.insert(field.alias.clone(), value);
    }
    Ok(Value::Object(object))
}

fn gid(kind: &str, id: u64) -> String {
    format!("gid://gitlab/{kind}/{id}")
}

fn job_gid(job: &Job) -> String {
    gid(if job.kind == JobKind::Bridge { "Ci::Bridge" } else { "Ci::Build" }, job.id)
}

/// Whether the one costly field of a job is selected.
fn asks_before(jobs: &Field) -> bool {
    jobs.below.iter().flat_map(|nodes| &nodes.below).any(|field| field.name == "previousStageJobsOrNeeds")
}

/// All that can be asked of a job.
fn job_object(state: &State, job: &Job, before_too: bool) -> Value {
    let by_needs = job.new.starts_at_once || !job.new.needs.is_empty();
    let named = |names: &[String]| {
        let needed = |name: &String| {
            let id = state.latest_named(job.pipeline, name).map(|id| job_gid(state.job(id)));
            json!({"id": id, "name": name})
        };
        names.iter().map(needed).collect::<Vec<_>>()
    };
    let stages = &state.pipeline(job.pipeline).stages;
    let place = |stage: &str| stages.iter().position(|known| known == stage);
    let before = if by_needs || !before_too {
        named(&job.new.needs)
    } else {
        let own = place(&job.new.stage);
        let earlier = state.latest(job.pipeline).filter(|other| other.kind != JobKind::Status);
        let names: Vec<String> =
            earlier.filter(|other| place(&other.new.stage) < own).map(|other| other.new.name.clone()).collect();
        named(&names)
    };
    let downstream = job.downstream.map(|id| {
        let pipeline = state.pipeline(id);
        json!({
            "id": gid("Ci::Pipeline", id), "iid": pipeline.iid.to_string(), "sha": pipeline.sha,
            "status": pipeline.status.to_uppercase(),
        })
    });
    json!({
        "id": job_gid(job),
        "name": job.new.name,
        "stage": {"name": job.new.stage},
        "status": job.status.to_uppercase(),
        "failureMessage": job.failure_reason,
        "allowFailure": job.new.allow_failure,
        "manualJob": job.new.manual,
        "playable": state.is_playable(job.id),
        "retried": job.retried,
        "retryable": state.is_retryable(job.id),
        "cancelable": !super::engine::is_over(job.status) && job.status != "manual",
        "kind": if job.kind == JobKind::Bridge { "BRIDGE" } else { "BUILD" },
        "schedulingType": if by_needs { "dag" } else { "stage" },
        "needs": {"nodes": named(&job.new.needs)},
        "previousStageJobsOrNeeds": {"nodes": before},
        "downstreamPipeline": downstream,
    })
}

/// A page of a list: `first` and `after` in, `nodes`, `pageInfo` and `count` out.
fn connection<R>(rows: Vec<R>, field: &Field, kind: &str, render: impl Fn(R) -> Value) -> Result<Value, String> {
    let first = field.arguments.get("first").and_then(Value::as_u64).map_or(ROWS_MAX, |n| n as usize).min(ROWS_MAX);
    let after = field.arguments.get("after").and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(0);
    let count = rows.len();
    let part: Vec<Value> = rows.into_iter().skip(after).take(first).map(render).collect();
    let end = after + part.len();
    let info = json!({
        "hasNextPage": end < count, "endCursor": end.to_string(),
        "hasPreviousPage": after > 0, "startCursor": after.to_string(),
    });
    let mut object = Map::new();
    for field in &field.below {
        let value = match field.name.as_str() {
            "count" => json!(count),
            "pageInfo" => pick(&info, &field.below, "PageInfo")?,
            "nodes" => pick(&Value::Array(part.clone()), &field.below, kind)?,
            other => return Err(unknown(other, &format!("{kind}Connection"))),
        };
        object.insert(field.alias.clone(), value);
    }
    Ok(Value::Object(object))
}

/// Picks the selected fields out of a value.
fn pick(value: &Value, fields: &[Field], kind: &str) -> Result<Value, String> {
    match value {
        Value::Array(items) => items.iter().map(|item| pick(item, fields, kind)).collect(),
        Value::Object(whole) if !fields.is_empty() => {
            let mut object = Map::new();
            for field in fields {
                let value = whole.get(&field.name).ok_or_else(|| unknown(&field.name, kind))?;
                object.insert(field.alias.clone(), pick(value, &field.below, &field.name)?);
            }
            Ok(Value::Object(object))
        }
        Value::Object(_) => Err(format!("Field must have selections (field returns {kind} but has no selections)")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}

/// Parses one query operation.
fn parse(query: &str, variables: &Value) -> Result<Vec<Field>, String> {
    let mut words = words_of(query);
    words.reverse();
    // `query Name($a: Type!)` may stand in front of the selections.
    let mut depth = 0_u32;
    while let Some(word) = words.pop() {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            "{" if depth == 0 => return selections(&mut words, variables),
            "mutation" | "subscription" => return Err("only queries are answered".to_owned()),
            _ => {}
        }
    }
    Err("Unexpected end of document".to_owned())
}

/// Names, numbers, strings (with their opening quote) and single signs; commas are blanks.
fn words_of(query: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = query.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                let text: String = letters.by_ref().take_while(|letter| *letter != '"').collect();
                words.push(format!("\"{text}"));
            }
            '#' => while letters.next_if(|letter| *letter != '\n').is_some() {},
            _ if letter.is_alphanumeric() || letter == '_' || letter == '$' => {
                let mut word = letter.to_string();
                while let Some(more) = letters.next_if(|letter| letter.is_alphanumeric() || *letter == '_') {
                    word.push(more);
                }
                words.push(word);
            }
            _ if letter.is_whitespace() || letter == ',' => {}
            _ => words.push(letter.to_string()),
        }
    }
    words
}

/// The fields up to the closing brace; `words` is reversed.
fn selections(words: &mut Vec<String>, variables: &Value) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    loop {
        let word = words.pop().ok_or("Unexpected end of document")?;
        match word.as_str() {
            "}" => return Ok(fields),
            "." => return Err("fragments are not known here".to_owned()),
            _ => {}
        }
        let (alias, mut name) = (word.clone(), word);
        if words.last().is_some_and(|next| next == ":") {
            words.pop();
            name = words.pop().ok_or("Unexpected end of document")?;
        }
        let mut field = Field { alias, name, arguments: Map::new(), below: Vec::new() };
        if words.last().is_some_and(|next| next == "(") {
            words.pop();
            field.arguments = arguments(words, variables)?;
        }
        if words.last().is_some_and(|next| next == "{") {
            words.pop();
            field.below = selections(words, variables)?;
        }
        fields.push(field);
    }
}

fn arguments(words: &mut Vec<String>, variables: &Value) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    loop {
        let key = words.pop().ok_or("Unexpected end of document")?;
        if key == ")" {
            return Ok(arguments);
        }
        let colon = words.pop();
        let value = words.pop().filter(|_| colon.as_deref() == Some(":")).ok_or("Expected an argument")?;
        let value = match (value.strip_prefix('"'), value.strip_prefix('$')) {
            (Some(text), _) => json!(text),
            (None, Some(name)) => variables.get(name).cloned().unwrap_or_default(),
            (None, None) => serde_json::from_str(&value).unwrap_or_else(|_| json!(value)),
        };
        arguments.insert(key, value);
    }
}
