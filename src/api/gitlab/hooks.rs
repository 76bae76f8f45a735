//! The webhook payloads of GitLab, as little of them as we read (forge-gitlab reference, 2.4 to 2.7).
//!
//! Text is borrowed from the body where JSON allows it. Everything that some version leaves out is an `Option`.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::dates::lenient;
use crate::domain::Timestamp;

/// What kind of payload it is.
#[derive(Debug, Deserialize)]
pub struct Kind<'a> {
    /// Missing when the hook has a template of its own.
    #[serde(borrow, default)]
    pub object_kind: Option<Cow<'a, str>>,
    /// What an instance-wide system hook has in its place for most events.
    pub event_name: Option<IgnoredAny>,
}

/// A user.
#[derive(Debug, Deserialize)]
pub struct User<'a> {
    /// Numeric id; system hooks of old versions leave it out.
    pub id: Option<u64>,
    /// Login.
    #[serde(borrow, default)]
    pub username: Cow<'a, str>,
}

/// The project that the hook belongs to.
#[derive(Debug, Deserialize)]
pub struct Project<'a> {
    /// Numeric id.
    pub id: u64,
    /// `group/sub/project`.
    #[serde(borrow)]
    pub path_with_namespace: Cow<'a, str>,
    /// Page.
    #[serde(borrow, default)]
    pub web_url: Cow<'a, str>,
    /// Default branch; null for an empty repository.
    pub default_branch: Option<String>,
}

/// A push to a branch.
#[derive(Debug, Deserialize)]
pub struct PushHook<'a> {
    /// `refs/heads/NAME`.
    #[serde(borrow, rename = "ref", default)]
    pub branch: Cow<'a, str>,
    /// The new end; zeros when the branch was deleted.
    #[serde(borrow, default)]
    pub after: Cow<'a, str>,
    /// The project.
    #[serde(borrow)]
    pub project: Project<'a>,
}

/// A commit named by its id.
#[derive(Debug, Deserialize)]
pub struct Commit<'a> {
    /// Full commit id.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
}

/// A label.
#[derive(Debug, Deserialize)]
pub struct Label {
    /// Its name.
    pub title: Option<String>,
}

/// A merge request, inside a note hook or as the attributes of its own hook.
#[derive(Debug, Deserialize)]
pub struct MergeRequest<'a> {
    /// Number in the project.
    pub iid: u64,
    /// `opened`, `closed`, `merged`, `locked`.
    #[serde(borrow, default)]
    pub state: Cow<'a, str>,
    /// Branch to enter.
    #[serde(borrow, default)]
    pub target_branch: Cow<'a, str>,
    /// Where the head lives; null when that project is gone.
    pub source_project_id: Option<u64>,
    /// Where the change wants to go.
    pub target_project_id: Option<u64>,
    /// The head at send time.
    #[serde(borrow, default)]
    pub last_commit: Option<Commit<'a>>,
    /// Labels.
    #[serde(default)]
    pub labels: Option<Vec<Label>>,
    /// Who opened it.
    pub author_id: Option<u64>,
    /// The pipeline of the head.
    pub head_pipeline_id: Option<u64>,
    /// Own hook only: what happened.
    #[serde(borrow, default)]
    pub action: Option<Cow<'a, str>>,
    /// Own hook only: the head before, on real changes of code.
    pub oldrev: Option<IgnoredAny>,
}

/// `object_kind` = `note`.
#[derive(Debug, Deserialize)]
pub struct NoteHook<'a> {
    /// `note` or `confidential_note`.
    #[serde(borrow, default)]
    pub event_type: Option<Cow<'a, str>>,
    /// Who caused it.
    #[serde(borrow)]
    pub user: User<'a>,
    /// The target project.
    #[serde(borrow)]
    pub project: Project<'a>,
    /// The note.
    #[serde(borrow)]
    pub object_attributes: Note<'a>,
    /// The merge request that it stands on.
    #[serde(borrow, default)]
    pub merge_request: Option<MergeRequest<'a>>,
}

/// The note of a note hook.
#[derive(Debug, Deserialize)]
pub struct Note<'a> {
    /// Id.
    pub id: u64,
    /// Text.
    #[serde(borrow, default)]
    pub note: Option<Cow<'a, str>>,
    /// `MergeRequest`, `Commit`, `Issue`, `Snippet`.
    #[serde(borrow, default)]
    pub noteable_type: Cow<'a, str>,
    /// `create` or `update`; missing before 16.11.
    #[serde(borrow, default)]
    pub action: Option<Cow<'a, str>>,
    /// Whose text it is.
    pub author_id: Option<u64>,
    /// Written by GitLab itself.
    pub system: Option<bool>,
    /// Visible to members only.
    pub internal: Option<bool>,
    /// When it was written.
    #[serde(default, deserialize_with = "lenient")]
    pub created_at: Option<Timestamp>,
    /// When its text last changed.
    #[serde(default, deserialize_with = "lenient")]
    pub updated_at: Option<Timestamp>,
}

/// `object_kind` = `merge_request`.
#[derive(Debug, Deserialize)]
pub struct MergeRequestHook<'a> {
    /// Who caused it.
    #[serde(borrow, default)]
    pub user: Option<User<'a>>,
    /// The target project.
    #[serde(borrow)]
    pub project: Project<'a>,
    /// The merge request.
    #[serde(borrow)]
    pub object_attributes: MergeRequest<'a>,
}

