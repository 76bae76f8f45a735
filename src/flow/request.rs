//! Requests of machines: a `run` event addressed to the planner ("run again what failed there") or to the dispatcher
//! ("run this"). Either stage can be asked alone; both end in stored retries, which the loops start and follow.
//!
//! Rights are the caller's affair: who gets here may do it. Limits hold as for people. A request with a key that was used
//! before gets the answer that the first one got. Read next: `request_run.rs`, `command.rs` for the same from comments.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::GlobMatcher;
use retest_commands::{Selection, Selector};

use super::request_run::Made;
use super::snapshot::{AskError, facts};
use super::world::{FlowError, World};
use crate::decide::{Ask, Asker, LeaveItem, Needed, Reason, Rights, Snapshot, Terms, Used, Verb, Wish, authorise};
use crate::domain::{Actor, Change, ChangeKey, CommitSha, Repo, Retry, Role, RunnerName};
use crate::ports::{CallError, Forge};

/// Who asks: a client of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its configured name.
    pub name: String,
}

impl Client {
    /// The client as an asker. Its number is made from its name and lies far above those of people.
    pub fn actor(&self) -> Actor {
        let hash = self
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Actor { id: (hash >> 2) | (1 << 61), login: format!("token {}", self.name), is_bot: true }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Who asks.
    pub client: Client,
    /// The client's own key of the request, and the hash of its body.
    pub once: Option<(String, String)>,
    /// What is asked.
    pub wanted: Wanted,
    /// Why, in the client's words.
    pub reason: Option<String>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// The planner decides what of a revision or build runs again.
    Planner(PlannerWish),
    /// The dispatcher starts one run as described.
    Dispatcher(RunWish),
}

/// Where the planner shall look.
#[derive(Clone, Debug)]
pub enum PlannerPlace {
    /// At the head of a change.
    Revision(Repo, CommitSha),
    /// At a build, or at one run, by the runner's own id of it.
    Node(RunnerName, String),
}

/// Which jobs of it; an empty list means all that ended badly.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Globs over names.
    pub jobs: Vec<GlobMatcher>,
    /// Globs over platforms.
    pub platforms: Vec<GlobMatcher>,
}

/// A wish to the planner.
#[derive(Clone, Debug)]
pub struct PlannerWish {
    /// Where.
    pub place: PlannerPlace,
    /// Which jobs.
    pub filter: Filter,
    /// Fields to change.
    pub overrides: BTreeMap<String, String>,
    /// Also what passed.
    pub force: bool,
}

/// A wish to the dispatcher: one run, completely described.
#[derive(Clone, Debug)]
pub struct RunWish {
    /// The runner.
    pub runner: RunnerName,
    /// What it is called there.
    pub job: String,
    /// Fields, and the definition under [`crate::ports::DEFINITION`].
    pub overrides: BTreeMap<String, String>,
    /// The head that it is about, when it is about one.
    pub revision: Option<(Repo, CommitSha)>,
}

/// What a request came to.
#[derive(Clone, Debug, Default)]
pub struct RequestOutcome {
    /// The retries that were stored, and those under way that it joined.
    pub retries: Vec<Retry>,
    /// Jobs left alone, and why.
    pub left: Vec<LeaveItem>,
    /// The answer that an earlier request with this key got; then nothing else is set.
    pub earlier: Option<String>,
}

/// Why a request was not carried out.
#[derive(Debug)]
pub enum RequestError {
    /// It makes no sense as it is; a sentence for the client.
    Wrong(String),
    /// What it is about is not known here.
    Unknown(String),
    /// It contradicts the state of things: the head moved, the change is closed, the key was used for something else.
    Conflict(String),
    /// A forge or runner did not answer; the same request may be sent again.
    Later(CallError),
    /// The store failed; the same request may be sent again.
    Flow(FlowError),
}

impl From<FlowError> for RequestError {
    fn from(error: FlowError) -> Self {
        Self::Flow(error)
    }
}

impl From<crate::store::StoreError> for RequestError {
    fn from(error: crate::store::StoreError) -> Self {
        Self::Flow(error.into())
    }
}

impl From<AskError> for RequestError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Flow(error) => Self::Flow(error),
            AskError::Call(error) => error.into(),
        }
    }
}

