//! Issues that label flakes, and what people decided about a change: switches and overridden statuses; runners that are held
//! back; merge queues.
//!
//! Read next: `flow/labels.rs` for what becomes of an issue, `failures.rs` for what is judged by it.

use super::{Result, Store, Tx, db, from_json, to_json, un_db};
use crate::decide::{Breaker, Overridden};
use crate::domain::{ChangeKey, CommitSha, DispatchKey, Issue, QueueEvent, RepoKey, RunnerName, Timestamp};

/// An issue with the flake label, as it was told last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlakeIssue {
    /// The repository.
    pub repo: RepoKey,
    /// The issue.
    pub issue: Issue,
    /// Our comment on it.
    pub comment: Option<u64>,
    /// What that comment says.
    pub told: Option<String>,
    /// How often writing it failed.
    pub tries: u32,
}

type IssueRow = (String, i64, String, Option<i64>, Option<String>, u32);

fn issue_from((forge, repo, data, comment, told, tries): IssueRow) -> Result<FlakeIssue> {
    let repo = RepoKey { forge: forge.as_str().into(), id: un_db(repo) };
    Ok(FlakeIssue { repo, issue: from_json("issue", &data)?, comment: comment.map(un_db), told, tries })
}

impl Store {
    /// The open issues of a repository that label flakes, oldest first.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn flake_issues(&self, repo: &RepoKey) -> Result<Vec<FlakeIssue>> {
        let rows: Vec<IssueRow> = sqlx::query_as(
            "SELECT forge, repo, data, comment, told, tries FROM flake_issues \
             WHERE forge = $1 AND repo = $2 AND open = 1 ORDER BY number",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(issue_from).collect()
    }

    /// The issues whose comment is to be written now.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_issues(&self, now: Timestamp, limit: u32) -> Result<Vec<FlakeIssue>> {
        let rows: Vec<IssueRow> = sqlx::query_as(
            "SELECT forge, repo, data, comment, told, tries FROM flake_issues WHERE due_at <= $1 ORDER BY due_at LIMIT $2",
        )
        .bind(now.ms())
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.into_iter().map(issue_from).collect()
    }

    /// What our comment on an issue says now, and when it is to be looked at again.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn told_issue(
        &self,
        repo: &RepoKey,
        number: u64,
        told: Option<(u64, &str)>,
        due_at: Option<Timestamp>,
    ) -> Result<()> {
        sqlx::query(
            "UPDATE flake_issues SET comment = coalesce($4, comment), told = coalesce($5, told), due_at = $6, \
             tries = CASE WHEN $4 IS NULL THEN tries + 1 ELSE 0 END WHERE forge = $1 AND repo = $2 AND number = $3",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(db(number))
        .bind(told.map(|(comment, _)| db(comment)))
        .bind(told.map(|(_, text)| text.to_owned()))
        .bind(due_at.map(Timestamp::ms))
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// When the issues of a repository were last listed.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn issues_asked_at(&self, repo: &RepoKey) -> Result<Option<Timestamp>> {
        let row: Option<(i64,)> = sqlx::query_as("SELECT asked_at FROM issue_lists WHERE forge = $1 AND repo = $2")
            .bind(repo.forge.as_str())
            .bind(db(repo.id))
            .fetch_optional(&self.read)
            .await?;
        Ok(row.map(|(at,)| Timestamp::from_ms(at)))
    }

    /// Whether people switched unasked retries on or off on a change; none when nobody did.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn switch(&self, change: &ChangeKey) -> Result<Option<bool>> {
        let row: Option<(bool,)> =
            sqlx::query_as("SELECT on_ FROM switches WHERE forge = $1 AND repo = $2 AND number = $3")
                .bind(change.repo.forge.as_str())
                .bind(db(change.repo.id))
                .bind(db(change.number))
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(on,)| on))
    }

    /// The statuses on a commit that people set to success.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn overridden(&self, repo: &RepoKey, sha: &CommitSha) -> Result<Vec<Overridden>> {
        let rows: Vec<(String, String, String)> = sqlx::query_as(
            "SELECT context, actor, reason FROM overrides WHERE forge = $1 AND repo = $2 AND sha = $3 ORDER BY context",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(|(context, actor, reason)| Overridden { context, actor, reason }).collect())
    }

    /// What is kept about a runner that may be held back, and the retry that tries whether it has recovered.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn breaker(&self, runner: &RunnerName) -> Result<(Breaker, Option<DispatchKey>)> {
        let row: Option<(String, Option<String>)> =
            sqlx::query_as("SELECT data, probe FROM breakers WHERE runner = $1")
                .bind(runner.as_str())
                .fetch_optional(&self.read)
                .await?;
        let Some((data, probe)) = row else { return Ok((Breaker::default(), None)) };
        Ok((from_json("breaker", &data)?, probe.map(DispatchKey::new)))
    }

    /// Every runner of which something is kept.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn breakers(&self) -> Result<Vec<(RunnerName, Breaker)>> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT runner, data FROM breakers ORDER BY runner").fetch_all(&self.read).await?;
        rows.into_iter().map(|(runner, data)| Ok((RunnerName::new(runner), from_json("breaker", &data)?))).collect()
    }

    /// The entry of a merge queue that a commit was made for: the change's number and the branch it wants to enter.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn queue_entry(&self, repo: &RepoKey, sha: &CommitSha) -> Result<Option<(u64, String)>> {
        let row: Option<(i64, String)> =
            sqlx::query_as("SELECT number, base_ref FROM queue_entries WHERE forge = $1 AND repo = $2 AND sha = $3")
                .bind(repo.forge.as_str())
                .bind(db(repo.id))
                .bind(sha.as_str())
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(number, base)| (un_db(number), base)))
    }
}

