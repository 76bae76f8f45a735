//! `retest-bot check` and `backup`: what an operator does before and beside a running bot.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::app::Operators;
use crate::settings::{Policy, RunnerDetails, Settings};
use crate::store::Store;

pub(super) fn run(config: &Path) -> anyhow::Result<ExitCode> {
    let settings = super::load(config)?;
    crate::app::grammar(&settings)?;
    let about_flakes = crate::app::check_flakes(&settings)?;
    super::serve::log_filter(&settings)?;
    super::print_line(settings.summary().trim_end())?;
    let base = settings.server.public_url.as_ref().map_or_else(
        || format!("http://{}", settings.server.listen),
        |url| url.as_str().trim_end_matches('/').to_owned(),
    );
    for forge in &settings.forges {
        super::print_line(&format!("webhook URL for `{}`: {base}/webhooks/{}", forge.name, forge.name))?;
    }
    for warning in settings.warnings() {
        super::print_line(&format!("warning: {warning}"))?;
    }
    for warning in about_flakes.into_iter().chain(here(&settings)) {
        super::print_line(&format!("warning: {warning}"))?;
    }
    super::print_line("the configuration is good")
}

/// What this machine lacks: no fault of the file, which may be meant for another one.
fn here(settings: &Settings) -> Vec<String> {
    let mut found = Vec::new();
    if settings.runners.is_empty() {
        found.push(
            "no runner is configured, so every job is answered with \"not managed here\"; add a [[runner]]".into(),
        );
    }
    if settings.server.public_url.is_none() {
        found.push("server.public_url is not set: the webhook URLs above are those of the listening address".into());
    }
    let folder = settings.store.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        found.push(format!(
            "the folder `{}` of store.path does not exist here; make it for the user that serves",
            folder.display()
        ));
    }
    for runner in &settings.runners {
        let RunnerDetails::Exec(exec) = &runner.kind else { continue };
        for one in &exec.commands {
            let program = one.command.first().map(String::as_str).unwrap_or_default();
            if !is_there(program) {
                found
                    .push(format!("runner `{}`, job `{}`: there is no program `{program}` here", runner.name, one.job));
            }
            if let Some(folder) = one.working_directory.as_ref().filter(|folder| !folder.is_dir()) {
                found.push(format!(
                    "runner `{}`, job `{}`: there is no folder `{}` here",
                    runner.name,
                    one.job,
                    folder.display()
                ));
            }
        }
    }
    found
}

/// Whether a program would be found: by its path, or in `PATH`.
fn is_there(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Checks a repository's policy; all faults at once, each with its line.
pub(super) fn policy(file: &Path) -> anyhow::Result<ExitCode> {
    let text = super::read_input(file)?;
    let policy = Policy::parse(&text)
        .map_err(|errors| anyhow::anyhow!("the policy `{}` cannot be used:\n{errors:#}", file.display()))?;
    if let Err(faults) = Operators::of(None)?.read(&text) {
        anyhow::bail!("the policy `{}` cannot be used:\n{}", file.display(), faults.join("\n"));
    }
    super::print_line(&policy.summary())?;
    for warning in &policy.warnings {
        super::print_line(&format!("warning: {warning}"))?;
    }
    super::print_line("the policy is good; it counts once it is on the default branch")
}

pub(super) fn backup(config: &Path, database: Option<&Path>, target: &Path) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!target.exists(), "`{}` exists; a backup overwrites nothing", target.display());
    let path = match database {
        Some(path) => path.to_owned(),
        None => super::load(config)?.store.path,
    };
    anyhow::ensure!(path.exists(), "there is no database at `{}` yet", path.display());
    super::serve::runtime(Some(1))?.block_on(async {
        let store = Store::open(&path, 1).await?;
        store.backup(target).await.with_context(|| format!("`{}` cannot be written", target.display()))?;
        store.close().await;
        anyhow::Ok(())
    })?;
    super::print_line(&format!("copied to {}", target.display()))
}
