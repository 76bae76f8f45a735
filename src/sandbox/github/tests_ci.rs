//! The sandbox behaves as GitHub's reference says: runs, attempts, jobs, checks and statuses.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::tests::{HEAD, REPO, Reply, Site, receiver};
use super::*;

const DAY_MS: i64 = 24 * 3_600_000;

/// `build`, then `package` and `publish` behind it one after the other, and `lint` by itself.
fn workflow() -> NewWorkflow {
    let job = |name: &str, needs: &[&str]| NewJob {
        name: name.to_owned(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
    };
    NewWorkflow {
        name: "CI".to_owned(),
        path: ".github/workflows/ci.yml".to_owned(),
        event: "pull_request".to_owned(),
        jobs: vec![job("build", &[]), job("lint", &[]), job("package", &["build"]), job("publish", &["package"])],
        needs_approval: false,
    }
}

/// A run where `build` failed and `lint` passed.
async fn failed_run() -> (Site, u64) {
    let site = Site::new().await;
    let run = site.github.start_workflow(REPO, HEAD, workflow());
    site.github.finish_job(run, "build", "failure");
    site.github.finish_job(run, "lint", "success");
    (site, run)
}

fn jobs(site: &Site) -> Vec<String> {
    let all = site.github.jobs(REPO, HEAD);
    all.iter().map(|j| format!("{}#{} {}", j.name, j.attempt, j.conclusion.as_deref().unwrap_or(&j.status))).collect()
}

fn job_id(site: &Site, name: &str) -> u64 {
    site.github.jobs(REPO, HEAD).into_iter().rfind(|job| job.name == name).unwrap().id
}

#[tokio::test]
async fn a_failed_job_skips_what_needs_it_and_fails_the_run() {
    let (site, _) = failed_run().await;
    let expected = ["build#1 failure", "lint#1 success", "package#1 skipped", "publish#1 skipped"];
    let mut seen = jobs(&site);
    seen.sort();
    assert_eq!(seen, expected);
    assert_eq!(site.github.runs(REPO, HEAD)[0].conclusion.as_deref(), Some("failure"));
}

#[tokio::test]
async fn a_run_tells_of_each_step_of_its_life() {
    let (site, bot) = (Site::new().await, receiver(StatusCode::ACCEPTED).await);
    site.github.hook(&bot.base_url(), "s");
    site.github.drop_webhooks("");
    let mut new = workflow();
    new.jobs.truncate(1);
    let run = site.github.start_workflow(REPO, HEAD, new);
    site.github.start_job(run, "build");
    site.github.finish_job(run, "build", "success");
    let expected = [
        "workflow_run.requested",
        "workflow_job.queued",
        "check_run.created",
        "workflow_job.in_progress",
        "workflow_run.in_progress",
        "workflow_job.completed",
        "check_run.completed",
        "workflow_run.completed",
        "check_suite.completed",
    ];
    assert_eq!(site.deliver().await, expected);
    let body: Value = serde_json::from_slice(&bot.requests()[1].body).unwrap();
    assert_eq!(body["workflow_job"]["run_attempt"], 1);
    assert_eq!(body["workflow_job"]["head_sha"], HEAD);
    let run_body: Value = serde_json::from_slice(&bot.requests()[0].body).unwrap();
    assert_eq!(run_body["workflow_run"]["pull_requests"][0]["number"], site.number);
}

#[tokio::test]
async fn checks_on_a_forks_head_name_no_change() {
    let site = Site::new().await;
    let fork = "3333333333333333333333333333333333333333";
    site.github.open_pull(REPO, "eve", fork, NewPull { from_fork: true, ..NewPull::default() });
    site.github.start_workflow(REPO, fork, workflow());
    let checks = site.get(&format!("/repos/{REPO}/commits/{fork}/check-runs")).await;
    assert_eq!(checks.body["check_runs"][0]["pull_requests"], json!([]));
    assert_eq!(checks.body["check_runs"][0]["app"]["slug"], "github-actions");
    let runs = site.get(&format!("/repos/{REPO}/actions/runs?head_sha={fork}")).await;
    assert_eq!(runs.body["workflow_runs"][0]["pull_requests"], json!([]));
    assert_eq!(runs.body["workflow_runs"][0]["head_repository"]["fork"], true);
    assert_eq!(site.get(&format!("/repos/{REPO}/commits/{fork}/pulls")).await.body, json!([]));
}

#[tokio::test]
async fn a_run_goes_again_only_when_complete_and_one_attempt_at_a_time() {
    let site = Site::new().await;
    let run = site.github.start_workflow(REPO, HEAD, workflow());
    site.github.finish_job(run, "build", "failure");
    let rerun_job = format!("/repos/{REPO}/actions/jobs/{}/rerun", job_id(&site, "build"));
    let early = site.post(&rerun_job, json!({})).await;
    assert_eq!((early.status, early.message()), (403, "This workflow is already running"), "`lint` still runs");
    site.github.finish_job(run, "lint", "failure");
    let accepted = site.post(&rerun_job, json!({})).await;
    assert_eq!((accepted.status, accepted.body), (201, json!({})));
    let lint = format!("/repos/{REPO}/actions/jobs/{}/rerun", job_id(&site, "lint"));
    let second = site.post(&lint, json!({})).await;
    assert_eq!((second.status, second.message()), (403, "This workflow is already running"));
}

#[tokio::test]
async fn a_rerun_job_keeps_the_run_and_takes_its_dependents_along() {
    let (site, run) = failed_run().await;
    let old = job_id(&site, "build");
    let checks_before = site.github.check_runs(REPO, HEAD).len();
    let reply = site.post(&format!("/repos/{REPO}/actions/jobs/{old}/rerun"), json!({})).await;
    assert_eq!(reply.status, 201);
    assert_ne!(job_id(&site, "build"), old, "a new record");
    assert_eq!(site.github.check_runs(REPO, HEAD).len(), checks_before + 1);
    for job in ["build", "package", "publish"] {
        site.github.finish_job(run, job, "success");
    }
    let body = site.get(&format!("/repos/{REPO}/actions/runs/{run}")).await.body;
    assert_eq!((&body["run_attempt"], &body["conclusion"]), (&json!(2), &json!("success")));
    assert!(body["previous_attempt_url"].as_str().unwrap().ends_with("/attempts/1"));
    assert_eq!(body["triggering_actor"]["login"], "retest-bot[bot]");
    let second = site.get(&format!("/repos/{REPO}/actions/runs/{run}/attempts/2/jobs")).await;
    assert_eq!(second.body["total_count"], 3, "`lint` is not run again");
    let first = site.get(&format!("/repos/{REPO}/actions/runs/{run}/attempts/1")).await;
    assert_eq!(first.body["conclusion"], "failure", "the old attempt stays on record");
}

#[tokio::test]
async fn rerunning_failed_jobs_leaves_passed_ones_alone() {
    let (site, run) = failed_run().await;
    let path = format!("/repos/{REPO}/actions/runs/{run}/rerun-failed-jobs");
    assert_eq!(site.post(&path, json!({})).await.status, 201);
    assert_eq!(jobs(&site).last().unwrap(), "build#2 queued");
    assert!(!jobs(&site).contains(&"lint#2 queued".to_owned()));
    site.github.finish_job(run, "build", "success");
    site.github.finish_job(run, "package", "success");
    site.github.finish_job(run, "publish", "success");
    let nothing = site.post(&path, json!({})).await;
    assert_eq!((nothing.status, nothing.message()), (403, "This workflow run cannot be retried"));
}

#[tokio::test]
async fn lists_of_jobs_differ_as_on_the_service() {
    let (site, run) = failed_run().await;
    site.post(&format!("/repos/{REPO}/actions/runs/{run}/rerun-failed-jobs"), json!({})).await;
    let path = format!("/repos/{REPO}/actions/runs/{run}/jobs");
    let count = |reply: Reply| reply.body["total_count"].as_u64().unwrap();
    assert_eq!(count(site.get(&format!("{path}?filter=all")).await), 5);
    assert_eq!(count(site.get(&path).await), 4, "the newest record of each job");
    site.github.set_latest_trap(true);
    assert_eq!(count(site.get(&path).await), 1, "the trap: only the last attempt");
}

#[tokio::test]
async fn a_run_older_than_thirty_days_or_broken_is_refused_in_words() {
    let (site, run) = failed_run().await;
    let path = format!("/repos/{REPO}/actions/runs/{run}/rerun");
    site.github.set_now(site.github.now_ms() + 30 * DAY_MS + 1);
    let fresh = site.mint(&json!({})).await;
    let old = site.call_as(&fresh, "POST", &path, None).await;
    assert_eq!(old.status, 403);
    assert!(old.message().contains("created over a month ago"), "{}", old.message());
    let (site, run) = failed_run().await;
    site.github.forbid_rerun(run);
    let broken = site.post(&format!("/repos/{REPO}/actions/runs/{run}/rerun"), json!({})).await;
    assert_eq!((broken.status, broken.message()), (403, "This workflow run cannot be retried"));
}

#[tokio::test]
async fn the_fifty_first_rerun_is_accepted_and_fails_by_itself() {
    let (site, run) = failed_run().await;
    for _ in 0..50 {
        assert!(site.github.press_rerun_run(run, "ann"));
        site.github.cancel_run(run);
    }
    let records = site.github.jobs(REPO, HEAD).len();
    let path = format!("/repos/{REPO}/actions/runs/{run}/rerun");
    assert_eq!(site.post(&path, json!({})).await.status, 201, "it looks accepted");
    let seen = site.github.runs(REPO, HEAD).remove(0);
    assert_eq!((seen.attempt, seen.conclusion.as_deref()), (52, Some("failure")));
    assert_eq!(site.github.jobs(REPO, HEAD).len(), records, "no job was started");
}

#[tokio::test]
async fn a_log_is_fetched_from_the_place_it_redirects_to() {
    let (site, run) = failed_run().await;
    site.github.job_log(run, "build", "make: error\n");
    let reply = site.get(&format!("/repos/{REPO}/actions/jobs/{}/logs", job_id(&site, "build"))).await;
    assert_eq!(reply.status, 302);
    let text = site.call_as("", "GET", reply.header("location"), None).await;
    assert_eq!((text.status, text.body), (200, json!("make: error\n")), "no token is needed there");
}

#[tokio::test]
async fn a_run_is_cancelled_once() {
    let site = Site::new().await;
    let run = site.github.start_workflow(REPO, HEAD, workflow());
    let path = format!("/repos/{REPO}/actions/runs/{run}/cancel");
    assert_eq!(site.post(&path, json!({})).await.status, 202);
    assert_eq!(site.github.runs(REPO, HEAD)[0].conclusion.as_deref(), Some("cancelled"));
    assert_eq!(site.post(&path, json!({})).await.status, 409);
}

#[tokio::test]
async fn a_held_run_starts_when_approved() {
    let site = Site::new().await;
    let run = site.github.start_workflow(REPO, HEAD, NewWorkflow { needs_approval: true, ..workflow() });
    assert!(site.github.jobs(REPO, HEAD).is_empty());
    let rerun = format!("/repos/{REPO}/actions/runs/{run}/rerun");
    assert_eq!(site.post(&rerun, json!({})).await.status, 403);
    let approve = format!("/repos/{REPO}/actions/runs/{run}/approve");
    assert_eq!(site.post(&approve, json!({})).await.status, 201);
    assert_eq!(jobs(&site), ["build#1 queued", "lint#1 queued"]);
    assert_eq!(site.post(&approve, json!({})).await.status, 403);
}

#[tokio::test]
async fn a_lost_job_has_no_runner_and_says_why() {
    let site = Site::new().await;
    let run = site.github.start_workflow(REPO, HEAD, workflow());
    site.github.lose_job(run, "build");
    let job = site.get(&format!("/repos/{REPO}/actions/jobs/{}", job_id(&site, "build"))).await.body;
    assert_eq!((&job["runner_id"], &job["steps"]), (&Value::Null, &json!([])));
    let check = job["check_run_url"].as_str().unwrap().to_owned();
    let notes = site.get(&format!("{check}/annotations")).await;
    assert!(notes.body[0]["message"].as_str().unwrap().contains("lost communication"));
}

#[tokio::test]
async fn a_dispatch_takes_a_branch_and_never_a_commit() {
    let site = Site::new().await;
    site.github.add_workflow(REPO, workflow());
    let path = format!("/repos/{REPO}/actions/workflows/ci.yml/dispatches");
    assert_eq!(site.post(&path, json!({"ref": HEAD})).await.status, 422);
    assert_eq!(site.post(&path, json!({"ref": "change-1"})).await.status, 204);
    let told = site.post(&path, json!({"ref": "change-1", "return_run_details": true})).await;
    assert_eq!(told.status, 200);
    let run = site.get(&format!("/repos/{REPO}/actions/runs/{}", told.body["workflow_run_id"])).await;
    assert_eq!((&run.body["head_sha"], &run.body["event"]), (&json!(HEAD), &json!("workflow_dispatch")));
}

#[tokio::test]
async fn statuses_have_their_limits() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}/statuses/{HEAD}");
    let post = |description: String| json!({"state": "pending", "context": "retest", "description": description});
    assert_eq!(site.post(&path, post("é".repeat(140))).await.status, 201, "characters count, not bytes");
    let long = site.post(&path, post("x".repeat(141))).await;
    assert_eq!(long.status, 422);
    assert_eq!(long.body["errors"][0]["message"], "description is too long (maximum is 140 characters)");
    assert_eq!(site.post(&path, json!({"state": "running"})).await.status, 422);
    let unknown = format!("/repos/{REPO}/statuses/{}", "9".repeat(40));
    assert_eq!(site.post(&unknown, json!({"state": "success"})).await.status, 422);
    for _ in 1..1_000 {
        site.github.set_status(REPO, HEAD, "Retest", "pending", "", "");
    }
    assert_eq!(site.post(&path, post(String::new())).await.status, 422, "1,000 for one context");
}

