//! The policies of repositories: fetched from the default branch, kept in memory and in the store, looked at again in time.
//!
//! A command reads the copy in memory. Once that is older than `refresh` the forge is asked behind the command's back; only a
//! copy five times as old, or one that a merge may have changed, is asked for first. A failed fetch leaves the copy as it is.
//! What a text means is the reader's affair, handed in by the composition root. Read next: `decide/terms.rs`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use retest_commands::Grammar;
use sha2::{Digest, Sha256};

use super::snapshot::AskError;
use super::world::{FlowError, World};
use crate::decide::{AnswerLine, Reason, Style, Terms, code};
use crate::domain::{Repo, RepoKey, Timestamp};
use crate::ports::{CallError, FileNow, Forge};
use crate::store::StoredPolicy;

/// How many times `refresh` a copy may be used before a command waits for a new one.
const STALE_AFTER: u32 = 5;
/// Faults of a broken policy that are told.
const FAULTS_MAX: usize = 3;
/// Sets of phrases that are known at most; a repository beyond them is still obeyed where its comment looks like a command.
const PHRASES_MAX: usize = 1_000;

/// What a text means: the terms of its repository and the grammar of its comments, or all that is wrong with it.
pub type ReadPolicy = Arc<dyn Fn(&str) -> Result<(Terms, Grammar), Vec<String>> + Send + Sync>;

/// What holds while a policy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBroken {
    /// What it said when it could be used last.
    LastGood,
    /// The operator's word alone.
    Defaults,
}

/// What the operator has decided about policies of repositories.
#[derive(Clone)]
pub struct PolicyRules {
    /// The file's path.
    pub path: String,
    /// Age from which a copy is looked at again.
    pub refresh: Duration,
    /// What holds while it cannot be used.
    pub when_broken: WhenBroken,
    /// Reads a text.
    pub read: ReadPolicy,
}

impl fmt::Debug for PolicyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyRules").field("path", &self.path).field("refresh", &self.refresh).finish_non_exhaustive()
    }
}

/// The phrases of repositories that mean commands, for the receiver: it drops comments that cannot hold one before anybody
/// knows the repository's policy.
#[derive(Debug, Default)]
pub struct Phrases(RwLock<Vec<Grammar>>);

impl Phrases {
    /// Whether a text may hold a command in any repository's words.
    pub fn may_hold_command(&self, text: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).iter().any(|grammar| grammar.may_hold_command(text))
    }

    fn learn(&self, grammar: &Grammar) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let same = format!("{grammar:?}");
        if all.len() < PHRASES_MAX && !all.iter().any(|known| format!("{known:?}") == same) {
            all.push(grammar.clone());
        }
    }
}

/// What holds in a repository at present.
#[derive(Debug)]
pub(super) struct InForce {
    /// The terms.
    pub terms: Terms,
    /// How comments are read.
    pub grammar: Grammar,
    /// What is wrong with its policy, where something is.
    pub trouble: Option<Trouble>,
}

/// A policy that cannot be used.
#[derive(Debug)]
pub(super) struct Trouble {
    /// The version of the text.
    pub version: String,
    /// What to say of it.
    pub line: AnswerLine,
}

#[derive(Debug)]
struct Copy {
    in_force: Arc<InForce>,
    stored: StoredPolicy,
    stale: bool,
}

/// The copies in memory.
#[derive(Debug)]
pub(super) struct Policies {
    rules: Option<PolicyRules>,
    operators: Arc<InForce>,
    phrases: Arc<Phrases>,
    copies: Mutex<HashMap<RepoKey, Copy>>,
    /// Repositories to be asked for, and when they were asked for last without an answer.
    wanted: Mutex<HashMap<RepoKey, Repo>>,
    tried: Mutex<HashMap<RepoKey, Timestamp>>,
}

impl Policies {
    pub fn new(rules: Option<PolicyRules>, operators: (Terms, Grammar), phrases: Arc<Phrases>) -> Self {
        let operators = InForce { terms: operators.0, grammar: operators.1, trouble: None };
        Self {
            rules,
            operators: Arc::new(operators),
            phrases,
            copies: Mutex::default(),
            wanted: Mutex::default(),
            tried: Mutex::default(),
        }
    }

