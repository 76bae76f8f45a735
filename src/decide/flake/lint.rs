//! What is wrong with a flake rule: refused before it can retry anything.
//!
//! A rule that fits nearly every failure is no label, it is a wish that CI were green. So patterns that fit ordinary lines, globs over
//! everything without anything that narrows them, and figures without a bound are refused. Unknown jobs are only told: a job may
//! not have run yet. Read next: `ordinary.log`, the lines that a pattern must not fit.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use super::log::compile;
use super::needles::{NEEDLE_BYTES_MIN, needles};
use super::rules::{FlakeRule, can_be_flake, is_user_error};
use crate::decide::{Declares, code};
use crate::domain::{Conclusion, JobName, LabelOrigin};

/// Lines as logs of all kinds of jobs are full of them, passed and failed.
const ORDINARY: &str = include_str!("ordinary.log");
/// One in so many of [`ORDINARY`] may fit a pattern.
const FITS_ONE_IN: usize = 40;
/// Lines that say that something failed, and nothing else. A pattern that fits one of them alone fits any failure.
const BARE: [&str; 30] = [
    "",
    "x",
    "0",
    "error",
    "ERROR",
    "Error:",
    "errors",
    "failed",
    "FAILED",
    "Failed",
    "failure",
    "FAIL",
    "fail",
    "fatal",
    "fatal error",
    "warning",
    "exception",
    "timeout",
    "timed out",
    "killed",
    "exit",
    "exit code 1",
    "status",
    "panic",
    "abort",
    "aborted",
    "crash",
    "crashed",
    "test failed",
    "build failed",
];
/// Names of jobs that have nothing in common.
const ANY_JOBS: [&str; 6] = ["a", "lava-x86", "build / test (ubuntu, 3.12)", "Unit_Tests", "deploy:prod", "зборка"];
/// Causes that have nothing in common.
const ANY_CAUSES: [&str; 3] = ["zq", "Infrastructure: the connection closed", "runner_system_failure"];
/// Causes of plain failures: a script or a test that said no.
const PLAIN_CAUSES: [&str; 8] = [
    "script_failure",
    "Job",
    "Job: validate failed",
    "Test",
    "Test: 2 cases failed: a, b",
    "exit code 1",
    "exited with 1",
    "failure",
];

/// Patterns of one rule.
const PATTERNS_MAX: usize = 32;
/// Longest pattern or glob, in characters.
const PATTERN_CHARS_MAX: usize = 500;
/// Most retries of one job on one head by a label.
pub(super) const RETRIES_MAX: u32 = 10;
/// Most retries by a label in 24 hours.
pub(super) const PER_DAY_MAX: u32 = 1_000;
/// Longest wait before a retry.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest label, in characters.
const LABEL_CHARS_MAX: usize = 63;

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault {
    /// Where the rule was written.
    pub origin: LabelOrigin,
    /// The rule.
    pub label: String,
    /// The key, such as `log[1]`.
    pub key: String,
    /// What is wrong, for people.
    pub text: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flake {}: {}: {}; {}", code(&self.label), code(&self.key), self.text, self.hint)
    }
}

/// The same in small letters.
static ORDINARY_LOWER: LazyLock<String> = LazyLock::new(|| ORDINARY.to_ascii_lowercase());

/// How many ordinary lines hold this text, in any letter case; `needle` is in small letters.
pub(super) fn in_ordinary_lines(needle: &[u8]) -> usize {
    let Ok(needle) = std::str::from_utf8(needle) else { return 0 };
    if !ORDINARY_LOWER.contains(needle) {
        return 0;
    }
    ORDINARY_LOWER.lines().filter(|line| line.contains(needle)).count()
}

/// Labels that were given twice in one place: a fault for each but the first.
pub(super) fn repeated(rules: &[FlakeRule]) -> Vec<RuleFault> {
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for rule in rules {
        if !seen.insert((&rule.origin, &rule.label)) {
            let mut lint = Lint { rule, faults: Vec::new() };
            lint.fault("label", "is the label of an earlier rule", "give each rule its own");
            faults.append(&mut lint.faults);
        }
    }
    faults
}

/// Everything that is wrong with a rule.
pub fn lint(rule: &FlakeRule) -> Vec<RuleFault> {
    let mut lint = Lint { rule, faults: Vec::new() };
    lint.label();
    lint.jobs();
    lint.ends();
    lint.causes();
    lint.patterns();
    lint.budget();
    lint.faults
}

