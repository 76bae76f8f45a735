//! The fixed text that every match of a pattern holds: what one pass over a log looks for before any pattern is tried.
//!
//! Letter case of ASCII does not count here; the pattern itself is tried afterwards. **Invariant:** a line without any of a
//! pattern's needles does not match it. Read next: `log.rs`.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Shortest text that is looked for, in bytes.
pub(super) const NEEDLE_BYTES_MIN: usize = 3;
/// Longest text that is looked for; the rest of a longer one adds nothing.
const NEEDLE_BYTES_MAX: usize = 32;
/// Needles of one pattern; a choice between more is not looked at.
const NEEDLES_MAX: usize = 64;

/// Texts of which every match holds at least one, in small letters.
type Needles = Vec<Vec<u8>>;

/// The best needles of a pattern: those that `frequency` finds least often, then the longest. None when matches need not hold a
/// fixed text of at least [`NEEDLE_BYTES_MIN`] bytes, or when the pattern cannot be read.
pub(super) fn needles(pattern: &str, frequency: impl Fn(&[u8]) -> usize) -> Option<Needles> {
    let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
    let mut choices = Vec::new();
    collect(&hir, &frequency, &mut choices);
    best(choices, &frequency)
}

fn best(choices: Vec<Needles>, frequency: &impl Fn(&[u8]) -> usize) -> Option<Needles> {
    let rank = |needles: &Needles| {
        let often: usize = needles.iter().map(|needle| frequency(needle)).sum();
        let short = needles.iter().map(Vec::len).min().unwrap_or_default();
        (often, needles.len(), usize::MAX - short)
    };
    let usable = |needles: &Needles| {
        (1..=NEEDLES_MAX).contains(&needles.len()) && needles.iter().all(|n| n.len() >= NEEDLE_BYTES_MIN)
    };
    choices.into_iter().filter(usable).min_by_key(rank)
}

/// Adds every set of texts of which a match of `hir` must hold one.
fn collect(hir: &Hir, frequency: &impl Fn(&[u8]) -> usize, choices: &mut Vec<Needles>) {
    let mut run = Vec::new();
    follow(hir, frequency, &mut run, choices);
    end_run(&mut run, choices);
}

/// As [`collect`], where `run` is the fixed text directly before `hir`.
fn follow(hir: &Hir, frequency: &impl Fn(&[u8]) -> usize, run: &mut Vec<u8>, choices: &mut Vec<Needles>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => run.extend(literal.0.to_ascii_lowercase()),
        HirKind::Class(class) => match one_letter(class) {
            Some(byte) => run.push(byte),
            None => end_run(run, choices),
        },
        HirKind::Capture(group) => follow(&group.sub, frequency, run, choices),
        HirKind::Concat(parts) => {
            for part in parts {
                follow(part, frequency, run, choices);
            }
        }
        HirKind::Repetition(repeated) => {
            end_run(run, choices);
            if repeated.min > 0 {
                collect(&repeated.sub, frequency, choices);
            }
        }
        HirKind::Alternation(ways) => {
            end_run(run, choices);
            let of_way = |way: &Hir| {
                let mut own = Vec::new();
                collect(way, frequency, &mut own);
                best(own, frequency)
            };
            let all: Option<Vec<Needles>> = ways.iter().map(of_way).collect();
            choices.extend(all.map(|sets| sets.into_iter().flatten().collect()));
        }
    }
}

fn end_run(run: &mut Vec<u8>, choices: &mut Vec<Needles>) {
    if !run.is_empty() {
        run.truncate(NEEDLE_BYTES_MAX);
        choices.push(vec![std::mem::take(run)]);
    }
}

/// The letter of a class that holds only one, in both cases or in one; `k` and `s` with their Unicode relatives are none.
fn one_letter(class: &Class) -> Option<u8> {
    let bytes = class.literal().filter(|literal| literal.len() == 1);
    if let Some([byte]) = bytes.as_deref() {
        return Some(byte.to_ascii_lowercase());
    }
    let (first, second) = match class {
        Class::Bytes(class) => {
            let [a, b] = class.ranges() else { return None };
            (single(a.start(), a.end())?, single(b.start(), b.end())?)
        }
        Class::Unicode(class) => {
            let [a, b] = class.ranges() else { return None };
            let byte = |c: char| u8::try_from(c).ok().filter(u8::is_ascii);
            (single(byte(a.start())?, byte(a.end())?)?, single(byte(b.start())?, byte(b.end())?)?)
        }
    };
    (first.to_ascii_lowercase() == second).then_some(second)
}

fn single(start: u8, end: u8) -> Option<u8> {
    (start == end).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_match_of_a_pattern_holds_one_of_its_needles() {
        let table: [(&str, Option<&[&str]>, &str); 16] = [
            ("usb .*: descriptor read", Some(&[": descriptor read"]), "the longest"),
            ("USB", Some(&["usb"]), "case does not count"),
            ("(?i)connection reset", Some(&["connection reset"]), "classes of one letter"),
            ("(?iu)kiss", None, "k and s have relatives outside ASCII"),
            ("[Tt]imed out", Some(&["timed out"]), "written by hand"),
            ("EIO|ENOSPC", Some(&["eio", "enospc"]), "one of two"),
            ("(lab1|lab2): (flash|boot) died", Some(&[" died"]), "what all ways share"),
            ("(board|x) offline", Some(&[" offline"]), "one way is too short"),
            ("a+b+c+", None, "nothing fixed is long enough"),
            (r"\d+ \w+", None, "nothing fixed"),
            (".*", None, "nothing at all"),
            ("(abc)?", None, "need not be there"),
            ("(abc)+", Some(&["abc"]), "once at least"),
            ("(abc|.)", None, "the other way holds nothing"),
            (r"^\[bootloader\]$", Some(&["[bootloader]"]), "anchors are no text"),
            (r"x{5}zzz", Some(&["zzz"]), "counted"),
        ];
        for (pattern, wanted, why) in table {
            let found = needles(pattern, |_| 0);
            let found: Option<Vec<String>> =
                found.map(|set| set.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect());
            let wanted: Option<Vec<String>> = wanted.map(|set| set.iter().map(|&n| n.to_owned()).collect());
            assert_eq!(found, wanted, "{pattern}: {why}");
        }
    }

    #[test]
    fn rare_text_is_preferred_to_long_text() {
        let often = |needle: &[u8]| usize::from(needle.starts_with(b"error while"));
        let found = needles("error while reading .* sdhci", often).expect("has text");
        assert_eq!(found, vec![b" sdhci".to_vec()]);
    }

    proptest! {
        #[test]
        fn a_line_without_a_needle_never_matches(
            parts in prop::collection::vec(
                prop::sample::select(vec!["abc", "(de|fgh)", "[Xx]y", "i*", "(?:jk)+", "l{2,3}", ".", "(?i:mno)", "p|q", "(?:r|stu)?"]),
                1..6,
            ),
            line in "[a-uxyA-Z ]{0,40}",
        ) {
            let pattern = parts.concat();
            let regex = regex::bytes::RegexBuilder::new(&pattern).unicode(false).build().expect("valid");
            if let (Some(set), true) = (needles(&pattern, |_| 0), regex.is_match(line.as_bytes())) {
                let lower = line.to_ascii_lowercase();
                let holds = set.iter().any(|n| lower.contains(std::str::from_utf8(n).expect("ASCII")));
                prop_assert!(holds, "{} matches {} without {:?}", pattern, line, set);
            }
        }
    }
}
