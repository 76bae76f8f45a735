//! The planner and the parser, called in this process: no receiver, no database, no clock but the driver's.

use std::collections::BTreeMap;
use std::hint::black_box;

use anyhow::{Context, bail};
use retest_bot::decide::{
    Ask, Asker, Authorised, JobView, Limits, Plan, Rights, RunnerFacts, Snapshot, Standalone, Used, Verb, Wish,
    authorise, plan, sift, states,
};
use retest_bot::domain::{
    Actor, Change, ChangeKey, CommitSha, Job, JobName, JobObservation, JobState, Origin, RepoKey, Role, RunOrder,
    RunRef, RunnerName, Timestamp,
};
use retest_commands::{Command, Grammar, Retest, parse};
use rustix::time::{ClockId, clock_gettime};

use crate::table::{Goal, Table, median};

/// Times of one figure; the median is told.
const REPEATS: usize = 7;

/// Bytes of a text for the parser.
const TEXT_BYTES: usize = 1 << 20;

/// Comments that are planned, and what they mean on a head where every third job failed.
const COMMENTS: [&str; 3] = ["/retest", "/retest lava-*", "/retest lava-000006"];

/// Measures both.
pub fn measure(table: &mut Table) -> anyhow::Result<()> {
    eprintln!("planner and parser");
    let grammar = Grammar::default();
    for text in COMMENTS {
        planner(text, &grammar, table)?;
    }
    for (name, text) in adversaries() {
        let times = timed(|| {
            black_box(parse(black_box(&text), &grammar));
        });
        table.add(format!("**parse 1 MB: {name}**"), "ms CPU", times, Goal::AtMost(5.0));
    }
    Ok(())
}

/// Milliseconds that this thread was on a processor: what others do on the machine meanwhile does not count.
fn on_processor() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1_000.0 + time.tv_nsec as f64 / 1_000_000.0
}

/// Milliseconds of each repeat, after one that is not counted.
fn timed(mut work: impl FnMut()) -> Vec<f64> {
    work();
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let started = on_processor();
        work();
        times.push(on_processor() - started);
    }
    times
}

/// Plans a comment for 10, 1,000 and 100,000 jobs, from the jobs as they are on record.
fn planner(text: &str, grammar: &Grammar, table: &mut Table) -> anyhow::Result<()> {
    let parsed = parse(text, grammar);
    let wish = match parsed.commands.first().map(|one| &one.command) {
        Some(Command::Retest(wish)) => wish.clone(),
        other => bail!("`{text}` was read as {other:?}"),
    };
    let mut medians = Vec::new();
    for count in [10, 1_000, 100_000_usize] {
        let jobs: Vec<Job> = (0..count).map(job).collect();
        let planned = decide(jobs.clone(), &wish)?;
        if planned.start.is_empty() {
            bail!("`{text}` starts nothing among {count} jobs");
        }
        let mut times = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            let from_record = jobs.clone();
            let started = on_processor();
            black_box(decide(black_box(from_record), &wish)?);
            times.push(on_processor() - started);
        }
        medians.push(median(&times));
        let goal = if count == 100_000 { Goal::AtMost(50.0) } else { Goal::None };
        let mark = if count == 100_000 { "**" } else { "" };
        table.add(format!("{mark}plan `{text}`, {count} jobs{mark}"), "ms CPU", times, goal);
    }
    // Ten times the time for ten times the jobs is linear; a sort adds a little, the caches some more.
    let growth = vec![medians[2] / medians[1] / 100.0];
    table.add(format!("**plan `{text}`, growth from 1,000 to 100,000 jobs / linear**"), "×", growth, Goal::AtMost(2.0));
    Ok(())
}

