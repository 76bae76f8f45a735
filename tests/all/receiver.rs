//! The receiver and the store under bad input: the right answer, and nothing half-done.

use std::time::Duration;

use retest_bot::domain::{ForgeName, Timestamp};
use retest_bot::store::{Accepted, JobQuery, NewDelivery, Store};

use crate::story::{Side, Stage};

async fn post(stage: &Stage, path: &str, body: Vec<u8>, headers: &[(&str, &str)]) -> reqwest::Response {
    let mut request = reqwest::Client::new().post(format!("{}{path}", stage.bot_url())).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.expect("an answer")
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_before_it_is_read() {
    let stage = Stage::set(Side::GitHub).await;
    let answer = post(&stage, "/webhooks/forge", vec![b'x'; 27 << 20], &[("x-hub-signature-256", "sha256=00")]).await;
    assert_eq!(answer.status(), 413);
    assert!(answer.text().await.expect("text").contains("26279936 bytes"));
}

#[tokio::test]
async fn an_unknown_forge_gets_404_and_a_hint() {
    let stage = Stage::set(Side::GitHub).await;
    let answer = post(&stage, "/webhooks/nobody", b"{}".to_vec(), &[]).await;
    assert_eq!(answer.status(), 404);
    assert!(answer.text().await.expect("text").contains("retest-bot check"));
}

#[tokio::test]
async fn a_wrong_callback_token_is_refused_and_touches_no_retry() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    let key = stage.lab.runs()[0].key.clone();
    let body = br#"{"state":"passed"}"#.to_vec();
    for headers in [&[][..], &[("authorization", "Bearer 00")][..]] {
        let answer = post(&stage, &format!("/callbacks/lab/{key}"), body.clone(), headers).await;
        assert_eq!(answer.status(), 403);
    }
    stage.settle().await;
    assert_eq!(stage.status("lava-x86"), "pending");
}

#[tokio::test]
async fn health_is_told_and_metrics_count() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    let get = |path: &'static str| {
        let url = format!("{}{path}", stage.bot_url());
        async move { reqwest::get(url).await.expect("an answer").text().await.expect("text") }
    };
    assert_eq!((get("/healthz").await.as_str(), get("/readyz").await.as_str()), ("ok\n", "ready\n"));
    let metrics = get("/metrics").await;
    for line in [
        "retest_commands_total{command=\"retest\",outcome=\"answered\"} 1",
        "retest_deliveries_total{forge=\"forge\",outcome=\"stored\"}",
        "retest_dispatch_seconds_count 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(!metrics.contains("story-token") && !metrics.contains("story-webhook-secret"), "no secret in metrics");
}

async fn some_delivery(stage: &Stage) -> NewDelivery {
    stage.say("tom", "/retest lava-x86");
    stage.deliver().await;
    let waiting =
        stage.world().store.waiting_deliveries(Timestamp::from_ms(i64::MAX / 2), 10).await.expect("the store");
    let one = waiting.into_iter().find(|d| d.lane.is_some()).expect("the comment");
    NewDelivery { forge: one.forge, id: one.id, event: one.event, at: one.at }
}

#[tokio::test]
async fn a_hundred_copies_of_one_delivery_at_once_are_stored_once() {
    let stage = Stage::set(Side::GitHub).await;
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("a.db"), 64).await.expect("a store");
    let delivery = some_delivery(&stage).await;
    let all = futures_util::future::join_all((0..100).map(|_| store.accept(delivery.clone()))).await;
    let stored = all.iter().filter(|r| matches!(r, Ok(Accepted::Stored))).count();
    let duplicate = all.iter().filter(|r| matches!(r, Ok(Accepted::Duplicate))).count();
    assert_eq!((stored, duplicate), (1, 99));
    // Another delivery id, the same comment: a second hook of the repository.
    let mut twin = delivery.clone();
    twin.id = "another-guid".into();
    assert_eq!(store.accept(twin).await.expect("the store"), Accepted::Duplicate);
    assert_eq!(store.waiting_deliveries(Timestamp::from_ms(i64::MAX / 2), 10).await.expect("the store").len(), 1);
}

