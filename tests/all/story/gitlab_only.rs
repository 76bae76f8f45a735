//! What only GitLab has: signed webhooks, manual jobs, internal notes, child pipelines, pipelines in forks, the state
//! machine of statuses.

use retest_bot::sandbox::gitlab::{self, NewJob, NewNote, NewPipeline, NoteKind};

use super::stage::{HEAD, Script, Side, Stage};

#[tokio::test]
async fn a_manual_job_is_started_by_test_and_not_by_retest() {
    let stage = Stage::set(Side::GitLab).await;
    let (forge, project) = stage.gitlab();
    let jobs = vec![NewJob { name: "deploy-board".into(), stage: "test".into(), manual: true, ..Default::default() }];
    let pipeline = forge.start_pipeline(
        project,
        NewPipeline {
            sha: HEAD.into(),
            mr_iid: Some(stage.number),
            source: "merge_request_event".into(),
            jobs,
            ..Default::default()
        },
    );
    stage.settle().await;
    stage.comment("wil", "/retest deploy-board").await;
    assert!(stage.report().contains("waits for a person to start it"), "{}", stage.report());
    stage.comment("wil", "/test deploy-board").await;
    let job = forge.jobs(pipeline).into_iter().find(|j| j.name == "deploy-board").expect("the job");
    assert!(["pending", "running"].contains(&job.status.as_str()), "{job:?}");
    stage.end().await;
}

/// The texts of the bot's notes: those that everybody can read, and those for members.
fn told(stage: &Stage) -> (Vec<String>, Vec<String>) {
    let (forge, project) = stage.gitlab();
    let ours = forge.notes(project, stage.number).into_iter().filter(|n| n.body.contains("<!-- retest-bot:"));
    let (members, open): (Vec<_>, Vec<_>) = ours.partition(|n| n.internal);
    let bodies = |notes: Vec<gitlab::NoteView>| notes.into_iter().map(|n| n.body).collect();
    (bodies(open), bodies(members))
}

#[tokio::test]
async fn an_internal_note_is_answered_internally() {
    let stage = Stage::set(Side::GitLab).await;
    stage.lab_status("lava-x86", false).await;
    let (forge, project) = stage.gitlab();
    let note = NewNote { body: "/retest lava-x86".into(), kind: NoteKind::Internal };
    forge.note_as(project, stage.number, "tom", note);
    stage.settle().await;
    assert_eq!(stage.lab.runs().len(), 1);
    let (open, members) = told(&stage);
    assert!(open.is_empty() && members.len() == 1, "{open:?} {members:?}");
    assert!(members[0].contains("`tom`") && members[0].contains("`lava-x86`"), "{}", members[0]);
}

#[tokio::test]
async fn after_an_internal_command_the_public_report_goes_on_and_tells_nothing_of_it() {
    let mut stage = Stage::set(Side::GitLab).await;
    for job in ["lava-x86", "lava-arm64"] {
        stage.lab_status(job, false).await;
    }
    stage.comment("wil", "/retest lava-arm64").await;
    let (forge, project) = stage.gitlab();
    let note = NewNote { body: "/retest lava-x86".into(), kind: NoteKind::Internal };
    forge.note_as(project, stage.number, "tom", note);
    stage.settle().await;
    stage.lab.set("lava-arm64", "ok");
    stage.lab.set("lava-x86", "bad");
    stage.pass_s(60).await;
    let (open, members) = told(&stage);
    assert_eq!((open.len(), members.len()), (1, 1), "one note each: {open:?} {members:?}");
    assert!(open[0].contains("**`lava-arm64`**: passed on run 2"), "it does not freeze: {}", open[0]);
    assert!(!open[0].contains("`tom`") && !open[0].contains("lava-x86"), "nothing leaks: {}", open[0]);
    assert!(members[0].contains("failed again") && members[0].contains("asked by `tom`"), "{}", members[0]);
    stage.restart().await;
    stage.comment("wil", "/why lava-x86\n/why").await;
    let (open, _) = told(&stage);
    assert!(!open[0].contains("`tom`") && !open[0].contains("requested by tom"), "nor does the log leak: {}", open[0]);
    stage.comment("wil", "/help").await;
    let (open, members) = told(&stage);
    assert_eq!((open.len(), members.len()), (1, 1), "edited in place after a restart, too: {open:?} {members:?}");
    stage.end().await;
}

