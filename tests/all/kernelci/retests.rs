//! A failed node is run again, and everybody learns how it went.

use serde_json::json;

use super::{Setting, Site};
use crate::story::{Side, on_both_forges};

on_both_forges! {
    a_failed_node_becomes_a_retry_event_a_new_node_and_a_green_status,
    a_platform_can_be_named_and_only_its_job_runs_again,
    an_infrastructure_error_is_named_with_its_code,
    a_second_retest_uses_a_counter_that_nobody_had,
    a_build_is_not_run_again_unless_the_operator_allows_it,
    an_allowed_build_is_run_again_from_its_checkout,
    jobs_of_other_trees_are_none_of_ours,
    more_nodes_than_a_page_holds_are_all_known,
    a_cancelled_retry_says_that_its_run_goes_on,
}

async fn a_failed_node_becomes_a_retry_event_a_new_node_and_a_green_status(side: Side) {
    let site = Site::set(side).await;
    let failed = site.ended(("baseline-x86", "lava-x86"), "incomplete", Some(("Infrastructure", "Connection closed")));
    site.stage.comment("tom", "/retest baseline-x86").await;
    let events = site.kernelci.events();
    assert_eq!(events.len(), 1, "{}", site.stage.report());
    let event = &events[0];
    assert_eq!(
        (&event["id"], &event["kind"], &event["state"]),
        (&json!(site.build), &json!("kbuild"), &json!("available"))
    );
    assert_eq!((&event["jobfilter"], &event["platform_filter"]), (&json!(["baseline-x86"]), &json!(["lava-x86"])));
    assert_eq!((&event["retry_counter"], &event["debug"]["retry_by"]), (&json!(1), &json!(failed)));
    assert_eq!(event["debug"]["retry"], "manual");
    assert_eq!(site.stage.status("baseline-x86"), "pending", "taken, and no node yet");
    site.pass_s(120).await;
    assert_eq!(site.kernelci.schedule(), 1, "the node appears late");
    site.pass_s(60).await;
    assert!(site.stage.report().contains("running"), "{}", site.stage.report());
    site.end("baseline-x86", "pass", None);
    site.pass_s(60).await;
    let states = (site.stage.status("baseline-x86"), site.stage.status("retest"));
    assert_eq!(states, ("success".into(), "success".into()), "{}", site.stage.report());
    let node = site.kernelci.newest("baseline-x86").expect("a node");
    assert_eq!(node["parent"], site.build, "below the same build");
    assert!(site.stage.report().contains(node["id"].as_str().expect("an id")), "{}", site.stage.report());
    assert_eq!(site.kernelci.events().len(), 1);
    site.end_story().await;
}

async fn a_platform_can_be_named_and_only_its_job_runs_again(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline", "lava-x86"), "fail", None);
    site.ended(("baseline", "lava-arm64"), "fail", None);
    site.stage.comment("tom", "/retest platform:lava-arm64").await;
    let events = site.kernelci.events();
    assert_eq!(events.len(), 1, "{}", site.stage.report());
    assert_eq!(events[0]["platform_filter"], json!(["lava-arm64"]));
    site.kernelci.schedule();
    assert_eq!(site.kernelci.count("baseline"), 3, "one board, one new node");
    site.end("baseline", "pass", None);
    site.pass_s(60).await;
    assert_eq!(site.stage.status("baseline"), "success");
    site.stage.comment("tom", "/retest baseline").await;
    assert_eq!(site.kernelci.events().last().expect("an event")["platform_filter"], json!(["lava-x86"]));
    let other = "kbuild-gcc-14-x86:lava-x86:lava-one / baseline";
    assert_eq!((site.stage.status(other), site.stage.status("baseline")), ("pending".into(), "success".into()));
    site.end_story().await;
}

