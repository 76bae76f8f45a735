//! Lines that come close to a command: what is worth a hint, and what is only talk.
//!
//! A hint is a reply that nobody asked for, so it must be rare and right: only for names of six letters or more (short
//! ones are near everything), only one slip away, and in the middle of a line only where the sentence asks for
//! something. A statement or a negation gets nothing. Nothing here ever runs a command.

use crate::grammar::Grammar;
use crate::line::login_end;
use crate::mistake::{Fault, MistakeKind};
use crate::normalise::look_alikes;

/// Words that turn a request into its opposite.
const NEGATIONS: [&str; 22] = [
    "not",
    "don't",
    "dont",
    "never",
    "without",
    "cannot",
    "can't",
    "cant",
    "won't",
    "wont",
    "doesn't",
    "didn't",
    "isn't",
    "shouldn't",
    "stop",
    "avoid",
    "nicht",
    "kein",
    "pas",
    "nie",
    "nunca",
    "jamais",
];
/// Words that ask.
const REQUESTS: [&str; 10] = ["please", "pls", "plz", "kindly", "let's", "lets", "bitte", "s'il", "por", "veuillez"];
/// Verbs that ask when `you`, `we` or somebody follows.
const MODALS: [&str; 5] = ["can", "could", "would", "will", "should"];
const ASKED: [&str; 6] = ["you", "we", "someone", "somebody", "anyone", "anybody"];

/// The candidate that `word` is a slip away from: one letter, or two in names of nine letters and more.
pub(crate) fn nearest<'n>(word: &str, candidates: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if word.chars().count() > 40 {
        return None;
    }
    let far = |name: &str| strsim::osa_distance(word, name);
    let limit = |name: &str| if name.len() >= 9 { 2 } else { 1 };
    candidates
        .into_iter()
        .map(|name| (far(name), name))
        .filter(|(d, name)| *d <= limit(name))
        .min()
        .map(|(_, name)| name)
}

/// What to say about a word after a slash that is no command of ours.
pub(crate) fn near_miss(word: &str, grammar: &Grammar) -> Option<Fault> {
    let lower = word.to_lowercase();
    let names = grammar.commands.iter().filter(|doc| doc.is_distinctive()).map(|doc| doc.name);
    let name = nearest(&lower, names)?;
    let letters: Vec<char> = lower.chars().filter(|c| !c.is_ascii()).collect();
    if letters.is_empty() {
        return Some(Fault::new(MistakeKind::NearMiss, &format!("/{word}"), grammar.spelled(name)));
    }
    let kind = if look_alikes(&lower).is_empty() { MistakeKind::NearMiss } else { MistakeKind::LookAlike };
    Some(Fault::code_points(kind, &letters, &grammar.spelled(name)))
}

/// What to say about a word that begins with a command and goes on without a blank: `/retestlava-x86`.
///
/// A longer word of letters (`/retester`) and a longer command of somebody else (`/retest-foo`) are not ours.
pub(crate) fn glued_word(word: &str, grammar: &Grammar) -> Option<Fault> {
    let lower = word.to_ascii_lowercase();
    for doc in grammar.commands.iter().filter(|doc| doc.is_distinctive()) {
        let Some(rest) = lower.strip_prefix(doc.name).filter(|rest| !rest.starts_with('-')) else { continue };
        if rest.contains(['-', '_']) || rest.bytes().any(|b| b.is_ascii_digit()) {
            return Some(glued(word, doc.name.len(), grammar.spelled(doc.name)));
        }
    }
    None
}

/// The hint to put a blank after the first `length` bytes.
pub(crate) fn glued(text: &str, length: usize, spelled: String) -> Fault {
    let rest = text.get(length..).unwrap_or_default();
    let argument = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
    let argument: String =
        argument.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.')).collect();
    let hint = if argument.is_empty() { spelled } else { format!("{spelled} {argument}") };
    Fault::new(MistakeKind::Glued, &format!("/{text}"), hint)
}

/// What to say about a command in the middle of a line.
pub(crate) fn mid_line(text: &str, grammar: &Grammar) -> Option<Fault> {
    let found = slashed_inside(text, grammar).or_else(|| addressed_inside(text, grammar))?;
    is_request(text).then(|| Fault::new(MistakeKind::MidLine, text, grammar.spelled(found)))
}

