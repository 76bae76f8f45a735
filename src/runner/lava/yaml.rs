//! YAML as it was written: a tree whose parts know where they stand, and changes that leave every other byte alone.
//!
//! LAVA reads YAML 1.1 and this parser 1.2, so that a definition written out anew could change its meaning (`no`, `1_000`,
//! `0o17`). Therefore values are replaced in the text itself, as JSON, which means the same in both; and what comes out is
//! read again and compared with what went in. Refused: several documents, and parts that an anchor shares.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 64;

/// Largest document that is read, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// A part of the document.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub kind: Kind,
    /// Where its text stands, in bytes; of a block collection only the beginning can be relied on.
    span: Range<usize>,
    /// Column of its beginning, in characters.
    column: usize,
    /// Something else may refer to it.
    anchored: bool,
}

/// What a part is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A value, and whether it is written in one piece: plain or in quotes.
    Scalar {
        text: String,
        inline: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// A repetition of the part with this anchor.
    Alias(usize),
}

/// A step from a part to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    At(usize),
}

/// A wish: this value there, whatever stood there. Everything on the way to its last step must be there already.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub path: Vec<Step>,
    pub value: Value,
}

/// A document and its text.
#[derive(Clone, Debug)]
pub(super) struct Document {
    text: String,
    pub root: Node,
}

impl Node {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Kind::Map(pairs) = &self.kind else { return None };
        pairs.iter().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }

    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        if let Kind::Scalar { text, .. } = &self.kind { Some(text) } else { None }
    }

    /// The parts of a list; none of anything else.
    pub(super) fn items(&self) -> &[Self] {
        if let Kind::List(items) = &self.kind { items } else { &[] }
    }

    /// Keys and values of a map whose keys are texts.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let pairs: &[(Self, Self)] = if let Kind::Map(pairs) = &self.kind { pairs } else { &[] };
        pairs.iter().filter_map(|(key, value)| Some((key.text()?, value)))
    }

    /// The part as JSON with every value as a text; none when an alias is in it.
    pub(super) fn to_texts(&self) -> Option<Value> {
        Some(match &self.kind {
            Kind::Scalar { text, .. } => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_texts).collect::<Option<_>>()?),
            Kind::Map(pairs) => {
                let pair = |(key, value): &(Self, Self)| Some((key.text()?.to_owned(), value.to_texts()?));
                Value::Object(pairs.iter().map(pair).collect::<Option<_>>()?)
            }
            Kind::Alias(_) => return None,
        })
    }

    /// Where the last byte of its content stands.
    fn content_end(&self, text: &str) -> usize {
        let last = match &self.kind {
            _ if self.is_flow(text) => None,
            Kind::List(items) => items.last(),
            Kind::Map(pairs) => pairs.last().map(|(_, value)| value),
            Kind::Scalar { .. } | Kind::Alias(_) => None,
        };
        match last {
            Some(last) => last.content_end(text),
            None => {
                let own = text.get(self.span.clone()).unwrap_or_default();
                self.span.start + own.trim_end().len()
            }
        }
    }

    fn is_flow(&self, text: &str) -> bool {
        matches!(self.kind, Kind::List(_) | Kind::Map(_))
            && text.get(self.span.start..).is_some_and(|rest| rest.starts_with(['{', '[']))
            && self.span.end > self.span.start
    }

    fn has_anchor(&self) -> bool {
        self.anchored
            || match &self.kind {
                Kind::Scalar { .. } | Kind::Alias(_) => false,
                Kind::List(items) => items.iter().any(Self::has_anchor),
                Kind::Map(pairs) => pairs.iter().any(|(k, v)| k.has_anchor() || v.has_anchor()),
            }
    }

    /// Whether it says what the JSON says, values compared as texts.
    fn says(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (Kind::Scalar { text, .. }, Value::String(other)) => text == other,
            (Kind::Scalar { text, .. }, other) => {
                let shown = other.to_string();
                *text == shown
            }
            (Kind::List(items), Value::Array(values)) => {
                items.len() == values.len() && items.iter().zip(values).all(|(item, value)| item.says(value))
            }
            (Kind::Map(pairs), Value::Object(values)) => {
                pairs.len() == values.len()
                    && values.iter().all(|(key, value)| self.get(key).is_some_and(|own| own.says(value)))
            }
            (Kind::List(_) | Kind::Map(_) | Kind::Alias(_), _) => false,
        }
    }
}

