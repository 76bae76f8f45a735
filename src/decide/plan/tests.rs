//! The planner's rules, tabled.

use super::*;
use crate::decide::{Ask, Asker, Count, Figure, Grant, Rights, authorise};
use crate::domain::{Actor, ChangeKey, CommitSha, JobObservation, Origin, RepoKey, Role, RunOrder, RunRef};
use retest_commands::Selector;

pub(in crate::decide) fn actor(id: u64, login: &str) -> Actor {
    Actor { id, login: login.into(), is_bot: false }
}

pub(in crate::decide) fn change() -> Change {
    Change {
        key: ChangeKey { repo: RepoKey { forge: "github".into(), id: 1 }, number: 7 },
        head: CommitSha::parse(&"a".repeat(40)).expect("sha"),
        author: Some(actor(1, "ann")),
        open: true,
        from_fork: false,
        base_ref: "main".into(),
        labels: vec![],
        head_pipeline: None,
        source_ref: None,
        approved_head: None,
        updated_at: Timestamp::default(),
    }
}

pub(in crate::decide) fn view(name: &str, state: JobState) -> JobView {
    let newest = JobObservation {
        name: name.into(),
        scope: String::new(),
        origin: Origin::Actions,
        run: RunRef::new("1"),
        order: RunOrder(1, 1),
        group: None,
        state,
        cause: None,
        url: None,
        allow_failure: false,
        manual: false,
        needs: None,
        at: Timestamp::default(),
    };
    let job = Job { newest, runner: Some("ci".into()), required: false, runs: 1, platform: None, standalone: None };
    let standalone = Standalone::of(&job, None, &HashMap::new());
    JobView {
        job,
        standalone,
        open: None,
        retries: 0,
        wishes: 0,
        platform: None,
        overrides: vec![],
        groups: vec![],
        terms: None,
        last_retry_at: None,
    }
}

pub(in crate::decide) fn snapshot(jobs: Vec<JobView>) -> Snapshot {
    let facts = RunnerFacts {
        age_max: None,
        starts_fresh: false,
        out_of_reach_for_forks: false,
        attempts_max: 3,
        runs_dependents: true,
        repeats_base: true,
        restarts_max: None,
    };
    let runners = BTreeMap::from([(RunnerName::from("ci"), facts)]);
    Snapshot {
        change: change(),
        jobs,
        runners,
        limits: Limits { jobs_per_command: Figure::operator(100), ..Limits::NONE },
        used: Used::default(),
        base_moved: None,
        now: Timestamp::default(),
    }
}

pub(in crate::decide) fn proof() -> Authorised {
    authorise(Ask::Test, &change(), &Asker::with_role(actor(2, "bob"), Role::Admin), &Rights::default())
        .expect("an admin may")
}

pub(in crate::decide) fn names(words: &[Selector]) -> Selection {
    Selection { words: words.to_vec(), ..Selection::default() }
}

fn run(snapshot: &Snapshot, verb: Verb, selection: &Selection, force: bool) -> Plan {
    let overrides = BTreeMap::new();
    plan(snapshot, &Wish { verb, selection, force, with_needs: false, times: 1, overrides: &overrides }, &proof())
}

pub(in crate::decide) fn started(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    plan.start.iter().map(|s| snapshot.jobs[s.at].job.newest.name.to_string()).collect()
}

#[test]
fn a_plain_retest_starts_what_ended_badly_and_nothing_else() {
    for state in JobState::ALL {
        let snapshot = snapshot(vec![view("unit", state)]);
        let plan = run(&snapshot, Verb::Retest, &Selection::default(), false);
        assert_eq!(plan.start.len(), usize::from(state.is_restartable()), "{state:?}: {plan:?}");
    }
}

#[test]
fn every_named_job_is_answered_for_once() {
    for state in JobState::ALL {
        for verb in [Verb::Retest, Verb::Test] {
            for force in [false, true] {
                let snapshot = snapshot(vec![view("unit", state), view("other", JobState::Failed)]);
                let word = [Selector::Name("unit".into()), Selector::Glob("un*".into())];
                let plan = run(&snapshot, verb, &names(&word), force);
                assert_eq!(plan.start.len() + plan.leave.len(), 1, "{state:?} {verb:?} force={force}: {plan:?}");
            }
        }
    }
}

#[test]
fn a_name_is_exact_before_it_is_anything_else() {
    let snapshot = snapshot(vec![
        view("Lava-X86", JobState::Failed),
        view("lava-x86", JobState::Failed),
        view("unit tests (ubuntu, 3.12)", JobState::Failed),
    ]);
    let by = |word: &str| run(&snapshot, Verb::Retest, &names(&[Selector::Name(word.into())]), false);
    assert_eq!(started(&snapshot, &by("lava-x86")), ["lava-x86"], "exact");
    let loose = by("LAVA-X86");
    assert!(loose.start.is_empty() && loose.leave[0].reason == Reason::Ambiguous, "{loose:?}");
    let whole = Selection {
        whole: Some("unit tests (ubuntu, 3.12)".into()),
        words: vec![Selector::Name("unit".into()), Selector::Name("tests".into())],
    };
    assert_eq!(started(&snapshot, &run(&snapshot, Verb::Retest, &whole, false)), ["unit tests (ubuntu, 3.12)"]);
}

