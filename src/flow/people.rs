//! What somebody may do: roles and memberships, from a short-lived cache or the forge.
//!
//! **Invariant:** a failed look-up never means a right, and a right that was taken away is gone after `rights.role_cache`.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use super::world::World;
use crate::decide::Asker;
use crate::domain::{Actor, Repo, RepoKey, Role, Team, Timestamp};
use crate::ports::{CallError, Forge};

/// Answers with the time at which they were asked for.
type Kept<K, V> = Mutex<HashMap<K, (V, Timestamp)>>;

/// What was found of people lately.
#[derive(Debug, Default)]
pub(super) struct People {
    roles: Kept<(RepoKey, u64), Role>,
    members: Kept<(RepoKey, Team, u64), bool>,
}

impl World {
    /// What somebody may do.
    ///
    /// # Errors
    /// A failed look-up; it never means a right.
    pub async fn role(&self, forge: &dyn Forge, repo: &Repo, actor: &Actor) -> Result<Role, CallError> {
        let key = (repo.key.clone(), actor.id);
        if let Some(role) = self.recall(&self.people.roles, &key) {
            return Ok(role);
        }
        let role = forge.role(repo, actor).await?;
        self.keep_for_a_while(&self.people.roles, key, role);
        Ok(role)
    }

    /// Somebody with a role, and those of `teams` in which they are. A team that cannot be asked for has no members.
    ///
    /// # Errors
    /// A look-up that may work later, for the caller to wait; not when `settle`: then it counts as no.
    pub(super) async fn asker(
        &self,
        (forge, repo): (&dyn Forge, &Repo),
        (actor, role): (&Actor, Role),
        teams: BTreeSet<Team>,
        settle: bool,
    ) -> Result<Asker, CallError> {
        let mut asker = Asker::with_role(actor.clone(), role);
        for team in teams {
            let key = (repo.key.clone(), team.clone(), actor.id);
            let known = self.recall(&self.people.members, &key);
            let found = match known {
                Some(found) => Ok(found),
                None => forge.belongs(repo, &team, actor).await,
            };
            match found {
                Ok(found) => {
                    self.keep_unless_known(known.is_some(), key, found);
                    if found {
                        asker.teams.insert(team);
                    }
                }
                Err(error) if error.is_passing() && !settle => return Err(error),
                Err(error) => {
                    tracing::warn!(repository = %repo.full_name, %team, %error, "a team could not be asked for; nobody is in it");
                    self.count_failure(forge.name().as_str(), &error);
                    asker.unknown.insert(team);
                }
            }
        }
        Ok(asker)
    }

    fn keep_unless_known(&self, known: bool, key: (RepoKey, Team, u64), found: bool) {
        if !known {
            self.keep_for_a_while(&self.people.members, key, found);
        }
    }

    fn recall<K: Eq + Hash, V: Copy>(&self, kept: &Kept<K, V>, key: &K) -> Option<V> {
        let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        known.filter(|(_, asked)| self.now().since(*asked) < self.rules.role_cache).map(|(value, _)| value)
    }

    fn keep_for_a_while<K: Eq + Hash, V>(&self, kept: &Kept<K, V>, key: K, value: V) {
        let now = self.now();
        let mut all = kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, asked)| now.since(*asked) < self.rules.role_cache);
        all.insert(key, (value, now));
    }
}
