//! `[[runner.job]]`, checked: what the operator says about a job, whichever runner has it.
//!
//! Refused: entries without exactly one of `name` and `pattern`, needs that no entry meets, circles of needs.
//! Read next: `runner_exec.rs`.

use super::check::Check;
use super::raw;
use super::words::RunnerModule;
use globset::{Glob, GlobMatcher};
use std::collections::BTreeMap;
use std::fmt;

/// What is known about a job, or about all jobs that match a pattern.
#[derive(Debug, Clone)]
pub struct Job {
    /// Which job, or jobs.
    pub name: JobSelector,
    /// Keys people may override.
    pub overrides: Vec<String>,
    /// Whether a new run needs nothing but the revision. Always said for exec and http; `None`: ask the runner.
    pub standalone: Option<bool>,
    /// Jobs of this runner that must have passed before.
    pub needs: Vec<String>,
    /// Whether it must pass before a merge. Always said for exec and http; `None`: ask the forge.
    pub required: Option<bool>,
    /// Groups it belongs to.
    pub groups: Vec<String>,
    /// What it runs on.
    pub platform: Option<String>,
    /// Whether known flakes of it may be retried unasked; `None`: yes.
    pub auto_retry: Option<bool>,
}

/// Which jobs an entry is about.
#[derive(Clone)]
pub enum JobSelector {
    /// The job of exactly this name.
    Name(String),
    /// Every job whose name matches the glob; `*` matches `/` too, since job names hold it freely.
    Pattern(GlobMatcher),
}

impl JobSelector {
    /// Whether it is about the job `name`. Letter case counts.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Pattern(glob) => glob.is_match(name),
        }
    }

    /// The name or the glob as written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Pattern(glob) => glob.glob().glob(),
        }
    }
}

impl fmt::Debug for JobSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name {name:?}"),
            Self::Pattern(glob) => write!(f, "pattern {:?}", glob.glob().glob()),
        }
    }
}

/// Checks all jobs of one runner.
pub(super) fn jobs(check: &mut Check<'_>, runner: &str, module: RunnerModule, raw: &[raw::Job]) -> Vec<Job> {
    let own_list = matches!(module, RunnerModule::Exec | RunnerModule::Http);
    if own_list && raw.is_empty() {
        let text = format!("there is no job, and a {module} runner has no others");
        check.fault(&format!("{runner}.job"), text, "add a section [[runner.job]] for each");
    }
    let names =
        raw.iter().enumerate().filter_map(|(i, j)| Some((format!("{runner}.job[{i}].name"), j.name.as_deref()?)));
    check.distinct(names, "job");
    let jobs = raw.iter().enumerate().filter_map(|(i, raw)| job(check, &format!("{runner}.job[{i}]"), module, raw));
    let jobs: Vec<Job> = jobs.collect();
    if jobs.len() == raw.len() {
        check_needs(check, runner, own_list, &jobs);
    }
    jobs
}

fn job(check: &mut Check<'_>, path: &str, module: RunnerModule, raw: &raw::Job) -> Option<Job> {
    let at = |key: &str| format!("{path}.{key}");
    let own_list = matches!(module, RunnerModule::Exec | RunnerModule::Http);
    for (i, key) in raw.overrides.iter().enumerate().filter(|_| module != RunnerModule::Exec) {
        override_key(check, &format!("{path}.overrides[{i}]"), key);
    }
    for (i, group) in raw.groups.iter().enumerate() {
        check.words(&format!("{path}.groups[{i}]"), group, 100);
    }
    if let Some(platform) = &raw.platform {
        check.words(&at("platform"), platform, 100);
    }
    if module != RunnerModule::Exec {
        let keys = [
            ("command", raw.command.is_some()),
            ("working_directory", raw.working_directory.is_some()),
            ("time_limit", raw.time_limit.is_some()),
            ("environment", raw.environment.is_some()),
            ("log_bytes_max", raw.log_bytes_max.is_some()),
            ("infrastructure_codes", raw.infrastructure_codes.is_some()),
        ];
        for (key, _) in keys.iter().filter(|(_, given)| *given) {
            let text = format!("is a key of exec jobs, and this is a {module} runner");
            check.fault(&at(key), text, "take it out");
        }
    }
    if raw.standalone == Some(true) && !raw.needs.is_empty() {
        check.warn(&at("standalone"), "is true, so the `needs` beside it are never waited for; keep one of the two");
    }
    Some(Job {
        name: selector(check, path, module, raw)?,
        overrides: raw.overrides.clone(),
        standalone: raw.standalone.or(own_list.then_some(raw.needs.is_empty())),
        needs: raw.needs.clone(),
        required: raw.required.or(own_list.then_some(false)),
        groups: raw.groups.clone(),
        platform: raw.platform.clone(),
        auto_retry: raw.auto_retry,
    })
}

