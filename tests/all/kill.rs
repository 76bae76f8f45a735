//! The real binary, killed with SIGKILL at each named point and started again: what was answered is carried out, once.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use retest_bot::flow::Point;
use retest_bot::sandbox::github::{self, GitHubSandbox, NewJob, NewPull, NewWorkflow};

const REPO: &str = "acme/board";
const HEAD: &str = "1111111111111111111111111111111111111111";
const SECRET: &str = "kill-test-webhook-secret-of-enough-bytes";
const TOKEN: &str = "kill-test-token";

/// Longest wait for anything; a busy machine is slow, a lost command never comes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Bot {
    child: Child,
    port: u16,
}

impl Bot {
    /// Starts the binary on a free port; `kill_at` makes it kill itself there.
    fn start(folder: &Path, api_url: &str, kill_at: Option<Point>) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\n[store]\npath = \"{}/bot.db\"\n[[forge]]\nname = \"github\"\nkind = \"github\"\n\
             api_url = \"{api_url}\"\nwebhook_secrets = [{{ env = \"SECRET\" }}]\ntoken = {{ env = \"TOKEN\" }}\npause_between_writes = \"0s\"\n\
             [[runner]]\nname = \"actions\"\nkind = \"github_actions\"\n",
            folder.display()
        );
        let path = folder.join("bot.toml");
        std::fs::write(&path, config).expect("a configuration");
        let mut command = Command::new(env!("CARGO_BIN_EXE_retest-bot"));
        command.arg("serve").arg("--config").arg(&path).env("SECRET", SECRET).env("TOKEN", TOKEN);
        if let Some(point) = kill_at {
            command.env("RETEST_KILL_AT", point.as_str());
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
        Self { child, port }
    }

    async fn ready(&self) {
        let url = format!("http://127.0.0.1:{}/readyz", self.port);
        eventually("the bot is ready", || async { reqwest::get(&url).await.is_ok_and(|r| r.status() == 200) }).await;
    }
}

impl Drop for Bot {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < PATIENCE, "not in {} s: {what}", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_the_binary_carries_out_what_it_answered_and_dispatches_once() {
    for point in Point::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let start_ms =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
        let options = github::Options {
            token: Some(TOKEN.into()),
            start_ms: i64::try_from(start_ms).expect("in range"),
            ..Default::default()
        };
        let forge = GitHubSandbox::start(options).await.expect("a sandbox");
        forge.add_repo(REPO);
        forge.set_role(REPO, "tom", "write");
        let number = forge.open_pull(REPO, "ann", HEAD, NewPull::default());
        let job = NewJob { name: "unit".into(), needs: vec![] };
        let run = forge.start_workflow(
            REPO,
            HEAD,
            NewWorkflow {
                name: "CI".into(),
                path: ".github/workflows/ci.yml".into(),
                jobs: vec![job],
                ..Default::default()
            },
        );
        forge.finish_job(run, "unit", "failure");
        let mut doomed = Bot::start(folder.path(), &forge.base_url(), Some(point));
        doomed.ready().await;
        forge.hook(&format!("http://127.0.0.1:{}/webhooks/github", doomed.port), SECRET);
        forge.comment(REPO, number, "tom", "/retest unit");
        let sent = forge.deliver().await;
        assert!(sent.iter().all(|d| d.status == Some(202)), "{point:?}: {sent:?}");
        eventually("the bot killed itself", || {
            let gone = doomed.child.try_wait().expect("the child").is_some();
            async move { gone }
        })
        .await;
        drop(doomed);
        let bot = Bot::start(folder.path(), &forge.base_url(), None);
        bot.ready().await;
        forge.move_hooks(&format!("http://127.0.0.1:{}/webhooks/github", bot.port));
        eventually("the job runs again", || {
            let again = forge.jobs(REPO, HEAD).iter().any(|j| j.attempt == 2);
            async move { again }
        })
        .await;
        forge.finish_job(run, "unit", "success");
        forge.deliver().await;
        eventually("the aggregate is green", || {
            let green = forge.statuses(REPO, HEAD).iter().any(|s| s.context == "retest" && s.state == "success");
            async move { green }
        })
        .await;
        let posts = forge.wire().count(&Method::POST, "/rerun");
        assert_eq!(posts, 1, "{point:?}: dispatched once");
        let reports = || {
            forge.comments(REPO, number).into_iter().filter(|c| c.body.contains("<!-- retest-bot:")).collect::<Vec<_>>()
        };
        eventually("the report tells the end", || {
            let told = reports().iter().any(|c| c.body.contains("passed on run 2"));
            async move { told }
        })
        .await;
        assert_eq!(reports().len(), 1, "{point:?}: one report");
    }
}

/// Opens a connection and sends a request whose body is still to come.
fn half_a_request(port: u16) -> std::net::TcpStream {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let head = "POST /webhooks/github HTTP/1.1\r\nHost: bot\r\nX-GitHub-Event: ping\r\n\
                X-Hub-Signature-256: sha256=00\r\nContent-Length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

fn terminate(bot: &Bot) {
    let pid = rustix::process::Pid::from_child(&bot.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
}

/// Waits until no new connection is taken: the first thing a stop does.
async fn closed(port: u16) {
    eventually("the listener is closed", || async move {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_signal_lets_a_running_request_end_and_the_second_does_not_wait() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().expect("a folder");
    for patient in [true, false] {
        let mut bot = Bot::start(folder.path(), "http://127.0.0.1:9", None);
        bot.ready().await;
        let mut stream = half_a_request(bot.port);
        // The request is under way once another one, sent after it, was answered.
        bot.ready().await;
        terminate(&bot);
        closed(bot.port).await;
        if patient {
            stream.write_all(b"{}").expect("the rest is taken");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
        } else {
            terminate(&bot);
        }
        let code = tokio::task::block_in_place(|| bot.child.wait()).expect("an end").code();
        assert_eq!(code, Some(if patient { 0 } else { 130 }));
    }
}

#[test]
fn the_demo_plays_its_stories_with_real_processes() {
    let played =
        Command::new(env!("CARGO_BIN_EXE_retest-bot")).args(["demo", "--script"]).output().expect("the binary");
    let text = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success() && text.contains("0 failed"), "{text}");
}
