//! `[[runner]]` and `[[runner.job]]` as written.
//!
//! One flat struct serves all modules, so that a key of another module gets a fault of its own instead of "unknown".
//! Read next: `../runner.rs`, which says which key belongs to which module.

use super::super::words::{BodyFormat, Method, RunState, RunnerModule};
use super::{Kernelci, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Processes one exec runner runs at once unless the file says otherwise.
pub const PROCESSES_MAX: u64 = 4;
/// Time an exec run has to end by itself unless the file says otherwise.
pub const GRACE: &str = "5s";
/// Exit codes of an exec job that mean it could not judge, unless the file says otherwise: `EX_TEMPFAIL` of sysexits.h.
pub const INFRASTRUCTURE_CODES: [i32; 1] = [75];
/// Wall-clock limit of one exec job unless the file says otherwise.
pub const TIME_LIMIT: &str = "1h";
/// Log kept of one exec run unless the file says otherwise: 10 MiB.
pub const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Header that carries the token of an http runner unless the file says otherwise.
pub const TOKEN_HEADER: &str = "Authorization";
/// Word before that token unless the file says otherwise.
pub const TOKEN_SCHEME: &str = "Bearer";

/// One system that executes jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Runner {
    /// Our name for it. Lower-case letters, digits and `-`.
    #[schemars(required)]
    pub name: Option<String>,
    /// The module that drives it.
    #[schemars(required)]
    pub kind: Option<RunnerModule>,
    /// Name of the forge whose changes it serves. `github_actions`, `gitlab_ci`: the only forge of that kind unless given.
    /// The others: every forge unless given.
    pub forge: Option<String>,
    /// Repositories it serves, as globs like those of the forge.
    pub repositories: Vec<String>,
    /// Runs of one job on one head, the first included.
    pub attempts_max: u64,
    /// A run that has not ended by then is given up as expired.
    pub deadline: String,
    /// Shortest pause between two looks at an open run.
    pub poll_min: String,
    /// Longest pause between two looks at an open run; the pause doubles up to it.
    pub poll_max: String,
    /// Jobs: for `exec` and `http` all there are; for the others what the system itself cannot tell about some of its jobs.
    pub job: Vec<Job>,

    /// How others' statuses and checks about its jobs look, so that they are joined to the runs they point to. http, lava:
    /// a status must fit all that one entry says. lava: the job pages of its address unless given.
    pub patterns: Option<Vec<Pattern>>,

    /// lava only: the instance.
    pub lava: Option<Lava>,
    /// kernelci only: the instance.
    pub kernelci: Option<Kernelci>,

    /// exec only: folder for the state, logs and working folders of runs.
    pub directory: Option<String>,
    /// exec only: processes at once; further runs wait.
    #[schemars(extend("default" = PROCESSES_MAX))]
    pub processes_max: Option<u64>,
    /// exec only: a run that is ended has this long to end by itself before it is killed.
    #[schemars(extend("default" = GRACE))]
    pub grace: Option<String>,

    /// http only: the request that starts a run.
    pub start: Option<Start>,
    /// http only: how to look at a run. This or `callback` is needed.
    pub poll: Option<Poll>,
    /// http only: how to find a run by our key when the answer to its start was lost.
    pub find: Option<Find>,
    /// http only: how to cancel a run.
    pub cancel: Option<Cancel>,
    /// http only: the other system reports the end itself, to the address in `{{ callback_url }}`.
    #[schemars(extend("default" = false))]
    pub callback: Option<bool>,
    /// http only: secret of at least 24 bytes that the token of each run's callback is made from; needed with `callback`.
    pub callback_secret: Option<Secret>,
    /// http only: secret sent with every request.
    pub token: Option<Secret>,
    /// http only: header that carries it.
    #[schemars(extend("default" = TOKEN_HEADER))]
    pub token_header: Option<String>,
    /// http only: word before it in that header; empty for none.
    #[schemars(extend("default" = TOKEN_SCHEME))]
    pub token_scheme: Option<String>,
    /// http only: `HOST` or `HOST:PORT` that may be contacted. Without it: those of the addresses above.
    pub allowed_hosts: Option<Vec<String>>,
}

impl Default for Runner {
    fn default() -> Self {
        Self {
            name: None,
            kind: None,
            forge: None,
            repositories: vec!["**".into()],
            attempts_max: 5,
            deadline: "24h".into(),
            poll_min: "10s".into(),
            poll_max: "5m".into(),
            job: Vec::new(),
            patterns: None,
            lava: None,
            kernelci: None,
            directory: None,
            processes_max: None,
            grace: None,
            start: None,
            poll: None,
            find: None,
            cancel: None,
            callback: None,
            callback_secret: None,
            token: None,
            token_header: None,
            token_scheme: None,
            allowed_hosts: None,
        }
    }
}

