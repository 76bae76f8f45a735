//! LAVA's log, a YAML list with one entry a line, as text for people: streamed, with bounded memory.
//!
//! It keeps what the device said and what LAVA says of importance, and refuses lines longer than a bound.

use std::collections::VecDeque;

use serde_json::Value;

use super::super::log_text;
use super::yaml::Document;
use crate::ports::LogTail;

/// Longest line that is read, in bytes; a longer one is left out.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Takes a log in pieces and keeps its end.
#[derive(Debug)]
pub(super) struct LogReader {
    bytes_max: usize,
    line: Vec<u8>,
    too_long: bool,
    kept: VecDeque<u8>,
    cut: bool,
}

impl LogReader {
    /// Keeps at most `bytes_max` bytes of text.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, line: Vec::new(), too_long: false, kept: VecDeque::new(), cut: false }
    }

    /// The next piece.
    pub(super) fn take(&mut self, piece: &[u8]) {
        let mut parts = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.line.len() + part.len() > LINE_BYTES_MAX {
                self.too_long = true;
                self.line.clear();
            } else if !self.too_long {
                self.line.extend_from_slice(part);
            }
            if parts.peek().is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.too_long) {
            self.cut = true;
        } else if let Some(text) = text_of(&String::from_utf8_lossy(&line)) {
            self.kept.extend(text.bytes().chain(*b"\n"));
            let over = self.kept.len().saturating_sub(self.bytes_max);
            self.cut |= over > 0;
            self.kept.drain(..over);
        }
    }

    /// What was kept.
    pub(super) fn end(mut self) -> LogTail {
        self.end_line();
        let bytes: Vec<u8> = self.kept.into();
        log_text::tail(&bytes, self.cut)
    }
}

/// What people want to read of one entry; none for noise.
fn text_of(line: &str) -> Option<String> {
    let entry = line.strip_prefix("- ")?;
    // Nearly always JSON; YAML's other escapes in quoted texts are rare.
    let json: Value = match serde_json::from_str(entry) {
        Ok(json) => json,
        Err(_) => Document::parse(entry).ok()?.root.to_texts()?,
    };
    let said = match json.get("msg")? {
        Value::String(text) => text.clone(),
        Value::Object(result) => {
            let of = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
            format!("{}/{}: {}", of("definition"), of("case"), of("result"))
        }
        other => other.to_string(),
    };
    match json.get("lvl")?.as_str()? {
        "target" | "feedback" => Some(said),
        "debug" | "event" => None,
        level => Some(format!("[{level}] {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(log: &str, bytes_max: usize, piece: usize) -> LogTail {
        let mut reader = LogReader::new(bytes_max);
        log.as_bytes().chunks(piece).for_each(|piece| reader.take(piece));
        reader.end()
    }

    const LOG: &str = concat!(
        "- {\"dt\": \"2026-01-01T00:00:00\", \"lvl\": \"debug\", \"msg\": \"noise\"}\n",
        "- {\"dt\": \"2026-01-01T00:00:00\", \"lvl\": \"info\", \"msg\": \"start\"}\n",
        "- {\"dt\": \"2026-01-01T00:00:00\", \"lvl\": \"target\", \"msg\": \"\\e[1mbooted\\x20é\"}\n",
        "- {\"dt\": \"2026-01-01T00:00:00\", \"lvl\": \"results\", \"msg\": {\"definition\": \"0_s\", \"case\": \"ram\", \"result\": \"fail\"}}\n",
        "- {\"dt\": \"2026-01-01T00:00:00\", \"lvl\": \"error\", \"msg\": \"gone\"}\n",
    );

    #[test]
    fn a_log_reads_the_same_in_whatever_pieces_it_comes() {
        for piece in [1, 7, 4_096] {
            let tail = tail(LOG, 4_096, piece);
            assert_eq!(
                tail.text, "[info] start\nbooted é\n[results] 0_s/ram: fail\n[error] gone\n",
                "pieces of {piece}"
            );
            assert!(!tail.cut);
        }
    }

    #[test]
    fn only_the_end_is_kept_and_an_endless_line_is_left_out() {
        let short = tail(LOG, 13, 64);
        assert_eq!((short.text.as_str(), short.cut), ("[error] gone\n", true));
        let endless = format!("- {{\"lvl\": \"target\", \"msg\": \"{}\"}}\n{LOG}", "x".repeat(200_000));
        let kept = tail(&endless, 1 << 20, 1_000);
        assert!(kept.text.starts_with("[info] start") && kept.cut, "{}", kept.text.len());
    }
}
