//! Deliveries: stored before they are answered, each happening once, in groups that share one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::sqlite::SqliteConnection;
use sqlx::{QueryBuilder, Sqlite};
use tokio::sync::{mpsc, oneshot};

use super::line::Lines;
use super::{Result, Store, StoreError, from_json, to_json};
use crate::domain::{DeliveryId, ForgeEvent, ForgeName, Timestamp};

/// How many requests may wait for the writer; more are told to come back (503).
const WAITING_MAX: usize = 8_192;

/// A delivery to store.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// The forge that sent it.
    pub forge: ForgeName,
    /// The forge's id of it.
    pub id: DeliveryId,
    /// What it holds.
    pub event: ForgeEvent,
    /// When it arrived.
    pub at: Timestamp,
}

impl NewDelivery {
    /// The lane it will be worked on in, as [`StoredDelivery::lane`].
    pub fn lane(&self) -> Option<String> {
        lane_of(&self.event)
    }
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is on the disk now.
    Stored,
    /// It was there before, or another delivery told of the same happening.
    Duplicate,
}

/// A delivery that waits to be worked on.
#[derive(Clone, Debug)]
pub struct StoredDelivery {
    /// The store's number; rises in order of arrival.
    pub row: i64,
    /// The forge that sent it.
    pub forge: ForgeName,
    /// The forge's id of it.
    pub id: DeliveryId,
    /// Deliveries with the same lane are worked on in order. None for facts, which any order serves.
    pub lane: Option<String>,
    /// What it holds.
    pub event: ForgeEvent,
    /// When it arrived.
    pub at: Timestamp,
    /// Not before.
    pub due_at: Timestamp,
    /// Failed tries so far.
    pub tries: u32,
}

/// Deliveries that wait, as found.
#[derive(Clone, Debug, Default)]
pub struct WaitingDeliveries {
    /// The deliveries, in order of arrival.
    pub found: Vec<StoredDelivery>,
    /// Whether these are all that wait up to `top`.
    pub all: bool,
    /// The newest delivery that was looked at, by its number.
    pub top: i64,
}

struct Waiting {
    row: Row,
    done: oneshot::Sender<Result<Option<i64>>>,
}

/// What one delivery is in the table.
struct Row {
    forge: String,
    delivery: String,
    dedupe: Option<String>,
    lane: Option<String>,
    event: String,
    received_at: i64,
}

/// Most rows of one statement: SQLite takes 32,766 values, and a row has six.
const ROWS_MAX: usize = 5_000;

/// Commands of one lane that are read at a time; the next ones come when these are worked off.
const LANE_MAX: u32 = 20;

/// Lanes are stepped through by the index, each with its first rows, so that a long lane costs no more than a short one.
const WAITING: &str = "WITH RECURSIVE lanes (lane) AS ( \
    SELECT min(lane) FROM deliveries INDEXED BY deliveries_waiting WHERE state = 0 AND lane > '' \
    UNION ALL \
    SELECT (SELECT min(d.lane) FROM deliveries d INDEXED BY deliveries_waiting WHERE d.state = 0 AND d.lane > lanes.lane) \
    FROM lanes WHERE lanes.lane IS NOT NULL), \
    ready (id) AS ( \
    SELECT d.id FROM lanes JOIN deliveries d INDEXED BY deliveries_waiting ON d.state = 0 AND d.lane = lanes.lane \
    WHERE d.id IN (SELECT e.id FROM deliveries e INDEXED BY deliveries_waiting \
        WHERE e.state = 0 AND e.lane = lanes.lane ORDER BY e.id LIMIT $3) \
    AND NOT EXISTS (SELECT 1 FROM deliveries f INDEXED BY deliveries_waiting \
        WHERE f.state = 0 AND f.lane = lanes.lane AND f.id <= d.id AND f.due_at > $2) \
    ORDER BY d.id LIMIT $1) \
    SELECT id, forge, delivery, lane, event, received_at, due_at, tries FROM deliveries \
    WHERE id IN (SELECT id FROM deliveries INDEXED BY deliveries_waiting WHERE state = 0 AND lane IS NULL ORDER BY id LIMIT $1) \
    OR id IN (SELECT id FROM ready) ORDER BY id";