impl Tx {
    /// Keeps an issue with the flake label, or what became of it; `due_at` is when our comment on it is to be written.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_flake_issue(
        &mut self,
        repo: &RepoKey,
        issue: &Issue,
        counts: bool,
        due_at: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO flake_issues (forge, repo, number, open, data, due_at) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (forge, repo, number) DO UPDATE SET open = excluded.open, data = excluded.data, \
                 due_at = CASE WHEN flake_issues.data = excluded.data AND flake_issues.open = excluded.open \
                     THEN flake_issues.due_at ELSE excluded.due_at END",
                [
                    repo.forge.as_str().into(),
                    db(repo.id).into(),
                    db(issue.number).into(),
                    i64::from(counts).into(),
                    to_json("issue", issue)?.into(),
                    due_at.ms().into(),
                ],
            )
            .await
    }

    /// An issue that is known as a flake's; none when it is not.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn flake_issue(&mut self, repo: &RepoKey, number: u64) -> Result<Option<FlakeIssue>> {
        let row: Option<IssueRow> = sqlx::query_as(
            "SELECT forge, repo, data, comment, told, tries FROM flake_issues WHERE forge = $1 AND repo = $2 AND number = $3",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(db(number))
        .fetch_optional(&mut *self.0)
        .await?;
        row.map(issue_from).transpose()
    }

    /// The issues of a repository were listed: those that are not in the list label nothing any more.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn keep_issues(&mut self, repo: &RepoKey, listed: &[u64], at: Timestamp) -> Result<()> {
        let (forge, id) = (repo.forge.as_str(), db(repo.id));
        self.0
            .later(
                "UPDATE flake_issues SET open = 0, due_at = NULL WHERE forge = $1 AND repo = $2 AND open = 1 \
                 AND number NOT IN (SELECT value FROM json_each($3))",
                [forge.into(), id.into(), to_json("numbers", &listed)?.into()],
            )
            .await?;
        self.0
            .later(
                "INSERT INTO issue_lists (forge, repo, asked_at) VALUES ($1, $2, $3) \
                 ON CONFLICT (forge, repo) DO UPDATE SET asked_at = excluded.asked_at",
                [forge.into(), id.into(), at.ms().into()],
            )
            .await
    }

    /// Has our comment on an issue written again, not before `at`.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn want_issue_comment(&mut self, repo: &RepoKey, number: u64, at: Timestamp) -> Result<()> {
        self.0
            .later(
                "UPDATE flake_issues SET due_at = min(coalesce(due_at, $4), $4) WHERE forge = $1 AND repo = $2 AND number = $3",
                [repo.forge.as_str().into(), db(repo.id).into(), db(number).into(), at.ms().into()],
            )
            .await
    }

    /// Keeps what somebody decided about unasked retries on a change.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_switch(&mut self, change: &ChangeKey, on: bool, actor: &str, at: Timestamp) -> Result<()> {
        self.0
            .later(
                "INSERT INTO switches (forge, repo, number, on_, actor, at) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (forge, repo, number) DO UPDATE SET on_ = excluded.on_, actor = excluded.actor, at = excluded.at",
                [
                    change.repo.forge.as_str().into(),
                    db(change.repo.id).into(),
                    db(change.number).into(),
                    i64::from(on).into(),
                    actor.into(),
                    at.ms().into(),
                ],
            )
            .await
    }

    /// Keeps that a person set a status to success.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_override(
        &mut self,
        (repo, sha): (&RepoKey, &CommitSha),
        status: &Overridden,
        at: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO overrides (forge, repo, sha, context, actor, reason, at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
                 ON CONFLICT (forge, repo, sha, context) DO UPDATE SET actor = excluded.actor, reason = excluded.reason, \
                 at = excluded.at",
                [
                    repo.forge.as_str().into(),
                    db(repo.id).into(),
                    sha.as_str().into(),
                    status.context.as_str().into(),
                    status.actor.as_str().into(),
                    status.reason.as_str().into(),
                    at.ms().into(),
                ],
            )
            .await
    }

    /// Keeps what holds about a runner; no retry tries it yet.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_breaker(&mut self, runner: &RunnerName, state: &Breaker, at: Timestamp) -> Result<()> {
        self.0
            .later(
                "INSERT INTO breakers (runner, data, at) VALUES ($1, $2, $3) \
                 ON CONFLICT (runner) DO UPDATE SET data = excluded.data, at = excluded.at, probe = NULL",
                [runner.as_str().into(), to_json("breaker", state)?.into(), at.ms().into()],
            )
            .await
    }

    /// Keeps which retry tries whether a runner has recovered.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_probe(&mut self, runner: &RunnerName, probe: &DispatchKey) -> Result<()> {
        let values = [runner.as_str().into(), probe.as_str().into()];
        self.0.later("UPDATE breakers SET probe = $2 WHERE runner = $1", values).await
    }

    /// A change left the queue in whatever way: no forge tells every one of them.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn drop_queue_entries(&mut self, change: &ChangeKey) -> Result<()> {
        self.0
            .later(
                "DELETE FROM queue_entries WHERE forge = $1 AND repo = $2 AND number = $3",
                [change.repo.forge.as_str().into(), db(change.repo.id).into(), db(change.number).into()],
            )
            .await
    }

    /// A merge queue made a commit, or dropped it.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_queue_entry(&mut self, event: &QueueEvent) -> Result<()> {
        let (forge, repo) = (event.repo.key.forge.as_str(), db(event.repo.key.id));
        if event.over {
            return self
                .0
                .later(
                    "DELETE FROM queue_entries WHERE forge = $1 AND repo = $2 AND sha = $3",
                    [forge.into(), repo.into(), event.sha.as_str().into()],
                )
                .await;
        }
        self.0
            .later(
                "INSERT INTO queue_entries (forge, repo, sha, number, base_ref, at) VALUES ($1, $2, $3, $4, $5, $6) \
                 ON CONFLICT (forge, repo, sha) DO UPDATE SET number = excluded.number, base_ref = excluded.base_ref",
                [
                    forge.into(),
                    repo.into(),
                    event.sha.as_str().into(),
                    db(event.number).into(),
                    event.base_ref.as_str().into(),
                    event.at.ms().into(),
                ],
            )
            .await
    }
}
