//! What must run before a chained job can: the closure of its needs, for `--with-needs`.
//!
//! Pure. **Invariant:** a job of the result waits for every needed job that has not passed, and either the whole chain of
//! a job is in the result or nothing of it. Read next: `plan.rs`, which asks for it; `flow/needs.rs`, which waits.

use std::collections::{BTreeMap, HashMap};

use super::authorise::Authorised;
use super::inert::code;
use super::plan::{JobView, Left, Snapshot, StartItem, Wish, changeable, startable, wanted};
use super::reason::Reason;
use super::standalone::Standalone;
use crate::domain::{JobName, JobState};

/// What becomes of a job that another one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visited {
    /// It has passed, and what it made is there.
    Met,
    /// It is under way, will be started, or runs along: the other one waits for it.
    Coming,
}

/// Longest chain that is followed: a longer one is a mistake in the declarations, or made to hurt.
const DEPTH_MAX: usize = 100;

/// Walks needs, depth first, and collects what must be started in that order. What was found out about a job holds for
/// every later walk of the same plan.
#[derive(Debug)]
pub(super) struct Closure<'s> {
    snapshot: &'s Snapshot,
    wish: &'s Wish<'s>,
    proof: &'s Authorised,
    by_name: HashMap<&'s JobName, Vec<usize>>,
    path: Vec<usize>,
    visited: BTreeMap<usize, Result<Visited, Left>>,
    /// What this walk has found to be coming.
    fresh: Vec<usize>,
    start: Vec<StartItem>,
}

impl<'s> Closure<'s> {
    /// A walker over the jobs of a snapshot.
    pub(super) fn new(snapshot: &'s Snapshot, wish: &'s Wish<'s>, proof: &'s Authorised) -> Self {
        let mut by_name: HashMap<&JobName, Vec<usize>> = HashMap::new();
        if wish.with_needs {
            for (at, view) in snapshot.jobs.iter().enumerate() {
                by_name.entry(&view.job.newest.name).or_default().push(at);
            }
        }
        let (path, visited, fresh, start) = Default::default();
        Self { snapshot, wish, proof, by_name, path, visited, fresh, start }
    }

    /// A job that this plan starts on its own: others may wait for it.
    pub(super) fn starts(&mut self, at: usize) {
        self.visited.insert(at, Ok(Visited::Coming));
    }

    /// The chain that ends with a job that was asked for, in the order of starting.
    ///
    /// # Errors
    /// Why it cannot be: the job itself, or one that it needs.
    pub(super) fn of(&mut self, at: usize, named: bool) -> Result<Vec<StartItem>, Left> {
        let Some(view) = self.snapshot.jobs.get(at) else { return Ok(Vec::new()) };
        self.fresh.clear();
        let walked = match view.job.newest.state {
            JobState::Skipped => Ok(format!("{} on this head", JobState::Skipped)),
            _ => wanted(view, named, self.wish),
        }
        .and_then(|why| changeable(view, self.wish, self.proof).and_then(|()| self.chain(at, why)));
        self.path.clear();
        let items = std::mem::take(&mut self.start);
        match walked {
            Ok(_) => Ok(items),
            Err(left) => {
                self.take_back();
                Err(left)
            }
        }
    }

    /// The chain of the last walk is not started after all.
    pub(super) fn take_back(&mut self) {
        for at in self.fresh.drain(..) {
            self.visited.remove(&at);
        }
    }

    /// A needed job: whether it has to run is told by its state.
    fn need(&mut self, at: usize, behind: &JobName, remake: bool) -> Result<Visited, Left> {
        if self.path.contains(&at) {
            return Err(self.circle(at));
        }
        if let Some(known) = self.visited.get(&at) {
            return known.clone();
        }
        let Some(view) = self.snapshot.jobs.get(at) else { return Ok(Visited::Met) };
        let state = view.job.newest.state;
        let under_way = view.open.is_some()
            || state == JobState::Running
            || (state == JobState::Pending && !view.job.newest.manual);
        let found = if under_way {
            Ok(Visited::Coming)
        } else if state == JobState::Passed && !remake {
            return Ok(Visited::Met);
        } else {
            let why = if state == JobState::Passed {
                "passed, but what it made is gone".to_owned()
            } else {
                state.to_string()
            };
            self.chain(at, format!("{why}, and needed by {}", code(behind.as_str())))
                .map_err(|(_, text)| because_of(view, &text))
        };
        if found.is_ok() {
            self.fresh.push(at);
        }
        self.visited.insert(at, found.clone());
        found
    }

