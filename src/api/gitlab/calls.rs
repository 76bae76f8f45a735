//! One method per call that we make, in the order of the interface's own chapters; issues and notes are next door.
//!
//! Every call fails as [`Failure`] says; the errors of single calls are told only where they differ from that.
//! Ids: merge requests go by their number in the project, pipelines, jobs and notes by their instance-wide id.

use gitlab::api::endpoint_prelude::*;
use gitlab::api::projects::jobs::{CancelJob, Job as GetJob, PlayJob, RetryJob};
use gitlab::api::projects::members::AllProjectMember;
use gitlab::api::projects::merge_requests::pipelines::MergeRequestPipelines;
use gitlab::api::projects::merge_requests::{MergeRequest, MergeRequestState, MergeRequests};
use gitlab::api::projects::pipelines::{PipelineBridges, PipelineJobs};
use gitlab::api::projects::repository::commits::{CommitStatuses, CreateCommitStatus};
use gitlab::api::users::CurrentUser;

/// The states that a commit status can be posted in.
pub use gitlab::api::projects::repository::commits::CommitStatusState as StatusWord;

use super::wire;
use super::{Failure, GitLabClient, JobAddress, PipelineAddress};
use crate::domain::Timestamp;

/// A commit status to post; texts are cut to GitLab's limit already.
#[derive(Clone, Copy, Debug)]
pub struct NewStatus<'a> {
    /// The project.
    pub project: u64,
    /// The commit.
    pub sha: &'a str,
    /// State.
    pub state: StatusWord,
    /// Context.
    pub name: &'a str,
    /// One line, at most 255 bytes.
    pub description: &'a str,
    /// Page, at most 255 bytes.
    pub target_url: Option<&'a str>,
    /// The pipeline's ref.
    pub git_ref: Option<&'a str>,
    /// The pipeline that it is pinned to.
    pub pipeline: Option<u64>,
}

/// A person's membership of a group, those of the groups above it included; the crate has no such endpoint.
struct AllGroupMember<'a> {
    group: &'a str,
    user: u64,
}

impl Endpoint for AllGroupMember<'_> {
    fn method(&self) -> Method {
        Method::GET
    }
    fn endpoint(&self) -> Cow<'static, str> {
        format!("groups/{}/members/all/{}", segment(self.group), self.user).into()
    }
}

/// One text as one segment of a path: slashes of a group's or file's path are part of its name.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A builder's complaint; it names a field that we forgot, so that only our own tests can meet it.
pub(super) fn built<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, Failure> {
    result.map_err(|error| Failure::refused(error.to_string()))
}

impl GitLabClient {
    /// Whose token this is.
    pub async fn current_user(&self) -> Result<wire::User, Failure> {
        self.ask(built(CurrentUser::builder().build())?).await
    }

    /// A person's membership, inherited ones included; a 404 is somebody who is no member.
    pub async fn member(&self, project: u64, user: u64) -> Result<wire::Member, Failure> {
        self.ask(built(AllProjectMember::builder().project(project).user(user).build())?).await
    }

    /// A person's membership of a group, inherited ones included; a 404 is somebody who is no member.
    pub async fn group_member(&self, group: &str, user: u64) -> Result<wire::Member, Failure> {
        self.ask(AllGroupMember { group, user }).await
    }

    /// One merge request.
    pub async fn merge_request(&self, project: u64, iid: u64) -> Result<wire::MergeRequest, Failure> {
        self.ask(built(MergeRequest::builder().project(project).merge_request(iid).build())?).await
    }

    /// Open merge requests that something happened to since then.
    pub async fn open_merge_requests(
        &self,
        project: u64,
        since: Timestamp,
    ) -> Result<Vec<wire::MergeRequest>, Failure> {
        let since = chrono::DateTime::from_timestamp_millis(since.ms()).unwrap_or_default();
        let mut list = MergeRequests::builder();
        list.project(project).state(MergeRequestState::Opened).updated_after(since);
        self.all(built(list.build())?).await
    }

    /// All pipelines of a merge request, newest first; those that live in the fork are among them.
    pub async fn merge_request_pipelines(&self, project: u64, iid: u64) -> Result<Vec<wire::Pipeline>, Failure> {
        self.all(built(MergeRequestPipelines::builder().project(project).merge_request(iid).build())?).await
    }

    /// The jobs of a pipeline, newest first, without bridges and without those that were retried.
    pub async fn pipeline_jobs(&self, pipeline: PipelineAddress) -> Result<Vec<wire::Job>, Failure> {
        let mut list = PipelineJobs::builder();
        list.project(pipeline.project).pipeline(pipeline.pipeline).include_retried(false);
        self.all(built(list.build())?).await
    }

    /// The same with those that were retried.
    pub async fn pipeline_jobs_and_retried(&self, pipeline: PipelineAddress) -> Result<Vec<wire::Job>, Failure> {
        let mut list = PipelineJobs::builder();
        list.project(pipeline.project).pipeline(pipeline.pipeline).include_retried(true);
        self.all(built(list.build())?).await
    }

    /// The bridges (trigger jobs) of a pipeline.
    pub async fn bridges(&self, pipeline: PipelineAddress) -> Result<Vec<wire::Job>, Failure> {
        let list = PipelineBridges::builder().project(pipeline.project).pipeline(pipeline.pipeline).build();
        self.all(built(list)?).await
    }

    /// One job.
    pub async fn job(&self, job: JobAddress) -> Result<wire::Job, Failure> {
        self.ask(built(GetJob::builder().project(job.project).job(job.job).build())?).await
    }

    /// Retries a job or bridge: the answer is the new job.
    pub async fn retry_job(&self, job: JobAddress) -> Result<wire::Created, Failure> {
        self.ask(built(RetryJob::builder().project(job.project).job(job.job).build())?).await
    }

    /// Starts a manual or delayed job.
    pub async fn play_job(&self, job: JobAddress) -> Result<wire::Created, Failure> {
        self.ask(built(PlayJob::builder().project(job.project).job(job.job).build())?).await
    }

    /// Cancels a job.
    pub async fn cancel_job(&self, job: JobAddress) -> Result<(), Failure> {
        self.tell(built(CancelJob::builder().project(job.project).job(job.job).build())?).await
    }

    /// The newest statuses and jobs of a commit.
    pub async fn commit_statuses(&self, project: u64, sha: &str) -> Result<Vec<wire::Status>, Failure> {
        self.all(built(CommitStatuses::builder().project(project).commit(sha).build())?).await
    }

    /// Posts a commit status.
    pub async fn post_commit_status(&self, status: NewStatus<'_>) -> Result<wire::Created, Failure> {
        let mut post = CreateCommitStatus::builder();
        post.project(status.project).commit(status.sha).state(status.state);
        post.name(status.name).description(status.description);
        if let Some(url) = status.target_url {
            post.target_url(url);
        }
        if let Some(git_ref) = status.git_ref {
            post.ref_(git_ref);
        }
        if let Some(pipeline) = status.pipeline {
            post.pipeline_id(pipeline);
        }
        self.ask(built(post.build())?).await
    }
}
