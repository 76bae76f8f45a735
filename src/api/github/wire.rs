//! What GitHub's REST answers hold, as far as we read them.
//!
//! Lenient on purpose: unknown fields are skipped, enum words are plain text, and whatever can be null is optional.
//! Webhook payloads have their own structs, which borrow from the body: `forge/github/hooks.rs`.

use serde::{Deserialize, Deserializer};

use super::client::Page;
use crate::domain::Actor;

/// Takes null as the empty value.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A person, bot or organisation.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// Numeric id.
    pub id: u64,
    /// Login.
    pub login: String,
    /// `User`, `Bot`, `Organization`, `Mannequin`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
}

impl From<User> for Actor {
    fn from(user: User) -> Self {
        Self { id: user.id, is_bot: user.kind.as_deref() == Some("Bot"), login: user.login }
    }
}

/// Anything of which only the id matters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Id {
    /// Numeric id.
    pub id: u64,
}

/// An App as it stands beside a check run.
#[derive(Clone, Debug, Deserialize)]
pub struct App {
    /// Numeric id.
    pub id: u64,
    /// The name in its address; the App's own login is `SLUG[bot]`.
    #[serde(default)]
    pub slug: Option<String>,
}

/// One side of a pull request.
#[derive(Clone, Debug, Deserialize)]
pub struct Branch {
    /// Commit.
    pub sha: String,
    /// Branch name.
    #[serde(rename = "ref")]
    pub name: String,
    /// The repository; null when it was deleted.
    #[serde(default)]
    pub repo: Option<Id>,
}

/// A label.
#[derive(Clone, Debug, Deserialize)]
pub struct Label {
    /// Its name.
    pub name: String,
}

/// A label of an issue: an object, or, in old answers, its bare name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum IssueLabel {
    /// The object; GitHub's description lets the name be missing.
    Object {
        /// Its name.
        #[serde(default)]
        name: Option<String>,
    },
    /// The name.
    Name(String),
}

impl IssueLabel {
    /// Its name.
    pub fn into_name(self) -> Option<String> {
        match self {
            Self::Object { name } => name,
            Self::Name(name) => Some(name),
        }
    }
}

/// An issue; a pull request is one too.
#[derive(Clone, Debug, Deserialize)]
pub struct Issue {
    /// Number.
    pub number: u64,
    /// Title.
    #[serde(default, deserialize_with = "or_default")]
    pub title: String,
    /// Text.
    #[serde(default, deserialize_with = "or_default")]
    pub body: String,
    /// Page for people.
    #[serde(default, deserialize_with = "or_default")]
    pub html_url: String,
    /// API address of its repository.
    #[serde(default, deserialize_with = "or_default")]
    pub repository_url: String,
    /// `open` or `closed`.
    pub state: String,
    /// Labels.
    #[serde(default, deserialize_with = "or_default")]
    pub labels: Vec<IssueLabel>,
    /// Last change of anything in it.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Present when it is a pull request.
    #[serde(default)]
    pub pull_request: Option<serde::de::IgnoredAny>,
}

/// A repository, of which only the present name matters.
#[derive(Clone, Debug, Deserialize)]
pub struct Repository {
    /// Numeric id.
    pub id: u64,
    /// `OWNER/NAME`.
    pub full_name: String,
}

/// A pull request.
#[derive(Clone, Debug, Deserialize)]
pub struct Pull {
    /// Number.
    pub number: u64,
    /// `open` or `closed`.
    pub state: String,
    /// Author; null for a deleted account.
    #[serde(default)]
    pub user: Option<User>,
    /// Where it comes from.
    pub head: Branch,
    /// Where it wants to go.
    pub base: Branch,
    /// Labels.
    #[serde(default, deserialize_with = "or_default")]
    pub labels: Vec<Label>,
    /// Last change of anything in it.
    #[serde(default)]
    pub updated_at: Option<String>,
}

/// What stands at a path of a repository: a file, or something else.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A file.
    File {
        /// The id of its content.
        sha: String,
        /// The content in base64 with line ends; empty when it is larger than 1 MB.
        content: String,
        /// In bytes.
        size: u64,
    },
    /// A folder, or a link to another repository.
    Other(serde::de::IgnoredAny),
}

/// A membership of a team.
#[derive(Clone, Debug, Deserialize)]
pub struct Membership {
    /// `active`, or `pending` while it is not accepted.
    pub state: String,
}

/// What somebody may do on a repository.
#[derive(Clone, Debug, Deserialize)]
pub struct Permission {
    /// `admin`, `write`, `read` or `none`.
    #[serde(default)]
    pub permission: Option<String>,
    /// The finer word (`maintain`, `triage`, custom roles).
    #[serde(default)]
    pub role_name: Option<String>,
    /// Whom the answer is about.
    #[serde(default)]
    pub user: Option<User>,
}

/// A page of workflow runs.
#[derive(Debug, Deserialize)]
pub struct RunPage {
    /// The runs.
    #[serde(default, deserialize_with = "or_default")]
    pub workflow_runs: Vec<WorkflowRun>,
}

/// A run of a workflow.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkflowRun {
    /// Numeric id, the same for every attempt.
    pub id: u64,
    /// The workflow.
    #[serde(default)]
    pub workflow_id: u64,
    /// The workflow's name.
    #[serde(default)]
    pub name: Option<String>,
    /// The newest attempt, counted from 1.
    #[serde(default)]
    pub run_attempt: Option<u64>,
    /// What started it, such as `pull_request`.
    #[serde(default)]
    pub event: Option<String>,
    /// `queued`, `in_progress`, `completed` and others.
    #[serde(default)]
    pub status: Option<String>,
    /// How it ended.
    #[serde(default)]
    pub conclusion: Option<String>,
}

