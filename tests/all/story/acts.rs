//! What people of the repository do beside commenting: its policy, its teams, its roles.

use super::stage::{HEAD, REPO, Sandbox, Stage};

impl Stage {
    /// Puts a policy on the default branch, and waits until every command must know it.
    pub async fn policy(&self, text: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.put_file(REPO, ".retest.toml", text),
            Sandbox::GitLab { forge, project } => forge.put_file(*project, ".retest.toml", text),
        }
        self.pass_s(301).await;
    }

    /// Takes the policy off the default branch, and waits likewise.
    pub async fn no_policy(&self) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.remove_file(REPO, ".retest.toml"),
            Sandbox::GitLab { forge, project } => forge.remove_file(*project, ".retest.toml"),
        }
        self.pass_s(301).await;
    }

    /// Puts a policy into the change itself, and waits likewise.
    pub async fn policy_in_the_change(&self, text: &str) {
        let branch = format!("change-{}", self.number);
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                for at in [HEAD, branch.as_str()] {
                    forge.put_file_at(REPO, at, ".retest.toml", text);
                }
            }
            Sandbox::GitLab { forge, project } => forge.put_file_at(*project, &branch, ".retest.toml", text),
        }
        self.pass_s(301).await;
    }

    /// Deletes a comment.
    pub fn take_away(&self, comment: u64, login: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.delete_comment(REPO, comment, login),
            Sandbox::GitLab { forge, .. } => forge.delete_note(comment),
        }
    }

    /// Puts somebody into the team or group `ci`, or takes them out.
    pub fn in_team(&self, login: &str, member: bool) {
        match &self.sandbox {
            Sandbox::GitHub(forge) if member => forge.add_member("acme", "ci", login),
            Sandbox::GitHub(forge) => forge.remove_member("acme", "ci", login),
            Sandbox::GitLab { forge, .. } => forge.set_group_level("acme/ci", login, if member { 10 } else { 0 }),
        }
    }

    /// Changes somebody's role, in GitHub's words.
    pub fn role(&self, login: &str, role: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.set_role(REPO, login, role),
            Sandbox::GitLab { forge, project } => {
                let level = match role {
                    "read" => 10,
                    "triage" => 20,
                    "write" => 30,
                    "maintain" => 40,
                    _ => 0,
                };
                forge.set_level(*project, login, level);
            }
        }
    }
}
