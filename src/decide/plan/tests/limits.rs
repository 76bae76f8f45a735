//! Every limit at its edge, with what is said of it.

use super::*;
use crate::decide::limits::SetBy;
use std::time::Duration;

fn two_failed() -> Snapshot {
    let mut snapshot = snapshot(vec![view("a", JobState::Failed), view("b", JobState::Failed)]);
    snapshot.now = Timestamp::from_ms(1_780_000_000_000); // 20:26:40 UTC
    snapshot
}

fn ago(snapshot: &Snapshot, retries: u32, seconds: u64) -> Count {
    Count { retries, leaves_first: Some(snapshot.now.minus(Duration::from_secs(seconds))) }
}

fn as_role(snapshot: &Snapshot, role: Role) -> Plan {
    let asker = Asker::with_role(actor(2, "bob"), role);
    let rights = Rights { retest: crate::decide::Need::role(Role::None), ..Rights::default() };
    let proof = authorise(Ask::Retest, &change(), &asker, &rights).expect("anybody may");
    let (selection, overrides) = (Selection::default(), BTreeMap::new());
    let wish = Wish {
        verb: Verb::Retest,
        selection: &selection,
        force: false,
        with_needs: false,
        times: 1,
        overrides: &overrides,
    };
    plan(snapshot, &wish, &proof)
}

#[test]
fn every_window_stops_at_its_figure_and_says_which_until_when_and_who_lifts_it() {
    type Set = fn(&mut Snapshot, Figure, Count);
    let rows: [(&str, &str, u64, Set); 6] = [
        ("this change had 4 retries within the last hour", "`limits.retries_per_change_per_hour`", 3_600, |s, f, c| {
            (s.limits.change_hour, s.used.change_hour) = (f, c);
        }),
        ("you had 4 retries within the last hour", "`limits.retries_per_actor_per_hour`", 3_600, |s, f, c| {
            (s.limits.asker_hour, s.used.asker_hour) = (f, c);
        }),
        (
            "this change had 4 retries within the last 24 hours",
            "`limits.retries_per_change_per_day`",
            86_400,
            |s, f, c| {
                (s.limits.change_day, s.used.change_day) = (f, c);
            },
        ),
        ("you had 4 retries within the last 24 hours", "`limits.retries_per_actor_per_day`", 86_400, |s, f, c| {
            (s.limits.asker_day, s.used.asker_day) = (f, c);
        }),
        ("this repository had 4 retries", "`limits.retries_per_repository_per_day`", 86_400, |s, f, c| {
            (s.limits.repository_day, s.used.repository_day) = (f, c);
        }),
        ("its runner had 4 retries", "`limits.retries_per_runner_per_day`", 86_400, |s, f, c| {
            s.limits.runner_day = f;
            s.used.runner_day.insert("ci".into(), c);
        }),
    ];
    for (words, key, within_s, set) in rows {
        let mut snapshot = two_failed();
        let three = ago(&snapshot, 3, within_s - 600);
        set(&mut snapshot, Figure::operator(5), three);
        assert_eq!(as_role(&snapshot, Role::Admin).start.len(), 2, "{key}: room for two");
        set(&mut snapshot, Figure::operator(4), three);
        let plan = as_role(&snapshot, Role::Admin);
        assert_eq!((plan.start.len(), plan.leave.len()), (1, 1), "{key}: room for one");
        let left = &plan.leave[0];
        assert_eq!(left.reason, Reason::Limited);
        for part in [
            words,
            key,
            "4 is the most that the operator allows",
            "at 20:37 UTC (in 10 min)",
            "the operator can raise it",
        ] {
            assert!(left.text.contains(part), "{key}: {} lacks {part}", left.text);
        }
    }
}