/// Jobs of the rules that nobody knows, as warnings. `known` are the names of jobs that have been seen or declared.
pub fn unknown_jobs<'k>(rules: &[FlakeRule], known: impl Iterator<Item = &'k JobName> + Clone) -> Vec<String> {
    let mut warnings = Vec::new();
    for rule in rules {
        for which in rule.jobs.iter().filter(|which| !known.clone().any(|job| which.fits(job))) {
            let text = match which {
                Declares::Job(name) => format!("there is no job {}", code(name.as_str())),
                Declares::Pattern(glob) => format!("no job's name fits {}", code(glob.glob().glob())),
            };
            warnings.push(format!("flake {}: {text}; has it been renamed?", code(&rule.label)));
        }
    }
    warnings
}

struct Lint<'r> {
    rule: &'r FlakeRule,
    faults: Vec<RuleFault>,
}

impl Lint<'_> {
    fn fault(&mut self, key: impl Into<String>, text: impl Into<String>, hint: impl Into<String>) {
        let (origin, label) = (self.rule.origin.clone(), self.rule.label.clone());
        self.faults.push(RuleFault { origin, label, key: key.into(), text: text.into(), hint: hint.into() });
    }

    fn label(&mut self) {
        let label = &self.rule.label;
        let count = label.chars().count();
        let plain = label.trim() == label && !label.chars().any(char::is_control);
        if !(1..=LABEL_CHARS_MAX).contains(&count) || !plain {
            let hint = format!("choose 1 to {LABEL_CHARS_MAX} characters without blanks at the ends");
            self.fault("label", "cannot be a label", hint);
        }
    }

    fn jobs(&mut self) {
        let rule = self.rule;
        if rule.jobs.is_empty() {
            self.fault("jobs", "names no job", "write the jobs that fail so");
        }
        let narrowed = !rule.causes.is_empty() || !rule.log.is_empty();
        for (at, which) in rule.jobs.iter().enumerate() {
            if let Declares::Pattern(glob) = which
                && !narrowed
                && ANY_JOBS.iter().all(|job| glob.is_match(job))
            {
                let hint = "name the jobs, or add `causes` or `log`";
                self.fault(format!("jobs[{at}]"), "takes every job, and nothing narrows it", hint);
            }
        }
    }

    fn ends(&mut self) {
        let rule = self.rule;
        for (at, end) in rule.ends.iter().enumerate().filter(|(_, end)| !can_be_flake(**end)) {
            let text = format!("a run that ended {} is no flake", end.state());
            self.fault(format!("ends[{at}]"), text, "take it out");
        }
        if rule.causes.is_empty() && rule.log.is_empty() {
            if rule.ends.is_empty() {
                let hint = "add `causes`, `log`, or `ends = [\"infrastructure\"]`";
                self.fault(
                    "ends",
                    "is missing, and so are `causes` and `log`, so every failure would be a flake",
                    hint,
                );
            } else if rule.ends.contains(&Conclusion::Failed) {
                let hint = "add `causes` or `log`, or take `failed` out";
                self.fault("ends", "takes every plain failure", hint);
            }
        }
    }

    fn causes(&mut self) {
        let rule = self.rule;
        self.count("causes", rule.causes.len());
        for (at, glob) in rule.causes.iter().enumerate() {
            let (key, text) = (format!("causes[{at}]"), glob.glob().glob());
            let fits = |cause: &&&str| glob.is_match(cause);
            if text.chars().count() > PATTERN_CHARS_MAX {
                self.fault(key, "is too long", format!("at most {PATTERN_CHARS_MAX} characters"));
            } else if ANY_CAUSES.iter().all(|cause| glob.is_match(cause)) {
                self.fault(key, "fits every cause", "write the cause itself, such as `Infrastructure*`");
            } else if let Some(plain) = PLAIN_CAUSES.iter().find(fits) {
                let text = format!("fits {}, which every plain failure has", code(plain));
                self.fault(key, text, "let a line of the log decide: write `log = [\"…\"]` instead");
            } else if is_user_error(text) {
                self.fault(key, "is a cause that a person must mend", "take it out");
            }
        }
    }

    fn patterns(&mut self) {
        let rule = self.rule;
        self.count("log", rule.log.len());
        for (at, pattern) in rule.log.iter().enumerate() {
            if let Some((text, hint)) = wrong_pattern(pattern) {
                self.fault(format!("log[{at}]"), text, hint);
            }
        }
    }

    fn count(&mut self, key: &str, count: usize) {
        if count > PATTERNS_MAX {
            let hint = format!("at most {PATTERNS_MAX}; make two rules of it");
            self.fault(key, format!("has {count} entries"), hint);
        }
    }

    fn budget(&mut self) {
        let rule = self.rule;
        if !(1..=RETRIES_MAX).contains(&rule.retries) {
            let hint = format!("choose a number from 1 to {RETRIES_MAX}");
            self.fault("retries", format!("{} is out of range", rule.retries), hint);
        }
        if !(1..=PER_DAY_MAX).contains(&rule.per_day) {
            let hint = format!("choose a number from 1 to {PER_DAY_MAX}");
            self.fault("retries_per_day", format!("{} is out of range", rule.per_day), hint);
        }
        if rule.delay > DELAY_MAX {
            self.fault("delay", "is longer than a day", "choose up to `24h`");
        }
    }
}

