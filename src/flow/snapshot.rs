//! Collects what the planner must know: the change, the jobs that a command means, the retries under way.
//!
//! A job named by a command is looked up by name, so that the cost does not grow with the revision. The forge is asked
//! only for what the record cannot know: a head never heard of, or a record with a gap.

use std::collections::HashMap;
use std::time::Duration;

use retest_commands::Selection;

use super::world::{FlowError, World};
use crate::decide::{
    Declared, JobView, Needed, OpenRetry, RunnerFacts, Sifted, Snapshot, Standalone, Terms, Used, sift, states,
};
use crate::domain::{
    Change, CommitSha, Job, JobName, JobObservation, JobState, ListedJob, Origin, Repo, RepoKey, Retry, RunOrder,
    RunRef, RunnerName,
};
use crate::ports::{CallError, DEFINITION, Forge};
use crate::store::{CommandView, JobQuery, Tx};

/// How long the list of required jobs of a branch is believed.
const REQUIRED_FOR: Duration = Duration::from_secs(600);

/// A failure on the way to a decision.
#[derive(Debug)]
pub(super) enum AskError {
    /// The store or a test.
    Flow(FlowError),
    /// The forge.
    Call(CallError),
}

impl From<FlowError> for AskError {
    fn from(error: FlowError) -> Self {
        Self::Flow(error)
    }
}

impl From<crate::store::StoreError> for AskError {
    fn from(error: crate::store::StoreError) -> Self {
        Self::Flow(error.into())
    }
}

impl From<CallError> for AskError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// How a record was completed.
#[derive(Debug)]
pub(super) struct Completed {
    /// Whether the forge was listed.
    pub listed: bool,
    /// Whether anybody was listed: what was read before is old.
    pub changed: bool,
    /// A runner that lists its jobs did not answer: what it has to tell is missing.
    pub gap: Option<CallError>,
}

impl World {
    /// Lists the revision's jobs from the forge when the record may have a gap, and says whether it did: after a start,
    /// for a head that was never listed, and where webhooks do not tell all and names alone do not do. Runners that list
    /// their jobs themselves are asked with it, and whenever names alone do not do: no webhook tells of those.
    pub(super) async fn complete_record(
        &self,
        forge: &dyn Forge,
        (repo, change): (&Repo, &Change),
        needed: &Needed,
        view: Option<&CommandView>,
    ) -> Result<Completed, AskError> {
        let known = match view {
            Some(view) => view.known_from,
            None => self.store.known_from(&repo.key, &change.head).await?,
        };
        let by_name = matches!(needed, Needed::Names(_));
        if known.is_some_and(|from| from >= self.since) && (by_name || forge.tells_statuses()) {
            let gap = if by_name { None } else { self.list_runners(repo, &change.head).await? };
            let changed = !by_name && self.runners.iter().any(|e| e.runner.lists() && e.serves(repo));
            return Ok(Completed { listed: false, changed, gap });
        }
        let gap = self.list_record(forge, repo, change).await?;
        Ok(Completed { listed: true, changed: true, gap })
    }

    /// Lists the revision's jobs from the forge, then from the runners that list theirs; the failure of a runner is
    /// given back, because the other jobs can be worked on without it.
    pub(super) async fn list_record(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
    ) -> Result<Option<CallError>, AskError> {
        let asked_at = self.now();
        let jobs = forge.list_jobs(repo, change).await?;
        tracing::info!(repository = %repo.full_name, head = %change.head, jobs = jobs.len(), "listed the jobs of a revision");
        let mut tx = self.store.begin().await?;
        let event = crate::domain::JobEvent { repo: repo.clone(), sha: change.head.clone(), jobs, group_over: None };
        self.take_jobs(&mut tx, &event, asked_at).await?;
        tx.put_revision(&repo.key, &change.head, asked_at).await?;
        tx.commit().await?;
        self.list_runners(repo, &change.head).await
    }

    /// Lists a commit's jobs from every runner that serves the repository and can list; the first failure that may pass.
    pub(super) async fn list_runners(&self, repo: &Repo, sha: &CommitSha) -> Result<Option<CallError>, AskError> {
        let mut gap = None;
        for entry in self.runners.iter().filter(|e| e.runner.lists() && e.serves(repo)) {
            let name = entry.runner.name();
            match entry.runner.list(repo, sha).await {
                Ok(jobs) => {
                    tracing::info!(runner = %name, head = %sha, runs = jobs.len(), "listed the jobs of a commit");
                    let mut tx = self.store.begin().await?;
                    for job in &jobs {
                        self.take_listed(&mut tx, (&repo.key, sha), job, Some(name)).await?;
                    }
                    tx.commit().await?;
                }
                Err(error) => {
                    tracing::warn!(runner = %name, %error, "a runner's jobs could not be listed");
                    self.count_failure(name.as_str(), &error);
                    gap = gap.or_else(|| error.is_passing().then_some(error));
                }
            }
        }
        Ok(gap)
    }

