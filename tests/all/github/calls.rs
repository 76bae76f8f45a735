//! The client: tokens, pages, renames, limits, and what a broken wire means.

use std::time::Duration;

use http::Method;
use retest_bot::domain::{CommitSha, Role, Timestamp};
use retest_bot::ports::{CallError, Forge as _, StatusPost, StatusState};
use retest_bot::sandbox::github::{NewPull, Throttle};
use retest_bot::sandbox::wire::{Fault, Reply};

use super::{HEAD, INSTALLATION, REPO, Site, app, token};

fn post(context: &str) -> StatusPost {
    StatusPost { context: context.into(), state: StatusState::Pending, description: "waiting".into(), target_url: None }
}

async fn post_status(site: &Site) -> Result<(), CallError> {
    let number = site.sandbox.pulls(REPO).first().expect("a change").number;
    let change = site.forge.change(&site.repo, number).await?;
    site.forge.post_status(&site.repo, &change, &change.head.clone(), &post("retest")).await.map(|_| ())
}

#[tokio::test]
async fn five_first_calls_at_once_mint_one_token_narrowed_to_the_repository() {
    let site = Site::new(app()).await;
    site.sandbox.set_role(REPO, "ann", "write");
    let ann = site.actor("ann");
    let role = || site.forge.role(&site.repo, &ann);
    let roles = tokio::join!(role(), role(), role(), role(), role());
    for role in [roles.0, roles.1, roles.2, roles.3, roles.4] {
        assert_eq!(role, Ok(Role::Write));
    }
    let minted: Vec<_> = site.sandbox.wire().requests();
    let minted: Vec<_> = minted.iter().filter(|r| r.path.ends_with("/access_tokens")).collect();
    assert_eq!(minted.len(), 1);
    let body: serde_json::Value = serde_json::from_slice(&minted[0].body).expect("JSON");
    assert_eq!(body["repository_ids"], serde_json::json!([site.repo.key.id]));
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends_and_after_github_refuses_it() {
    let site = Site::new(app()).await;
    let ann = site.actor("ann");
    site.forge.role(&site.repo, &ann).await.expect("a role");
    site.wait(Duration::from_secs(56 * 60));
    site.forge.role(&site.repo, &ann).await.expect("a role");
    assert_eq!(site.count(&Method::POST, "/access_tokens"), 2, "four minutes before its end");
    let refusal = Fault::Answer(Reply::message(401, "Bad credentials"));
    site.sandbox.wire().break_next(Some(Method::GET), "/permission", 1, refusal.clone());
    site.forge.role(&site.repo, &ann).await.expect("a role after all");
    assert_eq!(site.count(&Method::POST, "/access_tokens"), 3);
    site.sandbox.wire().break_next(Some(Method::GET), "/permission", 2, refusal);
    let error = site.forge.role(&site.repo, &ann).await.expect_err("refused twice");
    assert!(matches!(error, CallError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn a_list_longer_than_a_page_is_read_to_its_end() {
    let site = Site::new(app()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    for n in 0..205 {
        site.sandbox.set_status(REPO, HEAD, &format!("lava-{n}"), "failure", "", "");
    }
    let change = site.forge.change(&site.repo, number).await.expect("the change");
    let jobs = site.forge.list_jobs(&site.repo, &change).await.expect("the jobs");
    assert_eq!(jobs.len(), 205);
    assert_eq!(site.count(&Method::GET, "/statuses"), 3, "pages of 100");
}

#[tokio::test]
async fn an_unchanged_answer_costs_nothing_of_the_limit() {
    let site = Site::new(app()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let first = site.forge.change(&site.repo, number).await.expect("the change");
    let second = site.forge.change(&site.repo, number).await.expect("the change");
    assert_eq!(first, second);
    let asked: Vec<_> = site.sandbox.wire().requests().into_iter().filter(|r| r.path.contains("/pulls/")).collect();
    let conditional: Vec<bool> = asked.iter().map(|r| r.headers.contains_key("if-none-match")).collect();
    assert_eq!(conditional, [false, true]);
    site.sandbox.push(REPO, number, &"2".repeat(40));
    let moved = site.forge.change(&site.repo, number).await.expect("the change");
    assert_eq!(moved.head.as_str(), "2".repeat(40), "a changed answer is seen");
}

#[tokio::test]
async fn a_renamed_repository_is_followed_and_a_write_reaches_it_once() {
    let site = Site::new(app()).await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    site.sandbox.rename_repo(REPO, "acme/plank");
    post_status(&site).await.expect("posted under the old name");
    let statuses = site.sandbox.statuses("acme/plank", HEAD);
    assert_eq!(statuses.len(), 1);
    assert_eq!(statuses[0].history.len(), 1);
    assert_eq!(site.count(&Method::POST, "/statuses/"), 2, "the redirected request, and the one that counts");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_refused_and_gets_no_credential() {
    let site = Site::new(app()).await;
    let other = Site::new(token()).await;
    let elsewhere = format!("{}/repos/{REPO}/pulls/1", other.sandbox.base_url());
    let redirect = Reply::message(301, "Moved Permanently").with("location", elsewhere);
    site.sandbox.wire().break_next(Some(Method::GET), "/pulls/", 1, Fault::Answer(redirect));
    let error = site.forge.change(&site.repo, 1).await.expect_err("refused");
    assert!(matches!(error, CallError::Refused { .. }), "{error}");
    assert!(other.sandbox.wire().requests().is_empty());
}

#[tokio::test]
async fn a_secondary_limit_stops_every_call_of_the_installation_until_its_time_is_over() {
    for status in [403, 429] {
        let site = Site::new(app()).await;
        let ann = site.actor("ann");
        site.forge.role(&site.repo, &ann).await.expect("a role");
        site.sandbox.throttle(Throttle { status, retry_after_s: Some(17), times: 1 });
        let error = site.forge.change(&site.repo, 1).await.expect_err("limited");
        assert_eq!(error.wait(1), Duration::from_secs(17), "{status}: {error}");
        assert!(matches!(error, CallError::Throttled { .. }), "{status}: {error}");
        let asked = site.sandbox.wire().requests().len();
        site.wait(Duration::from_secs(16));
        let error = site.forge.role(&site.repo, &ann).await.expect_err("still limited");
        assert_eq!(error.wait(1), Duration::from_secs(1));
        assert_eq!(site.sandbox.wire().requests().len(), asked, "nothing was sent");
        site.wait(Duration::from_secs(1));
        site.forge.role(&site.repo, &ann).await.expect("free again");
    }
}

#[tokio::test]
async fn a_limit_that_names_no_time_costs_a_minute_and_the_next_one_two() {
    let site = Site::new(token()).await;
    let ann = site.actor("ann");
    site.sandbox.throttle(Throttle { status: 429, retry_after_s: None, times: 2 });
    for seconds in [60, 120] {
        let error = site.forge.role(&site.repo, &ann).await.expect_err("limited");
        assert_eq!(error.wait(1), Duration::from_secs(seconds));
        site.wait(Duration::from_secs(seconds));
    }
    site.forge.role(&site.repo, &ann).await.expect("free again");
}

#[tokio::test]
async fn the_primary_limit_is_waited_for_and_the_wait_can_be_stored_and_restored() {
    for status in [403, 429] {
        let site = Site::new(app()).await;
        let ann = site.actor("ann");
        site.forge.role(&site.repo, &ann).await.expect("a role");
        site.sandbox.set_budget(5_000, 0, status);
        let error = site.forge.change(&site.repo, 1).await.expect_err("limited");
        assert!(matches!(error, CallError::Throttled { .. }), "{status}: {error}");
        let until = site.api.throttled_until(Some(INSTALLATION)).expect("a time");
        assert_eq!(until, Timestamp::from_ms(site.sandbox.now_ms() + 3_600_000), "the end of GitHub's window");

        let restarted = Site::new(app()).await;
        restarted.api.throttle_until(Some(INSTALLATION), until);
        let error = restarted.forge.role(&restarted.repo, &ann).await.expect_err("remembered");
        assert!(matches!(error, CallError::Throttled { .. }), "{error}");
        assert!(restarted.sandbox.wire().requests().is_empty());
    }
}

#[tokio::test]
async fn what_a_broken_wire_means_depends_on_what_may_have_been_done() {
    let message = |status| Reply::message(status, "Server Error");
    let faults = [
        (Fault::Answer(message(500)), "500"),
        (Fault::AnswerAfterEffect(message(502)), "502 after the effect"),
        (Fault::ResetBefore, "reset before"),
        (Fault::ResetAfterEffect, "reset after"),
        (Fault::Truncate, "half an answer"),
        (Fault::Hang, "no answer"),
    ];
    let site = Site::with_timeout(app(), Duration::from_millis(700)).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let change = site.forge.change(&site.repo, number).await.expect("the change");
    let head = CommitSha::parse(HEAD).expect("a commit");
    for (fault, why) in faults {
        site.sandbox.wire().forget_requests();
        site.sandbox.wire().break_next(Some(Method::POST), "/statuses/", 1, fault.clone());
        let error = site.forge.post_status(&site.repo, &change, &head, &post("x")).await.expect_err(why);
        assert!(matches!(error, CallError::Unknown { .. }), "a write, {why}: {error}");
        assert_eq!(site.count(&Method::POST, "/statuses/"), 1, "{why}: no write is repeated");

        site.sandbox.label(REPO, number, "ann", why);
        site.sandbox.wire().break_next(Some(Method::GET), "/pulls/", 1, fault);
        let error = site.forge.change(&site.repo, number).await.expect_err(why);
        assert!(matches!(error, CallError::Unreachable { .. }), "a read, {why}: {error}");
    }
}

#[tokio::test]
async fn an_unread_answer_to_a_write_is_a_success() {
    let site = Site::new(app()).await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let odd = Reply { status: 201, headers: Vec::new(), body: "no JSON at all".into() };
    site.sandbox.wire().break_next(Some(Method::POST), "/statuses/", 1, Fault::AnswerAfterEffect(odd));
    post_status(&site).await.expect("it was accepted");
    assert_eq!(site.sandbox.statuses(REPO, HEAD).len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_did_nothing() {
    let site = Site::new(token()).await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let change = site.forge.change(&site.repo, 1).await.expect("the change");
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let mut config = site.api.config().clone();
    config.api_url = gone.parse().expect("an address");
    let clock = std::sync::Arc::new(site.clock.clone());
    let api = retest_bot::api::github::GitHubApi::new(config, super::http_client(), clock.clone()).expect("a client");
    let config = retest_bot::forge::github::GitHubForgeConfig {
        webhook_secrets: retest_bot::ports::Secrets::default(),
        repositories: None,
        bot_login: Some("retest-user".into()),
        may_hold_command: std::sync::Arc::new(|_| true),
    };
    let forge = retest_bot::forge::github::GitHub::new(std::sync::Arc::new(api), config, clock);
    let error = forge.post_status(&site.repo, &change, &change.head, &post("x")).await.expect_err("nobody there");
    assert!(matches!(error, CallError::Unreachable { .. }), "a write that never left: {error}");
}

#[tokio::test]
async fn a_missing_permission_is_told_to_the_person_by_name() {
    let site = Site::new(app()).await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    site.sandbox.grant_app(&[("metadata", "read"), ("pull_requests", "read"), ("statuses", "read")]);
    let CallError::Refused { user, .. } = post_status(&site).await.expect_err("not allowed") else {
        panic!("a refusal");
    };
    assert!(user.contains("`Commit statuses: write`"), "{user}");
}
