//! Where the writer's own words end in a reply by e-mail.
//!
//! Mail programs append the message they answer: below a line such as `On … wrote:`, below `-----Original Message-----`
//! or below a block of header lines, quoted with `>` or not at all. Quoted text is skipped as any quote is, and what
//! stands under it counts; unquoted text cannot be told from the writer's own, so nothing after it counts.

/// What a line says about the lines after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing.
    None,
    /// Somebody else's words follow; whether they are quoted must be looked at.
    Attribution,
    /// All that follows is somebody else's.
    End,
}

/// Words that end an attribution line, in the languages of the widespread mail programs.
const WROTE: [&str; 26] = [
    "wrote",
    "writes",
    "schrieb",
    "écrit",
    "escribió",
    "escribio",
    "scritto",
    "escreveu",
    "schreef",
    "geschreven",
    "skrev",
    "kirjoitti",
    "napisał",
    "napisał(a)",
    "pisze",
    "napsal",
    "napsal(a)",
    "написал",
    "написал(а)",
    "пишет",
    "yazdı",
    "írta",
    "scris",
    "写道",
    "作成",
    "έγραψε",
];

/// Titles between dashes, lower case.
const TITLES: [&str; 14] = [
    "original message",
    "forwarded message",
    "original appointment",
    "ursprüngliche nachricht",
    "originalnachricht",
    "weitergeleitete nachricht",
    "message d'origine",
    "message original",
    "message transféré",
    "mensaje original",
    "messaggio originale",
    "mensagem original",
    "oorspronkelijk bericht",
    "wiadomość oryginalna",
];

/// First words of a header block: who sent it, then when or to whom.
const FROM: [&str; 9] = ["from:", "von:", "de:", "da:", "van:", "od:", "från:", "от:", "发件人:"];
const SENT: [&str; 15] = [
    "sent:",
    "date:",
    "to:",
    "gesendet:",
    "datum:",
    "an:",
    "envoyé:",
    "enviado:",
    "fecha:",
    "inviato:",
    "data:",
    "verzonden:",
    "wysłano:",
    "skickat:",
    "发送时间:",
];

/// Looks at a line, trimmed, and the one before it in the same paragraph.
pub(crate) fn mark(before: &str, line: &str) -> Mark {
    if is_title(line) || is_footer(line) || (begins(before, &FROM) && begins(line, &SENT)) {
        return Mark::End;
    }
    if is_attribution(line) || (ends_with_wrote(line) && is_attribution(&format!("{before} {line}"))) {
        return Mark::Attribution;
    }
    Mark::None
}

/// Whether a line, without blanks at its start, could be a mark; cheap, for texts too long to look at whole.
pub(crate) fn may_be_mark(line: &str) -> bool {
    let bytes = line.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    // The last byte of a full-width colon is 0x9a; a blank at the end hides what is before it.
    if matches!(last, b':' | 0x9a | b' ' | b'\t') && line.trim_end().ends_with([':', '：']) {
        return true;
    }
    match first {
        b'-' => line.starts_with("--"),
        b'*' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
            let has_colon = bytes.iter().take(32).take_while(|b| **b != b' ').any(|b| *b == b':');
            (has_colon && (begins(line, &FROM) || begins(line, &SENT))) || is_footer(line)
        }
        _ => false,
    }
}

/// Whether the text begins with the line of two dashes and a space that begins a signature (RFC 3676 section 4.3).
pub(crate) fn begins_signature(text: &str) -> bool {
    text.strip_prefix("-- ").is_some_and(|rest| rest.starts_with(['\n', '\r']))
}

fn is_title(line: &str) -> bool {
    let title = line.trim_matches(|c: char| matches!(c, '-' | '_' | '=') || c.is_whitespace());
    line.starts_with("--") && line.len() <= 200 && TITLES.contains(&title.to_lowercase().replace('’', "'").as_str())
}

fn is_footer(line: &str) -> bool {
    ["Reply to this email directly", "You are receiving this because", "Sent from my "]
        .iter()
        .any(|footer| line.starts_with(footer))
}

fn begins(line: &str, words: &[&str]) -> bool {
    line.split_whitespace().next().is_some_and(|first| {
        let first = first.trim_matches('*');
        first.len() <= 24 && first.ends_with(':') && words.contains(&first.to_lowercase().as_str())
    })
}

/// A date or an address, then a word for writing, then a colon. A day of the week is a date where the line begins as mail
/// programs begin it.
fn is_attribution(line: &str) -> bool {
    let begins = ["On ", "Am ", "Le ", "El ", "Il ", "Op ", "Em "].iter().any(|word| line.starts_with(word));
    let dated = line.contains('@') || line.chars().any(|c| c.is_ascii_digit()) || (begins && line.contains(','));
    line.len() <= 500 && ends_with_wrote(line) && dated
}

/// Ends with a colon and has a word for writing among its last words: German and Dutch put the name after it.
fn ends_with_wrote(line: &str) -> bool {
    let Some(body) = line.trim_end().strip_suffix([':', '：']) else { return false };
    if body.len() > 1_000 {
        return false;
    }
    let wrote = |word: &str| {
        let word = word.trim_matches([',', '<', '>']).to_lowercase();
        WROTE.contains(&word.as_str()) || word.ends_with("写道") || word.ends_with("書きました")
    };
    body.split_whitespace().rev().take(6).any(wrote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributions_are_known_in_many_languages() {
        for line in [
            "On Tue, 3 Jun 2025 at 09:12, ci-bot <notifications@example.com> wrote:",
            "On Monday, Bob wrote:",
            "Am 03.06.2025 um 09:12 schrieb ci-bot:",
            "Le mar. 3 juin 2025 à 09:12, ci-bot <n@example.com> a écrit :",
            "El mar, 3 jun 2025 a las 9:12, ci-bot (<n@example.com>) escribió:",
            "Il giorno mar 3 giu 2025 alle ore 09:12 ci-bot ha scritto:",
            "Op di 3 jun 2025 om 09:12 schreef ci-bot <n@example.com>:",
            "W dniu 3.06.2025 o 09:12, ci-bot pisze:",
            "вт, 3 июн. 2025 г. в 09:12, ci-bot написал:",
            "ci-bot <n@example.com> 于2025年6月3日周二 09:12写道：",
        ] {
            assert_eq!(mark("", line), Mark::Attribution, "{line}");
        }
        assert_eq!(mark("On Tue, 3 Jun 2025, ci-bot", "<n@example.com> wrote:"), Mark::Attribution, "wrapped");
        assert_eq!(mark("On Tue, 3 Jun 2025, ci-bot", "wrote:"), Mark::Attribution, "wrapped before the verb");
    }

    #[test]
    fn separators_end_the_own_words() {
        assert_eq!(mark("", "-----Original Message-----"), Mark::End);
        assert_eq!(mark("", "---------- Forwarded message ---------"), Mark::End);
        assert_eq!(mark("", "----- Ursprüngliche Nachricht -----"), Mark::End);
        assert_eq!(mark("From: ann@example.com", "Sent: Tuesday"), Mark::End);
        assert_eq!(mark("**Von:** ann", "**Gesendet:** Dienstag"), Mark::End, "Outlook's bold headers");
    }

    #[test]
    fn prose_is_no_mark() {
        for line in ["He wrote:", "From: here on it fails", "-- a dash", "On Tuesday we meet", "log of step 3:"] {
            assert_eq!(mark("", line), Mark::None, "{line}");
        }
    }
}
