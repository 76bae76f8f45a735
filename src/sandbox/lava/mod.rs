//! A stand-in LAVA: REST v0.2 as a 2023.01 server answers it, with jobs that end when a test says so.
//!
//! It reads definitions as texts only: what it must know of one stands on a line of its own. Read next: `routes.rs`.

mod routes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::wire::Wire;

/// One job.
#[derive(Clone, Debug)]
pub struct SandboxJob {
    /// Its number.
    pub id: u64,
    /// What was submitted.
    pub definition: String,
    /// `Submitted`, `Scheduled`, `Running`, `Canceling` or `Finished`.
    pub state: String,
    /// `Unknown` until it is finished.
    pub health: String,
    /// The multinode group it belongs to, and its place in it.
    pub member: Option<(u64, usize)>,
    /// Results as `suite`, `case`, `result`, and the metadata of the case as YAML.
    pub results: Vec<(String, String, String, String)>,
    /// Lines of its log.
    pub log: String,
}

/// How a job ends.
#[derive(Clone, Debug)]
pub enum End<'a> {
    /// Ran to its end with these results of suite `0_smoke`.
    Complete(&'a [(&'a str, &'a str)]),
    /// Could not: error type and message of its own result.
    Incomplete(&'a str, &'a str),
    /// Its worker went away: incomplete without a result.
    Gone,
}

#[derive(Debug, Default)]
struct State {
    token: String,
    jobs: Vec<SandboxJob>,
}

/// A running stand-in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LavaSandbox {
    wire: Wire,
    state: Arc<Mutex<State>>,
}

impl LavaSandbox {
    /// Starts one that takes `token`.
    ///
    /// # Errors
    /// When no loopback port can be bound.
    pub async fn start(token: &str) -> std::io::Result<Self> {
        let state = Arc::new(Mutex::new(State { token: token.to_owned(), jobs: Vec::new() }));
        let wire = Wire::serve(routes::router(Arc::clone(&state))).await?;
        Ok(Self { wire, state })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        self.wire.base_url()
    }

    /// The wire: its history and its faults.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token that is taken from now on.
    pub fn set_token(&self, token: &str) {
        token.clone_into(&mut self.lock().token);
    }

    /// Somebody's CI submits a job; returns its number.
    pub fn submit(&self, definition: &str) -> u64 {
        self.lock().submit(definition).first().copied().unwrap_or_default()
    }

    /// All jobs, oldest first.
    pub fn jobs(&self) -> Vec<SandboxJob> {
        self.lock().jobs.clone()
    }

    /// Moves a job on.
    pub fn set_state(&self, id: u64, state: &str) {
        if let Some(job) = self.lock().jobs.iter_mut().find(|job| job.id == id) {
            state.clone_into(&mut job.state);
        }
    }

    /// What a job has logged, in LAVA's form.
    pub fn set_log(&self, id: u64, log: &str) {
        if let Some(job) = self.lock().jobs.iter_mut().find(|job| job.id == id) {
            log.clone_into(&mut job.log);
        }
    }

    /// Forgets a job, as LAVA's retention does.
    pub fn forget(&self, id: u64) {
        self.lock().jobs.retain(|job| job.id != id);
    }

    /// Ends a job.
    pub fn finish(&self, id: u64, end: &End<'_>) {
        if let Some(job) = self.lock().jobs.iter_mut().find(|job| job.id == id) {
            "Finished".clone_into(&mut job.state);
            let result = |suite: &str, case: &str, result: &str, more: &str| {
                let metadata = format!("case: {case}\ndefinition: {suite}\n{more}result: {result}\n");
                (suite.to_owned(), case.to_owned(), result.to_owned(), metadata)
            };
            match end {
                End::Complete(cases) => {
                    "Complete".clone_into(&mut job.health);
                    job.results.extend(cases.iter().map(|(case, word)| result("0_smoke", case, word, "")));
                    job.results.push(result("lava", "job", "pass", ""));
                }
                End::Incomplete(kind, message) => {
                    "Incomplete".clone_into(&mut job.health);
                    let more = format!("error_msg: {message}\nerror_type: {kind}\n");
                    job.results.push(result("lava", "login-action", "fail", ""));
                    job.results.push(result("lava", "job", "fail", &more));
                }
                End::Gone => "Incomplete".clone_into(&mut job.health),
            }
        }
    }
}

impl State {
    /// The new jobs: two for a multinode definition.
    fn submit(&mut self, definition: &str) -> Vec<u64> {
        let first = self.jobs.last().map_or(100, |job| job.id + 1);
        let members = if definition.contains("lava-multinode") { 2 } else { 1 };
        for member in 0..members {
            self.jobs.push(SandboxJob {
                id: first + member as u64,
                definition: definition.to_owned(),
                state: "Submitted".into(),
                health: "Unknown".into(),
                member: (members > 1).then_some((first, member)),
                results: Vec::new(),
                log: String::new(),
            });
        }
        (0..members).map(|member| first + member as u64).collect()
    }
}
