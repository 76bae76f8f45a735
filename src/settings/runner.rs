//! `[[runner]]`, checked: what all runners have, and which keys belong to which module.
//!
//! Refused: keys of another module, a forge that is not there or of the wrong kind, jobs that need each other in a circle.
//! Read next: `runner_exec.rs`, `runner_http.rs` and `runner_lava.rs` for the modules that have keys of their own, `runner_job.rs` for jobs.

use super::check::{Check, DECADE, MINUTE, RepositoryGlobs};
use super::raw;
use super::runner_exec::{self, Exec};
use super::runner_http::{self, Http};
use super::runner_job::{self, Job};
use super::runner_kernelci::{self, Kernelci};
use super::runner_lava::{self, Lava};
use super::runner_pattern::{self, Pattern};
use super::words::{ForgeKind, RunnerModule};
use std::time::Duration;

/// One system that executes jobs.
#[derive(Debug, Clone)]
pub struct Runner {
    /// Our name for it.
    pub name: String,
    /// The forge whose changes it serves. Always given for GitHub Actions and GitLab CI; `None` is every forge.
    pub forge: Option<String>,
    /// Repositories it serves.
    pub repositories: RepositoryGlobs,
    /// Runs of one job on one head, the first included.
    pub attempts_max: u32,
    /// Age at which a run that has not ended is given up.
    pub deadline: Duration,
    /// Shortest pause between two looks at a run.
    pub poll_min: Duration,
    /// Longest pause between two looks at a run; at least `poll_min`.
    pub poll_max: Duration,
    /// What is known about its jobs. For exec and http these are all jobs, for the others they only add knowledge.
    pub jobs: Vec<Job>,
    /// How others' statuses and checks about its jobs look.
    pub patterns: Vec<Pattern>,
    /// What only its module has.
    pub kind: RunnerDetails,
}

/// What only one module has.
#[derive(Debug, Clone)]
pub enum RunnerDetails {
    /// GitHub Actions.
    GithubActions,
    /// GitLab CI.
    GitlabCi,
    /// Local processes.
    Exec(Exec),
    /// Templated requests.
    Http(Box<Http>),
    /// A LAVA lab.
    Lava(Box<Lava>),
    /// A KernelCI instance.
    Kernelci(Box<Kernelci>),
}

impl Runner {
    /// The module that drives it.
    pub fn module(&self) -> RunnerModule {
        match self.kind {
            RunnerDetails::GithubActions => RunnerModule::GithubActions,
            RunnerDetails::GitlabCi => RunnerModule::GitlabCi,
            RunnerDetails::Exec(_) => RunnerModule::Exec,
            RunnerDetails::Http(_) => RunnerModule::Http,
            RunnerDetails::Lava(_) => RunnerModule::Lava,
            RunnerDetails::Kernelci(_) => RunnerModule::Kernelci,
        }
    }

    /// The first entry about a job of this name.
    pub fn job(&self, name: &str) -> Option<&Job> {
        self.jobs.iter().find(|job| job.name.matches(name))
    }
}

/// What the checks of a runner need to know of the rest of the file.
pub(super) struct Surroundings<'f> {
    /// All forges as written.
    pub forges: &'f [raw::Forge],
    /// Whether `server.public_url` is given.
    pub has_public_url: bool,
}

/// Checks all of `[[runner]]`.
pub(super) fn runners(check: &mut Check<'_>, raw: &[raw::Runner], around: &Surroundings<'_>) -> Vec<Runner> {
    if raw.is_empty() && !check.is_gone("runner") {
        check.warn("runner", "there is no runner, so nothing can be restarted");
    }
    let names = raw.iter().enumerate().filter_map(|(i, r)| Some((format!("runner[{i}].name"), r.name.as_deref()?)));
    check.distinct(names, "runner");
    let directories =
        raw.iter().enumerate().filter_map(|(i, r)| Some((format!("runner[{i}].directory"), r.directory.as_deref()?)));
    check.distinct(directories, "runner's folder");
    raw.iter().enumerate().filter_map(|(i, raw)| runner(check, &format!("runner[{i}]"), raw, around)).collect()
}

