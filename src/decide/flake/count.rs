//! What flakes cost: failures counted by job, label and runner, with the time that their retries took.
//!
//! Read next: `rate.rs`.

use std::collections::BTreeMap;

use super::rate::Rate;
use crate::domain::{Conclusion, JobName, LabelOrigin, Retry, RetryState, RunnerName, Timestamp};

/// A failure, as far as it is counted.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The job.
    pub job: JobName,
    /// Who ran it.
    pub runner: Option<RunnerName>,
    /// The label that covers it.
    pub label: Option<(LabelOrigin, String)>,
    /// When.
    pub at: Timestamp,
    /// Whether the job passed on the same head later.
    pub passed_later: bool,
}

/// One job and label on one runner.
#[derive(Clone, Debug)]
pub struct FlakeCount {
    /// The job.
    pub job: JobName,
    /// Who ran it.
    pub runner: Option<RunnerName>,
    /// The label; none for failures that no label covers and after which the job passed on the same head.
    pub label: Option<(LabelOrigin, String)>,
    /// Failures, of all runs of the job.
    pub rate: Rate,
    /// Those of them after which the job passed on the same head.
    pub passed_later: u64,
    /// Retries that nobody asked for.
    pub retries: u64,
    /// Those of them that passed.
    pub retries_passed: u64,
    /// The time that these retries ran, in milliseconds.
    pub cost_ms: u64,
    /// The newest failure.
    pub last_seen: Timestamp,
    /// Failures by day, in UTC, as `2026-05-28`.
    pub days: BTreeMap<String, u64>,
}

type Key = (JobName, Option<RunnerName>, Option<(LabelOrigin, String)>);

/// Counts what happened: the most failures first. `runs` says how many runs each job had in the same span.
pub fn count_flakes(sightings: &[Sighting], runs: &BTreeMap<JobName, u64>, retries: &[Retry]) -> Vec<FlakeCount> {
    let mut all: BTreeMap<Key, FlakeCount> = BTreeMap::new();
    let mut hits: BTreeMap<Key, u64> = BTreeMap::new();
    for one in sightings.iter().filter(|one| one.label.is_some() || one.passed_later) {
        let key = (one.job.clone(), one.runner.clone(), one.label.clone());
        *hits.entry(key.clone()).or_default() += 1;
        let count = all.entry(key).or_insert_with(|| empty(one));
        count.passed_later += u64::from(one.passed_later);
        count.last_seen = count.last_seen.max(one.at);
        *count.days.entry(day(one.at)).or_default() += 1;
    }
    for retry in retries {
        let Some(unasked) = &retry.unasked else { continue };
        let label = Some((unasked.evidence.origin.clone(), unasked.evidence.label.clone()));
        let Some(count) = all.get_mut(&(retry.job.clone(), Some(retry.runner.clone()), label)) else { continue };
        count.retries += 1;
        count.retries_passed += u64::from(retry.state == RetryState::Finished(Conclusion::Passed));
        if let (Some(began), Some(ended)) = (retry.dispatched_at, retry.ended_at) {
            count.cost_ms += u64::try_from(ended.since(began).as_millis()).unwrap_or(u64::MAX);
        }
    }
    for (key, count) in &mut all {
        let of = runs.get(&key.0).copied().unwrap_or_default();
        count.rate = Rate::new(hits.get(key).copied().unwrap_or_default(), of.max(1));
    }
    let mut out: Vec<FlakeCount> = all.into_values().collect();
    out.sort_by(|a, b| b.rate.hits.cmp(&a.rate.hits).then_with(|| a.job.cmp(&b.job)));
    out
}

fn empty(one: &Sighting) -> FlakeCount {
    FlakeCount {
        job: one.job.clone(),
        runner: one.runner.clone(),
        label: one.label.clone(),
        rate: Rate::new(0, 0),
        passed_later: 0,
        retries: 0,
        retries_passed: 0,
        cost_ms: 0,
        last_seen: one.at,
        days: BTreeMap::new(),
    }
}

fn day(at: Timestamp) -> String {
    chrono::DateTime::from_timestamp_millis(at.ms()).unwrap_or_default().format("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn failures_are_counted_by_job_label_and_day_and_plain_failures_are_not() {
        let noon = Timestamp::from_ms(1_780_000_000_000); // 28 May 2026
        let one = |label: Option<&str>, hours: u64, passed_later| Sighting {
            job: "unit".into(),
            runner: Some("ci".into()),
            label: label.map(|label| (LabelOrigin::Operator, label.to_owned())),
            at: noon.plus(Duration::from_secs(hours * 3_600)),
            passed_later,
        };
        let sightings =
            [one(Some("usb"), 0, true), one(Some("usb"), 24, false), one(None, 0, true), one(None, 0, false)];
        let counted = count_flakes(&sightings, &BTreeMap::from([("unit".into(), 40)]), &[]);
        assert_eq!(counted.len(), 2, "a failure that stayed one is no flake: {counted:?}");
        let usb = &counted[0];
        assert_eq!((usb.rate.hits, usb.rate.of, usb.passed_later), (2, 40, 1));
        assert_eq!(usb.days.keys().map(String::as_str).collect::<Vec<_>>(), ["2026-05-28", "2026-05-29"]);
        assert_eq!(usb.last_seen, sightings[1].at);
        assert_eq!((counted[1].label.clone(), counted[1].rate.hits), (None, 1));
    }
}
