//! What the operator says about a LAVA instance.

use std::collections::BTreeMap;
use std::time::Duration;

use globset::{GlobMatcher, GlobSet};
use secrecy::SecretString;

use crate::domain::{JobName, RunnerName};

/// A LAVA instance as configured.
#[derive(Clone, Debug)]
pub struct LavaConfig {
    /// The runner's configured name.
    pub name: RunnerName,
    /// Its address, without a slash at the end.
    pub url: String,
    /// The secret of one of our account's tokens.
    pub token: SecretString,
    /// How long any request may take in all.
    pub timeout: Duration,
    /// Suites whose failed test cases make a job fail, by name with or without its number; `lava` is never among them.
    pub suites: GlobSet,
    /// Which job of LAVA a job of a revision is; checked also when a status points to it.
    pub source: Source,
    /// Beginnings that addresses in overrides must have; empty: any.
    pub url_prefixes: Vec<String>,
    /// How LAVA tells us of its jobs; none when it is polled alone.
    pub callback: Option<Callback>,
    /// What may be changed, by job; the first that fits counts.
    pub jobs: Vec<(GlobMatcher, Vec<String>)>,
}

/// How the LAVA job of a revision's job is known.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Metadata that it carries. Values may hold `{sha}`, `{job}`, `{repository}` and `{change}`.
    pub metadata: BTreeMap<String, String>,
    /// Device tags that it asks for, with the same values.
    pub tags: Vec<String>,
}

/// How LAVA tells us of its jobs.
#[derive(Clone, Debug)]
pub struct Callback {
    /// The address of this runner's callbacks at our own server, without the key.
    pub url: String,
    /// What the tokens of the runs are made from.
    pub secret: SecretString,
}

impl LavaConfig {
    /// What may be changed of a job.
    pub(super) fn overrides(&self, job: &JobName) -> &[String] {
        let found = self.jobs.iter().find(|(glob, _)| glob.is_match(job.as_str()));
        found.map_or(&[], |(_, keys)| keys)
    }

    /// Whether the failed cases of a suite count. LAVA numbers suites by their place: `0_smoke` is also `smoke`.
    pub(super) fn counts(&self, suite: &str) -> bool {
        let bare = suite.split_once('_').filter(|(number, _)| number.bytes().all(|b| b.is_ascii_digit()));
        suite != "lava" && (self.suites.is_match(suite) || bare.is_some_and(|(_, name)| self.suites.is_match(name)))
    }
}