    /// Takes a listed or registered run into the record, and says whether it was news. A run that the record knows keeps
    /// its place; while a retry of the job is followed, following tells the truth about it.
    pub(super) async fn take_listed(
        &self,
        tx: &mut Tx,
        (repo, sha): (&RepoKey, &CommitSha),
        job: &ListedJob,
        runner: Option<&RunnerName>,
    ) -> Result<bool, FlowError> {
        let mut seen = job.seen.clone();
        let known = tx.job(repo, sha, &seen.name, &seen.scope).await?;
        if let Some(known) = known {
            if known.newest.run == seen.run {
                seen.order = known.newest.order;
            } else {
                let open = tx.open_retries(repo, sha).await?;
                let followed = |r: &Retry| r.job == seen.name && r.scope == seen.scope && r.state.may_have_run();
                if seen.order > known.newest.order && open.iter().any(followed) {
                    return Ok(false);
                }
            }
        }
        let news = self.take_run(tx, (repo, sha), &seen, runner).await?;
        tx.put_job_facts(repo, sha, job).await?;
        Ok(news)
    }

    /// Whether a job is to be started of which only a listing of the forge can say what its run was.
    pub(super) fn lacks_a_run(&self, snapshot: &Snapshot, plan: &crate::decide::Plan) -> bool {
        let jobs = plan.start.iter().filter_map(|item| snapshot.jobs.get(item.at)).map(|view| &view.job);
        let of = |job: &Job| job.runner.as_ref().and_then(|name| self.runner(name));
        jobs.into_iter()
            .filter(|job| job.newest.state != JobState::Missing && job.newest.run.as_str().is_empty())
            .any(|job| of(job).is_some_and(|entry| !entry.joins.is_empty()))
    }

    /// The snapshot for a selection. `seen` holds the jobs that were read already; with `meant`, jobs that it cannot mean
    /// are left out.
    pub(super) async fn snapshot(
        &self,
        forge: &dyn Forge,
        (repo, change, terms): (&Repo, &Change, &Terms),
        (needed, seen, meant): (&Needed, Option<&[Job]>, Option<&Selection>),
        retries: &[Retry],
    ) -> Result<Snapshot, AskError> {
        let mut jobs = self.jobs_for(repo, &change.head, (needed, seen)).await?;
        self.add_declared(repo, needed, &mut jobs);
        if *needed == Needed::All {
            self.mark_required(forge, (repo, change, terms), &mut jobs).await?;
        }
        if *needed == Needed::Bad {
            self.add_required(forge, (repo, change, terms), &mut jobs).await?;
        }
        let views = self.views((repo, &change.head, terms), (jobs, meant), retries).await?;
        let repeats = |job: &Job| job.runner.as_ref().and_then(|name| self.runner(name)).is_some_and(repeats_base);
        let base_moved = if views.iter().any(|view| repeats(&view.job)) {
            self.store.branch_moved_at(&repo.key, &change.base_ref).await?
        } else {
            None
        };
        let runners = self.runners.iter().map(|entry| (entry.runner.name().clone(), facts(entry))).collect();
        Ok(Snapshot {
            change: change.clone(),
            jobs: views,
            runners,
            limits: terms.limits,
            used: Used::default(),
            base_moved,
            now: self.now(),
        })
    }

    pub(super) async fn jobs_for(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        (needed, seen): (&Needed, Option<&[Job]>),
    ) -> Result<Vec<Job>, AskError> {
        let jobs = match seen {
            Some(jobs) => jobs.to_vec(),
            None => self.store.jobs(&repo.key, sha, &job_query(needed)).await?,
        };
        let Needed::Names(names) = needed else { return Ok(jobs) };
        let found = |name: &String| jobs.iter().any(|j| j.newest.name.as_str().to_lowercase() == name.to_lowercase());
        // The first name is the whole line; when it is a job, its single words need not be.
        let single = names.get(1..).unwrap_or_default();
        if names.first().is_some_and(found) || (!single.is_empty() && single.iter().all(found)) {
            return Ok(jobs);
        }
        // A word that names nothing is answered with the nearest name, and for that all names are needed.
        Ok(self.store.jobs(&repo.key, sha, &JobQuery::All).await?)
    }

    /// Adds jobs that a runner of ours declares and nobody reported yet.
    fn add_declared(&self, repo: &Repo, needed: &Needed, jobs: &mut Vec<Job>) {
        if *needed == Needed::Bad {
            return;
        }
        for entry in self.runners.iter().filter(|e| e.serves(repo)) {
            for name in entry.declared_jobs().filter(|_| entry.runner.abilities().starts_fresh) {
                if !jobs.iter().any(|j| j.newest.name == *name) {
                    jobs.push(missing(name.clone(), Some(entry.runner.name().clone())));
                }
            }
        }
    }

