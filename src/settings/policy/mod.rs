//! The policy that a repository keeps on its default branch: one TOML file, checked as strictly as the operator's.
//!
//! [`Policy::parse`] tells all faults at once, each with its line. Refused beside what the schema refuses: entries without
//! exactly one of `name` and `pattern`, names given twice, needs in a circle, `retryable = false` without a reason, rights that
//! would let strangers start or approve what never ran. It knows neither the operator's file nor any forge; what may be made
//! easier is decided in `decide/terms.rs`. Read next: `raw.rs` for the keys.

mod raw;
#[cfg(test)]
mod tests;

use super::check::{Check, DAY};
use super::document;
use super::errors::{SettingsError, SettingsErrors};
use super::flake::Flake;
use super::general::{Alias, COMMANDS, RETRIES_MAX};
use super::runner_job::{JobSelector, circle_from, override_key};
use super::schema;
use super::who::{self, RawWho, Who};
use super::words::{Clean, Role};
use globset::{Glob, GlobMatcher};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Largest file that is read, in bytes: room for a thousand jobs.
pub const POLICY_BYTES_MAX: usize = 64 * 1024;

/// The word for everybody who may start the job.
const ASKER: &str = "asker";

/// A repository's policy, checked.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Rights that it sets.
    pub rights: PolicyRights,
    /// Figures that it sets.
    pub limits: PolicyLimits,
    /// How the bot speaks.
    pub report: PolicyReport,
    /// Phrases that stand for commands.
    pub aliases: Vec<Alias>,
    /// Commands that nobody may use; each one of [`COMMANDS`].
    pub disabled: Vec<String>,
    /// What it says of jobs; the first that fits counts.
    pub jobs: Vec<JobPolicy>,
    /// Which jobs belong to which runner.
    pub runners: Vec<RunnerPolicy>,
    /// What makes a failure a known flake; no two of one label.
    pub flakes: Vec<Flake>,
    /// Retries that nobody asks for.
    pub autoretry: PolicyAutoretry,
    /// What works and may surprise.
    pub warnings: Vec<String>,
}

/// `[autoretry]`.
#[derive(Debug, Clone)]
pub struct PolicyAutoretry {
    /// Whether there are any.
    pub enabled: bool,
    /// Whether every required job must pass after a picked retest.
    pub clean: Clean,
    /// Times that each picked job must pass; 1 is no more than usual.
    pub clean_passes: u32,
}

/// `[rights]`; none leaves the operator's.
#[derive(Debug, Clone)]
pub struct PolicyRights {
    /// For `/retest`.
    pub retest: Option<Who>,
    /// Whether authors may retest below that.
    pub retest_author: Option<bool>,
    /// For `--force`.
    pub force: Option<Who>,
    /// For `/test`.
    pub test: Option<Who>,
    /// For `/cancel`.
    pub cancel: Option<Who>,
    /// For `/ok-to-test`.
    pub ok_to_test: Option<Who>,
    /// For `/help`, `/jobs`, `/why`.
    pub help: Option<Who>,
    /// For `/flake`.
    pub flake: Option<Who>,
    /// For `/autoretry`.
    pub autoretry: Option<Who>,
    /// For `/override`.
    pub override_status: Option<Who>,
}

/// `[limits]`; none leaves the operator's.
#[derive(Debug, Clone)]
pub struct PolicyLimits {
    /// Retries of one job on one head.
    pub retries_per_job_and_head: Option<u32>,
    /// Pause between two retries of a job on a head.
    pub cooldown: Option<Duration>,
    /// Retries on one change within an hour.
    pub retries_per_change_per_hour: Option<u32>,
    /// Retries on one change within 24 hours.
    pub retries_per_change_per_day: Option<u32>,
    /// Retries asked for by one person within an hour.
    pub retries_per_actor_per_hour: Option<u32>,
    /// Retries asked for by one person within 24 hours.
    pub retries_per_actor_per_day: Option<u32>,
    /// Retries in the repository within 24 hours.
    pub retries_per_repository_per_day: Option<u32>,
    /// Jobs one command may start.
    pub jobs_per_command_max: Option<u32>,
}

