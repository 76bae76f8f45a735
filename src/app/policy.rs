//! The operator's rights and limits, and a repository's policy, in the words of the decisions.
//!
//! Read next: `decide/terms.rs`, where the two meet.

use std::sync::Arc;

use retest_commands::{Alias, Grammar, GrammarSettings};

use crate::decide::{
    Declares, Figure, Grant, JobRule, JobTerms, Limits, MayLoosen, Need, Policy, PolicyLimits, PolicyRights, Rights,
    Style, Terms, whole_seconds,
};
use crate::domain::{JobName, LabelOrigin, Role, RunnerName, Team};
use crate::flow::{PolicyRules, WhenBroken};
use crate::settings::{self, Settings};

/// A role in our words.
const fn role(role: settings::Role) -> Role {
    match role {
        settings::Role::None => Role::None,
        settings::Role::Read => Role::Read,
        settings::Role::Triage => Role::Triage,
        settings::Role::Write => Role::Write,
        settings::Role::Maintain => Role::Maintain,
        settings::Role::Admin => Role::Admin,
    }
}

fn grant(who: &settings::Who) -> Grant {
    let teams = who
        .teams
        .iter()
        .map(|(organisation, slug)| Team::GitHub { organisation: organisation.clone(), slug: slug.clone() });
    let groups = who.groups.iter().map(|path| Team::GitLab { path: path.clone() });
    Grant { role: who.role.map(role), teams: teams.chain(groups).collect(), people: who.people.clone() }
}

/// The operator's `[rights]`.
pub(super) fn rights(rights: &settings::Rights) -> Rights {
    let need = |who| Need::one(grant(who));
    Rights {
        retest: need(&rights.retest),
        retest_author: rights.retest_author,
        force: need(&rights.force),
        test: need(&rights.test),
        cancel: need(&rights.cancel),
        ok_to_test: need(&rights.ok_to_test),
        help: need(&rights.help),
        flake: need(&rights.flake),
        autoretry: need(&rights.autoretry),
        override_status: need(&rights.override_status),
    }
}

/// The operator's `[limits]`.
pub(super) fn limits(limits: &settings::Limits) -> Limits {
    let some = |max: Option<u32>| max.map_or(Figure::NONE, Figure::operator);
    Limits {
        jobs_per_command: Figure::operator(limits.jobs_per_command_max),
        times: Figure::operator(limits.times_max),
        job_and_head: Figure::operator(limits.retries_per_job_and_head),
        cooldown_s: Figure::operator(whole_seconds(limits.cooldown)),
        change_hour: Figure::operator(limits.retries_per_change_per_hour),
        change_day: Figure::operator(limits.retries_per_change_per_day),
        asker_hour: Figure::operator(limits.retries_per_actor_per_hour),
        asker_day: Figure::operator(limits.retries_per_actor_per_day),
        repository_day: some(limits.retries_per_repository_per_day),
        runner_day: some(limits.retries_per_runner_per_day),
        exempt: limits.exempt_role.map(role),
    }
}

/// What the operator has decided about policies; none when there are none. The grammar of a repository is the operator's
/// with the policy's phrases, of which those lose that the operator has given another meaning.
///
/// # Errors
/// As [`super::grammar`].
pub(super) fn rules(settings: &Settings) -> anyhow::Result<Option<PolicyRules>> {
    let policy = &settings.policy;
    if !policy.enabled {
        return Ok(None);
    }
    let operators = Operators::of(Some(settings))?;
    Ok(Some(PolicyRules {
        path: policy.path.clone(),
        refresh: policy.refresh,
        when_broken: match policy.when_broken {
            settings::WhenBroken::LastGood => WhenBroken::LastGood,
            settings::WhenBroken::Defaults => WhenBroken::Defaults,
        },
        read: Arc::new(move |text| operators.read(text)),
    }))
}

/// The operator's word, to which a policy is added.
#[derive(Debug)]
pub struct Operators {
    rights: Rights,
    limits: Limits,
    may_loosen: MayLoosen,
    grammar: GrammarSettings,
}

impl Operators {
    /// As configured, or the defaults.
    ///
    /// # Errors
    /// Aliases or names that contradict each other.
    pub fn of(settings: Option<&Settings>) -> anyhow::Result<Self> {
        let Some(settings) = settings else {
            return Ok(Self {
                rights: Rights::default(),
                limits: Limits::default(),
                may_loosen: MayLoosen::default(),
                grammar: GrammarSettings::default(),
            });
        };
        let may = |what| settings.policy.may_loosen.contains(&what);
        let may_loosen = MayLoosen {
            rights: may(settings::MayLoosen::Rights),
            limits: may(settings::MayLoosen::Limits),
            jobs: may(settings::MayLoosen::Jobs),
            runners: may(settings::MayLoosen::Runners),
        };
        super::grammar(settings)?;
        Ok(Self {
            rights: rights(&settings.rights),
            limits: limits(&settings.limits),
            may_loosen,
            grammar: super::grammar_settings(settings),
        })
    }

    /// What holds without a policy.
    pub fn alone(&self) -> (Terms, Grammar) {
        let grammar = Grammar::new(self.grammar.clone()).unwrap_or_default();
        (Terms::of_operator(self.rights.clone(), self.limits), grammar)
    }