    /// What a stored text comes to.
    fn put(&self, repo: &RepoKey, stored: StoredPolicy, rules: &PolicyRules) -> Arc<InForce> {
        let in_force = self.meaning(&stored, rules);
        if !Arc::ptr_eq(&in_force, &self.operators) {
            self.phrases.learn(&in_force.grammar);
        }
        let copy = Copy { in_force: Arc::clone(&in_force), stored, stale: false };
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).insert(repo.clone(), copy);
        in_force
    }

    /// The forge says that the copy still is what it was.
    fn confirm(&self, repo: &RepoKey, old: StoredPolicy, now: Timestamp, rules: &PolicyRules) -> Arc<InForce> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.get_mut(repo).filter(|copy| copy.stored.text == old.text) {
            (copy.stored.asked_at, copy.stale) = (now, false);
            return Arc::clone(&copy.in_force);
        }
        drop(copies);
        self.put(repo, StoredPolicy { asked_at: now, ..old }, rules)
    }

    fn meaning(&self, stored: &StoredPolicy, rules: &PolicyRules) -> Arc<InForce> {
        let Some(text) = &stored.text else { return Arc::clone(&self.operators) };
        let faults = match (rules.read)(text) {
            Ok((terms, grammar)) => return Arc::new(InForce { terms, grammar, trouble: None }),
            Err(faults) => faults,
        };
        let last_good = match rules.when_broken {
            WhenBroken::LastGood => stored.good.as_ref().and_then(|good| (rules.read)(good).ok()),
            WhenBroken::Defaults => None,
        };
        let trouble = Some(trouble(text, &faults, (&rules.path, last_good.is_some())));
        let (terms, grammar) =
            last_good.unwrap_or_else(|| (self.operators.terms.clone(), self.operators.grammar.clone()));
        Arc::new(InForce { terms, grammar, trouble })
    }

    fn want(&self, repo: &Repo) {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).insert(repo.key.clone(), repo.clone());
    }
}

