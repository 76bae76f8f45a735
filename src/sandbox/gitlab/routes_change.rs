//! Merge requests: one, the list, labels, their pipelines, approvals.
//!
//! Read next: `routes_notes.rs`.

use chrono::DateTime;
use serde_json::json;

use super::ask::{Answer, Ask, Outcome, page, page_uncounted};
use super::new::NewPipeline;
use super::routes_project::{known_change, labels_after, need};
use super::state::{DEVELOPER, MergeRequest, State};

pub(super) fn serve(state: &mut State, ask: &Ask, project: u64, tail: &[&str]) -> Outcome {
    match (ask.method.as_str(), tail) {
        ("GET", []) => list(state, ask, project),
        ("GET", [iid]) => {
            let iid = known_change(state, project, iid)?;
            Ok(Answer::ok(state.change_body(state.change(project, iid), true)))
        }
        ("PUT", [iid]) => {
            need(state, ask, project, DEVELOPER)?;
            let iid = known_change(state, project, iid)?;
            edit(state, ask, project, iid);
            Ok(Answer::ok(state.change_body(state.change(project, iid), true)))
        }
        ("GET", [iid, "pipelines"]) => {
            let iid = known_change(state, project, iid)?;
            let pipelines = state.pipelines_of(state.change(project, iid));
            Ok(page_uncounted(&state.base, ask, pipelines, |pipeline| state.pipeline_row(pipeline)))
        }
        ("POST", [iid, "pipelines"]) => {
            let iid = known_change(state, project, iid)?;
            run_pipeline(state, ask, project, iid)
        }
        ("GET", [iid, "approvals"]) => {
            let iid = known_change(state, project, iid)?;
            let change = state.change(project, iid);
            let by: Vec<_> = change.approved_by.iter().map(|id| json!({"user": state.user_body(*id)})).collect();
            Ok(Answer::ok(json!({
                "id": change.id,
                "iid": iid,
                "project_id": project,
                "state": change.state,
                "approved": !by.is_empty(),
                "approvals_required": 0,
                "approvals_left": 0,
                "user_has_approved": change.approved_by.contains(&ask.user),
                "user_can_approve": true,
                "approved_by": by,
            })))
        }
        _ => Err(Answer::no_route()),
    }
}

fn list(state: &State, ask: &Ask, project: u64) -> Outcome {
    let since = match ask.some("updated_after") {
        None => None,
        Some(text) => match DateTime::parse_from_rfc3339(text) {
            Ok(time) => Some(time.timestamp_millis()),
            Err(_) => return Err(Answer::error(400, "updated_after is invalid")),
        },
    };
    let iids: Vec<u64> = ask.list("iids").into_iter().filter_map(|text| text.parse().ok()).collect();
    let labels = ask.commas("labels").unwrap_or_default();
    let fits = |change: &&MergeRequest| {
        ask.some("state").is_none_or(|wanted| wanted == "all" || wanted == change.state)
            && since.is_none_or(|since| change.updated_ms > since)
            && ask.some("source_branch").is_none_or(|wanted| wanted == change.source_branch)
            && ask.some("target_branch").is_none_or(|wanted| wanted == change.target_branch)
            && (iids.is_empty() || iids.contains(&change.iid))
            && labels.iter().all(|label| change.labels.contains(label))
    };
    let changes = state.project(project).merge_requests.values().rev().filter(fits);
    Ok(page(&state.base, ask, changes.collect(), |change| state.change_body(change, false)))
}

fn edit(state: &mut State, ask: &Ask, project: u64, iid: u64) {
    let labels = labels_after(ask, &state.change(project, iid).labels);
    state.set_change_labels((project, iid), ask.user, labels);
    match ask.some("state_event") {
        Some("close") => state.set_change_state((project, iid), Some(ask.user), "closed", "close"),
        Some("reopen") => state.set_change_state((project, iid), Some(ask.user), "opened", "reopen"),
        _ => {}
    }
}

/// A new pipeline of the merge request, in this project even when its head lies in a fork.
fn run_pipeline(state: &mut State, ask: &Ask, project: u64, iid: u64) -> Outcome {
    need(state, ask, project, DEVELOPER)?;
    let home = state.project(project);
    let change = state.change(project, iid);
    if change.source_project != project && !home.fork_pipelines_in_parent {
        return Err(Answer::field("base", "Insufficient permissions to create a new pipeline"));
    }
    if home.ci.is_empty() {
        return Err(Answer::field("base", "The resulting pipeline would have been empty."));
    }
    let new = NewPipeline {
        sha: change.sha().to_owned(),
        mr_iid: Some(iid),
        source: "merge_request_event".to_owned(),
        jobs: home.ci.clone(),
        ..NewPipeline::default()
    };
    let id = state.create_pipeline(project, new, ask.user);
    Ok(Answer::created(state.pipeline_body(state.pipeline(id))))
}
