//! Every condition alone, all of them together, and their order.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::rules::FlakeRule;
use super::super::rules::tests::rule;
use super::*;
use crate::domain::{Conclusion, JobName, RunnerName};

fn found(rule: FlakeRule) -> Match {
    let evidence = Evidence {
        label: rule.label.clone(),
        origin: rule.origin.clone(),
        seen: Seen::Log { line: 7, cut: false, excerpt: "usb".into() },
    };
    Match { rule: Arc::new(rule), evidence }
}

/// What a test changes of a case in which everything speaks for a retry.
struct Setup {
    job: JobName,
    runner: RunnerName,
    end: Conclusion,
    cause: Option<&'static str>,
    standalone: Standalone,
    switches: Switches<'static>,
    matches: Vec<Match>,
    native_pending: bool,
    is_head: bool,
    breaker: Breaker,
    failed_heads: u32,
    budgets: Budgets,
    spent: Spent,
    wait_min: Duration,
}

impl Setup {
    fn new() -> Self {
        Self {
            job: JobName::from("lava-x86"),
            runner: RunnerName::from("lab"),
            end: Conclusion::Failed,
            cause: None,
            standalone: Standalone::Yes,
            switches: Switches::ON,
            matches: vec![found(FlakeRule { retries: 2, ..rule("usb") })],
            native_pending: false,
            is_head: true,
            breaker: Breaker::default(),
            failed_heads: 0,
            budgets: Budgets::default(),
            spent: Spent::default(),
            wait_min: Duration::ZERO,
        }
    }

    fn spend(&mut self, origin: LabelOrigin, label: &str, job_and_head: u32, day: u32) {
        self.spent.labels.insert((origin, label.to_owned()), SpentByLabel { job_and_head, day });
        self.spent.job_and_head += job_and_head;
    }

    fn verdict(&self) -> Verdict {
        let failure = Failure { job: &self.job, runner: &self.runner, end: self.end, cause: self.cause };
        judge(&Case {
            failure,
            standalone: &self.standalone,
            switches: self.switches,
            matches: &self.matches,
            native_pending: self.native_pending,
            is_head: self.is_head,
            breaker: self.breaker,
            failed_heads: self.failed_heads,
            budgets: self.budgets,
            spent: &self.spent,
            key: "k1",
            wait_min: self.wait_min,
        })
    }
}

/// `retry`, or the reason's word.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Retry { .. } => "retry",
        Verdict::Wait { why, text, .. } | Verdict::Leave { why, text } => {
            assert!(!text.is_empty(), "{why:?} has no sentence");
            why.as_str()
        }
    }
}

type Change = fn(&mut Setup);

/// One thing that speaks against a retry, in the order in which they are told.
const AGAINST: [(&str, Change); 17] = [
    ("no_failure", |s| s.end = Conclusion::Cancelled),
    ("not_standalone", |s| s.standalone = Standalone::Unknown),
    ("switched_off", |s| s.switches.operator = false),
    ("switched_off", |s| s.switches.policy = false),
    ("forbidden", |s| s.switches.never_label = Some("retest/never")),
    ("forbidden", |s| s.switches.change = ChangeSwitch::Off),
    ("job_excluded", |s| s.switches.job = false),
    ("user_error", |s| s.cause = Some("ci_quota_exceeded")),
    ("no_label", |s| s.matches.clear()),
    ("fails_always", |s| s.failed_heads = 2),
    ("job_budget", |s| s.spent.job_and_head = 3),
    ("change_budget", |s| s.spent.change_day = 20),
    ("runner_budget", |s| s.spent.runner_day = 200),
    ("label_budget", |s| s.spend(LabelOrigin::Operator, "usb", 0, 20)),
    ("head_moved", |s| s.is_head = false),
    ("native_retry", |s| s.native_pending = true),
    ("breaker_open", |s| s.breaker = Breaker::Open { until: Timestamp::from_ms(9) }),
];

#[test]
fn each_condition_alone_keeps_a_failure_from_being_retried() {
    assert_eq!(word(&Setup::new().verdict()), "retry");
    for (wanted, change) in AGAINST {
        let mut setup = Setup::new();
        change(&mut setup);
        assert_eq!(word(&setup.verdict()), wanted);
    }
}

#[test]
fn of_two_conditions_the_earlier_one_is_told() {
    for (at, (wanted, first)) in AGAINST.iter().enumerate() {
        for (_, second) in &AGAINST[at + 1..] {
            let mut setup = Setup::new();
            second(&mut setup);
            first(&mut setup);
            assert_eq!(word(&setup.verdict()), *wanted);
        }
    }
}

#[test]
fn only_ends_of_failures_are_eligible() {
    use Conclusion::{Cancelled, Failed, Infrastructure, Lost, Passed, Skipped, Superseded, TimedOut};
    for (end, wanted) in [
        (Failed, "retry"),
        (Infrastructure, "retry"),
        (TimedOut, "retry"),
        (Lost, "retry"),
        (Passed, "no_failure"),
        (Cancelled, "no_failure"),
        (Superseded, "no_failure"),
        (Skipped, "no_failure"),
    ] {
        let setup = Setup { end, ..Setup::new() };
        assert_eq!(word(&setup.verdict()), wanted, "{end:?}");
    }
}

