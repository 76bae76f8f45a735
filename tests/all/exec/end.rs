//! How a run ends, what ends with it, and what is kept of it.

use super::*;

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
