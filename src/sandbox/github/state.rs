//! What the sandbox GitHub remembers: people, repositories, changes, and what ran on them.
//!
//! Plain data and look-ups. The rules live in `actions.rs` and the route files; the JSON in the `bodies` files.
//! Read next: `actions.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::AppOptions;
use super::auth::{Budget, Throttle, Token};
use super::hooks::{Delivery, Event, Hook};

/// App id of GitHub Actions on the public service.
pub(super) const ACTIONS_APP_ID: u64 = 15_368;

/// First id handed out: larger than 32 bits hold, as on the real service.
const FIRST_ID: u64 = 40_000_000_000;

/// Commit that a change branches off when the caller names none.
pub(super) const BASE_SHA: &str = "b5e0000000000000000000000000000000000b5e";

#[derive(Debug)]
pub(super) struct User {
    pub id: u64,
    pub login: String,
    pub kind: &'static str,
}

#[derive(Debug)]
pub(super) struct App {
    pub id: u64,
    pub slug: String,
}

#[derive(Clone, Debug)]
pub(super) struct Reaction {
    pub id: u64,
    pub login: String,
    pub content: String,
    pub created_ms: i64,
}

#[derive(Debug)]
pub(super) struct Comment {
    pub id: u64,
    pub number: u64,
    pub author: String,
    pub body: String,
    pub reactions: Vec<Reaction>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub edits: u32,
    pub via_app: Option<u64>,
    /// Set on comments that hang on a line of the diff.
    pub line: Option<LineOf>,
}

#[derive(Clone, Debug)]
pub(super) struct LineOf {
    pub review_id: u64,
    pub commit_sha: String,
    pub in_reply_to: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Review {
    pub id: u64,
    pub number: u64,
    pub author: String,
    pub body: String,
    pub state: String,
    pub commit_sha: String,
    pub submitted_ms: i64,
}

/// An issue; with `pull` set it is a pull request.
#[derive(Debug)]
pub(super) struct Issue {
    pub id: u64,
    pub number: u64,
    pub author: String,
    pub title: String,
    pub body: String,
    pub labels: Vec<String>,
    pub open: bool,
    pub locked: bool,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub closed_ms: Option<i64>,
    pub reactions: Vec<Reaction>,
    pub pull: Option<Pull>,
}

#[derive(Debug)]
pub(super) struct Pull {
    pub head_sha: String,
    pub head_ref: String,
    pub base_sha: String,
    pub base_ref: String,
    pub from_fork: bool,
    pub fork_deleted: bool,
    pub draft: bool,
    pub merged: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Status {
    pub id: u64,
    pub sha: String,
    pub context: String,
    pub state: String,
    pub description: Option<String>,
    pub target_url: Option<String>,
    pub creator: String,
    pub created_ms: i64,
}

#[derive(Debug)]
pub(super) struct Repo {
    pub id: u64,
    pub owner: String,
    pub name: String,
    pub private: bool,
    pub default_branch: String,
    pub created_ms: i64,
    pub issues: BTreeMap<u64, Issue>,
    pub comments: BTreeMap<u64, Comment>,
    pub reviews: BTreeMap<u64, Review>,
    pub statuses: Vec<Status>,
    /// Every commit anybody mentioned; statuses and checks on others are refused.
    pub commits: BTreeSet<String>,
    pub branches: BTreeMap<String, String>,
    /// Role by login in lower case.
    pub roles: BTreeMap<String, String>,
    /// Text by (ref, path).
    pub files: BTreeMap<(String, String), String>,
    /// Required contexts by branch.
    pub required: BTreeMap<String, Vec<String>>,
    pub dispatches: Vec<(String, serde_json::Value)>,
    /// Issues that are here no more, by number.
    pub moved: BTreeMap<u64, Gone>,
    pub issues_off: bool,
    /// The merge queue of all its branches, the first to be merged at the front.
    pub queue: Vec<super::queue::Entry>,
    /// How a change's last place in the queue ended.
    pub queue_ends: BTreeMap<u64, &'static str>,
}

/// What became of an issue that is here no more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    Deleted,
    /// Now in that repository, under that number.
    To(u64, u64),
}

impl Repo {
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// The number of the next issue or change; that of a deleted one is never given again.
    pub fn next_number(&self) -> u64 {
        let last = |keys: Option<&u64>| keys.copied().unwrap_or_default();
        last(self.issues.keys().last()).max(last(self.moved.keys().last())) + 1
    }

    /// The open or closed changes whose head is `sha`.
    pub fn pulls_at<'a>(&'a self, sha: &'a str) -> impl Iterator<Item = (&'a Issue, &'a Pull)> {
        let pulls = self.issues.values().filter_map(|issue| Some((issue, issue.pull.as_ref()?)));
        pulls.filter(move |(_, pull)| pull.head_sha == sha)
    }
}

