//! What is promised about configurations. Helpers here, claims in the files below.

mod api;
mod example;
mod faults;
mod flakes;
mod lava;
mod refusals;
mod secrets;
mod values;

use super::{Settings, SettingsError};
use std::collections::BTreeMap;

/// A webhook secret as `openssl rand -hex 32` gives it.
pub(super) const HOOK: &str = "6f1d3c5a9b8e7042d1c3b5a7968f0e2d4c6b8a09f1e3d5c7b9a80f2e4d6c8b0a";
/// Another one.
pub(super) const OTHER_HOOK: &str = "0a8b6c4d2e0f8a9b7c5d3e1f908a6b4c2d0e8f9a7b5c3d1e";
/// `whsec_` and the bytes 0 to 31.
pub(super) const SIGNING: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Something that looks like a key in PEM form.
pub(super) const PEM: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----\n";

/// The least there can be.
pub(super) const HUB: &str = r#"
[[forge]]
name = "hub"
kind = "github"
webhook_secrets = [{ env = "HOOK" }]
token = { env = "TOKEN" }
"#;

/// A GitLab forge to put beside it.
pub(super) const LAB: &str = r#"
[[forge]]
name = "lab"
kind = "gitlab"
signing_keys = [{ env = "SIGNING" }]
token = { env = "TOKEN" }
"#;

/// An exec runner with one job to put beside it; further keys of the job may follow.
pub(super) const EXEC: &str = r#"
[[runner]]
name = "here"
kind = "exec"
directory = "runs"
[[runner.job]]
name = "unit"
command = ["make", "check"]
"#;

/// An http runner to put beside it.
pub(super) const HTTP: &str = r#"
[[runner]]
name = "builder"
kind = "http"
start = { url = "https://ci.example/jobs/{{ job }}", id_pointer = "/id" }
poll = { url = "https://ci.example/runs/{{ id }}", states = { ok = "passed", bad = "failed" } }
job = [{ name = "image" }]
"#;

/// Every secret the texts above and the example point to.
pub(super) fn given() -> BTreeMap<String, String> {
    let secrets = [
        ("HOOK", HOOK),
        ("OTHER_HOOK", OTHER_HOOK),
        ("TOKEN", "ghp_6f1d3c5a9b8e"),
        ("SIGNING", SIGNING),
        ("GITHUB_WEBHOOK_SECRET", HOOK),
        ("/run/secrets/github-app.pem", PEM),
        ("GITHUB_TOKEN", "ghp_6f1d3c5a9b8e"),
        ("GITLAB_SIGNING_KEY", SIGNING),
        ("/run/secrets/gitlab-webhook-token", OTHER_HOOK),
        ("GITLAB_TOKEN", "glpat-6f1d3c5a9b8e"),
        ("BUILDER_TOKEN", "b-6f1d3c5a9b8e"),
        ("LAVA_TOKEN", "l-6f1d3c5a9b8e"),
        ("KERNELCI_TOKEN", "k-6f1d3c5a9b8e"),
        ("KERNELCI_PIPELINE_TOKEN", "p-6f1d3c5a9b8e"),
    ];
    secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The settings of a text that must be right.
pub(super) fn right(text: &str) -> Settings {
    Settings::parse(text, &given()).unwrap_or_else(|faults| panic!("{faults:#}\nin\n{text}"))
}

/// The faults of a text that must be wrong.
pub(super) fn wrong(text: &str) -> Vec<SettingsError> {
    match Settings::parse(text, &given()) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(faults) => faults.0,
    }
}

/// The one fault of a text that must have just one.
pub(super) fn only_fault(text: &str) -> SettingsError {
    let mut faults = wrong(text);
    assert_eq!(faults.len(), 1, "not one fault but {faults:#?}\nin\n{text}");
    faults.remove(0)
}
