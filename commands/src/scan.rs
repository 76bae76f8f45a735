//! A first look at a comment, one pass over its bytes: can any line of it be a command at all?
//!
//! Nearly every comment holds none, and reading CommonMark is the expensive part, so this saves nearly all the work. It
//! may say "perhaps" of a line that turns out to be nothing, never the other way round: everything that `line.rs`
//! answers must be found here. Read next: `regions.rs`.

use crate::grammar::Grammar;
use crate::line::LINE_BYTES_MAX;
use crate::normalise::{is_blank, is_invisible};

/// What the pass found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Places of lines, or of the middle of lines, that may be ours, in order.
    pub candidates: Vec<usize>,
    /// One of them starts with exactly a command or our name, so silence would be wrong.
    pub is_sure: bool,
    /// There are more candidates than a comment could have: the pass stopped.
    pub has_more: bool,
}

/// Most candidates that are looked at: more than work on them is allowed (`regions::WORK_MAX`).
const CANDIDATES_MAX: usize = 20_000;

/// Looks through the text.
pub(crate) fn scan(text: &str, grammar: &Grammar) -> Scan {
    let mut scanner = Scanner::new(text, grammar);
    scanner.run();
    scanner.out
}

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    grammar: &'t Grammar,
    /// Words after a slash that are ours, commands or the prefix alone, each with its letters.
    names: Vec<(&'t str, u32)>,
    /// First words of aliases by their first byte.
    alias_starts: [bool; 256],
    out: Scan,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str, grammar: &'t Grammar) -> Self {
        let names: Vec<&str> = match &grammar.prefix {
            Some(prefix) => vec![prefix.as_str()],
            None => grammar.commands.iter().map(|doc| doc.name).collect(),
        };
        let names = names.into_iter().map(|name| (name, signature(name.as_bytes()))).collect();
        let mut alias_starts = [false; 256];
        for first in grammar.aliases.iter().filter_map(|a| a.words.first()?.bytes().next()) {
            alias_starts[usize::from(first)] = true;
            alias_starts[usize::from(first.to_ascii_uppercase())] = true;
            // Capitals outside ASCII begin with another byte: be generous.
            if !first.is_ascii() {
                alias_starts[0x80..].fill(true);
            }
        }
        Self { text, bytes: text.as_bytes(), grammar, names, alias_starts, out: Scan::default() }
    }

    fn run(&mut self) {
        let mut at = 0;
        let mut at_start = true;
        // A line that begins with this much nothing is too long to be a command.
        let mut foreign_left = LINE_BYTES_MAX;
        while let Some(byte) = self.bytes.get(at).copied() {
            if self.out.candidates.len() > CANDIDATES_MAX {
                self.out.has_more = true;
                return;
            }
            if byte == b'\n' || byte == b'\r' {
                at_start = true;
                foreign_left = LINE_BYTES_MAX;
            } else if at_start {
                if let Some(next) = self.skipped(at, byte).filter(|_| byte.is_ascii() || foreign_left > 0) {
                    foreign_left -= usize::from(!byte.is_ascii());
                    at = next;
                    continue;
                }
                at_start = false;
                self.look_at_start(at, byte);
            } else if byte == b'/' || byte == b'@' {
                self.look_inside(at, byte);
            } else {
                at += self.bytes.get(at..).unwrap_or_default().iter().take_while(|b| is_plain(**b)).count().max(1);
                continue;
            }
            at += 1;
        }
    }

    /// Where to go on when what stands here may precede a command: blanks, emphasis, invisible characters.
    fn skipped(&self, at: usize, byte: u8) -> Option<usize> {
        match byte {
            b' ' | b'\t' | b'*' | b'_' => Some(at + 1),
            0x00..=0x7f => byte.is_ascii_control().then_some(at + 1),
            _ => {
                let c = self.text.get(at..)?.chars().next()?;
                let passes =
                    is_blank(c) || is_invisible(c) || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
                (passes || c.is_control()).then_some(at + c.len_utf8())
            }
        }
    }

    fn look_at_start(&mut self, at: usize, byte: u8) {
        let rest = self.bytes.get(at + 1..).unwrap_or_default();
        match byte {
            b'/' => {
                if rest.first().is_none_or(|b| b.is_ascii() && !b.is_ascii_alphanumeric()) {
                    return;
                }
                let word = first_word(rest);
                let is_ours = self.names.iter().any(|(name, _)| is_name(word, name));
                self.out.is_sure |= is_ours;
                if is_ours || self.is_near(word) {
                    self.out.candidates.push(at);
                    return;
                }
            }
            b'@' if self.is_login(rest) => {
                self.out.is_sure = true;
                self.out.candidates.push(at);
                return;
            }
            _ => {}
        }
        if byte == 0xef && rest.starts_with(&[0xbc, 0x8f]) || self.alias_starts[usize::from(byte)] && self.is_alias(at)
        {
            self.out.candidates.push(at);
        }
    }

    /// A command or our name in the middle of a line.
    fn look_inside(&mut self, at: usize, byte: u8) {
        let before = self.bytes.get(at.wrapping_sub(1)).copied().unwrap_or(b' ');
        if before.is_ascii_alphanumeric() || before == b'/' || before == byte {
            return;
        }
        let rest = self.bytes.get(at + 1..).unwrap_or_default();
        if !rest.first().is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
            return;
        }
        let found = if byte == b'@' {
            self.is_login(rest)
        } else {
            self.names.iter().any(|(name, _)| starts_with_name(rest, name))
        };
        if found {
            self.out.candidates.push(at);
        }
    }

    fn is_login(&self, rest: &[u8]) -> bool {
        self.grammar.logins.iter().any(|login| starts_with_name(rest, login))
    }

    /// Whether the word could be a slip of a name, or a name run together with its argument.
    fn is_near(&self, word: &[u8]) -> bool {
        if self.grammar.prefix.is_some() {
            return false;
        }
        // Hidden and foreign letters can make anything of a word.
        let is_ascii = word.iter().all(u8::is_ascii);
        let letters = signature(word);
        self.names.iter().any(|(name, name_letters)| {
            starts_with_name(word, name)
                || (name.len() >= 6
                    && word.len() + 2 >= name.len()
                    && (!is_ascii || word.len() <= name.len() + 4)
                    && (letters ^ name_letters).count_ones() <= 4)
        })
    }

    fn is_alias(&self, at: usize) -> bool {
        let rest = self.text.get(at..).unwrap_or_default();
        self.grammar.aliases.iter().filter_map(|a| a.words.first()).any(|first| {
            // Byte for byte where that tells; letter by letter where foreign or hidden ones are about.
            let head = rest.as_bytes().get(..first.len()).unwrap_or(rest.as_bytes());
            if head.is_ascii() && first.is_ascii() {
                return head.eq_ignore_ascii_case(first.as_bytes());
            }
            let mut letters = rest.chars().filter(|c| !is_invisible(*c)).flat_map(char::to_lowercase);
            first.chars().all(|wanted| letters.next() == Some(wanted))
        })
    }
}

fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'\n' | b'\r' | b'/' | b'@')
}

/// Bytes to the next blank, 64 at most.
fn first_word(rest: &[u8]) -> &[u8] {
    let end = rest.iter().take(64).position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len().min(64));
    rest.get(..end).unwrap_or_default()
}

fn starts_with_name(rest: &[u8], name: &str) -> bool {
    rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
}

/// The name, and nothing that makes it a longer word or a path.
fn is_name(word: &[u8], name: &str) -> bool {
    starts_with_name(word, name)
        && word.get(name.len()).is_none_or(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_')))
}

/// Which ASCII letters occur, one bit each.
fn signature(word: &[u8]) -> u32 {
    word.iter().filter(|b| b.is_ascii_alphabetic()).fold(0, |bits, b| bits | 1 << (b.to_ascii_lowercase() - b'a'))
}

impl Grammar {
    /// Whether a text may hold a command or a mistake of ours: false means that [`crate::parse`] finds nothing in it.
    pub fn may_hold_command(&self, text: &str) -> bool {
        !scan(text, self).candidates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Alias, GrammarSettings};

    fn grammar() -> Grammar {
        let aliases = vec![Alias { phrase: "Recheck *".into(), means: "/retest".into() }];
        let bot_logins = vec!["ci-bot".into()];
        Grammar::new(GrammarSettings { aliases, bot_logins, ..GrammarSettings::default() }).expect("valid")
    }

    #[test]
    fn lines_that_may_be_ours_are_found() {
        let sure = ["/retest", "  **/Retest**", "\u{feff}/retest x", "x\r/help", "@CI-bot retest", "a\n/ok-to-test"];
        let maybe = [
            "/retset",
            "/cancle",
            "/retestlava-x86",
            "/re\u{200b}test",
            "／retest",
            "recheck",
            "RECHECK no bug",
            "please /retest",
            "hey @ci-bot",
            "/oktotest",
            "/r\u{435}test",
            "(/retest)",
        ];
        for (texts, is_sure) in [(&sure[..], true), (&maybe[..], false)] {
            for text in texts {
                let found = scan(text, &grammar());
                assert_eq!((found.candidates.len(), found.is_sure), (1, is_sure), "{text}");
            }
        }
    }

    #[test]
    fn ordinary_text_is_passed_over() {
        for text in [
            "",
            "/usr/lib/retest",
            "see http://x.example/retest",
            "mail ann@ci-bot.example",
            "@other retest",
            "/lgtm",
            "a / b",
        ] {
            assert_eq!(scan(text, &grammar()), Scan::default(), "{text}");
        }
    }
}
