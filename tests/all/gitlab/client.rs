//! Claims about the GitLab client on a wire that misbehaves: what is sent, what is never repeated, what an answer means.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::{Method, StatusCode, header};
use axum::routing::{get, post};
use retest_bot::api::gitlab::{GitLabAccess, GitLabClient, JobAddress, PipelineAddress};
use retest_bot::domain::Timestamp;
use retest_bot::ports::{CallError, ManualClock};
use retest_bot::sandbox::wire::{Fault, Reply, Wire};
use serde_json::{Value, json};

const JOB: JobAddress = JobAddress { project: 5, job: 9 };

#[derive(serde::Deserialize)]
struct Page {
    page: usize,
    per_page: usize,
}

/// 250 jobs, in pages of what is asked for.
async fn many_jobs(Query(page): Query<Page>) -> axum::Json<Vec<Value>> {
    let from = (page.page - 1) * page.per_page;
    let rows = (from..250).take(page.per_page);
    axum::Json(rows.map(|n| json!({"id": 1_000 - n, "name": format!("job-{n}"), "status": "success"})).collect())
}

fn router() -> Router {
    let moved = |to: &'static str| move || async move { (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, to)], "") };
    let api = Router::new()
        .route(
            "/projects/5/jobs/9",
            get(|| async { axum::Json(json!({"id": 9, "name": "lava-x86", "status": "failed"})) }),
        )
        .route("/projects/5/jobs/9/retry", post(|| async { (StatusCode::CREATED, axum::Json(json!({"id": 10}))) }))
        .route("/projects/5/pipelines/31/jobs", get(many_jobs))
        .route("/projects/6/jobs/9", get(moved("/gitlab/api/v4/projects/5/jobs/9")))
        .route("/projects/6/jobs/9/retry", post(moved("/gitlab/api/v4/projects/5/jobs/9/retry")))
        .route("/projects/7/jobs/9", get(moved("http://elsewhere.invalid/api/v4/projects/5/jobs/9")))
        .route("/projects/5/jobs/9/trace", get(|| async { format!("{}the end", "0123456789".repeat(20_000)) }));
    Router::new().nest("/gitlab/api/v4", api)
}

struct Bench {
    wire: Wire,
    clock: ManualClock,
    client: GitLabClient,
}

async fn bench() -> Bench {
    let wire = Wire::serve(router()).await.expect("a loopback port");
    let clock = ManualClock::at(Timestamp::from_ms(1_000_000));
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build();
    let access = GitLabAccess {
        url: format!("{}/gitlab", wire.base_url()).parse().expect("an address"),
        token: "glpat-secret".into(),
        request_timeout: Duration::from_millis(400),
        pause_between_writes: Duration::ZERO,
    };
    let client = GitLabClient::new(http.expect("a client"), access, Arc::new(clock.clone()));
    Bench { wire, clock, client }
}

fn throttled(result: Result<impl std::fmt::Debug, impl Into<CallError>>) -> Duration {
    match result.map_err(Into::into) {
        Err(CallError::Throttled { retry_after, .. }) => retry_after,
        other => panic!("{other:?}"),
    }
}

fn plain(status: u16, body: &str) -> Reply {
    Reply { status, headers: Vec::new(), body: body.to_owned() }
}

/// Makes a fault anew for each use.
type MakeFault = fn() -> Fault;

#[tokio::test]
async fn requests_go_below_the_path_prefix_with_the_token() {
    let bench = bench().await;
    let job = bench.client.job(JOB).await.expect("a job");
    assert_eq!((job.id, job.name.as_str()), (9, "lava-x86"));
    let seen = bench.wire.requests();
    assert_eq!(seen[0].path, "/gitlab/api/v4/projects/5/jobs/9");
    assert_eq!(seen[0].headers.get("private-token").map(|t| t.as_bytes()), Some(&b"glpat-secret"[..]));
    assert!(!format!("{:?}", bench.client).contains("glpat"), "the token never shows");
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let bench = bench().await;
    let pipeline = PipelineAddress { project: 5, pipeline: 31, in_fork: false };
    let jobs = bench.client.pipeline_jobs(pipeline).await.expect("a list");
    assert_eq!((jobs.len(), jobs.last().map(|job| job.id)), (250, Some(751)));
    assert_eq!(bench.wire.count(&Method::GET, "/pipelines/31/jobs"), 3);
}

#[tokio::test]
async fn a_throttle_in_plain_text_silences_all_calls_until_it_is_over() {
    let bench = bench().await;
    bench.wire.break_next(None, "/jobs/9", 1, Fault::Answer(plain(429, "Retry later\n").with("retry-after", "30")));
    assert_eq!(throttled(bench.client.job(JOB).await), Duration::from_secs(30));
    assert_eq!(bench.client.throttled_until(), Some(Timestamp::from_ms(1_030_000)));
    bench.clock.advance(Duration::from_secs(10));
    assert_eq!(throttled(bench.client.retry_job(JOB).await), Duration::from_secs(20));
    assert_eq!(bench.wire.requests().len(), 1, "nothing was sent meanwhile");
    bench.clock.advance(Duration::from_secs(20));
    assert_eq!(bench.client.throttled_until(), None);
    assert!(bench.client.job(JOB).await.is_ok());
}

