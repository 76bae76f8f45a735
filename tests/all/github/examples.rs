//! Every example payload that GitHub's own tool makers publish is taken.

use std::collections::BTreeMap;

use retest_bot::forge::github::{GitHub, GitHubForgeConfig};
use retest_bot::ports::{Decoded, Forge as _, Secrets};
use serde::Deserialize;

use super::hooks::signed;
use super::{SECRET, Site, app};
use crate::prism::tools;

#[derive(Deserialize)]
struct Event {
    name: String,
    examples: Vec<serde_json::Value>,
}

#[tokio::test]
async fn no_published_example_is_malformed_and_those_of_comments_changes_and_jobs_are_decoded() {
    let file = tools().join("webhooks-examples.json");
    let text = std::fs::read_to_string(&file).expect("prepared by tests/tools/prepare");
    let published: Vec<Event> = serde_json::from_str(&text).expect("the published form");
    assert!(published.len() >= 58, "{} events", published.len());
    let site = Site::new(app()).await;
    let config = GitHubForgeConfig {
        webhook_secrets: Secrets::new(vec![SECRET.into()]),
        repositories: None,
        bot_login: None,
        may_hold_command: std::sync::Arc::new(|_| true),
    };
    let forge = GitHub::new(std::sync::Arc::clone(&site.api), config, std::sync::Arc::new(site.clock.clone()));
    let mut decoded: BTreeMap<String, usize> = BTreeMap::new();
    for event in published {
        for example in event.examples {
            let request = signed(&event.name, example.to_string());
            match forge.receive(&request).expect("authentic") {
                Decoded::Wanted(_) => *decoded.entry(event.name.clone()).or_default() += 1,
                Decoded::Ignored(_) => {}
                Decoded::Malformed(problem) => panic!("{problem}"),
            }
        }
    }
    let names = [
        "pull_request",
        "pull_request_review",
        "pull_request_review_comment",
        "status",
        "workflow_job",
        "workflow_run",
    ];
    for name in names {
        assert!(decoded.contains_key(name), "{name} among {decoded:?}");
    }
}
