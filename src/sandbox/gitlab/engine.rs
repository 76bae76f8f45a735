//! What moves a pipeline: which job may start, what a status means for the next, and how bridges follow.
//!
//! The composite status of a set of jobs follows the order of cases of GitLab's own computation: "only these" first,
//! then "any of these". Jobs go from `created` to `pending` by themselves; runners are played by the test.
//! Read next: `restart.rs`.

use std::collections::BTreeMap;

use super::new::{NewJob, NewPipeline};
use super::state::{Job, JobKind, Kind, Pipeline, State};

/// Stage of the statuses that something outside posts.
pub(super) const EXTERNAL: &str = "external";

const SUCCESS: u16 = 1;
const WARNED: u16 = 1 << 1;
const SKIPPED: u16 = 1 << 2;
const IGNORED: u16 = 1 << 3;
const CREATED: u16 = 1 << 4;
const CANCELED: u16 = 1 << 5;
const PENDING: u16 = 1 << 6;
const RUNNING: u16 = 1 << 7;
const MANUAL: u16 = 1 << 8;
const FAILED: u16 = 1 << 9;

/// The words of a job's status that the sandbox uses.
pub(super) const STATUSES: [&str; 8] =
    ["created", "pending", "running", "failed", "success", "canceled", "skipped", "manual"];

/// The word as a static one; none for an unknown one.
pub(super) fn status_word(word: &str) -> Option<&'static str> {
    STATUSES.into_iter().find(|known| *known == word)
}

pub(super) fn is_over(status: &str) -> bool {
    matches!(status, "success" | "failed" | "canceled" | "skipped")
}

fn bit(job: &Job) -> u16 {
    match job.status {
        "failed" | "canceled" if job.new.allow_failure => WARNED,
        "manual" if job.new.allow_failure => IGNORED,
        "success" => SUCCESS,
        "failed" => FAILED,
        "canceled" => CANCELED,
        "skipped" => SKIPPED,
        "pending" => PENDING,
        "running" => RUNNING,
        "manual" => MANUAL,
        _ => CREATED,
    }
}

/// The status of a set of jobs; nothing for an empty one.
fn composite(set: u16) -> Option<&'static str> {
    let only = |allowed: u16| set & !allowed == 0;
    let any = |wanted: u16| set & wanted != 0;
    let passed = SUCCESS | SKIPPED | WARNED | IGNORED;
    Some(match set {
        0 => return None,
        _ if only(SKIPPED | IGNORED) => "skipped",
        _ if only(passed) => "success",
        _ if only(CREATED | WARNED | IGNORED) => "created",
        _ if only(CANCELED | passed) => "canceled",
        _ if only(PENDING | CREATED | SKIPPED | WARNED | IGNORED) => "pending",
        _ if any(RUNNING | PENDING) => "running",
        _ if any(MANUAL) => "manual",
        _ if any(CREATED) => "running",
        _ => "failed",
    })
}

/// What the needed jobs of a job say: as `composite`, but one that will not run skips, and all must have ended.
fn composite_of_needs(set: u16) -> &'static str {
    if set & (SKIPPED | IGNORED) != 0 {
        "skipped"
    } else if set & !(SUCCESS | FAILED | CANCELED | WARNED) != 0 {
        "pending"
    } else {
        composite(set).unwrap_or("success")
    }
}

