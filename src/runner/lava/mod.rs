//! The LAVA runner: submits a finished job's definition again, with our key in its metadata, and follows the new job.
//!
//! LAVA's own `resubmit` is not used: it carries no key, and repeats the old callback. A low-level retry that LAVA makes
//! inside a job (`failure_retry`) is left to finish: the job is not over before. Its callback only wakes us, since anybody
//! who may read a definition knows its token. Read next: `definition.rs` (what a retry is), `verdict.rs` (what words mean).

mod client;
mod config;
mod definition;
mod log;
mod verdict;
mod yaml;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::ExposeSecret;
use sha2::Sha256;

use self::client::{Client, LavaJob, further, is_ending};
use self::definition::{Definition, KEY, Retry};
use self::verdict::{Standing, of_error, standing, weight};
use super::log_text;
use crate::domain::{
    DispatchKey, JobName, JobState, Repo, RunHandle, RunObservation, RunOrder, RunRef, RunnerName, Timestamp,
};
use crate::ports::{
    Abilities, CallError, Clock, DispatchError, DispatchOrder, Found, JobOrder, LogTail, Runner, RunnerKind, Started,
    SuccessorNaming, Told, hmac_sha256_matches,
};

pub use self::config::{Callback, LavaConfig, Source};

/// Longest cause in characters.
const CAUSE_CHARS_MAX: usize = 300;

/// How long after a submission without an answer LAVA may still be about to store it: its own limit for a request is
/// 60 s or less in its packages. Only then does "no job has this key" mean that it was not taken.
const SETTLED_AFTER: Duration = Duration::from_secs(90);

/// Submissions without an answer that are remembered.
const DOUBTS_MAX: usize = 10_000;

/// Names of failed test cases that are told.
const CASES_TOLD: usize = 3;

/// One LAVA instance.
#[derive(Debug)]
pub struct LavaRunner {
    config: LavaConfig,
    client: Client,
    abilities: Abilities,
    clock: Arc<dyn Clock>,
    born: Timestamp,
    /// When submissions were made whose answer did not come, by key.
    doubts: Mutex<HashMap<String, Timestamp>>,
}

