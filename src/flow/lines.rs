//! What commands mean beyond their letters, and the lines that answer them: plain functions over values.
//!
//! Kept apart from `command.rs`, which does things; nothing here looks anything up.

use retest_commands::{Command, Grammar, Mistake, MistakeKind, Retest, Selection, Selector};
use sha2::{Digest, Sha256};

use crate::decide::{AnswerLine, Ask, Authorised, LeaveItem, Reason, Refusal, code};
use crate::domain::{ChangeKey, CommitSha, DispatchKey, Retry, RetryId, RetryState, WaitOn};

pub(super) fn started_text(why: &str, retry: &Retry) -> String {
    let run = retry.number + 1;
    let more = match retry.series {
        Some(series) if series.of > 1 => format!(" and {} more after it", series.of - 1),
        _ => String::new(),
    };
    match &retry.state {
        RetryState::Waiting(WaitOn::Jobs(needs)) => {
            let needs: Vec<String> = needs.iter().map(|need| code(need.as_str())).collect();
            format!("queued, run {run}{more}: starts once {} passed ({why})", needs.join(", "))
        }
        _ => format!("started, run {run}{more} ({why})"),
    }
}

/// A `/test` in the words of a `/retest`; the verb tells them apart.
pub(super) fn as_retest(test: &retest_commands::Test) -> Retest {
    Retest {
        selection: test.selection.clone(),
        overrides: test.overrides.clone(),
        flags: test.flags,
        sha: test.sha.clone(),
        times: test.times,
        issue: test.issue,
        reason: test.reason.clone(),
    }
}

/// Whether jobs that passed are meant, too: by `--force`, or by naming everything.
pub(super) fn forced(wish: &Retest) -> bool {
    wish.flags.force || wish.selection.words.iter().any(Selector::is_everything)
}

/// What must be allowed for it: running what needs no run takes more than repeating what failed.
pub(super) fn right_of(wish: &Retest) -> Ask {
    if forced(wish) || wish.times.is_some_and(|n| n > 1) { Ask::Force } else { Ask::Retest }
}

/// The open retries that a `/cancel` means: all of them without a name.
pub(super) fn cancelled<'a>(selection: &Selection, retries: &'a [Retry]) -> Vec<&'a Retry> {
    let all = selection.words.is_empty() && selection.whole.is_none();
    retries.iter().filter(|r| r.state.is_open() && (all || names(selection, r.job.as_str()))).collect()
}

/// Whether a selection names this job. A reserved word in a `/cancel` means every retry.
pub(super) fn names(selection: &Selection, job: &str) -> bool {
    let word = |word: &Selector| match word {
        Selector::Name(name) => name.to_lowercase() == job.to_lowercase(),
        Selector::Glob(glob) => globset::Glob::new(glob).is_ok_and(|g| g.compile_matcher().is_match(job)),
        Selector::Failed | Selector::Required | Selector::Optional | Selector::All => true,
        Selector::Runner(_) | Selector::Platform(_) | Selector::Url(_) => false,
    };
    selection.whole.as_deref() == Some(job) || selection.words.iter().any(word)
}

/// A command as it was understood, for the report.
pub(super) fn title(command: &Command) -> String {
    let view = command.view();
    let quoted = |arg: &String| if arg.contains(char::is_whitespace) { format!("\"{arg}\"") } else { arg.clone() };
    let mut words = vec![format!("/{}", command.name())];
    words.extend(view.args.iter().map(quoted));
    words.extend(view.flags.iter().map(|flag| format!("--{flag}")));
    words.extend(view.options.iter().map(|(key, value)| format!("{key}={value}")));
    words.join(" ")
}

/// Cancels what is under way, and takes back what the same comment has just asked for.
///
/// `goes_on` says of which retry the run cannot be cancelled.
pub(super) fn cancel_lines(
    meant: &[&Retry],
    goes_on: impl Fn(&Retry) -> bool,
    (cancel, start): (&mut Vec<RetryId>, &mut Vec<Retry>),
) -> Vec<AnswerLine> {
    if meant.is_empty() {
        return vec![whole(Reason::Nothing, "nothing to cancel: no retry that is meant is under way on this head")];
    }
    start.retain(|planned| !meant.iter().any(|m| m.key == planned.key));
    cancel.extend(meant.iter().map(|r| r.id).filter(|id| *id != RetryId(0)));
    let text = |r: &Retry| {
        if goes_on(r) {
            "no longer followed; its runner cannot cancel a run, so the run goes on there"
        } else {
            "cancelled"
        }
    };
    meant.iter().map(|r| line(r.job.as_str(), Reason::Cancelled, text(r).to_owned())).collect()
}

/// What a command asks for, in the words of rights: each way in which it may be let through.
pub(super) fn asks_of(command: &Command) -> Vec<Ask> {
    match command {
        Command::Retest(wish) => vec![right_of(wish)],
        Command::Test(_) => vec![Ask::Test],
        Command::Cancel(_) => vec![Ask::Cancel { own: false }],
        Command::OkToTest(_) => vec![Ask::OkToTest],
        // Help lists what the asker may, so every right counts.
        Command::Help(_) => {
            vec![
                Ask::Help,
                Ask::Retest,
                Ask::Force,
                Ask::Test,
                Ask::Cancel { own: false },
                Ask::OkToTest,
                Ask::Flake,
                Ask::Autoretry { on: true },
                Ask::Override,
            ]
        }
        Command::Jobs(_) | Command::Why(_) => vec![Ask::Help],
        Command::Flake(_) => vec![Ask::Flake],
        Command::Autoretry(wish) => vec![Ask::Autoretry { on: wish.switch == retest_commands::Switch::On }],
        Command::Override(_) => vec![Ask::Override],
    }
}

