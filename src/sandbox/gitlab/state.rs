//! What the sandbox GitLab remembers: people, projects, changes, and what ran on them.
//!
//! Plain data and look-ups. `id` is instance-wide, `iid` counts per project, and every kind of thing counts from another
//! number, so that a mix-up of the two is found. Read next: `engine.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::deliveries::Sent;
use super::events::Event;
use super::hooks::Hook;
use super::new::{NewJob, Options};

/// Commit of every default branch at the start.
pub(super) const BASE_SHA: &str = "ba5e0000000000000000000000000000000ba5e0";

/// Developer: may retry jobs and post statuses.
pub(super) const DEVELOPER: u64 = 30;
/// Maintainer: may read hooks.
pub(super) const MAINTAINER: u64 = 40;

/// What an id is of; each kind counts for itself from its own start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    User,
    Project,
    MergeRequest,
    Issue,
    Note,
    Award,
    Pipeline,
    Job,
    Hook,
    Event,
}

const FIRST_IDS: [u64; 10] = [100, 5_000, 70_000, 90_000, 1_300_000, 400, 2_300_000_000, 9_100_000_000, 60, 0];

#[derive(Clone, Debug)]
pub(super) struct User {
    pub id: u64,
    pub username: String,
    pub name: String,
}

#[derive(Debug)]
pub(super) struct Token {
    pub text: String,
    pub user: u64,
    /// Scope `api`; else `read_api`.
    pub writes: bool,
    pub revoked: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub level: u64,
    pub state: String,
    /// A day, as the service sends it.
    pub expires_at: Option<String>,
}

#[derive(Debug)]
pub(super) struct Project {
    pub id: u64,
    pub path: String,
    pub default_branch: String,
    /// Everybody may read it.
    pub public: bool,
    pub fork_of: Option<u64>,
    pub created_ms: i64,
    pub members: BTreeMap<u64, Member>,
    /// Commit by branch.
    pub branches: BTreeMap<String, String>,
    /// Every commit anybody mentioned; statuses on others are refused.
    pub commits: BTreeSet<String>,
    /// Text by (ref, path).
    pub files: BTreeMap<(String, String), String>,
    /// What a new pipeline consists of.
    pub ci: Vec<NewJob>,
    /// Members may run pipelines of forks here.
    pub fork_pipelines_in_parent: bool,
    /// Most jobs and statuses of one pipeline.
    pub jobs_max: usize,
    pub merge_requests: BTreeMap<u64, MergeRequest>,
    pub issues: BTreeMap<u64, Issue>,
    pub pipeline_iid: u64,
    /// The merge trains of all its branches, the first to be merged at the front.
    pub train: Vec<super::train::Car>,
    /// How a merge request's last place in a train ended.
    pub train_ends: BTreeMap<u64, &'static str>,
}

impl Project {
    pub fn namespace(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name)
    }
}

#[derive(Clone, Debug)]
pub(super) struct MergeRequest {
    pub id: u64,
    pub iid: u64,
    /// The target project.
    pub project: u64,
    pub author: u64,
    pub title: String,
    pub description: String,
    pub source_project: u64,
    pub source_branch: String,
    pub target_branch: String,
    /// All heads, newest last, never empty.
    pub heads: Vec<String>,
    /// `opened`, `closed`, `merged`.
    pub state: &'static str,
    pub draft: bool,
    pub labels: Vec<String>,
    pub approved_by: Vec<u64>,
    pub created_ms: i64,
    pub updated_ms: i64,
    /// Quick actions that were obeyed: who, and the line.
    pub obeyed: Vec<(u64, String)>,
}