    /// Starts what a job needs, then the job.
    fn chain(&mut self, at: usize, why: String) -> Result<Visited, Left> {
        let Some(view) = self.snapshot.jobs.get(at) else { return Ok(Visited::Met) };
        if self.path.len() >= DEPTH_MAX {
            return Err((Reason::NotStandalone, format!("the chain of its needs is longer than {DEPTH_MAX} jobs")));
        }
        let (needs, remake) = needs_of(view)?;
        self.path.push(at);
        let mut after = Vec::new();
        for need in needs {
            let Some(found) = self.find(view, need) else {
                let text = format!(
                    "needs {}, of which nothing is known on this head; start that first, or push",
                    code(need.as_str())
                );
                return Err((Reason::NotStandalone, text));
            };
            if self.need(found, &view.job.newest.name, remake)? == Visited::Coming {
                after.push(need.clone());
            }
        }
        self.path.pop();
        if after.is_empty() || !self.runs_along(view) {
            self.may_start(view, after.is_empty())?;
            let near = startable(view, self.snapshot, self.wish, self.proof)?;
            self.start.push(StartItem { at, why: why + &near, after, asked: self.path.is_empty() });
        }
        Ok(Visited::Coming)
    }

    /// A needed job is no way round the right for `/test`: what waits for a person, never ran, or was skipped although
    /// nothing before it failed, is started by those alone who may start it by name.
    fn may_start(&self, view: &JobView, needs_nothing: bool) -> Result<(), Left> {
        let untold = match view.job.newest.state {
            JobState::Missing => !view.job.required,
            JobState::Skipped => needs_nothing,
            _ => view.job.newest.manual,
        };
        if !untold || self.proof.may_test() {
            return Ok(());
        }
        let text = format!("nothing has started it on this head, which takes the right for {}", code("/test"));
        Err((Reason::NotReported, text))
    }

    /// Whether its runner starts it by itself once the jobs before it have passed.
    fn runs_along(&self, view: &JobView) -> bool {
        let facts = view.job.runner.as_ref().and_then(|name| self.snapshot.runners.get(name));
        let idle = matches!(view.job.newest.state, JobState::Skipped | JobState::Missing);
        idle && facts.is_some_and(|facts| facts.runs_dependents && !facts.starts_fresh)
    }

    /// A job by name: of the same workflow or pipeline where there is one.
    fn find(&self, by: &JobView, name: &JobName) -> Option<usize> {
        let named = self.by_name.get(name)?;
        let scope = |at: &usize| self.snapshot.jobs.get(*at).map(|view| view.job.newest.scope.as_str());
        let close = named.iter().find(|at| scope(at) == Some(by.job.newest.scope.as_str()));
        close.or(named.first()).copied()
    }

    fn circle(&self, at: usize) -> Left {
        let round = self.path.iter().skip_while(|step| **step != at).chain(std::iter::once(&at));
        let names: Vec<String> =
            round.filter_map(|at| self.snapshot.jobs.get(*at)).map(|v| code(v.job.newest.name.as_str())).collect();
        let text = format!("its needs go round in a circle ({}); the declaration must be mended", names.join(" → "));
        (Reason::NotStandalone, text)
    }
}

/// What has to be there before the job can run, and whether it must be made anew even where it passed.
fn needs_of(view: &JobView) -> Result<(&[JobName], bool), Left> {
    let known = view.job.newest.needs.as_deref();
    match (&view.standalone, known) {
        (Standalone::Yes, _) => Ok((&[], false)),
        (Standalone::Needs(missing), _) if !missing.is_empty() => Ok((missing, false)),
        (Standalone::Gone(_), Some(needs)) if !needs.is_empty() => Ok((needs, true)),
        (Standalone::Gone(cause), _) => {
            let text = format!("its inputs are gone ({}), and nobody can tell which job makes them; push", code(cause));
            Err((Reason::Expired, text))
        }
        (Standalone::Barred(why), _) => Err((Reason::NotStandalone, super::inert::plain_words(why))),
        (Standalone::Needs(_) | Standalone::Unknown, _) => {
            let text = format!(
                "nobody can tell what it needs; declare its {} or {}",
                code("needs"),
                code("standalone = true")
            );
            Err((Reason::NotStandalone, text))
        }
    }
}

fn because_of(view: &JobView, text: &str) -> Left {
    (Reason::NotStandalone, format!("needs {}, which cannot be started: {text}", code(view.job.newest.name.as_str())))
}

#[cfg(test)]
mod tests;