fn runner(check: &mut Check<'_>, path: &str, raw: &raw::Runner, around: &Surroundings<'_>) -> Option<Runner> {
    let at = |key: &str| format!("{path}.{key}");
    let name = check.needed(&at("name"), raw.name.as_ref(), "choose one, such as `actions`");
    let name = name.map(|name| check.slug(&at("name"), name));
    let modules =
        "write `kind = \"github_actions\"`, `\"gitlab_ci\"`, `\"exec\"`, `\"http\"`, `\"lava\"` or `\"kernelci\"`";
    let module = check.needed(&at("kind"), raw.kind, modules);
    let repositories = check.repositories(&at("repositories"), &raw.repositories);
    let attempts_max = check.whole(&at("attempts_max"), raw.attempts_max, 1..=1000);
    let deadline = check.duration(&at("deadline"), &raw.deadline, Duration::from_secs(1)..=DECADE);
    let pauses = Duration::from_millis(1)..=60 * MINUTE;
    let poll_min = check.duration(&at("poll_min"), &raw.poll_min, pauses.clone());
    let poll_max = check.duration(&at("poll_max"), &raw.poll_max, pauses);
    if let (Some(min), Some(max)) = (poll_min, poll_max)
        && min > max
    {
        check.fault(&at("poll_min"), "is longer than `poll_max`", "lower it, or raise `poll_max`");
    }
    let module = module?;
    refuse_foreign_keys(check, path, module, raw);
    let forge = forge_of(check, path, module, raw, around.forges);
    let jobs = runner_job::jobs(check, path, module, &raw.job);
    let kind = match module {
        RunnerModule::GithubActions => Some(RunnerDetails::GithubActions),
        RunnerModule::GitlabCi => Some(RunnerDetails::GitlabCi),
        RunnerModule::Exec => runner_exec::exec(check, path, raw).map(RunnerDetails::Exec),
        RunnerModule::Http => {
            runner_http::http(check, path, raw, around).map(|http| RunnerDetails::Http(Box::new(http)))
        }
        RunnerModule::Lava => {
            runner_lava::lava(check, path, raw, around).map(|lava| RunnerDetails::Lava(Box::new(lava)))
        }
        RunnerModule::Kernelci => runner_kernelci::kernelci(check, path, raw.kernelci.as_ref())
            .map(|kernelci| RunnerDetails::Kernelci(Box::new(kernelci))),
    };
    let own = if let Some(RunnerDetails::Lava(lava)) = &kind { Some(lava.page()) } else { None };
    let patterns = runner_pattern::patterns(check, path, module, raw.patterns.as_deref(), own.as_deref());
    Some(Runner {
        name: name?,
        forge,
        repositories,
        attempts_max,
        deadline: deadline?,
        poll_min: poll_min?,
        poll_max: poll_max?,
        jobs,
        patterns,
        kind: kind?,
    })
}

/// Faults for keys that another module has.
fn refuse_foreign_keys(check: &mut Check<'_>, path: &str, module: RunnerModule, raw: &raw::Runner) {
    use RunnerModule::{Exec, Http, Kernelci, Lava};
    let keys = [
        ("directory", raw.directory.is_some(), Exec),
        ("processes_max", raw.processes_max.is_some(), Exec),
        ("grace", raw.grace.is_some(), Exec),
        ("start", raw.start.is_some(), Http),
        ("poll", raw.poll.is_some(), Http),
        ("find", raw.find.is_some(), Http),
        ("cancel", raw.cancel.is_some(), Http),
        ("callback", raw.callback.is_some(), Http),
        ("callback_secret", raw.callback_secret.is_some(), Http),
        ("token", raw.token.is_some(), Http),
        ("token_header", raw.token_header.is_some(), Http),
        ("token_scheme", raw.token_scheme.is_some(), Http),
        ("allowed_hosts", raw.allowed_hosts.is_some(), Http),
        ("lava", raw.lava.is_some(), Lava),
        ("kernelci", raw.kernelci.is_some(), Kernelci),
    ];
    for (key, given, owner) in keys {
        if given && owner != module {
            let text = format!("is a key of {owner} runners, and this is a {module} runner");
            check.fault(&format!("{path}.{key}"), text, "take it out");
        }
    }
}

/// The forge a runner belongs to.
fn forge_of(
    check: &mut Check<'_>,
    path: &str,
    module: RunnerModule,
    raw: &raw::Runner,
    forges: &[raw::Forge],
) -> Option<String> {
    let path = format!("{path}.forge");
    let wanted = match module {
        RunnerModule::GithubActions => Some(ForgeKind::Github),
        RunnerModule::GitlabCi => Some(ForgeKind::Gitlab),
        RunnerModule::Exec | RunnerModule::Http | RunnerModule::Lava | RunnerModule::Kernelci => None,
    };
    if let Some(name) = &raw.forge {
        let names: Vec<&str> = forges.iter().filter_map(|f| f.name.as_deref()).collect();
        check.one_of(&path, name, &names);
        let kind = forges.iter().find(|f| f.name.as_ref() == Some(name)).and_then(|f| f.kind);
        if let (Some(kind), Some(wanted)) = (kind, wanted)
            && kind != wanted
        {
            let text = format!("`{name}` is a {kind} forge, and {module} runs jobs of {wanted} only");
            check.fault(&path, text, format!("name a {wanted} forge"));
        }
        return Some(name.clone());
    }
    let wanted = wanted?;
    let fitting: Vec<&raw::Forge> = forges.iter().filter(|f| f.kind == Some(wanted)).collect();
    match fitting.as_slice() {
        [only] => only.name.clone(),
        [] => {
            check.fault(&path, format!("there is no {wanted} forge"), format!("add a [[forge]] of kind `{wanted}`"));
            None
        }
        _ => {
            check.fault(&path, format!("is missing, and there are several {wanted} forges"), "name one of them");
            None
        }
    }
}
