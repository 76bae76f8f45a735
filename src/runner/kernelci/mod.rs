//! The KernelCI runner: jobs of the Maestro API's node tree, run again by the retry event that its scheduler acts on.
//!
//! A retry there has no name: neither way to ask for one answers with an id, and the new node says nothing of the old.
//! So the new node is looked for, by build, name, platform, runtime and a counter that nobody used, until a deadline;
//! one that does not appear is lost, and nothing is ever asked for twice. Runs cannot be cancelled there.
//! Read next: `node.rs` for what a node means, `api.rs` for what is asked, `docs/runners/kernelci.md` for the reasons.

mod api;
mod node;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use globset::{GlobMatcher, GlobSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::api::Api;
use self::node::{Kind, Node};
use crate::domain::{
    CommitSha, DispatchKey, Job, JobName, JobObservation, JobState, ListedJob, Origin, Repo, RunHandle, RunObservation,
    RunOrder, RunRef, RunnerName, Timestamp, WaitOn,
};
use crate::ports::{
    Abilities, CallError, Clock, DispatchError, DispatchOrder, Found, JobOrder, LogTail, Runner, RunnerKind, Started,
    SuccessorNaming,
};

pub use self::api::{KernelCiAccess, Pipeline};

/// The scope of builds; jobs have the name of their build, platform and runtime there.
const BUILDS: &str = "build";

/// Levels between a job and its checkout; the tree has four, tests below jobs included.
const LEVELS_MAX: usize = 8;

/// Pause before a build that is still under way is looked at again.
const BUILD_PAUSE: Duration = Duration::from_secs(60);

/// Most questions about lost answers that are remembered.
const ASKED_MAX: usize = 10_000;

/// A KernelCI instance as configured.
#[derive(Clone, Debug)]
pub struct KernelCiConfig {
    /// The runner's configured name.
    pub name: RunnerName,
    /// Where it is, and how to speak there.
    pub access: KernelCiAccess,
    /// Only nodes of these trees, branches, platforms and runtimes; none means all.
    pub only: Only,
    /// A node that has not appeared by then is lost.
    pub appears_within: Duration,
    /// The least counter of a retry: 3 keeps the pipeline from retrying what we retry.
    pub counter_min: i64,
    /// Whether builds may be run again.
    pub retry_builds: bool,
    /// Beginning of the address of a node's page, its id follows; none: the API's own.
    pub page: Option<String>,
    /// Fields that a person may change, by the job's name or pattern; the first that fits counts.
    pub overrides: Vec<(GlobMatcher, Vec<String>)>,
}

/// Which nodes are ours.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// Kernel trees.
    pub trees: Option<GlobSet>,
    /// Branches.
    pub branches: Option<GlobSet>,
    /// Platforms; builds have none that counts.
    pub platforms: Option<GlobSet>,
    /// Runtimes (labs).
    pub runtimes: Option<GlobSet>,
}

impl Only {
    fn fits(&self, node: &Node) -> bool {
        let fits = |set: &Option<GlobSet>, word: Option<&str>| {
            set.as_ref().is_none_or(|set| word.is_some_and(|word| set.is_match(word)))
        };
        fits(&self.trees, node.text("/data/kernel_revision/tree"))
            && fits(&self.branches, node.text("/data/kernel_revision/branch"))
            && (node.kind() == Kind::Build
                || (fits(&self.platforms, node.platform()) && fits(&self.runtimes, node.runtime())))
    }
}

/// One KernelCI instance.
#[derive(Debug)]
pub struct KernelCi {
    config: KernelCiConfig,
    abilities: Abilities,
    api: Api,
    clock: Arc<dyn Clock>,
    /// What was asked for, for as long as its answer may be missing.
    asked: Mutex<HashMap<DispatchKey, Awaited>>,
}

/// What a run's handle holds: the node, or how to find it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Handle {
    Node(String),
    Awaited(Awaited),
}

/// A node that was asked for and has no name yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Awaited {
    parent: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    /// The counter that only it can have; none where the pipeline chose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counter: Option<i64>,
    /// The node that is repeated; it stands for the new one until that has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The nodes of that place that were there before.
    known: Vec<String>,
    /// Made after this, in the API's own milliseconds: the newest of the known ones.
    after_ms: i64,
    /// Until when it may appear, in our own milliseconds.
    until_ms: i64,
}

