//! The record: repositories, changes with their heads, and the newest run of every job of a revision.
//!
//! **Invariant:** an older run, or an older report about the same run, never overwrites a newer one ([`Tx::put_job`]).

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Result, Store, Tx, db, from_json, to_json, un_db};
use crate::domain::{
    Change, ChangeKey, CommitSha, Job, JobName, JobObservation, JobState, ListedJob, Origin, Repo, RepoKey, RunOrder,
    RunRef, RunnerName, Timestamp,
};

/// A change with what the store knows beside it.
#[derive(Clone, Debug)]
pub struct StoredChange {
    /// The change.
    pub change: Change,
    /// The head that was known when a given delivery arrived; none when only later ones are known.
    pub head_then: Option<CommitSha>,
}

/// Which jobs of a revision are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobQuery {
    /// Those that a plain `/retest` means.
    Bad,
    /// Those with one of these names, whatever the case.
    Named(Vec<String>),
    /// All.
    All,
}

const ALLOW_FAILURE: i64 = 1;
const MANUAL: i64 = 2;

const JOB_COLUMNS: &str = "name, scope, state, order1, order2, run, grp, origin, cause, url, flags, needs, at, runner, runs, platform, standalone";

pub(super) fn job_from(row: &SqliteRow) -> Result<Job> {
    let flags: i64 = row.try_get("flags")?;
    let needs: Option<String> = row.try_get("needs")?;
    let origin: String = row.try_get("origin")?;
    let state: String = row.try_get("state")?;
    let newest = JobObservation {
        name: JobName::new(row.try_get::<String, _>("name")?),
        scope: row.try_get("scope")?,
        origin: origin_from(&origin),
        run: RunRef::new(row.try_get::<String, _>("run")?),
        order: RunOrder(row.try_get("order1")?, row.try_get("order2")?),
        group: row.try_get("grp")?,
        state: JobState::parse(&state).unwrap_or(JobState::Lost),
        cause: row.try_get("cause")?,
        url: row.try_get("url")?,
        allow_failure: flags & ALLOW_FAILURE != 0,
        manual: flags & MANUAL != 0,
        needs: needs.map(|text| from_json("needs", &text)).transpose()?,
        at: Timestamp::from_ms(row.try_get("at")?),
    };
    let runner: Option<String> = row.try_get("runner")?;
    let runs: u32 = row.try_get("runs")?;
    Ok(Job {
        newest,
        runner: runner.map(RunnerName::new),
        required: false,
        runs,
        platform: row.try_get("platform")?,
        standalone: row.try_get("standalone")?,
    })
}

fn origin_from(word: &str) -> Origin {
    match word {
        "actions" => Origin::Actions,
        "gitlab_ci" => Origin::GitLabCi,
        "status" => Origin::Status,
        "followed" => Origin::Followed,
        "reported" => Origin::Reported,
        other => Origin::Check(other.strip_prefix("check:").unwrap_or(other).to_owned()),
    }
}

fn origin_word(origin: &Origin) -> String {
    match origin {
        Origin::Actions => "actions".to_owned(),
        Origin::GitLabCi => "gitlab_ci".to_owned(),
        Origin::Status => "status".to_owned(),
        Origin::Followed => "followed".to_owned(),
        Origin::Reported => "reported".to_owned(),
        Origin::Check(slug) => format!("check:{slug}"),
    }
}

