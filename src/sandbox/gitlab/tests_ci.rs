//! Pipelines and jobs: what starts when, and the rules of retry, play, cancel, bridges, forks and needs.

use serde_json::{Value, json};

use super::tests::{HEAD, NEXT, Reply, Site, TOKEN};
use super::*;

fn job(name: &str, stage: &str) -> NewJob {
    NewJob { name: name.to_owned(), stage: stage.to_owned(), ..NewJob::default() }
}

fn needing(name: &str, stage: &str, needs: &[&str]) -> NewJob {
    NewJob { needs: needs.iter().map(|name| (*name).to_owned()).collect(), ..job(name, stage) }
}

fn start(site: &Site, jobs: Vec<NewJob>) -> u64 {
    let new = NewPipeline { sha: HEAD.to_owned(), mr_iid: Some(1), jobs, ..NewPipeline::default() };
    site.gitlab.start_pipeline(site.project, new)
}

/// `name status` of the newest jobs.
fn states(site: &Site, pipeline: u64) -> String {
    let jobs = site.gitlab.jobs(pipeline).into_iter().filter(|job| !job.retried);
    jobs.map(|job| format!("{} {}", job.name, job.status)).collect::<Vec<_>>().join(", ")
}

fn id_of(site: &Site, pipeline: u64, name: &str) -> u64 {
    let jobs = site.gitlab.jobs(pipeline);
    jobs.iter().rfind(|job| job.name == name).unwrap().id
}

async fn act(site: &Site, job: u64, what: &str) -> Reply {
    site.post(&format!("/projects/:id/jobs/{job}/{what}"), json!({})).await
}

#[tokio::test]
async fn jobs_begin_when_the_stages_before_or_their_needs_have_passed() {
    let site = Site::new().await;
    let jobs = vec![
        job("compile", "build"),
        NewJob { allow_failure: true, ..job("lint", "build") },
        job("unit", "test"),
        needing("lava", "test", &["compile"]),
        NewJob { starts_at_once: true, ..job("docs", "test") },
        NewJob { manual: true, ..job("release", "deploy") },
    ];
    let id = start(&site, jobs);
    let begun = "compile pending, lint pending, unit created, lava created, docs pending, release created";
    assert_eq!(states(&site, id), begun);
    site.gitlab.finish_job(id, "compile", "success", None);
    assert!(states(&site, id).contains("unit created, lava pending"), "lava does not wait for its stage");
    site.gitlab.finish_job(id, "lint", "failed", None);
    assert!(states(&site, id).contains("unit pending"), "lint may fail");
    for name in ["unit", "lava", "docs"] {
        site.gitlab.finish_job(id, name, "success", None);
    }
    assert!(states(&site, id).ends_with("release manual"));
    assert_eq!(site.gitlab.pipelines(site.project)[0].status, "manual", "a job that waits for a person blocks");
}

#[tokio::test]
async fn a_retry_makes_a_new_job_and_wakes_what_was_skipped_and_the_old_id_is_used_up() {
    let site = Site::new().await;
    let id = start(&site, vec![job("compile", "build"), job("unit", "test"), needing("pack", "test", &["unit"])]);
    site.gitlab.finish_job(id, "compile", "failed", Some("runner_system_failure"));
    assert_eq!(states(&site, id), "compile failed, unit skipped, pack skipped");
    let old = id_of(&site, id, "compile");
    let made = act(&site, old, "retry").await;
    assert_eq!((made.status, &made.body["name"], &made.body["status"]), (201, &json!("compile"), &json!("pending")));
    assert_ne!(made.body["id"], json!(old));
    assert_eq!(made.body["user"]["username"], "retest-bot", "it runs as who asked");
    assert_eq!(states(&site, id), "unit created, pack created, compile pending");
    assert!(site.gitlab.jobs(id)[0].retried);

    let again = act(&site, old, "retry").await;
    assert_eq!((again.status, again.message()), (403, "403 Forbidden - Job is not retryable"), "already retried");
    let new = made.body["id"].as_u64().unwrap();
    assert_eq!(act(&site, new, "retry").await.status, 403, "pending");
    site.gitlab.start_job(id, "compile");
    assert_eq!(act(&site, new, "retry").await.status, 403, "running");
    site.gitlab.finish_job(id, "compile", "success", None);
    site.gitlab.finish_job(id, "unit", "success", None);
    assert_eq!(states(&site, id), "unit success, pack pending, compile success", "the same jobs, not new ones");
    assert_eq!(act(&site, new, "retry").await.status, 201, "what passed can be retried too");
    site.gitlab.archive_pipeline(id);
    assert_eq!(act(&site, id_of(&site, id, "unit"), "retry").await.status, 403, "archived");
    site.gitlab.set_level(site.project, "retest-bot", 20);
    let refused = act(&site, new, "retry").await;
    assert_eq!((refused.status, refused.message()), (403, "403 Forbidden"), "a Reporter may not");
}

