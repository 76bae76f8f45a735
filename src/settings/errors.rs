//! What is wrong with a configuration: every fault with its place, its path and the next thing to do.
//!
//! `{}` is one line per fault, for logs; `{:#}` adds the line of the file with a caret, for a terminal. Neither ever holds
//! a secret: lines that might are left out (`document.rs` decides), values of secrets are never part of a text.

use std::fmt;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    /// The key it is about, such as `forge[0].webhook_secrets[1]`; empty when it is about the whole file.
    pub path: String,
    /// What is wrong.
    pub text: String,
    /// What to do next; empty when the text says it already.
    pub hint: String,
    /// Where it stands in the file, if it stands there at all.
    pub place: Option<Place>,
}

/// A place in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The line and a caret below it, unless the line may hold a secret.
    pub excerpt: Option<String>,
}

impl SettingsError {
    /// A fault at `path`, without a place yet.
    pub(super) fn new(path: &str, text: impl AsRef<str>, hint: impl AsRef<str>) -> Self {
        Self { path: path.to_owned(), text: printable(text.as_ref()), hint: printable(hint.as_ref()), place: None }
    }
}

/// The text on one line: what would move a terminal's cursor is shown escaped.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> =
                if c.is_control() { Box::new(c.escape_default()) } else { Box::new(std::iter::once(c)) };
            escaped
        })
        .collect()
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "line {}: ", place.line)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.text)?;
        if !self.hint.is_empty() {
            write!(f, "; hint: {}", self.hint)?;
        }
        if f.alternate()
            && let Some(excerpt) = self.place.as_ref().and_then(|p| p.excerpt.as_ref())
        {
            write!(f, "\n{excerpt}")?;
        }
        Ok(())
    }
}

/// All faults found in one reading, in the order of the file.
///
/// Never empty when it is returned as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsErrors(pub Vec<SettingsError>);

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            if f.alternate() {
                write!(f, "{fault:#}")?;
            } else {
                write!(f, "{fault}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for SettingsErrors {}

impl From<SettingsError> for SettingsErrors {
    fn from(fault: SettingsError) -> Self {
        Self(vec![fault])
    }
}
