//! What people do with issues, labels and the merge queue, and the logs that jobs leave.

use retest_bot::sandbox::github::{self, QueuePlace};
use retest_bot::sandbox::gitlab::{self, TrainPlace};

use super::on_both_forges;
use super::stage::{REPO, Sandbox, Side, Stage};

/// The maintainer who keeps the issues.
const KEEPER: &str = "maya";

/// Where the change stands with the merge queue or train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// It was never put into it.
    Never,
    /// It waits for its checks.
    Waiting,
    /// It was merged.
    Merged,
    /// It was thrown out.
    Ejected,
}

/// A place in the queue: its commit, and the group of native jobs that run on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    pub sha: String,
    pub group: u64,
}

impl Stage {
    /// A maintainer opens an issue; nothing is sent yet.
    pub fn issue(&self, title: &str, body: &str, labels: &[&str]) -> u64 {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.open_issue(REPO, KEEPER, title, body, labels),
            Sandbox::GitLab { forge, project } => {
                let new = gitlab::NewIssue {
                    title: title.into(),
                    description: body.into(),
                    labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                    ..Default::default()
                };
                forge.add_issue(*project, KEEPER, new)
            }
        }
    }

    /// A maintainer changes the text of an issue.
    pub fn edit_issue(&self, number: u64, body: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.edit_issue(REPO, number, KEEPER, body),
            Sandbox::GitLab { forge, project } => forge.edit_issue(*project, number, KEEPER, body),
        }
    }

    /// A maintainer puts a label on an issue, or takes it off.
    pub fn label_issue(&self, number: u64, label: &str, on: bool) {
        match &self.sandbox {
            Sandbox::GitHub(forge) if on => forge.label(REPO, number, KEEPER, label),
            Sandbox::GitHub(forge) => forge.unlabel(REPO, number, KEEPER, label),
            Sandbox::GitLab { forge, project } => {
                let held = self.issue_labels(number);
                forge.set_issue_labels(*project, number, KEEPER, &with(&held, label, on));
            }
        }
    }

    pub fn close_issue(&self, number: u64) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.close_issue(REPO, number, KEEPER),
            Sandbox::GitLab { forge, project } => forge.close_issue(*project, number, KEEPER),
        }
    }

    pub fn reopen_issue(&self, number: u64) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.reopen_issue(REPO, number, KEEPER),
            Sandbox::GitLab { forge, project } => forge.reopen_issue(*project, number, KEEPER),
        }
    }

    /// The numbers of all issues that were opened, oldest first.
    pub fn issues(&self) -> Vec<u64> {
        let exists = |number: &u64| match &self.sandbox {
            Sandbox::GitHub(forge) => forge.issue(REPO, *number).is_some(),
            Sandbox::GitLab { forge, project } => forge.issue(*project, *number).is_some(),
        };
        (1..100).filter(exists).collect()
    }

    pub fn issue_title(&self, number: u64) -> String {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.issue(REPO, number).map(|issue| issue.title),
            Sandbox::GitLab { forge, project } => forge.issue(*project, number).map(|issue| issue.title),
        }
        .expect("an issue")
    }

    pub fn issue_text(&self, number: u64) -> String {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.issue(REPO, number).map(|issue| issue.body),
            Sandbox::GitLab { forge, project } => forge.issue(*project, number).map(|issue| issue.description),
        }
        .expect("an issue")
    }

    pub fn issue_labels(&self, number: u64) -> Vec<String> {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.issue(REPO, number).map(|issue| issue.labels),
            Sandbox::GitLab { forge, project } => forge.issue(*project, number).map(|issue| issue.labels),
        }
        .expect("an issue")
    }

    /// The texts of the comments on an issue, oldest first.
    pub fn issue_comments(&self, number: u64) -> Vec<String> {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.comments(REPO, number).into_iter().map(|comment| comment.body).collect(),
            Sandbox::GitLab { forge, project } => {
                forge.issue_notes(*project, number).into_iter().map(|note| note.body).collect()
            }
        }
    }

    /// A maintainer puts a label on the change, or takes it off; nothing is sent yet.
    pub fn label_change(&self, label: &str, on: bool) {
        match &self.sandbox {
            Sandbox::GitHub(forge) if on => forge.label(REPO, self.number, KEEPER, label),
            Sandbox::GitHub(forge) => forge.unlabel(REPO, self.number, KEEPER, label),
            Sandbox::GitLab { forge, project } => {
                let held = self.change_labels();
                forge.set_labels(*project, self.number, KEEPER, &with(&held, label, on));
            }
        }
    }

    pub fn change_labels(&self) -> Vec<String> {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                forge.pulls(REPO).into_iter().find(|change| change.number == self.number).map(|change| change.labels)
            }
            Sandbox::GitLab { forge, project } => {
                let changes = forge.merge_requests(*project);
                changes.into_iter().find(|change| change.iid == self.number).map(|change| change.labels)
            }
        }
        .expect("the change")
    }

    /// What the newest run of a native job leaves in its log; to be said before the job ends.
    pub fn log_of(&self, group: u64, job: &str, text: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.job_log(group, job, text),
            Sandbox::GitLab { forge, .. } => forge.job_log(group, job, text),
        }
    }

    /// A native job ends because its machine vanished: a typed cause of the infrastructure.
    pub fn lose_native(&self, group: u64, job: &str) {
        match &self.sandbox {
            Sandbox::GitHub(forge) => forge.lose_job(group, job),
            Sandbox::GitLab { forge, .. } => forge.finish_job(group, job, "failed", Some("runner_system_failure")),
        }
    }

    /// The default branch lets nothing in without these. GitLab knows no such list: there the whole pipeline must pass.
    pub fn require(&self, contexts: &[&str]) {
        if let Sandbox::GitHub(forge) = &self.sandbox {
            forge.required(REPO, "main", contexts);
        }
    }

    /// The change is put into the merge queue (on the merge train), where these native jobs run; nothing is sent yet.
    pub fn enqueue(&self, jobs: &[&str]) -> Queued {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let sha = forge.enqueue(REPO, self.number);
                let jobs = jobs.iter().map(|name| github::NewJob { name: (*name).into(), needs: vec![] }).collect();
                let new = github::NewWorkflow {
                    name: "CI".into(),
                    path: ".github/workflows/ci.yml".into(),
                    event: "merge_group".into(),
                    jobs,
                    ..Default::default()
                };
                let group = forge.start_workflow(REPO, &sha, new);
                Queued { sha, group }
            }
            Sandbox::GitLab { forge, project } => {
                let job = |name: &&str| gitlab::NewJob { name: (*name).into(), ..Default::default() };
                let (group, sha) = forge.enqueue(*project, self.number, jobs.iter().map(job).collect());
                Queued { sha, group }
            }
        }
    }

    pub fn queue_state(&self) -> QueueState {
        match &self.sandbox {
            Sandbox::GitHub(forge) => match forge.queue_place(REPO, self.number) {
                QueuePlace::Never => QueueState::Never,
                QueuePlace::Waiting(_) => QueueState::Waiting,
                QueuePlace::Merged => QueueState::Merged,
                QueuePlace::Ejected | QueuePlace::Removed => QueueState::Ejected,
            },
            Sandbox::GitLab { forge, project } => match forge.train_place(*project, self.number) {
                TrainPlace::Never => QueueState::Never,
                TrainPlace::Waiting(..) => QueueState::Waiting,
                TrainPlace::Merged => QueueState::Merged,
                TrainPlace::Dropped => QueueState::Ejected,
            },
        }
    }

    /// How many runs a native job of the queue had.
    pub fn queue_runs(&self, queued: &Queued, job: &str) -> usize {
        match &self.sandbox {
            Sandbox::GitHub(forge) => {
                let of_job = |j: &github::JobView| j.name == job && j.run_id == queued.group;
                forge.jobs(REPO, &queued.sha).into_iter().filter(of_job).map(|j| j.attempt as usize).max().unwrap_or(0)
            }
            Sandbox::GitLab { forge, .. } => forge.jobs(queued.group).into_iter().filter(|j| j.name == job).count(),
        }
    }
}

