//! Where webhooks go, and the rule that switches a failing one off.
//!
//! More than three failures in a row disable a hook for a minute, doubled each time up to a day; the 40th in a row does
//! for good. What happens meanwhile is lost. Read next: `deliveries.rs`.

use serde_json::{Value, json};

use super::GitLabSandbox;
use super::bodies::iso;
use super::state::{Kind, State};

/// Failures in a row that are forgiven.
const FORGIVEN: u32 = 3;

/// Failures in a row that disable for good.
const FAILURES_MAX: u32 = 40;

/// First time out, in milliseconds.
const BACKOFF_MS: i64 = 60_000;

/// Longest time out, in milliseconds.
const BACKOFF_MS_MAX: i64 = 86_400_000;

/// How a hook proves itself; both may be set.
#[derive(Clone, Debug, Default)]
pub struct HookSecret {
    /// Sent as it is in `X-Gitlab-Token`.
    pub token: Option<String>,
    /// `whsec_` and a base64 key: deliveries are signed after the Standard Webhooks specification.
    pub signing: Option<String>,
}

/// How a hook stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HookState {
    /// Its id.
    pub id: u64,
    /// It gets nothing until after this time, in milliseconds since 1970.
    pub disabled_until: Option<i64>,
    /// Failures in a row.
    pub failures: u32,
    /// Switched off until a person switches it on.
    pub off_for_good: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Hook {
    pub id: u64,
    pub url: String,
    pub secret: HookSecret,
    pub failures: u32,
    pub disabled_until: Option<i64>,
    pub created_ms: i64,
}

impl Hook {
    pub fn is_executable(&self, now_ms: i64) -> bool {
        let resting = self.failures > FORGIVEN && self.disabled_until.is_some_and(|until| until >= now_ms);
        !resting && self.failures < FAILURES_MAX
    }

    /// Counts one answer: 2xx and 3xx are success, all else (`None` is no answer) is failure.
    pub fn count(&mut self, status: Option<u16>, now_ms: i64) {
        if status.is_some_and(|status| (200..400).contains(&status)) {
            (self.failures, self.disabled_until) = (0, None);
            return;
        }
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        if self.failures > FORGIVEN {
            let doublings = self.failures - FORGIVEN - 1;
            let span = BACKOFF_MS.saturating_mul(1_i64 << doublings.min(20)).min(BACKOFF_MS_MAX);
            self.disabled_until = Some(now_ms + span);
        }
    }

    fn alert_status(&self, now_ms: i64) -> &'static str {
        match self.is_executable(now_ms) {
            true => "executable",
            false if self.failures >= FAILURES_MAX => "disabled",
            false => "temporarily_disabled",
        }
    }

    /// As `GET /projects/:id/hooks/:hook_id` shows it; secrets are never told.
    pub fn body(&self, project: u64, now_ms: i64) -> Value {
        json!({
            "id": self.id,
            "url": self.url,
            "name": null,
            "description": null,
            "created_at": iso(self.created_ms),
            "push_events": false,
            "push_events_branch_filter": "",
            "branch_filter_strategy": "wildcard",
            "tag_push_events": false,
            "merge_requests_events": true,
            "note_events": true,
            "confidential_note_events": true,
            "issues_events": true,
            "confidential_issues_events": false,
            "pipeline_events": true,
            "job_events": true,
            "emoji_events": false,
            "repository_update_events": false,
            "enable_ssl_verification": true,
            "alert_status": self.alert_status(now_ms),
            "disabled_until": self.disabled_until.map(iso),
            "url_variables": [],
            "custom_headers": [],
            "custom_webhook_template": null,
            "token_present": self.secret.token.is_some(),
            "signing_token_present": self.secret.signing.is_some(),
            "project_id": project,
        })
    }
}

impl State {
    /// Adds a hook that hears of every project but forks.
    pub fn add_hook(&mut self, url: &str, secret: HookSecret) -> u64 {
        let id = self.id(Kind::Hook);
        let created_ms = self.now_ms;
        self.hooks.push(Hook { id, url: url.to_owned(), secret, failures: 0, disabled_until: None, created_ms });
        self.wake.notify_one();
        id
    }
}

impl GitLabSandbox {
    /// Adds a hook and answers its id. Each hook gets every event of every project that is no fork: two hooks stand
    /// for one of the project and one of its group.
    pub fn hook(&self, url: &str, secret: HookSecret) -> u64 {
        self.with(|state| state.add_hook(url, secret))
    }

    /// Points every hook to another address, as an operator does when the receiver moves.
    pub fn move_hooks(&self, url: &str) {
        self.with(|state| {
            for hook in &mut state.hooks {
                url.clone_into(&mut hook.url);
            }
        });
    }

    /// How the hooks stand, in the order in which they were added.
    pub fn hook_state(&self) -> Vec<HookState> {
        self.with(|state| {
            let view = |hook: &Hook| HookState {
                id: hook.id,
                disabled_until: hook.disabled_until,
                failures: hook.failures,
                off_for_good: hook.failures >= FAILURES_MAX,
            };
            state.hooks.iter().map(view).collect()
        })
    }

    /// Switches every hook on again, as a person does on the page of the hook.
    pub fn enable_hooks(&self) {
        self.with(|state| {
            for hook in &mut state.hooks {
                (hook.failures, hook.disabled_until) = (0, None);
            }
        });
    }
}
