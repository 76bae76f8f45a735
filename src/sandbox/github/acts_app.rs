//! What administrators do: install and suspend the App, mark drafts ready, point a change at another branch.
//!
//! Read next: `acts.rs`.

use serde_json::{Value, json};

use super::GitHubSandbox;
use super::hooks::Note;
use super::routes_app::installation_body;
use super::state::State;

impl GitHubSandbox {
    /// Suspends the installation, as `login`: it mints no tokens any more, and those it has get 403.
    pub fn suspend(&self, login: &str) {
        self.with(|state| {
            state.suspended = true;
            state.note_installation("suspend", login);
        });
    }

    /// Lets a suspended installation work again, as `login`.
    pub fn unsuspend(&self, login: &str) {
        self.with(|state| {
            state.suspended = false;
            state.note_installation("unsuspend", login);
        });
    }

    /// Marks a change as draft or as ready for review.
    pub fn set_draft(&self, repo: &str, number: u64, draft: bool) {
        self.with(|state| {
            let (author, pull) = state.pull_mut(repo, number);
            pull.draft = draft;
            let action = if draft { "converted_to_draft" } else { "ready_for_review" };
            state.note_pull(repo, number, &author, (action, json!({})));
        });
    }

    /// Points a change at another base branch.
    pub fn retarget(&self, repo: &str, number: u64, base_ref: &str) {
        self.with(|state| {
            let (author, pull) = state.pull_mut(repo, number);
            let old = std::mem::replace(&mut pull.base_ref, base_ref.to_owned());
            let more = json!({"changes": {"base": {"ref": {"from": old}, "sha": {"from": pull.base_sha}}}});
            state.note_pull(repo, number, &author, ("edited", more));
        });
    }
}

impl State {
    /// Tells of the installation: an event of no repository.
    fn note_installation(&mut self, action: &str, by: &str) {
        let (Some(repo), Some(app_id)) = (self.repos.values().next(), self.own_app_id()) else { return };
        let repo_id = repo.id;
        let repos: Vec<Value> = self
            .repos
            .values()
            .map(|repo| {
                json!({
                    "id": repo.id, "node_id": format!("R_{}", repo.id), "name": repo.name,
                    "full_name": repo.full_name(), "private": repo.private,
                })
            })
            .collect();
        let body = json!({"installation": installation_body(self), "repositories": repos});
        self.emit(&Note::new("installation", repo_id, by).action(action).only_for(app_id), body);
        if let Some(event) = self.queue.back_mut() {
            event.payload.remove("repository");
        }
    }
}
