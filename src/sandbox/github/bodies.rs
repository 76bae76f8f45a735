//! JSON of people, Apps, repositories and commits, with every property GitHub's description requires.
//!
//! Read next: `bodies_change.rs`, `bodies_ci.rs`.

use serde_json::{Map, Value, json};

use super::state::{Repo, State, iso};

/// URL fields of a user after `/users/LOGIN`.
const USER_URLS: [(&str, &str); 10] = [
    ("url", ""),
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
    ("organizations_url", "/orgs"),
    ("repos_url", "/repos"),
    ("events_url", "/events{/privacy}"),
    ("received_events_url", "/received_events"),
];

/// URL fields of a repository after `/repos/OWNER/NAME`.
const REPO_URLS: [(&str, &str); 37] = [
    ("url", ""),
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
];

/// Which copy of a repository a body speaks of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose<'a> {
    /// The repository itself.
    Own,
    /// The fork of this person.
    ForkOf(&'a str),
}

impl State {
    /// `BASE/repos/OWNER/NAME`.
    pub fn repo_url(&self, repo: &Repo) -> String {
        format!("{}/repos/{}/{}", self.api, repo.owner, repo.name)
    }

    /// `BASE/OWNER/NAME`, where people look.
    pub fn web_url(&self, repo: &Repo) -> String {
        format!("{}/{}/{}", self.api, repo.owner, repo.name)
    }

    pub fn user_body(&self, login: &str) -> Value {
        let user = self.users.get(&login.to_lowercase());
        let (id, kind) = user.map_or((0, "User"), |user| (user.id, user.kind));
        let login = user.map_or(login, |user| user.login.as_str());
        let (path, page) = match login.strip_suffix("[bot]") {
            Some(slug) => (format!("{slug}%5Bbot%5D"), format!("apps/{slug}")),
            None => (login.to_owned(), login.to_owned()),
        };
        let mut body = json!({
            "login": login,
            "id": id,
            "node_id": format!("U_{id}"),
            "avatar_url": format!("{}/avatars/u/{id}", self.api),
            "gravatar_id": "",
            "html_url": format!("{}/{page}", self.api),
            "type": kind,
            "site_admin": false,
        });
        for (key, end) in USER_URLS {
            body[key] = format!("{}/users/{path}{end}", self.api).into();
        }
        body
    }

    /// The longer form of `GET /user` and `GET /users/LOGIN`.
    pub fn full_user_body(&self, login: &str) -> Value {
        let mut body = self.user_body(login);
        let more = json!({
            "name": login, "company": null, "blog": "", "location": null, "email": null, "hireable": null,
            "bio": null, "public_repos": 1, "public_gists": 0, "followers": 0, "following": 0,
            "created_at": iso(0), "updated_at": iso(0), "private_gists": 0, "total_private_repos": 0,
            "owned_private_repos": 0, "disk_usage": 0, "collaborators": 0, "two_factor_authentication": true,
        });
        extend(&mut body, more);
        body
    }

    pub fn organization_body(&self, login: &str) -> Value {
        let url = format!("{}/orgs/{login}", self.api);
        let id = self.users.get(&login.to_lowercase()).map_or(0, |user| user.id);
        json!({
            "login": login,
            "id": id,
            "node_id": format!("O_{id}"),
            "url": url,
            "repos_url": format!("{url}/repos"),
            "events_url": format!("{url}/events"),
            "hooks_url": format!("{url}/hooks"),
            "issues_url": format!("{url}/issues"),
            "members_url": format!("{url}/members{{/member}}"),
            "public_members_url": format!("{url}/public_members{{/member}}"),
            "avatar_url": format!("{}/avatars/u/{id}", self.api),
            "description": "An organisation of the sandbox",
        })
    }

    pub fn app_body(&self, app_id: u64) -> Value {
        let slug = self.apps.iter().find(|app| app.id == app_id).map_or("unknown", |app| app.slug.as_str());
        let permissions = json!({"checks": "write", "metadata": "read"});
        let own = self.own_app_id() == Some(app_id);
        json!({
            "id": app_id,
            "slug": slug,
            "client_id": format!("Iv1.{app_id}"),
            "node_id": format!("A_{app_id}"),
            "owner": self.user_body("sandbox"),
            "name": slug,
            "description": "",
            "external_url": format!("{}/apps/{slug}/home", self.api),
            "html_url": format!("{}/apps/{slug}", self.api),
            "created_at": iso(0),
            "updated_at": iso(0),
            "permissions": if own { json!(self.permissions) } else { permissions },
            "events": ["check_run", "issue_comment", "pull_request", "status", "workflow_job", "workflow_run"],
        })
    }

