//! Chains of needs, tabled.

use std::collections::HashMap;

use crate::decide::plan::tests::{actor, change, names, snapshot, started, view};
use crate::decide::plan::{JobView, Plan, Snapshot, Verb, Wish, plan};
use crate::decide::standalone::Standalone;
use crate::decide::{Ask, Asker, Figure, Reason, Rights, authorise, states};
use crate::domain::{JobName, JobState, Role};
use retest_commands::{Selection, Selector};

/// A head whose jobs need one another: name, state, needs.
fn head(jobs: &[(&str, JobState, &[&str])]) -> Snapshot {
    let mut views: Vec<JobView> = Vec::new();
    for (name, state, needs) in jobs {
        let mut one = view(name, *state);
        one.job.newest.needs = Some(needs.iter().map(|need| JobName::new(*need)).collect());
        views.push(one);
    }
    let all: Vec<_> = views.iter().map(|v| v.job.clone()).collect();
    let by_name: HashMap<&JobName, JobState> = states(&all);
    for one in &mut views {
        one.standalone = Standalone::of(&one.job, None, &by_name);
    }
    let mut snapshot = snapshot(views);
    for facts in snapshot.runners.values_mut() {
        (facts.starts_fresh, facts.runs_dependents) = (true, false);
    }
    snapshot
}

fn with_needs(snapshot: &Snapshot, jobs: &[&str]) -> Plan {
    with_needs_as(snapshot, jobs, Role::Admin)
}

fn with_needs_as(snapshot: &Snapshot, jobs: &[&str], role: Role) -> Plan {
    let words: Vec<Selector> = jobs.iter().map(|job| Selector::Name((*job).into())).collect();
    let selection: Selection = names(&words);
    let overrides = std::collections::BTreeMap::new();
    let wish = Wish {
        verb: Verb::Retest,
        selection: &selection,
        force: false,
        with_needs: true,
        times: 1,
        overrides: &overrides,
    };
    let who = Asker::with_role(actor(2, "bob"), role);
    plan(snapshot, &wish, &authorise(Ask::Retest, &change(), &who, &Rights::default()).expect("may retest"))
}

fn waits(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let wait = |s: &super::StartItem| {
        let after: Vec<&str> = s.after.iter().map(JobName::as_str).collect();
        format!("{} after [{}]", snapshot.jobs[s.at].job.newest.name, after.join(" "))
    };
    plan.start.iter().map(wait).collect()
}

#[test]
fn a_chain_starts_in_the_order_of_its_needs_and_each_job_waits_for_those_that_have_not_passed() {
    use JobState::{Failed, Passed, Running, Skipped};
    type Jobs = &'static [(&'static str, JobState, &'static [&'static str])];
    let table: [(Jobs, &[&str], &[&str], &str); 5] = [
        (
            &[("deploy", Skipped, &["test"]), ("test", Skipped, &["build"]), ("build", Failed, &[])],
            &["deploy"],
            &["build after []", "test after [build]", "deploy after [test]"],
            "the whole chain",
        ),
        (
            &[("deploy", Failed, &["test", "lint"]), ("test", Failed, &[]), ("lint", Passed, &[])],
            &["deploy"],
            &["test after []", "deploy after [test]"],
            "what passed stays",
        ),
        (
            &[("deploy", Failed, &["test"]), ("test", Running, &[])],
            &["deploy"],
            &["deploy after [test]"],
            "what runs is waited for",
        ),
        (
            &[("a", Failed, &["c"]), ("b", Failed, &["c"]), ("c", Failed, &[])],
            &["a", "b"],
            &["c after []", "a after [c]", "b after [c]"],
            "a shared need starts once",
        ),
        (
            &[("a", Failed, &["c"]), ("c", Failed, &[])],
            &["a", "c"],
            &["c after []", "a after [c]"],
            "a need that is named as well starts once",
        ),
    ];
    for (jobs, named, wanted, why) in table {
        let snapshot = head(jobs);
        assert_eq!(waits(&snapshot, &with_needs(&snapshot, named)), wanted, "{why}");
    }
}

#[test]
fn a_chain_that_cannot_start_whole_does_not_start_at_all() {
    use JobState::{Failed, Skipped};
    let mut unmanaged = head(&[("deploy", Failed, &["test"]), ("test", Failed, &["build"]), ("build", Failed, &[])]);
    unmanaged.jobs[2].job.runner = None;
    let table = [
        (unmanaged, "needs `build`, which cannot be started: not managed here"),
        (head(&[("deploy", Failed, &["test"]), ("test", Skipped, &["deploy"])]), "(`deploy` → `test` → `deploy`)"),
        (head(&[("deploy", Failed, &["deploy"])]), "(`deploy` → `deploy`)"),
    ];
    for (snapshot, says) in table {
        let plan = with_needs(&snapshot, &["deploy"]);
        assert!(plan.start.is_empty(), "{says}: {plan:?}");
        assert!(plan.leave[0].text.contains(says), "{says}: {}", plan.leave[0].text);
    }
}

#[test]
fn inputs_that_are_gone_are_made_anew_though_they_passed() {
    let mut snapshot = head(&[("deploy", JobState::Failed, &["build"]), ("build", JobState::Passed, &[])]);
    snapshot.jobs[0].job.newest.cause = Some("missing_dependency_failure".into());
    snapshot.jobs[0].standalone = Standalone::Gone("missing_dependency_failure".into());
    let plan = with_needs(&snapshot, &["deploy"]);
    assert_eq!(waits(&snapshot, &plan), ["build after []", "deploy after [build]"]);
    assert!(plan.start[0].why.contains("what it made is gone"), "{plan:?}");
}

