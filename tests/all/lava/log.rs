//! The end of a job's log, as the module reads it.

use std::sync::Arc;
use std::time::Duration;

use retest_bot::domain::{Repo, RepoKey, RunHandle, RunOrder, Timestamp};
use retest_bot::ports::{CallError, LogTail, ManualClock, Runner};
use retest_bot::runner::lava::{LavaConfig, LavaRunner, Source};
use retest_bot::sandbox::lava::LavaSandbox;

use super::{JOB, LAVA_TOKEN};

async fn tail(lava: &LavaSandbox, id: u64, bytes_max: usize) -> Result<LogTail, CallError> {
    let config = LavaConfig {
        name: "boards".into(),
        url: lava.base_url(),
        token: LAVA_TOKEN.into(),
        timeout: Duration::from_secs(5),
        suites: globset::GlobSet::empty(),
        source: Source::default(),
        url_prefixes: Vec::new(),
        callback: None,
        jobs: Vec::new(),
    };
    let clock = Arc::new(ManualClock::at(Timestamp::from_ms(0)));
    let runner = LavaRunner::new(config, clock).expect("a runner");
    let key = RepoKey { forge: "forge".into(), id: 1 };
    let repo = Repo { key, full_name: "acme/board".into(), installation: None, default_branch: None };
    let handle = RunHandle { id: id.to_string(), order: RunOrder::default(), url: None };
    runner.log_tail(&repo, &handle, bytes_max).await
}

#[tokio::test]
async fn the_end_of_a_long_log_is_kept_and_holds_no_token() {
    let lava = LavaSandbox::start(LAVA_TOKEN).await.expect("a LAVA");
    let id = lava.submit(JOB);
    assert_eq!(tail(&lava, id, 100).await, Ok(LogTail::default()), "a job in the queue has none");
    let line = |text: &str| format!("- {{\"dt\": \"x\", \"lvl\": \"target\", \"msg\": \"{text}\"}}\n");
    let log = line("boot").repeat(100_000) + &line(LAVA_TOKEN) + &line("panic");
    lava.set_log(id, &log);
    let end = tail(&lava, id, 60).await.expect("a log");
    assert!(end.cut && end.text.ends_with("\n***\npanic\n"), "{end:?}");
    assert!(matches!(tail(&lava, id + 1, 60).await, Ok(LogTail { cut: false, .. })), "no such job has no log");
}
