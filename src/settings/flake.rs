//! `[[flake]]` and `[autoretry]`, checked, and the `toml` block of an issue that describes a flake.
//!
//! Refused here: what cannot be a label, a glob, a number in its range. Whether a rule would fit nearly every failure is decided where
//! rules are compiled (`decide/flake/lint.rs`). Read next: `raw/flake.rs` for the keys.

use super::check::{Check, DAY, DECADE, MINUTE};
use super::document;
use super::errors::{SettingsError, SettingsErrors};
use super::raw;
use super::runner_job::JobSelector;
use super::words::FlakeEnd;
use globset::{Glob, GlobBuilder, GlobMatcher};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Largest block of an issue that is read, in bytes.
const BLOCK_BYTES_MAX: usize = 16 * 1024;
/// Entries of one list of a rule.
const ENTRIES_MAX: usize = 32;
/// Longest glob or pattern, in characters.
const PATTERN_CHARS_MAX: usize = 500;
/// Rules of one file.
const RULES_MAX: usize = 500;

/// What makes a failure a known flake.
#[derive(Debug, Clone)]
pub struct Flake {
    /// Its label; none in an issue, whose number it is.
    pub label: Option<String>,
    /// Which jobs; at least one entry.
    pub jobs: Vec<JobSelector>,
    /// Only runs of this runner.
    pub runner: Option<String>,
    /// Only runs that ended so; empty for all.
    pub ends: Vec<FlakeEnd>,
    /// Globs over typed causes; letter case does not count.
    pub causes: Vec<GlobMatcher>,
    /// Patterns for lines of the log, not compiled yet.
    pub log: Vec<String>,
    /// Retries of one job on one head.
    pub retries: u32,
    /// Retries in one repository within 24 hours.
    pub retries_per_day: u32,
    /// Wait before the first retry.
    pub delay: Duration,
}

/// `[autoretry]`: retries that nobody asks for.
#[derive(Debug, Clone)]
pub struct Autoretry {
    /// Whether there are any.
    pub enabled: bool,
    /// The label of issues that describe flakes; `None`: issues are not read.
    pub issue_label: Option<String>,
    /// The label of a change that allows; `None`: no label does.
    pub auto_label: Option<String>,
    /// The label of a change that forbids; `None`: no label does.
    pub never_label: Option<String>,
    /// Retries of one job on one head.
    pub retries_max: u32,
    /// Retries on one change within 24 hours.
    pub retries_per_change_per_day: u32,
    /// Retries on one runner within 24 hours.
    pub retries_per_runner_per_day: u32,
    /// Bytes at the end of a log that are read.
    pub log_bytes_max: usize,
    /// How often issues are looked at.
    pub issues_every: Duration,
    /// Unlabelled flakes of a job from which a label is proposed; `None`: never.
    pub propose_after: Option<u32>,
    /// The span in which they count.
    pub propose_within: Duration,
    /// Time without a failure after which a label is proposed for closing.
    pub close_after: Duration,
    /// When a runner gets no retries.
    pub breaker: Breaker,
}

/// `[autoretry.breaker]`.
#[derive(Debug, Clone)]
pub struct Breaker {
    /// How far back runs are looked at.
    pub window: Duration,
    /// Heads from which something is concluded.
    pub heads_min: u32,
    /// Share of failing heads, in per cent.
    pub share_percent: u32,
    /// How long it stays open.
    pub open_for: Duration,
}

