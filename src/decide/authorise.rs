//! Who may do what (DESIGN section 6).
//!
//! **Invariant:** an [`Authorised`] value exists only for a look-up that succeeded; a planner or canceller asks for it.
//! Read next: `need.rs` for what a right is made of, `terms.rs` for where it comes from.

use crate::domain::{Change, Role};

use super::inert::code;
use super::need::{Asker, Grant, Need};
use super::reason::{Refusal, RefusalKind};

/// What each command needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// `/retest`.
    pub retest: Need,
    /// Whether the author of an approved head may retest whatever the role.
    pub retest_author: bool,
    /// `--force` and `times=`.
    pub force: Need,
    /// `/test`.
    pub test: Need,
    /// `/cancel` of other people's retries.
    pub cancel: Need,
    /// `/ok-to-test`.
    pub ok_to_test: Need,
    /// `/help`, `/jobs`, `/why`.
    pub help: Need,
    /// `/flake`.
    pub flake: Need,
    /// `/autoretry`, for others than the author.
    pub autoretry: Need,
    /// `/override`.
    pub override_status: Need,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            retest: Need::role(Role::Triage),
            retest_author: true,
            force: Need::role(Role::Write),
            test: Need::role(Role::Write),
            cancel: Need::role(Role::Write),
            ok_to_test: Need::role(Role::Write),
            help: Need::role(Role::Read),
            flake: Need::role(Role::Triage),
            autoretry: Need::role(Role::Triage),
            override_status: Need::role(Role::Maintain),
        }
    }
}

impl Rights {
    /// What `ask` needs of somebody to whom no exception applies.
    pub const fn need(&self, ask: Ask) -> &Need {
        match ask {
            Ask::Retest => &self.retest,
            Ask::Force => &self.force,
            Ask::Test => &self.test,
            Ask::Cancel { .. } => &self.cancel,
            Ask::OkToTest => &self.ok_to_test,
            Ask::Help => &self.help,
            Ask::Flake => &self.flake,
            Ask::Autoretry { .. } => &self.autoretry,
            Ask::Override => &self.override_status,
        }
    }
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Restart failed jobs.
    Retest,
    /// Restart jobs that passed, too.
    Force,
    /// Start jobs whether or not they ran.
    Test,
    /// Cancel retries, all of them one's own or not.
    Cancel {
        /// Whether every retry to be cancelled was asked for by the same person.
        own: bool,
    },
    /// Approve a fork's head, or take an approval back.
    OkToTest,
    /// Read.
    Help,
    /// Say that a failure is a known flake.
    Flake,
    /// Let flakes of the change be retried unasked, or forbid it.
    Autoretry {
        /// Whether they shall be.
        on: bool,
    },
    /// Set one of our statuses to success.
    Override,
}

/// The proof that the asker may do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorised {
    asker: Asker,
    trusted_head: bool,
    may_test: bool,
    approvers: String,
}

impl Authorised {
    /// Whether a further grant, of a job or of a field, lets the same asker through.
    pub fn is_let_by(&self, grant: &Grant) -> bool {
        grant.lets(&self.asker)
    }

    /// Who asks.
    pub const fn asker(&self) -> &Asker {
        &self.asker
    }

    /// Whether the head may run code that never ran on it: it is no fork's, or it was approved.
    pub const fn trusted_head(&self) -> bool {
        self.trusted_head
    }

    /// Whether the same asker may start what never ran on this head.
    pub const fn may_test(&self) -> bool {
        self.may_test
    }

    /// Who can approve a head, for texts.
    pub fn approvers(&self) -> &str {
        &self.approvers
    }
}

/// Whether the head is trusted: it lives in the repository itself, or somebody with the right approved it.
fn is_trusted(change: &Change) -> bool {
    !change.from_fork || change.approved_head.as_ref() == Some(&change.head)
}

/// Whether the commit that a command is pinned to is the head.
///
/// # Errors
/// When it is another one.
pub fn pinned(change: &Change, sha: Option<&str>) -> Result<(), Refusal> {
    match sha {
        Some(sha) if !change.head.starts_with(sha) => {
            let text = format!("the head is {}, not {}", code(change.head.short()), code(sha));
            Err(Refusal::new(RefusalKind::NotThisHead, text))
        }
        Some(_) | None => Ok(()),
    }
}

/// Decides whether the asker may do it.
///
/// An author may retest a trusted head where that is allowed, and may always read what concerns the own change; who asked
/// for a retry may cancel it. An author may forbid retries that nobody asks for, and allow them where the author may retest.
/// All else takes the grant.
///
/// # Errors
/// [`Refusal`] that names what is missing and what to do.
pub fn authorise(ask: Ask, change: &Change, asker: &Asker, rights: &Rights) -> Result<Authorised, Refusal> {
    let trusted_head = is_trusted(change);
    let is_author = change.author.as_ref().is_some_and(|a| a.id == asker.actor.id);
    let (word, exempt) = match ask {
        Ask::Retest => ("retest", rights.retest_author && is_author && trusted_head),
        Ask::Force => ("retest with --force, all or times=", false),
        Ask::Test => ("test", false),
        Ask::Cancel { own } => ("cancel", own),
        Ask::OkToTest => ("ok-to-test", false),
        Ask::Help => ("help, /jobs and /why", is_author),
        Ask::Flake => ("flake", false),
        Ask::Autoretry { on: true } => ("autoretry on", rights.retest_author && is_author && trusted_head),
        Ask::Autoretry { on: false } => ("autoretry off", is_author),
        Ask::Override => ("override", false),
    };
    let unmet = rights.need(ask).unmet(asker).filter(|_| !exempt);
    let Some(unmet) = unmet else {
        let may_test = rights.need(Ask::Test).unmet(asker).is_none();
        return Ok(Authorised {
            asker: asker.clone(),
            trusted_head,
            may_test,
            approvers: rights.ok_to_test.to_string(),
        });
    };
    let author_of_fork =
        matches!(ask, Ask::Retest | Ask::Autoretry { on: true }) && rights.retest_author && is_author && !trusted_head;
    let hint = if author_of_fork {
        format!(
            "the head of a fork must be approved first: somebody with {} can comment {}",
            rights.ok_to_test,
            code("/ok-to-test")
        )
    } else {
        format!("somebody with {} can give the command", rights.need(ask))
    };
    Err(refused(&format!("/{word}"), unmet, asker, &hint))
}

/// The refusal of somebody whom a grant does not let through.
fn refused(what: &str, unmet: &Grant, asker: &Asker, hint: &str) -> Refusal {
    let (what, who) = (code(what), code(&asker.actor.login));
    let needs = match (&unmet.role, unmet.teams.is_empty() && unmet.people.is_empty()) {
        (Some(role), true) => format!("the *{role}* role on this repository"),
        _ => format!("{unmet} on this repository"),
    };
    let asked: Vec<String> =
        unmet.teams.iter().filter(|t| asker.unknown.contains(t)).map(|t| code(&t.to_string())).collect();
    let (kind, unknown) = if asked.is_empty() {
        (RefusalKind::Role, String::new())
    } else {
        let list = asked.join(", ");
        (RefusalKind::RightsUnknown, format!(", and who is in {list} could not be looked up, which counts as no"))
    };
    Refusal::new(kind, format!("{what} needs {needs}; {who} has *{}*{unknown}. Hint: {hint}.", asker.role))
}

#[cfg(test)]
mod tests;
