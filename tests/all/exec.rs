//! The exec runner with real processes and the real supervisor: what is promised in `docs/runners/exec.md`.

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

#[tokio::test]
async fn a_run_ends_as_its_process_ends() {
    let table = [
        (script("ok", "exit 0"), JobState::Passed, None),
        (script("bad", "exit 3"), JobState::Failed, Some("exit code 3")),
        (script("crash", "kill -SEGV $$"), JobState::Failed, Some("killed by signal 11")),
        (job("missing", &["/no/such/program"]), JobState::Infrastructure, Some("could not start: `/no/such/program`")),
        (
            ExecJob { working_directory: Some("/no/such/directory".into()), ..script("nowhere", "exit 0") },
            JobState::Infrastructure,
            Some("could not start: the working directory `/no/such/directory` is missing"),
        ),
        (
            ExecJob { infrastructure_codes: vec![75], ..script("unsure", "exit 75") },
            JobState::Infrastructure,
            Some("exit code 75"),
        ),
    ];
    let bench = Bench::with(table.iter().map(|(job, _, _)| job.clone()));
    let runner = bench.runner();
    for (job, state, cause) in table {
        let handle = start(&runner, job.name.as_str(), &format!("end-{}", job.name)).await;
        end(&runner, &handle).await;
        let seen = runner.observe(&repo(), &job.name, &handle).await.expect("known");
        assert_eq!(seen.state, state, "{}", job.name);
        assert_eq!(seen.cause.is_some(), cause.is_some(), "{}: {:?}", job.name, seen.cause);
        assert!(seen.cause.unwrap_or_default().starts_with(cause.unwrap_or_default()), "{}", job.name);
        assert_eq!((seen.order, seen.run), (handle.order, Some(RunRef::new(handle.id))));
    }
}

#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    let tricks = ["; touch pwned", "$(touch pwned)", "`touch pwned`", "*", "a b", "", "| sh", "$HOME", "\n"];
    let command: Vec<&str> = ["printf", "<%s>"].into_iter().chain(tricks).collect();
    let bench = Bench::with([job("print", &command)]);
    let runner = bench.runner();
    let handle = start(&runner, "print", "argv-1").await;
    assert_eq!(end(&runner, &handle).await.state, JobState::Passed);
    let expected: String = tricks.iter().map(|trick| format!("<{trick}>")).collect();
    assert_eq!(log(&runner, &handle).await, expected);
    let made = std::fs::read_dir(bench.dir("argv-1").join("work")).expect("its own directory").count();
    assert_eq!(made, 0, "nothing was executed");
}

