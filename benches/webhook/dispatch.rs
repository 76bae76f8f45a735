//! From sending a comment until the forge has read the request that restarts the job.
//!
//! The bot learns the jobs as it does in life, by deliveries: a change is opened, its head moves, and each job of the new
//! head is told when it is over. Heads with 10, 1,000 and 100,000 jobs are in one database of one process, and commands
//! for them and for the bare receiver take turns, so that all of them meet the same moments of the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::Size;
use crate::floor::Mode;
use crate::forge::StandIn;
use crate::load::{Delivery, Line, drive};
use crate::payload::{Comment, OverJob, comment, delivery_id, pull_request, workflow_job};
use crate::process::{Server, fresh_folder};
use crate::table::{Goal, Table, median, ratios};
use crate::wait;

/// Heads of each number of jobs; each is one round of the figures.
const HEADS: u64 = 3;

/// Pause between two commands: the last one's answers are under way, as in life.
const PAUSE: Duration = Duration::from_millis(300);

/// A command is done when no call has come for this long; the report waits 1.5 s for further news.
const QUIET: Duration = Duration::from_millis(2_500);

/// Calls that the issue allows for one command with one job: permission, restart, status, reaction.
const CALLS_MAX: f64 = 4.0;

/// A head with jobs, of which the first few failed, each in a workflow run of its own.
#[derive(Clone, Debug)]
struct Head {
    change: u64,
    jobs: u64,
    failed: u64,
}

impl Head {
    fn sha(&self) -> String {
        format!("{:040x}", self.change)
    }

    const fn job(&self, number: u64) -> u64 {
        self.change * 1_000_000 + number
    }

    fn name(number: u64) -> String {
        format!("lava-x86-{number}")
    }

    fn told(&self, number: u64) -> Delivery {
        let failed = number < self.failed;
        let name = if failed { Self::name(number) } else { format!("build-{number:06}") };
        let run = if failed { self.job(number) } else { self.job(900_000 + number % 64) };
        workflow_job(&OverJob {
            id: self.job(number),
            run,
            name: &name,
            head: &self.sha(),
            conclusion: if failed { "failure" } else { "success" },
        })
    }
}

struct Stage {
    forge: StandIn,
    bot: Server,
    line: Line,
    floor_line: Line,
    _floor: Server,
    folder: PathBuf,
    comments: u64,
}

/// Figures by number of jobs, one value per round.
#[derive(Default)]
struct Figures {
    p50: BTreeMap<u64, Vec<f64>>,
    worst: BTreeMap<u64, f64>,
    floor_p50: Vec<f64>,
    floor_worst: f64,
    cpu_ms: BTreeMap<u64, Vec<f64>>,
    calls: BTreeMap<u64, BTreeMap<&'static str, u64>>,
}

/// Measures and adds the figures.
pub fn measure(size: &Size, table: &mut Table) -> anyhow::Result<()> {
    let mut stage = Stage::open()?;
    let mut heads = Vec::new();
    for (kind, jobs) in size.jobs.iter().enumerate() {
        for round in 0..HEADS {
            let change = 1_000 + u64::try_from(kind)? * 10 + round;
            heads.push(Head { change, jobs: *jobs, failed: size.commands + 1 });
        }
    }
    stage.feed(&heads)?;
    let mut figures = Figures::default();
    for head in &heads {
        eprintln!("dispatch: counting the calls of a command with {} jobs", head.jobs);
        stage.count(head, &mut figures)?;
    }
    for round in 0..HEADS {
        eprintln!("dispatch: round {} of {HEADS}", round + 1);
        let now: Vec<&Head> = heads.iter().filter(|head| head.change % 10 == round).collect();
        stage.time(&now, size.commands, &mut figures)?;
    }
    figures.tell(table)
}

impl Stage {
    fn open() -> anyhow::Result<Self> {
        let forge = StandIn::start()?;
        let folder = fresh_folder("dispatch-bot")?;
        let mut bot = Server::bot(&folder, forge.port)?;
        let mut floor = Server::floor(Mode::Dispatch, &fresh_folder("dispatch-floor")?, forge.port)?;
        let first = pull_request("opened", 1, &"e".repeat(40), 0);
        bot.first_accepted(&first)?;
        // The bare receiver reads comments only; one without a command starts nothing.
        let prose = Comment { change: 1, id: 1, author: 1, text: "hello" };
        let body = comment(&prose);
        floor.first_accepted(&Delivery { event: "issue_comment", id: delivery_id(1, 1), body, authentic: true })?;
        let (line, floor_line) = (Line::open(bot.target.clone())?, Line::open(floor.target.clone())?);
        Ok(Self { forge, bot, line, floor_line, _floor: floor, folder, comments: 0 })
    }

    fn feed(&mut self, heads: &[Head]) -> anyhow::Result<()> {
        for head in heads {
            let before = format!("{:040x}", head.change + 0xa000_0000);
            self.tell(&pull_request("opened", head.change, &before, 0))?;
            self.tell(&pull_request("synchronize", head.change, &head.sha(), 1))?;
        }
        wait::until_worked_off(&self.folder, Duration::from_secs(60))?;
        let started = Instant::now();
        for head in heads {
            let told = head.clone();
            let source = move |number| (number < told.jobs).then(|| told.told(number));
            drive(&self.bot.target, None, source)?.expect(2)?;
        }
        wait::until_worked_off(&self.folder, Duration::from_secs(1_800))?;
        let all: u64 = heads.iter().map(|head| head.jobs).sum();
        let known = wait::jobs(&self.folder)?;
        eprintln!("dispatch: {all} jobs told and recorded in {:.1} s", started.elapsed().as_secs_f64());
        if u64::try_from(known).ok() != Some(all) {
            bail!("{all} jobs were told, and {known} are on record");
        }
        self.forge.until_quiet(QUIET)?;
        self.forge.take_calls();
        Ok(())
    }

