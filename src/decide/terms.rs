//! The terms of one repository: what the operator says, and what the policy on its default branch adds to it.
//!
//! Pure. A [`Policy`] is the repository's file in our words, [`Terms`] is what holds after the operator's word was heard:
//! what a repository may not make easier, it can only make harder. **Invariant:** this is the one place where the two meet.
//! Read next: `authorise.rs` and `limits.rs`, which use the result; `flow/policy.rs`, which fetches the file.

use std::collections::BTreeMap;
use std::time::Duration;

use globset::GlobMatcher;
use retest_commands::{Alias, Selection, Selector};

use super::authorise::{Authorised, Rights};
use super::flake::{AutoretryTerms, FlakeRule};
use super::inert::code;
use super::limits::{Figure, Limits, SetBy};
use super::need::{Grant, Need};
use super::plan::JobView;
use super::reason::Reason;
use crate::domain::{Actor, JobName, Role, RunnerName, Team};

/// Which jobs an entry is about.
#[derive(Clone, Debug)]
pub enum Declares {
    /// The job of this name.
    Job(JobName),
    /// The jobs whose names match.
    Pattern(GlobMatcher),
}

impl Declares {
    /// Whether the entry is about this job.
    pub fn fits(&self, job: &JobName) -> bool {
        match self {
            Self::Job(name) => name == job,
            Self::Pattern(glob) => glob.is_match(job.as_str()),
        }
    }
}

/// What is declared about a job: by the operator, or by operator and repository together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Whether it stands alone; none when not said.
    pub standalone: Option<bool>,
    /// The jobs it needs.
    pub needs: Vec<JobName>,
    /// Whether the change cannot be merged without it.
    pub required: bool,
    /// The platform it runs on.
    pub platform: Option<String>,
    /// Names that mean it together with others: `/retest hardware`.
    pub groups: Vec<String>,
    /// Whether known flakes of it may be retried unasked; none when not said, which is yes.
    pub auto_retry: Option<bool>,
}

/// What a repository's policy says.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Rights that it sets.
    pub rights: PolicyRights,
    /// Figures that it sets.
    pub limits: PolicyLimits,
    /// How the bot speaks.
    pub style: Style,
    /// What it says of jobs; the first entry that fits counts.
    pub jobs: Vec<JobRule>,
    /// Jobs that belong to a runner of the operator's, in order.
    pub runners: Vec<(RunnerName, Vec<Declares>)>,
    /// Phrases that mean commands.
    pub aliases: Vec<Alias>,
    /// Commands that nobody may use here, by name.
    pub disabled: Vec<String>,
    /// What makes a failure a known flake here.
    pub flakes: Vec<FlakeRule>,
    /// Whether and how flakes are retried here.
    pub autoretry: AutoretryTerms,
}

/// Rights that a policy sets; none leaves the operator's.
#[derive(Clone, Debug, Default)]
pub struct PolicyRights {
    /// `/retest`.
    pub retest: Option<Grant>,
    /// Whether authors may retest a trusted head.
    pub retest_author: Option<bool>,
    /// `--force`.
    pub force: Option<Grant>,
    /// `/test`.
    pub test: Option<Grant>,
    /// `/cancel` of other people's retries.
    pub cancel: Option<Grant>,
    /// `/ok-to-test`.
    pub ok_to_test: Option<Grant>,
    /// `/help`, `/jobs`, `/why`.
    pub help: Option<Grant>,
    /// `/flake`.
    pub flake: Option<Grant>,
    /// `/autoretry`.
    pub autoretry: Option<Grant>,
    /// `/override`.
    pub override_status: Option<Grant>,
}

