//! Looks for the patterns of many rules in one pass over the end of a log.
//!
//! One automaton finds the needles of all patterns at once; a pattern is tried only on a line that holds one of its needles, and
//! never twice on the same line. Time grows with the log, not with log times rules. Runners hand out text without terminal codes
//! (`runner/log_text.rs`); what the CI systems themselves put before a line is passed over here: time stamps and `##[group]` marks.
//! Read next: `needles.rs`.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex::bytes::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::lint::in_ordinary_lines;
use super::mask::{excerpt, masked};
use super::needles::needles;

/// Longest line that is tried as a whole, in bytes; a longer one is tried in overlapping pieces.
const PIECE_BYTES: usize = 8 * 1024;
/// How far pieces of a line overlap, at both ends.
const OVERLAP_BYTES: usize = 1024;
/// Largest compiled pattern in bytes, against repetitions of repetitions.
const PATTERN_BYTES_MAX: usize = 512 * 1024;

/// How much more it counts that ordinary lines hold a text than that other patterns do.
const SHARED_WEIGHT: usize = 1_000;
/// How many times the size of a log may be tried on patterns; a log that is made so that every line nearly fits many is given up.
const TRIED_TIMES_MAX: usize = 8;
/// What may be tried in any case, in bytes.
const TRIED_BYTES_MIN: usize = 1024 * 1024;

/// Compiles a pattern as all of this module means it: ASCII classes unless `(?u)` is written.
///
/// # Errors
/// It cannot be read, or is too large when compiled.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let mut builder = RegexBuilder::new(pattern);
    builder.unicode(false).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).nest_limit(50).build()
}

/// A line that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, counted from 1.
    pub number: u64,
    /// What it says, for people.
    pub excerpt: String,
}

#[derive(Debug)]
struct Pattern {
    rule: usize,
    regex: Regex,
}

/// The patterns of many rules.
#[derive(Debug, Default)]
pub(super) struct LogPatterns {
    patterns: Vec<Pattern>,
    words: Option<AhoCorasick>,
    /// The patterns of each word.
    users: Vec<Vec<usize>>,
}

impl LogPatterns {
    /// Compiles patterns, each with the number of its rule, below `rules`. What cannot be used is left out: the lint has told of it.
    pub fn new<'p>(sources: impl Iterator<Item = (usize, &'p str)>, rules: usize) -> Self {
        let sources: Vec<(usize, &str)> = sources.filter(|(rule, _)| *rule < rules).collect();
        // A text that many patterns share makes a line dear; so one that is a pattern's own is preferred, if it is as rare.
        let asked: RefCell<HashMap<Vec<u8>, usize>> = RefCell::default();
        let ask = |needle: &[u8]| {
            *asked.borrow_mut().entry(needle.to_vec()).or_default() += 1;
            0
        };
        for (_, source) in &sources {
            needles(source, ask);
        }
        let asked = asked.into_inner();
        let shared = |needle: &[u8]| asked.get(needle).copied().unwrap_or_default();
        let rarity = |needle: &[u8]| in_ordinary_lines(needle) * SHARED_WEIGHT + shared(needle).min(SHARED_WEIGHT - 1);
        let (mut patterns, mut users) = (Vec::new(), BTreeMap::<Vec<u8>, Vec<usize>>::new());
        for (rule, source) in sources {
            let (Ok(regex), Some(own)) = (compile(source), needles(source, rarity)) else { continue };
            for needle in own {
                users.entry(needle).or_default().push(patterns.len());
            }
            patterns.push(Pattern { rule, regex });
        }
        let words = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(users.keys())
            .ok()
            .filter(|_| !patterns.is_empty());
        Self { patterns, words, users: users.into_values().collect() }
    }

    /// The first line that each of the `open` rules matches, in the order of the rules. Work is bounded: where lines nearly fit many
    /// patterns again and again, the rest of the log is not looked at.
    pub fn first_lines(&self, text: &str, mut open: Vec<bool>) -> Vec<(usize, Line)> {
        let mut found: BTreeMap<usize, Line> = BTreeMap::new();
        let mut left = open.iter().filter(|open| **open).count();
        let Some(words) = self.words.as_ref().filter(|_| left > 0) else { return Vec::new() };
        let mut cursor = Cursor::new(text);
        // Where the piece begins on which a pattern was tried last.
        let mut tried = vec![usize::MAX; self.patterns.len()];
        let mut work = text.len().saturating_mul(TRIED_TIMES_MAX).max(TRIED_BYTES_MIN);
        for hit in words.find_overlapping_iter(text) {
            let users = self.users.get(hit.pattern().as_usize()).map(Vec::as_slice).unwrap_or_default();
            for &user in users {
                let (Some(pattern), Some(tried)) = (self.patterns.get(user), tried.get_mut(user)) else { continue };
                let Some(open) = open.get_mut(pattern.rule).filter(|open| **open) else { continue };
                let piece = cursor.piece_at(hit.end() - 1);
                if std::mem::replace(tried, piece.start) == piece.start {
                    continue;
                }
                let line = said(piece.text);
                work = work.saturating_sub(line.len());
                if let Some(at) = pattern.regex.find(line.as_bytes()) {
                    let shown = &pattern.regex;
                    found.insert(
                        pattern.rule,
                        Line { number: piece.line, excerpt: shown_line(line, at.start(), shown) },
                    );
                    *open = false;
                    left -= 1;
                }
            }
            if left == 0 || work == 0 {
                break;
            }
        }
        found.into_iter().collect()
    }
}