fn with<'a>(held: &'a [String], label: &'a str, on: bool) -> Vec<&'a str> {
    let others = held.iter().map(String::as_str).filter(|own| *own != label);
    others.chain(on.then_some(label)).collect()
}

async fn what_people_do_with_issues_and_labels_is_taken(side: Side) {
    let stage = Stage::set(side).await;
    let number = stage.issue("Flake: usb", "```toml\njobs = [\"lava-*\"]\n```", &["arm"]);
    stage.settle().await;
    stage.label_issue(number, "flake", true);
    stage.label_issue(number, "arm", false);
    stage.edit_issue(number, "new text");
    stage.close_issue(number);
    stage.reopen_issue(number);
    stage.label_change("retest/auto", true);
    stage.label_change("retest/never", true);
    stage.label_change("retest/auto", false);
    stage.settle().await;
    assert_eq!((stage.issue_title(number).as_str(), stage.issue_text(number).as_str()), ("Flake: usb", "new text"));
    assert_eq!(stage.issue_labels(number), ["flake"]);
    assert_eq!((stage.issues(), stage.issue_comments(number).len()), (vec![number], 0));
    assert_eq!(stage.change_labels(), ["retest/never"]);
    stage.end().await;
}

async fn a_queue_ejects_what_fails_and_merges_what_passes_and_the_bot_takes_all_that_it_tells(side: Side) {
    let stage = Stage::set(side).await;
    stage.require(&["unit"]);
    assert_eq!(stage.queue_state(), QueueState::Never);
    let queued = stage.enqueue(&["unit"]);
    stage.settle().await;
    assert_eq!(stage.queue_state(), QueueState::Waiting);
    stage.log_of(queued.group, "unit", "usb 1-1: device descriptor read/64, error -110\n");
    stage.lose_native(queued.group, "unit");
    stage.settle().await;
    assert_eq!((stage.queue_state(), stage.queue_runs(&queued, "unit")), (QueueState::Ejected, 1));
    let again = stage.enqueue(&["unit"]);
    stage.end_native(again.group, "unit", true);
    stage.settle().await;
    assert_eq!(stage.queue_state(), QueueState::Merged);
    stage.end().await;
}

on_both_forges!(
    what_people_do_with_issues_and_labels_is_taken,
    a_queue_ejects_what_fails_and_merges_what_passes_and_the_bot_takes_all_that_it_tells,
);
