//! What goes out: commit statuses through GitLab's state machine, and the one report note.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::PoisonError;

use super::{GitLabForge, changes};
use crate::api::gitlab::{Failure, NewStatus, Noteable, StatusWord};
use crate::domain::{Change, CommitSha, Repo};
use crate::ports::{CallError, PostedStatus, ReportPost, StatusPost, StatusState};

/// GitLab's limit for the description, ref and address of a status; the client refuses more when it builds the request.
const FIELD_BYTES_MAX: usize = 255;
/// Pages of 100 notes that are searched for the report.
const REPORT_PAGES_MAX: usize = 20;
/// How many pins are remembered before all are forgotten.
const PINS_MAX: usize = 4_096;

/// Where a status goes: without a pipeline GitLab may open a second one beside that of the merge request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pipeline: Option<u64>,
    git_ref: Option<String>,
}

/// Posts a status, one at a time per commit.
///
/// GitLab refuses to repeat a state (400 `Cannot transition`); the state stands then, and that is success. A pipeline
/// that it does not know for this commit (404, nothing was done) is looked up once more.
pub(super) async fn post_status(
    forge: &GitLabForge,
    repo: &Repo,
    change: &Change,
    (sha, post): (&CommitSha, &StatusPost),
) -> Result<PostedStatus, CallError> {
    let mut hasher = DefaultHasher::new();
    (repo.key.id, sha).hash(&mut hasher);
    let turn = usize::try_from(hasher.finish() % 16).unwrap_or(0);
    let _turn = match forge.status_turns.get(turn) {
        Some(turn) => Some(turn.lock().await),
        None => None,
    };
    let pin = pin_of(forge, repo, change, sha).await?;
    let mut result = send(forge, repo, (sha, post), &pin).await;
    if matches!(&result, Err(failure) if failure.status == Some(404)) && pin.pipeline.is_some() {
        let fresh = look_up(forge, repo, change, sha).await?;
        if fresh != pin {
            result = send(forge, repo, (sha, post), &fresh).await;
        }
    }
    match result {
        Ok(id) => Ok(PostedStatus { post: post.clone(), id: Some(id) }),
        Err(failure) if failure.says(400, "cannot transition") => Ok(PostedStatus { post: post.clone(), id: None }),
        Err(failure) => Err(failure.into()),
    }
}

/// A webhook has shown the pipeline of a head, so that no look-up is needed for it. Its ref is left out: the hook names
/// the source branch even where the pipeline runs on `refs/merge-requests/…`, and GitLab takes the pipeline's own.
pub(super) fn learn_pin(forge: &GitLabForge, project: u64, sha: &CommitSha, pipeline: u64) {
    remember(forge, project, sha, Pin { pipeline: Some(pipeline), git_ref: None });
}

fn remember(forge: &GitLabForge, project: u64, sha: &CommitSha, pin: Pin) {
    let mut pins = forge.pins.lock().unwrap_or_else(PoisonError::into_inner);
    if pins.len() >= PINS_MAX {
        pins.clear();
    }
    pins.insert((project, sha.clone()), pin);
}

async fn pin_of(forge: &GitLabForge, repo: &Repo, change: &Change, sha: &CommitSha) -> Result<Pin, CallError> {
    if *sha != change.head {
        // An older head: GitLab finds the newest pipeline of that commit by itself.
        return Ok(Pin { pipeline: None, git_ref: None });
    }
    let known = forge.pins.lock().unwrap_or_else(PoisonError::into_inner).get(&(repo.key.id, sha.clone())).cloned();
    match (known, change.head_pipeline) {
        (Some(pin), told) if pin.pipeline.is_none() || pin.pipeline >= told => Ok(pin),
        (_, Some(_)) => Ok(Pin { pipeline: change.head_pipeline, git_ref: change.source_ref.clone() }),
        // No pipeline right after a push is normal: ask again before GitLab makes one up.
        (_, None) => look_up(forge, repo, change, sha).await,
    }
}

/// Asks where the head's statuses go. A merged-results pipeline runs on a commit of its own and takes no status of the
/// head: then nothing is pinned, and that is remembered.
async fn look_up(forge: &GitLabForge, repo: &Repo, change: &Change, sha: &CommitSha) -> Result<Pin, CallError> {
    let wire = forge.client.merge_request(repo.key.id, change.key.number).await?;
    let now = changes::from_wire(repo, &wire, forge.client.now())?;
    if now.head != *sha {
        return Ok(Pin { pipeline: None, git_ref: None });
    }
    let foreign = wire.head_pipeline.as_ref().is_some_and(|p| !p.sha.is_empty() && p.sha != sha.as_str());
    let pin = match now.head_pipeline {
        Some(_) if foreign => Pin { pipeline: None, git_ref: Some(wire.source_branch).filter(|_| !now.from_fork) },
        pipeline => Pin { pipeline, git_ref: now.source_ref },
    };
    if now.head_pipeline.is_some() {
        remember(forge, repo.key.id, sha, pin.clone());
    }
    Ok(pin)
}

async fn send(
    forge: &GitLabForge,
    repo: &Repo,
    (sha, post): (&CommitSha, &StatusPost),
    pin: &Pin,
) -> Result<u64, Failure> {
    let status = NewStatus {
        project: repo.key.id,
        sha: sha.as_str(),
        state: state_of(post.state),
        name: cut(&post.context),
        description: cut(&post.description),
        target_url: post.target_url.as_deref().filter(|url| url.len() <= FIELD_BYTES_MAX),
        git_ref: pin.git_ref.as_deref().filter(|git_ref| git_ref.len() <= FIELD_BYTES_MAX),
        pipeline: pin.pipeline,
    };
    Ok(forge.client.post_commit_status(status).await?.id)
}

const fn state_of(state: StatusState) -> StatusWord {
    match state {
        StatusState::Pending => StatusWord::Pending,
        StatusState::Running => StatusWord::Running,
        StatusState::Success => StatusWord::Success,
        StatusState::Failure => StatusWord::Failed,
        StatusState::Error => StatusWord::Canceled,
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(FIELD_BYTES_MAX)).unwrap_or(text)
}

/// Creates or edits the report of a merge request, or our comment on an issue. A known note that is gone, or an unknown
/// one, is looked for by its marker among our own notes before a new one is written.
pub(super) async fn post_report(forge: &GitLabForge, on: Noteable, post: &ReportPost) -> Result<u64, CallError> {
    if let Some(known) = post.known {
        match forge.client.edit_note(on, known, &post.body).await {
            Ok(()) => return Ok(known),
            Err(failure) if failure.status == Some(404) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    match find_report(forge, on, post).await? {
        Some(found) => {
            forge.client.edit_note(on, found, &post.body).await?;
            Ok(found)
        }
        None => Ok(forge.client.create_note(on, &post.body, post.internal).await?),
    }
}

async fn find_report(forge: &GitLabForge, on: Noteable, post: &ReportPost) -> Result<Option<u64>, CallError> {
    for page in 1..=REPORT_PAGES_MAX {
        let (notes, more) = forge.client.comments(on, page).await?;
        for note in notes {
            // Anybody can write our marker: only our own note is our report. A note cannot change who sees it.
            let same_readers = (note.internal || note.confidential) == post.internal;
            if same_readers && note.body.contains(&post.marker) && forge.is_mine(note.author.as_ref()).await {
                return Ok(Some(note.id));
            }
        }
        if !more {
            break;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_bytes_between_characters() {
        let text = "é".repeat(200);
        assert_eq!(cut(&text).len(), 254, "255 bytes would split the 128th letter");
        assert_eq!(cut("short"), "short");
    }
}
