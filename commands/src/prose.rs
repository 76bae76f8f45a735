//! The lines of a comment that its writer says in their own words.
//!
//! CommonMark decides: only paragraphs at the top level count. Code, quotes, lists, headings, tables, HTML and its
//! comments, images, link text at the start of a line, struck-out text and the tails of e-mails do not. What it leaves
//! out of a line is left out of the command; what it keeps is taken from the source, so that a job called `*_x*` keeps
//! its stars. Never panics, linear. Read next: `line.rs`, which reads the lines.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::email::{self, Mark};
use crate::line::LINE_BYTES_MAX;
use crate::markup::Open;
use crate::regions::{self, TooMuchWork, WORK_MAX};
use crate::scan::Scan;

/// A line of prose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its text: code and link text in back-ticks, HTML comments and struck-out text left out.
    pub text: String,
    /// Counted from 1.
    pub number: u32,
    /// Text of it is struck out.
    pub is_struck: bool,
    /// HTML other than comments and line breaks stands in it.
    pub markup: Option<String>,
}

/// The lines that count.
///
/// # Errors
/// [`TooMuchWork`] when the stretches around the candidates are too long to be read.
pub(crate) fn lines(text: &str, scan: &Scan) -> Result<Vec<Line>, TooMuchWork> {
    lines_within(text, scan, WORK_MAX)
}

/// As [`lines`], with a limit of its own.
fn lines_within(text: &str, scan: &Scan, work_max: usize) -> Result<Vec<Line>, TooMuchWork> {
    if scan.has_more {
        return Err(TooMuchWork);
    }
    let stretches = if regions::work(text) <= work_max {
        std::iter::once(0..text.len()).collect()
    } else {
        regions::regions(text, &scan.candidates, work_max)?
    };
    let mut counter = LineCounter { text, at: 0, number: 1 };
    let mut walker = Walker::default();
    for range in stretches {
        counter.move_to(range.start);
        walker.read(text, range, &mut counter);
        if walker.is_over {
            break;
        }
    }
    Ok(walker.lines)
}

/// Turns places into line numbers, forwards only.
struct LineCounter<'t> {
    text: &'t str,
    at: usize,
    number: u32,
}

impl LineCounter<'_> {
    fn move_to(&mut self, at: usize) {
        // Places stand at the start of a line's text, never between a carriage return and its line feed.
        let passed = self.text.get(self.at..at).map_or(0, regions::line_ends);
        self.number = self.number.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.at = self.at.max(at);
    }
}

/// State of the walk over the events, kept from one stretch to the next.
#[derive(Default)]
struct Walker {
    lines: Vec<Line>,
    /// Blocks around the present place other than a paragraph.
    depth: u32,
    in_paragraph: bool,
    in_quote_fence: bool,
    html: Open,
    /// Someone else's words follow.
    is_over: bool,
    line: Draft,
    /// The line before, of the same paragraph.
    before: String,
    /// Whether each open emphasis began before the line's first word.
    emphasis: Vec<bool>,
    struck: u32,
    images: u32,
    link: Option<String>,
}

/// The line under construction.
#[derive(Default)]
struct Draft {
    line: Line,
    /// It cannot be a command: it starts with something else than text.
    is_dead: bool,
    start: Option<usize>,
}

impl Draft {
    fn is_at_start(&self) -> bool {
        self.line.text.trim_start().is_empty()
    }

    /// Adds to the text; beyond what a command may have, no more than shows that it is too long.
    fn push(&mut self, text: &str) {
        let room = (2 * LINE_BYTES_MAX).saturating_sub(self.line.text.len());
        if text.len() <= room {
            self.line.text.push_str(text);
        } else {
            self.line.text.extend(text.chars().take(room));
        }
    }
}

