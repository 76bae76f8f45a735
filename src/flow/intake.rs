//! Works on stored deliveries: facts first, in one transaction; then commands, one after the other per change, each
//! change in a task of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::world::{FlowError, Progress, World};
use crate::domain::ForgeName;
use crate::store::StoredDelivery;

/// Deliveries read per pass.
const BATCH: u32 = 500;

impl World {
    /// One pass over the deliveries that wait.
    ///
    /// # Errors
    /// When the store fails; nothing is lost by it.
    pub async fn intake_pass(self: &Arc<Self>) -> Result<Progress, FlowError> {
        let waiting = self.store.waiting_deliveries(self.now(), BATCH).await?;
        let (commands, facts): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|d| d.lane.is_some());
        let mut done = facts.len();
        if !facts.is_empty() {
            self.apply_facts(&facts).await?;
            self.look_at_policies();
        }
        let now = self.now();
        let mut lanes: BTreeMap<String, Vec<StoredDelivery>> = BTreeMap::new();
        for delivery in commands {
            let lane = lane_name(&delivery.forge, delivery.lane.as_deref().unwrap_or_default());
            lanes.entry(lane).or_default().push(delivery);
        }
        for (lane, deliveries) in lanes {
            // A command that was put off holds back the later ones of its change, so that they stay in order.
            let ready: Vec<StoredDelivery> = deliveries.into_iter().take_while(|d| d.due_at <= now).collect();
            if ready.is_empty() {
                continue;
            }
            let Some(held) = self.tasks.occupy(lane) else { continue };
            done += 1;
            let world = Arc::clone(self);
            self.spawn(Some(held), async move { world.work_lane(ready).await });
        }
        Ok(Progress { done })
    }

    /// Tells the intake that a delivery was stored. While its lane is worked on it need not know: the end of that work
    /// wakes it, and until then it would only read the same rows again.
    pub fn wake_intake(&self, forge: &ForgeName, lane: Option<&str>) {
        if !lane.is_some_and(|lane| self.tasks.is_occupied(&lane_name(forge, lane))) {
            self.wake.intake.notify_one();
        }
    }

    async fn work_lane(self: &Arc<Self>, lane: Vec<StoredDelivery>) -> Result<(), FlowError> {
        for delivery in lane {
            // It was read before the lane was occupied: somebody may have worked on it in between.
            if self.store.delivery_waits(delivery.row).await? && !self.work_on_command(&delivery).await? {
                break;
            }
        }
        // What is only to be looked at again is looked at when nobody waits for it any more.
        self.look_at_policies();
        Ok(())
    }
}

/// What is occupied while the commands of one change are worked on.
fn lane_name(forge: &ForgeName, lane: &str) -> String {
    format!("lane {forge}/{lane}")
}
