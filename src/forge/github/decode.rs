//! Payloads in our words. Pure: a body goes in, an event or the reason for none comes out.
//!
//! The cheapest reason is looked at first, and nothing is copied before the event is known to be wanted.

use serde::Deserialize;

use super::Hooks;
use super::decode_issue;
use super::hooks::{
    CheckRun, CheckSuite, CommentBody, Id, IssueComment, Pull, PullRequest, Push, Repository, Review, Status, User,
    WorkflowJob, WorkflowRun, actor_or_ghost, text,
};
use super::receive::Skip;
use crate::api::github::{timestamp, words};
use crate::domain::{
    Change, ChangeAction, ChangeKey, CommentAction, CommentEvent, CommentKind, CommentRef, CommitSha, ForgeEvent,
    JobEvent, JobName, JobObservation, Origin, PressEvent, Pressed, PushEvent, Repo, RepoKey, RunOrder, RunRef,
    Timestamp,
};

/// GitHub Actions' own App: its check runs are told better by `workflow_job`.
pub(super) const ACTIONS_SLUG: &str = "github-actions";

/// Decodes one body by the name of its event.
pub(super) fn event(hooks: &Hooks, name: &str, body: &[u8], at: Timestamp) -> Result<ForgeEvent, Skip> {
    match name {
        "issues" => decode_issue::issues(hooks, &read(body)?, at),
        "merge_group" => decode_issue::merge_group(hooks, &read(body)?, at),
        "issue_comment" => issue_comment(hooks, &read(body)?, at),
        "pull_request_review_comment" => review(hooks, &read(body)?, CommentKind::ReviewLine, at),
        "pull_request_review" => review(hooks, &read(body)?, CommentKind::Review, at),
        "pull_request" => pull_request(hooks, &read(body)?, at),
        "check_run" => check_run(hooks, &read(body)?, at),
        "check_suite" => check_suite(hooks, &read(body)?, at),
        "workflow_run" => workflow_run(hooks, &read(body)?),
        "workflow_job" => workflow_job(hooks, &read(body)?, at),
        "status" => status(hooks, &read(body)?, at),
        "push" => push(hooks, &read(body)?, at),
        "ping" => Err(Skip::Ignored("ping")),
        _ => Err(Skip::Ignored("event not used")),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Skip> {
    serde_json::from_slice(body).map_err(|_| {
        // Only now the path is worth its cost.
        let mut json = serde_json::Deserializer::from_slice(body);
        match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Ok(_) => Skip::Malformed("more than one JSON value".to_owned()),
            Err(e) => Skip::Malformed(format!("at `{}`: {}", e.path(), e.inner())),
        }
    })
}

pub(super) fn sha(text: &str) -> Result<CommitSha, Skip> {
    CommitSha::parse(text).map_err(|e| Skip::Malformed(e.to_string()))
}

/// The repository, if the operator's list lets it in.
pub(super) fn repo(hooks: &Hooks, from: &Repository<'_>, installation: Option<&Id>) -> Result<Repo, Skip> {
    let full_name = from.full_name.as_str();
    if hooks.repositories.as_ref().is_some_and(|list| !list.is_match(full_name)) {
        return Err(Skip::Ignored("repository not listed"));
    }
    Ok(Repo {
        key: RepoKey { forge: hooks.forge.clone(), id: from.id },
        full_name: full_name.to_owned(),
        installation: installation.map(|found| found.id),
        default_branch: from.default_branch.as_ref().map(|name| name.as_str().to_owned()),
    })
}

/// A push to the default branch; others are no base that is worth a row for every push.
fn push(hooks: &Hooks, event: &Push<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    let branch = event.branch.as_str().strip_prefix("refs/heads/").unwrap_or_default();
    if branch.is_empty() || branch != text(&event.repository.default_branch) {
        return Err(Skip::Ignored("a push to another branch than the default one"));
    }
    if event.after.as_str().bytes().all(|digit| digit == b'0') {
        return Err(Skip::Ignored("a branch was deleted"));
    }
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let sha = sha(event.after.as_str())?;
    Ok(ForgeEvent::Push(Box::new(PushEvent { repo, branch: branch.to_owned(), sha, at })))
}

fn comment_action(word: &str, before: Option<String>) -> Result<CommentAction, Skip> {
    match word {
        "created" | "submitted" => Ok(CommentAction::Created),
        "edited" => Ok(CommentAction::Edited { before }),
        "deleted" => Ok(CommentAction::Deleted),
        _ => Err(Skip::Ignored("action not used")),
    }
}

/// Whether the comment is worth a row: it may hold a command, and it is not ours.
fn worth(hooks: &Hooks, comment: &CommentBody<'_>) -> Result<(), Skip> {
    let via = comment.performed_via_github_app.as_ref().map(|app| app.id);
    if via.is_some() && via == hooks.app_id {
        return Err(Skip::Ignored("our own comment"));
    }
    if (hooks.may_hold_command)(text(&comment.body)) { Ok(()) } else { Err(Skip::Ignored("no command")) }
}

fn issue_comment(hooks: &Hooks, event: &IssueComment<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    if event.issue.pull_request.is_none() {
        return Err(Skip::Ignored("comment not on a pull request"));
    }
    worth(hooks, &event.comment)?;
    let before = event.changes.as_ref().and_then(|c| c.body.as_ref()).and_then(|b| b.from.as_ref());
    let action = comment_action(event.action.as_str(), before.map(|text| text.as_str().to_owned()))?;
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let change = ChangeKey { repo: repo.key.clone(), number: event.issue.number };
    let open = text(&event.issue.state) != "closed";
    let said = Said { comment: &event.comment, sender: event.sender.as_ref(), kind: CommentKind::Issue, action };
    Ok(ForgeEvent::Comment(Box::new(CommentEvent { open, ..said.on(repo, change, at) })))
}

fn review(hooks: &Hooks, event: &Review<'_>, kind: CommentKind, at: Timestamp) -> Result<ForgeEvent, Skip> {
    worth(hooks, &event.comment)?;
    let before = event.changes.as_ref().and_then(|c| c.body.as_ref()).and_then(|b| b.from.as_ref());
    let action = comment_action(event.action.as_str(), before.map(|text| text.as_str().to_owned()))?;
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let facts = change(&repo, &event.pull_request, at)?;
    let said = Said { comment: &event.comment, sender: event.sender.as_ref(), kind, action };
    Ok(ForgeEvent::Comment(Box::new(CommentEvent {
        open: facts.open,
        head: Some(facts.head.clone()),
        change_facts: Some(Box::new(facts.clone())),
        ..said.on(repo, facts.key, at)
    })))
}

/// What all kinds of comments have in common.
struct Said<'a, 'b> {
    comment: &'a CommentBody<'b>,
    sender: Option<&'a User<'b>>,
    kind: CommentKind,
    action: CommentAction,
}

impl Said<'_, '_> {
    fn on(self, repo: Repo, change: ChangeKey, at: Timestamp) -> CommentEvent {
        let author = actor_or_ghost(self.comment.user.as_ref());
        let written = self.comment.created_at.as_ref().or(self.comment.submitted_at.as_ref());
        CommentEvent {
            repo,
            change,
            comment: CommentRef { kind: self.kind, id: self.comment.id },
            action: self.action,
            sender: self.sender.map_or_else(|| author.clone(), User::actor),
            author,
            body: text(&self.comment.body).to_owned(),
            created_at: written.and_then(|date| timestamp(date.as_str())).unwrap_or(at),
            head: None,
            internal: false,
            change_facts: None,
            via_app: self.comment.performed_via_github_app.as_ref().map(|app| app.id),
            open: true,
        }
    }
}

fn change(repo: &Repo, pull: &Pull<'_>, at: Timestamp) -> Result<Change, Skip> {
    Ok(Change {
        key: ChangeKey { repo: repo.key.clone(), number: pull.number },
        head: sha(pull.head.sha.as_str())?,
        author: pull.user.as_ref().map(User::actor),
        open: text(&pull.state) != "closed",
        from_fork: pull.head.repo.as_ref().is_none_or(|head| head.id != repo.key.id),
        base_ref: pull.base.name.as_str().to_owned(),
        labels: pull.labels.iter().flatten().map(|label| label.name.as_str().to_owned()).collect(),
        head_pipeline: None,
        source_ref: Some(pull.head.name.as_str().to_owned()),
        approved_head: None,
        updated_at: pull.updated_at.as_ref().and_then(|date| timestamp(date.as_str())).unwrap_or(at),
    })
}

/// What an action of `pull_request` means; none for those that we do not use.
pub(super) fn change_action(word: &str) -> Option<ChangeAction> {
    match word {
        "opened" | "reopened" => Some(ChangeAction::Opened),
        "synchronize" => Some(ChangeAction::HeadMoved),
        "closed" => Some(ChangeAction::Closed),
        "edited" | "labeled" | "unlabeled" | "converted_to_draft" | "ready_for_review" => Some(ChangeAction::Edited),
        _ => None,
    }
}

fn pull_request(hooks: &Hooks, event: &PullRequest<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    let action = change_action(event.action.as_str()).ok_or(Skip::Ignored("action not used"))?;
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let change = Box::new(change(&repo, &event.pull_request, at)?);
    Ok(ForgeEvent::Change { repo, change, action })
}

/// A button that was pressed on something of ours.
fn press(sender: Option<&User<'_>>, repo: Repo, sha: CommitSha, pressed: Pressed, at: Timestamp) -> ForgeEvent {
    ForgeEvent::Press(Box::new(PressEvent { repo, sha, sender: actor_or_ghost(sender), pressed, at }))
}

fn check_run(hooks: &Hooks, event: &CheckRun<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    let check = &event.check_run;
    let app = check.app.as_ref();
    let ours = hooks.app_id.is_some() && app.map(|a| a.id) == hooks.app_id;
    let pressed = match (event.action.as_str(), ours) {
        ("rerequested", true) => Some(Pressed::Rerun),
        ("requested_action", true) => {
            let button = event.requested_action.as_ref();
            let button = button.ok_or_else(|| Skip::Malformed("`requested_action` is missing".to_owned()))?;
            Some(Pressed::Button(button.identifier.as_str().to_owned()))
        }
        ("rerequested" | "requested_action", false) => return Err(Skip::Ignored("a button of another App")),
        ("created" | "completed", true) => return Err(Skip::Ignored("our own check run")),
        ("created" | "completed", false) => None,
        _ => return Err(Skip::Ignored("action not used")),
    };
    let slug = app.map_or("", |a| text(&a.slug));
    if pressed.is_none() && slug == ACTIONS_SLUG {
        return Err(Skip::Ignored("told by workflow_job"));
    }
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let sha = sha(check.head_sha.as_str())?;
    if let Some(pressed) = pressed {
        return Ok(press(event.sender.as_ref(), repo, sha, pressed, at));
    }
    let conclusion = check.conclusion.as_ref().map(|word| word.as_str());
    let reading = words::check(text(&check.status), conclusion);
    let url = check.details_url.as_ref().or(check.html_url.as_ref());
    // An App may run its check again under the same id: then it starts anew.
    let started = check.started_at.as_ref().and_then(|date| timestamp(date.as_str()));
    let job = JobObservation {
        name: JobName::new(check.name.as_str()),
        scope: slug.to_owned(),
        origin: Origin::Check(slug.to_owned()),
        run: RunRef::new(check.id.to_string()),
        order: RunOrder(signed(check.id), started.map_or(0, Timestamp::ms)),
        group: None,
        state: reading.state,
        cause: reading.cause,
        url: url.map(|text| text.as_str().to_owned()),
        allow_failure: false,
        manual: reading.manual,
        needs: None,
        at,
    };
    Ok(jobs(repo, sha, job))
}

fn check_suite(hooks: &Hooks, event: &CheckSuite<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    if event.action.as_str() != "rerequested" {
        return Err(Skip::Ignored("action not used"));
    }
    let app = event.check_suite.app.as_ref().map(|a| a.id);
    if hooks.app_id.is_none() || app != hooks.app_id {
        return Err(Skip::Ignored("a button of another App"));
    }
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let sha = sha(event.check_suite.head_sha.as_str())?;
    Ok(press(event.sender.as_ref(), repo, sha, Pressed::Rerun, at))
}

fn workflow_run(hooks: &Hooks, event: &WorkflowRun<'_>) -> Result<ForgeEvent, Skip> {
    if event.action.as_str() != "completed" {
        return Err(Skip::Ignored("told by workflow_job"));
    }
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let sha = sha(event.workflow_run.head_sha.as_str())?;
    let group_over = Some(event.workflow_run.id.to_string());
    Ok(ForgeEvent::Jobs(Box::new(JobEvent { repo, sha, jobs: Vec::new(), group_over })))
}

fn workflow_job(hooks: &Hooks, event: &WorkflowJob<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    if !matches!(event.action.as_str(), "queued" | "waiting" | "in_progress" | "completed") {
        return Err(Skip::Ignored("action not used"));
    }
    let job = &event.workflow_job;
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let sha = sha(job.head_sha.as_str())?;
    let ran = job.runner_id.is_some_and(|id| id != 0) && job.steps.as_ref().is_some_and(|steps| !steps.is_empty());
    let conclusion = job.conclusion.as_ref().map(|word| word.as_str());
    let reading = words::actions_job(text(&job.status), conclusion, ran);
    let attempt = job.run_attempt.unwrap_or(1);
    let observation = JobObservation {
        name: JobName::new(job.name.as_str()),
        scope: text(&job.workflow_name).to_owned(),
        origin: Origin::Actions,
        run: RunRef::new(format!("{}/{attempt}/{}", job.run_id, job.id)),
        order: RunOrder(signed(job.run_id), signed(attempt)),
        group: Some(job.run_id.to_string()),
        state: reading.state,
        cause: reading.cause,
        url: job.html_url.as_ref().map(|url| url.as_str().to_owned()),
        allow_failure: false,
        manual: reading.manual,
        needs: None,
        at,
    };
    Ok(jobs(repo, sha, observation))
}

fn status(hooks: &Hooks, event: &Status<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    if event.sender.as_ref().is_some_and(|sender| hooks.is_own_login(sender.login.as_str())) {
        return Err(Skip::Ignored("our own status"));
    }
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let sha = sha(event.sha.as_str())?;
    let posted = event.updated_at.as_ref().and_then(|date| timestamp(date.as_str())).unwrap_or(at);
    let reading = words::status(event.state.as_str());
    let observation = JobObservation {
        name: JobName::new(event.context.as_str()),
        scope: String::new(),
        origin: Origin::Status,
        run: RunRef::new(event.id.to_string()),
        order: RunOrder(posted.ms(), 0),
        group: None,
        state: reading.state,
        cause: reading.cause,
        url: event.target_url.as_ref().map(|url| url.as_str().to_owned()).filter(|url| !url.is_empty()),
        allow_failure: false,
        manual: reading.manual,
        needs: None,
        at,
    };
    Ok(jobs(repo, sha, observation))
}

fn jobs(repo: Repo, sha: CommitSha, job: JobObservation) -> ForgeEvent {
    ForgeEvent::Jobs(Box::new(JobEvent { repo, sha, jobs: vec![job], group_over: None }))
}

/// Ids are positive; one too large for the store sorts last instead of turning negative.
pub(super) fn signed(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}
