//! GitHub's own API description as a referee: Prism stands between a client and a stand-in GitHub and checks every
//! request and every reply.
//!
//! A story gives [`start`] the URL of its stand-in, talks to [`Prism::url`] instead, and ends with
//! [`Prism::violations`], which must be empty. Redirects are handed on, not followed. Refuses to be skipped: where the
//! tools are missing, the test fails and names the command that fetches them. A start takes three seconds of a processor.
//! Read next: `tests/tools/prepare` (what is fetched) and `tests/tools/prism-proxy` (how Prism is run).

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest wait for Prism to accept connections. It takes 3 s on an idle machine, ten on a busy one.
const READY_WAIT_MAX: Duration = Duration::from_secs(120);

/// A running referee; stopped on drop.
pub struct Prism {
    /// Where clients reach the stand-in through Prism, without a slash at the end.
    pub url: String,
    child: Child,
    reader: Option<JoinHandle<()>>,
    violations: Receiver<String>,
}

impl Prism {
    /// Stops Prism and returns one line per exchange that broke the description: method, path, status and reasons.
    ///
    /// Prism writes the line before it answers, so every exchange whose answer the client has is counted.
    pub fn violations(mut self) -> Vec<String> {
        self.stop();
        self.violations.try_iter().collect()
    }

    fn stop(&mut self) {
        // Both fail only for a process that is gone already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}

impl Drop for Prism {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Folder that `tests/tools/prepare` fills: the one `RETEST_TOOLS` names, else `target/tools` of this work tree.
///
/// # Panics
/// When the folder was not prepared: a check that is silently skipped proves nothing.
pub fn tools() -> PathBuf {
    let folder = std::env::var_os("RETEST_TOOLS").map_or_else(|| root().join("target/tools"), PathBuf::from);
    assert!(
        folder.join("prepared").is_file(),
        "{} holds no test tools: run `tests/tools/prepare` once, or run the tests by `tests/run`, which does it",
        folder.display()
    );
    folder
}

/// Starts Prism in front of the stand-in GitHub at `upstream`, such as `http://127.0.0.1:4100`.
///
/// # Panics
/// When the tools are missing, or Prism ends or stays silent for [`READY_WAIT_MAX`] (its own words are on stderr).
pub async fn start(upstream: &str) -> Prism {
    let upstream = upstream.to_owned();
    tokio::task::spawn_blocking(move || start_blocking(&upstream)).await.expect("Prism starts")
}

fn start_blocking(upstream: &str) -> Prism {
    let mut child = Command::new(root().join("tests/tools/prism-proxy"))
        .args(["0", upstream])
        .env("RETEST_TOOLS", tools())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tests/tools/prism-proxy can be executed");
    let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let (ready, url) = channel();
    let (found, violations) = channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            // A send fails only when nobody listens any more; the pipe is read to its end all the same.
            if let Some(url) = line.strip_prefix("ready ") {
                drop(ready.send(url.to_owned()));
            } else if let Some(violation) = line.strip_prefix("violation ") {
                drop(found.send(violation.to_owned()));
            }
        }
    });
    let mut prism = Prism { url: String::new(), child, reader: Some(reader), violations };
    prism.url = url.recv_timeout(READY_WAIT_MAX).expect("Prism says that it is ready");
    prism
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A stand-in that answers every request with `201` and the body of a commit status as small as it may be.
async fn stand_in(body: &'static str) -> String {
    let app = axum::Router::new().fallback(move || async move {
        let json = [(http::header::CONTENT_TYPE, "application/json")];
        (http::StatusCode::CREATED, json, body)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port on loopback");
    let address = listener.local_addr().expect("a bound address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

const STATUS: &str = r#"{"url":"http://127.0.0.1/","avatar_url":null,"id":1,"node_id":"n","state":"success",
    "description":null,"target_url":null,"context":"retest","created_at":"2026-01-01T00:00:00Z",
    "updated_at":"2026-01-01T00:00:00Z","creator":null}"#;

async fn post(url: &str, body: &'static str) -> http::StatusCode {
    reqwest::Client::new()
        .post(url)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .send()
        .await
        .expect("Prism answers")
        .status()
}

#[tokio::test]
async fn prism_refuses_a_request_that_github_would_not_know() {
    let prism = start(&stand_in(STATUS).await).await;
    let statuses = format!("{}/repos/o/r/statuses/abc", prism.url);
    assert_eq!(post(&statuses, r#"{"state":"success"}"#).await, 201);
    assert_eq!(post(&statuses, r#"{"state":"flaky"}"#).await, 422, "no such state");
    assert_eq!(post(&format!("{statuses}/latest"), "{}").await, 404, "no such path");

    let violations = prism.violations();
    assert_eq!(violations.len(), 2, "{violations:#?}");
    assert!(violations[0].contains("state must be equal to one of"), "{violations:#?}");
    assert!(violations[1].starts_with("POST /repos/o/r/statuses/abc/latest 404"), "{violations:#?}");
}

#[tokio::test]
async fn prism_refuses_a_reply_that_github_would_not_give() {
    let prism = start(&stand_in(r#"{"state":"success"}"#).await).await;
    let statuses = format!("{}/repos/o/r/statuses/abc", prism.url);
    assert_eq!(post(&statuses, r#"{"state":"success"}"#).await, 500);

    let violations = prism.violations();
    assert_eq!(violations.len(), 1, "{violations:#?}");
    assert!(violations[0].contains("must have required property 'context'"), "{violations:#?}");
}

#[test]
fn github_s_example_payloads_cover_58_events() {
    let file = tools().join("webhooks-examples.json");
    let text = std::fs::read_to_string(&file).expect("the file can be read");
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).expect("an array of events");
    assert_eq!(events.len(), 58, "the pinned package has 58 events");
    for event in &events {
        let examples = event["examples"].as_array().map_or(0, Vec::len);
        assert!(examples > 0, "{}: an event without an example proves nothing", event["name"]);
    }
}
