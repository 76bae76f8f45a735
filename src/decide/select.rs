//! Which jobs the words of a command mean.
//!
//! An exact name first, then a name that is unique when case is ignored, then a glob, a reserved word, a page. The
//! unquoted rest of a line is tried as one name before it is taken as several words.

use std::collections::{BTreeMap, BTreeSet};

use globset::GlobBuilder;
use retest_commands::{Selection, Selector};

use super::plan::JobView;
use crate::domain::{Job, JobState};

/// Which part of the record a selection needs: names cost the same however many jobs the revision has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The jobs that a plain `/retest` means.
    Bad,
    /// Jobs of these names in any case.
    Names(Vec<String>),
    /// All jobs.
    All,
}

/// Which part of the record a selection needs.
pub fn needed(selection: &Selection) -> Needed {
    if selection.words.is_empty() && selection.whole.is_none() {
        return Needed::Bad;
    }
    let mut names: Vec<String> = selection.whole.iter().cloned().collect();
    for word in &selection.words {
        match word {
            Selector::Name(name) => {
                // `workflow / job` may be a name of its own, or a job in its scope.
                names.extend(name.split_once(" / ").map(|(_, job)| job.to_owned()));
                names.push(name.clone());
            }
            Selector::Failed if selection.words.len() == 1 => return Needed::Bad,
            _ => return Needed::All,
        }
    }
    Needed::Names(names)
}

/// What a word meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picked {
    /// The jobs, by index, each with whether it was named (rather than meant by a reserved word or a glob).
    pub jobs: BTreeMap<usize, bool>,
    /// Words that fit nothing, with the nearest name.
    pub unknown: Vec<(String, Option<String>)>,
    /// Words that fit several jobs in different case.
    pub ambiguous: Vec<(String, Vec<String>)>,
}

impl Picked {
    /// Adds jobs that were not named, in rising order.
    fn add(&mut self, hits: impl IntoIterator<Item = usize>) {
        // Made and joined as a whole, which is faster than one by one.
        let mut all: BTreeMap<usize, bool> = hits.into_iter().map(|at| (at, false)).collect();
        all.append(&mut self.jobs);
        self.jobs = all;
    }
}

/// Finds the jobs of a selection among `jobs`.
pub(super) fn pick(selection: &Selection, jobs: &[JobView]) -> Picked {
    let mut picked = Picked::default();
    if let Some(whole) = &selection.whole
        && let Found::Jobs(hits) = by_name(whole, jobs)
    {
        picked.jobs.extend(hits.into_iter().map(|at| (at, true)));
        return picked;
    }
    if selection.words.is_empty() {
        picked.add(matching(jobs, |j| is_meant(&j.job)));
    }
    for word in &selection.words {
        pick_word(word, jobs, &mut picked);
    }
    picked
}

fn pick_word(word: &Selector, jobs: &[JobView], picked: &mut Picked) {
    let hits: Vec<usize> = match word {
        Selector::Name(name) => return pick_name(name, jobs, picked),
        Selector::Glob(glob) => {
            let Ok(matcher) = GlobBuilder::new(glob).case_insensitive(true).build().map(|g| g.compile_matcher()) else {
                picked.unknown.push((glob.clone(), None));
                return;
            };
            let hits: Vec<usize> = matching(jobs, |j| matcher.is_match(j.job.newest.name.as_str())).collect();
            if hits.is_empty() {
                picked.unknown.push((glob.clone(), None));
            }
            hits
        }
        Selector::Failed => matching(jobs, |j| is_meant(&j.job)).collect(),
        Selector::Required => matching(jobs, |j| j.job.required && is_meant(&j.job)).collect(),
        Selector::Optional => matching(jobs, |j| !j.job.required && is_meant(&j.job)).collect(),
        Selector::All => (0..jobs.len()).collect(),
        Selector::Runner(name) => {
            matching(jobs, |j| j.job.runner.as_ref().is_some_and(|r| r.as_str() == name) && is_meant(&j.job)).collect()
        }
        Selector::Platform(name) => {
            matching(jobs, |j| j.platform.as_deref() == Some(name.as_str()) && is_meant(&j.job)).collect()
        }
        Selector::Url(url) => {
            let same = |j: &JobView| j.job.newest.url.as_deref().is_some_and(|u| same_page(u, url));
            let hits: Vec<usize> = matching(jobs, same).collect();
            if hits.is_empty() {
                picked.unknown.push((url.clone(), None));
            }
            picked.jobs.extend(hits.into_iter().map(|at| (at, true)));
            return;
        }
    };
    picked.add(hits);
}

