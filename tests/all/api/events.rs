//! Run events, to the planner and to the dispatcher.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{BOUND, FULL, READER, STRANGER, send, stage};
use crate::story::{HEAD, NEXT, Side, Stage, on_both_forges};

on_both_forges! {
    an_event_to_the_planner_restarts_what_failed_and_is_followed,
    an_event_may_narrow_and_every_named_job_is_answered_for,
    the_same_key_starts_once_and_gets_the_same_answer,
    an_event_to_the_dispatcher_starts_a_described_run,
    a_described_run_may_belong_to_no_change,
    an_event_about_an_old_head_is_refused,
    a_client_takes_its_retry_back,
    limits_hold_for_clients_too,
}

async fn post(stage: &Stage, token: &str, event: &Value) -> (StatusCode, Value) {
    send(stage, token, (Method::POST, "/events"), Some(event)).await
}

fn revision() -> Value {
    json!({"forge": "forge", "repository": "acme/board", "sha": HEAD})
}

async fn retry(stage: &Stage, id: &Value) -> Value {
    send(stage, FULL, (Method::GET, &format!("/retries/{id}")), None).await.1
}

async fn an_event_to_the_planner_restarts_what_failed_and_is_followed(side: Side) {
    let stage = stage(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", true).await;
    let event = json!({"kind": "run", "to": "planner", "revision": revision(), "reason": "nightly sweep"});
    let (status, answer) = post(&stage, FULL, &event).await;
    assert_eq!((status, answer["retries"].as_array().map(Vec::len)), (StatusCode::ACCEPTED, Some(1)), "{answer}");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1);
    assert_eq!(stage.status("lava-x86"), "pending");
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    let told = retry(&stage, &answer["retries"][0]["id"]).await;
    assert_eq!(
        (&told["conclusion"], &told["open"], &told["new_run"]),
        (&json!("passed"), &json!(false), &json!("9000")),
        "{told}"
    );
    assert!(stage.report().contains("nightly sweep; asked by `token farm`"), "{}", stage.report());
    assert_eq!(stage.status("lava-x86"), "success");
    stage.end().await;
}

async fn an_event_may_narrow_and_every_named_job_is_answered_for(side: Side) {
    let stage = stage(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab_status("lava-arm64", true).await;
    stage.lab_status("board-1", false).await;
    let event = json!({"kind": "run", "to": "planner", "revision": revision(), "filter": {"jobs": ["lava-*"]},
        "overrides": {"KERNEL": "v6.12"}});
    let (_, answer) = post(&stage, FULL, &event).await;
    assert_eq!(answer["retries"][0]["job"], "lava-x86", "{answer}");
    assert_eq!((&answer["left"][0]["job"], &answer["left"][0]["reason"]), (&json!("lava-arm64"), &json!("passed")));
    let (_, again) = post(&stage, FULL, &event).await;
    assert_eq!(again["retries"][0]["id"], answer["retries"][0]["id"], "it joined: {again}");
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1);
    assert_eq!(stage.lab.runs()[0].overrides["KERNEL"], "v6.12");
    let nothing = json!({"kind": "run", "to": "planner", "revision": revision(), "filter": {"jobs": ["zzz"]}});
    let (status, answer) = post(&stage, FULL, &nothing).await;
    assert_eq!((status, &answer["left"][0]["reason"]), (StatusCode::OK, &json!("unknown")), "{answer}");
    stage.end().await;
}

async fn the_same_key_starts_once_and_gets_the_same_answer(side: Side) {
    let stage = stage(side).await;
    let run = json!({"template": "boot", "parameters": {"kernel": "https://k.example/v6.12"}});
    let event = json!({"kind": "run", "to": "dispatcher", "run": run});
    let url = format!("{}/api/v1/events", stage.bot_url());
    let send = |body: Value| {
        let request = reqwest::Client::new().post(&url).bearer_auth(FULL).header("idempotency-key", "k-1");
        async move { request.json(&body).send().await.expect("an answer") }
    };
    let first: Value = send(event.clone()).await.json().await.expect("JSON");
    let second: Value = send(event).await.json().await.expect("JSON");
    assert_eq!(first, second);
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1);
    let other = json!({"kind": "run", "to": "planner", "revision": revision()});
    assert_eq!(send(other).await.status(), StatusCode::CONFLICT, "the key means something else");
    stage.end().await;
}

async fn an_event_to_the_dispatcher_starts_a_described_run(side: Side) {
    let stage = stage(side).await;
    let run = json!({"runner": "lab", "job": "board-7", "parameters": {}});
    let event = json!({"kind": "run", "to": "dispatcher", "run": run, "revision": revision()});
    let (status, answer) = post(&stage, FULL, &event).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    stage.settle().await;
    assert_eq!(stage.lab.runs()[0].job, "board-7");
    assert_eq!(stage.status("board-7"), "pending", "it is about this head");
    stage.lab.set("board-7", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.status("board-7"), "success");
    assert!(stage.report().contains("passed on run 1"), "{}", stage.report());
    stage.end().await;
}

