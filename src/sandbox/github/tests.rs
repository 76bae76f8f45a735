//! The sandbox behaves as GitHub's reference says: webhooks, tokens, limits, paging, people and their words.

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use serde_json::{Value, json};

use super::hooks::sign;
use super::*;
use crate::sandbox::wire::{Recorded, Wire};

pub(super) const REPO: &str = "acme/board";
pub(super) const HEAD: &str = "1111111111111111111111111111111111111111";
pub(super) const NEXT: &str = "2222222222222222222222222222222222222222";
const APP: u64 = 77;

/// A sandbox with an App, one change, and a client of it.
pub(super) struct Site {
    pub github: GitHubSandbox,
    pub number: u64,
    pub token: String,
    client: reqwest::Client,
}

pub(super) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Site {
    pub async fn new() -> Self {
        let app = AppOptions { id: APP, slug: "retest-bot".to_owned(), installation_id: 9 };
        let options = Options { app: Some(app), token: Some("secret".to_owned()), ..Options::default() };
        let github = GitHubSandbox::start(options).await.unwrap();
        github.set_now(1_800_000_000_000);
        github.add_repo(REPO);
        let number = github.open_pull(REPO, "ann", HEAD, NewPull::default());
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]);
        let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let mut site = Self { github, number, token: String::new(), client };
        site.token = site.mint(&json!({})).await;
        site
    }

    pub async fn mint(&self, body: &Value) -> String {
        let reply = self.call_as(&jwt("RS256"), "POST", "/app/installations/9/access_tokens", Some(body)).await;
        assert_eq!(reply.status, 201, "{}", reply.body);
        reply.body["token"].as_str().unwrap().to_owned()
    }

    pub async fn call_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.call_with(token, method, (path, &[]), body).await
    }

    async fn call_with(
        &self,
        token: &str,
        method: &str,
        (path, headers): (&str, &[(&'static str, &str)]),
        body: Option<&Value>,
    ) -> Reply {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.github.base_url()) };
        let mut request = self.client.request(method.parse().unwrap(), url).header("user-agent", "tests");
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Reply { status, headers, body }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call_as(&self.token, "GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.call_as(&self.token, "POST", path, Some(&body)).await
    }

    /// Sends what is queued and answers `event.action` of each.
    pub async fn deliver(&self) -> Vec<String> {
        let sent = self.github.deliver().await;
        sent.into_iter().map(|d| format!("{}.{}", d.event, d.action.unwrap_or_default())).collect()
    }
}

fn jwt(algorithm: &str) -> String {
    let part = |value: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"iss": APP.to_string(), "iat": 1_000, "exp": 1_600});
    format!("{}.{}.sig", part(json!({"alg": algorithm, "typ": "JWT"})), part(claims))
}

/// A receiver that answers `status` to everything and remembers it.
pub(super) async fn receiver(status: StatusCode) -> Wire {
    Wire::serve(Router::new().fallback(move || async move { status })).await.unwrap()
}

fn header<'a>(request: &'a Recorded, name: &str) -> &'a str {
    request.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

#[test]
fn the_signature_is_the_one_github_publishes() {
    let expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(sign("It's a Secret to Everybody", b"Hello, World!"), expected);
}

#[tokio::test]
async fn a_delivered_webhook_is_signed_over_its_exact_bytes() {
    let (site, bot) = (Site::new().await, receiver(StatusCode::ACCEPTED).await);
    site.github.hook(&bot.base_url(), "s3");
    site.github.comment(REPO, site.number, "ann", "/retest");
    assert_eq!(site.deliver().await, ["pull_request.opened", "issue_comment.created"]);
    let requests = bot.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(header(request, "x-hub-signature-256"), sign("s3", &request.body));
        assert_eq!(header(request, "x-github-hook-installation-target-type"), "integration");
        assert!(header(request, "user-agent").starts_with("GitHub-Hookshot/"));
    }
    assert_eq!(header(&requests[1], "x-github-event"), "issue_comment");
    assert_eq!(site.github.pending_webhooks(), 0, "nothing is sent twice by itself");
}

