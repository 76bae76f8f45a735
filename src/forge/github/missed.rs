//! Comments written while nobody listened, read back from the repository.
//!
//! They become the same events that a delivery would have brought, with an id that is the same at every reading, so
//! that a comment read twice, or read and delivered, makes one command. Only the conversation is read: comments on lines
//! and texts of reviews that nobody heard have to be written again.

use super::GitHub;
use crate::api::github::wire::Comment;
use crate::api::github::{Need, iso, repo_path, timestamp};
use crate::domain::{
    Actor, ChangeKey, CommentAction, CommentEvent, CommentKind, CommentRef, DeliveryId, ForgeEvent, Repo, Timestamp,
};
use crate::ports::{CallError, Wanted};

const READ_COMMENTS: Need = Need { doing: "read missed comments", permission: "Issues: read" };

impl GitHub {
    pub(super) async fn comments_since(&self, repo: &Repo, since: Timestamp) -> Result<Vec<Wanted>, CallError> {
        let query = format!("since={}&sort=created&direction=asc", iso(since));
        let path = format!("{}/issues/comments?{query}", repo_path(repo));
        let said = self.api.pages::<Vec<Comment>>(repo, &path, READ_COMMENTS).await?;
        let said = said.into_iter().filter_map(|comment| self.missed(repo, comment));
        // `since` is about the last edit: an older comment that was only edited asks for nothing new here.
        let mut found: Vec<CommentEvent> = said.filter(|event| event.created_at >= floor(since)).collect();
        found.sort_by_key(|event| (event.created_at, event.comment.id));
        Ok(found.into_iter().map(wanted).collect())
    }

    fn missed(&self, repo: &Repo, comment: Comment) -> Option<CommentEvent> {
        let via_app = comment.performed_via_github_app.map(|app| app.id);
        // A text that was edited since may hold what its author never wrote, or what has run already.
        if comment.updated_at.is_some() && comment.updated_at != comment.created_at {
            return None;
        }
        let body = comment.body?;
        let ours = via_app.is_some() && via_app == self.hooks.app_id;
        if ours || !(self.hooks.may_hold_command)(&body) {
            return None;
        }
        // An issue's conversation has the same list; only its page tells that it is a pull request's.
        let address = comment.html_url.filter(|url| url.contains("/pull/")).and(comment.issue_url);
        let number = address?.rsplit('/').next()?.parse().ok()?;
        let author = Actor::from(comment.user?);
        Some(CommentEvent {
            repo: repo.clone(),
            change: ChangeKey { repo: repo.key.clone(), number },
            comment: CommentRef { kind: CommentKind::Issue, id: comment.id },
            action: CommentAction::Created,
            sender: author.clone(),
            author,
            body,
            created_at: comment.created_at.as_deref().and_then(timestamp)?,
            head: None,
            internal: false,
            change_facts: None,
            via_app,
            open: true,
        })
    }
}

/// GitHub's dates have whole seconds.
fn floor(at: Timestamp) -> Timestamp {
    Timestamp::from_ms(at.ms().div_euclid(1_000) * 1_000)
}

fn wanted(event: CommentEvent) -> Wanted {
    let id = format!("catchup:{}:{:?}:{}", event.change.repo.id, event.comment.kind, event.comment.id);
    Wanted { id: DeliveryId::new(id), event: ForgeEvent::Comment(Box::new(event)) }
}
