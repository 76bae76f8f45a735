//! Claims about GitLab as a forge: jobs listed, statuses, reactions, the report, roles, webhooks.

use super::*;

#[tokio::test]
async fn more_than_a_page_of_jobs_is_listed() {
    let house = house().await;
    house.pipeline((0..230).map(|n| plain(&format!("job-{n}"))).collect());
    let mut names: Vec<_> = house.jobs().await.into_iter().map(|job| job.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 230);
}

#[tokio::test]
async fn needs_are_those_of_graphql_and_a_listing_does_without() {
    let house = house().await;
    let needing =
        |name: &str, needs: &[&str]| NewJob { needs: needs.iter().map(|n| (*n).to_owned()).collect(), ..plain(name) };
    let optional = NewJob { allow_failure: true, stage: "build".into(), ..plain("docs") };
    let build = NewJob { stage: "build".into(), ..plain("build") };
    house.pipeline(vec![build, optional, needing("lava-x86", &["build", "docs"]), plain("unit")]);
    let needs = |job: JobObservation| job.needs.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(needs(house.job("lava-x86").await), Some(vec!["build".to_owned()]), "what may fail is not waited for");
    assert_eq!(needs(house.job("unit").await), None, "it goes by its stage");
    house.sandbox.wire().break_next(None, "/graphql", 1, Fault::Answer(Reply::message(500, "no")));
    assert_eq!(needs(house.job("lava-x86").await), None, "listed all the same");
}

#[tokio::test]
async fn foreign_statuses_are_jobs_and_our_own_are_not() {
    let house = house().await;
    house.failed("unit");
    house.sandbox.external_status(house.project(), HEAD, "lab/boot", "failed", Some("https://lab.example/jobs/12"));
    house.post(StatusState::Pending, "waits").await.expect("posted");
    let mut seen: Vec<_> = house.jobs().await.into_iter().map(|job| (job.name.to_string(), job.origin)).collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(seen, [("lab/boot".to_owned(), Origin::Status), ("unit".to_owned(), Origin::GitLabCi)]);
    let status = house.job("lab/boot").await;
    assert_eq!((status.state, status.cause.clone()), (JobState::Failed, None), "no infrastructure failure");
    assert_eq!(status.url.as_deref(), Some("https://lab.example/jobs/12"));
}

#[tokio::test]
async fn a_status_is_pinned_to_the_merge_request_pipeline_and_a_repeated_state_is_success() {
    let house = house().await;
    house.failed("unit");
    let posts = [
        (StatusState::Pending, "1 of 2"),
        (StatusState::Pending, "2 of 2"),
        (StatusState::Running, "runs"),
        (StatusState::Running, "still runs"),
        (StatusState::Success, "all passed"),
        (StatusState::Failure, "a later retry failed"),
    ];
    for (state, text) in posts {
        let posted = house.post(state, text).await.expect(text);
        assert_eq!(posted.post.description, text);
    }
    let change = house.change().await;
    let pipelines = house.sandbox.wire().requests().into_iter().filter(|r| r.path.contains("/statuses/"));
    let pinned = format!("pipeline_id={}", change.head_pipeline.expect("a pipeline"));
    for post in pipelines.filter(|r| r.method == Method::POST) {
        let body = String::from_utf8_lossy(&post.body).into_owned();
        assert!(body.contains(&pinned) && body.contains("ref=refs%2Fmerge-requests%2F"), "{body}");
    }
}

#[tokio::test]
async fn a_stale_pipeline_is_looked_up_again() {
    let house = house().await;
    house.failed("unit");
    let mut change = house.change().await;
    let truth = change.head_pipeline;
    (change.head_pipeline, change.source_ref) = (Some(1), None);
    let post = StatusPost {
        context: "retest".into(),
        state: StatusState::Success,
        description: "é".repeat(300),
        target_url: Some(format!("https://bot.example/{}", "x".repeat(300))),
    };
    house.forge.post_status(&house.repo, &change, &sha(), &post).await.expect("posted to the right one");
    let last = house.sandbox.wire().requests().pop().expect("a request");
    let body = String::from_utf8_lossy(&last.body).into_owned();
    assert!(body.contains(&format!("pipeline_id={}", truth.expect("a pipeline"))), "{body}");
    assert!(!body.contains("target_url"), "an address that is too long is left out, not cut");
}

#[tokio::test]
async fn a_held_lock_is_passing_and_a_full_pipeline_is_not() {
    let house = house().await;
    house.failed("unit");
    house.sandbox.lock_statuses(1);
    let held = house.post(StatusState::Pending, "waits").await.expect_err("locked");
    assert!(held.is_passing(), "{held:?}");
    house.post(StatusState::Pending, "waits").await.expect("the lock is gone");
    house.sandbox.set_job_limit(house.project(), 1);
    let post = StatusPost {
        context: "another".into(),
        state: StatusState::Pending,
        description: String::new(),
        target_url: None,
    };
    let full = house.forge.post_status(&house.repo, &house.change().await, &sha(), &post).await.expect_err("full");
    assert!(matches!(&full, CallError::Refused { user, .. } if user.contains("limit")), "{full:?}");
}

