//! What one line means, case by case, beyond the contract of `tests/cases/comments.json`.

use retest_commands::{Command, Grammar, GrammarSettings, Switch, parse};

fn grammar() -> Grammar {
    Grammar::new(GrammarSettings { bot_logins: vec!["ci-bot[bot]".into()], ..GrammarSettings::default() })
        .expect("valid")
}

/// Each command as `name arg, arg; key=value; flag`, each mistake as `!kind hint`.
fn read(text: &str) -> Vec<String> {
    let parsed = parse(text, &grammar());
    let commands = parsed.commands.iter().map(|c| {
        let view = c.command.view();
        let mut out = view.name.to_owned();
        if !view.args.is_empty() {
            out += &format!(" {}", view.args.join(", "));
        }
        out.extend(view.options.iter().map(|(key, value)| format!("; {key}={value}")));
        out.extend(view.flags.iter().map(|flag| format!("; {flag}")));
        out
    });
    let mistakes = parsed.mistakes.iter().map(|m| format!("!{} {}", m.kind.as_str(), m.hint));
    commands.chain(mistakes).collect()
}

#[test]
fn a_slash_at_the_start_of_a_line() {
    for (text, wanted) in [
        ("/retest?", "jobs"),
        ("/retest lava-x86 ?", "jobs lava-x86"),
        ("/retest@ci-bot lava-x86", "retest lava-x86"),
        ("/retest@ci-bot[bot]: lava-x86", "retest lava-x86"),
        ("/retest: lava-x86", "!glued /retest lava-x86"),
        ("/retest(lava-x86)", "!glued /retest lava-x86"),
        ("/retest…", "retest"),
        ("/retest🙏", "retest"),
        ("/RETEST Lava-X86!", "retest Lava-X86"),
        ("   /retest", "retest"),
        ("/retest-optional lava-*", "retest optional, lava-*"),
        ("/cancel --help", "help cancel"),
        ("/help /retest", "help retest"),
        ("/help me please", "help"),
    ] {
        assert_eq!(read(text), [wanted], "{text}");
    }
    for text in [
        "/retest@other-bot",
        "/retest@ci-botty",
        "/retest/foo",
        "/retest.sh",
        "/test.sh fails",
        "/retestを実行",
        "/retest's reply",
        "/ retest",
        "/",
        "/-",
        "/retest) is",
        "/test/unit",
        "/helping",
        "/why-not",
    ] {
        assert_eq!(read(text), [""; 0], "{text}");
    }
}

#[test]
fn the_bots_name_at_the_start_of_a_line() {
    for (text, wanted) in [
        ("@ci-bot /retest", "retest"),
        ("@ci-bot[bot]: retest lava-x86", "retest lava-x86"),
        ("@ci-bot please please retest lava-x86, thanks", "retest lava-x86"),
        ("@ci-bot　retest", "retest"),
        ("@ci-bot ?", "help"),
        ("@ci-bot help", "help"),
        ("@ci-bot retset", "!near_miss /retest"),
        ("@ci-bot can you retest this?", "!mid_line /retest"),
    ] {
        assert_eq!(read(text), [wanted], "{text}");
    }
    for text in [
        "@ci-bot!",
        "@ci-bot.",
        "@ci-bot thanks!",
        "@ci-bot is great",
        "@ci-bot.example retest",
        "@ci-bot/team retest",
        "@ci-bot_ retest",
        "x@ci-bot retest",
    ] {
        assert_eq!(read(text), [""; 0], "{text}");
    }
}

#[test]
fn what_cannot_be_seen_or_is_not_said_runs_nothing() {
    for (text, wanted) in [
        ("/retest \u{202e}68x-aval", "!hidden_characters type the command by hand"),
        ("/retest lava\u{200b}-x86", "!hidden_characters type the command by hand"),
        ("@ci-bot re\u{ad}test", "!hidden_characters type the command by hand"),
        ("/retest l\u{430}va-x86", "!look_alike type the name by hand, or quote it"),
        ("／retest", "!look_alike /retest"),
        ("/retest <lava-x86>", "!markup write names without < and >"),
        ("/retest ~~lava-x86~~", "!struck_out all that the command names is struck out"),
        ("/retest ~~lava-x86~~ lava-arm64", "retest lava-arm64"),
        ("/retest \u{200e}lava-x86\u{200e}", "retest lava-x86"),
    ] {
        assert_eq!(read(text), [wanted], "{text:?}");
    }
    assert_eq!(read("some\u{202e}thing else"), [""; 0], "a line that is no command may hold what it likes");
    let long = format!("/retest {}", "a ".repeat(3_000));
    assert!(read(&long)[0].starts_with("!too_"), "a line of 6,000 bytes");
}

#[test]
fn the_other_commands() {
    for (text, wanted) in [
        ("/test", "!missing_argument name a job: /test JOB, or all"),
        ("/test unit times=3 --dry-run os=linux", "test unit; os=linux; times=3; dry-run"),
        ("/cancel --force", "!unknown_option this command has no options"),
        ("/cancel lava-x86 -- wrong one", "cancel lava-x86; reason=wrong one"),
        ("/ok-to-test ABCDEF1234", "ok-to-test abcdef1234"),
        ("/ok-to-test please", "ok-to-test"),
        ("/ok-to-test yes", "!bad_value a commit: 7 to 64 hexadecimal digits"),
        ("/flake", "!missing_argument name the job and its issue: /flake JOB #123, or /flake JOB new"),
        ("/flake #12", "flake; issue=12"),
        ("/autoretry ON.", "autoretry on"),
        ("/autoretry", "!missing_argument /autoretry on, or /autoretry off"),
        ("/autoretry maybe", "!bad_value /autoretry on, or /autoretry off"),
        ("/override lava-x86", "!missing_argument /override STATUS \"why it may be ignored\""),
        ("/override unit tests “lab is down”", "override unit tests; reason=lab is down"),
        ("/override 'unit tests' -- lab is down", "override unit tests; reason=lab is down"),
        ("/why unit tests (ubuntu, 3.11)", "why unit tests (ubuntu, 3.11)"),
    ] {
        assert_eq!(read(text), [wanted], "{text}");
    }
    let parsed = parse("/autoretry off", &grammar());
    assert!(matches!(&parsed.commands[0].command, Command::Autoretry(a) if a.switch == Switch::Off));
}

#[test]
fn a_mistake_stops_its_own_line_only() {
    assert_eq!(
        read("/retest --frce\n/retest lava-x86\n/cancle"),
        ["retest lava-x86", "!unknown_option --force", "!near_miss /cancel"]
    );
}
