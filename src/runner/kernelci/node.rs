//! A node of KernelCI's tree as the Maestro API tells it, and what its end means in our words.
//!
//! It keeps the whole value, because the retry event is a copy of the build's node. Fields are read leniently: absent,
//! null and unknown words are met. It asks nobody. Read next: `mod.rs`.

use serde_json::Value;

use super::super::log_text;
use crate::domain::JobState;

/// Longest cause in characters.
const CAUSE_CHARS_MAX: usize = 300;

/// Error codes that mean the system under the job failed: the pipeline's own, and LAVA's names of error types. A wrong
/// job description is among them: the pipeline made it, and no change under test can.
const INFRASTRUCTURE: [&str; 9] = [
    "submit_error",
    "invalid_job_params",
    "job_generation_error",
    "kbuild_internal_error",
    "Infrastructure",
    "Bug",
    "Configuration",
    "MultinodeTimeout",
    "ObjectNotPersisted",
];

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A test job below a build.
    Job,
    /// A build below a checkout.
    Build,
    /// Anything else.
    Other,
}

/// One node.
#[derive(Clone, Debug)]
pub(super) struct Node(Value);

impl Node {
    /// The node in a JSON value; none when it has no id.
    pub(super) fn new(value: Value) -> Option<Self> {
        let node = Self(value);
        (!node.id().is_empty()).then_some(node)
    }

    /// The text at a JSON pointer; none for null, absent and empty.
    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn id(&self) -> &str {
        self.text("/id").unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.text("/name").unwrap_or_default()
    }

    pub(super) fn parent(&self) -> Option<&str> {
        self.text("/parent")
    }

    pub(super) fn platform(&self) -> Option<&str> {
        self.text("/data/platform")
    }

    pub(super) fn runtime(&self) -> Option<&str> {
        self.text("/data/runtime")
    }

    pub(super) fn kind(&self) -> Kind {
        match self.text("/kind") {
            Some("job") => Kind::Job,
            Some("kbuild") => Kind::Build,
            _ => Kind::Other,
        }
    }

    /// The name of the build above it, from its path: the last but one.
    pub(super) fn build_name(&self) -> &str {
        let path = self.0.get("path").and_then(Value::as_array);
        let above = path.and_then(|path| path.get(path.len().checked_sub(2)?)?.as_str());
        above.unwrap_or("build")
    }

    /// The pipeline's own count of automatic retries.
    pub(super) fn counter(&self) -> i64 {
        self.0.get("retry_counter").and_then(Value::as_i64).unwrap_or(0)
    }

    /// When it was made, in milliseconds since 1970 UTC: the API writes times without a zone.
    pub(super) fn created_ms(&self) -> i64 {
        self.time("/created").unwrap_or(0)
    }

    /// When it was last changed.
    pub(super) fn updated_ms(&self) -> i64 {
        self.time("/updated").unwrap_or_else(|| self.created_ms())
    }

    fn time(&self, pointer: &str) -> Option<i64> {
        let text = self.text(pointer)?.trim_end_matches('Z');
        let at = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
        Some(at.and_utc().timestamp_millis())
    }

    /// Whether it has passed as a build: what its jobs need is there.
    pub(super) fn has_passed(&self) -> bool {
        self.text("/result") == Some("pass") && self.text("/state") != Some("running")
    }

    /// Its state in our words, and why it failed.
    pub(super) fn outcome(&self) -> (JobState, Option<String>) {
        match self.text("/state") {
            Some("done") => self.end(),
            Some("available") if self.kind() == Kind::Job => (JobState::Pending, None), // a lab has still to fetch it
            Some("available" | "closing") if self.kind() == Kind::Build && self.text("/result").is_some() => self.end(),
            _ => (JobState::Running, None),
        }
    }

