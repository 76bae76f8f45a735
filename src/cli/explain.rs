//! `retest-bot explain`: what a saved webhook would do, step by step, without doing it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args as ClapArgs;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::ExposeSecret;
use sha2::Sha256;

use crate::domain::{ChangeAction, CommentAction, ForgeEvent};
use crate::ports::{Clock, Decoded, SystemClock, WebhookRequest};
use crate::settings::{ForgeDetails, Settings};

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, short, default_value = "retest-bot.toml", env = "RETEST_CONFIG")]
    config: PathBuf,
    /// The forge that sent it; may be left out when only one is configured.
    #[arg(long)]
    forge: Option<String>,
    /// The event's name: `X-GitHub-Event` or `X-Gitlab-Event`.
    #[arg(long)]
    event: String,
    /// The saved body; `-` reads standard input.
    body: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = super::load(&args.config)?;
    let name = match (&args.forge, settings.forges.as_slice()) {
        (Some(name), _) => name.clone(),
        (None, [only]) => only.name.clone(),
        (None, _) => anyhow::bail!("several forges are configured; name one with --forge"),
    };
    let forge = settings.forge(&name).with_context(|| format!("no forge is called `{name}`"))?;
    let body = super::read_input(&args.body)?;
    let headers = signed_headers(forge, &args.event, body.as_bytes())?;
    let explained = super::serve::runtime(Some(1))?.block_on(async {
        let adapter = crate::app::forge_alone(&settings, &name, Arc::new(SystemClock))?;
        let request = WebhookRequest { headers, body: body.into(), at: SystemClock.now() };
        anyhow::Ok(match adapter.receive(&request) {
            Ok(decoded) => explain(&settings, &decoded)?,
            Err(error) => format!("It would be refused: {error:?}"),
        })
    })?;
    super::print_line(&explained)
}

/// The headers that the forge would send, signed with the first configured secret.
fn signed_headers(forge: &crate::settings::Forge, event: &str, body: &[u8]) -> anyhow::Result<http::HeaderMap> {
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", "application/json".parse()?);
    match &forge.kind {
        ForgeDetails::Github(github) => {
            let secret = github.webhook_secrets.first().context("the forge has no webhook secret")?;
            let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret.value().expose_secret().as_bytes())?;
            mac.update(body);
            let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
            headers.insert("x-github-event", event.parse()?);
            headers.insert("x-github-delivery", "00000000-0000-4000-8000-000000000000".parse()?);
            headers.insert("x-hub-signature-256", signature.parse()?);
        }
        ForgeDetails::Gitlab(gitlab) => {
            let token =
                gitlab.webhook_tokens.first().context("explain needs a webhook token; signing keys alone do not do")?;
            headers.insert("x-gitlab-event", event.parse()?);
            headers.insert("idempotency-key", "00000000-0000-4000-8000-000000000000".parse()?);
            headers.insert("x-gitlab-token", token.value().expose_secret().parse()?);
        }
    }
    Ok(headers)
}

fn explain(settings: &Settings, decoded: &Decoded) -> anyhow::Result<String> {
    let wanted = match decoded {
        Decoded::Ignored(why) => return Ok(format!("It would be accepted and ignored: {why}.")),
        Decoded::Malformed(what) => {
            return Ok(format!("It would be accepted, but it is not in the documented form: {what}"));
        }
        Decoded::Wanted(wanted) => wanted,
    };
    let mut lines = vec![format!("repository: {}", wanted.event.repo().full_name)];
    match &wanted.event {
        ForgeEvent::Change { change, action, .. } => {
            let what = match action {
                ChangeAction::Opened => "opened",
                ChangeAction::HeadMoved => "its head moved",
                ChangeAction::Closed => "closed",
                ChangeAction::Edited => "edited",
            };
            lines.push(format!("change {}: {what}; head {}", change.key.number, change.head));
            lines.push("The record is brought up to date; open retries of another head are superseded.".into());
        }
        ForgeEvent::Jobs(event) => {
            lines.push(format!("commit {}: news of {} jobs", event.sha, event.jobs.len()));
            lines.extend(event.jobs.iter().map(|j| format!("  {}: {} (run {})", j.name, j.state, j.run)));
        }
        ForgeEvent::Push(event) => lines.push(format!("the default branch {} moved to {}", event.branch, event.sha)),
        ForgeEvent::Issue(event) => {
            let state = if event.issue.open { "open" } else { "closed" };
            lines.push(format!("issue {}: {state}, labels: {}", event.issue.number, event.issue.labels.join(", ")));
            lines.push("With the flake label it is read as a rule for retries.".into());
        }
        ForgeEvent::Queue(event) => {
            let what = if event.over { "left the merge queue" } else { "is tested in the merge queue" };
            lines.push(format!("change {}: commit {} {what}", event.number, event.sha));
        }
        ForgeEvent::Press(event) => {
            lines.push(format!("{} pressed {:?} on {}", event.sender.login, event.pressed, event.sha))
        }
        ForgeEvent::Comment(event) => {
            lines.push(format!(
                "change {}: comment {} by {}",
                event.change.number, event.comment.id, event.author.login
            ));
            let grammar = crate::app::grammar(settings)?;
            let nothing = || retest_commands::Parsed { commands: Vec::new(), mistakes: Vec::new() };
            let parsed = match &event.action {
                _ if event.author.is_bot || crate::decide::is_own_text(&event.body) => {
                    lines.push("Written by a bot or by this program: no command in it is run.".into());
                    nothing()
                }
                CommentAction::Created => retest_commands::parse(&event.body, &grammar),
                CommentAction::Deleted => {
                    lines.push("A deleted comment: no command in it is run, and what it began goes on.".into());
                    nothing()
                }
                CommentAction::Edited { .. } if event.sender.id != event.author.id => {
                    lines.push(format!(
                        "Edited by {}, whose text it is not: no command in it is run.",
                        event.sender.login
                    ));
                    nothing()
                }
                CommentAction::Edited { before: None } => {
                    lines.push("Edited, and the earlier text is not told: no command in it is run.".into());
                    nothing()
                }
                CommentAction::Edited { .. } if settings.commands.edited == crate::settings::Edited::Ignore => {
                    lines.push("Edited: no command in it is run, says commands.edited.".into());
                    nothing()
                }
                CommentAction::Edited { before: Some(before) } => {
                    lines.push("Edited by its author: what the earlier text did not have is run.".into());
                    retest_commands::new_commands(before, &event.body, &grammar)
                }
            };
            lines.push(super::pretty(&super::parse::as_json(&parsed)));
            if !parsed.commands.is_empty() {
                lines.push(
                    "Next: the role is looked up, the jobs are taken from the record, and a plan is made.".into(),
                );
            }
        }
    }
    Ok(lines.join("\n"))
}