impl Document {
    /// Reads one document.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it has more than {BYTES_MAX} bytes"));
        }
        let root = read(text)?;
        Ok(Self { text: text.to_owned(), root })
    }

    /// The text with the edits made.
    ///
    /// # Errors
    /// Why one of them cannot be made without touching something else.
    pub(super) fn edited(&self, edits: &[Edit]) -> Result<String, String> {
        let mut splices: Vec<(Range<usize>, String)> = Vec::new();
        for edit in edits {
            splices.push(self.splice(edit)?);
        }
        // From the end, so that places stay right; of two at one place the first wish comes to stand first.
        splices.reverse();
        splices.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
        let mut text = self.text.clone();
        for (place, new) in splices {
            text.replace_range(place, &new);
        }
        let after = read(&text).map_err(|why| format!("it would no longer be YAML: {why}"))?;
        if same_but(&self.root, &after, &mut Vec::new(), edits) {
            Ok(text)
        } else {
            Err("it is written so that a change would touch more than it should".to_owned())
        }
    }

    fn splice(&self, edit: &Edit) -> Result<(Range<usize>, String), String> {
        let (last, way) = edit.path.split_last().ok_or("nothing to change was named")?;
        let mut at = &self.root;
        for step in way {
            let next = match step {
                Step::Key(key) => at.get(key),
                Step::At(index) => at.items().get(*index),
            };
            at = next.ok_or_else(|| format!("`{}` is not there", shown(&edit.path)))?;
            if at.anchored {
                return Err(format!("`{}` is shared by an anchor", shown(&edit.path)));
            }
        }
        let (Step::Key(key), Kind::Map(pairs)) = (last, &at.kind) else {
            return Err(format!("`{}` is not in a map", shown(&edit.path)));
        };
        let json = edit.value.to_string();
        match pairs.iter().find(|(k, _)| k.text() == Some(key)) {
            Some((name, old)) => self.replacement(name, old, &json),
            None => self.insertion(at, pairs, key, &json),
        }
        .ok_or_else(|| format!("`{}` is written in a way that cannot be changed here", shown(&edit.path)))
    }

    /// Everything after the key's colon gives way.
    fn replacement(&self, name: &Node, old: &Node, json: &str) -> Option<(Range<usize>, String)> {
        let block = matches!(old.kind, Kind::Scalar { inline: false, .. });
        if old.has_anchor() || name.anchored || block {
            return None;
        }
        let rest = self.text.get(name.span.end..)?;
        let colon = name.span.end + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
        self.text.get(colon..)?.strip_prefix(':')?;
        let empty = old.text() == Some("") && self.text.get(old.span.clone()).is_none_or(|own| own.trim().is_empty());
        let end = if empty { colon + 1 } else { old.content_end(&self.text) };
        Some((colon + 1..end.max(colon + 1), format!(" {json}")))
    }

    /// A new key goes before the first one.
    fn insertion(&self, map: &Node, pairs: &[(Node, Node)], key: &str, json: &str) -> Option<(Range<usize>, String)> {
        let key = Value::String(key.to_owned()).to_string();
        let flow = map.is_flow(&self.text);
        let (place, text) = match pairs.first() {
            None if flow => (map.span.start + 1, format!("{key}: {json}")),
            None => return None,
            Some((first, _)) if flow => (first.span.start, format!("{key}: {json}, ")),
            Some((first, _)) => (first.span.start, format!("{key}: {json}\n{}", " ".repeat(first.column))),
        };
        Some((place..place, text))
    }
}

/// A path for people.
fn shown(path: &[Step]) -> String {
    let word = |step: &Step| match step {
        Step::Key(key) => key.clone(),
        Step::At(index) => index.to_string(),
    };
    path.iter().map(word).collect::<Vec<_>>().join(".")
}