/// What somebody needs who gives the command of this name in its plainest form.
fn ask_named(name: &str) -> Ask {
    match name {
        "retest" => Ask::Retest,
        "test" => Ask::Test,
        // Own retries may be cancelled by everybody.
        "cancel" => Ask::Cancel { own: true },
        "ok-to-test" => Ask::OkToTest,
        "flake" => Ask::Flake,
        "autoretry" => Ask::Autoretry { on: false },
        "override" => Ask::Override,
        _ => Ask::Help,
    }
}

/// The commands that this person may use here, or the one that was asked about.
pub(super) fn help_lines(
    topic: Option<&str>,
    grammar: &Grammar,
    may: &dyn Fn(Ask) -> Result<Authorised, Refusal>,
) -> Vec<AnswerLine> {
    let meant = |name: &str| topic.is_none_or(|topic| topic == name);
    let mut lines = Vec::new();
    for doc in grammar.commands().iter().filter(|doc| meant(doc.name)) {
        let mut usage = doc.usage.replacen(&format!("/{}", doc.name), &grammar.spelled(doc.name), 1);
        if may(Ask::Force).is_err() {
            usage = usage.replace(" [--force]", "").replace(" [times=N]", "");
        }
        match may(ask_named(doc.name)) {
            Ok(_) => lines.push(whole(Reason::Listed, format!("{}: {}", code(&usage), doc.summary))),
            Err(refusal) if topic.is_some() => lines.push(whole(Reason::Listed, refusal.text)),
            Err(_) => {}
        }
    }
    if lines.is_empty() {
        lines.push(whole(Reason::Nothing, "there is no such command here that you may use"));
    }
    lines
}

/// What is wrong with a line that was meant as a command, and how it is written.
pub(super) fn mistake_line(mistake: &Mistake) -> AnswerLine {
    let (kind, hint) = (mistake.kind, mistake.hint.as_str());
    let says = if !hint.starts_with('/') {
        let what = if kind == MistakeKind::UnknownOption { "unknown; " } else { "" };
        format!("{}: {what}{}", code(&mistake.text), crate::decide::plain_words(hint))
    } else if kind == MistakeKind::MidLine {
        format!("a command needs a line of its own: {}", code(hint))
    } else {
        format!("did you mean {}?", code(hint))
    };
    let reason = format!("{}/{}", Reason::NotUnderstood.as_str(), kind.as_str());
    AnswerLine { job: None, reason, text: format!("not run: {says}") }
}

pub(super) fn refusal_line(refusal: &Refusal) -> AnswerLine {
    AnswerLine { job: None, reason: refusal.kind.as_str().to_owned(), text: format!("not run: {}", refusal.text) }
}

pub(super) fn leave_line(item: &LeaveItem) -> AnswerLine {
    let job = (!item.name.is_empty()).then(|| item.name.as_str().into());
    AnswerLine { job, reason: item.reason.as_str().to_owned(), text: item.text.clone() }
}

pub(super) fn line(job: &str, reason: Reason, text: String) -> AnswerLine {
    AnswerLine { job: Some(job.into()), reason: reason.as_str().to_owned(), text }
}

pub(super) fn whole(reason: Reason, text: impl Into<String>) -> AnswerLine {
    AnswerLine { job: None, reason: reason.as_str().to_owned(), text: text.into() }
}

/// The key of the `number`-th retry of a job on a head: the same wish always has the same key.
pub(super) fn dispatch_key(
    change: &ChangeKey,
    sha: &CommitSha,
    (job, scope): (&str, &str),
    number: u32,
) -> DispatchKey {
    let mut hash = Sha256::new();
    let (repo, change_number) = (change.repo.id.to_string(), change.number.to_string());
    for part in [change.repo.forge.as_str(), &repo, &change_number, sha.as_str(), scope, job, &number.to_string()] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    DispatchKey::new(format!("retest-{}", hex::encode(hash.finalize()).get(..24).unwrap_or_default()))
}

/// Somebody else's wish for the same job was stored at the same moment: this one joins it.
pub(super) fn joined(answers: &mut [(String, Vec<AnswerLine>)], retry: &Retry) {
    let lines = answers.iter_mut().flat_map(|(_, lines)| lines);
    for line in lines.filter(|l| l.job.as_ref() == Some(&retry.job) && l.reason == Reason::Started.as_str()) {
        line.reason = Reason::Joined.as_str().to_owned();
        line.text = "a retry of it is under way; joined".to_owned();
    }
}

/// A line of an answer as the audit log keeps it.
pub(super) fn audit_line(answer: &crate::decide::Answer, line: &AnswerLine) -> String {
    let (who, what) = (code(&answer.asker), code(&answer.command));
    format!("{who} asked for {what}: {} ({})", line.text, line.reason)
}
