//! GitLab as a forge: webhooks in, merge requests, roles and jobs read, reactions, statuses and the report written.
//!
//! It translates and never decides. It refuses to act for jobs: starting them is the affair of the runner `gitlab_ci`.
//! Read next: `receive.rs` for what comes in, `listing.rs` for jobs, `write.rs` for what goes out.

mod catch_up;
mod changes;
mod issues;
mod jobs;
mod listing;
mod receive;
mod receive_issue;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use base64::Engine;
use globset::GlobSet;
use tokio::sync::OnceCell;

use crate::api::gitlab::{GitLabClient, Noteable, wire};
use crate::domain::{
    Actor, Change, ChangeKey, CommentKind, CommentRef, CommitSha, ForgeName, Issue, JobObservation, Repo, Role, Team,
    Timestamp,
};
use crate::ports::{
    CallError, CheckPost, Decoded, FileNow, Forge, ForgeKind, IssuePost, PostedStatus, Reaction, ReportPost, Secrets,
    StatusPost, Wanted, WebhookError, WebhookRequest,
};

/// Whether a comment may hold a command of ours; others are put aside before anything is stored.
pub type CommandTest = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// A key that signs webhooks: the 32 bytes behind `whsec_`.
#[derive(Clone)]
pub struct SigningKey([u8; 32]);

