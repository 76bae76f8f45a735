//! `/flake`, `/autoretry` and `/override`: what people say about flakes, and about statuses that flakes turned red.
//!
//! An issue is written before the answer is stored: written twice it says the same. Read next: `labels.rs`, `judge.rs`.

use retest_commands::{Autoretry, Flake, FlakeIssue, Override, Switch};

use super::asked::Asked;
use super::command::Outcome;
use super::lines::{line, names, whole};
use super::snapshot::AskError;
use super::world::World;
use crate::decide::{
    AnswerLine, Authorised, Overridden, Reason, Refusal, RefusalKind, aggregate, code, job_statuses, plain_words,
};
use crate::domain::{Conclusion, Issue, Job, JobName, Retry, RetryId, RetryState};
use crate::ports::IssuePost;
use crate::store::JobQuery;

/// Jobs that one `/flake` may link.
const JOBS_MAX: usize = 20;

/// What commands decided beside retries; stored with the answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    /// Issues that were written.
    pub issues: Vec<Issue>,
    /// Jobs whose failures are judged again.
    pub judge_again: Vec<JobName>,
    /// Whether failures of the change may be retried unasked.
    pub switch: Option<bool>,
    /// Statuses that were set to success.
    pub overridden: Vec<Overridden>,
}

impl Decided {
    pub(super) fn is_empty(&self) -> bool {
        self.issues.is_empty() && self.judge_again.is_empty() && self.switch.is_none() && self.overridden.is_empty()
    }
}

type Answered = Result<Vec<AnswerLine>, Refusal>;

impl World {
    /// Writes a job's failure into the issue of its flake.
    pub(super) async fn flake(
        &self,
        asked: &Asked<'_>,
        wish: &Flake,
        proof: Result<Authorised, Refusal>,
        outcome: &mut Outcome,
    ) -> Result<Answered, AskError> {
        if let Err(refusal) = proof {
            return Ok(Err(refusal));
        }
        let Some(label) = self.rules.flakes.issue_label.clone() else {
            let text = "issues are not read here: the operator has set no label for them (`autoretry.issue_label`)";
            return Ok(Err(Refusal::new(RefusalKind::Unsupported, text)));
        };
        let jobs = match self.meant_by(asked, wish).await? {
            Ok(jobs) => jobs,
            Err(line) => return Ok(Ok(vec![line])),
        };
        let written = match wish.issue {
            FlakeIssue::Number(number) => {
                self.extend_issue(asked, number, (&jobs, &label), wish.log.as_deref()).await?
            }
            FlakeIssue::New => self.open_issue(asked, (&jobs, &label), wish.log.as_deref()).await?,
        };
        let (issue, what) = match written {
            Ok(written) => written,
            Err(text) => return Ok(Ok(vec![whole(Reason::Nothing, text)])),
        };
        let rule = (self.rules.flakes.read_issue)(issue.number, &issue.body);
        let number = code(&format!("#{}", issue.number));
        let page = crate::decide::link(&format!("issue {}", issue.number), Some(&issue.url));
        let next = match rule {
            Some(Ok(_)) if !self.rules.flakes.counts(&issue) => {
                format!("but the label {} could not be put on it: somebody who may has to", code(&label))
            }
            Some(Ok(_)) => "its failures are judged again now".to_owned(),
            Some(Err(faults)) => {
                let fault = faults.first().map_or_else(String::new, |fault| format!(" ({})", code(fault)));
                format!(
                    "but its block does not tell yet how the flake is known{fault}; add a text of the log: {}",
                    code(&format!("/flake JOB #{} \"text\"", issue.number))
                )
            }
            None => format!("but {number} has no block"),
        };
        let lines = jobs.iter().map(|job| {
            let text = format!("{what} {page}; {next}");
            line(job.newest.name.as_str(), Reason::Linked, text)
        });
        let lines = lines.collect();
        outcome.decided.judge_again.extend(jobs.iter().map(|job| job.newest.name.clone()));
        outcome.decided.issues.push(issue);
        Ok(Ok(lines))
    }

