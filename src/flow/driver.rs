//! Runs the loops: woken by news, and by the clock when something is due.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::world::{FlowError, Progress, World};

/// Longest sleep of a loop that nobody wakes.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Shortest sleep: what is due at this moment may be in another task's hands.
const SLEEP_MIN: Duration = Duration::from_millis(20);

/// Sleep of the loop whose put-off work has no look-up.
const POLL: Duration = Duration::from_secs(2);

/// Pause after a pass that found something to do.
const BREATH: Duration = Duration::from_millis(2);

/// Sleep after a pass that failed.
const SLEEP_FAILED: Duration = Duration::from_secs(2);

/// How often old rows are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

/// The running loops.
#[derive(Debug)]
pub struct Driver {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

/// One pass of one loop.
type Pass = fn(Arc<World>) -> std::pin::Pin<Box<dyn Future<Output = Result<Progress, FlowError>> + Send>>;

/// What a loop sleeps for.
#[derive(Clone, Copy)]
enum Due {
    /// The next poll: what it waits for is told by a wake-up, but may have been put off.
    Poll,
    /// The next retry that may be started.
    Starts,
    /// The next run to be looked at.
    Looks,
    /// The next post that is due.
    Posts,
    /// The next failure to be judged.
    Judged,
}

type Loop = (&'static str, Pass, fn(&World) -> &Notify, Due);

impl Driver {
    /// Starts all loops.
    pub fn start(world: &Arc<World>) -> Self {
        let mut driver = Self { tasks: JoinSet::new(), stop: CancellationToken::new() };
        let loops: [Loop; 5] = [
            ("intake", |w| Box::pin(async move { w.intake_pass().await }), |w| &w.wake.intake, Due::Poll),
            ("dispatch", |w| Box::pin(async move { w.dispatch_pass().await }), |w| &w.wake.dispatch, Due::Starts),
            ("follow", |w| Box::pin(async move { w.follow_pass().await }), |w| &w.wake.follow, Due::Looks),
            ("report", |w| Box::pin(async move { w.report_pass().await }), |w| &w.wake.report, Due::Posts),
            ("judge", |w| Box::pin(async move { w.judge_pass().await }), |w| &w.wake.judge, Due::Judged),
        ];
        for one in loops {
            let (world, stop) = (Arc::clone(world), driver.stop.clone());
            driver.tasks.spawn(async move { run(&world, one, stop).await });
        }
        let (house, stop) = (Arc::clone(world), driver.stop.clone());
        driver.tasks.spawn(async move { keep_house(&house, stop).await });
        let (reaped, stop) = (Arc::clone(world), driver.stop.clone());
        driver.tasks.spawn(async move {
            tokio::select! { () = stop.cancelled() => {}, () = reaped.reap_tasks() => {} }
        });
        driver
    }

    /// Ends the loops, then lets the work under way end within `patience`; what does not is settled by the next life.
    pub async fn stop(mut self, world: &World, patience: Duration) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        if tokio::time::timeout(patience, world.tasks_done()).await.is_err() {
            tracing::warn!("work was still under way at the end of the drain time; the next start settles it");
        }
    }
}

async fn run(world: &Arc<World>, (name, pass, wake, due): Loop, stop: CancellationToken) {
    loop {
        let sleep = match pass(Arc::clone(world)).await {
            Ok(progress) if progress.done > 0 => {
                // The work that it began goes first, and news that comes meanwhile is taken together.
                tokio::time::sleep(BREATH).await;
                Duration::ZERO
            }
            Ok(_) => until_due(world, due).await,
            Err(error) => {
                tracing::error!(%error, pass = name, "a pass failed; it is tried again");
                SLEEP_FAILED
            }
        };
        if stop.is_cancelled() {
            return;
        }
        if sleep.is_zero() {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake(world).notified() => {}
            () = tokio::time::sleep(sleep) => {}
        }
    }
}

/// Time until something stored is due; never long, because other processes and clocks exist.
async fn until_due(world: &World, due: Due) -> Duration {
    let next = match due {
        Due::Poll => return POLL,
        Due::Starts => world.store.next_start().await,
        Due::Looks => world.store.next_look().await,
        Due::Posts => world.store.next_report().await,
        Due::Judged => world.store.next_failure().await,
    };
    let now = world.now();
    match next {
        Ok(Some(next)) => next.since(now).clamp(SLEEP_MIN, SLEEP_MAX),
        Ok(None) => SLEEP_MAX,
        Err(_) => SLEEP_FAILED,
    }
}

async fn keep_house(world: &Arc<World>, stop: CancellationToken) {
    let mut forget = tokio::time::interval(FORGET_EVERY);
    let mut catch_up = tokio::time::interval(world.rules.catch_up_every);
    let mut count = tokio::time::interval(Duration::from_secs(15));
    tokio::select! { () = stop.cancelled() => return, () = world.learn_selves() => {} }
    loop {
        let result = tokio::select! {
            () = stop.cancelled() => return,
            _ = forget.tick() => forget_old(world).await,
            _ = catch_up.tick() => tokio::select! {
                () = stop.cancelled() => return,
                result = world.catch_up_pass() => result.map(|_| ()),
            },
            _ = count.tick() => look_around(world).await,
        };
        if let Err(error) = result {
            tracing::error!(%error, "housekeeping failed; it is tried again");
        }
    }
}

/// Counts what is open, and remembers which forge wants to be left alone, so that a restart does not forget it.
async fn look_around(world: &World) -> Result<(), FlowError> {
    world.metrics.set_open(&world.store.count_open().await?);
    world.remember_throttles().await
}

async fn forget_old(world: &World) -> Result<(), FlowError> {
    // Never less than the longest span of a limit.
    let before = world.now().minus(world.rules.retention.max(crate::decide::DAY));
    for entry in &world.runners {
        let runner = Arc::clone(&entry.runner);
        match tokio::task::spawn_blocking(move || runner.sweep(before)).await {
            Ok(Err(error)) => {
                tracing::warn!(runner = %entry.runner.name(), %error, "old runs could not be cleared away")
            }
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(runs)) => tracing::info!(runner = %entry.runner.name(), runs, "cleared away old runs"),
        }
    }
    let gone = world.store.forget_before(before).await?;
    if gone > 0 {
        tracing::info!(rows = gone, "forgot what is older than the retention");
    }
    Ok(())
}

/// Runs passes until none finds anything to do. For stories and scripts: no loop runs beside it.
///
/// # Errors
/// The first failure of a pass.
pub async fn run_until_idle(world: &Arc<World>) -> Result<usize, FlowError> {
    let mut total = 0;
    loop {
        let mut done = world.intake_pass().await?.done;
        world.tasks_done().await?;
        done += world.dispatch_pass().await?.done;
        world.tasks_done().await?;
        done += world.follow_pass().await?.done;
        world.tasks_done().await?;
        done += world.judge_pass().await?.done;
        world.tasks_done().await?;
        done += world.report_pass().await?.done;
        world.tasks_done().await?;
        if done == 0 {
            return Ok(total);
        }
        total += done;
    }
}