/// Figures that a policy sets; none leaves the operator's.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyLimits {
    /// As [`Limits::jobs_per_command`].
    pub jobs_per_command: Option<u32>,
    /// As [`Limits::job_and_head`].
    pub job_and_head: Option<u32>,
    /// As [`Limits::cooldown_s`].
    pub cooldown_s: Option<u32>,
    /// As [`Limits::change_hour`].
    pub change_hour: Option<u32>,
    /// As [`Limits::change_day`].
    pub change_day: Option<u32>,
    /// As [`Limits::asker_hour`].
    pub asker_hour: Option<u32>,
    /// As [`Limits::asker_day`].
    pub asker_day: Option<u32>,
    /// As [`Limits::repository_day`].
    pub repository_day: Option<u32>,
}

/// How the bot speaks on the changes of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether there is a report.
    pub comment: bool,
    /// Whether statuses and check runs are posted.
    pub statuses: bool,
    /// Whether the report waits until there is something that reactions and statuses do not tell.
    pub quiet: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { comment: true, statuses: true, quiet: false }
    }
}

/// What a policy says of jobs.
#[derive(Clone, Debug)]
pub struct JobRule {
    /// Which jobs.
    pub which: Declares,
    /// Whether they stand alone.
    pub standalone: Option<bool>,
    /// What they need; none when not said.
    pub needs: Option<Vec<JobName>>,
    /// Whether a change can be merged without them; none when not said.
    pub required: Option<bool>,
    /// The platform they run on.
    pub platform: Option<String>,
    /// Groups they belong to, beside those of the operator.
    pub groups: Vec<String>,
    /// Other names that people may write.
    pub aliases: Vec<String>,
    /// Whether known flakes of them may be retried unasked; none when not said.
    pub auto_retry: Option<bool>,
    /// What holds for each of them.
    pub terms: JobTerms,
}

/// What a policy demands where a job is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobTerms {
    /// Why it must not be started again; none when it may.
    pub never: Option<String>,
    /// Who alone may start it; none for everybody who may give the command.
    pub who: Option<Grant>,
    /// Which fields may be changed, and by whom; none leaves that to the runner. `None` inside: whoever may start it.
    pub overrides: Option<BTreeMap<String, Option<Grant>>>,
}

impl JobTerms {
    /// Whether the policy lets this asker start the job.
    ///
    /// # Errors
    /// The reason why not, and a sentence.
    pub(super) fn allow(&self, proof: &Authorised) -> Result<(), (Reason, String)> {
        if let Some(why) = &self.never {
            let text =
                format!("the repository's policy lets nobody start it again: {}", super::inert::plain_words(why));
            return Err((Reason::NotRetryable, text));
        }
        match self.who.as_ref().filter(|grant| !proof.is_let_by(grant)) {
            Some(grant) => {
                let text = format!("the repository's policy wants {grant} for it; somebody who has that can ask");
                Err((Reason::NoRight, text))
            }
            None => Ok(()),
        }
    }

    /// Whether the policy lets this asker change the field `key`; `taken` are those that the job's runner takes.
    ///
    /// # Errors
    /// The reason why not, and a sentence.
    pub(super) fn allow_override(
        &self,
        key: &str,
        taken: &[String],
        proof: &Authorised,
    ) -> Result<(), (Reason, String)> {
        let said = self.overrides.as_ref().map(|fields| fields.get(key));
        let allowed = |k: &&String| self.overrides.as_ref().is_none_or(|fields| fields.contains_key(*k));
        if !taken.iter().any(|k| k == key) || said == Some(None) {
            let list: Vec<String> = taken.iter().filter(allowed).map(|k| code(k)).collect();
            let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            return Err((Reason::OverrideRefused, format!("{} may not be changed here; allowed: {list}", code(key))));
        }
        match said {
            Some(Some(Some(grant))) if !proof.is_let_by(grant) => {
                let text = format!("{} may be changed by {grant} only, says the repository's policy", code(key));
                Err((Reason::OverrideRefused, text))
            }
            _ => Ok(()),
        }
    }
}

