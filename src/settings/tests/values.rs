//! What a right configuration means.

use super::super::{
    Body, ForgeDetails, ForgeKind, GithubAuth, JobSelector, LogFormat, Role, RunState, RunnerDetails, RunnerModule,
};
use super::{EXEC, HTTP, HUB, LAB, right};
use std::time::Duration;

#[test]
fn the_least_configuration_has_the_documented_defaults() {
    let settings = right(HUB);
    assert_eq!(settings.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.server.body_bytes_max, 26_279_936, "25 MiB and 64 KiB");
    assert_eq!(settings.server.drain_timeout, Duration::from_secs(25));
    assert_eq!(settings.store.retention, Duration::from_secs(30 * 24 * 3600));
    assert_eq!(settings.store.commit_batch_max, 512);
    assert_eq!(settings.log.format, LogFormat::Text);
    assert_eq!(settings.commands.comment_age_max, Duration::from_secs(72 * 3600));
    assert_eq!((settings.rights.retest.role, settings.rights.force.role), (Some(Role::Triage), Some(Role::Write)));
    assert!(settings.rights.retest_author && settings.report.enabled && settings.report.reaction);
    assert_eq!(settings.limits.retries_per_job_and_head, 10);
    assert_eq!(settings.limits.jobs_per_command_max, 100);
    assert_eq!(settings.status.aggregate_context, "retest");
    let hub = settings.forge("hub").expect("it is there");
    assert_eq!((hub.kind(), hub.request_timeout), (ForgeKind::Github, Duration::from_secs(20)));
    assert_eq!(hub.pause_between_writes, Duration::from_secs(1));
    let ForgeDetails::Github(github) = &hub.kind else { panic!("not GitHub") };
    assert_eq!(github.api_version, "2022-11-28");
    assert!(matches!(github.auth, GithubAuth::Token(_)));
}

#[test]
fn the_web_address_follows_from_the_api_address() {
    let table = [
        (HUB, "", "https://api.github.com/", "https://github.com/"),
        (HUB, "https://ghe.example/api/v3/", "https://ghe.example/api/v3", "https://ghe.example/"),
        (HUB, "https://api.corp.ghe.com", "https://api.corp.ghe.com/", "https://corp.ghe.com/"),
        (HUB, "http://127.0.0.1:8181", "http://127.0.0.1:8181/", "http://127.0.0.1:8181/"),
        (LAB, "", "https://gitlab.com/", "https://gitlab.com/"),
        (LAB, "https://host.example/gitlab/", "https://host.example/gitlab", "https://host.example/gitlab"),
    ];
    for (forge, api_url, api, web) in table {
        let line = if api_url.is_empty() { String::new() } else { format!("api_url = {api_url:?}\n") };
        let settings = right(&format!("{forge}{line}"));
        assert_eq!((settings.forges[0].api_url.as_str(), settings.forges[0].web_url.as_str()), (api, web));
    }
    let given = right(&format!("{HUB}web_url = \"https://code.example\""));
    assert_eq!(given.forges[0].web_url.as_str(), "https://code.example/");
}

#[test]
fn a_forge_owns_just_the_repositories_of_its_globs() {
    let table = [
        ("[\"**\"]", "owner/name", true),
        ("[\"**\"]", "group/sub/name", true),
        ("[\"owner/*\"]", "owner/name", true),
        ("[\"owner/*\"]", "Owner/Name", true),
        ("[\"owner/*\"]", "owner2/name", false),
        ("[\"owner/*\"]", "owner/sub/name", false),
        ("[\"owner/**\"]", "owner/sub/name", true),
        ("[\"a/b\", \"a/c-*\"]", "a/c-d", true),
        ("[\"a/b\", \"a/c-*\"]", "a/bb", false),
    ];
    for (globs, repository, owns) in table {
        let settings = right(&format!("{HUB}repositories = {globs}"));
        assert_eq!(settings.forges[0].repositories.matches(repository), owns, "{globs} {repository}");
    }
}

#[test]
fn a_runner_of_a_forge_finds_the_only_one_of_its_kind() {
    let text = format!(
        "{HUB}{LAB}[[runner]]\nname = \"a\"\nkind = \"github_actions\"\n[[runner]]\nname = \"b\"\nkind = \"gitlab_ci\"\n{EXEC}"
    );
    let settings = right(&text);
    let forges: Vec<_> = settings.runners.iter().map(|r| (r.module(), r.forge.as_deref())).collect();
    let expected =
        [(RunnerModule::GithubActions, Some("hub")), (RunnerModule::GitlabCi, Some("lab")), (RunnerModule::Exec, None)];
    assert_eq!(forges, expected);
}