impl Walker {
    /// Reads a stretch of the text as a document of its own.
    fn read(&mut self, text: &str, stretch: Range<usize>, counter: &mut LineCounter<'_>) {
        let source = text.get(stretch.clone()).unwrap_or_default();
        let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
        for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
            if self.is_over {
                return;
            }
            // Places of the whole text, since an e-mail's tail is known by what follows.
            let range = stretch.start + range.start..stretch.start + range.end;
            if self.in_paragraph {
                self.inline(event, range, text, counter);
            } else {
                self.block(event, range, text);
            }
        }
    }

    fn block(&mut self, event: Event<'_>, range: Range<usize>, source: &str) {
        let here = source.get(range).unwrap_or_default();
        match event {
            Event::Start(Tag::Paragraph) if self.depth == 0 => self.open_paragraph(),
            Event::Start(Tag::Heading { .. }) if self.depth == 0 && ends_in_signature(here) => self.open_paragraph(),
            Event::Start(Tag::BlockQuote(_)) => {
                if self.depth == 0 {
                    self.quote_fences(here);
                }
                self.depth += 1;
            }
            Event::Start(Tag::Paragraph) => self.depth += 1,
            Event::Start(tag) if is_block(&tag) => self.depth += 1,
            Event::End(end) if is_block_end(end) => self.depth = self.depth.saturating_sub(1),
            Event::Html(html) => self.html.follow(&html),
            Event::InlineHtml(html) if self.depth > 0 => self.html.follow(&html),
            _ => {}
        }
    }

    /// GitLab quotes everything between two lines of `>>>`.
    fn quote_fences(&mut self, quote: &str) {
        let fences = quote.lines().filter(|line| line.trim_end() == ">>>").count();
        self.in_quote_fence ^= fences % 2 == 1;
    }

    fn open_paragraph(&mut self) {
        self.in_paragraph = true;
        self.before.clear();
        self.emphasis.clear();
        self.line = Draft::default();
    }

    fn inline(&mut self, event: Event<'_>, range: Range<usize>, source: &str, counter: &mut LineCounter<'_>) {
        if self.line.start.is_none() {
            self.line.start = Some(range.start);
            counter.move_to(range.start);
            self.line.line.number = counter.number;
        }
        let here = source.get(range.clone()).unwrap_or_default();
        match event {
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_)) => {
                let is_heading = matches!(event, Event::End(TagEnd::Heading(_)));
                self.end_line(source, range.end);
                self.in_paragraph = false;
                self.is_over |= is_heading;
            }
            Event::SoftBreak | Event::HardBreak => self.end_line(source, range.start),
            Event::Text(text) => {
                let escaped = range.start.checked_sub(1).and_then(|at| source.as_bytes().get(at)) == Some(&b'\\');
                self.text(&text, escaped || &*text != here);
            }
            Event::Code(code) => self.literal(&code),
            Event::InlineHtml(html) | Event::Html(html) => self.inline_html(&html),
            Event::Start(tag) => self.open(&tag, here),
            Event::End(end) => self.close(end, here),
            _ => self.line.is_dead |= self.line.is_at_start(),
        }
    }

    fn is_hidden(&self) -> bool {
        self.struck > 0 || self.images > 0
    }

    fn text(&mut self, text: &str, is_encoded: bool) {
        if self.is_hidden() {
            return;
        }
        if let Some(link) = &mut self.link {
            link.push_str(text);
            return;
        }
        // An escaped or encoded slash is written by who does not want a command.
        self.line.is_dead |= is_encoded && self.line.is_at_start() && !text.trim_start().is_empty();
        self.line.push(text);
    }

    /// Adds code or a link's text: one word, whatever is in it.
    fn literal(&mut self, text: &str) {
        if self.is_hidden() || text.is_empty() {
            return;
        }
        if let Some(link) = &mut self.link {
            link.push_str(text);
            return;
        }
        self.line.is_dead |= self.line.is_at_start();
        self.line.push(&format!("`{}`", text.replace('`', "\u{fffd}")));
    }

    fn inline_html(&mut self, html: &str) {
        self.html.follow(html);
        if html.starts_with("<!--") || self.is_hidden() {
            return;
        }
        self.line.is_dead |= self.line.is_at_start();
        if html.get(..3).is_some_and(|tag| tag.eq_ignore_ascii_case("<br")) {
            self.line.push(" ");
        } else {
            self.line.line.markup.get_or_insert_with(|| html.to_owned());
        }
    }

    fn open(&mut self, tag: &Tag<'_>, here: &str) {
        match tag {
            Tag::Emphasis => self.emphasise(here.get(..1)),
            Tag::Strong => self.emphasise(here.get(..2)),
            Tag::Strikethrough => {
                self.struck += 1;
                self.line.line.is_struck = true;
            }
            Tag::Image { .. } => self.images += 1,
            Tag::Link { link_type, .. } if !matches!(link_type, LinkType::Autolink | LinkType::Email) => {
                self.link = Some(String::new());
            }
            _ => {}
        }
    }

    /// Emphasis around the whole line goes; inside it the marks are letters of a name or a pattern.
    fn emphasise(&mut self, marks: Option<&str>) {
        let leads = self.line.is_at_start() && self.link.is_none();
        self.emphasis.push(leads);
        if !leads {
            self.text(marks.unwrap_or_default(), false);
        }
    }

    fn close(&mut self, end: TagEnd, here: &str) {
        let last = |count: usize| here.len().checked_sub(count).and_then(|at| here.get(at..));
        let marks = match end {
            TagEnd::Emphasis => last(1),
            TagEnd::Strong => last(2),
            TagEnd::Strikethrough => {
                self.struck = self.struck.saturating_sub(1);
                return;
            }
            TagEnd::Image => {
                self.images = self.images.saturating_sub(1);
                return;
            }
            TagEnd::Link => {
                if let Some(text) = self.link.take() {
                    self.literal(&text);
                }
                return;
            }
            _ => return,
        };
        if self.emphasis.pop() == Some(false) {
            self.text(marks.unwrap_or_default(), false);
        }
    }

    /// Takes the line up and looks whether it begins an e-mail's tail.
    fn end_line(&mut self, source: &str, end: usize) {
        let Draft { line, is_dead, start } = std::mem::take(&mut self.line);
        let from_start = start.and_then(|at| source.get(before_backslash(source, at)..)).unwrap_or_default();
        let behind = source.get(end..).unwrap_or_default();
        // Marks are short; blanks without end are not worth trimming.
        let raw = from_start.get(..from_start.len() - behind.len()).filter(|raw| raw.len() <= LINE_BYTES_MAX);
        let raw = raw.unwrap_or_default().trim();
        self.is_over |= match email::mark(&self.before, raw) {
            Mark::End => true,
            Mark::Attribution => !behind.trim_start().is_empty() && !behind.trim_start().starts_with('>'),
            Mark::None => email::begins_signature(from_start),
        };
        raw.clone_into(&mut self.before);
        if !self.is_over
            && !is_dead
            && !self.in_quote_fence
            && self.html.is_none()
            && !line.text.trim_start().is_empty()
        {
            self.lines.push(line);
        }
    }
}

/// The place, or the one of the backslash right before it, which events leave out.
fn before_backslash(source: &str, at: usize) -> usize {
    let before = at.checked_sub(1).filter(|before| source.as_bytes().get(*before) == Some(&b'\\'));
    before.unwrap_or(at)
}

/// A paragraph with the dashes of a signature right under it, which CommonMark takes for a heading.
fn ends_in_signature(heading: &str) -> bool {
    let heading = heading.trim_end_matches(['\n', '\r']);
    !heading.starts_with('#') && heading.rsplit(['\n', '\r']).next().is_some_and(|last| last.trim_end() == "--")
}

fn is_block(tag: &Tag<'_>) -> bool {
    !matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. })
}

fn is_block_end(end: TagEnd) -> bool {
    !matches!(end, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

#[cfg(test)]
mod tests;
