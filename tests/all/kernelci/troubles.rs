//! KernelCI does not answer, says "OK" and does nothing, or does not want us. Nothing is ever asked for twice.

use http::Method;
use retest_bot::sandbox::wire::{Fault, Reply};

use super::{Setting, Site};
use crate::story::{Side, on_both_forges};

on_both_forges! {
    a_node_that_never_appears_is_lost_and_can_be_asked_for_again,
    the_ok_of_the_fallback_proves_nothing,
    the_fallback_is_asked_where_publishing_is_refused,
    a_wrong_token_is_told_to_the_asker,
    an_api_that_is_down_holds_the_command_back_and_up_again_runs_it,
    an_api_that_is_down_does_not_stop_the_jobs_of_others,
    a_lost_answer_is_looked_for_and_not_sent_again,
    a_lost_answer_of_an_event_that_never_arrived_ends_as_lost,
    a_list_that_is_cut_off_is_asked_for_again,
    a_crash_after_publishing_finds_the_node,
}

async fn a_node_that_never_appears_is_lost_and_can_be_asked_for_again(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    site.kernelci.drop_events();
    for _ in 0..11 {
        site.pass_s(60).await;
    }
    assert!(site.stage.report().contains("made no node for it within 10 min"), "{}", site.stage.report());
    assert_eq!((site.stage.status("baseline-x86").as_str(), site.kernelci.events().len()), ("error", 1));
    site.stage.comment("tom", "/retest baseline-x86").await;
    assert_eq!(site.kernelci.events().len(), 2, "{}", site.stage.report());
    site.end_story().await;
}

async fn the_ok_of_the_fallback_proves_nothing(side: Side) {
    let site = Site::set_with(side, Setting { no_token: true, fallback: true, ..Setting::default() }).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    assert_eq!(site.kernelci.wire().count(&Method::POST, "/api/jobretry"), 1);
    assert_eq!(site.kernelci.schedule(), 0, "OK was said and nothing follows");
    assert_eq!(site.stage.status("baseline-x86"), "pending");
    for _ in 0..11 {
        site.pass_s(60).await;
    }
    assert_eq!(site.stage.status("baseline-x86"), "error");
    assert!(site.stage.report().contains("made no node for it"), "{}", site.stage.report());
    site.end_story().await;
}

async fn the_fallback_is_asked_where_publishing_is_refused(side: Side) {
    let site = Site::set_with(side, Setting { wrong_token: true, fallback: true, ..Setting::default() }).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    let posts = |path| site.kernelci.wire().count(&Method::POST, path);
    assert_eq!((posts("/publish/retry"), posts("/api/jobretry")), (1, 1));
    // A pipeline that carries it out makes a node with the counter of the build.
    let build = site.build.clone();
    let new = retest_bot::sandbox::kernelci::NewJob { name: "baseline-x86", platform: "lava-x86", runtime: "lava-one" };
    site.pass_s(30).await;
    site.kernelci.job(&build, &new);
    site.end("baseline-x86", "pass", None);
    site.pass_s(60).await;
    assert_eq!(site.stage.status("baseline-x86"), "success", "{}", site.stage.report());
    site.end_story().await;
}

async fn a_wrong_token_is_told_to_the_asker(side: Side) {
    let site = Site::set_with(side, Setting { wrong_token: true, ..Setting::default() }).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    let report = site.stage.report();
    assert!(report.contains("401 Unauthorized"), "{report}");
    assert!(!report.contains("story-token"), "the token itself is nobody's business: {report}");
    assert_eq!((site.stage.status("baseline-x86").as_str(), site.kernelci.events().len()), ("failure", 0));
    site.end_story().await;
}

async fn an_api_that_is_down_holds_the_command_back_and_up_again_runs_it(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.kernelci.wire().break_next(None, "/latest/", 2, Fault::ResetBefore);
    site.stage.comment("tom", "/retest baseline-x86").await;
    assert!(site.kernelci.events().is_empty());
    site.pass_s(60).await;
    site.pass_s(60).await;
    assert_eq!(site.kernelci.events().len(), 1, "{}", site.stage.report());
    site.kernelci.wire().break_next(None, "/latest/", 3, Fault::Answer(Reply::message(502, "bad gateway")));
    site.kernelci.schedule();
    site.end("baseline-x86", "pass", None);
    for _ in 0..6 {
        site.pass_s(60).await;
    }
    assert_eq!(site.stage.status("baseline-x86"), "success", "{}", site.stage.report());
    site.end_story().await;
}

async fn an_api_that_is_down_does_not_stop_the_jobs_of_others(side: Side) {
    let site = Site::set(side).await;
    site.stage.lab_status("lava-x86", false).await;
    site.kernelci.wire().break_next(None, "/latest/", 50, Fault::ResetBefore);
    site.stage.comment("tom", "/retest").await;
    assert_eq!(site.stage.lab.runs().len(), 1, "{}", site.stage.report());
    site.end_story().await;
}

async fn a_lost_answer_is_looked_for_and_not_sent_again(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.kernelci.wire().break_next(Some(Method::POST), "/publish/retry", 1, Fault::ResetAfterEffect);
    site.stage.comment("tom", "/retest baseline-x86").await;
    site.pass_s(120).await;
    assert_eq!(site.stage.status("baseline-x86"), "pending", "no node is no proof that nothing was sent");
    assert_eq!(site.kernelci.schedule(), 1);
    site.end("baseline-x86", "pass", None);
    for _ in 0..4 {
        site.pass_s(120).await;
    }
    assert_eq!(site.stage.status("baseline-x86"), "success", "{}", site.stage.report());
    assert_eq!(site.kernelci.wire().count(&Method::POST, "/publish/retry"), 1);
    site.end_story().await;
}

async fn a_lost_answer_of_an_event_that_never_arrived_ends_as_lost(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    let busy = Fault::Answer(Reply::message(504, "gateway time-out"));
    site.kernelci.wire().break_next(Some(Method::POST), "/publish/retry", 1, busy);
    site.stage.comment("tom", "/retest baseline-x86").await;
    for _ in 0..20 {
        site.pass_s(60).await;
    }
    assert_eq!((site.stage.status("baseline-x86").as_str(), site.kernelci.events().len()), ("error", 0));
    assert!(site.stage.report().contains("lost"), "{}", site.stage.report());
    site.end_story().await;
}

async fn a_list_that_is_cut_off_is_asked_for_again(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.kernelci.wire().break_next(Some(Method::GET), "/latest/nodes", 2, Fault::Truncate);
    site.stage.comment("tom", "/retest baseline-x86").await;
    site.pass_s(60).await;
    site.pass_s(60).await;
    assert_eq!(site.kernelci.events().len(), 1, "{}", site.stage.report());
    site.end_story().await;
}

async fn a_crash_after_publishing_finds_the_node(side: Side) {
    let mut site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.crash().await;
    site.stage.start(retest_bot::flow::StopAt::Error(retest_bot::flow::Point::Dispatched)).await;
    site.stage.say("tom", "/retest baseline-x86");
    assert!(site.stage.try_settle().await.is_err(), "stopped after publishing");
    site.stage.restart().await;
    site.pass_s(60).await;
    site.kernelci.schedule();
    site.end("baseline-x86", "pass", None);
    for _ in 0..4 {
        site.pass_s(120).await;
    }
    assert_eq!(site.stage.status("baseline-x86"), "success", "{}", site.stage.report());
    assert_eq!(site.kernelci.events().len(), 1, "published once");
    site.end_story().await;
}