    /// The short form used inside other bodies.
    pub fn small_repo(&self, repo: &Repo, whose: Whose<'_>) -> Value {
        let (id, owner, fork) = match whose {
            Whose::Own => (repo.id, repo.owner.as_str(), false),
            Whose::ForkOf(login) => {
                let of = self.users.get(&login.to_lowercase()).map_or(0, |user| user.id);
                (repo.id * 1_000 + of % 1_000, login, true)
            }
        };
        let mut body = json!({
            "id": id,
            "node_id": format!("R_{id}"),
            "name": repo.name,
            "full_name": format!("{owner}/{}", repo.name),
            "owner": self.user_body(owner),
            "private": repo.private,
            "html_url": format!("{}/{owner}/{}", self.api, repo.name),
            "description": "A repository of the sandbox",
            "fork": fork,
        });
        for (key, end) in REPO_URLS {
            body[key] = format!("{}/repos/{owner}/{}{end}", self.api, repo.name).into();
        }
        body
    }

    /// The full form.
    pub fn repo_body(&self, repo: &Repo, whose: Whose<'_>) -> Value {
        let mut body = self.small_repo(repo, whose);
        let web = body["html_url"].as_str().unwrap_or_default().to_owned();
        let open = repo.issues.values().filter(|issue| issue.open).count();
        let more = json!({
            "clone_url": format!("{web}.git"),
            "git_url": format!("{web}.git"),
            "ssh_url": format!("git@localhost:{}.git", repo.full_name()),
            "svn_url": web,
            "mirror_url": null,
            "homepage": null,
            "language": null,
            "license": null,
            "default_branch": repo.default_branch,
            "visibility": if repo.private { "private" } else { "public" },
            "forks": 0, "forks_count": 0, "network_count": 0, "subscribers_count": 0,
            "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "size": 1,
            "open_issues": open, "open_issues_count": open,
            "has_issues": true, "has_projects": false, "has_wiki": false, "has_pages": false,
            "has_discussions": false, "has_downloads": true,
            "archived": false, "disabled": false, "allow_forking": true, "is_template": false,
            "web_commit_signoff_required": false, "topics": [],
            "pushed_at": iso(repo.created_ms),
            "created_at": iso(repo.created_ms),
            "updated_at": iso(repo.created_ms),
        });
        extend(&mut body, more);
        body
    }

    /// A commit as `GET /commits/REF` gives it.
    pub fn commit_body(&self, repo: &Repo, sha: &str) -> Value {
        let url = format!("{}/commits/{sha}", self.repo_url(repo));
        let person = json!({"name": "Sandbox", "email": "sandbox@example.com", "date": iso(repo.created_ms)});
        json!({
            "url": url,
            "sha": sha,
            "node_id": format!("C_{sha}"),
            "html_url": format!("{}/commit/{sha}", self.web_url(repo)),
            "comments_url": format!("{url}/comments"),
            "commit": {
                "author": person,
                "committer": person,
                "comment_count": 0,
                "verification": {
                    "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null,
                },
                "message": "A commit of the sandbox",
                "tree": {"sha": sha, "url": format!("{}/git/trees/{sha}", self.repo_url(repo))},
                "url": format!("{}/git/commits/{sha}", self.repo_url(repo)),
            },
            "author": self.user_body(&repo.owner),
            "committer": self.user_body(&repo.owner),
            "parents": [],
        })
    }

    /// A commit inside runs and suites.
    pub fn head_commit(&self, sha: &str) -> Value {
        let person = json!({"name": "Sandbox", "email": "sandbox@example.com"});
        json!({
            "id": sha,
            "tree_id": sha,
            "message": "A commit of the sandbox",
            "timestamp": iso(0),
            "author": person,
            "committer": person,
        })
    }
}

/// Adds the fields of `more` to `body`; both must be objects.
pub(super) fn extend(body: &mut Value, more: Value) {
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
}

/// The fields of an object literal.
pub(super) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
