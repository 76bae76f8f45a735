//! Commit statuses are the state machine that GitLab makes of them.

use serde_json::{Value, json};

use super::tests::{HEAD, NEXT, Site};
use super::*;

async fn post(site: &Site, body: Value) -> (u16, Value) {
    let reply = site.post(&format!("/projects/:id/statuses/{HEAD}"), body).await;
    (reply.status, reply.body)
}

/// A merge request pipeline with one running job.
fn pipeline(site: &Site) -> u64 {
    let job = NewJob { name: "unit".to_owned(), ..NewJob::default() };
    let new = NewPipeline { sha: HEAD.to_owned(), mr_iid: Some(1), jobs: vec![job], ..NewPipeline::default() };
    let id = site.gitlab.start_pipeline(site.project, new);
    site.gitlab.start_job(id, "unit");
    id
}

#[tokio::test]
async fn only_the_transitions_of_the_state_machine_are_taken() {
    let table = [
        ("pending", "pending", "enqueue", "the same again"),
        ("running", "pending", "enqueue", "not back"),
        ("running", "running", "run", "the same again"),
        ("running", "skipped", "skip", "what runs cannot be skipped"),
    ];
    for (from, to, event, why) in table {
        let site = Site::new().await;
        assert_eq!(post(&site, json!({"state": from, "name": "lava"})).await.0, 201, "{from}");
        let (status, body) = post(&site, json!({"state": to, "name": "lava"})).await;
        let reason = format!("(Reason(s): Status cannot transition via \"{event}\")");
        let text = format!("Cannot transition status via :{event} from :{from} {reason}");
        assert_eq!((status, &body["message"]), (400, &json!(text)), "{why}");
        assert_eq!(site.gitlab.status_history(site.project, HEAD).len(), 1, "{why}: nothing changed");
    }
    for (from, to) in [("pending", "running"), ("pending", "failed"), ("running", "success"), ("running", "canceled")] {
        let site = Site::new().await;
        let first = post(&site, json!({"state": from, "name": "lava"})).await.1["id"].clone();
        let (status, body) = post(&site, json!({"state": to, "name": "lava"})).await;
        assert_eq!(
            (status, &body["id"], &body["status"]),
            (201, &first, &json!(to)),
            "{from} to {to} moves the same one"
        );
    }
}

#[tokio::test]
async fn a_finished_status_is_followed_by_a_new_one_that_takes_its_place() {
    let site = Site::new().await;
    let old = post(&site, json!({"state": "failed", "name": "lava"})).await.1["id"].clone();
    let new = post(&site, json!({"state": "pending", "name": "lava"})).await.1["id"].clone();
    assert_ne!(old, new);
    let path = format!("/projects/:id/repository/commits/{HEAD}/statuses");
    assert_eq!(site.get(&path).await.rows().len(), 1, "the newest only");
    assert_eq!(site.get(&format!("{path}?all=true")).await.rows().len(), 2);
    let states: Vec<_> = site.gitlab.statuses(site.project, HEAD).into_iter().map(|status| status.state).collect();
    assert_eq!(states, ["pending"]);
}

#[tokio::test]
async fn a_status_of_another_user_is_never_moved_on() {
    let site = Site::new().await;
    let foreign = site.gitlab.external_status(site.project, HEAD, "lava", "running", None);
    let (status, body) = post(&site, json!({"state": "running", "name": "lava"})).await;
    assert_eq!(status, 201, "no 400: it is a new one");
    assert_ne!(body["id"], json!(foreign));
}

