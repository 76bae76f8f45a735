//! `retest-bot check` and `backup`: what an operator does before and beside a running bot.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::app::Operators;
use crate::settings::Policy;
use crate::store::Store;

pub(super) fn run(config: &Path) -> anyhow::Result<ExitCode> {
    let settings = super::load(config)?;
    crate::app::grammar(&settings)?;
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
    super::print_line("the configuration is good")
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