    /// The jobs that a `/flake` means.
    async fn meant_by(&self, asked: &Asked<'_>, wish: &Flake) -> Result<Result<Vec<Job>, AnswerLine>, AskError> {
        let all = wish.selection.words.is_empty() && wish.selection.whole.is_none();
        let query = if all { JobQuery::Bad } else { JobQuery::All };
        let selection = asked.policy.terms.own_names(&wish.selection);
        let mut jobs = self.store.jobs(&asked.repo.key, &asked.change.head, &query).await?;
        jobs.retain(|job| all || names(&selection, job.newest.name.as_str()));
        if jobs.is_empty() {
            let head = code(asked.change.head.short());
            let text = if all {
                format!("no job of {head} ended badly")
            } else {
                format!("no job of that name is known on {head}; {} lists them", code("/jobs"))
            };
            return Ok(Err(whole(Reason::Unknown, text)));
        }
        if jobs.len() > JOBS_MAX {
            let text = format!("{} jobs are meant, and one command links {JOBS_MAX} at most; name them", jobs.len());
            return Ok(Err(whole(Reason::TooMany, text)));
        }
        Ok(Ok(jobs))
    }

    /// Adds jobs, and a text of their log, to the block of an issue, and the label to the issue.
    async fn extend_issue(
        &self,
        asked: &Asked<'_>,
        number: u64,
        (jobs, label): (&[Job], &str),
        log: Option<&str>,
    ) -> Result<Result<(Issue, &'static str), String>, AskError> {
        let shown = code(&format!("#{number}"));
        let Some(issue) = asked.forge.issue(&asked.repo, number).await? else {
            return Ok(Err(format!("there is no issue {shown} in this repository")));
        };
        if !issue.open {
            return Ok(Err(format!("{shown} is closed; reopen it, or open a new one: {}", code("/flake JOB new"))));
        }
        let mut body = issue.body.clone();
        for job in jobs {
            match (self.rules.flakes.extend_issue)(&body, job.newest.name.as_str(), log) {
                Ok(more) => body = more,
                Err(why) => return Ok(Err(format!("the block of {shown} cannot be added to: {}", code(&why)))),
            }
        }
        let labelled = issue.labels.iter().any(|known| known.eq_ignore_ascii_case(label));
        if labelled && body == issue.body {
            return Ok(Ok((issue, "is in")));
        }
        let labels = if labelled { Vec::new() } else { vec![label.to_owned()] };
        let post = IssuePost { number: Some(number), title: None, body: (body != issue.body).then_some(body), labels };
        Ok(self.written(asked.forge.put_issue(&asked.repo, &post).await)?.map(|issue| (issue, "was written into")))
    }

    /// Opens an issue for jobs, unless this very command has opened it already.
    async fn open_issue(
        &self,
        asked: &Asked<'_>,
        (jobs, label): (&[Job], &str),
        log: Option<&str>,
    ) -> Result<Result<(Issue, &'static str), String>, AskError> {
        let marker = format!("<!-- retest-bot:flake-of {}/{} -->", asked.change.key.number, asked.delivery.row);
        let listed = asked.forge.labelled_issues(&asked.repo, label).await?;
        if let Some(issue) = listed.into_iter().find(|issue| issue.body.contains(&marker)) {
            return Ok(Ok((issue, "was written into")));
        }
        let mut body = String::new();
        for job in jobs {
            match (self.rules.flakes.extend_issue)(&body, job.newest.name.as_str(), log) {
                Ok(more) => body = more,
                Err(why) => return Ok(Err(format!("no block can be made of this: {}", code(&why)))),
            }
        }
        let first = jobs.first().map(|job| job.newest.name.as_str()).unwrap_or_default();
        let more = if jobs.len() > 1 { format!(" and {} more", jobs.len() - 1) } else { String::new() };
        let title: String = format!("Flake: {first}{more}").chars().filter(|c| !c.is_control()).take(200).collect();
        let seen: Vec<String> = jobs.iter().map(seen_of).collect();
        let body = format!(
            "{marker}\n{}\n\nSeen on {}:\n\n{}\n\nThe block tells which failures this issue is about; edit it as you like. While \
             the issue is open, such failures are run again by themselves. Closing it ends that.\n",
            body.trim(),
            code(asked.change.head.short()),
            seen.join("\n")
        );
        let post = IssuePost { number: None, title: Some(title), body: Some(body), labels: vec![label.to_owned()] };
        Ok(self.written(asked.forge.put_issue(&asked.repo, &post).await)?.map(|issue| (issue, "has its own")))
    }

