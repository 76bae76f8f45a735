//! What people see of it: answers to commands, the report, statuses, reactions, and the audit log.

use serde::Serialize;

use super::record::change_key;
use super::{Result, Store, Tx, db, from_json, to_json};
use crate::decide::{Answer, Readers};
use crate::domain::{ChangeKey, CommentRef, CommitSha, RepoKey, Timestamp};
use crate::ports::Reaction;

/// A revision of a change whose report or statuses may be out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreported {
    /// The change.
    pub change: ChangeKey,
    /// The revision's commit.
    pub sha: CommitSha,
    /// Failed tries so far.
    pub tries: u32,
    /// Tells this wish from a later one.
    pub mark: i64,
}

/// A reaction to be made.
#[derive(Clone, Debug)]
pub struct DueReaction {
    /// The store's number.
    pub row: i64,
    /// The change.
    pub change: ChangeKey,
    /// The comment.
    pub comment: CommentRef,
    /// Which reaction.
    pub reaction: Reaction,
    /// Failed tries so far.
    pub tries: u32,
}

/// What kind of thing was posted on a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostKind {
    /// A commit status.
    Status,
    /// A check run.
    Check,
}

impl PostKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Check => "check",
        }
    }
}

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// On which commit.
    pub sha: String,
    /// About which job; empty when it is about a whole command.
    pub job: String,
    /// What happened or was decided.
    pub what: String,
}

type AuditRow = (i64, String, String, String);

/// The greatest mark of an entry that these readers are shown: members see all.
const fn shown_to(readers: Readers) -> i64 {
    match readers {
        Readers::Everybody => 0,
        Readers::Members => 1,
    }
}

/// Newest first as read, oldest first as told.
fn entries(rows: Vec<AuditRow>) -> Vec<AuditEntry> {
    let entry = |(at, sha, job, what)| AuditEntry { at: Timestamp::from_ms(at), sha, job, what };
    rows.into_iter().rev().map(entry).collect()
}

