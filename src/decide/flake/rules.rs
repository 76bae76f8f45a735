//! Flake rules, and which of them a failure matches.
//!
//! A typed cause comes first, because a runner that names why a run died knows better than any pattern; the log is read only
//! where a rule asks for it. **Invariant:** a [`RuleSet`] holds no rule that [`lint`](super::lint::lint) refuses.
//! Read next: `log.rs` for how many patterns go over a log at once.

use std::sync::Arc;
use std::time::Duration;

use globset::GlobMatcher;

use super::lint::{RuleFault, lint, repeated};
use super::log::LogPatterns;
use super::mask::{excerpt, masked};
use crate::decide::Declares;
use crate::domain::{Conclusion, Evidence, JobName, LabelOrigin, RunnerName, Seen};

/// Longest excerpt of a log line or a cause, in characters.
pub(super) const EXCERPT_CHARS_MAX: usize = 200;

/// What makes a failure a known flake, wherever it was written down.
#[derive(Clone, Debug)]
pub struct FlakeRule {
    /// Its name: unique in its place, or `#123` of an issue.
    pub label: String,
    /// Where it was written.
    pub origin: LabelOrigin,
    /// Which jobs; at least one entry.
    pub jobs: Vec<Declares>,
    /// Only runs of this runner.
    pub runner: Option<RunnerName>,
    /// Only runs that ended so; empty for every end that can be a flake.
    pub ends: Vec<Conclusion>,
    /// Globs over the runner's typed cause; letter case does not count.
    pub causes: Vec<GlobMatcher>,
    /// Regular expressions, each for one line of the log. Byte classes (`\w` is ASCII) unless `(?u)` says otherwise.
    pub log: Vec<String>,
    /// Retries of one job on one head by this label.
    pub retries: u32,
    /// Retries by this label in one repository within 24 hours.
    pub per_day: u32,
    /// Wait before the first retry; doubled for each further one.
    pub delay: Duration,
}

impl FlakeRule {
    /// Whether job, runner and end are those that the rule is about.
    fn is_about(&self, failure: &Failure<'_>) -> bool {
        self.jobs.iter().any(|which| which.fits(failure.job))
            && self.runner.as_ref().is_none_or(|runner| runner == failure.runner)
            && (self.ends.is_empty() || self.ends.contains(&failure.end))
    }

    /// What the end and the cause alone show, for a failure that the rule is about.
    fn seen_in_cause(&self, failure: &Failure<'_>) -> Option<Seen> {
        if let Some(cause) = failure.cause.filter(|cause| self.fits_cause(cause)) {
            return Some(Seen::Cause(excerpt(&masked(cause), 0)));
        }
        let by_end = self.causes.is_empty() && self.log.is_empty() && self.ends.contains(&failure.end);
        by_end.then(|| Seen::Cause(failure.end.state().to_string()))
    }

    pub(super) fn fits_cause(&self, cause: &str) -> bool {
        self.causes.iter().any(|glob| glob.is_match(cause))
    }

    fn matched(self: &Arc<Self>, seen: Seen) -> Match {
        let evidence = Evidence { label: self.label.clone(), origin: self.origin.clone(), seen };
        Match { rule: Arc::clone(self), evidence }
    }
}

/// A run that failed, as far as rules look at it.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The job.
    pub job: &'a JobName,
    /// Who ran it.
    pub runner: &'a RunnerName,
    /// How it ended.
    pub end: Conclusion,
    /// The runner's word for why.
    pub cause: Option<&'a str>,
}

/// A rule that covers a failure, and what was seen.
#[derive(Clone, Debug)]
pub struct Match {
    /// The rule.
    pub rule: Arc<FlakeRule>,
    /// What was seen, for people and the record.
    pub evidence: Evidence,
}

/// Whether a run with this end can be a flake at all: who cancelled, replaced or skipped it meant to.
pub(super) const fn can_be_flake(end: Conclusion) -> bool {
    match end {
        Conclusion::Failed | Conclusion::Infrastructure | Conclusion::TimedOut | Conclusion::Lost => true,
        Conclusion::Passed | Conclusion::Cancelled | Conclusion::Superseded | Conclusion::Skipped => false,
    }
}

/// Causes that a person must mend, by the word before the first colon: GitLab's failure reasons that no retry helps
/// (the grouping is ours), and LAVA's error types for a cancelled job and for a wrong device dictionary.
const USER_ERRORS: [&str; 27] = [
    "missing_dependency_failure",
    "stale_schedule",
    "archived_failure",
    "unmet_prerequisites",
    "forward_deployment_failure",
    "failed_outdated_deployment_job",
    "protected_environment_failure",
    "deployment_rejected",
    "ci_quota_exceeded",
    "user_blocked",
    "project_deleted",
    "builds_disabled",
    "secrets_provider_not_found",
    "pipeline_loop_detected",
    "trace_size_exceeded",
    "ip_restriction_failure",
    "insufficient_bridge_permissions",
    "downstream_bridge_project_not_found",
    "upstream_bridge_project_not_found",
    "insufficient_upstream_permissions",
    "invalid_bridge_trigger",
    "bridge_pipeline_is_child_pipeline",
    "downstream_pipeline_creation_failed",
    "reached_max_descendant_pipelines_depth",
    "reached_max_pipeline_hierarchy_size",
    "Canceled",
    "Configuration",
];

