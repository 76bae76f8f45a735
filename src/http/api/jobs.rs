//! `…/revisions/{forge}/{repo}/{sha}/jobs`: the jobs of a revision, told by outside systems and asked for by anybody.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use super::auth::{Caller, Scope};
use super::problem::Problem;
use super::wire::{self, JobOut, JobPut, JobsOut};
use crate::domain::{
    CommitSha, ForgeName, JobName, JobObservation, JobState, ListedJob, Origin, Repo, RepoKey, RunOrder, RunRef,
    RunnerName, Timestamp,
};
use crate::http::Http;
use crate::store::JobQuery;

/// Longest name, run, scope, platform, group and cause, in bytes.
const TEXT_BYTES_MAX: usize = 500;

/// A repository that the caller may touch: by its number when it is all digits, else by its full name.
pub(super) async fn repo(http: &Http, caller: &Caller<'_>, forge: &str, repo: &str) -> Result<Repo, Problem> {
    let forge = ForgeName::new(forge);
    let store = &http.world.store;
    let found = match repo.parse::<u64>() {
        Ok(id) => store.repo(&RepoKey { forge, id }).await?,
        Err(_) => store.repo_named(&forge, repo).await?,
    };
    found.filter(|repo| caller.reaches(repo)).ok_or_else(|| {
        Problem::unknown(
            "no such repository here: give the forge's configured name and the repository's number or its full name with \
             `/` as `%2F`; the bot knows a repository from its first webhook on",
        )
    })
}

pub(super) fn sha(text: &str) -> Result<CommitSha, Problem> {
    CommitSha::parse(text).map_err(|error| Problem::wrong(error.to_string()))
}

/// Lists the jobs of a revision as the bot's record has them; it asks nobody.
#[utoipa::path(
    get,
    path = "/api/v1/revisions/{forge}/{repo}/{sha}/jobs",
    params(
        ("forge" = String, Path, description = "The configured name of the forge"),
        ("repo" = String, Path, description = "The repository: its number, or its full name with `/` as `%2F`"),
        ("sha" = String, Path, description = "The whole commit id"),
    ),
    responses(
        (status = 200, body = JobsOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn list(
    State(http): State<Http>,
    Path((forge, name, commit)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Result<Json<JobsOut>, Problem> {
    let caller = Caller::check(&http, &headers, Scope::JobsRead)?;
    let repo = repo(&http, &caller, &forge, &name).await?;
    let jobs = http.world.store.jobs(&repo.key, &sha(&commit)?, &JobQuery::All).await?;
    Ok(Json(JobsOut { jobs: jobs.iter().map(JobOut::new).collect() }))
}

/// Registers a job of a revision, or tells how it stands: idempotent. News of an older run changes nothing.
#[utoipa::path(
    put,
    path = "/api/v1/revisions/{forge}/{repo}/{sha}/jobs/{name}",
    params(
        ("forge" = String, Path, description = "The configured name of the forge"),
        ("repo" = String, Path, description = "The repository: its number, or its full name with `/` as `%2F`"),
        ("sha" = String, Path, description = "The whole commit id"),
        ("name" = String, Path, description = "The job's name, percent-encoded"),
    ),
    request_body = JobPut,
    responses(
        (status = 200, description = "The job as it stands now", body = JobOut),
        (status = 201, description = "The job is new", body = JobOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn put(
    State(http): State<Http>,
    Path((forge, name, commit, job)): Path<(String, String, String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let caller = Caller::check(&http, &headers, Scope::JobsWrite)?;
    let repo = repo(&http, &caller, &forge, &name).await?;
    let sha = sha(&commit)?;
    let (put, _): (JobPut, _) = wire::read(&http, &headers, body).await?;
    let runner = runner(&http, &repo, put.runner.as_deref())?;
    let told = told(&job, put, http.world.now())?;
    let fresh = http.world.register(&repo, &sha, &told, runner.as_ref()).await?;
    tracing::info!(client = %caller.client().name, repository = %repo.full_name, head = %sha, job, fresh, "a job was told");
    let named = JobQuery::Named(vec![job]);
    let jobs = http.world.store.jobs(&repo.key, &sha, &named).await?;
    let kept = jobs.iter().find(|j| j.newest.name == told.seen.name && j.newest.scope == told.seen.scope);
    let kept = kept.ok_or_else(|| Problem::unknown("the job was forgotten in between; send it again"))?;
    let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(JobOut::new(kept))).into_response())
}

fn runner(http: &Http, repo: &Repo, name: Option<&str>) -> Result<Option<RunnerName>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let name = RunnerName::new(name);
    let entry = http.world.runner(&name).filter(|entry| entry.serves(repo));
    let entry = entry.ok_or_else(|| {
        Problem::wrong(format!(
            "no runner `{name}` serves this repository; leave it out, or add it to the configuration"
        ))
    })?;
    Ok(Some(entry.runner.name().clone()))
}

/// The registration in our words.
fn told(name: &str, put: JobPut, now: Timestamp) -> Result<ListedJob, Problem> {
    let state = JobState::parse(&put.state).filter(|state| *state != JobState::Missing);
    let state = state.ok_or_else(|| {
        let words: Vec<&str> = JobState::ALL.iter().skip(1).map(|s| s.as_str()).collect();
        Problem::wrong(format!("`state` must be one of {}", words.join(", ")))
    })?;
    let texts = [Some(name), Some(&put.run), put.scope.as_deref(), put.platform.as_deref(), put.group.as_deref()];
    let bad = |text: &str| text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control);
    if name.trim().is_empty() || put.run.is_empty() || texts.into_iter().flatten().any(bad) {
        let detail = format!("names must not be empty, hold control characters, or exceed {TEXT_BYTES_MAX} bytes");
        return Err(Problem::wrong(detail));
    }
    if put.url.as_deref().is_some_and(|url| !is_page(url)) {
        return Err(Problem::wrong("`url` must be an http or https address of at most 2,000 bytes"));
    }
    let started = match &put.started_at {
        None => now,
        Some(text) => {
            let at = chrono::DateTime::parse_from_rfc3339(text);
            let at = at.map_err(|_| Problem::wrong("`started_at` must be a time such as 2026-08-05T11:30:03Z"))?;
            Timestamp::from_ms(at.timestamp_millis()).min(now)
        }
    };
    let seen = JobObservation {
        name: JobName::new(name),
        scope: put.scope.unwrap_or_default(),
        origin: Origin::Reported,
        run: RunRef::new(put.run),
        order: RunOrder(started.ms(), 0),
        group: put.group,
        state,
        cause: put.cause.map(|cause| cause.chars().filter(|c| !c.is_control()).take(300).collect()),
        url: put.url,
        allow_failure: put.allow_failure,
        manual: false,
        needs: put.needs.map(|needs| needs.iter().map(JobName::new).collect()),
        at: now,
    };
    Ok(ListedJob { seen, platform: put.platform, standalone: put.standalone })
}

/// Whether people may be sent there.
fn is_page(url: &str) -> bool {
    let plain = url.len() <= 2_000 && !url.contains(|c: char| c.is_whitespace() || c.is_control());
    plain && url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