impl Store {
    /// Revisions with something to report.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_reports(&self, now: Timestamp, limit: u32) -> Result<Vec<Unreported>> {
        let rows: Vec<(String, i64, i64, String, u32, i64)> = sqlx::query_as(
            "SELECT forge, repo, number, sha, tries, mark FROM unreported WHERE due_at <= $1 ORDER BY due_at LIMIT $2",
        )
        .bind(now.ms())
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        let row = |(forge, repo, number, sha, tries, mark): (String, i64, i64, String, u32, i64)| {
            let sha = CommitSha::parse(&sha).ok()?;
            Some(Unreported { change: change_key(forge, repo, number), sha, tries, mark })
        };
        Ok(rows.into_iter().filter_map(row).collect())
    }

    /// The revision is reported, unless more came in the meantime.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn reported(&self, done: &Unreported) -> Result<()> {
        sqlx::query("DELETE FROM unreported WHERE forge = $1 AND repo = $2 AND number = $3 AND sha = $4 AND mark = $5")
            .bind(done.change.repo.forge.as_str())
            .bind(db(done.change.repo.id))
            .bind(db(done.change.number))
            .bind(done.sha.as_str())
            .bind(done.mark)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Puts a report off after a failure.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_off_report(&self, late: &Unreported, until: Timestamp) -> Result<()> {
        sqlx::query(
            "UPDATE unreported SET due_at = $5, tries = tries + 1 \
             WHERE forge = $1 AND repo = $2 AND number = $3 AND sha = $4",
        )
        .bind(late.change.repo.forge.as_str())
        .bind(db(late.change.repo.id))
        .bind(db(late.change.number))
        .bind(late.sha.as_str())
        .bind(until.ms())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// The comment that holds a change's report to these readers, and its text as last posted.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn report(&self, change: &ChangeKey, readers: Readers) -> Result<(Option<u64>, Option<String>)> {
        let text = match readers {
            Readers::Everybody => {
                "SELECT report_id, report FROM changes WHERE forge = $1 AND repo = $2 AND number = $3"
            }
            Readers::Members => {
                "SELECT members_report_id, members_report FROM changes WHERE forge = $1 AND repo = $2 AND number = $3"
            }
        };
        let row: Option<(Option<i64>, Option<String>)> = sqlx::query_as(text)
            .bind(change.repo.forge.as_str())
            .bind(db(change.repo.id))
            .bind(db(change.number))
            .fetch_optional(&self.read)
            .await?;
        Ok(row.map_or((None, None), |(id, text)| (id.map(super::un_db), text)))
    }

    /// Remembers the report as posted.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_report(&self, change: &ChangeKey, readers: Readers, id: u64, text: &str) -> Result<()> {
        let update = match readers {
            Readers::Everybody => {
                "UPDATE changes SET report_id = $4, report = $5 WHERE forge = $1 AND repo = $2 AND number = $3"
            }
            Readers::Members => {
                "UPDATE changes SET members_report_id = $4, members_report = $5 \
                 WHERE forge = $1 AND repo = $2 AND number = $3"
            }
        };
        sqlx::query(update)
            .bind(change.repo.forge.as_str())
            .bind(db(change.repo.id))
            .bind(db(change.number))
            .bind(db(id))
            .bind(text)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// What was posted on a commit: context and value.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn posted<T: serde::de::DeserializeOwned>(
        &self,
        repo: &RepoKey,
        sha: &CommitSha,
        kind: PostKind,
    ) -> Result<Vec<(String, T)>> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT context, data FROM statuses WHERE forge = $1 AND repo = $2 AND sha = $3 AND kind = $4 ORDER BY context",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(kind.word())
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(|(context, data)| Ok((context, from_json("posted", &data)?))).collect()
    }

    /// Remembers what was posted on a commit.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_posted<T: Serialize + Sync>(
        &self,
        (repo, sha): (&RepoKey, &CommitSha),
        kind: PostKind,
        context: &str,
        posted: &T,
        at: Timestamp,
    ) -> Result<()> {
        sqlx::query(
            "INSERT INTO statuses (forge, repo, sha, kind, context, data, at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (forge, repo, sha, kind, context) DO UPDATE SET data = excluded.data, at = excluded.at",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(kind.word())
        .bind(context)
        .bind(to_json("posted", posted)?)
        .bind(at.ms())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Has what was posted on a commit posted once more. The forge's id of it stays known.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn forget_posted(&self, repo: &RepoKey, sha: &CommitSha, kind: PostKind) -> Result<()> {
        sqlx::query(
            "UPDATE statuses SET data = json_set(data, '$.post.title', '') \
             WHERE forge = $1 AND repo = $2 AND sha = $3 AND kind = $4",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(kind.word())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Reactions to be made.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_reactions(&self, now: Timestamp, limit: u32) -> Result<Vec<DueReaction>> {
        let rows: Vec<(i64, String, i64, i64, String, u32)> = sqlx::query_as(
            "SELECT id, forge, repo, number, data, tries FROM reactions WHERE due_at <= $1 ORDER BY id LIMIT $2",
        )
        .bind(now.ms())
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter()
            .map(|(row, forge, repo, number, data, tries)| {
                let (comment, reaction) = from_json("reaction", &data)?;
                Ok(DueReaction { row, change: change_key(forge, repo, number), comment, reaction, tries })
            })
            .collect()
    }

    /// Puts a reaction off, or ends it when `until` is none.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn set_reaction(&self, row: i64, until: Option<Timestamp>) -> Result<()> {
        let text = match until {
            Some(_) => "UPDATE reactions SET due_at = $2, tries = tries + 1 WHERE id = $1",
            None => "DELETE FROM reactions WHERE id = $1",
        };
        sqlx::query(text).bind(row).bind(until.map(Timestamp::ms)).execute(&self.write).await?;
        Ok(())
    }

    /// The newest answers on a change, oldest of them first, at most `limit`.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn answers(&self, change: &ChangeKey, limit: u32) -> Result<Vec<Answer>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT data FROM answers WHERE forge = $1 AND repo = $2 AND number = $3 ORDER BY id DESC LIMIT $4",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().rev().map(|(data,)| from_json("answer", data)).collect()
    }

    /// The audit log of a change, oldest first. At most `limit` newest entries.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn audit_log(&self, change: &ChangeKey, readers: Readers, limit: u32) -> Result<Vec<AuditEntry>> {
        let rows: Vec<AuditRow> = sqlx::query_as(
            "SELECT at, sha, job, what FROM audit WHERE forge = $1 AND repo = $2 AND number = $3 AND internal <= $5 \
             ORDER BY id DESC LIMIT $4",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(limit)
        .bind(shown_to(readers))
        .fetch_all(&self.read)
        .await?;
        Ok(entries(rows))
    }

    /// What the audit log holds about one job of a change, oldest first. At most `limit` newest entries.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn audit_of_job(
        &self,
        change: &ChangeKey,
        (job, readers): (&str, Readers),
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        let rows: Vec<AuditRow> = sqlx::query_as(
            "SELECT at, sha, job, what FROM audit WHERE forge = $1 AND repo = $2 AND number = $3 AND job = $4 \
             AND internal <= $6 ORDER BY id DESC LIMIT $5",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(job)
        .bind(limit)
        .bind(shown_to(readers))
        .fetch_all(&self.read)
        .await?;
        Ok(entries(rows))
    }

    /// When the next report or reaction is due.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn next_report(&self) -> Result<Option<Timestamp>> {
        let (due,): (Option<i64>,) = sqlx::query_as(
            "SELECT min(due) FROM (SELECT min(due_at) AS due FROM unreported UNION ALL SELECT min(due_at) FROM reactions)",
        )
        .fetch_one(&self.read)
        .await?;
        Ok(due.map(Timestamp::from_ms))
    }
}