#[tokio::test]
async fn a_comment_event_names_the_change_but_not_its_head() {
    let (site, bot) = (Site::new().await, receiver(StatusCode::ACCEPTED).await);
    site.github.hook(&bot.base_url(), "s3");
    site.github.drop_webhooks("pull_request");
    let id = site.github.comment(REPO, site.number, "ann", "/retest");
    site.github.edit_comment(REPO, id, "bea", "/retest x");
    site.deliver().await;
    let bodies: Vec<Value> = bot.requests().iter().map(|r| serde_json::from_slice(&r.body).unwrap()).collect();
    assert_eq!(bodies[0]["issue"]["number"], site.number);
    assert!(bodies[0]["issue"]["pull_request"]["url"].is_string());
    assert!(!bodies[0].to_string().contains(HEAD), "the service does not tell the head here");
    assert_eq!(bodies[0]["installation"]["id"], 9);
    assert_eq!(bodies[1]["changes"]["body"]["from"], "/retest");
    assert_eq!(bodies[1]["sender"]["login"], "bea");
    assert_eq!(bodies[1]["comment"]["user"]["login"], "ann");
}

#[tokio::test]
async fn every_hook_gets_an_event_under_the_same_guid() {
    let (site, app, repo) = (Site::new().await, receiver(StatusCode::ACCEPTED).await, receiver(StatusCode::OK).await);
    site.github.hook(&app.base_url(), "a");
    site.github.repo_hook(&repo.base_url(), "b");
    let sent = site.github.deliver().await;
    assert_eq!(sent.len(), 2);
    assert_eq!((sent[0].status, sent[1].status), (Some(202), Some(200)));
    assert_eq!(sent[0].guid, sent[1].guid);
    let body: Value = serde_json::from_slice(&repo.requests()[0].body).unwrap();
    assert!(body.get("installation").is_none(), "only an App's hook tells the installation");
    assert_eq!(header(&repo.requests()[0], "x-github-hook-installation-target-type"), "repository");
}

#[tokio::test]
async fn webhooks_get_lost_repeated_and_turned_round_on_command() {
    let (site, bot) = (Site::new().await, receiver(StatusCode::ACCEPTED).await);
    site.github.hook(&bot.base_url(), "s3");
    site.github.comment(REPO, site.number, "ann", "one");
    site.github.push(REPO, site.number, NEXT);
    site.github.reverse_webhooks();
    site.github.duplicate_webhooks(1);
    site.github.drop_webhooks("issue_comment");
    let sent = site.deliver().await;
    let twice = ["pull_request.synchronize", "pull_request.synchronize", "pull_request.opened", "pull_request.opened"];
    assert_eq!(sent, twice);
    let guids: Vec<String> = bot.requests().iter().map(|r| header(r, "x-github-delivery").to_owned()).collect();
    assert_eq!(guids[0], guids[1]);
    assert_ne!(guids[1], guids[2]);
}

#[tokio::test]
async fn a_failed_delivery_stays_failed_until_somebody_asks_for_it_again() {
    let (site, bot) = (Site::new().await, receiver(StatusCode::ACCEPTED).await);
    site.github.hook(&bot.base_url(), "s3");
    site.github.fail_webhooks("");
    assert_eq!(site.github.deliver().await[0].status, None);
    assert!(site.github.deliver().await.is_empty(), "the service resends nothing");
    let listed = site.call_as(&jwt("RS256"), "GET", "/app/hook/deliveries?status=failure", None).await;
    let (id, guid) = (listed.body[0]["id"].as_u64().unwrap(), listed.body[0]["guid"].clone());
    let read = site.call_as(&jwt("RS256"), "GET", &format!("/app/hook/deliveries/{id}"), None).await;
    assert_eq!(read.body["request"]["payload"]["action"], "opened", "the payload can be read back");
    let again = format!("/app/hook/deliveries/{id}/attempts");
    assert_eq!(site.call_as(&jwt("RS256"), "POST", &again, None).await.status, 202);
    assert_eq!(site.github.deliver().await[0].status, Some(202));
    let listed = site.call_as(&jwt("RS256"), "GET", "/app/hook/deliveries", None).await;
    assert_eq!(listed.body[0]["redelivery"], true);
    assert_eq!(listed.body[0]["guid"], guid, "a redelivery keeps the GUID");
    assert_eq!(site.call_as(&site.token, "GET", "/app/hook/deliveries", None).await.status, 401, "JWT only");
}