    fn end(&self) -> (JobState, Option<String>) {
        let code = self.text("/data/error_code");
        let state = match (self.text("/result"), code) {
            (Some("pass"), _) => return (JobState::Passed, None),
            (Some("skip"), _) => JobState::Skipped,
            (Some("fail"), _) => JobState::Failed,
            (Some("incomplete"), Some("Canceled")) => JobState::Cancelled,
            (Some("incomplete"), Some("node_timeout" | "LAVATimeout")) => JobState::TimedOut,
            (Some("incomplete"), Some("Test" | "Job")) => JobState::Failed,
            (Some("incomplete"), Some(code)) if INFRASTRUCTURE.contains(&code) => JobState::Infrastructure,
            // A code of a newer LAVA, or none: the job was not carried through, and nobody says that it failed by itself.
            (Some("incomplete"), _) => JobState::Infrastructure,
            (Some(_) | None, _) => JobState::Lost,
        };
        (state, self.cause(code))
    }

    /// The error code first: it is the typed part.
    fn cause(&self, code: Option<&str>) -> Option<String> {
        let message = self.text("/data/error_msg");
        let text = match (code, message) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            (None, Some(message)) => message.to_owned(),
            (None, None) if self.text("/result") == Some("incomplete") => "incomplete".to_owned(),
            (None, None) => return None,
        };
        Some(log_text::one_line(&text, CAUSE_CHARS_MAX))
    }

    /// The whole value.
    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(kind: &str, state: &str, result: Option<&str>, code: Option<&str>) -> Node {
        let value = json!({"id": "66b0c0ffee00000000000003", "kind": kind, "name": "baseline-x86", "state": state,
            "result": result, "data": {"error_code": code, "error_msg": code.map(|_| "said")}});
        Node::new(value).expect("it has an id")
    }

    #[test]
    fn every_end_of_a_node_has_its_state_and_its_code_is_kept() {
        use JobState as S;
        let table = [
            ("running", None, None, S::Running, "in the lab"),
            ("available", None, None, S::Pending, "waits for a lab that fetches its jobs"),
            ("closing", Some("pass"), None, S::Running, "its children are still to come"),
            ("done", Some("pass"), None, S::Passed, "passed"),
            ("done", Some("fail"), None, S::Failed, "a test failed"),
            ("done", Some("skip"), None, S::Skipped, "was not run"),
            ("done", None, None, S::Lost, "over without a result"),
            ("done", Some("incomplete"), None, S::Infrastructure, "not carried through, and nobody says why"),
            ("done", Some("incomplete"), Some("Infrastructure"), S::Infrastructure, "the lab"),
            ("done", Some("incomplete"), Some("submit_error"), S::Infrastructure, "the lab did not take it"),
            ("done", Some("incomplete"), Some("FastbootDeviceNotFound"), S::Infrastructure, "a code of a newer LAVA"),
            ("done", Some("incomplete"), Some("Canceled"), S::Cancelled, "somebody cancelled it in the lab"),
            ("done", Some("incomplete"), Some("node_timeout"), S::TimedOut, "the node lapsed"),
            ("done", Some("incomplete"), Some("Job"), S::Failed, "did not boot"),
        ];
        for (state, result, code, wanted, why) in table {
            let (found, cause) = node("job", state, result, code).outcome();
            assert_eq!(found, wanted, "{why}");
            assert_eq!(cause.is_some(), code.is_some() || result == Some("incomplete"), "{why}: {cause:?}");
        }
        assert_eq!(
            node("kbuild", "available", Some("pass"), None).outcome().0,
            S::Passed,
            "a build is over when built"
        );
        let (_, cause) = node("job", "done", Some("incomplete"), Some("Infrastructure")).outcome();
        assert_eq!(cause.as_deref(), Some("Infrastructure: said"));
    }

    #[test]
    fn times_without_a_zone_are_utc() {
        let mut value = node("job", "done", None, None).into_value();
        value["created"] = json!("2026-08-05T11:30:03.500000");
        assert_eq!(Node::new(value).expect("a node").created_ms(), 1_785_929_403_500);
    }
}
