//! The part of `receive.rs` about issues and merge trains.

use super::receive::Skip;
use crate::api::gitlab::hooks;
use crate::domain::{Issue, Timestamp};

/// The issue as the hook tells it. One that only members may see is told as closed and without a word of it, so that
/// whoever knew it forgets it.
pub(super) fn issue(hook: &hooks::IssueHook<'_>, at: Timestamp) -> Result<Issue, Skip> {
    let told = &hook.object_attributes;
    if told.kind.as_deref().is_some_and(|kind| !kind.eq_ignore_ascii_case("issue")) {
        return Err(Skip::Ignored("a work item that is no issue"));
    }
    let hidden = told.confidential == Some(true) || hook.event_type.as_deref() == Some("confidential_issue");
    let shown =
        |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().filter(|_| !hidden).unwrap_or_default().to_owned();
    let labels = told.labels.as_ref().or(hook.labels.as_ref()).filter(|_| !hidden);
    Ok(Issue {
        number: told.iid,
        title: shown(&told.title),
        body: shown(&told.description),
        url: shown(&told.url),
        open: !hidden && told.state.as_deref() != Some("closed"),
        labels: labels.into_iter().flatten().filter_map(|label| label.title.clone()).collect(),
        updated_at: told.updated_at.unwrap_or(at),
    })
}

/// The merge request whose place in a merge train a ref is of (`refs/merge-requests/IID/train`).
pub(super) fn train_of(git_ref: &str) -> Option<u64> {
    git_ref.strip_prefix("refs/merge-requests/")?.strip_suffix("/train")?.parse().ok()
}