impl SigningKey {
    /// Reads a signing token as GitLab shows it once: `whsec_` and the base64 of 32 bytes.
    ///
    /// # Errors
    /// What is wrong with it, without any part of it.
    pub fn parse(token: &str) -> Result<Self, &'static str> {
        let text = token.trim().strip_prefix("whsec_").ok_or("a GitLab signing token begins with `whsec_`")?;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_err(|_| "what follows `whsec_` in a GitLab signing token is base64")?;
        Self::from_decoded(&bytes).ok_or("a GitLab signing token holds exactly 32 bytes")
    }

    /// The key itself, when somebody else has read the token; none unless it is 32 bytes long.
    pub fn from_decoded(key: &[u8]) -> Option<Self> {
        key.try_into().map(Self).ok()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// What the operator said about one GitLab instance, beside how to reach it.
#[derive(Clone)]
pub struct GitLabConfig {
    /// Its configured name.
    pub name: ForgeName,
    /// Tokens that a webhook may carry in `X-Gitlab-Token`.
    pub webhook_tokens: Secrets,
    /// Keys that may sign a webhook.
    pub signing_keys: Vec<SigningKey>,
    /// The bot's login; without it the forge learns who it is from the token.
    pub bot_login: Option<String>,
    /// The projects that are served, by full path; all when none are named.
    pub repositories: Option<GlobSet>,
    /// Tells comments that cannot be for us.
    pub may_hold_command: CommandTest,
}

/// One configured GitLab instance.
pub struct GitLabForge {
    config: GitLabConfig,
    client: Arc<GitLabClient>,
    me: OnceCell<wire::User>,
    /// GitLab serialises statuses per commit and answers 409 to the second one: so do we, by a hash of the commit.
    status_turns: [tokio::sync::Mutex<()>; 16],
    pins: Mutex<HashMap<(u64, CommitSha), write::Pin>>,
}

impl GitLabForge {
    /// A forge that speaks through `client`; share the client with the runner `gitlab_ci` of the same instance.
    pub fn new(client: Arc<GitLabClient>, config: GitLabConfig) -> Self {
        Self { config, client, me: OnceCell::new(), status_turns: Default::default(), pins: Mutex::default() }
    }

    /// Asks GitLab once whose token this is; [`Forge::is_me`] knows it from then on. Call it at the start when no
    /// `bot_login` is configured; calls that need it ask by themselves.
    ///
    /// # Errors
    /// As every call.
    pub async fn learn_me(&self) -> Result<Actor, CallError> {
        let me = self.me.get_or_try_init(|| self.client.current_user()).await?;
        Ok(actor(me.id, &me.username))
    }

    fn is_me_by(&self, id: Option<u64>, login: &str) -> bool {
        let named =
            self.config.bot_login.as_deref().is_some_and(|me| !login.is_empty() && me.eq_ignore_ascii_case(login));
        named || (id.is_some() && self.me.get().map(|me| me.id) == id)
    }

    /// As [`Self::is_me_by`], after having learnt it where nothing is configured.
    async fn is_mine(&self, author: Option<&wire::User>) -> bool {
        if self.config.bot_login.is_none() {
            // Not learnt means not recognised: the caller then takes the note for somebody else's.
            self.learn_me().await.ok();
        }
        author.is_some_and(|user| self.is_me_by(Some(user.id), &user.username))
    }
}

/// A user in our words. Project and group access tokens act as users named `project_N_bot…` and `group_N_bot…`.
fn actor(id: u64, login: &str) -> Actor {
    Actor { id, login: login.to_owned(), is_bot: is_token_user(login) }
}

fn is_token_user(login: &str) -> bool {
    let Some(rest) = login.strip_prefix("project_").or_else(|| login.strip_prefix("group_")) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && rest.get(digits..).is_some_and(|tail| tail.starts_with("_bot"))
}

#[async_trait]
impl Forge for GitLabForge {
    fn name(&self) -> &ForgeName {
        &self.config.name
    }

    async fn learn_self(&self) -> Result<(), CallError> {
        self.learn_me().await.map(|_| ())
    }

    fn throttled_until(&self) -> Option<Timestamp> {
        self.client.throttled_until()
    }

    fn throttle_until(&self, until: Timestamp) {
        self.client.throttle_until(until);
    }

    fn tells_statuses(&self) -> bool {
        false
    }

    fn kind(&self) -> ForgeKind {
        ForgeKind::GitLab
    }

    fn receive(&self, request: &WebhookRequest) -> Result<Decoded, WebhookError> {
        receive::receive(self, request)
    }

    fn is_me(&self, actor: &Actor, _via_app: Option<u64>) -> bool {
        self.is_me_by(Some(actor.id), &actor.login)
    }

    async fn role(&self, repo: &Repo, actor: &Actor) -> Result<Role, CallError> {
        match self.client.member(repo.key.id, actor.id).await {
            Ok(member) => Ok(changes::role_of(&member, self.client.now())),
            // Somebody who is no member. Who may read a public project is not asked: no command needs only that.
            Err(failure) if failure.status == Some(404) && !failure.says(404, "project not found") => Ok(Role::None),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn belongs(&self, _repo: &Repo, team: &Team, actor: &Actor) -> Result<bool, CallError> {
        let Team::GitLab { path } = team else { return Ok(false) };
        match self.client.group_member(path, actor.id).await {
            Ok(member) => Ok(changes::role_of(&member, self.client.now()) > Role::None),
            Err(failure) if failure.status == Some(404) && !failure.says(404, "group not found") => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn file(&self, repo: &Repo, path: &str, known: Option<&str>) -> Result<FileNow, CallError> {
        match self.client.file(repo.key.id, path, known).await {
            Ok(None) => Ok(FileNow::Unchanged),
            Ok(Some((version, bytes))) => {
                Ok(FileNow::Text { version, text: String::from_utf8_lossy(&bytes).into_owned() })
            }
            Err(failure) if failure.status == Some(404) && !failure.says(404, "project not found") => {
                Ok(FileNow::Absent)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn change(&self, repo: &Repo, number: u64) -> Result<Change, CallError> {
        let wire = self.client.merge_request(repo.key.id, number).await?;
        changes::from_wire(repo, &wire, self.client.now())
    }

    async fn list_jobs(&self, repo: &Repo, change: &Change) -> Result<Vec<JobObservation>, CallError> {
        listing::list_jobs(self, repo, change).await
    }

    /// GitLab names no required jobs: every job is one unless it is allowed to fail, and each job's own observation
    /// says that. The list is empty.
    async fn required_jobs(&self, _repo: &Repo, _base_ref: &str) -> Result<Vec<String>, CallError> {
        Ok(Vec::new())
    }

    async fn react(
        &self,
        repo: &Repo,
        change: &ChangeKey,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), CallError> {
        if comment.kind != CommentKind::Note {
            return Ok(());
        }
        let emoji = match reaction {
            Reaction::Seen => "eyes",
            Reaction::Started => "rocket",
            Reaction::Refused => "confused",
            Reaction::Done => "thumbsup",
        };
        Ok(self.client.award((repo.key.id, change.number), comment.id, emoji).await?)
    }

    async fn post_status(
        &self,
        repo: &Repo,
        change: &Change,
        sha: &CommitSha,
        post: &StatusPost,
    ) -> Result<PostedStatus, CallError> {
        write::post_status(self, repo, change, (sha, post)).await
    }

    async fn post_check(
        &self,
        _repo: &Repo,
        _sha: &CommitSha,
        _known: Option<u64>,
        _post: &CheckPost,
    ) -> Result<Option<u64>, CallError> {
        Ok(None)
    }

    async fn post_report(&self, repo: &Repo, change: &ChangeKey, post: &ReportPost) -> Result<u64, CallError> {
        write::post_report(self, Noteable::MergeRequest(repo.key.id, change.number), post).await
    }

    async fn labelled_issues(&self, repo: &Repo, label: &str) -> Result<Vec<Issue>, CallError> {
        issues::labelled(self, repo, label).await
    }

    async fn issue(&self, repo: &Repo, number: u64) -> Result<Option<Issue>, CallError> {
        issues::one(self, repo, number).await
    }

    async fn put_issue(&self, repo: &Repo, post: &IssuePost) -> Result<Issue, CallError> {
        issues::put(self, repo, post).await
    }

    async fn post_issue_comment(&self, repo: &Repo, number: u64, post: &ReportPost) -> Result<u64, CallError> {
        write::post_report(self, Noteable::Issue(repo.key.id, number), post).await
    }

    async fn missed_comments(&self, repo: &Repo, since: Timestamp) -> Result<Vec<Wanted>, CallError> {
        catch_up::missed_comments(self, repo, since).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_access_tokens_are_bots() {
        let table = [
            ("project_12_bot", true),
            ("project_12_bot_0a1b2c", true),
            ("group_7_bot_ffff", true),
            ("project_bot", false),
            ("project_12_robert", false),
            ("ann", false),
        ];
        for (login, bot) in table {
            assert_eq!(is_token_user(login), bot, "{login}");
        }
    }

    #[test]
    fn a_signing_token_must_hold_32_bytes_and_never_shows() {
        let key = SigningKey::parse("whsec_dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=").expect("the documented form");
        assert_eq!(format!("{key:?}"), "SigningKey(…)");
        for wrong in ["dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=", "whsec_dGVzdA==", "whsec_!", ""] {
            assert!(SigningKey::parse(wrong).is_err(), "{wrong}");
        }
    }
}
