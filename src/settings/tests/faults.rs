//! How faults are told: the structure of the file, all at once, with place, caret and nearest key.

use super::super::SettingsErrors;
use super::{EXEC, HTTP, HUB, LAB, given, only_fault, wrong};
use proptest::prelude::*;

#[test]
fn an_unknown_key_is_refused_with_the_nearest_or_with_its_own_section() {
    let table = [
        ("[server]\nlisen = \"x\"", "server.lisen", "did you mean `listen`?"),
        ("[serverr]\nlisten = \"x\"", "serverr", "did you mean `server`?"),
        ("[server]\nretention = \"3d\"", "server.retention", "that key belongs to [store]"),
        ("[status]\nzzzz = 1", "status.zzzz", "the keys known here are `aggregate_context`, `always`, `target_url`"),
        (
            "[limits]\nretries-per-actor-per-hour = 1",
            "limits.retries-per-actor-per-hour",
            "`retries_per_actor_per_hour`?",
        ),
        ("[commands]\naliases = [{ phrase = \"a\", mean = \"/retest\" }]", "commands.aliases[0].mean", "`means`?"),
        ("[report]\n\"two words\" = 1", "report.\"two words\"", "the keys known here"),
    ];
    for (text, path, hint) in table {
        let fault = only_fault(&format!("{HUB}{text}"));
        assert_eq!(fault.path, path);
        assert!(fault.text.starts_with("unknown key"), "{}", fault.text);
        assert!(fault.hint.contains(hint), "{path}: {}", fault.hint);
    }
}

#[test]
fn a_key_in_the_wrong_runner_or_forge_says_where_it_belongs() {
    let table = [
        ("webhook_tokens = [{ env = \"HOOK\" }]", "forge[0].webhook_tokens", "is a key of GitLab forges"),
        ("signing_keys = [{ env = \"SIGNING\" }]", "forge[0].signing_keys", "is a key of GitLab forges"),
        (
            "[[runner]]\nname = \"a\"\nkind = \"github_actions\"\ndirectory = \"x\"",
            "runner[0].directory",
            "is a key of exec runners, and this is a github_actions runner",
        ),
        (
            "[[runner]]\nname = \"a\"\nkind = \"github_actions\"\njob = [{ name = \"x\", command = [\"y\"] }]",
            "runner[0].job[0].command",
            "is a key of exec jobs",
        ),
    ];
    for (text, path, words) in table {
        let fault = only_fault(&format!("{HUB}{text}"));
        assert_eq!((fault.path.as_str(), fault.text.contains(words)), (path, true), "{}", fault.text);
    }
}

#[test]
fn a_wrong_type_says_what_is_expected_and_what_was_found() {
    let table = [
        ("[server]\nlisten = 8080", "server.listen", "expected a text in quotes, found a whole number"),
        (
            "[server]\nconnections_max = \"many\"",
            "server.connections_max",
            "expected a whole number of 0 or more, found a text",
        ),
        (
            "[server]\nconnections_max = -1",
            "server.connections_max",
            "out of range: expected a whole number of 0 or more",
        ),
        ("[server]\nconnections_max = 1.5", "server.connections_max", "found a broken number"),
        ("[report]\nenabled = \"yes\"", "report.enabled", "expected true or false, found a text"),
        ("[rights]\nretest = \"writer\"", "rights.retest", "`writer` is not one of `none`, `read`"),
        ("[rights]\nretest = 5", "rights.retest", "expected one of its words in quotes"),
        ("[commands]\ndisabled = \"test\"", "commands.disabled", "expected an array, found a text"),
        (
            "[commands]\ndisabled = [\"test\", 5]",
            "commands.disabled",
            "expected a text in quotes, found a whole number",
        ),
        ("server = 5", "forge[0].server", "unknown key"),
        ("[server.listen]\nport = 1", "server.listen", "expected a text in quotes, found a table"),
    ];
    for (text, path, words) in table {
        let fault = only_fault(&format!("{HUB}{text}"));
        assert_eq!(fault.path, path);
        assert!(fault.text.contains(words), "{path}: {}", fault.text);
    }
}

