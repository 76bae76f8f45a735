//! Time to look for the patterns of 500 flake rules in 10 MB of log: `cargo bench --bench flakes`.
//!
//! Prints the best of several runs beside what counting the lines of the same text takes, and beside two other ways to do the work:
//! one expression after the other, and all of them as one set, line by line (both on a part of the text or of the patterns, and
//! scaled up). The promise is 200 ms for an ordinary log; a figure that is over by more than a quarter ends with an error.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use regex::bytes::{Regex, RegexBuilder, RegexSetBuilder};
use retest_bot::decide::{Declares, Failure, FlakeRule, RuleSet};
use retest_bot::domain::{Conclusion, JobName, LabelOrigin, RunnerName};

/// Size of a log.
const LOG_BYTES: usize = 10 * 1024 * 1024;
/// Rules, each with one pattern.
const RULES: usize = 500;
/// The promise.
const TIME_MAX: Duration = Duration::from_millis(200);
/// Runs of which the best counts.
const RUNS: usize = 7;
/// Lines as jobs of all kinds write them.
const ORDINARY: &str = include_str!("../../src/decide/flake/ordinary.log");

fn main() -> ExitCode {
    let job = JobName::from("lava-x86");
    let runner = RunnerName::from("lab");
    let failure = Failure { job: &job, runner: &runner, end: Conclusion::Failed, cause: None };
    let patterns = patterns();
    let started = Instant::now();
    let rules = match RuleSet::new(patterns.iter().enumerate().map(|(at, p)| rule(at, p)).collect()) {
        Ok(rules) => rules,
        Err(faults) => {
            for fault in faults.iter().take(5) {
                eprintln!("{fault}");
            }
            return ExitCode::FAILURE;
        }
    };
    println!("{RULES} rules linted and compiled in {:.0} ms (once per change of the rules)\n", ms(started.elapsed()));
    println!("{:44} {:>9} {:>12} {:>8}", "10 MiB of", "time", "/ line count", "matches");
    let mut over = false;
    for (name, text, promised) in texts(&patterns) {
        let (spent, found) = best(RUNS, || rules.in_log(&failure, black_box(&text), false).len());
        let (lines, _) = best(RUNS, || black_box(black_box(text.as_str()).bytes().filter(|b| *b == b'\n').count()));
        let ratio = spent.as_secs_f64() / lines.as_secs_f64();
        println!("{name:44} {:>6.1} ms {ratio:>12.1} {found:>8}", ms(spent));
        over |= promised && spent > TIME_MAX.mul_f64(1.25);
    }
    let ordinary = ordinary();
    println!("\nother ways, ordinary log");
    println!("{:44} {:>6.0} ms", "one expression after the other", ms(one_by_one(&patterns, &ordinary)));
    println!("{:44} {:>6.0} ms", "one set of expressions, line by line", ms(as_set(&patterns, &ordinary)));
    if over { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn rule(at: usize, pattern: &str) -> FlakeRule {
    FlakeRule {
        label: format!("rule-{at}"),
        origin: LabelOrigin::Operator,
        jobs: vec![Declares::Job(JobName::from("lava-x86"))],
        runner: None,
        ends: Vec::new(),
        causes: Vec::new(),
        log: vec![pattern.to_owned()],
        retries: 1,
        per_day: 20,
        delay: Duration::ZERO,
    }
}

/// Patterns as people write them: a device or host, words, something variable, alternatives, in any letter case.
fn patterns() -> Vec<String> {
    let forms = [
        r"usb @: device descriptor read/\d+, error -\d+",
        r"mmc@: (timed out|timeout) waiting for hardware (cmd )?interrupt",
        r"registry-@\.example\.com.*(connection reset by peer|TLS handshake timeout)",
        r"(?i)board-@ .* (dropped off|did not answer|is offline)",
        r"^lab-@: .*power cycle failed after \d+ tries",
        r"Failed to fetch http://mirror@/.*503",
        r"fatal: unable to access 'https://git@\.",
        r"eth@: link (is )?down.*carrier lost",
        r"serial@: \d+ bytes lost",
        r"(Unable|Failed) to lock the administration directory .*@",
    ];
    (0..RULES).map(|at| forms[at % forms.len()].replace('@', &format!("{:03}", at / forms.len()))).collect()
}

/// Lines of ordinary logs with GitHub's time stamps and a varying number, to the full size.
fn ordinary() -> String {
    let mut text = String::with_capacity(LOG_BYTES + 1_000);
    for (at, line) in ORDINARY.lines().cycle().enumerate() {
        if text.len() >= LOG_BYTES {
            break;
        }
        let (minute, second) = (at / 60 % 60, at % 60);
        text.push_str(&format!("2026-01-31T10:{minute:02}:{second:02}.1234567Z {line} {at}\n"));
    }
    text
}

fn filled(unit: &str) -> String {
    unit.repeat(LOG_BYTES / unit.len())
}

/// Texts by name, and whether the promise is about them.
fn texts(patterns: &[String]) -> Vec<(&'static str, String, bool)> {
    let ordinary = ordinary();
    let mut with_flakes = ordinary.clone();
    for at in (0..patterns.len()).step_by(10) {
        with_flakes.push_str(&format!("usb {:03}: device descriptor read/64, error -71\n", at / 10));
    }
    let misses: String = (0..patterns.len() / 10)
        .map(|at| format!("usb {at:03}: device descriptor read/ mmc{at:03}: board-{at:03} lab-{at:03}: serial{at:03}: eth{at:03}:\n"))
        .collect();
    vec![
        ("ordinary log, no match", ordinary, true),
        ("ordinary log, 50 matches at the end", with_flakes, true),
        // Each line holds the fixed texts of many rules, and none of them fits.
        ("every text of every rule, and no match", filled(&misses), false),
        ("the same without line ends", filled(&misses.replace('\n', " ")), false),
        ("one letter", filled("e"), true),
        ("line ends", filled("\n"), true),
    ]
}

fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).unicode(false).multi_line(true).build().ok()
}

/// Every expression over the whole text, for each tenth of the expressions.
fn one_by_one(patterns: &[String], text: &str) -> Duration {
    let some: Vec<Regex> = patterns.iter().step_by(7).filter_map(|p| compiled(p)).collect();
    let (spent, _) = best(1, || some.iter().filter(|regex| regex.is_match(black_box(text.as_bytes()))).count());
    spent.mul_f64(patterns.len() as f64 / some.len() as f64)
}

/// All expressions as one set, line by line, over a tenth of the text.
fn as_set(patterns: &[String], text: &str) -> Duration {
    let Ok(set) = RegexSetBuilder::new(patterns).unicode(false).size_limit(1 << 28).dfa_size_limit(1 << 26).build()
    else {
        return Duration::MAX;
    };
    let part = text.get(..text.len() / 10).unwrap_or_default();
    let (spent, _) =
        best(1, || part.lines().map(|line| set.matches(black_box(line.as_bytes())).iter().count()).sum::<usize>());
    spent * 10
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
