//! The exec runner: declared jobs run as processes on this machine.
//!
//! Each run has a supervisor, a process of its own that outlives the bot; the two meet in the run's directory
//! (`place.rs`), and only there. So a restart of the bot loses nothing: what stands in the directory is the truth.
//! It refuses to let data become syntax: the command is a vector of arguments, and what a comment chose reaches it as a
//! variable only. Read next: `place.rs`, then `supervise.rs`.

mod config;
mod log;
mod place;
mod processes;
mod supervise;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use self::place::{End, Place, Spec, Standing};
use super::log_text;
use crate::domain::{
    DispatchKey, JobName, JobState, Repo, RunHandle, RunObservation, RunOrder, RunRef, RunnerName, Timestamp, WaitOn,
};
use crate::ports::{
    Abilities, CallError, Clock, DispatchError, DispatchOrder, Found, JobOrder, LogTail, Runner, RunnerKind, Started,
    SuccessorNaming,
};

pub use self::config::{ExecConfig, ExecConfigError, ExecJob};
pub use self::supervise::supervise;

/// When to look again for a free place after `processes_max` runs were found executing.
const FULL_LOOK_AFTER: Duration = Duration::from_secs(5);

/// Where the supervisor complains.
const SUPERVISOR_LOG: &str = "supervisor.log";

/// Longest cause in characters.
const CAUSE_CHARS_MAX: usize = 300;

/// Processes on this machine.
#[derive(Debug)]
pub struct ExecRunner {
    abilities: Abilities,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: ExecConfig,
    clock: Arc<dyn Clock>,
    inherited: BTreeMap<String, String>,
    ledger: Mutex<Ledger>,
}

/// What would cost a walk over all directories to know.
#[derive(Debug, Default)]
struct Ledger {
    /// The runs that were live when last looked at; nothing else can be live.
    live: BTreeSet<String>,
    /// How many runs each subject had, of those that are still kept.
    attempts: BTreeMap<String, u32>,
}

impl ExecRunner {
    /// Checks the configuration, makes the state directory and finds the runs that are in it.
    ///
    /// # Errors
    /// [`ExecConfigError`]: what cannot be used, and where it stands.
    pub fn open(mut config: ExecConfig, clock: Arc<dyn Clock>) -> Result<Self, ExecConfigError> {
        config.check()?;
        let path = config.state_directory.clone();
        let failed = |error: io::Error| ExecConfigError::State { path: path.clone(), error };
        std::fs::create_dir_all(&path).map_err(failed)?;
        config.state_directory = path.canonicalize().map_err(failed)?;
        let mut ledger = Ledger::default();
        for (key, place) in place::list(&config.state_directory).map_err(failed)?.runs {
            // A directory that cannot be read counts for nothing here; asking for its run will say what is wrong.
            if let Ok(spec) = place.spec() {
                let count = ledger.attempts.entry(spec.subject).or_default();
                *count = spec.attempt.max(*count);
            }
            if place.standing().is_ok_and(|s| s.is_live()) {
                ledger.live.insert(key);
            }
        }
        let abilities = Abilities {
            successor: SuccessorNaming::OurKey,
            reported_by_forge: false,
            restarts_group: false,
            needs_group_over: false,
            runs_dependents: false,
            age_max: None,
            restarts_max: None,
            finds_by_key: true,
            takes_overrides: config.jobs.iter().any(|job| !job.overrides.is_empty()),
            cancels: true,
            starts_fresh: true,
            out_of_reach_for_forks: false,
            tails_log: true,
        };
        let inner = Inner { config, clock, inherited: config::inherited(), ledger: Mutex::new(ledger) };
        Ok(Self { abilities, inner: Arc::new(inner) })
    }

    /// Removes the directories of runs that ended before `older_than` (for lost ones: were dispatched before it), and
    /// says how many. Reads every directory: meant for the daily clean-up, off the async threads.
    ///
    /// # Errors
    /// When the state directory cannot be read or a directory cannot be removed.
    pub fn sweep(&self, older_than: Timestamp) -> io::Result<usize> {
        self.inner.sweep(older_than)
    }

    /// Does blocking work (small files, starting a process) away from the async threads.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let inner = Arc::clone(&self.inner);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.map_err(|error| CallError::Unknown { log: format!("exec: {error}") })
    }
}

#[async_trait]
impl Runner for ExecRunner {
    fn name(&self) -> &RunnerName {
        &self.inner.config.name
    }