fn pick_name(name: &str, jobs: &[JobView], picked: &mut Picked) {
    match by_name(name, jobs) {
        Found::Jobs(hits) => picked.jobs.extend(hits.into_iter().map(|at| (at, true))),
        Found::Ambiguous(names) => picked.ambiguous.push((name.to_owned(), names)),
        Found::Nothing => {
            let of_group = |j: &JobView| j.groups.iter().any(|g| g.eq_ignore_ascii_case(name));
            if !jobs.iter().any(of_group) {
                picked.unknown.push((name.to_owned(), nearest(name, jobs)));
            }
            picked.add(matching(jobs, |j| of_group(j) && is_meant(&j.job)));
        }
    }
}

/// Whether a plain `/retest` means the job: its newest run ended badly, or it is required and never reported.
pub(super) fn is_meant(job: &Job) -> bool {
    let state = job.newest.state;
    state.is_restartable() || (state == JobState::Missing && job.required)
}

/// Whether that is the job's name, or its name behind that of what it is unique in.
pub(super) fn same_name(job: &Job, name: &str) -> bool {
    let seen = &job.newest;
    seen.name.as_str() == name
        || name.strip_prefix(&seen.scope).is_some_and(|rest| rest.strip_prefix(" / ") == Some(seen.name.as_str()))
}

/// Whether the job's name in lower case is `folded`.
pub(super) fn same_folded(job: &Job, folded: &str) -> bool {
    let name = job.newest.name.as_str();
    if name.is_ascii() { name.eq_ignore_ascii_case(folded) } else { name.to_lowercase() == folded }
}

fn matching<'a>(jobs: &'a [JobView], test: impl Fn(&JobView) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
    jobs.iter().enumerate().filter(move |(_, j)| test(j)).map(|(at, _)| at)
}

enum Found {
    Jobs(Vec<usize>),
    Ambiguous(Vec<String>),
    Nothing,
}

fn by_name(name: &str, jobs: &[JobView]) -> Found {
    let exact: Vec<usize> = matching(jobs, |j| same_name(&j.job, name)).collect();
    if !exact.is_empty() {
        return Found::Jobs(exact);
    }
    let folded = name.to_lowercase();
    let loose: Vec<usize> = matching(jobs, |j| same_folded(&j.job, &folded)).collect();
    let names: BTreeSet<&str> =
        loose.iter().filter_map(|at| jobs.get(*at)).map(|j| j.job.newest.name.as_str()).collect();
    match names.len() {
        0 => Found::Nothing,
        1 => Found::Jobs(loose),
        _ => Found::Ambiguous(names.into_iter().map(str::to_owned).collect()),
    }
}

/// The nearest name, when it is near enough to be a slip: at most a third of the letters differ.
fn nearest(name: &str, jobs: &[JobView]) -> Option<String> {
    if name.len() > 100 {
        return None;
    }
    let folded = name.to_lowercase();
    let far = |candidate: &str| strsim::damerau_levenshtein(&folded, &candidate.to_lowercase());
    jobs.iter()
        .take(2_000)
        .map(|j| j.job.newest.name.as_str())
        .filter(|c| c.len() <= 100)
        .map(|c| (far(c), c))
        .min()
        .filter(|(distance, c)| *distance * 3 <= c.chars().count().max(3))
        .map(|(_, c)| c.to_owned())
}

/// Two addresses of one page: the scheme, a trailing slash, the query and the fragment do not matter.
pub(super) fn same_page(a: &str, b: &str) -> bool {
    let bare = |url: &str| {
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let url = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or(url);
        url.trim_end_matches('/').to_owned()
    };
    bare(a) == bare(b)
}
