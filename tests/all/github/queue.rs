//! The merge queue: what it tells, and what becomes of an entry whose required contexts fail or pass.

use axum::http::StatusCode;
use retest_bot::domain::{CommitSha, ForgeEvent, JobState, QueueEvent, Timestamp};
use retest_bot::ports::{Decoded, Forge as _, StatusPost, StatusState, WebhookRequest};
use retest_bot::sandbox::github::{NewJob, NewPull, NewWorkflow, QueuePlace};
use retest_bot::sandbox::wire::Wire;

use super::{HEAD, REPO, Site, app};

const NEXT: &str = "2222222222222222222222222222222222222222";

async fn listening() -> (Site, Wire) {
    let site = Site::new(app()).await;
    let receiver = Wire::serve(axum::Router::new().fallback(|| async { StatusCode::ACCEPTED })).await.expect("a port");
    site.sandbox.hook(&receiver.base_url(), super::SECRET);
    (site, receiver)
}

async fn heard(site: &Site, receiver: &Wire) -> Vec<ForgeEvent> {
    receiver.forget_requests();
    site.sandbox.deliver().await;
    let decode = |request: retest_bot::sandbox::wire::Recorded| {
        let request =
            WebhookRequest { headers: request.headers, body: request.body, at: Timestamp::from_ms(super::START_MS) };
        match site.forge.receive(&request).expect("authentic") {
            Decoded::Wanted(wanted) => Some(wanted.event),
            Decoded::Ignored(_) => None,
            Decoded::Malformed(what) => panic!("{what}"),
        }
    };
    receiver.requests().into_iter().filter_map(decode).collect()
}

fn queue_events(events: &[ForgeEvent]) -> Vec<&QueueEvent> {
    let of = |event: &'_ ForgeEvent| matches!(event, ForgeEvent::Queue(_));
    let found = events.iter().filter(|event| of(event));
    found.map(|event| if let ForgeEvent::Queue(entry) = event { &**entry } else { panic!("{event:?}") }).collect()
}

fn workflow(jobs: &[&str]) -> NewWorkflow {
    NewWorkflow {
        name: "CI".into(),
        path: ".github/workflows/ci.yml".into(),
        event: "merge_group".into(),
        jobs: jobs.iter().map(|name| NewJob { name: (*name).into(), needs: Vec::new() }).collect(),
        needs_approval: false,
    }
}

#[tokio::test]
async fn an_entry_is_heard_with_its_commit_and_its_jobs_belong_to_that_commit() {
    let (site, receiver) = listening().await;
    site.sandbox.required(REPO, "release/1.0", &["unit"]);
    let new = NewPull { base_ref: "release/1.0".into(), ..NewPull::default() };
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, new);
    let sha = site.sandbox.enqueue(REPO, number);
    let run = site.sandbox.start_workflow(REPO, &sha, workflow(&["unit"]));
    site.sandbox.finish_job(run, "unit", "failure");
    let events = heard(&site, &receiver).await;
    let told: Vec<_> =
        queue_events(&events).iter().map(|e| (e.number, e.sha.as_str(), e.base_ref.as_str(), e.over)).collect();
    let of = |over| (number, sha.as_str(), "release/1.0", over);
    assert_eq!(told, [of(false), of(true)], "asked for, then destroyed");
    let failed = events.iter().any(|event| match event {
        ForgeEvent::Jobs(jobs) => jobs.sha.as_str() == sha && jobs.jobs.iter().any(|job| job.state == JobState::Failed),
        _ => false,
    });
    assert!(failed, "{events:#?}");
    assert_eq!(site.sandbox.queue_place(REPO, number), QueuePlace::Ejected);
    assert!(site.forge.change(&site.repo, number).await.expect("a change").open, "out of the queue, not closed");
    let head = CommitSha::parse(&sha).expect("a commit");
    let change = site.forge.change(&site.repo, number).await.expect("a change");
    let of_entry = retest_bot::domain::Change { head, ..change };
    let listed = site.forge.list_jobs(&site.repo, &of_entry).await.expect("jobs");
    assert_eq!(
        listed.iter().map(|job| (job.name.as_str(), job.state)).collect::<Vec<_>>(),
        [("unit", JobState::Failed)]
    );
}