#[tokio::test]
async fn reacting_twice_does_no_harm() {
    let house = house().await;
    let note = house.sandbox.note(house.project(), house.iid, "ann", "/retest");
    let comment = CommentRef { kind: CommentKind::Note, id: note };
    for reaction in [Reaction::Seen, Reaction::Seen, Reaction::Started, Reaction::Refused, Reaction::Done] {
        house.forge.react(&house.repo, &house.key(), &comment, reaction).await.expect("reacted");
    }
}

#[tokio::test]
async fn the_report_is_one_note_found_by_its_marker_among_our_own() {
    let house = house().await;
    let post = async |report: ReportPost| house.forge.post_report(&house.repo, &house.key(), &report).await;
    house.sandbox.note(house.project(), house.iid, "eve", &format!("{MARKER}\nnot yours"));
    let first = post(house.report("one", None, false)).await.expect("written");
    for n in 0..120 {
        house.sandbox.note(house.project(), house.iid, "ann", &format!("remark {n}"));
    }
    assert_eq!(post(house.report("two", None, false)).await, Ok(first), "found on the second page");
    assert_eq!(post(house.report("three", Some(first), false)).await, Ok(first), "edited where it is known");
    let hidden = post(house.report("four", None, true)).await.expect("written for members");
    assert_ne!(hidden, first, "an internal answer never lands in the open note");
    assert_eq!(post(house.report("five", None, true)).await, Ok(hidden));
    house.sandbox.delete_note(first);
    let again = post(house.report("six", Some(first), false)).await.expect("written anew");
    assert!(again != first && again != hidden, "the deleted one is replaced");
}

#[tokio::test]
async fn a_role_is_the_level_of_an_active_membership() {
    let house = house().await;
    let role = async |login: &str| {
        let actor = Actor { id: house.sandbox.user_id(login), login: login.into(), is_bot: false };
        house.forge.role(&house.repo, &actor).await
    };
    let levels = [(10, Role::Read), (20, Role::Triage), (30, Role::Write), (40, Role::Maintain), (50, Role::Admin)];
    for (level, expected) in levels {
        house.sandbox.set_level(house.project(), "ben", level);
        assert_eq!(role("ben").await, Ok(expected), "level {level}");
    }
    house.sandbox.set_membership(house.project(), "ben", "active", Some("2023-11-14"));
    assert_eq!(role("ben").await, Ok(Role::None), "it ended today");
    assert_eq!(role("stranger").await, Ok(Role::None), "no member");
    house.sandbox.set_level(house.project(), "retest-bot", 0);
    assert!(role("ann").await.is_err(), "a project that we cannot see tells no role");
    house.sandbox.revoke_token("glpat-bot");
    let revoked = role("ann").await.expect_err("no token");
    assert!(revoked.is_passing(), "the work waits for a new token: {revoked:?}");
}

#[tokio::test]
async fn the_forge_learns_who_it_is_from_its_token() {
    let house = house().await;
    let me = Actor { id: house.sandbox.user_id("retest-bot"), login: "whatever".into(), is_bot: false };
    assert!(!house.forge.is_me(&me, None), "nothing is asked while deliveries are read");
    assert_eq!(house.forge.learn_me().await.map(|actor| actor.login), Ok("retest-bot".to_owned()));
    assert!(house.forge.is_me(&me, None));
    assert!(!house.forge.is_me(&Actor { id: me.id + 1_000, ..me }, None));
}

#[tokio::test]
async fn missed_notes_come_oldest_first_and_once() {
    let house = house().await;
    let write = |kind, body: &str| {
        let note = NewNote { body: body.into(), kind };
        house.sandbox.note_as(house.project(), house.iid, "ann", note)
    };
    write(NoteKind::Plain, "/retest before");
    house.sandbox.set_now(NOW_MS + 60_000);
    let first = write(NoteKind::Plain, "/retest one");
    write(NoteKind::System, "/retest is mentioned");
    write(NoteKind::Plain, "no command");
    house.sandbox.set_now(NOW_MS + 61_000);
    let second = write(NoteKind::Internal, "/retest two");
    let since = Timestamp::from_ms(NOW_MS + 30_000);
    let missed = house.forge.missed_comments(&house.repo, since).await.expect("a look");
    let told: Vec<_> = missed
        .iter()
        .map(|wanted| match &wanted.event {
            ForgeEvent::Comment(c) => (c.comment.id, c.internal, c.author.login.clone(), c.change.number),
            other => panic!("{other:?}"),
        })
        .collect();
    let ann = || "ann".to_owned();
    assert_eq!(told, [(first, false, ann(), house.iid), (second, true, ann(), house.iid)]);
}

