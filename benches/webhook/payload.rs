//! The bodies: as large and as deep as GitHub's own, made here, so that no sample has to be kept.
//!
//! A comment comes to about 14 kB, which is what GitHub sends for one in a repository of an organisation.

use serde_json::{Map, Value, json};

use crate::load::Delivery;

/// Stands in a template for a number of ten digits, so that every body has one length.
const NUMBER: &str = "4999999999";

/// Addresses below a repository; their names in the payload end in `_url`.
const REPOSITORY_PLACES: [&str; 36] = [
    "forks",
    "keys{/key_id}",
    "collaborators{/collaborator}",
    "teams",
    "hooks",
    "issues/events{/number}",
    "events",
    "assignees{/user}",
    "branches{/branch}",
    "tags",
    "git/blobs{/sha}",
    "git/tags{/sha}",
    "git/refs{/sha}",
    "git/trees{/sha}",
    "statuses/{sha}",
    "languages",
    "stargazers",
    "contributors",
    "subscribers",
    "subscription",
    "commits{/sha}",
    "git/commits{/sha}",
    "comments{/number}",
    "issues/comments{/number}",
    "contents/{+path}",
    "compare/{base}...{head}",
    "merges",
    "{archive_format}{/ref}",
    "downloads",
    "issues{/number}",
    "pulls{/number}",
    "milestones{/number}",
    "notifications{?since,all,participating}",
    "labels{/name}",
    "releases{/id}",
    "deployments",
];

/// Addresses below a person.
const PERSON_PLACES: [&str; 9] = [
    "followers",
    "following{/other_user}",
    "gists{/gist_id}",
    "starred{/owner}{/repo}",
    "subscriptions",
    "orgs",
    "repos",
    "events{/privacy}",
    "received_events",
];

/// Numbers and switches of a repository.
const REPOSITORY_FACTS: [(&str, i64); 14] = [
    ("size", 182_344),
    ("stargazers_count", 1_812),
    ("watchers_count", 1_812),
    ("forks_count", 604),
    ("forks", 604),
    ("open_issues_count", 231),
    ("open_issues", 231),
    ("watchers", 1_812),
    ("has_issues", 1),
    ("has_projects", 1),
    ("has_downloads", 1),
    ("has_wiki", 0),
    ("has_pages", 0),
    ("has_discussions", 1),
];

fn places(base: &str, names: &[&str]) -> Map<String, Value> {
    let key = |name: &str| {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        format!("{plain}_url")
    };
    names.iter().map(|name| (key(name), json!(format!("{base}/{name}")))).collect()
}

fn person(id: u64, login: &str) -> Value {
    let mut fields = places(&format!("https://api.github.com/users/{login}"), &PERSON_PLACES);
    let facts = json!({
        "login": login, "id": id, "node_id": format!("MDQ6VXNlcj{id}"), "type": "User", "site_admin": false,
        "avatar_url": format!("https://avatars.githubusercontent.com/u/{id}?v=4"), "gravatar_id": "",
        "url": format!("https://api.github.com/users/{login}"), "html_url": format!("https://github.com/{login}"),
    });
    fields.extend(facts.as_object().cloned().unwrap_or_default());
    Value::Object(fields)
}

