//! Whom a right is given to: a role, or a list of a role, teams, groups and people, of which one is enough.
//!
//! `"write"` is the same as `["write"]`. Refused: words that are none of these, two roles in one list, empty and endless lists.
//! Used by the operator's `[rights]` and by a repository's policy. Read next: `general.rs`, `policy/mod.rs`.

use super::check::Check;
use super::wording;
use super::words::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Entries of one list; each team may cost a look-up.
const ENTRIES_MAX: usize = 20;
/// The roles, lowest first.
const ROLES: [(&str, Role); 6] = [
    ("none", Role::None),
    ("read", Role::Read),
    ("triage", Role::Triage),
    ("write", Role::Write),
    ("maintain", Role::Maintain),
    ("admin", Role::Admin),
];

/// The words as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawWho(pub Vec<String>);

impl RawWho {
    /// One word.
    pub(super) fn word(word: &str) -> Self {
        Self(vec![word.to_owned()])
    }
}

impl Serialize for RawWho {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => serializer.serialize_str(only),
            list => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawWho {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = RawWho;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }
            fn visit_str<E>(self, word: &str) -> Result<RawWho, E> {
                Ok(RawWho::word(word))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawWho, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(RawWho(words))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for RawWho {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Who".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word = "^(none|read|triage|write|maintain|admin|team:[^/]+/[^/]+|group:.+|user:[0-9]+|asker)$";
        json_schema!({
            "description": "A role, or a list of one role, teams (`team:ORGANISATION/SLUG`, GitHub), groups (`group:PATH`, GitLab) and \
                            people (`user:ID`, the forge's number); one of them is enough.",
            "anyOf": [
                { "type": "string", "pattern": word },
                { "type": "array", "items": { "type": "string", "pattern": word }, "minItems": 1, "maxItems": ENTRIES_MAX },
            ],
        })
    }
}

/// Whom a right is given to, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// Everybody from this role on; none when no role is enough.
    pub role: Option<Role>,
    /// Teams of GitHub organisations: organisation and slug.
    pub teams: Vec<(String, String)>,
    /// Groups of GitLab, by path.
    pub groups: Vec<String>,
    /// People by number.
    pub people: Vec<u64>,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.role.iter().map(ToString::to_string).collect();
        words.extend(self.teams.iter().map(|(organisation, slug)| format!("team:{organisation}/{slug}")));
        words.extend(self.groups.iter().map(|path| format!("group:{path}")));
        words.extend(self.people.iter().map(|id| format!("user:{id}")));
        f.write_str(&words.join(" or "))
    }
}

/// Checks the words at `path`.
pub(super) fn who(check: &mut Check<'_>, path: &str, raw: &RawWho) -> Who {
    let mut who = Who::default();
    if raw.0.is_empty() || raw.0.len() > ENTRIES_MAX {
        let text =
            if raw.0.is_empty() { "lets nobody through".to_owned() } else { format!("has {} entries", raw.0.len()) };
        check.fault(path, text, format!("write a role, or a list of 1 to {ENTRIES_MAX} entries"));
    }
    for (i, word) in raw.0.iter().enumerate() {
        let path = if raw.0.len() == 1 { path.to_owned() } else { format!("{path}[{i}]") };
        one(check, &path, word, &mut who);
    }
    who
}

fn one(check: &mut Check<'_>, path: &str, word: &str, who: &mut Who) {
    let is_name = |text: &str| {
        !text.is_empty() && text.len() <= 255 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    if let Some((_, role)) = ROLES.iter().find(|(name, _)| *name == word) {
        if who.role.is_some() {
            check.fault(path, "is a second role, and the lower one would count alone", "keep one role");
        }
        who.role = Some(*role);
        return;
    }
    match word.split_once(':') {
        Some(("team", rest)) => match rest.split_once('/') {
            Some((organisation, slug)) if is_name(organisation) && is_name(slug) => {
                who.teams.push((organisation.to_owned(), slug.to_owned()));
            }
            _ => check.fault(path, format!("`{word}` names no team"), "write `team:ORGANISATION/SLUG`"),
        },
        Some(("group", rest)) if rest.split('/').all(is_name) => who.groups.push(rest.to_owned()),
        Some(("group", _)) => check.fault(path, format!("`{word}` names no group"), "write `group:PATH/TO/GROUP`"),
        Some(("user", rest)) => match rest.parse() {
            Ok(id) => who.people.push(id),
            Err(_) => check.fault(
                path,
                format!("`{word}` names nobody"),
                "write `user:` and the forge's number of the account: logins can be renamed and taken by others",
            ),
        },
        _ => {
            let roles = ROLES.map(|(name, _)| name);
            let hint = match wording::nearest(word, &roles) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "or write `team:ORGANISATION/SLUG`, `group:PATH` or `user:ID`".to_owned(),
            };
            check.fault(path, format!("`{word}` is not one of {}", wording::listed(&roles)), hint);
        }
    }
}
