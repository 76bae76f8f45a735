//! `…/flakes`: how often jobs fail for no reason of the change, and what that costs.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query as Params, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::{Caller, Scope};
use super::problem::Problem;
use super::wire::rfc3339;
use crate::decide::{FlakeCount, Rate};
use crate::domain::{LabelOrigin, Repo};
use crate::http::Http;

/// Days that are looked at, unless told otherwise.
const DAYS: u64 = 30;

/// Days at most: what is older than the retention is forgotten anyway.
const DAYS_MAX: u64 = 366;

/// Which flakes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    /// Only those of this repository, by its full name.
    repository: Option<String>,
    /// How many days back; 30 unless given.
    days: Option<u64>,
}

/// The flakes of the repositories that a token reaches.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FlakesOut {
    /// Since when it was counted.
    since: String,
    /// The most failures first, repository by repository.
    flakes: Vec<FlakeOut>,
}

/// One job and label on one runner.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FlakeOut {
    forge: String,
    repository: String,
    job: String,
    runner: Option<String>,
    /// The label; null for failures that no label covers and after which the job passed on the same head.
    label: Option<String>,
    /// `operator`, `repository`, `issue` or `change`.
    origin: Option<&'static str>,
    /// Failures.
    seen: u64,
    /// Those after which the job passed on the same head.
    passed_later: u64,
    rate: RateOut,
    /// Retries that nobody asked for.
    retries: u64,
    /// Those of them that passed.
    retries_passed: u64,
    /// The time that these retries ran, in seconds.
    cost_s: u64,
    last_seen: String,
    /// Failures by day, in UTC.
    days: BTreeMap<String, u64>,
}

/// A share of the job's runs, with Wilson's 95 % interval.
#[derive(Debug, Serialize, ToSchema)]
struct RateOut {
    hits: u64,
    of: u64,
    share: f64,
    low: f64,
    high: f64,
}

impl RateOut {
    const fn new(rate: Rate) -> Self {
        Self { hits: rate.hits, of: rate.of, share: rate.share, low: rate.low, high: rate.high }
    }
}

impl FlakeOut {
    fn new(repo: &Repo, count: FlakeCount) -> Self {
        let origin = count.label.as_ref().map(|(origin, _)| match origin {
            LabelOrigin::Operator => "operator",
            LabelOrigin::Repository => "repository",
            LabelOrigin::Issue(_) => "issue",
            LabelOrigin::Change => "change",
        });
        Self {
            forge: repo.key.forge.to_string(),
            repository: repo.full_name.clone(),
            job: count.job.to_string(),
            runner: count.runner.map(|runner| runner.to_string()),
            label: count.label.map(|(_, label)| label),
            origin,
            seen: count.rate.hits,
            passed_later: count.passed_later,
            rate: RateOut::new(count.rate),
            retries: count.retries,
            retries_passed: count.retries_passed,
            cost_s: count.cost_ms / 1_000,
            last_seen: rfc3339(count.last_seen),
            days: count.days,
        }
    }
}

/// How often jobs failed for no reason of the change, by job, label and runner.
#[utoipa::path(
    get,
    path = "/api/v1/flakes",
    params(
        ("repository" = Option<String>, Query, description = "Only those of this repository, by its full name"),
        ("days" = Option<u64>, Query, description = "How many days back; 30 unless given"),
    ),
    responses(
        (status = 200, body = FlakesOut),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn list(
    State(http): State<Http>,
    Params(query): Params<Query>,
    headers: HeaderMap,
) -> Result<Json<FlakesOut>, Problem> {
    let caller = Caller::check(&http, &headers, Scope::RetriesRead)?;
    let days = query.days.unwrap_or(DAYS).clamp(1, DAYS_MAX);
    let since = http.world.now().minus(Duration::from_secs(days * 86_400));
    let mut flakes = Vec::new();
    for repo in http.world.store.repos().await? {
        let named = query.repository.as_ref().is_none_or(|name| repo.full_name.eq_ignore_ascii_case(name));
        if named && caller.reaches(&repo) {
            let counted = http.world.flakes_since(&repo.key, since).await?;
            flakes.extend(counted.into_iter().map(|count| FlakeOut::new(&repo, count)));
        }
    }
    Ok(Json(FlakesOut { since: rfc3339(since), flakes }))
}