impl Store {
    /// A repository.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn repo(&self, key: &RepoKey) -> Result<Option<Repo>> {
        let row: Option<(String,)> = sqlx::query_as("SELECT data FROM repos WHERE forge = $1 AND repo = $2")
            .bind(key.forge.as_str())
            .bind(db(key.id))
            .fetch_optional(&self.read)
            .await?;
        row.map(|(data,)| from_json("repository", &data)).transpose()
    }

    /// Every repository ever heard of, for the slow look for missed comments.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn repos(&self) -> Result<Vec<Repo>> {
        let rows: Vec<(String,)> =
            sqlx::query_as("SELECT data FROM repos ORDER BY forge, repo").fetch_all(&self.read).await?;
        rows.iter().map(|(data,)| from_json("repository", data)).collect()
    }

    /// A change, and the head it had when the delivery with the number `arrived` came in.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn change(&self, key: &ChangeKey, arrived: i64) -> Result<Option<StoredChange>> {
        let row: Option<(String, Option<String>)> = sqlx::query_as(
            "SELECT data, (SELECT sha FROM heads h WHERE h.forge = c.forge AND h.repo = c.repo AND h.number = c.number \
             AND h.delivery <= $4 ORDER BY h.delivery DESC LIMIT 1) \
             FROM changes c WHERE forge = $1 AND repo = $2 AND number = $3",
        )
        .bind(key.repo.forge.as_str())
        .bind(db(key.repo.id))
        .bind(db(key.number))
        .bind(arrived)
        .fetch_optional(&self.read)
        .await?;
        let Some((data, then)) = row else { return Ok(None) };
        let head_then = then.and_then(|sha| CommitSha::parse(&sha).ok());
        Ok(Some(StoredChange { change: from_json("change", &data)?, head_then }))
    }

    /// The open changes whose head is this commit.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn changes_at(&self, repo: &RepoKey, sha: &CommitSha) -> Result<Vec<Change>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT data FROM changes INDEXED BY changes_head WHERE forge = $1 AND repo = $2 AND head = $3 AND open = 1",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(|(data,)| from_json("change", data)).collect()
    }

    /// Since when the record of this revision's jobs is without a gap; none when it never was.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn known_from(&self, repo: &RepoKey, sha: &CommitSha) -> Result<Option<Timestamp>> {
        let row: Option<(i64,)> =
            sqlx::query_as("SELECT known_from FROM revisions WHERE forge = $1 AND repo = $2 AND sha = $3")
                .bind(repo.forge.as_str())
                .bind(db(repo.id))
                .bind(sha.as_str())
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(ms,)| Timestamp::from_ms(ms)))
    }

    /// Jobs of a revision, by name. `Named` costs the same whatever the number of jobs on the revision.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn jobs(&self, repo: &RepoKey, sha: &CommitSha, query: &JobQuery) -> Result<Vec<Job>> {
        // The index is named: without statistics SQLite walks all jobs of the revision along the primary key instead.
        let base =
            |index: &str| format!("SELECT {JOB_COLUMNS} FROM jobs {index} WHERE forge = $1 AND repo = $2 AND sha = $3");
        let (text, names) = match query {
            JobQuery::Bad => (format!("{} AND bad = 1 ORDER BY name, scope", base("INDEXED BY jobs_bad")), None),
            JobQuery::All => (format!("{} ORDER BY name, scope", base("")), None),
            JobQuery::Named(names) => {
                let folded: Vec<String> = names.iter().map(|n| n.to_lowercase()).collect();
                let base = base("INDEXED BY jobs_folded");
                let text = format!("{base} AND folded IN (SELECT value FROM json_each($4)) ORDER BY name, scope");
                (text, Some(to_json("names", &folded)?))
            }
        };
        let mut sql = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(repo.forge.as_str().to_owned())
            .bind(db(repo.id))
            .bind(sha.as_str().to_owned());
        if let Some(names) = names {
            sql = sql.bind(names);
        }
        sql.fetch_all(&self.read).await?.iter().map(job_from).collect()
    }

    /// The jobs of a group that a plain `/retest` would mean, by name and scope: tells whether an order covers them all.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn bad_in_group(&self, repo: &RepoKey, sha: &CommitSha, group: &str) -> Result<Vec<(String, String)>> {
        Ok(sqlx::query_as(
            "SELECT name, scope FROM jobs INDEXED BY jobs_bad \
             WHERE forge = $1 AND repo = $2 AND sha = $3 AND bad = 1 AND grp = $4",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(group)
        .fetch_all(&self.read)
        .await?)
    }

    /// The names of the jobs that were skipped in a group: they run along when a job before them is restarted.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn skipped_in_group(&self, repo: &RepoKey, sha: &CommitSha, group: &str) -> Result<Vec<JobName>> {
        let rows: Vec<(String,)> = sqlx::query_as(
            "SELECT name FROM jobs INDEXED BY jobs_group \
             WHERE forge = $1 AND repo = $2 AND sha = $3 AND grp = $4 AND state = 'skipped' \
             ORDER BY name LIMIT 50",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(group)
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(|(name,)| JobName::new(name)).collect())
    }

    /// The required names of a base branch and when they were asked for.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn required(&self, repo: &RepoKey, base_ref: &str) -> Result<Option<(Vec<String>, Timestamp)>> {
        let row: Option<(String, i64)> =
            sqlx::query_as("SELECT names, asked_at FROM required WHERE forge = $1 AND repo = $2 AND base_ref = $3")
                .bind(repo.forge.as_str())
                .bind(db(repo.id))
                .bind(base_ref)
                .fetch_optional(&self.read)
                .await?;
        row.map(|(names, at)| Ok((from_json("required names", &names)?, Timestamp::from_ms(at)))).transpose()
    }
}

