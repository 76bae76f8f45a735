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
    jobs(first: 100, after: $after) { pageInfo { hasNextPage endCursor } \
    nodes { name schedulingType needs { nodes { name } } } } } } }";

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
    scheduling_type: Option<String>,
    needs: Option<Nodes<Named>>,
}

impl GitLabClient {
    /// What the jobs of a pipeline declare by `needs`. `path` is the project's full path, `iid` the pipeline's number in
    /// it. A job that goes by its stage declares nothing and is left out: that it ran shows that it had what it needed.
    ///
    /// # Errors
    /// As every call; refused when the instance shows no such pipeline.
    pub async fn needs(&self, path: &str, iid: u64) -> Result<Needs, Failure> {
        let (mut needs, mut after) = (Needs::new(), None::<String>);
        for _ in 0..PAGES_MAX {
            let answer: Answer = self.ask(NeedsQuery { path, iid, after: after.as_deref() }).await?;
            let pipeline = answer.data.and_then(|data| data.project).and_then(|project| project.pipeline);
            let page = pipeline.and_then(|pipeline| pipeline.jobs);
            let page = page.ok_or_else(|| Failure::refused("GraphQL shows no jobs of the pipeline"))?;
            needs.extend(page.nodes.into_iter().filter_map(declared));
            after = page.page_info.filter(|info| info.has_next_page).and_then(|info| info.end_cursor);
            if after.is_none() {
                break;
            }
        }
        Ok(needs)
    }
}

fn declared(job: Job) -> Option<(String, Vec<String>)> {
    let named = job.needs.map_or_else(Vec::new, |list| list.nodes);
    let names: Vec<String> = named.into_iter().filter_map(|one| one.name).collect();
    let by_needs = job.scheduling_type.as_deref() == Some("dag");
    (by_needs || !names.is_empty()).then_some((job.name, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_needs_what_it_declares_and_one_that_goes_by_its_stage_declares_nothing() {
        let table = [
            (r#"{"name":"lava-x86","schedulingType":"dag","needs":{"nodes":[{"name":"build"}]}}"#, Some("build")),
            (r#"{"name":"lava-x86","needs":{"nodes":[{"name":"build"},{"name":null}]}}"#, Some("build")),
            (r#"{"name":"lint","schedulingType":"dag","needs":{"nodes":[]}}"#, Some("")),
            (r#"{"name":"unit","schedulingType":"stage","needs":{"nodes":[]}}"#, None),
            (r#"{"name":"unit"}"#, None),
        ];
        for (body, needs) in table {
            let job: Job = serde_json::from_str(body).expect("a job");
            assert_eq!(declared(job).map(|(_, names)| names.join(" ")).as_deref(), needs, "{body}");
        }
    }
}