impl State {
    /// Makes a pipeline with its jobs and lets it begin.
    pub fn create_pipeline(&mut self, project: u64, new: NewPipeline, user: u64) -> u64 {
        let id = self.id(Kind::Pipeline);
        let merge_request = new.mr_iid.map(|iid| (self.target_of(project, iid), iid));
        let bridge = new.child_of.as_ref().map(|(parent, name)| self.bridge_named(*parent, name, user));
        let source = match (bridge, new.source.as_str()) {
            (Some(bridge), _) if self.job(bridge).project == project => "parent_pipeline",
            (Some(_), _) => "pipeline",
            (None, "") if merge_request.is_some() => "merge_request_event",
            (None, "") => "push",
            (None, source) => source,
        };
        let git_ref = self.ref_of(project, &new, source, merge_request);
        let head = merge_request.map_or_else(|| new.sha.clone(), |(p, iid)| self.change(p, iid).sha().to_owned());
        let now = self.now_ms;
        let home = self.project_mut(project);
        home.pipeline_iid += 1;
        let pipeline = Pipeline {
            id,
            iid: home.pipeline_iid,
            project,
            sha: new.sha.clone(),
            head,
            git_ref: git_ref.clone(),
            source: source.to_owned(),
            user,
            merge_request,
            stages: Vec::new(),
            status: "created",
            jobs: Vec::new(),
            newest: BTreeMap::new(),
            bridge,
            archived: false,
            created_ms: now,
            updated_ms: now,
            started_ms: None,
            finished_ms: None,
        };
        home.commits.insert(new.sha);
        self.pipelines.insert(id, pipeline);
        for job in new.jobs {
            let kind = if job.bridge { JobKind::Bridge } else { JobKind::Build };
            self.add_job(id, kind, job, user);
        }
        if let Some(bridge) = bridge {
            self.job_mut(bridge).downstream = Some(id);
        }
        self.advance(id);
        id
    }

    /// The project whose merge request `iid` a pipeline of `project` is for: the parent, for a fork's.
    fn target_of(&self, project: u64, iid: u64) -> u64 {
        let of_parent = self.project(project).fork_of.filter(|parent| {
            self.project(*parent).merge_requests.get(&iid).is_some_and(|change| change.source_project == project)
        });
        of_parent.unwrap_or(project)
    }

    fn ref_of(&self, project: u64, new: &NewPipeline, source: &str, merge_request: Option<(u64, u64)>) -> String {
        if !new.git_ref.is_empty() {
            return new.git_ref.clone();
        }
        if let Some((target, iid)) = merge_request {
            return match source {
                "push" => self.change(target, iid).source_branch.clone(),
                _ => format!("refs/merge-requests/{iid}/head"),
            };
        }
        if let Some((parent, _)) = &new.child_of {
            return self.pipeline(*parent).git_ref.clone();
        }
        let home = self.project(project);
        let branch = home.branches.iter().find(|(_, sha)| **sha == new.sha).map(|(name, _)| name.clone());
        branch.unwrap_or_else(|| home.default_branch.clone())
    }

    /// The newest bridge of that name without a pipeline yet, else a new one.
    fn bridge_named(&mut self, parent: u64, name: &str, user: u64) -> u64 {
        let free = |job: &&Job| job.kind == JobKind::Bridge && job.new.name == name && job.downstream.is_none();
        if let Some(known) = self.latest(parent).find(free).map(|job| job.id) {
            return known;
        }
        let stage = self.pipeline(parent).stages.last().cloned().unwrap_or_else(|| "test".to_owned());
        let new = NewJob { name: name.to_owned(), stage, bridge: true, starts_at_once: true, ..NewJob::default() };
        self.add_job(parent, JobKind::Bridge, new, user)
    }

    /// Adds a job in the status `created`; an older one of its name counts as retried from now on.
    pub fn add_job(&mut self, pipeline: u64, kind: JobKind, mut new: NewJob, user: u64) -> u64 {
        if new.stage.is_empty() {
            "test".clone_into(&mut new.stage);
        }
        let id = self.id(Kind::Job);
        let now = self.now_ms;
        let home = self.pipeline_mut(pipeline);
        if !home.stages.contains(&new.stage) {
            // Statuses from outside always stand behind all other stages.
            let at = home.stages.iter().position(|stage| stage == EXTERNAL).unwrap_or(home.stages.len());
            home.stages.insert(at, new.stage.clone());
        }
        let (project, git_ref) = (home.project, home.git_ref.clone());
        let older = home.newest.insert(new.name.clone(), id);
        home.jobs.push(id);
        let retries = older.map_or(0, |older| {
            let older = self.job_mut(older);
            older.retried = true;
            older.retries + 1
        });
        let job = Job {
            id,
            pipeline,
            project,
            kind,
            new,
            status: "created",
            failure_reason: None,
            retried: false,
            retries,
            user,
            log: String::new(),
            runner: false,
            at_once: false,
            variables: Vec::new(),
            downstream: None,
            git_ref,
            target_url: None,
            description: None,
            created_ms: now,
            started_ms: None,
            finished_ms: None,
        };
        self.jobs.insert(id, job);
        self.tell_job(id);
        id
    }

