//! Policies of repositories as they were fetched, and on which changes was told that one cannot be used.

use super::{Result, Store, Tx, db};
use crate::domain::{ChangeKey, RepoKey, Timestamp};

/// A repository's policy as it was fetched last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The forge's name of that version; none when there was no file.
    pub version: Option<String>,
    /// Its text; none when there was no file.
    pub text: Option<String>,
    /// The last text that could be used; none when there was none since the file appeared.
    pub good: Option<String>,
    /// When the forge was asked.
    pub asked_at: Timestamp,
}

type Row = (Option<String>, Option<String>, Option<String>, i64);

impl Store {
    /// A repository's policy; none when it was never asked for.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn policy(&self, repo: &RepoKey) -> Result<Option<StoredPolicy>> {
        let row: Option<Row> =
            sqlx::query_as("SELECT version, text, good, asked_at FROM policies WHERE forge = $1 AND repo = $2")
                .bind(repo.forge.as_str())
                .bind(db(repo.id))
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(stored))
    }

    /// Every policy that has a text, for the start.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn policies(&self) -> Result<Vec<(RepoKey, StoredPolicy)>> {
        type Keyed = (String, i64, Option<String>, Option<String>, Option<String>, i64);
        let rows: Vec<Keyed> =
            sqlx::query_as("SELECT forge, repo, version, text, good, asked_at FROM policies WHERE text IS NOT NULL")
                .fetch_all(&self.read)
                .await?;
        let keyed = |(forge, repo, version, text, good, at): Keyed| {
            let key = RepoKey { forge: forge.as_str().into(), id: super::un_db(repo) };
            (key, stored((version, text, good, at)))
        };
        Ok(rows.into_iter().map(keyed).collect())
    }

    /// Keeps a repository's policy.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_policy(&self, repo: &RepoKey, policy: &StoredPolicy) -> Result<()> {
        sqlx::query(
            "INSERT INTO policies (forge, repo, version, text, good, asked_at) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (forge, repo) DO UPDATE SET version = excluded.version, text = excluded.text, \
             good = excluded.good, asked_at = excluded.asked_at",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(policy.version.as_deref())
        .bind(policy.text.as_deref())
        .bind(policy.good.as_deref())
        .bind(policy.asked_at.ms())
        .execute(&self.write)
        .await?;
        Ok(())
    }
}

fn stored((version, text, good, at): Row) -> StoredPolicy {
    StoredPolicy { version, text, good, asked_at: Timestamp::from_ms(at) }
}

impl Tx {
    /// Remembers that a change was told of a version of its repository's policy, and says whether that is new.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn tell_of_policy(&mut self, change: &ChangeKey, version: &str, at: Timestamp) -> Result<bool> {
        let values = [
            change.repo.forge.as_str().into(),
            db(change.repo.id).into(),
            db(change.number).into(),
            version.into(),
            at.ms().into(),
        ];
        let new = self.0.now(
            "INSERT INTO policies_told (forge, repo, number, version, at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT DO NOTHING RETURNING version",
            values,
        );
        Ok(new.await?.is_some())
    }
}
