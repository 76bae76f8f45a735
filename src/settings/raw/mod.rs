//! The configuration file exactly as written: names, types and defaults, nothing else.
//!
//! serde refuses unknown keys and wrong types here and schemars turns the same structs into the JSON Schema, so file,
//! schema and code cannot disagree. Keys that must be given are `Option` all the same: a missing one is reported by the
//! checks beside all other faults, where serde would stop at the first. **Invariant:** a default stands here or nowhere.
//! Read next: `../general.rs`, `../forge.rs` and `../runner.rs`, which turn these into checked types.

mod api;
mod flake;
mod forge;
mod kernelci;
mod runner;

pub use api::{Api, ApiToken, Template};
pub use flake::{Autoretry, Flake, IssueFlake};
pub use forge::{API_VERSION, App, Forge, Secret};
pub use kernelci::Kernelci;
pub use runner::{
    Find, GRACE, INFRASTRUCTURE_CODES, Job, LOG_BYTES_MAX, PROCESSES_MAX, Pattern, Poll, Runner, Start, TIME_LIMIT,
    TOKEN_HEADER, TOKEN_SCHEME,
};

use super::who::RawWho;
use super::words::{Edited, LogFormat, MayLoosen, Role, WhenBroken};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole file.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Configuration of retest-bot")]
pub struct File {
    /// Where deliveries are received.
    pub server: Server,
    /// Where everything is kept.
    pub store: Store,
    /// What is logged, and how.
    pub log: Log,
    /// Where Prometheus reads.
    pub metrics: Metrics,
    /// The GitHub and GitLab instances served; at least one.
    pub forge: Vec<Forge>,
    /// The systems that execute jobs.
    pub runner: Vec<Runner>,
    /// How comments are read.
    pub commands: Commands,
    /// Which role a command needs.
    pub rights: Rights,
    /// How much may be restarted.
    pub limits: Limits,
    /// The policy that a repository keeps itself.
    pub policy: Policy,
    /// The status `retest` on a revision.
    pub status: Status,
    /// The report on a change.
    pub report: Report,
    /// The REST API.
    pub api: Api,
    /// Job descriptions that clients of the API may start by name.
    pub template: Vec<Template>,
    /// Retries of known flakes that nobody asks for.
    pub autoretry: Autoretry,
    /// What makes a failure a known flake. The first rule that fits, with budget left, counts.
    pub flake: Vec<Flake>,
}

/// The HTTP server that receives webhooks and callbacks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port to listen on. Put a reverse proxy with TLS in front of anything but loopback.
    pub listen: String,
    /// How the world reaches this server, for links and callbacks. Without it replies carry no links to us.
    pub public_url: Option<String>,
    /// Largest accepted body in bytes: the forges' own limit of 25 MiB and 64 KiB of slack. Larger gets 413.
    pub body_bytes_max: u64,
    /// A client must have sent its request header within this time.
    pub header_timeout: String,
    /// A request must be read and answered within this time; GitHub gives up after 10 s.
    pub request_timeout: String,
    /// Connections open at once; further ones wait to be accepted.
    pub connections_max: u64,
    /// On the first SIGTERM or SIGINT work in hand may take this long; a second signal stops at once.
    pub drain_timeout: String,
    /// Threads that run the server. Without it: one per processor.
    pub worker_threads: Option<u64>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".into(),
            public_url: None,
            body_bytes_max: 25 * 1024 * 1024 + 64 * 1024,
            header_timeout: "10s".into(),
            request_timeout: "10s".into(),
            connections_max: 1024,
            drain_timeout: "25s".into(),
            worker_threads: None,
        }
    }
}

/// The database.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// SQLite file; created when absent. Must lie on a local disk, not on a network file system.
    pub path: String,
    /// Deliveries, finished retries and records of closed changes are kept this long.
    pub retention: String,
    /// At most this many deliveries share one commit to disk.
    pub commit_batch_max: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self { path: "retest-bot.db".into(), retention: "30d".into(), commit_batch_max: 512 }
    }
}

/// Logging to standard error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// `text` for people, `json` for collectors.
    pub format: LogFormat,
    /// What is logged: a level, or directives such as `info,retest_bot::flow=debug`.
    pub filter: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".into() }
    }
}

/// Prometheus metrics.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// A separate address and port for `/metrics`. Without it the main server serves them.
    pub listen: Option<String>,
}

/// How comments are read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Commands {
    /// A word every command must start with, for places where other bots own `/retest`: with `lab`, people write `/lab retest`.
    pub prefix: Option<String>,
    /// Logins by which the bot may be addressed (`@LOGIN retest`), without the `@`.
    pub mention: Vec<String>,
    /// Commands obeyed in one comment; the rest is refused visibly.
    pub commands_max: u64,
    /// A comment older than this is not obeyed, whenever its delivery arrives.
    pub comment_age_max: String,
    /// Commands nobody may use here, by name.
    pub disabled: Vec<String>,
    /// Other bots' habits: a line that is just `phrase` is read as `means`.
    pub aliases: Vec<Alias>,
    /// Ready sets of aliases by name, such as `prow` or `zuul`; `config/aliases/` has them all.
    pub alias_packs: Vec<String>,
    /// What an edited comment may do: `ignore`, or `new_commands` for those the earlier text did not have.
    pub edited: Edited,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            prefix: None,
            mention: Vec::new(),
            commands_max: 20,
            comment_age_max: "72h".into(),
            disabled: Vec::new(),
            aliases: Vec::new(),
            alias_packs: Vec::new(),
            edited: Edited::NewCommands,
        }
    }
}

