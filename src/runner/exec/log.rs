//! Keeps the output of a run within a limit: its beginning and its end, on disk while it is written.
//!
//! `log.head` takes the first half of the limit; then pieces of a quarter each follow, of which the newest two stay.
//! So the limit holds at every moment, nothing is rewritten, and a bot that looks while the run writes sees its end.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const HEAD: &str = "log.head";
const PIECE: &str = "log.piece.";

/// Copies everything from `reader` into the log of `dir`, at most `bytes_max` of it on disk; returns how much came.
///
/// A disk that takes no more ends the log, not the run: reading goes on, so that the writer is never held up.
pub(super) fn copy(mut reader: impl Read, dir: &Path, bytes_max: u64) -> u64 {
    let mut sink = Sink { dir, piece_bytes: (bytes_max / 4).max(1), piece: None, file: None, left: bytes_max / 2 };
    let mut broken = false;
    let mut total = 0_u64;
    let mut buffer = [0_u8; 16 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return total,
            Ok(count) => {
                total = total.saturating_add(u64::try_from(count).unwrap_or(0));
                if !broken {
                    broken = sink.write(buffer.get(..count).unwrap_or_default()).is_err();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return total,
        }
    }
}

struct Sink<'a> {
    dir: &'a Path,
    piece_bytes: u64,
    /// The number of the piece being written; none while the head is.
    piece: Option<u64>,
    file: Option<File>,
    left: u64,
}

impl Sink<'_> {
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.left == 0 {
                self.next_piece()?;
            }
            let count = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            let (now, later) = bytes.split_at(count);
            self.file()?.write_all(now)?;
            self.left -= u64::try_from(count).unwrap_or(0);
            bytes = later;
        }
        Ok(())
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let next = self.piece.map_or(0, |at| at + 1);
        if let Some(gone) = next.checked_sub(2) {
            std::fs::remove_file(piece_path(self.dir, gone))?;
        }
        (self.piece, self.file, self.left) = (Some(next), None, self.piece_bytes);
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let path = self.piece.map_or_else(|| self.dir.join(HEAD), |at| piece_path(self.dir, at));
                std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?
            }
        };
        Ok(self.file.insert(file))
    }
}

fn piece_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PIECE}{number}"))
}

/// The last bytes of the log, at most `bytes_max`, and whether something stands before them. Where the middle was
/// dropped, a line says so.
pub(super) fn tail(dir: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut pieces: Vec<u64> = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        pieces.extend(name.to_str().and_then(|n| n.strip_prefix(PIECE)).and_then(|n| n.parse::<u64>().ok()));
    }
    pieces.sort_unstable();
    let mut parts: Vec<(Vec<u8>, bool)> = Vec::new();
    let mut left = bytes_max;
    for number in pieces.iter().rev() {
        take_end(&piece_path(dir, *number), &mut left, &mut parts)?;
    }
    if let Some(dropped) = pieces.first().filter(|first| **first > 0) {
        let note = format!("\n[{dropped} pieces of output left out here: the log limit was reached]\n");
        left = left.saturating_sub(note.len());
        parts.push((note.into_bytes(), left == 0));
    }
    take_end(&dir.join(HEAD), &mut left, &mut parts)?;
    let cut = parts.iter().any(|(_, cut)| *cut);
    let mut bytes: Vec<u8> = parts.into_iter().rev().flat_map(|(bytes, _)| bytes).collect();
    let over = bytes.len().saturating_sub(bytes_max);
    Ok((bytes.split_off(over), cut || over > 0))
}

/// The end of one file, as far as there is room. A file that went while it was looked for counts as cut.
fn take_end(path: &Path, left: &mut usize, parts: &mut Vec<(Vec<u8>, bool)>) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let wanted = u64::try_from(*left).unwrap_or(u64::MAX).min(length);
    file.seek(SeekFrom::Start(length - wanted))?;
    let mut bytes = Vec::new();
    file.take(wanted).read_to_end(&mut bytes)?;
    *left = left.saturating_sub(bytes.len());
    parts.push((bytes, wanted < length));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_bytes(dir: &Path) -> u64 {
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn a_short_log_is_kept_whole_and_a_long_one_keeps_its_beginning_and_its_end() {
        for (lines, whole) in [(0_u32, true), (1, true), (100, true), (10_000, false), (100_000, false)] {
            let dir = tempfile::tempdir().unwrap();
            let text: String = (0..lines).map(|n| format!("line {n:06}\n")).collect();
            let total = copy(text.as_bytes(), dir.path(), 4_096);
            assert_eq!(total, text.len() as u64);
            assert!(kept_bytes(dir.path()) <= 4_096, "{lines} lines keep {} bytes", kept_bytes(dir.path()));
            let (bytes, cut) = tail(dir.path(), 1 << 20).unwrap();
            let kept = String::from_utf8(bytes).unwrap();
            assert!(!cut, "nothing stands before the beginning");
            assert_eq!(kept == text, whole, "{lines} lines");
            assert!(whole || (kept.starts_with("line 000000\n") && kept.contains("left out here")));
            assert!(kept.ends_with(&text[text.len().saturating_sub(1_000)..]), "the end is kept");
        }
    }

    #[test]
    fn a_tail_is_the_last_bytes_and_says_when_something_stands_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let text: String = (0..150_u32).map(|n| format!("line {n:06}\n")).collect();
        copy(text.as_bytes(), dir.path(), 4_096);
        for bytes_max in [0, 1, 12, 500, 1_799, 1_800, 1_801] {
            let (bytes, cut) = tail(dir.path(), bytes_max).unwrap();
            let expected = &text.as_bytes()[text.len().saturating_sub(bytes_max)..];
            assert_eq!((bytes.as_slice(), cut), (expected, bytes_max < text.len()), "at most {bytes_max}");
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_does_not_hold_up_the_run() {
        let gone = tempfile::tempdir().unwrap().path().join("gone");
        assert_eq!(copy(&[b'x'; 100_000][..], &gone, 4_096), 100_000);
    }
}
