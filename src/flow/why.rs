//! Answers `/why` from the audit log: what was decided about a job, when, on which head, in the words of then.

use chrono::{DateTime, Utc};

use super::lines::whole;
use super::snapshot::AskError;
use super::world::World;
use crate::decide::{AnswerLine, Authorised, Readers, Reason, Refusal, code, recorded};
use crate::domain::{Change, Timestamp};
use crate::store::{AuditEntry, JobQuery};

/// Entries of one job that are shown.
const OF_JOB_MAX: u32 = 15;

/// Entries that are shown when no job is named.
const OF_CHANGE_MAX: u32 = 10;

impl World {
    /// The last decisions about a job of a change, or about the change.
    pub(super) async fn explain(
        &self,
        (change, readers): (&Change, Readers),
        job: Option<&str>,
        proof: Result<Authorised, Refusal>,
    ) -> Result<Result<Vec<AnswerLine>, Refusal>, AskError> {
        if let Err(refusal) = proof {
            return Ok(Err(refusal));
        }
        let mut lines = Vec::new();
        let entries = match job {
            Some(job) => {
                let known =
                    self.store.jobs(&change.key.repo, &change.head, &JobQuery::Named(vec![job.to_owned()])).await?;
                for job in known {
                    let name = code(job.newest.name.as_str());
                    let runs = if job.runs == 1 { "1 run".to_owned() } else { format!("{} runs", job.runs) };
                    let text = format!("{name} is {} on this head, {runs} known", job.newest.state);
                    lines.push(whole(Reason::Listed, text));
                }
                self.store.audit_of_job(&change.key, (job, readers), OF_JOB_MAX).await?
            }
            None => self.store.audit_log(&change.key, readers, OF_CHANGE_MAX).await?,
        };
        lines.extend(entries.iter().map(|entry| whole(Reason::Listed, entry_text(entry, job.is_none()))));
        if lines.is_empty() {
            let text = match job {
                Some(job) => {
                    format!("nothing is on record about {} on this change; {} lists its jobs", code(job), code("/jobs"))
                }
                None => "nothing is on record about this change yet".to_owned(),
            };
            lines.push(whole(Reason::Nothing, text));
        }
        Ok(Ok(lines))
    }
}

fn entry_text(entry: &AuditEntry, with_job: bool) -> String {
    let job = if with_job && !entry.job.is_empty() { format!("{}: ", code(&entry.job)) } else { String::new() };
    let head = code(entry.sha.get(..7).unwrap_or(&entry.sha));
    format!("{}, {head}: {job}{}", utc(entry.at), recorded(&entry.what))
}

/// A point in time as people read it, in UTC, to the second.
fn utc(at: Timestamp) -> String {
    DateTime::<Utc>::from_timestamp_millis(at.ms()).unwrap_or_default().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}