#[tokio::test]
async fn every_webhook_of_the_sandbox_is_authentic_and_readable() {
    let house = house().await;
    let ok = axum::Router::new().fallback(|| async { "" });
    let receiver = Wire::serve(ok).await.expect("a loopback port");
    let secrets = [
        HookSecret { token: Some(HOOK_TOKEN.into()), signing: None },
        HookSecret { token: None, signing: Some(SIGNING.into()) },
    ];
    for secret in secrets {
        house.sandbox.hook(&format!("{}/hook", receiver.base_url()), secret);
    }
    let pipeline = house.failed("lava-x86");
    house.sandbox.note(house.project(), house.iid, "ann", "/retest");
    house.retry(&house.job("lava-x86").await).await;
    house.sandbox.finish_job(pipeline, "lava-x86", "success", None);
    house.sandbox.push(house.project(), house.iid, &"4".repeat(40));
    house.sandbox.close(house.project(), house.iid);
    house.sandbox.deliver().await;
    let (mut comments, mut changes, mut jobs, mut over) = (0, 0, 0, 0);
    for request in receiver.requests() {
        let webhook = WebhookRequest { headers: request.headers, body: request.body, at: Timestamp::from_ms(NOW_MS) };
        let decoded = house.forge.receive(&webhook).expect("authentic");
        let Decoded::Wanted(wanted) = decoded else {
            assert!(matches!(decoded, Decoded::Ignored(_)), "{decoded:?}");
            continue;
        };
        match wanted.event {
            ForgeEvent::Comment(_) => comments += 1,
            ForgeEvent::Change { .. } => changes += 1,
            ForgeEvent::Jobs(event) => {
                jobs += 1;
                over += usize::from(event.group_over == Some(pipeline.to_string()));
            }
            ForgeEvent::Press(press) => panic!("{press:?}"),
            ForgeEvent::Push(push) => panic!("{push:?}"),
            ForgeEvent::Issue(issue) => panic!("{issue:?}"),
            ForgeEvent::Queue(entry) => panic!("{entry:?}"),
        }
    }
    assert_eq!((comments, changes), (2, 6), "two hooks: one comment; opened, pushed, closed");
    assert!(jobs >= 8 && over >= 4, "{jobs} job events, {over} ends of the pipeline");
}

#[tokio::test]
async fn a_used_up_limit_silences_the_bot_before_it_is_told_to_wait() {
    let house = house().await;
    house.sandbox.set_rate_limit(3);
    house.sandbox.wire().forget_requests();
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(house.forge.change(&house.repo, house.iid).await.err());
    }
    let Some(Some(CallError::Throttled { retry_after, .. })) = answers.last() else { panic!("{answers:?}") };
    assert!(*retry_after <= Duration::from_secs(60), "a minute at most");
    assert!(house.sandbox.wire().requests().len() <= 3, "nothing is sent against the limit");
    house.clock.advance(Duration::from_secs(60));
    house.sandbox.set_now(NOW_MS + 60_000);
    assert!(house.forge.change(&house.repo, house.iid).await.is_ok());
}

#[tokio::test]
async fn members_of_a_group_are_told_by_id_with_those_of_the_groups_above_it() {
    let house = house().await;
    let user = |login: &str| Actor { id: house.sandbox.user_id(login), login: login.into(), is_bot: false };
    house.sandbox.set_group_level("acme", "olga", 30);
    house.sandbox.set_group_level("acme/ci", "ann", 10);
    house.sandbox.set_group_level("acme/ci", "max", 5);
    let group = |path: &str| Team::GitLab { path: path.into() };
    let table = [
        ("acme/ci", "ann", true, "a guest of the group"),
        ("acme/ci", "olga", true, "inherited from above"),
        ("acme", "ann", false, "not handed up"),
        ("acme/ci", "max", false, "minimal access is no membership"),
        ("acme/ci", "sam", false, "nobody"),
    ];
    for (path, login, member, why) in table {
        let found = house.forge.belongs(&house.repo, &group(path), &user(login)).await;
        assert_eq!(found, Ok(member), "{why}");
    }
    assert!(house.forge.belongs(&house.repo, &group("no/such"), &user("ann")).await.is_err(), "a wrong name is told");
    let team = Team::GitHub { organisation: "acme".into(), slug: "ci".into() };
    assert_eq!(house.forge.belongs(&house.repo, &team, &user("ann")).await, Ok(false));
}

#[tokio::test]
async fn a_file_of_the_default_branch_is_asked_for_conditionally() {
    let house = house().await;
    let project = house.project();
    let ask =
        async |known: Option<&str>| house.forge.file(&house.repo, "ci/retest.toml", known).await.expect("an answer");
    assert_eq!(ask(None).await, FileNow::Absent);
    house.sandbox.put_file(project, "ci/retest.toml", "[report]\n");
    house.sandbox.put_file_at(project, "other", "ci/retest.toml", "[limits]\n");
    let FileNow::Text { version, text } = ask(None).await else { panic!("a text") };
    assert_eq!(text, "[report]\n");
    assert_eq!(ask(Some(&version)).await, FileNow::Unchanged);
    house.sandbox.put_file(project, "ci/retest.toml", "");
    assert!(matches!(ask(Some(&version)).await, FileNow::Text { text, .. } if text.is_empty()));
    let gone = Repo { key: RepoKey { id: 999_999, ..house.repo.key.clone() }, ..house.repo.clone() };
    assert!(house.forge.file(&gone, "ci/retest.toml", None).await.is_err(), "no project is not no file");
}
