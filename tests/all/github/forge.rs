//! The forge: rights, changes, jobs, and everything that is said on GitHub.

use std::time::Duration;

use http::Method;
use retest_bot::domain::{
    Actor, ChangeKey, CommentKind, CommentRef, ForgeEvent, JobState, Origin, Role, Team, Timestamp,
};
use retest_bot::ports::{CallError, CheckPost, FileNow, Forge as _, Reaction, ReportPost, StatusPost, StatusState};
use retest_bot::sandbox::github::{NewJob, NewPull, NewWorkflow};
use retest_bot::sandbox::wire::{Fault, Reply};

use super::{HEAD, REPO, START_MS, Site, app, token};

const MARKER: &str = "<!-- retest-bot:report -->";

fn workflow(name: &str, jobs: &[&str]) -> NewWorkflow {
    let job = |name: &&str| NewJob { name: (*name).into(), needs: Vec::new() };
    NewWorkflow {
        name: name.into(),
        path: format!(".github/workflows/{name}.yml"),
        event: "pull_request".into(),
        jobs: jobs.iter().map(job).collect(),
        needs_approval: false,
    }
}

fn report(known: Option<u64>, text: &str) -> ReportPost {
    ReportPost { body: format!("{MARKER}\n{text}"), marker: MARKER.into(), known, internal: false }
}

fn key(site: &Site, number: u64) -> ChangeKey {
    ChangeKey { repo: site.repo.key.clone(), number }
}

#[tokio::test]
async fn a_role_belongs_to_the_account_and_not_to_the_login() {
    let site = Site::new(app()).await;
    for (login, role) in [("ann", "write"), ("bob", "maintain"), ("cem", "triage"), ("dan", "admin")] {
        site.sandbox.set_role(REPO, login, role);
        assert_eq!(site.forge.role(&site.repo, &site.actor(login)).await, Ok(role.parse().expect("a role")), "{login}");
    }
    let taken_over = Actor { id: 424_242, ..site.actor("dan") };
    assert_eq!(site.forge.role(&site.repo, &taken_over).await, Ok(Role::None), "a renamed admin's old login");
    let unknown = Actor { id: 1, login: "nobody-of-that-name".into(), is_bot: false };
    assert_eq!(site.forge.role(&site.repo, &unknown).await, Ok(Role::None));
}

#[tokio::test]
async fn a_failed_look_up_is_no_role_at_all() {
    let site = Site::new(app()).await;
    site.sandbox.wire().break_next(None, "/permission", 1, Fault::Answer(Reply::message(500, "oops")));
    assert!(site.forge.role(&site.repo, &site.actor("ann")).await.is_err());
}

#[tokio::test]
async fn a_place_in_a_team_belongs_to_the_account_and_not_to_the_login() {
    let site = Site::new(app()).await;
    let team = |slug: &str| Team::GitHub { organisation: "acme".into(), slug: slug.into() };
    site.sandbox.add_member("acme", "ci", "ann");
    let ann = site.actor("ann");
    let table = [
        (team("ci"), ann.clone(), true, "a member"),
        (team("docs"), ann.clone(), false, "of another team"),
        (team("ci"), site.actor("bob"), false, "somebody else"),
        (team("ci"), Actor { id: 424_242, ..ann.clone() }, false, "whoever had the login before"),
        (Team::GitLab { path: "acme/ci".into() }, ann.clone(), false, "a group of another forge"),
    ];
    for (team, actor, member, why) in table {
        assert_eq!(site.forge.belongs(&site.repo, &team, &actor).await, Ok(member), "{why}");
    }
    site.sandbox.wire().break_next(None, "/memberships/", 1, Fault::Answer(Reply::message(500, "oops")));
    assert!(site.forge.belongs(&site.repo, &team("ci"), &ann).await.is_err(), "not known is not a no, nor a yes");
}

