//! Who may do what (DESIGN section 6).
//!
//! **Invariant:** an [`Authorised`] value exists only for a look-up that succeeded; a planner or canceller asks for it.

use crate::domain::{Actor, Change, Role};

use super::inert::code;
use super::reason::{Refusal, RefusalKind};

/// The least role for each command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// `/retest`.
    pub retest: Role,
    /// Whether the author of an approved head may retest whatever the role.
    pub retest_author: bool,
    /// `--force` and `times=`.
    pub force: Role,
    /// `/test`.
    pub test: Role,
    /// `/cancel` of other people's retries.
    pub cancel: Role,
    /// `/ok-to-test`.
    pub ok_to_test: Role,
    /// `/help`, `/jobs`.
    pub help: Role,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            retest: Role::Triage,
            retest_author: true,
            force: Role::Write,
            test: Role::Write,
            cancel: Role::Write,
            ok_to_test: Role::Write,
            help: Role::Read,
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
    /// Approve a fork's head.
    OkToTest,
    /// Read.
    Help,
}

/// The proof that the asker may do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorised {
    role: Role,
    trusted_head: bool,
}

impl Authorised {
    /// The asker's role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Whether the head may run code that never ran on it: it is no fork's, or it was approved.
    pub const fn trusted_head(&self) -> bool {
        self.trusted_head
    }
}

/// Whether the head is trusted: it lives in the repository itself, or somebody with the right approved it.
fn is_trusted(change: &Change) -> bool {
    !change.from_fork || change.approved_head.as_ref() == Some(&change.head)
}

/// Decides whether the asker may do it.
///
/// # Errors
/// [`Refusal`] that names the missing role and what to do.
pub fn authorise(ask: Ask, change: &Change, actor: &Actor, role: Role, rights: &Rights) -> Result<Authorised, Refusal> {
    let trusted_head = is_trusted(change);
    let is_author = change.author.as_ref().is_some_and(|a| a.id == actor.id);
    let (need, word, exempt) = match ask {
        Ask::Retest => (rights.retest, "retest", rights.retest_author && is_author && trusted_head),
        Ask::Force => (rights.force, "retest --force", false),
        Ask::Test => (rights.test, "test", false),
        Ask::Cancel { own } => (rights.cancel, "cancel", own),
        Ask::OkToTest => (rights.ok_to_test, "ok-to-test", false),
        Ask::Help => (rights.help, "help", false),
    };
    if role >= need || exempt {
        return Ok(Authorised { role, trusted_head });
    }
    let author_of_fork = ask == Ask::Retest && rights.retest_author && is_author && !trusted_head;
    let hint = if author_of_fork {
        format!(
            "the head of a fork must be approved first: somebody with *{}* can comment {}",
            rights.ok_to_test,
            code("/ok-to-test")
        )
    } else {
        format!("somebody with *{need}* can give the command")
    };
    let who = code(&actor.login);
    let command = code(&format!("/{word}"));
    Err(Refusal::new(
        RefusalKind::Role,
        format!("{command} needs the *{need}* role on this repository; {who} has *{role}*. Hint: {hint}."),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plan::tests::{actor, change};

    #[test]
    fn rights_follow_the_table() {
        let fork = |approved: bool| {
            let mut c = change();
            c.from_fork = true;
            c.approved_head = approved.then(|| c.head.clone());
            c
        };
        let own = change();
        let (author, other) = (actor(1, "ann"), actor(2, "sam"));
        let table = [
            (Ask::Retest, &own, &author, Role::Read, true, "the author of a head in the repository"),
            (Ask::Retest, &own, &other, Role::Read, false, "a reader who is not the author"),
            (Ask::Retest, &own, &other, Role::Triage, true, "triage"),
            (Ask::Retest, &fork(false), &author, Role::Read, false, "a fork's author before approval"),
            (Ask::Retest, &fork(true), &author, Role::Read, true, "a fork's author after approval"),
            (Ask::Retest, &fork(false), &other, Role::Triage, true, "triage on a fork: what ran may run again"),
            (Ask::Force, &own, &author, Role::Triage, false, "force is for writers, authors included"),
            (Ask::Force, &own, &other, Role::Write, true, "force by a writer"),
            (Ask::Test, &own, &author, Role::Read, false, "an author cannot start what never ran"),
            (Ask::Test, &own, &other, Role::Write, true, "a writer can"),
            (Ask::Cancel { own: true }, &own, &other, Role::Read, true, "the asker's own retries"),
            (Ask::Cancel { own: false }, &own, &other, Role::Triage, false, "other people's retries"),
            (Ask::OkToTest, &fork(false), &author, Role::Triage, false, "nobody approves below write"),
            (Ask::OkToTest, &fork(false), &other, Role::Write, true, "a writer approves"),
            (Ask::Help, &own, &other, Role::None, false, "no access, no help"),
        ];
        for (ask, change, actor, role, allowed, why) in table {
            let result = authorise(ask, change, actor, role, &Rights::default());
            assert_eq!(result.is_ok(), allowed, "{why}: {result:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_role_that_is_missing_and_the_one_that_is_there() {
        let refusal = authorise(Ask::Retest, &change(), &actor(2, "sam"), Role::Read, &Rights::default());
        let text = refusal.expect_err("a reader").text;
        assert!(text.contains("*triage*") && text.contains("*read*") && text.contains("`sam`"), "{text}");
    }
}