#[tokio::test]
async fn a_queue_waits_for_a_pending_aggregate_while_a_job_fails_and_runs_again() {
    let (site, receiver) = listening().await;
    site.sandbox.required(REPO, "main", &["retest"]);
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let sha = site.sandbox.enqueue(REPO, number);
    let change = site.forge.change(&site.repo, number).await.expect("a change");
    let head = CommitSha::parse(&sha).expect("a commit");
    let post = |state| StatusPost { context: "retest".into(), state, description: "d".into(), target_url: None };
    site.forge.post_status(&site.repo, &change, &head, &post(StatusState::Pending)).await.expect("posted");
    let run = site.sandbox.start_workflow(REPO, &sha, workflow(&["unit"]));
    site.sandbox.job_log(run, "unit", "usb 1-1: device descriptor read/64, error -110\n");
    site.sandbox.finish_job(run, "unit", "failure");
    assert_eq!(site.sandbox.queue_place(REPO, number), QueuePlace::Waiting(sha.clone()));
    assert!(site.sandbox.press_rerun_run(run, "ann"), "again");
    site.sandbox.finish_job(run, "unit", "success");
    site.forge.post_status(&site.repo, &change, &head, &post(StatusState::Success)).await.expect("posted");
    assert_eq!(site.sandbox.queue_place(REPO, number), QueuePlace::Merged);
    let events = heard(&site, &receiver).await;
    let closed = events.iter().any(|event| matches!(event, ForgeEvent::Change { change, .. } if !change.open));
    let pushed = events.iter().any(|event| matches!(event, ForgeEvent::Push(push) if push.sha.as_str() == sha));
    assert!(closed && pushed, "{events:#?}");
    assert!(queue_events(&events).last().is_some_and(|entry| entry.over));
}

#[tokio::test]
async fn what_stands_behind_an_ejected_entry_is_built_anew_and_merged_in_order() {
    let (site, receiver) = listening().await;
    site.sandbox.required(REPO, "main", &["unit"]);
    let first = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let second = site.sandbox.open_pull(REPO, "bob", NEXT, NewPull::default());
    let (one, two) = (site.sandbox.enqueue(REPO, first), site.sandbox.enqueue(REPO, second));
    site.sandbox.set_status(REPO, &two, "unit", "success", "", "");
    assert_eq!(site.sandbox.queue_place(REPO, second), QueuePlace::Waiting(two.clone()), "not before the first");
    site.sandbox.set_status(REPO, &one, "unit", "failure", "", "");
    assert_eq!(site.sandbox.queue_place(REPO, first), QueuePlace::Ejected);
    let QueuePlace::Waiting(anew) = site.sandbox.queue_place(REPO, second) else { panic!("still in the queue") };
    assert_ne!(anew, two);
    site.sandbox.set_status(REPO, &anew, "unit", "success", "", "");
    assert_eq!(site.sandbox.queue_place(REPO, second), QueuePlace::Merged);
    let events = heard(&site, &receiver).await;
    let told: Vec<_> = queue_events(&events).iter().map(|e| (e.sha.as_str(), e.over)).collect();
    let (one, two, anew) = (one.as_str(), two.as_str(), anew.as_str());
    assert_eq!(told, [(one, false), (two, false), (one, true), (two, true), (anew, false), (anew, true)]);
    let again = site.sandbox.enqueue(REPO, first);
    site.sandbox.dequeue(REPO, first);
    assert_ne!(again, one);
    assert_eq!(site.sandbox.queue_place(REPO, first), QueuePlace::Removed);
}
