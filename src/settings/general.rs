//! The checked sections that are there once: server, store, log, metrics, commands, rights, limits, status, report.
//!
//! Refused: numbers and durations out of their range, addresses that are none, words that no command has, a retention so
//! short that a comment could be obeyed twice. Read next: `forge.rs`.

use super::check::{Check, DAY, DECADE, MINUTE};
use super::raw;
use super::who::{self, Who};
use super::words::{Edited, LogFormat, MayLoosen, Role, WhenBroken};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Commands that may be disabled or stand behind an alias, as people write them.
pub const COMMANDS: [&str; 10] =
    ["retest", "test", "cancel", "help", "jobs", "why", "ok-to-test", "flake", "autoretry", "override"];

/// Most runs that `times=` takes: the limit of the grammar.
const TIMES_MAX: u64 = 50;
/// Largest figure of a limit over a span.
pub(super) const RETRIES_MAX: u64 = 1_000_000;

/// `[server]`: the HTTP server that receives webhooks and callbacks.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it listens.
    pub listen: SocketAddr,
    /// How the world reaches it; no slash at the end of its path, save the bare host's.
    pub public_url: Option<Url>,
    /// Largest accepted body in bytes.
    pub body_bytes_max: usize,
    /// Time for a request's header to arrive.
    pub header_timeout: Duration,
    /// Time for a request to be read and answered.
    pub request_timeout: Duration,
    /// Connections open at once.
    pub connections_max: usize,
    /// Time that work in hand gets after the first stop signal.
    pub drain_timeout: Duration,
    /// Threads of the server; `None` is one per processor.
    pub worker_threads: Option<usize>,
}

/// `[store]`: the database.
#[derive(Debug, Clone)]
pub struct Store {
    /// The SQLite file, relative to the working directory unless absolute.
    pub path: PathBuf,
    /// Age at which finished things are deleted; at least `commands.comment_age_max`.
    pub retention: Duration,
    /// Deliveries that may share one commit.
    pub commit_batch_max: usize,
}

/// `[log]`: logging to standard error.
#[derive(Debug, Clone)]
pub struct Log {
    /// Shape of the lines.
    pub format: LogFormat,
    /// Directives of `tracing-subscriber`'s `EnvFilter`; not parsed here.
    pub filter: String,
}

/// `[metrics]`: Prometheus metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// A separate address; `None` when the main server serves them.
    pub listen: Option<SocketAddr>,
}

/// `[commands]`: how comments are read.
#[derive(Debug, Clone)]
pub struct Commands {
    /// Word that every command must start with.
    pub prefix: Option<String>,
    /// Logins by which the bot may be addressed, without `@`.
    pub mention: Vec<String>,
    /// Commands obeyed in one comment.
    pub commands_max: usize,
    /// Age from which a comment is not obeyed.
    pub comment_age_max: Duration,
    /// Commands nobody may use; each one of [`COMMANDS`].
    pub disabled: Vec<String>,
    /// Lines that stand for a command.
    pub aliases: Vec<Alias>,
    /// What an edited comment may do.
    pub edited: Edited,
}

/// One alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The whole line as people write it.
    pub phrase: String,
    /// The command it stands for, starting with `/`.
    pub means: String,
}

/// `[rights]`: who may give each command.
#[derive(Debug, Clone)]
pub struct Rights {
    /// For `/retest`.
    pub retest: Who,
    /// Whether an author may `/retest` an approved head or one on their own branch below that role.
    pub retest_author: bool,
    /// For `--force`.
    pub force: Who,
    /// For `/test`.
    pub test: Who,
    /// For `/cancel` of other people's retries.
    pub cancel: Who,
    /// For `/ok-to-test`.
    pub ok_to_test: Who,
    /// For `/help`, `/jobs` and `/why`.
    pub help: Who,
    /// For `/flake`.
    pub flake: Who,
    /// For `/autoretry` of others than the author.
    pub autoretry: Who,
    /// For `/override`.
    pub override_status: Who,
    /// How long a looked-up role or membership is believed; at most 10 minutes.
    pub role_cache: Duration,
}

/// `[limits]`: how much may be restarted.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Retries of one job on one head.
    pub retries_per_job_and_head: u32,
    /// Pause between two retries of a job on a head; zero for none.
    pub cooldown: Duration,
    /// Retries on one change within an hour.
    pub retries_per_change_per_hour: u32,
    /// Retries on one change within 24 hours.
    pub retries_per_change_per_day: u32,
    /// Retries asked for by one person within an hour.
    pub retries_per_actor_per_hour: u32,
    /// Retries asked for by one person within 24 hours.
    pub retries_per_actor_per_day: u32,
    /// Retries in one repository within 24 hours; none for no limit.
    pub retries_per_repository_per_day: Option<u32>,
    /// Retries on one runner within 24 hours; none for no limit.
    pub retries_per_runner_per_day: Option<u32>,
    /// Jobs one command may start.
    pub jobs_per_command_max: u32,
    /// Runs of one job that `times=` may ask for at once.
    pub times_max: u32,
    /// From this role on only the two above hold; none when nobody is exempt.
    pub exempt_role: Option<Role>,
}