fn selector(check: &mut Check<'_>, path: &str, module: RunnerModule, raw: &raw::Job) -> Option<JobSelector> {
    let (name_path, pattern_path) = (format!("{path}.name"), format!("{path}.pattern"));
    match (&raw.name, &raw.pattern) {
        (Some(name), None) => Some(JobSelector::Name(check.words(&name_path, name, 255))),
        (None, Some(_)) if module == RunnerModule::Exec => {
            check.fault(&pattern_path, "is not for exec runners: each job has its own command", "write `name`");
            None
        }
        (None, Some(pattern)) => match Glob::new(pattern) {
            Ok(glob) => Some(JobSelector::Pattern(glob.compile_matcher())),
            Err(error) => {
                check.bad_glob(&pattern_path, &error);
                None
            }
        },
        (Some(_), Some(_)) => {
            check.fault(&pattern_path, "stands beside `name`", "keep one of them, in two entries if need be");
            None
        }
        (None, None) => {
            if !check.is_gone(&pattern_path) {
                check.fault(&name_path, "is missing", "write the job's name as people shall write it");
            }
            None
        }
    }
}

/// The environment variable `variable` that the key `name` stands for: a plain name, and none of ours.
pub(super) fn variable(check: &mut Check<'_>, path: &str, name: &str, variable: &str) {
    let starts_well = variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || variable.len() > 100 || !variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        check.fault(path, format!("`{name}` cannot name a variable"), "use letters, digits and `_`, at most 100");
    } else if variable.starts_with("RETEST_") {
        check.fault(path, format!("`{name}` is ours: the bot sets `RETEST_…`"), "choose another name");
    }
}

/// A key as people write it in `key=value`.
pub(super) fn override_key(check: &mut Check<'_>, path: &str, key: &str) {
    let fits = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.len() <= 100
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !fits {
        check.fault(path, format!("`{key}` cannot be written as `key=value`"), "use letters, digits, `_` and `-`");
    }
}

/// Every need must be met by an entry, and following needs must end.
fn check_needs(check: &mut Check<'_>, runner: &str, own_list: bool, jobs: &[Job]) {
    let mut known: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
    known.sort_unstable();
    for (i, job) in jobs.iter().enumerate() {
        for (k, need) in job.needs.iter().enumerate() {
            let path = format!("{runner}.job[{i}].needs[{k}]");
            if own_list && !jobs.iter().any(|other| other.name.matches(need)) {
                check.one_of(&path, need, &known);
            }
        }
    }
    let edges: BTreeMap<&str, &[String]> = jobs.iter().map(|job| (job.name.as_str(), job.needs.as_slice())).collect();
    for (i, job) in jobs.iter().enumerate() {
        if let Some(circle) = circle_from(job.name.as_str(), &edges) {
            let text = format!("needs itself: {}", circle.join(" → "));
            check.fault(&format!("{runner}.job[{i}].needs"), text, "take one of these needs out");
            return;
        }
    }
}

/// The way from `start` along needs back to itself, if there is one. Visits every job once.
pub(super) fn circle_from<'j>(start: &'j str, edges: &BTreeMap<&'j str, &'j [String]>) -> Option<Vec<&'j str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(job) = open.pop() {
        for need in edges.get(job).copied().unwrap_or_default() {
            if need == start {
                let mut way = vec![start];
                let mut step = job;
                while step != start {
                    way.push(step);
                    step = came_from.get(step).copied().unwrap_or(start);
                }
                way.push(start);
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(need.as_str()) {
                came_from.insert(need, job);
                open.push(need);
            }
        }
    }
    None
}
