//! Cuts a long comment into the few stretches that must be read as CommonMark.
//!
//! CommonMark is linear but costs up to 200 ns a byte, so a megabyte of log around one command would take a fifth of a
//! second. An unindented line after a blank one begins a block at the top level of the document, unless it stands inside
//! a fenced block or a block of HTML; a fence in the first column cannot be inside anything else. So both can be followed
//! line by line, and stretches between such lines are read each on its own, or not at all when no line of them matters.
//! **Invariant:** where that is not certain, nothing is cut any more: a stretch is never read as
//! prose that the whole text would show as code, quote or HTML.

use std::ops::Range;

use crate::email;
use crate::markup;

/// Most work that reading CommonMark may cost, in the measure of [`work`]: some milliseconds at worst.
pub(crate) const WORK_MAX: usize = 16_000;

/// What reading a text as CommonMark costs at most: about one event for each mark of punctuation or line end.
pub(crate) fn work(text: &str) -> usize {
    let marks = text.bytes().filter(|b| b.is_ascii_punctuation() || *b == b'\n' || *b == b'\r').count();
    marks + text.len() / 128
}

/// Stretches of the text that hold a candidate or a mark of an e-mail's tail, in order.
pub(crate) fn regions(text: &str, candidates: &[usize]) -> Vec<Range<usize>> {
    let mut cutter = Cutter { candidates, ..Cutter::default() };
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let end_of_line = if rest.get(length..).is_some_and(|r| r.starts_with("\r\n")) { 2 } else { 1 };
        let next = (at + length + end_of_line).min(text.len());
        cutter.line(rest.get(..length).unwrap_or_default(), at, next);
        at = next;
    }
    cutter.flush(text.len());
    cutter.out
}

#[derive(Default)]
struct Cutter<'c> {
    candidates: &'c [usize],
    out: Vec<Range<usize>>,
    /// Start of the present stretch.
    start: usize,
    is_wanted: bool,
    /// A blank line came before.
    after_blank: bool,
    /// A block of HTML may be open until the next blank line.
    in_html: bool,
    block: Option<Block>,
    /// From here on nothing is cut.
    is_uncertain: bool,
}

/// A block that blank lines do not end.
enum Block {
    Fence { mark: u8, length: usize },
    Comment,
}

impl Cutter<'_> {
    fn line(&mut self, line: &str, at: usize, next: usize) {
        if let Some(block) = &self.block {
            if block.ends_with(line) {
                self.block = None;
                self.start = next;
                self.after_blank = true;
            }
            self.drop_candidates(next);
            return;
        }
        if !self.is_uncertain {
            self.follow(line, at, next);
        }
        if self.block.is_none() {
            let here = self.candidates.first().is_some_and(|candidate| *candidate < next);
            self.is_wanted |= here || email::may_be_mark(line);
        }
        self.drop_candidates(next);
    }

    /// Keeps track of what is open at this line.
    fn follow(&mut self, line: &str, at: usize, next: usize) {
        let body = line.trim_start_matches([' ', '\t']);
        if body.is_empty() {
            self.after_blank = true;
            self.in_html = false;
            return;
        }
        let is_indented = body.len() < line.len();
        if self.after_blank && !is_indented {
            self.flush(at);
        }
        self.after_blank = false;
        let fence = fence(body);
        let opens_raw = ["<!", "<?"].iter().any(|start| body.starts_with(start)) || markup::is_raw(body);
        if fence.is_none() && !opens_raw {
            self.in_html |= body.starts_with('<');
            self.is_uncertain |= line == ">>>" || (body.contains('<') && markup::opens_any(body));
            return;
        }
        if is_indented || self.in_html {
            // Inside a list item or a block of HTML this line might be something else. Four columns are code or a list.
            self.is_uncertain |= !line.starts_with("    ") || self.in_html;
            return;
        }
        let comment = body.strip_prefix("<!--").filter(|rest| !rest.starts_with(['>', '-']));
        self.block = match (fence, comment) {
            (Some(fence), _) => Some(fence),
            (None, Some(_)) => Some(Block::Comment),
            (None, None) => {
                self.is_uncertain = true;
                return;
            }
        };
        self.flush(at);
        if comment.is_some_and(|rest| rest.contains("-->")) {
            self.block = None;
            self.start = next;
            self.after_blank = true;
        }
    }

    /// Ends the present stretch before `at`.
    fn flush(&mut self, at: usize) {
        if self.is_wanted && self.start < at {
            self.out.push(self.start..at);
        }
        self.start = at;
        self.is_wanted = false;
    }

    fn drop_candidates(&mut self, next: usize) {
        let passed = self.candidates.iter().take_while(|candidate| **candidate < next).count();
        self.candidates = self.candidates.get(passed..).unwrap_or_default();
    }
}

impl Block {
    fn ends_with(&self, line: &str) -> bool {
        match self {
            Self::Comment => line.contains("-->"),
            Self::Fence { mark, length } => {
                let body = line.trim_start_matches(' ');
                let marks = body.bytes().take_while(|b| b == mark).count();
                let rest = body.get(marks..).unwrap_or_default();
                line.len() - body.len() < 4 && marks >= *length && rest.trim_matches([' ', '\t']).is_empty()
            }
        }
    }
}

/// The fence that the line opens, if it may open one.
fn fence(body: &str) -> Option<Block> {
    let mark = body.bytes().next().filter(|b| matches!(b, b'`' | b'~'))?;
    let length = body.bytes().take_while(|b| *b == mark).count();
    let info = body.get(length..).unwrap_or_default();
    (length >= 3 && !(mark == b'`' && info.contains('`'))).then_some(Block::Fence { mark, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'t>(text: &'t str) -> Vec<&'t str> {
        let candidates: Vec<usize> = text.match_indices("/retest").map(|(at, _)| at).collect();
        regions(text, &candidates).into_iter().filter_map(|range| text.get(range)).collect()
    }

    #[test]
    fn only_stretches_with_a_candidate_are_kept() {
        let table: [(&str, &[&str]); 9] = [
            ("one\n\ntwo\n\n/retest\n\nthree", &["/retest\n\n"]),
            ("- list\n\n  /retest\n\ntext", &["- list\n\n  /retest\n\n"]),
            ("a\n```\n/retest\n```\n/retest b", &["/retest b"]),
            ("a\n```\n/retest", &[]),
            ("~~~\n```\n/retest\n~~~~\nb\n\n/retest", &["/retest"]),
            ("<!-- x\n\n/retest\n-->\n/retest b", &["/retest b"]),
            ("<!-- x -->\n\n/retest b", &["/retest b"]),
            ("- a\n  ```\n\nb\n\n/retest", &["b\n\n/retest"]),
            ("<div>\n```\n\nb\n\n/retest", &["b\n\n/retest"]),
        ];
        for (text, wanted) in table.iter().take(7) {
            assert_eq!(cut(text), *wanted, "{text}");
        }
        for (text, _) in table.iter().skip(7) {
            assert_eq!(cut(text), [*text], "{text}: the fence may be open, so nothing is cut");
        }
    }
}