/// `[policy]`: the policy that a repository keeps itself.
#[derive(Debug, Clone)]
pub struct RepositoryPolicy {
    /// Whether there may be one.
    pub enabled: bool,
    /// Its file, relative to the root of the repository.
    pub path: String,
    /// Time after which the forge is asked whether it has changed.
    pub refresh: Duration,
    /// What holds while it cannot be used.
    pub when_broken: WhenBroken,
    /// What it may make easier.
    pub may_loosen: Vec<MayLoosen>,
}

/// `[status]`: the aggregate status of a revision.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its name on the forge.
    pub aggregate_context: String,
    /// Whether it tells of all jobs of every head.
    pub always: bool,
    /// Where it links to.
    pub target_url: Option<Url>,
}

/// `[report]`: the one comment per change that is kept up to date.
#[derive(Debug, Clone)]
pub struct Report {
    /// Whether there is one.
    pub enabled: bool,
    /// Whether commands get a reaction.
    pub reaction: bool,
}

/// Checks `[server]`.
pub(super) fn server(check: &mut Check<'_>, raw: &raw::Server) -> Server {
    let timeouts = Duration::from_millis(100)..=5 * MINUTE;
    Server {
        listen: listen(check, "server.listen", &raw.listen),
        public_url: raw.public_url.as_ref().and_then(|url| check.address("server.public_url", url)),
        body_bytes_max: check.whole("server.body_bytes_max", raw.body_bytes_max, 64 * 1024..=256 * 1024 * 1024),
        header_timeout: check
            .duration("server.header_timeout", &raw.header_timeout, timeouts.clone())
            .unwrap_or_default(),
        request_timeout: check.duration("server.request_timeout", &raw.request_timeout, timeouts).unwrap_or_default(),
        connections_max: check.whole("server.connections_max", raw.connections_max, 1..=65_536),
        drain_timeout: check
            .duration("server.drain_timeout", &raw.drain_timeout, Duration::ZERO..=10 * MINUTE)
            .unwrap_or_default(),
        worker_threads: raw.worker_threads.map(|n| check.whole("server.worker_threads", n, 1..=1024)),
    }
}

/// Checks `[metrics]`.
pub(super) fn metrics(check: &mut Check<'_>, raw: &raw::Metrics, server: &Server) -> Metrics {
    let listen = raw.listen.as_ref().map(|text| listen(check, "metrics.listen", text));
    if listen.is_some_and(|l| l == server.listen && l.port() != 0) {
        check.fault(
            "metrics.listen",
            "is the address of the main server",
            "choose another port, or leave the key out: the main server has `/metrics` then",
        );
    }
    Metrics { listen }
}

fn listen(check: &mut Check<'_>, path: &str, text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|_| {
        check.fault(
            path,
            format!("`{text}` is not an IP address and a port"),
            "write `127.0.0.1:8080`, or `[::]:8080` for all addresses",
        );
        SocketAddr::from(([127, 0, 0, 1], 0))
    })
}

/// Checks `[store]`, which must outlive what `[commands]` still obeys.
pub(super) fn store(check: &mut Check<'_>, raw: &raw::Store, commands: &Commands) -> Store {
    if raw.path.is_empty() || raw.path.starts_with("sqlite:") {
        check.fault("store.path", "is not a path", "name the file itself, such as `/var/lib/retest-bot/retest-bot.db`");
    }
    let retention = check.duration("store.retention", &raw.retention, MINUTE..=DECADE);
    if let Some(retention) = retention
        && retention < commands.comment_age_max
    {
        let age = humantime::format_duration(commands.comment_age_max);
        check.fault(
            "store.retention",
            format!(
                "is shorter than `commands.comment_age_max` (`{age}`), so a comment could be forgotten and obeyed twice"
            ),
            format!("choose `{age}` or more"),
        );
    }
    Store {
        path: PathBuf::from(&raw.path),
        retention: retention.unwrap_or_default(),
        commit_batch_max: check.whole("store.commit_batch_max", raw.commit_batch_max, 1..=100_000),
    }
}

/// Checks `[log]`.
pub(super) fn log(check: &mut Check<'_>, raw: &raw::Log) -> Log {
    Log { format: raw.format, filter: check.words("log.filter", &raw.filter, 1000) }
}

/// Checks `[commands]`.
pub(super) fn commands(check: &mut Check<'_>, raw: &raw::Commands, on_gitlab: bool) -> Commands {
    for (i, name) in raw.disabled.iter().enumerate() {
        check.one_of(&format!("commands.disabled[{i}]"), name, &COMMANDS);
    }
    for (i, login) in raw.mention.iter().enumerate() {
        self::login(check, &format!("commands.mention[{i}]"), login);
    }
    if let Some(prefix) = &raw.prefix
        && !prefix.starts_with('/')
    {
        check.slug("commands.prefix", prefix);
    } else if raw.prefix.is_some() {
        check.fault(
            "commands.prefix",
            "starts with `/`",
            "write the word alone: with `lab`, people write `/lab retest`",
        );
    }
    Commands {
        prefix: raw.prefix.clone(),
        mention: raw.mention.clone(),
        commands_max: check.whole("commands.commands_max", raw.commands_max, 1..=1000),
        comment_age_max: check
            .duration("commands.comment_age_max", &raw.comment_age_max, MINUTE..=DECADE)
            .unwrap_or_default(),
        disabled: raw.disabled.clone(),
        aliases: super::aliases::aliases(check, raw, on_gitlab),
        edited: raw.edited,
    }
}

