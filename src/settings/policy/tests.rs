//! What is promised about a repository's policy.

use super::*;
use std::path::PathBuf;

fn config(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config").join(name)
}

fn example() -> String {
    std::fs::read_to_string(config("retest.toml.example")).expect("the example is there")
}

/// The example with its commented keys taken in.
fn with_commented_keys() -> String {
    let uncommented = |line: &str| {
        let key = line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
        key.unwrap_or(line).to_owned()
    };
    example().lines().map(uncommented).collect::<Vec<_>>().join("\n")
}

fn faults(text: &str) -> Vec<SettingsError> {
    Policy::parse(text).err().map(|errors| errors.0).unwrap_or_default()
}

#[test]
fn the_example_is_accepted_with_and_without_its_commented_keys() {
    for text in [example(), with_commented_keys()] {
        let policy = Policy::parse(&text).unwrap_or_else(|faults| panic!("{faults:#}"));
        assert_eq!((policy.jobs.len(), policy.runners.len(), policy.flakes.len()), (2, 1, 1));
    }
    let policy = Policy::parse(&with_commented_keys()).expect("accepted");
    let retest = policy.rights.retest.expect("given");
    assert_eq!((retest.role, retest.teams), (Some(Role::Triage), vec![("acme".to_owned(), "ci".to_owned())]));
    assert_eq!(policy.rights.ok_to_test.expect("given").people, [1_234_567]);
    let fields = policy.jobs[0].overrides.clone().expect("given");
    assert_eq!(fields["PLATFORM"], None, "everybody who may start the job");
    assert_eq!(fields["KERNEL_URL"].clone().expect("somebody").role, Some(Role::Write));
    assert!(policy.jobs[1].never.as_deref().is_some_and(|why| why.contains("flash")));
}

#[test]
fn the_example_has_every_key_of_the_schema() {
    let table: toml::Table = toml::from_str(&with_commented_keys()).expect("TOML");
    let document = serde_json::to_value(table).expect("JSON");
    let mut shown = BTreeSet::new();
    for (section, value) in document.as_object().expect("a table") {
        let rows = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let keys = rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys().cloned().collect::<Vec<_>>());
        shown.extend(keys.map(|key| format!("{section}.{key}")));
    }
    let schema = policy_schema();
    let mut all = 0;
    for (section, rule) in schema["properties"].as_object().expect("sections") {
        let inner = rule.get("items").unwrap_or(rule);
        let definition = schema::definition(&schema, inner).expect("a section");
        for key in definition["properties"].as_object().expect("keys").keys() {
            all += 1;
            assert!(shown.contains(&format!("{section}.{key}")), "config/retest.toml.example lacks {section}.{key}");
        }
    }
    assert!(all > 30, "the schema was not understood: {all}");
}

#[test]
fn the_committed_policy_schema_is_current_and_describes_every_key() {
    let path = config("schema/retest-policy.schema.json");
    let schema = policy_schema();
    let current = format!("{schema:#}\n");
    if std::env::var_os("RETEST_BOT_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &current).expect("written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == current, "run this test once with RETEST_BOT_WRITE_SCHEMA=1 and commit {}", path.display());
    assert!(!schema.to_string().contains("null"), "TOML has no null");
    for (name, section) in schema["$defs"].as_object().expect("sections") {
        assert!(section.get("description").is_some(), "{name} has no description");
        for (key, rule) in section.get("properties").and_then(Value::as_object).into_iter().flatten() {
            assert!(rule.get("description").is_some(), "{name}.{key} has no description");
        }
    }
}

#[test]
fn each_key_of_the_example_is_refused_when_misspelt_with_its_line_and_the_right_one() {
    let text = with_commented_keys();
    let mut seen = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        let Some((key, rest)) = line.split_once(" = ").filter(|(key, _)| !key.starts_with('#')) else { continue };
        let misspelt: Vec<String> = text
            .lines()
            .enumerate()
            .map(|(i, l)| if i == at { format!("{key}q = {rest}") } else { l.to_owned() })
            .collect();
        let found = faults(&misspelt.join("\n"));
        let fault = found.iter().find(|f| f.text == format!("unknown key `{key}q`")).expect(key);
        assert_eq!(fault.hint, format!("did you mean `{key}`?"));
        assert_eq!(fault.place.as_ref().map(|place| place.line), Some(at + 1), "{key}");
        seen.insert(key.to_owned());
    }
    assert!(seen.len() > 25, "{seen:?}");
}