    /// Marks the jobs without which the change cannot be merged, and adds those that never reported.
    async fn mark_required(
        &self,
        forge: &dyn Forge,
        (repo, change, terms): (&Repo, &Change, &Terms),
        jobs: &mut Vec<Job>,
    ) -> Result<(), AskError> {
        let names = self.required_names(forge, repo, change).await?;
        for job in jobs.iter_mut() {
            let declared = self.runner_for(repo, &job.newest).and_then(|e| e.declared(&job.newest.name));
            let told = names.iter().any(|n| n == job.newest.name.as_str());
            let forges = told || (names.is_empty() && native_required(job));
            let before = Declared { required: forges, ..declared.cloned().unwrap_or_default() };
            let operators = declared.is_some_and(|d| d.required);
            job.required = terms.declared(&job.newest.name, Some(&before)).required || operators;
        }
        for name in names.into_iter().map(JobName::new).chain(terms.required_jobs().cloned()) {
            if !jobs.iter().any(|j| j.newest.name == name) {
                let mut job = missing(name, None);
                job.required = true;
                job.runner = self.runner_for(repo, &job.newest).map(|entry| entry.runner.name().clone());
                jobs.push(job);
            }
        }
        Ok(())
    }

    /// The names of the jobs without which nothing enters the base branch: those last told, asked for again by and by.
    pub(super) async fn required_names(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        change: &Change,
    ) -> Result<Vec<String>, AskError> {
        let now = self.now();
        let known = self.store.required(&repo.key, &change.base_ref).await?;
        match known {
            Some((names, at)) if now.since(at) < REQUIRED_FOR => Ok(names),
            old => match forge.required_jobs(repo, &change.base_ref).await {
                Ok(names) => {
                    let mut tx = self.store.begin().await?;
                    tx.put_required(&repo.key, &change.base_ref, &names, now).await?;
                    tx.commit().await?;
                    Ok(names)
                }
                Err(error) => {
                    tracing::warn!(%error, "the required jobs could not be asked for; the last known ones are used");
                    Ok(old.map_or_else(Vec::new, |(names, _)| names))
                }
            },
        }
    }

    /// Adds the jobs without which the change cannot be merged and of which nobody heard on this head: a plain `/retest`
    /// means them, too.
    async fn add_required(
        &self,
        forge: &dyn Forge,
        (repo, change, terms): (&Repo, &Change, &Terms),
        jobs: &mut Vec<Job>,
    ) -> Result<(), AskError> {
        let mut names = self.required_names(forge, repo, change).await?;
        names.extend(terms.required_jobs().map(ToString::to_string));
        for entry in self.runners.iter().filter(|entry| entry.serves(repo)) {
            let required = |name: &&JobName| entry.declared(name).is_some_and(|declared| declared.required);
            names.extend(entry.declared_jobs().filter(required).map(ToString::to_string));
        }
        names.retain(|name| !jobs.iter().any(|job| job.newest.name.as_str() == name));
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        let heard = self.store.jobs(&repo.key, &change.head, &JobQuery::Named(names.clone())).await?;
        for name in names.into_iter().map(JobName::new) {
            if !heard.iter().any(|job| job.newest.name == name) {
                let mut job = missing(name, None);
                job.required = true;
                job.runner = self.runner_for(repo, &job.newest).map(|entry| entry.runner.name().clone());
                jobs.push(job);
            }
        }
        Ok(())
    }

