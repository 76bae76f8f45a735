//! `[runner.kernelci]` as written.
//!
//! Read next: `../runner_kernelci.rs`, which checks it.

use super::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A KernelCI instance.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Kernelci {
    /// Address of the Maestro API, without `/latest`.
    #[schemars(required)]
    pub api_url: Option<String>,
    /// Token of an API account whose events the scheduler hears: retries are published with it. This or `pipeline_url` is needed.
    pub token: Option<Secret>,
    /// Address of the pipeline's own service, without `/api`: its `jobretry` is asked where publishing is refused or has no token.
    pub pipeline_url: Option<String>,
    /// Token for `jobretry`, with the permission `testretry`; needed with `pipeline_url`.
    pub pipeline_token: Option<Secret>,
    /// Globs over kernel trees; empty: all.
    pub trees: Vec<String>,
    /// Globs over branches; empty: all.
    pub branches: Vec<String>,
    /// Globs over platforms; empty: all.
    pub platforms: Vec<String>,
    /// Globs over runtimes (labs); empty: all.
    pub runtimes: Vec<String>,
    /// A new node that has not appeared by then is given up as lost: nothing tells why the scheduler dropped a retry.
    pub appears_within: String,
    /// Least retry counter of a retry. From 3 on the pipeline's own retries leave its failure alone.
    pub counter_min: u64,
    /// Whether builds may be run again, too.
    pub retry_builds: bool,
    /// Beginning of the address of a node's page; the node's id follows. Without it: the node in the API.
    pub page: Option<String>,
    /// Any request may take this long.
    pub timeout: String,
}

impl Default for Kernelci {
    fn default() -> Self {
        Self {
            api_url: None,
            token: None,
            pipeline_url: None,
            pipeline_token: None,
            trees: Vec::new(),
            branches: Vec::new(),
            platforms: Vec::new(),
            runtimes: Vec::new(),
            appears_within: "15m".into(),
            counter_min: 1,
            retry_builds: false,
            page: None,
            timeout: "20s".into(),
        }
    }
}
