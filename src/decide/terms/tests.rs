//! Where the operator's word and the repository's meet.

use super::*;
use crate::decide::plan::tests::actor;
use crate::decide::{Ask, Asker};
use globset::Glob;

fn terms(policy: Policy, may_loosen: MayLoosen) -> Terms {
    Terms::together(&Rights::default(), &Limits::default(), policy, may_loosen)
}

const NOTHING: MayLoosen = MayLoosen { rights: false, limits: false, jobs: false, runners: false };

fn rule(name: &str) -> JobRule {
    JobRule {
        which: Declares::Job(name.into()),
        standalone: None,
        needs: None,
        required: None,
        platform: None,
        groups: vec![],
        aliases: vec![],
        auto_retry: None,
        terms: JobTerms::default(),
    }
}

#[test]
fn a_locked_right_can_be_made_harder_and_never_easier() {
    let roles = [Role::None, Role::Read, Role::Triage, Role::Write, Role::Maintain, Role::Admin];
    for policys in roles {
        let policy = || Policy {
            rights: PolicyRights { test: Some(Grant::role(policys)), ..PolicyRights::default() },
            ..Policy::default()
        };
        let (open, locked) = (terms(policy(), MayLoosen::default()), terms(policy(), NOTHING));
        for role in roles {
            let may =
                |terms: &Terms| terms.rights.need(Ask::Test).unmet(&Asker::with_role(actor(2, "sam"), role)).is_none();
            assert_eq!(may(&open), role >= policys, "{policys} in the policy, asked with {role}");
            assert_eq!(may(&locked), role >= policys && role >= Role::Write, "locked: {policys}, asked with {role}");
        }
    }
    let authors = |said, may_loosen| {
        let rights = Rights { retest_author: false, ..Rights::default() };
        let policy = PolicyRights { retest_author: said, ..PolicyRights::default() };
        rights_of(&rights, policy, may_loosen).retest_author
    };
    assert_eq!((authors(Some(true), true), authors(Some(true), false), authors(None, true)), (true, false, false));
}

#[test]
fn a_policys_figure_counts_only_when_it_is_tighter_unless_the_operator_allows_more() {
    let policy = |max: u32, cooldown_s: u32| Policy {
        limits: PolicyLimits { change_hour: Some(max), cooldown_s: Some(cooldown_s), ..PolicyLimits::default() },
        ..Policy::default()
    };
    let table = [
        // The operator's are 200 and none.
        (199, false, 199, SetBy::Repository),
        (200, false, 200, SetBy::Operator),
        (201, false, 200, SetBy::Operator),
        (201, true, 201, SetBy::Repository),
    ];
    for (said, may, max, by) in table {
        let found = terms(policy(said, 0), MayLoosen { limits: may, ..NOTHING }).limits;
        assert_eq!((found.change_hour.max, found.change_hour.by), (max, by), "{said}, may loosen: {may}");
    }
    assert_eq!(terms(policy(1, 60), NOTHING).limits.cooldown_s.max, 60, "a longer pause is tighter");
    let operator = Limits { cooldown_s: Figure::operator(120), ..Limits::default() };
    let shorter = PolicyLimits { cooldown_s: Some(60), ..PolicyLimits::default() };
    assert_eq!(limits_of(&operator, &shorter, false).cooldown_s, operator.cooldown_s);
}