/// From the jobs of the record to the plan, as the flow does it.
fn decide(jobs: Vec<Job>, wish: &Retest) -> anyhow::Result<Plan> {
    let stays = sift(&wish.selection, jobs.iter().map(|job| (job, [].as_slice())));
    let standing: Vec<Standalone> = {
        let by_name = states(&jobs);
        let kept = jobs.iter().enumerate().filter(|(at, _)| stays.keeps(*at));
        kept.map(|(_, job)| Standalone::of(job, None, &by_name)).collect()
    };
    let mut jobs = jobs;
    stays.retain(&mut jobs);
    let view = |(job, standalone): (Job, Standalone)| JobView {
        standalone,
        open: None,
        retries: 0,
        wishes: 0,
        unasked: 0,
        platform: None,
        overrides: Vec::new(),
        groups: Vec::new(),
        terms: None,
        last_retry_at: None,
        job,
    };
    let author = Actor { id: 1, login: "ann".to_owned(), is_bot: false };
    let change = Change {
        key: ChangeKey { repo: RepoKey { forge: "github".into(), id: 1 }, number: 7 },
        head: CommitSha::parse(&"a".repeat(40)).map_err(|error| anyhow::anyhow!("{error}"))?,
        author: Some(author.clone()),
        open: true,
        from_fork: false,
        base_ref: "main".to_owned(),
        labels: Vec::new(),
        head_pipeline: None,
        source_ref: None,
        approved_head: None,
        updated_at: Timestamp::default(),
    };
    let facts = RunnerFacts {
        age_max: None,
        starts_fresh: true,
        out_of_reach_for_forks: false,
        attempts_max: 5,
        repeats_base: false,
        restarts_max: None,
        runs_dependents: false,
    };
    let snapshot = Snapshot {
        change,
        jobs: jobs.into_iter().zip(standing).map(view).collect(),
        runners: BTreeMap::from([(RunnerName::new("lab"), facts)]),
        limits: Limits::NONE,
        used: Used::default(),
        base_moved: None,
        now: Timestamp::default(),
    };
    let proof: Authorised =
        authorise(Ask::Retest, &snapshot.change, &Asker::with_role(author, Role::Write), &Rights::default())
            .map_err(|refusal| anyhow::anyhow!("{}", refusal.text))
            .context("the planner needs a proof")?;
    let wish = Wish {
        verb: Verb::Retest,
        selection: &wish.selection,
        force: false,
        with_needs: false,
        times: 1,
        overrides: &wish.overrides,
    };
    Ok(plan(&snapshot, &wish, &proof))
}

/// Every third job failed, every tenth is still running, the others passed.
fn job(number: usize) -> Job {
    let state = match number {
        n if n % 3 == 0 => JobState::Failed,
        n if n % 10 == 1 => JobState::Running,
        _ => JobState::Passed,
    };
    let newest = JobObservation {
        name: JobName::new(format!("lava-{number:06}")),
        scope: String::new(),
        origin: Origin::Followed,
        run: RunRef::new(number.to_string()),
        order: RunOrder::default(),
        group: None,
        state,
        cause: None,
        url: Some(format!("https://lab.example.org/jobs/{number}")),
        allow_failure: false,
        manual: false,
        needs: None,
        at: Timestamp::default(),
    };
    Job { newest, runner: Some(RunnerName::new("lab")), required: false, runs: 1, platform: None, standalone: None }
}

/// Texts that a careless parser is slow on; each holds a command, so that none is put aside at once.
fn adversaries() -> Vec<(&'static str, String)> {
    let with = |piece: &str| {
        let mut text = String::with_capacity(TEXT_BYTES + 32);
        text.push_str("/retest lava-x86\n\n");
        while text.len() + piece.len() <= TEXT_BYTES {
            text.push_str(piece);
        }
        text
    };
    vec![
        ("commands only", with("/retest lava-x86\n")),
        ("near misses", with("/retset lava-x86\n")),
        ("one line of arguments", format!("/retest {}", "lava-x86, ".repeat(TEXT_BYTES / 10 - 1))),
        ("opening brackets", with("[")),
        ("image openings", with("![a](")),
        ("stars and underscores", with("*a_ ")),
        ("backquotes in runs of all lengths", backquotes()),
        ("nested quotes", with(">")),
        ("quotes and lists in turn", with("> - ")),
        ("comment openings", with("<!-- ")),
        ("open tags", with("<a href=\"")),
        ("mentions", with("@retest-bot ")),
        ("fences that are never closed", with("```\n/retest a\n")),
        ("line ends", with("\r\n")),
        ("link definitions", with("[a]: /b\n")),
        ("entities", with("&amp;")),
        ("ordinary prose", with("The board did not answer within a minute, as it did last week. \n")),
    ]
}

fn backquotes() -> String {
    let mut text = String::from("/retest lava-x86\n\n");
    let mut length = 1;
    while text.len() + length < TEXT_BYTES {
        text.push_str(&"`".repeat(length));
        text.push(' ');
        length += 1;
    }
    text
}