    /// The one place where a job, what the operator declares of it and what the repository's policy says of it meet. With
    /// `meant`, jobs that it cannot mean are left out.
    pub(super) async fn views(
        &self,
        (repo, sha, terms): (&Repo, &CommitSha, &Terms),
        (mut jobs, meant): (Vec<Job>, Option<&Selection>),
        retries: &[Retry],
    ) -> Result<Vec<JobView>, AskError> {
        let mut all_declared: Vec<Declared> = Vec::with_capacity(jobs.len());
        for job in &mut jobs {
            let entry = self.runner_by_terms(repo, job, terms);
            job.runner = entry.map(|e| e.runner.name().clone()).or_else(|| job.runner.clone());
            let declared = terms.declared(&job.newest.name, entry.and_then(|e| e.declared(&job.newest.name)));
            if !declared.needs.is_empty() {
                // What is declared counts, also for what is looked up next.
                job.newest.needs = Some(declared.needs.clone());
            }
            all_declared.push(declared);
        }
        let mut others = Vec::new();
        let wanted: Vec<String> =
            jobs.iter().flat_map(|j| j.newest.needs.iter().flatten()).map(ToString::to_string).collect();
        if !wanted.is_empty() {
            others = self.store.jobs(&repo.key, sha, &JobQuery::Named(wanted)).await?;
        }
        let stays = meant.map_or_else(Sifted::default, |meant| {
            let groups = all_declared.iter().map(|declared| declared.groups.as_slice());
            sift(meant, jobs.iter().zip(groups))
        });
        let standing: Vec<Standalone> = {
            // What a job needs may be any job.
            let by_name = states(jobs.iter().chain(&others));
            let barred = |job: &Job| {
                let entry = job.runner.as_ref().and_then(|name| self.runner(name));
                entry.and_then(|e| e.runner.bars(job))
            };
            let standing = |(job, declared): (&Job, &Declared)| match barred(job) {
                Some(why) => Standalone::Barred(why),
                None => Standalone::of(job, declared.standalone.or(job.standalone), &by_name),
            };
            let all = jobs.iter().zip(&all_declared).enumerate();
            all.filter(|(at, _)| stays.keeps(*at)).map(|(_, one)| standing(one)).collect()
        };
        stays.retain(&mut jobs);
        stays.retain(&mut all_declared);
        let mut of_job: HashMap<(&JobName, &str), Vec<&Retry>> = HashMap::new();
        for retry in retries {
            of_job.entry((&retry.job, &retry.scope)).or_default().push(retry);
        }
        let view = |((job, standalone), declared): ((Job, Standalone), Declared)| {
            let mine =
                of_job.get(&(&job.newest.name, job.newest.scope.as_str())).map(Vec::as_slice).unwrap_or_default();
            let open = mine
                .iter()
                .find(|r| r.state.is_open())
                .map(|r| OpenRetry { state: r.state.clone(), url: r.handle.as_ref().and_then(|h| h.url.clone()) })
                .map(Box::new);
            let entry = job.runner.as_ref().and_then(|name| self.runner(name));
            let mut view = JobView {
                standalone,
                open,
                retries: u32::try_from(mine.len()).unwrap_or(u32::MAX),
                wishes: u32::try_from(mine.iter().filter(|r| starts_series(r)).count()).unwrap_or(u32::MAX),
                platform: declared.platform.or_else(|| job.platform.clone()),
                groups: declared.groups,
                overrides: entry.map(|e| overrides_of(e, &job.newest.name)).unwrap_or_default(),
                terms: None,
                last_retry_at: mine.iter().map(|r| r.created_at).max(),
                job,
            };
            terms.demand(&mut view);
            view
        };
        Ok(jobs.into_iter().zip(standing).zip(all_declared).map(view).collect())
    }
}

/// Which jobs of the record a selection needs.
pub(super) fn job_query(needed: &Needed) -> JobQuery {
    match needed {
        Needed::Bad => JobQuery::Bad,
        Needed::All => JobQuery::All,
        Needed::Names(names) => JobQuery::Named(names.clone()),
    }
}

/// Several runs that were asked for at once are one wish.
fn starts_series(retry: &Retry) -> bool {
    retry.series.is_none_or(|series| series.place == 1)
}

/// The fields that a person may change in a comment.
fn overrides_of(entry: &super::world::RunnerEntry, job: &JobName) -> Vec<String> {
    let mut keys = entry.runner.allowed_overrides(job);
    keys.retain(|key| key != DEFINITION);
    keys
}

/// GitLab has no list of required jobs: each one is, unless it is allowed to fail.
fn native_required(job: &Job) -> bool {
    job.newest.origin == Origin::GitLabCi && !job.newest.allow_failure && !job.newest.manual
}

/// A job that is declared or required and was never reported.
fn missing(name: JobName, runner: Option<RunnerName>) -> Job {
    let newest = JobObservation {
        name,
        scope: String::new(),
        origin: Origin::Followed,
        run: RunRef::new(""),
        order: RunOrder::default(),
        group: None,
        state: JobState::Missing,
        cause: None,
        url: None,
        allow_failure: false,
        manual: false,
        needs: None,
        at: crate::domain::Timestamp::default(),
    };
    Job { newest, runner, required: false, runs: 0, platform: None, standalone: None }
}

/// A forge's own CI repeats a run with the commit that it was made for, be that a merge with the base of then.
fn repeats_base(entry: &super::world::RunnerEntry) -> bool {
    entry.runner.abilities().reported_by_forge
}

pub(super) fn facts(entry: &super::world::RunnerEntry) -> RunnerFacts {
    let abilities = entry.runner.abilities();
    RunnerFacts {
        age_max: abilities.age_max,
        starts_fresh: abilities.starts_fresh,
        out_of_reach_for_forks: abilities.out_of_reach_for_forks,
        attempts_max: entry.attempts_max,
        runs_dependents: abilities.runs_dependents,
        repeats_base: repeats_base(entry),
        restarts_max: abilities.restarts_max,
    }
}
