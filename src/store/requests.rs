//! What clients of the API ask the store for: retries by number, revisions by name, and requests made before.

use super::{Result, Store, Tx, db, from_json};
use crate::domain::{Change, CommitSha, ForgeName, Repo, Retry, RetryId};

/// An earlier request of the same client with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRequest {
    /// The hash of its body.
    pub body: String,
    /// The answer that it got, as JSON.
    pub answer: String,
}

/// Which retries are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryQuery {
    /// Only those of this commit.
    pub sha: Option<CommitSha>,
    /// Only those that are still under way.
    pub open: bool,
}

impl Store {
    /// A retry by its number.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retry(&self, id: RetryId) -> Result<Option<Retry>> {
        let row: Option<(i64, String)> =
            sqlx::query_as("SELECT id, data FROM retries WHERE id = $1").bind(id.0).fetch_optional(&self.read).await?;
        row.as_ref().map(read).transpose()
    }

    /// The newest retries that fit, newest first, at most `limit`.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn retries(&self, query: &RetryQuery, limit: u32) -> Result<Vec<Retry>> {
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "SELECT id, data FROM retries WHERE ($1 IS NULL OR sha = $1) AND (open = 1 OR NOT $2) ORDER BY id DESC LIMIT $3",
        )
        .bind(query.sha.as_ref().map(CommitSha::as_str))
        .bind(query.open)
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(read).collect()
    }

    /// A repository of a forge by its full name; letter case does not count.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn repo_named(&self, forge: &ForgeName, full_name: &str) -> Result<Option<Repo>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT data FROM repos WHERE forge = $1 AND lower(json_extract(data, '$.full_name')) = $2")
                .bind(forge.as_str())
                .bind(full_name.to_lowercase())
                .fetch_optional(&self.read)
                .await?;
        row.map(|(data,)| from_json("repository", &data)).transpose()
    }

    /// The open changes of any repository whose head is this commit.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn changes_anywhere(&self, sha: &CommitSha) -> Result<Vec<Change>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT data FROM changes WHERE head = $1 AND open = 1 ORDER BY forge, repo, number")
                .bind(sha.as_str())
                .fetch_all(&self.read)
                .await?;
        rows.iter().map(|(data,)| from_json("change", data)).collect()
    }

    /// What the same client asked for under the same key before.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn earlier_request(&self, client: &str, key: &str) -> Result<Option<EarlierRequest>> {
        let row: Option<(String, String)> =
            sqlx::query_as("SELECT body, answer FROM requests WHERE client = $1 AND key = $2")
                .bind(client)
                .bind(key)
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(body, answer)| EarlierRequest { body, answer }))
    }
}

impl Tx {
    /// Keeps a request's answer under its key. False when another request with that key was faster: then nothing of this
    /// one may be committed.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_request(
        &mut self,
        (client, key): (&str, &str),
        body: &str,
        answer: &str,
        at: i64,
    ) -> Result<bool> {
        let done = sqlx::query(
            "INSERT INTO requests (client, key, body, answer, at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        )
        .bind(client)
        .bind(key)
        .bind(body)
        .bind(answer)
        .bind(at)
        .execute(&mut *self.0)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// The open retry of the same job and head.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn open_twin(&mut self, retry: &Retry) -> Result<Option<Retry>> {
        let row: Option<(i64, String)> = sqlx::query_as(
            "SELECT id, data FROM retries WHERE forge = $1 AND repo = $2 AND sha = $3 AND job = $4 AND scope = $5 AND open = 1",
        )
        .bind(retry.change.repo.forge.as_str())
        .bind(db(retry.change.repo.id))
        .bind(retry.sha.as_str())
        .bind(retry.job.as_str())
        .bind(&retry.scope)
        .fetch_optional(&mut *self.0)
        .await?;
        row.as_ref().map(read).transpose()
    }
}

fn read((id, data): &(i64, String)) -> Result<Retry> {
    let mut retry: Retry = from_json("retry", data)?;
    retry.id = RetryId(*id);
    Ok(retry)
}
