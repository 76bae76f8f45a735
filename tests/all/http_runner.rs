//! The HTTP runner against a small system that starts jobs, over a wire that breaks on command.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use retest_bot::domain::{
    ChangeKey, CommitSha, DispatchKey, JobName, JobState, Repo, RepoKey, RunHandle, RunObservation, RunOrder, RunRef,
    Timestamp,
};
use retest_bot::ports::{CallError, DispatchError, DispatchOrder, Found, JobOrder, ManualClock, Runner, Told};
use retest_bot::runner::http::{
    Callback, CancelRequest, FindRequest, HttpBody, HttpConfig, HttpJob, HttpRunner, HttpToken, PollRequest,
    StartRequest, callback_token,
};
use retest_bot::sandbox::wire::{Fault, Reply, Wire};
use serde_json::{Value, json};

const SHA: &str = "3f2c9a1d5b6e7f8091a2b3c4d5e6f70812345678";
const TOKEN: &str = "bearer-token-of-the-lab";
const SECRET: &str = "callback-secret-of-enough-length";
const NOW_MS: i64 = 1_700_000_000_000;

/// The runs of the system: key, and state word; the id of a run is its place counted from 1.
#[derive(Clone, Default)]
struct Lab(Arc<Mutex<Vec<(String, String)>>>);

impl Lab {
    fn runs(&self) -> std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, id: usize, word: &str) {
        self.runs()[id - 1].1 = word.to_owned();
    }

    fn router(&self) -> axum::Router {
        axum::Router::new()
            .route("/api/jobs/{job}/runs", post(start))
            .route("/api/runs", get(find))
            .route("/api/runs/{id}", get(show).delete(cancel))
            .route("/api/runs/{id}/log", get(log))
            .with_state(self.clone())
    }
}

fn key_of(headers: &HeaderMap) -> String {
    headers.get("idempotency-key").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
}

async fn start(State(lab): State<Lab>, headers: HeaderMap) -> impl IntoResponse {
    let mut runs = lab.runs();
    runs.push((key_of(&headers), "queued".into()));
    let id = runs.len();
    (StatusCode::CREATED, Json(json!({"run": {"id": id, "page": format!("https://lab.example/runs/{id}")}})))
}

async fn find(State(lab): State<Lab>, Query(query): Query<BTreeMap<String, String>>) -> Json<Value> {
    let at = lab.runs().iter().position(|(key, _)| Some(key) == query.get("key"));
    Json(json!({"run": {"id": at.map(|at| at + 1)}}))
}

async fn show(State(lab): State<Lab>, Path(id): Path<usize>) -> Response {
    match lab.runs().get(id.wrapping_sub(1)) {
        Some((_, word)) => Json(json!({"state": word, "reason": "no board answered\n(3 tries)"})).into_response(),
        None => (StatusCode::NOT_FOUND, Json(json!({"message": "no such run"}))).into_response(),
    }
}