impl LavaRunner {
    /// Sets it up; asks nobody.
    ///
    /// # Errors
    /// What cannot be used of the configuration.
    pub fn new(config: LavaConfig, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let client = Client::new(config.name.as_str(), &config.url, &config.token, config.timeout)?;
        let abilities = Abilities {
            successor: SuccessorNaming::NewId,
            reported_by_forge: false,
            restarts_group: false,
            needs_group_over: false,
            runs_dependents: false,
            age_max: None,
            restarts_max: None,
            finds_by_key: true,
            takes_overrides: config.jobs.iter().any(|(_, keys)| !keys.is_empty()),
            cancels: true,
            starts_fresh: false,
            out_of_reach_for_forks: false,
            tails_log: true,
        };
        let born = clock.now();
        Ok(Self { config, client, abilities, clock, born, doubts: Mutex::default() })
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn refusal(&self, why: &str) -> CallError {
        CallError::refused(format!("{}: {why}", self.client.who()))
    }

    /// The one job of an order, when it may be started with these fields.
    fn wanted<'a>(&self, order: &'a DispatchOrder) -> Result<&'a JobOrder, CallError> {
        let [wanted] = order.jobs.as_slice() else {
            return Err(self.refusal(&format!("one run has one job, not {}", order.jobs.len())));
        };
        let allowed = self.config.overrides(&wanted.job);
        match wanted.overrides.keys().find(|key| !allowed.contains(key)) {
            Some(key) => Err(self.refusal(&format!("`{}` cannot be changed for this job", key.escape_debug()))),
            None => Ok(wanted),
        }
    }

    /// The job that is repeated: the one that the status points to, else the newest that carries the metadata.
    async fn source(&self, order: &DispatchOrder, wanted: &JobOrder) -> Result<LavaJob, CallError> {
        let conditions = Conditions::of(&self.config.source, order, wanted);
        if let Some(run) = &wanted.source_run {
            let id = number_of(run.as_str()).ok_or_else(|| self.refusal("the status points to no job of it"))?;
            let job = self.client.job(id, self.now()).await?;
            let job = job.ok_or_else(|| self.refusal(&format!("it has no job {id} that this bot may see")))?;
            // Whoever may post a status could else have a job of somebody else repeated.
            return if conditions.fit(&job) {
                Ok(job)
            } else {
                Err(self.refusal(&format!("job {id} does not carry the metadata that jobs of this revision have")))
            };
        }
        if !conditions.can_search() {
            let why = "the status names no job of it, and `metadata` does not say how to find one";
            return Err(self.refusal(why));
        }
        let found = self.client.jobs_with(order.sha.as_str(), "-id", self.now()).await?;
        let fits = |job: &LavaJob| conditions.fit(job) && conditions.is_named(job);
        found.into_iter().find(fits).ok_or_else(|| self.refusal("no job of it carries the metadata of this one"))
    }

    fn callback_for(&self, key: &DispatchKey) -> Option<(String, String)> {
        let callback = self.config.callback.as_ref()?;
        let url = format!("{}/{key}", callback.url.trim_end_matches('/'));
        // LAVA puts the token into the header as it stands.
        Some((url, format!("Bearer {}", hex::encode(mac(callback.secret.expose_secret(), key)))))
    }

    /// What LAVA told of a submission, as the flow wants it.
    fn started(&self, wanted: &JobOrder, ids: &[String]) -> Result<Started, CallError> {
        let Some((first, others)) = ids.split_first() else {
            return Err(CallError::Unknown { log: format!("{} named no job", self.client.who()) });
        };
        let order = number_of(first).and_then(|id| i64::try_from(id).ok()).unwrap_or_default();
        let handle = RunHandle { id: first.clone(), order: RunOrder(order, 0), url: Some(self.page(first)) };
        // A group is submitted whole: its other members run along.
        let also = others.iter().map(|id| JobName::new(format!("{id} (multinode)"))).collect();
        Ok(Started { runs: vec![(wanted.key.clone(), handle)], also })
    }

    fn page(&self, id: &str) -> String {
        format!("{}/scheduler/job/{id}", self.config.url)
    }

    fn doubt(&self, key: &DispatchKey) {
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        if doubts.len() >= DOUBTS_MAX {
            doubts.clear(); // those count from now on: later, never sooner
        }
        doubts.insert(key.to_string(), self.now());
    }

    /// Whether LAVA must have stored a submission by now if it took it.
    fn is_settled(&self, key: &DispatchKey) -> bool {
        let doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        // What an earlier life submitted was submitted before this one began.
        let since = doubts.get(key.as_str()).copied().unwrap_or(self.born);
        self.now().since(since) >= SETTLED_AFTER
    }

    /// The members of the group that a handle names, or its one job; none when LAVA has none.
    async fn jobs_of(&self, handle: &str) -> Result<Vec<LavaJob>, CallError> {
        let Some(id) = number_of(handle) else { return Ok(Vec::new()) };
        let Some(job) = self.client.job(id, self.now()).await? else { return Ok(Vec::new()) };
        if !handle.contains('.') {
            return Ok(vec![job]);
        }
        let read = Definition::parse(&job.definition);
        match read.as_ref().ok().and_then(Definition::target_group) {
            Some(group) => {
                let members = self.client.members(group, self.now()).await?;
                Ok(if members.is_empty() { vec![job] } else { members })
            }
            None => Ok(vec![job]),
        }
    }

    /// How a job that is over ended, and why.
    async fn end_of(&self, job: &LavaJob, standing: Standing) -> Result<(JobState, Option<String>), CallError> {
        match standing {
            Standing::Open(state) => Ok((state, None)),
            Standing::Canceled => Ok((JobState::Cancelled, Some("Canceled".to_owned()))),
            Standing::Unknown => Ok((JobState::Lost, Some("finished without health".to_owned()))),
            Standing::Complete => {
                let failed = self.client.failed_cases(job.id, |suite| self.config.counts(suite), self.now()).await?;
                if failed.is_empty() {
                    return Ok((JobState::Passed, None));
                }
                let told: Vec<&str> = failed.iter().take(CASES_TOLD).map(String::as_str).collect();
                let more = if failed.len() > told.len() { ", …" } else { "" };
                let text = format!("Test: {} failed: {}{more}", cases(failed.len()), told.join(", "));
                Ok((JobState::Failed, Some(self.line(&text))))
            }
            Standing::Incomplete => Ok(match self.client.error_of(job.id, self.now()).await? {
                Some((kind, message)) if message.is_empty() => (of_error(&kind), Some(self.line(&kind))),
                Some((kind, message)) => (of_error(&kind), Some(self.line(&format!("{kind}: {message}")))),
                // Killed before it could say why: its worker went away.
                None => {
                    (JobState::Infrastructure, Some("Infrastructure: the job left no result of its own".to_owned()))
                }
            }),
        }
    }

    fn line(&self, text: &str) -> String {
        log_text::one_line(&self.client.masked(text), CAUSE_CHARS_MAX)
    }
}

