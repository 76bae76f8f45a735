//! Runs that ended badly: kept until somebody has judged whether a known flake is behind them, counted from afterwards.
//!
//! **Invariant:** one row per run, so that nothing is judged or counted twice ([`Tx::note_failure`]). Read next:
//! `flow/judge.rs`, which judges; `issues.rs` for where labels come from.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Result, Store, Tx, db, from_json, to_json, un_db};
use crate::decide::Health;
use crate::domain::{
    ChangeKey, CommitSha, Evidence, JobName, JobObservation, JobState, RepoKey, RunRef, RunnerName, Timestamp,
};

/// A run that ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    /// The store's number.
    pub id: i64,
    /// The repository.
    pub repo: RepoKey,
    /// The revision's commit.
    pub sha: CommitSha,
    /// The job.
    pub job: JobName,
    /// What the job's name is unique in.
    pub scope: String,
    /// The run.
    pub run: RunRef,
    /// The runner that can run it again; none when nobody can.
    pub runner: Option<RunnerName>,
    /// How it ended.
    pub state: JobState,
    /// The runner's word for why.
    pub cause: Option<String>,
    /// When it was told.
    pub at: Timestamp,
    /// How often judging it failed.
    pub tries: u32,
    /// The known flake behind it.
    pub evidence: Option<Evidence>,
    /// What was decided, for people; none while nothing is.
    pub verdict: Option<String>,
    /// When the same job passed on the same head.
    pub passed_at: Option<Timestamp>,
}

/// Retries that nobody asked for, counted over a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnaskedCount {
    /// By the label, in the repository.
    pub label: u32,
    /// On the change.
    pub change: u32,
    /// On the runner.
    pub runner: u32,
}

const COLUMNS: &str =
    "id, forge, repo, sha, job, scope, run, runner, state, cause, at, tries, evidence, verdict, passed_at";

fn failure_from(row: &SqliteRow) -> Result<FailedRun> {
    let sha: String = row.try_get("sha")?;
    let evidence: Option<String> = row.try_get("evidence")?;
    let unreadable =
        |error: &dyn std::fmt::Display| super::StoreError::Unreadable { what: "commit", error: error.to_string() };
    Ok(FailedRun {
        id: row.try_get("id")?,
        repo: RepoKey { forge: row.try_get::<String, _>("forge")?.as_str().into(), id: un_db(row.try_get("repo")?) },
        sha: CommitSha::parse(&sha).map_err(|error| unreadable(&error))?,
        job: JobName::new(row.try_get::<String, _>("job")?),
        scope: row.try_get("scope")?,
        run: RunRef::new(row.try_get::<String, _>("run")?),
        runner: row.try_get::<Option<String>, _>("runner")?.map(RunnerName::new),
        state: JobState::parse(&row.try_get::<String, _>("state")?).unwrap_or(JobState::Lost),
        cause: row.try_get("cause")?,
        at: Timestamp::from_ms(row.try_get("at")?),
        tries: row.try_get("tries")?,
        evidence: evidence.map(|text| from_json("evidence", &text)).transpose()?,
        verdict: row.try_get("verdict")?,
        passed_at: row.try_get::<Option<i64>, _>("passed_at")?.map(Timestamp::from_ms),
    })
}

