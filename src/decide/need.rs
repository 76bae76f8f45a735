//! What it takes to be let through: a role, a place in a team, or a name on a list.
//!
//! Pure: what the asker has comes in as an [`Asker`]; who looked it up, and how old it may be, is not known here.
//! **Invariant:** what could not be looked up counts as not there. Read next: `authorise.rs`.

use std::collections::BTreeSet;
use std::fmt;

use super::inert::code;
use crate::domain::{Actor, Role, Team};

/// Who asks, and what was found of their rights on the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Who.
    pub actor: Actor,
    /// The role on the repository.
    pub role: Role,
    /// Those of the teams that were asked about in which they are.
    pub teams: BTreeSet<Team>,
    /// Teams whose members could not be asked for: nobody is taken to be in them.
    pub unknown: BTreeSet<Team>,
}

impl Asker {
    /// Somebody with a role and in no team.
    pub const fn with_role(actor: Actor, role: Role) -> Self {
        Self { actor, role, teams: BTreeSet::new(), unknown: BTreeSet::new() }
    }
}

/// Whom a right is given to: everybody from a role on, members of teams, single people. One of them is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// From this role on; none when no role is enough.
    pub role: Option<Role>,
    /// Members of these teams.
    pub teams: Vec<Team>,
    /// These people, by the forge's numeric id.
    pub people: Vec<u64>,
}

impl Grant {
    /// Everybody from a role on.
    pub const fn role(role: Role) -> Self {
        Self { role: Some(role), teams: Vec::new(), people: Vec::new() }
    }

    /// Whether the asker is let through.
    pub fn lets(&self, asker: &Asker) -> bool {
        self.lets_without_teams(&asker.actor, asker.role) || self.teams.iter().any(|team| asker.teams.contains(team))
    }

    fn lets_without_teams(&self, actor: &Actor, role: Role) -> bool {
        self.role.is_some_and(|least| role >= least) || self.people.contains(&actor.id)
    }

    /// The teams whose members must be asked for to tell whether this person is let through; none when that is known.
    pub fn teams_to_ask(&self, actor: &Actor, role: Role) -> &[Team] {
        if self.lets_without_teams(actor, role) { &[] } else { &self.teams }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ways: Vec<String> = self.role.iter().map(|role| format!("*{role}*")).collect();
        ways.extend(self.teams.iter().map(|team| code(&team.to_string())));
        if !self.people.is_empty() {
            ways.push("a place on the list of people".to_owned());
        }
        f.write_str(&ways.join(" or "))
    }
}

/// What a command takes: every one of these grants. Two where the operator's word holds beside the repository's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need(Vec<Grant>);

impl Need {
    /// One grant.
    pub fn one(grant: Grant) -> Self {
        Self(vec![grant])
    }

    /// Everybody from a role on.
    pub fn role(role: Role) -> Self {
        Self::one(Grant::role(role))
    }

    /// Both this and another grant.
    #[must_use]
    pub fn and(mut self, grant: Grant) -> Self {
        self.0.push(grant);
        self
    }

    /// The first grant that does not let the asker through; none when all do.
    pub fn unmet(&self, asker: &Asker) -> Option<&Grant> {
        self.0.iter().find(|grant| !grant.lets(asker))
    }

    /// As [`Grant::teams_to_ask`], of all grants.
    pub fn teams_to_ask<'a>(&'a self, actor: &'a Actor, role: Role) -> impl Iterator<Item = &'a Team> {
        self.0.iter().flat_map(move |grant| grant.teams_to_ask(actor, role))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::actor;

    fn team(slug: &str) -> Team {
        Team::GitHub { organisation: "acme".into(), slug: slug.into() }
    }

    #[test]
    fn one_way_is_enough_for_a_grant_and_every_grant_is_needed() {
        let grant = Grant { role: Some(Role::Write), teams: vec![team("ci")], people: vec![7] };
        let asker = |id, role, teams: &[Team]| Asker {
            teams: teams.iter().cloned().collect(),
            ..Asker::with_role(actor(id, "sam"), role)
        };
        let table = [
            (asker(1, Role::Write, &[]), true, "the role"),
            (asker(1, Role::Triage, &[]), false, "a lower role"),
            (asker(1, Role::None, &[team("ci")]), true, "the team"),
            (asker(1, Role::None, &[team("docs")]), false, "another team"),
            (asker(7, Role::None, &[]), true, "named by id"),
        ];
        for (asker, lets, why) in table {
            assert_eq!(grant.lets(&asker), lets, "{why}");
            let both = Need::one(grant.clone()).and(Grant::role(Role::Maintain));
            assert!(both.unmet(&asker).is_some(), "{why} is not also *maintain*");
        }
        let nobody = Grant { role: None, teams: vec![team("ci")], people: vec![] };
        assert!(!nobody.lets(&asker(1, Role::Admin, &[])), "without a role in the list no role is enough");
    }

    #[test]
    fn teams_are_asked_for_only_when_nothing_else_lets_through() {
        let grant = Grant { role: Some(Role::Write), teams: vec![team("ci")], people: vec![7] };
        let need = Need::one(grant).and(Grant::role(Role::Read));
        let asked = |id, role| need.teams_to_ask(&actor(id, "sam"), role).count();
        assert_eq!((asked(1, Role::Write), asked(7, Role::Read), asked(1, Role::Read)), (0, 0, 1));
    }
}
