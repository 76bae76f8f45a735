//! The exec runner with real processes and the real supervisor: what is promised in `docs/runners/exec.md`.
//!
//! Here stands what the stories share; `order.rs` is about what a run gets, `once.rs` about being started exactly once,
//! `end.rs` about how it ends.

mod end;
mod once;
mod order;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use retest_bot::domain::{
    ChangeKey, CommitSha, DispatchKey, JobName, JobState, Repo, RepoKey, RunHandle, RunObservation, RunOrder, RunRef,
    Timestamp, WaitOn,
};
use retest_bot::ports::{
    CallError, Clock, DispatchError, DispatchOrder, Found, JobOrder, ManualClock, Runner, SystemClock,
};
use retest_bot::runner::exec::{ExecConfig, ExecJob, ExecRunner};

const SHA: &str = "3f2c9a1d5b6e7f8091a2b3c4d5e6f70812345678";

fn job(name: &str, command: &[&str]) -> ExecJob {
    ExecJob {
        name: name.into(),
        command: command.iter().map(|&part| part.to_owned()).collect(),
        working_directory: None,
        time_limit: Duration::from_secs(60),
        environment: BTreeMap::new(),
        overrides: Vec::new(),
        log_bytes_max: 1 << 20,
        infrastructure_codes: Vec::new(),
    }
}

fn script(name: &str, text: &str) -> ExecJob {
    job(name, &["/bin/sh", "-c", text])
}

/// A state directory and the jobs declared on it; `runner` is a new bot each time.
struct Bench {
    state: tempfile::TempDir,
    jobs: Vec<ExecJob>,
    processes_max: usize,
}

impl Bench {
    fn with(jobs: impl IntoIterator<Item = ExecJob>) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        Self { state, jobs: jobs.into_iter().collect(), processes_max: 8 }
    }

    fn config(&self) -> ExecConfig {
        ExecConfig {
            name: "local".into(),
            state_directory: self.state.path().to_owned(),
            supervisor: PathBuf::from(env!("CARGO_BIN_EXE_retest-bot")),
            jobs: self.jobs.clone(),
            processes_max: self.processes_max,
            grace: Duration::from_millis(300),
        }
    }

    fn runner(&self) -> ExecRunner {
        ExecRunner::open(self.config(), Arc::new(SystemClock)).expect("a good configuration")
    }

    fn dir(&self, key: &str) -> PathBuf {
        self.state.path().join(key)
    }
}

fn repo() -> Repo {
    Repo {
        key: RepoKey { forge: "hub".into(), id: 7 },
        full_name: "kernel/lab".into(),
        installation: None,
        default_branch: None,
    }
}

fn order(job: &str, key: &str) -> DispatchOrder {
    order_with(job, key, &[])
}

fn order_with(job: &str, key: &str, overrides: &[(&str, &str)]) -> DispatchOrder {
    DispatchOrder {
        repo: repo(),
        change: ChangeKey { repo: repo().key, number: 12 },
        sha: CommitSha::parse(SHA).expect("full"),
        group: None,
        jobs: vec![JobOrder {
            key: key.into(),
            job: job.into(),
            scope: String::new(),
            source_run: Some(RunRef::new("earlier")),
            source_order: RunOrder(1, 0),
            overrides: overrides.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
        }],
        whole_group: false,
    }
}

/// Looks again and again until the answer is there, for at most 20 s.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(Instant::now() < end, "not within 20 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn start(runner: &ExecRunner, job: &str, key: &str) -> RunHandle {
    start_order(runner, &order(job, key)).await
}

async fn start_order(runner: &ExecRunner, order: &DispatchOrder) -> RunHandle {
    let mut started = runner.dispatch(order).await.expect("taken");
    let (key, handle) = started.runs.pop().expect("one run");
    assert_eq!((&key, started.runs.len()), (&order.jobs[0].key, 0));
    handle
}

async fn observe(runner: &ExecRunner, handle: &RunHandle) -> RunObservation {
    // Infrastructure codes belong to the job named in the order; the tests that use them ask for it themselves.
    runner.observe(&repo(), &JobName::new("any"), handle).await.expect("known")
}

async fn end(runner: &ExecRunner, handle: &RunHandle) -> RunObservation {
    eventually("the run ends", || async { Some(observe(runner, handle).await).filter(|o| o.state.is_final()) }).await
}

async fn running(runner: &ExecRunner, handle: &RunHandle) {
    eventually("the run executes", || async {
        (observe(runner, handle).await.state == JobState::Running).then_some(())
    })
    .await;
}

async fn log(runner: &ExecRunner, handle: &RunHandle) -> String {
    runner.log_tail(&repo(), handle, 1 << 20).await.expect("a log").text
}

async fn file(path: &Path) -> String {
    eventually(&format!("{} is written", path.display()), || async {
        std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
    })
    .await
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn all_gone(pids: &[String]) {
    eventually("every process is gone", || async { pids.iter().all(|pid| !is_alive(pid)).then_some(()) }).await;
}

/// Starts a grandchild that ignores TERM in a session of its own, writes both pids, and goes on for a minute.
fn stubborn(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "setsid sh -c 'trap \"\" TERM; echo $$ > {dir}/grandchild; for _ in $(seq 1200); do sleep 0.05; done' & \
         trap '' TERM; echo $$ > {dir}/child; for _ in $(seq 1200); do sleep 0.05; done"
    )
}