#[test]
fn what_its_runner_starts_by_itself_is_not_started_twice() {
    let mut snapshot = head(&[("deploy", JobState::Skipped, &["build"]), ("build", JobState::Failed, &[])]);
    for facts in snapshot.runners.values_mut() {
        (facts.starts_fresh, facts.runs_dependents) = (false, true);
    }
    let plan = with_needs(&snapshot, &["deploy"]);
    assert_eq!(started(&snapshot, &plan), ["build"]);
    assert_eq!((plan.leave[0].name.as_str(), plan.leave[0].reason), ("deploy", Reason::RunsAlong));
}

#[test]
fn a_need_is_no_way_round_the_right_to_start_what_nothing_has_started() {
    use JobState::{Failed, Missing, Pending, Skipped};
    let of = |state, manual: bool, required: bool| {
        let mut head = head(&[("deploy", Failed, &["gate"]), ("gate", state, &[])]);
        (head.jobs[1].job.newest.manual, head.jobs[1].job.required) = (manual, required);
        head
    };
    let table = [
        (of(Pending, true, true), false, "waits for a person"),
        (of(Missing, false, false), false, "never ran, and nobody requires it"),
        (of(Missing, false, true), true, "a plain retest means it, too"),
        (of(Skipped, false, true), false, "was skipped although nothing before it failed"),
        (of(Failed, false, true), true, "ran and failed"),
    ];
    for (snapshot, may, why) in table {
        let weak = with_needs_as(&snapshot, &["deploy"], Role::Triage);
        assert_eq!(started(&snapshot, &weak).len(), if may { 2 } else { 0 }, "{why}: {weak:?}");
        if !may {
            assert!(weak.leave[0].text.contains("the right for `/test`"), "{why}: {}", weak.leave[0].text);
        }
        let strong = with_needs_as(&snapshot, &["deploy"], Role::Write);
        assert_eq!(started(&snapshot, &strong), ["gate", "deploy"], "{why}");
    }
    // The job that is asked for is bound by the same rule as without its needs.
    let asked = of(Missing, false, false);
    let plan = with_needs_as(&asked, &["gate"], Role::Triage);
    assert_eq!((plan.start.len(), plan.leave[0].reason), (0, Reason::NotReported), "{plan:?}");
}

/// A ladder of diamonds: both jobs of each rung need both jobs of the next.
fn ladder(rungs: usize) -> Snapshot {
    let names: Vec<[String; 2]> = (0..=rungs).map(|rung| [format!("a{rung}"), format!("b{rung}")]).collect();
    let jobs: Vec<(&str, JobState, Vec<&str>)> = (0..rungs)
        .flat_map(|rung| [0, 1].map(|side| (rung, side)))
        .map(|(rung, side)| {
            let next = &names[rung + 1];
            let needs = if rung + 1 < rungs { vec![next[0].as_str(), next[1].as_str()] } else { Vec::new() };
            (names[rung][side].as_str(), JobState::Failed, needs)
        })
        .collect();
    let jobs: Vec<(&str, JobState, &[&str])> =
        jobs.iter().map(|(job, state, needs)| (*job, *state, &needs[..])).collect();
    head(&jobs)
}

#[test]
fn each_job_of_a_plan_is_walked_once_however_many_ways_lead_to_it() {
    // Of forty rungs there are 2^40 ways down: walking them would not end.
    let whole = ladder(40);
    assert_eq!(with_needs(&whole, &["a0", "b0"]).start.len(), 80, "each once");
    let mut barred = ladder(40);
    for job in barred.jobs.iter_mut().filter(|view| matches!(view.job.newest.name.as_str(), "a39" | "b39")) {
        job.job.runner = None;
    }
    let plan = with_needs(&barred, &["a0", "b0"]);
    assert!(plan.start.is_empty() && plan.leave.len() == 2, "{plan:?}");
}

#[test]
fn a_chain_that_is_longer_than_any_real_one_is_refused() {
    let names: Vec<String> = (0..20_000).map(|at| format!("job-{at}")).collect();
    let needs: Vec<Vec<&str>> =
        (0..names.len()).map(|at| names.get(at + 1).map(String::as_str).into_iter().collect()).collect();
    let jobs: Vec<(&str, JobState, &[&str])> =
        names.iter().zip(&needs).map(|(name, needs)| (name.as_str(), JobState::Failed, &needs[..])).collect();
    let snapshot = head(&jobs);
    let plan = with_needs(&snapshot, &["job-0"]);
    assert!(plan.start.is_empty() && plan.leave[0].text.contains("longer than 100 jobs"), "{:?}", plan.leave);
}

#[test]
fn a_chain_that_a_limit_refuses_leaves_nothing_behind_for_the_next_one() {
    use JobState::Failed;
    let mut snapshot =
        head(&[("a", Failed, &["c", "d"]), ("b", Failed, &["c"]), ("c", Failed, &[]), ("d", Failed, &[])]);
    snapshot.limits.jobs_per_command = Figure::operator(2);
    let plan = with_needs(&snapshot, &["a", "b"]);
    assert_eq!(waits(&snapshot, &plan), ["c after []", "b after [c]"], "what a's chain found is not taken for started");
    assert_eq!(plan.leave[0].reason, Reason::TooMany);
}
