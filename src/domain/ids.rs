//! Names and ids: one type each, so that two of them are never mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares a text newtype with `new`, `as_str`, `Display` and serde as plain text.
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    };
}

text_type! {
    /// The configured name of a forge; it is also the last part of its webhook path.
    ForgeName
}
text_type! {
    /// The configured name of a runner.
    RunnerName
}
text_type! {
    /// The name of a job as people see it on the change, such as `lava-x86` or `build / test (ubuntu, 3.12)`.
    JobName
}
text_type! {
    /// A runner's own name of one run, unique within that runner.
    RunRef
}
text_type! {
    /// The unique key of one dispatch: stored before the outside call, and carried to the runner where it can carry it.
    DispatchKey
}
text_type! {
    /// The forge's id of one delivery: `X-GitHub-Delivery`, or GitLab's `Idempotency-Key`.
    DeliveryId
}

/// A full commit id: 40 (SHA-1) or 64 (SHA-256) hex digits, lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitSha(String);

/// A text that is no full commit id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotASha(String);

impl fmt::Display for NotASha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no full commit id (40 or 64 hex digits)", self.0.escape_debug())
    }
}

impl std::error::Error for NotASha {}

impl CommitSha {
    /// Reads a full commit id in either case.
    ///
    /// # Errors
    /// [`NotASha`] when the text is not exactly 40 or 64 hex digits.
    pub fn parse(text: &str) -> Result<Self, NotASha> {
        let full = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if full { Ok(Self(text.to_ascii_lowercase())) } else { Err(NotASha(text.chars().take(80).collect())) }
    }

    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first seven digits, as people write a commit.
    pub fn short(&self) -> &str {
        self.0.get(..7).unwrap_or(&self.0)
    }

    /// Whether a person who wrote `prefix` (7 to 64 hex digits) can mean this commit.
    pub fn starts_with(&self, prefix: &str) -> bool {
        prefix.len() >= 7 && self.0.starts_with(&prefix.to_ascii_lowercase())
    }
}

impl fmt::Display for CommitSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for CommitSha {
    type Error = NotASha;
    fn try_from(text: String) -> Result<Self, NotASha> {
        Self::parse(&text)
    }
}

impl From<CommitSha> for String {
    fn from(sha: CommitSha) -> Self {
        sha.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_commit_id_is_a_commit_id() {
        let full = "ABCDEF0123456789abcdef0123456789abcdef01";
        let table = [
            (full.to_owned(), true, "40 digits in any case"),
            (full.repeat(2).chars().take(64).collect(), true, "64 digits"),
            ("abcdef0".to_owned(), false, "a short id"),
            (full.replace('A', "g"), false, "a letter that is no digit"),
            (String::new(), false, "nothing"),
        ];
        for (text, ok, why) in table {
            assert_eq!(CommitSha::parse(&text).is_ok(), ok, "{why}");
        }
    }

    #[test]
    fn a_prefix_shorter_than_seven_digits_names_no_commit() {
        let sha = CommitSha::parse(&"a".repeat(40)).expect("full id");
        assert!(sha.starts_with("AAAAAAA"));
        assert!(!sha.starts_with("aaaaaa"));
    }
}
