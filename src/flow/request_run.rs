//! The second half of a request: one described run, the place of runs that belong to no change, and the one transaction
//! that stores what was asked for before anybody is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::lines::dispatch_key;
use super::request::{Client, Request, RequestError, RequestOutcome, RunWish};
use super::world::{FlowError, World};
use crate::decide::{JobView, LeaveItem, Reason};
use crate::domain::{
    Change, ChangeKey, CommitSha, DispatchKey, JobName, ListedJob, Repo, Retry, RetryEvent, RetryId, RetryState,
    RunOrder, RunnerName,
};

/// What stands for a commit where a run is about none.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// What a request comes to, before it is stored.
pub(super) struct Made {
    pub repo: Repo,
    pub retries: Vec<Retry>,
    pub left: Vec<LeaveItem>,
    /// Retries under way that grant the wish.
    pub joined: Vec<Retry>,
}

impl World {
    /// The place of runs of a commit that is no change's head.
    pub(super) fn nobodys(&self, sha: &CommitSha) -> (Repo, Change) {
        let key = ChangeKey::none();
        let repo = Repo { key: key.repo.clone(), full_name: String::new(), installation: None, default_branch: None };
        let change = Change {
            key,
            head: sha.clone(),
            author: None,
            open: true,
            from_fork: false,
            base_ref: String::new(),
            labels: Vec::new(),
            head_pipeline: None,
            source_ref: None,
            approved_head: None,
            updated_at: self.now(),
        };
        (repo, change)
    }

    /// The retry that stands for one described run.
    pub(super) async fn describe_run(&self, request: &Request, wish: &RunWish) -> Result<Made, RequestError> {
        let actor = request.client.actor();
        let entry = self.runner(&wish.runner);
        let entry = entry.ok_or_else(|| RequestError::Unknown(format!("no runner is called `{}`", wish.runner)))?;
        let (repo, change) = match &wish.revision {
            Some((repo, sha)) => (repo.clone(), self.head(repo, sha).await?),
            None => {
                let none = CommitSha::parse(NO_COMMIT).map_err(|error| RequestError::Wrong(error.to_string()))?;
                self.nobodys(&none)
            }
        };
        if !change.key.is_none() && !entry.serves(&repo) {
            let text = format!("runner `{}` does not serve `{}`", wish.runner, repo.full_name);
            return Err(RequestError::Conflict(text));
        }
        let terms = self.terms_of(&repo).await?;
        let used = self.used_by(&change.key, &actor, &terms).await?;
        let limits = &terms.limits;
        let of_asker = [(limits.asker_hour, used.asker_hour), (limits.asker_day, used.asker_day)];
        let of_change = [(limits.change_hour, used.change_hour), (limits.change_day, used.change_day)];
        let of_change = of_change.into_iter().filter(|_| !change.key.is_none());
        if of_asker.into_iter().chain(of_change).any(|(figure, used)| figure.is_set() && used.retries >= figure.max) {
            let text = "a limit of retries within an hour or a day is used up; ask again later".to_owned();
            let left = vec![LeaveItem { name: wish.job.clone(), reason: Reason::Limited, text }];
            return Ok(Made { repo, retries: Vec::new(), left, joined: Vec::new() });
        }
        // Each described run is a thing of its own: its scope is what tells it from others of that name.
        let scope = format!("run {}", self.fresh_name(request));
        let key = dispatch_key(&change.key, &change.head, (&wish.job, &scope), 0);
        let job = JobName::new(&wish.job);
        let retry = self.bare_retry(request, &change, (job, scope, key), entry.runner.name());
        Ok(Made {
            repo,
            retries: vec![Retry { overrides: wish.overrides.clone(), ..retry }],
            left: Vec::new(),
            joined: Vec::new(),
        })
    }

    /// A name that no other request has; the same for the same key of the same client.
    fn fresh_name(&self, request: &Request) -> String {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut hash = Sha256::new();
        hash.update(request.client.name.as_bytes());
        match &request.once {
            Some((key, _)) => hash.update(format!("\0key\0{key}")),
            None => {
                let number = COUNT.fetch_add(1, Ordering::Relaxed);
                hash.update(format!("\0{}\0{}\0{number}", self.me, self.now().ms()));
            }
        }
        hex::encode(hash.finalize()).get(..12).unwrap_or_default().to_owned()
    }

