//! Turns what a runner wrote into text that can be shown: whole characters, no terminal codes, bounded.
//!
//! It refuses to judge the content: secrets are masked by whoever knows them, markup is escaped by the report.

use crate::ports::LogTail;

/// The end of a log as text. `cut` says that `bytes` begins somewhere inside the log; a character or a terminal code
/// that was cut in two at the beginning is dropped.
pub fn tail(bytes: &[u8], cut: bool) -> LogTail {
    let start = if cut { bytes.iter().take(3).take_while(|b| is_continuation(**b)).count() } else { 0 };
    LogTail { text: plain(bytes.get(start..).unwrap_or_default()), cut }
}

/// Text without terminal codes and control characters; line ends become `\n`, broken UTF-8 becomes `\u{fffd}`.
pub fn plain(bytes: &[u8]) -> String {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            0x1b => rest = after_escape(after),
            b'\r' if after.first() == Some(&b'\n') => {}
            b'\r' => kept.push(b'\n'),
            b'\n' | b'\t' => kept.push(byte),
            0..0x20 | 0x7f => {}
            _ => kept.push(byte),
        }
    }
    let text = String::from_utf8_lossy(&kept);
    // What is left of control characters are the C1 ones, which take two bytes in UTF-8.
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// One line of at most `chars_max` characters: blanks run together, the rest cut with `…`.
pub fn one_line(text: &str, chars_max: usize) -> String {
    let plain = plain(text.as_bytes());
    let mut line = String::new();
    for word in plain.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(chars_max) {
        None => line,
        Some(_) => line.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// What follows an escape sequence whose ESC has been read (ECMA-48: CSI, the string sequences, the two-byte ones).
fn after_escape(bytes: &[u8]) -> &[u8] {
    let from = |at: usize| bytes.get(at..).unwrap_or_default();
    match bytes.first() {
        None => bytes,
        Some(b'[') => {
            let body = bytes.iter().skip(1).take_while(|b| (0x20..0x40).contains(*b)).count();
            let final_byte = bytes.get(1 + body).is_some_and(|b| (0x40..0x7f).contains(b));
            from(1 + body + usize::from(final_byte))
        }
        Some(b']' | b'P' | b'X' | b'^' | b'_') => after_string(bytes),
        Some(_) => {
            let middle = bytes.iter().take_while(|b| (0x20..0x30).contains(*b)).count();
            let final_byte = bytes.get(middle).is_some_and(|b| (0x30..0x7f).contains(b));
            from(middle + usize::from(final_byte))
        }
    }
}

/// What follows a string sequence, which BEL or `ESC \` ends. One that does not end within 4,096 bytes or on its line
/// was none: only its first byte is dropped, so that no log disappears behind a stray ESC.
fn after_string(bytes: &[u8]) -> &[u8] {
    let from = |at: usize| bytes.get(at..).unwrap_or_default();
    let end = bytes.iter().take(4_096).position(|b| matches!(b, 0x07 | 0x1b | b'\n'));
    match end.map(|at| (at, bytes.get(at))) {
        Some((at, Some(0x07))) => from(at + 1),
        Some((at, Some(0x1b))) if bytes.get(at + 1) == Some(&b'\\') => from(at + 2),
        Some((_, _)) | None => from(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_shown_without_terminal_codes() {
        let table: [(&[u8], &str, &str); 10] = [
            (b"\x1b[1;31mFAIL\x1b[0m boot", "FAIL boot", "colours"),
            (b"\x1b]0;title\x07text", "text", "a title ended by BEL"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", "a link ended by ST"),
            (b"50%\r100%\r\ndone\r\n", "50%\n100%\ndone\n", "progress bars and DOS line ends"),
            (b"a\x00b\x08c\x7fd\te", "abcd\te", "control characters but the tab"),
            (b"\x1b(B\x1b=plain", "plain", "character sets and keypad modes"),
            (b"end\x1b", "end", "a lone ESC at the end"),
            (b"\x1b]never ended\nnext line", "never ended\nnext line", "an unended title hides no log"),
            (b"bad \xff byte", "bad \u{fffd} byte", "broken UTF-8"),
            ("c1 \u{9b}31m".as_bytes(), "c1 31m", "eight-bit control characters"),
        ];
        for (bytes, text, why) in table {
            assert_eq!(plain(bytes), text, "{why}");
        }
    }

    #[test]
    fn a_character_cut_in_two_is_dropped_only_where_the_log_was_cut() {
        let bytes = &"äb".as_bytes()[1..];
        assert_eq!(tail(bytes, true).text, "b");
        assert_eq!(tail(bytes, false).text, "\u{fffd}b");
    }

    #[test]
    fn one_line_is_one_line_and_bounded() {
        assert_eq!(one_line(" no\n\tsuch  job ", 80), "no such job");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }
}