/// What a policy may make easier than the operator has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MayLoosen {
    /// Rights.
    pub rights: bool,
    /// Limits.
    pub limits: bool,
    /// Whether a job stands alone that the operator has declared otherwise.
    pub jobs: bool,
    /// Which of the operator's runners a job belongs to.
    pub runners: bool,
}

impl Default for MayLoosen {
    /// All but limits.
    fn default() -> Self {
        Self { rights: true, limits: false, jobs: true, runners: true }
    }
}

/// What holds in one repository.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What commands need.
    pub rights: Rights,
    /// What may be started at most.
    pub limits: Limits,
    /// How the bot speaks.
    pub style: Style,
    /// The repository's own flake rules.
    pub flakes: Vec<FlakeRule>,
    /// Whether and how flakes are retried in the repository.
    pub autoretry: AutoretryTerms,
    jobs: Vec<JobRule>,
    runners: Vec<(RunnerName, Vec<Declares>)>,
    may_loosen: MayLoosen,
}

impl Terms {
    /// The operator's alone: no policy, or one that cannot be used.
    pub fn of_operator(rights: Rights, limits: Limits) -> Self {
        Self { rights, limits, ..Self::default() }
    }

    /// The operator's and a policy's together.
    pub fn together(rights: &Rights, limits: &Limits, policy: Policy, may_loosen: MayLoosen) -> Self {
        Self {
            rights: rights_of(rights, policy.rights, may_loosen.rights),
            limits: limits_of(limits, &policy.limits, may_loosen.limits),
            style: policy.style,
            flakes: policy.flakes,
            autoretry: policy.autoretry,
            jobs: policy.jobs,
            runners: if may_loosen.runners { policy.runners } else { Vec::new() },
            may_loosen,
        }
    }

    fn rule(&self, job: &JobName) -> Option<&JobRule> {
        self.jobs.iter().find(|rule| rule.which.fits(job))
    }

    /// What is declared about a job by operator and policy together: the policy's word first (DESIGN section 4), save
    /// where it would make easier what the operator keeps.
    pub fn declared(&self, job: &JobName, operator: Option<&Declared>) -> Declared {
        let mut said = operator.cloned().unwrap_or_default();
        let Some(rule) = self.rule(job) else { return said };
        let kept = !self.may_loosen.jobs && (said.standalone == Some(false) || !said.needs.is_empty());
        if !(kept && rule.standalone == Some(true)) {
            said.standalone = rule.standalone.or(said.standalone);
        }
        if let Some(needs) = rule.needs.as_ref().filter(|_| !kept) {
            said.needs.clone_from(needs);
            // Who lists needs means them, whatever was said before.
            said.standalone = rule.standalone;
        }
        said.required = rule.required.unwrap_or(said.required);
        said.platform = rule.platform.clone().or(said.platform);
        said.groups.extend(rule.groups.iter().cloned());
        // Whoever says no wins.
        said.auto_retry =
            if said.auto_retry == Some(false) { Some(false) } else { rule.auto_retry.or(said.auto_retry) };
        said
    }

    /// What the policy demands where this job is started; none for nothing.
    fn job_terms(&self, job: &JobName) -> Option<Box<JobTerms>> {
        let demands = |rule: &&JobRule| rule.terms != JobTerms::default();
        self.rule(job).filter(demands).map(|rule| Box::new(rule.terms.clone()))
    }

    /// The runners to which the policy gives a job, first choice first.
    pub fn runners_for<'t>(&'t self, job: &'t JobName) -> impl Iterator<Item = &'t RunnerName> {
        let given = move |(_, jobs): &&(RunnerName, Vec<Declares>)| jobs.iter().any(|which| which.fits(job));
        self.runners.iter().filter(given).map(|(runner, _)| runner)
    }

    /// Jobs that the policy names as needed for a merge.
    pub fn required_jobs(&self) -> impl Iterator<Item = &JobName> {
        self.jobs.iter().filter(|rule| rule.required == Some(true)).filter_map(|rule| match &rule.which {
            Declares::Job(name) => Some(name),
            Declares::Pattern(_) => None,
        })
    }

