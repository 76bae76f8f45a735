//! Who may do what, and what a repository says of it: roles, members of teams, a file on the default branch.
//!
//! Everything is asked conditionally, so that an unchanged answer costs nothing of the rate limit. Logins are in the
//! addresses, ids decide: a login that somebody else has taken since has no right.

use base64::Engine as _;

use super::GitHub;
use crate::api::github::wire::{Content, Membership, Permission, User};
use crate::api::github::{Failure, Need, repo_path, segment};
use crate::domain::{Actor, Repo, Role, Team};
use crate::ports::{CallError, FileNow};

const READ_ROLE: Need = Need { doing: "look up what somebody may do", permission: "Metadata: read" };
const READ_PERSON: Need = Need { doing: "look up whose login it is", permission: "Metadata: read" };
const READ_TEAM: Need = Need { doing: "look up who is in a team", permission: "Members: read" };
const READ_FILE: Need = Need { doing: "read the repository's policy", permission: "Contents: read" };

impl GitHub {
    pub(super) async fn permission(&self, repo: &Repo, actor: &Actor) -> Result<Role, CallError> {
        let path = format!("{}/collaborators/{}/permission", repo_path(repo), segment(&actor.login));
        match self.api.get::<Permission>(repo, &path, READ_ROLE).await {
            // The login may have been renamed and taken by somebody else: only the same account has the right.
            Ok(found) if found.user.as_ref().is_some_and(|user| user.id == actor.id) => Ok(role_of(&found)),
            Ok(_) | Err(Failure { status: Some(404), .. }) => Ok(Role::None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Whether the account of this id is an active member; members of child teams count.
    pub(super) async fn is_in_team(&self, repo: &Repo, team: &Team, actor: &Actor) -> Result<bool, CallError> {
        let Team::GitHub { organisation, slug } = team else { return Ok(false) };
        let login = segment(&actor.login);
        let person = match self.api.get::<User>(repo, &format!("/users/{login}"), READ_PERSON).await {
            Ok(person) => person,
            Err(Failure { status: Some(404), .. }) => return Ok(false),
            Err(failure) => return Err(failure.into()),
        };
        if person.id != actor.id {
            return Ok(false);
        }
        let path = format!("/orgs/{}/teams/{}/memberships/{login}", segment(organisation), segment(slug));
        match self.api.get::<Membership>(repo, &path, READ_TEAM).await {
            Ok(membership) => Ok(membership.state == "active"),
            Err(Failure { status: Some(404), .. }) => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// No `ref` is named, so that GitHub takes the default branch whatever it is called.
    pub(super) async fn file_now(&self, repo: &Repo, path: &str, known: Option<&str>) -> Result<FileNow, CallError> {
        let parts: Vec<String> = path.split('/').map(segment).collect();
        let path = format!("{}/contents/{}", repo_path(repo), parts.join("/"));
        let (sha, content, size) = match self.api.get::<Content>(repo, &path, READ_FILE).await {
            Ok(Content::File { sha, content, size }) => (sha, content, size),
            Ok(Content::Other(_)) | Err(Failure { status: Some(404), .. }) => return Ok(FileNow::Absent),
            Err(failure) => return Err(failure.into()),
        };
        if known == Some(sha.as_str()) {
            return Ok(FileNow::Unchanged);
        }
        if content.is_empty() && size > 0 {
            return Err(CallError::refused(format!("the file has {size} bytes, which GitHub does not hand out so")));
        }
        let plain: String = content.split_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(plain)
            .map_err(|error| CallError::Unreachable { log: format!("{path}: the content is no base64: {error}") })?;
        Ok(FileNow::Text { version: sha, text: String::from_utf8_lossy(&bytes).into_owned() })
    }
}

/// `role_name` knows maintain and triage; a custom role's name says nothing, so its base permission counts.
fn role_of(found: &Permission) -> Role {
    let named = |word: &Option<String>| word.as_deref().and_then(|word| word.parse::<Role>().ok());
    named(&found.role_name).or_else(|| named(&found.permission)).unwrap_or(Role::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finer_role_counts_and_a_custom_role_counts_as_its_base() {
        let permission = |base: &str, name: &str| Permission {
            permission: Some(base.to_owned()),
            role_name: Some(name.to_owned()),
            user: None,
        };
        let table = [
            (permission("write", "maintain"), Role::Maintain),
            (permission("read", "triage"), Role::Triage),
            (permission("admin", "admin"), Role::Admin),
            (permission("write", "release-team"), Role::Write),
            (permission("none", ""), Role::None),
            (permission("some new word", "some new role"), Role::None),
        ];
        for (found, role) in table {
            assert_eq!(role_of(&found), role, "{found:?}");
        }
    }
}
