//! What was asked, by whom, under which terms; and what is looked up of that before anything is decided.
//!
//! Read next: `command.rs`, which answers it.

use std::collections::BTreeSet;
use std::sync::Arc;

use retest_commands::{Command, OkToTest, Parsed};

use super::lines::{asks_of, whole};
use super::policy::InForce;
use super::snapshot::AskError;
use super::world::World;
use crate::decide::{AnswerLine, Asker, Reason, Refusal, RefusalKind, Used, code, is_own_text};
use crate::domain::{Actor, Change, CommentEvent, CommentRef, CommitSha, Repo, Retry, Role, Team};
use crate::ports::{CallError, Forge};
use crate::store::{CommandView, StoredDelivery};

/// Failed tries after which a command is answered with "could not look it up".
pub(super) const TRIES_MAX: u32 = 6;

/// What was asked, by a comment or by a button.
pub(super) struct Asked<'a> {
    /// The forge.
    pub forge: &'a dyn Forge,
    /// The repository.
    pub repo: Repo,
    /// The change as it stands.
    pub change: Change,
    /// Who asked.
    pub actor: Actor,
    /// The comment; none for a button.
    pub comment: Option<CommentRef>,
    /// Whether only members can read it.
    pub internal: bool,
    /// Whether the head is known that the change had when this was asked.
    pub head_seen: bool,
    /// The delivery that told of it.
    pub delivery: &'a StoredDelivery,
    /// What was read at once; none when it is not about the present head.
    pub view: Option<CommandView>,
    /// The asker's role, when it was looked up meanwhile.
    pub role: Option<Result<Role, CallError>>,
    /// What holds in the repository.
    pub policy: Arc<InForce>,
}

impl Asked<'_> {
    /// Whether no look-up is waited for any more.
    pub const fn settles(&self) -> bool {
        self.delivery.tries >= TRIES_MAX
    }
}

/// What becomes of the approval of a fork's head.
pub(super) enum Approval {
    /// This head is approved.
    Given(CommitSha),
    /// No head is approved any more.
    TakenBack,
}

impl World {
    /// What holds where a comment stands; none when its author must not command, whatever it says.
    pub(super) async fn policy_for_comment(
        &self,
        forge: &dyn Forge,
        delivery: &StoredDelivery,
        comment: &CommentEvent,
    ) -> Result<Option<Arc<InForce>>, AskError> {
        let bot = comment.author.is_bot || forge.is_me(&comment.author, comment.via_app);
        if bot || is_own_text(&comment.body) {
            return Ok(None);
        }
        let policy = self.in_force(forge, &comment.repo, delivery.tries >= TRIES_MAX);
        if !self.must_look_at_policy(&comment.repo.key) || self.rules.role_cache.is_zero() {
            return policy.await.map(Some);
        }
        // The role is needed next: asked for at the same time, it is kept until then.
        let (policy, _role) = tokio::join!(policy, self.role(forge, &comment.repo, &comment.author));
        policy.map(Some)
    }

    /// Who asks: the role, and a place in those teams that decide where the role does not.
    pub(super) async fn asker_of(&self, asked: &Asked<'_>, parsed: &Parsed) -> Result<Asker, CallError> {
        let role = match asked.role.clone() {
            Some(role) => role?,
            None => self.role(asked.forge, &asked.repo, &asked.actor).await?,
        };
        let terms = &asked.policy.terms;
        let needs = parsed.commands.iter().flat_map(|one| asks_of(&one.command)).map(|ask| terms.rights.need(ask));
        let mut teams: BTreeSet<Team> = needs.flat_map(|need| need.teams_to_ask(&asked.actor, role)).cloned().collect();
        if parsed.commands.iter().any(|one| matches!(one.command, Command::Retest(_) | Command::Test(_))) {
            teams.extend(terms.teams_of_jobs(&asked.actor, role).cloned());
        }
        self.asker((asked.forge, &asked.repo), (&asked.actor, role), teams, asked.settles()).await
    }

    /// What was used of the limits, by the commands of this very comment, too.
    pub(super) async fn used(&self, asked: &Asked<'_>, planned: &[Retry]) -> Result<Used, AskError> {
        let limits = &asked.policy.terms.limits;
        let mut used = match &asked.view {
            Some(view) => view.used.clone(),
            None => self.store.used(&asked.change.key, asked.actor.id, limits, self.now()).await?,
        };
        let runs = |retry: &Retry| retry.series.map_or(1, |series| series.of) as usize;
        used.add_planned(planned.iter().flat_map(|retry| std::iter::repeat_n(&retry.runner, runs(retry))));
        Ok(used)
    }
}

/// Approves the head, or takes an approval back.
///
/// # Errors
/// When it cannot be told which head the approver looked at, or when it is another one by now.
pub(super) fn approve(asked: &Asked<'_>, wish: &OkToTest) -> Result<(Approval, Vec<AnswerLine>), Refusal> {
    let head = &asked.change.head;
    if wish.cancel {
        let text = "the approval is taken back; what is under way goes on, and `/cancel` stops it";
        return Ok((Approval::TakenBack, vec![whole(Reason::Nothing, text)]));
    }
    if let Some(sha) = &wish.sha
        && !head.starts_with(sha)
    {
        let text =
            format!("the head is {}, not {}; look at it again before you approve it", code(head.short()), code(sha));
        return Err(Refusal::new(RefusalKind::NotThisHead, text));
    }
    if wish.sha.is_none() && !asked.head_seen {
        let text = format!(
            "this bot cannot tell which head you looked at; write it: {}",
            code(&format!("/ok-to-test {head}"))
        );
        return Err(Refusal::new(RefusalKind::NotThisHead, text));
    }
    let text = format!("approved {} for retests; a new head needs a new approval", code(head.short()));
    Ok((Approval::Given(head.clone()), vec![whole(Reason::Nothing, text)]))
}
