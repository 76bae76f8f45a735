//! What an operator or a repository may choose about the grammar, checked once.
//!
//! A [`Grammar`] is built from [`GrammarSettings`] and cannot be wrong afterwards: every alias means a command that
//! parses, every disabled command exists, the prefix is one word.

use std::fmt;

use crate::command::{COMMANDS, CommandDoc};
use crate::{line, normalise};

/// Place for the captured tail in [`Alias::means`].
pub const TAIL: &str = "{tail}";
/// Most aliases of one grammar.
pub const ALIASES_MAX: usize = 500;

/// Choices for a [`Grammar`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrammarSettings {
    /// With `/bot`, commands are written `/bot retest x` and a plain `/retest` belongs to somebody else. With or
    /// without the slash; ASCII letters, digits, `-`, `_`.
    pub prefix: Option<String>,
    /// Logins that may be addressed: `@ci-bot retest`. Without `@`; `[bot]` at the end is optional. Case is ignored.
    pub bot_logins: Vec<String>,
    /// Phrases of other bots' habits that mean one of our commands.
    pub aliases: Vec<Alias>,
    /// Built-in commands that are left to other bots here, by [`CommandDoc::name`].
    pub disabled: Vec<String>,
    /// Most commands of one comment that count.
    pub commands_max: usize,
    /// Longest comment that is read, in bytes.
    pub text_bytes_max: usize,
}

impl Default for GrammarSettings {
    /// No prefix, no login, no alias, nothing disabled, 20 commands, 1 MiB (GitLab's notes have a million characters).
    fn default() -> Self {
        Self {
            prefix: None,
            bot_logins: Vec::new(),
            aliases: Vec::new(),
            disabled: Vec::new(),
            commands_max: 20,
            text_bytes_max: 1 << 20,
        }
    }
}

/// A phrase that means a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The whole line, word by word, in any case; `*` as last word captures the rest of the line, which may be empty.
    pub phrase: String,
    /// The command, with its slash and without any prefix; [`TAIL`] is replaced by what `*` captured, and without it
    /// the captured words are dropped.
    pub means: String,
}

/// Why settings make no grammar. The text says which value and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrammarError {
    /// Which setting.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`: {}", self.setting, self.value, self.why)
    }
}

impl std::error::Error for GrammarError {}

/// Checked settings, ready to parse with. Cheap to share, not to build per comment.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// Lower case, without the slash.
    pub(crate) prefix: Option<String>,
    /// Lower case, without `[bot]`.
    pub(crate) logins: Vec<String>,
    pub(crate) aliases: Vec<Phrase>,
    pub(crate) commands: Vec<&'static CommandDoc>,
    pub(crate) commands_max: usize,
    pub(crate) text_bytes_max: usize,
}

/// An alias ready to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Phrase {
    /// Lower case.
    pub words: Vec<String>,
    pub captures: bool,
    pub means: String,
}

impl Default for Grammar {
    /// The grammar of [`GrammarSettings::default`].
    fn default() -> Self {
        let settings = GrammarSettings::default();
        Self {
            prefix: None,
            logins: Vec::new(),
            aliases: Vec::new(),
            commands: COMMANDS.iter().collect(),
            commands_max: settings.commands_max,
            text_bytes_max: settings.text_bytes_max,
        }
    }
}

impl Grammar {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`GrammarError`] names the first value that cannot be used.
    pub fn new(settings: GrammarSettings) -> Result<Self, GrammarError> {
        let mut grammar = Self {
            prefix: settings.prefix.as_deref().map(checked_prefix).transpose()?,
            logins: settings.bot_logins.iter().map(|login| checked_login(login)).collect::<Result<_, _>>()?,
            aliases: Vec::new(),
            commands: enabled(&settings.disabled)?,
            commands_max: settings.commands_max,
            text_bytes_max: settings.text_bytes_max,
        };
        if grammar.commands_max == 0 {
            return Err(GrammarError::new("commands_max", "0", "at least 1, or nothing would ever run"));
        }
        if settings.aliases.len() > ALIASES_MAX {
            let count = settings.aliases.len().to_string();
            return Err(GrammarError::new("aliases", &count, "at most 500"));
        }
        for alias in &settings.aliases {
            let phrase = grammar.checked_alias(alias)?;
            if grammar.aliases.iter().any(|a| a.words == phrase.words && a.captures == phrase.captures) {
                return Err(GrammarError::new("alias", &alias.phrase, "is there twice"));
            }
            grammar.aliases.push(phrase);
        }
        Ok(grammar)
    }

    /// The commands that are not disabled, in the order of the help.
    pub fn commands(&self) -> &[&'static CommandDoc] {
        &self.commands
    }

    /// How a command is written here: `/retest`, or `/bot retest` with a prefix.
    pub fn spelled(&self, name: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("/{prefix} {name}"),
            None => format!("/{name}"),
        }
    }

    /// The enabled command of this name, case ignored.
    pub(crate) fn find(&self, name: &str) -> Option<&'static CommandDoc> {
        self.commands.iter().copied().find(|doc| doc.name.eq_ignore_ascii_case(name))
    }

    fn checked_alias(&self, alias: &Alias) -> Result<Phrase, GrammarError> {
        let wrong = |why: &str| GrammarError::new("alias", &alias.phrase, why);
        if alias.phrase.len() > 200 || alias.means.len() > 500 {
            return Err(wrong("phrases have at most 200 bytes, meanings 500"));
        }
        let cleaned = normalise::clean(&alias.phrase);
        let mut words: Vec<String> = cleaned.text.split_whitespace().map(str::to_lowercase).collect();
        let captures = words.last().is_some_and(|w| w == "*");
        if captures {
            words.pop();
        }
        if words.is_empty() || !cleaned.hidden.is_empty() {
            return Err(wrong("needs at least one visible word besides `*`"));
        }
        if alias.means.contains(TAIL) && !captures {
            return Err(wrong("uses `{tail}`, so its last word must be `*`"));
        }
        let means = alias.means.trim().to_owned();
        // A command that needs a word gets it from the line; without one the line is a mistake like any other.
        if ["", "word"].iter().all(|tail| line::read_meaning(&means.replace(TAIL, tail), self).is_none()) {
            return Err(GrammarError::new(
                "alias",
                &alias.phrase,
                "its meaning must be one enabled command such as `/retest`",
            ));
        }
        Ok(Phrase { words, captures, means })
    }
}

