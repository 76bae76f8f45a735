//! The crash table: stopped at a named point and started again, the bot converges, and starts nothing twice.

use retest_bot::flow::{Point, StopAt};

use super::on_both_forges;
use super::stage::{Side, Stage};

on_both_forges! {
    stopped_anywhere_the_job_runs_once_and_the_status_ends_green,
    stopped_anywhere_a_native_job_is_restarted_once,
    a_running_retry_is_followed_after_a_restart,
}

async fn stopped_anywhere_the_job_runs_once_and_the_status_ends_green(side: Side) {
    for point in Point::ALL {
        let mut stage = Stage::set(side).await;
        stage.lab_status("lava-x86", false).await;
        stage.crash().await;
        stage.start(StopAt::Error(point)).await;
        stage.say("tom", "/retest lava-x86");
        assert!(stage.try_settle().await.is_err(), "{point:?} was reached");
        stage.restart().await;
        stage.settle().await;
        stage.pass_s(60).await;
        assert_eq!(stage.lab.runs().len(), 1, "{point:?}: started once");
        stage.lab.set("lava-x86", "ok");
        stage.pass_s(60).await;
        assert_eq!(
            (stage.status("lava-x86").as_str(), stage.status("retest").as_str()),
            ("success", "success"),
            "{point:?}"
        );
        assert_eq!(stage.reports().len(), 1, "{point:?}: one report");
        stage.end().await;
    }
}

async fn stopped_anywhere_a_native_job_is_restarted_once(side: Side) {
    for point in [Point::Planned, Point::Claimed, Point::Dispatched] {
        let mut stage = Stage::set(side).await;
        let group = stage.native_run(&["unit"], &["unit"]).await;
        stage.crash().await;
        stage.start(StopAt::Error(point)).await;
        stage.say("tom", "/retest unit");
        assert!(stage.try_settle().await.is_err(), "{point:?} was reached");
        stage.restart().await;
        stage.settle().await;
        stage.pass_s(60).await;
        assert_eq!(stage.native_runs(group, "unit"), 2, "{point:?}");
        stage.end_native(group, "unit", true);
        stage.pass_s(60).await;
        assert_eq!(stage.status("retest"), "success", "{point:?}");
        stage.end().await;
    }
}

async fn a_running_retry_is_followed_after_a_restart(side: Side) {
    let mut stage = Stage::set(side).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    stage.restart().await;
    stage.lab.set("lava-x86", "ok");
    stage.pass_s(600).await;
    assert_eq!(stage.status("lava-x86"), "success");
    assert_eq!(stage.lab.runs().len(), 1);
    stage.end().await;
}
