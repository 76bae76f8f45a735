//! Named points at which a test stops the program, to prove that a restart there loses and doubles nothing.

use std::fmt;
use std::str::FromStr;

/// A point between two durable steps (the crash table of DESIGN section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// A delivery is stored and answered, not yet worked on.
    Accepted,
    /// A command is planned and its retries are stored; no runner was called.
    Planned,
    /// The retry is written as `Dispatching`; the call has not been made.
    Claimed,
    /// The runner has accepted; its handle is not stored.
    Dispatched,
    /// A status was posted and not remembered.
    StatusPosted,
    /// The report was posted and not remembered.
    ReportPosted,
}

impl Point {
    /// All points.
    pub const ALL: [Self; 6] =
        [Self::Accepted, Self::Planned, Self::Claimed, Self::Dispatched, Self::StatusPosted, Self::ReportPosted];

    /// The word for the environment variable and for tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Planned => "planned",
            Self::Claimed => "claimed",
            Self::Dispatched => "dispatched",
            Self::StatusPosted => "status_posted",
            Self::ReportPosted => "report_posted",
        }
    }
}

impl FromStr for Point {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.as_str() == word).ok_or_else(|| format!("no point is called `{word}`"))
    }
}

/// Whether to stop at a point, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopAt {
    /// Never: real life.
    #[default]
    Never,
    /// The pass ends with an error there; the test drops the program.
    Error(Point),
    /// The process kills itself with SIGKILL there, as a power cut would.
    Kill(Point),
}

/// The pass was stopped by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped(pub Point);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped at `{}` as told", self.0.as_str())
    }
}

impl std::error::Error for Stopped {}

impl StopAt {
    /// Stops here, when told to.
    ///
    /// # Errors
    /// [`Stopped`] when this is the point.
    pub fn reach(self, point: Point) -> Result<(), Stopped> {
        match self {
            Self::Error(at) if at == point => Err(Stopped(point)),
            Self::Kill(at) if at == point => {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
                Err(Stopped(point))
            }
            Self::Never | Self::Error(_) | Self::Kill(_) => Ok(()),
        }
    }
}
