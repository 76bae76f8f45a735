//! One key, one process, whatever is restarted and whoever asks at once.

use super::*;

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