/// `[report]`.
#[derive(Debug, Clone)]
pub struct PolicyReport {
    /// Whether there is one.
    pub comment: bool,
    /// Whether statuses and check runs are posted.
    pub statuses: bool,
    /// Whether it waits until there is something to say.
    pub quiet: bool,
}

/// `[[job]]`.
#[derive(Debug, Clone)]
pub struct JobPolicy {
    /// Which job, or jobs.
    pub which: JobSelector,
    /// Whether it stands alone.
    pub standalone: Option<bool>,
    /// What it needs.
    pub needs: Option<Vec<String>>,
    /// Why it must not be started again; none when it may.
    pub never: Option<String>,
    /// Who alone may start it.
    pub retest: Option<Who>,
    /// Fields that may be changed, and by whom; `None` inside is everybody who may start it.
    pub overrides: Option<BTreeMap<String, Option<Who>>>,
    /// Whether it must pass before a merge.
    pub required: Option<bool>,
    /// What it runs on.
    pub platform: Option<String>,
    /// Groups it belongs to.
    pub groups: Vec<String>,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Whether known flakes of it may be retried unasked; `None`: not said.
    pub auto_retry: Option<bool>,
}

/// `[[runner]]`.
#[derive(Debug, Clone)]
pub struct RunnerPolicy {
    /// The operator's runner.
    pub name: String,
    /// Jobs that belong to it.
    pub jobs: Vec<GlobMatcher>,
}

/// The JSON Schema (draft 2020-12) of the policy file.
pub fn policy_schema() -> Value {
    schema::of::<raw::File>()
}

impl Policy {
    /// Checks the policy in `text`.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file. Never an empty list.
    pub fn parse(text: &str) -> Result<Self, SettingsErrors> {
        if text.len() > POLICY_BYTES_MAX {
            let fault = format!("has {} bytes; at most {POLICY_BYTES_MAX} are read", text.len());
            return Err(SettingsError::new("", fault, "use patterns instead of single jobs").into());
        }
        let reading = document::read::<raw::File>(text)?;
        let no_secrets: BTreeMap<String, String> = BTreeMap::new();
        let mut check = Check::new(&no_secrets, reading.gone);
        let policy = checked(&mut check, &reading.file);
        let (found, warnings) = check.finish();
        document::verdict(reading.faults, found, &reading.map)?;
        Ok(Self { warnings, ..policy })
    }

    /// The policy in a few lines, for `retest-bot check --policy`.
    pub fn summary(&self) -> String {
        let jobs: Vec<&str> = self.jobs.iter().map(|job| job.which.as_str()).collect();
        let runners: Vec<&str> = self.runners.iter().map(|runner| runner.name.as_str()).collect();
        let list = |of: &[&str]| if of.is_empty() { "none".to_owned() } else { of.join(", ") };
        let rights = &self.rights;
        let set = [
            ("retest", &rights.retest),
            ("force", &rights.force),
            ("test", &rights.test),
            ("cancel", &rights.cancel),
            ("ok-to-test", &rights.ok_to_test),
            ("help", &rights.help),
            ("flake", &rights.flake),
            ("autoretry", &rights.autoretry),
            ("override", &rights.override_status),
        ];
        let mut said: Vec<String> =
            set.iter().filter_map(|(command, who)| Some(format!("{command} {}", who.as_ref()?))).collect();
        said.extend(
            rights.retest_author.map(|may| format!("authors {}", if may { "may retest" } else { "may not retest" })),
        );
        let said = if said.is_empty() { "as the operator has them".to_owned() } else { said.join(", ") };
        format!(
            "rights: {said}\njobs: {}\nrunners: {}\naliases: {}, disabled: {}\nflakes retried unasked: {}\n{}",
            list(&jobs),
            list(&runners),
            self.aliases.len(),
            list(&self.disabled.iter().map(String::as_str).collect::<Vec<_>>()),
            if self.autoretry.enabled { "as the operator has it" } else { "no" },
            super::summary::flakes(&self.flakes)
        )
    }
}

