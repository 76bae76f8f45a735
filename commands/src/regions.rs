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

/// Most angle brackets of a text that are looked at for HTML.
const LOOKS_MAX: usize = 100_000;
/// Most lines of a text that are followed one by one.
const LINES_MAX: usize = 100_000;

/// What reading a text as CommonMark costs at most: about one event for each mark of punctuation or line end.
pub(crate) fn work(text: &str) -> usize {
    // Chunks that fit a byte counter let the compiler count many bytes at once.
    let marks = |chunk: &[u8]| usize::from(chunk.iter().fold(0_u8, |sum, b| sum + u8::from(is_mark(*b))));
    text.as_bytes().chunks(255).map(marks).sum::<usize>() + text.len() / 128
}

fn is_mark(byte: u8) -> bool {
    // ASCII punctuation stands in four blocks; `|` instead of `||` spares the branches.
    (byte.wrapping_sub(b'!') < 15)
        | (byte.wrapping_sub(b':') < 7)
        | (byte.wrapping_sub(b'[') < 6)
        | (byte.wrapping_sub(b'{') < 4)
        | (byte == b'\n')
        | (byte == b'\r')
}

/// The stretches are too much work together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuchWork;

/// Line feeds in the text.
fn line_feeds(bytes: &[u8]) -> usize {
    let feeds = |chunk: &[u8]| usize::from(chunk.iter().fold(0_u8, |sum, b| sum + u8::from(*b == b'\n')));
    bytes.chunks(255).map(feeds).sum()
}

/// Lines that end in the text: at a line feed, a carriage return, or both together.
pub(crate) fn line_ends(text: &str) -> usize {
    let bytes = text.as_bytes();
    let lone_returns = if text.contains('\r') {
        (0..bytes.len()).filter(|at| bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n')).count()
    } else {
        0
    };
    line_feeds(bytes) + lone_returns
}

/// Stretches of the text that hold a candidate or a mark of an e-mail's tail, in order.
///
/// # Errors
/// [`TooMuchWork`] when reading them would cost more than `work_max`, or the text has more than 100,000 lines.
pub(crate) fn regions(text: &str, candidates: &[usize], work_max: usize) -> Result<Vec<Range<usize>>, TooMuchWork> {
    let mut cutter = Cutter { text, candidates, work_left: work_max, looks_left: LOOKS_MAX, ..Cutter::default() };
    let bytes = text.as_bytes();
    if line_ends(text) > LINES_MAX {
        return Err(TooMuchWork);
    }
    let mut at = 0;
    while at < bytes.len() {
        let line = Span::of(bytes, at);
        cutter.line(&line)?;
        at = line.next;
    }
    cutter.flush(text.len())?;
    if cutter.has_definition {
        // It makes links of brackets in any stretch, so none can be read without it.
        let whole = std::iter::once(0..text.len());
        return if work(text) <= work_max { Ok(whole.collect()) } else { Err(TooMuchWork) };
    }
    Ok(cutter.out)
}

/// Where a line stands, and what can be told of it in one pass.
struct Span {
    start: usize,
    /// First byte that is no blank.
    body: usize,
    end: usize,
    /// Start of the next line.
    next: usize,
    has_tag: bool,
}

impl Span {
    fn of(bytes: &[u8], start: usize) -> Self {
        let rest = bytes.get(start..).unwrap_or_default();
        let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let mut has_tag = false;
        let mut end = rest.len();
        for (at, byte) in rest.iter().enumerate().skip(blanks) {
            if matches!(byte, b'\n' | b'\r') {
                end = at;
                break;
            }
            has_tag |= *byte == b'<';
        }
        let line_end = if rest.get(end) == Some(&b'\r') && rest.get(end + 1) == Some(&b'\n') { 2 } else { 1 };
        let next = (start + end + line_end).min(bytes.len());
        Self { start, body: start + blanks, end: start + end, next, has_tag }
    }
}

#[derive(Default)]
struct Cutter<'c> {
    text: &'c str,
    candidates: &'c [usize],
    out: Vec<Range<usize>>,
    work_left: usize,
    /// Angle brackets that may still be looked at.
    looks_left: usize,
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
    /// A line may define the address of a link: `[label]: address`.
    has_definition: bool,
}