/// A command after a blank, outside back-ticks.
fn slashed_inside(text: &str, grammar: &Grammar) -> Option<&'static str> {
    let mut in_code = false;
    let mut words = text.split(' ').filter(|word| {
        let was_in_code = in_code;
        in_code ^= word.bytes().filter(|b| *b == b'`').count() % 2 == 1;
        !was_in_code && !word.starts_with('`')
    });
    if let Some(prefix) = grammar.prefix.as_deref() {
        words.find(|word| named(word).is_some_and(|name| name.eq_ignore_ascii_case(prefix)))?;
        return words
            .next()
            .and_then(|word| grammar.find(word.trim_matches(|c: char| c.is_ascii_punctuation())))
            .map(|doc| doc.name);
    }
    words.find_map(|word| grammar.find(named(word)?).filter(|doc| doc.is_distinctive())).map(|doc| doc.name)
}

/// What the word names after its slash, if only punctuation is around it.
fn named(word: &str) -> Option<&str> {
    let word = word.trim_start_matches(['(', '"', '\'']).strip_prefix('/')?;
    let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(word.len());
    let (name, rest) = word.split_at_checked(end)?;
    rest.chars().all(|c| c.is_ascii_punctuation() && c != '/').then_some(name)
}

/// Our name, then anywhere later a command without slash.
fn addressed_inside(text: &str, grammar: &Grammar) -> Option<&'static str> {
    let rest = text.match_indices('@').find_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        let starts = before.is_none_or(|c| c == ' ' || c == '(');
        let after = text.get(at + 1..)?;
        after.get(login_end(after, grammar).filter(|_| starts)?..)
    })?;
    let bare = |word: &str| word.trim_matches(|c: char| c.is_ascii_punctuation()).to_owned();
    rest.split(' ').find_map(|word| grammar.find(&bare(word)).filter(|doc| doc.is_distinctive())).map(|doc| doc.name)
}

/// Whether the sentence asks for something and does not deny it.
fn is_request(text: &str) -> bool {
    let lower = text.to_lowercase().replace('’', "'");
    let words: Vec<&str> = lower
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '.' | '!' | '?' | ':' | ';'))
        .filter(|w| !w.is_empty())
        .collect();
    let asks = |pair: &[&str]| matches!(pair, [modal, who] if MODALS.contains(modal) && ASKED.contains(who));
    let is_negated = words.iter().any(|word| NEGATIONS.contains(word));
    !is_negated && (words.iter().any(|word| REQUESTS.contains(word)) || words.windows(2).any(asks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GrammarSettings, parse};

    fn hints(text: &str) -> Vec<(MistakeKind, String)> {
        let settings = GrammarSettings { bot_logins: vec!["ci-bot".into()], ..GrammarSettings::default() };
        let parsed = parse(text, &Grammar::new(settings).expect("valid"));
        assert_eq!(parsed.commands, [], "{text}");
        parsed.mistakes.into_iter().map(|m| (m.kind, m.hint)).collect()
    }

    #[test]
    fn a_slip_gets_the_right_name() {
        for (line, hint) in [
            ("/retset", "/retest"),
            ("/restest lava-x86", "/retest"),
            ("/Rtest", "/retest"),
            ("/retests", "/retest"),
            ("/cancle", "/cancel"),
            ("/overide x \"y\"", "/override"),
            ("/oktotest", "/ok-to-test"),
        ] {
            assert_eq!(hints(line), [(MistakeKind::NearMiss, hint.to_owned())], "{line}");
        }
    }

    #[test]
    fn commands_of_other_bots_get_nothing() {
        for line in [
            "/lgtm",
            "/hold",
            "/approve",
            "/test-manual-required",
            "/retest-foo",
            "/tests",
            "/hello",
            "/rerun",
            "/reset",
            "/azp run",
            "/assign @ann",
            "/retester is down",
            "/testing guide",
            "/payload 4.1",
            "/pipeline auto",
        ] {
            assert_eq!(hints(line), [], "{line}");
        }
    }

    #[test]
    fn a_foreign_letter_in_a_command_is_shown_as_code_point() {
        let parsed = parse("/r\u{435}test", &Grammar::default());
        assert_eq!((parsed.mistakes[0].kind, parsed.mistakes[0].text.as_str()), (MistakeKind::LookAlike, "U+0435"));
    }

    #[test]
    fn a_request_in_a_sentence_gets_a_hint_and_talk_gets_nothing() {
        for line in
            ["please /retest", "Could you /retest lava-x86?", "@ci-bot can you retest this?", "Hi, pls /cancel it"]
        {
            assert_eq!(hints(line).len(), 1, "{line}");
        }
        for line in [
            "Please do not /retest this yet",
            "please don’t /retest",
            "I already tried /retest twice",
            "please see `make /retest now`",
            "could you look at /home/ann/retest",
            "please fix test/retest",
            "thanks @ci-bot for the retest",
        ] {
            assert_eq!(hints(line), [], "{line}");
        }
    }

    #[test]
    fn a_comment_gets_one_hint_at_most() {
        assert_eq!(hints("/retset\n/cancle\nplease /retest").len(), 1);
    }
}
