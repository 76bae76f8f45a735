//! What was meant as a command and is none: told to the writer, never run.
//!
//! A mistake quotes the comment, so its text is as untrusted as the comment: it is cut to [`TEXT_CHARS_MAX`] characters
//! and invisible characters are written as code points, but whoever shows it must still escape it.

/// Longest text or hint of a mistake, in characters.
pub const TEXT_CHARS_MAX: usize = 80;

/// Something that looked like a command and was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong with it.
    pub kind: MistakeKind,
    /// The words at fault, cut, with invisible characters as code points. Untrusted: escape it.
    pub text: String,
    /// What to write instead, or what to do. May repeat words of the comment: escape it.
    pub hint: String,
    /// The line of the comment, counted from 1.
    pub line: u32,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MistakeKind {
    /// A name one slip away from a command: `/retset`.
    NearMiss,
    /// Command and argument, or two commands, run into each other: `/retest:lava-x86`.
    Glued,
    /// A command in the middle of a line that asks for it: `please /retest`.
    MidLine,
    /// An option that this command does not have.
    UnknownOption,
    /// A value that cannot be right: `times=0`, a name of 3,000 letters, shell syntax.
    BadValue,
    /// The command needs a word that is not there.
    MissingArgument,
    /// A quote that is opened and never closed.
    UnclosedQuote,
    /// More commands in the comment, or words in the command, than allowed. Those before the limit count.
    TooMany,
    /// The comment or the line is too long to be read with certainty.
    TooLong,
    /// Invisible or direction-changing characters inside a command.
    HiddenCharacters,
    /// Letters of two scripts mixed in one word, so that it looks like another.
    LookAlike,
    /// HTML among the arguments.
    Markup,
    /// All that the command is about is struck out.
    StruckOut,
}

impl MistakeKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::NearMiss,
        Self::Glued,
        Self::MidLine,
        Self::UnknownOption,
        Self::BadValue,
        Self::MissingArgument,
        Self::UnclosedQuote,
        Self::TooMany,
        Self::TooLong,
        Self::HiddenCharacters,
        Self::LookAlike,
        Self::Markup,
        Self::StruckOut,
    ];

    /// The kind's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NearMiss => "near_miss",
            Self::Glued => "glued",
            Self::MidLine => "mid_line",
            Self::UnknownOption => "unknown_option",
            Self::BadValue => "bad_value",
            Self::MissingArgument => "missing_argument",
            Self::UnclosedQuote => "unclosed_quote",
            Self::TooMany => "too_many",
            Self::TooLong => "too_long",
            Self::HiddenCharacters => "hidden_characters",
            Self::LookAlike => "look_alike",
            Self::Markup => "markup",
            Self::StruckOut => "struck_out",
        }
    }

    /// Whether the line only came close to a command. A comment gets one such hint at most.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::NearMiss | Self::Glued | Self::MidLine)
    }
}

/// A mistake before its line is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: MistakeKind,
    pub text: String,
    pub hint: String,
}

impl Fault {
    /// Cuts both texts to [`TEXT_CHARS_MAX`].
    pub fn new(kind: MistakeKind, text: &str, hint: impl AsRef<str>) -> Self {
        Self { kind, text: shown(text), hint: shown(hint.as_ref()) }
    }

    /// Letters written as code points, because showing them would show nothing.
    pub fn code_points(kind: MistakeKind, letters: &[char], hint: &str) -> Self {
        let mut points: Vec<String> = letters.iter().map(|c| format!("U+{:04X}", u32::from(*c))).collect();
        points.dedup();
        Self::new(kind, &points.join(" "), hint)
    }

    pub fn at(self, line: u32) -> Mistake {
        Mistake { kind: self.kind, text: self.text, hint: self.hint, line }
    }
}

/// The text cut to [`TEXT_CHARS_MAX`] characters, an ellipsis where it was cut, control characters as code points.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count >= TEXT_CHARS_MAX - 1 && text.chars().nth(TEXT_CHARS_MAX).is_some() {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.push_str(&format!("U+{:04X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        let fault = Fault::new(MistakeKind::BadValue, &"é".repeat(4_000), "");
        assert_eq!(fault.text.chars().count(), TEXT_CHARS_MAX);
        assert!(fault.text.ends_with('…'));
        assert_eq!(Fault::new(MistakeKind::BadValue, &"x".repeat(80), "").text.len(), 80, "80 fit");
    }

    #[test]
    fn invisible_letters_are_shown_as_code_points() {
        let fault = Fault::code_points(MistakeKind::HiddenCharacters, &['\u{200b}', '\u{200b}', '\u{202e}'], "");
        assert_eq!(fault.text, "U+200B U+202E");
    }

    #[test]
    fn every_kind_has_its_own_name() {
        let names: std::collections::BTreeSet<_> = MistakeKind::ALL.iter().map(|k| k.as_str()).collect();
        assert_eq!(names.len(), MistakeKind::ALL.len());
    }
}
