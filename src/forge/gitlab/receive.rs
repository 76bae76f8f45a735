//! Checks and decodes webhooks. No outside call, nothing is read of a body that is not authentic.
//!
//! A signed request is judged by its signature alone: a wrong one is never made good by a right token (GitLab's own
//! advice, forge-gitlab reference 2.2). Dates are never a reason to refuse a body.

use base64::Engine;
use http::HeaderMap;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::jobs::{self, JobFacts, PipelineFacts, observation};
use super::{GitLabForge, actor, changes, receive_issue, write};
use crate::api::gitlab::{JobWords, PipelineAddress, hooks, is_over};
use crate::domain::{
    Actor, ChangeAction, ChangeKey, CommentAction, CommentEvent, CommentKind, CommentRef, CommitSha, DeliveryId,
    ForgeEvent, IssueEvent, JobEvent, PushEvent, QueueEvent, Repo, RepoKey, Timestamp,
};
use crate::ports::{Decoded, Wanted, WebhookError, WebhookRequest, hmac_sha256_matches, token_matches};

/// How far the time of a signature may be off, in milliseconds (Standard Webhooks: five minutes).
const SKEW_MS_MAX: i64 = 300_000;
/// How many signatures of one request are looked at; a sender changing keys sends two.
const SIGNATURES_MAX: usize = 8;

/// Why a delivery holds nothing for us.
pub(super) enum Skip {
    Ignored(&'static str),
    Malformed(String),
}

/// Checks, then decodes.
pub(super) fn receive(forge: &GitLabForge, request: &WebhookRequest) -> Result<Decoded, WebhookError> {
    authenticate(forge, request)?;
    Ok(match decode(forge, request) {
        Ok(event) => Decoded::Wanted(Box::new(Wanted { id: delivery_id(request), event })),
        Err(Skip::Ignored(why)) => Decoded::Ignored(why),
        Err(Skip::Malformed(what)) => Decoded::Malformed(what),
    })
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn authenticate(forge: &GitLabForge, request: &WebhookRequest) -> Result<(), WebhookError> {
    let headers = &request.headers;
    if headers.contains_key("webhook-signature") {
        return if is_signed(forge, request) { Ok(()) } else { Err(WebhookError::WrongSignature) };
    }
    let token = headers.get("x-gitlab-token").ok_or(WebhookError::Unsigned)?;
    let right = token_matches(&forge.config.webhook_tokens, token.as_bytes());
    if right { Ok(()) } else { Err(WebhookError::WrongSignature) }
}

fn is_signed(forge: &GitLabForge, request: &WebhookRequest) -> bool {
    let headers = &request.headers;
    let told = (text(headers, "webhook-id"), text(headers, "webhook-timestamp"), text(headers, "webhook-signature"));
    let (Some(id), Some(timestamp), Some(signatures)) = told else { return false };
    let Some(signed_ms) = timestamp.parse::<i64>().ok().and_then(|s| s.checked_mul(1_000)) else { return false };
    if request.at.ms().saturating_sub(signed_ms).saturating_abs() > SKEW_MS_MAX {
        return false;
    }
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &request.body];
    let given = signatures.split_ascii_whitespace().filter_map(|one| one.strip_prefix("v1,")).take(SIGNATURES_MAX);
    let mut decoded = given.filter_map(|one| base64::engine::general_purpose::STANDARD.decode(one).ok());
    decoded.any(|signature| {
        let keys = forge.config.signing_keys.iter().map(|key| key.0.as_slice());
        hmac_sha256_matches(keys, &parts, &signature)
    })
}

/// The same on every retry of one delivery. Older versions send no such id: then the body tells deliveries apart, for
/// `X-Gitlab-Event-UUID` is shared by all hooks that one request fired.
fn delivery_id(request: &WebhookRequest) -> DeliveryId {
    let headers = &request.headers;
    let own = text(headers, "idempotency-key").or_else(|| text(headers, "webhook-id")).filter(|id| !id.is_empty());
    if let Some(id) = own {
        return DeliveryId::new(id);
    }
    let digest = hex::encode(Sha256::digest(&request.body));
    let event = text(headers, "x-gitlab-event-uuid").unwrap_or("body");
    DeliveryId::new(format!("{event}:{}", digest.get(..32).unwrap_or(&digest)))
}

fn parse<'de, T: Deserialize<'de>>(what: &str, body: &'de [u8]) -> Result<T, Skip> {
    serde_json::from_slice(body).or_else(|_| {
        // Read again, slowly, to say where it broke.
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(body))
            .map_err(|error| Skip::Malformed(format!("{what} hook: at `{}`: {}", error.path(), error.inner())))
    })
}

