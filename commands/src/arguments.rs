//! Reads what follows a command's name: words that select, options, a remark.
//!
//! Shared by all commands; each says with [`Accepts`] what it has. Anything else is a [`Fault`], never ignored: a word
//! that is dropped in silence would make the command do more, or less, than was written. Read next: `retest.rs`.

use std::collections::BTreeMap;

use crate::grammar::Grammar;
use crate::hint::nearest;
use crate::mistake::{Fault, MistakeKind};
use crate::normalise::look_alikes;
use crate::selection::{self, NAME_BYTES_MAX, Selection, Selector, URL_BYTES_MAX};
use crate::words::{self, Split, Word, is_comma, is_end_mark};

/// Most words of one command.
pub const WORDS_MAX: usize = 100;
/// Most runs that `times=` may ask for.
pub const TIMES_MAX: u32 = 50;
/// Most overrides of one command.
pub const OVERRIDES_MAX: usize = 20;
/// Longest value of an override, in bytes.
pub const VALUE_BYTES_MAX: usize = 1_024;

/// Words of courtesy. Never a job, unless quoted.
const COURTESY: [&str; 13] =
    ["please", "pls", "plz", "thanks", "thank", "thx", "ty", "again", "now", "this", "kindly", "you", "asap"];

/// Switches of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--force`: also what passed or still runs.
    pub force: bool,
    /// `--dry-run`: only say what would happen.
    pub dry_run: bool,
    /// `--with-needs`: also the jobs that the chosen ones need, in order.
    pub with_needs: bool,
}

impl Flags {
    /// The names of those that are set, without dashes.
    pub fn names(self) -> Vec<&'static str> {
        [(self.force, "force"), (self.dry_run, "dry-run"), (self.with_needs, "with-needs")]
            .into_iter()
            .filter_map(|(set, name)| set.then_some(name))
            .collect()
    }
}

/// What a command is given to parse.
pub(crate) struct Input<'l> {
    /// The line after the command's name, cleaned.
    pub args: &'l str,
    pub grammar: &'l Grammar,
}

/// Which kinds of argument a command has besides words that select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// Words and a remark.
    Words,
    /// Also `#123`.
    Issue,
    /// Also flags, `key=value`, `times`, `sha`.
    Everything,
}

/// Whether a word asks for a new issue. Quoted it is a job's name.
fn is_new(word: &Word) -> bool {
    !word.quoted && word.text.eq_ignore_ascii_case("new")
}

/// The arguments of a command, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub selection: Selection,
    pub overrides: BTreeMap<String, String>,
    pub flags: Flags,
    pub sha: Option<String>,
    pub times: Option<u32>,
    pub issue: Option<u64>,
    /// The word `new` stood where an issue may.
    pub new_issue: bool,
    pub reason: Option<String>,
    /// A lone `?` was among them.
    pub asks_list: bool,
    /// The last selecting word stood in quotes.
    pub last_is_quoted: bool,
    /// What stood in quotes after the issue, for a command that has one: no job, but a text of its own.
    pub quoted: Option<String>,
}

