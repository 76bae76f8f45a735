//! Which lines of a comment count, and that reading only parts of it changes nothing.

use proptest::prelude::*;

use super::*;
use crate::grammar::{Grammar, GrammarSettings};
use crate::scan::scan;

fn grammar() -> Grammar {
    Grammar::new(GrammarSettings { bot_logins: vec!["ci-bot".into()], ..GrammarSettings::default() }).expect("valid")
}

fn found(text: &str) -> Vec<String> {
    let lines = lines(text, &scan(text, &grammar())).expect("short");
    lines.into_iter().filter(|l| l.text.contains("/retest")).map(|l| format!("{}: {}", l.number, l.text)).collect()
}

#[test]
fn only_the_writers_own_prose_counts() {
    let table: [(&str, &[&str]); 36] = [
        ("a\n/retest b\nc", &["2: /retest b"]),
        ("a\r\n\r\n/retest\r\n", &["3: /retest"]),
        ("a\r/retest", &["2: /retest"]),
        ("**/retest a** b", &["1: /retest a b"]),
        ("_/retest_", &["1: /retest"]),
        ("/retest *x*", &["1: /retest *x*"]),
        ("/retest __init__ a*b*", &["1: /retest __init__ a*b*"]),
        ("/retest `a b` [c](http://x.example)", &["1: /retest `a b` `c`"]),
        ("/retest <https://x.example/1>", &["1: /retest https://x.example/1"]),
        ("/retest a <!-- b --> c", &["1: /retest a  c"]),
        ("/retest a![b](c.png)", &["1: /retest a"]),
        ("/retest a<br>b", &["1: /retest a b"]),
        ("text <!-- x\n/retest\n-->", &[]),
        ("\\/retest", &[]),
        ("&#47;retest", &[]),
        ("a `b\n/retest\nc` d", &["1: a `b /retest c` d"]),
        ("/retest\n===", &[]),
        ("/retest\n---\n", &[]),
        ("/retest\n-- \nAnn", &["1: /retest"]),
        ("a\n\n-- \n/retest", &[]),
        ("a\n\n--\n/retest", &["4: /retest"]),
        ("| a |\n|---|\n/retest", &[]),
        ("x | y\n--|--\n/retest | b", &[]),
        (">>>\n/retest\n\n/retest\n>>>\n\n/retest z", &["7: /retest z"]),
        ("<blockquote>\n\n/retest\n\n</blockquote>\n\n/retest z", &["7: /retest z"]),
        ("x <code>\n/retest\n</code>", &[]),
        ("<del>/retest</del>", &[]),
        ("<details>\n\n/retest\n\n</details>", &["3: /retest"]),
        ("<!-- <pre> -->\n/retest", &["2: /retest"]),
        ("<div><!--\n\n/retest\n\n<p>-->\n\n/retest z", &["7: /retest z"]),
        ("<details><summary>x</summary>\n\n/retest\n\n</details>", &["3: /retest"]),
        ("x [a\n/retest](b)", &[]),
        ("[x]: y\n/retest", &["2: /retest"]),
        ("- a\n/retest", &[]),
        ("- a\n\n/retest", &["3: /retest"]),
        ("On 3 Jun, Ann <a@b.example> wrote:\n\n/retest", &[]),
    ];
    for (text, wanted) in table {
        assert_eq!(found(text), wanted, "{text}");
    }
}

#[test]
fn an_attribution_ends_the_prose_unless_a_quote_follows() {
    assert_eq!(found("On 3 Jun, Ann wrote:\n> a\n\n/retest"), ["4: /retest"]);
    assert_eq!(found("On 3 Jun,\nAnn wrote:\n\n> a\n\n/retest"), ["6: /retest"]);
    assert_eq!(found("/retest\n\n-----Original Message-----\n\n/retest b"), ["1: /retest"]);
    assert_eq!(found("/retest\n\nFrom: Ann\nSent: Monday\n\n/retest b"), ["1: /retest"]);
}