fn decode(forge: &GitLabForge, request: &WebhookRequest) -> Result<ForgeEvent, Skip> {
    let kind: hooks::Kind<'_> = parse("any", &request.body)?;
    let Some(kind) = kind.object_kind else {
        if kind.event_name.is_some() {
            return Err(Skip::Ignored("a system hook's event"));
        }
        let text = "the body has no `object_kind`: remove the custom template of this webhook in GitLab";
        return Err(Skip::Malformed(text.to_owned()));
    };
    let reader = Reader { forge, at: request.at };
    match &*kind {
        "note" => reader.note(&request.body),
        "merge_request" => reader.merge_request(&request.body),
        "pipeline" => reader.pipeline(&request.body),
        "build" => reader.build(&request.body),
        "push" => reader.push(&request.body),
        "issue" => reader.issue(&request.body),
        _ => Err(Skip::Ignored("a kind of event that says nothing about commands, changes, jobs or issues")),
    }
}

struct Reader<'a> {
    forge: &'a GitLabForge,
    at: Timestamp,
}

impl Reader<'_> {
    fn repo(&self, project: &hooks::Project<'_>) -> Result<Repo, Skip> {
        self.repo_of(project.id, project.path_with_namespace.clone().into_owned(), project.default_branch.clone())
    }

    fn repo_of(&self, id: u64, full_name: String, default_branch: Option<String>) -> Result<Repo, Skip> {
        let served = self.forge.config.repositories.as_ref();
        if served.is_some_and(|set| !set.is_match(&full_name)) {
            return Err(Skip::Ignored("a project that is not configured"));
        }
        let key = RepoKey { forge: self.forge.config.name.clone(), id };
        Ok(Repo { key, full_name, installation: None, default_branch })
    }

    /// A push to the default branch; others are no base that is worth a row for every push.
    fn push(&self, body: &[u8]) -> Result<ForgeEvent, Skip> {
        let hook: hooks::PushHook<'_> = parse("push", body)?;
        let branch = hook.branch.strip_prefix("refs/heads/").unwrap_or_default();
        if branch.is_empty() || hook.project.default_branch.as_deref() != Some(branch) {
            return Err(Skip::Ignored("a push to another branch than the default one"));
        }
        if hook.after.bytes().all(|digit| digit == b'0') {
            return Err(Skip::Ignored("a branch was deleted"));
        }
        let sha = CommitSha::parse(&hook.after).map_err(|e| Skip::Malformed(format!("push hook: `after`: {e}")))?;
        let (repo, branch) = (self.repo(&hook.project)?, branch.to_owned());
        Ok(ForgeEvent::Push(Box::new(PushEvent { repo, branch, sha, at: self.at })))
    }

    fn issue(&self, body: &[u8]) -> Result<ForgeEvent, Skip> {
        let hook: hooks::IssueHook<'_> = parse("issue", body)?;
        let repo = self.repo(&hook.project)?;
        let issue = receive_issue::issue(&hook, self.at)?;
        Ok(ForgeEvent::Issue(Box::new(IssueEvent { repo, issue })))
    }

    fn note(&self, body: &[u8]) -> Result<ForgeEvent, Skip> {
        let hook: hooks::NoteHook<'_> = parse("note", body)?;
        let note = &hook.object_attributes;
        if note.noteable_type != "MergeRequest" {
            return Err(Skip::Ignored("a note that stands on no merge request"));
        }
        if note.system == Some(true) {
            return Err(Skip::Ignored("a note that GitLab wrote itself"));
        }
        let text = note.note.as_deref().unwrap_or_default();
        if !(self.forge.config.may_hold_command)(text) {
            return Err(Skip::Ignored("a note without a command"));
        }
        let missing = |what: &str| Skip::Malformed(format!("note hook: {what} is missing"));
        let repo = self.repo(&hook.project)?;
        let merge_request = hook.merge_request.as_ref().ok_or_else(|| missing("`merge_request`"))?;
        let sender_id = hook.user.id.or(note.author_id).ok_or_else(|| missing("`user.id`"))?;
        let sender = actor(sender_id, &hook.user.username);
        let author = match note.author_id {
            Some(id) if id != sender.id => actor(id, &format!("user-{id}")),
            _ => sender.clone(),
        };
        let change_facts = changes::from_hook(&repo, merge_request, Some(&sender), self.at);
        Ok(ForgeEvent::Comment(Box::new(CommentEvent {
            change: ChangeKey { repo: repo.key.clone(), number: merge_request.iid },
            repo,
            comment: CommentRef { kind: CommentKind::Note, id: note.id },
            action: note_action(note),
            author,
            sender,
            body: text.to_owned(),
            created_at: note.created_at.unwrap_or(self.at),
            head: change_facts.as_ref().map(|change| change.head.clone()),
            internal: note.internal == Some(true) || hook.event_type.as_deref() == Some("confidential_note"),
            change_facts: change_facts.map(Box::new),
            via_app: None,
            open: merge_request.state == "opened",
        })))
    }

    fn merge_request(&self, body: &[u8]) -> Result<ForgeEvent, Skip> {
        let hook: hooks::MergeRequestHook<'_> = parse("merge request", body)?;
        let attributes = &hook.object_attributes;
        let repo = self.repo(&hook.project)?;
        let user: Option<Actor> = hook.user.as_ref().and_then(|user| Some(actor(user.id?, &user.username)));
        let change = changes::from_hook(&repo, attributes, user.as_ref(), self.at)
            .ok_or(Skip::Ignored("a merge request without a commit"))?;
        let action = match attributes.action.as_deref() {
            Some("open" | "reopen") => ChangeAction::Opened,
            Some("close" | "merge") => ChangeAction::Closed,
            Some("update") if attributes.oldrev.is_some() => ChangeAction::HeadMoved,
            _ => ChangeAction::Edited,
        };
        Ok(ForgeEvent::Change { repo, change: Box::new(change), action })
    }

    fn pipeline(&self, body: &[u8]) -> Result<ForgeEvent, Skip> {
        let hook: hooks::PipelineHook<'_> = parse("pipeline", body)?;
        let repo = self.repo(&hook.project)?;
        let attributes = &hook.object_attributes;
        let sha = revision_sha(attributes, hook.merge_request.as_ref())?;
        let home = hook.project.id;
        let address = PipelineAddress { project: home, pipeline: attributes.id, in_fork: false };
        let downstream = hook.source_pipeline.as_ref().is_some_and(|source| source.pipeline_id.is_some());
        let facts = PipelineFacts { address, home, downstream, at: self.at };
        let builds = hook.builds.unwrap_or_default();
        let jobs: Vec<_> = builds
            .iter()
            .map(|build| (observation(&facts, &build_facts(build, &hook.project.web_url)), build.user.as_ref()))
            .filter(|(job, user)| !self.is_own_status(job, *user))
            .map(|(job, _)| job)
            .collect();
        jobs::remember_causes(&self.forge.client, home, &jobs);
        if hook.merge_request.is_some() && !downstream && sha.as_str().eq_ignore_ascii_case(&attributes.sha) {
            write::learn_pin(self.forge, home, &sha, attributes.id);
        }
        let group_over = is_over(&attributes.status).then(|| address.group(home));
        if jobs.is_empty() && group_over.is_none() {
            return Err(Skip::Ignored("a pipeline without jobs"));
        }
        Ok(ForgeEvent::Jobs(Box::new(JobEvent { repo, sha, jobs, group_over })))
    }

    fn is_own_status(&self, job: &crate::domain::JobObservation, user: Option<&hooks::User<'_>>) -> bool {
        let status = job.origin == crate::domain::Origin::Status;
        status && user.is_some_and(|user| self.forge.is_me_by(user.id, &user.username))
    }

    fn build(&self, body: &[u8]) -> Result<ForgeEvent, Skip> {
        let hook: hooks::BuildHook<'_> = parse("job", body)?;
        let home = hook.project_id;
        let page = match (&hook.project, &hook.repository) {
            (Some(project), _) if !project.web_url.is_empty() => project.web_url.to_string(),
            (_, Some(repository)) => repository.homepage.to_string(),
            _ => String::new(),
        };
        let repo = match &hook.project {
            Some(project) => self.repo(project)?,
            None => {
                let path = path_of_page(&page, self.forge.client.base().path());
                let path = path.ok_or_else(|| Skip::Malformed("job hook: no project path".to_owned()))?;
                self.repo_of(home, path, None)?
            }
        };
        let sha = commit(&hook.sha)?;
        let train = hook.git_ref.as_deref().and_then(receive_issue::train_of);
        if let Some(number) = train.filter(|_| hook.build_status == "created" && hook.source_pipeline.is_none()) {
            // Nothing but the ref of a job tells that its commit is a train's, and the job that is only created yet is
            // told again when it may run: its place in the one event of a delivery goes to the train.
            let queue = QueueEvent { repo, number, sha, base_ref: String::new(), over: false, at: self.at };
            return Ok(ForgeEvent::Queue(Box::new(queue)));
        }
        let address = PipelineAddress { project: home, pipeline: hook.pipeline_id, in_fork: false };
        let downstream = hook.source_pipeline.as_ref().is_some_and(|source| source.pipeline_id.is_some());
        let words = JobWords {
            status: &hook.build_status,
            failure_reason: hook.build_failure_reason.as_deref(),
            stage: &hook.build_stage,
            has_runner: hook.runner.is_some(),
        };
        let job = JobFacts {
            id: hook.build_id,
            name: &hook.build_name,
            words,
            allow_failure: hook.build_allow_failure.unwrap_or(false),
            url: job_page(&page, hook.build_id),
            needs: None,
        };
        let jobs = vec![observation(&PipelineFacts { address, home, downstream, at: self.at }, &job)];
        jobs::remember_causes(&self.forge.client, home, &jobs);
        Ok(ForgeEvent::Jobs(Box::new(JobEvent { repo, sha, jobs, group_over: None })))
    }
}

