//! Repositories and changes.

use serde::{Deserialize, Serialize};

use super::{Actor, CommitSha, ForgeName, Timestamp};

/// A repository by forge and numeric id: names can be changed, ids cannot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RepoKey {
    /// The forge it lives on.
    pub forge: ForgeName,
    /// The forge's numeric id of the repository (GitLab: project).
    pub id: u64,
}

/// A repository with what is needed to call its forge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repo {
    /// Which repository.
    pub key: RepoKey,
    /// Its present full name, `owner/name` or `group/sub/project`.
    pub full_name: String,
    /// The GitHub App installation that reaches it; none with a token, and on GitLab.
    pub installation: Option<u64>,
    /// Its default branch, when the forge has told it.
    pub default_branch: Option<String>,
}

/// A change: a pull request by number, or a merge request by its number in the project (`iid`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ChangeKey {
    /// The repository that the change wants to enter.
    pub repo: RepoKey,
    /// Its number there.
    pub number: u64,
}

impl ChangeKey {
    /// The place of runs that belong to no change: clients of the API ask for such. Forges count changes from 1.
    pub fn none() -> Self {
        Self { repo: RepoKey { forge: ForgeName::new("none"), id: 0 }, number: 0 }
    }

    /// Whether it belongs to no change: then nothing is reported, and no head can move.
    pub const fn is_none(&self) -> bool {
        self.number == 0
    }
}

/// What is known of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which change.
    pub key: ChangeKey,
    /// Its head commit.
    pub head: CommitSha,
    /// Who opened it; `None` for a deleted account.
    pub author: Option<Actor>,
    /// Whether it is open.
    pub open: bool,
    /// Whether its head lives in another repository. An unknown head repository counts as a fork.
    pub from_fork: bool,
    /// The branch it wants to enter.
    pub base_ref: String,
    /// Labels on the change.
    pub labels: Vec<String>,
    /// The pipeline that GitLab shows as the head pipeline: statuses are pinned to it. None on GitHub.
    pub head_pipeline: Option<u64>,
    /// The source branch, which GitLab wants beside a status.
    pub source_ref: Option<String>,
    /// The fork's head that a person with the right approved; statuses and retests of forks need it.
    pub approved_head: Option<CommitSha>,
    /// When we last learnt something of it.
    pub updated_at: Timestamp,
}
