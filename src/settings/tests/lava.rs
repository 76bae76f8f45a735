//! What is said of lava runners and of patterns.

use super::{EXEC, HTTP, HUB, only_fault, right};
use crate::settings::RunnerDetails;

/// A lava runner to put beside a forge; further keys of the instance may follow.
const LAVA: &str = "[[runner]]\nname = \"boards\"\nkind = \"lava\"\n[runner.lava]\nurl = \"https://lava.example/lab/\"\n\
                    token = { env = \"LAVA_TOKEN\" }\n";

#[test]
fn an_address_and_a_token_are_enough_and_the_job_pages_are_the_pattern() {
    let settings = right(&format!("{HUB}{LAVA}"));
    let runner = settings.runner("boards").expect("the runner");
    let RunnerDetails::Lava(lava) = &runner.kind else { panic!("{runner:?}") };
    assert!(lava.suites.is_match("0_smoke") && lava.callback.is_none() && lava.metadata.is_empty());
    let pattern = runner.patterns.first().and_then(|pattern| pattern.url.as_ref()).expect("a pattern");
    assert!(pattern.is_match("https://lava.example/lab/scheduler/job/7") && runner.patterns.len() == 1);
}

#[test]
fn what_could_not_work_or_would_reach_too_far_is_refused_at_its_place() {
    let lava = |more: &str| format!("{HUB}{LAVA}{more}\n");
    let with_patterns =
        |base: &str, patterns: &str| base.replacen("kind =", &format!("patterns = {patterns}\nkind ="), 1);
    let table = [
        (lava("metadata = { board = \"x\" }"), "runner[0].lava.metadata", "any revision has it"),
        (lava("metadata = { commit = \"{sha}-{user}\" }"), "runner[0].lava.metadata.commit", "an unknown value"),
        (lava("tags = [\"{\"]"), "runner[0].lava.tags[0]", "a lone brace"),
        (
            lava("url_prefixes = [\"https://storage.example\"]"),
            "runner[0].lava.url_prefixes[0]",
            "storage.example.evil begins so too",
        ),
        (lava("suites = [\"[\"]"), "runner[0].lava.suites[0]", "no glob"),
        (lava("callback_secret = { env = \"HOOK\" }"), "runner[0].lava.callback_secret", "no address to call back"),
        (
            lava("[[runner.job]]\nname = \"a\"\noverrides = [\"kernle\"]"),
            "runner[0].job[0].overrides[0]",
            "a typing error",
        ),
        (lava("").replace("token = { env = \"LAVA_TOKEN\" }", ""), "runner[0].lava.token", "no token"),
        (format!("{HUB}[[runner]]\nname = \"b\"\nkind = \"lava\"\n"), "runner[0].lava", "no instance"),
        (format!("{HUB}{}", with_patterns(LAVA, "[{}]")), "runner[0].patterns[0]", "it says nothing"),
        (
            format!("{HUB}{}", with_patterns(LAVA, "[{ url = \"https://lava/x\" }]")),
            "runner[0].patterns[0].url",
            "no run is named",
        ),
        (format!("{HUB}{}", with_patterns(LAVA, "[{ context = \"[\" }]")), "runner[0].patterns[0].context", "no glob"),
        (
            format!("{HUB}{}", with_patterns(EXEC, "[{ context = \"x\" }]")),
            "runner[0].patterns",
            "exec runs have no pages",
        ),
        (
            format!("{HUB}{HTTP}")
                .replace("kind = \"http\"", "kind = \"http\"\nlava = { url = \"https://x.example\" }"),
            "runner[0].lava",
            "a key of another module",
        ),
    ];
    for (text, path, why) in table {
        assert_eq!(only_fault(&text).path, path, "{why}");
    }
}
