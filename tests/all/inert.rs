//! Whatever stands in a comment, a job's name, a branch, a login or a runner's words: what we write pages nobody, refers to
//! nothing, links nowhere but to runs, holds no HTML, and no line of it is a command or a quick action.
//!
//! The texts are made by the planner and the renderer from hostile values, then read as both forges read them: through a
//! CommonMark parser with tables and strikethrough, and a search for what the forges find in plain text.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;
use retest_bot::decide::{
    Answer, AnswerLine, Ask, Asker, Beside, FlakeNote, IssueView, JobView, Limits, Posts, Rate, Readers, ReportView,
    Rights, RunnerFacts, Snapshot, Standalone, Used, Verb, Wish, authorise, check_run, code, issue_comment, job_list,
    job_statuses, plain_words, plan, recorded, render,
};
use retest_bot::domain::{
    Actor, Change, ChangeKey, CommitSha, Conclusion, DispatchKey, Evidence, Job, JobName, JobObservation, JobState,
    LabelOrigin, Origin, RepoKey, Retry, RetryId, RetryState, Role, RunHandle, RunOrder, RunRef, RunnerName, Seen,
    Timestamp, Unasked, WaitOn,
};
use retest_commands::{Command, Grammar, parse};

const RUN: &str = "https://lab.example/run/1";

const PIECES: [&str; 44] = [
    "@everyone",
    "@acme/team",
    "#12",
    "acme/board#3",
    "GH-12",
    "!34",
    "&5",
    "~bug",
    "%1.0",
    "$12",
    "`",
    "``",
    "```",
    "\n",
    "\r\n/retest all",
    "\n\n/close",
    "/approve",
    "<img src=x onerror=alert(1)>",
    "<!-- retest-bot:report -->",
    "-->",
    "<sub>",
    "[a](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "[x]: https://evil.example",
    "](",
    ")",
    "|",
    "*",
    "**",
    "_",
    "~~",
    "\\",
    "&amp;",
    "&lt;",
    "https://evil.example/?a=b",
    "www.evil.example",
    "a@b.example",
    "\u{202e}",
    "\u{200b}",
    "# head",
    "- [ ] x",
    "> quote",
    "deadbeefcafe0123",
    " word ",
];

fn hostile() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..8).prop_map(|pieces| pieces.concat())
}

/// What the forges find in plain text: mentions, references, snippets, labels, addresses, commits.
static REFERS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?i)(^|[^\w`])(@[\w-]|#\w|![0-9]|&[0-9]|~\w|%\w|\$[0-9]|GH-[0-9])|\w[@#]\w|https?:|www\.|\b[0-9a-f]{7,40}\b";
    Regex::new(pattern).expect("a pattern")
});

/// What a forge would make of a text beyond words, but for links to the pages of runs: everything that must not be there.
fn foreign(markdown: &str, runs: &[&str]) -> Vec<String> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES;
    let mut found = Vec::new();
    let mut words = String::new();
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                let ours = ["<!-- retest-bot:report -->", "<sub>", "</sub>"];
                if !ours.contains(&html.trim()) {
                    found.push(format!("html {html:?}"));
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) if !runs.contains(&&*dest_url) => {
                found.push(format!("link {dest_url:?}"))
            }
            Event::Start(Tag::Image { dest_url, .. }) => found.push(format!("image {dest_url:?}")),
            Event::Start(Tag::BlockQuote(_) | Tag::CodeBlock(_) | Tag::FootnoteDefinition(_)) => {
                found.push("block".into())
            }
            Event::TaskListMarker(_) | Event::FootnoteReference(_) => found.push("marker".into()),
            Event::Text(text) => words.push_str(&text),
            Event::Code(_) => words.push('`'),
            Event::SoftBreak | Event::HardBreak => words.push('\n'),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) => words.push('\n'),
            _ => {}
        }
    }
    found.extend(REFERS.find_iter(&words).map(|hit| format!("refers {:?}", hit.as_str())));
    let begins = |line: &str| line.trim_start_matches([' ', '-', '|', '>', '\t']).starts_with('/');
    found.extend(markdown.lines().filter(|line| begins(line)).map(|line| format!("command {line:?}")));
    let obeyed = parse(&markdown.replace("<!-- retest-bot:report -->", ""), &Grammar::default()).commands;
    found.extend(obeyed.iter().map(|command| format!("obeyed {command:?}")));
    found
}

fn change(text: &str) -> Change {
    Change {
        key: ChangeKey { repo: RepoKey { forge: "forge".into(), id: 1 }, number: 7 },
        head: CommitSha::parse(&"a".repeat(40)).expect("a sha"),
        author: Some(Actor { id: 1, login: text.into(), is_bot: false }),
        open: true,
        from_fork: true,
        base_ref: text.into(),
        labels: vec![text.into()],
        head_pipeline: None,
        source_ref: Some(text.into()),
        approved_head: None,
        updated_at: Timestamp::default(),
    }
}

