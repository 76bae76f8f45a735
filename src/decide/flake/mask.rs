//! Takes secrets out of texts that are shown: a log may hold what its job failed to hide.
//!
//! It knows the forms of tokens that have one, and what stands after words such as `password=`. It cannot know a secret that looks
//! like a word; so excerpts are short, and only of lines that matched. Read next: `log.rs`.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::rules::EXCERPT_CHARS_MAX;

/// What stands for a secret.
const MASK: &str = "[masked]";

/// Forms of secrets: the pattern, and what takes its place. Names in front are kept, so that people see what was there.
/// `\w` and `\b` stand without Unicode: they compile fifty times faster.
const FORMS: [(&str, &str); 12] = [
    // A private key in PEM form, or what is left of one on a line.
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*", MASK),
    // GitLab: personal, trigger, runner, deploy, job, feed and agent tokens.
    (r"(?-u)\bgl(?:pat|ptt|rt|rtr|dt|cbt|ft|soat|agent|imt|oas|ffct)-[\w.-]{8,}", MASK),
    // GitHub: personal, OAuth, user, server and refresh tokens, and the fine-grained ones.
    (r"(?-u)\b(?:gh[pousr]_\w{10,}|github_pat_\w{10,})", MASK),
    // AWS, Google, Slack, npm, PyPI, OpenAI and the like.
    (r"(?-u)\b(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{12,}", MASK),
    (
        r"(?-u)\bAIza[\w-]{30,}|\bxox[abeprs]-[\w-]{8,}|\bnpm_\w{20,}|\bpypi-[\w-]{20,}|\bdckr_pat_[\w-]{10,}|\bsk-[\w-]{20,}",
        MASK,
    ),
    // A JSON Web Token.
    (r"(?-u)\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", MASK),
    // What an Authorization header holds.
    (r"(?i-u)\b(bearer|basic|token|digest)([ \t]+)[\w.~+/=-]{8,}", "${1}${2}[masked]"),
    (r"(?i)(authorization|cookie|x-[a-z-]*(?:token|key))(\s*[:=]\s*).+", "${1}${2}[masked]"),
    // `password=…`, `"api_key": "…"`, `--token …`, and environment variables that end so.
    (
        r#"(?i)((?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|credentials?)["']?\s*(?:=>|[=:])\s*)(?:"[^"]*"|'[^']*'|[^\s"'&,;]+)"#,
        "${1}[masked]",
    ),
    (r"(?i)(--?(?:password|passwd|token|secret|api-?key)\s+)\S+", "${1}[masked]"),
    // User and password in an address.
    (r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@]+@", "${1}[masked]@"),
    // A line of the body of a key: nothing but base64.
    (r"^\s*[A-Za-z0-9+/]{40,}={0,2}\s*$", MASK),
];

static MASKS: LazyLock<Vec<(Regex, &str)>> =
    LazyLock::new(|| FORMS.iter().filter_map(|(pattern, with)| Some((Regex::new(pattern).ok()?, *with))).collect());

/// The text with secrets of known forms taken out.
pub fn masked(text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    for (regex, with) in MASKS.iter() {
        if let Cow::Owned(new) = regex.replace_all(&text, *with) {
            text = Cow::Owned(new);
        }
    }
    text.into_owned()
}

/// At most [`EXCERPT_CHARS_MAX`] characters of a line, blanks at its ends left out, with `…` where it was cut; what stands at byte `at`
/// is among them.
pub(super) fn excerpt(line: &str, at: usize) -> String {
    let lead = line.len() - line.trim_start().len();
    let line = line.trim();
    if line.chars().count() <= EXCERPT_CHARS_MAX {
        return line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    let before = line.get(..line.floor_char_boundary(at.saturating_sub(lead))).unwrap_or_default().chars().count();
    let skipped = if before < EXCERPT_CHARS_MAX / 2 { 0 } else { before - EXCERPT_CHARS_MAX / 4 };
    let total = line.chars().count();
    let (front, back) = (usize::from(skipped > 0), usize::from(total - skipped > EXCERPT_CHARS_MAX));
    let kept = line.chars().skip(skipped).take(EXCERPT_CHARS_MAX - front - back);
    let kept = kept.map(|c| if c.is_control() { ' ' } else { c });
    std::iter::repeat_n('…', front).chain(kept).chain(std::iter::repeat_n('…', back)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_is_a_pattern() {
        assert_eq!(MASKS.len(), FORMS.len());
    }

    #[test]
    fn secrets_of_known_forms_are_taken_out_and_their_names_kept() {
        let table = [
            ("clone with glpat-abcDEF123456_7890xy failed", "clone with [masked] failed"),
            ("GITHUB: ghp_0123456789abcdefABCDEF0123456789abcd", "GITHUB: [masked]"),
            ("use github_pat_11ABCDEFG0abcdefghij_klmnop now", "use [masked] now"),
            ("key AKIAIOSFODNN7EXAMPLE denied", "key [masked] denied"),
            ("> Authorization: Bearer abcdef0123456789", "> Authorization: [masked]"),
            ("sent Bearer abcdef0123456789 twice", "sent Bearer [masked] twice"),
            ("curl --token abc123 x", "curl --token [masked] x"),
            ("password=hunter2 user=me", "password=[masked] user=me"),
            (r#"{"api_key": "abc def", "n": 1}"#, r#"{"api_key": [masked], "n": 1}"#),
            ("DB_PASSWORD: s3cr3t", "DB_PASSWORD: [masked]"),
            ("fetch https://me:pw@host/x and http://host/y", "fetch https://[masked]@host/x and http://host/y"),
            ("git+ssh://token@host/x", "git+ssh://[masked]@host/x"),
            ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.abc-def", "jwt [masked]"),
            ("-----BEGIN RSA PRIVATE KEY-----MIIEpAIBAAKC", "[masked]"),
            ("MIIEpAIBAAKCAQEAmIIEpAIBAAKCAQEAmIIEpAIBAAKCAQEA", "[masked]"),
            ("usb 1-1: device descriptor read/64, error -71", "usb 1-1: device descriptor read/64, error -71"),
            ("the token expired after basic checks", "the token expired after basic checks"),
        ];
        for (text, wanted) in table {
            assert_eq!(masked(text), wanted);
        }
    }

    #[test]
    fn an_excerpt_is_short_and_holds_the_match() {
        assert_eq!(excerpt("  short\tline ", 0), "short line");
        let long = format!("{}needle{}", "ä".repeat(300), "b".repeat(300));
        let shown = excerpt(&long, 600);
        assert!(shown.contains("needle") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(shown.chars().count(), EXCERPT_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn excerpts_are_bounded_whatever_the_place(line in "\\PC{0,500}", at in 0_usize..2_000) {
            prop_assert!(excerpt(&line, at).chars().count() <= EXCERPT_CHARS_MAX);
        }
    }
}