#[test]
fn a_group_means_its_failed_jobs_unless_a_job_has_that_name() {
    let mut jobs =
        vec![view("lava-x86", JobState::Failed), view("lava-arm64", JobState::Passed), view("unit", JobState::Failed)];
    jobs[0].groups = vec!["hardware".into()];
    jobs[1].groups = vec!["hardware".into()];
    let snapshot = snapshot(jobs);
    let by = |word: &str| run(&snapshot, Verb::Retest, &names(&[Selector::Name(word.into())]), false);
    assert_eq!(started(&snapshot, &by("hardware")), ["lava-x86"]);
    assert_eq!(started(&snapshot, &by("unit")), ["unit"]);
}

#[test]
fn an_unknown_name_is_told_with_the_nearest_one() {
    let snapshot = snapshot(vec![view("lava-x86", JobState::Failed)]);
    let plan = run(&snapshot, Verb::Retest, &names(&[Selector::Name("lava-x68".into())]), false);
    assert!(plan.start.is_empty());
    assert_eq!(plan.leave[0].reason, Reason::Unknown);
    assert!(plan.leave[0].text.contains("`lava-x86`"), "{}", plan.leave[0].text);
}

#[test]
fn a_job_with_a_retry_under_way_is_joined_not_started_twice() {
    let mut job = view("unit", JobState::Failed);
    job.open = Some(Box::new(OpenRetry { state: RetryState::Running, url: None }));
    let plan = run(&snapshot(vec![job]), Verb::Retest, &Selection::default(), true);
    assert!(plan.start.is_empty() && plan.leave[0].reason == Reason::Joined, "{plan:?}");
}

#[test]
fn what_cannot_be_restarted_says_why() {
    let mut chained = view("package", JobState::Failed);
    chained.standalone = Standalone::Needs(vec!["build".into()]);
    let mut used = view("unit", JobState::Failed);
    (used.retries, used.wishes) = (3, 3);
    let mut foreign = view("foreign", JobState::Failed);
    foreign.job.runner = None;
    let mut gone = view("deploy", JobState::Failed);
    gone.job.newest.cause = Some("missing_dependency_failure".into());
    gone.standalone = Standalone::of(&gone.job, None, &HashMap::new());
    let table = [
        (chained, Reason::NotStandalone, "chained behind `build`"),
        (used, Reason::AttemptsUsed, "ran 4 times on this head, and 3 is the most"),
        (foreign, Reason::Unmanaged, "not managed here"),
        (gone, Reason::Expired, "inputs are gone"),
    ];
    for (job, reason, words) in table {
        let plan = run(&snapshot(vec![job]), Verb::Retest, &Selection::default(), false);
        assert_eq!((plan.start.len(), plan.leave[0].reason), (0, reason));
        assert!(plan.leave[0].text.contains(words), "{}", plan.leave[0].text);
    }
}

#[test]
fn limits_of_a_runner_are_told_before_they_bite_and_when_they_do() {
    let mut snapshot = snapshot(vec![view("unit", JobState::Failed)]);
    snapshot.runners.get_mut(&RunnerName::from("ci")).expect("there").restarts_max = Some(50);
    let mut at = |attempt| {
        snapshot.jobs[0].job.newest.order = RunOrder(1, attempt);
        run(&snapshot, Verb::Retest, &Selection::default(), false)
    };
    assert_eq!(at(10).start[0].why, "failed on this head");
    assert_eq!(at(46).start[0].why, "failed on this head; restart 46 of the 50 that its runner takes");
    assert_eq!(at(51).leave[0].reason, Reason::Expired);
}

#[test]
fn an_old_run_is_not_repeated_where_the_runner_forgets() {
    let mut snapshot = snapshot(vec![view("unit", JobState::Failed)]);
    let month = std::time::Duration::from_secs(30 * 86_400);
    snapshot.runners.get_mut(&RunnerName::from("ci")).expect("there").age_max = Some(month);
    snapshot.now = Timestamp::default().plus(month);
    assert_eq!(run(&snapshot, Verb::Retest, &Selection::default(), false).start.len(), 1, "on the last day");
    snapshot.now = snapshot.now.plus(std::time::Duration::from_millis(1));
    assert_eq!(run(&snapshot, Verb::Retest, &Selection::default(), false).leave[0].reason, Reason::Expired);
}

mod limits;
mod policy;

#[test]
fn only_the_states_of_needed_jobs_are_looked_at() {
    let (build, mut deploy) = (view("build", JobState::Failed).job, view("deploy", JobState::Failed).job);
    assert!(states([&build, &deploy]).is_empty(), "nothing is needed");
    deploy.newest.needs = Some(vec!["build".into()]);
    let all = [build, deploy];
    let known = states(&all);
    assert_eq!(known.get(&JobName::new("build")), Some(&JobState::Failed));
    assert_eq!(known.len(), 1);
    assert_eq!(Standalone::of(&all[1], None, &known), Standalone::Needs(vec!["build".into()]));
}