/// The one writer of deliveries.
#[derive(Clone, Debug)]
pub(super) struct Group(mpsc::Sender<Waiting>, Arc<AtomicBool>);

impl Group {
    pub(super) fn start(line: Lines, batch_max: usize) -> Self {
        let (sender, mut receiver) = mpsc::channel::<Waiting>(WAITING_MAX);
        let failing: Arc<AtomicBool> = Arc::default();
        let told = Arc::clone(&failing);
        tokio::spawn(async move {
            let mut batch = Vec::new();
            while receiver.recv_many(&mut batch, batch_max.clamp(1, ROWS_MAX)).await > 0 {
                let result = write(&line, &batch).await;
                told.store(result.is_err(), Ordering::Release);
                answer(batch.drain(..), result);
            }
        });
        Self(sender, failing)
    }

    /// Writing works again.
    pub(super) fn heal(&self) {
        self.1.store(false, Ordering::Release);
    }

    /// Waits until everything handed over so far is on the disk.
    pub(super) async fn stop(&self) {
        // A permit for the whole channel is granted only when it is empty.
        drop(self.0.reserve_many(WAITING_MAX).await);
    }
}

/// Writes a batch with one statement, which is its own transaction, and gives each new row's number.
///
/// A transaction around it would cost two more turns of the connection's thread. Rows are not asked for back either:
/// nearly every batch is new as a whole, and then its numbers follow each other up to the last.
async fn write(line: &Lines, batch: &[Waiting]) -> Result<Vec<Option<i64>>> {
    let mut held = line.hold().await?;
    let database = held.connection()?;
    let mut insert =
        QueryBuilder::<Sqlite>::new("INSERT INTO deliveries (forge, delivery, dedupe, lane, event, received_at) ");
    insert.push_values(batch.iter().map(|w| &w.row), |mut values, row| {
        values.push_bind(&row.forge).push_bind(&row.delivery).push_bind(row.dedupe.as_deref());
        values.push_bind(row.lane.as_deref()).push_bind(&row.event).push_bind(row.received_at);
    });
    insert.push(" ON CONFLICT DO NOTHING");
    let done = insert.build().execute(&mut *database).await?;
    let inserted = usize::try_from(done.rows_affected()).unwrap_or(usize::MAX);
    if inserted >= batch.len() {
        let first = done.last_insert_rowid() - i64::try_from(batch.len()).unwrap_or(i64::MAX) + 1;
        return Ok((first..).take(batch.len()).map(Some).collect());
    }
    if inserted == 0 {
        return Ok(vec![None; batch.len()]);
    }
    which_are_new(database, batch, inserted).await
}

/// Tells the new rows of a batch from those that were there before: only this task inserts, and numbers only rise, so
/// the new ones are the newest.
async fn which_are_new(
    database: &mut SqliteConnection,
    batch: &[Waiting],
    inserted: usize,
) -> Result<Vec<Option<i64>>> {
    let mut new: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT forge, delivery, id FROM deliveries ORDER BY id DESC LIMIT $1")
            .bind(i64::try_from(inserted).unwrap_or(i64::MAX))
            .fetch_all(database)
            .await?;
    // Of two rows of a batch with one id the first was inserted, so a hit is used up.
    let mut number = |waiting: &Waiting| {
        let row = &waiting.row;
        let hit = new.iter().position(|(forge, id, _)| *forge == row.forge && *id == row.delivery);
        hit.map(|at| new.swap_remove(at).2)
    };
    Ok(batch.iter().map(&mut number).collect())
}

fn answer(batch: impl Iterator<Item = Waiting>, result: Result<Vec<Option<i64>>>) {
    match result {
        Ok(numbers) => {
            for (waiting, number) in batch.zip(numbers) {
                waiting.done.send(Ok(number)).ok();
            }
        }
        Err(error) => {
            tracing::error!(%error, "deliveries could not be stored; the forge is told so");
            for waiting in batch {
                waiting.done.send(Err(StoreError::Refused)).ok();
            }
        }
    }
}

impl Store {
    /// Whether the last deliveries could not be stored: the disk is full, or the file cannot be written.
    pub fn takes_nothing(&self) -> bool {
        self.group.1.load(Ordering::Acquire)
    }

