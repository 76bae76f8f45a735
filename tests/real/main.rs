//! The real binary on a real LAVA server, with the sandbox GitLab: from a red status to a new job and back.
//!
//! `tests/run` starts the server (`lava/lab`) and says where it is. Where none can be started the claim is left out, said so
//! by `tests/run`; with `CI=true` that is a failure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use retest_bot::domain::{Repo, RepoKey, RunHandle, RunOrder};
use retest_bot::ports::{Runner, SystemClock};
use retest_bot::runner::lava::{LavaConfig, LavaRunner, Source};
use retest_bot::sandbox::gitlab::{self, GitLabSandbox};
use serde_json::{Value, json};

const REPO: &str = "acme/board";
const HEAD: &str = "1111111111111111111111111111111111111111";
const SECRET: &str = "real-lava-webhook-secret-of-enough-bytes";

/// Longest wait for anything; a busy machine is slow, a lost job never ends.
const PATIENCE: Duration = Duration::from_secs(180);

/// The server that `tests/run` has started.
struct Server {
    url: String,
    token: String,
    folder: PathBuf,
    http: reqwest::Client,
}

impl Server {
    fn given() -> Option<Self> {
        let of = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let found = of("REAL_LAVA_URL").zip(of("REAL_LAVA_TOKEN")).zip(of("REAL_LAVA_FOLDER"));
        let Some(((url, token), folder)) = found else {
            assert!(of("CI").as_deref() != Some("true"), "no real LAVA was started: see what tests/run said");
            eprintln!("left out: no real LAVA; `tests/run` starts one on Debian as root");
            return None;
        };
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Some(Self { url, token, folder: folder.into(), http })
    }

    async fn get(&self, path: &str) -> Value {
        let request = self.http.get(format!("{}/api/v0.2/{path}", self.url));
        let answer = request.header("authorization", format!("Token {}", self.token)).send().await;
        answer.expect("LAVA answers").json().await.expect("JSON")
    }

    /// The project's own CI submits a job and waits for its end.
    async fn run(&self, name: &str, runs: &str, message: &str) -> u64 {
        let definition = format!(
            "# {name}, as the CI has it\njob_name: {name}\ndevice_type: lava-x86\nvisibility: public\npriority: medium\n\
             timeouts:\n  job: {{minutes: 5}}\n  action: {{minutes: 2}}\n  connection: {{minutes: 2}}\ncontext: {{arch: amd64}}\n\
             metadata:\n  runs: '{runs}'\n  message: '{message}'\nactions:\n\
             - deploy: {{to: tmpfs, images: {{kernel: {{image_arg: '-kernel {{kernel}}', url: 'http://127.0.0.1/k'}}}}}}\n\
             - boot: {{method: qemu, media: tmpfs, prompts: ['ready']}}\n"
        );
        let request = self.http.post(format!("{}/api/v0.2/jobs/", self.url)).json(&json!({ "definition": definition }));
        let answer =
            request.header("authorization", format!("Token {}", self.token)).send().await.expect("LAVA answers");
        let told: Value = answer.json().await.expect("JSON");
        let id = told["job_ids"][0].as_u64().unwrap_or_else(|| panic!("no job: {told}"));
        eventually("the first job ends", || async { self.get(&format!("jobs/{id}/")).await["state"] == "Finished" })
            .await;
        id
    }