#[tokio::test]
async fn lists_are_paged_with_absolute_links() {
    let site = Site::new().await;
    for text in ["one", "two", "three", "four", "five"] {
        site.github.comment(REPO, site.number, "ann", text);
    }
    let base = site.github.base_url();
    let path = format!("/repos/{REPO}/issues/{}/comments", site.number);
    let first = site.get(&format!("{path}?per_page=2")).await;
    assert_eq!(
        first.header("link"),
        format!("<{base}{path}?per_page=2&page=2>; rel=\"next\", <{base}{path}?per_page=2&page=3>; rel=\"last\"")
    );
    let last = site.get(&format!("{path}?per_page=2&page=3")).await;
    assert_eq!(last.body.as_array().unwrap().len(), 1);
    assert_eq!(last.body[0]["body"], "five", "ascending");
    assert!(!last.header("link").contains("rel=\"next\""));
    assert!(site.get(&format!("{path}?per_page=100")).await.headers.get("link").is_none());
}

#[tokio::test]
async fn a_renamed_repository_answers_301_with_a_place_that_works() {
    let site = Site::new().await;
    let id = site.github.add_repo(REPO);
    site.github.rename_repo(REPO, "acme/gadget");
    let path = format!("/repos/{REPO}/pulls/{}?x=y", site.number);
    let moved = site.get(&path).await;
    assert_eq!(moved.status, 301);
    let place = format!("{}/repositories/{id}/pulls/{}?x=y", site.github.base_url(), site.number);
    assert_eq!(moved.header("location"), place);
    let there = site.get(&place).await;
    assert_eq!(there.body["base"]["repo"]["full_name"], "acme/gadget");
    assert_eq!(site.get("/repos/Acme/Gadget").await.status, 200, "names are not case sensitive");
    assert_eq!(site.get("/repos/acme/other").await.status, 404);
}

#[tokio::test]
async fn an_etag_saves_a_request_until_the_token_changes() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}/pulls/{}", site.number);
    let first = site.get(&path).await;
    let tag = first.header("etag").to_owned();
    let again = site.call_with(&site.token, "GET", (&path, &[("if-none-match", &tag)]), None).await;
    assert_eq!((again.status, again.body), (304, Value::String(String::new())));
    assert_eq!(again.headers["x-ratelimit-remaining"], first.headers["x-ratelimit-remaining"], "304 is free");
    site.github.push(REPO, site.number, NEXT);
    let changed = site.call_with(&site.token, "GET", (&path, &[("if-none-match", &tag)]), None).await;
    assert_eq!(changed.status, 200);
    let (tag, other) = (changed.header("etag").to_owned(), site.mint(&json!({})).await);
    let stranger = site.call_with(&other, "GET", (&path, &[("if-none-match", &tag)]), None).await;
    assert_eq!(stranger.status, 200, "tags belong to a token");
}

#[tokio::test]
async fn only_a_living_token_gets_in() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}");
    let table = [
        (site.token.clone(), "/app", 401, "the App endpoints want a JWT"),
        (jwt("RS256"), "/app", 200, "a JWT of ours"),
        (jwt("HS256"), "/app", 401, "the wrong algorithm"),
        (jwt("RS256"), path.as_str(), 401, "a JWT does not read repositories"),
        (site.token.clone(), path.as_str(), 200, "a token of the installation"),
        ("secret".to_owned(), path.as_str(), 200, "a personal token"),
        ("ghs_made_up".to_owned(), path.as_str(), 401, "a token nobody minted"),
        (String::new(), path.as_str(), 401, "nobody"),
        ("secret".to_owned(), "/user", 200, "people have a user"),
        (site.token.clone(), "/user", 403, "installations have none"),
    ];
    for (token, path, status, why) in table {
        assert_eq!(site.call_as(&token, "GET", path, None).await.status, status, "{why}");
    }
    site.github.set_now(site.github.now_ms() + 3_600_000);
    assert_eq!(site.get(&path).await.status, 401, "an installation token lives one hour");
}

