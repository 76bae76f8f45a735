//! Troubles: hanging, failing, lying and throttling forges and runners. No write is ever repeated blindly.

use http::Method;
use retest_bot::domain::Timestamp;
use retest_bot::sandbox::wire::{Fault, Reply};

use super::on_both_forges;
use super::stage::{Side, Stage};

on_both_forges! {
    a_lab_that_answers_nothing_after_taking_the_job_is_asked_and_not_told_again,
    a_lab_that_cuts_its_answer_short_runs_the_job_once,
    a_lab_that_is_down_gets_the_job_once_it_is_up,
    a_lab_that_throttles_is_left_alone_as_long_as_it_says,
    a_lab_that_refuses_is_quoted,
    a_native_restart_whose_answer_is_lost_is_read_back,
    a_native_restart_that_meets_a_server_error_after_it_worked_runs_once,
    a_forge_that_throttles_the_permission_look_up_is_asked_again_later,
    a_permission_look_up_that_is_refused_starts_nothing,
    a_status_that_cannot_be_posted_is_posted_later,
    a_report_deleted_by_hand_is_written_anew,
    a_wrong_signature_touches_nothing,
}

async fn a_lab_that_answers_nothing_after_taking_the_job_is_asked_and_not_told_again(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab.wire.break_next(Some(Method::POST), "/runs", 1, Fault::ResetAfterEffect);
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(60).await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!(stage.lab.wire.count(&Method::POST, "/runs"), 1, "one POST, then a look-up");
    assert_eq!(stage.status("lava-x86"), "success", "{}", stage.report());
    stage.end().await;
}

async fn a_lab_that_cuts_its_answer_short_runs_the_job_once(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab.wire.break_next(Some(Method::POST), "/runs", 1, Fault::Truncate);
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(60).await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    assert_eq!((stage.lab.runs().len(), stage.status("lava-x86").as_str()), (1, "success"), "{}", stage.report());
    stage.end().await;
}

async fn a_lab_that_is_down_gets_the_job_once_it_is_up(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.lab.wire.break_next(Some(Method::POST), "/runs", 2, Fault::ResetBefore);
    stage.comment("tom", "/retest lava-x86").await;
    for _ in 0..6 {
        stage.pass_s(60).await;
    }
    assert_eq!(stage.lab.runs().len(), 1, "{}", stage.report());
    stage.end().await;
}

async fn a_lab_that_throttles_is_left_alone_as_long_as_it_says(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let busy = Reply::message(429, "slow down").with("retry-after", "120");
    stage.lab.wire.break_next(Some(Method::POST), "/runs", 1, Fault::Answer(busy));
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(100).await;
    assert_eq!(stage.lab.wire.count(&Method::POST, "/runs"), 1);
    stage.pass_s(30).await;
    assert_eq!((stage.lab.wire.count(&Method::POST, "/runs"), stage.lab.runs().len()), (2, 1));
    stage.end().await;
}

async fn a_lab_that_refuses_is_quoted(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let no = Reply::message(422, "device type x86 is retired");
    stage.lab.wire.break_next(Some(Method::POST), "/runs", 1, Fault::Answer(no));
    stage.comment("tom", "/retest lava-x86").await;
    assert!(stage.report().contains("device type x86 is retired"), "{}", stage.report());
    assert_eq!(stage.status("lava-x86"), "failure");
    assert_eq!(stage.lab.wire.count(&Method::POST, "/runs"), 1);
    stage.end().await;
}

async fn a_native_restart_whose_answer_is_lost_is_read_back(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.native_run(&["unit"], &["unit"]).await;
    let path = if side == Side::GitHub { "/rerun" } else { "/retry" };
    stage.forge().break_next(Some(Method::POST), path, 1, Fault::ResetAfterEffect);
    stage.comment("tom", "/retest unit").await;
    stage.pass_s(60).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.forge().count(&Method::POST, path)), (2, 1));
    stage.end_native(group, "unit", true);
    stage.pass_s(60).await;
    assert_eq!(stage.status("retest"), "success", "{}", stage.report());
    stage.end().await;
}

