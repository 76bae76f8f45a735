//! The store: SQL lives here and nowhere else.
//!
//! SQLite in WAL mode with `synchronous=FULL`. One writing connection, a few reading ones. Deliveries are committed in
//! groups: every request that waits while a commit is under way goes into the next one ([`Store::accept`]).
//! It holds facts and intents and decides nothing. Callers see values and [`Tx`]; a second database fits in behind them.
//! Read next: `deliveries.rs`, `record.rs`, `retries.rs`, `answers.rs`.

mod answers;
mod deliveries;
mod failures;
mod issues;
mod line;
mod lock;
mod policies;
mod record;
mod requests;
mod retries;
mod tx;
mod used;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use thiserror::Error;

pub use answers::{AuditEntry, DueReaction, PostKind, Unreported};
pub use deliveries::{Accepted, NewDelivery, StoredDelivery, WaitingDeliveries};
pub use failures::{FailedRun, UnaskedCount};
pub use issues::FlakeIssue;
pub use lock::Lock;
pub use policies::StoredPolicy;
pub use record::{JobQuery, StoredChange};
pub use requests::{EarlierRequest, RetryQuery};
pub use tx::Tx;
pub use view::{CommandView, GroupFacts, ViewQuery};

/// Every migration, in order: number, name, text.
const MIGRATIONS: &[(i64, &str, &str)] = &[(1, "init", include_str!("migrations/0001_init.sql"))];

/// Reading connections: a snapshot takes a few short look-ups, so a handful serves hundreds of repositories.
const READERS: usize = 4;

/// How long a connection waits for the file lock, in milliseconds; only a backup or a shell can hold it.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the store could not do it.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database refused or could not be reached; nothing was written.
    #[error("the database did not do it: {0}")]
    Database(#[from] sqlx::Error),
    /// The database's schema is not one that this program knows.
    #[error("the database schema does not fit this program: {0}; start the newer program, or restore a backup")]
    Schema(#[from] sqlx::migrate::MigrateError),
    /// A stored value cannot be read: written by a newer program, or damaged.
    #[error("a stored value cannot be read ({what}): {error}")]
    Unreadable {
        /// Which value.
        what: &'static str,
        /// What is wrong with it.
        error: String,
    },
    /// The database took nothing of a batch of deliveries; the log has its words.
    #[error("the database did not take it")]
    Refused,
    /// The writer has stopped: the program is going down.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether a row of the same key was there: nothing was written.
    pub fn is_conflict(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }
}

/// What the store gives back.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    write: line::Lines,
    read: line::Lines,
    group: deliveries::Group,
    version: Arc<tx::Versions>,
}

impl Store {
    /// Opens the database file, making or migrating it.
    ///
    /// `batch_max` is how many deliveries share one commit at most.
    ///
    /// # Errors
    /// When the file cannot be opened, or holds a schema of a newer program.
    pub async fn open(path: &Path, batch_max: usize) -> Result<Self> {
        only_for_us(path);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("journal_size_limit", "67108864")
            .optimize_on_close(true, None);
        let write = line::Lines::new(options.clone(), 1);
        let steps = MIGRATIONS.iter().map(|(version, name, text)| {
            Migration::new(*version, (*name).into(), MigrationType::Simple, (*text).into_sql_str(), false)
        });
        Migrator::with_migrations(steps.collect()).run(write.hold().await?.connection()?).await?;
        let read = line::Lines::new(options.read_only(true).create_if_missing(false), READERS);
        let group = deliveries::Group::start(write.clone(), batch_max);
        Ok(Self { write, read, group, version: Arc::default() })
    }

    /// Starts a write transaction; it holds the only writing connection until it is committed or dropped.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn begin(&self) -> Result<Tx> {
        Ok(Tx::new(self.write.hold().await?, Arc::clone(&self.version)))
    }

    /// Counts the transactions of this life whose rows are seen by whoever looks from now on. Deliveries as they arrive and
    /// notes of what was posted do not count.
    pub fn version(&self) -> u64 {
        self.version.seen()
    }

    /// Whether no transaction has written anything since the one that made this version, not even half of it.
    pub fn is_still(&self, version: u64) -> bool {
        self.version.begun() == version
    }

    /// Writes something that does not matter, to see whether that works again.
    ///
    /// # Errors
    /// When it does not.
    pub async fn write_something(&self) -> Result<()> {
        self.set_meta("tried", "").await?;
        self.group.heal();
        Ok(())
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.read).await?;
        Ok(())
    }

    /// Writes a complete, consistent copy of the database to `path` while work goes on.
    ///
    /// # Errors
    /// When the target exists or cannot be written.
    pub async fn backup(&self, path: &Path) -> Result<()> {
        if !path.exists() {
            only_for_us(path); // an empty file is what VACUUM INTO accepts, and it keeps its mode
        }
        sqlx::query("VACUUM INTO $1").bind(path.to_string_lossy().into_owned()).execute(&self.read).await?;
        Ok(())
    }

    /// Closes every connection, the log file folded in. Waits for transactions under way.
    pub async fn close(&self) {
        self.group.stop().await;
        self.read.close().await;
        self.write.close().await;
    }

    /// A small named value.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn meta(&self, name: &str) -> Result<Option<String>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT value FROM meta WHERE name = $1").bind(name).fetch_optional(&self.read).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Sets a small named value.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn set_meta(&self, name: &str, value: &str) -> Result<()> {
        sqlx::query(
            "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&self.write)
        .await?;
        Ok(())
    }
}

/// Makes the file with a mode that keeps other users out: comments of private repositories stand in it. SQLite gives its
/// side files the same mode. Whatever fails here is told by the opening that follows.
fn only_for_us(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).ok();
}

/// Reads a JSON column.
fn from_json<T: serde::de::DeserializeOwned>(what: &'static str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Unreadable { what, error: error.to_string() })
}

/// Writes a JSON column.
fn to_json<T: serde::Serialize>(what: &'static str, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Unreadable { what, error: error.to_string() })
}

/// Ids are unsigned outside and `BIGINT` inside; both forges count far below 2^63.
fn db(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

/// The way back from [`db`].
fn un_db(id: i64) -> u64 {
    u64::try_from(id).unwrap_or(0)
}
