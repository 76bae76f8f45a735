//! Notes on merge requests and on issues, and the emoji awarded to them: the calls are the same but for one word.

use gitlab::api::endpoint_prelude::*;
use gitlab::api::projects::issues::notes::{CreateIssueNote, EditIssueNote};
use gitlab::api::projects::merge_requests::notes::awards::CreateMergeRequestNoteAward;
use gitlab::api::projects::merge_requests::notes::{CreateMergeRequestNote, EditMergeRequestNote};

use super::calls::built;
use super::{Failure, GitLabClient, wire};

/// Rows per page of the lists that we page through ourselves.
const PAGE_ROWS: usize = 100;

/// What notes stand on: the project, and the number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noteable {
    /// A merge request.
    MergeRequest(u64, u64),
    /// An issue.
    Issue(u64, u64),
}

/// The comments of something, newest first, one page; the crate's own endpoint cannot leave out system notes.
struct Comments {
    on: Noteable,
    page: usize,
}

impl Endpoint for Comments {
    fn method(&self) -> Method {
        Method::GET
    }
    fn endpoint(&self) -> Cow<'static, str> {
        match self.on {
            Noteable::MergeRequest(project, iid) => format!("projects/{project}/merge_requests/{iid}/notes").into(),
            Noteable::Issue(project, iid) => format!("projects/{project}/issues/{iid}/notes").into(),
        }
    }
    fn parameters(&self) -> QueryParams<'_> {
        let mut parameters = QueryParams::default();
        parameters.push("sort", "desc").push("order_by", "created_at").push("activity_filter", "only_comments");
        parameters.push("per_page", PAGE_ROWS.to_string()).push("page", self.page.to_string());
        parameters
    }
}

impl GitLabClient {
    /// One page (from 1) of the comments of something, newest first, and whether there are more.
    ///
    /// # Errors
    /// As every call.
    pub async fn comments(&self, on: Noteable, page: usize) -> Result<(Vec<wire::Note>, bool), Failure> {
        let notes: Vec<wire::Note> = self.ask(Comments { on, page }).await?;
        let more = notes.len() >= PAGE_ROWS;
        Ok((notes, more))
    }

    /// Writes a note; `internal` ones are seen by members only.
    ///
    /// # Errors
    /// As every call.
    pub async fn create_note(&self, on: Noteable, body: &str, internal: bool) -> Result<u64, Failure> {
        let created: wire::Created = match on {
            Noteable::MergeRequest(project, iid) => {
                let mut note = CreateMergeRequestNote::builder();
                note.project(project).merge_request(iid).body(body);
                if internal {
                    note.internal(true);
                }
                self.ask(built(note.build())?).await?
            }
            Noteable::Issue(project, iid) => {
                let mut note = CreateIssueNote::builder();
                note.project(project).issue(iid).body(body);
                if internal {
                    note.internal(true);
                }
                self.ask(built(note.build())?).await?
            }
        };
        Ok(created.id)
    }

    /// Replaces the text of a note.
    ///
    /// # Errors
    /// As every call.
    pub async fn edit_note(&self, on: Noteable, note: u64, body: &str) -> Result<(), Failure> {
        match on {
            Noteable::MergeRequest(project, iid) => {
                let mut edit = EditMergeRequestNote::builder();
                self.tell(built(edit.project(project).merge_request(iid).note(note).body(body).build())?).await
            }
            Noteable::Issue(project, iid) => {
                let mut edit = EditIssueNote::builder();
                self.tell(built(edit.project(project).issue(iid).note(note).body(body).build())?).await
            }
        }
    }

    /// Reacts to a note on a merge request. Having reacted already counts as done.
    ///
    /// # Errors
    /// As every call.
    pub async fn award(&self, (project, iid): (u64, u64), note: u64, emoji: &str) -> Result<(), Failure> {
        let mut award = CreateMergeRequestNoteAward::builder();
        award.project(project).merge_request(iid).note(note).name(emoji);
        match self.tell(built(award.build())?).await {
            Err(failure) if failure.message.contains("already been taken") => Ok(()),
            other => other,
        }
    }
}