#[tokio::test]
async fn retried_jobs_are_hidden_from_the_list_unless_asked_for() {
    let site = Site::new().await;
    let id = start(&site, vec![job("unit", "test"), job("lava", "test")]);
    site.gitlab.finish_job(id, "unit", "failed", None);
    site.gitlab.finish_job(id, "lava", "success", None);
    act(&site, id_of(&site, id, "unit"), "retry").await;
    let path = format!("/projects/:id/pipelines/{id}/jobs");
    let list = site.get(&path).await;
    assert_eq!(list.rows().iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), ["unit", "lava"]);
    assert!(list.rows()[0].get("failure_reason").is_none(), "only what failed has a reason");
    assert_eq!((list.header("x-total"), list.header("x-page")), ("", "1"), "long lists are not counted");
    let all = site.get(&format!("{path}?include_retried=true")).await;
    assert_eq!((all.rows().len(), &all.rows()[2]["failure_reason"]), (3, &json!("script_failure")));
    let scoped = site.get(&format!("{path}?scope[]=pending&scope[]=failed")).await;
    assert_eq!(scoped.rows().len(), 1);
    let unknown = site.get(&format!("{path}?scope[]=broken")).await;
    assert_eq!((unknown.status, &unknown.body["error"]), (400, &json!("scope does not have a valid value")));
    let page = site.get(&format!("{path}?include_retried=true&per_page=2")).await;
    assert_eq!(page.header("x-next-page"), "2");
}

#[tokio::test]
async fn a_manual_job_is_played_once_with_variables_and_other_jobs_are_not() {
    let site = Site::new().await;
    let id = start(&site, vec![NewJob { manual: true, ..job("deploy", "test") }, job("unit", "test")]);
    let deploy = id_of(&site, id, "deploy");
    let unplayable = act(&site, id_of(&site, id, "unit"), "play").await;
    assert_eq!((unplayable.status, unplayable.message()), (400, "400 Bad request - Unplayable Job"));
    assert_eq!(act(&site, deploy, "retry").await.status, 403, "it has not run yet");
    let variables = "job_variables_attributes%5B%5D%5Bkey%5D=BOARD&job_variables_attributes%5B%5D%5Bvalue%5D=x86";
    let played = site.form(&format!("/projects/:id/jobs/{deploy}/play"), variables).await;
    assert_eq!((played.status, &played.body["id"], &played.body["status"]), (200, &json!(deploy), &json!("pending")));
    let view = &site.gitlab.jobs(id)[0];
    assert_eq!((view.variables[0].0.as_str(), view.variables[0].1.as_str()), ("BOARD", "x86"));
    assert_eq!(view.user, "retest-bot");
    assert_eq!(act(&site, deploy, "play").await.status, 400, "it is on its way");
    site.gitlab.finish_job(id, "deploy", "failed", None);
    let again = act(&site, deploy, "retry").await;
    assert_eq!(&again.body["status"], "pending", "a retried manual job does not wait again");
}