/// Checks `[autoretry]`.
pub(super) fn autoretry(check: &mut Check<'_>, raw: &raw::Autoretry) -> Autoretry {
    let at = |key: &str| format!("autoretry.{key}");
    let mut label = |key: &str, text: &str| (!text.is_empty()).then(|| check.words(&at(key), text, 100));
    let issue_label = label("issue_label", &raw.issue_label);
    let (auto_label, never_label) = (label("auto_label", &raw.auto_label), label("never_label", &raw.never_label));
    if auto_label.is_some() && auto_label == never_label {
        check.fault(&at("never_label"), "is the label that allows, too", "choose another one");
    }
    let mut whole = |key: &str, n: u64, range| check.whole::<u32>(&at(key), n, range);
    let retries_max = whole("retries_max", raw.retries_max, 1..=10);
    let (per_change, per_runner) = (
        whole("retries_per_change_per_day", raw.retries_per_change_per_day, 1..=10_000),
        whole("retries_per_runner_per_day", raw.retries_per_runner_per_day, 1..=100_000),
    );
    let propose_after = whole("propose_after", raw.propose_after, 0..=1_000);
    let heads_min = whole("breaker.heads_min", raw.breaker.heads_min, 2..=10_000);
    let share_percent = whole("breaker.share_percent", raw.breaker.share_percent, 1..=100);
    let log_bytes_max = check.whole(&at("log_bytes_max"), raw.log_bytes_max, 4 * 1024..=64 * 1024 * 1024);
    let mut time = |key: &str, text: &str, range| check.duration(&at(key), text, range).unwrap_or_default();
    Autoretry {
        enabled: raw.enabled,
        issue_label,
        auto_label,
        never_label,
        retries_max,
        retries_per_change_per_day: per_change,
        retries_per_runner_per_day: per_runner,
        log_bytes_max,
        issues_every: time("issues_every", &raw.issues_every, MINUTE..=DAY),
        propose_after: Some(propose_after).filter(|n| *n > 0),
        propose_within: time("propose_within", &raw.propose_within, DAY..=DECADE),
        close_after: time("close_after", &raw.close_after, DAY..=DECADE),
        breaker: Breaker {
            window: time("breaker.window", &raw.breaker.window, MINUTE..=DAY),
            heads_min,
            share_percent,
            open_for: time("breaker.open_for", &raw.breaker.open_for, Duration::from_secs(1)..=DAY),
        },
    }
}

/// Checks all `[[flake]]` of a file. `runners` are the names there are; none where they are not known.
pub(super) fn flakes(check: &mut Check<'_>, raw: &[raw::Flake], runners: Option<&[&str]>) -> Vec<Flake> {
    if raw.len() > RULES_MAX {
        check.fault("flake", format!("has {} rules", raw.len()), format!("at most {RULES_MAX}; use patterns"));
    }
    let labels = raw.iter().enumerate();
    let labels = labels.filter_map(|(i, rule)| Some((format!("flake[{i}].label"), rule.label.as_deref()?)));
    check.distinct(labels, "flake rule");
    let mut rules = Vec::new();
    for (i, raw) in raw.iter().enumerate() {
        let path = format!("flake[{i}]");
        let label_path = format!("{path}.label");
        let hint = "name what it is, such as `usb-reset`: reports and statistics show it";
        if let Some(label) = check.needed(&label_path, raw.label.as_deref(), hint) {
            check.slug(&label_path, label);
        }
        if let (Some(name), Some(known)) = (&raw.runner, runners) {
            check.one_of(&format!("{path}.runner"), name, known);
        }
        rules.push(flake(check, &path, raw));
    }
    rules
}

/// Checks one rule, which stands at `path`, or at the top where that is empty.
fn flake(check: &mut Check<'_>, path: &str, raw: &raw::Flake) -> Flake {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if raw.jobs.is_empty() && !(path.is_empty() && check.is_gone("job")) {
        check.fault(&at("jobs"), "is missing", "write the jobs that fail so: jobs = [\"lava-*\"]");
    }
    if let Some(runner) = &raw.runner {
        check.slug(&at("runner"), runner);
    }
    for (key, entries) in [("jobs", &raw.jobs), ("causes", &raw.causes), ("log", &raw.log)] {
        if entries.len() > ENTRIES_MAX {
            let hint = format!("at most {ENTRIES_MAX}; make two rules of it");
            check.fault(&at(key), format!("has {} entries", entries.len()), hint);
        }
        for (k, text) in entries.iter().enumerate() {
            let path = format!("{}[{k}]", at(key));
            if text.is_empty() || text.chars().count() > PATTERN_CHARS_MAX {
                check.fault(&path, "is empty or too long", format!("1 to {PATTERN_CHARS_MAX} characters"));
            }
        }
    }
    let jobs = globs(check, &at("jobs"), &raw.jobs, Glob::new);
    let causes = globs(check, &at("causes"), &raw.causes, |text| GlobBuilder::new(text).case_insensitive(true).build());
    Flake {
        label: raw.label.clone(),
        jobs: jobs.into_iter().map(JobSelector::Pattern).collect(),
        runner: raw.runner.clone(),
        ends: raw.ends.clone(),
        causes,
        log: raw.log.clone(),
        retries: check.whole(&at("retries"), raw.retries, 1..=10),
        retries_per_day: check.whole(&at("retries_per_day"), raw.retries_per_day, 1..=1_000),
        delay: check.duration(&at("delay"), &raw.delay, Duration::ZERO..=DAY).unwrap_or_default(),
    }
}

