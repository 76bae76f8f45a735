//! From TOML text to the struct of a file, with every unknown key and wrong type found in one reading.
//!
//! serde stops at its first complaint. So the complained-of entry is taken out of the parsed document and the rest is
//! tried again until it fits; what was taken out is remembered, so that the later checks do not call it missing.
//! Refused here: text that is not TOML, unknown keys, wrong types, words outside a closed set.
//! **Invariant:** no line that may hold a secret gets into an excerpt. Read next: `wording.rs`, then `check.rs`.

use super::errors::{Place, SettingsError, SettingsErrors};
use super::wording::{self, Complaint};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Complaints followed up in one reading; a file with more has one mistake made many times.
const FAULTS_MAX: usize = 100;
/// Complaints about syntax shown; the later ones are mostly echoes of the first.
const SYNTAX_FAULTS_MAX: usize = 10;

/// The struct of a kind of file.
pub(super) trait Document: DeserializeOwned {
    /// Its JSON Schema.
    fn schema() -> Value;
}

/// A file as far as it could be understood.
pub(super) struct Reading<'t, D> {
    /// What fits the structure.
    pub file: D,
    /// What does not.
    pub faults: Vec<SettingsError>,
    /// Paths that are absent from `file` only because of those faults.
    pub gone: Vec<String>,
    /// Where everything stands.
    pub map: Map<'t>,
}

/// Parses `text` and fits it into its struct.
///
/// # Errors
/// When the text is not TOML: all syntax faults, since nothing else can be known then.
pub(super) fn read<D: Document>(text: &str) -> Result<Reading<'_, D>, SettingsErrors> {
    let (mut table, syntax) = DeTable::parse_recoverable(text);
    let mut map = Map { text, spots: BTreeMap::new() };
    if !syntax.is_empty() {
        return Err(syntax_faults(&map, &syntax));
    }
    collect_table(table.get_ref(), "", &mut map.spots);
    let (mut faults, mut gone) = (Vec::new(), Vec::new());
    loop {
        let error = match D::deserialize(toml::Deserializer::from(table.clone())) {
            Ok(file) => {
                return Ok(Reading { file, faults, gone, map });
            }
            Err(error) => error,
        };
        let taken = error.span().and_then(|span| take_out(table.get_mut(), &span, ""));
        let Some(taken) = taken.filter(|_| faults.len() < FAULTS_MAX) else {
            let more = "there is more that cannot be understood";
            faults.push(SettingsError::new("", more, "correct what was told, then check again"));
            return Err(SettingsErrors(faults));
        };
        let complaint = wording::complaint(error.message(), (&taken.path, &taken.key), &D::schema());
        gone.extend(consequences(&taken, &complaint));
        faults.push(map.fault(&taken, error.span(), complaint));
    }
}

/// Nothing, or all faults of a file in its order: those of its structure, and those that the checks `found`.
///
/// # Errors
/// When there is one.
pub(super) fn verdict(
    mut faults: Vec<SettingsError>,
    found: Vec<SettingsError>,
    map: &Map<'_>,
) -> Result<(), SettingsErrors> {
    faults.extend(found.into_iter().map(|mut fault| {
        map.locate(&mut fault);
        fault
    }));
    if faults.is_empty() {
        return Ok(());
    }
    faults.sort_by_key(|fault| fault.place.as_ref().map_or(usize::MAX, |place| place.line));
    Err(SettingsErrors(faults))
}

/// The line on which the entry at `path` stands, or the nearest one around it that is there; none when nothing is.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut map = Map { text, spots: BTreeMap::new() };
    collect_table(table.get_ref(), "", &mut map.spots);
    let mut fault = SettingsError::new(path, "", "");
    map.locate(&mut fault);
    fault.place.map(|place| place.line)
}

/// Faults of text that is not TOML, one per line of the file.
fn syntax_faults(map: &Map<'_>, errors: &[toml::de::Error]) -> SettingsErrors {
    let mut faults: Vec<SettingsError> = Vec::new();
    for error in errors.iter() {
        let mut fault = SettingsError::new(
            "",
            format!("not TOML: {}", error.message()),
            "strings stand in quotes, sections in [brackets], one `key = value` per line",
        );
        fault.place = error.span().map(|span| map.place(&span, Show::Syntax));
        let line = fault.place.as_ref().map(|p| p.line);
        if faults.len() < SYNTAX_FAULTS_MAX && faults.iter().all(|f| f.place.as_ref().map(|p| p.line) != line) {
            faults.push(fault);
        }
    }
    SettingsErrors(faults)
}

/// The paths whose absence follows from one fault: the entry itself, and the key it was probably meant to be.
fn consequences(taken: &Taken, complaint: &Complaint) -> Vec<String> {
    let mut paths = vec![taken.path.clone()];
    if let Some(meant) = &complaint.meant {
        paths.push(wording::join(&taken.parent, meant));
    }
    paths
}

/// An entry that was taken out of the document.
struct Taken {
    /// Its full path.
    path: String,
    /// The path of the table it stood in.
    parent: String,
    /// Its last key.
    key: String,
}

