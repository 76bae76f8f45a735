//! A write transaction: everything in it happens, or nothing.
//!
//! Each statement costs a turn of the connection's thread, which takes longer than most statements do. So what gives
//! nothing back is collected and goes along with the next read or with the commit, as one text: a transaction that only
//! writes is one turn. The order of the statements is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use sqlx::sqlite::{SqliteArguments, SqliteQueryResult, SqliteRow, SqliteStatement, SqliteTypeInfo};
use sqlx::{Arguments, AssertSqlSafe, Either, Error, Execute, Executor, SqlSafeStr, SqlStr, Sqlite};

use super::line::{Answers, Held, ask, first_row, parts};

/// Collected statements at which they go by themselves.
const LATER_MAX: usize = 64;

/// Statements of one text at which SQLite need not keep it prepared: so long a one hardly comes again.
const CACHED_MAX: usize = 16;

/// A value of a collected statement.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// NULL.
    Null,
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A write transaction. Dropped without [`Tx::commit`] it leaves no trace.
#[derive(Debug)]
pub struct Tx(pub(super) Box<Work>);

/// The transaction's connection and what is still to be sent to it.
#[derive(Debug)]
pub(super) struct Work {
    held: Option<Held>,
    begun: bool,
    in_doubt: bool,
    later: Vec<(&'static str, Vec<Value>)>,
    version: Arc<Versions>,
}

/// How many transactions were committed in this life: counted before each commit, and again when its rows can be seen.
/// In between, a look may find the rows or not, so what it was at the earlier number is in doubt.
#[derive(Debug, Default)]
pub(super) struct Versions {
    begun: AtomicU64,
    seen: AtomicU64,
}

impl Versions {
    /// Commits that have begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Commits whose rows can be seen.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// One that was given up without an answer is counted by the next: they go one after the other.
    fn end(&self, version: u64) {
        self.seen.store(version, Ordering::Release);
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Some(held) = self.held.take().filter(|_| self.begun) else { return };
        // Whoever wants the connection next waits for this. Without a runtime the program is over, and the file's log
        // holds nothing that was not committed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(held.roll_back());
        }
    }
}

impl Tx {
    pub(super) fn new(held: Held, version: Arc<Versions>) -> Self {
        Self(Box::new(Work { held: Some(held), begun: false, in_doubt: false, later: Vec::new(), version }))
    }

    /// Whether no transaction was committed since [`super::Store::version`] was this. It stays so until this one is.
    pub fn is_first_since(&self, version: u64) -> bool {
        self.0.version.begun() == version
    }

    /// Makes it so, on the disk.
    ///
    /// # Errors
    /// Then nothing of it happened.
    pub async fn commit(self) -> super::Result<()> {
        self.commit_as().await.map(|_| ())
    }

    /// Makes it so, on the disk, and gives back the store's version that it made.
    ///
    /// # Errors
    /// Then nothing of it happened.
    pub async fn commit_as(mut self) -> super::Result<u64> {
        let work = &mut self.0;
        let version = work.version.begin();
        if work.begun || !work.later.is_empty() {
            let committed = work.run(Some(("COMMIT".into_sql_str(), None, true))).await;
            work.version.end(version);
            committed?;
            work.begun = false;
        } else {
            work.version.end(version);
        }
        Ok(version)
    }

    /// Marks a delivery as done.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn done(&mut self, row: i64, note: Option<&str>) -> super::Result<()> {
        self.0.later("UPDATE deliveries SET state = 1, note = $2 WHERE id = $1", [row.into(), note.into()]).await
    }
}

/// A statement to run now, with its own values.
type Now = (SqlStr, Option<SqliteArguments>, bool);

impl Work {
    /// Has a statement run before the next read, or with the commit. Its failure shows there.
    pub async fn later<const N: usize>(&mut self, text: &'static str, values: [Value; N]) -> super::Result<()> {
        self.later.push((text, values.into()));
        if self.later.len() >= LATER_MAX {
            self.run(None).await?;
        }
        Ok(())
    }

