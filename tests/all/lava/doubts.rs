//! When the lab refuses, fails, is silent or away.

use http::Method;
use retest_bot::sandbox::lava::End;
use retest_bot::sandbox::wire::{Fault, Reply};

use super::{JOB, LAVA_TOKEN, Lab, Side, on_both_forges};

on_both_forges! {
    a_lost_answer_is_found_by_key_and_the_job_runs_once,
    a_submission_that_never_arrived_is_made_once_more_when_that_is_certain,
    a_wrong_token_is_told_and_starts_nothing,
    a_token_that_is_refused_for_a_while_loses_no_run,
    a_lab_that_goes_down_and_comes_back_is_followed_on,
    what_lava_refuses_is_told_in_its_words,
    a_job_that_lava_has_forgotten_is_told,
    a_callback_hurries_the_next_look_and_says_nothing_itself,
}

async fn a_lost_answer_is_found_by_key_and_the_job_runs_once(side: Side) {
    for fault in
        [Fault::ResetAfterEffect, Fault::Truncate, Fault::AnswerAfterEffect(Reply::message(502, "bad gateway"))]
    {
        let lab = Lab::set(side, "").await;
        lab.red("lava-x86", JOB).await;
        lab.lava.wire().break_next(Some(Method::POST), "/jobs/", 1, fault.clone());
        lab.stage.comment("tom", "/retest lava-x86").await;
        lab.stage.pass_s(200).await;
        assert_eq!(lab.lava.jobs().len(), 2, "{fault:?}");
        lab.lava.finish(lab.newest().id, &End::Complete(&[]));
        lab.stage.pass_s(60).await;
        assert_eq!(lab.stage.status("lava-x86"), "success", "{fault:?}");
        assert_eq!(lab.lava.wire().count(&Method::POST, "/jobs/"), 1, "{fault:?}");
        lab.stage.end().await;
    }
}

async fn a_submission_that_never_arrived_is_made_once_more_when_that_is_certain(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.lava.wire().break_next(Some(Method::POST), "/jobs/", 1, Fault::ResetBefore);
    lab.stage.comment("tom", "/retest lava-x86").await;
    lab.stage.pass_s(30).await;
    assert_eq!(lab.lava.wire().count(&Method::POST, "/jobs/"), 1, "LAVA may be about to store it");
    for _ in 0..6 {
        lab.stage.pass_s(60).await;
    }
    assert_eq!(lab.lava.jobs().len(), 2);
    lab.lava.finish(lab.newest().id, &End::Complete(&[]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("lava-x86"), "success");
    lab.stage.end().await;
}

async fn a_wrong_token_is_told_and_starts_nothing(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.lava.set_token("another");
    lab.stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(lab.lava.jobs().len(), 1);
    let report = lab.stage.report();
    assert!(report.contains("does not accept the token of this bot"), "{report}");
    assert!(!report.contains(LAVA_TOKEN));
    lab.stage.end().await;
}

async fn a_token_that_is_refused_for_a_while_loses_no_run(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    lab.lava.set_token("another");
    for _ in 0..8 {
        lab.stage.pass_s(60).await;
    }
    lab.lava.set_token(LAVA_TOKEN);
    lab.lava.finish(lab.newest().id, &End::Complete(&[]));
    lab.stage.pass_s(400).await;
    assert_eq!(lab.stage.status("lava-x86"), "success");
    lab.stage.end().await;
}

async fn a_lab_that_goes_down_and_comes_back_is_followed_on(side: Side) {
    let lab = Lab::set(side, "").await;
    lab.red("lava-x86", JOB).await;
    lab.lava.wire().break_next(None, "/jobs/", 3, Fault::Answer(Reply::message(503, "restarting")));
    lab.stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(lab.stage.status("lava-x86"), "pending", "it is waited for");
    for _ in 0..4 {
        lab.stage.pass_s(30).await;
    }
    assert_eq!(lab.lava.jobs().len(), 2, "{}", lab.stage.report());
    for fault in [Fault::ResetBefore, Fault::Truncate, Fault::Answer(Reply::message(500, "oops"))] {
        lab.lava.wire().break_next(None, "/jobs/", 1, fault);
        lab.stage.pass_s(300).await;
    }
    lab.lava.finish(lab.newest().id, &End::Complete(&[("boots", "pass")]));
    lab.stage.pass_s(300).await;
    assert_eq!(lab.stage.status("lava-x86"), "success");
    lab.stage.end().await;
}

async fn what_lava_refuses_is_told_in_its_words(side: Side) {
    let table = [
        (JOB.replace("qemu", "retired-board"), "Devices unavailable"),
        (JOB.replace("timeouts", "timeout"), "required key not provided"),
        ("- no definition\n".to_owned(), "no job definition"),
    ];
    for (definition, words) in table {
        let lab = Lab::set(side, "").await;
        lab.red("lava-x86", &definition).await;
        lab.stage.comment("tom", "/retest lava-x86").await;
        assert!(lab.stage.report().contains(words), "{}", lab.stage.report());
        assert_eq!((lab.lava.jobs().len(), lab.stage.status("lava-x86").as_str()), (1, "failure"));
        lab.stage.end().await;
    }
}

async fn a_job_that_lava_has_forgotten_is_told(side: Side) {
    let lab = Lab::set(side, "").await;
    let old = lab.red("lava-x86", JOB).await;
    lab.lava.forget(old);
    lab.stage.comment("tom", "/retest lava-x86").await;
    assert!(lab.stage.report().contains(&format!("has no job {old} that this bot may see")), "{}", lab.stage.report());
    lab.stage.end().await;
}

async fn a_callback_hurries_the_next_look_and_says_nothing_itself(side: Side) {
    let more = "callback_secret = { env = \"SECRET\" }\n[server]\npublic_url = \"https://bot.example\"";
    let lab = Lab::set(side, more).await;
    lab.red("lava-x86", JOB).await;
    lab.stage.comment("tom", "/retest lava-x86").await;
    let new = lab.newest();
    let text = new.definition.split_once("\"notify\": ").map(|(_, rest)| rest.lines().next().unwrap_or_default());
    let notify: serde_json::Value = serde_json::from_str(text.expect("a callback")).expect("JSON");
    let callback = &notify["callbacks"][0];
    let (url, token) = (callback["url"].as_str().expect("a URL"), callback["token"].as_str().expect("a token"));
    let url = url.replace("https://bot.example", lab.stage.bot_url());
    let post =
        |token: &str| reqwest::Client::new().post(&url).header("authorization", token).body(r#"{"health": 1}"#).send();
    assert_eq!(post("Bearer 00").await.expect("an answer").status(), 403);
    assert_eq!(post(token).await.expect("an answer").status(), 202);
    lab.stage.settle().await;
    assert_eq!(lab.stage.status("lava-x86"), "pending", "whoever reads the definition knows the token");
    lab.lava.finish(new.id, &End::Complete(&[]));
    assert_eq!(post(token).await.expect("an answer").status(), 202);
    lab.stage.settle().await;
    assert_eq!(lab.stage.status("lava-x86"), "success", "without any time gone by");
    lab.stage.end().await;
}