impl Tx {
    /// Wants the report and statuses of a revision brought up to date at `due`.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn want_report(&mut self, change: &ChangeKey, sha: &CommitSha, due: Timestamp) -> Result<()> {
        self.0.later("INSERT INTO unreported (forge, repo, number, sha, due_at, mark) VALUES ($1, $2, $3, $4, $5, 1) \
             ON CONFLICT (forge, repo, number, sha) DO UPDATE SET mark = unreported.mark + 1, \
             due_at = CASE WHEN unreported.tries > 0 THEN unreported.due_at ELSE min(unreported.due_at, excluded.due_at) END", [change.repo.forge.as_str().into(), db(change.repo.id).into(), db(change.number).into(), sha.as_str().into(), due.ms().into()]).await?;
        Ok(())
    }

    /// Wants a reaction to a comment.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn want_reaction(
        &mut self,
        change: &ChangeKey,
        comment: &CommentRef,
        reaction: Reaction,
        due: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO reactions (forge, repo, number, data, due_at) VALUES ($1, $2, $3, $4, $5)",
                [
                    change.repo.forge.as_str().into(),
                    db(change.repo.id).into(),
                    db(change.number).into(),
                    to_json("reaction", &(comment, reaction))?.into(),
                    due.ms().into(),
                ],
            )
            .await?;
        Ok(())
    }

    /// Stores the answer to a command.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_answer(
        &mut self,
        change: &ChangeKey,
        sha: &CommitSha,
        answer: &Answer,
        at: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO answers (forge, repo, number, sha, at, data) VALUES ($1, $2, $3, $4, $5, $6)",
                [
                    change.repo.forge.as_str().into(),
                    db(change.repo.id).into(),
                    db(change.number).into(),
                    sha.as_str().into(),
                    at.ms().into(),
                    to_json("answer", answer)?.into(),
                ],
            )
            .await?;
        Ok(())
    }

    /// Writes a line of the audit log: about which job, and whether it is for members only.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn audit(
        &mut self,
        change: &ChangeKey,
        sha: &CommitSha,
        (job, internal): (&str, bool),
        what: &str,
        at: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO audit (at, forge, repo, number, sha, job, what, internal) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                [
                    at.ms().into(),
                    change.repo.forge.as_str().into(),
                    db(change.repo.id).into(),
                    db(change.number).into(),
                    sha.as_str().into(),
                    job.into(),
                    what.into(),
                    i64::from(internal).into(),
                ],
            )
            .await?;
        Ok(())
    }
}
