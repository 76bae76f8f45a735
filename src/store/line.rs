//! Connections to the database file, each used by one at a time.
//!
//! sqlx's own pool tests a connection whenever it comes back, which costs a turn of the connection's thread for each
//! statement; a file does not hang up. A connection that is in doubt is closed here and opened again when it is needed.
//! Read next: `tx.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteQueryResult, SqliteRow, SqliteStatement, SqliteTypeInfo,
};
use sqlx::{ConnectOptions, Connection, Either, Error, Execute, Executor, SqlStr, Sqlite, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// What a statement gives back: an end for each statement of a text, and rows before it.
pub(super) type Answers = Vec<Either<SqliteQueryResult, SqliteRow>>;

/// How long an open connection is waited for before another one is opened.
const PATIENCE: Duration = Duration::from_millis(2);

/// Some connections with the same options, opened when they are first needed.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: SqliteConnectOptions,
    slots: Vec<Arc<Mutex<Option<SqliteConnection>>>>,
    next: AtomicUsize,
    closed: AtomicBool,
}

/// A connection that only its holder uses.
#[derive(Debug)]
pub(super) struct Held(OwnedMutexGuard<Option<SqliteConnection>>);

impl Held {
    /// The connection.
    ///
    /// # Errors
    /// When it was closed because it was in doubt.
    pub fn connection(&mut self) -> Result<&mut SqliteConnection, Error> {
        self.0.as_mut().ok_or(Error::WorkerCrashed)
    }

    /// Ends what may be half done on it. A connection that cannot do so is closed, and opened anew by its next user.
    pub async fn roll_back(mut self) {
        let Some(connection) = self.0.as_mut() else { return };
        // Nothing may have begun; then SQLite says so in one of its few plain errors.
        let told = connection.execute("ROLLBACK").await;
        let clean = told.as_ref().err().is_none_or(|error| error.to_string().contains("no transaction is active"));
        if !clean && let Some(connection) = self.0.take() {
            connection.close().await.ok();
        }
    }
}

impl Inner {
    /// The place of a connection that nobody uses, else of the first that becomes free. Open ones are preferred, and of
    /// these the first: what they have read lately is still in their memory.
    async fn slot(&self) -> Result<OwnedMutexGuard<Option<SqliteConnection>>, Error> {
        let (mut busy, mut unopened) = (None, None);
        for slot in &self.slots {
            match Arc::clone(slot).try_lock_owned() {
                Ok(guard) if guard.is_some() => return Ok(guard),
                Ok(_) => unopened = unopened.or(Some(slot)),
                Err(_) => busy = busy.or(Some(slot)),
            }
        }
        let Some(unopened) = unopened else {
            let at = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len().max(1);
            let slot = self.slots.get(at).ok_or(Error::PoolClosed)?;
            return Ok(Arc::clone(slot).lock_owned().await);
        };
        // Most questions take less time than opening another connection, which then stays with its thread and its memory.
        if let Some(busy) = busy
            && let Ok(guard) = tokio::time::timeout(PATIENCE, Arc::clone(busy).lock_owned()).await
        {
            return Ok(guard);
        }
        Ok(Arc::clone(unopened).lock_owned().await)
    }
}

impl Lines {
    /// So many connections at most.
    pub fn new(options: SqliteConnectOptions, count: usize) -> Self {
        let slots = (0..count).map(|_| Arc::default()).collect();
        Self(Arc::new(Inner { options, slots, next: AtomicUsize::new(0), closed: AtomicBool::new(false) }))
    }

    /// A free connection, or the first that is free.
    ///
    /// # Errors
    /// When the file cannot be opened, or the store is closed.
    pub async fn hold(&self) -> Result<Held, Error> {
        let inner = &self.0;
        let mut guard = inner.slot().await?;
        if inner.closed.load(Ordering::Acquire) {
            return Err(Error::PoolClosed);
        }
        if guard.is_none() {
            *guard = Some(inner.options.connect().await?);
        }
        Ok(Held(guard))
    }

    /// Closes every connection once its user has done with it; nobody gets one after that.
    pub async fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        for slot in &self.0.slots {
            if let Some(connection) = slot.lock().await.take() {
                connection.close().await.ok();
            }
        }
    }

    async fn ask(&self, sql: SqlStr, arguments: Option<SqliteArguments>, cached: bool) -> Result<Answers, Error> {
        let mut held = self.hold().await?;
        ask(held.connection()?, sql, arguments, cached).await
    }
}

/// Runs a text of one or several statements, and collects what they give back.
pub(super) async fn ask(
    connection: &mut SqliteConnection,
    sql: SqlStr,
    arguments: Option<SqliteArguments>,
    cached: bool,
) -> Result<Answers, Error> {
    match arguments {
        Some(arguments) => {
            let query = sqlx::query_with(sql, arguments).persistent(cached);
            connection.fetch_many(query).try_collect().await
        }
        None => connection.fetch_many(sql).try_collect().await,
    }
}

/// What a statement is made of, taken out of sqlx's own form of it.
pub(super) fn parts<'q, E: Execute<'q, Sqlite>>(
    mut query: E,
) -> Result<(SqlStr, Option<SqliteArguments>, bool), Error> {
    let arguments = query.take_arguments().map_err(Error::Encode)?;
    let cached = query.persistent() && arguments.is_some();
    Ok((query.sql(), arguments, cached))
}

/// The first row of an answer.
pub(super) fn first_row(answers: Answers) -> Option<SqliteRow> {
    answers.into_iter().find_map(Either::right)
}

impl<'c> Executor<'c> for &'c Lines {
    type Database = Sqlite;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<SqliteQueryResult, SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let parts = parts(query);
        let asked = async move {
            let (sql, arguments, cached) = parts?;
            Ok::<_, Error>(stream::iter(self.ask(sql, arguments, cached).await?.into_iter().map(Ok)))
        };
        stream::once(asked).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let parts = parts(query);
        Box::pin(async move {
            let (sql, arguments, cached) = parts?;
            Ok(first_row(self.ask(sql, arguments, cached).await?))
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [SqliteTypeInfo],
    ) -> BoxFuture<'e, Result<SqliteStatement, Error>>
    where
        'c: 'e,
    {
        Box::pin(async move { self.hold().await?.connection()?.prepare_with(sql, parameters).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(lines: &Lines) -> usize {
        lines.0.slots.iter().filter(|slot| slot.try_lock().map_or(true, |slot| slot.is_some())).count()
    }

    #[tokio::test]
    async fn another_connection_is_opened_only_while_the_open_ones_are_busy() {
        let lines = Lines::new(SqliteConnectOptions::new().in_memory(true), 3);
        for _ in 0..4 {
            lines
                .hold()
                .await
                .expect("a connection")
                .connection()
                .expect("open")
                .execute("SELECT 1")
                .await
                .expect("run");
        }
        assert_eq!(open(&lines), 1, "one after the other needs one");
        let first = lines.hold().await.expect("a connection");
        let second = lines.hold().await.expect("another, since the first is not given back");
        assert_eq!(open(&lines), 2);
        drop((first, second));
        lines.hold().await.expect("a free one");
        assert_eq!(open(&lines), 2, "what is open is used first");
    }
}