#[tokio::test]
async fn the_combined_status_takes_the_newest_of_each_context() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}/commits/{HEAD}/status");
    assert_eq!(site.get(&path).await.body["state"], "pending", "as long as there are none");
    site.github.set_status(REPO, HEAD, "lab", "failure", "boot failed", "http://lab.example/1");
    assert_eq!(site.get(&path).await.body["state"], "failure");
    site.github.set_status(REPO, HEAD, "LAB", "success", "", "");
    let body = site.get(&path).await.body;
    assert_eq!((&body["state"], &body["total_count"]), (&json!("success"), &json!(1)));
    let all = site.get(&format!("/repos/{REPO}/commits/{HEAD}/statuses")).await.body;
    assert_eq!((&all[0]["state"], &all[1]["state"]), (&json!("success"), &json!("failure")), "newest first");
    assert_eq!(site.github.statuses(REPO, HEAD)[0].history.len(), 2);
}

#[tokio::test]
async fn only_an_app_writes_checks_and_within_limits() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}/check-runs");
    let base = || json!({"name": "retest", "head_sha": HEAD});
    assert_eq!(site.call_as("secret", "POST", &path, Some(&base())).await.status, 403, "people may not");
    let with = |key: &str, value: Value| {
        let mut body = base();
        body[key] = value;
        body
    };
    let button = |label: &str| json!({"label": label, "description": "d", "identifier": "i"});
    let table = [
        (base(), 201, "a bare check run"),
        (with("status", json!("completed")), 422, "completed needs a conclusion"),
        (with("conclusion", json!("stale")), 422, "only GitHub says stale"),
        (with("output", json!({"title": "t", "summary": "x".repeat(65_535)})), 201, "the longest summary"),
        (with("output", json!({"title": "t", "summary": "x".repeat(65_536)})), 422, "one character more"),
        (with("actions", json!(vec![button("Retest"); 3])), 201, "three buttons"),
        (with("actions", json!(vec![button("Retest"); 4])), 422, "four buttons"),
        (with("actions", json!([button(&"x".repeat(21))])), 422, "a label of 21 characters"),
    ];
    for (body, status, why) in table {
        assert_eq!(site.post(&path, body).await.status, status, "{why}");
    }
    let foreign = site.github.foreign_check(REPO, HEAD, "other-app", "scan", Some("failure"));
    let one = format!("{path}/{foreign}");
    let patch = site.call_as(&site.token, "PATCH", &one, Some(&json!({"conclusion": "success"}))).await;
    assert_eq!(patch.status, 403, "another App's check");
    assert_eq!(site.post(&format!("{one}/rerequest"), json!({})).await.status, 403);
}