    /// The issue as it was written; or what the forge said against it.
    fn written(&self, result: Result<Issue, crate::ports::CallError>) -> Result<Result<Issue, String>, AskError> {
        match result {
            Ok(issue) => Ok(Ok(issue)),
            Err(crate::ports::CallError::Refused { user, log }) => {
                tracing::warn!(%log, "an issue could not be written");
                Ok(Err(format!("the issue could not be written: {}", plain_words(&user))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Switches unasked retries of a change on or off.
    pub(super) fn autoretry(
        wish: &Autoretry,
        proof: Result<Authorised, Refusal>,
        retries: &[Retry],
        outcome: &mut Outcome,
    ) -> Answered {
        proof?;
        let on = wish.switch == Switch::On;
        outcome.decided.switch = Some(on);
        let text = if on {
            "on: known flakes of this change are retried by themselves, every other failure once".to_owned()
        } else {
            let waiting: Vec<RetryId> =
                retries.iter().filter(|retry| waits_unasked(retry)).map(|retry| retry.id).collect();
            let ended = if waiting.is_empty() { String::new() } else { format!("; {} waiting ended", waiting.len()) };
            outcome.cancel.extend(waiting);
            format!("off: nothing of this change is retried unless somebody asks{ended}")
        };
        Ok(vec![whole(Reason::Switched, text)])
    }

    /// Sets one of our own statuses to success.
    pub(super) fn override_status(
        &self,
        asked: &Asked<'_>,
        wish: &Override,
        proof: Result<Authorised, Refusal>,
        (retries, outcome): (&[Retry], &mut Outcome),
    ) -> Answered {
        proof?;
        let unreported = |r: &Retry| self.runner(&r.runner).is_none_or(|e| !e.runner.abilities().reported_by_forge);
        let posts = &self.rules.posts;
        let mut ours: Vec<String> =
            job_statuses(retries, &[], unreported).into_iter().map(|post| post.context).collect();
        if posts.always || aggregate(retries, posts, &crate::decide::Beside::default()).is_some() {
            ours.push(posts.aggregate.clone());
        }
        let same = |context: &&String| context.eq_ignore_ascii_case(&wish.status);
        let Some(context) = ours.iter().find(same).cloned() else {
            let list: Vec<String> = ours.iter().take(20).map(|context| code(context)).collect();
            let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            let text = format!("{} is no status of this bot on this head; there are: {list}", code(&wish.status));
            return Ok(vec![whole(Reason::Unknown, text)]);
        };
        let reason: String = wish.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = format!("{} is set to success on this head; on record: {}", code(&context), code(&reason));
        outcome.decided.overridden.push(Overridden { context, actor: asked.actor.login.clone(), reason });
        Ok(vec![whole(Reason::Overridden, text)])
    }
}

/// A retry that nobody asked for and that is not started yet.
fn waits_unasked(retry: &Retry) -> bool {
    retry.unasked.is_some() && matches!(retry.state, RetryState::Requested | RetryState::Waiting(_))
}

/// What is known of a job's failure, as a line of a new issue.
fn seen_of(job: &Job) -> String {
    let seen = &job.newest;
    let cause = seen.cause.as_ref().map_or_else(String::new, |cause| format!(", cause {}", code(cause)));
    let state = Conclusion::of(seen.state).map_or("not over", |_| seen.state.as_str());
    let run = crate::decide::link("run", seen.url.as_deref());
    format!("- {}: {}{cause}, {run}", code(seen.name.as_str()), code(state))
}
