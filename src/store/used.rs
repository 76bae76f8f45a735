//! What the last hour and day have used of the limits, counted from the retries themselves.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Result, Store, db};
use crate::decide::{Count, DAY, Figure, HOUR, Limits, Used};
use crate::domain::{ChangeKey, RunnerName, Timestamp};

/// The kinds of the rows that [`statements`] give: a count of a span, and one of a runner.
pub(super) const KINDS: [i64; 2] = [5, 9];

/// A span over which retries are counted: whose, the index that holds them, since when, and how many are allowed.
type Span = (&'static str, &'static str, &'static str, Figure);

fn spans(limits: &Limits) -> [Span; 5] {
    let (change, asker) = ("retries_of_change", "retries_of_asker");
    // Retries that nobody asked for have budgets of their own; where machines are spared, all of them count.
    let of_change = "label IS NULL AND forge = $1 AND repo = $2 AND number = $3";
    let (of_asker, of_repo) = ("forge = $1 AND asker = $5", "forge = $1 AND repo = $2");
    [
        (of_change, change, "$6", limits.change_hour),
        (of_change, change, "$8", limits.change_day),
        (of_asker, asker, "$6", limits.asker_hour),
        (of_asker, asker, "$8", limits.asker_day),
        (of_repo, change, "$8", limits.repository_day),
    ]
}

/// The statements that count, each row led by its kind. $1 forge, $2 repository, $3 change, $5 asker, $6 an hour ago,
/// $8 a day ago. What is not limited is not counted.
pub(super) fn statements(limits: &Limits) -> Vec<String> {
    let span = |(n, (whose, index, since, figure)): (usize, Span)| {
        let rows = format!("FROM retries INDEXED BY {index} WHERE {whose} AND made_at > {since}");
        let last = figure.max.saturating_sub(1);
        let statement = format!(
            "SELECT {} AS kind, {n} AS span, count(*) AS retries, min(made_at) AS oldest, \
             (SELECT made_at {rows} ORDER BY made_at DESC LIMIT 1 OFFSET {last}) AS too_many {rows}",
            KINDS[0]
        );
        figure.is_set().then_some(statement)
    };
    let mut all: Vec<String> = spans(limits).into_iter().enumerate().filter_map(span).collect();
    if limits.runner_day.is_set() {
        let last = limits.runner_day.max.saturating_sub(1);
        all.push(format!(
            "SELECT {} AS kind, runner, count(*) AS retries, min(made_at) AS oldest, \
             (SELECT o.made_at FROM retries o INDEXED BY retries_of_runner WHERE o.runner = r.runner \
             AND o.made_at > $8 ORDER BY o.made_at DESC LIMIT 1 OFFSET {last}) AS too_many \
             FROM retries r INDEXED BY retries_of_runner WHERE made_at > $8 GROUP BY runner",
            KINDS[1]
        ));
    }
    all
}

/// Takes a row of one of [`KINDS`].
pub(super) fn take(used: &mut Used, kind: i64, row: &SqliteRow) -> Result<()> {
    let time = |column: &str| row.try_get::<Option<i64>, _>(column);
    let leaves_first = time("too_many")?.or(time("oldest")?).map(Timestamp::from_ms);
    let count = Count { retries: row.try_get("retries")?, leaves_first };
    if kind == KINDS[1] {
        used.runner_day.insert(RunnerName::new(row.try_get::<String, _>("runner")?), count);
        return Ok(());
    }
    match row.try_get::<i64, _>("span")? {
        0 => used.change_hour = count,
        1 => used.change_day = count,
        2 => used.asker_hour = count,
        3 => used.asker_day = count,
        _ => used.repository_day = count,
    }
    Ok(())
}

impl Store {
    /// What was used of the limits: of the change, its repository, one asker on its forge, and the runners.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn used(&self, change: &ChangeKey, asker: u64, limits: &Limits, now: Timestamp) -> Result<Used> {
        let mut used = Used::default();
        let text = statements(limits).join("; ");
        if text.is_empty() {
            return Ok(used);
        }
        // Nothing but our own words and numbers is in it. The numbers of the values are those of `view.rs`.
        let rows = sqlx::query(sqlx::AssertSqlSafe(text))
            .bind(change.repo.forge.as_str())
            .bind(db(change.repo.id))
            .bind(db(change.number))
            .bind(0)
            .bind(db(asker))
            .bind(now.minus(HOUR).ms())
            .bind("")
            .bind(now.minus(DAY).ms())
            .fetch_all(&self.read)
            .await?;
        for row in &rows {
            take(&mut used, row.try_get("kind")?, row)?;
        }
        Ok(used)
    }
}
