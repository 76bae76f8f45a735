//! The supervisor of one run: a process of its own that outlives the bot, ends the run when its time is up or somebody
//! cancels it, and writes down how it ended.
//!
//! Started as `retest-bot exec-supervise DIR`, with the locked lock file of DIR as its standard input: the lock is held
//! without a gap from before the run exists until its result is written. It refuses to run by hand, and to run twice.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, WaitStatus};

use super::place::{End, Outcome, Place, Spec};
use super::{log, processes};

/// Pauses between two looks at the run: short at first, for short runs.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The longest such pause: so late at most is an end or a cancellation noticed.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long the last output may take to be written once every process is gone.
const LOG_WAIT_MAX: Duration = Duration::from_secs(5);

/// Runs what `order.json` in `dir` says, to its end.
///
/// The exit code is 0 once the result is written, whatever it is; else 1, with the reason on standard error.
pub fn supervise(dir: &Path) -> ExitCode {
    match run(&Place::at(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("exec-supervise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(place: &Place) -> io::Result<()> {
    own_lock(place)?;
    // Fails only for the leader of a group, which the bot never makes us; then we share the bot's session, no worse.
    rustix::process::setsid().ok();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let spec = place.spec()?;
    let started_ms = now_ms();
    place.mark_started(started_ms)?;
    let (end, output_bytes) =
        if place.cancel_asked() { (End::Cancelled, 0) } else { run_command(place, &spec, started_ms) };
    place.write_outcome(&Outcome { end, started_ms, ended_ms: now_ms(), output_bytes })
}

/// Makes sure that standard input is this run's lock, and ours.
fn own_lock(place: &Place) -> io::Result<()> {
    let by_hand = || io::Error::other("only the bot itself starts this, with the run's lock as standard input");
    let stdin = io::stdin();
    let (given, expected) = (rustix::fs::fstat(&stdin)?, rustix::fs::fstat(place.lock_file()?)?);
    if (given.st_dev, given.st_ino) != (expected.st_dev, expected.st_ino) {
        return Err(by_hand());
    }
    rustix::fs::flock(&stdin, FlockOperation::NonBlockingLockExclusive).map_err(|_| by_hand())
}

fn run_command(place: &Place, spec: &Spec, started_ms: i64) -> (End, u64) {
    let started = start(place, spec);
    let (main, output) = match started {
        Ok(started) => started,
        Err(why) => return (End::CouldNotStart { why }, 0),
    };
    // Time that passed between the start and now counts: the limit is about the run, not about this loop.
    let spent = u64::try_from(now_ms().saturating_sub(started_ms)).unwrap_or(0);
    let limit = Duration::from_millis(spec.time_limit_ms.saturating_sub(spent));
    let watched = watch(place, main, limit);
    let late = processes::end_all(main, Duration::from_millis(spec.grace_ms));
    let output_bytes = output.recv_timeout(LOG_WAIT_MAX).unwrap_or(0);
    let end = match watched {
        Watched::Ended(status) => end_of(status),
        Watched::Stopped(end) => end,
        Watched::Gone => late.map_or(End::Killed { signal: 0 }, end_of),
    };
    (end, output_bytes)
}

/// Starts the command in a group of its own; says its pid, and where the number of its output bytes will come out.
fn start(place: &Place, spec: &Spec) -> Result<(Pid, mpsc::Receiver<u64>), String> {
    let (program, arguments) = spec.command.split_first().ok_or("no command")?;
    let directory = match &spec.working_directory {
        Some(directory) => directory.clone(),
        None => place.dir().join("work"),
    };
    if spec.working_directory.is_none() {
        std::fs::create_dir(&directory).map_err(|e| format!("working directory: {e}"))?;
    } else if !directory.is_dir() {
        return Err(format!("the working directory `{}` is missing", directory.display()));
    }
    let (reader, writer) = io::pipe().map_err(|e| e.to_string())?;
    let second = writer.try_clone().map_err(|e| e.to_string())?;
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&spec.environment)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(second)
        .process_group(0)
        .spawn()
        .map_err(|e| format!("`{program}`: {e}"))?;
    let (sender, output) = mpsc::channel();
    let (dir, bytes_max) = (place.dir().to_owned(), spec.log_bytes_max);
    std::thread::spawn(move || sender.send(log::copy(reader, &dir, bytes_max)));
    Ok((Pid::from_child(&child), output))
}

enum Watched {
    /// The command ended by itself.
    Ended(WaitStatus),
    /// It must be ended.
    Stopped(End),
    /// Its status was lost; cannot happen while nobody else collects our children.
    Gone,
}

fn watch(place: &Place, main: Pid, limit: Duration) -> Watched {
    let end = Instant::now().checked_add(limit);
    let mut pause = PAUSE_MIN;
    loop {
        if let Some(status) = processes::reap(main) {
            return Watched::Ended(status);
        }
        if rustix::process::test_kill_process(main).is_err() {
            return Watched::Gone;
        }
        if place.cancel_asked() {
            return Watched::Stopped(End::Cancelled);
        }
        let left = end.map_or(PAUSE_MAX, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Watched::Stopped(End::TimedOut);
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 5 / 4).min(PAUSE_MAX);
    }
}

fn end_of(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exited { code },
        (None, signal) => End::Killed { signal: signal.unwrap_or(0) },
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
