//! What every loop works with: the store, the configured forges and runners, the rules, the clock.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use globset::GlobSet;
use retest_commands::Grammar;
use thiserror::Error;
use tokio::sync::Notify;

use super::metrics::Metrics;
use super::points::{Point, StopAt, Stopped};
use super::policy::{Phrases, Policies, PolicyRules};
use crate::decide::{Declared, Declares, Limits, Posts, Rights, Terms};
use crate::domain::{
    ChangeKey, CommitSha, DispatchKey, ForgeName, Job, JobName, JobObservation, Origin, Repo, RepoKey, RunnerName,
    Timestamp,
};
use crate::ports::{Clock, Forge, Runner, RunnerKind};
use crate::store::{Store, StoreError};

/// Changes whose confirmation is kept in memory.
const CONFIRMED_MAX: usize = 50_000;

/// Why a pass ended early.
#[derive(Debug, Error)]
pub enum FlowError {
    /// The store failed; the pass is tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A test stopped it.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many things were done; zero means that nothing was due.
    pub done: usize,
}

/// What edits of comments mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditedComments {
    /// Nothing.
    Ignored,
    /// The commands that the earlier text did not have, when the author edited.
    #[default]
    NewCommands,
}

/// What the operator has decided.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Least roles.
    pub rights: Rights,
    /// What a command may start at most.
    pub limits: Limits,
    /// How statuses are called and linked.
    pub posts: Posts,
    /// Whether reports are written.
    pub reports: bool,
    /// Whether comments get reactions.
    pub reactions: bool,
    /// How long news is collected before a report or status is posted.
    pub report_delay: Duration,
    /// Older comments run nothing.
    pub comment_age_max: Duration,
    /// What edits mean.
    pub edited: EditedComments,
    /// How long a role look-up holds.
    pub role_cache: Duration,
    /// How long the record is kept.
    pub retention: Duration,
    /// How often missed comments are looked for.
    pub catch_up_every: Duration,
    /// What is decided about retries that nobody asked for.
    pub flakes: super::labels::FlakeRules,
    /// Job descriptions that clients of the API may start by name.
    pub templates: Vec<super::template::RunTemplate>,
}

/// A configured runner with its limits.
#[derive(Clone)]
pub struct RunnerEntry {
    /// The module.
    pub runner: Arc<dyn Runner>,
    /// The forge whose CI it is; none for runners that serve every forge.
    pub forge: Option<ForgeName>,
    /// The repositories it serves; none means all.
    pub repositories: Option<GlobSet>,
    /// Runs of one job on one head at most, the first included.
    pub attempts_max: u32,
    /// A retry not over after this long is expired.
    pub deadline: Duration,
    /// Shortest time between two looks at a run.
    pub poll_min: Duration,
    /// Longest time between two looks at a run.
    pub poll_max: Duration,
    /// What the operator declared about jobs; the first that fits counts.
    pub jobs: Vec<(Declares, Declared)>,
    /// How others' statuses about its jobs look; none where it knows its jobs by itself.
    pub joins: Vec<super::join::JoinPattern>,
}

impl fmt::Debug for RunnerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerEntry").field("name", self.runner.name()).finish_non_exhaustive()
    }
}

impl RunnerEntry {
    /// Whether it serves a repository.
    pub fn serves(&self, repo: &Repo) -> bool {
        self.forge.as_ref().is_none_or(|f| *f == repo.key.forge)
            && self.repositories.as_ref().is_none_or(|globs| globs.is_match(&repo.full_name))
    }

    /// What was declared about a job; none when the job is not among this runner's declared ones.
    pub fn declared(&self, job: &JobName) -> Option<&Declared> {
        self.jobs.iter().find(|(declares, _)| declares.fits(job)).map(|(_, declared)| declared)
    }

    /// The jobs that were declared by name.
    pub fn declared_jobs(&self) -> impl Iterator<Item = &JobName> {
        self.jobs.iter().filter_map(|(declares, _)| match declares {
            Declares::Job(name) => Some(name),
            Declares::Pattern(_) => None,
        })
    }
}

/// Wakes the loops.
#[derive(Debug, Default)]
pub struct Wake {
    /// Something was stored.
    pub intake: Notify,
    /// Something may be started.
    pub dispatch: Notify,
    /// A run may have news.
    pub follow: Notify,
    /// Something may be reported.
    pub report: Notify,
    /// A failure may be judged.
    pub judge: Notify,
}

/// Everything a loop needs.
pub struct World {
    /// The store.
    pub store: Store,
    /// The configured forges.
    pub forges: BTreeMap<ForgeName, Arc<dyn Forge>>,
    /// The configured runners, in order of the configuration.
    pub runners: Vec<RunnerEntry>,
    /// The chat grammar.
    pub grammar: Grammar,
    /// What the operator has decided.
    pub rules: Rules,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Metrics,
    /// The name of this process's life: rows that it owns are its own.
    pub me: String,
    /// When this life began: the record has a gap before.
    pub since: Timestamp,
    /// Where a test stops it.
    pub stop_at: StopAt,
    /// Wakes the loops.
    pub wake: Wake,
    pub(super) people: super::people::People,
    pub(super) policies: Policies,
    pub(super) labels: super::labels::Labels,
    /// Heads whose jobs are to be listed: the forge does not tell of all of them.
    pub(super) listings: Mutex<HashSet<(RepoKey, CommitSha)>>,
    pub(super) in_flight: Mutex<HashSet<DispatchKey>>,
    pub(super) confirmed: Mutex<HashSet<ChangeKey>>,
    pub(super) handed_over: Mutex<Vec<super::dispatch::Order>>,
    pub(super) arrived: super::intake::Arrived,
    pub(super) tasks: super::tasks::Tasks,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("me", &self.me).finish_non_exhaustive()
    }
}

