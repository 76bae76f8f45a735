//! A job definition: what it says of itself, and the changes that make it a retry.
//!
//! What is not asked for stays as it was written, visibility included. It refuses overrides of what the job does not have.
//! Read next: `yaml.rs`, which makes the changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::yaml::{Document, Edit, Node, Step};

/// Metadata key that carries our key: a run is found by it.
pub(super) const KEY: &str = "retest.key";
/// Metadata key that names the job that is repeated.
pub(super) const SOURCE: &str = "retest.source";
/// Metadata key that counts how many retries led to this job.
pub(super) const NUMBER: &str = "retest.number";

/// Fields whose address a person may change, each with the names it has in a deploy action.
const FILES: [(&str, &[&str]); 6] = [
    ("kernel", &["kernel"]),
    ("dtb", &["dtb"]),
    ("ramdisk", &["ramdisk", "initrd"]),
    ("modules", &["modules"]),
    ("nfsrootfs", &["nfsrootfs"]),
    ("rootfs", &["rootfs"]),
];

/// Keys beside an address that pin what it must give.
const CHECKSUMS: [&str; 3] = ["md5sum", "sha256sum", "sha512sum"];

/// Longest value of an override in bytes.
const VALUE_BYTES_MAX: usize = 2_000;

/// What makes a definition a retry.
#[derive(Debug)]
pub(super) struct Retry<'a> {
    pub key: &'a str,
    pub source: &'a str,
    pub overrides: &'a BTreeMap<String, String>,
    /// Beginnings that addresses in overrides must have; empty: any address.
    pub url_prefixes: &'a [String],
    /// Where LAVA shall call back, and with which token; none: nowhere.
    pub callback: Option<(String, String)>,
}

/// A definition that was read.
#[derive(Debug)]
pub(super) struct Definition(Document);

