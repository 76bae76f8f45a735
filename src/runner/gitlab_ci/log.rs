//! Makes the raw log of a GitLab job readable: no section marks, no overwritten progress lines, no colours.

use crate::runner::log_text;

/// Readable text of a raw log, at most `bytes_max` bytes of its end. `broken` says that the first line is half a line.
pub(super) fn readable(raw: &[u8], broken: bool, bytes_max: usize) -> String {
    let raw = String::from_utf8_lossy(raw);
    let mut lines = raw.split('\n');
    if broken && raw.contains('\n') {
        lines.next();
    }
    let mut text = String::with_capacity(raw.len());
    for line in lines {
        let (line, marked) = without_marks(line);
        let shown = line.trim_end_matches('\r');
        // What stands before a carriage return was overwritten on the terminal.
        let shown = shown.rsplit('\r').next().unwrap_or(shown);
        let clean = log_text::plain(shown.as_bytes());
        if clean.is_empty() && marked {
            continue;
        }
        text.push_str(&clean);
        text.push('\n');
    }
    let text = text.trim_end();
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    text.get(from..).unwrap_or_default().to_owned()
}

/// Takes away `section_start:TIME:NAME[options]` and `section_end:TIME:NAME`, which end with a carriage return.
fn without_marks(line: &str) -> (String, bool) {
    let (mut rest, mut kept, mut marked) = (line, String::new(), false);
    while let Some(at) = rest.find("section_start:").or_else(|| rest.find("section_end:")) {
        let at = rest.find("section_end:").map_or(at, |end| end.min(at));
        let (before, mark) = rest.split_at(at);
        let is_mark =
            mark.split(':').nth(1).is_some_and(|time| !time.is_empty() && time.bytes().all(|b| b.is_ascii_digit()));
        let Some(end) = mark.find('\r').filter(|_| is_mark) else { break };
        kept.push_str(before);
        rest = mark.get(end + 1..).unwrap_or_default();
        marked = true;
    }
    kept.push_str(rest);
    (kept, marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_reads_as_the_terminal_showed_it() {
        let table: [(&str, &str, &str); 7] = [
            ("\u{1b}[31;1mERROR\u{1b}[0m: no\n", "ERROR: no", "colours"),
            ("section_start:1560896352:build[collapsed=true]\r\u{1b}[0KBuilding\n", "Building", "a section begins"),
            ("a\nsection_end:1560896353:build\r\u{1b}[0K\nb\n", "a\nb", "a line of marks alone is no line"),
            (
                "section_end:1:a\r\u{1b}[0Ksection_start:2:b\r\u{1b}[0K$ make\n",
                "$ make",
                "one section ends where the next begins",
            ),
            ("10 %\r50 %\r100 %\r\ndone\n", "100 %\ndone", "progress"),
            ("see section_start: it explains\n", "see section_start: it explains", "a text that speaks of marks"),
            ("\u{1b}]8;;https://x\u{7}link\u{1b}]8;;\u{7}\u{0}\n", "link", "links and zero bytes"),
        ];
        for (raw, text, why) in table {
            assert_eq!(readable(raw.as_bytes(), false, 1_000), text, "{why}");
        }
    }

    #[test]
    fn only_whole_lines_and_whole_characters_are_shown() {
        assert_eq!(readable(b"lf a line\nwhole", true, 100), "whole");
        assert_eq!(readable("ééé".as_bytes(), false, 3), "é", "a cut between the two bytes of a letter");
        assert_eq!(readable(&[b'a', 0xff, b'b'], false, 100), "a\u{fffd}b", "bytes that are no text");
    }
}
