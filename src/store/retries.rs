//! Retries: one row per wish, its key unique for ever, at most one open per job and head.

use sqlx::Row as _;

use super::tx::Value;
use super::{Result, Store, Tx, db, from_json, to_json};
use crate::domain::{ChangeKey, CommitSha, DispatchKey, JobName, RepoKey, Retry, RetryId, RunRef, Timestamp};

type Row = (i64, String, Option<String>);

pub(super) fn retry_from((id, data, _): &Row) -> Result<Retry> {
    let mut retry: Retry = from_json("retry", data)?;
    retry.id = RetryId(*id);
    Ok(retry)
}

impl Store {
    /// The retries that may be started now: wished for, or done with waiting.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_to_start(&self, now: Timestamp, limit: u32) -> Result<Vec<Retry>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE open = 1 AND due_at <= $1 AND state IN ('requested', 'waiting') \
             ORDER BY due_at, id LIMIT $2",
        )
        .bind(now.ms())
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(retry_from).collect()
    }

    /// The retries to look after now: their runs, their doubts, and those that a dispatcher left behind, each with the
    /// owner that is (or was) calling its runner.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_to_follow(&self, now: Timestamp, limit: u32) -> Result<Vec<(Retry, Option<String>)>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE open = 1 AND (state = 'dispatching' OR \
             (due_at <= $1 AND state IN ('dispatched', 'running', 'uncertain'))) ORDER BY due_at, id LIMIT $2",
        )
        .bind(now.ms())
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(|row| Ok((retry_from(row)?, row.2.clone()))).collect()
    }

    /// When the next retry may be started; none when none waits for it.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn next_start(&self) -> Result<Option<Timestamp>> {
        self.next_of(
            "SELECT min(due) FROM (SELECT min(due_at) AS due FROM retries WHERE open = 1 AND state IN ('requested', 'waiting') \
             UNION ALL SELECT min(due_at) FROM cancellations)",
        )
        .await
    }

    /// When the next run is to be looked at; none when none is followed.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn next_look(&self) -> Result<Option<Timestamp>> {
        self.next_of(
            "SELECT min(due_at) FROM retries WHERE open = 1 AND state IN ('dispatched', 'running', 'uncertain')",
        )
        .await
    }

    async fn next_of(&self, text: &'static str) -> Result<Option<Timestamp>> {
        let (due,): (Option<i64>,) = sqlx::query_as(text).fetch_one(&self.read).await?;
        Ok(due.map(Timestamp::from_ms))
    }

    /// Every retry of a change on one head, oldest first.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retries_of(&self, change: &ChangeKey, sha: &CommitSha) -> Result<Vec<Retry>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE forge = $1 AND repo = $2 AND number = $3 AND sha = $4 ORDER BY id",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(sha.as_str())
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(retry_from).collect()
    }

    /// The open retries of a repository that belong to a group.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn open_in_group(&self, repo: &RepoKey, group: &str) -> Result<Vec<Retry>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE forge = $1 AND repo = $2 AND grp = $3 AND open = 1 ORDER BY id",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(group)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(retry_from).collect()
    }

    /// A retry by its key.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retry_by_key(&self, key: &DispatchKey) -> Result<Option<Retry>> {
        let row: Option<Row> = sqlx::query_as("SELECT id, data, owner FROM retries WHERE key = $1")
            .bind(key.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.as_ref().map(retry_from).transpose()
    }

    /// How many retries stand in each state, for metrics.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn count_open(&self) -> Result<Vec<(String, i64)>> {
        Ok(sqlx::query_as("SELECT state, count(*) FROM retries WHERE open = 1 GROUP BY state")
            .fetch_all(&self.read)
            .await?)
    }

    /// Cancellations that are due: the retry and the failed tries so far.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_cancellations(&self, now: Timestamp, limit: u32) -> Result<Vec<(Retry, u32)>> {
        let rows: Vec<(i64, String, u32)> = sqlx::query_as(
            "SELECT r.id, r.data, c.tries FROM cancellations c JOIN retries r ON r.id = c.retry \
             WHERE c.due_at <= $1 ORDER BY c.due_at LIMIT $2",
        )
        .bind(now.ms())
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(|(id, data, tries)| Ok((retry_from(&(id, data, None))?, tries))).collect()
    }

    /// Puts a cancellation off, or ends it when `until` is none.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn set_cancellation(&self, id: RetryId, until: Option<Timestamp>) -> Result<()> {
        let text = match until {
            Some(_) => "UPDATE cancellations SET due_at = $2, tries = tries + 1 WHERE retry = $1",
            None => "DELETE FROM cancellations WHERE retry = $1",
        };
        sqlx::query(text).bind(id.0).bind(until.map(Timestamp::ms)).execute(&self.write).await?;
        Ok(())
    }
}

const NEW_RETRY: &str = "INSERT INTO retries (key, forge, repo, number, sha, job, scope, runner, state, open, owner, grp, \
    due_at, made_at, data, asker, label) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10, $11, $12, $13, $14, $15, $16)";

const NEW_RETRY_UNLESS: &str = "INSERT INTO retries (key, forge, repo, number, sha, job, scope, runner, state, open, owner, grp, \
    due_at, made_at, data, asker, label) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10, $11, $12, $13, $14, $15, $16) \
    ON CONFLICT DO NOTHING RETURNING id";