fn view(name: &str, state: JobState, text: &str) -> JobView {
    let newest = JobObservation {
        name: JobName::new(name),
        scope: text.into(),
        origin: Origin::Status,
        run: RunRef::new(text),
        order: RunOrder(1, 1),
        group: Some(text.into()),
        state,
        cause: Some(text.into()),
        url: Some(if text.len().is_multiple_of(2) { RUN.into() } else { text.into() }),
        allow_failure: false,
        manual: false,
        needs: Some(vec![JobName::new(text)]),
        at: Timestamp::default(),
    };
    let standalone = match text.len() % 4 {
        0 => Standalone::Yes,
        1 => Standalone::Needs(vec![JobName::new(text)]),
        2 => Standalone::Gone(text.into()),
        _ => Standalone::Unknown,
    };
    JobView {
        job: Job {
            newest,
            runner: Some(RunnerName::new(text)),
            required: true,
            runs: 2,
            platform: None,
            standalone: None,
        },
        standalone,
        open: None,
        retries: 1,
        wishes: 1,
        platform: Some(text.into()),
        overrides: vec![text.into()],
        groups: vec![text.into()],
        terms: None,
        last_retry_at: None,
    }
}

fn snapshot(names: &[String], text: &str) -> Snapshot {
    let states = JobState::ALL.into_iter().cycle();
    let facts = RunnerFacts {
        age_max: None,
        starts_fresh: true,
        out_of_reach_for_forks: text.len().is_multiple_of(3),
        attempts_max: 9,
        runs_dependents: false,
        repeats_base: true,
        restarts_max: Some(50),
    };
    Snapshot {
        change: change(text),
        jobs: names.iter().zip(states).map(|(name, state)| view(name, state, text)).collect(),
        runners: BTreeMap::from([(RunnerName::new(text), facts)]),
        limits: Limits::NONE,
        used: Used::default(),
        base_moved: Some(Timestamp::from_ms(1)),
        now: Timestamp::default(),
    }
}

fn retry(job: &str, text: &str, state: RetryState) -> Retry {
    let change = change(text);
    Retry {
        id: RetryId(1),
        key: DispatchKey::new("retest-1"),
        sha: change.head,
        change: change.key,
        job: JobName::new(job),
        scope: String::new(),
        runner: RunnerName::new(text),
        state,
        asker: Actor { id: 1, login: text.into(), is_bot: false },
        why: text.into(),
        source_run: None,
        source_order: RunOrder::default(),
        group: Some(text.into()),
        handle: Some(RunHandle { id: "1".into(), order: RunOrder(1, 0), url: Some(text.into()) }),
        cause: Some(text.into()),
        overrides: BTreeMap::from([(text.to_owned(), text.to_owned())]),
        number: 1,
        series: None,
        unasked: None,
        comment: None,
        internal: false,
        also: vec![JobName::new(text)],
        created_at: Timestamp::default(),
        due_at: Timestamp::default(),
        tries: 0,
        dispatched_at: None,
        ended_at: None,
        deadline_at: Timestamp::default(),
    }
}

fn evidence(text: &str) -> Evidence {
    let seen = Seen::Log { line: 7, cut: true, excerpt: text.to_owned() };
    Evidence { label: text.to_owned(), origin: LabelOrigin::Operator, seen }
}

fn note(job: &str, text: &str) -> FlakeNote {
    FlakeNote {
        job: JobName::new(job),
        evidence: evidence(text),
        verdict: code(text),
        held: text.len().is_multiple_of(2),
    }
}

