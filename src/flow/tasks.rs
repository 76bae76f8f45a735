//! Work that may wait for the outside world runs in tasks of its own, so that a hanging forge or runner holds up nobody else.
//!
//! A pass starts the tasks that are due and returns. What must not be worked on twice at the same time is occupied by
//! name: a lane of deliveries, a retry that is looked at, a change that is reported.

use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::intake::LANE;
use super::world::{FlowError, World};

/// Tasks that work at the same time; further ones wait for a place.
const TASKS_MAX: usize = 128;

/// The tasks under way.
#[derive(Debug)]
pub(super) struct Tasks {
    set: Mutex<JoinSet<Result<(), FlowError>>>,
    occupied: Arc<Mutex<HashSet<String>>>,
    places: Arc<Semaphore>,
    ended: Arc<Notify>,
    /// Whether something was given free that the report may wait for.
    freed: Arc<AtomicBool>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            set: Mutex::default(),
            occupied: Arc::default(),
            places: Arc::new(Semaphore::new(TASKS_MAX)),
            ended: Arc::default(),
            freed: Arc::default(),
        }
    }
}

/// Something that only its holder works on; free again when dropped.
#[derive(Debug)]
pub(super) struct Occupied {
    name: String,
    all: Arc<Mutex<HashSet<String>>>,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

impl Tasks {
    /// Occupies a name; none when somebody works on it.
    pub fn occupy(&self, name: String) -> Option<Occupied> {
        let free = self.occupied.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        free.then(|| Occupied { name, all: Arc::clone(&self.occupied) })
    }

    /// Whether somebody works on it.
    pub fn is_occupied(&self, name: &str) -> bool {
        self.occupied.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

impl World {
    /// Runs work in a task of its own; `held` is free again when it ends.
    pub(super) fn spawn(
        self: &Arc<Self>,
        held: Option<Occupied>,
        work: impl Future<Output = Result<(), FlowError>> + Send + 'static,
    ) {
        let (places, ended) = (Arc::clone(&self.tasks.places), Arc::clone(&self.tasks.ended));
        let freed = Arc::clone(&self.tasks.freed);
        let mut set = self.tasks.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.spawn(async move {
            let place = places.acquire_owned().await;
            let result = work.await;
            // The end of a lane or of a call frees nothing that is reported; both wake whom they have news for.
            if held.as_ref().is_some_and(|held| !held.name.starts_with(LANE)) {
                freed.store(true, Ordering::Release);
            }
            drop((held, place));
            ended.notify_one();
            result
        });
    }

    /// Waits until no task is under way; the first failure is told.
    ///
    /// # Errors
    /// What a task failed with. The others are waited for all the same.
    pub async fn tasks_done(&self) -> Result<(), FlowError> {
        let mut result = Ok(());
        loop {
            let mut set = std::mem::take(&mut *self.tasks.set.lock().unwrap_or_else(PoisonError::into_inner));
            if set.is_empty() {
                return result;
            }
            while let Some(ended) = set.join_next().await {
                let ended = ended.unwrap_or_else(|panic| {
                    tracing::error!(%panic, "a task panicked; what it worked on is looked at again");
                    Ok(())
                });
                result = result.and(ended);
            }
        }
    }

    /// Tells failures of tasks as they end, and wakes the loops: what was occupied is free. Never returns.
    pub(super) async fn reap_tasks(&self) {
        loop {
            self.tasks.ended.notified().await;
            loop {
                let ended = self.tasks.set.lock().unwrap_or_else(PoisonError::into_inner).try_join_next();
                match ended {
                    None => break,
                    Some(Ok(Ok(()))) => {}
                    Some(Ok(Err(error))) => tracing::error!(%error, "work failed; it is tried again"),
                    Some(Err(panic)) => {
                        tracing::error!(%panic, "a task panicked; what it worked on is looked at again")
                    }
                }
            }
            if !self.arrived.holds_all() {
                self.wake.intake.notify_one();
            }
            if self.tasks.freed.swap(false, Ordering::AcqRel) {
                self.wake.report.notify_one();
            }
        }
    }
}