fn checked(check: &mut Check<'_>, file: &raw::File) -> Policy {
    for (i, name) in file.commands.disabled.iter().enumerate() {
        check.one_of(&format!("commands.disabled[{i}]"), name, &COMMANDS);
    }
    let aliases = super::aliases::own(check, &file.commands.aliases);
    // It cannot be told from the file on which forge the repository is.
    for (i, alias) in aliases.iter().enumerate() {
        if let Some(text) = super::aliases::usurps(&alias.phrase, &alias.means) {
            check.fault(&format!("commands.aliases[{i}].phrase"), text, "choose a phrase that is no command");
        }
    }
    for (phrase, says) in super::aliases::lint(&aliases, true) {
        check.warn("commands.aliases", format!("`{phrase}` {says}"));
    }
    Policy {
        rights: rights(check, &file.rights),
        limits: limits(check, &file.limits),
        report: PolicyReport { comment: file.report.comment, statuses: file.report.statuses, quiet: file.report.quiet },
        aliases,
        disabled: file.commands.disabled.clone(),
        jobs: jobs(check, &file.job),
        runners: runners(check, &file.runner),
        flakes: super::flake::flakes(check, &file.flake, None),
        autoretry: autoretry(check, &file.autoretry),
        warnings: Vec::new(),
    }
}

fn rights(check: &mut Check<'_>, raw: &raw::Rights) -> PolicyRights {
    let mut who = |key: &str, raw: &Option<RawWho>, least: Role| {
        let path = format!("rights.{key}");
        let who = who::who(check, &path, raw.as_ref()?);
        if let Some(role) = who.role.filter(|role| *role < least) {
            let text = format!("`{role}` would let strangers start, stop or approve what never ran");
            check.fault(&path, text, format!("choose `{least}` or more, or a team"));
        }
        Some(who)
    };
    PolicyRights {
        // What ran may run again whoever asks, if a repository wants that; limits hold all the same.
        retest: who("retest", &raw.retest, Role::None),
        retest_author: raw.retest_author,
        force: who("force", &raw.force, Role::Triage),
        test: who("test", &raw.test, Role::Triage),
        cancel: who("cancel", &raw.cancel, Role::Triage),
        ok_to_test: who("ok_to_test", &raw.ok_to_test, Role::Triage),
        help: who("help", &raw.help, Role::None),
        flake: who("flake", &raw.flake, Role::Triage),
        autoretry: who("autoretry", &raw.autoretry, Role::Triage),
        override_status: who("override", &raw.override_status, Role::Write),
    }
}

fn autoretry(check: &mut Check<'_>, raw: &raw::Autoretry) -> PolicyAutoretry {
    let clean_passes = check.whole("autoretry.clean_passes", raw.clean_passes, 1..=20);
    if raw.clean == Clean::Full && clean_passes > 1 {
        let text = "stands beside `clean = \"full\"`, and a full run passes each job once";
        check.fault("autoretry.clean_passes", text, "keep one of the two");
    }
    PolicyAutoretry { enabled: raw.enabled, clean: raw.clean, clean_passes }
}