    /// Runs a statement now, after what was collected, and gives back its first row.
    pub async fn now<const N: usize>(
        &mut self,
        text: &'static str,
        values: [Value; N],
    ) -> super::Result<Option<SqliteRow>> {
        self.later.push((text, values.into()));
        Ok(first_row(self.run(None).await?))
    }

    /// Sends what was collected, and a statement after it, as one text. Gives back that statement's answer.
    async fn run(&mut self, now: Option<Now>) -> Result<Answers, Error> {
        if self.in_doubt {
            return Err(Error::Protocol("a transaction that failed was used again".to_owned()));
        }
        let (sql, arguments, cached) = self.whole(now)?;
        let held = self.held.as_mut().ok_or(Error::PoolClosed)?;
        // Until the answer is there, it may have happened or not.
        self.in_doubt = true;
        self.begun = true;
        let mut answers = ask(held.connection()?, sql, arguments, cached).await?;
        self.in_doubt = false;
        // Only the last statement has rows to give; the others' ends are of no interest.
        let ends = answers.iter().filter(|one| one.is_left()).count();
        let mut seen = 0;
        answers.retain(|one| {
            seen += usize::from(one.is_left());
            one.is_right() || seen == ends
        });
        Ok(answers)
    }

    fn whole(&mut self, now: Option<Now>) -> Result<Now, Error> {
        let later = std::mem::take(&mut self.later);
        if let (Some(now), true) = (&now, self.begun && later.is_empty()) {
            return Ok(now.clone());
        }
        let (last, arguments, cached) = match now {
            Some((sql, arguments, cached)) => (Some(sql), arguments, cached || later.is_empty()),
            None => (None, None, true),
        };
        let mut arguments = arguments.unwrap_or_default();
        let mut text = String::with_capacity(256 * (later.len() + 2));
        if !self.begun {
            text.push_str("BEGIN IMMEDIATE;\n");
        }
        let count = later.len();
        for (statement, values) in later {
            shifted(statement, arguments.len(), &mut text);
            text.push_str(";\n");
            for value in values {
                match value {
                    Value::Null => arguments.add(None::<i64>),
                    Value::Number(number) => arguments.add(number),
                    Value::Text(text) => arguments.add(text),
                }
                .map_err(Error::Encode)?;
            }
        }
        if let Some(last) = last {
            text.push_str(last.as_str());
        }
        Ok((AssertSqlSafe(text).into_sql_str(), Some(arguments), cached && count <= CACHED_MAX))
    }
}

/// Appends a statement whose values stand `by` places further on in the whole text's values.
fn shifted(statement: &str, by: usize, text: &mut String) {
    let mut pieces = statement.split('$');
    text.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        text.push('$');
        match piece[..digits].parse::<usize>() {
            Ok(number) => text.push_str(&(number + by).to_string()),
            Err(_) => text.push_str(&piece[..digits]),
        }
        text.push_str(&piece[digits..]);
    }
}

impl<'c> Executor<'c> for &'c mut Work {
    type Database = Sqlite;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<SqliteQueryResult, SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let parts = parts(query);
        let asked = async move { Ok::<_, Error>(stream::iter(self.run(Some(parts?)).await?.into_iter().map(Ok))) };
        stream::once(asked).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<SqliteRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Sqlite>,
    {
        let parts = parts(query);
        Box::pin(async move { Ok(first_row(self.run(Some(parts?)).await?)) })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [SqliteTypeInfo],
    ) -> BoxFuture<'e, Result<SqliteStatement, Error>>
    where
        'c: 'e,
    {
        Box::pin(async move {
            let held = self.held.as_mut().ok_or(Error::PoolClosed)?;
            held.connection()?.prepare_with(sql, parameters).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_statement_in_a_text_are_counted_on() {
        let table = [
            ("UPDATE a SET b = $2 WHERE id = $1", "UPDATE a SET b = $12 WHERE id = $11", "numbers in any order"),
            ("SELECT json_set(a, '$.b', $1)", "SELECT json_set(a, '$.b', $11)", "a path is no number"),
            ("DELETE FROM a", "DELETE FROM a", "none"),
        ];
        for (given, wanted, why) in table {
            let mut text = String::new();
            shifted(given, 10, &mut text);
            assert_eq!(text, wanted, "{why}");
        }
    }
}
