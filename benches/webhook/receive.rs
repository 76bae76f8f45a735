//! What a delivery costs to receive, beside the bare receivers of the same duty; start, memory and size.
//!
//! The stand-in forge of this part never answers, so that the bot cannot work on what it has accepted: what is measured
//! is receiving alone (verify, decode, find the command, store durably once, answer), and that a hanging forge does not
//! hinder it. What a command costs until it is answered is measured in `dispatch.rs`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;

use crate::Size;
use crate::floor::Mode;
use crate::load::{Delivery, drive};
use crate::payload::{Template, delivery_id};
use crate::peers::Probot;
use crate::process::{PROGRAM, Server, database_state, fresh_folder};
use crate::table::{Goal, Table, ratios};
use crate::wait;

const COMMAND: &str = "Thanks, the board hung again.\n\n/retest lava-x86\n";
const PROSE: &str = "Thanks, the board hung again.\n\nShall we test it once more?\n";

/// How long a receiver is left alone before its memory is read.
const IDLE: Duration = Duration::from_millis(1_500);

/// What a delivery is to the receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    WrongSignature,
    Irrelevant,
    Command,
}

/// One pair to compare: a duty, and the bare receiver that has no more to do.
const PAIRS: [(Kind, Mode); 3] =
    [(Kind::WrongSignature, Mode::Verify), (Kind::Irrelevant, Mode::Parse), (Kind::Command, Mode::Full)];

/// Figures of all rounds; the arrays are in the order of [`PAIRS`].
#[derive(Default)]
struct Figures {
    bot: [Vec<f64>; 3],
    floor: [Vec<f64>; 3],
    probot: Vec<f64>,
    rate: Vec<f64>,
    rate_floor: Vec<f64>,
    start_ms: Vec<f64>,
    start_floor_ms: Vec<f64>,
    restart_ms: Vec<f64>,
    idle_mib: Vec<f64>,
    loaded_mib: Vec<f64>,
    written_bytes: Vec<f64>,
}

/// Measures every round and adds the figures.
pub fn measure(size: &Size, table: &mut Table) -> anyhow::Result<()> {
    let probot = if size.peers { Some(Probot::install()?) } else { None };
    // Bound and never accepted from: the kernel takes connections, nobody answers.
    let hanging = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let forge = hanging.local_addr()?.port();
    let mut figures = Figures::default();
    for round in 0..size.rounds {
        eprintln!("receivers: round {} of {}", round + 1, size.rounds);
        Round { number: round, size, forge }.run(probot.as_ref(), &mut figures)?;
    }
    figures.tell(table);
    let bytes = std::fs::metadata(PROGRAM)?.len();
    table.add("size of the stripped release binary", "MiB", vec![bytes as f64 / 1_048_576.0], Goal::Exactly(25.0));
    Ok(())
}

struct Round<'a> {
    number: usize,
    size: &'a Size,
    forge: u16,
}

