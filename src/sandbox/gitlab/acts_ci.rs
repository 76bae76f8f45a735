//! What CI does in the sandbox: pipelines that people and other systems start, and runners that take jobs.
//!
//! No job runs by itself: the test is the runner. A job is named by its pipeline and name, and the newest one is meant.
//! Read next: `engine.rs`.

use super::GitLabSandbox;
use super::engine::{is_over, status_word};
use super::new::{NewJob, NewPipeline};
use super::state::State;
use super::statuses::Post;

impl GitLabSandbox {
    /// Starts a pipeline and answers its id. Queues a Job Hook per job and status, and Pipeline Hooks.
    pub fn start_pipeline(&self, project: u64, new: NewPipeline) -> u64 {
        self.with(|state| {
            let user = match (new.username.as_str(), new.mr_iid) {
                ("", Some(iid)) => {
                    let home = state.project(project);
                    let parent = home.fork_of.filter(|parent| state.project(*parent).merge_requests.contains_key(&iid));
                    state.change(parent.unwrap_or(project), iid).author
                }
                ("", None) => state.user("root"),
                (username, _) => state.user(username),
            };
            state.create_pipeline(project, new, user)
        })
    }

    /// What a pipeline of this project consists of when somebody starts one through the API.
    pub fn set_ci(&self, project: u64, jobs: Vec<NewJob>) {
        self.with(|state| state.project_mut(project).ci = jobs);
    }

    /// Whether members may run pipelines of forks in this project; true at the start.
    pub fn allow_fork_pipelines(&self, project: u64, allowed: bool) {
        self.with(|state| state.project_mut(project).fork_pipelines_in_parent = allowed);
    }

    /// A runner takes the job.
    pub fn start_job(&self, pipeline: u64, name: &str) {
        self.with(|state| {
            let id = state.named_job(pipeline, name);
            state.set_job(id, "running", None);
            state.advance(pipeline);
        });
    }

    /// The job ends: `success`, `failed` or `canceled`. A failure without a reason is a `script_failure`.
    pub fn finish_job(&self, pipeline: u64, name: &str, status: &str, failure_reason: Option<&str>) {
        let status = status_word(status).filter(|word| is_over(word));
        let status = status.expect("a job ends as `success`, `failed`, `canceled` or `skipped`");
        self.with(|state| {
            let id = state.named_job(pipeline, name);
            if matches!(state.job(id).status, "created" | "pending" | "manual") {
                state.set_job(id, "running", None);
            }
            state.set_job(id, status, failure_reason);
            state.advance(pipeline);
        });
    }

    /// Every job of the pipeline that has not ended ends so, at once.
    pub fn finish_all(&self, pipeline: u64, status: &str) {
        let status = status_word(status).filter(|word| is_over(word));
        let status = status.expect("a job ends as `success`, `failed`, `canceled` or `skipped`");
        self.with(|state| {
            let open: Vec<u64> = state.latest(pipeline).filter(|job| !is_over(job.status)).map(|job| job.id).collect();
            for id in open {
                state.job_mut(id).runner = true;
                state.set_job(id, status, None);
            }
            state.advance(pipeline);
        });
    }

    /// GitLab itself starts the job again because of `retry:` in the CI file, under the pipeline's user.
    ///
    /// # Panics
    /// When the job has not ended.
    pub fn native_retry(&self, pipeline: u64, name: &str) -> u64 {
        self.with(|state| {
            let (id, user) = (state.named_job(pipeline, name), state.pipeline(pipeline).user);
            state.retry_job(id, user).expect("only a job that has ended is retried")
        })
    }

    /// Adds to the log of the job.
    pub fn job_log(&self, pipeline: u64, name: &str, text: &str) {
        self.with(|state| {
            let id = state.named_job(pipeline, name);
            state.job_mut(id).log.push_str(text);
        });
    }

    /// Somebody cancels the job on the site.
    pub fn cancel(&self, pipeline: u64, name: &str) {
        self.with(|state| {
            let id = state.named_job(pipeline, name);
            state.cancel_job(id);
        });
    }

    /// Somebody, or the pipeline of a newer push, cancels all that has not ended.
    pub fn cancel_pipeline(&self, pipeline: u64) {
        self.with(|state| state.cancel_pipeline(pipeline));
    }

    /// The pipeline grows too old: none of its jobs can be retried any more.
    pub fn archive_pipeline(&self, pipeline: u64) {
        self.with(|state| state.pipeline_mut(pipeline).archived = true);
    }

    /// Another system posts a commit status (`pending`, `running`, `success`, `failed`, `canceled`, `skipped`) as the
    /// user `ci`, and answers its id.
    ///
    /// GitLab sends a Pipeline Hook when the status of the pipeline changes with it. It sends no Job Hook for a status
    /// and does not list it in `builds`.
    ///
    /// # Panics
    /// When GitLab would refuse the post.
    pub fn external_status(&self, project: u64, sha: &str, name: &str, state: &str, target_url: Option<&str>) -> u64 {
        let post = Post {
            project,
            sha: sha.to_owned(),
            state: state.to_owned(),
            name: name.to_owned(),
            target_url: target_url.map(str::to_owned),
            ..Post::default()
        };
        self.with(|state| {
            let user = state.user("ci");
            state.post_status(&post, user).expect("GitLab takes the status")
        })
    }

    /// The next `posts` of statuses find the lock of their commit held and get 409.
    pub fn lock_statuses(&self, posts: u32) {
        self.with(|state| state.locked_posts = posts);
    }

    /// Pipelines of this project take so many jobs and statuses; a post above it that names its pipeline gets 422.
    pub fn set_job_limit(&self, project: u64, jobs_max: usize) {
        self.with(|state| state.project_mut(project).jobs_max = jobs_max);
    }
}

impl State {
    fn named_job(&self, pipeline: u64, name: &str) -> u64 {
        let found = self.latest_named(pipeline, name);
        found.unwrap_or_else(|| panic!("no job `{name}` in the sandbox's pipeline {pipeline}"))
    }
}