    fn tell(&mut self, delivery: &Delivery) -> anyhow::Result<Instant> {
        let (sent, status) = self.line.send(delivery)?;
        if status != 202 {
            bail!("a delivery was answered with {status}");
        }
        Ok(sent)
    }

    /// A comment by somebody who has not commented before, so that the right has to be looked up.
    fn command(&mut self, change: u64, job: &str) -> Delivery {
        self.comments += 1;
        let text = format!("Thanks, the board hung again.\n\n/retest {job}\n");
        let number = self.comments;
        let said = Comment { change, id: 3_000_000_000 + number, author: 50_000 + number, text: &text };
        Delivery { event: "issue_comment", id: delivery_id(3, number), body: comment(&said), authentic: true }
    }

    fn bot_ms(&mut self, head: &Head, number: u64) -> anyhow::Result<f64> {
        let delivery = self.command(head.change, &Head::name(number));
        let sent = self.tell(&delivery)?;
        let seen = self.forge.restart_of(head.job(number))?;
        Ok(seen.duration_since(sent).as_secs_f64() * 1_000.0)
    }

    fn floor_ms(&mut self) -> anyhow::Result<f64> {
        let job = self.comments + 1;
        let delivery = self.command(1, &Head::name(job));
        let (sent, status) = self.floor_line.send(&delivery)?;
        if status != 202 {
            bail!("the bare receiver answered with {status}");
        }
        Ok(self.forge.restart_of(job)?.duration_since(sent).as_secs_f64() * 1_000.0)
    }

    /// One command, followed until its last answer is posted.
    fn count(&mut self, head: &Head, figures: &mut Figures) -> anyhow::Result<()> {
        self.forge.take_calls();
        let before = self.bot.cpu_us()?;
        self.bot_ms(head, 0)?;
        self.forge.until_quiet(QUIET)?;
        let used = (self.bot.cpu_us()? - before) / 1_000.0;
        figures.cpu_ms.entry(head.jobs).or_default().push(used);
        for (kind, count) in self.forge.take_calls() {
            *figures.calls.entry(head.jobs).or_default().entry(kind).or_default() += count;
        }
        Ok(())
    }

    /// One round: the bare receiver and one head of each size take turns, another one first each time.
    fn time(&mut self, heads: &[&Head], commands: u64, figures: &mut Figures) -> anyhow::Result<()> {
        let mut bot: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut floor = Vec::new();
        let turns = heads.len() + 1;
        for number in 1..=commands {
            for turn in 0..turns {
                std::thread::sleep(PAUSE);
                match heads.get((turn + usize::try_from(number)?) % turns) {
                    Some(head) => bot.entry(head.jobs).or_default().push(self.bot_ms(head, number)?),
                    None => floor.push(self.floor_ms()?),
                }
            }
        }
        for (jobs, ms) in bot {
            figures.p50.entry(jobs).or_default().push(median(&ms));
            let worst = figures.worst.entry(jobs).or_default();
            *worst = ms.iter().copied().fold(*worst, f64::max);
        }
        figures.floor_p50.push(median(&floor));
        figures.floor_worst = floor.iter().copied().fold(figures.floor_worst, f64::max);
        self.forge.until_quiet(QUIET)
    }
}

impl Figures {
    fn tell(self, table: &mut Table) -> anyhow::Result<()> {
        let (Some((least, few)), Some((most, many))) = (self.p50.first_key_value(), self.p50.last_key_value()) else {
            bail!("no command was timed");
        };
        let text = format!("**comment to dispatch, {least} jobs / bare insert and one request**, p50");
        table.add(text, "×", ratios(few, &self.floor_p50), Goal::AtMost(2.0));
        let text = format!("**comment to dispatch, {most} jobs / {least} jobs**, p50");
        table.add(text, "×", ratios(many, few), Goal::AtMost(1.5));
        if let (Some(few), Some(many)) = (self.cpu_ms.get(least), self.cpu_ms.get(most)) {
            let text = format!("**a command worked on to the last answer, {most} jobs / {least} jobs**, CPU");
            table.add(text, "×", vec![median(many) / median(few)], Goal::AtMost(1.5));
        }
        for (jobs, ms) in &self.p50 {
            table.add(format!("comment to dispatch, {jobs} jobs, p50"), "ms", ms.clone(), Goal::None);
        }
        table.add("bare insert and one request, p50", "ms", self.floor_p50, Goal::None);
        for (jobs, ms) in self.worst {
            table.add(format!("comment to dispatch, {jobs} jobs, worst"), "ms", vec![ms], Goal::None);
        }
        table.add("bare insert and one request, worst", "ms", vec![self.floor_worst], Goal::None);
        for (jobs, ms) in self.cpu_ms {
            table.add(format!("a command worked on to the last answer, {jobs} jobs"), "ms CPU", ms, Goal::None);
        }
        for (jobs, calls) in self.calls {
            let per_command = |count: u64| count as f64 / HEADS as f64;
            let needed = calls.iter().filter(|(kind, _)| !kind.contains("report")).map(|(_, count)| *count).sum();
            let text = format!("**forge calls per command but for the report, {jobs} jobs**");
            table.add(text, "", vec![per_command(needed)], Goal::Exactly(CALLS_MAX));
            let told: Vec<String> =
                calls.iter().map(|(kind, count)| format!("{kind} {:.2}", per_command(*count))).collect();
            table.note(format!("forge calls per command, {jobs} jobs: {}", told.join(", ")));
        }
        Ok(())
    }
}
