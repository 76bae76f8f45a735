//! The command line about policies: people test one before they put it on the default branch.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn bot(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retest-bot")).args(arguments).output().expect("the binary")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

fn config(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config").join(name).display().to_string()
}

#[test]
fn a_good_policy_is_summed_up_and_a_broken_one_is_refused_with_every_line() {
    let good = bot(&["check", "--policy", &config("retest.toml.example")]);
    assert!(good.status.success(), "{}", text(&good.stderr));
    assert!(
        text(&good.stdout).contains("jobs: lava-x86, flash-*") && text(&good.stdout).contains("the policy is good")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let broken = "[rights]\nretets = \"write\"\n\n[[job]]\nname = \"a\"\nstandalone = \"yes\"\n";
    let broken = bot(&["check", "--policy", &file(folder.path(), "p.toml", broken)]);
    let told = text(&broken.stderr);
    assert_eq!(broken.status.code(), Some(1));
    for part in [
        "line 2: rights.retets: unknown key",
        "did you mean `retest`?",
        "line 6: job[0].standalone: expected true or false",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let alias = "[commands]\naliases = [{ phrase = \"x\", means = \"/retest --frce\" }]";
    let alias = bot(&["check", "--policy", &file(folder.path(), "a.toml", alias)]);
    assert!(!alias.status.success() && text(&alias.stderr).contains("its meaning must be one enabled command"));
}

#[test]
fn the_schema_of_the_policy_is_the_committed_one() {
    let printed = bot(&["schema", "policy"]);
    let committed = std::fs::read_to_string(config("schema/retest-policy.schema.json")).expect("committed");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(json(&text(&printed.stdout)), json(&committed));
}

#[test]
fn a_plan_is_made_under_a_policy_before_it_is_shipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = r#"{"forge":"github",
        "change":{"number":7,"head":"3f2c9a1e5b7d8c6f4a2b1c0d9e8f7a6b5c4d3e2f","author":"ann","open":true},
        "actor":{"login":"sam","role":"read","teams":["team:acme/ci"]},
        "jobs":[{"name":"lava-x86","runner":"lab","kind":"exec","state":"failed","overrides":["KERNEL"]},
                {"name":"flash-7","runner":"lab","kind":"exec","state":"failed"}]}"#;
    let snapshot = file(folder.path(), "s.json", snapshot);
    let policy = "[rights]\nretest = [\"write\", \"team:acme/ci\"]\n\
        [[job]]\nname = \"lava-x86\"\naliases = [\"x86\"]\noverrides = { KERNEL = \"write\" }\n\
        [[job]]\npattern = \"flash-*\"\nretryable = false\nreason = \"wears out\"\n";
    let policy = file(folder.path(), "p.toml", policy);
    let plan = |comment: &str, policy: Option<&str>| {
        let mut arguments = vec!["plan", "--json", "--snapshot", &snapshot, "--comment", comment];
        arguments.extend(policy.map(|p| ["--policy", p]).into_iter().flatten());
        let output = bot(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    assert_eq!(plan("/retest", None)["refused"]["reason"], "role", "without the policy a reader may not");
    let made = plan("/retest", Some(&policy));
    assert_eq!(
        (made["start"][0]["job"].as_str(), made["leave"][0]["reason"].as_str()),
        (Some("lava-x86"), Some("not_retryable"))
    );
    assert_eq!(plan("/retest x86", Some(&policy))["start"][0]["job"], "lava-x86");
    assert_eq!(plan("/retest x86 KERNEL=1", Some(&policy))["leave"][0]["reason"], "override_refused");
}

#[test]
fn a_plan_without_a_configuration_has_the_default_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    let jobs: Vec<String> =
        (0..101).map(|n| format!(r#"{{"name":"job-{n}","runner":"lab","kind":"exec","state":"failed"}}"#)).collect();
    let snapshot = format!(
        r#"{{"forge":"github","change":{{"number":7,"head":"3f2c9a1e5b7d8c6f4a2b1c0d9e8f7a6b5c4d3e2f","author":"ann","open":true}},
            "actor":{{"login":"ann","role":"write"}},"jobs":[{}]}}"#,
        jobs.join(",")
    );
    let snapshot = file(folder.path(), "s.json", &snapshot);
    let output = bot(&["plan", "--json", "--snapshot", &snapshot, "--comment", "/retest"]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(plan["start"].as_array().map(Vec::len), Some(100));
    assert_eq!(plan["leave"][0]["reason"], "too_many");
}
