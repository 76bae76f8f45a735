//! The end of a log in bounded memory: a ring of bytes, then text without terminal codes.

use std::collections::VecDeque;

use crate::ports::LogTail;

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

    /// The text; a first line that was cut in two is left out when others follow it.
    pub fn into_tail(mut self) -> LogTail {
        let whole = String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned();
        let from = if self.cut { whole.find('\n').map_or(0, |at| at + 1) } else { 0 };
        LogTail { text: plain(whole.get(from..).unwrap_or_default()), cut: self.cut }
    }
}

/// Takes away ANSI sequences (ECMA-48: CSI and OSC) and every other control character but line feed and tab.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // A CSI sequence ends with a byte from @ to ~.
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                // An OSC sequence ends with BEL or ESC \.
                Some(']') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\n' | '\t' => out.push(c),
            // The mark at the beginning of GitHub's logs.
            '\u{feff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(bytes_max: usize, pieces: &[&str]) -> LogTail {
        let mut ring = Ring::new(bytes_max);
        for piece in pieces {
            ring.push(piece.as_bytes());
            assert!(ring.bytes.len() <= bytes_max, "bounded at every moment");
        }
        ring.into_tail()
    }

    #[test]
    fn the_ring_keeps_the_end_whatever_the_pieces() {
        let table = [
            (vec!["one\n", "two\n"], 100, "one\ntwo\n", false),
            (vec!["one\n", "two\n", "three\n"], 10, "three\n", true),
            (vec!["one\ntwo\nthree\n"], 10, "three\n", true),
            (vec!["abcdefgh"], 4, "efgh", true),
            (vec!["o", "n", "e"], 0, "", true),
        ];
        for (pieces, max, text, cut) in table {
            assert_eq!(tail(max, &pieces), LogTail { text: text.to_owned(), cut }, "{pieces:?}");
        }
    }

    #[test]
    fn terminal_codes_are_taken_away_and_text_stays() {
        let log = "\u{feff}2026 \u{1b}[31;1mred\u{1b}[0m\r\n\u{1b}]8;;https://x\u{7}link\u{1b}]8;;\u{1b}\\\tend\u{0}é";
        assert_eq!(tail(1_000, &[log]).text, "2026 red\nlink\tendé");
    }

    #[test]
    fn a_character_cut_in_two_does_no_harm() {
        assert_eq!(tail(3, &["éé"]).text, "\u{fffd}é");
    }
}
