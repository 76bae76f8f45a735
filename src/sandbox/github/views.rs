//! The sandbox read back by its owner, for assertions and for the demo's page.
//!
//! Plain copies; nothing here changes anything.

use super::GitHubSandbox;
use super::state::Status;

/// A comment, on the change or on a line of its diff.
#[derive(Clone, Debug)]
pub struct CommentView {
    /// Comment id.
    pub id: u64,
    /// Login of the author.
    pub author: String,
    /// Text now.
    pub body: String,
    /// (login, content) in the order they were added.
    pub reactions: Vec<(String, String)>,
    /// When it was written, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was last changed, in milliseconds since 1970.
    pub updated_ms: i64,
    /// How often its text was changed.
    pub edits: u32,
    /// It hangs on a line of the diff.
    pub on_line: bool,
}

/// An issue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssueView {
    /// Title.
    pub title: String,
    /// Text now.
    pub body: String,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Whether it is open.
    pub open: bool,
    /// Login of the author.
    pub author: String,
}

/// One posting of a status.
#[derive(Clone, Debug)]
pub struct StatusEntry {
    /// `error`, `failure`, `pending` or `success`.
    pub state: String,
    /// Text, empty when none was sent.
    pub description: String,
    /// Link, empty when none was sent.
    pub target_url: String,
    /// Login of the poster.
    pub creator: String,
    /// When, in milliseconds since 1970.
    pub created_ms: i64,
}

/// A status context with its newest state and everything posted before it.
#[derive(Clone, Debug)]
pub struct StatusView {
    /// Context.
    pub context: String,
    /// Newest state.
    pub state: String,
    /// Newest text.
    pub description: String,
    /// Newest link.
    pub target_url: String,
    /// All postings, oldest first, the newest among them.
    pub history: Vec<StatusEntry>,
}

/// A check run.
#[derive(Clone, Debug)]
pub struct CheckView {
    /// Check run id.
    pub id: u64,
    /// Id of its suite.
    pub suite_id: u64,
    /// Name.
    pub name: String,
    /// Slug of the App that owns it.
    pub app: String,
    /// `queued`, `in_progress` or `completed`.
    pub status: String,
    /// Result once completed.
    pub conclusion: Option<String>,
    /// The owner's own id.
    pub external_id: String,
    /// Link, when one was given.
    pub details_url: Option<String>,
    /// Title of the output.
    pub title: Option<String>,
    /// Summary of the output, Markdown.
    pub summary: Option<String>,
    /// Details of the output, Markdown.
    pub text: Option<String>,
    /// Messages of the annotations.
    pub annotations: Vec<String>,
    /// Buttons as (identifier, label).
    pub actions: Vec<(String, String)>,
}

/// One record of a job of GitHub Actions: each attempt makes its own.
#[derive(Clone, Debug)]
pub struct JobView {
    /// Job id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Workflow run.
    pub run_id: u64,
    /// Attempt of the run, from 1.
    pub attempt: u32,
    /// `queued`, `in_progress` or `completed`.
    pub status: String,
    /// Result once completed.
    pub conclusion: Option<String>,
    /// Log text.
    pub log: String,
}

/// A workflow run as its newest attempt stands.
#[derive(Clone, Debug)]
pub struct RunView {
    /// Run id, the same for all attempts.
    pub id: u64,
    /// Workflow name.
    pub name: String,
    /// Newest attempt, from 1.
    pub attempt: u32,
    /// `queued`, `in_progress` or `completed`.
    pub status: String,
    /// Result once completed.
    pub conclusion: Option<String>,
    /// Login that caused the newest attempt.
    pub triggered_by: String,
}

/// A change.
#[derive(Clone, Debug)]
pub struct PullView {
    /// Number.
    pub number: u64,
    /// Title.
    pub title: String,
    /// Login of the author.
    pub author: String,
    /// Head commit now.
    pub head_sha: String,
    /// Base commit.
    pub base_sha: String,
    /// Base branch.
    pub base_ref: String,
    /// Not closed.
    pub open: bool,
    /// Closed by merging.
    pub merged: bool,
    /// Not ready for review.
    pub draft: bool,
    /// The head lies in a fork.
    pub from_fork: bool,
    /// Names of its labels.
    pub labels: Vec<String>,
}

impl GitHubSandbox {
    /// An issue of the repository; none when there is none, or when it is a change.
    pub fn issue(&self, repo: &str, number: u64) -> Option<IssueView> {
        self.with(|state| {
            let issue = state.named(repo).issues.get(&number).filter(|issue| issue.pull.is_none())?;
            Some(IssueView {
                title: issue.title.clone(),
                body: issue.body.clone(),
                labels: issue.labels.clone(),
                open: issue.open,
                author: issue.author.clone(),
            })
        })
    }