#[tokio::test]
async fn without_a_pipeline_an_external_one_is_made_and_with_one_it_must_fit() {
    let site = Site::new().await;
    post(&site, json!({"state": "pending", "name": "lava"})).await;
    let made = &site.gitlab.pipelines(site.project)[0];
    assert_eq!(
        (made.source.as_str(), made.status.as_str(), made.git_ref.as_str()),
        ("external", "pending", "change-1")
    );
    let head = site.get("/projects/:id/merge_requests/1").await.body["head_pipeline"]["id"].clone();
    assert_eq!(head, json!(made.id), "the trap: it has become the head pipeline");

    let id = pipeline(&site);
    let git_ref = "refs/merge-requests/1/head";
    let pinned = format!("state=running&context=retest&pipeline_id={id}&ref={}", git_ref.replace('/', "%2F"));
    let reply = site.form(&format!("/projects/:id/statuses/{HEAD}"), &pinned).await;
    assert_eq!((reply.status, &reply.body["pipeline_id"], &reply.body["name"]), (201, &json!(id), &json!("retest")));
    for (wrong, why) in [
        (json!({"state": "success", "name": "x", "pipeline_id": 4}), "no such pipeline"),
        (json!({"state": "success", "name": "x", "pipeline_id": id, "ref": "main"}), "another ref"),
    ] {
        let (status, body) = post(&site, wrong).await;
        assert_eq!(
            (status, &body["message"]),
            (404, &json!("404 Pipeline for pipeline_id, sha and ref Not Found")),
            "{why}"
        );
    }
    let unknown = site.post(&format!("/projects/:id/statuses/{NEXT}"), json!({"state": "success"})).await;
    assert_eq!((unknown.status, unknown.message()), (404, "404 Commit Not Found"));
}

#[tokio::test]
async fn a_held_lock_a_full_pipeline_and_long_texts_are_refused_each_in_its_own_way() {
    let site = Site::new().await;
    let id = pipeline(&site);
    site.gitlab.lock_statuses(1);
    let (status, body) = post(&site, json!({"state": "pending", "name": "lava"})).await;
    assert_eq!((status, &body["message"]), (409, &json!("Another update to this commit status is in progress")));
    assert_eq!(
        post(&site, json!({"state": "pending", "name": "lava", "pipeline_id": id})).await.0,
        201,
        "then it is free"
    );

    site.gitlab.set_job_limit(site.project, 2);
    let (status, body) = post(&site, json!({"state": "pending", "name": "more", "pipeline_id": id})).await;
    assert_eq!((status, &body["message"]), (422, &json!("The number of jobs has exceeded the limit")));
    let known = post(&site, json!({"state": "running", "name": "lava", "pipeline_id": id})).await;
    assert_eq!(known.0, 201, "one that exists is moved on all the same");

    site.gitlab.set_job_limit(site.project, 100);
    let (status, body) = post(&site, json!({"state": "success", "description": "é".repeat(256)})).await;
    let text = "is too long (maximum is 255 characters)";
    assert_eq!((status, &body["message"]["description"]), (400, &json!([text])), "the second shape of error");
    assert_eq!(post(&site, json!({"state": "success", "description": "é".repeat(255)})).await.0, 201);
    assert_eq!(post(&site, json!({"name": "x"})).await, (400, json!({"error": "state is missing"})));
    assert_eq!(post(&site, json!({"state": "error"})).await.0, 400, "a word of the other forge");
    site.gitlab.set_level(site.project, "retest-bot", 20);
    assert_eq!(post(&site, json!({"state": "success"})).await.0, 403, "a Reporter may not");
}

#[tokio::test]
async fn a_failed_status_fails_the_whole_pipeline_and_only_the_pipeline_hook_tells() {
    let site = Site::new().await;
    let id = pipeline(&site);
    site.gitlab.finish_job(id, "unit", "success", None);
    assert_eq!(site.gitlab.pipelines(site.project)[0].status, "success");
    site.events();
    let posted = site.gitlab.external_status(site.project, HEAD, "lava", "failed", Some("https://lava.example/1"));
    let pipeline = &site.gitlab.pipelines(site.project)[0];
    assert_eq!((pipeline.id, pipeline.status.as_str()), (id, "failed"));
    let events = site.events();
    assert_eq!(events.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), ["Pipeline Hook"]);
    let body = &events[0].1;
    assert_eq!((&body["object_attributes"]["status"], &body["builds"][0]["name"]), (&json!("failed"), &json!("unit")));
    assert_eq!(body["builds"].as_array().map(Vec::len), Some(1), "a status is no build");
    assert_eq!(body["object_attributes"]["stages"], json!(["test", "external"]));
    let rows = site.get(&format!("/projects/:id/repository/commits/{HEAD}/statuses?name=lava")).await;
    assert_eq!((&rows.body[0]["id"], &rows.body[0]["target_url"]), (&json!(posted), &json!("https://lava.example/1")));
    assert_eq!(site.get(&format!("/projects/:id/jobs/{posted}")).await.status, 404, "it is no job either");
}
