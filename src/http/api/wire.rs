//! The JSON of the API: what clients send, and what they get.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::BODY_BYTES_MAX;
use super::problem::Problem;
use crate::decide::LeaveItem;
use crate::domain::{Conclusion, Job, Repo, Retry, RetryState, Timestamp};
use crate::http::Http;

/// A job as an outside system registers or updates it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobPut {
    /// `pending`, `running`, `passed`, `failed`, `infrastructure`, `timed_out`, `cancelled`, `superseded`, `skipped` or `lost`.
    #[schema(example = "failed")]
    pub state: String,
    /// Your name of this run of the job. The same run is updated, another one takes its place.
    #[schema(example = "48213")]
    pub run: String,
    /// The run's page for people.
    pub url: Option<String>,
    /// The configured runner that can run it again; without it the first that declares a job of this name.
    pub runner: Option<String>,
    /// What the name is unique in, where several jobs of a revision have it.
    pub scope: Option<String>,
    /// What it runs on, for `/retest platform:NAME`.
    pub platform: Option<String>,
    /// Jobs of the same revision that it needs.
    pub needs: Option<Vec<String>>,
    /// Whether a new run needs nothing but the revision.
    pub standalone: Option<bool>,
    /// What must be restarted together, or the build that it belongs to.
    pub group: Option<String>,
    /// Why it failed, a word first.
    pub cause: Option<String>,
    /// Whether the change may be merged although it failed.
    #[serde(default)]
    pub allow_failure: bool,
    /// When the run began (RFC 3339): orders runs; now unless given.
    pub started_at: Option<String>,
}

/// A job of a revision: its newest run.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobOut {
    name: String,
    scope: String,
    state: &'static str,
    run: String,
    runs: u32,
    url: Option<String>,
    runner: Option<String>,
    platform: Option<String>,
    needs: Option<Vec<String>>,
    standalone: Option<bool>,
    group: Option<String>,
    cause: Option<String>,
    /// When the last news of it came.
    updated_at: String,
}

impl JobOut {
    pub(super) fn new(job: &Job) -> Self {
        let seen = &job.newest;
        Self {
            name: seen.name.to_string(),
            scope: seen.scope.clone(),
            state: seen.state.as_str(),
            run: seen.run.to_string(),
            runs: job.runs,
            url: seen.url.clone(),
            runner: job.runner.as_ref().map(ToString::to_string),
            platform: job.platform.clone(),
            needs: seen.needs.as_ref().map(|needs| needs.iter().map(ToString::to_string).collect()),
            standalone: job.standalone,
            group: seen.group.clone(),
            cause: seen.cause.clone(),
            updated_at: rfc3339(seen.at),
        }
    }
}

/// The jobs of a revision.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobsOut {
    pub jobs: Vec<JobOut>,
}

/// A `run` event.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventIn {
    /// Always `run`.
    #[schema(example = "run")]
    pub kind: String,
    /// Whom it is for.
    pub to: StageIn,
    /// planner: the head of an open change. dispatcher: the same, when the run is about one.
    pub revision: Option<RevisionIn>,
    /// planner, instead of `revision`: a build or a run, by the runner's own id.
    pub node: Option<NodeIn>,
    /// planner: which jobs; without it all that ended badly.
    #[serde(default)]
    pub filter: FilterIn,
    /// planner: fields of the jobs to change, where the operator allows it.
    #[serde(default)]
    pub overrides: BTreeMap<String, String>,
    /// planner: also jobs that passed; needs the scope `retries:force`.
    #[serde(default)]
    pub force: bool,
    /// dispatcher: the run.
    pub run: Option<RunIn>,
    /// Why, for people.
    pub reason: Option<String>,
}

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StageIn {
    /// Decides what runs again.
    Planner,
    /// Starts one run as described.
    Dispatcher,
}

/// A revision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevisionIn {
    /// The configured name of the forge.
    pub forge: String,
    /// The repository: its full name, or its number at the forge.
    pub repository: String,
    /// The whole commit id.
    pub sha: String,
}

/// A build or a run of a runner.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeIn {
    /// The configured runner; may be left out when only one knows builds.
    pub runner: Option<String>,
    /// Its id there.
    #[schema(example = "66b0c0ffee00000000000002")]
    pub id: String,
}

/// Which jobs: all globs are over whole words.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FilterIn {
    /// Globs over names.
    #[schema(example = json!(["baseline*"]))]
    pub jobs: Vec<String>,
    /// Globs over platforms.
    #[schema(example = json!(["x86"]))]
    pub platforms: Vec<String>,
}