impl GrammarError {
    fn new(setting: &'static str, value: &str, why: &str) -> Self {
        Self { setting, value: value.chars().take(80).collect(), why: why.to_owned() }
    }
}

fn checked_prefix(prefix: &str) -> Result<String, GrammarError> {
    let word = prefix.strip_prefix('/').unwrap_or(prefix).trim();
    let is_word = word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if word.is_empty() || word.len() > 40 || !is_word {
        return Err(GrammarError::new("prefix", prefix, "one word of at most 40 ASCII letters, digits, `-` or `_`"));
    }
    Ok(word.to_ascii_lowercase())
}

fn checked_login(login: &str) -> Result<String, GrammarError> {
    let bare = login.strip_prefix('@').unwrap_or(login);
    let bare = bare.strip_suffix("[bot]").unwrap_or(bare);
    let is_login = bare.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if bare.is_empty() || bare.len() > 255 || !is_login {
        return Err(GrammarError::new("bot_logins", login, "a login of ASCII letters, digits, `-`, `_` or `.`"));
    }
    Ok(bare.to_ascii_lowercase())
}

fn enabled(disabled: &[String]) -> Result<Vec<&'static CommandDoc>, GrammarError> {
    for name in disabled {
        if !COMMANDS.iter().any(|doc| doc.name == name) {
            let names: Vec<&str> = COMMANDS.iter().map(|doc| doc.name).collect();
            return Err(GrammarError::new(
                "disabled",
                name,
                &format!("no such command; there are {}", names.join(", ")),
            ));
        }
    }
    Ok(COMMANDS.iter().filter(|doc| !disabled.iter().any(|name| name == doc.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(change: impl FnOnce(&mut GrammarSettings)) -> String {
        let mut settings = GrammarSettings::default();
        change(&mut settings);
        Grammar::new(settings).expect_err("refused").to_string()
    }

    #[test]
    fn wrong_settings_are_named() {
        let alias = |phrase: &str, means: &str| vec![Alias { phrase: phrase.into(), means: means.into() }];
        let table = [
            (error(|s| s.prefix = Some("/a b".into())), "prefix `/a b`"),
            (error(|s| s.prefix = Some("/".into())), "prefix `/`"),
            (error(|s| s.bot_logins = vec!["a b".into()]), "bot_logins `a b`"),
            (error(|s| s.disabled = vec!["tset".into()]), "disabled `tset`: no such command; there are retest, test"),
            (error(|s| s.commands_max = 0), "commands_max `0`"),
            (error(|s| s.aliases = alias("*", "/retest")), "alias `*`: needs at least one visible word"),
            (error(|s| s.aliases = alias("recheck", "retest")), "alias `recheck`: its meaning must be one"),
            (error(|s| s.aliases = alias("recheck", "/retest --frce")), "alias `recheck`: its meaning must be one"),
            (error(|s| s.aliases = alias("recheck", "/retest {tail}")), "its last word must be `*`"),
            (
                error(|s| s.aliases = [alias("a b", "/retest"), alias("A  b", "/help")].concat()),
                "alias `A  b`: is there twice",
            ),
        ];
        for (text, wanted) in table {
            assert!(text.contains(wanted), "{text}\nlacks: {wanted}");
        }
    }

    #[test]
    fn an_alias_cannot_mean_a_disabled_command() {
        let settings = GrammarSettings {
            disabled: vec!["test".into()],
            aliases: vec![Alias { phrase: "run *".into(), means: "/test {tail} x".into() }],
            ..GrammarSettings::default()
        };
        assert!(Grammar::new(settings).is_err());
    }

    #[test]
    fn the_default_grammar_is_that_of_the_default_settings() {
        let built = Grammar::new(GrammarSettings::default()).expect("valid");
        assert_eq!(format!("{built:?}"), format!("{:?}", Grammar::default()));
    }
}