fn globs(
    check: &mut Check<'_>,
    path: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<Glob, globset::Error>,
) -> Vec<GlobMatcher> {
    let mut globs = Vec::new();
    for (k, text) in texts.iter().enumerate() {
        match read(text) {
            Ok(glob) => globs.push(glob.compile_matcher()),
            Err(error) => check.bad_glob(&format!("{path}[{k}]"), &error),
        }
    }
    globs
}

/// The first fenced `toml` block of a text in Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlakeBlock {
    /// What stands between its fences.
    pub toml: String,
    /// Where that stands in the text, in bytes; none where it is indented or quoted, so that it cannot be replaced as it stands.
    pub span: Option<Range<usize>>,
    /// The line of the text on which it begins, counted from 1.
    pub line: usize,
}

impl FlakeBlock {
    /// Finds it.
    pub fn find(body: &str) -> Option<Self> {
        let is_toml = |kind: &CodeBlockKind<'_>| match kind {
            CodeBlockKind::Fenced(info) => {
                info.split([' ', ',', '{']).next().is_some_and(|word| word.eq_ignore_ascii_case("toml"))
            }
            CodeBlockKind::Indented => false,
        };
        let mut events = Parser::new(body).into_offset_iter();
        let fence = events.find(|(event, _)| matches!(event, Event::Start(Tag::CodeBlock(kind)) if is_toml(kind)))?.1;
        let (mut toml, mut from, mut to) = (String::new(), None, fence.start);
        for (event, span) in events {
            match event {
                Event::Text(text) => {
                    toml.push_str(&text);
                    from = from.or(Some(span.start));
                    to = span.end;
                }
                Event::End(TagEnd::CodeBlock) => break,
                _ => {}
            }
        }
        // An empty block begins after the line of its fence.
        let after_fence = body.get(fence.start..)?.find('\n').map_or(body.len(), |n| fence.start + n + 1);
        let from = from.unwrap_or(after_fence);
        let span = from..to.max(from);
        let line = body.get(..from)?.matches('\n').count() + 1;
        let as_it_stands = body.get(span.clone()).is_some_and(|text| text == toml);
        Some(Self { toml, span: as_it_stands.then_some(span), line })
    }

    /// The block's text after so many empty lines that faults are told with the lines of the issue.
    pub fn in_place(&self) -> String {
        format!("{}{}", "\n".repeat(self.line - 1), self.toml)
    }
}

/// Reads the rule that the text of an issue describes; none when it has no fenced `toml` block. Lines of faults are those of the
/// issue's text.
pub fn parse_flake_issue(body: &str) -> Option<Result<Flake, SettingsErrors>> {
    FlakeBlock::find(body).map(|block| read_block(&block))
}

fn read_block(block: &FlakeBlock) -> Result<Flake, SettingsErrors> {
    if block.toml.len() > BLOCK_BYTES_MAX {
        let fault = format!("has {} bytes; at most {BLOCK_BYTES_MAX} are read", block.toml.len());
        return Err(SettingsError::new("", fault, "describe one flake").into());
    }
    let text = block.in_place();
    let reading = document::read::<raw::IssueFlake>(&text)?;
    let no_secrets: BTreeMap<String, String> = BTreeMap::new();
    let mut check = Check::new(&no_secrets, reading.gone);
    let rule = issue_flake(&mut check, &reading.file);
    let (found, _) = check.finish();
    document::verdict(reading.faults, found, &reading.map)?;
    Ok(rule)
}