async fn an_infrastructure_error_is_named_with_its_code(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    site.kernelci.schedule();
    site.end("baseline-x86", "incomplete", Some(("Infrastructure", "Connection closed")));
    site.pass_s(60).await;
    let report = site.stage.report();
    assert!(report.contains("died of its infrastructure on run 2 (`Infrastructure: Connection closed`)"), "{report}");
    assert_eq!(site.stage.status("baseline-x86"), "error");
    site.end_story().await;
}

async fn a_second_retest_uses_a_counter_that_nobody_had(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    for round in 1..=2 {
        site.stage.comment("tom", "/retest baseline-x86").await;
        assert_eq!(site.kernelci.events().last().expect("an event")["retry_counter"], json!(round));
        assert_eq!(site.kernelci.schedule(), 1, "the scheduler drops what it has just seen; this it has not");
        site.pass_s(20).await;
        site.end("baseline-x86", "fail", None);
        site.pass_s(60).await;
    }
    assert!(site.stage.report().contains("failed again, on run 3"), "{}", site.stage.report());
    site.end_story().await;
}

async fn a_build_is_not_run_again_unless_the_operator_allows_it(side: Side) {
    let site = Site::set(side).await;
    let checkout = site.kernelci.checkout("mainline", "master", crate::story::HEAD);
    site.kernelci.build(&checkout, "kbuild-clang-17-x86", "fail");
    site.stage.comment("tom", "/retest kbuild-clang-17-x86").await;
    assert!(site.kernelci.events().is_empty());
    assert!(site.stage.report().contains("`retry_builds = true`"), "{}", site.stage.report());
    site.end_story().await;
}

async fn an_allowed_build_is_run_again_from_its_checkout(side: Side) {
    let site = Site::set_with(side, Setting { more: "retry_builds = true", ..Setting::default() }).await;
    let checkout = site.kernelci.checkout("mainline", "master", crate::story::HEAD);
    site.kernelci.build(&checkout, "kbuild-clang-17-x86", "fail");
    site.stage.comment("tom", "/retest kbuild-clang-17-x86").await;
    let events = site.kernelci.events();
    assert_eq!(events.len(), 1, "{}", site.stage.report());
    assert_eq!((&events[0]["id"], &events[0]["jobfilter"]), (&json!(checkout), &json!(["kbuild-clang-17-x86+"])));
    site.kernelci.build(&checkout, "kbuild-clang-17-x86", "pass");
    site.pass_s(60).await;
    assert_ne!(site.stage.status("kbuild-clang-17-x86"), "success", "that node has not our counter");
    site.end_story().await;
}

async fn jobs_of_other_trees_are_none_of_ours(side: Side) {
    let site = Site::set_with(side, Setting { more: "trees = [\"next\"]", ..Setting::default() }).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    assert!(site.kernelci.events().is_empty());
    assert!(site.stage.report().contains("no job of that name"), "{}", site.stage.report());
    site.end_story().await;
}

async fn more_nodes_than_a_page_holds_are_all_known(side: Side) {
    let site = Site::set(side).await;
    for number in 0..230 {
        site.ended((&format!("test-{number}"), "lava-x86"), "pass", None);
    }
    site.ended(("last-one", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest").await;
    assert_eq!(site.kernelci.events().len(), 1, "{}", site.stage.report());
    assert_eq!(site.kernelci.events()[0]["jobfilter"], json!(["last-one"]));
    site.end_story().await;
}

async fn a_cancelled_retry_says_that_its_run_goes_on(side: Side) {
    let site = Site::set(side).await;
    site.ended(("baseline-x86", "lava-x86"), "fail", None);
    site.stage.comment("tom", "/retest baseline-x86").await;
    site.stage.comment("tom", "/cancel baseline-x86").await;
    assert!(
        site.stage.report().contains("its runner cannot cancel a run, so the run goes on"),
        "{}",
        site.stage.report()
    );
    assert_eq!(site.stage.status("baseline-x86"), "error");
    site.end_story().await;
}