fn repository(name: &str, id: u64) -> Value {
    let base = format!("https://api.github.com/repos/{name}");
    let (owner, short) = name.split_once('/').unwrap_or((name, name));
    let mut fields = places(&base, &REPOSITORY_PLACES);
    fields.extend(REPOSITORY_FACTS.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
    let facts = json!({
        "id": id, "node_id": "R_kgDOBench00", "name": short, "full_name": name, "private": false, "fork": false,
        "owner": person(9, owner), "html_url": format!("https://github.com/{name}"), "url": base,
        "description": "A kernel tree with boards of many kinds in several labs, tested on every push.",
        "created_at": "2019-03-12T07:20:11Z", "updated_at": "2026-11-30T21:04:55Z", "pushed_at": "2026-12-01T00:59:01Z",
        "git_url": format!("git://github.com/{name}.git"), "ssh_url": format!("git@github.com:{name}.git"),
        "clone_url": format!("https://github.com/{name}.git"), "svn_url": format!("https://github.com/{name}"),
        "homepage": "https://ci.example.org", "language": "C", "mirror_url": null, "archived": false, "disabled": false,
        "license": { "key": "gpl-2.0", "name": "GNU General Public License v2.0", "spdx_id": "GPL-2.0",
            "url": "https://api.github.com/licenses/gpl-2.0", "node_id": "MDc6TGljZW5zZTg=" },
        "allow_forking": true, "is_template": false, "web_commit_signoff_required": true, "visibility": "public",
        "topics": ["ci", "embedded", "kernel", "lab", "testing"], "default_branch": "main",
        "custom_properties": { "team": "platform", "tier": "1" },
    });
    fields.extend(facts.as_object().cloned().unwrap_or_default());
    Value::Object(fields)
}

/// The repository of all deliveries here.
pub const REPOSITORY: &str = "bench-board-labs/kernel-under-test";

/// The id of that repository.
pub const REPOSITORY_ID: u64 = 135_493_233;

/// A new comment on a pull request.
#[derive(Clone, Debug)]
pub struct Comment<'a> {
    /// Number of the pull request.
    pub change: u64,
    /// Id of the comment.
    pub id: u64,
    /// Id of its author, whose login is `dev-ID`.
    pub author: u64,
    /// What it says.
    pub text: &'a str,
}

/// The body of `issue_comment` with the action `created`.
pub fn comment(comment: &Comment<'_>) -> Vec<u8> {
    let repo = format!("https://api.github.com/repos/{REPOSITORY}");
    let issue = format!("{repo}/issues/{}", comment.change);
    let page = format!("https://github.com/{REPOSITORY}/pull/{}", comment.change);
    let login = format!("dev-{}", comment.author);
    let reactions = json!({ "url": format!("{issue}/reactions"), "total_count": 0, "+1": 0, "-1": 0, "laugh": 0,
        "hooray": 0, "confused": 0, "heart": 0, "rocket": 0, "eyes": 0 });
    let label = |name: &str| {
        json!({ "id": 208_045_946, "node_id": "MDU6TGFiZWwyMDgwNDU5NDY=", "color": "f29513",
        "url": format!("{repo}/labels/{name}"), "name": name, "description": "Set by hand", "default": false })
    };
    let body = "The board driver waits for the second clock now, as the data sheet asks.\r\n\r\n".repeat(12);
    let value = json!({
        "action": "created",
        "issue": {
            "url": issue, "repository_url": repo, "labels_url": format!("{issue}/labels{{/name}}"),
            "comments_url": format!("{issue}/comments"), "events_url": format!("{issue}/events"), "html_url": page,
            "id": 444_500_041, "node_id": "PR_kwDOBench0001", "number": comment.change, "title": "Wait for the second clock",
            "user": person(21_031_067, "board-maintainer"), "labels": [label("drivers"), label("needs-lab")],
            "state": "open", "locked": false, "assignee": person(21_031_068, "lab-operator"),
            "assignees": [person(21_031_068, "lab-operator")], "milestone": null, "comments": 12,
            "created_at": "2026-11-29T15:20:18Z", "updated_at": "2026-12-01T01:00:00Z", "closed_at": null,
            "author_association": "CONTRIBUTOR", "active_lock_reason": null, "draft": false, "body": body,
            "pull_request": { "url": format!("{repo}/pulls/{}", comment.change), "html_url": page,
                "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"), "merged_at": null },
            "reactions": reactions, "timeline_url": format!("{issue}/timeline"), "performed_via_github_app": null,
            "state_reason": null,
        },
        "comment": {
            "url": format!("{repo}/issues/comments/{}", comment.id), "html_url": format!("{page}#issuecomment-{}", comment.id),
            "issue_url": issue, "id": comment.id, "node_id": "IC_kwDOBench0001", "user": person(comment.author, &login),
            "created_at": now(), "updated_at": now(), "author_association": "MEMBER", "body": comment.text,
            "reactions": reactions, "performed_via_github_app": null,
        },
        "repository": repository(REPOSITORY, REPOSITORY_ID),
        "organization": { "login": "bench-board-labs", "id": 9, "node_id": "MDEyOk9yZ2FuaXphdGlvbjk=",
            "url": "https://api.github.com/orgs/bench-board-labs", "repos_url": "https://api.github.com/orgs/bench-board-labs/repos",
            "events_url": "https://api.github.com/orgs/bench-board-labs/events", "description": "Boards and labs",
            "hooks_url": "https://api.github.com/orgs/bench-board-labs/hooks",
            "avatar_url": "https://avatars.githubusercontent.com/u/9?v=4" },
        "sender": person(comment.author, &login),
    });
    value.to_string().into_bytes()
}