/// A block that blank lines do not end.
enum Block {
    Fence { mark: u8, length: usize },
    Comment,
}

impl Cutter<'_> {
    fn line(&mut self, line: &Span) -> Result<(), TooMuchWork> {
        if let Some(block) = &self.block {
            if let Some(behind) = block.end_in(self.text.get(line.start..line.end).unwrap_or_default()) {
                self.close(behind, line.next);
            }
            self.drop_candidates(line.next);
            return Ok(());
        }
        if line.body == line.end {
            self.after_blank = true;
            self.in_html = false;
            return Ok(());
        }
        self.has_definition |= self.text.get(line.body..line.end).is_some_and(may_define_link);
        if !self.is_uncertain {
            self.follow(line)?;
        }
        if self.block.is_none() {
            let holds_candidate = self.candidates.first().is_some_and(|candidate| *candidate < line.next);
            self.is_wanted |= holds_candidate || self.text.get(line.body..line.end).is_some_and(email::may_be_mark);
        }
        self.drop_candidates(line.next);
        Ok(())
    }

    /// Keeps track of what is open at this line, which is not blank.
    fn follow(&mut self, line: &Span) -> Result<(), TooMuchWork> {
        let is_indented = line.body > line.start;
        if self.after_blank && !is_indented {
            self.flush(line.start)?;
        }
        let follows_blank = std::mem::take(&mut self.after_blank);
        let first = self.text.as_bytes().get(line.body).copied().unwrap_or_default();
        if !line.has_tag && !matches!(first, b'`' | b'~' | b'>') {
            return Ok(());
        }
        let body = self.text.get(line.body..line.end).unwrap_or_default();
        let fence = fence(body);
        let opens_raw = body.starts_with("<!") || body.starts_with("<?") || markup::is_raw(body);
        if fence.is_none() && !opens_raw {
            self.in_html |= first == b'<';
            self.is_uncertain |=
                body.trim_end() == ">>>" || (line.has_tag && markup::may_open_any(body, &mut self.looks_left));
            return Ok(());
        }
        if is_indented || self.in_html {
            // Inside a list item or a block of HTML this line might be something else. Four columns are code or a list,
            // unless they go on with a paragraph.
            let is_deep =
                follows_blank && self.text.get(line.start..line.body).is_some_and(|blanks| blanks.starts_with("    "));
            self.is_uncertain |= !is_deep || self.in_html;
            return Ok(());
        }
        let comment = body.strip_prefix("<!--").filter(|rest| !rest.starts_with(['>', '-']));
        self.block = match (fence, comment) {
            (Some(fence), _) => Some(fence),
            (None, Some(_)) => Some(Block::Comment),
            (None, None) => {
                self.is_uncertain = true;
                return Ok(());
            }
        };
        self.flush(line.start)?;
        if let Some(behind) = comment.and_then(|rest| Block::Comment.end_in(rest)) {
            self.close(behind, line.next);
        }
        Ok(())
    }

    /// Ends the open block, which is left out, unless HTML behind it in the same line opens something else, or a tab
    /// behind it makes it none for readers less strict than CommonMark.
    fn close(&mut self, behind: &str, next: usize) {
        self.block = None;
        if behind.contains('\t') || markup::may_open_any(behind, &mut self.looks_left) {
            self.is_uncertain = true;
        } else {
            self.start = next;
            self.after_blank = true;
        }
    }

    /// Ends the present stretch before `at`.
    fn flush(&mut self, at: usize) -> Result<(), TooMuchWork> {
        if self.is_wanted && self.start < at {
            let work = self.text.get(self.start..at).map(work).unwrap_or_default();
            self.work_left = self.work_left.checked_sub(work).ok_or(TooMuchWork)?;
            self.out.push(self.start..at);
        }
        self.start = at;
        self.is_wanted = false;
        Ok(())
    }

    fn drop_candidates(&mut self, next: usize) {
        if self.candidates.first().is_some_and(|candidate| *candidate < next) {
            let passed = self.candidates.iter().take_while(|candidate| **candidate < next).count();
            self.candidates = self.candidates.get(passed..).unwrap_or_default();
        }
    }
}