#[test]
fn the_policys_word_on_a_job_comes_first_save_where_the_operator_keeps_it() {
    let operator = |standalone, needs: &[&str]| Declared {
        standalone,
        needs: needs.iter().map(|n| JobName::from(*n)).collect(),
        groups: vec!["hardware".into()],
        ..Declared::default()
    };
    let with = |standalone, needs: Option<&[&str]>, may| {
        let mut said = rule("unit");
        said.standalone = standalone;
        said.needs = needs.map(|list| list.iter().map(|n| JobName::from(*n)).collect());
        said.groups = vec!["fast".into()];
        let jobs = vec![said];
        terms(Policy { jobs, ..Policy::default() }, MayLoosen { jobs: may, ..NOTHING })
    };
    let table = [
        // policy, operator, may loosen, result, why
        (with(Some(true), None, true), operator(Some(false), &[]), Some(true), "the repository knows its jobs"),
        (with(Some(true), None, false), operator(Some(false), &[]), Some(false), "kept by the operator"),
        (with(Some(true), None, false), operator(None, &[]), Some(true), "the operator said nothing"),
        (with(Some(false), None, false), operator(Some(true), &[]), Some(false), "harder is always allowed"),
        (with(None, None, true), operator(Some(true), &[]), Some(true), "the policy said nothing"),
        (with(None, Some(&["build"]), true), operator(Some(true), &[]), None, "needs of the policy are looked at"),
        (with(Some(true), None, false), operator(None, &["build"]), None, "needs of the operator are kept"),
    ];
    for (terms, operator, standalone, why) in table {
        let found = terms.declared(&"unit".into(), Some(&operator));
        assert_eq!(found.standalone, standalone, "{why}");
        assert_eq!(found.groups, ["hardware", "fast"], "groups add up");
    }
    let needs = with(None, Some(&["build"]), true).declared(&"unit".into(), Some(&operator(None, &["old"]))).needs;
    assert_eq!(needs, [JobName::from("build")]);
}

#[test]
fn the_first_entry_that_fits_counts_and_other_names_lead_to_it() {
    let mut x86 = rule("lava-x86");
    x86.aliases = vec!["x86".into(), "the board".into()];
    x86.platform = Some("x86".into());
    let mut others = rule("");
    others.which = Declares::Pattern(Glob::new("lava-*").expect("a glob").compile_matcher());
    others.platform = Some("other".into());
    let terms = terms(Policy { jobs: vec![x86, others], ..Policy::default() }, NOTHING);
    let platform = |job: &str| terms.declared(&job.into(), None).platform;
    assert_eq!((platform("lava-x86"), platform("lava-arm")), (Some("x86".into()), Some("other".into())));
    assert_eq!(platform("unit"), None);
    let selection = Selection {
        whole: Some("The Board".into()),
        words: vec![Selector::Name("X86".into()), Selector::Name("unit".into()), Selector::Glob("x86".into())],
    };
    let own = terms.own_names(&selection);
    assert_eq!(own.whole.as_deref(), Some("lava-x86"));
    let wanted = [Selector::Name("lava-x86".into()), Selector::Name("unit".into()), Selector::Glob("x86".into())];
    assert_eq!(own.words, wanted);
}

#[test]
fn runners_are_chosen_by_the_policy_only_where_the_operator_lets_it() {
    let policy = || Policy { runners: vec![("lab".into(), vec![Declares::Job("unit".into())])], ..Policy::default() };
    let chosen = |may| terms(policy(), MayLoosen { runners: may, ..NOTHING }).runners_for(&"unit".into()).count();
    assert_eq!((chosen(true), chosen(false)), (1, 0));
}

#[test]
fn whoever_says_no_to_retries_unasked_wins() {
    let table = [
        (None, None, None),
        (Some(true), None, Some(true)),
        (None, Some(false), Some(false)),
        (Some(false), Some(true), Some(false)),
        (Some(true), Some(false), Some(false)),
    ];
    for (operators, policys, wanted) in table {
        let own = JobRule { auto_retry: policys, ..rule("unit") };
        let policy = Policy { jobs: vec![own], ..Policy::default() };
        let terms = terms(policy, MayLoosen::default());
        let operator = Declared { auto_retry: operators, ..Declared::default() };
        let said = terms.declared(&JobName::from("unit"), Some(&operator)).auto_retry;
        assert_eq!(said, wanted, "{operators:?} {policys:?}");
    }
}
