//! Leaves out jobs that the words of a command cannot mean, before more is made of them than the record holds.
//!
//! Pure. **Invariant:** a plan is the same with and without what is left out; a word that names nothing leaves out nothing,
//! because its answer tells the nearest name. Read next: `select.rs`, which tells what words mean.

use globset::{GlobBuilder, GlobMatcher};
use retest_commands::{Selection, Selector};

use super::select::{is_meant, same_folded, same_name, same_page};
use crate::domain::Job;

/// What one word may mean.
enum Sieve<'s> {
    /// What a reserved word means, or less.
    Meant,
    Everything,
    Glob(GlobMatcher),
    Url(&'s str),
    Name {
        name: &'s str,
        folded: String,
        found: bool,
    },
}

impl<'s> Sieve<'s> {
    fn of(word: &'s Selector) -> Option<Self> {
        Some(match word {
            Selector::Name(name) => Self::named(name),
            Selector::Glob(glob) => {
                Self::Glob(GlobBuilder::new(glob).case_insensitive(true).build().ok()?.compile_matcher())
            }
            Selector::Url(url) => Self::Url(url),
            Selector::All => Self::Everything,
            Selector::Failed
            | Selector::Required
            | Selector::Optional
            | Selector::Runner(_)
            | Selector::Platform(_) => Self::Meant,
        })
    }

    fn named(name: &'s str) -> Self {
        Self::Name { name, folded: name.to_lowercase(), found: false }
    }

    fn keeps(&mut self, job: &Job, groups: &[String]) -> bool {
        match self {
            Self::Meant => is_meant(job),
            Self::Everything => true,
            Self::Glob(glob) => glob.is_match(job.newest.name.as_str()),
            Self::Url(url) => job.newest.url.as_deref().is_some_and(|page| same_page(page, url)),
            Self::Name { name, folded, found } => {
                let fits = same_name(job, name)
                    || same_folded(job, folded)
                    || groups.iter().any(|group| group.eq_ignore_ascii_case(name));
                *found |= fits;
                fits
            }
        }
    }
}

/// Which jobs stay, by their places; all of them unless something was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sifted(Option<Vec<bool>>);

impl Sifted {
    /// Whether the job of this place stays.
    pub fn keeps(&self, at: usize) -> bool {
        self.0.as_ref().is_none_or(|kept| kept.get(at).copied().unwrap_or(true))
    }

    /// Leaves out what does not stay of values that stand in the order of the jobs.
    pub fn retain<T>(&self, values: &mut Vec<T>) {
        let Some(kept) = &self.0 else { return };
        let mut kept = kept.iter();
        values.retain(|_| kept.next().copied().unwrap_or(true));
    }
}

/// Which jobs stay for a selection. Beside each job stand the groups to which it belongs.
pub fn sift<'j>(selection: &Selection, jobs: impl IntoIterator<Item = (&'j Job, &'j [String])>) -> Sifted {
    Sifted(may_be_meant(selection, jobs))
}