/// Now, as GitHub writes it: a comment that is too old would not be obeyed.
fn now() -> String {
    chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Makes many comments of one text that differ in their ids.
#[derive(Clone, Debug)]
pub struct Template(Vec<Vec<u8>>);

impl Template {
    /// A template of a comment on change 1 by one author.
    pub fn of(text: &str) -> Self {
        let id = NUMBER.parse().unwrap_or_default();
        let body = comment(&Comment { change: 1, id, author: 4_711, text });
        let text = String::from_utf8(body).unwrap_or_default();
        Self(text.split(NUMBER).map(|part| part.as_bytes().to_vec()).collect())
    }

    /// The comment with the `number`-th id.
    pub fn body(&self, number: u64) -> Vec<u8> {
        let digits = (4_000_000_000 + number % 900_000_000).to_string();
        self.0.join(digits.as_bytes())
    }
}

/// A delivery id of GitHub's form, one for each pair of numbers.
pub fn delivery_id(run: u64, number: u64) -> String {
    // Spread as random ids are, so that the index is not filled in order; the factor is odd, so no two are the same.
    let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("{:08x}-{:04x}-4000-8{:03x}-{number:012x}", spread >> 32, (spread >> 16) & 0xffff, run & 0xfff)
}

/// A `pull_request` delivery that tells of a head, `minute` minutes after the first.
pub fn pull_request(action: &'static str, change: u64, head: &str, minute: u32) -> Delivery {
    let body = json!({
        "action": action, "number": change,
        "pull_request": {
            "number": change, "state": "open", "user": person(21_031_067, "board-maintainer"), "labels": [],
            "head": { "sha": head, "ref": "topic", "repo": { "id": REPOSITORY_ID } },
            "base": { "sha": "0".repeat(40), "ref": "main", "repo": { "id": REPOSITORY_ID } },
            "updated_at": format!("2026-11-30T10:{minute:02}:00Z"),
        },
        "repository": repository(REPOSITORY, REPOSITORY_ID), "sender": person(21_031_067, "board-maintainer"),
    });
    let id = delivery_id(u64::from(minute) + 1, change);
    Delivery { event: "pull_request", id, body: body.to_string().into_bytes(), authentic: true }
}

/// A job of GitHub Actions that is over.
#[derive(Clone, Debug)]
pub struct OverJob<'a> {
    /// Its id.
    pub id: u64,
    /// The workflow run that it belongs to.
    pub run: u64,
    /// Its name.
    pub name: &'a str,
    /// Its commit.
    pub head: &'a str,
    /// `success` or `failure`.
    pub conclusion: &'a str,
}

/// A `workflow_job` delivery; short, because nothing of it is timed.
pub fn workflow_job(job: &OverJob<'_>) -> Delivery {
    let step = json!({ "name": "boot", "status": "completed", "conclusion": job.conclusion, "number": 1 });
    let body = json!({
        "action": "completed",
        "workflow_job": {
            "id": job.id, "run_id": job.run, "run_attempt": 1, "name": job.name, "workflow_name": "lab",
            "head_sha": job.head, "status": "completed", "conclusion": job.conclusion, "runner_id": 7, "steps": [step],
            "html_url": format!("https://github.com/{REPOSITORY}/actions/runs/{}/job/{}", job.run, job.id),
        },
        "repository": { "id": REPOSITORY_ID, "full_name": REPOSITORY, "default_branch": "main" },
    });
    let id = delivery_id(77, job.id);
    Delivery { event: "workflow_job", id, body: body.to_string().into_bytes(), authentic: true }
}