/// One job, or one pattern of jobs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    /// Its name as people write it after `/retest`. Excludes `pattern`.
    pub name: Option<String>,
    /// Not for exec: a glob over job names. The first entry that matches a job counts.
    pub pattern: Option<String>,
    /// Keys people may override with `key=value`.
    pub overrides: Vec<String>,
    /// Whether a new run needs nothing but the revision and inputs that still exist.
    /// exec, http: true unless given or `needs` is not empty. Others: the system is asked unless given.
    #[schemars(extend("default" = true))]
    pub standalone: Option<bool>,
    /// Names of jobs of this runner that must have passed on the head before.
    pub needs: Vec<String>,
    /// Whether it must pass before a merge. exec, http: no unless given. Others: the forge is asked unless given.
    #[schemars(extend("default" = false))]
    pub required: Option<bool>,
    /// Groups it belongs to: `/retest GROUP` means all of them.
    pub groups: Vec<String>,
    /// What it runs on, for `/retest platform:NAME`.
    pub platform: Option<String>,
    /// Whether known flakes of it may be retried unasked.
    #[schemars(extend("default" = true))]
    pub auto_retry: Option<bool>,

    /// exec only: program and arguments, given to the process as they stand. No shell reads them.
    pub command: Option<Vec<String>>,
    /// exec only: folder the process starts in. Without it: an empty folder of the run's own.
    pub working_directory: Option<String>,
    /// exec only: a run that takes longer is killed with its children.
    #[schemars(extend("default" = TIME_LIMIT))]
    pub time_limit: Option<String>,
    /// exec only: variables added to the process's environment. Names starting with `RETEST_` are ours.
    pub environment: Option<BTreeMap<String, String>>,
    /// exec only: bytes of log kept of one run; the middle of a longer one is dropped.
    #[schemars(extend("default" = LOG_BYTES_MAX))]
    pub log_bytes_max: Option<u64>,
    /// exec only: exit codes that mean "could not judge" instead of "failed".
    #[schemars(extend("default" = INFRASTRUCTURE_CODES))]
    pub infrastructure_codes: Option<Vec<i32>>,
}

/// The request that starts a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Start {
    /// Its method.
    pub method: Method,
    /// Its address, a template from the path on.
    #[schemars(required)]
    pub url: Option<String>,
    /// Further headers; the values are templates. Those without a value in them go with every request of the runner.
    pub headers: BTreeMap<String, String>,
    /// Its body, a template.
    pub body: Option<String>,
    /// `json`: values stand in quotes, or bring them with the filter `tojson`. `form`: `name={{ value }}&…`.
    pub body_format: BodyFormat,
    /// JSON pointer to the run's id in the answer.
    pub id_pointer: Option<String>,
    /// JSON pointer to the run's page in the answer.
    pub url_pointer: Option<String>,
    /// Status codes that mean the run was accepted.
    pub success: Vec<u16>,
    /// This and every other request of the runner may take this long.
    pub timeout: String,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            method: Method::Post,
            url: None,
            headers: BTreeMap::new(),
            body: None,
            body_format: BodyFormat::Json,
            id_pointer: None,
            url_pointer: None,
            success: vec![200, 201, 202],
            timeout: "20s".into(),
        }
    }
}

/// How to look at a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Poll {
    /// Address that answers with the run as JSON, a template from the path on.
    #[schemars(required)]
    pub url: Option<String>,
    /// JSON pointer to the run's state in the answer.
    pub state_pointer: String,
    /// What each word of the other system means; our own words need no entry. Any other word counts as still running.
    pub states: BTreeMap<String, RunState>,
    /// JSON pointer to the run's page in the answer.
    pub url_pointer: Option<String>,
    /// JSON pointer to the reason why a run failed.
    pub cause_pointer: Option<String>,
    /// Address of the run's log as plain text, a template from the path on.
    pub log_url: Option<String>,
}

impl Default for Poll {
    fn default() -> Self {
        Self {
            url: None,
            state_pointer: "/state".into(),
            states: BTreeMap::new(),
            url_pointer: None,
            cause_pointer: None,
            log_url: None,
        }
    }
}

/// How to find a run by our key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Find {
    /// Address that answers with the run as JSON, or with 404 when there is none; a template from the path on that holds `{{ key }}`.
    #[schemars(required)]
    pub url: Option<String>,
    /// JSON pointer to the run's id in the answer.
    #[schemars(required)]
    pub id_pointer: Option<String>,
}

/// How to cancel a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cancel {
    /// Its method.
    pub method: Method,
    /// Its address, a template from the path on.
    #[schemars(required)]
    pub url: Option<String>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self { method: Method::Post, url: None }
    }
}

/// How a status or check about a job of a runner looks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// Address of the run's page with `{id}` where it names the run; `*` stands for anything but `/`, `?` and `#`.
    pub url: Option<String>,
    /// A glob over the status's name.
    pub context: Option<String>,
}

/// A LAVA instance.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lava {
    /// Its address.
    #[schemars(required)]
    pub url: Option<String>,
    /// A token of the account that submits.
    #[schemars(required)]
    pub token: Option<Secret>,
    /// Any request may take this long.
    pub timeout: String,
    /// Globs over test suites, with or without LAVA's number before the name: a failed test case of one of them makes a job
    /// failed that LAVA calls complete. Empty: only LAVA's health counts.
    pub suites: Vec<String>,
    /// Metadata that the LAVA job of a job carries, with `{sha}`, `{job}`, `{repository}` and `{change}` for the revision's own.
    /// It finds the job when a status does not name it, and a status that names another is not followed.
    pub metadata: BTreeMap<String, String>,
    /// Device tags that it asks for, with the same values.
    pub tags: Vec<String>,
    /// Beginnings that addresses in overrides must have; empty: any http or https address.
    pub url_prefixes: Vec<String>,
    /// Secret of at least 24 bytes that the token of each job's callback is made from. Without it LAVA is only polled.
    pub callback_secret: Option<Secret>,
}

impl Default for Lava {
    fn default() -> Self {
        Self {
            url: None,
            token: None,
            timeout: "20s".into(),
            suites: vec!["*".into()],
            metadata: BTreeMap::new(),
            tags: Vec::new(),
            url_prefixes: Vec::new(),
            callback_secret: None,
        }
    }
}
