//! All that a command needs of the record, in one turn of a connection's thread instead of one per question.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::Row;

use super::record::job_from;
use super::retries::retry_from;
use super::used;
use super::{JobQuery, Result, Store, StoredChange, db, from_json, to_json};
use crate::decide::{DAY, HOUR, Limits, Used};
use crate::domain::{ChangeKey, CommitSha, Job, Repo, Retry, Timestamp};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct ViewQuery<'a> {
    /// The change.
    pub change: &'a ChangeKey,
    /// The number of the delivery that asks: the head that was known when it arrived is told.
    pub arrived: i64,
    /// Whose retries are counted.
    pub asker: u64,
    /// The limits: what they do not limit is not counted.
    pub limits: &'a Limits,
    /// Now.
    pub now: Timestamp,
    /// Which jobs; none are read for [`JobQuery::All`], which is no short look-up.
    pub jobs: &'a JobQuery,
}

/// The groups of the jobs in a [`CommandView`].
#[derive(Clone, Debug, Default)]
pub struct GroupFacts {
    /// Groups with a retry that may be executing.
    pub busy: BTreeSet<String>,
    /// The jobs of each group that a plain `/retest` would mean, by name and scope.
    pub bad: BTreeMap<String, Vec<(String, String)>>,
}

/// What is known about a change at its head.
#[derive(Clone, Debug, Default)]
pub struct CommandView {
    /// [`Store::version`] before it was read: all that it counts is in here, and perhaps more.
    pub version: u64,
    /// The repository.
    pub repo: Option<Repo>,
    /// The change.
    pub change: Option<StoredChange>,
    /// Since when the record of the head's jobs is without a gap.
    pub known_from: Option<Timestamp>,
    /// Every retry of the change on its head, oldest first.
    pub retries: Vec<Retry>,
    /// What was used of the limits.
    pub used: Used,
    /// What jobs were asked for, and those found; none when they were not read.
    pub jobs: Option<(JobQuery, Vec<Job>)>,
    /// What their groups are doing.
    pub groups: GroupFacts,
}

const HEAD: &str = "(SELECT head FROM changes WHERE forge = $1 AND repo = $2 AND number = $3)";

/// The statements, each row led by the number of its kind. $1 forge, $2 repository, $3 change, $4 delivery, $5 asker,
/// $6 an hour ago, $7 names, $8 a day ago.
fn text(jobs: &JobQuery, limits: &Limits) -> String {
    let mut text = format!(
        "SELECT 1 AS kind, data FROM repos WHERE forge = $1 AND repo = $2; \
         SELECT 2 AS kind, data, (SELECT sha FROM heads h WHERE h.forge = c.forge AND h.repo = c.repo \
         AND h.number = c.number AND h.delivery <= $4 ORDER BY h.delivery DESC LIMIT 1) AS head_then \
         FROM changes c WHERE forge = $1 AND repo = $2 AND number = $3; \
         SELECT 3 AS kind, known_from FROM revisions WHERE forge = $1 AND repo = $2 AND sha = {HEAD}; \
         SELECT 4 AS kind, id, data FROM retries WHERE forge = $1 AND repo = $2 AND number = $3 AND sha = {HEAD} ORDER BY id"
    );
    for statement in used::statements(limits) {
        text.push_str("; ");
        text.push_str(&statement);
    }
    // The indexes are named: without statistics SQLite walks all jobs of the revision instead.
    let of_head = format!("forge = $1 AND repo = $2 AND sha = {HEAD}");
    let (index, which) = match jobs {
        JobQuery::All => return text,
        JobQuery::Bad => ("jobs_bad", "bad = 1"),
        JobQuery::Named(_) => ("jobs_folded", "folded IN (SELECT value FROM json_each($7))"),
    };
    let meant = format!("FROM jobs INDEXED BY {index} WHERE {of_head} AND {which}");
    text.push_str(&format!(
        "; SELECT 6 AS kind, jobs.* {meant} ORDER BY name, scope; \
         SELECT 8 AS kind, grp, id, data FROM retries INDEXED BY retries_of_group \
         WHERE forge = $1 AND repo = $2 AND open = 1 AND grp IN (SELECT grp {meant})"
    ));
    if matches!(jobs, JobQuery::Named(_)) {
        text.push_str(&format!(
            "; SELECT 7 AS kind, grp, name, scope FROM jobs INDEXED BY jobs_group \
             WHERE {of_head} AND grp IN (SELECT grp {meant}) AND bad = 1"
        ));
    }
    text
}

