//! `retest-bot demo`: the bot, a GitHub, a GitLab and real local processes, all in this process. No account, no network.
//!
//! A person opens the page, types `/retest lava-x86`, and watches the status go from red over pending to green.
//! `--script` plays the same on a terminal and ends with 1 when something goes wrong. Read next: `stage.rs`.

mod markdown;
mod page;
mod script;
mod stage;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args as ClapArgs;

use stage::Stage;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Where the page is served.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Play the stories on the terminal instead of serving a page.
    #[arg(long)]
    script: bool,
    /// Show the bot's own log.
    #[arg(long, short)]
    verbose: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.verbose {
        tracing_subscriber::fmt().with_env_filter("info,octocrab=off").with_writer(std::io::stderr).init();
    }
    super::serve::runtime(None)?.block_on(async {
        if args.script {
            return script::play(&Stage::set().await?).await;
        }
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}; choose another address with --listen", args.listen))?;
        let stage = Stage::set().await?;
        super::print_line(&format!("The demo is up: http://{}\nPress Ctrl-C to end it.", listener.local_addr()?))?;
        let server = axum::serve(listener, page::router(stage));
        tokio::select! {
            result = server => result.context("the page")?,
            result = tokio::signal::ctrl_c() => result.context("Ctrl-C cannot be listened to")?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
