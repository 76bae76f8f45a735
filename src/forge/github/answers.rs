//! What we say on GitHub: reactions, statuses, our check run, the report.
//!
//! Every write may be repeated without harm: reactions by kind, statuses by context, the check run by name and our
//! own id of it, the report by its hidden marker. GitHub's limits are kept here (forge-github reference, section 8).

use http::Method;
use serde_json::{Value, json};

use super::{GitHub, cut};
use crate::api::github::wire::{CheckPage, Comment};
use crate::api::github::{Failure, Need, Write, repo_path, segment};
use crate::domain::{CommentKind, CommentRef, CommitSha, Repo};
use crate::ports::{CallError, CheckPost, PostedStatus, Reaction, ReportPost, StatusPost, StatusState};

/// Longest description of a status, in characters.
const DESCRIPTION_CHARS_MAX: usize = 140;
/// Longest summary of a check run, in characters.
const SUMMARY_CHARS_MAX: usize = 65_535;
/// Longest comment, in characters; GitHub takes 65,536.
const COMMENT_CHARS_MAX: usize = 65_000;
/// Buttons of a check run, and the characters of identifier, label and description.
const BUTTONS_MAX: usize = 3;
const BUTTON_CHARS_MAX: (usize, usize, usize) = (20, 20, 40);

const REACT: Need = Need { doing: "react to a comment", permission: "Issues: write" };
const REACT_LINE: Need = Need { doing: "react to a review comment", permission: "Pull requests: write" };
const POST_STATUS: Need = Need { doing: "post a commit status", permission: "Commit statuses: write" };
const POST_CHECK: Need = Need { doing: "post a check run", permission: "Checks: write" };
const READ_CHECKS: Need = Need { doing: "list check runs", permission: "Checks: read" };
const COMMENT: Need = Need { doing: "comment in the conversation", permission: "Issues: write" };
const READ_COMMENTS: Need = Need { doing: "read the conversation", permission: "Issues: read" };