#[derive(Debug)]
pub(super) struct Workflow {
    pub id: u64,
    pub repo_id: u64,
    pub new: super::NewWorkflow,
    pub created_ms: i64,
}

/// How one attempt of a run went.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub number: u32,
    pub status: String,
    pub conclusion: Option<String>,
    pub started_ms: i64,
    pub updated_ms: i64,
    pub triggered_by: String,
    /// Names of the jobs this attempt is to run.
    pub planned: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Run {
    pub id: u64,
    pub repo_id: u64,
    pub workflow_id: u64,
    pub suite_id: u64,
    pub run_number: u64,
    pub spec: super::NewWorkflow,
    pub head_sha: String,
    pub head_branch: String,
    pub actor: String,
    pub created_ms: i64,
    /// Oldest first, never empty.
    pub attempts: Vec<Attempt>,
    /// Set when GitHub would refuse any re-run.
    pub unretryable: bool,
    /// Records of jobs, oldest first.
    pub job_ids: Vec<u64>,
    /// The newest record by job name.
    pub newest: BTreeMap<String, u64>,
}

impl Run {
    pub fn latest(&self) -> &Attempt {
        self.attempts.last().expect("a run has at least one attempt")
    }

    pub fn latest_mut(&mut self) -> &mut Attempt {
        self.attempts.last_mut().expect("a run has at least one attempt")
    }
}

#[derive(Debug)]
pub(super) struct Job {
    pub id: u64,
    pub run_id: u64,
    pub repo_id: u64,
    pub attempt: u32,
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub check_id: u64,
    pub created_ms: i64,
    pub started_ms: Option<i64>,
    pub completed_ms: Option<i64>,
    pub log: String,
    /// The runner vanished: no runner id and no steps are reported.
    pub lost: bool,
}

#[derive(Debug)]
pub(super) struct Suite {
    pub id: u64,
    pub repo_id: u64,
    pub app_id: u64,
    pub head_sha: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// The workflow run behind a suite of GitHub Actions.
    pub run_id: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    pub title: Option<String>,
    pub summary: Option<String>,
    pub text: Option<String>,
    pub annotations: Vec<serde_json::Value>,
}

#[derive(Debug)]
pub(super) struct Check {
    pub id: u64,
    pub suite_id: u64,
    pub repo_id: u64,
    pub app_id: u64,
    pub head_sha: String,
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub external_id: String,
    pub details_url: Option<String>,
    pub output: Output,
    /// Buttons as sent: label, description, identifier.
    pub actions: Vec<serde_json::Value>,
    pub started_ms: Option<i64>,
    pub completed_ms: Option<i64>,
}

/// Everything the sandbox knows.
#[derive(Debug)]
pub(super) struct State {
    /// Start of every absolute URL, without a trailing slash.
    pub api: String,
    pub now_ms: i64,
    last_id: u64,
    pub app: Option<AppOptions>,
    /// What the App may do, by permission name.
    pub permissions: BTreeMap<String, String>,
    pub suspended: bool,
    pub tokens: Vec<Token>,
    /// (token, login) of people.
    pub personal: Vec<(String, String)>,
    pub users: BTreeMap<String, User>,
    pub apps: Vec<App>,
    pub repos: BTreeMap<u64, Repo>,
    /// Repository id by `owner/name` in lower case; former names stay.
    pub names: BTreeMap<String, u64>,
    /// Members by organisation and team (`""` for the organisation itself), in lower case.
    pub members: BTreeSet<(String, String, String)>,
    pub workflows: BTreeMap<u64, Workflow>,
    pub runs: BTreeMap<u64, Run>,
    pub jobs: BTreeMap<u64, Job>,
    pub suites: BTreeMap<u64, Suite>,
    pub checks: BTreeMap<u64, Check>,
    /// `filter=latest` lists only the last attempt, as the service once did.
    pub latest_trap: bool,
    pub hooks: Vec<Hook>,
    pub queue: VecDeque<Event>,
    pub deliveries: Vec<Delivery>,
    pub wake: Arc<tokio::sync::Notify>,
    pub budget: Budget,
    pub throttles: VecDeque<Throttle>,
}

