//! Joins a status or check of somebody else to the run that it points to, so that existing CI needs no change.
//!
//! A pattern is about the address of the run's page, the name of the job, or both. It refuses to guess: an address that
//! names no run joins the job to its runner and leaves the run unnamed. Read next: `facts.rs`, which keeps what is joined.

use globset::GlobMatcher;
use regex::Regex;

use super::world::{FlowError, RunnerEntry, World};
use crate::domain::{CommitSha, JobObservation, Origin, Repo, Retry, RunRef, RunnerName};
use crate::store::Tx;

/// How the statuses and checks of a runner's jobs look.
#[derive(Clone, Debug)]
pub struct JoinPattern {
    /// What the address of the run's page looks like; its first group is the runner's name of the run.
    pub url: Option<Regex>,
    /// What the job is called.
    pub context: Option<GlobMatcher>,
}

/// What a status or check was joined to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// This run of the runner.
    Run(RunRef),
    /// A run of the runner that the status does not name.
    Nameless,
}

impl JoinPattern {
    /// What it joins an observation to; none when it is not about it. All that is given must fit.
    fn join(&self, seen: &JobObservation) -> Option<Joined> {
        if self.context.as_ref().is_some_and(|glob| !glob.is_match(seen.name.as_str())) {
            return None;
        }
        match (&self.url, seen.url.as_deref()) {
            (None, _) => self.context.is_some().then_some(Joined::Nameless),
            (Some(_), None) => None,
            (Some(pattern), Some(url)) => {
                let id = pattern.captures(url)?.get(1)?;
                Some(Joined::Run(RunRef::new(id.as_str())))
            }
        }
    }
}

impl RunnerEntry {
    /// What one of its patterns joins a status or check to: a named run before a nameless one.
    fn join(&self, seen: &JobObservation) -> Option<Joined> {
        let mut found = self.joins.iter().filter_map(|pattern| pattern.join(seen));
        let first = found.next()?;
        if matches!(first, Joined::Run(_)) {
            return Some(first);
        }
        Some(found.find(|other| matches!(other, Joined::Run(_))).unwrap_or(first))
    }
}

impl World {
    /// The runner whose patterns fit what somebody else reported, and the run; none for the forge's own CI.
    pub(super) fn joined(&self, repo: &Repo, seen: &JobObservation) -> Option<(&RunnerEntry, Joined)> {
        if !matches!(seen.origin, Origin::Check(_) | Origin::Status) {
            return None;
        }
        let serving = || self.runners.iter().filter(|entry| entry.serves(repo));
        let all = || serving().filter_map(|entry| Some((entry, entry.join(seen)?)));
        all().find(|(_, joined)| matches!(joined, Joined::Run(_))).or_else(|| all().next())
    }

    /// The observation as the record takes it, with its runner: a status or check that points to a run of a runner is
    /// about that run. None when it says nothing new: the echo of our own status, or what others say of a run that we
    /// have repeated or follow ourselves.
    pub(super) async fn placed(
        &self,
        tx: &mut Tx,
        (repo, sha): (&Repo, &CommitSha),
        seen: &JobObservation,
        open: &[Retry],
    ) -> Result<Option<(JobObservation, Option<RunnerName>)>, FlowError> {
        let key = &repo.key;
        let posted = seen.origin == Origin::Status
            && (seen.name.as_str() == self.rules.posts.aggregate || tx.is_posted(key, sha, seen.name.as_str()).await?);
        let mut taken = seen.clone();
        match self.joined(repo, seen) {
            Some((entry, Joined::Run(run))) => {
                // A check of another App is answered by a status of its name.
                let answered =
                    matches!(seen.origin, Origin::Check(_)) && tx.is_posted(key, sha, seen.name.as_str()).await?;
                let retried = posted || answered || open.iter().any(|retry| retry.job == seen.name);
                let same = |own: &RunRef| entry.runner.is_same_run(own, &run);
                if retried && tx.runs_of_retries(key, sha, &seen.name).await?.iter().any(same) {
                    return Ok(None);
                }
                taken.run = run;
                return Ok(Some((taken, Some(entry.runner.name().clone()))));
            }
            _ if posted => return Ok(None), // the echo of our own status
            _ => {}
        }
        let entry = self.runner_for(repo, seen);
        let foreign = matches!(seen.origin, Origin::Check(_) | Origin::Status);
        if foreign && self.runners.iter().any(|entry| !entry.joins.is_empty()) {
            // GitLab's webhooks tell of a status without its address: what a listing told of the same one stands.
            let known = tx.job(key, sha, &seen.name, &seen.scope).await?;
            let known = known.filter(|job| job.newest.order == seen.order && !job.newest.run.as_str().is_empty());
            let of = known.as_ref().and_then(|job| job.runner.as_ref()).and_then(|name| self.runner(name));
            if let (Some(known), Some(of)) = (&known, of)
                && !of.joins.is_empty()
            {
                taken.run = known.newest.run.clone();
                taken.url = known.newest.url.clone();
                return Ok(Some((taken, Some(of.runner.name().clone()))));
            }
            if entry.is_some_and(|entry| !entry.joins.is_empty()) {
                taken.run = RunRef::new(""); // the forge's id of a status is no run of that runner
            }
        }
        Ok(Some((taken, entry.map(|entry| entry.runner.name().clone()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{JobName, JobState, RunOrder, Timestamp};

    fn seen(name: &str, url: Option<&str>) -> JobObservation {
        JobObservation {
            name: JobName::new(name),
            scope: String::new(),
            origin: Origin::Status,
            run: RunRef::new("55"),
            order: RunOrder(1, 0),
            group: None,
            state: JobState::Failed,
            cause: None,
            url: url.map(str::to_owned),
            allow_failure: false,
            manual: false,
            needs: None,
            at: Timestamp::default(),
        }
    }

    #[test]
    fn all_that_a_pattern_says_must_fit_and_only_an_address_names_a_run() {
        let url = || Some(Regex::new(r"^https://lava\.example/scheduler/job/([0-9.]+)$").unwrap());
        let context = || Some(globset::Glob::new("lava*").unwrap().compile_matcher());
        let page = Some("https://lava.example/scheduler/job/12");
        let run = || Some(Joined::Run(RunRef::new("12")));
        let table = [
            (url(), None, "x", page, run(), "the address alone"),
            (url(), None, "x", None, None, "no address to read"),
            (url(), context(), "lava-x86", page, run(), "both fit"),
            (url(), context(), "x", page, None, "the name does not fit"),
            (None, context(), "lava-x86", page, Some(Joined::Nameless), "a name says nothing of the run"),
            (None, None, "lava-x86", page, None, "a pattern that says nothing fits nothing"),
        ];
        for (url, context, name, page, wanted, why) in table {
            assert_eq!(JoinPattern { url, context }.join(&seen(name, page)), wanted, "{why}");
        }
    }
}
