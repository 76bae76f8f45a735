//! One process per database: a second one would post everything twice.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The right to work on a database; given back when dropped, or when the process ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, never read")] File);

impl Lock {
    /// Takes the lock beside the database at `path`.
    ///
    /// # Errors
    /// When another process has it, named by its id, or the folder cannot be written.
    pub fn take(path: &Path) -> Result<Self, String> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let place = PathBuf::from(name);
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&place);
        let mut file = open.map_err(|error| format!("cannot write `{}`: {error}", place.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            file.read_to_string(&mut holder).ok();
            return Err(format!(
                "another retest-bot (process {}) works on the database `{}`; stop it, or give this one a store.path of its own",
                holder.trim(),
                path.display()
            ));
        }
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| format!("cannot write `{}`: {error}", place.display()))?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn a_database_has_one_holder_at_a_time_and_the_second_is_told_who() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bot.db");
        let first = Lock::take(&path).expect("free");
        let told = Lock::take(&path).expect_err("taken");
        assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
        drop(first);
        Lock::take(&path).expect("free again");
    }
}