impl GitHub {
    pub(super) async fn add_reaction(
        &self,
        repo: &Repo,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), CallError> {
        let (place, need) = match comment.kind {
            CommentKind::Issue => ("issues", REACT),
            CommentKind::ReviewLine => ("pulls", REACT_LINE),
            // A review takes no reactions; a note is GitLab's.
            CommentKind::Review | CommentKind::Note => return Ok(()),
        };
        let content = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Started => "rocket",
            Reaction::Refused => "confused",
            Reaction::Done => "+1",
        };
        let path = format!("{}/{place}/comments/{}/reactions", repo_path(repo), comment.id);
        // 200 instead of 201 when it stood there already.
        self.api.write(repo, &Write::post(path, Some(json!({ "content": content })), need)).await?;
        Ok(())
    }

    pub(super) async fn add_status(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        post: &StatusPost,
    ) -> Result<PostedStatus, CallError> {
        // Before the first status is heard of as news: it must not be taken for somebody's job.
        self.learn_own_login().await?;
        let state = match post.state {
            StatusState::Pending | StatusState::Running => "pending",
            StatusState::Success => "success",
            StatusState::Failure => "failure",
            StatusState::Error => "error",
        };
        let mut body = json!({
            "state": state,
            "context": post.context,
            "description": cut(&post.description, DESCRIPTION_CHARS_MAX),
        });
        if let Some(url) = &post.target_url {
            body["target_url"] = json!(url);
        }
        let path = format!("{}/statuses/{sha}", repo_path(repo));
        let id = self.api.write(repo, &Write::post(path, Some(body), POST_STATUS)).await?;
        Ok(PostedStatus { post: post.clone(), id })
    }

    pub(super) async fn put_check(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        known: Option<u64>,
        post: &CheckPost,
    ) -> Result<Option<u64>, CallError> {
        let Some(app_id) = self.hooks.app_id else { return Ok(None) };
        let mut known = known;
        if known.is_none() {
            known = self.find_check(repo, sha, app_id, post).await?;
        }
        if let Some(id) = known {
            let write = Write::patch(format!("{}/check-runs/{id}", repo_path(repo)), check_body(post), POST_CHECK);
            match self.api.write(repo, &write).await {
                Ok(_) => return Ok(Some(id)),
                Err(Failure { status: Some(404), .. }) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        let mut body = check_body(post);
        body["head_sha"] = json!(sha.as_str());
        let write = Write::post(format!("{}/check-runs", repo_path(repo)), Some(body), POST_CHECK);
        let made = self.api.write(repo, &write).await?;
        made.map(Some).ok_or_else(|| made_but_nameless(&write))
    }

    /// Ours from before a crash, or from a write whose answer got lost.
    async fn find_check(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        app_id: u64,
        post: &CheckPost,
    ) -> Result<Option<u64>, CallError> {
        let name = segment(&post.name);
        let path = format!("{}/commits/{sha}/check-runs?check_name={name}&app_id={app_id}", repo_path(repo));
        let listed = self.api.pages::<CheckPage>(repo, &path, READ_CHECKS).await?;
        let ours = listed.into_iter().filter(|check| {
            check.app.as_ref().is_some_and(|app| app.id == app_id)
                && check.external_id.as_deref() == Some(post.external_id.as_str())
        });
        Ok(ours.map(|check| check.id).max())
    }

    /// The report of a pull request, or our one comment on an issue: GitHub keeps both conversations alike.
    pub(super) async fn put_report(&self, repo: &Repo, number: u64, post: &ReportPost) -> Result<u64, CallError> {
        let body = json!({ "body": cut(&post.body, COMMENT_CHARS_MAX) });
        if let Some(id) = post.known {
            match self.edit_comment(repo, id, &body).await {
                Ok(()) => return Ok(id),
                // Somebody deleted it.
                Err(Failure { status: Some(404 | 410), .. }) => {}
                Err(failure) => return Err(failure.into()),
            }
        } else if let Some(id) = self.find_report(repo, number, &post.marker).await? {
            self.edit_comment(repo, id, &body).await?;
            return Ok(id);
        }
        let path = format!("{}/issues/{number}/comments", repo_path(repo));
        let write = Write::post(path, Some(body), COMMENT);
        self.api.write(repo, &write).await?.ok_or_else(|| made_but_nameless(&write))
    }

    async fn edit_comment(&self, repo: &Repo, id: u64, body: &Value) -> Result<(), Failure> {
        let path = format!("{}/issues/comments/{id}", repo_path(repo));
        let write = Write { method: Method::PATCH, path, body: Some(body.clone()), need: COMMENT };
        self.api.write(repo, &write).await.map(|_| ())
    }

    /// Our newest comment that begins with the marker. Anybody can write the marker, so the author must be us.
    async fn find_report(&self, repo: &Repo, number: u64, marker: &str) -> Result<Option<u64>, CallError> {
        let own = self.learn_own_login().await?.to_owned();
        let is_report = |comment: &Comment| {
            let ours = comment.user.as_ref().is_some_and(|user| user.login.eq_ignore_ascii_case(&own));
            ours && comment.body.as_deref().is_some_and(|body| body.trim_start().starts_with(marker))
        };
        let path = format!("{}/issues/{number}/comments", repo_path(repo));
        let found = self.api.find_newest::<Vec<Comment>>(repo, &path, READ_COMMENTS, is_report).await?;
        Ok(found.map(|comment| comment.id))
    }
}

/// The write was made, but its answer named no id: reading back will find it.
fn made_but_nameless(write: &Write) -> CallError {
    CallError::Unknown { log: format!("{} {}: the answer names no id", write.method, write.path) }
}

fn check_body(post: &CheckPost) -> Value {
    let (status, conclusion) = match post.state {
        StatusState::Pending => ("queued", None),
        StatusState::Running => ("in_progress", None),
        StatusState::Success => ("completed", Some("success")),
        // `cancelled` and `neutral` would not say that something is left to do; `neutral` would even let it be merged.
        StatusState::Failure | StatusState::Error => ("completed", Some("failure")),
    };
    let mut body = json!({
        "name": post.name,
        "status": status,
        "external_id": post.external_id,
        "output": { "title": cut(&post.title, 255), "summary": cut(&post.summary, SUMMARY_CHARS_MAX) },
    });
    if let Some(conclusion) = conclusion {
        body["conclusion"] = json!(conclusion);
        let (id_max, label_max, text_max) = BUTTON_CHARS_MAX;
        let buttons = post.buttons.iter().take(BUTTONS_MAX).map(|(id, label, text)| {
            json!({ "identifier": cut(id, id_max), "label": cut(label, label_max), "description": cut(text, text_max) })
        });
        body["actions"] = buttons.collect();
    }
    if let Some(url) = &post.details_url {
        body["details_url"] = json!(url);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(state: StatusState) -> CheckPost {
        let button = |n: usize| ("i".repeat(30), format!("label {n}"), "d".repeat(50));
        CheckPost {
            name: "retest".into(),
            state,
            title: "t".into(),
            summary: "s".repeat(70_000),
            external_id: "7".into(),
            buttons: (0..5).map(button).collect(),
            details_url: None,
        }
    }

    #[test]
    fn a_check_run_keeps_githubs_limits() {
        let body = check_body(&post(StatusState::Failure));
        let actions = body["actions"].as_array().expect("buttons");
        let chars = |value: &Value| value.as_str().map(|text| text.chars().count());
        assert_eq!(actions.len(), 3);
        assert_eq!(chars(&actions[0]["identifier"]), Some(20));
        assert_eq!(chars(&actions[0]["description"]), Some(40));
        assert_eq!(chars(&body["output"]["summary"]), Some(65_535));
    }

    #[test]
    fn only_a_completed_check_run_has_a_conclusion_and_only_success_lets_merge() {
        let table = [
            (StatusState::Pending, None),
            (StatusState::Running, None),
            (StatusState::Success, Some("success")),
            (StatusState::Failure, Some("failure")),
            (StatusState::Error, Some("failure")),
        ];
        for (state, conclusion) in table {
            let body = check_body(&post(state));
            assert_eq!(body.get("conclusion").and_then(Value::as_str), conclusion, "{state:?}");
        }
    }
}
