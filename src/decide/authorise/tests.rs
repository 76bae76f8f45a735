//! Every role × place of the head × person × command × setting, against tables written down by hand.

use super::*;
use crate::decide::plan::tests::{actor, change};
use crate::domain::{CommitSha, Team};

/// The columns of the tables: where the head lives and whether the asker is the change's author.
const COLUMNS: [(&str, bool); 8] = [
    ("own", true),
    ("own", false),
    ("fork", true),
    ("fork", false),
    ("approved fork", true),
    ("approved fork", false),
    ("fork approved at an older head", true),
    ("fork approved at an older head", false),
];

const ASKS: [(&str, Ask); 11] = [
    ("retest", Ask::Retest),
    ("force", Ask::Force),
    ("test", Ask::Test),
    ("cancel own", Ask::Cancel { own: true }),
    ("cancel other", Ask::Cancel { own: false }),
    ("ok-to-test", Ask::OkToTest),
    ("help", Ask::Help),
    ("flake", Ask::Flake),
    ("autoretry on", Ask::Autoretry { on: true }),
    ("autoretry off", Ask::Autoretry { on: false }),
    ("override", Ask::Override),
];

const ROLES: [Role; 6] = [Role::None, Role::Read, Role::Triage, Role::Write, Role::Maintain, Role::Admin];

/// The least role in each column, by its first letter; `-` where no role is enough. Rows in the order of [`ASKS`].
const DEFAULTS: [&str; 11] = [
    //                 own    fork   approved  older
    /* retest      */ "n t    t t    n t       t t",
    /* force       */ "w w    w w    w w       w w",
    /* test        */ "w w    w w    w w       w w",
    /* cancel own  */ "n n    n n    n n       n n",
    /* cancel other*/ "w w    w w    w w       w w",
    /* ok-to-test  */ "w w    w w    w w       w w",
    /* help        */ "n r    n r    n r       n r",
    /* flake       */ "t t    t t    t t       t t",
    /* autoretry on*/ "n t    t t    n t       t t",
    /* autoretry off*/ "n t    n t    n t       n t",
    /* override    */ "m m    m m    m m       m m",
];

/// Authors have no privilege.
const AUTHORS_OFF: [&str; 11] = [
    "t t    t t    t t       t t",
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "n n    n n    n n       n n",
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "n r    n r    n r       n r",
    "t t    t t    t t       t t",
    "t t    t t    t t       t t",
    "n t    n t    n t       n t",
    "m m    m m    m m       m m",
];

/// Everything is at another step.
const STRICT: [&str; 11] = [
    "n m    m m    n m       m m",
    "a a    a a    a a       a a",
    "m m    m m    m m       m m",
    "n n    n n    n n       n n",
    "t t    t t    t t       t t",
    "a a    a a    a a       a a",
    "n t    n t    n t       n t",
    "w w    w w    w w       w w",
    "n w    w w    n w       w w",
    "n w    n w    n w       n w",
    "a a    a a    a a       a a",
];

/// The operator says *write* or the team, the repository *triage*, and both must be met; the asker is not in the team.
const LOCKED: [&str; 11] = [
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "n n    n n    n n       n n",
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "n r    n r    n r       n r",
    "t t    t t    t t       t t",
    "t t    t t    t t       t t",
    "n t    n t    n t       n t",
    "m m    m m    m m       m m",
];

/// `/retest` and `/test` are for a team alone; the asker is not in it.
const TEAM_ONLY: [&str; 11] = [
    "n -    - -    n -       - -",
    "w w    w w    w w       w w",
    "- -    - -    - -       - -",
    "n n    n n    n n       n n",
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "n r    n r    n r       n r",
    "t t    t t    t t       t t",
    "n t    t t    n t       t t",
    "n t    n t    n t       n t",
    "m m    m m    m m       m m",
];

/// The same, and the asker is in it.
const IN_THE_TEAM: [&str; 11] = [
    "n n    n n    n n       n n",
    "w w    w w    w w       w w",
    "n n    n n    n n       n n",
    "n n    n n    n n       n n",
    "w w    w w    w w       w w",
    "w w    w w    w w       w w",
    "n r    n r    n r       n r",
    "t t    t t    t t       t t",
    "n t    t t    n t       t t",
    "n t    n t    n t       n t",
    "m m    m m    m m       m m",
];

