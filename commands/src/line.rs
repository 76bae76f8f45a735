//! One line of the writer's own prose: a command, a mistake, or nothing of ours.
//!
//! Tries, in this order: an alias, a slash, our name. What is none of them can still be a request in a sentence, which
//! gets a hint. Only this file decides what a command looks like; `prose.rs` decides which lines it sees.

use crate::arguments::{Input, is_courtesy};
use crate::command::{Command, CommandDoc};
use crate::grammar::{Grammar, Phrase, TAIL};
use crate::help::Help;
use crate::hint;
use crate::mistake::{Fault, Mistake, MistakeKind};
use crate::normalise::clean;
use crate::prose::Line;
use crate::words::is_end_mark;

/// Longest line that can be a command, in bytes.
pub const LINE_BYTES_MAX: usize = 4_096;

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Nothing,
    Command(Box<Command>),
    Fault(Fault),
}

/// Reads a line as `prose.rs` found it.
pub(crate) fn read(line: &Line, grammar: &Grammar) -> Result<Option<Command>, Mistake> {
    let short = line.text.get(..floor(&line.text, LINE_BYTES_MAX)).unwrap_or_default();
    let cleaned = clean(short);
    let reading = read_clean(cleaned.text.trim(), grammar);
    let fault = match reading {
        Reading::Nothing => return Ok(None),
        _ if !cleaned.hidden.is_empty() => {
            Fault::code_points(MistakeKind::HiddenCharacters, &cleaned.hidden, "type the command by hand")
        }
        Reading::Fault(fault) => fault,
        Reading::Command(_) if short.len() < line.text.len() => {
            Fault::new(MistakeKind::TooLong, short, format!("a command has at most {LINE_BYTES_MAX} bytes"))
        }
        Reading::Command(command) => match &line.markup {
            Some(html) => Fault::new(MistakeKind::Markup, html, "write names without < and >"),
            None if line.is_struck && command.view().args.is_empty() => {
                Fault::new(MistakeKind::StruckOut, short, "all that the command names is struck out")
            }
            None => return Ok(Some(*command)),
        },
    };
    Err(fault.at(line.number))
}

/// The command that an alias means, if its text is exactly one.
pub(crate) fn read_meaning(text: &str, grammar: &Grammar) -> Option<Command> {
    let cleaned = clean(text);
    let text = cleaned.text.trim().strip_prefix('/').filter(|_| cleaned.hidden.is_empty())?;
    match named(text, grammar) {
        Reading::Command(command) => Some(*command),
        Reading::Fault(_) | Reading::Nothing => None,
    }
}

/// Reads a cleaned, trimmed line.
fn read_clean(text: &str, grammar: &Grammar) -> Reading {
    if let Some(reading) = aliased(text, grammar) {
        return reading;
    }
    if let Some(rest) = text.strip_prefix('/') {
        return slashed(rest, grammar);
    }
    if let Some(rest) = text.strip_prefix('／') {
        let end = word_end(rest);
        let known = rest.get(..end).and_then(|name| grammar.find(name));
        let fault = known.map(|doc| Fault::code_points(MistakeKind::LookAlike, &['／'], &grammar.spelled(doc.name)));
        return fault.map_or(Reading::Nothing, Reading::Fault);
    }
    if let Some(rest) = text.strip_prefix('@')
        && let Some(after) = login_end(rest, grammar).and_then(|end| rest.get(end..))
    {
        return addressed(text, after, grammar);
    }
    hint::mid_line(text, grammar).map_or(Reading::Nothing, Reading::Fault)
}

/// The reading of a line that is an alias of the policy.
fn aliased(text: &str, grammar: &Grammar) -> Option<Reading> {
    if grammar.aliases.is_empty() {
        return None;
    }
    let (phrase, tail) = grammar.aliases.iter().find_map(|phrase| Some((phrase, captured(text, phrase)?)))?;
    let meaning = phrase.means.replace(TAIL, tail);
    Some(named(meaning.strip_prefix('/')?, grammar))
}

/// What the `*` of a phrase captures in the line; the empty text where it captures nothing or has none.
fn captured<'t>(text: &'t str, phrase: &Phrase) -> Option<&'t str> {
    let mut rest = text;
    for (at, wanted) in phrase.words.iter().enumerate() {
        rest = rest.trim_start();
        let (word, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        let is_last = at + 1 == phrase.words.len();
        let bare = if is_last { word.trim_end_matches(is_end_mark) } else { word };
        if word.to_lowercase() != *wanted && bare.to_lowercase() != *wanted {
            return None;
        }
        rest = after;
    }
    let rest = rest.trim();
    (phrase.captures || rest.split(' ').all(is_courtesy)).then_some(if phrase.captures { rest } else { "" })
}

/// Reads what follows a slash at the start of a line.
fn slashed(rest: &str, grammar: &Grammar) -> Reading {
    let Some(prefix) = grammar.prefix.as_deref() else { return named(rest, grammar) };
    let (word, after) = rest.split_at_checked(word_end(rest)).unwrap_or((rest, ""));
    if !word.eq_ignore_ascii_case(prefix) {
        return Reading::Nothing;
    }
    let name = after.trim_start_matches([':', ',']).trim_start();
    if name.is_empty() {
        return help();
    }
    if name.len() == after.len() {
        return Reading::Nothing;
    }
    named(name.strip_prefix('/').unwrap_or(name), grammar)
}

