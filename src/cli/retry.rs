//! `retest-bot retry` and `retries`: a client of a running bot's REST API.
//!
//! Exit codes: 0 started (with `--wait`: and passed), 1 nothing was started or a run did not pass, 2 wrong use or a request
//! that the server refused, 3 the server was not reached or could not do it now.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args as ClapArgs;
use serde_json::{Map, Value, json};

/// Exit code of a refused request, as of wrong use.
const REFUSED: u8 = 2;

/// Exit code when asking again later may help.
const LATER: u8 = 3;

/// Pause between two looks at retries that are waited for.
const PAUSE: Duration = Duration::from_secs(5);

/// How the server is reached.
#[derive(Debug, ClapArgs)]
pub(super) struct Server {
    /// Address of the bot.
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "RETEST_SERVER")]
    server: String,
    /// File that holds the token; without it the variable RETEST_TOKEN does.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Print the server's JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// A build or run, by the runner's own id (KernelCI: the node).
    #[arg(long, value_name = "NODE", conflicts_with_all = ["repository", "sha"])]
    build: Option<String>,
    /// The runner of the build, when several know builds.
    #[arg(long, requires = "build")]
    runner: Option<String>,
    /// The forge's configured name, for a revision.
    #[arg(long, requires_all = ["repository", "sha"])]
    forge: Option<String>,
    /// The repository's full name or number.
    #[arg(long, requires = "forge")]
    repository: Option<String>,
    /// The whole commit id of the head.
    #[arg(long, requires = "forge")]
    sha: Option<String>,
    /// Only jobs of this name, a glob; may be repeated. Without it and --platform: all that ended badly.
    #[arg(long, value_name = "GLOB")]
    job: Vec<String>,
    /// Only jobs on this platform, a glob; may be repeated.
    #[arg(long, value_name = "GLOB")]
    platform: Vec<String>,
    /// A field of the jobs to change; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also jobs that passed.
    #[arg(long)]
    force: bool,
    /// Why, for the report.
    #[arg(long)]
    reason: Option<String>,
    /// A key of your own that makes a repetition harmless.
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
    /// Wait until every retry is over.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ListArgs {
    /// Only those still under way.
    #[arg(long)]
    open: bool,
    /// Only those of this commit.
    #[arg(long)]
    sha: Option<String>,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, ClapArgs)]