/// One run, completely described: either a template of the configuration with its parameters, or runner and job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunIn {
    /// A template of the configuration; excludes `runner`, `job` and `definition`.
    pub template: Option<String>,
    /// The runner.
    pub runner: Option<String>,
    /// What the run is called there.
    pub job: Option<String>,
    /// The whole definition, for runners that take one.
    pub definition: Option<String>,
    /// Parameters of the template, or fields of the job.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// What an event came to.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventOut {
    /// Retries that were stored, and those under way that the event joined.
    pub retries: Vec<RetryOut>,
    /// Jobs left alone.
    pub left: Vec<LeftOut>,
}

/// A job left alone.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeftOut {
    /// The job; empty when no single one is meant.
    job: String,
    /// A word of the closed list in docs/reasons.md.
    reason: &'static str,
    /// The same for people, as Markdown.
    text: String,
}

impl LeftOut {
    pub(super) fn new(item: &LeaveItem) -> Self {
        Self { job: item.name.clone(), reason: item.reason.as_str(), text: item.text.clone() }
    }
}

/// A retry.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RetryOut {
    id: i64,
    /// Our key of the run; the runner gets it where it can carry it.
    key: String,
    /// `requested`, `waiting`, `dispatching`, `dispatched`, `running`, `uncertain`, `finished`, `rejected`, `superseded`,
    /// `cancelled` or `expired`.
    state: &'static str,
    /// Whether something is still to come.
    open: bool,
    /// How its run ended, once it did.
    conclusion: Option<&'static str>,
    /// The runner's word for why, or its refusal.
    cause: Option<String>,
    job: String,
    scope: String,
    runner: String,
    /// None for runs that belong to no change.
    forge: Option<String>,
    repository: Option<String>,
    change: Option<u64>,
    sha: Option<String>,
    /// The build or group that the run belongs to.
    build: Option<String>,
    /// How it came to be: always `manual`, a person or client asked.
    origin: &'static str,
    asker: String,
    why: String,
    overrides: BTreeMap<String, String>,
    /// The run that it repeats.
    source_run: Option<String>,
    /// The new run, once it has a name.
    new_run: Option<String>,
    url: Option<String>,
    created_at: String,
    ended_at: Option<String>,
}

impl RetryOut {
    /// `new_run` is what the record calls the run, once it does.
    pub(super) fn new(retry: &Retry, repo: Option<&Repo>, new_run: Option<String>) -> Self {
        let (conclusion, refusal) = match &retry.state {
            RetryState::Finished(end) => (Some(conclusion(*end)), None),
            RetryState::Rejected(why) => (None, Some(why.clone())),
            _ => (None, None),
        };
        let of_change = !retry.change.is_none();
        let sha = of_change || retry.sha.as_str().bytes().any(|digit| digit != b'0');
        Self {
            id: retry.id.0,
            key: retry.key.to_string(),
            state: retry.state.word(),
            open: retry.state.is_open(),
            conclusion,
            cause: refusal.or_else(|| retry.cause.clone()),
            job: retry.job.to_string(),
            scope: retry.scope.clone(),
            runner: retry.runner.to_string(),
            forge: of_change.then(|| retry.change.repo.forge.to_string()),
            repository: repo.filter(|_| of_change).map(|repo| repo.full_name.clone()),
            change: of_change.then_some(retry.change.number),
            sha: sha.then(|| retry.sha.to_string()),
            build: retry.group.clone(),
            origin: "manual",
            asker: retry.asker.login.clone(),
            why: retry.why.clone(),
            overrides: retry.overrides.clone(),
            source_run: retry.source_run.as_ref().map(ToString::to_string),
            new_run,
            url: retry.handle.as_ref().and_then(|handle| handle.url.clone()),
            created_at: rfc3339(retry.created_at),
            ended_at: retry.ended_at.map(rfc3339),
        }
    }
}

/// Retries, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RetriesOut {
    pub retries: Vec<RetryOut>,
}

fn conclusion(end: Conclusion) -> &'static str {
    end.state().as_str()
}

pub(super) fn rfc3339(at: Timestamp) -> String {
    let at = chrono::DateTime::from_timestamp_millis(at.ms()).unwrap_or_default();
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Reads a JSON body within its bounds.
pub(super) async fn read<T: DeserializeOwned>(
    http: &Http,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Bytes), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
    if !kind.trim().to_ascii_lowercase().starts_with("application/json") {
        let detail = "send the body as `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let reading = tokio::time::timeout(http.body_timeout, axum::body::to_bytes(body, BODY_BYTES_MAX));
    let bytes = match reading.await {
        Err(_) => return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body came too slowly; send it again")),
        Ok(Err(_)) => {
            let detail = format!("the body is cut off or over {BODY_BYTES_MAX} bytes; send less");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        Ok(Ok(bytes)) => bytes,
    };
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    match serde_path_to_error::deserialize(&mut json) {
        Ok(value) => Ok((value, bytes)),
        Err(error) => {
            let detail = format!("the body is not as described, at `{}`: {}", error.path(), error.inner());
            Err(Problem::new(StatusCode::BAD_REQUEST, detail))
        }
    }
}
