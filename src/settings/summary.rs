//! The configuration in a few lines, for the log at the start and for `retest-bot check`. Holds no secret.
//!
//! Read next: `mod.rs`.

use super::flake::{Autoretry, Flake};
use super::forge::{Forge, ForgeDetails, GithubAuth};
use super::runner::{Runner, RunnerDetails};
use super::{RepositoryGlobs, Settings};
use std::time::Duration;

pub(super) fn summary(settings: &Settings) -> String {
    let server = &settings.server;
    let public = server.public_url.as_ref().map_or("no public address".into(), |url| format!("public address {url}"));
    let metrics = settings.metrics.listen.map_or("/metrics on the same".into(), |l| format!("/metrics on {l}"));
    let mut lines = vec![
        format!("server: listens on {}, {public}, {metrics}", server.listen),
        format!("store: {}, kept {}", settings.store.path.display(), time(settings.store.retention)),
        format!("log: {}, {}", settings.log.format, settings.log.filter),
    ];
    lines.extend(settings.forges.iter().map(forge));
    lines.extend(settings.runners.iter().map(runner));
    let commands = &settings.commands;
    lines.push(format!(
        "commands: at most {} of a comment not older than {}, edited comments {}, disabled {}, aliases {}",
        commands.commands_max,
        time(commands.comment_age_max),
        commands.edited,
        list(&commands.disabled),
        commands.aliases.len()
    ));
    let rights = &settings.rights;
    lines.push(format!(
        "rights: retest {}{}, force {}, test {}, cancel {}, ok-to-test {}, help {}, flake {}, autoretry {} or author, override {}",
        rights.retest,
        if rights.retest_author { " or author" } else { "" },
        rights.force,
        rights.test,
        rights.cancel,
        rights.ok_to_test,
        rights.help,
        rights.flake,
        rights.autoretry,
        rights.override_status
    ));
    let limits = &settings.limits;
    let some = |max: Option<u32>| max.map_or("any".to_owned(), |max| max.to_string());
    lines.push(format!(
        "limits: {} retries per job and head, a pause of {}, per change {} an hour and {} a day, per person {} and {}, {} per \
         repository and day, {} per runner and day, {} jobs per command, {} runs of one at once, exempt {}",
        limits.retries_per_job_and_head,
        time(limits.cooldown),
        limits.retries_per_change_per_hour,
        limits.retries_per_change_per_day,
        limits.retries_per_actor_per_hour,
        limits.retries_per_actor_per_day,
        some(limits.retries_per_repository_per_day),
        some(limits.retries_per_runner_per_day),
        limits.jobs_per_command_max,
        limits.times_max,
        limits.exempt_role.map_or("nobody".to_owned(), |role| role.to_string())
    ));
    let policy = &settings.policy;
    lines.push(if policy.enabled {
        format!(
            "policy of repositories: `{}`, looked at every {}, {} when broken, may loosen {}",
            policy.path,
            time(policy.refresh),
            policy.when_broken,
            list(&policy.may_loosen.iter().map(ToString::to_string).collect::<Vec<_>>())
        )
    } else {
        "policy of repositories: off".to_owned()
    });
    lines.push(format!(
        "answers: status `{}`, report {}, reaction {}",
        settings.status.aggregate_context,
        on(settings.report.enabled),
        on(settings.report.reaction)
    ));
    lines.push(autoretry(&settings.autoretry));
    lines.push(flakes(&settings.flakes));
    for token in &settings.api.tokens {
        let scopes: Vec<String> = token.scopes.iter().map(ToString::to_string).collect();
        let places = repositories(&token.repositories);
        lines.push(format!("api token `{}`: may {}, repositories {places}", token.name, list(&scopes)));
    }
    lines.join("\n")
}