#[test]
fn a_fault_shows_its_line_and_a_caret() {
    let fault = only_fault(&format!("{HUB}[server]\n  lisen = \"x\"\n"));
    let shown = format!("{fault:#}");
    assert_eq!(
        shown,
        "line 8: server.lisen: unknown key `lisen`; hint: did you mean `listen`?\n  |\n8 |   lisen\n  |   ^^^^^"
    );
    let checked = only_fault(&format!("{HUB}[server]\nlisten = \"here\"\n"));
    let place = checked.place.expect("it stands in the file");
    assert_eq!((place.line, place.column), (8, 10));
    assert_eq!(place.excerpt.expect("nothing secret"), "  |\n8 | listen = \"here\"\n  |          ^^^^^^");
}

#[test]
fn what_is_missing_is_told_at_the_section_it_is_missing_from() {
    let fault = only_fault(&HUB.replace("kind = \"github\"\n", ""));
    assert_eq!((fault.path.as_str(), fault.text.as_str()), ("forge[0].kind", "is missing"));
    assert_eq!(fault.place.expect("the section stands in the file").line, 2);
}

#[test]
fn text_that_is_no_toml_is_told_once_per_line() {
    let fault = only_fault("[server\nlisten = 1\n");
    assert!(fault.text.starts_with("not TOML"), "{}", fault.text);
    assert_eq!(fault.place.expect("a place").line, 1);
    let lines: Vec<_> = wrong("a = \nb = [1\n").iter().filter_map(|f| f.place.as_ref().map(|p| p.line)).collect();
    let mut distinct = lines.clone();
    distinct.dedup();
    assert_eq!(lines, distinct);
    assert_eq!(only_fault("[log]\nfilter = \"a\"\nfilter = \"b\"\n").place.expect("a place").line, 3);
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file() {
    let text = format!(
        "{}{EXEC}time_limit = \"soon\"\n[server]\nlisen = \"x\"\nconnections_max = \"many\"\n[store]\nretention = \"1h\"\n\
         [rights]\nretest = \"writer\"\n",
        HUB.replace("HOOK", "UNSET")
    );
    let faults = wrong(&text);
    let paths: Vec<&str> = faults.iter().map(|f| f.path.as_str()).collect();
    let expected = [
        "forge[0].webhook_secrets[0]",
        "runner[0].job[0].time_limit",
        "server.lisen",
        "server.connections_max",
        "store.retention",
        "rights.retest",
    ];
    assert_eq!(paths, expected);
    let lines = SettingsErrors(faults).to_string();
    assert_eq!(lines.lines().count(), expected.len(), "one line per fault:\n{lines}");
}

#[test]
fn a_misspelt_or_mistyped_key_is_not_also_called_missing() {
    let table = [
        ("webhook_secrets = [", "webhok_secrets = [", "forge[0].webhok_secrets"),
        ("token = {", "tokens = {", "forge[0].tokens"),
        ("kind = \"github\"", "kind = \"githib\"", "forge[0].kind"),
        ("name = \"hub\"", "name = 5", "forge[0].name"),
        ("token = { env = \"TOKEN\" }", "token = 5", "forge[0].token"),
    ];
    for (from, to, path) in table {
        assert_eq!(only_fault(&HUB.replace(from, to)).path, path);
    }
}

#[test]
fn control_characters_of_the_file_do_not_reach_the_terminal() {
    let fault = only_fault(&format!("{HUB}[server]\n\"a\\u001b[31m\\nb\" = 1\n"));
    let shown = format!("{fault}");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\n'), "{shown:?}");
}

#[test]
fn a_file_with_hundreds_of_mistakes_still_ends() {
    let keys: String = (0..300).map(|i| format!("key{i} = 1\n")).collect();
    let faults = wrong(&format!("{HUB}[server]\n{keys}"));
    assert_eq!(faults.len(), 101);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_to_the_text_can_stop_the_reading(at in 0usize..4000, cut in 0usize..20, put in "[\\PC\n\r\t\"=#\\[\\]{}]{0,6}") {
        let text = format!("{HUB}{LAB}{EXEC}{HTTP}[server]\nlisten = \"127.0.0.1:80\" # ünïcode 試験\n");
        let start = text.floor_char_boundary(at % text.len());
        let end = text.ceil_char_boundary((start + cut).min(text.len()));
        let damaged = format!("{}{put}{}", &text[..start], &text[end..]);
        if let Err(faults) = super::super::Settings::parse(&damaged, &given()) {
            prop_assert!(!faults.0.is_empty());
            let lines = faults.to_string();
            prop_assert_eq!(lines.lines().count(), faults.0.len(), "{}", lines);
            prop_assert!(faults.0.iter().all(|f| !f.text.is_empty()));
            let shown = format!("{faults:#}");
            prop_assert!(shown.len() >= lines.len());
        }
    }
}
