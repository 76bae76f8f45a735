//! What the end of a run means beside the record: a failure that may be a known flake, or a pass that shows that failures before
//! it on the same head told nothing of the change.
//!
//! Every run enters the record here. Read next: `judge.rs`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::world::{FlowError, World};
use crate::domain::{ChangeKey, CommitSha, JobEvent, JobObservation, JobState, RepoKey, RunnerName};
use crate::store::Tx;

/// How long the CI of a forge is left alone after a failure: what it repeats by itself (GitLab's `retry`) has begun by then.
const SETTLE: Duration = Duration::from_secs(15);

/// Failures that are older when we hear of them are counted and not judged: nobody waits for them any more.
const AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

impl World {
    /// Takes a report about a run into the record with what its end means, and says whether it was news.
    pub(super) async fn take_run(
        &self,
        tx: &mut Tx,
        place: (&RepoKey, &CommitSha),
        seen: &JobObservation,
        runner: Option<&RunnerName>,
    ) -> Result<bool, FlowError> {
        if !tx.put_job(place.0, place.1, seen, runner).await? {
            return Ok(false);
        }
        if self.rules.posts.always {
            self.want_whole(tx, place).await?;
        }
        match seen.state {
            JobState::Passed => tx.note_pass(place, seen).await?,
            JobState::Failed | JobState::Infrastructure | JobState::TimedOut | JobState::Lost => {
                let due_at = runner.and_then(|runner| self.judged_at(seen, runner));
                tx.note_failure(place, seen, runner, due_at).await?;
                self.wake.judge.notify_one();
            }
            JobState::Missing
            | JobState::Pending
            | JobState::Running
            | JobState::Cancelled
            | JobState::Superseded
            | JobState::Skipped => {}
        }
        Ok(true)
    }

    /// The aggregate is about all jobs of a head, and one of them has news.
    async fn want_whole(&self, tx: &mut Tx, (repo, sha): (&RepoKey, &CommitSha)) -> Result<(), FlowError> {
        let at = self.now().plus(self.rules.report_delay);
        for change in self.store.changes_at(repo, sha).await? {
            tx.want_report(&change.key, sha, at).await?;
        }
        if let Some((number, _)) = self.store.queue_entry(repo, sha).await? {
            tx.want_report(&ChangeKey { repo: repo.clone(), number }, sha, at).await?;
        }
        self.wake.report.notify_one();
        Ok(())
    }

    /// A pipeline is over. Where the forge tells nobody of the statuses that others have posted beside it, they are listed: a
    /// lab's failure among them may be a known flake.
    pub(super) fn want_listing(&self, event: &JobEvent) {
        let silent = self.forges.get(&event.repo.key.forge).is_some_and(|forge| !forge.tells_statuses());
        let labs = self.runners.iter().any(|e| !e.runner.abilities().reported_by_forge && e.serves(&event.repo));
        if silent && labs && self.rules.flakes.enabled {
            let mut wanted = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.insert((event.repo.key.clone(), event.sha.clone()));
            drop(wanted);
            self.wake.judge.notify_one();
        }
    }

    /// Lists the jobs of the heads that want it, each in a task of its own. One that cannot be listed is so at the next command.
    pub(super) fn list_wanted(self: &Arc<Self>) -> usize {
        let wanted = std::mem::take(&mut *self.listings.lock().unwrap_or_else(PoisonError::into_inner));
        let count = wanted.len();
        for (repo, sha) in wanted {
            let world = Arc::clone(self);
            self.spawn(None, async move { world.list_head(&repo, &sha).await });
        }
        count
    }

    async fn list_head(&self, repo: &RepoKey, sha: &CommitSha) -> Result<(), FlowError> {
        let change = self.store.changes_at(repo, sha).await?.into_iter().next();
        let (Some(forge), Some(repo), Some(change)) =
            (self.forges.get(&repo.forge), self.store.repo(repo).await?, change)
        else {
            return Ok(());
        };
        let jobs = match forge.list_jobs(&repo, &change).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(repository = %repo.full_name, %error, "the statuses of others could not be listed");
                self.count_failure(forge.name().as_str(), &error);
                return Ok(());
            }
        };
        // The record is not complete by that: the next status is as silent as these were.
        let event = JobEvent { repo, sha: sha.clone(), jobs, group_over: None };
        let mut tx = self.store.begin().await?;
        self.take_jobs(&mut tx, &event, self.now()).await?;
        Ok(tx.commit().await?)
    }

    /// When a failure is to be judged; none when nothing could come of it.
    fn judged_at(&self, seen: &JobObservation, runner: &RunnerName) -> Option<crate::domain::Timestamp> {
        let now = self.now();
        let entry = self.runner(runner)?;
        if !self.rules.flakes.enabled || seen.allow_failure || now.since(seen.at) > AGE_MAX {
            return None;
        }
        Some(if entry.runner.abilities().reported_by_forge { now.plus(SETTLE) } else { now })
    }
}