#[tokio::test]
async fn a_throttle_without_headers_waits_ten_seconds() {
    let bench = bench().await;
    bench.wire.break_next(None, "/jobs/9", 1, Fault::Answer(plain(429, "Retry later")));
    assert_eq!(throttled(bench.client.job(JOB).await), Duration::from_secs(10));
}

#[tokio::test]
async fn the_last_request_of_a_period_is_taken_as_a_warning() {
    let bench = bench().await;
    let last = plain(200, r#"{"id":9,"name":"x"}"#).with("ratelimit-remaining", "0").with("ratelimit-reset", "1012");
    bench.wire.break_next(None, "/jobs/9", 1, Fault::Answer(last));
    assert!(bench.client.job(JOB).await.is_ok(), "this one was answered");
    assert_eq!(throttled(bench.client.job(JOB).await), Duration::from_secs(12));
}

#[tokio::test]
async fn what_an_earlier_process_was_told_holds() {
    let bench = bench().await;
    bench.client.throttle_until(Timestamp::from_ms(1_005_000));
    bench.client.throttle_until(Timestamp::from_ms(1_002_000));
    assert_eq!(throttled(bench.client.job(JOB).await), Duration::from_secs(5), "the later time wins");
    assert!(bench.wire.requests().is_empty());
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown_and_sent_once_and_a_read_is_unreachable() {
    let server_error = || Fault::AnswerAfterEffect(Reply::message(502, "Bad Gateway"));
    let faults: [(&str, MakeFault); 5] = [
        ("reset after the effect", || Fault::ResetAfterEffect),
        ("reset before", || Fault::ResetBefore),
        ("half an answer", || Fault::Truncate),
        ("no answer in time", || Fault::Hang),
        ("a page instead of JSON", || Fault::AnswerAfterEffect(plain(200, "<html>busy</html>"))),
    ];
    for (why, fault) in faults.into_iter().chain([("502", server_error as MakeFault)]) {
        let bench = bench().await;
        bench.wire.break_next(Some(Method::POST), "/retry", 1, fault());
        let write = bench.client.retry_job(JOB).await.expect_err(why);
        assert!(matches!(write.error, CallError::Unknown { .. }), "POST, {why}: {write:?}");
        assert_eq!(bench.wire.count(&Method::POST, "/retry"), 1, "{why}: never sent again");
        bench.wire.break_next(Some(Method::GET), "/jobs/9", 1, fault());
        let read = bench.client.job(JOB).await.expect_err(why);
        assert!(matches!(read.error, CallError::Unreachable { .. }), "GET, {why}: {read:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_took_nothing() {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let access = GitLabAccess {
        url: format!("http://{gone}").parse().expect("an address"),
        token: "t".into(),
        request_timeout: Duration::from_secs(2),
        pause_between_writes: Duration::ZERO,
    };
    let client = GitLabClient::new(http, access, Arc::new(ManualClock::default()));
    let write = client.retry_job(JOB).await.expect_err("nobody listens");
    assert!(matches!(write.error, CallError::Unreachable { .. }), "not connected is not sent: {write:?}");
}

#[tokio::test]
async fn a_read_follows_one_permanent_move_on_the_same_host_and_a_write_none() {
    let bench = bench().await;
    let moved = JobAddress { project: 6, job: 9 };
    assert_eq!(bench.client.job(moved).await.expect("followed").id, 9);
    let write = bench.client.retry_job(moved).await.expect_err("not followed");
    assert!(matches!(write.error, CallError::Refused { .. }), "{write:?}");
    assert_eq!(bench.wire.count(&Method::POST, "/projects/5/"), 0);
    let elsewhere = bench.client.job(JobAddress { project: 7, job: 9 }).await.expect_err("another host");
    assert_eq!(elsewhere.status, Some(301), "the token never goes to another host");
}

#[tokio::test]
async fn the_end_of_a_long_log_is_kept_and_the_rest_only_passes_by() {
    let bench = bench().await;
    let (tail, cut) = bench.client.trace_tail(JOB, 10).await.expect("a log");
    assert_eq!((String::from_utf8_lossy(&tail).as_ref(), cut), ("789the end", true));
    bench.wire.break_next(None, "/trace", 1, Fault::Answer(plain(200, "short")));
    assert_eq!(bench.client.trace_tail(JOB, 10).await.expect("a log"), (b"short".to_vec(), false));
    bench.wire.break_next(None, "/trace", 1, Fault::Answer(Reply::message(403, "403 Forbidden")));
    let refused = bench.client.trace_tail(JOB, 10).await.expect_err("no right");
    assert_eq!(refused.status, Some(403));
}

#[tokio::test]
async fn writes_keep_their_distance_when_a_pause_is_configured() {
    let wire = Wire::serve(router()).await.expect("a loopback port");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let pause = Duration::from_millis(60);
    let access = GitLabAccess {
        url: format!("{}/gitlab", wire.base_url()).parse().expect("an address"),
        token: "t".into(),
        request_timeout: Duration::from_secs(2),
        pause_between_writes: pause,
    };
    let client = GitLabClient::new(http, access, Arc::new(ManualClock::default()));
    let start = tokio::time::Instant::now();
    let (one, two, three) = tokio::join!(client.retry_job(JOB), client.retry_job(JOB), client.retry_job(JOB));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert!(start.elapsed() >= pause * 2, "three writes, two pauses");
}