/// Whether a cause says that a person must mend something, so that no label makes the failure a flake.
///
/// `script_failure` of GitLab and `Job` and `Test` of LAVA are none of these: they are plain failures, which a log line can show to
/// be flakes. The lint refuses rules that would take them all.
pub fn is_user_error(cause: &str) -> bool {
    let word = cause.split(':').next().unwrap_or_default().trim();
    USER_ERRORS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Many rules, compiled: one pass over a log looks for the patterns of all of them.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<Arc<FlakeRule>>,
    patterns: LogPatterns,
}

impl RuleSet {
    /// Compiles rules: those of the operator go first, then the repository's, then issues by number.
    ///
    /// # Errors
    /// Everything that is wrong with any of them. Never an empty list.
    pub fn new(rules: Vec<FlakeRule>) -> Result<Self, Vec<RuleFault>> {
        let (set, faults) = Self::of_sound(rules);
        if faults.is_empty() { Ok(set) } else { Err(faults) }
    }

    /// Compiles the rules that are sound and tells what is wrong with the others, so that one bad rule stops nothing else.
    pub fn of_sound(mut rules: Vec<FlakeRule>) -> (Self, Vec<RuleFault>) {
        rules.sort_by(|a, b| a.origin.cmp(&b.origin));
        let mut faults = repeated(&rules);
        let mut sound = Vec::with_capacity(rules.len());
        for rule in rules {
            let own = lint(&rule);
            let is_second = faults.iter().any(|f| f.origin == rule.origin && f.label == rule.label)
                && sound.iter().any(|r: &Arc<FlakeRule>| r.origin == rule.origin && r.label == rule.label);
            if own.is_empty() && !is_second {
                sound.push(Arc::new(rule));
            }
            faults.extend(own);
        }
        let lines = sound.iter().enumerate().flat_map(|(at, rule)| rule.log.iter().map(move |p| (at, p.as_str())));
        let patterns = LogPatterns::new(lines, sound.len());
        (Self { rules: sound, patterns }, faults)
    }

    /// The rules, in the order in which they are asked.
    pub fn rules(&self) -> &[Arc<FlakeRule>] {
        &self.rules
    }

    /// The rules that the end and the typed cause of a failure match, in order. None for an end that is no flake.
    pub fn by_cause(&self, failure: &Failure<'_>) -> Vec<Match> {
        let matched = |rule: &Arc<FlakeRule>| rule.seen_in_cause(failure).map(|seen| rule.matched(seen));
        self.about(failure).filter_map(|(_, rule)| matched(rule)).collect()
    }

    /// Whether the log of this failure could match a rule that its cause does not.
    pub fn wants_log(&self, failure: &Failure<'_>) -> bool {
        self.wanting(failure).next().is_some()
    }

    /// The rules that a line of the log matches, in order; those that the cause matches already are left out.
    /// `text` is the end of the log without terminal codes, `cut` says that its beginning is missing.
    pub fn in_log(&self, failure: &Failure<'_>, text: &str, cut: bool) -> Vec<Match> {
        let mut open = vec![false; self.rules.len()];
        for (at, _) in self.wanting(failure) {
            if let Some(open) = open.get_mut(at) {
                *open = true;
            }
        }
        let found = self.patterns.first_lines(text, open);
        let matched = |(at, seen): (usize, super::log::Line)| {
            let rule = self.rules.get(at)?;
            Some(rule.matched(Seen::Log { line: seen.number, cut, excerpt: seen.excerpt }))
        };
        found.into_iter().filter_map(matched).collect()
    }

    fn about<'s>(&'s self, failure: &'s Failure<'_>) -> impl Iterator<Item = (usize, &'s Arc<FlakeRule>)> {
        let possible = can_be_flake(failure.end);
        self.rules.iter().enumerate().filter(move |(_, rule)| possible && rule.is_about(failure))
    }

    fn wanting<'s>(&'s self, failure: &'s Failure<'_>) -> impl Iterator<Item = (usize, &'s Arc<FlakeRule>)> {
        self.about(failure).filter(|(_, rule)| !rule.log.is_empty() && rule.seen_in_cause(failure).is_none())
    }
}

#[cfg(test)]
pub(super) mod tests;
