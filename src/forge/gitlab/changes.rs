//! Merge requests and memberships in our words.

use super::actor;
use crate::api::gitlab::{hooks, wire};
use crate::domain::{Actor, Change, ChangeKey, CommitSha, Repo, Role, Timestamp};
use crate::ports::CallError;

/// The role of a member at `now`; none for one who is blocked, waits for approval, or whose membership has ended.
///
/// Levels (forge-gitlab reference, 7): 5 minimal, 10 guest, 15 planner, 20 reporter, 30 developer, 40 maintainer,
/// 50 owner, 60 admin. A custom role counts as its base level.
pub(super) fn role_of(member: &wire::Member, now: Timestamp) -> Role {
    let active = member.state.as_deref().is_none_or(|state| state == "active");
    let ended = member.expires_at.is_some_and(|end| end <= now);
    if !active || ended {
        return Role::None;
    }
    match member.access_level {
        0..10 => Role::None,
        10..20 => Role::Read,
        20..30 => Role::Triage,
        30..40 => Role::Write,
        40..50 => Role::Maintain,
        50.. => Role::Admin,
    }
}

/// The merge request as the REST interface tells it, pinned to its head pipeline.
///
/// # Errors
/// Refused when it has no commit.
pub(super) fn from_wire(repo: &Repo, wire: &wire::MergeRequest, now: Timestamp) -> Result<Change, CallError> {
    let home = repo.key.id;
    let head = wire.sha.as_deref().and_then(|sha| CommitSha::parse(sha).ok());
    let head = head.ok_or_else(|| CallError::refused("the merge request has no commit yet"))?;
    let from_fork = is_fork(wire.source_project_id, wire.target_project_id, home);
    // A pipeline of the fork cannot carry a status of ours.
    let pipeline = wire.head_pipeline.as_ref().filter(|p| p.project_id.unwrap_or(home) == home);
    let own_ref = if from_fork { format!("refs/merge-requests/{}/head", wire.iid) } else { wire.source_branch.clone() };
    Ok(Change {
        key: ChangeKey { repo: repo.key.clone(), number: wire.iid },
        head,
        author: wire.author.as_ref().map(|author| actor(author.id, &author.username)),
        open: wire.state == "opened",
        from_fork,
        base_ref: wire.target_branch.clone(),
        labels: wire.labels.clone(),
        head_pipeline: pipeline.map(|p| p.id),
        source_ref: Some(pipeline.map_or(own_ref, |p| p.git_ref.clone())).filter(|r| !r.is_empty()),
        approved_head: None,
        updated_at: now,
    })
}

/// The merge request as a webhook tells it; none when it names no head.
///
/// The hook names the head pipeline but not the pipeline's ref, so that `source_ref` is left out. `user` is who caused
/// the hook: the only one whose login is told.
pub(super) fn from_hook(
    repo: &Repo,
    hook: &hooks::MergeRequest<'_>,
    user: Option<&Actor>,
    at: Timestamp,
) -> Option<Change> {
    let head = CommitSha::parse(&hook.last_commit.as_ref()?.id).ok()?;
    let from_fork = is_fork(hook.source_project_id, hook.target_project_id, repo.key.id);
    let author = hook.author_id.map(|id| match user {
        Some(user) if user.id == id => user.clone(),
        _ => actor(id, &format!("user-{id}")),
    });
    Some(Change {
        key: ChangeKey { repo: repo.key.clone(), number: hook.iid },
        head,
        author,
        open: hook.state == "opened",
        from_fork,
        base_ref: hook.target_branch.clone().into_owned(),
        labels: hook.labels.iter().flatten().filter_map(|label| label.title.clone()).collect(),
        // A pipeline of the fork cannot carry a status of ours, and where it lives is not told.
        head_pipeline: hook.head_pipeline_id.filter(|_| !from_fork),
        source_ref: None,
        approved_head: None,
        updated_at: at,
    })
}

/// An unknown source counts as a fork.
fn is_fork(source: Option<u64>, target: Option<u64>, home: u64) -> bool {
    source != Some(target.unwrap_or(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(level: u64, state: &str, end: Option<i64>) -> wire::Member {
        wire::Member { access_level: level, state: Some(state.to_owned()), expires_at: end.map(Timestamp::from_ms) }
    }

    #[test]
    fn a_level_is_a_role_only_while_the_membership_holds() {
        let now = Timestamp::from_ms(1_000);
        let table = [
            (member(0, "active", None), Role::None, "no access"),
            (member(5, "active", None), Role::None, "minimal access reads nothing"),
            (member(10, "active", None), Role::Read, "guest"),
            (member(15, "active", None), Role::Read, "planner"),
            (member(20, "active", None), Role::Triage, "reporter"),
            (member(30, "active", None), Role::Write, "developer"),
            (member(40, "active", None), Role::Maintain, "maintainer"),
            (member(50, "active", None), Role::Admin, "owner"),
            (member(60, "active", None), Role::Admin, "administrator"),
            (member(40, "blocked", None), Role::None, "blocked"),
            (member(40, "awaiting", None), Role::None, "not approved yet"),
            (member(40, "active", Some(1_000)), Role::None, "ended"),
            (member(40, "active", Some(1_001)), Role::Maintain, "ends later"),
        ];
        for (member, role, why) in table {
            assert_eq!(role_of(&member, now), role, "{why}");
        }
    }
}