#[test]
fn retries_of_a_job_on_a_head_stop_at_the_figure() {
    let mut snapshot = snapshot(vec![view("a", JobState::Failed)]);
    snapshot.limits.job_and_head = Figure { max: 1, by: SetBy::Repository };
    assert_eq!(as_role(&snapshot, Role::Write).start.len(), 1);
    snapshot.jobs[0].wishes = 1;
    let plan = as_role(&snapshot, Role::Write);
    assert_eq!(plan.leave[0].reason, Reason::AttemptsUsed, "{plan:?}");
    assert!(plan.leave[0].text.contains("`limits.retries_per_job_and_head` in its `.retest.toml`"), "{plan:?}");
}

#[test]
fn a_pause_between_two_retries_of_a_job_holds_to_its_last_millisecond() {
    let mut snapshot = two_failed();
    snapshot.limits.cooldown_s = Figure::operator(300);
    let start = snapshot.now;
    snapshot.jobs[0].last_retry_at = Some(start);
    snapshot.now = start.plus(Duration::from_millis(299_999));
    let plan = as_role(&snapshot, Role::Write);
    assert_eq!((started(&snapshot, &plan), plan.leave[0].reason), (vec!["b".to_owned()], Reason::Limited));
    assert!(plan.leave[0].text.contains("a pause of 5 min") && plan.leave[0].text.contains("(in 1 s)"), "{plan:?}");
    snapshot.now = start.plus(Duration::from_millis(300_000));
    assert_eq!(as_role(&snapshot, Role::Write).start.len(), 2);
}

#[test]
fn who_is_exempt_passes_every_limit_but_that_of_one_command() {
    let mut snapshot = two_failed();
    snapshot.limits.change_hour = Figure::operator(1);
    snapshot.limits.cooldown_s = Figure::operator(300);
    snapshot.limits.exempt = Some(Role::Maintain);
    snapshot.used.change_hour = ago(&snapshot, 1, 60);
    snapshot.jobs[0].last_retry_at = Some(snapshot.now);
    let bound = as_role(&snapshot, Role::Write);
    assert!(
        bound.start.is_empty() && bound.leave[1].text.contains("somebody with *maintain* is not bound"),
        "{bound:?}"
    );
    assert_eq!(as_role(&snapshot, Role::Maintain).start.len(), 2);
    snapshot.limits.jobs_per_command = Figure::operator(1);
    let plan = as_role(&snapshot, Role::Maintain);
    assert_eq!((plan.start.len(), plan.leave[0].reason), (1, Reason::TooMany));
}

#[test]
fn a_runners_limit_counts_its_own_jobs_only() {
    let mut snapshot = two_failed();
    let facts = snapshot.runners[&RunnerName::from("ci")].clone();
    snapshot.runners.insert("lab".into(), facts);
    snapshot.jobs[1].job.runner = Some("lab".into());
    snapshot.limits.runner_day = Figure::operator(1);
    assert_eq!(as_role(&snapshot, Role::Write).start.len(), 2, "one on each");
    snapshot.jobs[1].job.runner = Some("ci".into());
    assert_eq!(as_role(&snapshot, Role::Write).start.len(), 1);
}

#[test]
fn more_runs_at_once_than_the_operator_allows_are_refused_whoever_asks() {
    let mut snapshot = two_failed();
    snapshot.limits.times = Figure::operator(3);
    snapshot.limits.exempt = Some(Role::Write);
    let (selection, overrides) = (names(&[Selector::Name("a".into())]), BTreeMap::new());
    for (times, starts) in [(3, 1), (4, 0)] {
        let (verb, force, with_needs) = (Verb::Retest, false, false);
        let wish = Wish { verb, selection: &selection, force, with_needs, times, overrides: &overrides };
        let plan = plan(&snapshot, &wish, &proof());
        assert_eq!(plan.start.len(), starts, "{times}: {plan:?}");
        if starts == 0 {
            assert_eq!(plan.leave[0].reason, Reason::TooMany);
            assert!(plan.leave[0].text.contains("`limits.times_max`"), "{}", plan.leave[0].text);
        }
    }
}