#[tokio::test]
async fn a_file_is_asked_for_conditionally_and_its_absence_is_no_error() {
    let site = Site::new(app()).await;
    let site = &site;
    let ask = |known: Option<String>| async move {
        site.forge.file(&site.repo, ".retest.toml", known.as_deref()).await.expect("an answer")
    };
    assert_eq!(ask(None).await, FileNow::Absent);
    let long = format!("# {}\n[report]\n", "ä".repeat(200));
    site.sandbox.put_file(REPO, ".retest.toml", &long);
    let FileNow::Text { version, text } = ask(None).await else { panic!("a text") };
    assert_eq!(text, long, "in base64 with line ends on the way");
    assert_eq!(ask(Some(version.clone())).await, FileNow::Unchanged);
    site.sandbox.put_file(REPO, ".retest.toml", "[report]");
    assert!(matches!(ask(Some(version)).await, FileNow::Text { text, .. } if text == "[report]"));
    site.sandbox.wire().break_next(None, "/contents/", 1, Fault::Answer(Reply::message(403, "no")));
    let refused = site.forge.file(&site.repo, ".retest.toml", None).await;
    assert!(matches!(refused, Err(CallError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_change_is_read_with_its_fork_and_labels_and_a_deleted_fork_stays_one() {
    let site = Site::new(app()).await;
    let own = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull { labels: vec!["flaky".into()], ..NewPull::default() });
    let new = NewPull { from_fork: true, ..NewPull::default() };
    let fork = site.sandbox.open_pull(REPO, "eve", &"3".repeat(40), new);
    let change = site.forge.change(&site.repo, own).await.expect("a change");
    assert_eq!((change.from_fork, change.open, change.head.as_str()), (false, true, HEAD));
    assert_eq!(change.labels, ["flaky"]);
    assert_eq!(change.author.map(|a| a.id), Some(site.sandbox.user_id("ann")));
    assert!(site.forge.change(&site.repo, fork).await.expect("a change").from_fork);
    site.sandbox.delete_fork(REPO, fork);
    site.sandbox.close_pull(REPO, fork, false);
    let change = site.forge.change(&site.repo, fork).await.expect("a change");
    assert!(change.from_fork && !change.open);
}

#[tokio::test]
async fn jobs_come_from_all_three_sources_each_with_its_newest_run_and_none_of_ours() {
    let site = Site::new(app()).await;
    site.sandbox.set_latest_trap(true);
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let run = site.sandbox.start_workflow(REPO, HEAD, workflow("CI", &["unit", "lint"]));
    site.sandbox.finish_job(run, "unit", "failure");
    site.sandbox.finish_job(run, "lint", "success");
    assert!(site.sandbox.press_rerun_run(run, "ann"));
    site.sandbox.lose_job(run, "unit");
    site.sandbox.foreign_check(REPO, HEAD, "other-ci", "e2e", Some("timed_out"));
    site.sandbox.set_status(REPO, HEAD, "lava-x86", "pending", "", "");
    site.sandbox.set_status(REPO, HEAD, "lava-x86", "failure", "", "https://lava.example/1");
    let change = site.forge.change(&site.repo, number).await.expect("a change");
    let check = CheckPost {
        name: "retest".into(),
        state: StatusState::Pending,
        title: "t".into(),
        summary: "s".into(),
        external_id: "1".into(),
        buttons: Vec::new(),
        details_url: None,
    };
    site.forge.post_check(&site.repo, &change.head, None, &check).await.expect("our check run");
    site.forge.learn_own_login().await.expect("our name");
    let ours =
        StatusPost { context: "retest".into(), state: StatusState::Pending, description: "d".into(), target_url: None };
    site.forge.post_status(&site.repo, &change, &change.head, &ours).await.expect("our status");

    let jobs = site.forge.list_jobs(&site.repo, &change).await.expect("the jobs");
    let seen: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.scope.as_str(), job.state)).collect();
    let find = |name: &str| jobs.iter().find(|job| job.name.as_str() == name).expect("listed");
    assert_eq!(jobs.len(), 4, "{seen:?}");
    let unit = find("unit");
    assert_eq!((unit.state, unit.order.0, unit.order.1), (JobState::Infrastructure, run as i64, 2), "{seen:?}");
    assert_eq!((unit.scope.as_str(), &unit.group), ("CI", &Some(run.to_string())));
    assert_eq!(find("lint").state, JobState::Pending, "started anew with the whole run");
    assert_eq!((find("e2e").state, &find("e2e").origin), (JobState::TimedOut, &Origin::Check("other-ci".into())));
    assert_eq!(find("lava-x86").state, JobState::Failed);
    assert_eq!(find("lava-x86").url.as_deref(), Some("https://lava.example/1"));
}

#[tokio::test]
async fn required_jobs_are_read_and_an_unprotected_branch_requires_none() {
    let site = Site::new(app()).await;
    assert_eq!(site.forge.required_jobs(&site.repo, "main").await, Ok(Vec::new()));
    site.sandbox.required(REPO, "release/1.0", &["unit", "lava-x86"]);
    let names = site.forge.required_jobs(&site.repo, "release/1.0").await.expect("names");
    assert_eq!(names, ["lava-x86", "unit"]);
}

#[tokio::test]
async fn a_reaction_stands_once_however_often_it_is_given() {
    let site = Site::new(app()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let said = site.sandbox.comment(REPO, number, "ann", "/retest");
    let line = site.sandbox.review_comment(REPO, number, "ann", "/retest");
    let at = |kind, id| CommentRef { kind, id };
    for _ in 0..2 {
        for comment in [at(CommentKind::Issue, said), at(CommentKind::ReviewLine, line), at(CommentKind::Review, 1)] {
            site.forge.react(&site.repo, &key(&site, number), &comment, Reaction::Seen).await.expect("reacted");
        }
    }
    for comment in site.sandbox.comments(REPO, number) {
        assert_eq!(comment.reactions.len(), 1, "{comment:?}");
        assert_eq!(comment.reactions[0].1, "eyes", "{comment:?}");
    }
}

#[tokio::test]
async fn a_status_is_cut_to_what_github_takes() {
    let site = Site::new(token()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let change = site.forge.change(&site.repo, number).await.expect("a change");
    let post = StatusPost {
        context: "lava-x86".into(),
        state: StatusState::Running,
        description: "ü".repeat(200),
        target_url: Some("https://bot.example/r/1".into()),
    };
    let posted = site.forge.post_status(&site.repo, &change, &change.head, &post).await.expect("posted");
    assert!(posted.id.is_some() && posted.post == post);
    let stands = site.sandbox.statuses(REPO, HEAD).remove(0);
    assert_eq!((stands.state.as_str(), stands.description.chars().count()), ("pending", 140));
    assert!(stands.description.ends_with('…'));
}

#[tokio::test]
async fn our_check_run_is_made_once_and_found_again_after_a_lost_answer() {
    let site = Site::new(app()).await;
    site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let head = retest_bot::domain::CommitSha::parse(HEAD).expect("a commit");
    let mut check = CheckPost {
        name: "retest".into(),
        state: StatusState::Running,
        title: "2 jobs run again".into(),
        summary: "| job | state |".into(),
        external_id: "revision-5".into(),
        buttons: vec![("retest-failed".into(), "Retest failed".into(), "Starts the failed jobs again".into())],
        details_url: Some("https://bot.example/r/5".into()),
    };
    site.sandbox.wire().break_next(Some(Method::POST), "/check-runs", 1, Fault::ResetAfterEffect);
    let lost = site.forge.post_check(&site.repo, &head, None, &check).await.expect_err("no answer");
    assert!(matches!(lost, CallError::Unknown { .. }), "{lost}");
    let id = site.forge.post_check(&site.repo, &head, None, &check).await.expect("found again");
    check.state = StatusState::Failure;
    assert_eq!(site.forge.post_check(&site.repo, &head, id, &check).await, Ok(id));
    let ours = site.sandbox.check_runs(REPO, HEAD);
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert_eq!(ours[0].conclusion.as_deref(), Some("failure"));
    assert_eq!(ours[0].actions.len(), 1);

    let by_token = Site::new(token()).await;
    assert_eq!(by_token.forge.post_check(&by_token.repo, &head, None, &check).await, Ok(None), "Apps only");
}

#[tokio::test]
async fn the_report_is_found_by_its_marker_among_many_comments_and_impostors() {
    let site = Site::new(app()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let change = key(&site, number);
    let id = site.forge.post_report(&site.repo, &change, &report(None, "first")).await.expect("made");
    for n in 0..230 {
        site.sandbox.comment(REPO, number, "ann", &format!("talk {n}"));
    }
    site.sandbox.comment(REPO, number, "eve", &format!("{MARKER}\nnot ours"));
    let again = site.forge.post_report(&site.repo, &change, &report(None, "second")).await;
    assert_eq!(again, Ok(id), "found on the oldest of three pages");
    let comments = site.sandbox.comments(REPO, number);
    let ours: Vec<_> = comments.iter().filter(|c| c.author == "retest-bot[bot]").collect();
    assert_eq!((ours.len(), ours[0].edits), (1, 1));
    assert!(ours[0].body.ends_with("second"));
    assert!(comments.iter().any(|c| c.author == "eve" && c.body.ends_with("not ours")), "nobody else's is touched");
}

#[tokio::test]
async fn a_report_that_somebody_deleted_is_made_anew() {
    let site = Site::new(token()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let change = key(&site, number);
    let first = site.forge.post_report(&site.repo, &change, &report(None, "first")).await.expect("made");
    site.sandbox.delete_comment(REPO, first, "ann");
    let second = site.forge.post_report(&site.repo, &change, &report(Some(first), "second")).await.expect("made anew");
    assert_ne!(first, second);
    let third = site.forge.post_report(&site.repo, &change, &report(Some(second), "third")).await;
    assert_eq!(third, Ok(second));
}

#[tokio::test]
async fn a_report_whose_answer_got_lost_is_not_made_twice() {
    let site = Site::new(app()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let change = key(&site, number);
    site.sandbox.wire().break_next(Some(Method::POST), "/comments", 1, Fault::Truncate);
    let lost = site.forge.post_report(&site.repo, &change, &report(None, "first")).await.expect_err("half an answer");
    assert!(matches!(lost, CallError::Unknown { .. }), "{lost}");
    site.forge.post_report(&site.repo, &change, &report(None, "second")).await.expect("found");
    assert_eq!(site.sandbox.comments(REPO, number).len(), 1);
}

#[tokio::test]
async fn missed_comments_are_those_on_changes_that_may_hold_a_command() {
    let site = Site::new(app()).await;
    let number = site.sandbox.open_pull(REPO, "ann", HEAD, NewPull::default());
    let issue = site.sandbox.open_issue(REPO, "ann", "an issue", "text", &[]);
    let old = site.sandbox.comment(REPO, number, "ann", "/retest too-old");
    site.wait(Duration::from_secs(60));
    let since = Timestamp::from_ms(START_MS + 30_000);
    site.sandbox.edit_comment(REPO, old, "ann", "/retest edited-later");
    let wanted = site.sandbox.comment(REPO, number, "ann", "/retest");
    site.sandbox.comment(REPO, number, "ann", "no command in here");
    site.sandbox.comment(REPO, issue, "ann", "/retest");
    site.wait(Duration::from_secs(60));
    let later = site.sandbox.comment(REPO, number, "bob", "/retest lint");
    let missed = site.forge.missed_comments(&site.repo, since).await.expect("comments");
    let again = site.forge.missed_comments(&site.repo, since).await.expect("comments");
    assert_eq!(missed.iter().map(|m| &m.id).collect::<Vec<_>>(), again.iter().map(|m| &m.id).collect::<Vec<_>>());
    let seen: Vec<_> = missed
        .iter()
        .map(|m| match &m.event {
            ForgeEvent::Comment(c) => (c.comment.id, c.comment.kind, c.change.number, c.author.login.as_str()),
            other => panic!("a comment, not {other:?}"),
        })
        .collect();
    assert_eq!(seen, [(wanted, CommentKind::Issue, number, "ann"), (later, CommentKind::Issue, number, "bob")]);
}