/// `object_kind` = `issue`.
#[derive(Debug, Deserialize)]
pub struct IssueHook<'a> {
    /// The project.
    #[serde(borrow)]
    pub project: Project<'a>,
    /// The issue.
    #[serde(borrow)]
    pub object_attributes: Issue<'a>,
    /// `issue` or `confidential_issue`.
    #[serde(borrow, default)]
    pub event_type: Option<Cow<'a, str>>,
    /// Labels, where old versions tell them.
    #[serde(default)]
    pub labels: Option<Vec<Label>>,
}

/// The issue of an issue hook.
#[derive(Debug, Deserialize)]
pub struct Issue<'a> {
    /// Number in the project.
    pub iid: u64,
    /// Title.
    #[serde(borrow, default)]
    pub title: Option<Cow<'a, str>>,
    /// Text.
    #[serde(borrow, default)]
    pub description: Option<Cow<'a, str>>,
    /// `opened` or `closed`.
    #[serde(borrow, default)]
    pub state: Option<Cow<'a, str>>,
    /// Visible to members only.
    pub confidential: Option<bool>,
    /// What kind of work item, where told: `Issue`, `Incident` …
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<Cow<'a, str>>,
    /// Page.
    #[serde(borrow, default)]
    pub url: Option<Cow<'a, str>>,
    /// Labels.
    #[serde(default)]
    pub labels: Option<Vec<Label>>,
    /// When something in it last changed.
    #[serde(default, deserialize_with = "lenient")]
    pub updated_at: Option<Timestamp>,
}

/// The pipeline that triggered this one.
#[derive(Debug, Deserialize)]
pub struct SourcePipeline {
    /// Its id.
    pub pipeline_id: Option<u64>,
}

/// `object_kind` = `pipeline`.
#[derive(Debug, Deserialize)]
pub struct PipelineHook<'a> {
    /// The pipeline's project.
    #[serde(borrow)]
    pub project: Project<'a>,
    /// The pipeline.
    #[serde(borrow)]
    pub object_attributes: Pipeline<'a>,
    /// Its merge request.
    #[serde(borrow, default)]
    pub merge_request: Option<MergeRequest<'a>>,
    /// Set for child and downstream pipelines.
    #[serde(default)]
    pub source_pipeline: Option<SourcePipeline>,
    /// Its jobs, without bridges.
    #[serde(borrow, default)]
    pub builds: Option<Vec<Build<'a>>>,
}

/// The pipeline of a pipeline hook.
#[derive(Debug, Deserialize)]
pub struct Pipeline<'a> {
    /// Instance-wide id.
    pub id: u64,
    /// The commit; the merge result for merged-results pipelines.
    #[serde(borrow)]
    pub sha: Cow<'a, str>,
    /// The head that was merged, where told.
    #[serde(borrow, default)]
    pub source_sha: Option<Cow<'a, str>>,
    /// Branch, or `refs/merge-requests/IID/…`.
    #[serde(borrow, default, rename = "ref")]
    pub git_ref: Option<Cow<'a, str>>,
    /// Status word.
    #[serde(borrow, default)]
    pub status: Cow<'a, str>,
}

/// A job of a pipeline hook.
#[derive(Debug, Deserialize)]
pub struct Build<'a> {
    /// Instance-wide id.
    pub id: u64,
    /// Stage.
    #[serde(borrow, default)]
    pub stage: Cow<'a, str>,
    /// Name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Status word.
    #[serde(borrow, default)]
    pub status: Cow<'a, str>,
    /// Why it failed; also sent with jobs that did not.
    #[serde(borrow, default)]
    pub failure_reason: Option<Cow<'a, str>>,
    /// Whether the pipeline passes without it.
    pub allow_failure: Option<bool>,
    /// The runner that took it.
    pub runner: Option<IgnoredAny>,
    /// As whom it runs; who posted it, for a commit status.
    #[serde(borrow, default)]
    pub user: Option<User<'a>>,
}

/// The repository as the job hook describes it.
#[derive(Debug, Deserialize)]
pub struct Repository<'a> {
    /// The project's page.
    #[serde(borrow, default)]
    pub homepage: Cow<'a, str>,
}

/// `object_kind` = `build` (the "Job Hook").
#[derive(Debug, Deserialize)]
pub struct BuildHook<'a> {
    /// Instance-wide id of the job.
    pub build_id: u64,
    /// Name.
    #[serde(borrow)]
    pub build_name: Cow<'a, str>,
    /// Stage.
    #[serde(borrow, default)]
    pub build_stage: Cow<'a, str>,
    /// Status word.
    #[serde(borrow, default)]
    pub build_status: Cow<'a, str>,
    /// Why it failed; also sent with jobs that did not.
    #[serde(borrow, default)]
    pub build_failure_reason: Option<Cow<'a, str>>,
    /// Whether the pipeline passes without it.
    pub build_allow_failure: Option<bool>,
    /// Its pipeline.
    pub pipeline_id: u64,
    /// The commit.
    #[serde(borrow)]
    pub sha: Cow<'a, str>,
    /// The pipeline's ref: a branch, or `refs/merge-requests/IID/…`.
    #[serde(borrow, default, rename = "ref")]
    pub git_ref: Option<Cow<'a, str>>,
    /// Its project.
    pub project_id: u64,
    /// The project as newer versions describe it.
    #[serde(borrow, default)]
    pub project: Option<Project<'a>>,
    /// The project as older versions describe it.
    #[serde(borrow, default)]
    pub repository: Option<Repository<'a>>,
    /// The runner that took it.
    pub runner: Option<IgnoredAny>,
    /// Set in child and downstream pipelines.
    #[serde(default)]
    pub source_pipeline: Option<SourcePipeline>,
}
