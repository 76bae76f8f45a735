//! Merge trains: what webhooks tell of them, and what becomes of a merge request whose pipeline fails or passes.

use retest_bot::domain::QueueEvent;
use retest_bot::sandbox::gitlab::TrainPlace;

use super::*;

const NEXT: &str = "4444444444444444444444444444444444444444";

async fn heard(house: &House) -> Vec<ForgeEvent> {
    let receiver = Wire::serve(axum::Router::new().fallback(|| async { "" })).await.expect("a port");
    house.sandbox.hook(&receiver.base_url(), HookSecret { token: Some(HOOK_TOKEN.into()), signing: None });
    house.sandbox.deliver().await;
    let decode = |request: retest_bot::sandbox::wire::Recorded| {
        let request = WebhookRequest { headers: request.headers, body: request.body, at: Timestamp::from_ms(NOW_MS) };
        match house.forge.receive(&request).expect("authentic") {
            Decoded::Wanted(wanted) => Some(wanted.event),
            Decoded::Ignored(_) => None,
            Decoded::Malformed(what) => panic!("{what}"),
        }
    };
    receiver.requests().into_iter().filter_map(decode).collect()
}

fn entries(events: &[ForgeEvent]) -> Vec<&QueueEvent> {
    let mut found = Vec::new();
    for event in events {
        if let ForgeEvent::Queue(entry) = event {
            found.push(&**entry);
        }
    }
    found
}

#[tokio::test]
async fn a_train_is_heard_through_its_jobs_which_belong_to_its_own_commit() {
    let house = house().await;
    let (pipeline, sha) = house.sandbox.enqueue(house.project(), house.iid, vec![plain("unit"), plain("lint")]);
    house.sandbox.finish_job(pipeline, "unit", "failed", Some("runner_system_failure"));
    house.sandbox.finish_job(pipeline, "lint", "success", None);
    assert_eq!(house.sandbox.train_place(house.project(), house.iid), TrainPlace::Dropped);
    let events = heard(&house).await;
    let told: Vec<_> = entries(&events).iter().map(|e| (e.number, e.sha.as_str(), e.over)).collect();
    assert_eq!(told, [(house.iid, sha.as_str(), false), (house.iid, sha.as_str(), false)], "once per job that is made");
    let mut causes = Vec::new();
    for event in &events {
        let ForgeEvent::Jobs(jobs) = event else { continue };
        assert_eq!(jobs.sha.as_str(), sha, "nothing of it belongs to the head");
        causes.extend(jobs.jobs.iter().filter(|job| job.name.as_str() == "unit").filter_map(|job| job.cause.clone()));
    }
    assert!(causes.contains(&"runner_system_failure".to_owned()), "{causes:?}");
    let over = events.iter().any(|e| matches!(e, ForgeEvent::Jobs(jobs) if jobs.group_over.is_some()));
    assert!(over, "the end of the pipeline is the end of the entry");
    assert_eq!(house.jobs().await, Vec::new(), "the head itself has no jobs");
    let of_entry = Change { head: CommitSha::parse(&sha).expect("a commit"), ..house.change().await };
    let listed = house.forge.list_jobs(&house.repo, &of_entry).await.expect("jobs");
    assert_eq!(listed.len(), 2, "asked for by its own commit");
}

#[tokio::test]
async fn a_job_that_runs_again_before_its_pipeline_is_over_keeps_the_place_on_the_train() {
    let house = house().await;
    house.sandbox.set_level(house.project(), "retest-bot", 30);
    let (pipeline, sha) = house.sandbox.enqueue(house.project(), house.iid, vec![plain("unit"), plain("slow")]);
    house.sandbox.start_job(pipeline, "slow");
    house.sandbox.job_log(pipeline, "unit", "usb 1-1: device descriptor read/64, error -110\n");
    house.sandbox.finish_job(pipeline, "unit", "failed", None);
    let of_entry = Change { head: CommitSha::parse(&sha).expect("a commit"), ..house.change().await };
    let jobs = house.forge.list_jobs(&house.repo, &of_entry).await.expect("jobs");
    let unit = jobs.iter().find(|job| job.name.as_str() == "unit").expect("a job");
    house.retry(unit).await;
    house.sandbox.finish_job(pipeline, "slow", "success", None);
    assert_eq!(house.sandbox.train_place(house.project(), house.iid), TrainPlace::Waiting(pipeline, sha.clone()));
    house.sandbox.finish_job(pipeline, "unit", "success", None);
    assert_eq!(house.sandbox.train_place(house.project(), house.iid), TrainPlace::Merged);
    let events = heard(&house).await;
    let closed = events.iter().any(|event| matches!(event, ForgeEvent::Change { change, .. } if !change.open));
    let pushed = events.iter().any(|event| matches!(event, ForgeEvent::Push(push) if push.sha.as_str() == sha));
    assert!(closed && pushed, "{events:#?}");
}

#[tokio::test]
async fn those_behind_a_dropped_merge_request_get_new_pipelines() {
    let house = house().await;
    let project = house.project();
    let second = house.sandbox.open_merge_request(project, "ann", NEXT, NewMergeRequest::default());
    let (one, _) = house.sandbox.enqueue(project, house.iid, vec![plain("unit")]);
    let (two, _) = house.sandbox.enqueue(project, second, vec![plain("unit")]);
    house.sandbox.finish_job(two, "unit", "success", None);
    assert!(matches!(house.sandbox.train_place(project, second), TrainPlace::Waiting(..)), "not before the first");
    house.sandbox.finish_job(one, "unit", "failed", None);
    assert_eq!(house.sandbox.train_place(project, house.iid), TrainPlace::Dropped);
    let TrainPlace::Waiting(anew, _) = house.sandbox.train_place(project, second) else { panic!("still on it") };
    assert_ne!(anew, two);
    house.sandbox.finish_job(anew, "unit", "success", None);
    assert_eq!(house.sandbox.train_place(project, second), TrainPlace::Merged);
    assert_eq!(house.sandbox.train_place(project, 99), TrainPlace::Never);
}