fn limits(check: &mut Check<'_>, raw: &raw::Limits) -> PolicyLimits {
    let cooldown = raw.cooldown.as_ref().and_then(|text| check.duration("limits.cooldown", text, Duration::ZERO..=DAY));
    let mut within =
        |key: &str, figure: Option<u64>, max: u64| figure.map(|n| check.whole(&format!("limits.{key}"), n, 1..=max));
    let (change_hour, change_day) = (raw.retries_per_change_per_hour, raw.retries_per_change_per_day);
    let (actor_hour, actor_day) = (raw.retries_per_actor_per_hour, raw.retries_per_actor_per_day);
    PolicyLimits {
        retries_per_job_and_head: within("retries_per_job_and_head", raw.retries_per_job_and_head, 1_000),
        cooldown,
        retries_per_change_per_hour: within("retries_per_change_per_hour", change_hour, RETRIES_MAX),
        retries_per_change_per_day: within("retries_per_change_per_day", change_day, RETRIES_MAX),
        retries_per_actor_per_hour: within("retries_per_actor_per_hour", actor_hour, RETRIES_MAX),
        retries_per_actor_per_day: within("retries_per_actor_per_day", actor_day, RETRIES_MAX),
        retries_per_repository_per_day: within(
            "retries_per_repository_per_day",
            raw.retries_per_repository_per_day,
            RETRIES_MAX,
        ),
        jobs_per_command_max: within("jobs_per_command_max", raw.jobs_per_command_max, 100_000),
    }
}

fn jobs(check: &mut Check<'_>, raw: &[raw::Job]) -> Vec<JobPolicy> {
    let names = raw.iter().enumerate().filter_map(|(i, job)| Some((format!("job[{i}].name"), job.name.as_deref()?)));
    check.distinct(names, "entry");
    let own: BTreeSet<String> = raw.iter().filter_map(|job| Some(job.name.as_ref()?.to_lowercase())).collect();
    let mut written = BTreeSet::new();
    for (i, job) in raw.iter().enumerate() {
        for (k, alias) in job.aliases.iter().enumerate() {
            let path = format!("job[{i}].aliases[{k}]");
            check.words(&path, alias, 255);
            if job.name.is_none() {
                check.fault(
                    &path,
                    "names one job, and this entry is about a pattern",
                    "give that job an entry of its own",
                );
            } else if let Some(meaning) = special(alias) {
                check.fault(&path, format!("`{alias}` {meaning}, so it never means a job"), "choose another word");
            } else if own.contains(&alias.to_lowercase()) {
                check.fault(&path, format!("`{alias}` is the name of a job"), "choose a word that is not");
            } else if !written.insert(alias.to_lowercase()) {
                check.fault(&path, format!("`{alias}` is another job's alias"), "keep one of the two");
            }
        }
    }
    let jobs: Vec<JobPolicy> =
        raw.iter().enumerate().filter_map(|(i, raw)| job(check, &format!("job[{i}]"), raw)).collect();
    no_circle(check, &jobs);
    jobs
}

/// What a word means where jobs are named, when that is something else than a job.
fn special(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    let starts = |with: &str| word.starts_with(with);
    match word.as_str() {
        "all" | "required" | "optional" | "failed" => Some("is a word of the commands' own"),
        "?" => Some("asks for a list"),
        _ if starts("runner:") || starts("platform:") => Some("picks jobs by where they run"),
        _ if starts("http://") || starts("https://") => Some("is read as the page of a run"),
        _ if word.starts_with(['-', '#', '/', '@']) => {
            Some("is read as something else where a word begins with that mark")
        }
        _ if word.contains(['*', '?', '[', '{']) => Some("is read as a pattern"),
        _ if word.contains('=') => Some("is read as a changed field"),
        _ => None,
    }
}

