//! What flakes cost, told to clients.

use http::{Method, StatusCode};

use super::{FULL, READER, configuration, send};
use crate::story::{Script, Side, Stage, on_both_forges};

on_both_forges! {
    failures_of_a_label_are_counted_with_their_rate_and_cost,
}

const RULE: &str = "[[flake]]\nlabel = \"lab-down\"\njobs = [\"lava-*\"]\nends = [\"infrastructure\"]\n";

async fn failures_of_a_label_are_counted_with_their_rate_and_cost(side: Side) {
    let extra = format!("{}{RULE}", configuration());
    let stage = Stage::set_with(side, Script { extra, ..Script::default() }).await;
    stage.comment("wil", "/test lava-x86 lava-arm64").await;
    stage.lab.set("lava-x86", "offline");
    stage.lab.set("lava-arm64", "bad");
    stage.pass_s(41).await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(100).await;
    assert_eq!(send(&stage, READER, (Method::GET, "/flakes"), None).await.0, StatusCode::FORBIDDEN);
    let (status, told) = send(&stage, FULL, (Method::GET, "/flakes?days=7"), None).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let flakes = told["flakes"].as_array().expect("a list");
    assert_eq!(flakes.len(), 1, "what failed and stayed so is no flake: {told}");
    let one = &flakes[0];
    assert_eq!((one["job"].as_str(), one["label"].as_str()), (Some("lava-x86"), Some("lab-down")));
    assert_eq!(
        (one["seen"].as_u64(), one["passed_later"].as_u64(), one["retries"].as_u64()),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!(one["rate"]["of"].as_u64(), Some(2), "{told}");
    assert!(one["rate"]["low"].as_f64() < one["rate"]["share"].as_f64(), "{told}");
    assert!(one["cost_s"].as_u64() >= Some(41), "the retry ran until it was looked at: {told}");
    assert_eq!(one["days"].as_object().map(serde_json::Map::len), Some(1));
    let (_, none) = send(&stage, FULL, (Method::GET, "/flakes?repository=acme/other"), None).await;
    assert_eq!(none["flakes"].as_array().map(Vec::len), Some(0));
    let (status, _) = send(&stage, FULL, (Method::GET, "/flakes?dayz=7"), None).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    stage.end().await;
}