#[tokio::test]
async fn a_whole_pipeline_is_retried_and_cancelled_and_its_log_is_plain_text() {
    let site = Site::new().await;
    let id = start(&site, vec![job("a", "test"), job("b", "test"), job("c", "test")]);
    let section = "section_start:1800000000:script\r\u{1b}[0K\u{1b}[32;1m$ make\u{1b}[0;m\n";
    site.gitlab.job_log(id, "a", section);
    site.gitlab.finish_job(id, "a", "failed", None);
    site.gitlab.start_job(id, "b");
    let trace = site.get(&format!("/projects/:id/jobs/{}/trace", id_of(&site, id, "a"))).await;
    assert_eq!((trace.text.as_str(), trace.header("content-type")), (section, "text/plain"));
    assert_eq!(site.get(&format!("/projects/:id/jobs/{}/trace", id_of(&site, id, "c"))).await.text, "");

    let cancelled = site.post(&format!("/projects/:id/pipelines/{id}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(states(&site, id), "a failed, b canceled, c canceled");
    let retried = site.post(&format!("/projects/:id/pipelines/{id}/retry"), json!({})).await;
    assert_eq!((retried.status, &retried.body["status"]), (201, &json!("pending")));
    assert_eq!(states(&site, id), "a pending, b pending, c pending");
    let cancelled = act(&site, id_of(&site, id, "b"), "cancel").await;
    assert_eq!((cancelled.status, &cancelled.body["status"]), (201, &json!("canceled")));
}

#[tokio::test]
async fn a_child_pipeline_stands_behind_its_bridge_and_takes_it_along() {
    let site = Site::new().await;
    let parent = start(&site, vec![job("compile", "build")]);
    let child_of = Some((parent, "boards".to_owned()));
    let jobs = vec![job("lava-x86", "test"), job("lava-arm", "test")];
    let new = NewPipeline { sha: HEAD.to_owned(), jobs, child_of, ..NewPipeline::default() };
    let child = site.gitlab.start_pipeline(site.project, new);
    assert_eq!(states(&site, parent), "compile pending, boards running");
    let bridges = site.get(&format!("/projects/:id/pipelines/{parent}/bridges")).await;
    assert_eq!(bridges.rows()[0]["downstream_pipeline"]["id"], json!(child));
    let jobs = site.get(&format!("/projects/:id/pipelines/{parent}/jobs")).await;
    assert_eq!(jobs.rows().len(), 1, "a bridge is no job in the list");
    assert_eq!(
        site.get("/projects/:id/merge_requests/1/pipelines").await.rows().len(),
        1,
        "nor is a child a pipeline of it"
    );

    site.gitlab.finish_job(parent, "compile", "success", None);
    site.gitlab.finish_job(child, "lava-x86", "failed", None);
    site.gitlab.finish_job(child, "lava-arm", "success", None);
    assert_eq!(states(&site, parent), "compile success, boards failed");
    let events = site.events();
    let last_child = events.iter().rfind(|(_, body)| body["object_attributes"]["id"] == json!(child)).unwrap();
    assert_eq!(last_child.1["source_pipeline"]["pipeline_id"], json!(parent));
    let job_hooks = events.iter().filter(|(name, body)| *name == "Job Hook" && body["build_name"] == "boards");
    assert_eq!(job_hooks.count(), 0, "bridges send no Job Hook");

    act(&site, id_of(&site, child, "lava-x86"), "retry").await;
    assert_eq!(states(&site, parent), "compile success, boards running", "the bridge begins anew with its child");
    site.gitlab.finish_job(child, "lava-x86", "success", None);
    assert_eq!(site.gitlab.pipelines(site.project)[0].status, "success");

    act(&site, id_of(&site, parent, "boards"), "retry").await;
    let newest = site.gitlab.jobs(parent).into_iter().rfind(|job| job.bridge).unwrap().downstream.unwrap();
    assert_ne!(newest, child);
    assert_eq!(states(&site, newest), "lava-x86 pending, lava-arm pending", "a whole new pipeline of the same jobs");
}

#[tokio::test]
async fn a_pipeline_of_a_fork_is_listed_but_out_of_reach() {
    let site = Site::new().await;
    let fork = site.gitlab.add_fork(site.project);
    let new = NewMergeRequest { source_project: Some(fork), ..NewMergeRequest::default() };
    let iid = site.gitlab.open_merge_request(site.project, "eve", NEXT, new);
    site.events();
    let jobs = vec![job("unit", "test")];
    let new = NewPipeline { sha: NEXT.to_owned(), mr_iid: Some(iid), jobs: jobs.clone(), ..NewPipeline::default() };
    let id = site.gitlab.start_pipeline(fork, new);
    site.gitlab.finish_job(id, "unit", "failed", None);
    assert!(site.events().is_empty(), "the hooks of the fork are not ours");
    let listed = site.get(&format!("/projects/:id/merge_requests/{iid}/pipelines")).await;
    assert_eq!((&listed.rows()[0]["id"], &listed.rows()[0]["project_id"]), (&json!(id), &json!(fork)));
    let job = id_of(&site, id, "unit");
    for (method, path) in [
        ("GET", format!("/projects/{fork}/pipelines/{id}/jobs")),
        ("GET", format!("/projects/:id/pipelines/{id}")),
        ("POST", format!("/projects/{fork}/jobs/{job}/retry")),
        ("POST", format!("/projects/:id/jobs/{job}/retry")),
    ] {
        assert_eq!(site.send(method, &path, json!({})).await.status, 404, "{path}");
    }
    site.gitlab.set_public(fork, true);
    assert_eq!(site.get(&format!("/projects/{fork}/pipelines/{id}/jobs")).await.rows().len(), 1);
    assert_eq!(site.post(&format!("/projects/{fork}/jobs/{job}/retry"), json!({})).await.status, 403);

    site.gitlab.set_ci(site.project, jobs);
    let path = format!("/projects/:id/merge_requests/{iid}/pipelines");
    let made = site.post(&path, json!({})).await;
    assert_eq!((made.status, &made.body["project_id"]), (201, &json!(site.project)), "the parent runs it for a member");
    assert_eq!(made.body["ref"], format!("refs/merge-requests/{iid}/head"));
    site.gitlab.allow_fork_pipelines(site.project, false);
    assert_eq!(site.post(&path, json!({})).await.status, 400);
}

#[tokio::test]
async fn hooks_show_a_job_by_flat_fields_and_a_pipeline_by_its_branch() {
    let site = Site::new().await;
    let id = start(&site, vec![job("unit", "test")]);
    site.gitlab.finish_job(id, "unit", "failed", Some("script_failure"));
    act(&site, id_of(&site, id, "unit"), "retry").await;
    let events = site.events();
    let told = |(name, body): &(std::borrow::Cow<'_, str>, Value)| match name.as_ref() {
        "Job Hook" => format!("{} {}", body["build_status"].as_str().unwrap(), body["retries_count"]),
        _ => format!("[{}]", body["object_attributes"]["status"].as_str().unwrap()),
    };
    let story: Vec<_> = events.iter().map(told).collect();
    assert_eq!(
        story.join(", "),
        "created 0, pending 0, [pending], running 0, failed 0, [failed], created 1, pending 1, [pending]"
    );
    let failed = &events[4].1;
    assert_eq!((&failed["object_kind"], &failed["commit"]["id"]), (&json!("build"), &json!(id)), "no SHA there");
    assert_eq!((&failed["commit"]["sha"], &failed["build_failure_reason"]), (&json!(HEAD), &json!("script_failure")));
    assert_eq!(events[0].1["build_failure_reason"], "unknown_failure", "a reason stands there in any case");
    let pipeline = &events[5].1;
    assert_eq!(
        (&pipeline["object_attributes"]["ref"], &failed["ref"]),
        (&json!("change-1"), &json!("refs/merge-requests/1/head"))
    );
    assert_eq!((&pipeline["merge_request"]["iid"], pipeline["builds"].as_array().unwrap().len()), (&json!(1), 1));
    assert_eq!(pipeline["object_attributes"]["created_at"], "2027-01-15 08:00:00 UTC");
    assert_eq!(failed["build_created_at"], "2027-01-15T08:00:00.000Z", "dates are written in several ways");
}

#[tokio::test]
async fn a_branch_gets_a_new_pipeline_with_variables() {
    let site = Site::new().await;
    let path = "/projects/:id/pipeline";
    assert_eq!(site.post(path, json!({"ref": "change-1"})).await.status, 400, "it would have no jobs");
    site.gitlab.set_ci(site.project, vec![job("unit", "test")]);
    let variables = json!([{"key": "BOARD", "value": "arm"}]);
    let made = site.post(path, json!({"ref": "change-1", "variables": variables})).await;
    assert_eq!((made.status, &made.body["source"], &made.body["sha"]), (201, &json!("api"), &json!(HEAD)));
    let id = made.body["id"].as_u64().unwrap();
    assert_eq!(site.gitlab.jobs(id)[0].variables, [("BOARD".to_owned(), "arm".to_owned())]);
    assert_eq!(
        site.post(path, json!({"ref": "nowhere"})).await.body["message"]["base"],
        json!(["Reference not found"])
    );
}

#[tokio::test]
async fn a_merged_results_pipeline_belongs_to_the_head_though_its_commit_is_another() {
    let site = Site::new().await;
    let (sha, git_ref) = (NEXT.to_owned(), "refs/merge-requests/1/merge".to_owned());
    let jobs = vec![job("unit", "test")];
    let new = NewPipeline { sha, git_ref, mr_iid: Some(1), jobs, ..NewPipeline::default() };
    let id = site.gitlab.start_pipeline(site.project, new);
    let head = &site.get("/projects/:id/merge_requests/1").await.body["head_pipeline"];
    assert_eq!((&head["id"], &head["sha"]), (&json!(id), &json!(NEXT)));
    assert!(site.get(&format!("/projects/:id/pipelines?sha={HEAD}")).await.rows().is_empty(), "a look-up misses it");
    site.gitlab.push(site.project, 1, BASE);
    assert!(site.get("/projects/:id/merge_requests/1").await.body["head_pipeline"].is_null(), "it is of the old head");
}

#[tokio::test]
async fn a_big_pipeline_made_in_silent_mode_is_listed_in_full_and_tells_nobody() {
    let site = Site::new().await;
    site.gitlab.silent_mode(true);
    let id = start(&site, (0..10_000).map(|number| job(&format!("job {number}"), "test")).collect());
    site.gitlab.finish_all(id, "failed");
    site.gitlab.silent_mode(false);
    assert_eq!(site.gitlab.pending_webhooks(), 0);
    let last = site.get(&format!("/projects/:id/pipelines/{id}/jobs?per_page=100&page=100")).await;
    assert_eq!((last.rows().len(), &last.rows()[99]["name"], last.header("x-next-page")), (100, &json!("job 0"), ""));
}

const BASE: &str = "3333333333333333333333333333333333333333";

const NEEDS: &str = "query($path: ID!, $iid: ID!) { project(fullPath: $path) { pipeline(iid: $iid) { \
    stages { nodes { name } } jobs(first: 2, retried: false) { pageInfo { hasNextPage endCursor } \
    nodes { id name stage { name } needs { nodes { name } } schedulingType } } } } }";

async fn graphql(site: &Site, query: &str, variables: Value, token: &str) -> Value {
    let body = json!({"query": query, "variables": variables});
    site.call("POST", "/api/graphql", &[("private-token", token)], Some(&body)).await.body
}

#[tokio::test]
async fn graphql_tells_needs_in_pages_and_only_to_who_may_see_the_project() {
    let site = Site::new().await;
    let id = start(&site, vec![job("compile", "build"), job("unit", "test"), needing("lava", "test", &["compile"])]);
    let variables = json!({"path": "lab/boards/kernel", "iid": "1"});
    let body = graphql(&site, NEEDS, variables.clone(), TOKEN).await;
    let pipeline = &body["data"]["project"]["pipeline"];
    assert_eq!(pipeline["stages"]["nodes"], json!([{"name": "build"}, {"name": "test"}]));
    let lava = json!({
        "id": format!("gid://gitlab/Ci::Build/{}", id_of(&site, id, "lava")),
        "name": "lava", "stage": {"name": "test"}, "needs": {"nodes": [{"name": "compile"}]}, "schedulingType": "dag",
    });
    assert_eq!(pipeline["jobs"]["nodes"][0], lava, "exactly the fields asked for");
    assert_eq!(pipeline["jobs"]["nodes"][1]["schedulingType"], "stage");
    assert_eq!(pipeline["jobs"]["pageInfo"], json!({"hasNextPage": true, "endCursor": "2"}));
    let next = NEEDS.replace("first: 2", "first: 2, after: \"2\"");
    let rest = graphql(&site, &next, variables.clone(), TOKEN).await;
    assert_eq!(rest["data"]["project"]["pipeline"]["jobs"]["nodes"].as_array().map(Vec::len), Some(1));

    let wrong = graphql(&site, &NEEDS.replace("schedulingType", "mood"), variables.clone(), TOKEN).await;
    assert_eq!(wrong["errors"][0]["message"], "Field 'mood' doesn't exist on type 'CiJob'");
    site.gitlab.add_token("stranger", "stranger", false);
    let hidden = graphql(&site, NEEDS, variables, "stranger").await;
    assert_eq!(hidden["data"]["project"], Value::Null);
}
