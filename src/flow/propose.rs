//! Failures after which the job passed on the same head: hits of a label, or a reason to propose one.
//!
//! Looked at from time to time, in the order in which they were told, from where the last look ended. Read next: `issues.rs`.

use std::collections::BTreeSet;

use super::lines::line;
use super::world::{FlowError, World};
use crate::decide::{Answer, Reason, code};
use crate::domain::{ChangeKey, LabelOrigin, Timestamp};
use crate::store::FailedRun;

/// Sightings looked at per pass.
const BATCH: u32 = 200;

/// Where the last look ended, by the name of a stored value.
const SEEN: &str = "sightings_seen";

impl World {
    /// Looks at the sightings since the last look.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn notice_sightings(&self) -> Result<usize, FlowError> {
        let last = self.store.meta(SEEN).await?.and_then(|ms| ms.parse().ok()).map(Timestamp::from_ms);
        let Some(last) = last else {
            self.store.set_meta(SEEN, &self.now().minus(std::time::Duration::from_millis(1)).ms().to_string()).await?;
            return Ok(0);
        };
        let sightings = self.store.sightings_since(last, BATCH).await?;
        for sighting in &sightings {
            self.notice(sighting).await?;
        }
        if let Some(seen) = sightings.iter().filter_map(|one| one.passed_at).max() {
            self.store.set_meta(SEEN, &seen.ms().to_string()).await?;
        }
        Ok(sightings.len())
    }

    async fn notice(&self, sighting: &FailedRun) -> Result<(), FlowError> {
        let now = self.now();
        if let Some(evidence) = &sighting.evidence {
            if let LabelOrigin::Issue(number) = evidence.origin {
                let mut tx = self.store.begin().await?;
                tx.want_issue_comment(&sighting.repo, number, now.plus(super::issues::COMMENT_PAUSE)).await?;
                tx.commit().await?;
            }
            return Ok(());
        }
        let flakes = &self.rules.flakes;
        let Some(wanted) = flakes.propose_after.filter(|_| flakes.enabled && flakes.issue_label.is_some()) else {
            return Ok(());
        };
        let since = now.minus(flakes.propose_within);
        let failures = self.store.failures_since(&sighting.repo, Some(&sighting.job), since).await?;
        let counts = |one: &&FailedRun| one.passed_at.is_some() && one.evidence.is_none();
        let heads: BTreeSet<&str> = failures.iter().filter(counts).map(|one| one.sha.as_str()).collect();
        if u32::try_from(heads.len()).unwrap_or(u32::MAX) < wanted {
            return Ok(());
        }
        let Some(change) = self.store.changes_at(&sighting.repo, &sighting.sha).await?.into_iter().next() else {
            return Ok(()); // its change is closed by now: the next sighting tells
        };
        let mut tx = self.store.begin().await?;
        if tx.propose(&sighting.repo, &sighting.job, now).await? {
            self.tell_proposal(&mut tx, &change.key, sighting, heads.len()).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn tell_proposal(
        &self,
        tx: &mut crate::store::Tx,
        change: &ChangeKey,
        sighting: &FailedRun,
        heads: usize,
    ) -> Result<(), FlowError> {
        let now = self.now();
        let days = self.rules.flakes.propose_within.as_secs() / 86_400;
        let ask = code(&format!("/flake {} new", quoted(sighting.job.as_str())));
        let text = format!(
            "failed and then passed on {heads} heads within {days} days, and no label knows it; {ask} opens an issue, after which \
             it is retried by itself"
        );
        let what = format!("proposed as a flake: failed and then passed on {heads} heads");
        tx.audit(change, &sighting.sha, (sighting.job.as_str(), false), &what, now).await?;
        let answer = Answer {
            asker: String::new(),
            command: String::new(),
            lines: vec![line(sighting.job.as_str(), Reason::Listed, text)],
            head: sighting.sha.short().to_owned(),
            delivery: String::new(),
            internal: false,
        };
        tx.put_answer(change, &sighting.sha, &answer, now).await?;
        Ok(tx.want_report(change, &sighting.sha, now.plus(self.rules.report_delay)).await?)
    }
}

/// A job's name as people would write it in a command.
fn quoted(job: &str) -> String {
    let plain = job.chars().all(|c| c.is_alphanumeric() || "-_./".contains(c));
    if plain { job.to_owned() } else { format!("\"{}\"", job.replace('"', "")) }
}
