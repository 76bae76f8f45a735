//! The tools every check uses: collect faults instead of stopping, and turn single values into checked ones.
//!
//! A check that fails records the fault and returns a stand-in, so that the checks after it still run. **Invariant:** stand-ins
//! never leave this module tree, because `Settings::parse` returns nothing but the faults once there is one.
//! Read next: `general.rs`, the simplest user.

use super::errors::SettingsError;
use super::secret::Secrets;
use super::wording;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;
use url::Url;

/// A minute.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// A day.
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Ten years: what no duration in the file may exceed, so that adding it to a date cannot overflow.
pub(super) const DECADE: Duration = Duration::from_secs(3653 * 24 * 60 * 60);

/// Faults and warnings of one reading.
pub(super) struct Check<'s> {
    /// Where secrets come from.
    pub secrets: &'s dyn Secrets,
    faults: Vec<SettingsError>,
    warnings: Vec<String>,
    gone: Vec<String>,
}

impl<'s> Check<'s> {
    /// `gone`: paths that are absent only because they were faulty, so that nobody calls them missing.
    pub fn new(secrets: &'s dyn Secrets, gone: Vec<String>) -> Self {
        Self { secrets, faults: Vec::new(), warnings: Vec::new(), gone }
    }

    /// All faults and all warnings.
    pub fn finish(self) -> (Vec<SettingsError>, Vec<String>) {
        (self.faults, self.warnings)
    }

    /// Records a fault, unless it only follows from one that was found in the structure.
    pub fn fault(&mut self, path: &str, text: impl AsRef<str>, hint: impl AsRef<str>) {
        if !self.is_gone(path) {
            self.faults.push(SettingsError::new(path, text, hint));
        }
    }

    /// Records something that works but should be known.
    pub fn warn(&mut self, path: &str, text: impl Display) {
        self.warnings.push(format!("{path}: {text}"));
    }