    /// The teams that decide about this person where single jobs or fields are kept for some.
    pub fn teams_of_jobs<'t>(&'t self, actor: &'t Actor, role: Role) -> impl Iterator<Item = &'t Team> {
        self.jobs.iter().flat_map(move |rule| {
            let fields = rule.terms.overrides.iter().flat_map(BTreeMap::values).flatten();
            rule.terms.who.iter().chain(fields).flat_map(move |grant| grant.teams_to_ask(actor, role))
        })
    }

    /// The selection with the policy's other names put back to the jobs' own.
    pub fn own_names(&self, selection: &Selection) -> Selection {
        let own = |written: &str| {
            let folded = written.to_lowercase();
            self.jobs.iter().find_map(|rule| match &rule.which {
                Declares::Job(name) if rule.aliases.iter().any(|a| a.to_lowercase() == folded) => {
                    Some(name.to_string())
                }
                Declares::Job(_) | Declares::Pattern(_) => None,
            })
        };
        let word = |word: &Selector| match word {
            Selector::Name(name) => Selector::Name(own(name).unwrap_or_else(|| name.clone())),
            other => other.clone(),
        };
        Selection {
            whole: selection.whole.as_ref().map(|whole| own(whole).unwrap_or_else(|| whole.clone())),
            words: selection.words.iter().map(word).collect(),
        }
    }

    /// Puts the policy's demands on a job that was looked up.
    pub fn demand(&self, view: &mut JobView) {
        view.terms = self.job_terms(&view.job.newest.name);
    }
}

fn rights_of(operator: &Rights, policy: PolicyRights, may_loosen: bool) -> Rights {
    let need = |operators: &Need, policys: Option<Grant>| match policys {
        None => operators.clone(),
        Some(grant) if may_loosen => Need::one(grant),
        Some(grant) => operators.clone().and(grant),
    };
    Rights {
        retest: need(&operator.retest, policy.retest),
        retest_author: match policy.retest_author {
            None => operator.retest_author,
            Some(said) => said && (may_loosen || operator.retest_author),
        },
        force: need(&operator.force, policy.force),
        test: need(&operator.test, policy.test),
        cancel: need(&operator.cancel, policy.cancel),
        ok_to_test: need(&operator.ok_to_test, policy.ok_to_test),
        help: need(&operator.help, policy.help),
        flake: need(&operator.flake, policy.flake),
        autoretry: need(&operator.autoretry, policy.autoretry),
        override_status: need(&operator.override_status, policy.override_status),
    }
}

fn limits_of(operator: &Limits, policy: &PolicyLimits, may_loosen: bool) -> Limits {
    let figure = |operators: Figure, policys: Option<u32>| match policys {
        Some(max) if may_loosen || max < operators.max => Figure { max, by: SetBy::Repository },
        Some(_) | None => operators,
    };
    // A pause is tighter the longer it is.
    let cooldown_s = match policy.cooldown_s {
        Some(max) if may_loosen || max > operator.cooldown_s.max => Figure { max, by: SetBy::Repository },
        Some(_) | None => operator.cooldown_s,
    };
    Limits {
        jobs_per_command: figure(operator.jobs_per_command, policy.jobs_per_command),
        times: operator.times,
        job_and_head: figure(operator.job_and_head, policy.job_and_head),
        cooldown_s,
        change_hour: figure(operator.change_hour, policy.change_hour),
        change_day: figure(operator.change_day, policy.change_day),
        asker_hour: figure(operator.asker_hour, policy.asker_hour),
        asker_day: figure(operator.asker_day, policy.asker_day),
        repository_day: figure(operator.repository_day, policy.repository_day),
        runner_day: operator.runner_day,
        exempt: operator.exempt,
    }
}

/// A pause in whole seconds, as figures have it.
pub fn whole_seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