/// What is wrong with a pattern for log lines, and what to do.
fn wrong_pattern(pattern: &str) -> Option<(String, String)> {
    const NARROW: &str = "add words that only this flake writes";
    if pattern.chars().count() > PATTERN_CHARS_MAX {
        return Some(("is too long".into(), format!("at most {PATTERN_CHARS_MAX} characters")));
    }
    let regex = match compile(pattern) {
        Ok(regex) => regex,
        Err(regex::Error::CompiledTooBig(_)) => {
            return Some(("is too large: repetitions of repetitions".into(), "write it without large counts".into()));
        }
        Err(error) => {
            // The last line of regex's message says what, the ones before draw an arrow.
            let what = error.to_string();
            let what = what.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let hint = "put `\\` before a character that is meant literally; `(?u)` switches Unicode classes on";
            return Some((format!("is not a pattern: {what}"), hint.into()));
        }
    };
    if regex.is_match(b"") {
        return Some(("fits every line, even an empty one".into(), NARROW.into()));
    }
    let fits_bare = |bare: &&&str| regex.is_match(bare.as_bytes()) || regex.is_match(format!("{bare}: x").as_bytes());
    if let Some(bare) = BARE.iter().find(fits_bare) {
        return Some((format!("fits a line that says just {}", code(bare)), NARROW.into()));
    }
    let fits = ORDINARY.lines().filter(|line| regex.is_match(line.as_bytes()));
    let (count, total) = (fits.clone().count(), ORDINARY.lines().count());
    if count * FITS_ONE_IN > total {
        let example = fits.max_by_key(|line| line.len()).unwrap_or_default();
        return Some((format!("fits {count} of {total} ordinary lines, such as {}", code(example)), NARROW.into()));
    }
    let Some(needles) = needles(pattern, in_ordinary_lines) else {
        let text = format!("has no fixed text of {NEEDLE_BYTES_MIN} characters that every match must hold");
        return Some((text, NARROW.into()));
    };
    needles.iter().any(|needle| needle.contains(&b'\n')).then(|| {
        ("spans several lines, and each line is looked at alone".into(), "write one pattern for each line".into())
    })
}

#[cfg(test)]
mod tests {
    use super::super::rules::tests::{cause, jobs, rule};
    use super::*;

    fn faults(change: impl FnOnce(&mut FlakeRule)) -> Vec<String> {
        let mut rule = rule("usb");
        change(&mut rule);
        lint(&rule).into_iter().map(|fault| format!("{} {}", fault.key, fault.text)).collect()
    }

    #[test]
    fn patterns_that_fit_nearly_everything_are_refused() {
        let refused = [
            "",
            ".*",
            ".",
            ".+",
            "a",
            "e",
            r"\d",
            r"\w+",
            r"^",
            "$",
            "x*",
            "(abc)?",
            "error",
            "(?i)error",
            "failed",
            "FAILED",
            "Error:?",
            "(error|failed)",
            "fail",
            ".*error.*",
            r"\berror\b",
            "(?i)error",
            "timeout",
            "timed out",
            "exit code",
            "test",
            "the",
            r"\d+ \w+",
            "ok",
            "^ERROR",
            "err",
            r"\[",
            "(?s).{3,}",
            "[^x]",
            "warning: ",
            "done",
        ];
        for pattern in refused {
            assert!(wrong_pattern(pattern).is_some(), "{pattern} was accepted");
        }
    }

