//! `retest-bot parse`: comment text in, the commands of it out, as JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use retest_commands::{Grammar, GrammarSettings, Parsed};
use serde_json::{Value, json};

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// The comment; `-` (the default) reads standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// A configuration whose prefix, mentions and aliases are used.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// Print JSON (the only form there is; accepted so that scripts can say what they expect).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = super::read_input(&args.file)?;
    let grammar = match &args.config {
        Some(path) => crate::app::grammar(&super::load(path)?)?,
        None => Grammar::new(GrammarSettings::default()).map_err(|error| anyhow::anyhow!("{error}"))?,
    };
    let parsed = retest_commands::parse(&text, &grammar);
    let _ = args.json;
    super::print_line(&serde_json::to_string(&as_json(&parsed))?)
}

/// The JSON of DESIGN section 11.
pub(super) fn as_json(parsed: &Parsed) -> Value {
    let command = |one: &retest_commands::ParsedCommand| {
        let view = one.command.view();
        json!({ "name": one.command.name(), "args": view.args, "options": view.options, "flags": view.flags, "line": one.line })
    };
    let mistake = |m: &retest_commands::Mistake| json!({ "kind": m.kind.as_str(), "text": m.text, "hint": m.hint, "line": m.line });
    json!({
        "commands": parsed.commands.iter().map(command).collect::<Vec<_>>(),
        "mistakes": parsed.mistakes.iter().map(mistake).collect::<Vec<_>>(),
    })
}