#[async_trait]
impl Runner for LavaRunner {
    fn name(&self) -> &RunnerName {
        &self.config.name
    }

    fn kind(&self) -> RunnerKind {
        RunnerKind::Lava
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        let wanted = self.wanted(order)?;
        let source = self.source(order, wanted).await?;
        let number = source.id.to_string();
        let retry = Retry {
            key: wanted.key.as_str(),
            source: wanted.source_run.as_ref().map_or(number.as_str(), RunRef::as_str),
            overrides: &wanted.overrides,
            url_prefixes: &self.config.url_prefixes,
            callback: self.callback_for(&wanted.key),
        };
        let definition = Definition::parse(source.submitted()).and_then(|read| read.retried(&retry));
        let definition = definition.map_err(|why| self.refusal(&format!("job {number}: {why}")))?;
        match self.client.submit(&definition, self.now()).await {
            Ok(ids) => Ok(self.started(wanted, &ids)?),
            Err(error) => {
                if matches!(error, CallError::Unknown { .. }) {
                    self.doubt(&wanted.key);
                }
                Err(error.into())
            }
        }
    }

    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        let wanted = self.wanted(order)?;
        // The oldest is ours: a copy that somebody made of it in LAVA carries the key too.
        let jobs = self.client.jobs_with(wanted.key.as_str(), "id", self.now()).await.map_err(passing)?;
        let ours = jobs.iter().find(|job| {
            let read = Definition::parse(&job.definition);
            read.is_ok_and(|read| read.metadata().get(KEY) == Some(&wanted.key.as_str()))
        });
        match ours {
            Some(job) if job.is_member() => {
                let count = self.jobs_of(&format!("{}.0", job.id)).await.map_err(passing)?.len();
                let ids: Vec<String> = (0..count).map(|member| format!("{}.{member}", job.id)).collect();
                Ok(Found::Sent(self.started(wanted, &ids)?))
            }
            Some(job) => Ok(Found::Sent(self.started(wanted, &[job.id.to_string()])?)),
            None if self.is_settled(&wanted.key) => Ok(Found::NotSent),
            None => {
                let log = format!("{} has no such job yet, and may be about to store it", self.client.who());
                Err(CallError::Unreachable { log })
            }
        }
    }

    async fn observe(&self, _repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let jobs = self.jobs_of(&handle.id).await.map_err(passing)?;
        let mut seen = RunObservation {
            state: JobState::Passed,
            cause: None,
            url: Some(self.page(&handle.id)),
            run: None,
            order: handle.order,
        };
        if jobs.is_empty() {
            return Err(self.refusal(&format!("it has no job {} any more", handle.id)));
        }
        let open = jobs.iter().filter_map(|job| match standing_of(job) {
            Standing::Open(state) => Some(state),
            Standing::Complete | Standing::Incomplete | Standing::Canceled | Standing::Unknown => None,
        });
        let over = jobs.iter().any(|job| job.state == "Finished");
        if let Some(state) = open.reduce(further) {
            seen.state = if over { JobState::Running } else { state };
            return Ok(seen);
        }
        for job in &jobs {
            let (state, cause) = self.end_of(job, standing_of(job)).await.map_err(passing)?;
            if weight(state) > weight(seen.state) {
                seen.state = state;
                seen.cause = match cause {
                    Some(cause) if jobs.len() > 1 => Some(self.line(&format!("{cause} (job {})", job.id))),
                    cause => cause,
                };
            }
        }
        Ok(seen)
    }

    async fn cancel(&self, _repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<(), CallError> {
        for job in self.jobs_of(&handle.id).await.map_err(passing)? {
            if !is_ending(&job) {
                self.client.cancel(job.id, self.now()).await.map_err(passing)?;
            }
        }
        // LAVA says yes even where it will not do it: only its jobs tell.
        if self.jobs_of(&handle.id).await.map_err(passing)?.iter().all(is_ending) {
            Ok(())
        } else {
            Err(CallError::Unreachable { log: format!("{} has not begun to cancel {}", self.client.who(), handle.id) })
        }
    }

    async fn log_tail(&self, _repo: &Repo, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError> {
        let id = number_of(&handle.id).ok_or_else(|| self.refusal("the run has no number"))?;
        self.client.log_tail(id, bytes_max, self.now()).await
    }

    fn allowed_overrides(&self, job: &JobName) -> Vec<String> {
        self.config.overrides(job).to_vec()
    }

    fn is_same_run(&self, a: &RunRef, b: &RunRef) -> bool {
        let group = |run: &RunRef| run.as_str().split('.').next().map(str::to_owned);
        group(a) == group(b)
    }

    fn callback(&self, key: &DispatchKey, token: &str, _body: &[u8]) -> Result<Told, CallError> {
        let Some(callback) = &self.config.callback else {
            return Err(self.refusal("it takes no callbacks"));
        };
        let given = hex::decode(token).unwrap_or_default();
        let secret = std::iter::once(callback.secret.expose_secret().as_bytes());
        if hmac_sha256_matches(secret, &[key.as_str().as_bytes()], &given) {
            Ok(Told::Look)
        } else {
            Err(self.refusal("the token of the callback is wrong"))
        }
    }
}

/// What the LAVA job of a job of a revision carries.
struct Conditions {
    metadata: Vec<(String, String)>,
    tags: Vec<String>,
    names_job: bool,
    job: String,
}

impl Conditions {
    fn of(source: &Source, order: &DispatchOrder, wanted: &JobOrder) -> Self {
        let filled = |text: &String| {
            text.replace("{sha}", order.sha.as_str())
                .replace("{repository}", &order.repo.full_name)
                .replace("{change}", &order.change.number.to_string())
                .replace("{job}", wanted.job.as_str())
        };
        Self {
            metadata: source.metadata.iter().map(|(key, value)| (key.clone(), filled(value))).collect(),
            tags: source.tags.iter().map(filled).collect(),
            names_job: source.metadata.values().chain(&source.tags).any(|text| text.contains("{job}")),
            job: wanted.job.to_string(),
        }
    }

    /// Whether the newest job that fits is the one meant, and not merely some job.
    fn can_search(&self) -> bool {
        !self.metadata.is_empty()
    }

    fn fit(&self, job: &LavaJob) -> bool {
        if self.metadata.is_empty() && self.tags.is_empty() {
            return true;
        }
        let Ok(read) = Definition::parse(job.submitted()) else { return false };
        let metadata = read.metadata();
        let tags = read.tags();
        self.metadata.iter().all(|(key, value)| metadata.get(key.as_str()) == Some(&value.as_str()))
            && self.tags.iter().all(|tag| tags.contains(&tag.as_str()))
    }

    /// Where neither metadata nor tags hold the job's name, its LAVA job must be called like it.
    fn is_named(&self, job: &LavaJob) -> bool {
        self.names_job || job.description.as_deref() == Some(self.job.as_str())
    }
}

fn standing_of(job: &LavaJob) -> Standing {
    standing(&job.state, &job.health)
}

/// The number in `12`, and of a group's first job in `12.3`.
fn number_of(name: &str) -> Option<u64> {
    name.split('.').next()?.parse().ok()
}

fn cases(count: usize) -> String {
    if count == 1 { "1 test case".to_owned() } else { format!("{count} test cases") }
}

/// About a run that exists, a refusal is a matter of the token, which the operator can mend: it is asked again.
fn passing(error: CallError) -> CallError {
    match error {
        CallError::Refused { log, .. } => CallError::Unreachable { log },
        other => other,
    }
}

/// The token of a run's callback: worth nothing for another run, and not stored.
fn mac(secret: &str, key: &DispatchKey) -> Vec<u8> {
    // HMAC takes a key of any length: this never fails.
    let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.as_bytes()) else { return Vec::new() };
    mac.update(key.as_str().as_bytes());
    mac.finalize().into_bytes().to_vec()
}