    /// Gives a job another status, with its times, and tells the hooks that hear of it. The pipeline is not looked at.
    pub fn set_job(&mut self, id: u64, status: &'static str, reason: Option<&str>) {
        let now = self.now_ms;
        let job = self.job_mut(id);
        if job.status == status {
            return;
        }
        job.status = status;
        job.failure_reason = (status == "failed").then(|| reason.unwrap_or("script_failure").to_owned());
        match status {
            "created" | "pending" | "manual" => (job.started_ms, job.finished_ms) = (None, None),
            "running" => (job.started_ms, job.finished_ms) = (Some(now), None),
            "success" | "failed" | "canceled" => job.finished_ms = Some(now),
            _ => {}
        }
        if job.kind == JobKind::Build && status == "running" {
            job.runner = true;
        }
        // The service sends nothing for jobs that are skipped or wait for a person.
        if !matches!(status, "skipped" | "manual") {
            self.tell_job(id);
        }
    }

    /// Lets everything begin that can, takes over the status of the whole, and the same for what triggered it.
    pub fn advance(&mut self, pipeline: u64) {
        while self.start_ready(pipeline) {}
        let set = self.latest(pipeline).fold(0, |set, job| set | bit(job));
        // A pipeline that waits for its first status from outside has none of its own.
        let Some(status) = composite(set) else { return };
        let now = self.now_ms;
        let home = self.pipeline_mut(pipeline);
        home.updated_ms = now;
        if home.status == status {
            return;
        }
        home.status = status;
        if status == "running" && home.started_ms.is_none() {
            home.started_ms = Some(now);
        }
        home.finished_ms = is_over(status).then_some(now);
        self.tell_pipeline(pipeline);
        self.follow_downstream(pipeline, status);
        let of_train = self.pipeline(pipeline).git_ref.ends_with("/train");
        if of_train && is_over(status) {
            let project = self.pipeline(pipeline).project;
            self.move_train(project);
        }
    }

    /// The bridge of a downstream pipeline shows its status (`strategy: depend`).
    fn follow_downstream(&mut self, pipeline: u64, status: &str) {
        let Some(bridge) = self.pipeline(pipeline).bridge else { return };
        if self.job(bridge).retried {
            return;
        }
        let was_over = is_over(self.job(bridge).status);
        match status {
            "success" => self.set_job(bridge, "success", None),
            "failed" | "canceled" | "skipped" => self.set_job(bridge, "failed", Some("unknown_failure")),
            _ => self.set_job(bridge, "running", None),
        }
        if was_over && !is_over(self.job(bridge).status) {
            self.reset_skipped_after(bridge);
        }
        let parent = self.job(bridge).pipeline;
        self.advance(parent);
    }

    /// One round over the jobs in `created`; true when one of them moved.
    fn start_ready(&mut self, pipeline: u64) -> bool {
        let mut of_stage: BTreeMap<usize, u16> = BTreeMap::new();
        let mut of_name: BTreeMap<&str, u16> = BTreeMap::new();
        let stages = &self.pipeline(pipeline).stages;
        let place = |job: &Job| stages.iter().position(|stage| *stage == job.new.stage).unwrap_or(usize::MAX);
        for job in self.latest(pipeline) {
            *of_stage.entry(place(job)).or_default() |= bit(job);
            of_name.insert(&job.new.name, bit(job));
        }
        let mut moves = Vec::new();
        for job in self.latest(pipeline).filter(|job| job.status == "created") {
            let by_needs = job.new.starts_at_once || !job.new.needs.is_empty();
            let before = if by_needs {
                let set = job.new.needs.iter().fold(0, |set, name| set | of_name.get(name.as_str()).unwrap_or(&0));
                composite_of_needs(set)
            } else {
                let set = of_stage.range(..place(job)).fold(0, |set, (_, bits)| set | bits);
                composite(set).unwrap_or("success")
            };
            if before == "success" || (!by_needs && before == "skipped") {
                let waits = job.new.manual && !job.at_once;
                moves.push((job.id, if waits { "manual" } else { "pending" }));
            } else if is_over(before) {
                moves.push((job.id, "skipped"));
            }
        }
        for (id, status) in &moves {
            self.set_job(*id, status, None);
        }
        !moves.is_empty()
    }
}
