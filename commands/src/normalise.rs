//! Makes one text out of a line: Unicode blanks become spaces, stray invisible characters go, the others are reported.
//!
//! The text that comes out here is the only one that is looked at afterwards: what decides is what acts. An invisible
//! character at the edge of a word is what a paste leaves behind and is dropped. Inside a word it changes what people
//! see, so it is returned in [`Clean::hidden`] and the line must not run. Dashes, quotes and commas of other
//! keyboards are folded by `words.rs`, which knows what stands in quotes.

/// A line after cleaning.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clean {
    /// The line without the hidden characters.
    pub text: String,
    /// Characters that make the line read otherwise than it looks, in order.
    pub hidden: Vec<char>,
}

/// Cleans one line. Linear in its length.
pub(crate) fn clean(line: &str) -> Clean {
    let mut out = Clean { text: String::with_capacity(line.len()), hidden: Vec::new() };
    let mut rest = line.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(c) = rest.next() {
        if is_invisible(c) {
            let mut run = vec![c];
            while let Some(next) = rest.next_if(|next| is_invisible(*next)) {
                run.push(next);
            }
            settle(run, before, rest.peek().copied(), &mut out);
            continue;
        }
        if is_blank(c) {
            out.text.push(' ');
            before = None;
        } else if is_direction(c) || c.is_control() {
            out.hidden.push(c);
        } else {
            out.text.push(c);
            before = Some(c);
        }
    }
    out
}

/// Drops a run of invisible characters at the edge of a word, keeps it inside foreign words and emoji, reports it else.
fn settle(run: Vec<char>, before: Option<char>, after: Option<char>, out: &mut Clean) {
    let is_edge = |side: Option<char>| side.is_none_or(|c| is_blank(c) || matches!(c, ',' | '，'));
    if is_edge(before) || is_edge(after) {
        return;
    }
    let is_foreign = |side: Option<char>| side.is_some_and(|c| !c.is_ascii());
    let joins = run.iter().all(|c| matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}'));
    if joins && is_foreign(before) && is_foreign(after) {
        out.text.extend(run);
    } else {
        out.hidden.extend(run);
    }
}

/// A space of any kind.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

/// Takes no room on the screen, or changes its neighbour only.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e01ef}'
    )
}

/// Turns the direction of the text around, so that it is read otherwise than it is stored.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Letters of an ASCII word that belong to a script with look-alikes, e.g. a Cyrillic `е` in `lаvа`.
///
/// Looks at runs of letters: `тест-linux` is two runs of one script each and fine.
pub(crate) fn look_alikes(word: &str) -> Vec<char> {
    let mut found = Vec::new();
    for run in word.split(|c: char| !c.is_alphabetic()) {
        if run.chars().any(|c| c.is_ascii_alphabetic()) {
            found.extend(run.chars().filter(|c| has_look_alikes(*c)));
        }
    }
    found
}

fn has_look_alikes(c: char) -> bool {
    matches!(
        c,
        '\u{370}'..='\u{3ff}'
            | '\u{400}'..='\u{52f}'
            | '\u{531}'..='\u{586}'
            | '\u{13a0}'..='\u{13fd}'
            | '\u{1d00}'..='\u{1d7f}'
            | '\u{1f00}'..='\u{1fff}'
            | '\u{2100}'..='\u{214f}'
            | '\u{ff21}'..='\u{ff5a}'
            | '\u{1d400}'..='\u{1d7ff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_dropped_at_edges_and_reported_inside_words() {
        let table: [(&str, &str, &[char], &str); 9] = [
            ("\u{feff}/retest", "/retest", &[], "byte-order mark of a paste"),
            ("/retest\u{200b}", "/retest", &[], "at the end"),
            ("/retest \u{200b} x", "/retest  x", &[], "between blanks"),
            ("a,\u{200b}b", "a,b", &[], "beside a comma"),
            ("/re\u{200b}test", "/retest", &['\u{200b}'], "inside a word"),
            ("a\u{202e}b", "ab", &['\u{202e}'], "a direction override is never at an edge"),
            (" \u{2066}a", " a", &['\u{2066}'], "a direction isolate neither"),
            ("می\u{200c}شود", "می\u{200c}شود", &[], "a joiner inside a foreign word is spelling"),
            ("a\u{0}b", "ab", &['\u{0}'], "control characters"),
        ];
        for (line, text, hidden, why) in table {
            assert_eq!(clean(line), Clean { text: text.into(), hidden: hidden.into() }, "{why}");
        }
    }

    #[test]
    fn every_unicode_blank_becomes_a_space() {
        for blank in ['\t', '\u{a0}', '\u{1680}', '\u{2003}', '\u{202f}', '\u{205f}', '\u{3000}', '\u{2800}'] {
            assert_eq!(clean(&format!("a{blank}b")).text, "a b", "U+{:04X}", u32::from(blank));
        }
    }

    #[test]
    fn only_words_of_mixed_scripts_look_alike() {
        assert_eq!(look_alikes("l\u{430}va-x86"), ['\u{430}'], "Cyrillic a between Latin letters");
        assert!(look_alikes("тест-linux").is_empty(), "each run is of one script");
        assert!(look_alikes("größe").is_empty() && look_alikes("ここ").is_empty(), "no look-alikes of ASCII");
    }
}
