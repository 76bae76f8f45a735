//! `retest-bot plan`: decides a comment on a snapshot, offline. People test their rules with it before they ship them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args as ClapArgs;
use retest_commands::{Command, Flags, Parsed, Selection, Selector};
use serde::{Deserialize, Serialize};

use crate::app::Operators;
use crate::decide::{
    Ask, Asker, Authorised, Declared, JobView, LeaveItem, Reason, Refusal, RefusalKind, RunnerFacts, Snapshot,
    Standalone, Terms, Used, Verb, Wish, authorise, code, job_list, pinned, plan,
};
use crate::domain::{
    Actor, Change, ChangeKey, CommitSha, Job, JobName, JobObservation, JobState, Origin, RepoKey, Role, RunOrder,
    RunRef, RunnerName, Team, Timestamp,
};

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// The snapshot as JSON (`docs/cli.md` shows one); `-` reads standard input.
    #[arg(long)]
    snapshot: PathBuf,
    /// The comment.
    #[arg(long)]
    comment: String,
    /// A policy of a repository (`.retest.toml`) that holds beside them.
    #[arg(long)]
    policy: Option<PathBuf>,
    /// A configuration whose grammar, rights and limits are used instead of the defaults.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    forge: String,
    change: InputChange,
    actor: InputActor,
    jobs: Vec<InputJob>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputChange {
    number: u64,
    head: CommitSha,
    author: String,
    open: bool,
    #[serde(default)]
    from_fork: bool,
    #[serde(default)]
    approved: bool,
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputActor {
    login: String,
    role: Role,
    /// Teams and groups in which the actor is: `team:ORGANISATION/SLUG`, `group:PATH`.
    #[serde(default)]
    teams: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputJob {
    name: String,
    #[serde(default)]
    runner: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    state: JobState,
    #[serde(default)]
    required: bool,
    #[serde(default = "one")]
    runs: u32,
    #[serde(default)]
    needs: Option<Vec<JobName>>,
    #[serde(default)]
    standalone: Option<bool>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    platform: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    overrides: Vec<String>,
    #[serde(default)]
    allow_failure: bool,
}

const fn one() -> u32 {
    1
}

/// What a comment comes to (DESIGN section 11).
#[derive(Debug, Default, Serialize)]
struct Output {
    start: Vec<OutputStart>,
    leave: Vec<OutputLeave>,
    refused: Option<Refusal>,
    reply: String,
}

#[derive(Debug, Serialize)]
struct OutputStart {
    job: String,
    runner: Option<String>,
    why: String,
}

#[derive(Debug, Serialize)]
struct OutputLeave {
    job: String,
    reason: &'static str,
    text: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = super::read_input(&args.snapshot)?;
    let mut json = serde_json::Deserializer::from_str(&text);
    let input: Input = serde_path_to_error::deserialize(&mut json)
        .and_then(|input| {
            let end = json.end();
            end.map(|()| input)
                .map_err(|error| serde_path_to_error::Error::new(serde_path_to_error::Track::new().path(), error))
        })
        .with_context(|| format!("the snapshot `{}` is not in the documented form", args.snapshot.display()))?;
    sound(&input)?;
    let settings = args.config.as_ref().map(|path| super::load(path)).transpose()?;
    let operators = Operators::of(settings.as_ref())?;
    let (terms, grammar) = match &args.policy {
        None => operators.alone(),
        Some(path) => operators.read(&super::read_input(path)?).map_err(|faults| {
            anyhow::anyhow!("the policy `{}` cannot be used:\n{}", path.display(), faults.join("\n"))
        })?,
    };
    let parsed = retest_commands::parse(&args.comment, &grammar);
    let output = decide(&input, &parsed, &terms);
    if args.json { super::print_line(&super::pretty(&output)) } else { super::print_line(output.reply.trim_end()) }
}

fn asker(input: &Input) -> Asker {
    // In a snapshot people are known by login: the author is the one with the same.
    let id = if input.actor.login == input.change.author { 1 } else { 2 };
    let mut asker = Asker::with_role(Actor { id, login: input.actor.login.clone(), is_bot: false }, input.actor.role);
    asker.teams.extend(input.actor.teams.iter().filter_map(|team| {
        if let Some(path) = team.strip_prefix("group:") {
            return Some(Team::GitLab { path: path.to_owned() });
        }
        let (organisation, slug) = team.strip_prefix("team:")?.split_once('/')?;
        Some(Team::GitHub { organisation: organisation.to_owned(), slug: slug.to_owned() })
    }));
    asker
}

/// What the form of a snapshot cannot rule out.
fn sound(input: &Input) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for job in &input.jobs {
        anyhow::ensure!(!job.name.trim().is_empty(), "a job of the snapshot has no name; give it one");
        anyhow::ensure!(
            names.insert(job.name.as_str()),
            "the job `{}` is in the snapshot twice; a job has one state, that of its newest run",
            job.name
        );
    }
    Ok(())
}

fn decide(input: &Input, parsed: &Parsed, terms: &Terms) -> Output {
    let snapshot = snapshot(input, terms);
    let asker = asker(input);
    let mut output = Output::default();
    for mistake in &parsed.mistakes {
        let text = format!("not run: {}", crate::decide::plain_words(&mistake.hint));
        output.leave.push(OutputLeave { job: mistake.text.clone(), reason: "not_understood", text });
    }
    let mut taken: Vec<usize> = Vec::new();
    for one in &parsed.commands {
        if !input.change.open {
            output.refused =
                Some(Refusal::new(RefusalKind::Closed, "the change is closed, so nothing is started on it"));
            break;
        }
        let may = |ask| authorise(ask, &snapshot.change, &asker, &terms.rights);
        let change = &snapshot.change;
        let at = |sha| move |proof: Authorised| pinned(change, sha).map(|()| proof);
        match &one.command {
            Command::Retest(wish) => {
                let forced = wish.flags.force || wish.selection.words.iter().any(Selector::is_everything);
                let measured = wish.times.is_some_and(|n| n > 1);
                let proof =
                    may(if forced || measured { Ask::Force } else { Ask::Retest }).and_then(at(wish.sha.as_deref()));
                let own = terms.own_names(&wish.selection);
                let wish = wish_of((Verb::Retest, forced), &own, (wish.flags, wish.times), &wish.overrides);
                start(input, &snapshot, (&wish, proof), (&mut output, &mut taken));
            }
            Command::Test(wish) => {
                let sha = wish.sha.as_deref();
                let own = terms.own_names(&wish.selection);
                let wish = wish_of((Verb::Test, false), &own, (wish.flags, wish.times), &wish.overrides);
                let proof = may(Ask::Test).and_then(at(sha));
                start(input, &snapshot, (&wish, proof), (&mut output, &mut taken));
            }
            Command::Jobs(_) => match may(Ask::Help) {
                Ok(proof) => output.leave.extend(job_list(&snapshot, &proof).iter().map(left)),
                Err(refusal) => output.refused = Some(refusal),
            },
            Command::OkToTest(_) => output.refused = may(Ask::OkToTest).err().or(output.refused.take()),
            Command::Cancel(_) => output.refused = may(Ask::Cancel { own: true }).err().or(output.refused.take()),
            Command::Help(_) | Command::Why(_) => output.refused = may(Ask::Help).err().or(output.refused.take()),
            // These change no plan; what they need is not in a snapshot.
            Command::Flake(_) | Command::Autoretry(_) | Command::Override(_) => {}
        }
        let plans = matches!(one.command, Command::Retest(_) | Command::Test(_) | Command::Jobs(_));
        if !plans && output.refused.is_none() {
            let text = "starts no job; a running bot answers it".to_owned();
            let command = format!("/{}", one.command.name());
            output.leave.push(OutputLeave { job: command, reason: Reason::Nothing.as_str(), text });
        }
    }
    output.reply = reply(&output);
    output
}

fn wish_of<'a>(
    (verb, force): (Verb, bool),
    selection: &'a Selection,
    (flags, times): (Flags, Option<u32>),
    overrides: &'a BTreeMap<String, String>,
) -> Wish<'a> {
    Wish { verb, selection, force, with_needs: flags.with_needs, times: times.unwrap_or(1), overrides }
}