/// Before 16.11 there is no action: a note whose text never changed is new.
fn note_action(note: &hooks::Note<'_>) -> CommentAction {
    let new = match note.action.as_deref() {
        Some(action) => action == "create",
        None => note.created_at == note.updated_at,
    };
    if new { CommentAction::Created } else { CommentAction::Edited { before: None } }
}

fn build_facts<'a>(build: &'a hooks::Build<'_>, project_page: &str) -> JobFacts<'a> {
    let words = JobWords {
        status: &build.status,
        failure_reason: build.failure_reason.as_deref(),
        stage: &build.stage,
        has_runner: build.runner.is_some(),
    };
    JobFacts {
        id: build.id,
        name: &build.name,
        words,
        allow_failure: build.allow_failure.unwrap_or(false),
        url: job_page(project_page, build.id),
        needs: None,
    }
}

/// The head that the pipeline is about. Merged-results pipelines run on a commit that is in no branch: their head is taken
/// from where the hook names it, else their own commit stands and the listing will know better. The merge request's last
/// commit may be newer than the pipeline, so that it counts only where the ref says what was merged. A train's pipeline
/// is about the train's own commit.
fn revision_sha(
    pipeline: &hooks::Pipeline<'_>,
    merge_request: Option<&hooks::MergeRequest<'_>>,
) -> Result<CommitSha, Skip> {
    let git_ref = pipeline.git_ref.as_deref().unwrap_or_default();
    if receive_issue::train_of(git_ref).is_some() {
        return commit(&pipeline.sha);
    }
    let merged = git_ref.starts_with("refs/merge-requests/") && !git_ref.ends_with("/head");
    let last = merge_request.and_then(|m| m.last_commit.as_ref()).map(|last| &*last.id).filter(|_| merged);
    let head = pipeline.source_sha.as_deref().or(last).and_then(|sha| CommitSha::parse(sha).ok());
    head.map_or_else(|| commit(&pipeline.sha), Ok)
}

fn commit(sha: &str) -> Result<CommitSha, Skip> {
    CommitSha::parse(sha).map_err(|error| Skip::Malformed(format!("sha: {error}")))
}

fn job_page(project_page: &str, id: u64) -> Option<String> {
    (!project_page.is_empty()).then(|| format!("{}/-/jobs/{id}", project_page.trim_end_matches('/')))
}

/// The full path of a project from its page, below the instance's own path prefix.
fn path_of_page(page: &str, prefix: &str) -> Option<String> {
    let url = url::Url::parse(page).ok()?;
    let path = url.path().strip_prefix(prefix).unwrap_or(url.path()).trim_matches('/');
    (!path.is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
