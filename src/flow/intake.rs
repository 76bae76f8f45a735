//! Works on stored deliveries: facts first, in one transaction; then commands, one after the other per change, each
//! change in a task of its own.
//!
//! A delivery that was just stored is worked on from memory. The store is read whenever memory may not hold all that
//! waits: after a start, after a failure, when something is put off, and when a pass begins with nothing in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::world::{FlowError, Progress, World};
use crate::store::StoredDelivery;

/// Deliveries read per pass.
const BATCH: u32 = 500;

/// Deliveries kept in memory until the next pass; with more of them the store is read instead.
const KEPT_MAX: usize = 500;

/// Deliveries that were stored since the last pass.
#[derive(Debug, Default)]
pub(super) struct Arrived(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    fresh: Vec<StoredDelivery>,
    /// Whether everything that waits in the store is in `fresh` or being worked on.
    all: bool,
    /// Every delivery up to this number has been taken out of the store.
    read_to: i64,
}

impl Arrived {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something waits in the store that memory does not hold.
    fn look_again(&self) {
        self.kept().all = false;
    }

    /// Whether nothing waits in the store but what memory holds or somebody works on.
    pub fn holds_all(&self) -> bool {
        self.kept().all
    }
}

/// Ends as "look again" unless the work came to its end.
struct Unsettled<'a>(Option<&'a Arrived>);

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(arrived) = self.0 {
            arrived.look_again();
        }
    }
}

impl World {
    /// One pass over the deliveries that wait.
    ///
    /// # Errors
    /// When the store fails; nothing is lost by it.
    pub async fn intake_pass(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let now = self.now();
        let (waiting, stored) = match self.fresh() {
            Some(fresh) => (fresh, false),
            None => (self.read_waiting().await?, true),
        };
        let mut unsettled = Unsettled(Some(&self.arrived));
        let (commands, facts): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|d| d.lane.is_some());
        let mut done = facts.len();
        if !facts.is_empty() {
            self.apply_facts(&facts).await?;
            self.look_at_policies();
        }
        unsettled.0 = None;
        let mut lanes: BTreeMap<String, Vec<StoredDelivery>> = BTreeMap::new();
        for delivery in commands {
            lanes.entry(lane_name(delivery.lane.as_deref().unwrap_or_default())).or_default().push(delivery);
        }
        for (lane, deliveries) in lanes {
            let count = deliveries.len();
            // A command that was put off holds back the later ones of its change, so that they stay in order.
            let ready: Vec<StoredDelivery> = deliveries.into_iter().take_while(|d| d.due_at <= now).collect();
            if ready.len() < count {
                self.arrived.look_again();
            }
            if ready.is_empty() {
                continue;
            }
            let Some(held) = self.tasks.occupy(lane) else {
                self.arrived.look_again();
                continue;
            };
            done += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.work_lane(ready, stored).await });
        }
        Ok(Progress { done })
    }

    /// What arrived since the last pass, when that is all there is to do.
    fn fresh(&self) -> Option<Vec<StoredDelivery>> {
        let mut kept = self.arrived.kept();
        let read_to = kept.read_to;
        let mut fresh = std::mem::take(&mut kept.fresh);
        fresh.retain(|delivery| delivery.row > read_to);
        fresh.sort_by_key(|delivery| delivery.row);
        (kept.all && !fresh.is_empty()).then_some(fresh)
    }

    async fn read_waiting(&self) -> Result<Vec<StoredDelivery>, FlowError> {
        // Said before the look: what is noticed in the meantime must not be forgotten.
        self.arrived.kept().all = true;
        let mut unsettled = Unsettled(Some(&self.arrived));
        let waiting = self.store.waiting(self.now(), BATCH).await?;
        if waiting.all {
            unsettled.0 = None;
        }
        let mut kept = self.arrived.kept();
        kept.read_to = kept.read_to.max(waiting.top);
        Ok(waiting.found)
    }

    /// Tells the intake that a delivery was stored. While its lane is worked on it need not know: the end of that work
    /// wakes it, and until then it could do nothing.
    pub fn take_up(&self, delivery: StoredDelivery) {
        let lane = delivery.lane.as_deref().map(lane_name).unwrap_or_default();
        let occupied = self.tasks.is_occupied(&lane);
        let mut kept = self.arrived.kept();
        if occupied || kept.fresh.len() >= KEPT_MAX {
            kept.all = false;
        } else {
            kept.fresh.push(delivery);
        }
        drop(kept);
        // Asked again: the work may have ended since, and then its end has woken nobody.
        if !occupied || !self.tasks.is_occupied(&lane) {
            self.wake.intake.notify_one();
        }
    }

    async fn work_lane(self: &Arc<Self>, lane: Vec<StoredDelivery>, stored: bool) -> Result<(), FlowError> {
        let mut unsettled = Unsettled(Some(&self.arrived));
        for delivery in lane {
            // What was read from the store before the lane was occupied may have been worked on in between.
            if stored && !self.store.delivery_waits(delivery.row).await? {
                continue;
            }
            let done = self.work_on_command(&delivery).await?;
            self.carry_out_handed_over();
            if !done {
                return Ok(());
            }
        }
        unsettled.0 = None;
        // What is only to be looked at again is looked at when nobody waits for it any more.
        self.look_at_policies();
        Ok(())
    }
}

/// What begins the names of occupied lanes.
pub(super) const LANE: &str = "lane ";

/// What is occupied while the commands of one change are worked on.
fn lane_name(lane: &str) -> String {
    format!("{LANE}{lane}")
}
