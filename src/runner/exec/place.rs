//! The directory of one run: what stands in it, and what that says about the run.
//!
//! `order.json` what to run · `lock` held by the supervisor as long as it lives · `started` written before the command
//! starts · `cancel` asks the supervisor to end it · `result.json` how it ended · `log.*` its output.
//! **Invariant:** a directory appears under its key whole and locked, in one rename; so a key that is there was sent,
//! unless the lock is free and nothing was ever started. Read next: `supervise.rs`, the other side.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

/// Longest key, in characters: a file name holds 255 bytes.
const KEY_CHARS_MAX: usize = 120;

/// How many directories this process made, to name each apart.
static CREATED: AtomicU64 = AtomicU64::new(0);

/// What to run, complete: the supervisor needs no configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The key, once more, for whoever looks into the directory.
    pub key: String,
    /// What attempts are counted for: forge, repository, change, commit, job.
    pub subject: String,
    /// The number among the runs for that subject, from 1.
    pub attempt: u32,
    /// Milliseconds since 1970 UTC.
    pub dispatched_ms: i64,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it starts; none: an empty directory of its own.
    pub working_directory: Option<PathBuf>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    pub time_limit_ms: u64,
    pub grace_ms: u64,
    pub log_bytes_max: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub(super) enum End {
    Exited { code: i32 },
    Killed { signal: i32 },
    TimedOut,
    Cancelled,
    CouldNotStart { why: String },
}

/// What the supervisor leaves behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    #[serde(flatten)]
    pub end: End,
    /// Milliseconds since 1970 UTC.
    pub started_ms: i64,
    /// Milliseconds since 1970 UTC.
    pub ended_ms: i64,
    /// How much the command wrote, kept or not.
    pub output_bytes: u64,
}

/// How a run stands, as its directory tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is no such run.
    Absent,
    /// The supervisor went before it started anything.
    NeverStarted,
    /// The supervisor lives and has not started the command yet.
    Pending,
    /// The command executes.
    Running,
    /// It is over.
    Over(Outcome),
    /// It was started, nobody watches it, and nobody wrote how it ended.
    Lost,
}

