//! `retest-bot retry` against a bot with a KernelCI.

use std::process::Output;

use retest_bot::sandbox::kernelci::{KernelCiSandbox, NewJob, Options};
use serde_json::{Value, json};

use super::{FULL, configuration};
use crate::story::{HEAD, START_MS, Script, Side, Stage};

const LINUS: &str = "6f1e2d3c4b5a69788796a5b4c3d2e1f001122334";

async fn site() -> (Stage, KernelCiSandbox) {
    let options = Options {
        token: "maestro-token-6f1d3c5a9b8e".into(),
        pipeline_token: "p".into(),
        start_ms: START_MS - 3_600_000,
    };
    let kernelci = KernelCiSandbox::start(options).await.expect("a sandbox");
    let url = kernelci.api_url();
    let extra = format!(
        "[[runner]]\nname = \"kernelci\"\nkind = \"kernelci\"\n[runner.kernelci]\napi_url = \"{url}\"\n\
         token = {{ env = \"MAESTRO\" }}\ntimeout = \"1s\"\n{}",
        configuration()
    );
    (Stage::set_with(Side::GitHub, Script { extra, ..Script::default() }).await, kernelci)
}

fn build_of(kernelci: &KernelCiSandbox, commit: &str) -> String {
    let checkout = kernelci.checkout("mainline", "master", commit);
    let build = kernelci.build(&checkout, "kbuild-gcc-14-x86", "pass");
    for (name, platform, result) in
        [("baseline-x86", "x86", "fail"), ("baseline-arm64", "arm64", "fail"), ("kselftest", "x86", "fail")]
    {
        let job = kernelci.job(&build, &NewJob { name, platform, runtime: "lava-one" });
        kernelci.end(&job, result, None);
    }
    build
}

async fn run(stage: &Stage, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_retest-bot"));
    command.args(args).env("RETEST_TOKEN", FULL).env("RETEST_SERVER", stage.bot_url());
    command.output().await.expect("it runs")
}

#[tokio::test]
async fn the_command_line_restarts_the_jobs_of_a_build_that_is_no_changes_head() {
    let (stage, kernelci) = site().await;
    let build = build_of(&kernelci, LINUS);
    let args = ["retry", "--build", &build, "--job", "baseline*", "--platform", "x86", "--json", "--once", "k-1"];
    for round in 0..2 {
        let output = run(&stage, &args).await;
        assert!(output.status.success(), "{round}: {output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (&answer["retries"][0]["job"], &answer["retries"][0]["build"]),
            (&json!("baseline-x86"), &json!(build))
        );
        assert_eq!(answer["retries"].as_array().map(Vec::len), Some(1), "{answer}");
    }
    stage.settle().await;
    assert_eq!(kernelci.events().len(), 1);
    assert_eq!(kernelci.schedule(), 1);
    let node = kernelci.newest("baseline-x86").expect("a node");
    kernelci.end(node["id"].as_str().expect("an id"), "pass", None);
    stage.pass_s(60).await;
    let output = run(&stage, &["retries"]).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("baseline-x86 passed"), "{text}");
    assert_eq!(stage.status("retest"), "", "no change is concerned");
    stage.end().await;
}

#[tokio::test]
async fn a_build_of_a_changes_head_is_retested_there() {
    let (stage, kernelci) = site().await;
    let build = build_of(&kernelci, HEAD);
    let output = run(&stage, &["retry", "--build", &build, "--job", "kselftest"]).await;
    assert!(output.status.success(), "{output:?}");
    stage.settle().await;
    assert_eq!(kernelci.events()[0]["jobfilter"], json!(["kselftest"]));
    assert_eq!(stage.status("kselftest"), "pending");
    stage.end().await;
}

#[tokio::test]
async fn the_exit_code_says_whether_it_was_wrong_use_a_refusal_or_no_server() {
    let (stage, kernelci) = site().await;
    let build = build_of(&kernelci, LINUS);
    let table: [(&[&str], i32, &str); 6] = [
        (&["retry"], 2, "neither build nor revision"),
        (&["retry", "--build", &build, "--set", "kernel"], 2, "no value"),
        (&["retry", "--build", "66b0c0ffeeffffffffffffff"], 2, "no such node"),
        (&["retry", "--build", &build, "--job", "zzz"], 1, "nothing to start"),
        (&["retry", "--build", &build, "--token-file", "/nowhere"], 1, "no token"),
        (&["retry", "--build", &build, "--server", "http://127.0.0.1:1"], 3, "no server"),
    ];
    for (args, code, why) in table {
        let output = run(&stage, args).await;
        assert_eq!(output.status.code(), Some(code), "{why}: {output:?}");
    }
    assert!(kernelci.events().is_empty());
    stage.end().await;
}
