//! `retest-bot check` and `backup`: what an operator does before and beside a running bot.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

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