#[test]
fn what_cannot_be_meant_is_refused_where_it_stands() {
    let long = format!("# {}", "x".repeat(POLICY_BYTES_MAX));
    let rows = [
        ("[rights]\nok_to_test = \"read\"", "rights.ok_to_test", "would let strangers"),
        ("[rights]\ntest = \"none\"", "rights.test", "would let strangers"),
        ("[rights]\nretest = \"writer\"", "rights.retest", "`writer` is not one of"),
        ("[limits]\ncooldown = \"soon\"", "limits.cooldown", "not a duration"),
        ("[limits]\njobs_per_command_max = 0", "limits.jobs_per_command_max", "out of range"),
        ("[report]\ncomment = \"no\"", "report.comment", "expected true or false"),
        ("[commands]\ndisabled = [\"retset\"]", "commands.disabled[0]", "there is no `retset`"),
        ("[commands]\naliases = [{ phrase = \"x\", means = \"/merge\" }]", "commands.aliases[0].means", "no `merge`"),
        ("[[job]]\nstandalone = true", "job[0].name", "is missing, and so is `pattern`"),
        ("[[job]]\nname = \"a\"\npattern = \"a*\"", "job[0].pattern", "stands beside `name`"),
        ("[[job]]\npattern = \"a[\"", "job[0].pattern", "is not a glob"),
        ("[[job]]\nname = \"a\"\n[[job]]\nname = \"a\"", "job[1].name", "an earlier entry"),
        ("[[job]]\nname = \"a\"\nretryable = false", "job[0].retryable", "nobody is told why"),
        ("[[job]]\nname = \"a\"\nreason = \"x\"", "job[0].reason", "no `retryable = false`"),
        (
            "[[job]]\nname = \"a\"\nneeds = [\"b\"]\n[[job]]\nname = \"b\"\nneeds = [\"a\"]",
            "job[0].needs",
            "needs itself",
        ),
        ("[[job]]\npattern = \"a*\"\naliases = [\"x\"]", "job[0].aliases[0]", "about a pattern"),
        ("[[job]]\nname = \"a\"\naliases = [\"x\", \"X\"]", "job[0].aliases[1]", "another job's alias"),
        ("[[job]]\nname = \"a\"\noverrides = { \"a b\" = \"asker\" }", "job[0].overrides.\"a b\"", "cannot be written"),
        ("[[job]]\nname = \"a\"\noverrides = { X = \"owner\" }", "job[0].overrides.X", "is not one of"),
        ("[[runner]]\nname = \"lab\"", "runner[0].jobs", "says nothing"),
        ("[[runner]]\njobs = [\"*\"]", "runner[0].name", "is missing"),
        ("[server]\nlisten = \"x\"", "server", "unknown key `server`"),
        (long.as_str(), "", "at most 65536 are read"),
    ];
    for (text, path, words) in rows {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{text}: {found:#?}");
        assert_eq!(found[0].path, path, "{text}");
        assert!(found[0].text.contains(words), "{text}: {}", found[0].text);
    }
}

#[test]
fn an_empty_policy_changes_nothing() {
    let policy = Policy::parse("").expect("nothing is wrong with nothing");
    assert!(policy.jobs.is_empty() && policy.rights.retest.is_none() && policy.report.comment);
    assert!(policy.limits.cooldown.is_none() && policy.aliases.is_empty());
}

#[test]
fn a_policy_has_flake_rules_and_says_what_must_pass_after_a_pick() {
    let policy =
        Policy::parse("[autoretry]\nclean = \"full\"\n[[job]]\nname = \"a\"\nauto_retry = false\n").expect("right");
    assert_eq!(
        (policy.autoretry.clean, policy.autoretry.clean_passes, policy.autoretry.enabled),
        (Clean::Full, 1, true)
    );
    assert_eq!(policy.jobs[0].auto_retry, Some(false));
    for (text, path) in [
        ("[autoretry]\nclean = \"full\"\nclean_passes = 2\n", "autoretry.clean_passes"),
        ("[autoretry]\nclean_passes = 0\n", "autoretry.clean_passes"),
        ("[[flake]]\nlabel = \"x\"\n", "flake[0].jobs"),
        ("[rights]\noverride = \"triage\"\n", "rights.override"),
    ] {
        assert_eq!(faults(text).into_iter().map(|fault| fault.path).collect::<Vec<_>>(), [path], "{text}");
    }
}