fn new_values(retry: &Retry, owner: Option<&str>) -> Result<[Value; 16]> {
    Ok([
        retry.key.as_str().into(),
        retry.change.repo.forge.as_str().into(),
        db(retry.change.repo.id).into(),
        db(retry.change.number).into(),
        retry.sha.as_str().into(),
        retry.job.as_str().into(),
        retry.scope.as_str().into(),
        retry.runner.as_str().into(),
        retry.state.word().into(),
        owner.into(),
        retry.group.as_deref().into(),
        retry.due_at.ms().into(),
        retry.created_at.ms().into(),
        to_json("retry", retry)?.into(),
        db(retry.asker.id).into(),
        retry.unasked.as_ref().map(|unasked| unasked.evidence.label.as_str()).into(),
    ])
}

impl Tx {
    /// The runs that retries of a job on a commit repeated or started.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn runs_of_retries(&mut self, repo: &RepoKey, sha: &CommitSha, job: &JobName) -> Result<Vec<RunRef>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE forge = $1 AND repo = $2 AND sha = $3 AND job = $4",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(job.as_str())
        .fetch_all(&mut *self.0)
        .await?;
        let mut runs = Vec::new();
        for row in &rows {
            let retry = retry_from(row)?;
            runs.extend(retry.source_run);
            runs.extend(retry.handle.map(|handle| RunRef::new(handle.id)));
        }
        Ok(runs)
    }

    /// Stores a new retry, unless one for the same job and head is open or its key was used before: then `None`.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn new_retry(&mut self, retry: &Retry, owner: Option<&str>) -> Result<Option<RetryId>> {
        let row = self.0.now(NEW_RETRY_UNLESS, new_values(retry, owner)?).await?;
        Ok(row.map(|row| row.try_get(0).map(RetryId)).transpose()?)
    }

    /// Stores a new retry that cannot be there yet as far as is known. When it is there all the same, the commit fails with
    /// [`super::StoreError::is_conflict`].
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn add_retry(&mut self, retry: &Retry, owner: Option<&str>) -> Result<()> {
        self.0.later(NEW_RETRY, new_values(retry, owner)?).await
    }

    /// The retry of a key as it stands now.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retry_by_key(&mut self, key: &DispatchKey) -> Result<Option<Retry>> {
        let row: Option<Row> = sqlx::query_as("SELECT id, data, owner FROM retries WHERE key = $1")
            .bind(key.as_str())
            .fetch_optional(&mut *self.0)
            .await?;
        row.as_ref().map(retry_from).transpose()
    }

    /// The retry as it stands now; the truth to step from.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retry(&mut self, id: RetryId) -> Result<Option<Retry>> {
        let row: Option<Row> = sqlx::query_as("SELECT id, data, owner FROM retries WHERE id = $1")
            .bind(id.0)
            .fetch_optional(&mut *self.0)
            .await?;
        row.as_ref().map(retry_from).transpose()
    }

    /// The open retries of a commit, whichever change they belong to.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn open_retries(&mut self, repo: &RepoKey, sha: &CommitSha) -> Result<Vec<Retry>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE forge = $1 AND repo = $2 AND sha = $3 AND open = 1 ORDER BY id",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(retry_from).collect()
    }

    /// The open retries of a change that are not about `head`; all of them when there is no head any more. Those of a merge
    /// queue's commits end with their entry.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn open_elsewhere(&mut self, change: &ChangeKey, head: Option<&CommitSha>) -> Result<Vec<Retry>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE forge = $1 AND repo = $2 AND number = $3 AND sha <> $4 AND open = 1 \
             AND sha NOT IN (SELECT sha FROM queue_entries q WHERE q.forge = $1 AND q.repo = $2 AND q.number = $3)",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(head.map_or("", CommitSha::as_str))
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(retry_from).collect()
    }

    /// The retries that wait for a group.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn waiting_on_group(&mut self, repo: &RepoKey, group: &str) -> Result<Vec<Retry>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, data, owner FROM retries WHERE forge = $1 AND repo = $2 AND grp = $3 AND open = 1 \
             AND state = 'waiting' ORDER BY id",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(group)
        .fetch_all(&mut *self.0)
        .await?;
        rows.iter().map(retry_from).collect()
    }

    /// Writes a retry back; `owner` is who is calling its runner.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_retry(&mut self, retry: &Retry, owner: Option<&str>) -> Result<()> {
        self.0
            .later(
                "UPDATE retries SET state = $2, open = $3, owner = $4, due_at = $5, data = $6, grp = $7 WHERE id = $1",
                [
                    retry.id.0.into(),
                    retry.state.word().into(),
                    i64::from(retry.state.is_open()).into(),
                    owner.into(),
                    retry.due_at.ms().into(),
                    to_json("retry", retry)?.into(),
                    retry.group.as_deref().into(),
                ],
            )
            .await?;
        Ok(())
    }

    /// Asks for the run of a closed retry to be cancelled in its runner.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn want_cancellation(&mut self, id: RetryId, at: Timestamp) -> Result<()> {
        self.0
            .later(
                "INSERT INTO cancellations (retry, due_at) VALUES ($1, $2) ON CONFLICT (retry) DO NOTHING",
                [id.0.into(), at.ms().into()],
            )
            .await?;
        Ok(())
    }

    /// How many retries a job had on a head before.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retries_so_far(&mut self, retry: &Retry) -> Result<u32> {
        let (count,): (u32,) = sqlx::query_as(
            "SELECT count(*) FROM retries WHERE forge = $1 AND repo = $2 AND number = $3 AND sha = $4 AND job = $5 AND scope = $6",
        )
        .bind(retry.change.repo.forge.as_str())
        .bind(db(retry.change.repo.id))
        .bind(db(retry.change.number))
        .bind(retry.sha.as_str())
        .bind(retry.job.as_str())
        .bind(&retry.scope)
        .fetch_one(&mut *self.0)
        .await?;
        Ok(count)
    }
}
