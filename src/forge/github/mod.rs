//! GitHub as a forge: webhooks in, rights, changes and jobs by asking, answers out.
//!
//! Decides nothing and keeps nothing but its own login. Read next: `receive.rs` and `decode.rs` for what comes in,
//! `jobs.rs` and `people.rs` for what is asked, `answers.rs` for what goes out.

mod answers;
mod decode;
mod decode_issue;
mod hooks;
mod issues;
mod jobs;
mod missed;
mod people;
mod receive;

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use globset::GlobSet;
use serde::Deserialize;

use crate::api::github::wire::{Pull, User};
use crate::api::github::{Auth, GitHubApi, Need, repo_path, timestamp};
use crate::domain::{
    Actor, Change, ChangeKey, CommentRef, CommitSha, ForgeName, Issue, JobObservation, Repo, RepoKey, Role, Team,
    Timestamp,
};
use crate::ports::{
    CallError, CheckPost, Clock, Decoded, FileNow, Forge, ForgeKind, IssuePost, PostedStatus, Reaction, ReportPost,
    Secrets, StatusPost, Wanted, WebhookError, WebhookRequest,
};

const READ_CHANGE: Need = Need { doing: "read the pull request", permission: "Pull requests: read" };
const READ_SELF: Need = Need { doing: "learn its own name", permission: "Metadata: read" };

/// Tells cheaply whether a comment's text may hold a command. A wrong yes costs a stored row; a wrong no loses a command.
pub type MayHoldCommand = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What one configured GitHub needs to be a forge, beside its API client.
pub struct GitHubForgeConfig {
    /// The secrets that its webhooks may be signed with at present.
    pub webhook_secrets: Secrets,
    /// Full names of the repositories to take deliveries of; none for all.
    pub repositories: Option<GlobSet>,
    /// The login that we act under, such as `retest-bot[bot]`; asked for where it is not configured.
    pub bot_login: Option<String>,
    /// Keeps comments without a command out of the store.
    pub may_hold_command: MayHoldCommand,
}

impl fmt::Debug for GitHubForgeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHubForgeConfig").field("bot_login", &self.bot_login).finish_non_exhaustive()
    }
}

/// What decoding needs to know.
struct Hooks {
    forge: ForgeName,
    app_id: Option<u64>,
    secrets: Secrets,
    repositories: Option<GlobSet>,
    may_hold_command: MayHoldCommand,
    own_login: OnceLock<String>,
}

impl Hooks {
    fn new(api: &GitHubApi, config: GitHubForgeConfig) -> Self {
        let own_login = OnceLock::new();
        if let Some(login) = config.bot_login {
            own_login.get_or_init(|| login);
        }
        Self {
            forge: api.config().name.clone(),
            app_id: api.config().auth.app_id(),
            secrets: config.webhook_secrets,
            repositories: config.repositories,
            may_hold_command: config.may_hold_command,
            own_login,
        }
    }

    /// Logins are not case sensitive. Nobody is us while our login is unknown.
    fn is_own_login(&self, login: &str) -> bool {
        self.own_login.get().is_some_and(|own| own.eq_ignore_ascii_case(login))
    }
}

/// One configured GitHub.
pub struct GitHub {
    api: Arc<GitHubApi>,
    clock: Arc<dyn Clock>,
    hooks: Hooks,
}

impl fmt::Debug for GitHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitHub").field("name", &self.hooks.forge).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct OwnApp {
    slug: String,
}

impl GitHub {
    /// A forge over its API client.
    pub fn new(api: Arc<GitHubApi>, config: GitHubForgeConfig, clock: Arc<dyn Clock>) -> Self {
        let hooks = Hooks::new(&api, config);
        Self { api, clock, hooks }
    }

    /// Learns the login that we act under, where it is neither configured nor known; asked once per process. A call at
    /// the start makes sure that our own statuses are told from others' from the first delivery on.
    ///
    /// # Errors
    /// As every call; without it only what came through our App is known as ours.
    pub async fn learn_own_login(&self) -> Result<&str, CallError> {
        if let Some(known) = self.hooks.own_login.get() {
            return Ok(known);
        }
        let login = match self.api.config().auth {
            Auth::App { .. } => {
                let app: OwnApp = self.api.get_own("/app", READ_SELF).await?;
                format!("{}[bot]", app.slug)
            }
            Auth::Token(_) => self.api.get_own::<User>("/user", READ_SELF).await?.login,
        };
        Ok(self.hooks.own_login.get_or_init(|| login))
    }

    /// The client, for the limits that the flow stores.
    pub const fn api(&self) -> &Arc<GitHubApi> {
        &self.api
    }

    async fn pull(&self, repo: &Repo, number: u64) -> Result<Change, CallError> {
        let path = format!("{}/pulls/{number}", repo_path(repo));
        let pull: Pull = self.api.get(repo, &path, READ_CHANGE).await?;
        change_of(&repo.key, pull, self.clock.now())
    }
}