fn autoretry(autoretry: &Autoretry) -> String {
    if !autoretry.enabled {
        return "flakes retried unasked: no".to_owned();
    }
    let label = |label: &Option<String>| label.as_ref().map_or("none".to_owned(), |label| format!("`{label}`"));
    format!(
        "flakes retried unasked: at most {} times per job and head, {} per change and {} per runner a day; issues labelled {}, \
         changes labelled {}, never {}; a runner pauses {} when {} % of {} or more heads fail within {}",
        autoretry.retries_max,
        autoretry.retries_per_change_per_day,
        autoretry.retries_per_runner_per_day,
        label(&autoretry.issue_label),
        label(&autoretry.auto_label),
        label(&autoretry.never_label),
        time(autoretry.breaker.open_for),
        autoretry.breaker.share_percent,
        autoretry.breaker.heads_min,
        time(autoretry.breaker.window)
    )
}

/// The flake rules, one a line.
pub(super) fn flakes(rules: &[Flake]) -> String {
    let rule = |rule: &Flake| {
        let jobs: Vec<String> = rule.jobs.iter().map(|job| job.as_str().to_owned()).collect();
        let mut by: Vec<String> = rule.ends.iter().map(|end| format!("ended {end}")).collect();
        by.extend(rule.causes.iter().map(|cause| format!("cause {}", cause.glob().glob())));
        by.extend(rule.log.iter().map(|pattern| format!("log /{pattern}/")));
        format!(
            "flake `{}`: jobs {}{}; {}; {} per job and head, {} a day, first after {}",
            rule.label.as_deref().unwrap_or_default(),
            list(&jobs),
            rule.runner.as_ref().map_or_else(String::new, |runner| format!(" of runner `{runner}`")),
            list(&by),
            rule.retries,
            rule.retries_per_day,
            time(rule.delay)
        )
    };
    if rules.is_empty() {
        "flake rules: none".to_owned()
    } else {
        rules.iter().map(rule).collect::<Vec<_>>().join("\n")
    }
}

fn forge(forge: &Forge) -> String {
    let (how, secrets) = match &forge.kind {
        ForgeDetails::Github(github) => {
            let how = match &github.auth {
                GithubAuth::App { id, .. } => format!("as App {id}"),
                GithubAuth::Token(_) => "with a token".to_owned(),
            };
            (how, ids("webhook secrets", github.webhook_secrets.iter().map(|s| s.id())))
        }
        ForgeDetails::Gitlab(gitlab) => {
            let tokens = ids("webhook tokens", gitlab.webhook_tokens.iter().map(|s| s.id()));
            let keys = ids("signing keys", gitlab.signing_keys.iter().map(|k| k.id()));
            ("with a token".to_owned(), format!("{tokens}, {keys}"))
        }
    };
    format!(
        "forge `{}`: {} at {} {how}, {secrets}, repositories {}",
        forge.name,
        forge.kind(),
        forge.api_url,
        repositories(&forge.repositories)
    )
}

fn runner(runner: &Runner) -> String {
    let details = match &runner.kind {
        RunnerDetails::GithubActions | RunnerDetails::GitlabCi => String::new(),
        RunnerDetails::Exec(exec) => {
            format!(", {} processes at once in {}", exec.processes_max, exec.directory.display())
        }
        RunnerDetails::Http(http) => format!(", hosts {}", list(&http.allowed_hosts)),
        RunnerDetails::Lava(lava) => format!(", at {}, {} patterns", lava.url, runner.patterns.len()),
        RunnerDetails::Kernelci(kernelci) => format!(", API at {}", kernelci.api_url),
    };
    format!(
        "runner `{}`: {} of {}, {} jobs declared, deadline {}, repositories {}{details}",
        runner.name,
        runner.module(),
        runner.forge.as_ref().map_or("every forge".into(), |name| format!("forge `{name}`")),
        runner.jobs.len(),
        time(runner.deadline),
        repositories(&runner.repositories)
    )
}

/// How many secrets there are, and the names of those that have one.
fn ids<'s>(what: &str, ids: impl Iterator<Item = Option<&'s str>>) -> String {
    let ids: Vec<&str> = ids.map(|id| id.unwrap_or("without id")).collect();
    if ids.is_empty() { format!("no {what}") } else { format!("{} {what} ({})", ids.len(), ids.join(", ")) }
}

fn repositories(globs: &RepositoryGlobs) -> String {
    list(globs.patterns())
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

fn time(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

fn on(flag: bool) -> &'static str {
    if flag { "on" } else { "off" }
}
