//! What must run before a chained job can: the closure of its needs, for `--with-needs`.
//!
//! Pure. **Invariant:** a job of the result waits for every needed job that has not passed, and either the whole chain of
//! a job is in the result or nothing of it. Read next: `plan.rs`, which asks for it; `flow/needs.rs`, which waits.

use std::collections::{BTreeMap, BTreeSet};

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

/// Walks needs, depth first, and collects what must be started in that order.
#[derive(Debug)]
pub(super) struct Closure<'s> {
    snapshot: &'s Snapshot,
    wish: &'s Wish<'s>,
    proof: &'s Authorised,
    path: Vec<usize>,
    visited: BTreeMap<usize, Visited>,
    start: Vec<StartItem>,
}

impl<'s> Closure<'s> {
    /// A walk that takes the jobs in `started` for under way.
    pub(super) fn new(
        snapshot: &'s Snapshot,
        wish: &'s Wish<'s>,
        proof: &'s Authorised,
        started: &BTreeSet<usize>,
    ) -> Self {
        let visited = started.iter().map(|at| (*at, Visited::Coming)).collect();
        Self { snapshot, wish, proof, path: Vec::new(), visited, start: Vec::new() }
    }

    /// The chain that ends with a job that was asked for, in the order of starting.
    ///
    /// # Errors
    /// Why it cannot be: the job itself, or one that it needs.
    pub(super) fn of(mut self, at: usize, named: bool) -> Result<Vec<StartItem>, Left> {
        let Some(view) = self.snapshot.jobs.get(at) else { return Ok(Vec::new()) };
        let why = match view.job.newest.state {
            JobState::Skipped | JobState::Missing => format!("{} on this head", view.job.newest.state),
            _ => wanted(view, named, self.wish)?,
        };
        changeable(view, self.wish, self.proof)?;
        self.chain(at, why)?;
        Ok(self.start)
    }

    /// A needed job: whether it has to run is told by its state.
    fn need(&mut self, at: usize, behind: &JobName, remake: bool) -> Result<Visited, Left> {
        if self.path.contains(&at) {
            return Err(self.circle(at));
        }
        if let Some(known) = self.visited.get(&at) {
            return Ok(*known);
        }
        let Some(view) = self.snapshot.jobs.get(at) else { return Ok(Visited::Met) };
        let state = view.job.newest.state;
        let under_way = view.open.is_some()
            || state == JobState::Running
            || (state == JobState::Pending && !view.job.newest.manual);
        let found = if under_way {
            Visited::Coming
        } else if state == JobState::Passed && !remake {
            Visited::Met
        } else {
            let why = if state == JobState::Passed {
                "passed, but what it made is gone".to_owned()
            } else {
                state.to_string()
            };
            self.chain(at, format!("{why}, and needed by {}", code(behind.as_str())))
                .map_err(|(_, text)| because_of(view, &text))?
        };
        self.visited.insert(at, found);
        Ok(found)
    }

    /// Starts what a job needs, then the job.
    fn chain(&mut self, at: usize, why: String) -> Result<Visited, Left> {
        let Some(view) = self.snapshot.jobs.get(at) else { return Ok(Visited::Met) };
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
            let near = startable(view, self.snapshot, self.wish, self.proof)?;
            self.start.push(StartItem { at, why: why + &near, after, asked: self.path.is_empty() });
        }
        Ok(Visited::Coming)
    }

    /// Whether its runner starts it by itself once the jobs before it have passed.
    fn runs_along(&self, view: &JobView) -> bool {
        let facts = view.job.runner.as_ref().and_then(|name| self.snapshot.runners.get(name));
        let idle = matches!(view.job.newest.state, JobState::Skipped | JobState::Missing);
        idle && facts.is_some_and(|facts| facts.runs_dependents && !facts.starts_fresh)
    }

    /// A job by name: of the same workflow or pipeline where there is one.
    fn find(&self, by: &JobView, name: &JobName) -> Option<usize> {
        let named = || self.snapshot.jobs.iter().enumerate().filter(|(_, v)| v.job.newest.name == *name);
        let close = named().find(|(_, v)| v.job.newest.scope == by.job.newest.scope);
        close.or_else(|| named().next()).map(|(at, _)| at)
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
