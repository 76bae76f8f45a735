//! GitLab's own commands in notes: it obeys those lines and strips them before it saves the note.
//!
//! A line is one when it begins, in its first column and outside fenced code and `>>>` quotes, with `/` and a known word
//! in any case, followed by a blank or the end. Unknown words stay. Only closing and opening again have an effect here;
//! what was obeyed is kept for tests to look at.

/// Words that GitLab knows on merge requests and issues.
const WORDS: [&str; 49] = [
    "approve",
    "assign",
    "assign_reviewer",
    "award",
    "checkin_reminder",
    "clone",
    "close",
    "confidential",
    "copy_metadata",
    "create_merge_request",
    "done",
    "draft",
    "due",
    "duplicate",
    "estimate",
    "estimate_time",
    "invite_email",
    "label",
    "labels",
    "lock",
    "merge",
    "milestone",
    "move",
    "page",
    "promote",
    "publish",
    "react",
    "ready",
    "reassign",
    "reassign_reviewer",
    "rebase",
    "relabel",
    "relate",
    "remove_due_date",
    "remove_estimate",
    "remove_label",
    "remove_milestone",
    "reopen",
    "request_review",
    "spend",
    "submit_review",
    "subscribe",
    "tag",
    "target_branch",
    "title",
    "todo",
    "unapprove",
    "unassign",
    "unlabel",
];

/// The rest of the words.
const MORE: [&str; 6] = ["unassign_reviewer", "unlock", "unrelate", "unsubscribe", "wip", "zoom"];

/// Splits a text into what is saved and the lines that GitLab obeys.
pub(super) fn split(text: &str) -> (String, Vec<String>) {
    let text = text.replace('\r', "");
    let (mut kept, mut obeyed) = (Vec::new(), Vec::new());
    let mut inside: Option<&str> = None;
    for line in text.split('\n') {
        let fence = ["```", ">>>"].into_iter().find(|fence| line.starts_with(fence));
        match (inside, fence) {
            (None, Some(fence)) => inside = Some(fence),
            (Some(open), Some(fence)) if open == fence => inside = None,
            _ => {}
        }
        if inside.is_none() && fence.is_none() && is_command(line) {
            obeyed.push(line.to_owned());
        } else {
            kept.push(line);
        }
    }
    (kept.join("\n").trim_end().to_owned(), obeyed)
}

fn is_command(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let word = rest.split(char::is_whitespace).next().unwrap_or_default().to_ascii_lowercase();
    WORDS.contains(&word.as_str()) || MORE.contains(&word.as_str())
}