/// The line for people: secrets masked, and cut so that the match is in it.
fn shown_line(line: &str, at: usize, regex: &Regex) -> String {
    let masked = masked(line);
    // Masking moves things; where the match is gone, its old place is near enough.
    let at = regex.find(masked.as_bytes()).map_or(at, |m| m.start());
    excerpt(&masked, at)
}

/// Part of a text that is tried at once.
struct Piece<'t> {
    /// Where it begins, which also names it.
    start: usize,
    /// The line it is of.
    line: u64,
    text: &'t str,
}

/// Walks over a text, line by line.
struct Cursor<'t> {
    text: &'t str,
    start: usize,
    end: usize,
    number: u64,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Self {
        let mut cursor = Self { text, start: 0, end: 0, number: 1 };
        cursor.end = cursor.line_end(0);
        cursor
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or_default();
        rest.iter().position(|b| *b == b'\n').map_or(self.text.len(), |n| from + n)
    }

    /// The piece around a place, which never lies before the one asked for last.
    fn piece_at(&mut self, at: usize) -> Piece<'t> {
        if at > self.end {
            let passed = self.text.as_bytes().get(self.end..at).unwrap_or_default();
            self.number += passed.iter().map(|b| u64::from(*b == b'\n')).sum::<u64>();
            let back = passed.iter().rposition(|b| *b == b'\n').unwrap_or_default();
            self.start = self.end + back + 1;
            self.end = self.line_end(at);
        }
        let (mut start, mut end) = (self.start, self.end);
        if end - start > PIECE_BYTES {
            let first = start + (at.saturating_sub(start)) / PIECE_BYTES * PIECE_BYTES;
            start = self.text.floor_char_boundary(first.saturating_sub(OVERLAP_BYTES).max(start));
            end = self.text.ceil_char_boundary((first + PIECE_BYTES + OVERLAP_BYTES).min(end));
        }
        Piece { start, line: self.number, text: self.text.get(start..end).unwrap_or_default() }
    }
}

/// What the job itself said: the line without the time stamp of GitHub or GitLab before it, without the stream mark of GitLab
/// (`00O `) and without GitHub's `##[error]` and the like.
pub(super) fn said(line: &str) -> &str {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let line = without_stamp(line);
    let Some(mark) = line.strip_prefix("##[") else { return line };
    match mark.split_once(']') {
        Some((word, rest)) if word.len() <= 12 && word.bytes().all(|b| b.is_ascii_lowercase()) => rest,
        _ => line,
    }
}

