//! What Prow and Pipelines-as-Code start for a comment, case by case, beside what we start.
//!
//! The cases are what those two were seen to do (`tests/cases/peer-behaviour.json`). A difference is allowed only where
//! `docs/compared.md` lists the case with its reason, and what is listed there must be a difference.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    peer: String,
    comment: String,
    trusted: bool,
    jobs: Vec<PeerJob>,
    starts: BTreeSet<String>,
    #[serde(default = "yes")]
    open: bool,
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default = "master")]
    base: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerJob {
    name: String,
    state: String,
    required: bool,
    #[serde(default)]
    branches: Option<Vec<String>>,
}

fn yes() -> bool {
    true
}

fn master() -> String {
    "master".into()
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../cases/peer-behaviour.json")).expect("the cases")
}

/// The head as our record would hold it: a job that is not for this base branch was never reported or declared.
fn snapshot(case: &Case) -> Value {
    let ours = |state: &str| match state {
        "success" => "passed",
        "failure" => "failed",
        "error" => "infrastructure",
        "missing" => "missing",
        "pending" => "pending",
        other => panic!("{}: state {other}", case.id),
    };
    let here = |job: &&PeerJob| job.branches.as_ref().is_none_or(|branches| branches.contains(&case.base));
    let job = |job: &PeerJob| {
        json!({"name": job.name, "runner": "cluster", "kind": "http", "state": ours(&job.state),
               "required": job.required, "standalone": true})
    };
    json!({
        "forge": "github",
        "change": {"number": 7, "head": "a".repeat(40), "author": "ann", "open": case.open},
        "actor": {"login": "bob", "role": if case.trusted { "write" } else { "read" }},
        "jobs": case.jobs.iter().filter(here).map(job).collect::<Vec<_>>(),
    })
}

fn started(case: &Case, folder: &Path) -> BTreeSet<String> {
    let pack = if case.peer == "prow" { "prow" } else { "pipelines-as-code" };
    let prefix = case.prefix.as_ref().map_or(String::new(), |prefix| format!("prefix = \"{prefix}\"\n"));
    let configuration = format!(
        "[[forge]]\nname = \"forge\"\nkind = \"github\"\ntoken = {{ env = \"PEERS_TOKEN\" }}\n\
         webhook_secrets = [{{ env = \"PEERS_SECRET\" }}]\n\
         [commands]\nalias_packs = [\"{pack}\"]\n{prefix}"
    );
    let (config, head) = (folder.join("bot.toml"), folder.join("head.json"));
    std::fs::write(&config, configuration).expect("a file");
    std::fs::write(&head, snapshot(case).to_string()).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_retest-bot"))
        .args(["plan", "--json", "--comment", &case.comment, "--config"])
        .arg(&config)
        .arg("--snapshot")
        .arg(&head)
        .env("PEERS_TOKEN", "a-token-that-opens-nothing-1f3a")
        .env("PEERS_SECRET", "5b1c9e0d7f3a4862b0c4d1e7a9f25368")
        .output()
        .expect("the binary");
    assert!(output.status.success(), "{}: {}", case.id, String::from_utf8_lossy(&output.stderr));
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = plan["start"].as_array().expect("a list").iter();
    names.map(|start| start["job"].as_str().expect("a name").to_owned()).collect()
}

/// The cases that `docs/compared.md` lists: the code spans in the first column of its tables.
fn listed() -> BTreeSet<String> {
    let doc = include_str!("../../docs/compared.md");
    let first = |line: &'static str| line.strip_prefix("| `").and_then(|rest| rest.split(" | ").next());
    let names = doc.lines().filter_map(first).flat_map(|cell| cell.split(['`', ',', ' ']));
    names.filter(|name| name.starts_with("prow-") || name.starts_with("pac-")).map(str::to_owned).collect()
}

#[test]
fn the_same_jobs_start_as_with_the_peer_or_the_difference_is_written_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = cases();
    assert!(cases.len() >= 86, "cases are added, not taken away");
    let differs = |case: &&Case| started(case, folder.path()) != case.starts;
    let found: BTreeSet<String> = cases.iter().filter(differs).map(|case| case.id.clone()).collect();
    let unlisted: Vec<String> = found.difference(&listed()).cloned().collect();
    assert!(unlisted.is_empty(), "differences that docs/compared.md does not list: {unlisted:?}");
    let gone: Vec<String> = listed().difference(&found).cloned().collect();
    assert!(gone.is_empty(), "docs/compared.md lists what is no difference: {gone:?}");
}
