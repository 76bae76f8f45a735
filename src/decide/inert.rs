//! Makes foreign text harmless in our Markdown: no mention, reference, link, HTML, quick action or command survives.
//!
//! Job names, branch names, causes and runner words are as untrusted as comments. They stand in code spans only.

/// Longest foreign text that is shown, in characters.
const SHOWN_MAX: usize = 120;

/// Longest text of the audit log that is shown, in characters.
const RECORDED_MAX: usize = 500;

/// Folds blanks, drops control, format and direction characters, and cuts to 120 characters.
pub fn plain(text: &str) -> String {
    plain_up_to(text, SHOWN_MAX)
}

fn plain_up_to(text: &str, shown_max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(shown_max * 4));
    let mut shown = 0;
    for c in text.chars() {
        let c = if c.is_whitespace() { ' ' } else { c };
        if c.is_control() || is_invisible(c) || (c == ' ' && (out.is_empty() || out.ends_with(' '))) {
            continue;
        }
        if shown == shown_max {
            out.push('…');
            break;
        }
        out.push(c);
        shown += 1;
    }
    out.trim_end().to_owned()
}

/// Zero-width, direction and other characters without a glyph (Unicode general category Cf, the usual ones).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Foreign text as a code span: its fence is longer than any run of back-ticks inside.
pub fn code(text: &str) -> String {
    let text = plain(text);
    if text.is_empty() {
        return "(no name)".to_owned();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Our own sentence about foreign text, such as the grammar's hints: it may hold code spans, and nothing else survives.
pub fn plain_words(text: &str) -> String {
    words(&plain(text))
}

/// A text of the audit log: written by us, about foreign things, and longer than a name. Links lose their address.
pub fn recorded(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once("](") {
        match before.rsplit_once('[') {
            Some((before, label)) => out.extend([before, label]),
            None => out.push_str(before),
        }
        rest = after.split_once(')').map_or(after, |(_, rest)| rest);
    }
    out.push_str(rest);
    // Stress is ours; within code an asterisk is somebody's.
    let bare = |(at, part): (usize, &str)| if at % 2 == 1 { part.to_owned() } else { part.replace('*', "") };
    let parts: Vec<String> = out.split('`').enumerate().map(bare).collect();
    words(&plain_up_to(&parts.join("`"), RECORDED_MAX))
}

fn words(text: &str) -> String {
    let inert = |part: &str| {
        let word = |word: &str| if is_word(word) { word.to_owned() } else { code(word) };
        part.split(' ').map(word).collect::<Vec<_>>().join(" ")
    };
    let even = text.matches('`').count().is_multiple_of(2);
    if !even {
        return inert(&text.replace('`', ""));
    }
    let parts = text.split('`').enumerate().map(|(at, part)| if at % 2 == 1 { code(part) } else { inert(part) });
    parts.collect()
}

/// Whether a word can stand as it is: letters, digits and the usual marks, and nothing that a forge makes a link of
/// (`GH-12`, `www.…`, the digits of a commit).
fn is_word(word: &str) -> bool {
    let usual = word.chars().all(|c| c.is_alphanumeric() || "'\"(),.;:-–—+=?→…".contains(c));
    let folded = word.to_lowercase();
    let commit = folded.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() >= 7);
    usual && !commit && !folded.contains("gh-") && !folded.contains("www.")
}

/// The same inside a table cell, where GitHub's tables split at a bare `|` even within code.
pub(super) fn code_in_table(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// A link with our own label, or the label alone when the address is not a plain `http(s)` one.
pub fn link(label: &str, url: Option<&str>) -> String {
    match url {
        // Markdown would read `&copy=1` in an address as a sign of its own.
        Some(url) if is_plain_url(url) => format!("[{label}]({})", url.replace('&', "&amp;")),
        _ => label.to_owned(),
    }
}

fn is_plain_url(url: &str) -> bool {
    let safe = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?#&=%+,;@".contains(&b);
    (url.starts_with("https://") || url.starts_with("http://")) && url.len() <= 2_000 && url.bytes().all(safe)
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Parser, Tag};

    use super::*;

    #[test]
    fn whatever_a_name_holds_it_stays_one_code_span() {
        let names = [
            "lava-x86",
            "a`b",
            "``",
            "`",
            "@everyone",
            "x\n/retest all",
            "<img src=x>",
            "[a](http://b)",
            "#12 !34",
            "a | b",
            "\u{202e}evil",
            "end`",
        ];
        for name in names {
            let markdown = format!("- {}: started.", code(name));
            let events: Vec<Event<'_>> = Parser::new(&markdown).collect();
            let spans = events.iter().filter(|e| matches!(e, Event::Code(_))).count();
            let others = events.iter().any(|e| {
                matches!(e, Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Link { .. } | Tag::Image { .. }))
            });
            assert_eq!((spans, others), (1, false), "{name:?} became {markdown:?}: {events:?}");
            assert_eq!(markdown.lines().count(), 1, "{name:?}");
        }
    }

    #[test]
    fn only_a_plain_web_address_becomes_a_link() {
        assert_eq!(link("run", Some("https://ci.example/job/1?a=b")), "[run](https://ci.example/job/1?a=b)");
        let two = link("run", Some("https://ci.example/?a=b&copy=1"));
        assert_eq!(two, "[run](https://ci.example/?a=b&amp;copy=1)", "not the copyright sign");
        for bad in ["javascript:alert(1)", "https://a/) [x](y", "https://a/<b>", "ftp://a/b", "https://a b/"] {
            assert_eq!(link("run", Some(bad)), "run", "{bad}");
        }
    }

    #[test]
    fn long_text_is_cut_with_a_mark() {
        assert_eq!(plain(&"x".repeat(500)).chars().count(), SHOWN_MAX + 1);
    }
}