/// What a [`World`] is made of.
#[derive(Debug)]
pub struct Parts {
    /// The store.
    pub store: Store,
    /// The runners.
    pub runners: Vec<RunnerEntry>,
    /// The grammar.
    pub grammar: Grammar,
    /// The rules.
    pub rules: Rules,
    /// What is decided about policies of repositories; none when there are none.
    pub policy: Option<PolicyRules>,
    /// Where the receiver looks for repositories' phrases.
    pub phrases: Arc<Phrases>,
    /// Where a test stops it.
    pub stop_at: StopAt,
}

impl World {
    /// Puts the parts together. `me` must differ between two lives of the program.
    pub fn new(parts: Parts, forges: Vec<Arc<dyn Forge>>, clock: Arc<dyn Clock>, me: String) -> Self {
        let since = clock.now();
        let operators = Terms::of_operator(parts.rules.rights.clone(), parts.rules.limits);
        let policies = Policies::new(parts.policy, (operators, parts.grammar.clone()), parts.phrases);
        Self {
            store: parts.store,
            forges: forges.into_iter().map(|f| (f.name().clone(), f)).collect(),
            runners: parts.runners,
            grammar: parts.grammar,
            rules: parts.rules,
            metrics: Metrics::new(),
            me,
            since,
            stop_at: parts.stop_at,
            wake: Wake::default(),
            clock,
            people: super::people::People::default(),
            policies,
            labels: super::labels::Labels::default(),
            listings: Mutex::default(),
            in_flight: Mutex::default(),
            confirmed: Mutex::default(),
            handed_over: Mutex::default(),
            arrived: super::intake::Arrived::default(),
            tasks: super::tasks::Tasks::default(),
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A runner by its name.
    pub fn runner(&self, name: &RunnerName) -> Option<&RunnerEntry> {
        self.runners.iter().find(|entry| entry.runner.name() == name)
    }

    /// The runner that can run a reported job again. The CI of the forge itself is told by who reported the job; every
    /// other job belongs to the runner that its page or name points to, else to the first runner that serves the
    /// repository and declares a job of that name.
    pub fn runner_for(&self, repo: &Repo, seen: &JobObservation) -> Option<&RunnerEntry> {
        let native = match seen.origin {
            Origin::Actions => Some(RunnerKind::GitHubActions),
            Origin::GitLabCi => Some(RunnerKind::GitLabCi),
            Origin::Check(_) | Origin::Status | Origin::Followed | Origin::Reported => None,
        };
        if let Some((entry, _)) = self.joined(repo, seen) {
            return Some(entry);
        }
        self.runners.iter().filter(|entry| entry.serves(repo)).find(|entry| match native {
            Some(kind) => entry.runner.kind() == kind,
            None => !entry.runner.abilities().reported_by_forge && entry.declared(&seen.name).is_some(),
        })
    }

    /// The runner that runs a job: the forge's own CI for its own jobs; else the one that the policy gives it, of those
    /// that serve the repository and that the operator lets run a job of that name; else the one that the record names.
    pub(super) fn runner_by_terms(&self, repo: &Repo, job: &Job, terms: &Terms) -> Option<&RunnerEntry> {
        let recorded = job.runner.as_ref().and_then(|name| self.runner(name));
        if matches!(job.newest.origin, Origin::Actions | Origin::GitLabCi) {
            return recorded;
        }
        let name = &job.newest.name;
        let may = |entry: &&RunnerEntry| {
            entry.serves(repo) && entry.runner.abilities().starts_fresh && entry.declared(name).is_some()
        };
        let given = terms.runners_for(name).find_map(|runner| self.runner(runner).filter(may));
        given.or(recorded)
    }

    /// Learns who we are on each forge; a forge that does not answer is asked again by the calls that need it.
    pub(super) async fn learn_selves(&self) {
        for forge in self.forges.values() {
            if let Err(error) = forge.learn_self().await {
                tracing::warn!(forge = %forge.name(), %error, "could not learn who we are there");
            }
        }
    }

    /// Leaves alone what an earlier life was told to leave alone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn recall_throttles(&self) -> Result<(), FlowError> {
        for forge in self.forges.values() {
            let until = self.store.meta(&format!("throttled_until:{}", forge.name())).await?;
            if let Some(until) = until.and_then(|ms| ms.parse().ok()).map(Timestamp::from_ms)
                && until > self.now()
            {
                tracing::info!(forge = %forge.name(), ms = until.since(self.now()).as_millis(), "still throttled");
                forge.throttle_until(until);
            }
        }
        Ok(())
    }

    /// Remembers which forge wants to be left alone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remember_throttles(&self) -> Result<(), FlowError> {
        for forge in self.forges.values() {
            if let Some(until) = forge.throttled_until().filter(|until| *until > self.now()) {
                self.store.set_meta(&format!("throttled_until:{}", forge.name()), &until.ms().to_string()).await?;
            }
        }
        Ok(())
    }

    pub(super) fn reach(&self, point: Point) -> Result<(), Stopped> {
        self.stop_at.reach(point)
    }

    /// The state of a change was told or asked for in this life.
    pub(super) fn confirm(&self, change: &ChangeKey) {
        let mut all = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CONFIRMED_MAX {
            all.clear(); // they are asked for again: slower, never wrong
        }
        all.insert(change.clone());
    }

    pub(super) fn is_confirmed(&self, change: &ChangeKey) -> bool {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner).contains(change)
    }

    pub(super) fn fly(&self, key: &DispatchKey, on: bool) {
        let mut set = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if on {
            set.insert(key.clone());
        } else {
            set.remove(key);
        }
    }

    pub(super) fn flies(&self, key: &DispatchKey) -> bool {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }
}