/// A login without the `@`.
pub(super) fn login(check: &mut Check<'_>, path: &str, text: &str) -> String {
    let fits =
        !text.is_empty() && text.len() <= 255 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.[]".contains(c));
    if !fits {
        check.fault(path, format!("`{text}` is not a login"), "write it without the `@`, such as `retest-bot`");
    }
    text.to_owned()
}

/// Checks `[rights]`.
pub(super) fn rights(check: &mut Check<'_>, raw: &raw::Rights) -> Rights {
    let mut open = |path: &str, raw| {
        let who = who::who(check, path, raw);
        if let Some(role) = who.role.filter(|role| *role < Role::Triage) {
            check.warn(path, format!("`{role}` lets strangers start or stop jobs"));
        }
        who
    };
    let (retest, force) = (open("rights.retest", &raw.retest), open("rights.force", &raw.force));
    let (test, cancel) = (open("rights.test", &raw.test), open("rights.cancel", &raw.cancel));
    let ok_to_test = open("rights.ok_to_test", &raw.ok_to_test);
    let (flake, autoretry) = (open("rights.flake", &raw.flake), open("rights.autoretry", &raw.autoretry));
    let override_status = open("rights.override", &raw.override_status);
    Rights {
        retest,
        retest_author: raw.retest_author,
        force,
        test,
        cancel,
        ok_to_test,
        help: who::who(check, "rights.help", &raw.help),
        flake,
        autoretry,
        override_status,
        role_cache: check
            .duration("rights.role_cache", &raw.role_cache, Duration::ZERO..=10 * MINUTE)
            .unwrap_or_default(),
    }
}

/// Checks `[limits]`.
pub(super) fn limits(check: &mut Check<'_>, raw: &raw::Limits) -> Limits {
    let mut within = |key: &str, figure: u64, max: u64| check.whole(&format!("limits.{key}"), figure, 1..=max);
    Limits {
        retries_per_job_and_head: within("retries_per_job_and_head", raw.retries_per_job_and_head, 1000),
        retries_per_change_per_hour: within(
            "retries_per_change_per_hour",
            raw.retries_per_change_per_hour,
            RETRIES_MAX,
        ),
        retries_per_change_per_day: within("retries_per_change_per_day", raw.retries_per_change_per_day, RETRIES_MAX),
        retries_per_actor_per_hour: within("retries_per_actor_per_hour", raw.retries_per_actor_per_hour, RETRIES_MAX),
        retries_per_actor_per_day: within("retries_per_actor_per_day", raw.retries_per_actor_per_day, RETRIES_MAX),
        retries_per_repository_per_day: raw
            .retries_per_repository_per_day
            .map(|max| within("retries_per_repository_per_day", max, RETRIES_MAX)),
        retries_per_runner_per_day: raw
            .retries_per_runner_per_day
            .map(|max| within("retries_per_runner_per_day", max, RETRIES_MAX)),
        jobs_per_command_max: within("jobs_per_command_max", raw.jobs_per_command_max, 100_000),
        times_max: within("times_max", raw.times_max, TIMES_MAX),
        cooldown: check.duration("limits.cooldown", &raw.cooldown, Duration::ZERO..=DAY).unwrap_or_default(),
        exempt_role: raw.exempt_role,
    }
}

/// Checks `[policy]`.
pub(super) fn policy(check: &mut Check<'_>, raw: &raw::Policy) -> RepositoryPolicy {
    let parts = raw.path.split('/');
    let plain = parts.clone().all(|part| !part.is_empty() && part != "." && part != "..");
    if !plain || raw.path.chars().any(|c| c.is_control() || c == '\\') || raw.path.len() > 200 {
        check.fault(
            "policy.path",
            "is not a path inside a repository",
            "write it like `.retest.toml` or `ci/retest.toml`",
        );
    }
    let refresh = Duration::from_secs(1)..=DAY;
    RepositoryPolicy {
        enabled: raw.enabled,
        path: raw.path.clone(),
        refresh: check.duration("policy.refresh", &raw.refresh, refresh).unwrap_or_default(),
        when_broken: raw.when_broken,
        may_loosen: raw.may_loosen.clone(),
    }
}

/// Checks `[status]`.
pub(super) fn status(check: &mut Check<'_>, raw: &raw::Status) -> Status {
    Status {
        aggregate_context: check.words("status.aggregate_context", &raw.aggregate_context, 100),
        always: raw.always,
        target_url: raw.target_url.as_ref().and_then(|url| check.address("status.target_url", url)),
    }
}