#[tokio::test]
async fn a_run_gets_the_revision_and_its_overrides_and_nothing_else_of_the_bot() {
    let mut print = job("env", &["env", "-0"]);
    print.environment = BTreeMap::from([("BOARD".into(), "x86".into()), ("KERNEL".into(), "6.1".into())]);
    print.overrides = vec!["kernel".into()];
    let bench = Bench::with([print]);
    let runner = bench.runner();
    let value = "6.12; rm -rf $HOME `id`";
    let handle = start_order(&runner, &order_with("env", "env-1", &[("kernel", value)])).await;
    assert_eq!(end(&runner, &handle).await.state, JobState::Passed);
    // `env -0` ends each entry with NUL, which a log does not show: read what was written.
    let bytes = std::fs::read(bench.dir("env-1").join("log.head")).expect("a log");
    let mut seen: BTreeMap<String, String> = bytes
        .split(|b| *b == 0)
        .filter_map(|entry| String::from_utf8_lossy(entry).split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
        .collect();
    let expected = [
        ("RETEST_FORGE", "hub"),
        ("RETEST_REPOSITORY", "kernel/lab"),
        ("RETEST_CHANGE", "12"),
        ("RETEST_SHA", SHA),
        ("RETEST_JOB", "env"),
        ("RETEST_KEY", "env-1"),
        ("RETEST_ATTEMPT", "1"),
        ("BOARD", "x86"),
        ("KERNEL", value),
    ];
    for (name, value) in expected {
        assert_eq!(seen.remove(name).as_deref(), Some(value), "{name}");
    }
    seen.retain(|name, _| !["PATH", "HOME", "LANG", "TZ", "TMPDIR"].contains(&name.as_str()));
    assert!(seen.is_empty(), "inherited: {seen:?}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the bot's own environment held more than that");
}

#[tokio::test]
async fn a_field_that_is_not_allowed_starts_nothing() {
    let mut build = script("build", "exit 0");
    build.overrides = vec!["kernel".into()];
    let bench = Bench::with([build, script("plain", "exit 0")]);
    let runner = bench.runner();
    let table = [
        ("build", "platform", "x86", "a field that the job does not have"),
        ("plain", "kernel", "6.1", "a field of another job"),
        ("build", "KERNEL", "6.1", "not the key as it is declared"),
        ("build", "kernel", "a\nb", "a line break"),
        ("build", "PATH", "/tmp", "a variable that is never left to comments"),
    ];
    for (job, key, value, why) in table {
        let refused = runner.dispatch(&order_with(job, "no-1", &[(key, value)])).await;
        assert!(matches!(refused, Err(DispatchError::Call(CallError::Refused { .. }))), "{why}: {refused:?}");
    }
    assert!(!bench.dir("no-1").exists());
    assert_eq!(runner.allowed_overrides(&"build".into()), ["kernel"]);
}

#[tokio::test]
async fn a_second_dispatch_with_the_same_key_finds_the_first_run() {
    let marks = tempfile::tempdir().expect("a directory");
    let text = format!("echo started >> {}/marks; exec sleep 300", marks.path().display());
    let bench = Bench::with([script("once", &text)]);
    let clock = ManualClock::at(Timestamp::from_ms(1_000));
    let open = || ExecRunner::open(bench.config(), Arc::new(clock.clone())).expect("good");
    let runner = open();
    let first = start(&runner, "once", "same-1").await;
    clock.advance(Duration::from_secs(9));
    assert_eq!(start(&runner, "once", "same-1").await, first, "in the same bot");
    drop(runner);
    let runner = open();
    assert_eq!(start(&runner, "once", "same-1").await, first, "in the next one");
    file(&marks.path().join("marks")).await;
    runner.cancel(&repo(), &"once".into(), &first).await.expect("cancelled");
    assert_eq!(end(&runner, &first).await.state, JobState::Cancelled);
    assert_eq!(start(&runner, "once", "same-1").await, first, "when it is over");
    assert_eq!(file(&marks.path().join("marks")).await, "started\n", "one process in all");
}

#[tokio::test]
async fn many_dispatches_of_one_key_at_once_start_one_process() {
    let marks = tempfile::tempdir().expect("a directory");
    let text = format!("echo started >> {}/marks", marks.path().display());
    let bench = Bench::with([script("once", &text)]);
    let runners = [bench.runner(), bench.runner()];
    let order = order("once", "race-1");
    let all = futures_util::future::join_all((0..20).map(|n| runners[n % 2].dispatch(&order))).await;
    let first = all[0].as_ref().expect("taken");
    assert!(all.iter().all(|one| one.as_ref() == Ok(first)), "one run: {all:?}");
    assert_eq!(end(&runners[0], &first.runs[0].1).await.state, JobState::Passed);
    assert_eq!(file(&marks.path().join("marks")).await, "started\n");
}

#[tokio::test]
async fn a_run_outlives_the_bot_and_is_found_again() {
    let gate = tempfile::tempdir().expect("a directory");
    let text = format!("echo hello; until [ -e {}/open ]; do sleep 0.02; done; exit 4", gate.path().display());
    let bench = Bench::with([script("long", &text)]);
    let first_bot = bench.runner();
    let handle = start(&first_bot, "long", "restart-1").await;
    running(&first_bot, &handle).await;
    drop(first_bot);

    let second_bot = bench.runner();
    let Found::Sent(found) = second_bot.find(&order("long", "restart-1")).await.expect("asked") else {
        panic!("the run was sent")
    };
    assert_eq!(found.runs, [(DispatchKey::new("restart-1"), handle.clone())]);
    assert_eq!(observe(&second_bot, &handle).await.state, JobState::Running);
    assert_eq!(second_bot.find(&order("long", "restart-2")).await, Ok(Found::NotSent));
    std::fs::write(gate.path().join("open"), "").expect("opened");
    assert_eq!(end(&second_bot, &handle).await.cause.as_deref(), Some("exit code 4"));
    assert_eq!(log(&second_bot, &handle).await, "hello\n");
}

/// Starts a grandchild that ignores TERM in a session of its own, writes both pids, and goes on for ever.
fn stubborn(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "setsid sh -c 'trap \"\" TERM; echo $$ > {dir}/grandchild; while :; do sleep 0.05; done' & \
         trap '' TERM; echo $$ > {dir}/child; while :; do sleep 0.05; done"
    )
}

