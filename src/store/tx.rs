//! A write transaction: everything in it happens, or nothing.

use sqlx::{Sqlite, Transaction};

use super::Result;

/// A write transaction. Dropped without [`Tx::commit`] it leaves no trace.
#[derive(Debug)]
pub struct Tx(pub(super) Transaction<'static, Sqlite>);

impl Tx {
    /// Makes it so, on the disk.
    ///
    /// # Errors
    /// Then nothing of it happened.
    pub async fn commit(self) -> Result<()> {
        Ok(self.0.commit().await?)
    }

    /// Marks a delivery as done.
    ///
    /// # Errors
    /// When the database is not there.
    pub async fn done(&mut self, row: i64, note: Option<&str>) -> Result<()> {
        sqlx::query("UPDATE deliveries SET state = 1, note = $2 WHERE id = $1")
            .bind(row)
            .bind(note)
            .execute(&mut *self.0)
            .await?;
        Ok(())
    }
}