impl State {
    pub fn new(app: Option<AppOptions>, now_ms: i64) -> Self {
        let levels = [
            ("metadata", "read"),
            ("actions", "write"),
            ("checks", "write"),
            ("statuses", "write"),
            ("pull_requests", "write"),
            ("issues", "write"),
            ("contents", "write"),
            ("members", "read"),
            ("administration", "read"),
            ("merge_queues", "read"),
            ("repository_hooks", "write"),
        ];
        let mut apps = vec![App { id: ACTIONS_APP_ID, slug: "github-actions".to_owned() }];
        apps.extend(app.iter().map(|own| App { id: own.id, slug: own.slug.clone() }));
        Self {
            api: String::new(),
            now_ms,
            last_id: FIRST_ID,
            app,
            permissions: levels.map(|(name, level)| (name.to_owned(), level.to_owned())).into(),
            suspended: false,
            tokens: Vec::new(),
            personal: Vec::new(),
            users: BTreeMap::new(),
            apps,
            repos: BTreeMap::new(),
            names: BTreeMap::new(),
            members: BTreeSet::new(),
            workflows: BTreeMap::new(),
            runs: BTreeMap::new(),
            jobs: BTreeMap::new(),
            suites: BTreeMap::new(),
            checks: BTreeMap::new(),
            latest_trap: false,
            hooks: Vec::new(),
            queue: VecDeque::new(),
            deliveries: Vec::new(),
            wake: Arc::default(),
            budget: Budget::new(now_ms),
            throttles: VecDeque::new(),
        }
    }

    /// A number never used before, larger than all earlier ones.
    pub fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The person with this login, made when unknown.
    pub fn user(&mut self, login: &str) -> u64 {
        self.user_of_kind(login, if login.ends_with("[bot]") { "Bot" } else { "User" })
    }

    pub fn user_of_kind(&mut self, login: &str, kind: &'static str) -> u64 {
        let key = login.to_lowercase();
        if let Some(user) = self.users.get(&key) {
            return user.id;
        }
        let id = self.id();
        self.users.insert(key, User { id, login: login.to_owned(), kind });
        id
    }

    /// The App with this slug, made when unknown.
    pub fn app_named(&mut self, slug: &str) -> u64 {
        if let Some(app) = self.apps.iter().find(|app| app.slug == slug) {
            return app.id;
        }
        let id = self.id();
        self.apps.push(App { id, slug: slug.to_owned() });
        id
    }

    pub fn own_app_id(&self) -> Option<u64> {
        self.app.as_ref().map(|app| app.id)
    }

    /// The id behind `owner/name`, former names included.
    pub fn repo_id(&self, full_name: &str) -> Option<u64> {
        self.names.get(&full_name.to_lowercase()).copied()
    }

    /// # Panics
    /// When no such repository exists: a mistake of the test.
    pub fn named(&mut self, full_name: &str) -> &mut Repo {
        let id = self.repo_id(full_name).expect("the repository was added to the sandbox");
        self.repo_mut(id)
    }

    pub fn repo(&self, id: u64) -> &Repo {
        self.repos.get(&id).expect("the repository exists")
    }

    pub fn repo_mut(&mut self, id: u64) -> &mut Repo {
        self.repos.get_mut(&id).expect("the repository exists")
    }

    pub fn run(&self, id: u64) -> &Run {
        self.runs.get(&id).expect("the run exists")
    }

    pub fn run_mut(&mut self, id: u64) -> &mut Run {
        self.runs.get_mut(&id).expect("the run exists")
    }

    /// The suite of this App on this commit, made when missing (Actions makes one per run instead).
    pub fn suite_for(&mut self, repo_id: u64, app_id: u64, sha: &str) -> u64 {
        let found = self.suites.values().find(|suite| {
            suite.repo_id == repo_id && suite.app_id == app_id && suite.head_sha == sha && suite.run_id.is_none()
        });
        if let Some(suite) = found {
            return suite.id;
        }
        self.new_suite(repo_id, app_id, sha, None)
    }

    pub fn new_suite(&mut self, repo_id: u64, app_id: u64, sha: &str, run_id: Option<u64>) -> u64 {
        let (id, now) = (self.id(), self.now_ms);
        let suite = Suite {
            id,
            repo_id,
            app_id,
            head_sha: sha.to_owned(),
            status: "queued".to_owned(),
            conclusion: None,
            created_ms: now,
            updated_ms: now,
            run_id,
        };
        self.suites.insert(id, suite);
        id
    }

    /// Jobs of a run, oldest first.
    pub fn jobs_of(&self, run_id: u64) -> impl Iterator<Item = &Job> {
        self.run(run_id).job_ids.iter().filter_map(|id| self.jobs.get(id))
    }

    /// The newest record of the job with this name in the run.
    pub fn newest_job(&self, run_id: u64, name: &str) -> Option<&Job> {
        self.jobs.get(self.run(run_id).newest.get(name)?)
    }
}

/// `2026-12-01T02:14:00Z`, the form GitHub writes.
pub(super) fn iso(ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// Like [`iso`], null when unset.
pub(super) fn iso_or_null(ms: Option<i64>) -> serde_json::Value {
    ms.map_or(serde_json::Value::Null, |ms| iso(ms).into())
}