    /// What holds with the policy in `text`.
    ///
    /// # Errors
    /// All that is wrong with it, one text per fault.
    pub fn read(&self, text: &str) -> Result<(Terms, Grammar), Vec<String>> {
        let policy = settings::Policy::parse(text)
            .map_err(|faults| faults.0.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let policy = policy_of(&policy);
        super::flakes::sound(&policy.flakes, Some(text))?;
        let mut grammar = self.grammar.clone();
        let known =
            |phrase: &str| self.grammar.aliases.iter().any(|a| a.phrase.to_lowercase() == phrase.to_lowercase());
        grammar.aliases.extend(policy.aliases.iter().filter(|alias| !known(&alias.phrase)).cloned());
        grammar.disabled.extend(policy.disabled.iter().cloned());
        let grammar = Grammar::new(grammar).map_err(|error| vec![format!("commands: {error}")])?;
        Ok((Terms::together(&self.rights, &self.limits, policy, self.may_loosen), grammar))
    }
}

fn policy_of(policy: &settings::Policy) -> Policy {
    let (rights, limits) = (&policy.rights, &policy.limits);
    let who = |who: &Option<settings::Who>| who.as_ref().map(grant);
    Policy {
        rights: PolicyRights {
            retest: who(&rights.retest),
            retest_author: rights.retest_author,
            force: who(&rights.force),
            test: who(&rights.test),
            cancel: who(&rights.cancel),
            ok_to_test: who(&rights.ok_to_test),
            help: who(&rights.help),
            flake: who(&rights.flake),
            autoretry: who(&rights.autoretry),
            override_status: who(&rights.override_status),
        },
        limits: PolicyLimits {
            jobs_per_command: limits.jobs_per_command_max,
            job_and_head: limits.retries_per_job_and_head,
            cooldown_s: limits.cooldown.map(whole_seconds),
            change_hour: limits.retries_per_change_per_hour,
            change_day: limits.retries_per_change_per_day,
            asker_hour: limits.retries_per_actor_per_hour,
            asker_day: limits.retries_per_actor_per_day,
            repository_day: limits.retries_per_repository_per_day,
        },
        style: Style { comment: policy.report.comment, statuses: policy.report.statuses, quiet: policy.report.quiet },
        jobs: policy.jobs.iter().map(job_rule).collect(),
        runners: policy
            .runners
            .iter()
            .map(|runner| {
                let jobs = runner.jobs.iter().cloned().map(Declares::Pattern).collect();
                (RunnerName::new(&runner.name), jobs)
            })
            .collect(),
        aliases: policy
            .aliases
            .iter()
            .map(|alias| Alias { phrase: alias.phrase.clone(), means: alias.means.clone() })
            .collect(),
        disabled: policy.disabled.clone(),
        flakes: super::flakes::rules(&policy.flakes, &LabelOrigin::Repository),
        autoretry: super::flakes::terms(&policy.autoretry),
    }
}

fn job_rule(job: &settings::JobPolicy) -> JobRule {
    let overrides = job
        .overrides
        .as_ref()
        .map(|fields| fields.iter().map(|(key, who)| (key.clone(), who.as_ref().map(grant))).collect());
    JobRule {
        which: match &job.which {
            settings::JobSelector::Name(name) => Declares::Job(JobName::new(name)),
            settings::JobSelector::Pattern(glob) => Declares::Pattern(glob.clone()),
        },
        standalone: job.standalone,
        needs: job.needs.as_ref().map(|needs| needs.iter().map(JobName::new).collect()),
        required: job.required,
        platform: job.platform.clone(),
        groups: job.groups.clone(),
        aliases: job.aliases.clone(),
        auto_retry: job.auto_retry,
        terms: JobTerms { never: job.never.clone(), who: job.retest.as_ref().map(grant), overrides },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_defaults_of_decisions_are_those_of_the_configuration() {
        let text = "[[forge]]\nname = \"hub\"\nkind = \"github\"\nwebhook_secrets = [{ env = \"S\" }]\ntoken = { env = \"S\" }\n";
        let secrets: BTreeMap<String, String> =
            [("S".to_owned(), "6f1d3c5a9b8e7042d1c3b5a7968f0e2d".to_owned())].into();
        let settings = Settings::parse(text, &secrets).expect("the least configuration");
        assert_eq!(rights(&settings.rights), Rights::default());
        assert_eq!(limits(&settings.limits), Limits::default());
        assert_eq!(Operators::of(Some(&settings)).expect("usable").may_loosen, MayLoosen::default());
    }

    #[test]
    fn a_phrase_of_the_operator_keeps_its_meaning() {
        let mut operators = Operators::of(None).expect("the defaults");
        operators.grammar.aliases.push(Alias { phrase: "recheck".into(), means: "/help".into() });
        let policy = "[commands]\naliases = [{ phrase = \"Recheck\", means = \"/retest\" }, { phrase = \"again\", means = \"/retest\" }]";
        let (_, grammar) = operators.read(policy).expect("usable");
        let command = |text: &str| retest_commands::parse(text, &grammar).commands.first().map(|c| c.command.name());
        assert_eq!((command("recheck"), command("again")), (Some("help"), Some("retest")));
    }
}