/// Whether two trees differ in nothing but the edits, and hold those.
fn same_but(old: &Node, new: &Node, path: &mut Vec<Step>, edits: &[Edit]) -> bool {
    if let Some(edit) = edits.iter().find(|edit| edit.path == *path) {
        return new.says(&edit.value);
    }
    match (&old.kind, &new.kind) {
        (Kind::Scalar { text: a, .. }, Kind::Scalar { text: b, .. }) => a == b,
        (Kind::Alias(a), Kind::Alias(b)) => a == b,
        (Kind::List(a), Kind::List(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).enumerate().all(|(i, (a, b))| {
                    path.push(Step::At(i));
                    let same = same_but(a, b, path, edits);
                    path.pop();
                    same
                })
        }
        (Kind::Map(a), Kind::Map(b)) => {
            let mut new_pairs = b.iter().filter(|(key, _)| {
                // Keys that only the edits brought are looked at below.
                key.text().is_none_or(|text| old.get(text).is_some())
            });
            let kept = a.iter().all(|(key, value)| {
                let Some((new_key, new_value)) = new_pairs.next() else { return false };
                if !same_but(key, new_key, &mut vec![Step::Key("?".into())], &[]) {
                    return false;
                }
                path.push(Step::Key(key.text().unwrap_or_default().to_owned()));
                let same = same_but(value, new_value, path, edits);
                path.pop();
                same
            });
            let brought = b.iter().filter(|(key, _)| key.text().is_some_and(|text| old.get(text).is_none()));
            let wished = brought.map(|(key, value)| {
                path.push(Step::Key(key.text().unwrap_or_default().to_owned()));
                let wished = edits.iter().any(|edit| edit.path == *path && value.says(&edit.value));
                path.pop();
                wished
            });
            let wished = wished.collect::<Vec<_>>().into_iter().all(|wished| wished);
            let all = a.len() + b.iter().filter(|(k, _)| k.text().is_some_and(|t| old.get(t).is_none())).count();
            kept && wished && all == b.len()
        }
        (Kind::Scalar { .. } | Kind::List(_) | Kind::Map(_) | Kind::Alias(_), _) => false,
    }
}

/// A collection that is being read.
struct Open {
    node: Node,
    key: Option<Node>,
}

fn read(text: &str) -> Result<Node, String> {
    // The parser counts characters.
    let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let node = |kind: Kind, span: Span, anchor: usize| {
        let at = |index: usize| bytes.get(index).copied().unwrap_or(text.len());
        let (start, end) = (at(span.start.index()), at(span.end.index()));
        Node { kind, span: start..end.max(start), column: span.start.col(), anchored: anchor != 0 }
    };
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| format!("line {}: {}", error.marker().line(), error.info()))?;
        let done = match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => continue,
            Event::DocumentStart(_) if root.is_some() => return Err("it holds several documents".to_owned()),
            Event::DocumentStart(_) => continue,
            Event::Alias(anchor) => node(Kind::Alias(anchor), span, 0),
            Event::Scalar(value, style, anchor, _) => {
                let inline =
                    matches!(style, ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
                node(Kind::Scalar { text: value.into_owned(), inline }, span, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                begin(&mut open, node(Kind::List(Vec::new()), span, anchor))?;
                continue;
            }
            Event::MappingStart(anchor, _) => {
                begin(&mut open, node(Kind::Map(Vec::new()), span, anchor))?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let end = node(Kind::Alias(0), span, 0).span.end;
                let Some(mut closed) = open.pop().map(|open| open.node) else { continue };
                if closed.span.end > closed.span.start {
                    closed.span.end = end; // of flow style: it began with a bracket
                }
                closed
            }
        };
        match open.last_mut() {
            None => root = Some(done),
            Some(Open { node: Node { kind: Kind::List(items), .. }, .. }) => items.push(done),
            Some(Open { node: Node { kind: Kind::Map(pairs), .. }, key }) => match key.take() {
                None => *key = Some(done),
                Some(name) => pairs.push((name, done)),
            },
            Some(_) => {}
        }
    }
    root.ok_or_else(|| "it is empty".to_owned())
}

fn begin(open: &mut Vec<Open>, node: Node) -> Result<(), String> {
    if open.len() >= DEPTH_MAX {
        return Err(format!("it is nested deeper than {DEPTH_MAX}"));
    }
    open.push(Open { node, key: None });
    Ok(())
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
