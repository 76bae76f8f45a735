//! Issues of a project: those with a label, one, a new one, an edit (forge-gitlab reference, 6.3).

use gitlab::api::endpoint_prelude::*;
use gitlab::api::projects::issues::{CreateIssue, EditIssue, Issue};

use super::calls::built;
use super::{Failure, GitLabClient, wire};

/// The open issues of a project with a label, oldest first. Tasks, incidents and confidential issues are left out by
/// GitLab itself; the crate's own endpoint cannot say all of that.
struct OpenIssues<'a> {
    project: u64,
    label: &'a str,
}

impl Endpoint for OpenIssues<'_> {
    fn method(&self) -> Method {
        Method::GET
    }
    fn endpoint(&self) -> Cow<'static, str> {
        format!("projects/{}/issues", self.project).into()
    }
    fn parameters(&self) -> QueryParams<'_> {
        let mut parameters = QueryParams::default();
        parameters.push("labels", self.label).push("state", "opened").push("scope", "all");
        parameters.push("issue_type", "issue").push("confidential", "false");
        parameters.push("order_by", "created_at").push("sort", "asc");
        parameters
    }
}

impl Pageable for OpenIssues<'_> {}

/// What an issue shall say; what is none stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct IssueText<'a> {
    /// Title.
    pub title: Option<&'a str>,
    /// Text.
    pub description: Option<&'a str>,
    /// Labels beside those that it has; GitLab makes those that the project does not know.
    pub add_labels: &'a [&'a str],
}

impl GitLabClient {
    /// The open issues with a label, oldest first.
    ///
    /// # Errors
    /// As every call.
    pub async fn open_issues(&self, project: u64, label: &str) -> Result<Vec<wire::Issue>, Failure> {
        self.all(OpenIssues { project, label }).await
    }

    /// One issue; a 404 is one that does not exist, or that we may not see.
    ///
    /// # Errors
    /// As every call.
    pub async fn issue(&self, project: u64, iid: u64) -> Result<wire::Issue, Failure> {
        self.ask(built(Issue::builder().project(project).issue(iid).build())?).await
    }

    /// Opens an issue.
    ///
    /// # Errors
    /// As every call.
    pub async fn create_issue(&self, project: u64, text: IssueText<'_>) -> Result<wire::Issue, Failure> {
        let mut issue = CreateIssue::builder();
        issue.project(project).title(text.title.unwrap_or_default());
        issue.description(text.description.unwrap_or_default());
        if !text.add_labels.is_empty() {
            issue.labels(text.add_labels.iter().copied());
        }
        self.ask(built(issue.build())?).await
    }

    /// Changes an issue.
    ///
    /// # Errors
    /// As every call.
    pub async fn edit_issue(&self, project: u64, iid: u64, text: IssueText<'_>) -> Result<wire::Issue, Failure> {
        let mut edit = EditIssue::builder();
        edit.project(project).issue(iid);
        if let Some(title) = text.title {
            edit.title(title);
        }
        if let Some(description) = text.description {
            edit.description(description);
        }
        for label in text.add_labels {
            edit.add_label(*label);
        }
        self.ask(built(edit.build())?).await
    }
}
