//! Which flakes are known in a repository: the operator's rules, those of its policy, and its open issues with the flake label.
//!
//! Issues are told by webhooks and listed again from time to time, because a webhook can be lost. Compiled rules are kept in
//! memory until one of their sources changes. One bad block stops nothing else: it is told on its issue (`issues.rs`).
//! Read next: `judge.rs`, which asks for the rules.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::policy::InForce;
use super::world::{FlowError, World};
use crate::decide::{AutoretryRules, FlakeRule, RuleSet};
use crate::domain::{Change, Issue, IssueEvent, Repo, RepoKey, Timestamp};
use crate::ports::{CallError, Forge};
use crate::store::Tx;

/// What an issue's text says: nothing about flakes, a rule, or what is wrong with it.
pub type ReadIssue = Arc<dyn Fn(u64, &str) -> Option<Result<FlakeRule, Vec<String>>> + Send + Sync>;

/// The text of an issue with a job, and a text of its log, added to its block; or why that cannot be done.
pub type ExtendIssue = Arc<dyn Fn(&str, &str, Option<&str>) -> Result<String, String> + Send + Sync>;

/// What the operator has decided about retries that nobody asked for, and how issues are read.
#[derive(Clone)]
pub struct FlakeRules {
    /// What the operator has decided.
    pub rules: AutoretryRules,
    /// Reads the text of an issue.
    pub read_issue: ReadIssue,
    /// Adds to the text of an issue.
    pub extend_issue: ExtendIssue,
}

impl std::ops::Deref for FlakeRules {
    type Target = AutoretryRules;

    fn deref(&self) -> &AutoretryRules {
        &self.rules
    }
}

impl fmt::Debug for FlakeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlakeRules").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl FlakeRules {
    /// Whether an issue describes a flake: it is open and carries the label.
    pub(super) fn counts(&self, issue: &Issue) -> bool {
        let mine = |label: &String| issue.labels.iter().any(|l| l.eq_ignore_ascii_case(label));
        issue.open && self.issue_label.as_ref().is_some_and(mine)
    }

    /// The label of the change that lets every failure of it be retried.
    pub(super) fn auto(&self, change: &Change) -> Option<String> {
        carried(change, self.auto_label.as_ref())
    }

    /// The label of the change that forbids it.
    pub(super) fn never(&self, change: &Change) -> Option<String> {
        carried(change, self.never_label.as_ref())
    }
}

fn carried(change: &Change, label: Option<&String>) -> Option<String> {
    let label = label?;
    change.labels.iter().find(|l| l.eq_ignore_ascii_case(label)).cloned()
}

/// Compiled rules with what they were made of.
#[derive(Debug)]
struct Compiled {
    policy: Arc<InForce>,
    set: Arc<RuleSet>,
}

/// The rules in memory.
#[derive(Debug, Default)]
pub(super) struct Labels(Mutex<HashMap<RepoKey, Compiled>>);

impl Labels {
    fn known(&self, repo: &RepoKey) -> Option<(Arc<InForce>, Arc<RuleSet>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(repo).map(|one| (Arc::clone(&one.policy), Arc::clone(&one.set)))
    }

    /// The issues of a repository are not what they were.
    pub(super) fn doubt(&self, repo: &RepoKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(repo);
    }
}

impl World {
    /// The rules that hold in a repository.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn labels_of(&self, repo: &RepoKey, policy: &Arc<InForce>) -> Result<Arc<RuleSet>, FlowError> {
        if let Some((known, set)) = self.labels.known(repo)
            && Arc::ptr_eq(&known, policy)
        {
            return Ok(set);
        }
        let flakes = &self.rules.flakes;
        let mut rules = flakes.rules.rules.clone();
        rules.extend(policy.terms.flakes.iter().cloned());
        if flakes.issue_label.is_some() {
            for known in self.store.flake_issues(repo).await? {
                if let Some(Ok(rule)) = (flakes.read_issue)(known.issue.number, &known.issue.body) {
                    rules.push(rule);
                }
            }
        }
        // Hundreds of rules take half a second to compile: not on a thread that others wait for.
        let compiling = tokio::task::spawn_blocking(move || RuleSet::of_sound(rules));
        let (set, faults) = compiling.await.unwrap_or_default();
        for fault in &faults {
            tracing::warn!(repository = repo.id, label = %fault.label, "a flake rule cannot be used");
        }
        let set = Arc::new(set);
        let compiled = Compiled { policy: Arc::clone(policy), set: Arc::clone(&set) };
        self.labels.0.lock().unwrap_or_else(PoisonError::into_inner).insert(repo.clone(), compiled);
        Ok(set)
    }

    /// Lists the issues with the flake label when they were not listed for a while.
    ///
    /// # Errors
    /// When the store fails; a forge that does not answer leaves what is known.
    pub(super) async fn refresh_issues(&self, forge: &dyn Forge, repo: &Repo) -> Result<(), FlowError> {
        let flakes = &self.rules.flakes;
        let Some(label) = &flakes.issue_label else { return Ok(()) };
        let now = self.now();
        let asked = self.store.issues_asked_at(&repo.key).await?;
        if asked.is_some_and(|at| now.since(at) < flakes.issues_every) {
            return Ok(());
        }
        let listed: Result<Vec<Issue>, CallError> = forge.labelled_issues(repo, label).await;
        let mut tx = self.store.begin().await?;
        match listed {
            Ok(issues) => {
                for issue in &issues {
                    tx.put_flake_issue(&repo.key, issue, flakes.counts(issue), now).await?;
                }
                let numbers: Vec<u64> = issues.iter().map(|issue| issue.number).collect();
                tx.keep_issues(&repo.key, &numbers, now).await?;
            }
            Err(error) => {
                tracing::warn!(repository = %repo.full_name, %error, "the flake issues could not be listed; those known hold");
                self.count_failure(forge.name().as_str(), &error);
                return Ok(());
            }
        }
        tx.commit().await?;
        self.labels.doubt(&repo.key);
        self.wake.judge.notify_one();
        Ok(())
    }

    /// Takes news of an issue: it may be one that describes a flake, or may have been.
    pub(super) async fn take_issue(&self, tx: &mut Tx, event: &IssueEvent, now: Timestamp) -> Result<(), FlowError> {
        let (repo, issue) = (&event.repo.key, &event.issue);
        let known = tx.flake_issue(repo, issue.number).await?;
        let counts = self.rules.flakes.counts(issue);
        if !counts && known.is_none() {
            return Ok(());
        }
        if known.is_some_and(|known| known.issue.updated_at > issue.updated_at) {
            return Ok(());
        }
        tx.put_flake_issue(repo, issue, counts, now).await?;
        self.wake.judge.notify_one();
        Ok(()) // the rules are made anew once this is committed
    }
}