fn job(check: &mut Check<'_>, path: &str, raw: &raw::Job) -> Option<JobPolicy> {
    let at = |key: &str| format!("{path}.{key}");
    if raw.standalone == Some(true) && raw.needs.as_ref().is_some_and(|needs| !needs.is_empty()) {
        check.warn(&at("standalone"), "is true, so the `needs` beside it are never waited for; keep one of the two");
    }
    for (key, texts) in [("needs", raw.needs.as_deref().unwrap_or_default()), ("groups", &raw.groups)] {
        for (k, text) in texts.iter().enumerate() {
            check.words(&format!("{path}.{key}[{k}]"), text, 255);
        }
    }
    if let Some(platform) = &raw.platform {
        check.words(&at("platform"), platform, 100);
    }
    let never = match (raw.retryable, &raw.reason) {
        (true, Some(_)) => {
            check.fault(&at("reason"), "stands beside no `retryable = false`", "add that, or take the reason out");
            None
        }
        (true, None) => None,
        (false, Some(reason)) => Some(check.words(&at("reason"), reason, 100)),
        (false, None) => {
            check.fault(&at("retryable"), "says no, and nobody is told why", "add `reason = \"…\"` in a few words");
            None
        }
    };
    let overrides = raw.overrides.as_ref().map(|fields| {
        let mut checked = BTreeMap::new();
        for (key, raw) in fields {
            let path = super::wording::join(&at("overrides"), key);
            override_key(check, &path, key);
            let everybody = raw.0.iter().any(|word| word == ASKER);
            checked.insert(key.clone(), (!everybody).then(|| who::who(check, &path, raw)));
        }
        checked
    });
    Some(JobPolicy {
        which: which(check, path, raw)?,
        standalone: raw.standalone,
        needs: raw.needs.clone(),
        never,
        retest: raw.retest.as_ref().map(|raw| who::who(check, &at("retest"), raw)),
        overrides,
        required: raw.required,
        platform: raw.platform.clone(),
        groups: raw.groups.clone(),
        aliases: raw.aliases.clone(),
        auto_retry: raw.auto_retry,
    })
}

fn which(check: &mut Check<'_>, path: &str, raw: &raw::Job) -> Option<JobSelector> {
    let (name_path, pattern_path) = (format!("{path}.name"), format!("{path}.pattern"));
    match (&raw.name, &raw.pattern) {
        (Some(name), None) => Some(JobSelector::Name(check.words(&name_path, name, 255))),
        (None, Some(pattern)) => glob(check, &pattern_path, pattern).map(JobSelector::Pattern),
        (Some(_), Some(_)) => {
            check.fault(&pattern_path, "stands beside `name`", "keep one of them, in two entries if need be");
            None
        }
        (None, None) => {
            if !check.is_gone(&pattern_path) {
                check.fault(
                    &name_path,
                    "is missing, and so is `pattern`",
                    "write the job's name, or a glob over names",
                );
            }
            None
        }
    }
}

fn glob(check: &mut Check<'_>, path: &str, pattern: &str) -> Option<GlobMatcher> {
    match Glob::new(pattern) {
        Ok(glob) => Some(glob.compile_matcher()),
        Err(error) => {
            check.bad_glob(path, &error);
            None
        }
    }
}

fn no_circle(check: &mut Check<'_>, jobs: &[JobPolicy]) {
    let needs = |job: &JobPolicy| job.needs.clone().unwrap_or_default();
    let all: Vec<(String, Vec<String>)> = jobs.iter().map(|job| (job.which.as_str().to_owned(), needs(job))).collect();
    let edges: BTreeMap<&str, &[String]> = all.iter().map(|(job, needs)| (job.as_str(), needs.as_slice())).collect();
    for (i, (job, _)) in all.iter().enumerate() {
        if let Some(circle) = circle_from(job, &edges) {
            let text = format!("needs itself: {}", circle.join(" → "));
            check.fault(&format!("job[{i}].needs"), text, "take one of these needs out");
            return;
        }
    }
}

fn runners(check: &mut Check<'_>, raw: &[raw::Runner]) -> Vec<RunnerPolicy> {
    let mut out = Vec::new();
    for (i, raw) in raw.iter().enumerate() {
        let path = format!("runner[{i}].name");
        let name = check.needed(&path, raw.name.as_ref(), "write the name that the operator gave the runner");
        let name = name.map(|name| check.slug(&path, name));
        if raw.jobs.is_empty() {
            check.fault(
                &format!("runner[{i}].jobs"),
                "is missing, so the entry says nothing",
                "write jobs = [\"lava-*\"]",
            );
        }
        let globs =
            raw.jobs.iter().enumerate().filter_map(|(k, text)| glob(check, &format!("runner[{i}].jobs[{k}]"), text));
        let jobs: Vec<GlobMatcher> = globs.collect();
        if let Some(name) = name {
            out.push(RunnerPolicy { name, jobs });
        }
    }
    out
}