#[tokio::test]
async fn a_press_reaches_the_checks_own_app_only() {
    let (site, app, repo) = (Site::new().await, receiver(StatusCode::ACCEPTED).await, receiver(StatusCode::OK).await);
    site.github.hook(&app.base_url(), "a");
    site.github.repo_hook(&repo.base_url(), "b");
    let body = json!({"name": "retest", "head_sha": HEAD, "conclusion": "failure"});
    let id = site.post(&format!("/repos/{REPO}/check-runs"), body).await.body["id"].as_u64().unwrap();
    let foreign = site.github.foreign_check(REPO, HEAD, "other-app", "scan", Some("failure"));
    site.github.drop_webhooks("");
    site.github.press_button(id, "row-7", "ann");
    site.github.press_rerun_check(REPO, id, "ann");
    site.github.press_rerun_check(REPO, foreign, "ann");
    assert_eq!(site.deliver().await, ["check_run.requested_action", "check_run.rerequested"]);
    assert!(repo.requests().is_empty());
    let press: Value = serde_json::from_slice(&app.requests()[0].body).unwrap();
    assert_eq!((&press["requested_action"]["identifier"], &press["sender"]["login"]), (&json!("row-7"), &json!("ann")));
}

#[tokio::test]
async fn required_contexts_are_seen_by_rules_and_by_protection() {
    let site = Site::new().await;
    let rules = format!("/repos/{REPO}/rules/branches/main");
    let classic = format!("/repos/{REPO}/branches/main/protection/required_status_checks");
    assert_eq!(site.get(&rules).await.body, json!([]));
    assert_eq!(site.get(&classic).await.status, 404);
    site.github.required(REPO, "main", &["build"]);
    let parameters = &site.get(&rules).await.body[0]["parameters"];
    assert_eq!(parameters["required_status_checks"], json!([{"context": "build"}]));
    assert_eq!(site.get(&classic).await.body["contexts"], json!(["build"]));
}
