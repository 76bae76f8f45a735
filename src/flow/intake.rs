//! Works on stored deliveries: facts first, in one transaction; then commands, one after the other per change.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};

use super::world::{FlowError, Progress, World};
use crate::store::StoredDelivery;

/// Deliveries read per pass.
const BATCH: u32 = 500;

/// Changes whose commands are worked on at the same time.
const LANES_MAX: usize = 16;

impl World {
    /// One pass over the deliveries that wait.
    ///
    /// # Errors
    /// When the store fails; nothing is lost by it.
    pub async fn intake_pass(&self) -> Result<Progress, FlowError> {
        let waiting = self.store.waiting_deliveries(BATCH).await?;
        let (commands, facts): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|d| d.lane.is_some());
        let mut done = facts.len();
        if !facts.is_empty() {
            self.apply_facts(&facts).await?;
        }
        let now = self.now();
        let mut lanes: BTreeMap<String, Vec<StoredDelivery>> = BTreeMap::new();
        for delivery in commands {
            let lane = format!("{}/{}", delivery.forge, delivery.lane.as_deref().unwrap_or_default());
            lanes.entry(lane).or_default().push(delivery);
        }
        // A command that was put off holds back the later ones of its change, so that they stay in order.
        let ready: Vec<Vec<StoredDelivery>> = lanes
            .into_values()
            .map(|lane| lane.into_iter().take_while(|d| d.due_at <= now).collect::<Vec<_>>())
            .filter(|lane| !lane.is_empty())
            .collect();
        let results: Vec<Result<usize, FlowError>> =
            stream::iter(ready).map(|lane| self.work_lane(lane)).buffer_unordered(LANES_MAX).collect().await;
        for result in results {
            done += result?;
        }
        Ok(Progress { done })
    }

    async fn work_lane(&self, lane: Vec<StoredDelivery>) -> Result<usize, FlowError> {
        let mut done = 0;
        for delivery in lane {
            if !self.work_on_command(&delivery).await? {
                break;
            }
            done += 1;
        }
        Ok(done)
    }
}
