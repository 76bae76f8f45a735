//! Everything the client asks of GitHub is what GitHub's own description allows.

use retest_bot::domain::{
    ChangeKey, CommentKind, CommentRef, CommitSha, DispatchKey, JobName, RunOrder, RunRef, Timestamp,
};
use retest_bot::ports::{
    CheckPost, DispatchOrder, Forge as _, IssuePost, JobOrder, Reaction, ReportPost, Runner as _, StatusPost,
    StatusState,
};
use retest_bot::sandbox::github::{NewJob, NewPull, NewWorkflow};

use super::{HEAD, REPO, START_MS, Site, app};
use crate::prism;

/// Asks everything that the forge asks.
async fn ask_the_forge(site: &Site, number: u64, comment: u64) {
    let (forge, repo) = (&site.forge, &site.repo);
    let key = ChangeKey { repo: repo.key.clone(), number };
    forge.learn_own_login().await.expect("our name");
    forge.role(repo, &site.actor("ann")).await.expect("a role");
    let change = forge.change(repo, number).await.expect("a change");
    forge.list_jobs(repo, &change).await.expect("jobs");
    forge.required_jobs(repo, "release/1.0").await.expect("names");
    let said = CommentRef { kind: CommentKind::Issue, id: comment };
    forge.react(repo, &key, &said, Reaction::Started).await.expect("reacted");
    let status = StatusPost {
        context: "lava-x86".into(),
        state: StatusState::Pending,
        description: "waiting".into(),
        target_url: Some("https://bot.example/r/1".into()),
    };
    forge.post_status(repo, &change, &change.head, &status).await.expect("a status");
    let mut check = CheckPost {
        name: "retest".into(),
        state: StatusState::Running,
        title: "t".into(),
        summary: "s".into(),
        external_id: "1".into(),
        buttons: vec![("retest-failed".into(), "Retest failed".into(), "Starts the failed jobs again".into())],
        details_url: Some("https://bot.example/r/1".into()),
    };
    let id = forge.post_check(repo, &change.head, None, &check).await.expect("a check run");
    check.state = StatusState::Failure;
    forge.post_check(repo, &change.head, id, &check).await.expect("an updated check run");
    let mut report =
        ReportPost { body: "<!-- r -->\n1".into(), marker: "<!-- r -->".into(), known: None, internal: false };
    report.known = Some(forge.post_report(repo, &key, &report).await.expect("a report"));
    forge.post_report(repo, &key, &report).await.expect("an edited report");
    forge.missed_comments(repo, Timestamp::from_ms(START_MS)).await.expect("comments");
    ask_for_issues(site).await;
}

async fn ask_for_issues(site: &Site) {
    let (forge, repo) = (&site.forge, &site.repo);
    let post = |number, text: &str, label: &str| IssuePost {
        number,
        title: Some("Flake: `unit`".into()),
        body: Some(text.into()),
        labels: vec![label.into()],
    };
    let made = forge.put_issue(repo, &post(None, "text", "flake")).await.expect("an issue");
    forge.put_issue(repo, &post(Some(made.number), "more text", "lab")).await.expect("a changed issue");
    assert_eq!(forge.labelled_issues(repo, "flake").await.expect("issues").len(), 1);
    assert!(forge.issue(repo, made.number).await.expect("an answer").is_some());
    assert_eq!(forge.issue(repo, 999).await, Ok(None));
    let mut comment =
        ReportPost { body: "<!-- f -->\n1".into(), marker: "<!-- f -->".into(), known: None, internal: false };
    for _ in 0..2 {
        comment.known = Some(forge.post_issue_comment(repo, made.number, &comment).await.expect("a comment"));
    }
}

/// Asks everything that the runner asks.
async fn ask_the_runner(site: &Site, number: u64) {
    let workflow = NewWorkflow {
        name: "CI".into(),
        path: ".github/workflows/ci.yml".into(),
        event: "pull_request".into(),
        jobs: vec![NewJob { name: "unit".into(), needs: Vec::new() }],
        needs_approval: false,
    };
    let run = site.sandbox.start_workflow(REPO, HEAD, workflow);
    for (attempt, whole_group) in [(1, false), (2, true)] {
        site.sandbox.finish_job(run, "unit", "failure");
        let id = site.sandbox.jobs(REPO, HEAD).iter().map(|job| job.id).max().expect("a job");
        let job = JobName::new("unit");
        let order = DispatchOrder {
            repo: site.repo.clone(),
            change: ChangeKey { repo: site.repo.key.clone(), number },
            sha: CommitSha::parse(HEAD).expect("a commit"),
            group: Some(run.to_string()),
            jobs: vec![JobOrder {
                key: DispatchKey::new("k"),
                job: job.clone(),
                scope: "CI".into(),
                source_run: Some(RunRef::new(format!("{run}/{attempt}/{id}"))),
                source_order: RunOrder(run as i64, attempt),
                overrides: Default::default(),
            }],
            whole_group,
        };
        let handle = site.runner.dispatch(&order).await.expect("taken").runs.remove(0).1;
        site.runner.dispatch(&order).await.expect_err("already running");
        site.runner.find(&order).await.expect("found");
        site.runner.observe(&site.repo, &job, &handle).await.expect("observed");
        site.runner.cancel(&site.repo, &job, &handle).await.expect("cancelled");
    }
}

#[tokio::test]
async fn no_request_of_ours_and_no_answer_to_it_breaks_githubs_description() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let upstream = format!("http://{}", listener.local_addr().expect("an address"));
    let referee = prism::start(&upstream).await;
    let site = Site::behind(app(), listener, &referee.url).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let comment = site.sandbox.comment(REPO, number, "ann", "/retest");
    site.sandbox.required(REPO, "release/1.0", &["unit"]);
    site.sandbox.foreign_check(REPO, HEAD, "other-ci", "e2e", Some("failure"));
    ask_the_forge(&site, number, comment).await;
    ask_the_runner(&site, number).await;
    // The description lists 304 for some reads only; GitHub's guide to conditional requests promises it for all.
    let violations: Vec<String> = referee.violations().into_iter().filter(|line| !line.contains(" 304 [")).collect();
    assert_eq!(violations, Vec::<String>::new());
}