#[tokio::test]
async fn a_narrowed_token_reaches_its_repository_and_permissions_only() {
    let site = Site::new().await;
    site.github.add_repo("acme/other");
    let body = json!({"repositories": ["board"], "permissions": {"statuses": "read"}});
    let token = site.mint(&body).await;
    let status = |repo: &str| format!("/repos/{repo}/commits/{HEAD}/status");
    assert_eq!(site.call_as(&token, "GET", &status(REPO), None).await.status, 200);
    assert_eq!(site.call_as(&token, "GET", "/repos/acme/other", None).await.status, 404);
    let post = format!("/repos/{REPO}/statuses/{HEAD}");
    let refused = site.call_as(&token, "POST", &post, Some(&json!({"state": "success"}))).await;
    assert_eq!((refused.status, refused.message()), (403, "Resource not accessible by integration"));
    site.github.grant_app(&[("metadata", "read")]);
    assert_eq!(site.get(&status(REPO)).await.status, 403, "a permission taken back binds old tokens too");
}

#[tokio::test]
async fn a_limit_says_what_the_service_says() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}");
    site.github.set_budget(5_000, 1, 403);
    assert_eq!(site.get(&path).await.header("x-ratelimit-remaining"), "0");
    let over = site.get(&path).await;
    assert_eq!((over.status, over.header("x-ratelimit-remaining")), (403, "0"));
    let reset: i64 = over.header("x-ratelimit-reset").parse().unwrap();
    assert_eq!(site.get("/rate_limit").await.body["resources"]["core"]["remaining"], 0, "asking is free");
    site.github.set_now(reset * 1_000);
    let token = site.mint(&json!({})).await;
    assert_eq!(site.call_as(&token, "GET", &path, None).await.status, 200, "a new hour");
    for (status, retry_after_s, header) in [(403, Some(7), "7"), (429, None, "")] {
        site.github.throttle(Throttle { status, retry_after_s, times: 1 });
        let reply = site.call_as(&token, "GET", &path, None).await;
        assert_eq!((reply.status, reply.header("retry-after")), (status, header));
        assert!(reply.message().contains("secondary rate limit"));
        assert_ne!(reply.header("x-ratelimit-remaining"), "0");
    }
    assert_eq!(site.call_as(&token, "GET", &path, None).await.status, 200);
}

#[tokio::test]
async fn the_bots_words_are_marked_as_the_apps() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}/issues/{}/comments", site.number);
    let made = site.post(&path, json!({"body": "report"})).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.body["user"]["login"], "retest-bot[bot]");
    assert_eq!(made.body["user"]["type"], "Bot");
    assert_eq!(made.body["performed_via_github_app"]["id"], APP);
    let one = format!("/repos/{REPO}/issues/comments/{}", made.body["id"]);
    let edited = site.call_as(&site.token, "PATCH", &one, Some(&json!({"body": "new"}))).await;
    assert_eq!((edited.status, &edited.body["body"]), (200, &json!("new")));
    let seen = &site.github.comments(REPO, site.number)[0];
    assert_eq!((seen.body.as_str(), seen.edits), ("new", 1));
    assert_eq!(site.post(&path, json!({"body": " "})).await.status, 422);
    assert_eq!(site.post(&path, json!({"body": "x".repeat(65_537)})).await.status, 422);
    site.github.lock(REPO, site.number);
    let person = site.call_as("secret", "POST", &path, Some(&json!({"body": "hi"}))).await;
    assert_eq!(person.status, 403, "the conversation is locked");
}

#[tokio::test]
async fn a_reaction_is_made_once_and_found_after_that() {
    let site = Site::new().await;
    let id = site.github.comment(REPO, site.number, "ann", "/retest");
    let path = format!("/repos/{REPO}/issues/comments/{id}/reactions");
    let made = site.post(&path, json!({"content": "eyes"})).await;
    assert_eq!(made.status, 201);
    let again = site.post(&path, json!({"content": "eyes"})).await;
    assert_eq!((again.status, &again.body["id"]), (200, &made.body["id"]));
    assert_eq!(site.post(&path, json!({"content": "party"})).await.status, 422);
    let seen = site.github.comments(REPO, site.number)[0].reactions.clone();
    assert_eq!(seen, [("retest-bot[bot]".to_owned(), "eyes".to_owned())]);
}

