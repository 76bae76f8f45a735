//! The few HTML elements whose content is not the writer's prose: code, quotes, deletions, tables and the like.
//!
//! CommonMark leaves HTML to the browser: `<blockquote>`, a blank line, then a command is a paragraph to it and a quote
//! to the reader. So open elements of this list are counted, over the whole comment, and lines inside them are dead.

/// Elements in question, lower case, sorted.
const ELEMENTS: [&str; 27] = [
    "a",
    "blockquote",
    "code",
    "del",
    "dl",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "kbd",
    "li",
    "ol",
    "plaintext",
    "pre",
    "s",
    "samp",
    "strike",
    "summary",
    "table",
    "td",
    "template",
    "th",
    "tt",
    "ul",
    "xmp",
];
/// The longest of them, in bytes.
const ELEMENT_BYTES_MAX: usize = 10;

/// What is open: how many of each element, and whether a comment is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Open {
    depths: [u32; ELEMENTS.len()],
    in_comment: bool,
}

impl Open {
    /// Whether nothing is open.
    pub fn is_none(&self) -> bool {
        !self.in_comment && self.depths.iter().all(|depth| *depth == 0)
    }

    /// Follows the tags and comments of a stretch of HTML. A comment goes on in the next stretch until it ends.
    pub fn follow(&mut self, html: &str) {
        let mut rest = html;
        loop {
            if self.in_comment {
                let Some((_, behind)) = rest.split_once("-->") else { return };
                self.in_comment = false;
                rest = behind;
            }
            let (before, behind) =
                rest.split_once("<!--").map_or((rest, None), |(before, behind)| (before, Some(behind)));
            for (closes, element) in tags(before) {
                if let Some(depth) = self.depths.get_mut(element) {
                    *depth = if closes { depth.saturating_sub(1) } else { depth.saturating_add(1) };
                }
            }
            let Some(behind) = behind else { return };
            self.in_comment = true;
            // `<!-->` and `<!--->` are whole comments (HTML, section 13.2.5.43).
            rest = behind.strip_prefix('-').filter(|r| r.starts_with('>')).unwrap_or(behind);
            if let Some(short) = rest.strip_prefix('>') {
                self.in_comment = false;
                rest = short;
            }
        }
    }
}

/// Whether the text holds an opening or closing tag of the list, or begins a comment. Looks at `looks_left` angle
/// brackets at most and takes them off; behind them it fears the worst.
pub(crate) fn may_open_any(html: &str, looks_left: &mut usize) -> bool {
    let bytes = html.as_bytes();
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'<') {
        let opens = match bytes.get(at + 1) {
            _ if *looks_left == 0 => true,
            Some(b'!') => bytes.get(at + 2..).is_some_and(|rest| rest.starts_with(b"--")),
            Some(next) if next.is_ascii_alphabetic() || *next == b'/' => tag(bytes, at).is_some(),
            _ => false,
        };
        if opens {
            return true;
        }
        *looks_left -= 1;
    }
    false
}

/// Whether the line begins one of the blocks that CommonMark ends at their closing tag only.
pub(crate) fn is_raw(line: &str) -> bool {
    ["<pre", "<script", "<style", "<textarea"]
        .iter()
        .any(|start| line.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)))
}

/// Each tag of the list: whether it closes, and which element.
fn tags(html: &str) -> impl Iterator<Item = (bool, usize)> {
    html.match_indices('<').filter_map(|(at, _)| tag(html.as_bytes(), at))
}

/// The tag of the list that begins at a `<`: whether it closes, and which element.
fn tag(bytes: &[u8], at: usize) -> Option<(bool, usize)> {
    let closes = bytes.get(at + 1) == Some(&b'/');
    let name = bytes.get(at + 1 + usize::from(closes)..)?;
    let length = name.iter().take(ELEMENT_BYTES_MAX + 1).take_while(|b| b.is_ascii_alphanumeric()).count();
    if !(1..=ELEMENT_BYTES_MAX).contains(&length) {
        return None;
    }
    let mut lower = [0; ELEMENT_BYTES_MAX];
    let lower = lower.get_mut(..length)?;
    lower.copy_from_slice(name.get(..length)?);
    lower.make_ascii_lowercase();
    ELEMENTS.binary_search_by(|element| element.as_bytes().cmp(lower)).ok().map(|element| (closes, element))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_elements_are_counted() {
        let mut open = Open::default();
        for (html, is_none) in [
            ("<b>x", true),
            ("<blockquote class='x'>", false),
            ("<BLOCKQUOTE>", false),
            ("</blockquote>", false),
            ("</blockquote></code>", true),
            ("<section><summary>", false),
            ("</summary>", true),
            ("<!-- <code> -->", true),
            ("<!-- <code>", false),
            ("<code> --> <b>", true),
            ("<!--> <!---> <code>", false),
        ] {
            open.follow(html);
            assert_eq!(open.is_none(), is_none, "{html}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_its_longest_name_fits() {
        assert!(ELEMENTS.is_sorted());
        assert_eq!(ELEMENTS.iter().map(|element| element.len()).max(), Some(ELEMENT_BYTES_MAX));
    }
}
