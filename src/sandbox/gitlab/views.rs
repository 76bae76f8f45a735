//! What tests and the demo read back, in plain structs.
//!
//! Read next: `acts.rs`.

use super::GitLabSandbox;
use super::state::{Job, JobKind, Note, On, State};

/// A commit status.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StatusView {
    /// Id, shared with jobs.
    pub id: u64,
    /// Name.
    pub name: String,
    /// `pending`, `running`, `success`, `failed`, `canceled`, `skipped`.
    pub state: String,
    /// One line.
    pub description: Option<String>,
    /// Page.
    pub target_url: Option<String>,
    /// The ref that it was posted for.
    pub git_ref: String,
    /// The pipeline that it belongs to.
    pub pipeline: u64,
    /// User name of who posted it.
    pub user: String,
}

/// A note.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NoteView {
    /// Id.
    pub id: u64,
    /// User name.
    pub author: String,
    /// Text.
    pub body: String,
    /// Awards: user name and emoji.
    pub emoji: Vec<(String, String)>,
    /// Visible to members only.
    pub internal: bool,
    /// Written by GitLab itself.
    pub system: bool,
    /// How often it was edited.
    pub edits: u32,
}

/// A job or bridge.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobView {
    /// Id.
    pub id: u64,
    /// Name.
    pub name: String,
    /// Stage.
    pub stage: String,
    /// Status word.
    pub status: String,
    /// Why it failed.
    pub failure_reason: Option<String>,
    /// A newer job of this name exists.
    pub retried: bool,
    /// User name of as whom it runs.
    pub user: String,
    /// It triggers a pipeline.
    pub bridge: bool,
    /// The pipeline that it triggered.
    pub downstream: Option<u64>,
    /// Variables given when it was played or its pipeline started.
    pub variables: Vec<(String, String)>,
}

/// An issue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IssueView {
    /// Title.
    pub title: String,
    /// Text.
    pub description: String,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Whether it is open.
    pub open: bool,
    /// User name of the author.
    pub author: String,
}

/// A merge request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MergeRequestView {
    /// Number in the project.
    pub iid: u64,
    /// Title.
    pub title: String,
    /// Head.
    pub sha: String,
    /// `opened`, `closed`, `merged`.
    pub state: String,
    /// User name.
    pub author: String,
    /// Names of labels.
    pub labels: Vec<String>,
    /// Project of the head.
    pub source_project: u64,
    /// Branch of the head.
    pub source_branch: String,
    /// Newest pipeline of the head.
    pub head_pipeline: Option<u64>,
}

/// A pipeline.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PipelineView {
    /// Id.
    pub id: u64,
    /// Number in the project.
    pub iid: u64,
    /// Commit.
    pub sha: String,
    /// Ref.
    pub git_ref: String,
    /// What made it.
    pub source: String,
    /// Status word.
    pub status: String,
    /// User name.
    pub user: String,
}

impl GitLabSandbox {
    /// The newest status of each name on a commit, oldest first.
    pub fn statuses(&self, project: u64, sha: &str) -> Vec<StatusView> {
        self.with(|state| {
            let fits = |job: &&Job| job.kind == JobKind::Status && !job.retried && is_on(state, job, project, sha);
            state.jobs.values().filter(fits).map(|job| state.status_view(job)).collect()
        })
    }

    /// Every status that was accepted for a commit, in order, each as it was then.
    pub fn status_history(&self, project: u64, sha: &str) -> Vec<StatusView> {
        self.with(|state| {
            let posted = state.posted.iter().filter(|job| is_on(state, job, project, sha));
            posted.map(|job| state.status_view(job)).collect()
        })
    }

    /// The notes of a merge request, oldest first.
    pub fn notes(&self, project: u64, iid: u64) -> Vec<NoteView> {
        self.with(|state| state.note_views(project, On::MergeRequest(iid)))
    }