#[tokio::test]
async fn cancelling_ends_descendants_that_ignore_term_and_left_the_group() {
    let pids = tempfile::tempdir().expect("a directory");
    let bench = Bench::with([script("stubborn", &stubborn(pids.path()))]);
    let runner = bench.runner();
    let handle = start(&runner, "stubborn", "cancel-1").await;
    let seen = [file(&pids.path().join("child")).await, file(&pids.path().join("grandchild")).await];
    assert!(seen.iter().all(|pid| is_alive(pid)));
    let job = JobName::new("stubborn");
    runner.cancel(&repo(), &job, &handle).await.expect("asked");
    runner.cancel(&repo(), &job, &handle).await.expect("asked twice");
    assert_eq!(end(&runner, &handle).await.state, JobState::Cancelled);
    assert!(!seen.iter().any(|pid| is_alive(pid)), "gone by the time the run is called cancelled");
    runner.cancel(&repo(), &job, &handle).await.expect("over already");
}

#[tokio::test]
async fn a_run_over_its_time_limit_is_ended_with_all_it_started() {
    let pids = tempfile::tempdir().expect("a directory");
    let limit = Duration::from_millis(2_500);
    let bench = Bench::with([ExecJob { time_limit: limit, ..script("slow", &stubborn(pids.path())) }]);
    let runner = bench.runner();
    let handle = start(&runner, "slow", "limit-1").await;
    let seen = end(&runner, &handle).await;
    assert_eq!((seen.state, seen.cause.as_deref()), (JobState::TimedOut, Some("over its time limit of 2s 500ms")));
    all_gone(&[file(&pids.path().join("child")).await, file(&pids.path().join("grandchild")).await]).await;
}

#[tokio::test]
async fn what_a_run_leaves_in_the_background_ends_with_it() {
    let pids = tempfile::tempdir().expect("a directory");
    let text = format!("setsid sleep 300 & echo $! > {}/left; exit 0", pids.path().display());
    let bench = Bench::with([script("daemon", &text)]);
    let runner = bench.runner();
    let handle = start(&runner, "daemon", "left-1").await;
    assert_eq!(end(&runner, &handle).await.state, JobState::Passed, "its own end counts");
    all_gone(&[file(&pids.path().join("left")).await]).await;
}