impl Definition {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let document = Document::parse(text)?;
        if document.root.entries().next().is_none() {
            return Err("it is no job definition".to_owned());
        }
        Ok(Self(document))
    }

    /// A value at the top.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0.root.get(key)?.text()
    }

    /// Its metadata that are texts or numbers.
    pub(super) fn metadata(&self) -> BTreeMap<&str, &str> {
        let metadata = self.0.root.get("metadata");
        metadata.into_iter().flat_map(Node::entries).filter_map(|(key, node)| Some((key, node.text()?))).collect()
    }

    /// The device tags it asks for.
    pub(super) fn tags(&self) -> Vec<&str> {
        self.0.root.get("tags").map_or(&[] as &[Node], Node::items).iter().filter_map(Node::text).collect()
    }

    /// The name of the multinode group that LAVA gave it; only in the definition of a group's member.
    pub(super) fn target_group(&self) -> Option<&str> {
        self.0.root.get("protocols")?.get("lava-multinode")?.get("target_group")?.text()
    }

    /// The definition of a retry of it.
    ///
    /// # Errors
    /// Which override does not fit, or why the definition cannot be changed.
    pub(super) fn retried(&self, retry: &Retry<'_>) -> Result<String, String> {
        let mut edits = self.marks(retry);
        for (name, value) in retry.overrides {
            edits.extend(self.override_edits(name, value, retry.url_prefixes)?);
        }
        if let Some(callback) = &retry.callback
            && let Some(notify) = self.notify(callback)
        {
            let mut with = edits.clone();
            with.push(Edit { path: vec![Step::Key("notify".into())], value: notify });
            // The callback only saves time: a definition that does not take it is followed by polling.
            if let Ok(text) = self.0.edited(&with) {
                return Ok(text);
            }
        }
        self.0.edited(&edits)
    }

    /// The retry mark: LAVA wants metadata to be texts.
    fn marks(&self, retry: &Retry<'_>) -> Vec<Edit> {
        let before = self.metadata().get(NUMBER).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let number = before.saturating_add(1).to_string();
        let marks = [(KEY, retry.key), (SOURCE, retry.source), (NUMBER, &number)];
        let has_map = self.0.root.get("metadata").is_some_and(|node| node.entries().next().is_some());
        if has_map {
            let edit = |(key, value): &(&str, &str)| Edit { path: keys(&["metadata", key]), value: json!(value) };
            return marks.iter().map(edit).collect();
        }
        let all: BTreeMap<&str, &str> = marks.into_iter().collect();
        vec![Edit { path: keys(&["metadata"]), value: json!(all) }]
    }

    fn override_edits(&self, name: &str, value: &str, prefixes: &[String]) -> Result<Vec<Edit>, String> {
        if value.is_empty() || value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
            return Err(format!("`{name}` cannot have this value"));
        }
        let one = |value: Value| Ok(vec![Edit { path: keys(&[name]), value }]);
        let plain = self.0.root.get("device_type").is_some();
        match name {
            "device_type" | "tags" if !plain => {
                Err(format!("this job runs on several devices, so that `{name}` cannot be changed"))
            }
            "device_type" => one(json!(value)),
            "tags" => one(json!(value.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect::<Vec<_>>())),
            "priority" => match value.parse::<u8>() {
                Ok(number) if number <= 100 => one(json!(number)),
                _ if ["high", "medium", "low"].contains(&value) => one(json!(value)),
                _ => Err("`priority` is high, medium, low or a number from 0 to 100".to_owned()),
            },
            _ => self.file_edits(name, value, prefixes),
        }
    }

    /// Every deploy action that has the file gets the new address.
    fn file_edits(&self, name: &str, value: &str, prefixes: &[String]) -> Result<Vec<Edit>, String> {
        let Some((_, names)) = FILES.iter().find(|(known, _)| *known == name) else {
            return Err(format!("`{name}` is nothing that can be changed in a LAVA job"));
        };
        if !value.starts_with("https://") && !value.starts_with("http://") {
            return Err(format!("`{name}` must be an http or https address"));
        }
        if !prefixes.is_empty() && !prefixes.iter().any(|prefix| value.starts_with(prefix.as_str())) {
            return Err(format!("`{name}` may not come from there; allowed: {}", prefixes.join(", ")));
        }
        let mut edits = Vec::new();
        let actions = self.0.root.get("actions").map_or(&[] as &[Node], Node::items);
        for (at, deploy) in actions.iter().enumerate().filter_map(|(at, action)| Some((at, action.get("deploy")?))) {
            for (way, place) in [(&[][..], Some(deploy)), (&["images"][..], deploy.get("images"))] {
                let Some(place) = place else { continue };
                for (file, node) in names.iter().filter_map(|file| Some((file, place.get(file)?))) {
                    if node.get("url").is_none() {
                        continue;
                    }
                    if let Some(sum) = CHECKSUMS.iter().find(|sum| node.get(sum).is_some()) {
                        return Err(format!("`{name}` cannot be changed: the job pins its `{sum}`"));
                    }
                    let mut path = vec![Step::Key("actions".into()), Step::At(at), Step::Key("deploy".into())];
                    path.extend(keys(way));
                    path.extend(keys(&[file, "url"]));
                    edits.push(Edit { path, value: json!(value) });
                }
            }
        }
        if edits.is_empty() { Err(format!("this job deploys no `{name}`")) } else { Ok(edits) }
    }

    /// `notify` with our callback beside what stands there already. Ours of an earlier retry gives way.
    fn notify(&self, (url, token): &(String, String)) -> Option<Value> {
        let ours = json!({"url": url, "method": "POST", "token": token, "dataset": "minimal", "content-type": "json"});
        let base = url.rsplit_once('/').map_or(url.as_str(), |(base, _)| base);
        let mut notify = match self.0.root.get("notify") {
            Some(node) => node.to_texts()?,
            None => json!({"criteria": {"status": "finished"}}),
        };
        let map = notify.as_object_mut()?;
        let mut all: Vec<Value> = map.remove("callback").into_iter().collect();
        if let Some(Value::Array(more)) = map.remove("callbacks") {
            all.extend(more);
        }
        all.retain(|old| !old["url"].as_str().is_some_and(|url| url.starts_with(base)));
        all.push(ours);
        map.insert("callbacks".to_owned(), Value::Array(all));
        Some(notify)
    }
}

fn keys(words: &[&str]) -> Vec<Step> {
    words.iter().map(|word| Step::Key((*word).to_owned())).collect()
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
