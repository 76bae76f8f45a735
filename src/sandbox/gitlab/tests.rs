//! The sandbox behaves as GitLab does: who may ask, project paths, pages, notes, quick actions, members, files, issues.

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::*;

pub(super) const HEAD: &str = "1111111111111111111111111111111111111111";
pub(super) const NEXT: &str = "2222222222222222222222222222222222222222";
pub(super) const TOKEN: &str = "glpat-sandbox";

/// A sandbox with one project, one merge request, and a client of it.
pub(super) struct Site {
    pub gitlab: GitLabSandbox,
    pub project: u64,
    pub iid: u64,
    client: reqwest::Client,
}

pub(super) struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub fn rows(&self) -> &[Value] {
        self.body.as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

impl Site {
    pub async fn new() -> Self {
        Self::below(None).await
    }

    async fn below(path_prefix: Option<String>) -> Self {
        let (token, bot_username) = (TOKEN.to_owned(), "retest-bot".to_owned());
        let options = Options { token, bot_username, start_ms: 1_800_000_000_000, path_prefix };
        let gitlab = GitLabSandbox::start(options).await.unwrap();
        let project = gitlab.add_project("lab/boards/kernel");
        let iid = gitlab.open_merge_request(project, "ann", HEAD, NewMergeRequest::default());
        gitlab.drop_webhooks("");
        let client =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).redirect(reqwest::redirect::Policy::none());
        let client = client.build().unwrap();
        Self { gitlab, project, iid, client }
    }

    /// A form, as the common clients send it.
    pub async fn form(&self, path: &str, body: &str) -> Reply {
        let path = path.replace(":id", &self.project.to_string());
        let request = self.client.post(format!("{}/api/v4{path}", self.gitlab.base_url()));
        let request =
            request.header("private-token", TOKEN).header("content-type", "application/x-www-form-urlencoded");
        Self::read(request.body(body.to_owned()).send().await.unwrap()).await
    }

    async fn read(response: reqwest::Response) -> Reply {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Reply { status, headers, text, body }
    }

    pub async fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Reply {
        let path = path.replace(":id", &self.project.to_string());
        let mut request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.gitlab.base_url()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        Self::read(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", &format!("/api/v4{path}"), &[("private-token", TOKEN)], None).await
    }

    pub async fn send(&self, method: &str, path: &str, body: Value) -> Reply {
        self.call(method, &format!("/api/v4{path}"), &[("private-token", TOKEN)], Some(&body)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, body).await
    }

    /// The waiting events, sent to nobody: name and payload.
    pub fn events(&self) -> Vec<(std::borrow::Cow<'static, str>, Value)> {
        self.gitlab.with(|state| state.queue.drain(..).map(|event| (event.name, event.payload)).collect())
    }
}

#[tokio::test]
async fn both_ways_to_show_a_token_work_and_all_others_are_refused_in_gitlabs_words() {
    let site = Site::new().await;
    site.gitlab.add_token("reader", "sam", false);
    site.gitlab.add_token("gone", "sam", true);
    site.gitlab.revoke_token("gone");
    let none = ("accept", "*/*");
    let table = [
        (("private-token", TOKEN), "GET", 200, Value::Null),
        (("authorization", "Bearer glpat-sandbox"), "GET", 200, Value::Null),
        (none, "GET", 401, json!({"message": "401 Unauthorized"})),
        (("private-token", "wrong"), "GET", 401, json!({"message": "401 Unauthorized"})),
        (("private-token", "gone"), "GET", 401, json!("invalid_token")),
        (("private-token", "reader"), "POST", 403, json!("insufficient_scope")),
    ];
    for (header, method, status, body) in table {
        let reply = site.call(method, "/api/v4/user", &[header], None).await;
        assert_eq!(reply.status, status, "{header:?}");
        if body.is_object() {
            assert_eq!(reply.body, body, "{header:?}");
        } else if body.is_string() {
            assert_eq!(reply.body["error"], body, "the third shape of error: {header:?}");
        } else {
            assert_eq!(reply.body["username"], "retest-bot");
        }
    }
}

#[tokio::test]
async fn a_project_is_found_by_id_and_by_encoded_path_and_a_former_path_redirects_reads_only() {
    let site = Site::new().await;
    let by_id = site.get("/projects/:id").await;
    let by_path = site.get("/projects/lab%2Fboards%2Fkernel").await;
    assert_eq!((by_id.status, by_path.status), (200, 200));
    assert_eq!(by_id.body["id"], by_path.body["id"]);
    assert_eq!(site.get("/projects/lab/boards/kernel").await.status, 404, "slashes that are not encoded are a path");

    site.gitlab.rename_project(site.project, "lab/kernel");
    let moved = site.get("/projects/lab%2Fboards%2Fkernel/merge_requests?state=opened").await;
    assert_eq!(moved.status, 301);
    let target = format!("/api/v4/projects/{}/merge_requests?state=opened", site.project);
    assert_eq!(moved.header("location"), target);
    let note = site.post("/projects/lab%2Fboards%2Fkernel/merge_requests/1/notes", json!({"body": "x"})).await;
    assert_eq!(note.status, 405);
    assert_eq!(site.get("/projects/lab%2Fkernel").await.body["id"], site.project);
}

#[tokio::test]
async fn an_instance_below_a_path_lives_nowhere_else() {
    let site = Site::below(Some("/gitlab/".to_owned())).await;
    assert!(site.gitlab.base_url().ends_with("/gitlab"));
    let reply = site.get("/projects/:id/merge_requests?per_page=1").await;
    assert_eq!(reply.status, 200);
    let port = site.gitlab.wire().port();
    let first = format!("<http://127.0.0.1:{port}/gitlab/api/v4/projects/{}/merge_requests?", site.project);
    assert!(reply.header("link").contains(&first), "{}", reply.header("link"));
    let url = format!("http://127.0.0.1:{port}/api/v4/user");
    assert_eq!(site.client.get(url).header("private-token", TOKEN).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn lists_come_in_pages_that_name_their_neighbours() {
    let site = Site::new().await;
    for number in 1..=45 {
        site.gitlab.note(site.project, site.iid, "ann", &format!("note {number}"));
    }
    let path = "/projects/:id/merge_requests/1/notes?sort=asc";
    let first = site.get(path).await;
    assert_eq!((first.rows().len(), first.header("x-next-page"), first.header("x-total")), (20, "2", "45"));
    assert!(first.header("link").contains("page=2&per_page=20>; rel=\"next\""), "{}", first.header("link"));
    let last = site.get(&format!("{path}&page=3")).await;
    assert_eq!((last.rows().len(), last.header("x-next-page"), last.header("x-prev-page")), (5, "", "2"));
    assert!(!last.header("link").contains("rel=\"next\""));
    assert_eq!(last.rows()[4]["body"], "note 45");
    assert_eq!(site.get(&format!("{path}&per_page=500")).await.header("x-per-page"), "100", "100 rows at most");
}

#[tokio::test]
async fn every_reply_tells_the_rate_limit_and_one_request_too_many_gets_plain_text() {
    let site = Site::new().await;
    site.gitlab.set_rate_limit(2);
    let reply = site.get("/user").await;
    assert_eq!((reply.header("ratelimit-limit"), reply.header("ratelimit-remaining")), ("2", "1"));
    assert_eq!(reply.header("ratelimit-reset"), "1800000060");
    site.get("/user").await;
    let over = site.get("/user").await;
    assert_eq!((over.status, over.text.as_str(), over.header("retry-after")), (429, "Retry later\n", "60"));
    assert!(!over.header("ratelimit-resettime").is_empty());
    site.gitlab.set_now(1_800_000_060_000);
    assert_eq!(site.get("/user").await.status, 200, "the next minute counts anew");
}

#[tokio::test]
async fn a_faulty_wire_shows_through_the_sandbox() {
    use crate::sandbox::wire::{Fault, Reply};
    let site = Site::new().await;
    let later = Reply { status: 429, headers: vec![("retry-after", "7".to_owned())], body: "Retry later".to_owned() };
    site.gitlab.wire().break_next(None, "/notes", 1, Fault::AnswerAfterEffect(later));
    let lost = site.post("/projects/:id/merge_requests/1/notes", json!({"body": "hello"})).await;
    assert_eq!((lost.status, lost.header("retry-after")), (429, "7"));
    assert_eq!(site.gitlab.notes(site.project, site.iid).len(), 1, "the note was written all the same");
}

#[tokio::test]
async fn notes_are_written_edited_and_listed_and_internal_ones_stay_among_members() {
    let site = Site::new().await;
    let made = site.post("/projects/:id/merge_requests/1/notes", json!({"body": "hello", "internal": true})).await;
    assert_eq!((made.status, &made.body["internal"], &made.body["system"]), (201, &json!(true), &json!(false)));
    let id = made.body["id"].as_u64().unwrap();
    let edited = site.send("PUT", &format!("/projects/:id/merge_requests/1/notes/{id}"), json!({"body": "new"})).await;
    assert_eq!((edited.status, &edited.body["body"]), (200, &json!("new")));
    let view = &site.gitlab.notes(site.project, site.iid)[0];
    assert_eq!((view.author.as_str(), view.internal, view.edits), ("retest-bot", true, 1));

    let system = NewNote { body: "added 1 commit".to_owned(), kind: NoteKind::System };
    site.gitlab.note_as(site.project, site.iid, "ann", system);
    let comments = site.get("/projects/:id/merge_requests/1/notes?activity_filter=only_comments").await;
    assert_eq!(comments.rows().len(), 1, "notes of GitLab itself are no comments");
    site.gitlab.set_level(site.project, "guest", 10);
    site.gitlab.add_token("guest", "guest", true);
    let path = "/api/v4/projects/:id/merge_requests/1/notes";
    let seen =
        site.call("GET", &path.replace(":id", &site.project.to_string()), &[("private-token", "guest")], None).await;
    assert_eq!(seen.rows().len(), 1, "a guest sees the system note only");

    let foreign = site.gitlab.note(site.project, site.iid, "ann", "mine");
    let path = format!("/projects/:id/merge_requests/1/notes/{foreign}");
    assert_eq!(site.send("PUT", &path, json!({"body": "yours"})).await.status, 403, "a Developer edits own notes only");
    assert_eq!(site.send("PUT", "/projects/:id/merge_requests/1/notes/1", json!({"body": "x"})).await.status, 404);
}

#[tokio::test]
async fn a_reply_stands_in_its_thread() {
    let site = Site::new().await;
    let first = site.gitlab.note_as(site.project, 1, "ann", NewNote { body: "a line".into(), kind: NoteKind::OnDiff });
    let thread = site.events()[0].1["object_attributes"]["discussion_id"].as_str().unwrap().to_owned();
    assert_eq!(site.gitlab.notes(site.project, 1)[0].id, first);
    let path = format!("/projects/:id/merge_requests/1/discussions/{thread}/notes");
    let reply = site.post(&path, json!({"body": "answer"})).await;
    assert_eq!((reply.status, &reply.body["type"]), (201, &json!("DiscussionNote")));
    assert_eq!(site.events()[0].1["object_attributes"]["discussion_id"], thread);
    assert_eq!(site.post(&path.replace(&thread, "none"), json!({"body": "x"})).await.status, 404);
}

#[tokio::test]
async fn the_same_emoji_twice_by_the_same_person_is_refused() {
    let site = Site::new().await;
    let note = site.gitlab.note(site.project, site.iid, "ann", "/retest");
    let path = format!("/projects/:id/merge_requests/1/notes/{note}/award_emoji");
    assert_eq!(site.post(&path, json!({"name": "eyes"})).await.status, 201);
    let again = site.post(&path, json!({"name": "eyes"})).await;
    assert_eq!(again.status, 404);
    assert!(again.message().contains("has already been taken"), "{}", again.message());
    assert_eq!(site.post(&path, json!({"name": ":eyes:"})).await.status, 404, "names come without colons");
    assert_eq!(site.post(&path, json!({"name": "rocket"})).await.status, 201);
    let emoji = &site.gitlab.notes(site.project, site.iid)[0].emoji;
    assert_eq!(
        emoji.iter().map(|(user, name)| format!("{user} {name}")).collect::<Vec<_>>().join(","),
        "retest-bot eyes,retest-bot rocket"
    );
}

#[tokio::test]
async fn quick_actions_are_obeyed_and_stripped_and_nothing_else_is() {
    let table = [
        ("/close", "", "/close", "a known word alone"),
        ("please\n/LABEL ~flake\nthanks", "please\nthanks", "/LABEL ~flake", "capitals and arguments"),
        ("/retest lava-x86", "/retest lava-x86", "", "an unknown word"),
        ("/closeness", "/closeness", "", "a known word only begins it"),
        (" /close", " /close", "", "not in the first column"),
        ("```\n/close\n```", "```\n/close\n```", "", "code"),
        (">>>\n/close\n>>>\n/merge", ">>>\n/close\n>>>", "/merge", "a quote, and a line after it"),
    ];
    for (text, kept, obeyed, why) in table {
        assert_eq!(quick_actions::split(text), (kept.to_owned(), obeyed.lines().map(str::to_owned).collect()), "{why}");
    }
    let site = Site::new().await;
    assert_eq!(site.gitlab.note(site.project, site.iid, "ann", "/close"), 0, "such a note is not saved");
    assert_eq!(site.gitlab.merge_requests(site.project)[0].state, "closed");
    let names: Vec<_> = site.events().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Merge Request Hook"], "no note, no Note Hook");
    let reply = site.post("/projects/:id/merge_requests/1/notes", json!({"body": "/reopen"})).await;
    assert_eq!((reply.status, &reply.body["summary"]), (202, &json!(["/reopen"])));
    assert_eq!(site.gitlab.quick_actions(site.project, 1)[1].0, "retest-bot");
}

#[tokio::test]
async fn members_are_asked_by_number_and_strangers_are_not_found() {
    let site = Site::new().await;
    site.gitlab.set_level(site.project, "sam", 40);
    site.gitlab.set_membership(site.project, "sam", "blocked", Some("2027-01-15"));
    let sam = site.gitlab.user_id("sam");
    let reply = site.get(&format!("/projects/:id/members/all/{sam}")).await;
    assert_eq!((&reply.body["access_level"], &reply.body["state"]), (&json!(40), &json!("blocked")));
    assert_eq!(reply.body["expires_at"], "2027-01-15");
    let stranger = site.gitlab.user_id("stranger");
    let reply = site.get(&format!("/projects/:id/members/all/{stranger}")).await;
    assert_eq!((reply.status, reply.message()), (404, "404 Not found"));
    site.gitlab.set_level(site.project, "sam", 0);
    assert_eq!(site.get(&format!("/projects/:id/members/all/{sam}")).await.status, 404, "the right was taken away");
}

#[tokio::test]
async fn files_and_issues_are_read_and_an_unchanged_answer_is_not_sent_twice() {
    let site = Site::new().await;
    site.gitlab.put_file(site.project, ".ci/.retest.toml", "[limits]\n");
    let path = "/projects/:id/repository/files/.ci%2F.retest.toml/raw?ref=main";
    let file = site.get(path).await;
    assert_eq!((file.status, file.text.as_str()), (200, "[limits]\n"));
    let headers = [("private-token", TOKEN), ("if-none-match", file.header("etag"))];
    let again = site.call("GET", &format!("/api/v4{path}"), &headers, None).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    site.gitlab.put_file(site.project, ".ci/.retest.toml", "[limits]\nhours = 1\n");
    assert_eq!(site.call("GET", &format!("/api/v4{path}"), &headers, None).await.status, 200);
    let missing = site.get("/projects/:id/repository/files/none/raw").await;
    assert_eq!((missing.status, missing.message()), (404, "404 File Not Found"));

    let labels = |list: &[&str]| list.iter().map(|label| (*label).to_owned()).collect();
    for (title, list, closed) in
        [("a", &["flake", "arm"][..], false), ("b", &["flake"], false), ("c", &["flake"], true)]
    {
        site.gitlab.add_issue(
            site.project,
            "ann",
            NewIssue { title: title.into(), labels: labels(list), closed, ..NewIssue::default() },
        );
    }
    let titles =
        |reply: &Reply| reply.rows().iter().map(|row| row["title"].as_str().unwrap().to_owned()).collect::<String>();
    assert_eq!(titles(&site.get("/projects/:id/issues?labels=flake&state=opened").await), "ba");
    assert_eq!(titles(&site.get("/projects/:id/issues?labels=flake,arm").await), "a", "all labels must be there");
}

#[tokio::test]
async fn a_merge_request_shows_its_head_and_takes_labels_one_by_one() {
    let site = Site::new().await;
    let one = site.get("/projects/:id/merge_requests/1").await.body;
    assert_eq!(
        (&one["sha"], &one["head_pipeline"], &one["author"]["username"]),
        (&json!(HEAD), &Value::Null, &json!("ann"))
    );
    site.gitlab.push(site.project, site.iid, NEXT);
    assert_eq!(site.get("/projects/:id/merge_requests/1").await.body["diff_refs"]["head_sha"], NEXT);
    site.send("PUT", "/projects/:id/merge_requests/1", json!({"add_labels": "retest/auto,slow"})).await;
    site.send("PUT", "/projects/:id/merge_requests/1", json!({"remove_labels": "slow"})).await;
    assert_eq!(site.gitlab.merge_requests(site.project)[0].labels, ["retest/auto"]);
    site.gitlab.set_now(1_800_000_100_000);
    let since = "2027-01-15T08:01:00.000Z";
    assert!(site.get(&format!("/projects/:id/merge_requests?updated_after={since}")).await.rows().is_empty());
    site.gitlab.note(site.project, site.iid, "ann", "hello");
    assert_eq!(site.get(&format!("/projects/:id/merge_requests?updated_after={since}")).await.rows().len(), 1);
    assert_eq!(site.get("/projects/:id/merge_requests/99").await.status, 404);
}