impl Round<'_> {
    fn run(&self, probot: Option<&Probot>, figures: &mut Figures) -> anyhow::Result<()> {
        let folder = self.folder("bot")?;
        let mut bot = Server::bot(&folder, self.forge)?;
        figures.start_ms.push(milliseconds(bot.first_accepted(&self.delivery(Kind::Command, 9, 0))?));
        let mut floors = Vec::new();
        for (_, mode) in PAIRS {
            let mut floor = Server::floor(mode, &self.folder("floor")?, 0)?;
            let started = floor.first_accepted(&self.delivery(Kind::Command, 9, 0))?;
            if mode == Mode::Full {
                figures.start_floor_ms.push(milliseconds(started));
            }
            floors.push(floor);
        }
        std::thread::sleep(IDLE);
        figures.idle_mib.push(bot.resident_mib()?);
        for step in 0..PAIRS.len() {
            let at = (step + self.number) % PAIRS.len();
            self.pair(at, (&bot, &folder), &floors[at], figures)?;
        }
        figures.loaded_mib.push(bot.resident_mib()?);
        drop((bot, floors));
        let mut again = Server::bot(&folder, self.forge)?;
        figures.restart_ms.push(milliseconds(again.first_accepted(&self.delivery(Kind::Command, 8, 0))?));
        drop(again);
        if let Some(probot) = probot {
            let mut server = probot.start()?;
            server.first_accepted(&self.delivery(Kind::Command, 9, 0))?;
            figures.probot.push(self.load(&server, Kind::Command, 7)?.0);
        }
        Ok(())
    }

    /// One pair, the bare receiver first in every second round.
    fn pair(
        &self,
        at: usize,
        (bot, folder): (&Server, &Path),
        floor: &Server,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        let kind = PAIRS[at].0;
        let floor_first = self.number.is_multiple_of(2);
        if floor_first {
            self.floor(at, floor, figures)?;
        }
        let before = (database_state(folder)?, wait::stored(folder)?);
        let (cpu, rate, accepted) = self.load(bot, kind, 2)?;
        figures.bot[at].push(cpu);
        let stored = wait::stored(folder)?;
        if kind == Kind::Command {
            figures.rate.push(rate);
            let new = stored - before.1;
            if u64::try_from(new).ok() != Some(accepted) {
                bail!("{accepted} commands were accepted, and {new} are in the database");
            }
        } else {
            let after = database_state(folder)?;
            let touched = after != before.0 || stored != before.1;
            let grown = (after.0 + after.1).abs_diff(before.0.0 + before.0.1);
            figures.written_bytes.push(if touched { grown.max(1) as f64 } else { 0.0 });
        }
        if !floor_first {
            self.floor(at, floor, figures)?;
        }
        Ok(())
    }

    fn floor(&self, at: usize, floor: &Server, figures: &mut Figures) -> anyhow::Result<()> {
        let (cpu, rate, _) = self.load(floor, PAIRS[at].0, 1)?;
        figures.floor[at].push(cpu);
        if PAIRS[at].1 == Mode::Full {
            figures.rate_floor.push(rate);
        }
        Ok(())
    }

    /// CPU microseconds per request, requests per second, and how many were answered in all, the warm-up included.
    fn load(&self, server: &Server, kind: Kind, series: u64) -> anyhow::Result<(f64, f64, u64)> {
        let hundreds = if kind == Kind::WrongSignature { 4 } else { 2 };
        let warm = drive(&server.target, Some(self.size.warm_up), self.source(kind, series * 2))?;
        warm.expect(hundreds)?;
        let before = server.cpu_us()?;
        let loaded = drive(&server.target, Some(self.size.load), self.source(kind, series * 2 + 1))?;
        let used = server.cpu_us()? - before;
        loaded.expect(hundreds)?;
        let answers = loaded.answers() as f64;
        Ok((used / answers, answers / loaded.took.as_secs_f64(), warm.answers() + loaded.answers()))
    }

    fn source(&self, kind: Kind, series: u64) -> impl Fn(u64) -> Option<Delivery> + 'static {
        let template = Template::of(if kind == Kind::Irrelevant { PROSE } else { COMMAND });
        move |number| Some(made(&template, kind, series, number))
    }

    fn delivery(&self, kind: Kind, series: u64, number: u64) -> Delivery {
        made(&Template::of(COMMAND), kind, series * 2, number)
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        fresh_folder(&format!("receive-{name}"))
    }
}

/// The delivery and comment ids of two series never meet.
fn made(template: &Template, kind: Kind, series: u64, number: u64) -> Delivery {
    let body = template.body(series * 40_000_000 + number);
    let authentic = kind != Kind::WrongSignature;
    Delivery { event: "issue_comment", id: delivery_id(series, number), body, authentic }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

impl Figures {
    fn tell(self, table: &mut Table) {
        let [refused, ignored, accepted] = self.bot;
        let [verify, parse, full] = self.floor;
        table.add(
            "**accepted command / bare receiver with one durable insert**, CPU",
            "×",
            ratios(&accepted, &full),
            Goal::AtMost(1.5),
        );
        if !self.probot.is_empty() {
            table.add("**accepted command / Probot**, CPU", "×", ratios(&accepted, &self.probot), Goal::AtMost(0.4));
            table.add("accepted command, Probot", "µs CPU", self.probot, Goal::None);
        }
        table.add(
            "**irrelevant event / bare receiver that parses**, CPU",
            "×",
            ratios(&ignored, &parse),
            Goal::AtMost(1.3),
        );
        table.add("wrong signature / bare receiver that verifies, CPU", "×", ratios(&refused, &verify), Goal::None);
        table.add(
            "**bytes written to the database by wrong signatures and irrelevant events**",
            "",
            self.written_bytes,
            Goal::Exactly(0.0),
        );
        table.add("accepted command, bot", "µs CPU", accepted, Goal::None);
        table.add("accepted command, bare", "µs CPU", full, Goal::None);
        table.add("irrelevant event, bot", "µs CPU", ignored, Goal::None);
        table.add("irrelevant event, bare", "µs CPU", parse, Goal::None);
        table.add("wrong signature, bot", "µs CPU", refused, Goal::None);
        table.add("wrong signature, bare", "µs CPU", verify, Goal::None);
        table.add("accepted commands each second, bot (for orientation)", "", self.rate, Goal::None);
        table.add("accepted commands each second, bare (for orientation)", "", self.rate_floor, Goal::None);
        table.add("**start to first accepted delivery, new database**", "ms", self.start_ms, Goal::AtMost(150.0));
        table.add("**start to first accepted delivery, full database**", "ms", self.restart_ms, Goal::AtMost(150.0));
        table.add("start to first accepted delivery, bare", "ms", self.start_floor_ms, Goal::None);
        table.add("**resident memory, idle**", "MiB", self.idle_mib, Goal::Exactly(20.0));
        table.add("resident memory after the load", "MiB", self.loaded_mib, Goal::None);
    }
}