impl Awaited {
    /// The node that was waited for: the first new one of its place.
    fn among<'n>(&self, nodes: &'n [Node]) -> Option<&'n Node> {
        let same = |own: &Option<String>, word: Option<&str>| own.as_deref().is_none_or(|own| word == Some(own));
        nodes.iter().find(|node| {
            node.name() == self.name
                && same(&self.platform, node.platform())
                && same(&self.runtime, node.runtime())
                && self.counter.is_none_or(|counter| node.counter() == counter)
                && node.created_ms() >= self.after_ms
                && !self.known.iter().any(|known| known == node.id())
        })
    }
}

/// What one order comes to, before anything is sent.
struct Prepared {
    build: Node,
    kind: Kind,
    awaited: Awaited,
}

impl KernelCi {
    /// Sets the runner up; asks nobody.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(config: KernelCiConfig, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let api = Api::new(config.access.clone(), format!("runner `{}`", config.name)).map_err(|e| e.to_string())?;
        let abilities = Abilities {
            successor: SuccessorNaming::NewId,
            reported_by_forge: false,
            restarts_group: false,
            needs_group_over: false,
            runs_dependents: false,
            age_max: None,
            restarts_max: None,
            finds_by_key: false,
            takes_overrides: config.overrides.iter().any(|(_, keys)| !keys.is_empty()),
            cancels: false,
            starts_fresh: false,
            out_of_reach_for_forks: false,
            tails_log: false,
        };
        Ok(Self { config, abilities, api, clock, asked: Mutex::default() })
    }

    fn refusal(&self, why: &str) -> CallError {
        CallError::refused(format!("runner `{}`: {why}", self.config.name))
    }

    fn page(&self, id: &str) -> String {
        self.config.page.as_ref().map_or_else(|| self.api.node_url(id), |page| format!("{page}{id}"))
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, HashMap<DispatchKey, Awaited>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Climbs to the next node of that kind: `kbuild` for a job, `checkout` for a build.
    async fn ancestor(&self, of: &Node, kind: &str) -> Result<Option<Node>, CallError> {
        let mut at = of.clone();
        for _ in 0..LEVELS_MAX {
            let Some(parent) = at.parent() else { return Ok(None) };
            let Some(above) = self.api.node(parent, self.clock.now()).await? else { return Ok(None) };
            if above.text("/kind") == Some(kind) {
                return Ok(Some(above));
            }
            at = above;
        }
        Ok(None)
    }

    /// Looks up what the order is about: the node to repeat and its build, or the build that the order names itself.
    async fn source(&self, job: &JobOrder) -> Result<(Option<Node>, Node, Kind), DispatchError> {
        let now = self.clock.now();
        let Some(run) = &job.source_run else {
            let named = job.overrides.get("build");
            let id = named.ok_or_else(|| self.refusal("a first run needs `build`, the id of the build's node"))?;
            let build = self.api.node(id, now).await?.filter(|node| node.kind() == Kind::Build);
            let build = build.ok_or_else(|| self.refusal("`build` names no build that KernelCI knows"))?;
            return Ok((None, build, Kind::Job));
        };
        let gone = || self.refusal("KernelCI knows the node of this run no more");
        let source = self.api.node(run.as_str(), now).await?.ok_or_else(gone)?;
        let kind = source.kind();
        let above = match kind {
            Kind::Job => "kbuild",
            Kind::Build if self.config.retry_builds => "checkout",
            Kind::Build => return Err(self.refusal(BUILDS_BARRED).into()),
            Kind::Other => return Err(self.refusal("the node is neither a job nor a build").into()),
        };
        let build = self.ancestor(&source, above).await?;
        let build = build.ok_or_else(|| self.refusal(&format!("no {above} is above this run any more")))?;
        Ok((Some(source), build, kind))
    }

    async fn prepare(&self, order: &DispatchOrder) -> Result<Prepared, DispatchError> {
        let job = self.wanted(order)?;
        let (source, build, kind) = self.source(job).await?;
        if kind == Kind::Job && !build.has_passed() {
            if matches!(build.outcome().0, JobState::Running | JobState::Pending) {
                return Err(DispatchError::Parked { on: WaitOn::Time, look_after: BUILD_PAUSE });
            }
            return Err(self.refusal("its build did not pass, so KernelCI runs nothing on it").into());
        }
        let platform = job.overrides.get("platform").map(String::as_str);
        let moved = platform.is_some();
        let platform = platform.or_else(|| source.as_ref().and_then(Node::platform)).map(str::to_owned);
        let runtime = source.as_ref().and_then(Node::runtime).map(str::to_owned);
        let name = source.as_ref().map_or_else(|| job.job.to_string(), |node| node.name().to_owned());
        let now = self.clock.now();
        let there = self.api.nodes(&[("parent", build.id()), ("name", &name)], now).await?;
        let used = there.iter().map(Node::counter).max().unwrap_or(-1);
        let after_ms = source.as_ref().map_or_else(|| build.created_ms(), Node::created_ms);
        let awaited = Awaited {
            parent: build.id().to_owned(),
            name,
            platform: platform.filter(|_| kind == Kind::Job),
            // Another platform stands in another lab; the runtime of a build is the farm's choice.
            runtime: runtime.filter(|_| kind == Kind::Job && !moved),
            counter: Some(used.saturating_add(1).max(self.config.counter_min)),
            source: source.as_ref().map(|node| node.id().to_owned()),
            known: there.iter().map(|node| node.id().to_owned()).collect(),
            after_ms,
            until_ms: now.plus(self.config.appears_within).ms(),
        };
        Ok(Prepared { build, kind, awaited })
    }

    /// The one job of an order, when these fields of it may be changed.
    fn wanted<'a>(&self, order: &'a DispatchOrder) -> Result<&'a JobOrder, CallError> {
        let [job] = order.jobs.as_slice() else {
            return Err(self.refusal(&format!("one event is about one job, not {}", order.jobs.len())));
        };
        let allowed = self.allowed_overrides(&job.job);
        let first = |key: &str| job.source_run.is_none() && matches!(key, "build" | "platform");
        match job.overrides.keys().find(|key| !allowed.contains(key) && !first(key)) {
            Some(key) => Err(self.refusal(&format!("`{}` cannot be changed for this job", key.escape_debug()))),
            None => Ok(job),
        }
    }

    /// The event: a copy of the build's node with what the scheduler reads laid over it, and what people should know.
    fn event(&self, prepared: &Prepared, job: &JobOrder) -> Value {
        let mut event = prepared.build.clone().into_value();
        let awaited = &prepared.awaited;
        let filter = match prepared.kind {
            Kind::Job | Kind::Other => awaited.name.clone(),
            Kind::Build => format!("{}+", awaited.name), // the plus admits what is below the build
        };
        let laid_over = json!({
            "state": "available", // its rules wait for that, not for `done`
            "op": "updated",
            "jobfilter": [filter],
            "platform_filter": awaited.platform.iter().collect::<Vec<_>>(),
            "retry_counter": awaited.counter,
            "debug": {"retry_by": awaited.source, "retry": "manual", "retry_key": job.key.as_str()},
        });
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), laid_over) {
            for stale in ["previous_state", "previous_result", "created", "updated"] {
                event.remove(stale);
            }
            event.extend(fields);
            if let Some(data) = event.get_mut("data").and_then(Value::as_object_mut) {
                let own = |key: &&String| !matches!(key.as_str(), "platform" | "build");
                data.extend(job.overrides.iter().filter(|(key, _)| own(key)).map(|(k, v)| (k.clone(), json!(v))));
            }
        }
        event
    }

    /// Sends one wish: the event, or, where that was refused or cannot be sent, the pipeline's endpoint.
    async fn ask(&self, prepared: &mut Prepared, job: &JobOrder) -> Result<(), CallError> {
        let now = self.clock.now();
        if self.api.can_publish() {
            self.remember(&job.key, &prepared.awaited, now);
            match self.api.publish_retry(&self.event(prepared, job), now).await {
                Err(error @ CallError::Refused { .. }) if self.may_fall_back(prepared, job) => {
                    tracing::warn!(runner = %self.config.name, %error, "publishing was refused; asking the pipeline instead");
                }
                result => return result,
            }
        } else if !self.may_fall_back(prepared, job) {
            return Err(self.refusal("only the retry event can do this, and no token to publish with is configured"));
        }
        prepared.awaited.counter = None;
        self.remember(&job.key, &prepared.awaited, now);
        self.api.jobretry(prepared.awaited.source.as_deref().unwrap_or_default(), now).await
    }

    /// The pipeline's endpoint repeats one job node as it was, and knows nothing else.
    fn may_fall_back(&self, prepared: &Prepared, job: &JobOrder) -> bool {
        let plain = prepared.kind == Kind::Job && prepared.awaited.source.is_some() && job.overrides.is_empty();
        plain && self.api.has_fallback()
    }

    fn remember(&self, key: &DispatchKey, awaited: &Awaited, now: Timestamp) {
        let mut asked = self.asked();
        if asked.len() >= ASKED_MAX {
            asked.retain(|_, awaited| awaited.until_ms > now.ms());
        }
        asked.insert(key.clone(), awaited.clone());
    }

    fn started(&self, key: &DispatchKey, handle: &Handle, url: Option<String>) -> Result<Started, CallError> {
        let id = serde_json::to_string(handle).map_err(|e| self.refusal(&e.to_string()))?;
        let handle = RunHandle { id, order: RunOrder(self.clock.now().ms(), 0), url };
        Ok(Started { runs: vec![(key.clone(), handle)], also: Vec::new() })
    }

    async fn look_for(&self, awaited: &Awaited) -> Result<Option<Node>, CallError> {
        let query = [("parent", awaited.parent.as_str()), ("name", awaited.name.as_str())];
        let nodes = self.api.nodes(&query, self.clock.now()).await?;
        Ok(awaited.among(&nodes).cloned())
    }

    /// A node as a job of a revision; none when it is none of ours.
    fn listed(&self, node: &Node) -> Option<ListedJob> {
        let is_build = node.kind() == Kind::Build;
        if node.kind() == Kind::Other || !self.config.only.fits(node) {
            return None;
        }
        let place = [node.build_name(), node.platform().unwrap_or("-"), node.runtime().unwrap_or("-")];
        let (state, cause) = node.outcome();
        let seen = JobObservation {
            name: JobName::new(node.name()),
            scope: if is_build { BUILDS.to_owned() } else { place.join(":") },
            origin: Origin::Reported,
            run: RunRef::new(node.id()),
            order: RunOrder(node.created_ms(), 0),
            group: node.parent().map(str::to_owned),
            state,
            cause,
            url: Some(self.page(node.id())),
            allow_failure: false,
            manual: false,
            needs: None,
            at: Timestamp::from_ms(node.updated_ms()),
        };
        Some(ListedJob { seen, platform: node.platform().filter(|_| !is_build).map(str::to_owned), standalone: None })
    }
}

