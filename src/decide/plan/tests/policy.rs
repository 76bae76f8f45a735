//! What a repository's policy demands of single jobs.

use super::*;

fn asked_by(id: u64, role: Role) -> Authorised {
    let asker = Asker::with_role(actor(id, "bob"), role);
    authorise(Ask::Retest, &change(), &asker, &Rights::default()).expect("may retest")
}

fn with(terms: JobTerms, proof: &Authorised, overrides: &[&str]) -> Plan {
    let mut job = view("unit", JobState::Failed);
    job.terms = Some(Box::new(terms));
    job.overrides = vec!["KERNEL".into(), "BOARD".into()];
    let overrides: BTreeMap<String, String> = overrides.iter().map(|key| ((*key).into(), "x".into())).collect();
    let selection = Selection::default();
    let wish = Wish {
        verb: Verb::Retest,
        selection: &selection,
        force: false,
        with_needs: false,
        times: 1,
        overrides: &overrides,
    };
    plan(&snapshot(vec![job]), &wish, proof)
}

#[test]
fn a_job_that_must_not_be_started_again_says_why_to_everybody() {
    let terms = JobTerms { never: Some("it burns a fuse, ask @lab".into()), ..JobTerms::default() };
    let plan = with(terms, &asked_by(2, Role::Admin), &[]);
    assert_eq!(plan.leave[0].reason, Reason::NotRetryable);
    assert!(plan.leave[0].text.ends_with("it burns a fuse, ask `@lab`"), "no mention survives: {}", plan.leave[0].text);
}

#[test]
fn a_job_kept_for_some_is_started_by_them_alone() {
    let grant = Grant { role: Some(Role::Maintain), teams: vec![], people: vec![7] };
    let terms = || JobTerms { who: Some(grant.clone()), ..JobTerms::default() };
    assert_eq!(with(terms(), &asked_by(2, Role::Maintain), &[]).start.len(), 1, "by role");
    assert_eq!(with(terms(), &asked_by(7, Role::Triage), &[]).start.len(), 1, "by name");
    let plan = with(terms(), &asked_by(2, Role::Write), &[]);
    assert_eq!(plan.leave[0].reason, Reason::NoRight);
    assert!(plan.leave[0].text.contains("wants *maintain* or a place on the list"), "{}", plan.leave[0].text);
}

#[test]
fn a_field_is_changed_by_those_whom_the_policy_names_and_only_if_the_runner_takes_it() {
    let fields = |of: &[(&str, Option<Role>)]| JobTerms {
        overrides: Some(of.iter().map(|(k, role)| ((*k).into(), role.map(Grant::role))).collect()),
        ..JobTerms::default()
    };
    let table = [
        (JobTerms::default(), Role::Triage, "KERNEL", true, "the policy says nothing: as the runner has it"),
        (JobTerms::default(), Role::Admin, "SPEED", false, "the runner does not take it"),
        (fields(&[]), Role::Admin, "KERNEL", false, "the policy allows none"),
        (fields(&[("KERNEL", None)]), Role::Triage, "KERNEL", true, "everybody who may start it"),
        (fields(&[("KERNEL", None)]), Role::Admin, "BOARD", false, "another one"),
        (fields(&[("KERNEL", Some(Role::Write))]), Role::Triage, "KERNEL", false, "too low a role"),
        (fields(&[("KERNEL", Some(Role::Write))]), Role::Write, "KERNEL", true, "the role"),
        (fields(&[("SPEED", None)]), Role::Admin, "SPEED", false, "a policy cannot give what the runner does not take"),
    ];
    for (terms, role, key, allowed, why) in table {
        let plan = with(terms, &asked_by(2, role), &[key]);
        assert_eq!(plan.start.len() == 1, allowed, "{why}: {plan:?}");
        assert!(allowed || plan.leave[0].reason == Reason::OverrideRefused, "{why}");
    }
}