    /// All jobs of a name, oldest first.
    async fn jobs(&self, name: &str) -> Vec<Value> {
        let page = self.get(&format!("jobs/?description={name}&ordering=id")).await;
        page["results"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the newest of `count` jobs is in a state, and gives it.
    async fn nth(&self, name: &str, count: usize, states: &[&str]) -> Value {
        eventually(&format!("job {count} of {name} is {states:?}"), || async {
            let jobs = self.jobs(name).await;
            jobs.len() == count && states.contains(&jobs[count - 1]["state"].as_str().unwrap_or_default())
        })
        .await;
        self.jobs(name).await.remove(count - 1)
    }

    fn lab(&self, order: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/lava/lab");
        let done = Command::new(script).arg(order).arg(&self.folder).status().expect("the script");
        assert!(done.success(), "lab {order}");
    }
}

/// The bot as people run it, beside a GitLab.
struct Stage {
    server: Server,
    forge: GitLabSandbox,
    project: u64,
    number: u64,
    folder: tempfile::TempDir,
    bot: Option<Child>,
}

impl Stage {
    async fn set(server: Server) -> Self {
        let options = gitlab::Options {
            token: "real-lava-gitlab-token".into(),
            bot_username: "retest-bot".into(),
            start_ms: now_ms(),
            path_prefix: None,
        };
        let forge = GitLabSandbox::start(options).await.expect("a sandbox");
        let project = forge.add_project(REPO);
        for (login, level) in [("tom", 30), ("ann", 30), ("retest-bot", 30)] {
            forge.set_level(project, login, level);
        }
        forge.hook("http://127.0.0.1:9/", gitlab::HookSecret { token: Some(SECRET.into()), signing: None });
        let number = forge.open_merge_request(project, "ann", HEAD, gitlab::NewMergeRequest::default());
        Self { server, forge, project, number, folder: tempfile::tempdir().expect("a folder"), bot: None }
    }

    /// Starts the binary, in place of the one before: LAVA is polled every `poll` and may call back.
    async fn start_bot(&mut self, poll: &str, token: &str) {
        self.stop_bot();
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\npublic_url = \"http://127.0.0.1:{port}\"\n\
             [store]\npath = \"{}/bot.db\"\n\
             [[forge]]\nname = \"forge\"\nkind = \"gitlab\"\napi_url = \"{}\"\nwebhook_tokens = [{{ env = \"SECRET\" }}]\n\
             token = {{ env = \"TOKEN\" }}\npause_between_writes = \"0s\"\n\
             [[runner]]\nname = \"boards\"\nkind = \"lava\"\npoll_min = \"{poll}\"\npoll_max = \"{poll}\"\n\
             [runner.lava]\nurl = \"{}\"\ntoken = {{ env = \"LAVA_TOKEN\" }}\ncallback_secret = {{ env = \"SECRET\" }}\n\
             [[runner.job]]\npattern = \"*\"\noverrides = [\"priority\"]\n",
            self.folder.path().display(),
            self.forge.base_url(),
            self.server.url
        );
        let path = self.folder.path().join("bot.toml");
        std::fs::write(&path, config).expect("a configuration");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("bot.log"));
        let child = Command::new(env!("CARGO_BIN_EXE_retest-bot"))
            .arg("serve")
            .arg("--config")
            .arg(&path)
            .envs([("SECRET", SECRET), ("TOKEN", "real-lava-gitlab-token"), ("LAVA_TOKEN", token), ("NO_PROXY", "*")])
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        self.bot = Some(child.expect("the binary"));
        let ready = format!("http://127.0.0.1:{port}/readyz");
        eventually("the bot is ready", || async {
            self.server.http.get(&ready).send().await.is_ok_and(|answer| answer.status() == 200)
        })
        .await;
        self.forge.move_hooks(&format!("http://127.0.0.1:{port}/webhooks/forge"));
    }

    fn stop_bot(&mut self) {
        if let Some(mut bot) = self.bot.take() {
            bot.kill().ok();
            bot.wait().ok();
        }
    }

    /// The CI has run a job and posted its red status; nobody told the bot more.
    async fn red(&self, name: &str, runs: &str, message: &str) -> u64 {
        let id = self.server.run(name, runs, message).await;
        let page = format!("{}/scheduler/job/{id}", self.server.url);
        self.forge.external_status(self.project, HEAD, name, "failed", Some(&page));
        id
    }

    async fn say(&self, text: &str) {
        self.forge.set_now(now_ms());
        self.forge.note(self.project, self.number, "tom", text);
        self.forge.deliver().await;
    }

    fn status(&self, name: &str) -> String {
        let all = self.forge.statuses(self.project, HEAD).into_iter().filter(|status| status.name == name);
        all.max_by_key(|status| status.id).map(|status| status.state).unwrap_or_default()
    }