impl Store {
    /// All that a command needs to know, unless it means every job.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn command_view(&self, query: &ViewQuery<'_>) -> Result<CommandView> {
        let names = match query.jobs {
            JobQuery::Named(names) => names.iter().map(|name| name.to_lowercase()).collect(),
            JobQuery::Bad | JobQuery::All => Vec::<String>::new(),
        };
        let jobs = (query.jobs != &JobQuery::All).then(|| (query.jobs.clone(), Vec::new()));
        let mut view = CommandView { version: self.version(), jobs, ..CommandView::default() };
        let rows = sqlx::query(sqlx::AssertSqlSafe(text(query.jobs, query.limits)))
            .bind(query.change.repo.forge.as_str())
            .bind(db(query.change.repo.id))
            .bind(db(query.change.number))
            .bind(query.arrived)
            .bind(db(query.asker))
            .bind(query.now.minus(HOUR).ms())
            .bind(to_json("names", &names)?)
            .bind(query.now.minus(DAY).ms())
            .fetch_all(&self.read)
            .await?;
        for row in &rows {
            view.take(row)?;
        }
        if query.jobs == &JobQuery::Bad {
            for job in view.jobs.iter().flat_map(|(_, jobs)| jobs) {
                let (name, scope) = (job.newest.name.to_string(), job.newest.scope.clone());
                let group = job.newest.group.clone().unwrap_or_default();
                view.groups.bad.entry(group).or_default().push((name, scope));
            }
        }
        Ok(view)
    }
}

impl CommandView {
    /// The jobs, if these are what was asked for.
    pub fn jobs_of(&self, query: &JobQuery) -> Option<&[Job]> {
        self.jobs.as_ref().filter(|(asked, _)| asked == query).map(|(_, jobs)| jobs.as_slice())
    }

    /// Whether the job of a retry is among those that were read, so that what is told of groups covers it.
    pub fn holds(&self, retry: &Retry) -> bool {
        let same = |job: &Job| job.newest.name == retry.job && job.newest.scope == retry.scope;
        self.jobs.iter().flat_map(|(_, jobs)| jobs).any(same)
    }

    fn take(&mut self, row: &sqlx::sqlite::SqliteRow) -> Result<()> {
        let text = |column: &str| row.try_get::<String, _>(column);
        let retry = || -> Result<Retry> { retry_from(&(row.try_get("id")?, text("data")?, None)) };
        match row.try_get::<i64, _>("kind")? {
            1 => self.repo = Some(from_json("repository", &text("data")?)?),
            2 => {
                let then: Option<String> = row.try_get("head_then")?;
                let head_then = then.and_then(|sha| CommitSha::parse(&sha).ok());
                self.change = Some(StoredChange { change: from_json("change", &text("data")?)?, head_then });
            }
            3 => self.known_from = Some(Timestamp::from_ms(row.try_get("known_from")?)),
            4 => self.retries.push(retry()?),
            kind if used::KINDS.contains(&kind) => used::take(&mut self.used, kind, row)?,
            6 => {
                let job = job_from(row)?;
                if let Some((_, jobs)) = &mut self.jobs {
                    jobs.push(job);
                }
            }
            7 => self.groups.bad.entry(text("grp")?).or_default().push((text("name")?, text("scope")?)),
            _ => {
                if retry()?.state.may_have_run() {
                    self.groups.busy.insert(text("grp")?);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions, Executor};

    use super::*;
    use crate::domain::RepoKey;

    fn query<'q>(change: &'q ChangeKey, limits: &'q Limits) -> ViewQuery<'q> {
        ViewQuery { change, arrived: 1, asker: 1, limits, now: Timestamp::default(), jobs: &JobQuery::Bad }
    }

    #[tokio::test]
    async fn what_was_read_while_a_transaction_was_being_committed_is_not_taken_for_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let store = Store::open(&path, 8).await.expect("a store");
        let repo = RepoKey { forge: "github".into(), id: 1 };
        let (change, limits) = (ChangeKey { repo: repo.clone(), number: 7 }, Limits::NONE);
        let sha = CommitSha::parse(&"a".repeat(40)).expect("a commit");

        // Somebody holds the file, so that the commit has begun and its rows are not there yet.
        let mut other = SqliteConnectOptions::new().filename(&path).connect().await.expect("the file");
        other.execute("BEGIN IMMEDIATE").await.expect("the lock");
        let mut tx = store.begin().await.expect("a transaction");
        tx.0.later(
            "INSERT INTO revisions (forge, repo, sha, known_from) VALUES ($1, $2, $3, 5)",
            [repo.forge.as_str().into(), db(repo.id).into(), sha.as_str().into()],
        )
        .await
        .expect("collected");
        let mut commit = std::pin::pin!(tx.commit());
        let early = tokio::time::timeout(Duration::from_millis(1), &mut commit).await;
        assert!(early.is_err(), "the commit waits for the file");
        let old = store.command_view(&query(&change, &limits)).await.expect("a view");
        other.execute("ROLLBACK").await.expect("the lock is free");
        commit.await.expect("committed");

        let tx = store.begin().await.expect("a transaction");
        assert!(!tx.is_first_since(old.version), "the view misses what was committed meanwhile");
        drop(tx);
        let new = store.command_view(&query(&change, &limits)).await.expect("a view");
        assert!(store.begin().await.expect("a transaction").is_first_since(new.version));
        assert!(store.is_still(new.version));
        store.close().await;
    }
}