async fn cancel(State(lab): State<Lab>, Path(id): Path<usize>) -> StatusCode {
    match lab.runs().get_mut(id.wrapping_sub(1)) {
        Some((_, word)) if word == "aborted" => StatusCode::CONFLICT,
        Some((_, word)) => {
            *word = "aborted".into();
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

async fn log() -> String {
    (0..1_000).map(|n| format!("\u{1b}[32mline {n}\u{1b}[0m\n")).collect()
}

fn config(base: &str) -> HttpConfig {
    HttpConfig {
        name: "lab".into(),
        jobs: vec![
            HttpJob { pattern: "lava-*".into(), overrides: vec!["kernel".into()] },
            HttpJob { pattern: "build / test (ubuntu, 3.12)".into(), overrides: Vec::new() },
        ],
        start: StartRequest {
            method: "POST".into(),
            url: format!("{base}/api/jobs/{{{{ job }}}}/runs"),
            headers: vec![("x-api".into(), "2".into()), ("x-source".into(), "{{ source_run }}".into())],
            body: Some(HttpBody::Json(
                r#"{"repo": "{{ repository }}", "change": {{ change }}, "sha": "{{ sha }}",
                    "fields": {{ overrides | tojson }}, "tell": "{{ callback_url }}", "token": "{{ callback_token }}"}"#
                    .into(),
            )),
            id_pointer: Some("/run/id".into()),
            url_pointer: Some("/run/page".into()),
            success: vec![201],
            timeout: Duration::from_secs(10),
        },
        poll: Some(PollRequest {
            url: format!("{base}/api/runs/{{{{ id }}}}"),
            state_pointer: "/state".into(),
            url_pointer: None,
            cause_pointer: Some("/reason".into()),
            log_url: Some(format!("{base}/api/runs/{{{{ id }}}}/log")),
        }),
        states: BTreeMap::from([
            ("queued".into(), JobState::Pending),
            ("ok".into(), JobState::Passed),
            ("bad".into(), JobState::Failed),
            ("aborted".into(), JobState::Cancelled),
        ]),
        find: Some(FindRequest { url: format!("{base}/api/runs?key={{{{ key }}}}"), id_pointer: "/run/id".into() }),
        cancel: Some(CancelRequest { method: "DELETE".into(), url: format!("{base}/api/runs/{{{{ id }}}}") }),
        callback: Some(Callback { url: "https://bot.example/callbacks/lab/".into(), secret: SECRET.into() }),
        token: Some(HttpToken { header: "Authorization".into(), scheme: "Bearer".into(), secret: TOKEN.into() }),
        allowed_hosts: Vec::new(),
    }
}

fn open(config: HttpConfig) -> HttpRunner {
    let clock = ManualClock::at(Timestamp::from_ms(NOW_MS));
    HttpRunner::new(config, Arc::new(clock)).expect("a good configuration")
}

async fn bench() -> (Lab, Wire, HttpRunner) {
    let lab = Lab::default();
    let wire = Wire::serve(lab.router()).await.expect("a port");
    let runner = open(config(&wire.base_url()));
    (lab, wire, runner)
}

fn repo() -> Repo {
    Repo {
        key: RepoKey { forge: "hub".into(), id: 7 },
        full_name: "kernel/lab".into(),
        installation: None,
        default_branch: None,
    }
}

fn order(job: &str, key: &str, overrides: &[(&str, &str)]) -> DispatchOrder {
    DispatchOrder {
        repo: repo(),
        change: ChangeKey { repo: repo().key, number: 12 },
        sha: CommitSha::parse(SHA).expect("full"),
        group: None,
        jobs: vec![JobOrder {
            key: key.into(),
            job: job.into(),
            scope: String::new(),
            source_run: Some(RunRef::new("run-41")),
            source_order: RunOrder(1, 0),
            overrides: overrides.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        }],
        whole_group: false,
    }
}

async fn start_one(runner: &HttpRunner, key: &str) -> RunHandle {
    let started = runner.dispatch(&order("lava-x86", key, &[])).await.expect("started");
    started.runs.into_iter().next().expect("one run").1
}

fn call_error(result: Result<retest_bot::ports::Started, DispatchError>) -> CallError {
    match result {
        Err(DispatchError::Call(error)) => error,
        other => panic!("expected a failed call, got {other:?}"),
    }
}

#[tokio::test]
async fn a_run_is_started_once_as_configured_and_followed_to_its_end() {
    let (lab, wire, runner) = bench().await;
    let tricky = "6.1\", \"admin\": true, \"x\": \"";
    let started = runner.dispatch(&order("lava-x86", "k-1", &[("kernel", tricky)])).await.expect("started");
    let (key, handle) = started.runs.into_iter().next().expect("one run");
    assert_eq!(key.as_str(), "k-1");
    assert_eq!((handle.order, handle.url.as_deref()), (RunOrder(NOW_MS, 0), Some("https://lab.example/runs/1")));

    let [request] = <[_; 1]>::try_from(wire.requests()).expect("one request");
    assert_eq!((request.method, request.path.as_str()), (Method::POST, "/api/jobs/lava-x86/runs"));
    let header = |name: &str| request.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    assert_eq!(header("idempotency-key").as_deref(), Some("k-1"));
    assert_eq!(header("authorization"), Some(format!("Bearer {TOKEN}")));
    assert_eq!((header("x-api").as_deref(), header("x-source").as_deref()), (Some("2"), Some("run-41")));
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let expected = json!({
        "repo": "kernel/lab", "change": 12, "sha": SHA, "fields": {"kernel": tricky},
        "tell": "https://bot.example/callbacks/lab/k-1", "token": callback_token(&SECRET.into(), &"k-1".into()),
    });
    assert_eq!(body, expected);

    let job = JobName::new("lava-x86");
    let table = [
        ("queued", JobState::Pending, None, "the configured word"),
        ("running", JobState::Running, None, "our own word"),
        ("warming up", JobState::Running, Some("warming up"), "an unknown word"),
        ("bad", JobState::Failed, Some("no board answered (3 tries)"), "a bad end, and why"),
        ("ok", JobState::Passed, None, "a good end"),
    ];
    for (word, state, cause, why) in table {
        lab.set(1, word);
        let seen = runner.observe(&repo(), &job, &handle).await.expect("known");
        assert_eq!((seen.state, seen.order, seen.run), (state, handle.order, Some(RunRef::new("1"))), "{why}");
        assert_eq!(seen.cause.as_deref(), cause, "{why}");
        assert_eq!(seen.url, handle.url);
    }
    let polled = wire.requests().into_iter().next_back().expect("polled");
    assert_eq!(polled.headers.get("x-api").expect("sent with every request"), "2");
    assert!(polled.headers.get("x-source").is_none(), "a header with values belongs to the start");
}

#[tokio::test]
async fn requests_about_a_run_may_read_its_order_and_nothing_of_it_is_lost_in_a_restart() {
    let (lab, wire, _) = bench().await;
    let mut config = config(&wire.base_url());
    let base = wire.base_url();
    let query =
        "sha={{ sha }}&n={{ change }}&job={{ job }}&k={{ overrides.kernel | default('') }}&t={{ callback_token }}";
    config.poll.as_mut().expect("polls").url = format!("{base}/api/runs/{{{{ id }}}}?{query}");
    let order = order("lava-x86", "k-1", &[("kernel", "a&b")]);
    let started = open(config.clone()).dispatch(&order).await.expect("started");
    let (_, handle) = started.runs.into_iter().next().expect("one run");
    let seen = open(config.clone()).observe(&repo(), &"lava-x86".into(), &handle).await.expect("known");
    assert_eq!(seen.state, JobState::Pending);
    let token = callback_token(&SECRET.into(), &"k-1".into());
    let polled = wire.requests().into_iter().next_back().expect("polled");
    assert_eq!(polled.query, format!("sha={SHA}&n=12&job=lava-x86&k=a%26b&t={token}"));
    assert!(!handle.id.contains(&token), "a secret is not stored with the run");
    assert_eq!(lab.runs().len(), 1);
}

#[tokio::test]
async fn a_run_known_by_a_callback_alone_is_not_asked_for_by_a_name_it_does_not_have() {
    let (_, wire, runner) = bench().await;
    let job = JobName::new("lava-x86");
    let handle = RunHandle { id: "k-1".into(), order: RunOrder(1, 0), url: None };
    assert_eq!(runner.observe(&repo(), &job, &handle).await.map(|seen| seen.state), Ok(JobState::Running));
    assert!(runner.cancel(&repo(), &job, &handle).await.is_err());
    assert!(wire.requests().is_empty());
}

#[tokio::test]
async fn a_name_full_of_syntax_stays_one_part_of_the_address() {
    let (lab, wire, runner) = bench().await;
    runner.dispatch(&order("build / test (ubuntu, 3.12)", "k-1", &[])).await.expect("started");
    assert_eq!(wire.requests()[0].path, "/api/jobs/build%20%2F%20test%20%28ubuntu%2C%203.12%29/runs");
    assert_eq!(lab.runs().len(), 1);
}

#[tokio::test]
async fn an_answer_that_got_lost_is_in_doubt_until_the_system_is_asked() {
    let message = || Reply::message(502, "bad gateway");
    let table = [
        (Fault::ResetAfterEffect, true, "reset after the run was started"),
        (Fault::ResetBefore, false, "reset before"),
        (Fault::Truncate, true, "half an answer"),
        (Fault::AnswerAfterEffect(message()), true, "502 although it worked"),
        (Fault::Answer(message()), false, "502"),
        (Fault::Hang, false, "no answer in time"),
        (Fault::AnswerAfterEffect(Reply { status: 201, headers: vec![], body: "done".into() }), true, "no JSON"),
        (Fault::AnswerAfterEffect(Reply { status: 201, headers: vec![], body: "{}".into() }), true, "no name"),
        (
            Fault::AnswerAfterEffect(Reply { status: 201, headers: vec![], body: "x".repeat(2 << 20) }),
            true,
            "an endless answer",
        ),
    ];
    for (fault, sent, why) in table {
        let lab = Lab::default();
        let wire = Wire::serve(lab.router()).await.expect("a port");
        let mut config = config(&wire.base_url());
        config.start.timeout = Duration::from_millis(if matches!(fault, Fault::Hang) { 1_000 } else { 10_000 });
        let runner = open(config);
        wire.break_next(Some(Method::POST), "/runs", 1, fault);
        let order = order("lava-x86", "k-1", &[]);
        let error = call_error(runner.dispatch(&order).await);
        assert!(matches!(error, CallError::Unknown { .. }), "{why}: {error:?}");
        assert_eq!(wire.count(&Method::POST, "/runs"), 1, "{why}: nothing is repeated");
        match runner.find(&order).await.expect("asked") {
            Found::Sent(found) => {
                assert!(sent, "{why}");
                let handle = &found.runs[0].1;
                let seen = runner.observe(&repo(), &"lava-x86".into(), handle).await.expect("known");
                assert_eq!((seen.state, seen.run), (JobState::Pending, Some(RunRef::new("1"))), "{why}");
            }
            Found::NotSent => assert!(!sent, "{why}"),
            Found::CannotTell => panic!("{why}: find is configured"),
        }
    }
}

#[tokio::test]
async fn a_system_that_is_not_there_was_not_asked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let error = call_error(open(config(&base)).dispatch(&order("lava-x86", "k-1", &[])).await);
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn refusals_and_rate_limits_are_told_in_the_systems_words_without_secrets() {
    let (lab, wire, runner) = bench().await;
    let token = callback_token(&SECRET.into(), &"k-1".into());
    let says = |status, text: &str| Fault::Answer(Reply::message(status, text));
    wire.break_next(None, "/runs", 1, says(422, &format!("no board\nfree for {TOKEN} {token}")));
    let CallError::Refused { user, .. } = call_error(runner.dispatch(&order("lava-x86", "k-1", &[])).await) else {
        panic!("422 is final")
    };
    assert_eq!(user, "runner `lab` answered 422 Unprocessable Entity: no board free for *** ***");
    let slow_down = Reply::message(429, "slow down").with("retry-after", "17");
    wire.break_next(None, "/runs", 1, Fault::Answer(slow_down));
    let error = call_error(runner.dispatch(&order("lava-x86", "k-1", &[])).await);
    assert!(matches!(error, CallError::Throttled { retry_after, .. } if retry_after.as_secs() == 17), "{error:?}");
    assert!(lab.runs().is_empty());
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (_, wire, runner) = bench().await;
    let elsewhere = Wire::serve(Lab::default().router()).await.expect("a port");
    for status in [301, 302, 303, 307, 308] {
        let away = Reply { status, headers: vec![("location", elsewhere.base_url())], body: String::new() };
        wire.break_next(None, "/runs", 1, Fault::Answer(away));
        let error = call_error(runner.dispatch(&order("lava-x86", "k-1", &[])).await);
        assert!(matches!(error, CallError::Refused { .. }), "{status}: {error:?}");
    }
    assert!(elsewhere.requests().is_empty(), "the token stays at home");
}

#[tokio::test]
async fn a_run_that_the_system_forgot_is_refused_and_cancelling_twice_is_fine() {
    let (lab, _, runner) = bench().await;
    let handle = start_one(&runner, "k-1").await;
    let job = JobName::new("lava-x86");
    runner.cancel(&repo(), &job, &handle).await.expect("cancelled");
    runner.cancel(&repo(), &job, &handle).await.expect("over already");
    assert_eq!(runner.observe(&repo(), &job, &handle).await.map(|seen| seen.state), Ok(JobState::Cancelled));
    lab.runs().clear();
    runner.cancel(&repo(), &job, &handle).await.expect("gone already");
    let gone = runner.observe(&repo(), &job, &handle).await;
    assert!(matches!(&gone, Err(CallError::Refused { user, .. }) if user.ends_with("no such run")), "{gone:?}");
}

#[tokio::test]
async fn the_end_of_a_log_is_read_whether_or_not_the_system_knows_ranges() {
    let (_, wire, runner) = bench().await;
    let handle = start_one(&runner, "k-1").await;
    let tail = runner.log_tail(&repo(), &handle, 40).await.expect("a log");
    assert!(tail.cut && tail.text.ends_with("line 998\nline 999\n"), "{tail:?}");
    let whole = runner.log_tail(&repo(), &handle, 1 << 20).await.expect("a log");
    assert!(!whole.cut && whole.text.starts_with("line 0\nline 1\n"));

    let part =
        Reply { status: 206, headers: vec![("content-range", "bytes 90-99/100".into())], body: "the end\n".into() };
    wire.break_next(None, "/log", 1, Fault::Answer(part));
    let tail = runner.log_tail(&repo(), &handle, 10).await.expect("a log");
    assert_eq!((tail.text.as_str(), tail.cut), ("the end\n", true));
    let asked = wire.requests().into_iter().next_back().expect("asked");
    assert_eq!(asked.headers.get(header::RANGE).expect("a range"), "bytes=-10");

    wire.break_next(None, "/log", 1, Fault::Answer(Reply::message(403, "logs are private")));
    let refused = runner.log_tail(&repo(), &handle, 10).await;
    assert!(
        matches!(&refused, Err(CallError::Refused { user, .. }) if user.ends_with("logs are private")),
        "{refused:?}"
    );
    let leak = Reply { status: 200, headers: vec![], body: format!("token {TOKEN}\n") };
    wire.break_next(None, "/log", 1, Fault::Answer(leak));
    assert_eq!(runner.log_tail(&repo(), &handle, 100).await.expect("a log").text, "token ***\n");
}

/// What a callback says of its run.
fn state(told: Result<Told, CallError>) -> RunObservation {
    match told {
        Ok(Told::State(seen)) => seen,
        other => panic!("no state: {other:?}"),
    }
}

#[tokio::test]
async fn a_callback_needs_the_token_of_its_own_run() {
    let (_, _, runner) = bench().await;
    let secret = SECRET.into();
    let (key, other) = (DispatchKey::new("k-1"), DispatchKey::new("k-2"));
    let token = callback_token(&secret, &key);
    let body = br#"{"state": "bad", "url": "https://lab.example/1", "cause": "no\nboard"}"#;
    let told = state(runner.callback(&key, &token, body));
    assert_eq!((told.state, told.cause.as_deref()), (JobState::Failed, Some("no board")));
    assert_eq!((told.url.as_deref(), told.order), (Some("https://lab.example/1"), RunOrder(NOW_MS, 0)));
    assert_eq!(state(runner.callback(&key, &token, body)), told, "told twice is told once");

    let shorter = &token[..62];
    let of_other = callback_token(&secret, &other);
    let wrong =
        [("", "none"), (shorter, "cut"), (&of_other, "of another run"), (SECRET, "the secret"), ("zz", "no hex")];
    for (token, why) in wrong {
        assert!(matches!(runner.callback(&key, token, body), Err(CallError::Refused { .. })), "{why}");
    }
    for (body, why) in [("", "nothing"), ("{}", "no state"), ("[1]", "no table"), (r#"{"state": 1}"#, "no word")] {
        assert!(runner.callback(&key, &token, body.as_bytes()).is_err(), "{why}");
    }
    let evil = br#"{"state": "timed_out", "url": "javascript:alert(1)"}"#;
    let told = state(runner.callback(&key, &token, evil));
    assert_eq!((told.state, told.url), (JobState::TimedOut, None), "no page that a browser would execute");
}

#[tokio::test]
async fn abilities_are_those_that_are_configured() {
    let wire = Wire::serve(Lab::default().router()).await.expect("a port");
    let full = open(config(&wire.base_url()));
    let mut bare = config(&wire.base_url());
    (bare.find, bare.cancel, bare.start.id_pointer) = (None, None, None);
    bare.poll.as_mut().expect("polls").log_url = None;
    bare.jobs[0].overrides.clear();
    let bare = open(bare);
    let of = |runner: &HttpRunner| {
        let a = runner.abilities().clone();
        (a.finds_by_key, a.cancels, a.tails_log, a.takes_overrides)
    };
    assert_eq!((of(&full), of(&bare)), ((true, true, true, true), (false, false, false, false)));
    let handle = start_one(&bare, "k-1").await;
    assert_eq!(handle.id, "k-1", "without a name of its own, the run is named by our key");
    assert_eq!(bare.find(&order("lava-x86", "k-1", &[])).await, Ok(Found::CannotTell));
    assert!(bare.cancel(&repo(), &"lava-x86".into(), &handle).await.is_err());
    assert!(bare.log_tail(&repo(), &handle, 10).await.is_err());
    assert_eq!(full.allowed_overrides(&"lava-arm".into()), ["kernel"]);
}

#[tokio::test]
async fn what_is_not_declared_is_refused_before_anything_is_sent() {
    let (_, wire, runner) = bench().await;
    let mut two = order("lava-x86", "k-1", &[]);
    two.jobs.extend(order("lava-arm", "k-2", &[]).jobs);
    let table = [
        (order("lint", "k-1", &[]), "a job that no pattern matches"),
        (order("lava-x86", "k-1", &[("platform", "x86")]), "a field that is not allowed"),
        (order("lava-x86", "k\n1", &[]), "a key that cannot stand in a header"),
        (two, "two jobs at once"),
    ];
    for (order, why) in table {
        let error = call_error(runner.dispatch(&order).await);
        assert!(matches!(error, CallError::Refused { .. }), "{why}: {error:?}");
    }
    assert!(wire.requests().is_empty());
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_the_key() {
    type Change = fn(&mut HttpConfig);
    let table: [(&str, Change); 13] = [
        ("start.url", |c| c.start.url = "https://{{ job }}/x".into()),
        ("start.url", |c| c.start.url = "https://ci.example/{{ secret }}".into()),
        ("start.method", |c| c.start.method = "BREW".into()),
        ("start.body", |c| c.start.body = Some(HttpBody::Json(r#"{"job": {{ job }}}"#.into()))),
        ("start.headers", |c| c.start.headers.push(("Idempotency-Key".into(), "1".into()))),
        ("start.id_pointer", |c| c.start.id_pointer = Some("run.id".into())),
        ("start.success", |c| c.start.success = vec![2_000]),
        ("start.timeout", |c| c.start.timeout = Duration::ZERO),
        ("poll.url", |c| c.poll.as_mut().expect("polls").url = "https://ci.example/{{ commit }}".into()),
        ("find.url", |c| c.find.as_mut().expect("finds").url = "https://ci.example/{{ id }}".into()),
        ("callback", |c| (c.poll, c.callback) = (None, None)),
        ("callback", |c| c.callback.as_mut().expect("taken").secret = "short".into()),
        ("allowed_hosts", |c| c.allowed_hosts = vec!["other.example".into()]),
    ];
    for (key, change) in table {
        let mut config = config("https://ci.example:8443");
        change(&mut config);
        let error = HttpRunner::new(config, Arc::new(ManualClock::default())).expect_err(key);
        assert_eq!(error.key, key, "{error}");
    }
    let mut good = config("https://ci.example:8443");
    good.allowed_hosts = vec!["ci.example:8443".into()];
    assert!(HttpRunner::new(good.clone(), Arc::new(ManualClock::default())).is_ok());
    for (base, host) in [("https://ci.example", "ci.example"), ("http://ci.example", "ci.example:80")] {
        let config = HttpConfig { allowed_hosts: vec![host.into()], ..config(base) };
        assert!(HttpRunner::new(config, Arc::new(ManualClock::default())).is_ok(), "{host} is the host of {base}");
    }
    let shown = format!("{good:?}");
    assert!(!shown.contains(TOKEN) && !shown.contains(SECRET), "no secret is ever shown");
}
