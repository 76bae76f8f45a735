//! Who asks, and what they may do on a repository.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A person or bot of a forge, known by numeric id; the login is only for texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The forge's numeric id; logins can be renamed and reused.
    pub id: u64,
    /// The login as the forge wrote it.
    pub login: String,
    /// Whether the forge says that this is a bot.
    pub is_bot: bool,
}

/// A team of people that a forge knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Team {
    /// A team of a GitHub organisation; members of its child teams count.
    GitHub {
        /// The organisation's login.
        organisation: String,
        /// The team's name in addresses.
        slug: String,
    },
    /// A GitLab group by its full path; members of the groups above it count.
    GitLab {
        /// The path, such as `acme/lab`.
        path: String,
    },
}

impl fmt::Display for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GitHub { organisation, slug } => write!(f, "team:{organisation}/{slug}"),
            Self::GitLab { path } => write!(f, "group:{path}"),
        }
    }
}

/// What somebody may do on a repository, in rising order (DESIGN section 6).
///
/// GitHub's words; GitLab's reporter, developer, maintainer and owner are triage, write, maintain and admin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// No access.
    None,
    /// May read.
    Read,
    /// May label and assign; GitLab's reporter.
    Triage,
    /// May push; GitLab's developer.
    Write,
    /// GitLab's maintainer.
    Maintain,
    /// GitLab's owner.
    Admin,
}

impl Role {
    /// The word for texts and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Triage => "triage",
            Self::Write => "write",
            Self::Maintain => "maintain",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that names no role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRole(pub String);

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no role; use none, read, triage, write, maintain or admin", self.0)
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;
    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        let all = [Self::None, Self::Read, Self::Triage, Self::Write, Self::Maintain, Self::Admin];
        all.into_iter().find(|r| r.as_str() == word).ok_or_else(|| UnknownRole(word.to_owned()))
    }
}