impl Standing {
    pub(super) const fn is_live(&self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// The directory of one run.
#[derive(Clone, Debug)]
pub(super) struct Place {
    dir: PathBuf,
}

impl Place {
    /// The place of a key below the state directory; none when the key could name anything but a plain directory there.
    pub(super) fn of(root: &Path, key: &str) -> Option<Self> {
        let plain = !key.is_empty()
            && key.len() <= KEY_CHARS_MAX
            && !key.starts_with('-')
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        plain.then(|| Self { dir: root.join(key) })
    }

    /// The place at a directory, for the supervisor.
    pub(super) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the place, whole and locked, or finds that it is there already (`None`). The lock belongs to whoever holds
    /// the returned file or inherits it.
    pub(super) fn create(&self, spec: &Spec) -> io::Result<Option<File>> {
        // Named apart from what anybody else makes for the same key at this moment.
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let fresh = self.hidden(&format!("new-{}-{number}", std::process::id()))?;
        remove_tree(&fresh)?;
        DirBuilder::new().mode(0o700).create(&fresh)?;
        let made = fill(&fresh, spec).and_then(|lock| match std::fs::rename(&fresh, &self.dir) {
            Ok(()) => Ok(Some(lock)),
            Err(e) if matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => Ok(None),
            Err(error) => Err(error),
        });
        if !matches!(made, Ok(Some(_))) {
            remove_tree(&fresh)?;
        }
        made
    }

    /// Takes the place away in one step, then empties it at leisure.
    pub(super) fn remove(&self) -> io::Result<()> {
        let gone = self.hidden("gone")?;
        remove_tree(&gone)?;
        match std::fs::rename(&self.dir, &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => remove_tree(&gone),
        }
    }

    fn hidden(&self, word: &str) -> io::Result<PathBuf> {
        let name = self.dir.file_name().and_then(|n| n.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.dir.with_file_name(format!(".{word}-{name}")))
    }

    /// What to run.
    pub(super) fn spec(&self) -> io::Result<Spec> {
        Ok(serde_json::from_slice(&std::fs::read(self.dir.join("order.json"))?)?)
    }

    /// How the run stands.
    pub(super) fn standing(&self) -> io::Result<Standing> {
        if let Some(outcome) = self.outcome()? {
            return Ok(Standing::Over(outcome));
        }
        let started = || self.dir.join("started").try_exists();
        match self.is_locked() {
            Ok(true) if started()? => Ok(Standing::Running),
            Ok(true) => Ok(Standing::Pending),
            // It may have ended between the two looks: the result is written before the lock goes.
            Ok(false) => match self.outcome()? {
                Some(outcome) => Ok(Standing::Over(outcome)),
                None if started()? => Ok(Standing::Lost),
                None => Ok(Standing::NeverStarted),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(if self.dir.try_exists()? { Standing::NeverStarted } else { Standing::Absent })
            }
            Err(error) => Err(error),
        }
    }

    fn outcome(&self) -> io::Result<Option<Outcome>> {
        match std::fs::read(self.dir.join("result.json")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a supervisor lives. A shared lock is tried, so that two who ask at once do not take each other for one.
    fn is_locked(&self) -> io::Result<bool> {
        let lock = self.lock_file()?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The lock file, opened; nothing is locked by that.
    pub(super) fn lock_file(&self) -> io::Result<File> {
        File::open(self.dir.join("lock"))
    }

    /// Says, once, that the command is about to start.
    pub(super) fn mark_started(&self, ms: i64) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.dir.join("started"))?;
        file.write_all(ms.to_string().as_bytes())
    }

    /// Asks the supervisor to end the run.
    pub(super) fn ask_cancel(&self) -> io::Result<()> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(self.dir.join("cancel")).map(drop)
    }

    /// Whether somebody asked for it.
    pub(super) fn cancel_asked(&self) -> bool {
        self.dir.join("cancel").exists()
    }

    /// Writes how the run ended: whole or not at all.
    pub(super) fn write_outcome(&self, outcome: &Outcome) -> io::Result<()> {
        let fresh = self.dir.join("result.json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(outcome)?)?;
        file.sync_all()?;
        std::fs::rename(fresh, self.dir.join("result.json"))
    }
}

/// What stands below the state directory.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The runs by key.
    pub runs: Vec<(String, Place)>,
    /// What a crash left of making or removing one.
    pub leftovers: Vec<PathBuf>,
}

/// Lists the state directory; what is neither a run nor ours is passed over.
pub(super) fn list(root: &Path) -> io::Result<Contents> {
    let mut contents = Contents::default();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with(".new-") || name.starts_with(".gone-") {
            contents.leftovers.push(entry.path());
        } else if let Some(place) = Place::of(root, &name)
            && entry.file_type()?.is_dir()
        {
            contents.runs.push((name, place));
        }
    }
    Ok(contents)
}

/// Removes a directory and all in it; none there is fine.
pub(super) fn remove_tree(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn fill(dir: &Path, spec: &Spec) -> io::Result<File> {
    let private = |name: &str| OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name));
    private("order.json")?.write_all(&serde_json::to_vec(spec)?)?;
    let lock = private("lock")?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            key: "k-1".into(),
            subject: String::new(),
            attempt: 1,
            dispatched_ms: 5,
            command: vec!["true".into()],
            working_directory: None,
            environment: BTreeMap::new(),
            time_limit_ms: 1,
            grace_ms: 1,
            log_bytes_max: 4_096,
        }
    }

    #[test]
    fn a_key_names_a_plain_directory_or_nothing() {
        let long = "a".repeat(121);
        for bad in ["", ".", "..", "a/b", "/etc", "a b", "-rf", "a\0", "ä", ".new-x", long.as_str()] {
            assert!(Place::of(Path::new("/state"), bad).is_none(), "{bad:?}");
        }
        assert_eq!(Place::of(Path::new("/state"), "Ab-9").map(|p| p.dir), Some("/state/Ab-9".into()));
    }

    #[test]
    fn a_place_is_made_once_and_its_lock_tells_whether_somebody_watches() {
        let root = tempfile::tempdir().unwrap();
        let place = Place::of(root.path(), "k-1").unwrap();
        assert_eq!(place.standing().unwrap(), Standing::Absent);
        let lock = place.create(&spec()).unwrap().expect("made");
        assert!(place.create(&spec()).unwrap().is_none(), "the second finds the first");
        assert_eq!(place.standing().unwrap(), Standing::Pending);
        place.mark_started(7).unwrap();
        assert!(place.mark_started(8).is_err(), "a command starts once");
        assert_eq!(place.standing().unwrap(), Standing::Running);
        drop(lock);
        assert_eq!(place.standing().unwrap(), Standing::Lost);
        let outcome = Outcome { end: End::Exited { code: 3 }, started_ms: 7, ended_ms: 9, output_bytes: 0 };
        place.write_outcome(&outcome).unwrap();
        assert_eq!(place.standing().unwrap(), Standing::Over(outcome));
        place.remove().unwrap();
        assert_eq!(place.standing().unwrap(), Standing::Absent);
        assert!(std::fs::read_dir(root.path()).unwrap().next().is_none(), "nothing is left");
    }

    #[test]
    fn a_supervisor_that_went_before_it_started_anything_sent_nothing() {
        let root = tempfile::tempdir().unwrap();
        let place = Place::of(root.path(), "k-1").unwrap();
        drop(place.create(&spec()).unwrap());
        assert_eq!(place.standing().unwrap(), Standing::NeverStarted);
    }
}