impl From<CallError> for RequestError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused { user, .. } => Self::Wrong(user),
            other @ (CallError::Throttled { .. } | CallError::Unreachable { .. } | CallError::Unknown { .. }) => {
                Self::Later(other)
            }
        }
    }
}

/// The jobs of one revision that a request looks at.
struct Scene {
    repo: Repo,
    change: Change,
    snapshot: Snapshot,
    rights: Rights,
    /// Retries of those jobs that are under way.
    open: Vec<Retry>,
}

impl World {
    /// Carries a request out as far as storing goes. `render` makes the answer that a repetition shall get.
    ///
    /// # Errors
    /// [`RequestError`]; then nothing was stored.
    pub async fn request(
        self: &Arc<Self>,
        request: &Request,
        render: impl Fn(&RequestOutcome) -> String + Send + Sync,
    ) -> Result<RequestOutcome, RequestError> {
        if let Some(outcome) = self.earlier(request).await? {
            return Ok(outcome);
        }
        let made = match &request.wanted {
            Wanted::Planner(wish) => self.plan_request(request, wish).await?,
            Wanted::Dispatcher(wish) => self.describe_run(request, wish).await?,
        };
        match self.keep_request(request, made, &render).await? {
            Some(outcome) => Ok(outcome),
            // Somebody with the same key was faster; what they stored is the answer.
            None => Ok(self.earlier(request).await?.unwrap_or_default()),
        }
    }

    async fn earlier(&self, request: &Request) -> Result<Option<RequestOutcome>, RequestError> {
        let Some((key, body)) = &request.once else { return Ok(None) };
        let Some(earlier) = self.store.earlier_request(&request.client.name, key).await? else { return Ok(None) };
        if earlier.body != *body {
            let text = "this Idempotency-Key was used for another request; use a new one";
            return Err(RequestError::Conflict(text.into()));
        }
        Ok(Some(RequestOutcome { earlier: Some(earlier.answer), ..RequestOutcome::default() }))
    }

    async fn plan_request(&self, request: &Request, wish: &PlannerWish) -> Result<Made, RequestError> {
        let actor = request.client.actor();
        let scene = self.scene(&actor, wish).await?;
        let ask = if wish.force { Ask::Force } else { Ask::Retest };
        // The scopes of the client's token were checked; they stand for the role.
        let proof = authorise(ask, &scene.change, &Asker::with_role(actor.clone(), Role::Admin), &scene.rights)
            .map_err(|refusal| RequestError::Conflict(refusal.text))?;
        let narrowed = narrowed(wish);
        let words = if narrowed { vec![Selector::All] } else { Vec::new() };
        let selection = Selection { words, ..Selection::default() };
        let wish_now = Wish {
            verb: Verb::Retest,
            selection: &selection,
            force: wish.force,
            with_needs: false,
            times: 1,
            overrides: &wish.overrides,
        };
        let plan = crate::decide::plan(&scene.snapshot, &wish_now, &proof);
        let mut made = Made { repo: scene.repo, left: plan.leave, retries: Vec::new(), joined: scene.open };
        if narrowed && scene.snapshot.jobs.is_empty() {
            let text = "no job of that name and platform is known there".to_owned();
            made.left.clear();
            made.left.push(LeaveItem { name: String::new(), reason: Reason::Unknown, text });
        }
        for item in &plan.start {
            let Some(view) = scene.snapshot.jobs.get(item.at) else { continue };
            made.retries.push(self.retry_for(request, &scene.change, view, (&item.why, &wish.overrides)));
        }
        Ok(made)
    }

