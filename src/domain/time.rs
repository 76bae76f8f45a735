//! Points in time as milliseconds since 1970 UTC; spans are `std::time::Duration`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC. Always handed in: nothing in this crate but the system clock reads the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970 UTC.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970 UTC.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// This time plus a span; stays at the end of time instead of overflowing.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This time minus a span.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}
