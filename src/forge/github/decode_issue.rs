//! Payloads about issues and merge queues in our words; the other half of `decode.rs`.

use super::Hooks;
use super::decode::{repo, sha};
use super::hooks::{Issues, MergeGroup, text};
use super::receive::Skip;
use crate::api::github::timestamp;
use crate::domain::{ForgeEvent, Issue, IssueEvent, QueueEvent, Timestamp};

/// Whether an action of `issues` can change what an issue says of flakes.
pub(super) fn uses_issue_action(word: &str) -> bool {
    let of_text = matches!(word, "opened" | "edited" | "labeled" | "unlabeled");
    of_text || matches!(word, "closed" | "reopened" | "deleted" | "transferred")
}

pub(super) fn issues(hooks: &Hooks, event: &Issues<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    let action = event.action.as_str();
    if !uses_issue_action(action) {
        return Err(Skip::Ignored("action not used"));
    }
    let told = &event.issue;
    if told.pull_request.is_some() {
        return Err(Skip::Ignored("an issue that is a pull request"));
    }
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    // One that was deleted or moved to another repository is told in the state that it had.
    let gone = matches!(action, "deleted" | "transferred");
    let issue = Issue {
        number: told.number,
        title: text(&told.title).to_owned(),
        body: text(&told.body).to_owned(),
        url: text(&told.html_url).to_owned(),
        open: !gone && text(&told.state) != "closed",
        labels: told.labels.iter().flatten().map(|label| label.name.as_str().to_owned()).collect(),
        updated_at: told.updated_at.as_ref().and_then(|date| timestamp(date.as_str())).unwrap_or(at),
    };
    Ok(ForgeEvent::Issue(Box::new(IssueEvent { repo, issue })))
}

/// What an action of `merge_group` says: whether the entry is over. None for an action that we do not use.
pub(super) fn group_is_over(word: &str) -> Option<bool> {
    match word {
        "checks_requested" => Some(false),
        "destroyed" => Some(true),
        _ => None,
    }
}

pub(super) fn merge_group(hooks: &Hooks, event: &MergeGroup<'_>, at: Timestamp) -> Result<ForgeEvent, Skip> {
    let over = group_is_over(event.action.as_str()).ok_or(Skip::Ignored("action not used"))?;
    let repo = repo(hooks, &event.repository, event.installation.as_ref())?;
    let head_ref = event.merge_group.head_ref.as_str();
    let (base_ref, number) = entry(head_ref).ok_or_else(|| {
        Skip::Malformed("`merge_group.head_ref` is no branch of a queue (gh-readonly-queue/BASE/pr-N-SHA)".to_owned())
    })?;
    let (base_ref, sha) = (base_ref.to_owned(), sha(event.merge_group.head_sha.as_str())?);
    Ok(ForgeEvent::Queue(Box::new(QueueEvent { repo, number, sha, base_ref, over, at })))
}

/// The branch to enter and the pull request, from the name of a queue's branch. Names of branches may hold slashes, and
/// even `/pr-`: the last one counts.
fn entry(head_ref: &str) -> Option<(&str, u64)> {
    let branch = head_ref.strip_prefix("refs/heads/").unwrap_or(head_ref);
    let (base, rest) = branch.strip_prefix("gh-readonly-queue/")?.rsplit_once("/pr-")?;
    let (number, sha) = rest.split_once('-')?;
    let whole = !base.is_empty() && !sha.is_empty();
    Some((base, number.parse().ok()?)).filter(|_| whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_branch_names_the_base_and_the_pull_request() {
        let table = [
            ("refs/heads/gh-readonly-queue/main/pr-104-929f8209d40f", Some(("main", 104)), "as it is sent"),
            ("gh-readonly-queue/main/pr-7-929f", Some(("main", 7)), "without the prefix"),
            ("refs/heads/gh-readonly-queue/release/1.0/pr-7-929f", Some(("release/1.0", 7)), "a base with a slash"),
            ("refs/heads/gh-readonly-queue/fix/pr-3-old/pr-7-929f", Some(("fix/pr-3-old", 7)), "a base like an entry"),
            ("refs/heads/gh-readonly-queue/main/pr-x-929f", None, "no number"),
            ("refs/heads/gh-readonly-queue/main/pr-7", None, "no commit"),
            ("refs/heads/gh-readonly-queue//pr-7-929f", None, "no base"),
            ("refs/heads/main", None, "another branch"),
            ("", None, "nothing"),
        ];
        for (head_ref, wanted, why) in table {
            assert_eq!(entry(head_ref), wanted, "{why}");
        }
    }
}
