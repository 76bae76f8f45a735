//! Time to parse one megabyte of several texts, ordinary and malicious: `cargo bench -p retest-commands`.
//!
//! Prints the best of several runs in milliseconds per megabyte, beside what CommonMark alone needs for the same text, so
//! that a slow or busy machine shows in both. The promise is 5 ms for any text.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pulldown_cmark::{Options, Parser};
use retest_commands::{Alias, Grammar, GrammarSettings, Parsed, parse};

const BYTES: usize = 1_000_000;
const RUNS: usize = 15;

fn main() {
    let settings = GrammarSettings {
        bot_logins: vec!["ci-bot".into()],
        aliases: vec![Alias { phrase: "recheck *".into(), means: "/retest".into() }],
        ..GrammarSettings::default()
    };
    let Ok(grammar) = Grammar::new(settings) else { return };
    println!("{:34} {:>9} {:>12}  found", "one megabyte of", "parse", "CommonMark");
    let mut worst = Duration::ZERO;
    for (name, text) in texts() {
        let (spent, parsed) = best(RUNS, || parse(black_box(&text), &grammar));
        let (reference, _) = best(2, || Parser::new_ext(&text, Options::all()).into_offset_iter().count());
        worst = worst.max(spent);
        println!("{name:34} {:>6.2} ms {:>9.2} ms  {}", ms(spent), ms(reference), found(&parsed));
    }
    println!("worst: {:.2} ms", ms(worst));
}

fn texts() -> Vec<(String, String)> {
    let mut out = Vec::new();
    let log = "2026-01-01T00:00:00Z job lava-x86 step 12: kernel panic - not syncing [ok] at 0xffff\n";
    let prose = "A sentence as people write it, with words and *stress* and `code`.\n\n";
    for (name, unit) in [("log", log), ("prose", prose)] {
        out.push((name.to_owned(), filled(unit)));
        out.push((format!("{name}, command at the end"), filled(unit) + "\n\n/retest lava-x86\n"));
        out.push((
            format!("{name}, fenced, command behind"),
            format!("```\n{}\n```\n/retest lava-x86\n", filled(unit)),
        ));
    }
    let units = [
        "/retest\n",
        "/retest\n\n",
        "/retset\n",
        "@ci-bot ",
        "@ci-bot\n",
        " /retest",
        "/",
        "/r",
        "\n/",
        "@",
        "recheck\n",
        "recheck ",
        "\n",
        "a\n",
        "[",
        "[a](",
        "![",
        "`",
        "`a",
        "*a",
        "*a_ ",
        "<",
        "<a ",
        "<!--",
        "\n<!--",
        "&",
        "\\",
        "> ",
        ">",
        "- ",
        "- a\n",
        "1. ",
        "~~~\n",
        "```\n",
        "|a|b|\n",
        "[a]: x\n",
        "[a]:\n",
        "\u{200b}",
        "\u{a0}",
        "é",
        "wrote:\n",
        "a@b wrote:\n",
        "/re\u{200b}test\n",
        "'",
        "(",
        "\t",
    ];
    for unit in units {
        out.push((format!("{unit:?}"), filled(unit)));
        out.push((format!("{unit:?} around a command"), filled(unit) + "\n\n/retest lava-x86\n\n" + unit));
    }
    out.push(("/retest and quotes".to_owned(), format!("/retest {}", filled("'a "))));
    out.push(("/retest and brackets".to_owned(), format!("/retest {}", filled("(["))));
    out
}

fn filled(unit: &str) -> String {
    unit.repeat(BYTES / unit.len())
}

fn best<T>(runs: usize, mut run: impl FnMut() -> T) -> (Duration, T) {
    let mut timed = || {
        let start = Instant::now();
        let result = run();
        (start.elapsed(), result)
    };
    let mut best = timed();
    for _ in 1..runs {
        let next = timed();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn found(parsed: &Parsed) -> String {
    let kinds: Vec<_> = parsed.mistakes.iter().map(|m| m.kind.as_str()).collect();
    format!("{} commands {}", parsed.commands.len(), kinds.join(" "))
}