    /// The notes of an issue, oldest first.
    pub fn issue_notes(&self, project: u64, iid: u64) -> Vec<NoteView> {
        self.with(|state| state.note_views(project, On::Issue(iid)))
    }

    /// An issue.
    pub fn issue(&self, project: u64, iid: u64) -> Option<IssueView> {
        self.with(|state| {
            let issue = state.project(project).issues.get(&iid)?;
            Some(IssueView {
                title: issue.title.clone(),
                description: issue.description.clone(),
                labels: issue.labels.clone(),
                open: issue.open,
                author: state.person(issue.author).username.clone(),
            })
        })
    }

    /// The jobs and bridges of a pipeline, oldest first, those that were retried among them.
    pub fn jobs(&self, pipeline: u64) -> Vec<JobView> {
        self.with(|state| {
            let jobs = state.pipeline(pipeline).jobs.iter().map(|id| state.job(*id));
            jobs.filter(|job| job.kind != JobKind::Status).map(|job| state.job_view(job)).collect()
        })
    }

    /// The merge requests of a project, oldest first.
    pub fn merge_requests(&self, project: u64) -> Vec<MergeRequestView> {
        self.with(|state| {
            let changes = state.project(project).merge_requests.values();
            let view = |change: &super::state::MergeRequest| MergeRequestView {
                iid: change.iid,
                title: change.title.clone(),
                sha: change.sha().to_owned(),
                state: change.state.to_owned(),
                author: state.person(change.author).username.clone(),
                labels: change.labels.clone(),
                source_project: change.source_project,
                source_branch: change.source_branch.clone(),
                head_pipeline: state.head_pipeline(change).map(|pipeline| pipeline.id),
            };
            changes.map(view).collect()
        })
    }

    /// The pipelines of a project, oldest first, child pipelines among them.
    pub fn pipelines(&self, project: u64) -> Vec<PipelineView> {
        self.with(|state| {
            let view = |pipeline: &super::state::Pipeline| PipelineView {
                id: pipeline.id,
                iid: pipeline.iid,
                sha: pipeline.sha.clone(),
                git_ref: pipeline.git_ref.clone(),
                source: pipeline.source.clone(),
                status: pipeline.status.to_owned(),
                user: state.person(pipeline.user).username.clone(),
            };
            state.pipelines.values().filter(|pipeline| pipeline.project == project).map(view).collect()
        })
    }
}

fn is_on(state: &State, job: &Job, project: u64, sha: &str) -> bool {
    job.project == project && state.pipeline(job.pipeline).sha == sha
}

impl State {
    fn status_view(&self, job: &Job) -> StatusView {
        StatusView {
            id: job.id,
            name: job.new.name.clone(),
            state: job.status.to_owned(),
            description: job.description.clone(),
            target_url: job.target_url.clone(),
            git_ref: job.git_ref.clone(),
            pipeline: job.pipeline,
            user: self.person(job.user).username.clone(),
        }
    }

    fn job_view(&self, job: &Job) -> JobView {
        JobView {
            id: job.id,
            name: job.new.name.clone(),
            stage: job.new.stage.clone(),
            status: job.status.to_owned(),
            failure_reason: job.failure_reason.clone(),
            retried: job.retried,
            user: self.person(job.user).username.clone(),
            bridge: job.kind == JobKind::Bridge,
            downstream: job.downstream,
            variables: job.variables.clone(),
        }
    }

    fn note_views(&self, project: u64, on: On) -> Vec<NoteView> {
        let view = |note: &Note| NoteView {
            id: note.id,
            author: self.person(note.author).username.clone(),
            body: note.body.clone(),
            emoji: note
                .awards
                .iter()
                .map(|award| (self.person(award.user).username.clone(), award.name.clone()))
                .collect(),
            internal: note.internal,
            system: note.system,
            edits: note.edits,
        };
        self.notes_on(project, on).map(view).collect()
    }
}