    /// All comments of a change or issue, oldest first.
    pub fn comments(&self, repo: &str, number: u64) -> Vec<CommentView> {
        self.with(|state| {
            let comments = state.named(repo).comments.values().filter(|comment| comment.number == number);
            comments
                .map(|comment| CommentView {
                    id: comment.id,
                    author: comment.author.clone(),
                    body: comment.body.clone(),
                    reactions: comment.reactions.iter().map(|r| (r.login.clone(), r.content.clone())).collect(),
                    created_ms: comment.created_ms,
                    updated_ms: comment.updated_ms,
                    edits: comment.edits,
                    on_line: comment.line.is_some(),
                })
                .collect()
        })
    }

    /// The statuses of a commit, in the order their contexts first appeared.
    pub fn statuses(&self, repo: &str, sha: &str) -> Vec<StatusView> {
        self.with(|state| {
            let mut views: Vec<StatusView> = Vec::new();
            for status in state.named(repo).statuses.iter().filter(|status| status.sha == sha) {
                let entry = entry(status);
                match views.iter_mut().find(|view| view.context.eq_ignore_ascii_case(&status.context)) {
                    Some(view) => {
                        view.state.clone_from(&entry.state);
                        view.description.clone_from(&entry.description);
                        view.target_url.clone_from(&entry.target_url);
                        view.history.push(entry);
                    }
                    None => views.push(StatusView {
                        context: status.context.clone(),
                        state: entry.state.clone(),
                        description: entry.description.clone(),
                        target_url: entry.target_url.clone(),
                        history: vec![entry],
                    }),
                }
            }
            views
        })
    }

    /// The check runs of a commit, oldest first.
    pub fn check_runs(&self, repo: &str, sha: &str) -> Vec<CheckView> {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            let checks = state.checks.values().filter(|c| c.repo_id == repo_id && c.head_sha == sha);
            let text = |value: &serde_json::Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
            checks
                .map(|check| CheckView {
                    id: check.id,
                    suite_id: check.suite_id,
                    name: check.name.clone(),
                    app: state.app_login(check.app_id).trim_end_matches("[bot]").to_owned(),
                    status: check.status.clone(),
                    conclusion: check.conclusion.clone(),
                    external_id: check.external_id.clone(),
                    details_url: check.details_url.clone(),
                    title: check.output.title.clone(),
                    summary: check.output.summary.clone(),
                    text: check.output.text.clone(),
                    annotations: check.output.annotations.iter().map(|a| text(a, "message")).collect(),
                    actions: check.actions.iter().map(|a| (text(a, "identifier"), text(a, "label"))).collect(),
                })
                .collect()
        })
    }

    /// Every record of every Actions job on a commit, oldest first.
    pub fn jobs(&self, repo: &str, sha: &str) -> Vec<JobView> {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            let on = |run_id: u64| state.runs.get(&run_id).is_some_and(|run| run.head_sha == sha);
            let jobs = state.jobs.values().filter(|job| job.repo_id == repo_id && on(job.run_id));
            jobs.map(|job| JobView {
                id: job.id,
                name: job.name.clone(),
                run_id: job.run_id,
                attempt: job.attempt,
                status: job.status.clone(),
                conclusion: job.conclusion.clone(),
                log: job.log.clone(),
            })
            .collect()
        })
    }

    /// The workflow runs of a commit, oldest first.
    pub fn runs(&self, repo: &str, sha: &str) -> Vec<RunView> {
        self.with(|state| {
            let repo_id = state.named(repo).id;
            let runs = state.runs.values().filter(|run| run.repo_id == repo_id && run.head_sha == sha);
            runs.map(|run| RunView {
                id: run.id,
                name: run.spec.name.clone(),
                attempt: run.latest().number,
                status: run.latest().status.clone(),
                conclusion: run.latest().conclusion.clone(),
                triggered_by: run.latest().triggered_by.clone(),
            })
            .collect()
        })
    }

    /// The changes of a repository, by number.
    pub fn pulls(&self, repo: &str) -> Vec<PullView> {
        self.with(|state| {
            let issues = state.named(repo).issues.values();
            let pulls = issues.filter_map(|issue| Some((issue, issue.pull.as_ref()?)));
            pulls
                .map(|(issue, pull)| PullView {
                    number: issue.number,
                    title: issue.title.clone(),
                    author: issue.author.clone(),
                    head_sha: pull.head_sha.clone(),
                    base_sha: pull.base_sha.clone(),
                    base_ref: pull.base_ref.clone(),
                    open: issue.open,
                    merged: pull.merged,
                    draft: pull.draft,
                    from_fork: pull.from_fork,
                    labels: issue.labels.clone(),
                })
                .collect()
        })
    }

    /// What `repository_dispatch` received, as (event type, client payload), oldest first.
    pub fn dispatches(&self, repo: &str) -> Vec<(String, serde_json::Value)> {
        self.with(|state| state.named(repo).dispatches.clone())
    }
}

fn entry(status: &Status) -> StatusEntry {
    StatusEntry {
        state: status.state.clone(),
        description: status.description.clone().unwrap_or_default(),
        target_url: status.target_url.clone().unwrap_or_default(),
        creator: status.creator.clone(),
        created_ms: status.created_ms,
    }
}