impl Store {
    /// When a default branch last moved, as far as we heard of it.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn branch_moved_at(&self, repo: &RepoKey, branch: &str) -> Result<Option<Timestamp>> {
        let row: Option<(i64,)> =
            sqlx::query_as("SELECT moved_at FROM branches WHERE forge = $1 AND repo = $2 AND name = $3")
                .bind(repo.forge.as_str())
                .bind(db(repo.id))
                .bind(branch)
                .fetch_optional(&self.read)
                .await?;
        Ok(row.map(|(at,)| Timestamp::from_ms(at)))
    }
}

impl Tx {
    /// Notes that a branch has moved; the same end told twice is no move.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_branch(&mut self, repo: &RepoKey, branch: &str, sha: &CommitSha, at: Timestamp) -> Result<()> {
        self.0
            .later(
                "INSERT INTO branches (forge, repo, name, sha, moved_at) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (forge, repo, name) DO UPDATE SET sha = excluded.sha, moved_at = excluded.moved_at \
                 WHERE branches.sha <> excluded.sha AND branches.moved_at <= excluded.moved_at",
                [repo.forge.as_str().into(), db(repo.id).into(), branch.into(), sha.as_str().into(), at.ms().into()],
            )
            .await?;
        Ok(())
    }

    /// Keeps the newest name and installation of a repository. What the new value does not tell stays.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_repo(&mut self, repo: &Repo) -> Result<()> {
        let old: Option<(String,)> = sqlx::query_as("SELECT data FROM repos WHERE forge = $1 AND repo = $2")
            .bind(repo.key.forge.as_str())
            .bind(db(repo.key.id))
            .fetch_optional(&mut *self.0)
            .await?;
        let mut new = repo.clone();
        if let Some((data,)) = old {
            let old: Repo = from_json("repository", &data)?;
            new.installation = new.installation.or(old.installation);
            new.default_branch = new.default_branch.or_else(|| old.default_branch.clone());
            if new == old {
                return Ok(());
            }
        }
        self.0
            .later(
                "INSERT INTO repos (forge, repo, data) VALUES ($1, $2, $3) \
             ON CONFLICT (forge, repo) DO UPDATE SET data = excluded.data",
                [repo.key.forge.as_str().into(), db(repo.key.id).into(), to_json("repository", &new)?.into()],
            )
            .await?;
        Ok(())
    }

    /// The change as stored.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn change(&mut self, key: &ChangeKey) -> Result<Option<Change>> {
        let row: Option<(String,)> =
            sqlx::query_as("SELECT data FROM changes WHERE forge = $1 AND repo = $2 AND number = $3")
                .bind(key.repo.forge.as_str())
                .bind(db(key.repo.id))
                .bind(db(key.number))
                .fetch_optional(&mut *self.0)
                .await?;
        row.map(|(data,)| from_json("change", &data)).transpose()
    }

    /// Stores a change and, when its head is new, that the delivery with the number `delivery` brought it.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_change(&mut self, change: &Change, delivery: i64) -> Result<()> {
        let (forge, repo, number) = (change.key.repo.forge.as_str(), db(change.key.repo.id), db(change.key.number));
        self.0.later("INSERT INTO changes (forge, repo, number, head, open, updated_at, data) VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (forge, repo, number) DO UPDATE SET head = excluded.head, open = excluded.open, \
             updated_at = excluded.updated_at, data = excluded.data", [forge.into(), repo.into(), number.into(), change.head.as_str().into(), i64::from(change.open).into(), change.updated_at.ms().into(), to_json("change", change)?.into()]).await?;
        self.0
            .later(
                "INSERT INTO heads (forge, repo, number, delivery, sha) SELECT $1, $2, $3, $4, $5 WHERE $5 IS NOT \
             (SELECT sha FROM heads WHERE forge = $1 AND repo = $2 AND number = $3 ORDER BY delivery DESC LIMIT 1) \
             ON CONFLICT DO NOTHING",
                [forge.into(), repo.into(), number.into(), delivery.into(), change.head.as_str().into()],
            )
            .await?;
        Ok(())
    }

    /// Records that every job event of a revision since `from` was seen, or that its jobs were listed then.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_revision(&mut self, repo: &RepoKey, sha: &CommitSha, from: Timestamp) -> Result<()> {
        self.0
            .later(
                "INSERT INTO revisions (forge, repo, sha, known_from) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (forge, repo, sha) DO UPDATE SET known_from = excluded.known_from",
                [repo.forge.as_str().into(), db(repo.id).into(), sha.as_str().into(), from.ms().into()],
            )
            .await?;
        Ok(())
    }

    /// Stores what was asked about required names.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_required(
        &mut self,
        repo: &RepoKey,
        base_ref: &str,
        names: &[String],
        at: Timestamp,
    ) -> Result<()> {
        self.0
            .later(
                "INSERT INTO required (forge, repo, base_ref, names, asked_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (forge, repo, base_ref) DO UPDATE SET names = excluded.names, asked_at = excluded.asked_at",
                [
                    repo.forge.as_str().into(),
                    db(repo.id).into(),
                    base_ref.into(),
                    to_json("required names", &names)?.into(),
                    at.ms().into(),
                ],
            )
            .await?;
        Ok(())
    }

    /// Takes a report about a run into the record, and says whether it was news: a report about an older run, or an
    /// older report about the same run, changes nothing.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_job(
        &mut self,
        repo: &RepoKey,
        sha: &CommitSha,
        seen: &JobObservation,
        runner: Option<&RunnerName>,
    ) -> Result<bool> {
        let flags = i64::from(seen.allow_failure) * ALLOW_FAILURE + i64::from(seen.manual) * MANUAL;
        let needs = seen.needs.as_ref().map(|n| to_json("needs", n)).transpose()?;
        let done = sqlx::query(PUT_JOB)
            .bind(repo.forge.as_str())
            .bind(db(repo.id))
            .bind(sha.as_str())
            .bind(seen.name.as_str())
            .bind(&seen.scope)
            .bind(seen.name.as_str().to_lowercase())
            .bind(seen.state.as_str())
            .bind(i64::from(seen.state.is_restartable()))
            .bind(i64::from(seen.state.rank()))
            .bind(seen.order.0)
            .bind(seen.order.1)
            .bind(seen.run.as_str())
            .bind(seen.group.as_deref())
            .bind(origin_word(&seen.origin))
            .bind(seen.cause.as_deref())
            .bind(seen.url.as_deref())
            .bind(flags)
            .bind(needs)
            .bind(seen.at.ms())
            .bind(runner.map(RunnerName::as_str))
            .execute(&mut *self.0)
            .await?;
        Ok(done.rows_affected() == 1)
    }
}

