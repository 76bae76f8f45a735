//! What the checks refuse: one row per rule, each giving exactly one fault with something to do next.

use super::{EXEC, HTTP, HUB, LAB, only_fault, right};

/// One row: the text, the path of its one fault, and words of the fault.
type Row<'t> = (&'t str, &'t str, &'t str);

fn check(base: &str, rows: &[Row<'_>]) {
    for (text, path, words) in rows {
        let fault = only_fault(&format!("{base}{text}\n"));
        assert_eq!(&fault.path, path, "{text}");
        assert!(fault.text.contains(words), "{text}: {}", fault.text);
        assert!(!fault.hint.is_empty(), "{text} leaves people alone");
        assert!(fault.place.is_some(), "{text} has no place");
    }
}

#[test]
fn values_of_the_general_sections_are_refused() {
    check(
        HUB,
        &[
            ("[server]\nlisten = \"localhost:8080\"", "server.listen", "not an IP address and a port"),
            ("[server]\nlisten = \"127.0.0.1\"", "server.listen", "not an IP address and a port"),
            ("[server]\npublic_url = \"example.org\"", "server.public_url", "not an address"),
            ("[server]\npublic_url = \"ftp://example.org\"", "server.public_url", "not an http or https"),
            ("[server]\npublic_url = \"https://example.org/?a=1\"", "server.public_url", "`?` or `#`"),
            ("[server]\nbody_bytes_max = 1000", "server.body_bytes_max", "out of range"),
            ("[server]\nconnections_max = 0", "server.connections_max", "out of range"),
            ("[server]\nworker_threads = 0", "server.worker_threads", "out of range"),
            ("[server]\nrequest_timeout = \"10\"", "server.request_timeout", "not a duration"),
            ("[server]\nheader_timeout = \"0s\"", "server.header_timeout", "out of range"),
            ("[server]\ndrain_timeout = \"1h\"", "server.drain_timeout", "out of range"),
            ("[store]\nretention = \"71h\"", "store.retention", "shorter than `commands.comment_age_max` (`3days`)"),
            ("[store]\nretention = \"forever\"", "store.retention", "not a duration"),
            ("[store]\nretention = \"900years\"", "store.retention", "out of range"),
            ("[store]\npath = \"\"", "store.path", "not a path"),
            ("[store]\npath = \"sqlite:x.db\"", "store.path", "not a path"),
            ("[store]\ncommit_batch_max = 0", "store.commit_batch_max", "out of range"),
            ("[log]\nfilter = \"\"", "log.filter", "is empty"),
            ("[metrics]\nlisten = \"127.0.0.1:8080\"", "metrics.listen", "the address of the main server"),
            ("[commands]\nprefix = \"/lab\"", "commands.prefix", "starts with `/`"),
            ("[commands]\nmention = [\"@bot\"]", "commands.mention[0]", "not a login"),
            ("[commands]\ndisabled = [\"retset\"]", "commands.disabled[0]", "there is no `retset`"),
            ("[commands]\naliases = [{ phrase = \"a\" }]", "commands.aliases[0].means", "is missing"),
            (
                "[commands]\naliases = [{ phrase = \"a\", means = \"/merge\" }]",
                "commands.aliases[0].means",
                "no `merge`",
            ),
            (
                "[commands]\naliases = [{ phrase = \"a\", means = \"/retest\" }, { phrase = \"A\", means = \"/help\" }]",
                "commands.aliases[1].phrase",
                "has a meaning already",
            ),
            ("[rights]\nrole_cache = \"1h\"", "rights.role_cache", "out of range"),
            ("[rights]\ntest = []", "rights.test", "lets nobody through"),
            ("[rights]\ntest = [\"write\", \"admin\"]", "rights.test[1]", "a second role"),
            ("[rights]\ntest = [\"write\", \"team:acme\"]", "rights.test[1]", "names no team"),
            ("[rights]\ntest = \"group:a//b\"", "rights.test", "names no group"),
            ("[rights]\ntest = \"user:sam\"", "rights.test", "names nobody"),
            ("[rights]\ntest = \"everybody and his dog\"", "rights.test", "is not one of `none`"),
            ("[limits]\ncooldown = \"2days\"", "limits.cooldown", "out of range"),
            ("[limits]\nretries_per_runner_per_day = 0", "limits.retries_per_runner_per_day", "out of range"),
            ("[policy]\npath = \"../x.toml\"", "policy.path", "not a path inside a repository"),
            ("[policy]\npath = \"/x.toml\"", "policy.path", "not a path inside a repository"),
            ("[policy]\nrefresh = \"0s\"", "policy.refresh", "out of range"),
            ("[limits]\njobs_per_command_max = 0", "limits.jobs_per_command_max", "out of range"),
            ("[limits]\nretries_per_job_and_head = 0", "limits.retries_per_job_and_head", "out of range"),
            ("[status]\naggregate_context = \"\"", "status.aggregate_context", "is empty"),
            ("[status]\ntarget_url = \"/local\"", "status.target_url", "not an address"),
        ],
    );
}

#[test]
fn forges_are_refused() {
    check(
        HUB,
        &[
            ("api_url = \"https://github.com\"", "forge[0].api_url", "the web page, not the API"),
            ("api_url = \"https://me:pw@ghe.example/api/v3\"", "forge[0].api_url", "user name or password"),
            ("web_url = \"no\"", "forge[0].web_url", "not an address"),
            ("app = { id = 1, private_key = { env = \"TOKEN\" } }", "forge[0].app", "stands beside `token`"),
            ("api_version = \"v3\"", "forge[0].api_version", "not a date"),
            ("repositories = []", "forge[0].repositories", "matches no repository"),
            ("repositories = [\"owner\"]", "forge[0].repositories[0]", "full names have a `/`"),
            ("repositories = [\"owner/[\"]", "forge[0].repositories[0]", "not a glob"),
            ("pause_between_writes = \"2m\"", "forge[0].pause_between_writes", "out of range"),
            ("bot_login = \"@bot\"", "forge[0].bot_login", "not a login"),
        ],
    );
    check(
        LAB,
        &[
            ("api_url = \"https://git.example/api/v4/\"", "forge[0].api_url", "the API, not the instance"),
            ("webhook_secrets = [{ env = \"HOOK\" }]", "forge[0].webhook_secrets", "a key of GitHub forges"),
            ("api_version = \"2022-11-28\"", "forge[0].api_version", "a key of GitHub forges"),
            (LAB, "forge[1].name", "the name of an earlier forge"),
        ],
    );
    let name = only_fault(&HUB.replace("\"hub\"", "\"My Hub\""));
    assert_eq!((name.path.as_str(), name.text.as_str()), ("forge[0].name", "`My Hub` cannot be a name"));
    assert_eq!(only_fault("").path, "forge");
}

#[test]
fn a_forge_without_verification_or_without_a_way_to_act_is_refused() {
    let table = [
        (HUB, "webhook_secrets = [{ env = \"HOOK\" }]\n", "forge[0].webhook_secrets"),
        (HUB, "token = { env = \"TOKEN\" }\n", "forge[0].app"),
        (LAB, "signing_keys = [{ env = \"SIGNING\" }]\n", "forge[0].webhook_tokens"),
        (LAB, "token = { env = \"TOKEN\" }\n", "forge[0].token"),
    ];
    for (text, without, path) in table {
        let fault = only_fault(&text.replace(without, ""));
        assert_eq!(fault.path, path);
        assert!(fault.text.contains("is missing"), "{}", fault.text);
    }
    let empty = only_fault(&HUB.replace("[{ env = \"HOOK\" }]", "[]"));
    assert_eq!(empty.path, "forge[0].webhook_secrets");
}

#[test]
fn runners_are_refused() {
    let runner = |more: &str| format!("[[runner]]\nname = \"r\"\n{more}");
    let rows = [
        (runner("kind = \"gitlab_ci\""), "runner[0].forge", "there is no gitlab forge"),
        (runner("kind = \"github_actions\"\nforge = \"hup\""), "runner[0].forge", "there is no `hup`"),
        (runner("kind = \"gitlab_ci\"\nforge = \"hub\""), "runner[0].forge", "`hub` is a github forge"),
        (runner("kind = \"github_actions\"\nattempts_max = 0"), "runner[0].attempts_max", "out of range"),
        (runner("kind = \"github_actions\"\npoll_min = \"10m\""), "runner[0].poll_min", "longer than `poll_max`"),
        (runner("kind = \"github_actions\"\npoll_min = \"0s\""), "runner[0].poll_min", "out of range"),
        (runner("kind = \"github_actions\"\nrepositories = [\"x\"]"), "runner[0].repositories[0]", "matches no"),
        (runner("kind = \"github_actions\"\n[[runner.job]]\ngroups = [\"a\"]"), "runner[0].job[0].name", "is missing"),
        (
            runner("kind = \"github_actions\"\n[[runner.job]]\npattern = \"[\""),
            "runner[0].job[0].pattern",
            "not a glob",
        ),
        (
            runner("kind = \"github_actions\"\n[[runner.job]]\npattern = \"a\"\nname = \"a\""),
            "runner[0].job[0].pattern",
            "stands beside `name`",
        ),
        (runner("kind = \"exec\"\ndirectory = \"x\""), "runner[0].job", "there is no job"),
        ("[[runner]]\nkind = \"github_actions\"".to_owned(), "runner[0].name", "is missing"),
        (runner(""), "runner[0].kind", "is missing"),
    ];
    for (text, path, words) in &rows {
        check(HUB, &[(text, path, words)]);
    }
    let two = format!("{HUB}{}[[runner]]\nname = \"r\"\nkind = \"github_actions\"", HUB.replace("\"hub\"", "\"hub2\""));
    assert!(only_fault(&two).text.contains("several github forges"));
}

#[test]
fn exec_jobs_are_refused() {
    let base = format!("{HUB}{EXEC}");
    check(
        &base,
        &[
            ("time_limit = \"0s\"", "runner[0].job[0].time_limit", "out of range"),
            ("log_bytes_max = 1", "runner[0].job[0].log_bytes_max", "out of range"),
            ("overrides = [\"a.b\"]", "runner[0].job[0].overrides[0]", "cannot name a variable"),
            ("overrides = [\"kernel\", \"KERNEL\"]", "runner[0].job[0].overrides[1]", "the same variable"),
            ("overrides = [\"ld-library-path\"]", "runner[0].job[0].overrides[0]", "decides which code runs"),
            ("infrastructure_codes = [0]", "runner[0].job[0].infrastructure_codes", "no failing exit code"),
            ("overrides = [\"LD_PRELOAD\"]", "runner[0].job[0].overrides[0]", "decides which code runs"),
            ("overrides = [\"path\"]", "runner[0].job[0].overrides[0]", "decides which code runs"),
            ("overrides = [\"RETEST_SHA\"]", "runner[0].job[0].overrides[0]", "is ours"),
            ("environment = { RETEST_X = \"1\" }", "runner[0].job[0].environment.RETEST_X", "is ours"),
            ("working_directory = \"\"", "runner[0].job[0].working_directory", "is empty"),
            ("needs = [\"units\"]", "runner[0].job[0].needs[0]", "there is no `units`"),
            ("needs = [\"unit\"]", "runner[0].job[0].needs", "needs itself: unit → unit"),
            ("groups = [\" a\"]", "runner[0].job[0].groups[0]", "blanks at its ends"),
            ("pattern = \"a\"", "runner[0].job[0].pattern", "stands beside `name`"),
        ],
    );
    let commands = [
        ("[]", "runner[0].job[0].command", "names no program"),
        ("[\"\"]", "runner[0].job[0].command", "names no program"),
        ("[\"make check\"]", "runner[0].job[0].command", "one word with blanks"),
        ("[\"make\", \"{{ job }}\"]", "runner[0].job[0].command[1]", "is a template"),
        ("[\"make\", \"a\\u0000b\"]", "runner[0].job[0].command[1]", "NUL"),
    ];
    for (command, path, words) in commands {
        check(&base.replace("[\"make\", \"check\"]", command), &[("", path, words)]);
    }
    let circle = format!(
        "{base}needs = [\"b\"]\n[[runner.job]]\nname = \"b\"\ncommand = [\"x\"]\nneeds = [\"c\"]\n\
         [[runner.job]]\nname = \"c\"\ncommand = [\"x\"]\nneeds = [\"unit\"]\n"
    );
    assert_eq!(only_fault(&circle).text, "needs itself: unit → b → c → unit");
    let twice = format!("{base}[[runner.job]]\nname = \"unit\"\ncommand = [\"x\"]\n");
    assert_eq!(only_fault(&twice).path, "runner[0].job[1].name");
    let shared = format!("{base}{}", EXEC.replace("\"here\"", "\"there\""));
    assert_eq!(only_fault(&shared).path, "runner[1].directory");
}

#[test]
fn http_runners_are_refused() {
    let find = |inner: &str| format!("find = {{ {inner} }}");
    let rows = [
        (find(r#"url = "https://ci.example/{{ job }}", id_pointer = "/id""#), "find.url", "by our key"),
        (find(r#"url = "https://ci.example/{{ key }}", id_pointer = "id""#), "find.id_pointer", "not a JSON pointer"),
        (find(r#"url = "https://ci.example/{{ key }}""#), "find.id_pointer", "is missing"),
        (r#"allowed_hosts = ["ci.example", "https://ci.example"]"#.into(), "allowed_hosts[1]", "not a host"),
        (r#"token_header = "PRIVATE-TOKEN""#.into(), "token", "is missing, though its header is described"),
        ("token = { env = \"TOKEN\" }\ntoken_header = \"a b\"".into(), "token_header", "cannot name a header"),
        (r#"cancel = { url = "https://ci.example/{{ nobody }}" }"#.into(), "cancel.url", "there is no `nobody`"),
        ("cancel = {}".into(), "cancel.url", "is missing"),
        (r#"cancel = { url = "https://ci.example/{{ sha }}" }"#.into(), "cancel.url", "there is no `sha`"),
        (r#"callback_secret = { env = "HOOK" }"#.into(), "callback_secret", "nothing is called back"),
        (r#"grace = "1s""#.into(), "grace", "is a key of exec runners"),
    ];
    let base = format!("{HUB}{HTTP}");
    for (text, path, words) in &rows {
        check(&base, &[(text, &format!("runner[0].{path}"), words)]);
    }
    let elsewhere = find(r#"url = "https://ci.example:8443/{{ key }}", id_pointer = "/id""#);
    let text = format!("allowed_hosts = [\"ci.example:443\"]\n{elsewhere}");
    check(&base, &[(&text, "runner[0].find.url", "not among `allowed_hosts`")]);
    let unnamed = base.replace(", id_pointer = \"/id\"", "").replace("{{ id }}", "{{ key }}");
    let by_key = find(r#"url = "https://ci.example/{{ key }}", id_pointer = "/id""#);
    check(&unnamed, &[(&by_key, "runner[0].find", "needs `start.id_pointer`")]);
    let jobs = base.replace(r#"job = [{ name = "image" }]"#, "job = []");
    check(&jobs, &[("", "runner[0].job", "there is no job")]);
}

#[test]
fn an_http_runner_whose_end_nobody_would_hear_of_is_refused() {
    let (base, poll) = (format!("{HUB}{HTTP}"), http_line("poll = "));
    let table = [
        ("", "poll", "nobody would hear of the end"),
        (r#"poll = { url = "https://ci.example/x", state_pointer = "a" }"#, "poll.state_pointer", "not a JSON pointer"),
        (r#"poll = { url = "https://ci.example/x", url_pointer = "/a~2" }"#, "poll.url_pointer", "not a JSON pointer"),
        (r#"poll = { url = "https://ci.example/x", cause_pointer = "a" }"#, "poll.cause_pointer", "not a JSON pointer"),
        (
            r#"poll = { url = "https://ci.example/x", log_url = "https://ci.example/{{ job }}" }"#,
            "poll.log_url",
            "no `job`",
        ),
        ("callback = true\ncallback_secret = { env = \"HOOK\" }", "callback", "not told where to call back"),
    ];
    let public = "[server]\npublic_url = \"https://bot.example\"\n";
    for (instead, path, words) in table {
        let text = format!("{public}{}", base.replace(poll, instead));
        check(&text, &[("", &format!("runner[0].{path}"), words)]);
    }
    let called_back = "callback = true\ncallback_secret = { env = \"HOOK\" }";
    let told = base.replace("{{ job }}", "{{ callback_url }}").replace(poll, called_back);
    let secretless = format!("{public}{}", told.replace("callback_secret = { env = \"HOOK\" }", ""));
    check(&secretless, &[("", "runner[0].callback_secret", "is missing")]);
    check(&told, &[("", "runner[0].callback", "`server.public_url` is missing")]);
    assert!(right(&format!("{told}{public}")).warnings().is_empty());
}

#[test]
fn a_start_request_is_refused_when_a_value_could_change_where_it_goes() {
    let table = [
        ("https://{{ job }}.example/", "a template before its path"),
        ("{{ job }}", "a template before its path"),
        ("{{ job }}://ci.example/", "a template before its path"),
        ("https://ci.example{{ job }}/x", "a template before its path"),
        ("https://ci.example:{{ change }}/x", "a template before its path"),
        ("https://ci.example?{{ job }}", "a template before its path"),
        ("https://ci.example/?a={{ job }}&b={{ overrides.kernel }}", ""),
        ("https://a:b@ci.example/x", "user name or password"),
        ("https://ci.example/{% if job %}x{% endif %}", "has a block"),
        ("https://ci.example/#{{ job }}", "has a block, a comment or a `#`"),
        ("https://ci.example/a b", "does not give an address"),
        ("file:///etc/{{ job }}", "not an http or https address"),
        ("https://ci.example/{{ id }}", "has none before it is started"),
        ("https://ci.example/{{ callback_url }}", "has no callback"),
        ("https://ci.example/{{ job", "not a working template"),
        ("https://ci.example/{{ job | nofilter }}", "not a working template"),
        ("https://ci.example/{{ jop }}", "there is no `jop`"),
    ];
    for (url, words) in table {
        let text = format!("{HUB}{HTTP}").replace("https://ci.example/jobs/{{ job }}", url);
        if words.is_empty() {
            right(&text);
        } else {
            check(&text, &[("", "runner[0].start.url", words)]);
        }
    }
}

#[test]
fn a_start_request_is_refused_for_its_other_parts() {
    let table = [
        (r#"body = "{{ who }}""#, "start.body", "there is no `who`"),
        (r#"body = "{{ job }}""#, "start.body", "does not give JSON"),
        (r#"body = "{{ job | tojson }}", body_format = "form""#, "start.body", "not a working template"),
        ("success = []", "start.success", "is empty"),
        ("success = [500]", "start.success[0]", "out of range"),
        (r#"timeout = "1h""#, "start.timeout", "out of range"),
        (r#"headers = { Authorization = "x" }"#, "start.headers.Authorization", "a secret in clear"),
        (r#"headers = { Host = "x" }"#, "start.headers.Host", "by the client itself"),
        (r#"headers = { X-A = "a\nb" }"#, "start.headers.X-A", "line break"),
        (r#"headers = { "X A" = "a" }"#, "start.headers.\"X A\"", "cannot name a header"),
    ];
    let base = format!("{HUB}{HTTP}");
    for (more, path, words) in table {
        let text = base.replace("id_pointer = \"/id\"", &format!("id_pointer = \"/id\", {more}"));
        check(&text, &[("", &format!("runner[0].{path}"), words)]);
    }
    let without_id = base.replace(", id_pointer = \"/id\"", "");
    check(&without_id, &[("", "runner[0].poll.url", "`start.id_pointer` is missing")]);
    check(&base.replace(http_line("start = "), ""), &[("", "runner[0].start", "is missing")]);
}

/// The line of [`HTTP`] that starts like this.
fn http_line(start: &str) -> &'static str {
    HTTP.lines().find(|line| line.starts_with(start)).expect("HTTP has it")
}

#[test]
fn doubtful_values_work_but_warn() {
    let table = [
        (HUB.to_owned(), "runner: there is no runner"),
        (format!("{HUB}api_url = \"http://ghe.example/api/v3\""), "forge[0].api_url: is plain http"),
        (format!("{HUB}[rights]\nretest = \"read\""), "rights.retest: `read` lets strangers"),
        (format!("{HUB}{}", HUB.replace("\"hub\"", "\"hub2\"")), "forge[1]: `hub2` shares a webhook secret with `hub`"),
    ];
    for (text, warning) in table {
        let settings = right(&text);
        assert!(settings.warnings().iter().any(|w| w.starts_with(warning)), "{warning}: {:?}", settings.warnings());
    }
    assert_eq!(right(&format!("{HUB}{EXEC}")).warnings(), &[] as &[String]);
}