/// Plans one command; a job that an earlier command of the comment starts is joined.
fn start(
    input: &Input,
    snapshot: &Snapshot,
    (wish, proof): (&Wish<'_>, Result<Authorised, Refusal>),
    (output, taken): (&mut Output, &mut Vec<usize>),
) {
    let made = match proof {
        Ok(proof) => plan(snapshot, wish, &proof),
        Err(refusal) => {
            output.refused = Some(refusal);
            return;
        }
    };
    for item in &made.start {
        let Some(job) = input.jobs.get(item.at) else { continue };
        if taken.contains(&item.at) {
            let text = "an earlier command of this comment starts it; joined".to_owned();
            output.leave.push(OutputLeave { job: job.name.clone(), reason: Reason::Joined.as_str(), text });
            continue;
        }
        taken.push(item.at);
        let after: Vec<String> = item.after.iter().map(|need| code(need.as_str())).collect();
        let after = if after.is_empty() { String::new() } else { format!("; once {} passed", after.join(", ")) };
        let times = if wish.times > 1 && item.asked { format!("; {} runs", wish.times) } else { String::new() };
        let why = format!("{}{after}{times}", item.why);
        output.start.push(OutputStart { job: job.name.clone(), runner: job.runner.clone(), why });
    }
    output.leave.extend(made.leave.iter().map(left));
}

fn left(item: &LeaveItem) -> OutputLeave {
    OutputLeave { job: item.name.clone(), reason: item.reason.as_str(), text: item.text.clone() }
}

fn reply(output: &Output) -> String {
    let mut text = String::new();
    if let Some(refusal) = &output.refused {
        text.push_str(&format!("- not run: {}\n", refusal.text));
    }
    for start in &output.start {
        text.push_str(&format!("- {}: started ({})\n", code(&start.job), start.why));
    }
    for leave in &output.leave {
        let name = if leave.job.is_empty() { String::new() } else { format!("{}: ", code(&leave.job)) };
        text.push_str(&format!("- {name}{}\n", leave.text));
    }
    text
}

/// The snapshot in the planner's words. Every job with a runner can be started by it, unless its state forbids.
fn snapshot(input: &Input, terms: &Terms) -> Snapshot {
    let forge = input.forge.as_str().into();
    let author = Actor { id: 1, login: input.change.author.clone(), is_bot: false };
    let change = Change {
        key: ChangeKey { repo: RepoKey { forge, id: 1 }, number: input.change.number },
        head: input.change.head.clone(),
        author: Some(author),
        open: input.change.open,
        from_fork: input.change.from_fork,
        base_ref: "main".into(),
        labels: input.change.labels.clone(),
        head_pipeline: None,
        source_ref: None,
        approved_head: input.change.approved.then(|| input.change.head.clone()),
        updated_at: Timestamp::default(),
    };
    let told = |raw: &InputJob| Declared {
        standalone: raw.standalone,
        required: raw.required,
        platform: raw.platform.clone(),
        groups: raw.groups.clone(),
        ..Declared::default()
    };
    let declared: Vec<Declared> =
        input.jobs.iter().map(|raw| terms.declared(&JobName::new(&raw.name), Some(&told(raw)))).collect();
    let jobs: Vec<Job> = input.jobs.iter().zip(&declared).map(|(raw, declared)| job(raw, declared)).collect();
    let by_name: HashMap<&JobName, JobState> = crate::decide::states(&jobs);
    let view = |((job, raw), declared): ((&Job, &InputJob), &Declared)| {
        let mut view = JobView {
            standalone: Standalone::of(job, declared.standalone, &by_name),
            open: None,
            retries: raw.runs.saturating_sub(1),
            wishes: raw.runs.saturating_sub(1),
            unasked: 0,
            platform: declared.platform.clone(),
            overrides: raw.overrides.clone(),
            groups: declared.groups.clone(),
            terms: None,
            last_retry_at: None,
            job: job.clone(),
        };
        terms.demand(&mut view);
        view
    };
    let jobs_view = jobs.iter().zip(&input.jobs).zip(&declared).map(view).collect();
    let mut runners = BTreeMap::new();
    for raw in &input.jobs {
        if let Some(name) = &raw.runner {
            runners.entry(RunnerName::new(name)).or_insert_with(|| facts(raw));
        }
    }
    let limits = terms.limits;
    Snapshot {
        change,
        jobs: jobs_view,
        runners,
        limits,
        used: Used::default(),
        base_moved: None,
        now: Timestamp::default(),
    }
}

fn facts(raw: &InputJob) -> RunnerFacts {
    let native = matches!(raw.kind.as_deref(), Some("github_actions" | "gitlab_ci"));
    RunnerFacts {
        age_max: None,
        starts_fresh: !native,
        out_of_reach_for_forks: raw.kind.as_deref() == Some("gitlab_ci"),
        attempts_max: u32::MAX,
        runs_dependents: native,
        repeats_base: native,
        restarts_max: None,
    }
}

fn job(raw: &InputJob, declared: &Declared) -> Job {
    let needs = if declared.needs.is_empty() { raw.needs.clone() } else { Some(declared.needs.clone()) };
    let newest = JobObservation {
        name: JobName::new(&raw.name),
        scope: String::new(),
        origin: Origin::Followed,
        run: RunRef::new(""),
        order: RunOrder::default(),
        group: None,
        state: raw.state,
        cause: None,
        url: raw.url.clone(),
        allow_failure: raw.allow_failure,
        manual: false,
        needs,
        at: Timestamp::default(),
    };
    Job {
        newest,
        runner: raw.runner.as_deref().map(RunnerName::from),
        required: declared.required,
        runs: raw.runs,
        platform: None,
        standalone: None,
    }
}