    #[test]
    fn patterns_that_name_a_flake_are_taken() {
        let taken = [
            "usb .*: device descriptor read",
            "connection reset by peer",
            r"EAI_AGAIN",
            "Temporary failure in name resolution",
            r"lava: .* flash failed after \d+ tries",
            "error: RPC failed; curl 56",
            "TLS handshake timeout",
            "No space left on device",
            r"^mmc0: .*timed out waiting for hardware",
            "Unable to locate package .* proxy",
            "(?i)spurious network error",
            "503 Service Unavailable",
            "could not resolve host",
            r"\bENETUNREACH\b",
            "Text file busy",
            "the runner has received a shutdown signal",
        ];
        for pattern in taken {
            assert_eq!(wrong_pattern(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn broken_and_hostile_patterns_are_refused_quickly() {
        for (pattern, wanted) in [
            ("usb (", "is not a pattern"),
            ("(?:(?:(?:(?:usb error{50}){50}){50}){50}){50}", "is too large"),
            (&"x".repeat(501), "is too long"),
            ("first line\nsecond", "spans several lines"),
            (r"(usb)\1", "is not a pattern"),
        ] {
            let text = wrong_pattern(pattern).map(|(text, _)| text).unwrap_or_default();
            assert!(text.starts_with(wanted), "{pattern}: {text}");
        }
    }

    #[test]
    fn a_rule_must_say_what_makes_a_failure_a_flake() {
        assert_eq!(faults(|_| ()), [""; 0], "the rule itself is sound");
        let bare = |ends: &[Conclusion]| {
            let ends = ends.to_vec();
            faults(move |rule| {
                rule.log.clear();
                rule.ends = ends;
            })
        };
        assert!(bare(&[])[0].starts_with("ends is missing"));
        assert!(bare(&[Conclusion::Failed])[0].starts_with("ends takes every plain failure"));
        assert!(bare(&[Conclusion::Failed, Conclusion::Lost])[0].starts_with("ends takes every plain failure"));
        assert_eq!(bare(&[Conclusion::Infrastructure, Conclusion::Lost]), [""; 0]);
        assert!(faults(|rule| rule.ends = vec![Conclusion::Cancelled])[0].contains("is no flake"));
    }

    #[test]
    fn globs_over_all_jobs_need_something_that_narrows_them() {
        for glob in ["*", "**", "?*", "{*,x}"] {
            let all = faults(|rule| {
                rule.jobs = jobs(&[glob]);
                rule.log.clear();
                rule.ends = vec![Conclusion::Infrastructure];
            });
            assert!(all.first().is_some_and(|f| f.starts_with("jobs[0] takes every job")), "{glob}: {all:?}");
            assert_eq!(faults(|rule| rule.jobs = jobs(&[glob])), [""; 0], "{glob} with a pattern");
        }
        assert!(faults(|rule| rule.jobs.clear())[0].starts_with("jobs names no job"));
    }

    #[test]
    fn causes_of_plain_failures_and_of_people_are_refused() {
        for refused in ["*", "**", "script_failure", "Job", "job*", "Test*", "exit*", "user_blocked", "Configuration"] {
            assert_eq!(faults(|rule| rule.causes = vec![cause(refused)]).len(), 1, "{refused}");
        }
        for taken in ["Infrastructure*", "runner_system_failure", "infra*", "Job: login-action timed out*", "lost pod"]
        {
            assert_eq!(faults(|rule| rule.causes = vec![cause(taken)]), [""; 0], "{taken}");
        }
    }

    #[test]
    fn budgets_are_bounded_and_labels_are_names() {
        assert!(faults(|rule| rule.retries = 0)[0].starts_with("retries"));
        assert!(faults(|rule| rule.retries = 11)[0].starts_with("retries"));
        assert!(faults(|rule| rule.per_day = 0)[0].starts_with("retries_per_day"));
        assert!(faults(|rule| rule.per_day = 1_001)[0].starts_with("retries_per_day"));
        assert!(faults(|rule| rule.delay = DELAY_MAX + Duration::from_secs(1))[0].starts_with("delay"));
        assert!(faults(|rule| rule.label = String::new())[0].starts_with("label"));
        assert!(faults(|rule| rule.label = "a\nb".into())[0].starts_with("label"));
        let twice = repeated(&[rule("usb"), rule("net"), rule("usb")]);
        assert_eq!(twice.len(), 1);
        assert_eq!(
            twice[0].to_string(),
            "flake `usb`: `label`: is the label of an earlier rule; give each rule its own"
        );
    }

    #[test]
    fn unknown_jobs_are_told() {
        let known = [JobName::from("lava-x86"), JobName::from("unit")];
        let mut named = rule("usb");
        named.jobs = vec![Declares::Job(JobName::from("unit")), Declares::Job(JobName::from("untt"))];
        named.jobs.extend(jobs(&["lava-*", "kvm-*"]));
        let warnings = unknown_jobs(&[named], known.iter());
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("`untt`") && warnings[1].contains("`kvm-*`"), "{warnings:?}");
    }
}