#[tokio::test]
async fn roles_are_told_as_the_service_tells_them() {
    let site = Site::new().await;
    let table = [
        ("admin", "admin", "admin"),
        ("maintain", "write", "maintain"),
        ("write", "write", "write"),
        ("triage", "read", "triage"),
        ("read", "read", "read"),
        ("none", "none", "none"),
    ];
    for (role, permission, role_name) in table {
        site.github.set_role(REPO, "bea", role);
        let reply = site.get(&format!("/repos/{REPO}/collaborators/BEA/permission")).await;
        assert_eq!(reply.body["permission"], permission, "{role}");
        assert_eq!(reply.body["role_name"], role_name, "{role}");
        assert_eq!(reply.body["user"]["id"], site.github.user_id("bea"));
    }
    assert_eq!(site.get(&format!("/repos/{REPO}/collaborators/nobody-here/permission")).await.status, 404);
    let ann = site.get(&format!("/repos/{REPO}/collaborators/ann/permission")).await;
    assert_eq!(ann.body["permission"], "read", "everybody reads a public repository");
}

#[tokio::test]
async fn a_file_is_read_raw_or_encoded_from_the_default_branch() {
    let site = Site::new().await;
    let path = format!("/repos/{REPO}/contents/.retest.toml");
    assert_eq!(site.get(&path).await.status, 404);
    site.github.put_file(REPO, ".retest.toml", "a = 1\n");
    let raw = [("accept", "application/vnd.github.raw+json")];
    let text = site.call_with(&site.token, "GET", (&path, &raw), None).await;
    assert_eq!(text.body, Value::String("a = 1\n".to_owned()));
    let encoded = site.get(&path).await;
    assert_eq!(encoded.body["content"], "YSA9IDEK\n");
    assert!(!encoded.header("etag").is_empty());
    site.github.put_file_at(REPO, HEAD, ".retest.toml", "a = 2\n");
    let other = format!("{path}?ref={HEAD}");
    assert_eq!(site.call_with(&site.token, "GET", (&other, &raw), None).await.body, json!("a = 2\n"));
}

#[tokio::test]
async fn a_request_without_a_user_agent_or_with_an_unknown_version_is_refused() {
    let site = Site::new().await;
    let url = format!("{}/zen", site.github.base_url());
    assert_eq!(site.client.get(&url).send().await.unwrap().status(), 403);
    let odd = [("x-github-api-version", "1999-01-01")];
    assert_eq!(site.call_with(&site.token, "GET", (&url, &odd), None).await.status, 400);
    assert_eq!(site.get(&url).await.status, 200);
}

#[tokio::test]
async fn a_suspended_installation_gets_nothing_but_its_own_news() {
    let (site, bot) = (Site::new().await, receiver(StatusCode::ACCEPTED).await);
    site.github.hook(&bot.base_url(), "s");
    site.github.drop_webhooks("");
    site.github.suspend("ann");
    assert_eq!(site.get(&format!("/repos/{REPO}")).await.status, 403);
    let mint = site.call_as(&jwt("RS256"), "POST", "/app/installations/9/access_tokens", None).await;
    assert_eq!(mint.status, 403);
    assert_eq!(site.deliver().await, ["installation.suspend"]);
    let body: Value = serde_json::from_slice(&bot.requests()[0].body).unwrap();
    assert_eq!(body["installation"]["account"]["login"], "acme");
    assert!(body.get("repository").is_none(), "an installation is of no repository");
    site.github.unsuspend("ann");
    assert_eq!(site.get(&format!("/repos/{REPO}")).await.status, 200);
}

#[tokio::test]
async fn a_demo_sends_webhooks_as_they_come() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let hear = move |request: axum::extract::Request| {
        let event = request.headers()["x-github-event"].to_str().unwrap().to_owned();
        tell.send(event).unwrap();
        async { StatusCode::ACCEPTED }
    };
    let (site, bot) = (Site::new().await, Wire::serve(Router::new().fallback(hear)).await.unwrap());
    site.github.auto_deliver();
    site.github.hook(&bot.base_url(), "s");
    assert_eq!(told.recv().await.unwrap(), "pull_request", "what was queued before is sent too");
    site.github.comment(REPO, site.number, "ann", "/retest");
    assert_eq!(told.recv().await.unwrap(), "issue_comment");
}