/// A page of jobs.
#[derive(Debug, Deserialize)]
pub struct JobPage {
    /// The jobs.
    #[serde(default, deserialize_with = "or_default")]
    pub jobs: Vec<ActionsJob>,
}

/// A job of a workflow run, in one attempt.
#[derive(Clone, Debug, Deserialize)]
pub struct ActionsJob {
    /// Numeric id, new in every attempt.
    pub id: u64,
    /// The run.
    pub run_id: u64,
    /// The attempt, counted from 1.
    #[serde(default)]
    pub run_attempt: Option<u64>,
    /// Name, as people see it.
    pub name: String,
    /// The workflow's name.
    #[serde(default)]
    pub workflow_name: Option<String>,
    /// `queued`, `in_progress`, `completed` and others.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// How it ended.
    #[serde(default)]
    pub conclusion: Option<String>,
    /// The machine that took it.
    #[serde(default)]
    pub runner_id: Option<u64>,
    /// Its steps.
    #[serde(default, deserialize_with = "or_default")]
    pub steps: Vec<serde::de::IgnoredAny>,
    /// Page for people.
    #[serde(default)]
    pub html_url: Option<String>,
}

impl ActionsJob {
    /// The attempt, counted from 1.
    pub fn attempt(&self) -> u64 {
        self.run_attempt.unwrap_or(1)
    }

    /// Whether a runner took it and began a step.
    pub fn ran(&self) -> bool {
        self.runner_id.is_some_and(|id| id != 0) && !self.steps.is_empty()
    }
}

/// A page of check runs.
#[derive(Debug, Deserialize)]
pub struct CheckPage {
    /// The check runs.
    #[serde(default, deserialize_with = "or_default")]
    pub check_runs: Vec<CheckRun>,
}

/// A check run.
#[derive(Clone, Debug, Deserialize)]
pub struct CheckRun {
    /// Numeric id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// `queued`, `in_progress`, `completed` and others.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// How it ended.
    #[serde(default)]
    pub conclusion: Option<String>,
    /// Its App's own id of it.
    #[serde(default)]
    pub external_id: Option<String>,
    /// Page for people at GitHub.
    #[serde(default)]
    pub html_url: Option<String>,
    /// Page for people at its App.
    #[serde(default)]
    pub details_url: Option<String>,
    /// When it started.
    #[serde(default)]
    pub started_at: Option<String>,
    /// Whose it is.
    #[serde(default)]
    pub app: Option<App>,
}

/// A commit status.
#[derive(Clone, Debug, Deserialize)]
pub struct CommitStatus {
    /// Numeric id.
    pub id: u64,
    /// `error`, `failure`, `pending` or `success`.
    pub state: String,
    /// Its name; upper and lower case are the same to GitHub.
    pub context: String,
    /// Page for people.
    #[serde(default)]
    pub target_url: Option<String>,
    /// When it was posted.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Who posted it.
    #[serde(default)]
    pub creator: Option<User>,
}

/// A comment in a conversation.
#[derive(Clone, Debug, Deserialize)]
pub struct Comment {
    /// Numeric id.
    pub id: u64,
    /// Text.
    #[serde(default)]
    pub body: Option<String>,
    /// Author; null for a deleted account.
    #[serde(default)]
    pub user: Option<User>,
    /// When it was written.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When its text last changed.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Page for people; tells comments on pull requests from those on issues.
    #[serde(default)]
    pub html_url: Option<String>,
    /// API address of the issue or pull request.
    #[serde(default)]
    pub issue_url: Option<String>,
    /// The App through which it was written.
    #[serde(default)]
    pub performed_via_github_app: Option<Id>,
}

/// An active rule of a branch.
#[derive(Clone, Debug, Deserialize)]
pub struct Rule {
    /// Its type; `required_status_checks` is the one we read.
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    pub kind: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: Option<RuleParameters>,
}

/// Parameters of a rule.
#[derive(Clone, Debug, Deserialize)]
pub struct RuleParameters {
    /// The checks that must pass.
    #[serde(default, deserialize_with = "or_default")]
    pub required_status_checks: Vec<RequiredCheck>,
}

/// A check that must pass.
#[derive(Clone, Debug, Deserialize)]
pub struct RequiredCheck {
    /// Status context or name of a check run.
    pub context: String,
}

/// The required checks of a classic branch protection.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ClassicChecks {
    /// Names.
    #[serde(default, deserialize_with = "or_default")]
    pub contexts: Vec<String>,
    /// Names with the App that must report them.
    #[serde(default, deserialize_with = "or_default")]
    pub checks: Vec<RequiredCheck>,
}

/// A new installation token.
#[derive(Deserialize)]
pub(super) struct Token {
    pub token: String,
    #[serde(default)]
    pub expires_at: Option<String>,
}

impl Page for RunPage {
    type Item = WorkflowRun;
    fn items(self) -> Vec<WorkflowRun> {
        self.workflow_runs
    }
}

impl Page for JobPage {
    type Item = ActionsJob;
    fn items(self) -> Vec<ActionsJob> {
        self.jobs
    }
}

impl Page for CheckPage {
    type Item = CheckRun;
    fn items(self) -> Vec<CheckRun> {
        self.check_runs
    }
}
