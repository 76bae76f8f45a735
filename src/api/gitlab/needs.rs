//! What each job of a pipeline needs, which only GraphQL tells (forge-gitlab reference, 4.3).
//!
//! Old instances, other schemas and missing rights make this call fail; callers then go on without.

use std::collections::HashMap;

use gitlab::api::endpoint_prelude::*;
use serde::Deserialize;

use super::{Failure, GitLabClient};

/// Pages of 100 jobs that are read at most.
const PAGES_MAX: usize = 50;

const QUERY: &str = "query($path: ID!, $iid: ID!, $after: String) { project(fullPath: $path) { pipeline(iid: $iid) { \
    stages { nodes { name } } jobs(first: 100, after: $after) { pageInfo { hasNextPage endCursor } \
    nodes { name stage { name } schedulingType needs { nodes { name } } } } } } }";

/// Names of needed jobs by name of job. A job that is not in it is one of which GitLab told nothing.
pub type Needs = HashMap<String, Vec<String>>;

struct NeedsQuery<'a> {
    path: &'a str,
    iid: u64,
    after: Option<&'a str>,
}

impl Endpoint for NeedsQuery<'_> {
    fn method(&self) -> Method {
        Method::POST
    }
    fn endpoint(&self) -> Cow<'static, str> {
        "api/graphql".into()
    }
    fn url_base(&self) -> UrlBase {
        UrlBase::Instance
    }
    fn body(&self) -> Result<Option<(&'static str, Vec<u8>)>, BodyError> {
        let variables = serde_json::json!({"path": self.path, "iid": self.iid.to_string(), "after": self.after});
        JsonParams::into_body(&serde_json::json!({"query": QUERY, "variables": variables}))
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Data>,
}
#[derive(Deserialize)]
struct Data {
    project: Option<Project>,
}
#[derive(Deserialize)]
struct Project {
    pipeline: Option<Pipeline>,
}
#[derive(Deserialize)]
struct Pipeline {
    stages: Option<Nodes<Named>>,
    jobs: Option<Jobs>,
}
#[derive(Deserialize)]
struct Jobs {
    #[serde(rename = "pageInfo")]
    page_info: Option<PageInfo>,
    nodes: Vec<Job>,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}
#[derive(Deserialize)]
struct Nodes<T> {
    nodes: Vec<T>,
}
#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    name: String,
    stage: Option<Named>,
    scheduling_type: Option<String>,
    needs: Option<Nodes<Named>>,
}

impl GitLabClient {
    /// What the jobs of a pipeline need. `path` is the project's full path, `iid` the pipeline's number in it.
    ///
    /// A job scheduled by `needs` needs those; one scheduled by its stage needs every job of the earlier stages.
    pub async fn needs(&self, path: &str, iid: u64) -> Result<Needs, Failure> {
        let (mut jobs, mut stages, mut after) = (Vec::new(), Vec::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let answer: Answer = self.ask(NeedsQuery { path, iid, after: after.as_deref() }).await?;
            let pipeline = answer.data.and_then(|data| data.project).and_then(|project| project.pipeline);
            let pipeline = pipeline.ok_or_else(|| Failure::refused("GraphQL shows no such pipeline"))?;
            stages = names(pipeline.stages);
            let page = pipeline.jobs.ok_or_else(|| Failure::refused("GraphQL shows no jobs of the pipeline"))?;
            jobs.extend(page.nodes);
            after = page.page_info.filter(|info| info.has_next_page).and_then(|info| info.end_cursor);
            if after.is_none() {
                break;
            }
        }
        Ok(resolve(jobs, &stages))
    }
}

fn names(nodes: Option<Nodes<Named>>) -> Vec<String> {
    nodes.map_or_else(Vec::new, |list| list.nodes.into_iter().filter_map(|named| named.name).collect())
}

fn resolve(jobs: Vec<Job>, stages: &[String]) -> Needs {
    let place = |job: &Job| {
        let stage = job.stage.as_ref().and_then(|stage| stage.name.as_ref())?;
        stages.iter().position(|name| name == stage)
    };
    let placed: Vec<(Option<usize>, String)> = jobs.iter().map(|job| (place(job), job.name.clone())).collect();
    let mut needs = Needs::new();
    for (job, (own, name)) in jobs.into_iter().zip(&placed) {
        let told = names(job.needs);
        if !told.is_empty() || job.scheduling_type.as_deref() == Some("dag") {
            needs.insert(name.clone(), told);
        } else if let Some(own) = *own {
            let mut earlier: Vec<String> =
                placed.iter().filter(|(place, _)| place.is_some_and(|p| p < own)).map(|(_, n)| n.clone()).collect();
            earlier.sort_unstable();
            earlier.dedup();
            needs.insert(name.clone(), earlier);
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, stage: &str, scheduling: &str, needs: &[&str]) -> Job {
        let named = |name: &&str| Named { name: Some((*name).to_owned()) };
        Job {
            name: name.into(),
            stage: Some(Named { name: Some(stage.into()) }),
            scheduling_type: Some(scheduling.into()),
            needs: Some(Nodes { nodes: needs.iter().map(named).collect() }),
        }
    }

    #[test]
    fn needs_are_those_declared_else_the_stages_before() {
        let stages = ["build".to_owned(), "test".to_owned()];
        let jobs = vec![
            job("compile", "build", "stage", &[]),
            job("unit", "test", "stage", &[]),
            job("lava-x86", "test", "dag", &["compile"]),
            job("lint", "test", "dag", &[]),
            job("odd", "a stage nobody listed", "stage", &[]),
        ];
        let needs = resolve(jobs, &stages);
        let of = |name: &str| needs.get(name).map(|list| list.join(" "));
        assert_eq!(of("compile").as_deref(), Some(""), "nothing comes before the first stage");
        assert_eq!(of("unit").as_deref(), Some("compile"));
        assert_eq!(of("lava-x86").as_deref(), Some("compile"));
        assert_eq!(of("lint").as_deref(), Some(""), "`needs: []` starts at once");
        assert_eq!(of("odd"), None, "GitLab told nothing that can be relied on");
    }
}
