//! GitHub's webhook payloads, as far as we read them.
//!
//! They borrow from the body and skip everything else, so that a comment of any size is read in one pass without
//! copying. Lenient like `api::github::wire`: what can be null is optional, words are plain text.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::domain::Actor;

/// A text that stays in the body unless it holds escapes. (A plain `Option<Cow<str>>` would always copy.)
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text of an optional field; empty when it is missing.
pub(super) fn text<'b>(field: &'b Option<Text<'_>>) -> &'b str {
    field.as_ref().map_or("", Text::as_str)
}

#[derive(Debug, Deserialize)]
pub(super) struct User<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub login: Text<'a>,
    #[serde(borrow, rename = "type", default)]
    pub kind: Option<Text<'a>>,
}

impl User<'_> {
    pub fn actor(&self) -> Actor {
        Actor { id: self.id, login: self.login.as_str().to_owned(), is_bot: text(&self.kind) == "Bot" }
    }
}

/// A person, or GitHub's stand-in for a deleted account. Nobody has a right as the stand-in.
pub(super) fn actor_or_ghost(user: Option<&User<'_>>) -> Actor {
    user.map_or_else(|| Actor { id: 0, login: "ghost".to_owned(), is_bot: false }, User::actor)
}

#[derive(Debug, Deserialize)]
pub(super) struct Id {
    pub id: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub full_name: Text<'a>,
    #[serde(borrow, default)]
    pub default_branch: Option<Text<'a>>,
}

/// What every payload that we read has.
#[derive(Debug, Deserialize)]
pub(super) struct Common<'a> {
    #[serde(borrow)]
    pub action: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommentBody<'a> {
    pub id: u64,
    #[serde(borrow, default)]
    pub body: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub user: Option<User<'a>>,
    #[serde(borrow, default)]
    pub created_at: Option<Text<'a>>,
    /// Reviews have this in place of `created_at`.
    #[serde(borrow, default)]
    pub submitted_at: Option<Text<'a>>,
    #[serde(default)]
    pub performed_via_github_app: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Issue<'a> {
    pub number: u64,
    #[serde(borrow, default)]
    pub state: Option<Text<'a>>,
    /// Present when the issue is a pull request.
    #[serde(default)]
    pub pull_request: Option<IgnoredAny>,
}

/// `issues`: more of the issue than a comment on it needs.
#[derive(Debug, Deserialize)]
pub(super) struct Issues<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub issue: WholeIssue<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WholeIssue<'a> {
    pub number: u64,
    #[serde(borrow, default)]
    pub title: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub body: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub html_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub state: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub labels: Option<Vec<Label<'a>>>,
    #[serde(borrow, default)]
    pub updated_at: Option<Text<'a>>,
    #[serde(default)]
    pub pull_request: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MergeGroup<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub merge_group: Group<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Group<'a> {
    /// The commit to be tested.
    #[serde(borrow)]
    pub head_sha: Text<'a>,
    /// `refs/heads/gh-readonly-queue/BASE/pr-NUMBER-SHA`.
    #[serde(borrow)]
    pub head_ref: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Before<'a> {
    #[serde(borrow, default)]
    pub from: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Changes<'a> {
    #[serde(borrow, default)]
    pub body: Option<Before<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct IssueComment<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub comment: CommentBody<'a>,
    #[serde(borrow)]
    pub issue: Issue<'a>,
    #[serde(borrow, default)]
    pub changes: Option<Changes<'a>>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(borrow, default)]
    pub sender: Option<User<'a>>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Branch<'a> {
    #[serde(borrow)]
    pub sha: Text<'a>,
    #[serde(borrow, rename = "ref")]
    pub name: Text<'a>,
    #[serde(default)]
    pub repo: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Label<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull<'a> {
    pub number: u64,
    #[serde(borrow, default)]
    pub state: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub user: Option<User<'a>>,
    #[serde(borrow)]
    pub head: Branch<'a>,
    #[serde(borrow)]
    pub base: Branch<'a>,
    #[serde(borrow, default)]
    pub labels: Option<Vec<Label<'a>>>,
    #[serde(borrow, default)]
    pub updated_at: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PullRequest<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub pull_request: Pull<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(default)]
    pub installation: Option<Id>,
}

/// `pull_request_review_comment` and `pull_request_review`: the text is in `comment` or in `review`.
#[derive(Debug, Deserialize)]
pub(super) struct Review<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow, alias = "review")]
    pub comment: CommentBody<'a>,
    #[serde(borrow)]
    pub pull_request: Pull<'a>,
    #[serde(borrow, default)]
    pub changes: Option<Changes<'a>>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(borrow, default)]
    pub sender: Option<User<'a>>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct App<'a> {
    pub id: u64,
    #[serde(borrow, default)]
    pub slug: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckBody<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub head_sha: Text<'a>,
    #[serde(borrow, default)]
    pub status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub conclusion: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub started_at: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub details_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub html_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub app: Option<App<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RequestedAction<'a> {
    #[serde(borrow)]
    pub identifier: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckRun<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub check_run: CheckBody<'a>,
    #[serde(borrow, default)]
    pub requested_action: Option<RequestedAction<'a>>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(borrow, default)]
    pub sender: Option<User<'a>>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SuiteBody<'a> {
    #[serde(borrow)]
    pub head_sha: Text<'a>,
    #[serde(borrow, default)]
    pub app: Option<App<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CheckSuite<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub check_suite: SuiteBody<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(borrow, default)]
    pub sender: Option<User<'a>>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunBody<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub head_sha: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkflowRun<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub workflow_run: RunBody<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct JobBody<'a> {
    pub id: u64,
    pub run_id: u64,
    #[serde(default)]
    pub run_attempt: Option<u64>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow, default)]
    pub workflow_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub head_sha: Text<'a>,
    #[serde(borrow, default)]
    pub status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub conclusion: Option<Text<'a>>,
    #[serde(default)]
    pub runner_id: Option<u64>,
    #[serde(default)]
    pub steps: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    pub html_url: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkflowJob<'a> {
    #[serde(borrow)]
    pub action: Text<'a>,
    #[serde(borrow)]
    pub workflow_job: JobBody<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Push<'a> {
    /// `refs/heads/NAME`.
    #[serde(borrow, rename = "ref")]
    pub branch: Text<'a>,
    /// Zeros when the branch was deleted.
    #[serde(borrow)]
    pub after: Text<'a>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(default)]
    pub installation: Option<Id>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Status<'a> {
    pub id: u64,
    #[serde(borrow)]
    pub sha: Text<'a>,
    #[serde(borrow)]
    pub context: Text<'a>,
    #[serde(borrow)]
    pub state: Text<'a>,
    #[serde(borrow, default)]
    pub target_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub updated_at: Option<Text<'a>>,
    #[serde(borrow)]
    pub repository: Repository<'a>,
    #[serde(borrow, default)]
    pub sender: Option<User<'a>>,
    #[serde(default)]
    pub installation: Option<Id>,
}