#[tokio::test]
async fn a_failed_job_of_a_child_pipeline_is_retried_there() {
    let stage = Stage::set(Side::GitLab).await;
    let (forge, project) = stage.gitlab();
    let bridge = NewJob { name: "child".into(), stage: "test".into(), bridge: true, ..Default::default() };
    let parent = forge.start_pipeline(
        project,
        NewPipeline {
            sha: HEAD.into(),
            mr_iid: Some(stage.number),
            source: "merge_request_event".into(),
            jobs: vec![bridge],
            ..Default::default()
        },
    );
    let jobs = vec![NewJob { name: "boot".into(), stage: "test".into(), ..Default::default() }];
    let child = forge.start_pipeline(
        project,
        NewPipeline {
            sha: HEAD.into(),
            source: "parent_pipeline".into(),
            child_of: Some((parent, "child".into())),
            jobs,
            ..Default::default()
        },
    );
    forge.finish_job(child, "boot", "failed", Some("script_failure"));
    stage.settle().await;
    stage.comment("tom", "/retest boot").await;
    assert_eq!(forge.jobs(child).into_iter().filter(|j| j.name == "boot").count(), 2, "{}", stage.report());
    stage.end().await;
}

#[tokio::test]
async fn a_pipeline_in_a_fork_is_refused_with_the_reason() {
    let stage = Stage::set_with(Side::GitLab, Script { fork: true, ..Script::default() }).await;
    let (forge, project) = stage.gitlab();
    let request = forge.merge_requests(project).into_iter().find(|m| m.iid == stage.number).expect("the request");
    let jobs = vec![NewJob { name: "unit".into(), stage: "test".into(), ..Default::default() }];
    let pipeline = forge.start_pipeline(
        request.source_project,
        NewPipeline {
            sha: HEAD.into(),
            mr_iid: Some(stage.number),
            source: "merge_request_event".into(),
            jobs,
            ..Default::default()
        },
    );
    forge.finish_job(pipeline, "unit", "failed", Some("script_failure"));
    stage.settle().await;
    stage.comment("tom", "/retest").await;
    let report = stage.report();
    assert!(report.contains("fork"), "{report}");
    assert_eq!(forge.jobs(pipeline).len(), 1);
}

#[tokio::test]
async fn a_status_that_is_locked_for_a_moment_is_posted_after_it() {
    let stage = Stage::set(Side::GitLab).await;
    stage.lab_status("lava-x86", false).await;
    stage.gitlab().0.lock_statuses(2);
    stage.comment("tom", "/retest lava-x86").await;
    for _ in 0..4 {
        stage.pass_s(30).await;
    }
    assert_eq!(stage.status("lava-x86"), "pending", "{}", stage.report());
    stage.end().await;
}

#[tokio::test]
async fn signed_webhooks_are_taken_and_the_plain_token_is_no_way_around_a_wrong_signature() {
    let stage = Stage::set_with(Side::GitLab, Script { signing: true, ..Script::default() }).await;
    stage.lab_status("lava-x86", false).await;
    stage.comment("tom", "/retest lava-x86").await;
    assert_eq!(stage.lab.runs().len(), 1);
    let answer = reqwest::Client::new()
        .post(format!("{}/webhooks/forge", stage.bot_url()))
        .header("x-gitlab-event", "Note Hook")
        .header("x-gitlab-token", super::stage::SECRET)
        .header("webhook-id", "d-9")
        .header("webhook-timestamp", "1780000000")
        .header("webhook-signature", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
        .body(r#"{"object_kind":"note"}"#)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 403);
}

#[tokio::test]
async fn no_webhook_of_a_busy_project_ever_switches_the_hook_off() {
    let stage = Stage::set(Side::GitLab).await;
    let (forge, _): (&gitlab::GitLabSandbox, u64) = stage.gitlab();
    for body in
        ["{}", "[]", "not json", r#"{"object_kind":"emoji"}"#, r#"{"object_kind":"note","object_attributes":7}"#]
    {
        forge.send_raw("Note Hook", body.into());
    }
    forge.deliver().await;
    assert!(forge.hook_state().iter().all(|h| h.failures == 0), "{:?}", forge.hook_state());
}
