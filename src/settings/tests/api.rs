//! Tokens, job templates and KernelCI instances that are refused, each with what to do.

use super::{HTTP, HUB, only_fault, right};

/// A hash as `sha256sum` writes one.
const HASH: &str = "9d0a1b0e6c3e0e3b7f2b0f6c7d1c3e5a7b9d1f3e5c7a9b1d3f5e7c9a1b3d5f7e";

fn token(keys: &str) -> String {
    format!("{HUB}\n{HTTP}\n[[api.tokens]]\nname = \"farm\"\n{keys}\n")
}

fn template(keys: &str) -> String {
    format!("{HUB}\n{HTTP}\n[[template]]\nname = \"boot\"\nrunner = \"builder\"\n{keys}\n")
}

#[test]
fn a_token_without_a_use_or_a_hash_is_refused() {
    let good = token(&format!("sha256 = \"{HASH}\"\nscopes = [\"jobs:read\"]"));
    assert_eq!(right(&good).api.tokens[0].sha256[0], 0x9d);
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let table = [
        (format!("sha256 = \"{HASH}\""), "may do nothing"),
        ("sha256 = \"hunter2\"\nscopes = [\"jobs:read\"]".to_owned(), "64 hex digits"),
        (format!("sha256 = \"{empty}\"\nscopes = [\"jobs:read\"]"), "empty token"),
        ("scopes = [\"jobs:read\"]".to_owned(), "is missing"),
    ];
    for (keys, part) in table {
        let fault = only_fault(&token(&keys));
        assert!(fault.text.contains(part), "{keys}: {fault:?}");
        assert!(!fault.text.contains("hunter2") && !fault.hint.contains("hunter2"), "{fault:?}");
    }
}

#[test]
fn a_template_that_could_not_be_filled_in_or_started_is_refused_at_load() {
    right(&template("job = \"image\"\nrequired = [\"kernel\"]\ndefinition = \"k: {{ kernel }}\""));
    let table = [
        ("job = \"image\"\ndefinition = \"k: {{ kernel }}\"", "`kernel`", "no such parameter"),
        ("job = \"image\"\ndefinition = \"k: {{ kernel\"", "working template", "does not compile"),
        ("job = \"imago\"", "`imago`", "not a job of the runner"),
        ("job = \"image\"\nrequired = [\"k\"]\ndefaults = { k = \"x\" }", "has a default", "both"),
    ];
    for (keys, part, why) in table {
        let fault = only_fault(&template(keys));
        assert!(fault.text.contains(part), "{why}: {fault:?}");
    }
}

#[test]
fn a_kernelci_instance_that_nothing_could_be_asked_of_is_refused() {
    let with = |keys: &str| {
        format!(
            "{HUB}\n[[runner]]\nname = \"k\"\nkind = \"kernelci\"\n[runner.kernelci]\napi_url = \"https://k.example\"\n{keys}\n"
        )
    };
    right(&with("token = { env = \"TOKEN\" }"));
    right(&with("pipeline_url = \"https://p.example\"\npipeline_token = { env = \"TOKEN\" }"));
    let table = [
        ("", "nothing could be run again"),
        ("token = { env = \"TOKEN\" }\npipeline_url = \"https://p.example\"", "beside `pipeline_url`"),
        ("token = { env = \"TOKEN\" }\ntrees = [\"[\"]", "is not a glob"),
        ("token = { env = \"TOKEN\" }\npage = \"dashboard\"", "no web address"),
    ];
    for (keys, part) in table {
        let fault = only_fault(&with(keys));
        assert!(fault.text.contains(part), "{keys}: {fault:?}");
    }
}