    async fn until_status(&self, name: &str, state: &str) {
        eventually(&format!("the status {name} is {state}: {}", self.report()), || async {
            self.forge.deliver().await;
            self.status(name) == state
        })
        .await;
    }

    fn report(&self) -> String {
        let notes = self.forge.notes(self.project, self.number).into_iter().map(|note| note.body);
        notes.filter(|body| body.contains("<!-- retest-bot:")).collect()
    }

    async fn until_report(&self, words: &str) {
        eventually(&format!("the report says: {words}"), || async { self.report().contains(words) }).await;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop_bot();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("bot.log")).unwrap_or_default();
            eprintln!("{}\nthe bot said:\n{log}", self.report());
        }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("in range")
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < PATIENCE, "not in {} s: {what}", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// One claim after the other on one server: several of them stop it or need its boards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retest_reaches_a_real_lava_and_comes_back() {
    let Some(server) = Server::given() else { return };
    let token = server.token.clone();
    the_end_of_a_log_is_read(&server).await;
    let mut stage = Stage::set(server).await;
    // It would look again only after ten minutes: what comes sooner was told by LAVA's own callback.
    stage.start_bot("10m", &token).await;
    a_red_status_turns_green_and_the_callback_brings_the_end(&stage).await;
    stage.start_bot("1s", &token).await;
    an_infrastructure_error_is_typed_from_the_jobs_own_metadata(&stage).await;
    failed_cases_of_a_complete_job_fail_it(&stage).await;
    cancel_ends_the_job_on_the_server(&stage).await;
    a_multinode_group_runs_whole(&stage).await;
    a_run_is_followed_over_a_restart_of_the_server(&stage).await;
    stage.start_bot("1s", "no-token-of-this-server").await;
    a_wrong_token_is_told(&stage).await;
}

async fn the_end_of_a_log_is_read(server: &Server) {
    let id = server.run("lava-log", "fail", "").await;
    let config = LavaConfig {
        name: "boards".into(),
        url: server.url.clone(),
        token: server.token.clone().into(),
        timeout: Duration::from_secs(20),
        suites: globset::GlobSet::empty(),
        source: Source::default(),
        url_prefixes: Vec::new(),
        callback: None,
        jobs: Vec::new(),
    };
    let runner = LavaRunner::new(config, Arc::new(SystemClock)).expect("a runner");
    let key = RepoKey { forge: "forge".into(), id: 1 };
    let repo = Repo { key, full_name: REPO.into(), installation: None, default_branch: None };
    let handle = RunHandle { id: id.to_string(), order: RunOrder::default(), url: None };
    let whole = runner.log_tail(&repo, &handle, 4_096).await.expect("a log");
    assert!(whole.text.contains("the board speaks\n[results] 0_smoke/boots: pass\n") && !whole.cut, "{}", whole.text);
    let end = runner.log_tail(&repo, &handle, 20).await.expect("a log");
    assert!(end.cut && end.text.ends_with("lava/job: pass\n") && end.text.len() <= 20, "{}", end.text);
}

async fn a_red_status_turns_green_and_the_callback_brings_the_end(stage: &Stage) {
    let old = stage.red("lava-x86", "Infrastructure|pass", "bootloader did not answer").await;
    stage.say("/retest lava-x86 priority=high").await;
    let new = stage.server.nth("lava-x86", 2, &["Finished"]).await;
    assert_eq!((new["health"].as_str(), new["priority"].as_u64()), (Some("Complete"), Some(100)), "{new}");
    let submitted = new["original_definition"].as_str().unwrap_or_default();
    let mark = format!("\"retest.source\": \"{old}\"");
    assert!(submitted.starts_with("# lava-x86, as the CI has it\n") && submitted.contains(&mark), "{submitted}");
    stage.until_status("lava-x86", "success").await;
    stage.until_report("passed on run 2").await;
}