/// One alias.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Alias {
    /// The whole line as people write it, such as `recheck`.
    #[schemars(required)]
    pub phrase: Option<String>,
    /// The command it stands for, such as `/retest`.
    #[schemars(required)]
    pub means: Option<String>,
}

/// Who may give each command: a role, or a list of one role, teams, groups and people.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    /// For `/retest`.
    pub retest: RawWho,
    /// Whether the author of a change may `/retest` it below that role, when the head is their own branch here or was approved.
    pub retest_author: bool,
    /// For `--force`: also jobs that passed.
    pub force: RawWho,
    /// For `/test`.
    pub test: RawWho,
    /// For `/cancel` of other people's retries; who asked may always cancel.
    pub cancel: RawWho,
    /// For `/ok-to-test`.
    pub ok_to_test: RawWho,
    /// For `/help`, `/jobs` and `/why`.
    pub help: RawWho,
    /// For `/flake`: who may label a failure as a known flake.
    pub flake: RawWho,
    /// For `/autoretry`; the author of a change may always switch it off, and on where the author may `/retest`.
    pub autoretry: RawWho,
    /// For `/override`: who may set one of the bot's statuses to success.
    #[serde(rename = "override")]
    pub override_status: RawWho,
    /// A looked-up role is believed this long; `0s` asks the forge every time.
    pub role_cache: String,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            retest: RawWho::word("triage"),
            retest_author: true,
            force: RawWho::word("write"),
            test: RawWho::word("write"),
            cancel: RawWho::word("write"),
            ok_to_test: RawWho::word("write"),
            help: RawWho::word("read"),
            flake: RawWho::word("triage"),
            autoretry: RawWho::word("triage"),
            override_status: RawWho::word("maintain"),
            role_cache: "60s".into(),
        }
    }
}

/// Limits kept in the store, so that a restart does not forget them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Retries of one job on one head.
    pub retries_per_job_and_head: u64,
    /// Pause from one retry of a job on a head to the next; `0s` for none.
    pub cooldown: String,
    /// Retries on one change within an hour.
    pub retries_per_change_per_hour: u64,
    /// Retries on one change within 24 hours.
    pub retries_per_change_per_day: u64,
    /// Retries asked for by one person within an hour.
    pub retries_per_actor_per_hour: u64,
    /// Retries asked for by one person within 24 hours.
    pub retries_per_actor_per_day: u64,
    /// Retries in one repository within 24 hours. Without it: no limit.
    pub retries_per_repository_per_day: Option<u64>,
    /// Retries on one runner within 24 hours, whoever asks. Without it: no limit.
    pub retries_per_runner_per_day: Option<u64>,
    /// Jobs one command may start; more are left, each with that reason.
    pub jobs_per_command_max: u64,
    /// Runs of one job that `times=` may ask for at once, 50 at most. They count once against `retries_per_job_and_head` and a runner's
    /// `attempts_max`, and each against the limits of an hour and a day.
    pub times_max: u64,
    /// From this role on none of these limits holds but `jobs_per_command_max` and `times_max`. Without it: nobody is exempt.
    pub exempt_role: Option<Role>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            retries_per_job_and_head: 10,
            cooldown: "0s".into(),
            retries_per_change_per_hour: 200,
            retries_per_change_per_day: 1_000,
            retries_per_actor_per_hour: 200,
            retries_per_actor_per_day: 1_000,
            retries_per_repository_per_day: None,
            retries_per_runner_per_day: None,
            jobs_per_command_max: 100,
            times_max: 10,
            exempt_role: None,
        }
    }
}

/// The policy that a repository keeps in a file of its own, on its default branch.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Whether repositories may have one.
    pub enabled: bool,
    /// The file.
    pub path: String,
    /// After this time the forge is asked whether the file has changed; a command never waits for that within five times as long.
    pub refresh: String,
    /// What holds while the file cannot be used: `last_good`, what it said before, or `defaults`, this configuration alone.
    pub when_broken: WhenBroken,
    /// What the file may make easier than this configuration has it; all else it can only make harder.
    pub may_loosen: Vec<MayLoosen>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            enabled: true,
            path: ".retest.toml".into(),
            refresh: "60s".into(),
            when_broken: WhenBroken::LastGood,
            may_loosen: vec![MayLoosen::Rights, MayLoosen::Jobs, MayLoosen::Runners],
        }
    }
}

/// The aggregate status of a revision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Status {
    /// Its name on the forge; merge rules may require it.
    pub aggregate_context: String,
    /// Whether it is posted on every head with jobs, and tells of them all, and not only where something was retried: merge rules and
    /// merge queues can then require it in place of the single jobs, and wait while a known flake is retried.
    pub always: bool,
    /// Where it links to. Without it: our page of the change, if `server.public_url` is set.
    pub target_url: Option<String>,
}

impl Default for Status {
    fn default() -> Self {
        Self { aggregate_context: "retest".into(), always: false, target_url: None }
    }
}

/// The one comment per change that is kept up to date.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Report {
    /// Whether there is a report. Without it people see reactions and statuses only.
    pub enabled: bool,
    /// Whether a command's comment gets a reaction as the first answer.
    pub reaction: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self { enabled: true, reaction: true }
    }
}