impl Block {
    /// What stands in the line behind the end of the block, if it ends here.
    fn end_in<'l>(&self, line: &'l str) -> Option<&'l str> {
        match self {
            Self::Comment => line.split_once("-->").map(|(_, behind)| behind),
            Self::Fence { mark, length } => {
                let bytes = line.as_bytes();
                let indent = bytes.iter().take_while(|b| **b == b' ').count();
                let marks = bytes.iter().skip(indent).take_while(|b| *b == mark).count();
                let behind = line.get(indent + marks..)?;
                (indent < 4 && marks >= *length && behind.trim_matches([' ', '\t']).is_empty()).then_some(behind)
            }
        }
    }
}

/// Whether the line may be a link reference definition, be it within a quote or a list (CommonMark 0.31, section 4.7).
/// The label may end on a later line, so an open bracket alone is enough where nothing closes it.
fn may_define_link(body: &str) -> bool {
    let inner = body.trim_start_matches(|c: char| " \t>-*+.)".contains(c) || c.is_ascii_digit());
    inner.strip_prefix('[').is_some_and(|label| label.contains("]:") || !label.contains(']'))
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

    fn cut(text: &str) -> Vec<&str> {
        let candidates: Vec<usize> = text.match_indices("/retest").map(|(at, _)| at).collect();
        let ranges = regions(text, &candidates, WORK_MAX).expect("short");
        ranges.into_iter().filter_map(|range| text.get(range)).collect()
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

    #[test]
    fn work_counts_punctuation_and_line_ends() {
        let every: String = (0_u8..128).map(char::from).collect();
        let wanted = every.bytes().filter(|b| b.is_ascii_punctuation() || matches!(b, b'\n' | b'\r')).count();
        assert_eq!(work(&every), wanted + 1);
        assert_eq!(work(&"!".repeat(100_000)), 100_000 + 100_000 / 128, "more than one chunk");
    }

    #[test]
    fn work_bounds_the_events_of_commonmark() {
        use pulldown_cmark::{Options, Parser};
        let units = [
            "a",
            "\n",
            "a\n",
            "[",
            "[a](",
            "![",
            "`a",
            "*a",
            "*a_ ",
            "**",
            "<",
            "<a ",
            "&",
            "\\",
            "> ",
            ">",
            "- ",
            "- a\n",
            "1. ",
            "1) a\n",
            "~~~\n",
            "```\n",
            "|a|b|\n",
            "a|b\n-|-\n",
            "[a]: x\n",
            "~a~ ",
            "# a\n",
            "<!-- -->",
            "é",
            "\t",
            "a\\\n",
        ];
        for unit in units {
            let text = unit.repeat(3_000);
            let events = Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).count();
            assert!(events <= 5 * work(&text) + 10, "{unit:?}: {events} events for {} work", work(&text));
        }
    }

    #[test]
    fn lines_end_as_in_commonmark() {
        assert_eq!(line_ends("a\nb\r\nc\rd\n\n"), 5);
        assert_eq!(line_ends(&"\n".repeat(1_000)), 1_000);
    }

    #[test]
    fn too_much_to_read_is_refused() {
        assert_eq!(regions(&"\n".repeat(LINES_MAX + 1), &[], WORK_MAX), Err(TooMuchWork));
        let text = "/retest *a*\n".repeat(WORK_MAX);
        let candidates: Vec<usize> = text.match_indices("/retest").map(|(at, _)| at).collect();
        assert_eq!(regions(&text, &candidates, WORK_MAX), Err(TooMuchWork));
    }
}