pub(super) struct FlakesArgs {
    /// How many days back.
    #[arg(long, default_value_t = 30)]
    days: u64,
    /// Only those of this repository, by its full name.
    #[arg(long)]
    repository: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// What came of asking.
enum Asked {
    Answered(Value),
    Failed(ExitCode),
}

struct Client {
    http: reqwest::Client,
    base: String,
    token: String,
}

impl Client {
    fn new(server: &Server) -> anyhow::Result<Self> {
        let token = match &server.token_file {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the token from `{}`", path.display()))?,
            None => std::env::var("RETEST_TOKEN").context("no token: set RETEST_TOKEN, or give --token-file")?,
        };
        let http = reqwest::Client::builder()
            .user_agent(concat!("retest-bot/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(60))
            .build()?;
        let base = format!("{}/api/v1", server.server.trim_end_matches('/'));
        Ok(Self { http, base, token: token.trim().to_owned() })
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Asked {
        let answer = match request.bearer_auth(&self.token).send().await {
            Ok(answer) => answer,
            Err(error) => {
                eprintln!("retest-bot: the server was not reached: {error}");
                return Asked::Failed(ExitCode::from(LATER));
            }
        };
        let status = answer.status();
        let body: Value = answer.json().await.unwrap_or(Value::Null);
        if status.is_success() && !body.is_null() {
            return Asked::Answered(body);
        }
        let detail = body["detail"].as_str().unwrap_or("its answer is none of this API; is --server right?");
        eprintln!("retest-bot: the server answered {status}: {detail}");
        let later = status.is_server_error() || status.as_u16() == 429;
        Asked::Failed(ExitCode::from(if later { LATER } else { REFUSED }))
    }

    /// The retry as it stands; asked again while the server is not there.
    async fn look(&self, id: i64) -> Asked {
        self.send(self.http.get(format!("{}/retries/{id}", self.base))).await
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let event = match event(args) {
        Ok(event) => event,
        Err(error) => {
            eprintln!("retest-bot: {error}");
            return Ok(ExitCode::from(REFUSED));
        }
    };
    let client = Client::new(&args.server)?;
    super::serve::runtime(Some(1))?.block_on(async {
        let mut request = client.http.post(format!("{}/events", client.base)).json(&event);
        if let Some(key) = &args.once {
            request = request.header("idempotency-key", key);
        }
        let answer = match client.send(request).await {
            Asked::Answered(answer) => answer,
            Asked::Failed(code) => return Ok(code),
        };
        if args.server.json && !args.wait {
            super::print_line(&super::pretty(&answer))?;
        } else if !args.server.json {
            for left in items(&answer, "left") {
                super::print_line(&format!("left: {} ({})", text(left, "job"), text(left, "text")))?;
            }
            for retry in items(&answer, "retries") {
                super::print_line(&line(retry))?;
            }
        }
        let ids: Vec<i64> = items(&answer, "retries").iter().filter_map(|retry| retry["id"].as_i64()).collect();
        if ids.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        if args.wait { wait(&client, &ids, args.server.json).await } else { Ok(ExitCode::SUCCESS) }
    })
}

async fn wait(client: &Client, ids: &[i64], as_json: bool) -> anyhow::Result<ExitCode> {
    let mut all_passed = true;
    let mut ended = Vec::new();
    for id in ids {
        let retry = loop {
            match client.look(*id).await {
                Asked::Answered(retry) if retry["open"] == true => {}
                Asked::Answered(retry) => break retry,
                Asked::Failed(code) if code == ExitCode::from(LATER) => {}
                Asked::Failed(code) => return Ok(code),
            }
            tokio::time::sleep(PAUSE).await;
        };
        all_passed &= retry["conclusion"] == "passed";
        if !as_json {
            super::print_line(&line(&retry))?;
        }
        ended.push(retry);
    }
    if as_json {
        super::print_line(&super::pretty(&json!({ "retries": ended })))?;
    }
    Ok(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.server)?;
    super::serve::runtime(Some(1))?.block_on(async {
        let mut query = vec![("open", args.open.to_string())];
        query.extend(args.sha.iter().map(|sha| ("sha", sha.clone())));
        let request = client.http.get(format!("{}/retries", client.base)).query(&query);
        let answer = match client.send(request).await {
            Asked::Answered(answer) => answer,
            Asked::Failed(code) => return Ok(code),
        };
        if args.server.json {
            return super::print_line(&super::pretty(&answer));
        }
        for retry in items(&answer, "retries") {
            super::print_line(&line(retry))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn flakes(args: &FlakesArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.server)?;
    super::serve::runtime(Some(1))?.block_on(async {
        let mut query = vec![("days", args.days.to_string())];
        query.extend(args.repository.iter().map(|name| ("repository", name.clone())));
        let request = client.http.get(format!("{}/flakes", client.base)).query(&query);
        let answer = match client.send(request).await {
            Asked::Answered(answer) => answer,
            Asked::Failed(code) => return Ok(code),
        };
        if args.server.json {
            return super::print_line(&super::pretty(&answer));
        }
        for flake in items(&answer, "flakes") {
            super::print_line(&flake_line(flake))?;
        }
        super::print_line(&format!("{} in all, since {}", items(&answer, "flakes").len(), text(&answer, "since")))
    })
}

fn flake_line(flake: &Value) -> String {
    let percent = |key: &str| flake["rate"][key].as_f64().unwrap_or_default() * 100.0;
    let label = flake["label"].as_str().unwrap_or("no label");
    let (cost, last) = (flake["cost_s"].as_u64().unwrap_or_default(), text(flake, "last_seen"));
    format!(
        "{} {} ({label}): seen {} times, {:.1} % of its runs ({:.1} to {:.1}), {} passed later; {} retries, {} s; last {last}",
        text(flake, "repository"),
        text(flake, "job"),
        flake["seen"],
        percent("share"),
        percent("low"),
        percent("high"),
        flake["passed_later"],
        flake["retries"],
        cost
    )
}

/// The `run` event for the planner.
fn event(args: &Args) -> anyhow::Result<Value> {
    let mut overrides = Map::new();
    for pair in &args.set {
        let (key, value) = pair.split_once('=').with_context(|| format!("--set {pair}: write KEY=VALUE"))?;
        overrides.insert(key.to_owned(), json!(value));
    }
    let mut event = json!({
        "kind": "run",
        "to": "planner",
        "filter": {"jobs": args.job, "platforms": args.platform},
        "overrides": overrides,
        "force": args.force,
        "reason": args.reason,
    });
    match (&args.build, &args.forge, &args.repository, &args.sha) {
        (Some(build), _, _, _) => event["node"] = json!({"runner": args.runner, "id": build}),
        (None, Some(forge), Some(repository), Some(sha)) => {
            event["revision"] = json!({"forge": forge, "repository": repository, "sha": sha});
        }
        _ => anyhow::bail!("name a build with --build, or a revision with --forge, --repository and --sha"),
    }
    Ok(event)
}

fn items<'a>(answer: &'a Value, key: &str) -> &'a [Value] {
    answer[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn line(retry: &Value) -> String {
    let state = retry["conclusion"].as_str().unwrap_or_else(|| text(retry, "state"));
    let cause = retry["cause"].as_str().map_or_else(String::new, |cause| format!(" ({cause})"));
    let url = retry["url"].as_str().map_or_else(String::new, |url| format!(" {url}"));
    format!("retry {}: {} {state}{cause}{url}", retry["id"], text(retry, "job"))
}