impl Tx {
    /// A job as the record holds it.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn job(&mut self, repo: &RepoKey, sha: &CommitSha, name: &JobName, scope: &str) -> Result<Option<Job>> {
        let text = format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE forge = $1 AND repo = $2 AND sha = $3 AND name = $4 AND scope = $5"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(repo.forge.as_str().to_owned())
            .bind(db(repo.id))
            .bind(sha.as_str().to_owned())
            .bind(name.as_str().to_owned())
            .bind(scope.to_owned())
            .fetch_optional(&mut *self.0)
            .await?;
        row.as_ref().map(job_from).transpose()
    }

    /// Keeps what a runner's listing or an outside system told of a job beside its run; what is not told stays.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_job_facts(&mut self, repo: &RepoKey, sha: &CommitSha, job: &ListedJob) -> Result<()> {
        if job.platform.is_none() && job.standalone.is_none() {
            return Ok(());
        }
        sqlx::query(
            "UPDATE jobs SET platform = coalesce($6, platform), standalone = coalesce($7, standalone) \
             WHERE forge = $1 AND repo = $2 AND sha = $3 AND name = $4 AND scope = $5",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(job.seen.name.as_str())
        .bind(&job.seen.scope)
        .bind(job.platform.as_deref())
        .bind(job.standalone)
        .execute(&mut *self.0)
        .await?;
        Ok(())
    }

    /// Whether a status of this name on this commit was posted by us: then reports of it are our own echo.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn is_posted(&mut self, repo: &RepoKey, sha: &CommitSha, context: &str) -> Result<bool> {
        let row: Option<(i64,)> = sqlx::query_as(
            "SELECT 1 FROM statuses WHERE forge = $1 AND repo = $2 AND sha = $3 AND kind = 'status' AND context = $4",
        )
        .bind(repo.forge.as_str())
        .bind(db(repo.id))
        .bind(sha.as_str())
        .bind(context)
        .fetch_optional(&mut *self.0)
        .await?;
        Ok(row.is_some())
    }
}