async fn a_native_restart_that_meets_a_server_error_after_it_worked_runs_once(side: Side) {
    let stage = Stage::set(side).await;
    let group = stage.native_run(&["unit"], &["unit"]).await;
    let path = if side == Side::GitHub { "/rerun" } else { "/retry" };
    stage.forge().break_next(Some(Method::POST), path, 1, Fault::AnswerAfterEffect(Reply::message(502, "bad gateway")));
    stage.comment("tom", "/retest unit").await;
    stage.pass_s(60).await;
    assert_eq!((stage.native_runs(group, "unit"), stage.forge().count(&Method::POST, path)), (2, 1));
    stage.end().await;
}

async fn a_forge_that_throttles_the_permission_look_up_is_asked_again_later(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let path = if side == Side::GitHub { "/permission" } else { "/members/" };
    let busy = Reply { status: 429, headers: vec![("retry-after", "90".into())], body: "Retry later".into() };
    stage.forge().break_next(Some(Method::GET), path, 1, Fault::Answer(busy));
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(60).await;
    assert!(stage.lab.runs().is_empty(), "the forge said 90 s");
    assert_eq!(stage.forge().count(&Method::GET, path), 1, "and was left alone");
    stage.pass_s(40).await;
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

async fn a_permission_look_up_that_is_refused_starts_nothing(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let path = if side == Side::GitHub { "/permission" } else { "/members/" };
    let no = Reply::message(403, "Resource not accessible by integration");
    stage.forge().break_next(Some(Method::GET), path, 50, Fault::Answer(no));
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(600).await;
    assert!(stage.lab.runs().is_empty());
    assert!(stage.report().contains("could not be looked up"), "{}", stage.report());
    stage.end().await;
}

async fn a_status_that_cannot_be_posted_is_posted_later(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    let path = "/statuses/";
    stage.forge().break_next(Some(Method::POST), path, 2, Fault::Answer(Reply::message(503, "maintenance")));
    stage.comment("tom", "/retest lava-x86").await;
    stage.pass_s(30).await;
    stage.pass_s(30).await;
    assert_eq!((stage.status("lava-x86").as_str(), stage.status("retest").as_str()), ("pending", "pending"));
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}

async fn a_report_deleted_by_hand_is_written_anew(side: Side) {
    let stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    let gone = Reply::message(404, "Not Found");
    let (method, path) =
        if side == Side::GitHub { (Method::PATCH, "/issues/comments/") } else { (Method::PUT, "/notes/") };
    stage.forge().break_next(Some(method), path, 1, Fault::Answer(gone));
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(60).await;
    stage.pass_s(60).await;
    assert!(stage.reports().iter().any(|r| r.contains("passed on run 2")), "{:#?}", stage.reports());
    stage.end().await;
}

async fn a_wrong_signature_touches_nothing(side: Side) {
    let stage = Stage::set(side).await;
    let body = r#"{"action":"created","object_kind":"note"}"#;
    let client = reqwest::Client::new();
    let url = format!("{}/webhooks/forge", stage.bot_url());
    let wrong = client
        .post(&url)
        .header("x-github-event", "issue_comment")
        .header("x-github-delivery", "d-1")
        .header("x-hub-signature-256", format!("sha256={}", "0".repeat(64)))
        .header("x-gitlab-event", "Note Hook")
        .header("x-gitlab-token", "not-the-token-that-was-agreed-on")
        .body(body)
        .send()
        .await
        .expect("an answer");
    assert_eq!(wrong.status(), 403);
    let unsigned =
        client.post(&url).header("x-github-event", "issue_comment").body(body).send().await.expect("an answer");
    assert_eq!(unsigned.status(), 401);
    assert!(
        stage
            .world()
            .store
            .waiting_deliveries(Timestamp::from_ms(i64::MAX / 2), 10)
            .await
            .expect("the store")
            .is_empty()
    );
    stage.end().await;
}