#[tokio::test]
async fn the_log_has_both_streams_without_terminal_codes_and_keeps_to_its_limit() {
    let text = "echo out; echo err >&2; printf '\\033[31mred\\033[0m\\n'; \
                i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo the end";
    let bench = Bench::with([ExecJob { log_bytes_max: 8_192, ..script("chatty", text) }]);
    let runner = bench.runner();
    let handle = start(&runner, "chatty", "log-1").await;
    assert_eq!(end(&runner, &handle).await.state, JobState::Passed);
    let kept = log(&runner, &handle).await;
    assert!(kept.starts_with("out\nerr\nred\nline 0\n") && kept.ends_with("line 19999\nthe end\n"), "{kept}");
    assert!(kept.contains("left out here"));
    let on_disk: u64 = std::fs::read_dir(bench.dir("log-1"))
        .expect("there")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("log."))
        .map(|entry| entry.metadata().expect("a file").len())
        .sum();
    assert!(on_disk <= 8_192, "{on_disk} bytes on disk");
    let tail = runner.log_tail(&repo(), &handle, 8).await.expect("a log");
    assert_eq!((tail.text.as_str(), tail.cut), ("the end\n", true));
}

#[tokio::test]
async fn no_more_processes_than_allowed_run_at_once() {
    let mut bench = Bench::with([script("wait", "exec sleep 300")]);
    bench.processes_max = 2;
    let runner = bench.runner();
    let first = start(&runner, "wait", "full-1").await;
    start(&runner, "wait", "full-2").await;
    let third = runner.dispatch(&order("wait", "full-3")).await;
    assert!(matches!(third, Err(DispatchError::Parked { on: WaitOn::Time, .. })), "{third:?}");
    assert!(!bench.dir("full-3").exists(), "nothing was done");
    drop(runner);
    let runner = bench.runner();
    let third = runner.dispatch(&order("wait", "full-3")).await;
    assert!(matches!(third, Err(DispatchError::Parked { .. })), "a new bot counts what the old one started");
    runner.cancel(&repo(), &"wait".into(), &first).await.expect("asked");
    end(&runner, &first).await;
    let third = start(&runner, "wait", "full-3").await;
    for key in ["full-2", "full-3"] {
        let handle = RunHandle { id: key.into(), ..third.clone() };
        runner.cancel(&repo(), &"wait".into(), &handle).await.expect("asked");
        end(&runner, &handle).await;
    }
}

#[tokio::test]
async fn a_run_whose_supervisor_was_killed_is_lost_and_leaves_no_process() {
    let pids = tempfile::tempdir().expect("a directory");
    let bench = Bench::with([script("stubborn", &stubborn(pids.path()))]);
    let runner = bench.runner();
    let handle = start(&runner, "stubborn", "lost-1").await;
    let seen = [file(&pids.path().join("child")).await, file(&pids.path().join("grandchild")).await];
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", seen[0].trim())).expect("alive");
    let supervisor = stat.rsplit_once(") ").expect("a line").1.split(' ').nth(1).expect("its parent").to_owned();
    let supervisor = rustix::process::Pid::from_raw(supervisor.parse().expect("a pid")).expect("a pid");
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).expect("killed");
    assert_eq!(end(&runner, &handle).await.state, JobState::Lost);
    all_gone(&seen).await;
    assert!(matches!(runner.find(&order("stubborn", "lost-1")).await, Ok(Found::Sent(_))), "it had been sent");
}

#[tokio::test]
async fn an_order_whose_supervisor_never_started_was_not_sent_and_can_be_sent_again() {
    let bench = Bench::with([script("ok", "exit 0")]);
    let mut config = bench.config();
    config.supervisor = "/bin/false".into();
    let broken = ExecRunner::open(config, Arc::new(SystemClock)).expect("good");
    let handle = start(&broken, "ok", "never-1").await;
    let seen = end(&broken, &handle).await;
    assert_eq!(seen.state, JobState::Infrastructure);
    assert_eq!(seen.cause.as_deref(), Some("could not start: the supervisor ended at once"));
    drop(broken);
    let runner = bench.runner();
    assert_eq!(runner.find(&order("ok", "never-1")).await, Ok(Found::NotSent));
    assert!(!bench.dir("never-1").exists());
    let handle = start(&runner, "ok", "never-1").await;
    assert_eq!(end(&runner, &handle).await.state, JobState::Passed);
}