fn team() -> Team {
    Team::GitHub { organisation: "acme".into(), slug: "ci".into() }
}

fn team_only() -> Need {
    Need::one(Grant { role: None, teams: vec![team()], people: vec![] })
}

fn place(name: &str) -> Change {
    let mut change = change();
    change.from_fork = name != "own";
    change.approved_head = match name {
        "approved fork" => Some(change.head.clone()),
        "fork approved at an older head" => Some(CommitSha::parse(&"b".repeat(40)).expect("a commit")),
        _ => None,
    };
    change
}

fn least(cell: &str) -> Option<Role> {
    match cell {
        "n" => Some(Role::None),
        "r" => Some(Role::Read),
        "t" => Some(Role::Triage),
        "w" => Some(Role::Write),
        "m" => Some(Role::Maintain),
        "a" => Some(Role::Admin),
        "-" => None,
        other => panic!("{other} is no role"),
    }
}

fn agrees(setting: &str, table: &[&str; 11], rights: &Rights, teams: &[Team]) -> usize {
    let mut compared = 0;
    for ((command, ask), row) in ASKS.iter().zip(table) {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), COLUMNS.len(), "{setting}: {command}");
        for ((head, is_author), cell) in COLUMNS.iter().zip(cells) {
            for role in ROLES {
                let who = if *is_author { actor(1, "ann") } else { actor(2, "sam") };
                let mut asker = Asker::with_role(who, role);
                asker.teams.extend(teams.iter().cloned());
                let may = authorise(*ask, &place(head), &asker, rights).is_ok();
                let should = least(cell).is_some_and(|least| role >= least);
                assert_eq!(may, should, "{setting}: {command} on {head} by author={is_author} with {role}");
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn rights_follow_the_table() {
    let defaults = Rights::default();
    let authors_off = Rights { retest_author: false, ..defaults.clone() };
    let strict = Rights {
        retest: Need::role(Role::Maintain),
        retest_author: true,
        force: Need::role(Role::Admin),
        test: Need::role(Role::Maintain),
        cancel: Need::role(Role::Triage),
        ok_to_test: Need::role(Role::Admin),
        help: Need::role(Role::Triage),
        flake: Need::role(Role::Write),
        autoretry: Need::role(Role::Write),
        override_status: Need::role(Role::Admin),
    };
    let write_or_team = Grant { role: Some(Role::Write), teams: vec![team()], people: vec![] };
    let locked = Rights {
        retest: Need::one(write_or_team).and(Grant::role(Role::Triage)),
        retest_author: false,
        ..defaults.clone()
    };
    let team_only = Rights { retest: team_only(), test: team_only(), ..defaults.clone() };
    let compared = agrees("defaults", &DEFAULTS, &defaults, &[])
        + agrees("authors off", &AUTHORS_OFF, &authors_off, &[])
        + agrees("strict", &STRICT, &strict, &[])
        + agrees("locked", &LOCKED, &locked, &[])
        + agrees("team only", &TEAM_ONLY, &team_only, &[])
        + agrees("in the team", &IN_THE_TEAM, &team_only, &[team()]);
    assert_eq!(compared, 6 * 11 * 8 * 6, "no row was left out");
}

#[test]
fn a_refusal_names_the_role_that_is_missing_and_the_one_that_is_there() {
    let asker = Asker::with_role(actor(2, "sam"), Role::Read);
    let refusal = authorise(Ask::Retest, &change(), &asker, &Rights::default());
    let text = refusal.expect_err("a reader").text;
    assert!(text.contains("*triage*") && text.contains("*read*") && text.contains("`sam`"), "{text}");
}

#[test]
fn a_team_that_could_not_be_looked_up_is_a_no_that_says_so() {
    let mut asker = Asker::with_role(actor(2, "sam"), Role::Admin);
    asker.unknown.insert(team());
    let rights = Rights { test: team_only(), ..Rights::default() };
    let refusal = authorise(Ask::Test, &change(), &asker, &rights).expect_err("no");
    assert_eq!(refusal.kind, RefusalKind::RightsUnknown);
    assert!(refusal.text.contains("`team:acme/ci` could not be looked up"), "{}", refusal.text);
}