    /// What the planner looks at, the record brought up to date first.
    async fn scene(&self, actor: &Actor, wish: &PlannerWish) -> Result<Scene, RequestError> {
        let (repo, change, node) = match &wish.place {
            PlannerPlace::Revision(repo, sha) => (repo.clone(), self.head(repo, sha).await?, None),
            PlannerPlace::Node(runner, id) => {
                let (repo, change) = self.place_of_node(runner, id).await?;
                (repo, change, Some(id.as_str()))
            }
        };
        if let Some(forge) = self.forges.get(&repo.key.forge) {
            let forge: &dyn Forge = forge.as_ref();
            let completed = self.complete_record(forge, (&repo, &change), &Needed::All, None).await?;
            if let Some(gap) = completed.gap {
                return Err(RequestError::Later(gap));
            }
        }
        let terms = self.terms_of(&repo).await?;
        let jobs = self.jobs_for(&repo, &change.head, (&Needed::All, None)).await?;
        let retries = self.store.retries_of(&change.key, &change.head).await?;
        let mut views = self.views((&repo, &change.head, &terms), (jobs, None), &retries).await?;
        let fits = |globs: &[GlobMatcher], word: Option<&str>| {
            globs.is_empty() || word.is_some_and(|word| globs.iter().any(|glob| glob.is_match(word)))
        };
        views.retain(|view| {
            let seen = &view.job.newest;
            fits(&wish.filter.jobs, Some(seen.name.as_str()))
                && fits(&wish.filter.platforms, view.platform.as_deref())
                && node.is_none_or(|id| seen.group.as_deref() == Some(id) || seen.run.as_str() == id)
        });
        let meant = |r: &Retry| {
            views.iter().any(|v| v.job.newest.name == r.job && v.job.newest.scope == r.scope && v.open.is_some())
        };
        let open = retries.iter().filter(|r| r.state.is_open() && narrowed(wish) && meant(r)).cloned().collect();
        let runners = self.runners.iter().map(|e| (e.runner.name().clone(), facts(e)));
        let snapshot = Snapshot {
            change: change.clone(),
            jobs: views,
            runners: runners.collect(),
            limits: terms.limits,
            used: self.used_by(&change.key, actor, &terms).await?,
            base_moved: None,
            now: self.now(),
        };
        Ok(Scene { repo, change, snapshot, rights: terms.rights.clone(), open })
    }

    pub(super) async fn used_by(&self, change: &ChangeKey, actor: &Actor, terms: &Terms) -> Result<Used, RequestError> {
        Ok(self.store.used(change, actor.id, &terms.limits, self.now()).await?)
    }

    /// What holds in a repository; the operator's rules where it belongs to no forge.
    pub(super) async fn terms_of(&self, repo: &Repo) -> Result<Terms, RequestError> {
        let in_force = match self.forges.get(&repo.key.forge) {
            Some(forge) => self.in_force(forge.as_ref(), repo, true).await?,
            None => self.operators_rules(),
        };
        Ok(in_force.terms.clone())
    }

    /// The open change whose head a commit is.
    pub(super) async fn head(&self, repo: &Repo, sha: &CommitSha) -> Result<Change, RequestError> {
        let mut changes = self.store.changes_at(&repo.key, sha).await?;
        if changes.is_empty() {
            let text = format!(
                "{} is not the head of an open change of `{}` that this bot has heard of",
                sha.short(),
                repo.full_name
            );
            return Err(RequestError::Conflict(text));
        }
        Ok(changes.swap_remove(0))
    }

    /// The revision of a runner's node: the change whose head was built, or none. Then its jobs are listed apart.
    async fn place_of_node(&self, runner: &RunnerName, id: &str) -> Result<(Repo, Change), RequestError> {
        let entry = self.runner(runner);
        let entry = entry.ok_or_else(|| RequestError::Unknown(format!("no runner is called `{runner}`")))?;
        let sha = entry.runner.commit_of(id).await?;
        let sha = sha.ok_or_else(|| RequestError::Unknown(format!("`{runner}` knows no node `{id}`")))?;
        for change in self.store.changes_anywhere(&sha).await? {
            if let Some(repo) = self.store.repo(&change.key.repo).await?.filter(|repo| entry.serves(repo)) {
                return Ok((repo, change));
            }
        }
        let (repo, change) = self.nobodys(&sha);
        let jobs = entry.runner.list(&repo, &sha).await?;
        let mut tx = self.store.begin().await?;
        tx.put_repo(&repo).await?;
        for job in &jobs {
            self.take_listed(&mut tx, (&repo.key, &sha), job, Some(runner)).await?;
        }
        tx.commit().await?;
        Ok((repo, change))
    }
}

/// Whether jobs are named: then every one of them is answered for, else only those that ended badly are meant.
fn narrowed(wish: &PlannerWish) -> bool {
    !wish.filter.jobs.is_empty() || !wish.filter.platforms.is_empty()
}
