//! What the words of a command may mean: names, globs, reserved words, pages.
//!
//! Nothing here knows any job. Whether a name exists, and which job it is, is found out by the planner, which tries
//! [`Selection::whole`] first. Read next: `arguments.rs`, which fills these in.

/// Longest name or glob, in bytes: what GitHub and GitLab accept as the name of a status (255).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest address of a page, in bytes.
pub const URL_BYTES_MAX: usize = 2_048;

/// Which jobs a command is about. Empty means what the bare command means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The unquoted rest of the line as one name, to be tried before [`Selection::words`]. Only where it differs from
    /// them: at least two words, none quoted, no page, runner, platform or glob among them, no option in between.
    pub whole: Option<String>,
    /// The words one by one, in the order written.
    pub words: Vec<Selector>,
}

impl Selection {
    /// Whether nothing was selected, so that the bare command is meant.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words as they would be typed.
    pub fn texts(&self) -> Vec<String> {
        self.words.iter().map(Selector::to_text).collect()
    }
}

/// One word that selects jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A name: exact, or unique when case is ignored.
    Name(String),
    /// A pattern with `*`, `?` or `{a,b}`.
    Glob(String),
    /// `failed`: what a bare `/retest` means.
    Failed,
    /// `required`: of those, the ones that block merging.
    Required,
    /// `optional`: of those, the ones that do not.
    Optional,
    /// `all`: passed ones too.
    All,
    /// `runner:NAME`.
    Runner(String),
    /// `platform:NAME`.
    Platform(String),
    /// The page of a run, `http://` or `https://`.
    Url(String),
}

impl Selector {
    /// The word as it would be typed, without quotes.
    pub fn to_text(&self) -> String {
        match self {
            Self::Name(text) | Self::Glob(text) | Self::Url(text) => text.clone(),
            Self::Failed => "failed".to_owned(),
            Self::Required => "required".to_owned(),
            Self::Optional => "optional".to_owned(),
            Self::All => "all".to_owned(),
            Self::Runner(name) => format!("runner:{name}"),
            Self::Platform(name) => format!("platform:{name}"),
        }
    }

    /// Whether the word means every job, passed ones included: `all`, or a glob of stars only.
    pub fn is_everything(&self) -> bool {
        match self {
            Self::All => true,
            Self::Glob(glob) => glob.chars().all(|c| c == '*'),
            Self::Name(_)
            | Self::Failed
            | Self::Required
            | Self::Optional
            | Self::Runner(_)
            | Self::Platform(_)
            | Self::Url(_) => false,
        }
    }
}

/// Reads a word that stood without quotes: reserved words count.
pub(crate) fn bare(text: &str) -> Selector {
    match text.to_ascii_lowercase().as_str() {
        "failed" => return Selector::Failed,
        "required" => return Selector::Required,
        "optional" => return Selector::Optional,
        "all" => return Selector::All,
        _ => {}
    }
    if let Some(name) = after_prefix(text, "runner:") {
        return Selector::Runner(name.to_owned());
    }
    if let Some(name) = after_prefix(text, "platform:") {
        return Selector::Platform(name.to_owned());
    }
    literal(text)
}

/// Reads a word that stood in quotes or back-ticks, or was a link's text: a page, a glob or a name, never reserved.
pub(crate) fn literal(text: &str) -> Selector {
    if is_url(text) {
        Selector::Url(text.to_owned())
    } else if is_glob(text) {
        Selector::Glob(text.to_owned())
    } else {
        Selector::Name(text.to_owned())
    }
}

/// Whether the text is the address of a page.
pub(crate) fn is_url(text: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| after_prefix(text, scheme).is_some())
}

fn is_glob(text: &str) -> bool {
    let braces = text.find('{').zip(text.rfind('}')).and_then(|(open, close)| text.get(open..close));
    text.contains(['*', '?']) || braces.is_some_and(|inner| inner.contains(','))
}

/// What follows `prefix` (ASCII, case ignored), if anything does.
fn after_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    (head.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_count_only_without_quotes() {
        let table = [
            ("failed", Selector::Failed),
            ("Required", Selector::Required),
            ("optional", Selector::Optional),
            ("ALL", Selector::All),
            ("runner:lava", Selector::Runner("lava".into())),
            ("platform:qemu", Selector::Platform("qemu".into())),
            ("runner:", Selector::Name("runner:".into())),
            ("lava-*", Selector::Glob("lava-*".into())),
            ("lava-{x86,arm64}", Selector::Glob("lava-{x86,arm64}".into())),
            ("a{b}", Selector::Name("a{b}".into())),
            ("HTTPS://x.example/1", Selector::Url("HTTPS://x.example/1".into())),
        ];
        for (text, wanted) in table {
            assert_eq!(bare(text), wanted, "{text}");
        }
        assert_eq!(literal("all"), Selector::Name("all".into()), "quoted, so a job of that name");
    }

    #[test]
    fn only_all_and_stars_mean_everything() {
        assert!(bare("all").is_everything() && bare("*").is_everything() && bare("**").is_everything());
        assert!(!bare("lava-*").is_everything() && !bare("failed").is_everything());
    }
}