/// The answers that the planner gives to a comment that names hostile jobs, asks for hostile fields, and more.
fn answers(names: &[String], text: &str) -> Vec<Answer> {
    let snapshot = snapshot(names, text);
    let actor = Actor { id: 2, login: text.into(), is_bot: false };
    let mut lines = Vec::new();
    let asker = |role| Asker::with_role(actor.clone(), role);
    let proof = authorise(Ask::Test, &snapshot.change, &asker(Role::Admin), &Rights::default()).expect("an admin may");
    if let Err(refusal) = authorise(Ask::Test, &snapshot.change, &asker(Role::Read), &Rights::default()) {
        lines.push(AnswerLine { job: None, reason: "role".into(), text: refusal.text });
    }
    let quoted = text.replace(['"', '\n', '\r'], " ");
    let comment = format!("/retest \"{quoted}\" x* {quoted}=1 --with-needs\n/retest all\n/test {quoted}");
    let parsed = parse(&comment, &Grammar::default());
    for mistake in &parsed.mistakes {
        let text = format!("{}: {}", code(&mistake.text), plain_words(&mistake.hint));
        lines.push(AnswerLine { job: None, reason: "not_understood".into(), text });
    }
    for one in &parsed.commands {
        let Command::Retest(wish) = &one.command else { continue };
        let wish = Wish {
            verb: Verb::Retest,
            selection: &wish.selection,
            force: true,
            with_needs: wish.flags.with_needs,
            times: 1,
            overrides: &wish.overrides,
        };
        let made = plan(&snapshot, &wish, &proof);
        lines.extend(made.leave.iter().chain(&job_list(&snapshot, &proof)).map(|left| AnswerLine {
            job: (!left.name.is_empty()).then(|| JobName::new(&left.name)),
            reason: left.reason.as_str().into(),
            text: left.text.clone(),
        }));
        lines.extend(made.start.iter().map(|item| AnswerLine {
            job: None,
            reason: "started".into(),
            text: format!("started ({})", item.why),
        }));
    }
    lines.push(AnswerLine { job: None, reason: "listed".into(), text: recorded(text) });
    let command = text.to_owned();
    vec![Answer { asker: text.into(), command, lines, head: "aaaaaaa".into(), delivery: text.into(), internal: false }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_we_write_is_inert_whatever_it_is_about(names in prop::collection::vec(hostile(), 1..12), text in hostile()) {
        let states = [
            RetryState::Waiting(WaitOn::Group(text.clone())),
            RetryState::Waiting(WaitOn::Jobs(vec![JobName::new(&text)])),
            RetryState::Rejected(text.clone()),
            RetryState::Finished(Conclusion::Infrastructure),
            RetryState::Finished(Conclusion::Lost),
        ];
        let retries: Vec<Retry> =
            names.iter().zip(states.into_iter().cycle()).map(|(name, state)| retry(name, &text, state)).collect();
        let by_itself = Unasked { evidence: evidence(&text), number: 1, of: 2 };
        let more = names.iter().map(|name| format!("{name}-2")).map(|name| {
            let state = RetryState::Waiting(WaitOn::Until(Timestamp::default()));
            Retry { unasked: Some(by_itself.clone()), ..retry(&name, &text, state) }
        });
        let retries: Vec<Retry> = retries.into_iter().chain(more).collect();
        let head = change(&text).head;
        let answers = answers(&names, &text);
        let flakes: Vec<FlakeNote> = names.iter().map(|name| note(name, &text)).collect();
        let everybody = Readers::Everybody;
        let report = render(&ReportView { sha: &head, retries: &retries, answers: &answers, flakes: &flakes, readers: everybody });
        prop_assert_eq!(foreign(&report, &[RUN, &text]), Vec::<String>::new(), "{}", report);
        let posts = Posts { aggregate: "retest".into(), target_url: None, always: false };
        let check = check_run(&retries, &posts, &Beside::default(), &head).expect("a check run");
        prop_assert_eq!(foreign(&check.summary, &[RUN, &text]), Vec::<String>::new(), "{}", check.summary);
        for post in job_statuses(&retries, &[], |_| true) {
            prop_assert!(!post.description.contains(['\n', '@', '<']), "{:?}", post.description);
        }
        let comment = issue_comment(&IssueView {
            label: "#12",
            rule: Some(Err(&names)),
            hits: Rate::new(1, 3),
            passed_later: 1,
            last: Some((Timestamp::default(), JobName::new(&text), head)),
            unseen_too_long: None,
            marker: "<!-- retest-bot:flake -->",
        });
        let (_, comment) = comment.split_once('\n').expect("our hidden marker stands first");
        prop_assert_eq!(foreign(comment, &[RUN, &text]), Vec::<String>::new(), "{}", comment);
    }
}

#[test]
fn the_search_finds_what_it_is_there_to_find() {
    for text in PIECES.iter().filter(|piece| foreign(&format!("x {piece}1 y"), &[]).is_empty()) {
        let harmless = [
            "`",
            "``",
            "```",
            "\n",
            "](",
            ")",
            "|",
            "*",
            "**",
            "_",
            "~~",
            "\\",
            "&amp;",
            "&lt;",
            "-->",
            "\u{202e}",
            "\u{200b}",
            "# head",
            "- [ ] x",
            "> quote",
            " word ",
            "/approve",
            "<sub>",
            "[x]: https://evil.example",
            "<!-- retest-bot:report -->",
        ];
        assert!(harmless.contains(text), "{text:?} is not found in running text");
    }
    assert!(
        !foreign("/approve", &[]).is_empty() && !foreign("- /close", &[]).is_empty() && !foreign("> x", &[]).is_empty()
    );
}