    /// Stores a delivery durably: when this returns `Stored`, it survives a power cut.
    ///
    /// # Errors
    /// Nothing was stored and the sender must be told so.
    pub async fn accept(&self, new: NewDelivery) -> Result<Accepted> {
        Ok(self.take_in(new).await?.map_or(Accepted::Duplicate, |_| Accepted::Stored))
    }

    /// Stores a delivery as [`Store::accept`] does, and gives it back with its number; none when it was there before.
    ///
    /// # Errors
    /// Nothing was stored and the sender must be told so.
    pub async fn take_in(&self, new: NewDelivery) -> Result<Option<StoredDelivery>> {
        let lane = new.lane();
        let row = Row {
            lane: lane.clone(),
            event: to_json("event", &new.event)?,
            dedupe: new.event.dedupe_key(),
            forge: new.forge.as_str().to_owned(),
            delivery: new.id.as_str().to_owned(),
            received_at: new.at.ms(),
        };
        let (done, wait) = oneshot::channel();
        self.group.0.try_send(Waiting { row, done }).map_err(|_| StoreError::Closed)?;
        let number = wait.await.map_err(|_| StoreError::Closed)??;
        Ok(number.map(|row| StoredDelivery {
            row,
            forge: new.forge,
            id: new.id,
            lane,
            event: new.event,
            at: new.at,
            due_at: Timestamp::default(),
            tries: 0,
        }))
    }

    /// The oldest deliveries that are due, in order of arrival: facts, and commands of which no earlier one of their lane
    /// is put off. At most `limit` facts and `limit` commands, and of each lane at most `LANE_MAX`, so that a lane that
    /// is stuck does not keep others from being seen.
    ///
    /// # Errors
    /// When the database is not there. A row that cannot be read is set aside, not an error.
    pub async fn waiting(&self, now: Timestamp, limit: u32) -> Result<WaitingDeliveries> {
        // Rows that wait can only become fewer between the two looks, so equal numbers mean equal rows.
        let (top, waiting): (i64, i64) = sqlx::query_as(
            "SELECT coalesce(max(id), 0), (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE state = 0 LIMIT $1)) \
             FROM deliveries",
        )
        .bind(2 * i64::from(limit) + 1)
        .fetch_one(&self.read)
        .await?;
        type Row = (i64, String, String, Option<String>, String, i64, i64, u32);
        let rows: Vec<Row> =
            sqlx::query_as(WAITING).bind(limit).bind(now.ms()).bind(LANE_MAX).fetch_all(&self.read).await?;
        let known = rows.iter().filter(|row| row.0 <= top).count();
        let all = i64::try_from(known).is_ok_and(|known| known == waiting);
        let top = rows.iter().map(|row| row.0).fold(top, i64::max);
        let mut found = Vec::with_capacity(rows.len());
        for (row, forge, id, lane, event, at, due_at, tries) in rows {
            match from_json("event", &event) {
                Ok(event) => found.push(StoredDelivery {
                    row,
                    forge: ForgeName::new(forge),
                    id: DeliveryId::new(id),
                    lane,
                    event,
                    at: Timestamp::from_ms(at),
                    due_at: Timestamp::from_ms(due_at),
                    tries,
                }),
                Err(error) => {
                    tracing::error!(delivery = %id, %error, "a stored delivery is set aside");
                    self.set_delivery(row, 2, Timestamp::default(), &error.to_string()).await?;
                }
            }
        }
        Ok(WaitingDeliveries { found, all, top })
    }

    /// The deliveries of [`Store::waiting`].
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn waiting_deliveries(&self, now: Timestamp, limit: u32) -> Result<Vec<StoredDelivery>> {
        Ok(self.waiting(now, limit).await?.found)
    }