/// Reads what follows our name at the start of a line.
fn addressed(text: &str, after: &str, grammar: &Grammar) -> Reading {
    let rest = after.trim_start_matches([':', ',', '：', '，', ' ']);
    if rest.trim_matches(['?', ' ']).is_empty() {
        return help();
    }
    let mut rest = rest;
    while let Some((_, tail)) = rest.split_once(' ').filter(|(first, _)| is_courtesy(first)) {
        rest = tail.trim_start();
    }
    let name = rest.strip_prefix('/').unwrap_or(rest);
    match named(name, grammar) {
        Reading::Nothing => hint::mid_line(text, grammar).map_or(Reading::Nothing, Reading::Fault),
        reading => reading,
    }
}

/// Reads a command's name and what follows it.
fn named(text: &str, grammar: &Grammar) -> Reading {
    let (word, after) = text.split_at_checked(word_end(text)).unwrap_or((text, ""));
    if let Some((doc, preset)) = known(word, grammar) {
        return match tail(after, grammar) {
            Tail::Arguments(args) => parsed(doc, &format!("{preset}{args}"), grammar),
            Tail::Glued => Reading::Fault(hint::glued(text, word.len(), grammar.spelled(doc.name))),
            Tail::Other => Reading::Nothing,
        };
    }
    let whole: &str = text.split(' ').next().unwrap_or_default();
    let name = whole.trim_end_matches(is_end_mark);
    if name.is_empty() || name.contains('/') {
        return Reading::Nothing;
    }
    let fault = hint::near_miss(name, grammar).or_else(|| hint::glued_word(word, grammar));
    fault.map_or(Reading::Nothing, Reading::Fault)
}

/// The command of a word, with the words that its spelling puts in front: `/retest-required`.
fn known(word: &str, grammar: &Grammar) -> Option<(&'static CommandDoc, &'static str)> {
    if let Some(doc) = grammar.find(word) {
        return Some((doc, ""));
    }
    let (name, suffix) = word.rsplit_once('-')?;
    let doc = grammar.find(name).filter(|doc| doc.name == "retest")?;
    let preset = ["required ", "optional ", "failed "].into_iter().find(|p| p.trim().eq_ignore_ascii_case(suffix))?;
    Some((doc, preset))
}

fn parsed(doc: &CommandDoc, args: &str, grammar: &Grammar) -> Reading {
    let input = Input { args, grammar };
    if input.asks_help() {
        return Reading::Command(Box::new(Command::Help(Help { topic: Some(doc.name.to_owned()) })));
    }
    match (doc.parse)(&input) {
        Ok(command) => Reading::Command(Box::new(command)),
        Err(fault) => Reading::Fault(fault),
    }
}

fn help() -> Reading {
    Reading::Command(Box::new(Command::Help(Help::default())))
}

/// What stands directly behind a command's name.
enum Tail<'t> {
    Arguments(&'t str),
    /// Run together with something: `/retest:x`.
    Glued,
    /// A path, another bot, a word of another script.
    Other,
}

fn tail<'t>(after: &'t str, grammar: &Grammar) -> Tail<'t> {
    let after = match after.strip_prefix('@') {
        Some(rest) => match login_end(rest, grammar).and_then(|end| rest.get(end..)) {
            Some(behind) => behind.trim_start_matches([':', '：']),
            None => return Tail::Other,
        },
        None => after,
    };
    let asks = after.starts_with(['?', '？']);
    let rest = after.trim_start_matches(|c| is_end_mark(c) && !matches!(c, ':' | '：' | '?' | '？'));
    match rest.chars().next() {
        None | Some(' ') => Tail::Arguments(rest),
        Some('?' | '？') if asks && rest.trim_start_matches(['?', '？', '!']).trim_start().is_empty() => {
            Tail::Arguments(rest)
        }
        Some('/' | '.' | ')' | ']' | '\'' | '’') => Tail::Other,
        Some(_) if after.starts_with('.') => Tail::Other,
        Some(c) if c.is_ascii() => Tail::Glued,
        Some(c) if c.is_alphanumeric() => Tail::Other,
        Some('：') => Tail::Glued,
        Some(_) => Tail::Arguments(rest),
    }
}

/// Where one of our logins ends at the start of the text, if it is one and nothing longer.
pub(crate) fn login_end(text: &str, grammar: &Grammar) -> Option<usize> {
    grammar.logins.iter().find_map(|login| {
        let (head, rest) = text.split_at_checked(login.len())?;
        if !head.eq_ignore_ascii_case(login) {
            return None;
        }
        let (end, rest) = match rest.strip_prefix("[bot]") {
            Some(rest) => (login.len() + "[bot]".len(), rest),
            None => (login.len(), rest),
        };
        let is_end = |c: char| c == ' ' || is_end_mark(c) || (!c.is_ascii() && !c.is_alphanumeric());
        let mut next = rest.chars();
        match next.next() {
            None => Some(end),
            // A dot belongs to a login unless the sentence ends with it.
            Some('.') => next.next().is_none_or(|c| c == ' ').then_some(end),
            Some(c) => is_end(c).then_some(end),
        }
    })
}

/// Where the name of a command ends: ASCII letters, digits, `-`, `_`.
fn word_end(text: &str) -> usize {
    text.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'-' || b == b'_')).unwrap_or(text.len())
}

/// The last character boundary at or before `max`.
fn floor(text: &str, max: usize) -> usize {
    (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}