#[test]
fn a_label_on_the_change_covers_every_failure_but_never_wins() {
    for (auto, switch, never, wanted, why) in [
        (None, ChangeSwitch::Unset, None, "no_label", "nothing said"),
        (Some("retest/auto"), ChangeSwitch::Unset, None, "retry", "the label"),
        (None, ChangeSwitch::On, None, "retry", "the command"),
        (Some("retest/auto"), ChangeSwitch::Off, None, "forbidden", "off is the stricter word"),
        (Some("retest/auto"), ChangeSwitch::On, Some("retest/never"), "forbidden", "never wins"),
    ] {
        let mut setup = Setup { matches: Vec::new(), ..Setup::new() };
        setup.switches = Switches { auto_label: auto, change: switch, never_label: never, ..Switches::ON };
        assert_eq!(word(&setup.verdict()), wanted, "{why}");
        if wanted == "retry" {
            setup.spend(LabelOrigin::Change, auto.unwrap_or("/autoretry on"), 1, 1);
            assert_eq!(word(&setup.verdict()), "job_budget", "{why}: once only");
        }
    }
}

#[test]
fn the_first_label_with_room_pays_and_the_others_are_told() {
    let mut setup = Setup::new();
    let issue = FlakeRule { origin: LabelOrigin::Issue(7), retries: 1, ..rule("#7") };
    setup.matches.insert(0, found(issue));
    setup.switches.auto_label = Some("retest/auto");
    let paid = |setup: &Setup| match setup.verdict() {
        Verdict::Retry { evidence, also, number, of, .. } => {
            (evidence.label, also.into_iter().map(|e| e.label).collect::<Vec<_>>(), number, of)
        }
        other => panic!("{other:?}"),
    };
    let of =
        |label: &str, also: [&str; 2], number, of| (label.to_owned(), also.map(str::to_owned).to_vec(), number, of);
    // Of 2 + 1 + 1 retries the operator allows 3.
    assert_eq!(paid(&setup), of("usb", ["#7", "retest/auto"], 1, 3));
    setup.spend(LabelOrigin::Operator, "usb", 2, 2);
    assert_eq!(paid(&setup), of("#7", ["usb", "retest/auto"], 3, 3));
    setup.budgets.job_and_head = 9;
    assert_eq!(paid(&setup), of("#7", ["usb", "retest/auto"], 3, 4));
    setup.spend(LabelOrigin::Issue(7), "#7", 1, 1);
    assert_eq!(paid(&setup), of("retest/auto", ["usb", "#7"], 4, 4));
}

#[test]
fn a_rule_that_matched_twice_counts_once() {
    let mut setup = Setup::new();
    setup.matches.push(setup.matches[0].clone());
    match setup.verdict() {
        Verdict::Retry { also, of, .. } => assert_eq!((also.len(), of), (0, 2)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_half_open_breaker_lets_one_retry_through() {
    let mut setup = Setup::new();
    setup.breaker = Breaker::HalfOpen { since: Timestamp::from_ms(1), probing: false };
    assert_eq!(word(&setup.verdict()), "retry");
    setup.breaker = Breaker::HalfOpen { since: Timestamp::from_ms(1), probing: true };
    assert_eq!(word(&setup.verdict()), "breaker_open");
}

#[test]
fn waits_double_up_to_their_bound_and_the_runner_has_the_last_word() {
    let s = Duration::from_secs;
    for (base, number, full) in
        [(0, 3, 0), (30, 1, 30), (30, 2, 60), (30, 3, 120), (600, 2, 900), (30, 40, 900), (7_200, 3, 7_200)]
    {
        let wait = retry_wait(s(base), number, "k");
        assert!(wait <= s(full) && wait.as_millis() * 5 >= s(full).as_millis() * 4, "{base} {number}: {wait:?}");
    }
    assert_ne!(retry_wait(s(600), 1, "a"), retry_wait(s(600), 1, "b"), "retries spread");
    let mut setup = Setup::new();
    setup.wait_min = s(77);
    match setup.verdict() {
        Verdict::Retry { delay, .. } => assert_eq!(delay, s(77)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_are_inert() {
    let mut setup = Setup::new();
    setup.job = JobName::from("`@all` | x");
    setup.failed_heads = 3;
    match setup.verdict() {
        Verdict::Leave { text, .. } => assert!(text.starts_with(&code("`@all` | x")), "{text}"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn no_budget_is_ever_passed(
        retries in 1_u32..10, max in 1_u32..10, used in 0_u32..12, day in 0_u32..25, change in 0_u32..25, runner in 0_u32..250,
    ) {
        let mut setup = Setup::new();
        setup.matches = vec![found(FlakeRule { retries, ..rule("usb") })];
        setup.budgets.job_and_head = max;
        setup.spend(LabelOrigin::Operator, "usb", used, day);
        (setup.spent.change_day, setup.spent.runner_day) = (change, runner);
        let room = used < retries.min(max) && day < 20 && change < 20 && runner < 200;
        match setup.verdict() {
            Verdict::Retry { number, of, .. } => {
                prop_assert!(room);
                prop_assert!(number == used + 1 && number <= of && of <= max.min(retries));
            }
            Verdict::Leave { .. } => prop_assert!(!room),
            Verdict::Wait { .. } => prop_assert!(false),
        }
    }

    #[test]
    fn waits_are_bounded_and_repeatable(base in 0_u64..86_400, number in 0_u32..100, key in "[a-f0-9]{0,40}") {
        let base = Duration::from_secs(base);
        let wait = retry_wait(base, number, &key);
        prop_assert!(wait <= base.max(WAIT_MAX));
        prop_assert!(wait.as_millis() * 5 >= base.as_millis() * 4);
        prop_assert_eq!(wait, retry_wait(base, number, &key));
    }
}
