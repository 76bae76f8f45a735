//! A known flake of a lab: its typed cause, or a line of its log, has the job submitted again.

use retest_bot::sandbox::lava::End;

use super::{JOB, Lab, Side, on_both_forges};

on_both_forges! {
    a_red_status_whose_job_died_of_the_lab_is_submitted_again,
    a_line_of_the_serial_log_is_enough,
    a_kernel_that_panics_is_no_flake,
}

const RULES: &str = "[[flake]]\nlabel = \"lab\"\njobs = [\"lava-*\"]\ncauses = [\"Infrastructure*\"]\n\
                     [[flake]]\nlabel = \"usb\"\njobs = [\"lava-*\"]\nlog = [\"usb .*: device descriptor read\"]\n";

async fn a_red_status_whose_job_died_of_the_lab_is_submitted_again(side: Side) {
    let lab = Lab::set(side, RULES).await;
    let old = lab.lava.submit(JOB);
    lab.lava.finish(old, &End::Incomplete("Infrastructure", "bootloader did not answer"));
    lab.stage.post_lab_status("lava-x86", false, &lab.page(old));
    lab.stage.pass_s(30).await;
    assert_eq!(lab.lava.jobs().len(), 2, "{:?}", lab.stage.reports());
    let report = lab.stage.report();
    assert!(report.contains("known flake `lab`: its cause is `Infrastructure: bootloader did not answer`"), "{report}");
    assert_eq!(lab.stage.status("retest"), "pending");
    lab.lava.finish(lab.newest().id, &End::Complete(&[("boots", "pass")]));
    lab.stage.pass_s(60).await;
    assert_eq!((lab.stage.status("lava-x86").as_str(), lab.stage.status("retest").as_str()), ("success", "success"));
    lab.stage.end().await;
}

async fn a_line_of_the_serial_log_is_enough(side: Side) {
    let lab = Lab::set(side, RULES).await;
    let old = lab.lava.submit(JOB);
    let line = |text: &str| {
        format!("- {{\"dt\": \"2026-05-28T20:26:40.000000\", \"lvl\": \"target\", \"msg\": \"{text}\"}}\n")
    };
    let log = line("booting") + &line("usb 1-1: device descriptor read/64, error -110") + &line("login:");
    lab.lava.set_log(old, &log);
    lab.lava.finish(old, &End::Incomplete("Job", "wait for prompt timed out"));
    lab.stage.post_lab_status("lava-x86", false, &lab.page(old));
    lab.stage.pass_s(30).await;
    assert_eq!(lab.lava.jobs().len(), 2, "{:?}", lab.stage.reports());
    assert!(lab.stage.report().contains("known flake `usb`: log line 2"), "{}", lab.stage.report());
    lab.lava.finish(lab.newest().id, &End::Complete(&[("boots", "pass")]));
    lab.stage.pass_s(60).await;
    assert_eq!(lab.stage.status("retest"), "success");
    lab.stage.end().await;
}

async fn a_kernel_that_panics_is_no_flake(side: Side) {
    let lab = Lab::set(side, RULES).await;
    let old = lab.lava.submit(JOB);
    lab.lava.finish(old, &End::Incomplete("Job", "kernel panic"));
    lab.stage.post_lab_status("lava-x86", false, &lab.page(old));
    lab.stage.settle().await;
    lab.stage.pass_s(600).await;
    assert_eq!(lab.lava.jobs().len(), 1, "{:?}", lab.stage.reports());
    assert!(lab.stage.reports().is_empty());
    lab.stage.end().await;
}
