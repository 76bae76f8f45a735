//! What a rule matches, against tables.

use globset::GlobBuilder;

use super::*;

pub(in crate::decide::flake) fn jobs(globs: &[&str]) -> Vec<Declares> {
    let glob = |text: &&str| Declares::Pattern(globset::Glob::new(text).expect("a glob").compile_matcher());
    globs.iter().map(glob).collect()
}

pub(in crate::decide::flake) fn cause(glob: &str) -> GlobMatcher {
    GlobBuilder::new(glob).case_insensitive(true).build().expect("a glob").compile_matcher()
}

/// A sound rule about LAVA jobs, with a pattern.
pub(in crate::decide::flake) fn rule(label: &str) -> FlakeRule {
    FlakeRule {
        label: label.to_owned(),
        origin: LabelOrigin::Operator,
        jobs: jobs(&["lava-*"]),
        runner: None,
        ends: Vec::new(),
        causes: Vec::new(),
        log: vec!["usb .*: device descriptor read".to_owned()],
        retries: 1,
        per_day: 20,
        delay: Duration::ZERO,
    }
}

fn failure<'a>(names: &'a (JobName, RunnerName), end: Conclusion, cause: Option<&'a str>) -> Failure<'a> {
    Failure { job: &names.0, runner: &names.1, end, cause }
}

fn names() -> (JobName, RunnerName) {
    (JobName::from("lava-x86"), RunnerName::from("lab"))
}

fn labels(matches: &[Match]) -> Vec<&str> {
    matches.iter().map(|m| m.evidence.label.as_str()).collect()
}

fn set(rules: Vec<FlakeRule>) -> RuleSet {
    RuleSet::new(rules).expect("sound rules")
}

/// End, cause, labels by cause, labels by log, why.
type Row = (Conclusion, Option<&'static str>, &'static [&'static str], &'static [&'static str], &'static str);

#[test]
fn a_rule_matches_by_cause_or_by_log_where_job_runner_and_end_fit() {
    use Conclusion::{Cancelled, Failed, Infrastructure, Superseded, TimedOut};
    let both = FlakeRule { causes: vec![cause("infrastructure*")], ..rule("both") };
    let by_end = FlakeRule { ends: vec![Infrastructure], log: vec![], ..rule("end") };
    let timed = FlakeRule { ends: vec![TimedOut], ..rule("timed") };
    let elsewhere = FlakeRule { runner: Some(RunnerName::from("other")), ..rule("elsewhere") };
    let other_job = FlakeRule { jobs: jobs(&["kvm-*"]), ..rule("other-job") };
    let rules = set(vec![both, by_end, timed, elsewhere, other_job]);
    let log = "boot\nusb 1-1: device descriptor read/64\n";
    let infra = Some("Infrastructure: connection closed");
    let table: [Row; 7] = [
        (Infrastructure, infra, &["both", "end"], &[], "by cause; not again by log"),
        (Infrastructure, None, &["end"], &["both"], "no cause"),
        (Failed, Some("Job: hung"), &[], &["both"], "another cause"),
        (Failed, infra, &["both"], &[], "the cause counts, whatever the end"),
        (TimedOut, None, &[], &["both", "timed"], "the end narrows"),
        (Cancelled, infra, &[], &[], "cancelled is never a flake"),
        (Superseded, infra, &[], &[], "nor is superseded"),
    ];
    for (end, cause, by_cause, by_log, why) in table {
        let names = names();
        let failure = failure(&names, end, cause);
        assert_eq!(labels(&rules.by_cause(&failure)), by_cause, "{why}");
        assert_eq!(rules.wants_log(&failure), !by_log.is_empty(), "{why}");
        assert_eq!(labels(&rules.in_log(&failure, log, false)), by_log, "{why}");
    }
}

#[test]
fn evidence_says_what_was_seen() {
    let rules = set(vec![FlakeRule { causes: vec![cause("Infra*")], ..rule("usb") }]);
    let names = names();
    let by_cause = rules.by_cause(&failure(&names, Conclusion::Infrastructure, Some("Infrastructure: token=abc lost")));
    assert_eq!(by_cause[0].evidence.seen, Seen::Cause("Infrastructure: token=[masked] lost".into()));
    let in_log = rules.in_log(&failure(&names, Conclusion::Failed, None), "a\nusb 1: device descriptor read\n", true);
    let excerpt = "usb 1: device descriptor read".to_owned();
    assert_eq!(in_log[0].evidence.seen, Seen::Log { line: 2, cut: true, excerpt });
}

#[test]
fn the_operators_rules_go_first_and_issues_last_by_number() {
    let of = |label: &str, origin| FlakeRule { origin, ..rule(label) };
    let rules = set(vec![
        of("#12", LabelOrigin::Issue(12)),
        of("ours", LabelOrigin::Repository),
        of("#7", LabelOrigin::Issue(7)),
        of("lab", LabelOrigin::Operator),
        of("lab-2", LabelOrigin::Operator),
    ]);
    let names = names();
    let found = rules.in_log(&failure(&names, Conclusion::Failed, None), "usb 1: device descriptor read", false);
    assert_eq!(labels(&found), ["lab", "lab-2", "ours", "#7", "#12"]);
}

#[test]
fn one_bad_rule_stops_nothing_else() {
    let bad = FlakeRule { log: vec![".*".into()], ..rule("bad") };
    let second = FlakeRule { retries: 2, ..rule("usb") };
    let (rules, faults) = RuleSet::of_sound(vec![bad.clone(), rule("usb"), second]);
    assert_eq!(rules.rules().iter().map(|r| (r.label.as_str(), r.retries)).collect::<Vec<_>>(), [("usb", 1)]);
    assert_eq!(
        faults.iter().map(|f| (f.label.as_str(), f.key.as_str())).collect::<Vec<_>>(),
        [("usb", "label"), ("bad", "log[0]")]
    );
    assert!(RuleSet::new(vec![bad]).is_err());
}

#[test]
fn causes_that_people_must_mend_are_known() {
    for cause in
        ["ci_quota_exceeded", "USER_BLOCKED", "Canceled", "Configuration: no device type", "unmet_prerequisites"]
    {
        assert!(is_user_error(cause), "{cause}");
    }
    for cause in ["script_failure", "Job: hung", "Infrastructure", "runner_system_failure", "", "Configurations"] {
        assert!(!is_user_error(cause), "{cause}");
    }
}
