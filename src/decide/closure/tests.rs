//! Chains of needs, tabled.

use std::collections::HashMap;

use crate::decide::plan::tests::{names, proof, snapshot, started, view};
use crate::decide::plan::{JobView, Plan, Snapshot, Verb, Wish, plan};
use crate::decide::standalone::Standalone;
use crate::decide::{Reason, states};
use crate::domain::{JobName, JobState};
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
    plan(snapshot, &wish, &proof())
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
