//! The end of a log in bounded memory, whatever the pieces it comes in.

use std::collections::VecDeque;

use crate::ports::LogTail;
use crate::runner::log_text;

/// Keeps the last bytes of what is pushed.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    bytes_max: usize,
    cut: bool,
}

impl Ring {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max, cut: false }
    }

    pub fn push(&mut self, piece: &[u8]) {
        let kept = piece.len().min(self.bytes_max);
        let (dropped, tail) = piece.split_at(piece.len() - kept);
        let over = (self.bytes.len() + kept).saturating_sub(self.bytes_max);
        self.cut |= over > 0 || !dropped.is_empty();
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend(tail);
    }

    /// What was kept, as text.
    pub fn into_tail(mut self) -> LogTail {
        log_text::tail(self.bytes.make_contiguous(), self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_end_whatever_the_pieces() {
        let table = [
            (vec!["one\n", "two\n"], 100, "one\ntwo\n", false),
            (vec!["one\n", "two\n", "three\n"], 10, "two\nthree\n", true),
            (vec!["one\ntwo\nthree\n"], 6, "three\n", true),
            (vec!["abcdefgh"], 4, "efgh", true),
            (vec!["o", "n", "e"], 0, "", true),
        ];
        for (pieces, bytes_max, text, cut) in table {
            let mut ring = Ring::new(bytes_max);
            for piece in &pieces {
                ring.push(piece.as_bytes());
                assert!(ring.bytes.len() <= bytes_max, "bounded at every moment");
            }
            assert_eq!(ring.into_tail(), LogTail { text: text.to_owned(), cut }, "{pieces:?}");
        }
    }
}