impl MergeRequest {
    pub fn sha(&self) -> &str {
        self.heads.last().map_or(BASE_SHA, String::as_str)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Issue {
    pub id: u64,
    pub iid: u64,
    pub author: u64,
    pub title: String,
    pub description: String,
    pub labels: Vec<String>,
    pub open: bool,
    pub confidential: bool,
    /// `issue`, `incident`, `task` …
    pub kind: String,
    pub created_ms: i64,
    pub updated_ms: i64,
}

/// What a note stands on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum On {
    MergeRequest(u64),
    Issue(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Award {
    pub id: u64,
    pub user: u64,
    pub name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Note {
    pub id: u64,
    pub project: u64,
    pub on: On,
    pub author: u64,
    pub body: String,
    pub internal: bool,
    pub system: bool,
    /// `DiscussionNote` or `DiffNote`; nothing for a plain one.
    pub kind: Option<&'static str>,
    pub discussion: String,
    pub awards: Vec<Award>,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub edits: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub id: u64,
    pub iid: u64,
    pub project: u64,
    pub sha: String,
    /// Head of the merge request when it was made; differs from `sha` for a merged-results pipeline.
    pub head: String,
    pub git_ref: String,
    pub source: String,
    pub user: u64,
    /// Target project and number of its merge request.
    pub merge_request: Option<(u64, u64)>,
    pub stages: Vec<String>,
    pub status: &'static str,
    /// Jobs, bridges and statuses, oldest first.
    pub jobs: Vec<u64>,
    /// The newest of them by name.
    pub newest: BTreeMap<String, u64>,
    /// The bridge that triggered it.
    pub bridge: Option<u64>,
    /// Too old to be retried.
    pub archived: bool,
    pub created_ms: i64,
    pub updated_ms: i64,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,
}

/// What a row of the table of jobs is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum JobKind {
    Build,
    Bridge,
    /// Posted by something outside.
    Status,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub id: u64,
    pub pipeline: u64,
    pub project: u64,
    pub kind: JobKind,
    pub new: NewJob,
    pub status: &'static str,
    pub failure_reason: Option<String>,
    pub retried: bool,
    /// How many of its name came before it.
    pub retries: u32,
    pub user: u64,
    pub log: String,
    /// A runner took it.
    pub runner: bool,
    /// A retried manual job does not wait again.
    pub at_once: bool,
    /// Variables given when it was played.
    pub variables: Vec<(String, String)>,
    /// Bridges: the pipeline that it triggered.
    pub downstream: Option<u64>,
    /// Statuses: where it was posted.
    pub git_ref: String,
    pub target_url: Option<String>,
    pub description: Option<String>,
    pub created_ms: i64,
    pub started_ms: Option<i64>,
    pub finished_ms: Option<i64>,
}

/// The throttle of all requests.
#[derive(Debug)]
pub(super) struct Throttle {
    /// Requests per minute.
    pub limit: u64,
    pub observed: u64,
    /// End of the minute that is being counted.
    pub reset_ms: i64,
}

/// Everything the sandbox knows.
#[derive(Debug)]
pub(super) struct State {
    /// Start of every absolute URL, without a trailing slash.
    pub base: String,
    /// Path part of `base`: empty, or with a leading slash and without a trailing one.
    pub prefix: String,
    pub now_ms: i64,
    last_ids: [u64; FIRST_IDS.len()],
    pub bot: u64,
    pub tokens: Vec<Token>,
    pub users: BTreeMap<u64, User>,
    pub projects: BTreeMap<u64, Project>,
    /// Project by path, former paths included.
    pub paths: BTreeMap<String, u64>,
    /// Members of groups, by the group's path.
    pub groups: BTreeMap<String, BTreeMap<u64, Member>>,
    pub notes: BTreeMap<u64, Note>,
    pub pipelines: BTreeMap<u64, Pipeline>,
    pub jobs: BTreeMap<u64, Job>,
    /// Every accepted post of a status: the job as it was then.
    pub posted: Vec<Job>,
    /// So many posts of statuses meet a held lock.
    pub locked_posts: u32,
    pub throttle: Throttle,
    pub hooks: Vec<Hook>,
    /// Silent mode: what happens reaches no hook.
    pub silent: bool,
    pub queue: VecDeque<Event>,
    pub sent: Vec<Sent>,
    pub wake: Arc<tokio::sync::Notify>,
}

impl State {
    pub fn new(options: &Options) -> Self {
        let prefix = options.path_prefix.as_deref().unwrap_or_default().trim_matches('/');
        let mut state = Self {
            base: String::new(),
            prefix: if prefix.is_empty() { String::new() } else { format!("/{prefix}") },
            now_ms: options.start_ms,
            last_ids: FIRST_IDS,
            bot: 0,
            tokens: Vec::new(),
            users: BTreeMap::new(),
            projects: BTreeMap::new(),
            paths: BTreeMap::new(),
            groups: BTreeMap::new(),
            notes: BTreeMap::new(),
            pipelines: BTreeMap::new(),
            jobs: BTreeMap::new(),
            posted: Vec::new(),
            locked_posts: 0,
            throttle: Throttle { limit: 600_000, observed: 0, reset_ms: 0 },
            hooks: Vec::new(),
            silent: false,
            queue: VecDeque::new(),
            sent: Vec::new(),
            wake: Arc::default(),
        };
        state.user("root");
        let name = if options.bot_username.is_empty() { "retest-bot" } else { &options.bot_username };
        state.bot = state.user(name);
        let token = Token { text: options.token.clone(), user: state.bot, writes: true, revoked: false };
        state.tokens.push(token);
        state
    }

    /// The next id of this kind.
    pub fn id(&mut self, kind: Kind) -> u64 {
        let last = self.last_ids.get_mut(kind as usize).expect("every kind has a start");
        *last += 1;
        *last
    }

    /// The id of a person, made on demand.
    pub fn user(&mut self, username: &str) -> u64 {
        if let Some(known) = self.users.values().find(|user| user.username.eq_ignore_ascii_case(username)) {
            return known.id;
        }
        let id = self.id(Kind::User);
        let name = username.split(['-', '_', '.']).map(capital).collect::<Vec<_>>().join(" ");
        self.users.insert(id, User { id, username: username.to_owned(), name });
        id
    }

    pub fn person(&self, id: u64) -> &User {
        self.users.get(&id).expect("users are never removed")
    }

    pub fn project(&self, id: u64) -> &Project {
        self.projects.get(&id).unwrap_or_else(|| panic!("no project {id} in the sandbox"))
    }

    pub fn project_mut(&mut self, id: u64) -> &mut Project {
        self.projects.get_mut(&id).unwrap_or_else(|| panic!("no project {id} in the sandbox"))
    }

    pub fn change(&self, project: u64, iid: u64) -> &MergeRequest {
        let found = self.project(project).merge_requests.get(&iid);
        found.unwrap_or_else(|| panic!("no merge request {iid} in the sandbox's project {project}"))
    }

    pub fn change_mut(&mut self, project: u64, iid: u64) -> &mut MergeRequest {
        let found = self.project_mut(project).merge_requests.get_mut(&iid);
        found.unwrap_or_else(|| panic!("no merge request {iid} in the sandbox's project {project}"))
    }

    pub fn pipeline(&self, id: u64) -> &Pipeline {
        self.pipelines.get(&id).unwrap_or_else(|| panic!("no pipeline {id} in the sandbox"))
    }

    pub fn pipeline_mut(&mut self, id: u64) -> &mut Pipeline {
        self.pipelines.get_mut(&id).unwrap_or_else(|| panic!("no pipeline {id} in the sandbox"))
    }

    pub fn job(&self, id: u64) -> &Job {
        self.jobs.get(&id).unwrap_or_else(|| panic!("no job {id} in the sandbox"))
    }

    pub fn job_mut(&mut self, id: u64) -> &mut Job {
        self.jobs.get_mut(&id).unwrap_or_else(|| panic!("no job {id} in the sandbox"))
    }

    /// The jobs, bridges and statuses of a pipeline that nothing newer of the same name has replaced.
    pub fn latest(&self, pipeline: u64) -> impl Iterator<Item = &Job> {
        self.pipeline(pipeline).jobs.iter().filter_map(|id| self.jobs.get(id)).filter(|job| !job.retried)
    }

    /// The newest job of that name.
    pub fn latest_named(&self, pipeline: u64, name: &str) -> Option<u64> {
        self.pipeline(pipeline).newest.get(name).copied()
    }

    /// What a person may do in a project: the level of an active membership, else 0.
    pub fn level(&self, project: u64, user: u64) -> u64 {
        let member = self.projects.get(&project).and_then(|project| project.members.get(&user));
        member.filter(|member| member.state == "active").map_or(0, |member| member.level)
    }

    /// Whether a person may read a project.
    pub fn sees(&self, project: u64, user: u64) -> bool {
        self.projects.get(&project).is_some_and(|project| project.public) || self.level(project, user) >= 10
    }

    /// The pipelines of a merge request, newest first, those in the fork included, triggered ones not.
    pub fn pipelines_of(&self, change: &MergeRequest) -> Vec<&Pipeline> {
        let key = Some((change.project, change.iid));
        let of_branch = |pipeline: &Pipeline| {
            pipeline.project == change.source_project
                && pipeline.git_ref == change.source_branch
                && change.heads.contains(&pipeline.sha)
        };
        let fits = |pipeline: &&Pipeline| pipeline.merge_request == key || of_branch(pipeline);
        self.pipelines.values().rev().filter(fits).filter(|p| p.source != "parent_pipeline").collect()
    }

    /// The newest pipeline of the head of a merge request.
    pub fn head_pipeline(&self, change: &MergeRequest) -> Option<&Pipeline> {
        self.pipelines_of(change).into_iter().find(|pipeline| pipeline.head == change.sha())
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