    /// Whether a delivery still waits to be worked on.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn delivery_waits(&self, row: i64) -> Result<bool> {
        let found: Option<(i64,)> = sqlx::query_as("SELECT 1 FROM deliveries WHERE id = $1 AND state = 0")
            .bind(row)
            .fetch_optional(&self.read)
            .await?;
        Ok(found.is_some())
    }

    /// Puts a delivery off after a failure.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn put_off_delivery(&self, row: i64, until: Timestamp, why: &str) -> Result<()> {
        self.set_delivery(row, 0, until, why).await
    }

    /// Gives a delivery up, with the reason on record.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn give_up_delivery(&self, row: i64, why: &str) -> Result<()> {
        self.set_delivery(row, 2, Timestamp::default(), why).await
    }

    async fn set_delivery(&self, row: i64, state: i64, due_at: Timestamp, note: &str) -> Result<()> {
        sqlx::query("UPDATE deliveries SET state = $2, due_at = $3, note = $4, tries = tries + 1 WHERE id = $1")
            .bind(row)
            .bind(state)
            .bind(due_at.ms())
            .bind(note)
            .execute(&self.write)
            .await?;
        Ok(())
    }

    /// Forgets what is older than `before`, and says how many rows went. Open retries and open changes stay.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn forget_before(&self, before: Timestamp) -> Result<u64> {
        const TEXTS: [&str; 14] = [
            "DELETE FROM requests WHERE at < $1",
            // Numbers rise with time, so the first young row ends the search, and an index by age is not needed. The newest
            // delivery stays, so that no number is given twice.
            "DELETE FROM deliveries WHERE state <> 0 AND id < coalesce( \
                (SELECT id FROM deliveries WHERE received_at >= $1 ORDER BY id LIMIT 1), (SELECT max(id) FROM deliveries))",
            "DELETE FROM retries WHERE open = 0 AND made_at < $1 AND id < coalesce( \
                (SELECT id FROM retries WHERE made_at >= $1 ORDER BY id LIMIT 1), (SELECT max(id) + 1 FROM retries))",
            "DELETE FROM answers WHERE id < coalesce( \
                (SELECT id FROM answers WHERE at >= $1 ORDER BY id LIMIT 1), (SELECT max(id) + 1 FROM answers))",
            "DELETE FROM audit WHERE id < coalesce( \
                (SELECT id FROM audit WHERE at >= $1 ORDER BY id LIMIT 1), (SELECT max(id) + 1 FROM audit))",
            "DELETE FROM policies_told WHERE at < $1",
            "DELETE FROM failures WHERE at < $1 AND due_at IS NULL",
            "DELETE FROM overrides WHERE at < $1",
            "DELETE FROM queue_entries WHERE at < $1",
            "DELETE FROM statuses WHERE at < $1",
            "DELETE FROM heads WHERE (forge, repo, number) IN \
                (SELECT forge, repo, number FROM changes WHERE updated_at < $1 AND open = 0)",
            "DELETE FROM jobs WHERE at < $1 AND NOT EXISTS (SELECT 1 FROM changes c \
                WHERE c.forge = jobs.forge AND c.repo = jobs.repo AND c.head = jobs.sha AND c.open = 1)",
            "DELETE FROM revisions WHERE known_from < $1 AND NOT EXISTS (SELECT 1 FROM changes c \
                WHERE c.forge = revisions.forge AND c.repo = revisions.repo AND c.head = revisions.sha AND c.open = 1)",
            "DELETE FROM changes WHERE updated_at < $1 AND open = 0",
        ];
        let mut gone = 0;
        let mut tx = self.begin().await?;
        for text in TEXTS {
            gone += sqlx::query(text).bind(before.ms()).execute(&mut *tx.0).await?.rows_affected();
        }
        tx.commit().await?;
        Ok(gone)
    }
}

/// Commands of one change go in order; facts have no lane and go before the commands.
fn lane_of(event: &ForgeEvent) -> Option<String> {
    let repo = &event.repo().key;
    let (forge, repo) = (&repo.forge, repo.id);
    match event {
        ForgeEvent::Comment(comment) => Some(format!("{forge}/{repo}/{}", comment.change.number)),
        ForgeEvent::Press(press) => Some(format!("{forge}/{repo}/{}", press.sha)),
        ForgeEvent::Change { .. }
        | ForgeEvent::Jobs(_)
        | ForgeEvent::Push(_)
        | ForgeEvent::Issue(_)
        | ForgeEvent::Queue(_) => None,
    }
}
