//! Looks into the bot's database from outside, read-only, to know when it has worked everything off.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

fn count(folder: &Path, text: &'static str) -> anyhow::Result<i64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(folder.join("retest-bot.db")).read_only(true);
        let mut database = options.connect().await.context("the bot's database cannot be opened")?;
        Ok(sqlx::query_scalar(text).fetch_one(&mut database).await?)
    })
}

/// How many deliveries the bot has stored.
pub fn stored(folder: &Path) -> anyhow::Result<i64> {
    count(folder, "SELECT count(*) FROM deliveries")
}

/// How many jobs the bot has on record.
pub fn jobs(folder: &Path) -> anyhow::Result<i64> {
    count(folder, "SELECT count(*) FROM jobs")
}

/// Waits until no stored delivery is left to be worked on.
pub fn until_worked_off(folder: &Path, at_most: Duration) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let open = count(folder, "SELECT count(*) FROM deliveries WHERE state = 0")?;
        if open == 0 {
            return Ok(());
        }
        if started.elapsed() > at_most {
            bail!("{open} deliveries were not worked on within {at_most:?}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