/// Takes the entry whose key or value covers exactly `span` out of `table`, or the array around such a value.
fn take_out(table: &mut DeTable<'_>, span: &Range<usize>, parent: &str) -> Option<Taken> {
    let hit = table.iter().find_map(|(key, value)| {
        let covers = key.span() == *span || value.span() == *span || holds(value.get_ref(), span);
        covers.then(|| key.get_ref().to_string())
    });
    if let Some(key) = hit {
        table.remove(key.as_str());
        return Some(Taken { path: wording::join(parent, &key), parent: parent.to_owned(), key });
    }
    for (key, value) in table.iter_mut() {
        let path = wording::join(parent, key.get_ref());
        let taken = match value.get_mut() {
            DeValue::Table(inner) => take_out(inner, span, &path),
            DeValue::Array(items) => items.iter_mut().enumerate().find_map(|(i, item)| {
                let DeValue::Table(inner) = item.get_mut() else {
                    return None;
                };
                take_out(inner, span, &format!("{path}[{i}]"))
            }),
            _ => None,
        };
        if taken.is_some() {
            return taken;
        }
    }
    None
}

/// Whether `value` is an array with an element that covers exactly `span`.
fn holds(value: &DeValue<'_>, span: &Range<usize>) -> bool {
    let DeValue::Array(items) = value else {
        return false;
    };
    items.iter().any(|item| item.span() == *span || holds(item.get_ref(), span))
}

/// Remembers where every entry below `table` stands.
fn collect_table(table: &DeTable<'_>, parent: &str, spots: &mut BTreeMap<String, Range<usize>>) {
    for (key, value) in table.iter() {
        let path = wording::join(parent, key.get_ref());
        collect_value(value.get_ref(), &path, spots);
        spots.insert(path, value.span());
    }
}

/// Remembers where every entry below `value` stands.
fn collect_value(value: &DeValue<'_>, path: &str, spots: &mut BTreeMap<String, Range<usize>>) {
    match value {
        DeValue::Table(inner) => collect_table(inner, path, spots),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let path = format!("{path}[{i}]");
                collect_value(item.get_ref(), &path, spots);
                spots.insert(path, item.span());
            }
        }
        _ => {}
    }
}

/// Where everything stands in the text.
pub(super) struct Map<'t> {
    text: &'t str,
    spots: BTreeMap<String, Range<usize>>,
}

/// How much of a line an excerpt may show.
enum Show {
    /// All of it.
    Line,
    /// Up to the end of the marked key: nobody knows what the value of an unknown key is.
    UpToKey,
    /// A line that was not understood: only when it looks harmless.
    Syntax,
    /// Nothing.
    Nothing,
}

impl Map<'_> {
    /// Gives `fault` the place of its path, or of the nearest enclosing entry that stands in the file.
    pub(super) fn locate(&self, fault: &mut SettingsError) {
        let mut path = fault.path.as_str();
        loop {
            if let Some(span) = self.spots.get(path) {
                let exact = path.len() == fault.path.len() && !wording::may_be_secret(path);
                let show = if exact { Show::Line } else { Show::Nothing };
                fault.place = Some(self.place(span, show));
                return;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return,
            }
        }
    }

    /// The fault of an entry that did not fit.
    fn fault(&self, taken: &Taken, span: Option<Range<usize>>, complaint: Complaint) -> SettingsError {
        let show = if wording::may_be_secret(&taken.path) {
            Show::Nothing
        } else if complaint.unknown_key {
            Show::UpToKey
        } else {
            Show::Line
        };
        let mut fault = SettingsError::new(&taken.path, complaint.text, complaint.hint);
        fault.place = span.map(|span| self.place(&span, show));
        fault
    }

    fn place(&self, span: &Range<usize>, show: Show) -> Place {
        let start = floor(self.text, span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |i| start + i);
        let end = floor(self.text, span.end).clamp(start, line_end);
        let line = self.text[..start].matches('\n').count() + 1;
        let column = self.text[line_start..start].chars().count() + 1;
        let shown = match show {
            Show::Line => Some(&self.text[line_start..line_end]),
            Show::UpToKey => Some(&self.text[line_start..end]),
            Show::Syntax => Some(&self.text[line_start..line_end]).filter(|line| starts_like_toml(line)),
            Show::Nothing => None,
        };
        let carets = self.text[start..end].chars().count().max(1);
        let excerpt = shown.filter(|line| !may_hold_secret(line)).map(|shown| {
            let gutter = " ".repeat(line.to_string().len());
            let shown: String = shown.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let blank = " ".repeat(column - 1);
            format!("{gutter} |\n{line} | {shown}\n{gutter} | {blank}{}", "^".repeat(carets))
        });
        Place { line, column, excerpt }
    }
}

/// Whether a line begins as a key or a section does, and so is not the inside of a string over several lines.
fn starts_like_toml(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('[') || (line.contains('=') && line.starts_with(|c: char| c.is_alphabetic()))
}

/// Whether a line may hold a secret in clear, by its words: a quoted text beside one, or a user name in an address.
fn may_hold_secret(line: &str) -> bool {
    let quoted = line.contains(['"', '\'']);
    (quoted && wording::may_be_secret(line)) || (line.contains("://") && line.contains('@'))
}

/// The nearest character boundary at or before `index`, within the text.
fn floor(text: &str, index: usize) -> usize {
    text.floor_char_boundary(index)
}
