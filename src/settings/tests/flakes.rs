//! Flake rules, `[autoretry]` and the block in an issue.

use super::super::{FlakeBlock, parse_flake_issue};
use super::{HUB, only_fault, right, wrong};
use std::time::Duration;

/// A rule to put beside the least configuration, with further keys.
fn rule(keys: &str) -> String {
    format!("{HUB}[[flake]]\nlabel = \"usb\"\njobs = [\"lava-*\"]\n{keys}\n")
}

#[test]
fn a_rule_has_its_defaults_and_keeps_its_values() {
    let settings = right(&rule("log = [\"usb reset\"]"));
    let [flake] = settings.flakes.as_slice() else { panic!("one rule") };
    assert_eq!((flake.retries, flake.retries_per_day, flake.delay), (1, 20, Duration::ZERO));
    assert!(flake.jobs[0].matches("lava-x86/boot") && !flake.jobs[0].matches("kvm"));
    let settings = right(&rule(
        "causes = [\"infra*\"]\nretries = 3\nretries_per_day = 5\ndelay = \"30s\"\nends = [\"timed_out\"]",
    ));
    let flake = &settings.flakes[0];
    assert!(flake.causes[0].is_match("Infrastructure: gone"), "letter case does not count");
    assert_eq!((flake.retries, flake.retries_per_day, flake.delay), (3, 5, Duration::from_secs(30)));
    assert_eq!(flake.ends[0].to_string(), "timed_out");
    assert!(settings.summary().contains("flake `usb`: jobs lava-*; ended timed_out, cause infra*; 3 per job and head"));
}

#[test]
fn what_cannot_be_a_rule_is_refused_where_it_stands() {
    let table = [
        ("ends = [\"cancelled\"]", "flake[0].ends", "`cancelled` is not one of"),
        ("jbos = []", "flake[0].jbos", "unknown key `jbos`"),
        ("retries = 0", "flake[0].retries", "0 is out of range"),
        ("retries = 11", "flake[0].retries", "11 is out of range"),
        ("retries_per_day = 1001", "flake[0].retries_per_day", "1001 is out of range"),
        ("delay = \"25h\"", "flake[0].delay", "out of range"),
        ("delay = \"soon\"", "flake[0].delay", "not a duration"),
        ("causes = [\"[\"]", "flake[0].causes[0]", "is not a glob"),
        ("log = [\"\"]", "flake[0].log[0]", "is empty"),
        ("runner = \"lab\"", "flake[0].runner", "there is no `lab`"),
    ];
    for (keys, path, text) in table {
        let fault = only_fault(&rule(keys));
        assert!(fault.path == path && fault.text.contains(text) && fault.place.is_some(), "{keys}: {fault:?}");
    }
    let faults = wrong(&format!("{HUB}[[flake]]\nlog = [\"x\"]\n[[flake]]\nlabel = \"A b\"\njobs = [\"x\"]\n"));
    let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, ["flake[0].label", "flake[0].jobs", "flake[1].label"]);
    let twice = format!("{}[[flake]]\nlabel = \"usb\"\njobs = [\"x\"]\n", rule(""));
    assert!(only_fault(&twice).text.contains("is the name of an earlier flake rule"));
}

#[test]
fn autoretry_has_bounds() {
    for (keys, path) in [
        ("retries_max = 11", "autoretry.retries_max"),
        ("log_bytes_max = 1", "autoretry.log_bytes_max"),
        ("issues_every = \"1s\"", "autoretry.issues_every"),
        ("auto_label = \"x\"\nnever_label = \"x\"", "autoretry.never_label"),
        ("breaker = { share_percent = 101 }", "autoretry.breaker.share_percent"),
        ("breaker = { heads_min = 1 }", "autoretry.breaker.heads_min"),
    ] {
        assert_eq!(only_fault(&format!("{HUB}[autoretry]\n{keys}\n")).path, path);
    }
    let off = right(&format!("{HUB}[autoretry]\nissue_label = \"\"\nauto_label = \"\"\npropose_after = 0\n")).autoretry;
    assert_eq!((off.issue_label, off.auto_label, off.propose_after), (None, None, None));
    assert_eq!(off.never_label.as_deref(), Some("retest/never"));
}

#[test]
fn the_first_fenced_toml_block_of_an_issue_counts() {
    let table = [
        ("```toml\njob = \"a\"\n```", Some("job = \"a\"\n"), "plain"),
        (
            "text\n\n~~~TOML title=x\nb = 1\n~~~\n```toml\nc = 1\n```",
            Some("b = 1\n"),
            "the first of two, any case, further words",
        ),
        ("```\njob = \"a\"\n```\n    job = \"a\"\n`toml`", None, "no language, indented, inline"),
        ("<!-- ```toml\nx = 1\n``` -->", None, "in a comment"),
        ("```toml\n```", Some(""), "empty"),
        ("```toml\nopen = 1", Some("open = 1"), "never closed"),
        ("> ```toml\n> job = \"a\"\n> log = []\n> ```", Some("job = \"a\"\nlog = []\n"), "quoted"),
        ("```tomlx\na = 1\n```", None, "another language"),
    ];
    for (body, toml, why) in table {
        let found = FlakeBlock::find(body);
        assert_eq!(found.as_ref().map(|block| block.toml.as_str()), toml, "{why}");
        if let Some(FlakeBlock { toml, span: Some(span), .. }) = found {
            assert_eq!(&body[span], toml, "{why}");
        }
    }
}

#[test]
fn a_block_is_read_as_strictly_as_a_file() {
    let block = |keys: &str| format!("# Title\r\n\nText\n```toml\n{keys}\n```\n");
    let read = |keys: &str| parse_flake_issue(&block(keys)).expect("a block");
    let rule = read("job = \"build / test [x]\"\nlog = [\"hang\"]").expect("right");
    assert!(rule.jobs[0].matches("build / test [x]") && rule.label.is_none(), "an exact name is no glob");
    for (keys, line, text) in [
        ("job = \"a\"\njobs = [\"b\"]", 5, "stands beside `jobs`"),
        ("log = [\"x\"]", 0, "is missing"),
        ("job = \"a\"\nretires = 2", 6, "unknown key `retires`"),
        ("job = 1", 5, "expected a text in quotes"),
        ("job = \"a\"\n\nretries = 99", 7, "99 is out of range"),
    ] {
        let faults = read(keys).expect_err("wrong").0;
        let [fault] = faults.as_slice() else { panic!("{keys}: {faults:?}") };
        assert!(fault.text.contains(text), "{keys}: {fault:?}");
        assert_eq!(fault.place.as_ref().map_or(0, |place| place.line), line, "{keys}");
    }
    assert!(parse_flake_issue("no block").is_none());
    assert!(read(&format!("# {}", "x".repeat(20_000))).is_err(), "bounded");
}