#[test]
fn a_declared_job_stands_alone_unless_it_needs_others() {
    let more = "[[runner.job]]\nname = \"package\"\ncommand = [\"x\"]\nneeds = [\"unit\"]\n\
                [[runner.job]]\nname = \"deploy\"\ncommand = [\"x\"]\nneeds = [\"package\"]\nstandalone = true\n";
    let settings = right(&format!("{HUB}{EXEC}{more}"));
    let said = |name: &str| settings.runners[0].job(name).and_then(|job| job.standalone);
    assert_eq!((said("unit"), said("package"), said("deploy")), (Some(true), Some(false), Some(true)));
    let native = "[[runner]]\nname = \"a\"\nkind = \"github_actions\"\n[[runner.job]]\npattern = \"build / *\"\n";
    let settings = right(&format!("{HUB}{native}"));
    let job = settings.runners[0].job("build / test (ubuntu, 3.12)").expect("the pattern matches");
    assert_eq!((job.standalone, job.required), (None, None), "the runner and the forge know");
    assert!(matches!(job.name, JobSelector::Pattern(_)));
    assert!(settings.runners[0].job("lint").is_none());
}

#[test]
fn an_exec_job_has_its_process() {
    let settings = right(&format!("{HUB}{EXEC}environment = {{ A = \"1\" }}\ntime_limit = \"90s\"\n"));
    let RunnerDetails::Exec(exec) = &settings.runners[0].kind else { panic!("not exec") };
    let unit = exec.command("unit").expect("it is there");
    assert_eq!(unit.command, ["make", "check"]);
    assert_eq!((unit.time_limit, unit.log_bytes_max), (Duration::from_secs(90), 10_485_760));
    assert_eq!(unit.environment.get("A").map(String::as_str), Some("1"));
    assert_eq!((exec.grace, unit.infrastructure_codes.as_slice()), (Duration::from_secs(5), [75].as_slice()));
    assert_eq!((exec.processes_max, exec.directory.to_str()), (4, Some("runs")));
}

#[test]
fn an_http_runner_has_its_requests_and_hosts() {
    let settings = right(&format!("{HUB}{HTTP}token = {{ env = \"TOKEN\" }}\n"));
    let RunnerDetails::Http(http) = &settings.runners[0].kind else { panic!("not http") };
    assert_eq!(http.start.url.template.source(), "https://ci.example/jobs/{{ job }}");
    assert_eq!(http.start.url.origin.as_str(), "https://ci.example/");
    assert_eq!(http.start.success, [200, 201, 202]);
    assert_eq!(http.allowed_hosts, ["ci.example"]);
    let poll = http.poll.as_ref().expect("it is there");
    assert_eq!((poll.state_pointer.as_str(), poll.states["bad"]), ("/state", RunState::Failed));
    let token = http.token.as_ref().expect("it is there");
    assert_eq!((token.header.as_str(), token.scheme.as_str()), ("Authorization", "Bearer"));

    let hosts = right(&format!("{HUB}{HTTP}allowed_hosts = [\"ci.example\", \"[::1]:8080\", \"plain:80\"]\n"));
    let RunnerDetails::Http(http) = &hosts.runners[0].kind else { panic!("not http") };
    assert_eq!(http.allowed_hosts, ["ci.example", "[::1]:8080", "plain"]);
}

#[test]
fn a_body_is_json_unless_it_is_said_to_be_a_form() {
    let table = [
        (r#"body = '{"job": "{{ job }}", "all": {{ overrides | tojson }}}'"#, true),
        (r#"body = "job={{ job }}&k={{ overrides.kernel | default('x') }}", body_format = "form""#, false),
    ];
    for (body, json) in table {
        let text = format!("{HUB}{HTTP}").replace("id_pointer = \"/id\"", &format!("id_pointer = \"/id\", {body}"));
        let settings = right(&text);
        let RunnerDetails::Http(http) = &settings.runners[0].kind else { panic!("not http") };
        assert_eq!(matches!(http.start.body, Some(Body::Json(_))), json, "{body}");
    }
}

#[test]
fn an_alias_may_leave_the_slash_out() {
    let settings =
        right(&format!("{HUB}[commands]\naliases = [{{ phrase = \"recheck\", means = \"retest --force\" }}]"));
    assert_eq!(settings.commands.aliases[0].means, "/retest --force");
}

#[test]
fn roles_are_ordered() {
    let ladder = [Role::None, Role::Read, Role::Triage, Role::Write, Role::Maintain, Role::Admin];
    assert!(ladder.is_sorted_by(|a, b| a < b));
    assert_eq!(ladder.map(|role| role.to_string()), ["none", "read", "triage", "write", "maintain", "admin"]);
}

#[test]
fn the_summary_names_forges_runners_and_limits() {
    let summary = right(&format!("{HUB}{LAB}{EXEC}{HTTP}")).summary();
    for words in [
        "listens on 127.0.0.1:8080",
        "forge `hub`: github at https://api.github.com/ with a token, 1 webhook secrets (without id)",
        "forge `lab`: gitlab at https://gitlab.com/ with a token, no webhook tokens, 1 signing keys (without id)",
        "runner `here`: exec of every forge, 1 jobs declared, deadline 1day",
        "runner `builder`: http of every forge, 1 jobs declared",
        "hosts ci.example",
        "10 retries per job and head",
    ] {
        assert!(summary.contains(words), "{words} is not in\n{summary}");
    }
}