const PUT_JOB: &str = "INSERT INTO jobs (forge, repo, sha, name, scope, folded, state, bad, progress, order1, order2, run, \
    grp, origin, cause, url, flags, needs, at, runner, runs) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, 1) \
    ON CONFLICT (forge, repo, sha, name, scope) DO UPDATE SET state = excluded.state, bad = excluded.bad, \
    progress = excluded.progress, order1 = excluded.order1, order2 = excluded.order2, run = excluded.run, \
    grp = coalesce(excluded.grp, jobs.grp), origin = excluded.origin, cause = excluded.cause, \
    url = coalesce(excluded.url, CASE WHEN (excluded.order1, excluded.order2) = (jobs.order1, jobs.order2) THEN jobs.url END), \
    flags = excluded.flags, needs = coalesce(excluded.needs, jobs.needs), \
    at = CASE WHEN (excluded.order1, excluded.order2) = (jobs.order1, jobs.order2) AND excluded.state = jobs.state THEN jobs.at ELSE excluded.at END, \
    runner = coalesce(excluded.runner, jobs.runner), \
    runs = jobs.runs + CASE WHEN (excluded.order1, excluded.order2) = (jobs.order1, jobs.order2) THEN 0 ELSE 1 END \
    WHERE (excluded.order1, excluded.order2) > (jobs.order1, jobs.order2) \
    OR ((excluded.order1, excluded.order2) = (jobs.order1, jobs.order2) AND (excluded.progress > jobs.progress \
        OR (excluded.progress = jobs.progress AND excluded.at >= jobs.at)))";

/// The number of a change as the store sees it; other modules of the store use it in their rows.
pub(super) fn change_key(forge: String, repo: i64, number: i64) -> ChangeKey {
    ChangeKey { repo: RepoKey { forge: forge.as_str().into(), id: un_db(repo) }, number: un_db(number) }
}