fn may_be_meant<'j>(
    selection: &Selection,
    jobs: impl IntoIterator<Item = (&'j Job, &'j [String])>,
) -> Option<Vec<bool>> {
    let mut sieves: Vec<Sieve<'_>> = selection.words.iter().map(Sieve::of).collect::<Option<_>>()?;
    if sieves.iter().any(|sieve| matches!(sieve, Sieve::Everything)) {
        return None;
    }
    if sieves.is_empty() {
        sieves.push(Sieve::Meant);
    }
    // The whole line may be one name, and need not be.
    let mut whole = selection.whole.as_deref().map(Sieve::named);
    let mut kept = |(job, groups): (&Job, &[String])| {
        let mut keep = whole.as_mut().is_some_and(|whole| whole.keeps(job, groups));
        for sieve in &mut sieves {
            keep |= sieve.keeps(job, groups); // each is asked, so that it knows whether it found anything
        }
        keep
    };
    let kept: Vec<bool> = jobs.into_iter().map(&mut kept).collect();
    let found = |sieve: &Sieve<'_>| !matches!(sieve, Sieve::Name { found: false, .. });
    sieves.iter().all(found).then_some(kept)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::plan::tests::{proof, snapshot, view};
    use super::super::{JobView, LeaveItem, Verb, Wish, plan};
    use super::*;
    use crate::domain::JobState;

    fn word() -> impl Strategy<Value = Selector> {
        let name = prop::sample::select(vec!["lint", "LINT", "unit", "ci / unit", "k\u{212a}", "hw", "none", "straße"]);
        prop_oneof![
            4 => name.prop_map(|name| Selector::Name(name.into())),
            2 => prop::sample::select(vec!["l*", "*I*", "x*", "{unit,lint}"]).prop_map(|glob| Selector::Glob(glob.into())),
            1 => Just(Selector::Failed),
            1 => Just(Selector::Required),
            1 => Just(Selector::Optional),
            1 => Just(Selector::All),
            1 => Just(Selector::Runner("ci".into())),
            1 => Just(Selector::Platform("arm".into())),
            1 => Just(Selector::Url("https://ci.example.org/3/".into())),
        ]
    }

    fn jobs() -> impl Strategy<Value = Vec<JobView>> {
        let names = vec!["lint", "Lint", "LINT", "unit", "ci / unit", "kk", "K\u{212a}", "Straße", "other", "lunit"];
        let one = (
            prop::sample::select(names),
            prop::sample::select(vec!["", "ci"]),
            prop::sample::select(JobState::ALL.to_vec()),
            any::<[bool; 4]>(),
            0..5_u8,
        );
        let job =
            |(name, scope, state, [required, grouped, arm, other], page): (&str, &str, JobState, [bool; 4], u8)| {
                let mut view = view(name, state);
                view.job.newest.scope = scope.into();
                view.job.newest.url = Some(format!("https://ci.example.org/{page}"));
                view.job.required = required;
                view.groups = if grouped { vec!["HW".into()] } else { vec![] };
                view.platform = arm.then(|| "arm".into());
                if other {
                    view.job.runner = None;
                }
                view
            };
        prop::collection::vec(one.prop_map(job), 0..12)
    }

    /// What a plan comes to, without places.
    fn planned(jobs: Vec<JobView>, selection: &Selection, verb: Verb) -> (Vec<(JobView, String)>, Vec<LeaveItem>) {
        let overrides = BTreeMap::new();
        let wish = Wish { verb, selection, force: false, with_needs: false, times: 1, overrides: &overrides };
        let snapshot = snapshot(jobs);
        let made = plan(&snapshot, &wish, &proof());
        let start = made.start.iter().map(|item| (snapshot.jobs[item.at].clone(), item.why.clone())).collect();
        (start, made.leave)
    }

    proptest! {
        #[test]
        fn a_plan_is_the_same_without_the_jobs_that_are_left_out(
            jobs in jobs(),
            words in prop::collection::vec(word(), 0..4),
            whole in prop::option::of(prop::sample::select(vec!["lint", "Unit", "ci / unit", "none"])),
            test in any::<bool>(),
        ) {
            let selection = Selection { whole: whole.map(str::to_owned), words };
            let verb = if test { Verb::Test } else { Verb::Retest };
            let keep = sift(&selection, jobs.iter().map(|view| (&view.job, view.groups.as_slice())));
            let mut kept = jobs.clone();
            keep.retain(&mut kept);
            prop_assert_eq!(kept.len(), (0..jobs.len()).filter(|at| keep.keeps(*at)).count());
            prop_assert_eq!(planned(kept, &selection, verb), planned(jobs, &selection, verb));
        }
    }

    #[test]
    fn what_no_word_can_mean_is_left_out() {
        let jobs = [view("lint", JobState::Failed), view("unit", JobState::Failed), view("docs", JobState::Passed)];
        let table: [(&[Selector], &[bool], &str); 4] = [
            (&[], &[true, true, false], "what ended badly"),
            (&[Selector::Name("LINT".into())], &[true, false, false], "a name in any case"),
            (&[Selector::Glob("*n*t".into())], &[true, true, false], "a pattern"),
            (&[Selector::Name("lint".into()), Selector::Failed], &[true, true, false], "either of two"),
        ];
        for (words, wanted, why) in table {
            let selection = Selection { whole: None, words: words.to_vec() };
            let keep = sift(&selection, jobs.iter().map(|view| (&view.job, view.groups.as_slice())));
            assert_eq!(keep, Sifted(Some(wanted.to_vec())), "{why}");
        }
        let selection = Selection { whole: None, words: vec![Selector::Name("lit".into())] };
        let keep = sift(&selection, jobs.iter().map(|view| (&view.job, view.groups.as_slice())));
        assert_eq!(keep, Sifted(None), "the nearest name may be any");
    }
}