/// What is said of a build that must not be run again.
const BUILDS_BARRED: &str = "builds are not run again here; the operator can allow it with `retry_builds = true`";

#[async_trait]
impl Runner for KernelCi {
    fn name(&self) -> &RunnerName {
        &self.config.name
    }

    fn kind(&self) -> RunnerKind {
        RunnerKind::KernelCi
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    async fn dispatch(&self, order: &DispatchOrder) -> Result<Started, DispatchError> {
        let job = self.wanted(order)?;
        let mut prepared = self.prepare(order).await?;
        self.ask(&mut prepared, job).await?;
        self.asked().remove(&job.key);
        Ok(self.started(&job.key, &Handle::Awaited(prepared.awaited), None)?)
    }

    async fn find(&self, order: &DispatchOrder) -> Result<Found, CallError> {
        let job = self.wanted(order)?;
        let known = self.asked().get(&job.key).cloned();
        let awaited = match known {
            Some(awaited) => awaited,
            None => {
                // An earlier life asked, or was about to: any newer run of that place grants the wish, and whatever does
                // not appear from now on within the usual time is lost.
                let mut prepared = match self.prepare(order).await {
                    Ok(prepared) => prepared,
                    Err(DispatchError::Call(error)) => return Err(error),
                    Err(DispatchError::Parked { .. }) => return Ok(Found::CannotTell),
                };
                prepared.awaited.counter = None;
                prepared.awaited.known = prepared.awaited.source.iter().cloned().collect();
                prepared.awaited.after_ms += 1;
                self.remember(&job.key, &prepared.awaited, self.clock.now());
                prepared.awaited
            }
        };
        if let Some(node) = self.look_for(&awaited).await? {
            self.asked().remove(&job.key);
            let page = self.page(node.id());
            return Ok(Found::Sent(self.started(&job.key, &Handle::Node(node.id().to_owned()), Some(page))?));
        }
        if self.clock.now().ms() < awaited.until_ms {
            return Err(CallError::Unreachable { log: "the answer was lost, and no new node is there yet".into() });
        }
        self.asked().remove(&job.key);
        Ok(Found::CannotTell)
    }

    async fn observe(&self, _repo: &Repo, _job: &JobName, handle: &RunHandle) -> Result<RunObservation, CallError> {
        let read =
            serde_json::from_str(&handle.id).map_err(|_| self.refusal("this run was not started by this runner"));
        let node = match read? {
            Handle::Node(id) => self.api.node(&id, self.clock.now()).await?,
            Handle::Awaited(awaited) => match self.look_for(&awaited).await? {
                Some(node) => Some(node),
                None => {
                    let waits = self.clock.now().ms() < awaited.until_ms;
                    let minutes = self.config.appears_within.as_secs().div_ceil(60);
                    let gone = format!("KernelCI took the wish and made no node for it within {minutes} min");
                    return Ok(RunObservation {
                        state: if waits { JobState::Pending } else { JobState::Lost },
                        cause: (!waits).then_some(gone),
                        url: None,
                        run: awaited.source.map(RunRef::new),
                        order: handle.order,
                    });
                }
            },
        };
        let node = node.ok_or_else(|| self.refusal("KernelCI knows the node of this run no more"))?;
        let (state, cause) = node.outcome();
        let run = Some(RunRef::new(node.id()));
        Ok(RunObservation { state, cause, url: Some(self.page(node.id())), run, order: handle.order })
    }

    async fn cancel(&self, _repo: &Repo, _job: &JobName, _handle: &RunHandle) -> Result<(), CallError> {
        Err(self.refusal("KernelCI has no way to cancel a run; it goes on"))
    }

    async fn log_tail(&self, _repo: &Repo, _handle: &RunHandle, _bytes_max: usize) -> Result<LogTail, CallError> {
        Err(self.refusal("logs stand in KernelCI's own storage; the run's page links to them"))
    }

    fn lists(&self) -> bool {
        true
    }

    async fn list(&self, _repo: &Repo, sha: &CommitSha) -> Result<Vec<ListedJob>, CallError> {
        let query = [("data.kernel_revision.commit", sha.as_str()), ("kind__in", "kbuild,job")];
        let nodes = self.api.nodes(&query, self.clock.now()).await?;
        Ok(nodes.iter().filter_map(|node| self.listed(node)).collect())
    }

    async fn commit_of(&self, id: &str) -> Result<Option<CommitSha>, CallError> {
        let node = self.api.node(id, self.clock.now()).await?;
        let commit = node.as_ref().and_then(|node| node.text("/data/kernel_revision/commit"));
        Ok(commit.and_then(|commit| CommitSha::parse(commit).ok()))
    }

    fn bars(&self, job: &Job) -> Option<String> {
        let barred = job.newest.scope == BUILDS && !self.config.retry_builds;
        barred.then(|| BUILDS_BARRED.to_owned())
    }

    fn allowed_overrides(&self, job: &JobName) -> Vec<String> {
        let of_job = self.config.overrides.iter().find(|(glob, _)| glob.is_match(job.as_str()));
        of_job.map(|(_, keys)| keys.clone()).unwrap_or_default()
    }
}
