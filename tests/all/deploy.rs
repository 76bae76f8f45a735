//! The files of `deploy/` fit the program they deploy: an alert on a metric that nobody counts never fires, and a
//! configuration that the program refuses is no start.
//!
//! Read next: `deploy/alerts.yaml`, `deploy/retest-bot.toml`, `deploy/github-app.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use retest_bot::flow::Metrics;
use retest_bot::settings::Settings;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of ours in `text`, as Prometheus spells them.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("retest_")).map(str::to_owned).collect()
}

#[test]
fn every_metric_of_an_alert_is_counted() {
    let metrics = Metrics::new();
    metrics.delivery("github", "stored", 1);
    metrics.command("retest", "planned");
    metrics.retry_ended("actions", "lost");
    metrics.call_failed("github", "refused");
    metrics.posted("github", "status");
    metrics.dispatched(Duration::from_secs(1));
    metrics.set_open(&[("uncertain".to_owned(), 1)]);
    let counted = metric_names(&metrics.render());

    let alerts = metric_names(&read("deploy/alerts.yaml"));
    assert!(alerts.len() >= 6, "{alerts:?}");
    let unknown: Vec<_> = alerts.difference(&counted).collect();
    assert!(unknown.is_empty(), "nobody counts {unknown:?}; these are counted: {counted:?}");
}

#[test]
fn the_configuration_of_compose_and_systemd_is_accepted() {
    let secrets = BTreeMap::from([
        ("/run/secrets/github-webhook-secret".to_owned(), "0123456789abcdef0123456789abcdef".to_owned()),
        (
            "/run/secrets/github-app.pem".to_owned(),
            "-----BEGIN PRIVATE KEY-----\nAA\n-----END PRIVATE KEY-----\n".to_owned(),
        ),
    ]);
    let settings =
        Settings::parse(&read("deploy/retest-bot.toml"), &secrets).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(settings.forges.len(), 1);

    let compose = read("deploy/compose.yaml");
    for path in secrets.keys() {
        let name = path.rsplit('/').next().unwrap_or(path);
        assert!(compose.contains(&format!("file: ./secrets/{name}")), "Compose brings no secret `{name}`");
    }
}

#[test]
fn the_app_s_webhook_goes_to_the_configured_forge() {
    let app: serde_json::Value = serde_json::from_str(&read("deploy/github-app.json")).expect("the manifest is JSON");
    let url = app["hook_attributes"]["url"].as_str().unwrap_or_default();
    let configuration = read("deploy/retest-bot.toml");
    assert!(configuration.contains("name = \"github\"") && url.ends_with("/webhooks/github"), "{url}");
    let public = url.trim_end_matches("/webhooks/github");
    assert!(configuration.contains(&format!("public_url = \"{public}\"")), "the manifest says {public}");
}

#[test]
fn the_app_asks_for_what_the_guide_says() {
    let app: serde_json::Value = serde_json::from_str(&read("deploy/github-app.json")).expect("the manifest is JSON");
    let guide = read("docs/install-github.md").to_lowercase().replace('\n', " ");
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let events =
        guide.split_once("**events**:").and_then(|(_, rest)| rest.split_once('.')).map_or("", |(list, _)| list);
    let listed: BTreeSet<String> = events.split(',').map(|name| name.trim().replace(' ', "_")).collect();
    let asked = app["default_events"].as_array().into_iter().flatten().filter_map(|name| name.as_str());
    assert_eq!(asked.map(str::to_owned).collect::<BTreeSet<_>>(), listed);
    for (name, level) in app["default_permissions"].as_object().into_iter().flatten() {
        let name = if name == "statuses" { "commit statuses".to_owned() } else { name.replace('_', " ") };
        let level = level.as_str().unwrap_or_default();
        let row = [format!("| {name} | {level} |"), format!("| {name} (organisation) | {level} |")];
        assert!(row.iter().any(|row| guide.contains(row)), "the guide has no row for {name}: {level}");
    }
}
