//! Turns serde's complaints into sentences for operators, and knows how keys and paths are written.
//!
//! serde's texts quote values, and a value may be a secret put in the wrong place; so nothing but names and kinds
//! is taken from them. Read next: `document.rs`, the only caller that has such complaints.

use super::schema;
use serde_json::Value;

/// Similarity from which a known word is offered for an unknown one (1 is equal).
const SIMILAR_MIN: f64 = 0.55;

/// Words in a path that say that its value is, or points to, a secret.
const SECRET_WORDS: [&str; 6] = ["secret", "token", "private_key", "signing_key", "passw", "credential"];

/// What is wrong with one entry, in our words.
pub(super) struct Complaint {
    pub text: String,
    pub hint: String,
    /// The known key that was probably meant.
    pub meant: Option<String>,
    /// Whether the key itself is what is wrong.
    pub unknown_key: bool,
}

/// Rewords serde's `message` about the entry `key` at `path`.
pub(super) fn complaint(message: &str, (path, key): (&str, &str), schema: &Value) -> Complaint {
    if message.starts_with("unknown field") {
        return unknown_key(message, key, schema);
    }
    if message.starts_with("unknown variant") {
        return unknown_word(message);
    }
    let about_secret = !path.ends_with("_header") && !path.ends_with("_scheme");
    let (text, hint) = if about_secret && is_secret(path) {
        (
            "a secret is pointed to, never written here".to_owned(),
            "write { env = \"NAME\" } or { file = \"/run/secrets/NAME\" }, several of them as [{ … }, { … }]; \
             change the secret if this file was shared"
                .to_owned(),
        )
    } else {
        (wrong_type(message), String::new())
    };
    Complaint { text, hint, meant: None, unknown_key: false }
}

fn unknown_key(message: &str, key: &str, schema: &Value) -> Complaint {
    let known = message.rsplit_once(", expected ").map(|(_, list)| backticked(list)).unwrap_or_default();
    let meant = nearest(key, &known).map(str::to_owned);
    let homes = schema::homes_of(key, schema);
    let hint = match (&meant, homes.as_slice()) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, []) => format!("the keys known here are {}", listed(&known)),
        (None, homes) => format!("that key belongs to {}", homes.join(", ")),
    };
    Complaint { text: format!("unknown key `{key}`"), hint, meant, unknown_key: true }
}

fn unknown_word(message: &str) -> Complaint {
    let (word, list) = message.rsplit_once(", expected ").unwrap_or((message, "nothing"));
    let word = word.trim_start_matches("unknown variant `").trim_end_matches('`');
    let known = backticked(list);
    let hint = match nearest(word, &known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => String::new(),
    };
    Complaint { text: format!("`{word}` is not one of {}", listed(&known)), hint, meant: None, unknown_key: false }
}

/// "expected A, found B" without the value itself.
fn wrong_type(message: &str) -> String {
    if message.starts_with("wanted string or table") {
        return "expected one of its words in quotes".to_owned();
    }
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return "cannot be read".to_owned();
    };
    let expected = expected_kind(expected);
    if found.starts_with("invalid value: integer") || found.starts_with("invalid value: floating") {
        return format!("out of range: expected {expected}");
    }
    let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
    let kind = found.split([' ', '`', '"']).next().unwrap_or_default();
    let found = match kind {
        "string" => "a text",
        "integer" => "a whole number",
        "floating" => "a broken number",
        "boolean" => "true or false",
        "map" => "a table",
        "sequence" => "an array",
        _ => "something else",
    };
    format!("expected {expected}, found {found}")
}

fn expected_kind(expected: &str) -> &str {
    match expected.trim() {
        "a string" => "a text in quotes",
        "a boolean" => "true or false",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "a sequence" => "an array",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other if other.contains("string") || other.starts_with("enum ") => "one of its words in quotes",
        other => other,
    }
}

/// The candidate most like `word`, if any is like it.
pub(super) fn nearest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let word = word.to_lowercase().replace('-', "_");
    candidates
        .iter()
        .map(|&candidate| {
            let plain = candidate.replace('-', "_");
            let contained = word.len() >= 4 && (plain.contains(&word) || word.contains(&plain));
            let score = strsim::normalized_damerau_levenshtein(&word, &plain);
            (candidate, if contained { score.max(0.6) } else { score })
        })
        .filter(|(_, score)| *score >= SIMILAR_MIN)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, _)| candidate)
}

/// Words in backticks, with commas.
pub(super) fn listed(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

fn backticked(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether a path or line speaks of a secret.
pub(super) fn is_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| text.contains(word))
}

/// Whether what stands at a path, or in a line, may be a secret that was written where it does not belong.
pub(super) fn may_be_secret(text: &str) -> bool {
    /// Words of places where people put secrets although there are keys for them.
    const PLACES: [&str; 4] = ["headers", "environment", "cookie", "authorization"];
    let lower = text.to_ascii_lowercase();
    is_secret(text) || PLACES.iter().any(|word| lower.contains(word))
}

/// `parent.key`, with the key quoted as TOML needs it.
pub(super) fn join(parent: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let key = if bare { key.to_owned() } else { format!("\"{}\"", key.escape_default()) };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}