    /// Whether `path` is absent only because it was faulty.
    pub fn is_gone(&self, path: &str) -> bool {
        self.gone.iter().any(|gone| {
            path.strip_prefix(gone.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    /// The value, or a fault that the key is needed.
    pub fn needed<T>(&mut self, path: &str, value: Option<T>, hint: &str) -> Option<T> {
        if value.is_none() {
            self.fault(path, "is missing", hint);
        }
        value
    }

    /// A whole number within `range`.
    pub fn whole<N>(&mut self, path: &str, value: u64, range: RangeInclusive<u64>) -> N
    where
        N: TryFrom<u64> + Default,
    {
        if !range.contains(&value) {
            let (low, high) = (range.start(), range.end());
            self.fault(path, format!("{value} is out of range"), format!("choose a number from {low} to {high}"));
        }
        N::try_from(value).unwrap_or_default()
    }

    /// A duration such as `30s`, `5m`, `72h` or `30d` within `range`.
    pub fn duration(&mut self, path: &str, text: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        match humantime::parse_duration(text) {
            Ok(duration) if range.contains(&duration) => Some(duration),
            Ok(_) => {
                let low = humantime::format_duration(*range.start());
                let high = humantime::format_duration(*range.end());
                self.fault(path, format!("`{text}` is out of range"), format!("choose from `{low}` to `{high}`"));
                None
            }
            Err(_) => {
                self.fault(
                    path,
                    format!("`{text}` is not a duration"),
                    "write a number with its unit: `30s`, `5m`, `72h`, `30d`",
                );
                None
            }
        }
    }

    /// An absolute http or https address without user name, query and fragment; its path has no slash at the end,
    /// save the bare host's.
    pub fn address(&mut self, path: &str, text: &str) -> Option<Url> {
        let hint = "write it like `https://host.example/path`";
        let Ok(mut url) = Url::parse(text) else {
            self.fault(path, "is not an address", hint);
            return None;
        };
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            self.fault(path, "is not an http or https address", hint);
            return None;
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.fault(path, "has a user name or password in it", "take it out: secrets have keys of their own");
            return None;
        }
        if url.query().is_some() || url.fragment().is_some() {
            self.fault(path, "has a `?` or `#` part", "end it with the path");
            return None;
        }
        let trimmed = url.path().trim_end_matches('/').to_owned();
        url.set_path(&trimmed);
        Some(url)
    }

    /// A name of ours: 1 to 63 of lower-case letters, digits and inner `-`.
    pub fn slug(&mut self, path: &str, text: &str) -> String {
        let fits = (1..=63).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-');
        if !fits {
            self.fault(
                path,
                format!("`{text}` cannot be a name"),
                "use lower-case letters, digits and `-` between them, at most 63",
            );
        }
        text.to_owned()
    }

    /// A text of 1 to `chars_max` characters without control characters or blanks at its ends.
    pub fn words(&mut self, path: &str, text: &str, chars_max: usize) -> String {
        let problem = if text.is_empty() {
            Some("is empty".to_owned())
        } else if text.chars().count() > chars_max {
            Some(format!("is longer than {chars_max} characters"))
        } else if text.trim() != text || text.chars().any(char::is_control) {
            Some("has blanks at its ends or control characters in it".to_owned())
        } else {
            None
        };
        if let Some(problem) = problem {
            self.fault(path, problem, "correct the text or leave the key out");
        }
        text.to_owned()
    }

    /// Globs over the full names of repositories.
    pub fn repositories(&mut self, path: &str, patterns: &[String]) -> RepositoryGlobs {
        if patterns.is_empty() {
            self.fault(path, "matches no repository", "write [\"**\"] for all, or leave the key out");
        }
        let mut set = GlobSetBuilder::new();
        for (i, pattern) in patterns.iter().enumerate() {
            let path = format!("{path}[{i}]");
            if !pattern.contains('/') && !pattern.contains("**") {
                self.fault(
                    &path,
                    format!("`{pattern}` matches no repository, since full names have a `/`"),
                    format!("write `{pattern}/*` for the repositories of an owner"),
                );
            }
            let glob = GlobBuilder::new(pattern).literal_separator(true).case_insensitive(true).build();
            match glob {
                Ok(glob) => {
                    set.add(glob);
                }
                Err(error) => self.bad_glob(&path, &error),
            }
        }
        let set = set.build().unwrap_or_else(|error| {
            self.bad_glob(path, &error);
            GlobSet::empty()
        });
        RepositoryGlobs { patterns: patterns.to_vec(), set }
    }

    /// The fault of a glob that cannot be compiled.
    pub fn bad_glob(&mut self, path: &str, error: &globset::Error) {
        self.fault(
            path,
            format!("is not a glob: {}", error.kind()),
            "`*`, `?`, `[abc]` and `{a,b}` have a meaning; put `\\` before one that is meant literally",
        );
    }

    /// Faults for every item that occurs twice, compared as they stand.
    pub fn distinct<'t>(&mut self, items: impl Iterator<Item = (String, &'t str)>, what: &str) {
        let mut seen = BTreeSet::new();
        for (path, item) in items {
            if !seen.insert(item) {
                self.fault(&path, format!("`{item}` is the name of an earlier {what}"), "give each its own name");
            }
        }
    }

    /// One of `known`, or a fault with the nearest of them.
    pub fn one_of(&mut self, path: &str, word: &str, known: &[&str]) {
        if known.contains(&word) {
            return;
        }
        let hint = match wording::nearest(word, known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", wording::listed(known)),
        };
        self.fault(path, format!("there is no `{word}`"), hint);
    }
}

/// A set of repositories, by globs over their full names (`owner/name`, `group/subgroup/name`).
///
/// Letter case does not count, as on the forges. `*` stays within one path segment, `**` does not.
#[derive(Clone)]
pub struct RepositoryGlobs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl RepositoryGlobs {
    /// Whether the repository with this full name belongs to the set.
    pub fn matches(&self, full_name: &str) -> bool {
        self.set.is_match(full_name)
    }

    /// The globs, compiled.
    pub fn glob_set(&self) -> &GlobSet {
        &self.set
    }

    /// The globs as written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

impl std::fmt::Debug for RepositoryGlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.patterns.fmt(f)
    }
}
