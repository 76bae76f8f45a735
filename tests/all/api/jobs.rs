//! Jobs that outside systems register, and the description of the API.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{BOUND, FULL, READER, STRANGER, send, stage};
use crate::story::{HEAD, Side, on_both_forges};

on_both_forges! {
    a_registered_job_is_retested_like_any_other,
    news_of_an_older_run_changes_nothing,
    a_registration_says_what_stands_alone,
}

const JOBS: &str = "/revisions/forge/acme%2Fboard";

fn path(name: &str) -> String {
    format!("{JOBS}/{HEAD}/jobs/{name}")
}

async fn a_registered_job_is_retested_like_any_other(side: Side) {
    let stage = stage(side).await;
    let body = json!({"state": "failed", "run": "48213", "url": "https://lab.example/48213", "platform": "x86"});
    let (status, job) = send(&stage, FULL, (Method::PUT, &path("lava-x86")), Some(&body)).await;
    assert_eq!((status, &job["runner"]), (StatusCode::CREATED, &json!("lab")), "{job}");
    let (status, _) = send(&stage, FULL, (Method::PUT, &path("lava-x86")), Some(&body)).await;
    assert_eq!(status, StatusCode::OK, "the same again is harmless");
    stage.comment("tom", "/retest platform:x86").await;
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("lava-x86"), "success");
    let (_, listed) = send(&stage, READER, (Method::GET, &format!("{JOBS}/{HEAD}/jobs")), None).await;
    assert_eq!((&listed["jobs"][0]["state"], &listed["jobs"][0]["runs"]), (&json!("passed"), &json!(2)), "{listed}");
    stage.end().await;
}

async fn news_of_an_older_run_changes_nothing(side: Side) {
    let stage = stage(side).await;
    let put = |run: &str, state: &str, at: &str| json!({"state": state, "run": run, "started_at": at});
    let table = [
        (put("2", "failed", "2026-01-02T00:00:00Z"), "failed", "the first news"),
        (put("1", "passed", "2026-01-01T00:00:00Z"), "failed", "an older run"),
        (put("2", "running", "2026-01-02T00:00:00Z"), "failed", "the same run, less far"),
        (put("3", "running", "2026-01-03T00:00:00Z"), "running", "a newer run"),
        (put("3", "passed", "2026-01-03T00:00:00Z"), "passed", "the same run, over"),
    ];
    for (body, wanted, why) in table {
        let (status, job) = send(&stage, FULL, (Method::PUT, &path("board-1")), Some(&body)).await;
        assert!(status.is_success() && job["state"] == wanted, "{why}: {status} {job}");
    }
    stage.end().await;
}

async fn a_registration_says_what_stands_alone(side: Side) {
    let stage = stage(side).await;
    let body = json!({"state": "failed", "run": "7", "runner": "ci", "standalone": false, "needs": ["build"]});
    let (status, answer) = send(&stage, FULL, (Method::PUT, &path("package")), Some(&body)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    stage.comment("tom", "/retest package").await;
    assert!(stage.report().contains("chained behind `build`"), "{}", stage.report());
    stage.end().await;
}

#[tokio::test]
async fn every_refusal_is_a_problem_that_says_what_to_do() {
    let stage = stage(Side::GitHub).await;
    let good = json!({"state": "failed", "run": "1"});
    let bad_state = json!({"state": "red", "run": "1"});
    let unknown_key = json!({"state": "failed", "run": "1", "urll": "x"});
    let bad_url = json!({"state": "failed", "run": "1", "url": "javascript:alert(1)"});
    let long = json!({"state": "failed", "run": "1", "cause": "x".repeat(300_000)});
    let (here, short) = (path("a"), format!("{JOBS}/abc/jobs/a"));
    let nowhere = format!("/revisions/forge/acme%2Fnothing/{HEAD}/jobs/a");
    let table: [(&str, &str, &Value, u16, &str); 11] = [
        ("", &here, &good, 401, "Authorization: Bearer"),
        ("guessed", &here, &good, 401, "[[api.tokens]]"),
        (READER, &here, &good, 403, "`jobs:write`"),
        (STRANGER, &here, &good, 404, "%2F"),
        (FULL, &nowhere, &good, 404, "first webhook"),
        (FULL, &short, &good, 422, "full commit id"),
        (FULL, &here, &bad_state, 422, "timed_out"),
        (FULL, &here, &unknown_key, 400, "urll"),
        (FULL, &here, &bad_url, 422, "http"),
        (FULL, &here, &long, 413, "send less"),
        (FULL, "/nothing", &good, 404, "openapi.json"),
    ];
    for (token, path, body, status, part) in table {
        let (found, problem) = send(&stage, token, (Method::PUT, path), Some(body)).await;
        assert_eq!(found, status, "{path}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(part)), "{status}: {problem}");
        assert_eq!(problem["status"], status, "{problem}");
    }
    let (status, _) = send(&stage, BOUND, (Method::PUT, &here), Some(&good)).await;
    assert!(status.is_success(), "its repository");
    stage.end().await;
}

#[tokio::test]
async fn every_described_route_is_there_and_answers_nobody_without_a_token() {
    let stage = stage(Side::GitHub).await;
    let (status, document) = send(&stage, "", (Method::GET, "/openapi.json"), None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{document}");
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, described) in methods.as_object().expect("methods") {
            assert!(described["description"].is_string() || described["summary"].is_string(), "{method} {path}");
            let filled = path.replace("{forge}", "forge").replace("{repo}", "1").replace("{sha}", HEAD);
            let filled = filled.replace("{name}", "a").replace("{id}", "1").replace("/api/v1", "");
            let word: Method = method.to_uppercase().parse().expect("a method");
            let (status, _) = send(&stage, "", (word, &filled), None).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
            found.push(format!("{method} {path}"));
        }
    }
    found.sort();
    let all = [
        "delete /api/v1/retries/{id}",
        "get /api/v1/flakes",
        "get /api/v1/retries",
        "get /api/v1/retries/{id}",
        "get /api/v1/revisions/{forge}/{repo}/{sha}/jobs",
        "post /api/v1/events",
        "put /api/v1/revisions/{forge}/{repo}/{sha}/jobs/{name}",
    ];
    assert_eq!(found, all);
    let text = document.to_string();
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        assert!(document["components"]["schemas"][name].is_object(), "{name} is not described");
    }
    stage.end().await;
}
