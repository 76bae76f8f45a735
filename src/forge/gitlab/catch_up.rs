//! Notes that were written while no webhook reached us, as events like those of the webhooks.
//!
//! The head at the time of the comment is not known any more, so that `head` stays empty and only the present facts of
//! the change are told: who binds the command must compare them with its own record.

use super::{GitLabForge, actor, changes};
use crate::api::gitlab::Noteable;
use crate::domain::{
    ChangeKey, CommentAction, CommentEvent, CommentKind, CommentRef, DeliveryId, ForgeEvent, Repo, Timestamp,
};
use crate::ports::{CallError, Wanted};

/// Pages of 100 notes that are read of one merge request.
const PAGES_MAX: usize = 10;

/// New notes with commands on open merge requests since then, oldest first.
pub(super) async fn missed_comments(
    forge: &GitLabForge,
    repo: &Repo,
    since: Timestamp,
) -> Result<Vec<Wanted>, CallError> {
    let home = repo.key.id;
    let mut found: Vec<(Timestamp, Wanted)> = Vec::new();
    for wire in forge.client.open_merge_requests(home, since).await? {
        let facts = changes::from_wire(repo, &wire, forge.client.now()).ok();
        for page in 1..=PAGES_MAX {
            let (notes, more) = forge.client.comments(Noteable::MergeRequest(home, wire.iid), page).await?;
            let older = notes.iter().any(|note| note.created_at.is_some_and(|at| at < since));
            for note in notes {
                let (Some(written), Some(author)) = (note.created_at, &note.author) else { continue };
                // A text that was edited since may hold what its author never wrote, or what has run already.
                let edited = note.updated_at.is_some_and(|at| at != written);
                if written < since || edited || note.system || !(forge.config.may_hold_command)(&note.body) {
                    continue;
                }
                let author = actor(author.id, &author.username);
                let event = CommentEvent {
                    repo: repo.clone(),
                    change: ChangeKey { repo: repo.key.clone(), number: wire.iid },
                    comment: CommentRef { kind: CommentKind::Note, id: note.id },
                    action: CommentAction::Created,
                    sender: author.clone(),
                    author,
                    body: note.body,
                    created_at: written,
                    head: None,
                    internal: note.internal || note.confidential,
                    change_facts: facts.clone().map(Box::new),
                    via_app: None,
                    open: wire.state == "opened",
                };
                let id = DeliveryId::new(format!("missed-note-{}", note.id));
                found.push((written, Wanted { id, event: ForgeEvent::Comment(Box::new(event)) }));
            }
            if older || !more {
                break;
            }
        }
    }
    found.sort_by_key(|(written, _)| *written);
    Ok(found.into_iter().map(|(_, wanted)| wanted).collect())
}
