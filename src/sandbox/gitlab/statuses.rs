//! Commit statuses as the state machine that GitLab makes of them.
//!
//! A post belongs to a pipeline of the commit, else a pipeline of the source `external` is made. A pending or running
//! status of the same name, ref and user is moved on; anything else gets a new one beside it, which takes its place.
//! Read next: `engine.rs`.

use serde_json::json;

use super::ask::{Answer, Ask, Outcome, page};
use super::engine::EXTERNAL;
use super::new::{NewJob, NewPipeline};
use super::state::{DEVELOPER, Job, JobKind, State};

/// Longest name, description, address and ref, in characters.
const TEXT_MAX: usize = 255;

const STATES: [&str; 6] = ["pending", "running", "success", "failed", "canceled", "skipped"];

/// A status as it is posted.
#[derive(Clone, Debug, Default)]
pub(super) struct Post {
    pub project: u64,
    pub sha: String,
    pub state: String,
    pub name: String,
    pub git_ref: Option<String>,
    pub target_url: Option<String>,
    pub description: Option<String>,
    pub pipeline: Option<u64>,
}

/// `POST /projects/:id/statuses/:sha`.
pub(super) fn post(state: &mut State, ask: &Ask, project: u64, sha: &str) -> Outcome {
    let wanted = ask.some("state").ok_or_else(|| Answer::error(400, "state is missing"))?;
    if !STATES.contains(&wanted) {
        return Err(Answer::error(400, "state does not have a valid value"));
    }
    if state.level(project, ask.user) < DEVELOPER {
        return Err(Answer::forbidden());
    }
    let own = |key: &str| ask.some(key).map(str::to_owned);
    let post = Post {
        project,
        sha: sha.to_owned(),
        state: wanted.to_owned(),
        name: own("name").or_else(|| own("context")).unwrap_or_else(|| "default".to_owned()),
        git_ref: own("ref"),
        target_url: own("target_url"),
        description: own("description"),
        pipeline: ask.number("pipeline_id"),
    };
    let id = state.post_status(&post, ask.user)?;
    Ok(Answer::created(state.status_body(state.job(id))))
}

/// `GET /projects/:id/repository/commits/:sha/statuses`: newest of each name, or all; jobs and bridges among them.
pub(super) fn list(state: &State, ask: &Ask, project: u64, sha: &str) -> Outcome {
    if !state.project(project).commits.contains(sha) {
        return Err(Answer::not_found("Commit"));
    }
    let all = ask.flag("all") == Some(true);
    let fits = |job: &&Job| {
        let pipeline = state.pipeline(job.pipeline);
        pipeline.project == project
            && pipeline.sha == sha
            && (all || !job.retried)
            && ask.some("ref").is_none_or(|wanted| job.git_ref == wanted)
            && ask.some("stage").is_none_or(|wanted| job.new.stage == wanted)
            && ask.some("name").is_none_or(|wanted| job.new.name == wanted)
            && ask.number("pipeline_id").is_none_or(|wanted| job.pipeline == wanted)
    };
    let found = state.jobs.values().filter(fits).collect();
    Ok(page(&state.base, ask, found, |job| state.status_body(job)))
}

/// The event of the state machine that leads to a state, and the states from which it may be taken.
fn event_of(wanted: &str) -> (&'static str, &'static str, &'static [&'static str]) {
    match wanted {
        "pending" => ("enqueue", "pending", &["created"]),
        "running" => ("run", "running", &["created", "pending"]),
        "success" => ("success", "success", &["created", "pending", "running"]),
        "failed" => ("drop", "failed", &["created", "pending", "running"]),
        "canceled" => ("cancel", "canceled", &["created", "pending", "running"]),
        _ => ("skip", "skipped", &["created", "pending"]),
    }
}