/// Takes `2026-01-31T10:20:30.1234567Z ` away, and GitLab's two hex digits with `O`, `E` and `+` or a blank after it.
fn without_stamp(line: &str) -> &str {
    let bytes = line.as_bytes();
    let digits =
        |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let at = |place: usize, byte: u8| bytes.get(place) == Some(&byte);
    let is_stamp = digits(0..4) && at(4, b'-') && digits(5..7) && at(7, b'-') && digits(8..10) && at(10, b'T');
    let Some(rest) = line.get(..40.min(line.len())).and_then(|head| head.find("Z ")).filter(|_| is_stamp) else {
        return line;
    };
    let rest = line.get(rest + 2..).unwrap_or_default();
    match rest.as_bytes() {
        [a, b, b'O' | b'E', b' ' | b'+', ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            rest.get(4..).unwrap_or_default()
        }
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(patterns: &[&str], text: &str) -> Vec<(usize, u64, String)> {
        let compiled = LogPatterns::new(patterns.iter().copied().enumerate(), patterns.len());
        let found = compiled.first_lines(text, vec![true; patterns.len()]);
        found.into_iter().map(|(rule, line)| (rule, line.number, line.excerpt)).collect()
    }

    #[test]
    fn what_ci_systems_put_before_a_line_is_passed_over() {
        let table = [
            ("2026-01-31T10:20:30.1234567Z usb 1-1: gone", "usb 1-1: gone", "GitHub"),
            ("2026-01-31T10:20:30.1234567Z ##[error]Process completed", "Process completed", "GitHub's mark"),
            ("2026-01-31T10:20:30.962646Z 00O usb 1-1: gone", "usb 1-1: gone", "GitLab"),
            ("2026-01-31T10:20:30.962646Z 01E+and more", "and more", "GitLab, a line that goes on"),
            ("##[group]Run make", "Run make", "a mark alone"),
            ("##[x y]z", "##[x y]z", "no mark"),
            ("2026-01-31 10:20:30 usb", "2026-01-31 10:20:30 usb", "the job's own time"),
            ("plain\r", "plain", "a DOS line end"),
            ("", "", "nothing"),
        ];
        for (line, wanted, why) in table {
            assert_eq!(said(line), wanted, "{why}");
        }
    }

    #[test]
    fn the_first_line_of_each_rule_is_found_with_its_number() {
        let text = "boot\nusb 1-1: device descriptor read/64, error -71\nusb 1-2: device descriptor read/8\n\nhang: timeout 5\n";
        let found =
            find(&["usb .*: device descriptor read", r"^hang: timeout \d$", "never there", "(?i)USB 1-2"], text);
        let lines: Vec<(usize, u64)> = found.iter().map(|(rule, line, _)| (*rule, *line)).collect();
        assert_eq!(lines, [(0, 2), (1, 5), (3, 3)]);
        assert_eq!(found[0].2, "usb 1-1: device descriptor read/64, error -71");
    }

    #[test]
    fn a_pattern_is_tried_on_single_lines_only() {
        assert!(find(&["begin.*finish", r"begin\sfinish", "(?s)begin.finish"], "begin\nfinish\n").is_empty());
    }

    #[test]
    fn a_match_is_found_at_every_place_of_an_endless_line() {
        for before in [0, 10, PIECE_BYTES - 12, PIECE_BYTES - 3, PIECE_BYTES + 5, 5 * PIECE_BYTES - 7] {
            let text = format!(
                "first\n{}needle and{}pin{}\nlast",
                "ä".repeat(before / 2),
                "x".repeat(900),
                "y".repeat(50_000)
            );
            let found = find(&["needle and.*pin"], &text);
            assert_eq!(found.first().map(|f| f.1), Some(2), "{before}");
            assert!(found.first().is_some_and(|f| f.2.chars().count() <= 200 && f.2.contains("needle")), "{before}");
        }
    }

    #[test]
    fn a_text_of_a_patterns_own_is_preferred_to_one_that_is_shared() {
        let patterns =
            ["device descriptor read .* bus 7", "device descriptor read .* bus 8", "device descriptor read .* hub"];
        let compiled = LogPatterns::new(patterns.into_iter().enumerate(), 3);
        assert_eq!(compiled.users, [vec![0], vec![1], vec![2]], "no text is looked for by two");
        let found = find(&patterns, "device descriptor read on bus 8\ndevice descriptor read on hub\n");
        assert_eq!(found.iter().map(|f| (f.0, f.1)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    }

    #[test]
    fn a_log_of_near_misses_is_given_up() {
        let patterns: Vec<String> = (1..201).map(|n| format!("needle [a-c]{{{n}}}x")).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let near_miss = format!("needle {}\n", "z".repeat(200));
        let text = format!("{}needle abcabcax\n", near_miss.repeat(150));
        assert!(find(&patterns, &text).is_empty(), "what comes after is not found");
        assert_eq!(find(&patterns, &format!("needle abcabcax\n{text}")).len(), 1, "what comes before is");
    }

    #[test]
    fn excerpts_have_no_secrets() {
        let found = find(&["cannot log in"], "cannot log in with password=hunter2hunter2 to https://me:pw1234@host/\n");
        let text = &found.first().expect("matched").2;
        assert!(!text.contains("hunter2") && !text.contains("pw1234"), "{text}");
    }

    #[test]
    fn closed_rules_are_not_looked_for() {
        let compiled = LogPatterns::new([(0, "needle"), (1, "needle")].into_iter(), 2);
        let found = compiled.first_lines("a needle", vec![false, true]);
        assert_eq!(found.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), [1]);
    }
}
