//! From text to rules, through the checks.

use super::*;
use crate::app::Operators;
use crate::domain::RunnerName;

fn issue(block: &str) -> String {
    format!("The board drops off the bus.\n\n```toml\n{block}```\n\nSeen often.\n")
}

#[test]
fn an_issue_describes_a_rule() {
    let body = issue("job = \"lava-x86\"\nlog = [\"usb .*: device descriptor read\"]\nretries = 2\ndelay = \"30s\"\n");
    let rule = read_issue(123, &body).expect("a block").expect("sound");
    assert_eq!((rule.label.as_str(), rule.origin, rule.retries), ("#123", LabelOrigin::Issue(123), 2));
    assert!(rule.jobs[0].fits(&JobName::from("lava-x86")) && !rule.jobs[0].fits(&JobName::from("lava-x8")));
    assert!(read_issue(123, "no block\n```\njob = 1\n```").is_none());
}

#[test]
fn faults_of_an_issue_are_told_with_its_lines() {
    for (block, wanted) in [
        ("jobs = [\"a-*\"]\nlog = [\n  \"usb reset of board\",\n  \".*\",\n]\n", "line 7: log[1]: fits every line"),
        ("jobs = [\"a-*\"]\n", "ends: is missing, and so are `causes` and `log`"),
        ("jobs = [\"a-*\"]\nlgo = [\"x\"]\n", "line 5"),
        ("jobs = [\"a-*\"\n", "line 4"),
        ("label = \"x\"\njob = \"a\"\nends = [\"lost\"]\n", "line 4"),
    ] {
        let faults = read_issue(1, &issue(block)).expect("a block").expect_err("wrong");
        assert!(faults.iter().any(|fault| fault.contains(wanted)), "{block}: {faults:?}");
    }
}

#[test]
fn a_policy_with_a_rule_that_fits_everything_cannot_be_used() {
    let operators = Operators::of(None).expect("the defaults");
    let policy = "[[flake]]\nlabel = \"usb\"\njobs = [\"*\"]\nlog = [\"usb reset of board\"]\n\n[[flake]]\nlabel = \"any\"\njobs = [\"*\"]\nlog = [\"error\"]\n";
    let faults = operators.read(policy).expect_err("refused");
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("line 9: flake `any`: `log[0]`"), "{faults:?}");
    let sound = policy.replace("[\"error\"]", "[\"connection reset by peer\"]");
    let (terms, _) = operators.read(&format!("{sound}[autoretry]\nclean_passes = 3\n")).expect("usable");
    assert_eq!(terms.flakes.iter().map(|rule| rule.label.as_str()).collect::<Vec<_>>(), ["usb", "any"]);
    assert_eq!(terms.autoretry, AutoretryTerms { enabled: true, clean: CleanBefore::Passes(3) });
}

#[test]
fn job_and_text_are_added_to_an_issue_and_read_back() {
    let job = JobName::from("build / test [x]");
    let fresh = extend_issue("It hangs.", job.as_str(), Some("hang (5 s)")).expect("written");
    let rule = read_issue(7, &fresh).expect("a block").expect("sound");
    assert!(fresh.starts_with("It hangs.\n") && rule.jobs[0].fits(&job), "{fresh}");
    assert_eq!(rule.log, [r"hang \(5 s\)"]);

    let second = JobName::from("lava-x86");
    let more =
        extend_issue(&format!("{fresh}\nSeen often.\n"), second.as_str(), Some("usb reset of board")).expect("written");
    let rule = read_issue(7, &more).expect("a block").expect("sound");
    assert!(more.ends_with("\nSeen often.\n"), "{more}");
    assert!([&job, &second].iter().all(|job| rule.jobs.iter().any(|which| which.fits(job))), "{more}");
    assert_eq!(rule.log, [r"hang \(5 s\)", "usb reset of board"]);
    let again = extend_issue(&more, second.as_str(), Some("usb reset of board")).expect("written");
    assert_eq!(again, more, "what is there is not added twice");
    assert!(extend_issue(&issue("jobs = 1\n"), job.as_str(), None).is_err(), "a broken block is not overwritten");
}

#[test]
fn the_defaults_of_decisions_are_those_of_the_configuration() {
    let text =
        "[[forge]]\nname = \"hub\"\nkind = \"github\"\nwebhook_secrets = [{ env = \"S\" }]\ntoken = { env = \"S\" }\n";
    let secrets: std::collections::BTreeMap<String, String> =
        [("S".to_owned(), "6f1d3c5a9b8e7042d1c3b5a7968f0e2d".to_owned())].into();
    let settings = Settings::parse(text, &secrets).expect("the least configuration");
    assert_eq!(format!("{:?}", autoretry(&settings)), format!("{:?}", AutoretryRules::default()));
    let flake = "[[flake]]\nlabel = \"x\"\njobs = [\"a\"]\nrunner = \"hub\"\n";
    let with_runner =
        format!("{text}[[runner]]\nname = \"hub\"\nkind = \"github_actions\"\n{flake}ends = [\"lost\"]\n");
    let settings = Settings::parse(&with_runner, &secrets).unwrap_or_else(|faults| panic!("{faults:#}"));
    assert_eq!(autoretry(&settings).rules[0].runner, Some(RunnerName::from("hub")));
    assert!(check_flakes(&settings).expect("sound").is_empty(), "jobs of others' CI are not known beforehand");
    let vague =
        Settings::parse(&format!("{text}{}", flake.replace("runner = \"hub\"\n", "")), &secrets).expect("well-formed");
    assert!(check_flakes(&vague).expect_err("refused").to_string().contains("every failure would be a flake"));
}
