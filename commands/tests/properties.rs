//! What holds for any text whatever.

use proptest::prelude::*;
use retest_commands::{Alias, Grammar, GrammarSettings, TEXT_CHARS_MAX, new_commands, parse};

fn grammar() -> Grammar {
    let settings = GrammarSettings {
        bot_logins: vec!["ci-bot".into()],
        aliases: vec![Alias { phrase: "recheck *".into(), means: "/retest {tail}".into() }],
        ..GrammarSettings::default()
    };
    Grammar::new(settings).expect("valid settings")
}

/// A line that would run if it stood alone, now and then something else.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("/retest".to_owned()),
        Just("@ci-bot retest lava-x86".to_owned()),
        Just("recheck lava-x86".to_owned()),
        Just("/retest 'a b' --force".to_owned()),
        Just(String::new()),
        "[ -~]{0,30}",
        "\\PC{0,20}",
    ]
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(line(), 1..12)
}

fn assert_inert(text: &str) -> Result<(), TestCaseError> {
    let parsed = parse(text, &grammar());
    prop_assert_eq!(parsed.commands, vec![]);
    prop_assert_eq!(parsed.mistakes, vec![]);
    Ok(())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        parse(&text, &grammar());
        parse(&format!("/retest {text}"), &grammar());
        parse(&format!("/retest{text}"), &grammar());
        parse(&format!("@ci-bot {text}"), &grammar());
        parse(&format!("recheck {text}"), &grammar());
        parse(&format!("please /retest {text}"), &grammar());
    }

    #[test]
    fn what_is_told_is_bounded(text in "[/@a-zé\u{200b} ]{0,300}", count in 0_usize..60) {
        let parsed = parse(&format!("/retest --{text}\n").repeat(count), &grammar());
        prop_assert!(parsed.mistakes.len() <= 20);
        for mistake in parsed.mistakes {
            prop_assert!(mistake.text.chars().count() <= TEXT_CHARS_MAX);
            prop_assert!(mistake.hint.chars().count() <= TEXT_CHARS_MAX);
            prop_assert!(!mistake.text.contains(|c: char| c.is_control()));
        }
    }

    #[test]
    fn nothing_in_a_fence_runs(lines in lines(), indent in 0_usize..4, info in "[a-z ]{0,8}", tilde in any::<bool>()) {
        let body = lines.join("\n");
        let mark = if tilde { '~' } else { '`' };
        let longest = body.split(|c| c != mark).map(str::len).max().unwrap_or_default();
        let fence = mark.to_string().repeat(longest.max(2) + 1);
        let pad = " ".repeat(indent);
        assert_inert(&format!("text\n\n{pad}{fence}{info}\n{body}\n{pad}{fence}\n\ntext"))?;
        assert_inert(&format!("{fence}{info}\n{body}"))?;
    }

    #[test]
    fn nothing_in_a_quote_runs(lines in lines(), gap in prop::sample::select(vec!["", " ", "> ", "- "])) {
        let body: String = lines.iter().map(|line| format!(">{gap}{}\n", line.replace(['\r', '\u{85}'], ""))).collect();
        assert_inert(&body)?;
    }

    #[test]
    fn nothing_in_an_html_comment_runs(lines in lines()) {
        let body = lines.join("\n").replace("--", "- -").replace("->", "- >");
        assert_inert(&format!("<!-- x\n{body}\n-->"))?;
        assert_inert(&format!("<!--\n\n{body}\n\n-->\n\ntext"))?;
    }

    #[test]
    fn nothing_indented_by_four_runs(lines in lines()) {
        let body: String = lines.iter().map(|line| format!("    {}\n", line.replace('\r', ""))).collect();
        assert_inert(&body)?;
    }

    #[test]
    fn an_edit_runs_only_what_is_new(before in lines(), after in lines()) {
        let (before, after) = (before.join("\n\n"), after.join("\n\n"));
        let (old, new) = (parse(&before, &grammar()), new_commands(&before, &after, &grammar()));
        for command in &new.commands {
            prop_assert!(!old.commands.iter().any(|c| c.command == command.command));
        }
        prop_assert_eq!(new_commands(&after, &after, &grammar()).commands, vec![]);
    }
}

#[test]
fn an_edit_that_adds_a_line_runs_that_line() {
    let new = new_commands("/retest a", "some words\n\n/retest a\n/retest b", &grammar());
    let texts: Vec<_> = new.commands.iter().map(|c| (c.command.view().args, c.line)).collect();
    assert_eq!(texts, [(vec!["b".to_owned()], 4)]);
}

#[test]
fn commands_beyond_the_limit_are_told_and_those_before_it_run() {
    let text: String = (0..30).map(|n| format!("/retest job-{n}\n")).collect();
    let parsed = parse(&text, &grammar());
    assert_eq!(parsed.commands.len(), 20);
    let told: Vec<_> = parsed.mistakes.iter().map(|m| (m.kind.as_str(), m.line)).collect();
    assert_eq!(told, [("too_many", 21)]);
}

#[test]
fn a_comment_over_the_size_limit_is_told_only_if_it_holds_a_command() {
    let filler = "a word or two. ".repeat(100_000);
    assert_eq!(parse(&filler, &grammar()).mistakes, []);
    let told = parse(&format!("{filler}\n\n/retest"), &grammar());
    assert_eq!((told.commands.len(), told.mistakes[0].kind.as_str()), (0, "too_long"));
}

#[test]
fn with_a_prefix_only_prefixed_commands_are_ours() {
    let settings = GrammarSettings {
        prefix: Some("/bot".into()),
        bot_logins: vec!["ci-bot".into()],
        ..GrammarSettings::default()
    };
    let grammar = Grammar::new(settings).expect("valid settings");
    let names = |text: &str| {
        let parsed = parse(text, &grammar);
        let kinds: Vec<_> = parsed.mistakes.iter().map(|m| m.kind.as_str()).collect();
        let names: Vec<_> = parsed.commands.iter().map(|c| c.command.name()).collect();
        [names, kinds].concat()
    };
    for (text, wanted) in [
        ("/bot retest x", vec!["retest"]),
        ("/BOT: retest", vec!["retest"]),
        ("/bot /retest", vec!["retest"]),
        ("/bot", vec!["help"]),
        ("@ci-bot retest", vec!["retest"]),
        ("/bot retset", vec!["near_miss"]),
        ("please /bot retest", vec!["mid_line"]),
        ("/bot retest a /bot retest b", vec!["glued"]),
        ("/retest", vec![]),
        ("/retset", vec![]),
        ("please /retest", vec![]),
        ("/bots retest", vec![]),
        ("/bot lgtm", vec![]),
    ] {
        assert_eq!(names(text), wanted, "{text}");
    }
}

#[test]
fn an_alias_hands_over_what_it_captures() {
    let parsed = parse("Recheck lava-x86, lava-arm64!", &grammar());
    assert_eq!(parsed.commands[0].command.view().args, ["lava-x86", "lava-arm64"]);
    assert_eq!(parse("recheck --frce", &grammar()).mistakes[0].kind.as_str(), "unknown_option");
}

#[test]
fn a_disabled_command_is_passed_over_whole() {
    let settings = GrammarSettings { disabled: vec!["test".into(), "cancel".into()], ..GrammarSettings::default() };
    let grammar = Grammar::new(settings).expect("valid settings");
    for text in ["/test lava-x86", "/cancel", "/cancle", "please /cancel", "@x test"] {
        assert_eq!(parse(text, &grammar), Default::default(), "{text}");
    }
}
