//! Flake rules of the configuration, of policies and of issues, in the words of the decisions.
//!
//! Read next: `decide/flake/rules.rs`, which they become; `settings/flake.rs`, which they come from.

use std::sync::Arc;

use crate::decide::{
    AutoretryRules, AutoretryTerms, BreakerRule, Budgets, CleanBefore, Declares, FlakeRule, RuleFault, RuleSet, lint,
    unknown_jobs,
};
use crate::domain::{Conclusion, JobName, LabelOrigin, RunnerName};
use crate::flow::FlakeRules;
use crate::settings::{self, RunnerModule, Settings};

/// The operator's `[autoretry]` and `[[flake]]`.
fn autoretry(settings: &Settings) -> AutoretryRules {
    let (own, breaker) = (&settings.autoretry, &settings.autoretry.breaker);
    AutoretryRules {
        enabled: own.enabled,
        issue_label: own.issue_label.clone(),
        auto_label: own.auto_label.clone(),
        never_label: own.never_label.clone(),
        log_bytes_max: own.log_bytes_max,
        budgets: Budgets {
            job_and_head: own.retries_max,
            change_day: own.retries_per_change_per_day,
            runner_day: own.retries_per_runner_per_day,
        },
        breaker: BreakerRule {
            window: breaker.window,
            heads_min: breaker.heads_min,
            share_percent: breaker.share_percent,
            open_for: breaker.open_for,
        },
        issues_every: own.issues_every,
        propose_after: own.propose_after,
        propose_within: own.propose_within,
        close_after: own.close_after,
        rules: rules(&settings.flakes, &LabelOrigin::Operator),
    }
}

/// A repository's `[autoretry]`.
pub(super) const fn terms(own: &settings::PolicyAutoretry) -> AutoretryTerms {
    let clean = match (own.clean, own.clean_passes) {
        (settings::Clean::Full, _) => CleanBefore::Full,
        (settings::Clean::Off, 0 | 1) => CleanBefore::Nothing,
        (settings::Clean::Off, times) => CleanBefore::Passes(times),
    };
    AutoretryTerms { enabled: own.enabled, clean }
}

/// The rules of one file.
pub(super) fn rules(flakes: &[settings::Flake], origin: &LabelOrigin) -> Vec<FlakeRule> {
    flakes.iter().map(|flake| rule(flake, flake.label.clone().unwrap_or_default(), origin.clone())).collect()
}

fn rule(flake: &settings::Flake, label: String, origin: LabelOrigin) -> FlakeRule {
    let jobs = flake.jobs.iter().map(|job| match job {
        settings::JobSelector::Name(name) => Declares::Job(JobName::new(name)),
        settings::JobSelector::Pattern(glob) => Declares::Pattern(glob.clone()),
    });
    let end = |end: &settings::FlakeEnd| match end {
        settings::FlakeEnd::Failed => Conclusion::Failed,
        settings::FlakeEnd::Infrastructure => Conclusion::Infrastructure,
        settings::FlakeEnd::TimedOut => Conclusion::TimedOut,
        settings::FlakeEnd::Lost => Conclusion::Lost,
    };
    FlakeRule {
        label,
        origin,
        jobs: jobs.collect(),
        runner: flake.runner.as_deref().map(RunnerName::from),
        ends: flake.ends.iter().map(end).collect(),
        causes: flake.causes.clone(),
        log: flake.log.clone(),
        retries: flake.retries,
        per_day: flake.retries_per_day,
        delay: flake.delay,
    }
}

/// Refuses rules that would fit nearly everything. Faults of a file whose `text` is at hand are told with their lines.
///
/// # Errors
/// All of them, one text each.
pub(super) fn sound(rules: &[FlakeRule], text: Option<&str>) -> Result<(), Vec<String>> {
    let Err(faults) = RuleSet::new(rules.to_vec()) else { return Ok(()) };
    let told = |fault: &RuleFault| {
        let at = rules.iter().position(|rule| rule.label == fault.label).unwrap_or_default();
        let line = text.and_then(|text| settings::line_of(text, &format!("flake[{at}].{}", fault.key)));
        line.map_or_else(|| fault.to_string(), |line| format!("line {line}: {fault}"))
    };
    Err(faults.iter().map(told).collect())
}

/// Checks the operator's rules, and says which of them name jobs that no runner declares.
///
/// # Errors
/// Rules that would fit nearly everything.
pub fn check_flakes(settings: &Settings) -> anyhow::Result<Vec<String>> {
    let rules = rules(&settings.flakes, &LabelOrigin::Operator);
    sound(&rules, None).map_err(|faults| anyhow::anyhow!("flake rules cannot be used:\n{}", faults.join("\n")))?;
    let mut warnings = Vec::new();
    for rule in rules {
        if rule.retries > settings.autoretry.retries_max {
            let max = settings.autoretry.retries_max;
            let text = format!("`retries = {}` is above `autoretry.retries_max`, so {max} it is", rule.retries);
            warnings.push(format!("flake `{}`: {text}", rule.label));
        }
        let runs = |runner: &&settings::Runner| rule.runner.as_ref().is_none_or(|name| name.as_str() == runner.name);
        let mut runners = settings.runners.iter().filter(runs).peekable();
        // Only these have no other jobs than those that are declared.
        let all_known = |r: &settings::Runner| matches!(r.module(), RunnerModule::Exec | RunnerModule::Http);
        if runners.peek().is_none() || !runners.clone().all(all_known) {
            continue;
        }
        let names = runners.flat_map(|runner| &runner.jobs).map(|job| job.name.as_str());
        let known: Vec<JobName> = names.map(JobName::from).collect();
        warnings.extend(unknown_jobs(std::slice::from_ref(&rule), known.iter()));
    }
    Ok(warnings)
}

/// The rule that an issue describes; none when its text has no fenced `toml` block, or all that is wrong with it, each with the line
/// of the text.
pub fn read_issue(number: u64, body: &str) -> Option<Result<FlakeRule, Vec<String>>> {
    let block = settings::FlakeBlock::find(body)?;
    let flake = match settings::parse_flake_issue(body)? {
        Ok(flake) => flake,
        Err(faults) => return Some(Err(faults.0.iter().map(ToString::to_string).collect())),
    };
    let rule = rule(&flake, format!("#{number}"), LabelOrigin::Issue(number));
    let told = |fault: &RuleFault| match settings::line_of(&block.in_place(), &fault.key) {
        Some(line) => format!("line {line}: {}: {}; {}", fault.key, fault.text, fault.hint),
        None => format!("{}: {}; {}", fault.key, fault.text, fault.hint),
    };
    let faults: Vec<String> = lint(&rule).iter().map(told).collect();
    Some(if faults.is_empty() { Ok(rule) } else { Err(faults) })
}

fn extend_issue(body: &str, job: &str, log: Option<&str>) -> Result<String, String> {
    let told =
        |errors: settings::SettingsErrors| errors.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    settings::extend_flake_issue(body, job, log).map_err(told)
}

/// What the operator has decided, with how issues are read and written.
pub(super) fn rules_of(settings: &Settings) -> FlakeRules {
    FlakeRules { rules: autoretry(settings), read_issue: Arc::new(read_issue), extend_issue: Arc::new(extend_issue) }
}

#[cfg(test)]
mod tests;
