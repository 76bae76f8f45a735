//! `retest-bot serve`: runs until it is told to stop. The first SIGTERM or SIGINT drains, the second stops at once.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args as ClapArgs;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::app::{App, Life};
use crate::flow::{Point, StopAt};
use crate::ports::SystemClock;
use crate::settings::{LogFormat, Settings};

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(long, short, default_value = "retest-bot.toml", env = "RETEST_CONFIG")]
    config: PathBuf,
}

/// The variable by which a crash test names the point where the process kills itself.
const KILL_AT: &str = "RETEST_KILL_AT";

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = super::load(&args.config)?;
    start_log(&settings)?;
    runtime(settings.server.worker_threads)?.block_on(serve(settings))
}

/// A runtime with as many workers as the operator wants, one per core by default.
pub(super) fn runtime(workers: Option<usize>) -> anyhow::Result<tokio::runtime::Runtime> {
    // One provider is compiled in; saying so keeps a future dependency from making the choice ambiguous.
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    builder.enable_all().build().context("the runtime cannot be started")
}

/// The filter of the log as configured.
///
/// octocrab logs each failed request itself; failures are logged once, where they are handled.
pub(super) fn log_filter(settings: &Settings) -> anyhow::Result<EnvFilter> {
    let text = format!("{},octocrab=off", settings.log.filter);
    EnvFilter::try_new(text)
        .map_err(|error| anyhow::anyhow!("log.filter: {error}; for example `info` or `info,retest_bot=debug`"))
}

fn start_log(settings: &Settings) -> anyhow::Result<()> {
    let filter = log_filter(settings)?;
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
    match settings.log.format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.init(),
    }
    Ok(())
}

async fn serve(settings: Settings) -> anyhow::Result<ExitCode> {
    let mut life = Life::ordinary(Arc::new(SystemClock))?;
    if let Ok(point) = std::env::var(KILL_AT) {
        let point: Point = point.parse().map_err(|error| anyhow::anyhow!("{KILL_AT}: {error}"))?;
        tracing::warn!(point = point.as_str(), "this process will kill itself: a crash test asked for it");
        life.stop_at = StopAt::Kill(point);
    }
    let listen = settings.server.listen;
    let listener =
        TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen} (server.listen)"))?;
    let metrics = match settings.metrics.listen {
        Some(address) => {
            let listener = TcpListener::bind(address).await;
            Some(listener.with_context(|| format!("cannot listen on {address} (metrics.listen)"))?)
        }
        None => None,
    };
    for line in settings.summary().lines() {
        tracing::info!("{line}");
    }
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let app = App::build(&settings, life).await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone()));
    app.serve(listener, metrics, stop).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The first signal asks for a graceful stop, the second ends the process.
async fn stop_on_signal(stop: CancellationToken) {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        tracing::error!("signals cannot be listened to; stop the program with SIGKILL, nothing is lost by it");
        return;
    };
    for round in 0..2 {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        if round == 0 {
            tracing::info!("stopping: running requests and passes end first; a second signal stops at once");
            stop.cancel();
        }
    }
    tracing::warn!("stopped at once, as asked; what was accepted is stored");
    std::process::exit(130);
}