fn trouble(text: &str, faults: &[String], (path, last_good): (&str, bool)) -> Trouble {
    let told: Vec<String> = faults.iter().take(FAULTS_MAX).map(|fault| code(fault)).collect();
    let more = faults.len().saturating_sub(FAULTS_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let holds = if last_good { "what it said before" } else { "what the operator has set" };
    let text_of = format!(
        "{} of the default branch cannot be used: {}{more}. Until it is mended, {holds} holds; {} tells all faults",
        code(path),
        told.join(", "),
        code("retest-bot check --policy FILE")
    );
    let version = hex::encode(Sha256::digest(text.as_bytes())).chars().take(16).collect();
    let line = AnswerLine { job: None, reason: Reason::PolicyBroken.as_str().to_owned(), text: text_of };
    Trouble { version, line }
}

impl World {
    /// Takes the stored policies into memory: their phrases must be known before the first comment arrives.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn recall_policies(&self) -> Result<(), FlowError> {
        let Some(rules) = &self.policies.rules else { return Ok(()) };
        for (repo, mut stored) in self.store.policies().await? {
            stored.asked_at = Timestamp::default(); // what happened while we were down is not known
            self.policies.put(&repo, stored, rules);
        }
        Ok(())
    }

    /// What holds where no repository has a say.
    pub(super) fn operators_rules(&self) -> Arc<InForce> {
        Arc::clone(&self.policies.operators)
    }

    /// What holds in a repository, for a command that was tried `tries` times before.
    pub(super) async fn in_force(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        settle: bool,
    ) -> Result<Arc<InForce>, AskError> {
        let Some(rules) = &self.policies.rules else { return Ok(Arc::clone(&self.policies.operators)) };
        let known = {
            let copies = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner);
            copies.get(&repo.key).map(|copy| {
                let age = if copy.stale { Duration::MAX } else { self.now().since(copy.stored.asked_at) };
                (Arc::clone(&copy.in_force), age)
            })
        };
        if let Some((in_force, age)) = &known {
            if *age < rules.refresh {
                return Ok(Arc::clone(in_force));
            }
            if *age < rules.refresh * STALE_AFTER {
                self.policies.want(repo);
                return Ok(Arc::clone(in_force));
            }
        }
        match (self.fetch_policy(forge, repo, rules).await?, known) {
            (Ok(in_force), _) => Ok(in_force),
            (Err(error), Some((in_force, _))) => {
                tracing::warn!(repository = %repo.full_name, %error, "the policy could not be looked at; the last copy holds");
                self.count_failure(forge.name().as_str(), &error);
                Ok(in_force)
            }
            (Err(error), None) if error.is_passing() && !settle => Err(error.into()),
            (Err(error), None) => {
                tracing::warn!(repository = %repo.full_name, %error, "the policy could not be read; the operator's rules hold");
                self.count_failure(forge.name().as_str(), &error);
                Ok(Arc::clone(&self.policies.operators))
            }
        }
    }

    /// Asks the forge for a repository's policy and keeps what it says.
    async fn fetch_policy(
        &self,
        forge: &dyn Forge,
        repo: &Repo,
        rules: &PolicyRules,
    ) -> Result<Result<Arc<InForce>, CallError>, FlowError> {
        let now = self.now();
        let old = {
            let copies = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner);
            copies.get(&repo.key).map(|copy| copy.stored.clone())
        };
        let old = match old {
            Some(old) => Some(old),
            None => self.store.policy(&repo.key).await?,
        };
        let known = old.as_ref().and_then(|old| old.version.as_deref());
        let found = match forge.file(repo, &rules.path, known).await {
            Ok(found) => found,
            Err(error) => {
                let mut tried = self.policies.tried.lock().unwrap_or_else(PoisonError::into_inner);
                tried.insert(repo.key.clone(), now);
                return Ok(Err(error));
            }
        };
        let stored = match (found, old) {
            (FileNow::Unchanged, Some(old)) => {
                return Ok(Ok(self.policies.confirm(&repo.key, old, now, rules)));
            }
            (FileNow::Absent, Some(old)) if old.text.is_none() => {
                return Ok(Ok(self.policies.confirm(&repo.key, old, now, rules)));
            }
            (FileNow::Unchanged | FileNow::Absent, _) => StoredPolicy { asked_at: now, ..StoredPolicy::default() },
            (FileNow::Text { version, text }, old) => {
                let good = if (rules.read)(&text).is_ok() { Some(text.clone()) } else { old.and_then(|old| old.good) };
                StoredPolicy { version: Some(version), text: Some(text), good, asked_at: now }
            }
        };
        tracing::info!(repository = %repo.full_name, there = stored.text.is_some(), "took a repository's policy");
        self.store.put_policy(&repo.key, &stored).await?;
        Ok(Ok(self.policies.put(&repo.key, stored, rules)))
    }

    /// Whether a command must wait for a look at the repository's policy.
    pub(super) fn must_look_at_policy(&self, repo: &RepoKey) -> bool {
        let Some(rules) = &self.policies.rules else { return false };
        let copies = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |copy: &Copy| copy.stale || self.now().since(copy.stored.asked_at) >= rules.refresh * STALE_AFTER;
        copies.get(repo).is_none_or(old)
    }

    /// What held in a repository when it was last needed; asks nobody.
    pub(super) fn last_policy(&self, repo: &RepoKey) -> Arc<InForce> {
        let copies = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.get(repo).map_or_else(|| self.operators_rules(), |copy| Arc::clone(&copy.in_force))
    }

    /// How the bot speaks in a repository; asks nobody.
    pub(super) fn style(&self, repo: &RepoKey) -> Style {
        let copies = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.get(repo).map_or_else(Style::default, |copy| copy.in_force.terms.style)
    }

    /// A repository was heard of: its policy is wanted, unless it is known.
    pub(super) fn want_policy(&self, repo: &Repo) {
        let Some(rules) = &self.policies.rules else { return };
        let known = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&repo.key);
        let tried = self.policies.tried.lock().unwrap_or_else(PoisonError::into_inner).get(&repo.key).copied();
        if !known && tried.is_none_or(|at| self.now().since(at) >= rules.refresh) {
            self.policies.want(repo);
        }
    }

    /// Something entered a branch of the repository: its policy may be another one now.
    pub(super) fn doubt_policy(&self, repo: &RepoKey) {
        if let Some(copy) = self.policies.copies.lock().unwrap_or_else(PoisonError::into_inner).get_mut(repo) {
            copy.stale = true;
        }
    }

    /// Looks at the policies that are wanted, each in a task of its own.
    pub(super) fn look_at_policies(self: &Arc<Self>) {
        let wanted = std::mem::take(&mut *self.policies.wanted.lock().unwrap_or_else(PoisonError::into_inner));
        for (key, repo) in wanted {
            let Some(held) = self.tasks.occupy(format!("policy {}/{}", key.forge, key.id)) else { continue };
            let world = Arc::clone(self);
            self.spawn(Some(held), async move {
                let (Some(forge), Some(rules)) = (world.forges.get(&key.forge), &world.policies.rules) else {
                    return Ok(());
                };
                if let Err(error) = world.fetch_policy(forge.as_ref(), &repo, rules).await? {
                    tracing::warn!(repository = %repo.full_name, %error, "the policy could not be looked at");
                    world.count_failure(forge.name().as_str(), &error);
                }
                Ok(())
            });
        }
    }
}
