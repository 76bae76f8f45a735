//! Asks the forges for comments that were missed while the program was down or a delivery was lost, and stores them as
//! ordinary deliveries: the comment's own id keeps one that did arrive from running twice.

use std::time::Duration;

use super::world::{FlowError, Progress, World};
use crate::domain::Timestamp;
use crate::store::NewDelivery;

/// How far a look reaches back before the last one: clocks differ, and a forge may show a comment late.
const OVERLAP: Duration = Duration::from_secs(120);

/// The stored time of the last look.
const LAST: &str = "caught_up_until";

impl World {
    /// One look at every repository that the program knows, back to the last look and never further than a comment may
    /// be old.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn catch_up_pass(&self) -> Result<Progress, FlowError> {
        let now = self.now();
        let last = self.store.meta(LAST).await?.and_then(|ms| ms.parse().ok()).map(Timestamp::from_ms);
        let Some(last) = last else {
            // First start: what was said before the bot was there is not for it.
            self.store.set_meta(LAST, &now.ms().to_string()).await?;
            return Ok(Progress::default());
        };
        let since = last.minus(OVERLAP).max(now.minus(self.rules.comment_age_max));
        let (mut done, mut complete) = (0, true);
        for repo in self.store.repos().await? {
            let Some(forge) = self.forges.get(&repo.key.forge) else { continue };
            match forge.missed_comments(&repo, since).await {
                Ok(comments) => {
                    for wanted in comments {
                        let new =
                            NewDelivery { forge: repo.key.forge.clone(), id: wanted.id, event: wanted.event, at: now };
                        if let Some(stored) = self.store.take_in(new).await? {
                            self.take_up(stored);
                            done += 1;
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(repository = %repo.full_name, %error, "missed comments could not be looked for");
                    self.count_failure(repo.key.forge.as_str(), &error);
                    // What is refused for good, such as a deleted repository, holds nobody else up.
                    complete &= !error.is_passing();
                }
            }
        }
        if complete {
            self.store.set_meta(LAST, &now.ms().to_string()).await?;
        }
        if done > 0 {
            tracing::info!(comments = done, "caught up with comments that no webhook brought");
        }
        Ok(Progress { done })
    }
}