async fn a_described_run_may_belong_to_no_change(side: Side) {
    let stage = stage(side).await;
    let run = json!({"template": "boot", "parameters": {"kernel": "https://k.example/v6.12"}});
    let event = json!({"kind": "run", "to": "dispatcher", "run": run});
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (status, answer) = post(&stage, FULL, &event).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        ids.push(answer["retries"][0]["id"].clone());
    }
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 2, "two wishes, two runs");
    assert_eq!(stage.lab.runs()[0].overrides["KERNEL"], "https://k.example/v6.12");
    stage.lab.set("lava-x86", "offline");
    stage.pass_s(60).await;
    let told = [retry(&stage, &ids[0]).await, retry(&stage, &ids[1]).await];
    let ended = told.iter().find(|told| told["open"] == false).expect("one is over");
    assert_eq!((&ended["conclusion"], &ended["change"]), (&json!("infrastructure"), &Value::Null), "{told:?}");
    assert_eq!(stage.status("retest"), "", "nothing is posted anywhere");
    assert_eq!(post(&stage, BOUND, &event).await.0, StatusCode::FORBIDDEN, "a token bound to repositories");
    stage.end().await;
}

async fn an_event_about_an_old_head_is_refused(side: Side) {
    let stage = stage(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.push(NEXT);
    stage.settle().await;
    let event = json!({"kind": "run", "to": "planner", "revision": revision()});
    let (status, problem) = post(&stage, FULL, &event).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(stage.lab.runs().is_empty());
    stage.end().await;
}

async fn a_client_takes_its_retry_back(side: Side) {
    let stage = stage(side).await;
    stage.lab_status("lava-x86", false).await;
    let (_, answer) = post(&stage, FULL, &json!({"kind": "run", "to": "planner", "revision": revision()})).await;
    stage.settle().await;
    let path = format!("/retries/{}", answer["retries"][0]["id"]);
    let (status, told) = send(&stage, FULL, (Method::DELETE, &path), None).await;
    assert_eq!((status, &told["state"]), (StatusCode::OK, &json!("cancelled")));
    stage.settle().await;
    assert_eq!(stage.lab.runs()[0].state, "cancelled");
    for token in [READER, STRANGER] {
        let (status, _) = send(&stage, token, (Method::GET, &path), None).await;
        assert!(status == StatusCode::FORBIDDEN || status == StatusCode::NOT_FOUND, "{status}");
    }
    let (_, all) = send(&stage, FULL, (Method::GET, "/retries"), None).await;
    let (_, theirs) = send(&stage, STRANGER, (Method::GET, "/retries"), None).await;
    let count = |answer: &Value| answer["retries"].as_array().map(Vec::len);
    assert_eq!((count(&all), count(&theirs)), (Some(1), Some(0)), "{all} {theirs}");
    stage.end().await;
}

async fn limits_hold_for_clients_too(side: Side) {
    let extra = format!("{}\n[limits]\nretries_per_actor_per_hour = 1\n", super::configuration());
    let stage = Stage::set_with(side, crate::story::Script { extra, ..Default::default() }).await;
    let run = json!({"runner": "lab", "job": "board-7"});
    let event = json!({"kind": "run", "to": "dispatcher", "run": run});
    assert_eq!(post(&stage, FULL, &event).await.0, StatusCode::ACCEPTED);
    let (status, answer) = post(&stage, FULL, &event).await;
    assert_eq!((status, &answer["left"][0]["reason"]), (StatusCode::OK, &json!("limited")), "{answer}");
    stage.end().await;
}

#[tokio::test]
async fn an_event_that_makes_no_sense_is_refused_with_the_reason() {
    let stage = stage(Side::GitHub).await;
    let run = json!({"runner": "lab", "job": "board-7"});
    let table = [
        (json!({"kind": "walk", "to": "planner"}), 422, "`run`"),
        (json!({"kind": "run", "to": "planner"}), 422, "exactly one of"),
        (json!({"kind": "run", "to": "planner", "run": run}), 422, "for the dispatcher"),
        (json!({"kind": "run", "to": "dispatcher"}), 422, "what shall be started"),
        (json!({"kind": "run", "to": "dispatcher", "run": run, "force": true}), 422, "for the planner"),
        (json!({"kind": "run", "to": "dispatcher", "run": {"template": "bot"}}), 404, "there are: boot"),
        (json!({"kind": "run", "to": "dispatcher", "run": {"template": "boot"}}), 422, "`kernel` is missing"),
        (json!({"kind": "run", "to": "dispatcher", "run": {"runner": "x", "job": "y"}}), 404, "no runner is called"),
        (json!({"kind": "run", "to": "planner", "node": {"id": "66b0"}}), 422, "no configured runner knows builds"),
        (json!({"kind": "run", "to": "nobody"}), 400, "`to`"),
    ];
    for (event, status, part) in table {
        let (found, problem) = post(&stage, FULL, &event).await;
        assert_eq!(found, status, "{event}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(part)), "{event}: {problem}");
    }
    assert!(stage.lab.runs().is_empty());
    stage.end().await;
}
