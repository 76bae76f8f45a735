//! 114 comments as people write them, each with what it means: the grammar finds just that.
//!
//! The grammar knows no job, so a stand-in for the planner looks names up among a few: the whole rest of the line first,
//! then word by word, in any case, globs as they are. A command none of whose words exists starts nothing and is
//! answered with a hint, which the cases call `hint`.
#![expect(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use retest_commands::{Alias, Command, Grammar, GrammarSettings, Selection, Selector, parse};
use serde_json::Value;

const JOBS: [&str; 6] =
    ["lava-x86", "lava-arm64", "unit tests", "unit tests (ubuntu, 3.11)", "ci/centos/mini-e2e/k8s-1.30", "docs-build"];

fn grammar() -> Grammar {
    let alias = |phrase: &str| Alias { phrase: phrase.into(), means: "/retest".into() };
    let settings = GrammarSettings {
        bot_logins: vec!["ci-bot".into()],
        aliases: ["/rerun-failed-ci", "retest this please", "recheck bug *", "recheck no bug"].map(alias).into(),
        // The cases leave `/test` to another bot.
        disabled: vec!["test".into()],
        ..GrammarSettings::default()
    };
    Grammar::new(settings).unwrap()
}

fn job(name: &str) -> Option<String> {
    JOBS.iter().find(|job| job.eq_ignore_ascii_case(name)).map(|job| (*job).to_owned())
}

/// What a selection comes to: known names as they are called, and the unknown words.
fn resolve(selection: &Selection) -> (Vec<String>, Vec<String>) {
    if let Some(name) = selection.whole.as_deref().and_then(job) {
        return (vec![name], Vec::new());
    }
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for word in &selection.words {
        match word {
            Selector::Name(name) => match job(name) {
                Some(name) => known.push(name),
                None => unknown.push(name.clone()),
            },
            Selector::Failed => {}
            other => known.push(other.to_text()),
        }
    }
    (known, unknown)
}

fn intent(selection: &Selection) -> &'static str {
    match selection.words.as_slice() {
        [] | [Selector::Failed] => "retest-failed",
        [Selector::Required] => "retest-required",
        [Selector::Optional] => "retest-optional",
        [Selector::Url(_)] => "retest-url",
        [word] if word.is_everything() => "retest-all",
        _ => "retest-jobs",
    }
}

/// Intent, arguments, whether anything would start.
fn outcome(text: &str, grammar: &Grammar) -> (&'static str, Vec<String>, bool) {
    let parsed = parse(text, grammar);
    assert!(parsed.commands.len() < 2, "one command each, the same one counts once: {text}");
    let hint = |args: Vec<String>| ("hint", args, false);
    let Some(command) = parsed.commands.first().map(|c| &c.command) else {
        return match parsed.mistakes.first() {
            Some(mistake) => {
                assert!(mistake.text.chars().count() <= 80 && !mistake.hint.is_empty(), "{mistake:?}");
                hint(told_argument(text, &mistake.hint))
            }
            None => ("none", Vec::new(), false),
        };
    };
    match command {
        Command::Retest(retest) => match resolve(&retest.selection) {
            (known, unknown) if known.is_empty() && !unknown.is_empty() => hint(unknown),
            (known, _) => (intent(&retest.selection), known, true),
        },
        Command::Cancel(cancel) => ("cancel", resolve(&cancel.selection).0, false),
        Command::Jobs(_) => ("help", vec!["?".into()], false),
        Command::Help(help) => ("help", help.topic.iter().map(|_| "--help".to_owned()).collect(), false),
        other => panic!("{text}: no case has {other:?}"),
    }
}

#[test]
fn every_real_comment_means_what_its_writer_meant() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../../tests/cases/comments.json")).unwrap();
    assert_eq!(cases.len(), 114);
    let grammar = grammar();
    let mut wrong = Vec::new();
    for case in &cases {
        let text = case["text"].as_str().unwrap();
        let wanted_args: Vec<&str> = case["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
        // Commands of other bots are passed over like prose.
        let wanted = match case["intent"].as_str().unwrap() {
            "other-bot" => "none",
            intent => intent,
        };
        let (intent, args, triggers) = outcome(text, &grammar);
        if intent != wanted || args != wanted_args || Some(triggers) != case["should_trigger"].as_bool() {
            wrong.push(format!(
                "{:?} ({})\n   is {intent} {args:?} {triggers}\n   not {wanted} {wanted_args:?}",
                short(text),
                case["note"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The argument that a hint repeats. Of two words run together nobody knows where one ends, so there it is a guess, which
/// the cases do not count.
fn told_argument(text: &str, hint: &str) -> Vec<String> {
    hint.strip_prefix("/retest ").filter(|_| text.contains(':')).map(str::to_owned).into_iter().collect()
}

fn short(text: &str) -> String {
    text.chars().take(120).collect()
}

#[test]
fn aliases_are_off_unless_the_policy_has_them() {
    for text in ["/rerun-failed-ci", "retest this please", "recheck bug 1234567", "recheck no bug"] {
        assert_eq!(outcome(text, &Grammar::default()), ("none", Vec::new(), false), "{text}");
        assert_eq!(outcome(text, &grammar()), ("retest-failed", Vec::new(), true), "{text}");
    }
}
