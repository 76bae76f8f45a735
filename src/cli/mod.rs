//! The command line: one binary, `retest-bot`.
//!
//! It turns arguments into calls and results into exit codes: 0 well, 1 the answer is no, 2 wrong use.

mod check;
mod demo;
mod explain;
mod parse;
mod plan;
mod retry;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Restarts failed CI jobs on `/retest`, follows them, and posts the truth back.
#[derive(Debug, Parser)]
#[command(name = "retest-bot", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the bot.
    Serve(serve::Args),
    /// Run the bot with a forge and a runner in this process: see it work, no account needed.
    Demo(demo::Args),
    /// Check a configuration file, or a repository's policy, and say what it comes to.
    Check {
        /// The configuration file.
        #[arg(long, short, default_value = "retest-bot.toml", env = "RETEST_CONFIG")]
        config: PathBuf,
        /// Check this policy of a repository (`.retest.toml`) instead; no configuration is needed for it.
        #[arg(long)]
        policy: Option<PathBuf>,
    },
    /// Read comment text and print the commands in it as JSON.
    Parse(parse::Args),
    /// Decide a comment on a snapshot, offline: which jobs start, which are left and why.
    Plan(plan::Args),
    /// Say what a saved webhook would do.
    Explain(explain::Args),
    /// Ask a running bot for retries of a build or revision; a client of its REST API.
    Retry(Box<retry::Args>),
    /// Show the retries of a running bot.
    Retries(retry::ListArgs),
    /// Show which jobs fail for no reason of the change, how often, and what that costs.
    Flakes(retry::FlakesArgs),
    /// Print the JSON Schema of the configuration file, or of a repository's policy.
    Schema {
        /// Of which file.
        #[arg(value_enum, default_value_t = SchemaOf::Configuration)]
        of: SchemaOf,
    },
    /// Copy the database of a running bot to a new file.
    Backup {
        /// The configuration file.
        #[arg(long, short, default_value = "retest-bot.toml", env = "RETEST_CONFIG")]
        config: PathBuf,
        /// The database file itself: then no configuration, and none of its secrets, is needed.
        #[arg(long)]
        database: Option<PathBuf>,
        /// The copy; it must not exist.
        target: PathBuf,
    },
    /// Watches one local process (used by the exec runner).
    #[command(hide = true)]
    ExecSupervise {
        /// The run's directory.
        directory: PathBuf,
    },
}

/// A file with a schema.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SchemaOf {
    /// The operator's configuration.
    Configuration,
    /// A repository's policy.
    Policy,
}

/// Runs the command of the process's arguments.
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Check { policy: Some(policy), .. } => check::policy(&policy),
        Command::Check { config, policy: None } => check::run(&config),
        Command::Parse(args) => parse::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Retry(args) => retry::run(&args),
        Command::Retries(args) => retry::list(&args),
        Command::Flakes(args) => retry::flakes(&args),
        Command::Schema { of: SchemaOf::Configuration } => print_line(&pretty(&crate::settings::json_schema())),
        Command::Schema { of: SchemaOf::Policy } => print_line(&pretty(&crate::settings::policy_schema())),
        Command::Backup { config, database, target } => check::backup(&config, database.as_deref(), &target),
        Command::ExecSupervise { directory } => return crate::runner::exec::supervise(&directory),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("retest-bot: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints to standard output; a closed pipe is no error worth telling.
fn print_line(text: &str) -> anyhow::Result<ExitCode> {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Reads a file, or standard input for `-`.
fn read_input(path: &std::path::Path) -> anyhow::Result<String> {
    use anyhow::Context;
    if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).context("standard input cannot be read")
    } else {
        std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
    }
}

fn load(path: &std::path::Path) -> anyhow::Result<crate::settings::Settings> {
    crate::settings::Settings::load(path)
        .map_err(|errors| anyhow::anyhow!("the configuration `{}` cannot be used:\n{errors}", path.display()))
}
