//! What a run gets: arguments, environment, overrides; and what is refused before anything starts.

use super::*;

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
