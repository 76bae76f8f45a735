//! The operator's configuration: one TOML file, read and checked once, before anything else is done.
//!
//! [`Settings`] is what is left when nothing is wrong; everybody behind it may rely on its values. When something is wrong, all
//! faults are told at once, each with its place and the next thing to do, and the program does not start. Secrets are pointed
//! to by the file and never stand in it; they cannot be printed from here. This module does nothing with the values: it
//! opens no port, contacts nobody and imports no other module of ours.
//! Read next: `raw/mod.rs` for the keys, `general.rs`, `forge.rs` and `runner.rs` for the checks.

mod aliases;
mod api;
mod check;
mod document;
mod errors;
mod flake;
mod forge;
mod general;
mod policy;
mod raw;
mod runner;
mod runner_exec;
mod runner_http;
mod runner_job;
mod runner_kernelci;
mod runner_lava;
mod runner_pattern;
mod schema;
mod secret;
mod summary;
mod template;
mod who;
mod wording;
mod words;

#[cfg(test)]
mod tests;

pub use api::{Api, ApiToken, JobTemplate};
pub use check::RepositoryGlobs;
pub use errors::{Place, SettingsError, SettingsErrors};
pub use flake::{Autoretry, Breaker, Flake, FlakeBlock, extend_flake_issue, line_of, parse_flake_issue};
pub use forge::{Forge, ForgeDetails, Github, GithubAuth, Gitlab};
pub use general::{
    Alias, COMMANDS, Commands, Limits, Log, Metrics, Report, RepositoryPolicy, Rights, Server, Status, Store,
};
pub use policy::{
    JobPolicy, POLICY_BYTES_MAX, Policy, PolicyAutoretry, PolicyLimits, PolicyReport, PolicyRights, RunnerPolicy,
    policy_schema,
};
pub use runner::{Runner, RunnerDetails};
pub use runner_exec::{Exec, ExecCommand};
pub use runner_http::{Body, Cancel, Find, Http, HttpToken, Poll, Start};
pub use runner_job::{Job, JobSelector};
pub use runner_kernelci::Kernelci;
pub use runner_lava::Lava;
pub use runner_pattern::Pattern;
pub use schema::json_schema;
pub use secret::{SIGNING_KEY_BYTES, Secret, Secrets, SigningKey, SystemSecrets, WEBHOOK_SECRET_BYTES_MIN};
pub use template::{CALLBACK_NAMES, LOG_NAMES, ORDER_NAMES, RUN_NAMES, Template, UrlTemplate};
pub use who::Who;
pub use words::{
    ApiScope, BodyFormat, Clean, Edited, FlakeEnd, ForgeKind, LogFormat, MayLoosen, Method, Role, RunState,
    RunnerModule, WhenBroken,
};

use check::Check;
use std::path::Path;

/// The whole configuration, checked. `Debug` shows everything but secrets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where deliveries are received.
    pub server: Server,
    /// Where everything is kept.
    pub store: Store,
    /// What is logged, and how.
    pub log: Log,
    /// Where Prometheus reads.
    pub metrics: Metrics,
    /// The forges; at least one, no two of one name.
    pub forges: Vec<Forge>,
    /// The runners; no two of one name.
    pub runners: Vec<Runner>,
    /// How comments are read.
    pub commands: Commands,
    /// Which role a command needs.
    pub rights: Rights,
    /// How much may be restarted.
    pub limits: Limits,
    /// The policy that a repository keeps itself.
    pub policy: RepositoryPolicy,
    /// The aggregate status.
    pub status: Status,
    /// The report.
    pub report: Report,
    /// The REST API.
    pub api: Api,
    /// Job descriptions that clients of the API may start by name; no two of one name.
    pub templates: Vec<JobTemplate>,
    /// Retries that nobody asks for.
    pub autoretry: Autoretry,
    /// What makes a failure a known flake; no two of one label.
    pub flakes: Vec<Flake>,
    warnings: Vec<String>,
}

impl Settings {
    /// Reads and checks the file at `path`, with secrets from the process's environment and files.
    ///
    /// # Errors
    /// Everything that is wrong with it; or the one reason why it cannot be read.
    pub fn load(path: &Path) -> Result<Self, SettingsErrors> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let text = format!("cannot read the configuration file `{}`: {error}", path.display());
            SettingsError::new("", text, "start from config/example.toml, or name another file")
        })?;
        Self::parse(&text, &SystemSecrets)
    }

    /// Checks the configuration in `text`, with the secrets it points to from `secrets`.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file. Never an empty list.
    pub fn parse(text: &str, secrets: &dyn Secrets) -> Result<Self, SettingsErrors> {
        let reading = document::read::<raw::File>(text)?;
        let mut check = Check::new(secrets, reading.gone);
        let settings = Self::checked(&mut check, &reading.file);
        let (found, warnings) = check.finish();
        document::verdict(reading.faults, found, &reading.map)?;
        Ok(Self { warnings, ..settings })
    }

    /// Checks every section; where there are faults the result holds stand-ins.
    fn checked(check: &mut Check<'_>, file: &raw::File) -> Self {
        let server = general::server(check, &file.server);
        let metrics = general::metrics(check, &file.metrics, &server);
        let on_gitlab = file.forge.iter().any(|forge| forge.kind == Some(ForgeKind::Gitlab));
        let commands = general::commands(check, &file.commands, on_gitlab);
        let runner_names: Vec<&str> = file.runner.iter().filter_map(|runner| runner.name.as_deref()).collect();
        let around = runner::Surroundings { forges: &file.forge, has_public_url: file.server.public_url.is_some() };
        Self {
            store: general::store(check, &file.store, &commands),
            log: general::log(check, &file.log),
            forges: forge::forges(check, &file.forge),
            runners: runner::runners(check, &file.runner, &around),
            rights: general::rights(check, &file.rights),
            limits: general::limits(check, &file.limits),
            policy: general::policy(check, &file.policy),
            status: general::status(check, &file.status),
            report: Report { enabled: file.report.enabled, reaction: file.report.reaction },
            api: api::api(check, &file.api),
            templates: api::templates(check, &file.template, &file.runner),
            autoretry: flake::autoretry(check, &file.autoretry),
            flakes: flake::flakes(check, &file.flake, Some(&runner_names)),
            server,
            metrics,
            commands,
            warnings: Vec::new(),
        }
    }

    /// The configuration in a few lines without any secret, for the log and for `retest-bot check`.
    pub fn summary(&self) -> String {
        summary::summary(self)
    }

    /// What works but should be known, one sentence each, starting with the path.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The forge of this name.
    pub fn forge(&self, name: &str) -> Option<&Forge> {
        self.forges.iter().find(|forge| forge.name == name)
    }

    /// The runner of this name.
    pub fn runner(&self, name: &str) -> Option<&Runner> {
        self.runners.iter().find(|runner| runner.name == name)
    }
}