impl Input<'_> {
    /// Whether help about the command is asked for instead of the command.
    pub fn asks_help(&self) -> bool {
        let is_help = |w: &Word| !w.quoted && (w.text.eq_ignore_ascii_case("--help") || w.text == "-h");
        words::split(self.args).is_ok_and(|split| split.words.iter().any(is_help))
    }

    /// Reads the arguments of a command that has these kinds.
    pub fn read(&self, accepts: Accepts) -> Result<Arguments, Fault> {
        let Split { words, remark } = words::split(self.args)
            .map_err(|open| Fault::new(MistakeKind::UnclosedQuote, &open.0, "close the quote, or leave it out"))?;
        if words.len() > WORDS_MAX {
            let count = format!("{} words", words.len());
            return Err(Fault::new(MistakeKind::TooMany, &count, format!("at most {WORDS_MAX} in one command")));
        }
        let words = without_courtesy(words);
        let mut out = Arguments { reason: remark, ..Arguments::default() };
        let mut chosen: Vec<&Word> = Vec::new();
        let mut options: Vec<usize> = Vec::new();
        let mut rest = words.iter().peekable();
        while let Some(word) = rest.next() {
            let said = accepts == Accepts::Issue && (out.issue.is_some() || out.new_issue);
            if word.quoted && said && out.quoted.is_none() {
                options.push(word.start);
                out.quoted = Some(word.text.clone());
            } else if word.quoted {
                chosen.push(word);
            } else if word.text.chars().all(|c| matches!(c, '?' | '？')) {
                out.asks_list = true;
            } else if word.text.starts_with("--") {
                options.push(word.start);
                let takes_next = out.dashed(word, rest.peek().copied(), accepts)?;
                if takes_next {
                    rest.next();
                }
            } else if let Some((key, value)) = key_value(&word.text) {
                options.push(word.start);
                out.assign(key, value, accepts)?;
            } else if accepts == Accepts::Issue && is_new(word) && !chosen.is_empty() {
                options.push(word.start);
                out.new_issue = true;
            } else if let Some(number) = word.text.strip_prefix('#').filter(|_| accepts != Accepts::Words) {
                options.push(word.start);
                out.issue = Some(issue(number, &word.text)?);
            } else {
                self.check_free_word(&word.text)?;
                chosen.push(word);
            }
        }
        out.selection = self.selection(&chosen, &options)?;
        out.last_is_quoted = chosen.last().is_some_and(|w| w.quoted);
        Ok(out)
    }

    /// Refuses shell habits, a second command on the line, and look-alikes.
    fn check_free_word(&self, text: &str) -> Result<(), Fault> {
        if let Some(spelled) = self.second_command(text) {
            return Err(Fault::new(MistakeKind::Glued, text, spelled));
        }
        if matches!(text, "&&" | "||" | ">" | "<" | ">>") || text.ends_with(';') || text.contains("$(") {
            return Err(Fault::new(MistakeKind::BadValue, text, "one command per line, names only"));
        }
        let letters = look_alikes(text);
        if letters.is_empty() {
            return Ok(());
        }
        Err(Fault::code_points(MistakeKind::LookAlike, &letters, "type the name by hand, or quote it"))
    }

    /// How the command is written that the word is, or ends with: each command needs a line of its own.
    fn second_command(&self, text: &str) -> Option<String> {
        let last = text.get(text.rfind('/')? + 1..)?;
        let is_whole = last.len() + 1 == text.len();
        if let Some(prefix) = self.grammar.prefix.as_deref() {
            return (is_whole && last.eq_ignore_ascii_case(prefix)).then(|| format!("/{prefix}"));
        }
        let doc = self.grammar.find(last).filter(|doc| is_whole || doc.is_distinctive())?;
        Some(self.grammar.spelled(doc.name))
    }

    fn selection(&self, chosen: &[&Word], options: &[usize]) -> Result<Selection, Fault> {
        let mut words = Vec::with_capacity(chosen.len());
        for word in chosen {
            let selector = if word.quoted { selection::literal(&word.text) } else { selection::bare(&word.text) };
            let (length, max) = match &selector {
                Selector::Url(url) => (url.len(), URL_BYTES_MAX),
                other => (other.to_text().len(), NAME_BYTES_MAX),
            };
            if length == 0 {
                let hint = "a name is empty; HTML within one is not read";
                return Err(Fault::new(MistakeKind::BadValue, "\"\"", hint));
            }
            if length > max {
                return Err(Fault::new(MistakeKind::BadValue, &word.text, format!("a name has 1 to {max} bytes")));
            }
            words.push(selector);
        }
        Ok(Selection { whole: self.whole(chosen, &words, options), words })
    }

    /// The stretch of line from the first to the last selecting word, where it can be one name.
    fn whole(&self, chosen: &[&Word], words: &[Selector], options: &[usize]) -> Option<String> {
        let (first, last) = chosen.first().zip(chosen.last()).filter(|_| chosen.len() > 1)?;
        let can_be_name = |s: &Selector| {
            matches!(s, Selector::Name(_) | Selector::Failed | Selector::Required | Selector::Optional | Selector::All)
        };
        let has_option = options.iter().any(|at| (first.start..last.start).contains(at));
        if has_option || chosen.iter().any(|w| w.quoted) || !words.iter().all(can_be_name) {
            return None;
        }
        let text = words::folded(self.args.get(first.start..last.end)?);
        let text = text.trim_end_matches(is_end_mark).to_owned();
        (text.len() <= NAME_BYTES_MAX).then_some(text)
    }
}

