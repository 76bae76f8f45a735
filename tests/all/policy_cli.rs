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

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = |jobs: &str| {
        format!(
            r#"{{"forge":"github","change":{{"number":7,"head":"{}","author":"ann","open":true}},
                "actor":{{"login":"ann","role":"write"}},"jobs":[{jobs}]}}"#,
            "a".repeat(40)
        )
    };
    let job = r#"{"name":"unit","state":"failed","runner":"ci"}"#;
    let table = [
        (format!("{job},{job}"), "the job `unit` is in the snapshot twice"),
        (r#"{"name":" ","state":"failed"}"#.to_owned(), "has no name"),
    ];
    for (jobs, says) in table {
        let file = file(folder.path(), "s.json", &snapshot(&jobs));
        let output = bot(&["plan", "--snapshot", &file, "--comment", "/retest"]);
        assert!(!output.status.success() && text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
    let measured = file(folder.path(), "s.json", &snapshot(job));
    let output = bot(&["plan", "--snapshot", &measured, "--comment", "/retest unit times=3\n/retest unit\n/help"]);
    for says in ["3 runs", "an earlier command of this comment starts it", "starts no job"] {
        assert!(text(&output.stdout).contains(says), "{says}: {}", text(&output.stdout));
    }
}

#[test]
fn a_check_tells_what_this_machine_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone");
    let config = format!(
        "[store]\npath = \"{0}/bot.db\"\n[[forge]]\nname = \"forge\"\nkind = \"github\"\n\
         token = {{ env = \"CHECK_TOKEN\" }}\nwebhook_secrets = [{{ env = \"CHECK_SECRET\" }}]\n\
         [[runner]]\nname = \"bench\"\nkind = \"exec\"\ndirectory = \"{0}/runs\"\n\
         [[runner.job]]\nname = \"flash\"\ncommand = [\"no-such-flasher\"]\nworking_directory = \"{0}\"\n",
        gone.display()
    );
    let output = Command::new(env!("CARGO_BIN_EXE_retest-bot"))
        .args(["check", "--config", &file(folder.path(), "bot.toml", &config)])
        .env("CHECK_TOKEN", "a-token-that-opens-nothing-1f3a")
        .env("CHECK_SECRET", "5b1c9e0d7f3a4862b0c4d1e7a9f25368")
        .output()
        .expect("the binary");
    let told = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for says in
        ["of store.path does not exist here", "there is no program `no-such-flasher` here", "there is no folder"]
    {
        assert!(told.contains(says), "{says}: {told}");
    }
}

#[test]
fn a_policy_whose_words_would_never_be_read_as_meant_is_refused_or_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |policy: &str| bot(&["check", "--policy", &file(folder.path(), "p.toml", policy)]);
    let refused = [
        ("[commands]\naliases = [{ phrase = \"/retest\", means = \"/cancel\" }]", "people would get `/cancel` for it"),
        ("[[job]]\nname = \"a\"\naliases = [\"required\"]", "`required` is a word of the commands' own"),
        ("[[job]]\nname = \"a\"\naliases = [\"runner:lab\"]", "picks jobs by where they run"),
        ("[[job]]\nname = \"a\"\naliases = [\"lava-*\"]", "is read as a pattern"),
        ("[[job]]\nname = \"a\"\naliases = [\"B\"]\n[[job]]\nname = \"b\"", "`B` is the name of a job"),
    ];
    for (policy, says) in refused {
        let output = check(policy);
        assert!(!output.status.success() && text(&output.stderr).contains(says), "{says}: {}", text(&output.stderr));
    }
    let warned = [
        ("[commands]\naliases = [{ phrase = \"/rebase\", means = \"/retest\" }]", "taken out of the note by GitLab"),
        ("[[job]]\nname = \"a\"\nstandalone = true\nneeds = [\"b\"]", "are never waited for"),
    ];
    for (policy, says) in warned {
        let output = check(policy);
        let told = text(&output.stdout);
        assert!(output.status.success() && told.contains("warning: ") && told.contains(says), "{says}: {told}");
    }
    let more = check("[commands]\naliases = [{ phrase = \"/test\", means = \"/test all\" }]");
    assert!(more.status.success() && !text(&more.stdout).contains("warning"), "{}", text(&more.stdout));
}

#[test]
fn a_plan_minds_the_head_that_a_command_is_pinned_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "3f2c9a1e5b7d8c6f4a2b1c0d9e8f7a6b5c4d3e2f";
    let snapshot = format!(
        r#"{{"forge":"github","change":{{"number":7,"head":"{head}","author":"ann","open":true}},
            "actor":{{"login":"ann","role":"write"}},"jobs":[{{"name":"unit","runner":"lab","kind":"exec","state":"failed"}}]}}"#
    );
    let snapshot = file(folder.path(), "s.json", &snapshot);
    for verb in ["retest", "test"] {
        for (sha, starts) in [("3f2c9a1e5b7d", 1), ("4f2c9a1e5b7d", 0)] {
            let comment = format!("/{verb} unit --sha={sha}");
            let output = bot(&["plan", "--json", "--snapshot", &snapshot, "--comment", &comment]);
            let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(plan["start"].as_array().map(Vec::len), Some(starts), "{comment}: {plan}");
            assert_eq!(plan["refused"].is_null(), starts == 1, "{comment}: {plan}");
        }
    }
}