async fn an_infrastructure_error_is_typed_from_the_jobs_own_metadata(stage: &Stage) {
    stage.red("lava-infra", "Job|Infrastructure|LAVATimeout", "the connection closed").await;
    stage.say("/retest lava-infra").await;
    stage.until_report("died of its infrastructure on run 2 (`Infrastructure: the connection closed`)").await;
    stage.until_status("lava-infra", "canceled").await;
    stage.say("/retest lava-infra").await;
    stage.until_report("timed out on run 3 (`LAVATimeout: the connection closed`)").await;
}

async fn failed_cases_of_a_complete_job_fail_it(stage: &Stage) {
    stage.red("lava-cases", "fail", "").await;
    stage.say("/retest lava-cases").await;
    stage.until_report("Test: 1 test case failed: 0_smoke/memory").await;
    stage.until_status("lava-cases", "failed").await;
    assert_eq!(stage.server.nth("lava-cases", 2, &["Finished"]).await["health"], "Complete");
}

async fn cancel_ends_the_job_on_the_server(stage: &Stage) {
    stage.red("lava-cancel", "fail|hang", "").await;
    stage.say("/retest lava-cancel").await;
    stage.server.nth("lava-cancel", 2, &["Running"]).await;
    stage.say("/cancel lava-cancel").await;
    let asked = Instant::now();
    assert_eq!(stage.server.nth("lava-cancel", 2, &["Finished"]).await["health"], "Canceled");
    assert!(asked.elapsed() < Duration::from_secs(25), "the next look by itself would be 30 s later");
    stage.until_status("lava-cancel", "canceled").await;
}

async fn a_multinode_group_runs_whole(stage: &Stage) {
    let group = "job_name: lava-pair\nvisibility: public\npriority: medium\n\
                 timeouts:\n  job: {minutes: 5}\n  action: {minutes: 2}\n  connection: {minutes: 2}\n\
                 metadata: {runs: 'fail|fail|pass'}\nprotocols:\n  lava-multinode:\n    roles:\n\
                 \x20     one: {device_type: lava-x86, count: 1, context: {arch: amd64}}\n\
                 \x20     two: {device_type: lava-x86, count: 1, context: {arch: amd64}}\n    timeout: {minutes: 4}\nactions:\n\
                 - deploy: {role: [one, two], to: tmpfs, images: {kernel: {image_arg: '-kernel {kernel}', url: 'http://127.0.0.1/k'}}}\n\
                 - boot: {role: [one, two], method: qemu, media: tmpfs, prompts: ['ready']}\n";
    let server = &stage.server;
    let request = server.http.post(format!("{}/api/v0.2/jobs/", server.url)).json(&json!({ "definition": group }));
    let answer = request.header("authorization", format!("Token {}", server.token)).send().await.expect("LAVA answers");
    let told: Value = answer.json().await.expect("JSON");
    let second = told["job_ids"][1].as_str().unwrap_or_else(|| panic!("no group: {told}")).to_owned();
    server.nth("lava-pair", 2, &["Finished"]).await;
    let page = format!("{}/scheduler/job/{second}", server.url);
    stage.forge.external_status(stage.project, HEAD, "lava-pair", "failed", Some(&page));
    stage.say("/retest lava-pair").await;
    server.nth("lava-pair", 4, &["Finished"]).await;
    stage.until_status("lava-pair", "success").await;
    stage.until_report("(multinode)`").await;
}

async fn a_run_is_followed_over_a_restart_of_the_server(stage: &Stage) {
    stage.red("lava-away", "fail|slow", "").await;
    stage.say("/retest lava-away").await;
    stage.server.nth("lava-away", 2, &["Running"]).await;
    stage.server.lab("pause");
    // Asked for while the server is away: it waits until the server is back.
    stage.say("/retest lava-cases").await;
    stage.until_report("about to start").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    stage.server.lab("resume");
    stage.until_status("lava-away", "success").await;
    stage.server.nth("lava-cases", 3, &["Finished"]).await;
}

async fn a_wrong_token_is_told(stage: &Stage) {
    stage.red("lava-token", "fail", "").await;
    stage.say("/retest lava-token").await;
    stage.until_report("does not accept the token of this bot").await;
    assert_eq!(stage.server.jobs("lava-token").await.len(), 1);
    stage.until_status("lava-token", "failed").await;
}