impl Arguments {
    /// Takes an option with dashes; whether it used up the next word.
    fn dashed(&mut self, word: &Word, next: Option<&Word>, accepts: Accepts) -> Result<bool, Fault> {
        let body = word.text.trim_start_matches('-').to_owned();
        if accepts != Accepts::Everything {
            return Err(Fault::new(MistakeKind::UnknownOption, &word.text, "this command has no options"));
        }
        let flag = match body.to_ascii_lowercase().as_str() {
            "force" => &mut self.flags.force,
            "dry-run" => &mut self.flags.dry_run,
            "with-needs" => &mut self.flags.with_needs,
            name @ ("sha" | "times") => {
                let Some(value) = next else {
                    return Err(Fault::new(MistakeKind::BadValue, &word.text, format!("--{name}=…")));
                };
                self.assign(name, &value.text, accepts)?;
                return Ok(true);
            }
            _ => {
                return match key_value(&body) {
                    Some((key, value)) if key.eq_ignore_ascii_case("sha") || key.eq_ignore_ascii_case("times") => {
                        self.assign(key, value, accepts).map(|()| false)
                    }
                    Some(_) => Err(Fault::new(MistakeKind::UnknownOption, &word.text, body)),
                    None => Err(unknown_flag(word, &body)),
                };
            }
        };
        *flag = true;
        Ok(false)
    }

    fn assign(&mut self, key: &str, value: &str, accepts: Accepts) -> Result<(), Fault> {
        let text = format!("{key}={value}");
        if accepts != Accepts::Everything {
            return Err(Fault::new(
                MistakeKind::UnknownOption,
                &text,
                "this command has no options; quote a name with `=`",
            ));
        }
        let is_new = match key.to_ascii_lowercase().as_str() {
            "sha" => self.sha.replace(sha(value, &text)?).is_none(),
            "times" => self.times.replace(times(value, &text)?).is_none(),
            _ => {
                if value.is_empty() || value.len() > VALUE_BYTES_MAX || self.overrides.len() >= OVERRIDES_MAX {
                    let hint = format!("at most {OVERRIDES_MAX} values of 1 to {VALUE_BYTES_MAX} bytes");
                    return Err(Fault::new(MistakeKind::BadValue, &text, hint));
                }
                self.overrides.insert(key.to_owned(), value.to_owned()).is_none()
            }
        };
        if is_new { Ok(()) } else { Err(Fault::new(MistakeKind::BadValue, &text, format!("`{key}` is there twice"))) }
    }
}

/// A commit, 7 to 64 hexadecimal digits, in lower case.
pub(crate) fn sha(value: &str, text: &str) -> Result<String, Fault> {
    if (7..=64).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(value.to_ascii_lowercase());
    }
    Err(Fault::new(MistakeKind::BadValue, text, "a commit: 7 to 64 hexadecimal digits"))
}

fn times(value: &str, text: &str) -> Result<u32, Fault> {
    let number = value.parse().ok().filter(|n| (1..=TIMES_MAX).contains(n));
    number.ok_or_else(|| Fault::new(MistakeKind::BadValue, text, format!("times=1 to times={TIMES_MAX}")))
}

fn issue(number: &str, text: &str) -> Result<u64, Fault> {
    let digits = number.trim_end_matches(is_end_mark);
    let number = digits.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| Fault::new(MistakeKind::BadValue, text, "an issue: #123; a remark needs a blank after #"))
}

fn unknown_flag(word: &Word, body: &str) -> Fault {
    let known = ["force", "dry-run", "with-needs", "sha", "times", "help"];
    let hint = match nearest(&body.to_ascii_lowercase(), known) {
        Some(name) => format!("--{name}"),
        None => "--force, --dry-run, --with-needs, --sha=…, --times=…".to_owned(),
    };
    Fault::new(MistakeKind::UnknownOption, &word.text, hint)
}

/// `key=value` where the key is a plain word.
fn key_value(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let mut bytes = key.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let goes_on = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    (starts && goes_on).then_some((key, value))
}

/// Whether the word only says please, thanks, or nothing at all: courtesy, emoji, punctuation.
pub(crate) fn is_courtesy(text: &str) -> bool {
    let bare = text.trim_matches(is_end_mark);
    if bare.is_empty() {
        return !text.contains(['?', '？']);
    }
    let is_shortcode = bare.len() < text.len() && {
        let inner = text.trim_end_matches(|c| is_end_mark(c) && c != ':');
        inner.len() > 2
            && inner.starts_with(':')
            && inner.ends_with(':')
            && bare.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-'))
    };
    let is_picture = bare.chars().all(|c| !c.is_ascii() && !c.is_alphanumeric());
    is_shortcode || is_picture || bare == "-" || COURTESY.iter().any(|word| bare.eq_ignore_ascii_case(word))
}