impl Store {
    /// The failures to be judged now, oldest first.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn due_failures(&self, now: Timestamp, limit: u32) -> Result<Vec<FailedRun>> {
        let text = format!("SELECT {COLUMNS} FROM failures WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2");
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).bind(now.ms()).bind(limit).fetch_all(&self.read).await?;
        rows.iter().map(failure_from).collect()
    }

    /// When the next failure is to be judged; none when none is.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn next_failure(&self) -> Result<Option<Timestamp>> {
        let (due,): (Option<i64>,) =
            sqlx::query_as("SELECT min(due_at) FROM failures WHERE due_at IS NOT NULL").fetch_one(&self.read).await?;
        Ok(due.map(Timestamp::from_ms))
    }

    /// The failures on a commit, oldest first.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn failures_of(&self, repo: &RepoKey, sha: &CommitSha) -> Result<Vec<(FailedRun, bool)>> {
        let text = format!(
            "SELECT {COLUMNS}, due_at IS NOT NULL AS undecided FROM failures INDEXED BY failures_once \
             WHERE forge = $1 AND repo = $2 AND sha = $3 ORDER BY id"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(repo.forge.as_str().to_owned())
            .bind(db(repo.id))
            .bind(sha.as_str().to_owned())
            .fetch_all(&self.read)
            .await?;
        rows.iter().map(|row| Ok((failure_from(row)?, row.try_get("undecided")?))).collect()
    }

    /// The failures of a repository since a time, oldest first; of one job when it is named.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn failures_since(
        &self,
        repo: &RepoKey,
        job: Option<&JobName>,
        since: Timestamp,
    ) -> Result<Vec<FailedRun>> {
        let text = format!(
            "SELECT {COLUMNS} FROM failures WHERE forge = $1 AND repo = $2 AND at >= $3 \
             AND job = coalesce($4, job) ORDER BY at, id"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(repo.forge.as_str().to_owned())
            .bind(db(repo.id))
            .bind(since.ms())
            .bind(job.map(|job| job.as_str().to_owned()))
            .fetch_all(&self.read)
            .await?;
        rows.iter().map(failure_from).collect()
    }

    /// On how many other heads of a change a job failed and never passed.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn heads_failed(&self, change: &ChangeKey, sha: &CommitSha, job: &JobName) -> Result<u32> {
        let (heads,): (u32,) = sqlx::query_as(
            "SELECT count(DISTINCT f.sha) FROM heads h JOIN failures f ON f.forge = h.forge AND f.repo = h.repo AND f.sha = h.sha \
             WHERE h.forge = $1 AND h.repo = $2 AND h.number = $3 AND h.sha <> $4 AND f.job = $5 \
             AND f.state NOT IN ('cancelled', 'superseded') \
             AND NOT EXISTS (SELECT 1 FROM failures g WHERE g.forge = f.forge AND g.repo = f.repo AND g.sha = f.sha \
                AND g.job = f.job AND g.passed_at IS NOT NULL)",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(sha.as_str())
        .bind(job.as_str())
        .fetch_one(&self.read)
        .await?;
        Ok(heads)
    }

    /// How many retries there were since a time that nobody asked for: by a label, on a change, on a runner.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn unasked(
        &self,
        (change, runner): (&ChangeKey, &RunnerName),
        label: &str,
        since: Timestamp,
    ) -> Result<UnaskedCount> {
        let (of_label, of_change, of_runner): (u32, u32, u32) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM retries INDEXED BY retries_of_change \
                WHERE forge = $1 AND repo = $2 AND made_at > $5 AND label = $6), \
             (SELECT count(*) FROM retries INDEXED BY retries_of_change \
                WHERE forge = $1 AND repo = $2 AND number = $3 AND made_at > $5 AND label IS NOT NULL), \
             (SELECT count(*) FROM retries INDEXED BY retries_of_runner \
                WHERE runner = $4 AND made_at > $5 AND label IS NOT NULL)",
        )
        .bind(change.repo.forge.as_str())
        .bind(db(change.repo.id))
        .bind(db(change.number))
        .bind(runner.as_str())
        .bind(since.ms())
        .bind(label)
        .fetch_one(&self.read)
        .await?;
        Ok(UnaskedCount { label: of_label, change: of_change, runner: of_runner })
    }

    /// How the heads with runs since a time fared on a runner.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn health(&self, runner: &RunnerName, since: Timestamp) -> Result<Health> {
        let (heads, failing): (u32, u32) = sqlx::query_as(
            "SELECT (SELECT count(DISTINCT forge || ' ' || repo || ' ' || sha) FROM jobs INDEXED BY jobs_age \
                WHERE at >= $2 AND runner = $1 AND progress = 3), \
             (SELECT count(DISTINCT forge || ' ' || repo || ' ' || sha) FROM failures INDEXED BY failures_of_runner \
                WHERE runner = $1 AND at >= $2 AND (state IN ('infrastructure', 'timed_out', 'lost') OR label IS NOT NULL))",
        )
        .bind(runner.as_str())
        .bind(since.ms())
        .fetch_one(&self.read)
        .await?;
        // A head whose failed run is being repeated counts among the failing only: it ended there all the same.
        Ok(Health { heads: heads.max(failing), failing })
    }

    /// Failures after which the job passed on the same head, told since a time; oldest first.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn sightings_since(&self, since: Timestamp, limit: u32) -> Result<Vec<FailedRun>> {
        let text = format!("SELECT {COLUMNS} FROM failures WHERE passed_at > $1 ORDER BY passed_at, id LIMIT $2");
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).bind(since.ms()).bind(limit).fetch_all(&self.read).await?;
        rows.iter().map(failure_from).collect()
    }

    /// How many runs of each job ended or are under way in a repository since a time: the whole of which failures are a part.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn runs_since(&self, repo: &RepoKey, since: Timestamp) -> Result<Vec<(JobName, u64)>> {
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT name, sum(runs) FROM jobs WHERE forge = $1 AND repo = $2 AND at >= $3 GROUP BY name ORDER BY name",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(since.ms())
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(|(name, runs)| (JobName::new(name), un_db(runs))).collect())
    }

    /// Puts the judging of a failure off.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_off_failure(&self, id: i64, until: Timestamp) -> Result<()> {
        sqlx::query("UPDATE failures SET due_at = $2, tries = tries + 1 WHERE id = $1 AND due_at IS NOT NULL")
            .bind(id)
            .bind(until.ms())
            .execute(&self.write)
            .await?;
        Ok(())
    }
}

