//! The merge train of the sandbox: each merge request on it gets a pipeline on a commit of its own.
//!
//! GitLab's own rules, as far as they go here: a pipeline that fails, is cancelled or skipped drops its merge request at
//! once, and those behind it get new pipelines; the first one whose pipeline passed is merged. No webhook tells of the
//! train itself: what is heard are pipelines and jobs with the ref `refs/merge-requests/IID/train`, and the merge.

use sha2::{Digest, Sha256};

use super::GitLabSandbox;
use super::engine::is_over;
use super::new::{NewJob, NewPipeline};
use super::state::State;

/// A merge request on a train.
#[derive(Clone, Debug)]
pub(super) struct Car {
    pub iid: u64,
    pub pipeline: u64,
    pub sha: String,
    pub target: String,
    pub jobs: Vec<NewJob>,
}

/// Where a merge request stands with the merge trains.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TrainPlace {
    /// It never was on one.
    Never,
    /// It waits for this pipeline, on this commit.
    Waiting(u64, String),
    /// It was merged by the train.
    Merged,
    /// It was dropped, because its pipeline did not pass.
    Dropped,
}

impl GitLabSandbox {
    /// Puts a merge request on the train of its target branch, with a pipeline of these jobs; answers the pipeline and its
    /// commit.
    ///
    /// # Panics
    /// When the merge request is not open or on the train already.
    pub fn enqueue(&self, project: u64, iid: u64, jobs: Vec<NewJob>) -> (u64, String) {
        self.with(|state| {
            assert_eq!(state.change(project, iid).state, "opened", "only an open merge request is put on a train");
            let home = state.project_mut(project);
            assert!(home.train.iter().all(|car| car.iid != iid), "the merge request is on the train already");
            home.train_ends.remove(&iid);
            state.add_car(project, iid, jobs)
        })
    }

    /// Where a merge request stands with the merge trains.
    pub fn train_place(&self, project: u64, iid: u64) -> TrainPlace {
        self.with(|state| {
            let home = state.project(project);
            if let Some(car) = home.train.iter().find(|car| car.iid == iid) {
                return TrainPlace::Waiting(car.pipeline, car.sha.clone());
            }
            match home.train_ends.get(&iid).copied() {
                None => TrainPlace::Never,
                Some("merged") => TrainPlace::Merged,
                Some(_) => TrainPlace::Dropped,
            }
        })
    }
}

impl State {
    fn add_car(&mut self, project: u64, iid: u64, jobs: Vec<NewJob>) -> (u64, String) {
        let change = self.change(project, iid);
        let (target, author, head) = (change.target_branch.clone(), change.author, change.sha().to_owned());
        let home = self.project(project);
        let before = home.train.iter().rfind(|car| car.target == target).map(|car| car.sha.clone());
        let base = before.or_else(|| home.branches.get(&target).cloned()).unwrap_or_default();
        let sha = hex::encode(Sha256::digest(format!("train {iid} {head} {base} {}", home.pipeline_iid)));
        let sha = sha.get(..40).unwrap_or_default().to_owned();
        let new = NewPipeline {
            sha: sha.clone(),
            mr_iid: Some(iid),
            source: "merge_request_event".to_owned(),
            git_ref: format!("refs/merge-requests/{iid}/train"),
            jobs: jobs.clone(),
            ..NewPipeline::default()
        };
        let pipeline = self.create_pipeline(project, new, author);
        self.project_mut(project).train.push(Car { iid, pipeline, sha: sha.clone(), target, jobs });
        (pipeline, sha)
    }

    /// Merges and drops whatever can be decided, after a pipeline of the project took another status.
    pub fn move_train(&mut self, project: u64) {
        loop {
            let train = self.project(project).train.clone();
            let failed = |car: &&Car| {
                let status = self.pipeline(car.pipeline).status;
                is_over(status) && status != "success"
            };
            if let Some(car) = train.iter().find(failed) {
                self.drop_car(project, car);
                continue;
            }
            let first =
                |car: &&Car| train.iter().find(|other| other.target == car.target).map(|c| c.iid) == Some(car.iid);
            let passed = |car: &&Car| self.pipeline(car.pipeline).status == "success";
            let Some(car) = train.iter().filter(first).find(passed) else { return };
            let home = self.project_mut(project);
            home.train.retain(|other| other.iid != car.iid);
            home.train_ends.insert(car.iid, "merged");
            self.know_commit(project, project, &car.target, &car.sha);
            self.tell_push(project, &car.target, &car.sha);
            self.set_change_state((project, car.iid), None, "merged", "merge");
        }
    }

    /// Drops one, and gives those behind it new pipelines.
    fn drop_car(&mut self, project: u64, car: &Car) {
        let home = self.project_mut(project);
        let Some(at) = home.train.iter().position(|other| other.iid == car.iid) else { return };
        home.train.remove(at);
        home.train_ends.insert(car.iid, "dropped");
        let behind: Vec<Car> = home.train.iter().skip(at).filter(|other| other.target == car.target).cloned().collect();
        home.train.retain(|other| behind.iter().all(|gone| gone.iid != other.iid));
        for old in behind {
            self.cancel_pipeline(old.pipeline);
            self.add_car(project, old.iid, old.jobs);
        }
    }
}