    /// The retry of a job of the record.
    pub(super) fn retry_for(
        &self,
        request: &Request,
        change: &Change,
        view: &JobView,
        (why, overrides): (&str, &BTreeMap<String, String>),
    ) -> Retry {
        let seen = &view.job.newest;
        let number = view.retries + 1;
        let key = dispatch_key(&change.key, &change.head, (seen.name.as_str(), &seen.scope), number);
        let runner = view.job.runner.clone().unwrap_or_else(|| "none".into());
        let ran = !seen.run.as_str().is_empty();
        let bare = self.bare_retry(request, change, (seen.name.clone(), seen.scope.clone(), key), &runner);
        let reason = request.reason.as_deref().map_or_else(|| why.to_owned(), |reason| format!("{why}; {reason}"));
        Retry {
            why: reason,
            source_run: ran.then(|| seen.run.clone()),
            source_order: seen.order,
            group: seen.group.clone(),
            overrides: overrides.clone(),
            number,
            ..bare
        }
    }

    fn bare_retry(
        &self,
        request: &Request,
        change: &Change,
        (job, scope, key): (JobName, String, DispatchKey),
        runner: &RunnerName,
    ) -> Retry {
        let now = self.now();
        let deadline = self.runner(runner).map_or(std::time::Duration::from_secs(86_400), |e| e.deadline);
        Retry {
            id: RetryId(0),
            key,
            change: change.key.clone(),
            sha: change.head.clone(),
            job,
            scope,
            runner: runner.clone(),
            state: RetryState::Requested,
            asker: request.client.actor(),
            why: request.reason.clone().unwrap_or_else(|| "asked for by a client".into()),
            source_run: None,
            source_order: RunOrder::default(),
            group: None,
            handle: None,
            cause: None,
            overrides: BTreeMap::new(),
            number: 0, // a described run repeats nothing
            series: None,
            unasked: None,
            comment: None,
            internal: false,
            also: Vec::new(),
            created_at: now,
            due_at: now,
            tries: 0,
            dispatched_at: None,
            ended_at: None,
            deadline_at: now.plus(deadline),
        }
    }

    /// Takes a registered job into the record, and says whether the job is new there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn register(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        job: &ListedJob,
        runner: Option<&RunnerName>,
    ) -> Result<bool, FlowError> {
        let declared = self.runner_for(repo, &job.seen).map(|entry| entry.runner.name().clone());
        let mut tx = self.store.begin().await?;
        let known = tx.job(&repo.key, sha, &job.seen.name, &job.seen.scope).await?;
        self.take_listed(&mut tx, (&repo.key, sha), job, runner.or(declared.as_ref())).await?;
        tx.commit().await?;
        Ok(known.is_none())
    }

    /// Cancels a retry for a client; one that is over stays as it is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take_back(&self, retry: &Retry, client: &Client) -> Result<(), FlowError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        if let Some(mut retry) = tx.retry(retry.id).await?
            && self.abandon(&mut tx, &mut retry, RetryEvent::CancelAsked, now).await?
        {
            let what = format!("cancelled by {}", client.actor().login);
            tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), false), &what, now).await?;
        }
        tx.commit().await?;
        self.wake.dispatch.notify_one();
        self.wake.report.notify_one();
        Ok(())
    }

    /// Stores what was made and claims it; none when another request with the same key was faster.
    pub(super) async fn keep_request(
        self: &Arc<Self>,
        request: &Request,
        made: Made,
        render: &(impl Fn(&RequestOutcome) -> String + Send + Sync),
    ) -> Result<Option<RequestOutcome>, RequestError> {
        let now = self.now();
        let mut tx = self.store.begin().await?;
        tx.put_repo(&made.repo).await?;
        let mut outcome = RequestOutcome { left: made.left, retries: made.joined, ..RequestOutcome::default() };
        let mut stored = Vec::new();
        for mut retry in made.retries {
            if let Some(id) = tx.new_retry(&retry, None).await? {
                retry.id = id;
                let what = format!("requested by {}: {}", retry.asker.login, retry.why);
                tx.audit(&retry.change, &retry.sha, (retry.job.as_str(), false), &what, now).await?;
                tx.want_report(&retry.change, &retry.sha, now.plus(self.rules.report_delay)).await?;
                stored.push(retry.clone());
                outcome.retries.push(retry);
            } else if let Some(twin) = tx.open_twin(&retry).await? {
                let text = "a retry of it is under way; joined".to_owned();
                outcome.left.push(LeaveItem { name: retry.job.to_string(), reason: Reason::Joined, text });
                outcome.retries.push(twin);
            }
        }
        if let Some((key, body)) = &request.once {
            let place = (request.client.name.as_str(), key.as_str());
            if !tx.put_request(place, body, &render(&outcome), now.ms()).await? {
                return Ok(None);
            }
        }
        let orders = self.claim(&mut tx, stored, now).await.map_err(RequestError::Flow)?;
        tx.commit().await?;
        self.hand_over(orders);
        self.carry_out_handed_over();
        self.wake.report.notify_one();
        Ok(Some(outcome))
    }
}