impl State {
    /// Posts a status as `user`, who may, and answers its id.
    pub fn post_status(&mut self, post: &Post, user: u64) -> Result<u64, Answer> {
        if self.locked_posts > 0 {
            self.locked_posts -= 1;
            return Err(Answer::message(409, "Another update to this commit status is in progress"));
        }
        if !self.project(post.project).commits.contains(&post.sha) {
            return Err(Answer::not_found("Commit"));
        }
        let found = self.pipeline_for(post);
        let of_pipeline = found.map(|id| self.pipeline(id).git_ref.clone());
        let git_ref = post.git_ref.clone().or(of_pipeline).or_else(|| self.branch_with(post));
        let git_ref = git_ref.ok_or_else(|| Answer::not_found("References for commit"))?;
        if post.pipeline.is_some() && found.is_none() {
            return Err(Answer::not_found("Pipeline for pipeline_id, sha and ref"));
        }
        check_lengths(post, &git_ref)?;
        let open = found.and_then(|pipeline| self.open_status(pipeline, post, &git_ref, user));
        let full = found.is_some_and(|id| self.pipeline(id).jobs.len() >= self.project(post.project).jobs_max);
        if full && open.is_none() && post.pipeline.is_some() {
            return Err(Answer::message(422, "The number of jobs has exceeded the limit"));
        }
        let pipeline = match found {
            Some(pipeline) if !full || open.is_some() => pipeline,
            _ => self.external_pipeline(post, &git_ref, user),
        };
        let status = open.map_or("created", |id| self.job(id).status);
        let (event, to, from) = event_of(&post.state);
        if !from.contains(&status) {
            let reason = format!("Reason(s): Status cannot transition via \"{event}\"");
            let text = format!("Cannot transition status via :{event} from :{status} ({reason})");
            return Err(Answer::message(400, text));
        }
        let id = open.unwrap_or_else(|| self.new_status(pipeline, post, &git_ref, user));
        let job = self.job_mut(id);
        job.target_url = post.target_url.clone().or(job.target_url.take());
        job.description = post.description.clone().or(job.description.take());
        self.set_job(id, to, Some("api_failure"));
        self.posted.push(self.job(id).clone());
        self.advance(pipeline);
        Ok(id)
    }

    /// The newest pipeline of the commit that the ref and the id leave over.
    fn pipeline_for(&self, post: &Post) -> Option<u64> {
        let fits = |pipeline: &&super::state::Pipeline| {
            pipeline.project == post.project
                && pipeline.sha == post.sha
                && !pipeline.archived
                && pipeline.source != "parent_pipeline"
                && post.git_ref.as_ref().is_none_or(|git_ref| *git_ref == pipeline.git_ref)
                && post.pipeline.is_none_or(|id| id == pipeline.id)
        };
        self.pipelines.values().rev().find(fits).map(|pipeline| pipeline.id)
    }

    fn branch_with(&self, post: &Post) -> Option<String> {
        let branches = &self.project(post.project).branches;
        branches.iter().find(|(_, sha)| **sha == post.sha).map(|(name, _)| name.clone())
    }

    fn open_status(&self, pipeline: u64, post: &Post, git_ref: &str, user: u64) -> Option<u64> {
        let fits = |job: &&Job| {
            let open = matches!(job.status, "pending" | "running");
            open && job.kind == JobKind::Status
                && job.new.name == post.name
                && job.git_ref == git_ref
                && job.user == user
        };
        self.latest(pipeline).find(fits).map(|job| job.id)
    }

    fn external_pipeline(&mut self, post: &Post, git_ref: &str, user: u64) -> u64 {
        let new = NewPipeline {
            sha: post.sha.clone(),
            source: "external".to_owned(),
            git_ref: git_ref.to_owned(),
            ..NewPipeline::default()
        };
        self.create_pipeline(post.project, new, user)
    }

    fn new_status(&mut self, pipeline: u64, post: &Post, git_ref: &str, user: u64) -> u64 {
        let new = NewJob { name: post.name.clone(), stage: EXTERNAL.to_owned(), ..NewJob::default() };
        let id = self.add_job(pipeline, JobKind::Status, new, user);
        git_ref.clone_into(&mut self.job_mut(id).git_ref);
        id
    }
}

fn check_lengths(post: &Post, git_ref: &str) -> Result<(), Answer> {
    let fields = [
        ("name", Some(post.name.as_str())),
        ("ref", Some(git_ref)),
        ("target_url", post.target_url.as_deref()),
        ("description", post.description.as_deref()),
    ];
    let long = |text: Option<&str>| text.is_some_and(|text| text.chars().count() > TEXT_MAX);
    match fields.into_iter().find(|(_, text)| long(*text)) {
        Some((field, _)) => {
            let text = format!("is too long (maximum is {TEXT_MAX} characters)");
            Err(Answer::json(400, json!({"message": {field: [text]}})))
        }
        None => Ok(()),
    }
}