#[tokio::test]
async fn a_supervisor_that_cannot_be_started_leaves_nothing_behind() {
    let bench = Bench::with([script("ok", "exit 0")]);
    let mut config = bench.config();
    config.supervisor = "/no/such/bot".into();
    let broken = ExecRunner::open(config, Arc::new(SystemClock)).expect("good");
    let failed = broken.dispatch(&order("ok", "none-1")).await;
    assert!(matches!(failed, Err(DispatchError::Call(CallError::Unreachable { .. }))), "{failed:?}");
    assert_eq!(std::fs::read_dir(bench.state.path()).expect("there").count(), 0);
}

#[tokio::test]
async fn the_supervisor_refuses_to_run_by_hand_or_twice() {
    let bench = Bench::with([script("ok", "echo ran")]);
    let runner = bench.runner();
    let handle = start(&runner, "ok", "hand-1").await;
    end(&runner, &handle).await;
    let lock = || std::fs::File::open(bench.dir("hand-1").join("lock")).expect("there");
    for (stdin, why) in [(std::process::Stdio::null(), "by hand"), (lock().into(), "a second time")] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_retest-bot"))
            .arg("exec-supervise")
            .arg(bench.dir("hand-1"))
            .stdin(stdin)
            .output()
            .expect("started");
        assert!(!output.status.success(), "{why}");
    }
    assert_eq!(log(&runner, &handle).await, "ran\n");
}

#[tokio::test]
async fn old_runs_are_swept_and_live_ones_stay() {
    let bench = Bench::with([script("ok", "exit 0"), script("wait", "exec sleep 300")]);
    let runner = bench.runner();
    let over = start(&runner, "ok", "old-1").await;
    let live = start(&runner, "wait", "old-2").await;
    end(&runner, &over).await;
    running(&runner, &live).await;
    std::fs::create_dir(bench.dir(".new-crashed")).expect("a leftover");
    let now = SystemClock.now();
    assert_eq!(runner.sweep(now.minus(Duration::from_secs(3_600))).expect("swept"), 0, "too young");
    assert_eq!(runner.sweep(now.plus(Duration::from_secs(1))).expect("swept"), 1);
    assert!(!bench.dir("old-1").exists() && !bench.dir(".new-crashed").exists());
    let gone = runner.observe(&repo(), &"ok".into(), &over).await;
    assert!(matches!(gone, Err(CallError::Refused { .. })), "{gone:?}");
    assert_eq!(observe(&runner, &live).await.state, JobState::Running);
    runner.cancel(&repo(), &"wait".into(), &live).await.expect("asked");
    end(&runner, &live).await;
}

#[tokio::test]
async fn attempts_are_counted_per_job_and_revision_across_restarts() {
    let bench = Bench::with([script("count", "echo $RETEST_ATTEMPT"), script("other", "echo $RETEST_ATTEMPT")]);
    for (job, key, attempt) in [("count", "n-1", "1\n"), ("count", "n-2", "2\n"), ("other", "n-3", "1\n")] {
        let runner = bench.runner();
        let handle = start(&runner, job, key).await;
        end(&runner, &handle).await;
        assert_eq!(log(&runner, &handle).await, attempt, "{key}");
    }
}

#[tokio::test]
async fn what_cannot_be_started_here_is_refused_in_words() {
    let bench = Bench::with([script("ok", "exit 0")]);
    let runner = bench.runner();
    let mut two = order("ok", "two-1");
    two.jobs.extend(order("ok", "two-2").jobs);
    for (order, why) in [
        (order("lint", "word-1"), "a job that is not declared"),
        (order("ok", "../escape"), "a key that names another place"),
        (order("ok", ""), "no key"),
        (two, "two jobs at once"),
    ] {
        let refused = runner.dispatch(&order).await;
        assert!(matches!(refused, Err(DispatchError::Call(CallError::Refused { .. }))), "{why}: {refused:?}");
    }
    assert_eq!(std::fs::read_dir(bench.state.path()).expect("there").count(), 0);
}