fn issue_flake(check: &mut Check<'_>, raw: &raw::IssueFlake) -> Flake {
    let raw::IssueFlake { job, jobs, runner, ends, causes, log, retries, retries_per_day, delay } = raw.clone();
    let named = job.as_ref().map(|name| JobSelector::Name(check.words("job", name, 255)));
    if named.is_some() && !jobs.is_empty() {
        check.fault("job", "stands beside `jobs`", "keep one of them");
    }
    // Where `job` is given, `jobs` stands in for it, so that one function checks the rest.
    let jobs = if named.is_some() { vec!["-".to_owned()] } else { jobs };
    let rule = raw::Flake { label: None, jobs, runner, ends, causes, log, retries, retries_per_day, delay };
    let mut rule = flake(check, "", &rule);
    if let Some(named) = named {
        rule.jobs = vec![named];
    }
    rule
}

/// The text of an issue with a job, and a text of its log, added to its block; with a new block at its end where it has none. The text
/// of the log is taken literally. Comments within the block are lost.
///
/// # Errors
/// When the block cannot be used as it stands, so that nothing of it gets lost.
pub fn extend_flake_issue(body: &str, job: &str, log: Option<&str>) -> Result<String, SettingsErrors> {
    let block = FlakeBlock::find(body);
    let (mut rule, span) = match &block {
        None => (raw::IssueFlake::default(), None),
        Some(block) => {
            let matcher = read_block(block)?;
            let Some(span) = block.span.clone() else {
                let text = "the toml block stands in a quotation or a list, where it cannot be changed";
                return Err(SettingsError::new("", text, "change it by hand").into());
            };
            let text = block.in_place();
            let mut rule = document::read::<raw::IssueFlake>(&text)?.file;
            rule.jobs.extend(rule.job.take().map(|name| globset::escape(&name)));
            if matcher.jobs.iter().any(|which| which.matches(job)) {
                rule.jobs.dedup();
            } else {
                rule.jobs.push(globset::escape(job));
            }
            (rule, Some(span))
        }
    };
    if span.is_none() {
        rule.jobs.push(globset::escape(job));
    }
    if let Some(pattern) = log.map(|text| regex::escape(text.trim())).filter(|pattern| !rule.log.contains(pattern)) {
        rule.log.push(pattern);
    }
    let toml = block_text(&rule);
    Ok(match span {
        Some(span) => {
            let (before, after) =
                (body.get(..span.start).unwrap_or_default(), body.get(span.end..).unwrap_or_default());
            format!("{before}{toml}{after}")
        }
        None if body.trim().is_empty() => format!("```toml\n{toml}```\n"),
        None => format!("{}\n\n```toml\n{toml}```\n", body.trim_end()),
    })
}

/// The block as people would write it: the keys that are not as usual.
fn block_text(rule: &raw::IssueFlake) -> String {
    let usual = raw::IssueFlake::default();
    let value = |value: toml::Value| value.to_string();
    let list = |texts: &[String]| {
        let items: Vec<String> = texts.iter().map(|text| toml::Value::from(text.as_str()).to_string()).collect();
        format!("[{}]", items.join(", "))
    };
    let mut lines = vec![format!("jobs = {}", list(&rule.jobs))];
    lines.extend(rule.runner.as_ref().map(|runner| format!("runner = {}", value(runner.as_str().into()))));
    let ends: Vec<String> = rule.ends.iter().map(ToString::to_string).collect();
    for (key, texts) in [("ends", &ends), ("causes", &rule.causes), ("log", &rule.log)] {
        lines.extend((!texts.is_empty()).then(|| format!("{key} = {}", list(texts))));
    }
    lines.extend((rule.retries != usual.retries).then(|| format!("retries = {}", rule.retries)));
    lines.extend(
        (rule.retries_per_day != usual.retries_per_day).then(|| format!("retries_per_day = {}", rule.retries_per_day)),
    );
    lines.extend((rule.delay != usual.delay).then(|| format!("delay = {}", value(rule.delay.as_str().into()))));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The line on which the entry at `path` stands in a text, or the nearest one around it that is there.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    document::line_of(text, path)
}
