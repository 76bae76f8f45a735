//! `…/retries`: how retries stand, and taking them back.

use axum::Json;
use axum::extract::{Path, Query as Params, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;

use super::auth::{Caller, Scope};
use super::jobs;
use super::problem::Problem;
use super::wire::{RetriesOut, RetryOut};
use crate::domain::{Repo, Retry, RetryId};
use crate::http::Http;
use crate::store::{JobQuery, RetryQuery};

/// Retries in one answer at most.
const LIMIT_MAX: u32 = 500;

/// Which retries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// Only those of this commit.
    sha: Option<String>,
    /// Only those still under way.
    #[serde(default)]
    open: bool,
    /// At most so many, the newest; 100 unless given, 500 at most.
    limit: Option<u32>,
}

/// The repository of a retry, when the caller may see it.
async fn visible(http: &Http, caller: &Caller<'_>, retry: &Retry) -> Result<Option<Option<Repo>>, Problem> {
    if retry.change.is_none() {
        return Ok(caller.reaches_all().then_some(None));
    }
    let repo = http.world.store.repo(&retry.change.repo).await?;
    Ok(repo.filter(|repo| caller.reaches(repo)).map(Some))
}

/// A retry, and what the record calls its run.
async fn shown(http: &Http, retry: &Retry, repo: Option<&Repo>) -> Result<RetryOut, Problem> {
    let mut new_run = None;
    if let Some(handle) = &retry.handle {
        let named = JobQuery::Named(vec![retry.job.to_string()]);
        let jobs = http.world.store.jobs(&retry.change.repo, &retry.sha, &named).await?;
        let mine = jobs
            .into_iter()
            .find(|j| j.newest.scope == retry.scope && j.newest.name == retry.job && j.newest.order == handle.order);
        new_run = mine.map(|job| job.newest.run.to_string()).filter(|run| !run.starts_with('{'));
    }
    Ok(RetryOut::new(retry, repo, new_run))
}

/// The newest retries that the token may see.
#[utoipa::path(
    get,
    path = "/api/v1/retries",
    params(
        ("sha" = Option<String>, Query, description = "Only those of this commit"),
        ("open" = Option<bool>, Query, description = "Only those still under way"),
        ("limit" = Option<u32>, Query, description = "At most so many, the newest; 100 unless given, 500 at most"),
    ),
    responses(
        (status = 200, body = RetriesOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn list(
    State(http): State<Http>,
    Params(query): Params<Query>,
    headers: HeaderMap,
) -> Result<Json<RetriesOut>, Problem> {
    let caller = Caller::check(&http, &headers, Scope::RetriesRead)?;
    let sha = query.sha.as_deref().map(jobs::sha).transpose()?;
    let limit = query.limit.unwrap_or(100).clamp(1, LIMIT_MAX);
    let mut retries = Vec::new();
    for retry in http.world.store.retries(&RetryQuery { sha, open: query.open }, limit).await? {
        if let Some(repo) = visible(&http, &caller, &retry).await? {
            retries.push(RetryOut::new(&retry, repo.as_ref(), None));
        }
    }
    Ok(Json(RetriesOut { retries }))
}

async fn find(http: &Http, caller: &Caller<'_>, id: i64) -> Result<(Retry, Option<Repo>), Problem> {
    let gone = || Problem::unknown(format!("no retry {id} here; retries are kept for `store.retention`"));
    let retry = http.world.store.retry(RetryId(id)).await?.ok_or_else(gone)?;
    let repo = visible(http, caller, &retry).await?.ok_or_else(gone)?;
    Ok((retry, repo))
}

/// One retry.
#[utoipa::path(
    get,
    path = "/api/v1/retries/{id}",
    params(("id" = i64, Path, description = "Its id, from the answer to the event")),
    responses(
        (status = 200, body = RetryOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn get(
    State(http): State<Http>,
    Path(id): Path<i64>,
    headers: HeaderMap,
) -> Result<Json<RetryOut>, Problem> {
    let caller = Caller::check(&http, &headers, Scope::RetriesRead)?;
    let (retry, repo) = find(&http, &caller, id).await?;
    Ok(Json(shown(&http, &retry, repo.as_ref()).await?))
}

/// Cancels a retry; its run too, where its runner can. One that is over stays as it is.
#[utoipa::path(
    delete,
    path = "/api/v1/retries/{id}",
    params(("id" = i64, Path, description = "Its id")),
    responses(
        (status = 200, description = "It is over now", body = RetryOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn cancel(
    State(http): State<Http>,
    Path(id): Path<i64>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<RetryOut>), Problem> {
    let caller = Caller::check(&http, &headers, Scope::RetriesCreate)?;
    let (retry, repo) = find(&http, &caller, id).await?;
    http.world.take_back(&retry, &caller.client()).await?;
    let (retry, _) = find(&http, &caller, retry.id.0).await?;
    Ok((StatusCode::OK, Json(shown(&http, &retry, repo.as_ref()).await?)))
}