/// Drops courtesy wherever it stands, and the punctuation after the last word that stays.
fn without_courtesy(words: Vec<Word>) -> Vec<Word> {
    let mut kept: Vec<Word> = words.into_iter().filter(|w| w.quoted || !is_courtesy(&w.text)).collect();
    if let Some(last) = kept.last_mut().filter(|w| !w.quoted && !w.text.chars().all(|c| matches!(c, '?' | '？'))) {
        let is_pattern = last.text.contains(['*', '[', '{']);
        let length = last.text.trim_end_matches(|c| is_end_mark(c) && !(c == '?' && is_pattern)).len();
        last.text.truncate(length.max(1));
        last.text = last.text.trim_end_matches(is_comma).to_owned();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &str) -> Result<Arguments, Fault> {
        Input { args, grammar: &Grammar::default() }.read(Accepts::Everything)
    }

    fn words(args: &str) -> Vec<String> {
        read(args).expect("no fault").selection.texts()
    }

    #[test]
    fn courtesy_and_punctuation_are_never_jobs() {
        for args in ["please", "pls 🙏", "again, thanks!", "this :pray:", "🚀🚀 now.", "...", "thank you"] {
            assert_eq!(words(args), [""; 0], "{args}");
        }
        assert_eq!(words("please lava-x86 again."), ["lava-x86"]);
        assert_eq!(words("lava-x86! 🙏"), ["lava-x86"]);
        assert_eq!(words("lava-x86?"), ["lava-x86"], "a question mark after a name is not a pattern");
        assert_eq!(words("lava-*?"), ["lava-*?"], "after a star it is");
        assert_eq!(words("'please'"), ["please"], "quoted, so a job of that name");
    }

    #[test]
    fn the_whole_rest_of_the_line_may_be_one_name() {
        let table = [
            ("unit tests (ubuntu, 3.11)", Some("unit tests (ubuntu, 3.11)")),
            ("unit tests, lint please", Some("unit tests, lint")),
            ("unit tests --force", Some("unit tests")),
            ("--force unit tests", Some("unit tests")),
            ("unit --force tests", None),
            ("unit 'tests'", None),
            ("unit lava-*", None),
            ("unit", None),
            ("unit  tests.", Some("unit tests")),
        ];
        for (args, whole) in table {
            assert_eq!(read(args).expect("no fault").selection.whole.as_deref(), whole, "{args}");
        }
    }

    #[test]
    fn options_are_read_wherever_they_stand() {
        let got =
            read("--sha ABCDEF1 lava-x86 kernel=v6.1 times=3 --dry-run #42 cmd='a b' -- lab was down").expect("fine");
        assert_eq!(got.sha.as_deref(), Some("abcdef1"));
        assert_eq!((got.times, got.issue, got.reason.as_deref()), (Some(3), Some(42), Some("lab was down")));
        assert_eq!(got.flags, Flags { dry_run: true, ..Flags::default() });
        assert_eq!(got.overrides, BTreeMap::from([("kernel".into(), "v6.1".into()), ("cmd".into(), "a b".into())]));
        assert_eq!(got.selection.texts(), ["lava-x86"]);
    }

    #[test]
    fn what_cannot_be_meant_is_a_fault() {
        use MistakeKind::{BadValue, Glued, LookAlike, TooMany, UnclosedQuote, UnknownOption};
        let many = "a ".repeat(WORDS_MAX + 1);
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let table = [
            ("--frce", UnknownOption, "--force"),
            ("--kernel=6", UnknownOption, "kernel=6"),
            ("times=0", BadValue, "times=1"),
            ("times=51", BadValue, "times=1"),
            ("times=3 --times=4", BadValue, "twice"),
            ("--sha=xyz", BadValue, "a commit"),
            ("--sha", BadValue, "--sha="),
            ("k=1 k=2", BadValue, "twice"),
            ("k=", BadValue, "values"),
            ("#12a", BadValue, "an issue"),
            ("a && b", BadValue, "one command per line"),
            ("a; rm -rf", BadValue, "one command per line"),
            ("a /retest b", Glued, "/retest"),
            ("a/retest b", Glued, "/retest"),
            ("'a b", UnclosedQuote, "close the quote"),
            ("l\u{430}va", LookAlike, "by hand"),
            (&long, BadValue, "1 to 255"),
            (&many, TooMany, "at most 100"),
        ];
        for (args, kind, hint) in table {
            let fault = read(args).expect_err(args);
            assert_eq!(fault.kind, kind, "{args}");
            assert!(fault.hint.contains(hint), "{args}: {}", fault.hint);
        }
        assert_eq!(words("ci/test a/help"), ["ci/test", "a/help"], "short command names end real job names");
    }
}