    fn kind(&self) -> RunnerKind {
        RunnerKind::Exec
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        let order = order.clone();
        self.blocking(move |inner| inner.dispatch(&order)).await?
    }

    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        let order = order.clone();
        self.blocking(move |inner| inner.find(&order)).await?
    }

    async fn observe(&self, _repo: &Repo, job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let (job, handle) = (job.clone(), handle.clone());
        self.blocking(move |inner| inner.observe(&job, &handle)).await?
    }

    async fn cancel(&self, _repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<(), CallError> {
        let handle = handle.clone();
        self.blocking(move |inner| inner.cancel(&handle)).await?
    }

    async fn log_tail(&self, _repo: &Repo, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError> {
        let handle = handle.clone();
        self.blocking(move |inner| inner.log_tail(&handle, bytes_max)).await?
    }

    fn sweep(&self, before: Timestamp) -> Result<usize, String> {
        Self::sweep(self, before).map_err(|error| error.to_string())
    }

    fn allowed_overrides(&self, job: &JobName) -> Vec<String> {
        self.inner.config.job(job).map(|job| job.overrides.clone()).unwrap_or_default()
    }
}

impl Inner {
    fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        let wanted = single(order)?;
        let Some(job) = self.config.job(&wanted.job) else {
            return Err(CallError::refused(format!("no job `{}` is declared here", wanted.job)).into());
        };
        let place = self.place(wanted.key.as_str())?;
        let mut ledger = self.ledger();
        match place.standing().map_err(local)? {
            Standing::Absent => {}
            Standing::NeverStarted => place.remove().map_err(local)?,
            Standing::Pending | Standing::Running | Standing::Over(_) | Standing::Lost => {
                return Ok(started(&place, &wanted.key).map_err(local)?);
            }
        }
        self.forget_ended(&mut ledger);
        if ledger.live.len() >= self.config.processes_max {
            return Err(DispatchError::Parked { on: WaitOn::Time, look_after: FULL_LOOK_AFTER });
        }
        let subject = subject(order, wanted);
        let attempt = ledger.attempts.get(&subject).map_or(1, |n| n.saturating_add(1));
        let spec = Spec {
            key: wanted.key.to_string(),
            subject: subject.clone(),
            attempt,
            dispatched_ms: self.clock.now().ms(),
            command: job.command.clone(),
            working_directory: job.working_directory.clone(),
            environment: job.environment_of(order, wanted, attempt, &self.inherited)?,
            time_limit_ms: milliseconds(job.time_limit),
            grace_ms: milliseconds(self.config.grace),
            log_bytes_max: job.log_bytes_max,
        };
        let Some(lock) = place.create(&spec).map_err(local)? else {
            // Somebody else was faster, in the moment since we looked.
            return Ok(started(&place, &wanted.key).map_err(local)?);
        };
        if let Err(error) = self.spawn_supervisor(&place, lock) {
            place.remove().map_err(local)?;
            return Err(local(error).into());
        }
        ledger.live.insert(spec.key.clone());
        ledger.attempts.insert(subject, attempt);
        Ok(Started { runs: vec![(wanted.key.clone(), handle(&spec))], also: Vec::new() })
    }

    /// Starts the supervisor, which inherits the lock. It gets no more of the bot's environment than a run does.
    fn spawn_supervisor(&self, place: &Place, lock: File) -> io::Result<()> {
        let complaints = File::create(place.dir().join(SUPERVISOR_LOG))?;
        let mut command = tokio::process::Command::new(&self.config.supervisor);
        command
            .arg("exec-supervise")
            .arg(place.dir())
            .env_clear()
            .envs(&self.inherited)
            .current_dir(place.dir())
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null())
            .stderr(Stdio::from(complaints));
        // Dropped at once, and not killed by that: tokio collects it when it ends while the bot still lives.
        command.spawn().map(drop)
    }

    fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        let wanted = single(order)?;
        let place = self.place(wanted.key.as_str())?;
        let _quiet = self.ledger();
        match place.standing().map_err(local)? {
            Standing::Absent => Ok(Found::NotSent),
            Standing::NeverStarted => {
                place.remove().map_err(local)?;
                Ok(Found::NotSent)
            }
            Standing::Pending | Standing::Running | Standing::Over(_) | Standing::Lost => {
                started(&place, &wanted.key).map(Found::Sent).map_err(local)
            }
        }
    }

    fn observe(&self, job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let place = self.place(&handle.id)?;
        let (state, cause) = match place.standing().map_err(local)? {
            Standing::Absent => return Err(gone(&handle.id)),
            Standing::Pending => (JobState::Pending, None),
            Standing::Running => (JobState::Running, None),
            Standing::NeverStarted => (JobState::Infrastructure, Some(complaint(&place))),
            Standing::Lost => {
                processes::kill_leftovers(&handle.id);
                (JobState::Lost, Some("the process and its supervisor are gone".to_owned()))
            }
            Standing::Over(outcome) => self.verdict(job, &place, &outcome.end),
        };
        let cause = cause.map(|text| log_text::one_line(&text, CAUSE_CHARS_MAX));
        Ok(RunObservation { state, cause, url: None, run: Some(RunRef::new(&handle.id)), order: handle.order })
    }

    fn verdict(&self, job: &JobName, place: &Place, end: &End) -> (JobState, Option<String>) {
        let excused = |code| self.config.job(job).is_some_and(|job| job.infrastructure_codes.contains(&code));
        match end {
            End::Exited { code: 0 } => (JobState::Passed, None),
            End::Exited { code } if excused(*code) => (JobState::Infrastructure, Some(format!("exit code {code}"))),
            End::Exited { code } => (JobState::Failed, Some(format!("exit code {code}"))),
            End::Killed { signal } => (JobState::Failed, Some(format!("killed by signal {signal}"))),
            End::TimedOut => {
                let limit = place.spec().map(|spec| Duration::from_millis(spec.time_limit_ms)).unwrap_or_default();
                (JobState::TimedOut, Some(format!("over its time limit of {}", humantime::format_duration(limit))))
            }
            End::Cancelled => (JobState::Cancelled, None),
            End::CouldNotStart { why } => (JobState::Infrastructure, Some(format!("could not start: {why}"))),
        }
    }

    fn cancel(&self, handle: &RunHandle) -> Result<(), CallError> {
        let place = self.place(&handle.id)?;
        match place.standing().map_err(local)? {
            Standing::Pending | Standing::Running => place.ask_cancel().map_err(local),
            Standing::Lost => {
                processes::kill_leftovers(&handle.id);
                Ok(())
            }
            Standing::Absent | Standing::NeverStarted | Standing::Over(_) => Ok(()),
        }
    }

    fn log_tail(&self, handle: &RunHandle, bytes_max: usize) -> Result<LogTail, CallError> {
        let place = self.place(&handle.id)?;
        match log::tail(place.dir(), bytes_max) {
            Ok((bytes, cut)) => Ok(log_text::tail(&bytes, cut)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone(&handle.id)),
            Err(error) => Err(local(error)),
        }
    }

    fn sweep(&self, older_than: Timestamp) -> io::Result<usize> {
        let _quiet = self.ledger();
        let contents = place::list(&self.config.state_directory)?;
        for leftover in contents.leftovers {
            place::remove_tree(&leftover)?;
        }
        let mut removed = 0;
        for (_, place) in contents.runs {
            let dispatched = || place.spec().map_or(i64::MIN, |spec| spec.dispatched_ms);
            let over_at = match place.standing()? {
                Standing::Absent | Standing::Pending | Standing::Running => continue,
                Standing::Over(outcome) => outcome.ended_ms,
                Standing::NeverStarted | Standing::Lost => dispatched(),
            };
            if over_at < older_than.ms() {
                place.remove()?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn forget_ended(&self, ledger: &mut Ledger) {
        let live = |key: &String| {
            let place = Place::of(&self.config.state_directory, key);
            // One that cannot be looked at still counts: better a retry too late than one process too many.
            place.is_some_and(|place| place.standing().map_or(true, |standing| standing.is_live()))
        };
        ledger.live.retain(live);
    }

    fn place(&self, key: &str) -> Result<Place, CallError> {
        let bad = || CallError::refused(format!("`{}` cannot be the key of a process", key.escape_debug()));
        Place::of(&self.config.state_directory, key).ok_or_else(bad)
    }

    /// Also keeps two calls from making or removing directories at the same time.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Processes have no groups: an order holds exactly one job.
fn single(order: &DispatchOrder) -> Result<&JobOrder, CallError> {
    match order.jobs.as_slice() {
        [job] => Ok(job),
        jobs => Err(CallError::refused(format!("a process runs one job, not {}", jobs.len()))),
    }
}

/// What attempts are counted for.
fn subject(order: &DispatchOrder, job: &JobOrder) -> String {
    let repo = &order.repo.key;
    format!("{}\n{}\n{}\n{}\n{}\n{}", repo.forge, repo.id, order.change.number, order.sha, job.scope, job.job)
}

fn handle(spec: &Spec) -> RunHandle {
    RunHandle { id: spec.key.clone(), order: RunOrder(spec.dispatched_ms, 0), url: None }
}

/// The run that is there already, with the place it got when it was dispatched first.
fn started(place: &Place, key: &DispatchKey) -> io::Result<Started> {
    Ok(Started { runs: vec![(key.clone(), handle(&place.spec()?))], also: Vec::new() })
}

/// Why the supervisor started nothing, as far as it said.
fn complaint(place: &Place) -> String {
    let said = std::fs::read_to_string(place.dir().join(SUPERVISOR_LOG)).unwrap_or_default();
    format!("could not start: {}", if said.is_empty() { "the supervisor ended at once" } else { &said })
}

fn gone(key: &str) -> CallError {
    CallError::refused(format!("the run `{}` is not kept any more", key.escape_debug()))
}

/// A failure of this machine: nothing was started, and it may pass.
fn local(error: io::Error) -> CallError {
    CallError::Unreachable { log: format!("exec: {error}") }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