#[tokio::test]
async fn a_copy_taken_while_work_goes_on_opens_and_holds_what_was_stored_before() {
    let stage = Stage::set(Side::GitHub).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let store = Store::open(&path, 64).await.expect("a store");
    let delivery = some_delivery(&stage).await;
    store.accept(delivery.clone()).await.expect("stored");
    let more = (0..200).map(|n| {
        let mut next = delivery.clone();
        next.id = format!("g-{n}").as_str().into();
        next.forge = ForgeName::new(format!("forge-{n}"));
        store.accept(next)
    });
    let (backup, accepted) =
        futures_util::future::join(store.backup(&copy), futures_util::future::join_all(more)).await;
    backup.expect("a copy");
    assert!(accepted.iter().all(|r| matches!(r, Ok(Accepted::Stored))), "work went on");
    assert!(store.backup(&copy).await.is_err(), "a copy is never overwritten");
    let restored = Store::open(&copy, 64).await.expect("the copy opens");
    let held = restored.waiting_deliveries(Timestamp::from_ms(i64::MAX / 2), 500).await.expect("the copy is whole");
    assert!(held.iter().any(|d| d.id == delivery.id));
}

#[tokio::test]
async fn retention_forgets_what_is_old_and_keeps_what_is_open() {
    let stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    let store = &stage.world().store;
    let change = retest_bot::domain::ChangeKey {
        repo: store.repos().await.expect("the store")[0].key.clone(),
        number: stage.number,
    };
    let head = retest_bot::domain::CommitSha::parse(crate::story::HEAD).expect("a commit");
    let far = Timestamp::from_ms(i64::MAX / 2);
    store.forget_before(far).await.expect("the store");
    assert_eq!(store.retries_of(&change, &head).await.expect("the store").len(), 1, "an open retry stays");
    assert!(
        !store.jobs(&change.repo, &head, &JobQuery::All).await.expect("the store").is_empty(),
        "an open change's jobs stay"
    );
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    stage.close();
    stage.settle().await;
    let gone = store.forget_before(far).await.expect("the store");
    assert!(gone > 0);
    assert!(store.retries_of(&change, &head).await.expect("the store").is_empty());
    assert!(store.jobs(&change.repo, &head, &JobQuery::All).await.expect("the store").is_empty());
    assert!(store.change(&change, i64::MAX).await.expect("the store").is_none());
}

#[tokio::test]
async fn a_throttle_outlives_a_restart() {
    use retest_bot::sandbox::wire::{Fault, Reply};
    let mut stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    let busy = Reply::message(429, "secondary rate limit").with("retry-after", "300");
    stage.forge().break_next(None, "/permission", 1, Fault::Answer(busy));
    stage.comment("tom", "/retest lava-x86").await;
    stage.restart().await;
    stage.forge().forget_requests();
    stage.pass(Duration::from_secs(120)).await;
    assert!(stage.forge().requests().is_empty(), "left alone: {:?}", stage.forge().requests());
    stage.pass(Duration::from_secs(200)).await;
    assert_eq!(stage.lab.runs().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_stored_is_answered_503_and_taken_when_it_comes_again() {
    let mut stage = Stage::set(Side::GitHub).await;
    stage.lab_status("lava-x86", false).await;
    stage.world().store.close().await;
    stage.say("tom", "/retest lava-x86");
    let sent = stage.github().deliver().await;
    assert!(sent.iter().all(|d| d.status == Some(503)), "{sent:?}");
    stage.start(retest_bot::flow::StopAt::Never).await;
    for delivery in &sent {
        stage.github().redeliver(&delivery.guid);
    }
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

#[derive(serde::Deserialize)]
struct Published {
    name: String,
    examples: Vec<serde_json::Value>,
}

#[tokio::test]
async fn every_published_example_of_all_events_is_answered_2xx() {
    let text = std::fs::read_to_string(crate::prism::tools().join("webhooks-examples.json")).expect("prepared");
    let events: Vec<Published> = serde_json::from_str(&text).expect("the published form");
    assert!(events.len() >= 58, "{} events", events.len());
    let stage = Stage::set(Side::GitHub).await;
    for (number, (event, example)) in events.iter().flat_map(|e| e.examples.iter().map(move |x| (e, x))).enumerate() {
        let body = example.to_string().into_bytes();
        let mut mac = <hmac::Hmac<sha2::Sha256> as hmac::KeyInit>::new_from_slice(crate::story::SECRET.as_bytes())
            .expect("any key");
        hmac::Mac::update(&mut mac, &body);
        let signature = format!("sha256={}", hex::encode(hmac::Mac::finalize(mac).into_bytes()));
        let guid = format!("example-{number}");
        let headers = [
            ("x-github-event", event.name.as_str()),
            ("x-github-delivery", guid.as_str()),
            ("x-hub-signature-256", signature.as_str()),
            ("content-type", "application/json"),
        ];
        let answer = post(&stage, "/webhooks/forge", body, &headers).await;
        assert_eq!(answer.status(), 202, "{} {number}", event.name);
    }
}