fn change_of(repo: &RepoKey, pull: Pull, now: Timestamp) -> Result<Change, CallError> {
    let head = CommitSha::parse(&pull.head.sha)
        .map_err(|e| CallError::Unreachable { log: format!("pull request {}: {e}", pull.number) })?;
    Ok(Change {
        key: ChangeKey { repo: repo.clone(), number: pull.number },
        head,
        author: pull.user.map(Actor::from),
        open: pull.state == "open",
        from_fork: pull.head.repo.is_none_or(|head| head.id != repo.id),
        base_ref: pull.base.name,
        labels: pull.labels.into_iter().map(|label| label.name).collect(),
        head_pipeline: None,
        source_ref: Some(pull.head.name),
        approved_head: None,
        updated_at: pull.updated_at.as_deref().and_then(timestamp).unwrap_or(now),
    })
}

/// Cuts a text to `chars_max` characters; what is cut is shown by an ellipsis.
fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[async_trait]
impl Forge for GitHub {
    fn name(&self) -> &ForgeName {
        &self.hooks.forge
    }

    async fn learn_self(&self) -> Result<(), CallError> {
        self.learn_own_login().await.map(|_| ())
    }

    fn throttled_until(&self) -> Option<Timestamp> {
        self.api.throttled_until(None)
    }

    fn throttle_until(&self, until: Timestamp) {
        self.api.throttle_until(None, until);
    }

    fn kind(&self) -> ForgeKind {
        ForgeKind::GitHub
    }

    fn receive(&self, request: &WebhookRequest) -> Result<Decoded, WebhookError> {
        receive::receive(&self.hooks, request)
    }

    fn is_me(&self, actor: &Actor, via_app: Option<u64>) -> bool {
        (via_app.is_some() && via_app == self.hooks.app_id) || self.hooks.is_own_login(&actor.login)
    }

    async fn role(&self, repo: &Repo, actor: &Actor) -> Result<Role, CallError> {
        self.permission(repo, actor).await
    }

    async fn belongs(&self, repo: &Repo, team: &Team, actor: &Actor) -> Result<bool, CallError> {
        self.is_in_team(repo, team, actor).await
    }

    async fn file(&self, repo: &Repo, path: &str, known: Option<&str>) -> Result<FileNow, CallError> {
        self.file_now(repo, path, known).await
    }

    async fn change(&self, repo: &Repo, number: u64) -> Result<Change, CallError> {
        self.pull(repo, number).await
    }

    async fn list_jobs(&self, repo: &Repo, change: &Change) -> Result<Vec<JobObservation>, CallError> {
        self.jobs_of(repo, &change.head).await
    }

    async fn required_jobs(&self, repo: &Repo, base_ref: &str) -> Result<Vec<String>, CallError> {
        self.required_contexts(repo, base_ref).await
    }

    async fn react(
        &self,
        repo: &Repo,
        _change: &ChangeKey,
        comment: &CommentRef,
        reaction: Reaction,
    ) -> Result<(), CallError> {
        self.add_reaction(repo, comment, reaction).await
    }

    async fn post_status(
        &self,
        repo: &Repo,
        _change: &Change,
        sha: &CommitSha,
        post: &StatusPost,
    ) -> Result<PostedStatus, CallError> {
        self.add_status(repo, sha, post).await
    }

    async fn post_check(
        &self,
        repo: &Repo,
        sha: &CommitSha,
        known: Option<u64>,
        post: &CheckPost,
    ) -> Result<Option<u64>, CallError> {
        self.put_check(repo, sha, known, post).await
    }

    async fn post_report(&self, repo: &Repo, change: &ChangeKey, post: &ReportPost) -> Result<u64, CallError> {
        self.put_report(repo, change.number, post).await
    }

    async fn labelled_issues(&self, repo: &Repo, label: &str) -> Result<Vec<Issue>, CallError> {
        self.issues_labelled(repo, label).await
    }

    async fn issue(&self, repo: &Repo, number: u64) -> Result<Option<Issue>, CallError> {
        self.one_issue(repo, number).await
    }

    async fn put_issue(&self, repo: &Repo, post: &IssuePost) -> Result<Issue, CallError> {
        self.write_issue(repo, post).await
    }

    async fn post_issue_comment(&self, repo: &Repo, number: u64, post: &ReportPost) -> Result<u64, CallError> {
        self.put_report(repo, number, post).await
    }

    async fn missed_comments(&self, repo: &Repo, since: Timestamp) -> Result<Vec<Wanted>, CallError> {
        self.comments_since(repo, since).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_characters_and_never_inside_one() {
        let table = [
            ("é".repeat(140), "é".repeat(140), "just fits, although it has 280 bytes"),
            ("é".repeat(141), format!("{}…", "é".repeat(139)), "cut at a character"),
            (String::new(), String::new(), "nothing"),
        ];
        for (text, wanted, why) in table {
            assert_eq!(cut(&text, 140), wanted, "{why}");
        }
    }
}
