//! How an outside call can fail, told by what to do next.

use std::time::Duration;

use thiserror::Error;

/// Why an outside call did not give what was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// The other side understood and said no; asking again does not help.
    #[error("refused: {log}")]
    Refused {
        /// For the person on the change: what was refused and, where known, who can change it.
        user: String,
        /// For the log: status, message, endpoint. Never a secret.
        log: String,
    },
    /// Not now: a rate limit. Nothing was done.
    #[error("throttled for {retry_after:?}: {log}")]
    Throttled {
        /// How long nothing may be sent.
        retry_after: Duration,
        /// For the log.
        log: String,
    },
    /// The other side was not reached or failed before doing anything; asking again later is safe.
    #[error("unreachable: {log}")]
    Unreachable {
        /// For the log.
        log: String,
    },
    /// The call may have worked: the answer got lost. A write must be read back before it is repeated.
    #[error("unknown outcome: {log}")]
    Unknown {
        /// For the log.
        log: String,
    },
}

impl CallError {
    /// Refused, with one text for both readers.
    pub fn refused(text: impl Into<String>) -> Self {
        let user = text.into();
        Self::Refused { log: user.clone(), user }
    }

    /// How long to wait before asking again at the `tries`-th failure in a row (from 1): what the other side asked
    /// for, else 2 s doubled each time up to 5 min.
    pub fn wait(&self, tries: u32) -> Duration {
        match self {
            Self::Throttled { retry_after, .. } => (*retry_after).max(Duration::from_secs(1)),
            Self::Refused { .. } | Self::Unreachable { .. } | Self::Unknown { .. } => {
                let doubled = 2_u64.saturating_pow(tries.clamp(1, 9));
                Duration::from_secs(doubled.min(300))
            }
        }
    }

    /// Whether asking again can help.
    pub const fn is_passing(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}
