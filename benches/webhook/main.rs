//! `cargo bench --bench webhook`: this program beside bare receivers of the same duty, as ratios inside one run.
//!
//! It starts the release binary and the bare receivers of `floor.rs` (this very program, started again with a hidden
//! argument), feeds both from the same generator, and prints one table. It exits with 1 when a goal is missed by more
//! than the noise margin. It talks to 127.0.0.1 only, writes below the target folder only, and every loop is bounded.
//! What the figures mean and how far they can be trusted: `docs/performance.md`.
//! Read next: `receive.rs` (receiving), `dispatch.rs` (comment to dispatch), `inside.rs` (planner and parser).

mod dispatch;
mod floor;
mod forge;
mod inside;
mod load;
mod payload;
mod peers;
mod process;
mod receive;
mod table;
mod wait;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use table::Table;

/// Measures retest-bot beside bare receivers and prints ratios.
#[derive(Debug, Parser)]
#[command(name = "webhook")]
struct Cli {
    #[command(subcommand)]
    hidden: Option<Hidden>,
    #[command(flatten)]
    wanted: Wanted,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Subcommand)]
enum Hidden {
    /// Runs a bare receiver; the driver starts it.
    #[command(hide = true)]
    Floor(floor::FloorArgs),
}

#[derive(Clone, Debug, Args)]
struct Wanted {
    /// A small version in about half a minute, to see that all parts work; its figures prove little.
    #[arg(long)]
    quick: bool,
    /// Also measure Probot, installed from npm below the target folder.
    #[arg(long)]
    peers: bool,
    /// Rounds of the receivers, at least 3.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only this part: receive, dispatch or inside.
    #[arg(long)]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Planner and parser.
    Inside,
    /// Receivers, start and memory.
    Receive,
    /// Comment to dispatch.
    Dispatch,
}

/// How much is measured.
#[derive(Clone, Debug)]
struct Size {
    rounds: usize,
    load: Duration,
    warm_up: Duration,
    jobs: Vec<u64>,
    commands: u64,
    peers: bool,
}

impl Size {
    fn of(wanted: &Wanted) -> Self {
        let rounds = wanted.rounds.clamp(3, 20);
        if wanted.quick {
            let (load, warm_up) = (Duration::from_millis(800), Duration::from_millis(200));
            Self { rounds, load, warm_up, jobs: vec![10, 1_000], commands: 3, peers: wanted.peers }
        } else {
            let (load, warm_up) = (Duration::from_secs(4), Duration::from_secs(1));
            Self { rounds, load, warm_up, jobs: vec![10, 1_000, 100_000], commands: 9, peers: wanted.peers }
        }
    }
}

/// Measures one part and adds its rows.
type Measure<'a> = &'a dyn Fn(&mut Table) -> anyhow::Result<()>;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if let Some(Hidden::Floor(args)) = cli.hidden {
        floor::run(&args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = Size::of(&cli.wanted);
    let runs = |part| cli.wanted.only.is_none_or(|only| only == part);
    process::pin_driver();
    let mut table = Table::default();
    let parts: [(Part, Measure<'_>); 3] = [
        (Part::Inside, &|table| inside::measure(table)),
        (Part::Receive, &|table| receive::measure(&size, table)),
        (Part::Dispatch, &|table| dispatch::measure(&size, table)),
    ];
    let mut broken = false;
    for (part, measure) in parts.into_iter().filter(|(part, _)| runs(*part)) {
        // What the other parts have found is printed all the same.
        if let Err(error) = measure(&mut table) {
            table.note(format!("**{part:?} could not be measured**: {error:#}"));
            broken = true;
        }
    }
    table.note(process::machine());
    let met = table.print();
    Ok(if met && !broken { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