impl Tx {
    /// Keeps a run that ended badly; `due_at` is when it is to be judged, none when nothing could come of that. A run that is
    /// known stays as it is.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn note_failure(
        &mut self,
        (repo, sha): (&RepoKey, &CommitSha),
        seen: &JobObservation,
        runner: Option<&RunnerName>,
        due_at: Option<Timestamp>,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO failures (forge, repo, sha, job, scope, run, runner, state, cause, at, due_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING",
                [
                    repo.forge.as_str().into(),
                    db(repo.id).into(),
                    sha.as_str().into(),
                    seen.name.as_str().into(),
                    seen.scope.as_str().into(),
                    seen.run.as_str().into(),
                    runner.map(RunnerName::as_str).into(),
                    seen.state.as_str().into(),
                    seen.cause.as_deref().into(),
                    seen.at.ms().into(),
                    due_at.map(Timestamp::ms).into(),
                ],
            )
            .await
    }

    /// A job passed: what failed of it on this head before was no fault of the change.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn note_pass(&mut self, (repo, sha): (&RepoKey, &CommitSha), seen: &JobObservation) -> Result<()> {
        self.0
            .later(
                "UPDATE failures SET passed_at = $6, due_at = NULL WHERE forge = $1 AND repo = $2 AND sha = $3 AND job = $4 \
                 AND scope = $5 AND passed_at IS NULL",
                [
                    repo.forge.as_str().into(),
                    db(repo.id).into(),
                    sha.as_str().into(),
                    seen.name.as_str().into(),
                    seen.scope.as_str().into(),
                    seen.at.ms().into(),
                ],
            )
            .await
    }

    /// Whether a failure is still to be judged.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn is_undecided(&mut self, id: i64) -> Result<bool> {
        let row = self.0.now("SELECT 1 FROM failures WHERE id = $1 AND due_at IS NOT NULL", [id.into()]).await?;
        Ok(row.is_some())
    }

    /// A failure is judged again at `until`: what it waits for, and the flake behind it.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn hold_back(&mut self, id: i64, until: Timestamp, evidence: Option<&Evidence>, why: &str) -> Result<()> {
        let text = evidence.map(|evidence| to_json("evidence", evidence)).transpose()?;
        self.0
            .later(
                "UPDATE failures SET due_at = $2, evidence = $3, verdict = $4 WHERE id = $1",
                [id.into(), until.ms().into(), text.into(), why.into()],
            )
            .await
    }

    /// A failure was judged.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn judged(&mut self, id: i64, evidence: Option<&Evidence>, verdict: &str) -> Result<()> {
        let text = evidence.map(|evidence| to_json("evidence", evidence)).transpose()?;
        self.0
            .later(
                "UPDATE failures SET due_at = NULL, label = $2, evidence = $3, verdict = $4 WHERE id = $1",
                [id.into(), evidence.map(|evidence| evidence.label.as_str()).into(), text.into(), verdict.into()],
            )
            .await
    }

    /// Has the failures of a commit judged again: what labels them may have changed. Those of one job when it is named.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn judge_again(
        &mut self,
        (repo, sha): (&RepoKey, &CommitSha),
        job: Option<&JobName>,
        at: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "UPDATE failures SET due_at = $5, tries = 0 WHERE forge = $1 AND repo = $2 AND sha = $3 \
                 AND job = coalesce($4, job) AND due_at IS NULL AND passed_at IS NULL AND coalesce(verdict, '') <> 'retried'",
                [
                    repo.forge.as_str().into(),
                    db(repo.id).into(),
                    sha.as_str().into(),
                    job.map(JobName::as_str).into(),
                    at.ms().into(),
                ],
            )
            .await
    }

    /// Notes that a job is proposed for a label; false when it was before.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn propose(&mut self, repo: &RepoKey, job: &JobName, at: Timestamp) -> Result<bool> {
        let row = self
            .0
            .now(
                "INSERT INTO proposals (forge, repo, job, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING job",
                [repo.forge.as_str().into(), db(repo.id).into(), job.as_str().into(), at.ms().into()],
            )
            .await?;
        Ok(row.is_some())
    }
}