#[test]
fn a_long_comment_is_read_around_its_commands() {
    let log = "2026-01-01T00:00:00Z [ok] step *12*: <done> `x` at 0xffff\n".repeat(4_000);
    let text = format!("{log}\n\n/retest a\n\n```\n{log}/retest no\n```\n/retest b\n\n{log}");
    assert_eq!(found(&text), ["4003: /retest a", "8008: /retest b"]);
}

#[test]
fn a_long_comment_that_cannot_be_cut_is_refused() {
    let text = format!("<blockquote>\n\n/retest a\n\n{}", "a *b*\n".repeat(20_000));
    assert_eq!(lines(&text, &scan(&text, &grammar())), Err(TooMuchWork));
}

/// Text that is rich in what CommonMark gives a meaning.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "/retest",
        "/retest a",
        "@ci-bot retest",
        "a",
        "b c",
        "\n",
        "\n\n",
        "\r\n",
        "```",
        "````",
        "~~~",
        "`",
        "> ",
        ">>>",
        "- ",
        "1. ",
        "  ",
        "    ",
        "\t",
        " ",
        "# ",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
        "<div>",
        "</div>",
        "<code>",
        "</code>",
        "<blockquote>",
        "</blockquote>",
        "<?",
        "?>",
        "<![CDATA[",
        "]]>",
        "*",
        "**",
        "~~",
        "[",
        "]",
        "(b)",
        "[x]: ",
        "\"",
        "|",
        "|-|-|",
        "---",
        "===",
        "-- ",
        "\\",
        "&#47;",
        "\n```\n",
        "\n~~~\n",
        "\n\n/retest\n\n",
        "é",
        "On 3 Jun, Ann wrote:\n",
        "-----Original Message-----\n",
        "<script>",
        "<x",
        "--",
        "\n<!-- ",
        "\n\ntext\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_link_defined_far_away_is_a_link_all_the_same() {
    let text = "/retest [x] \n```\n\n```\n[x]: ```a";
    let found = |limit| lines_within(text, &scan(text, &grammar()), limit).map(|lines| lines.first().cloned());
    let cut = found(regions::work(text).saturating_sub(1));
    assert!(cut.is_err() || cut == found(usize::MAX), "{cut:?}");
}

#[test]
fn html_that_goes_on_with_a_paragraph_is_html_however_deep_it_stands() {
    let text = "?>\n    <pre>\n\n/retest\n\n/retest";
    for limit in [usize::MAX, regions::work(text).saturating_sub(1)] {
        let lines = lines_within(text, &scan(text, &grammar()), limit).unwrap_or_default();
        assert!(lines.iter().all(|line| line.text != "/retest"), "limit {limit}: {lines:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4 * ProptestConfig::default().cases))]

    #[test]
    fn cutting_never_finds_a_command_that_the_whole_text_does_not_have(text in markdown()) {
        let scan = scan(&text, &grammar());
        let whole = lines_within(&text, &scan, usize::MAX).expect("no limit");
        // A limit just under the work of the whole forces the cut.
        let Ok(cut) = lines_within(&text, &scan, regions::work(&text).saturating_sub(1)) else { return Ok(()) };
        let is_ours = |l: &&Line| crate::line::read(l, &grammar()) != Ok(None);
        let whole: Vec<&Line> = whole.iter().filter(is_ours).collect();
        let cut: Vec<&Line> = cut.iter().filter(is_ours).collect();
        prop_assert_eq!(cut, whole);
    }

    #[test]
    fn the_first_look_misses_nothing(text in markdown()) {
        let everything = Scan { candidates: (0..text.len()).collect(), is_sure: true, has_more: false };
        let lines = lines_within(&text, &everything, usize::MAX).expect("no limit");
        if lines.iter().any(|l| crate::line::read(l, &grammar()) != Ok(None)) {
            prop_assert!(!scan(&text, &grammar()).candidates.is_empty());
        }
    }
}
