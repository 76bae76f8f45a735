//! The breaker of a runner: no retry goes to a runner that fails broadly.
//!
//! An outage makes many changes fail at once, and retrying them all makes it worse. The breaker looks at heads, not at runs, so that
//! one change with a hundred jobs opens nothing. After a time one retry is let through; its end decides.
//! **Invariant:** every open breaker half-opens by time alone; nothing needs to be heard. Read next: `judge.rs`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::Timestamp;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerRule {
    /// How far back runs are looked at.
    pub window: Duration,
    /// Heads that must have been seen before anything is concluded.
    pub heads_min: u32,
    /// Share of failing heads that opens it, in per cent.
    pub share_percent: u32,
    /// How long it stays open before one retry is tried.
    pub open_for: Duration,
}

impl Default for BreakerRule {
    fn default() -> Self {
        let (window, open_for) = (Duration::from_secs(3_600), Duration::from_secs(900));
        Self { window, heads_min: 5, share_percent: 50, open_for }
    }
}

/// What a runner did within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Heads of which a run ended on the runner.
    pub heads: u32,
    /// Those of them of which a run failed there.
    pub failing: u32,
}

/// How the retry ended that a half-open breaker let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// None was sent yet, or it left no verdict (cancelled, superseded).
    None,
    /// It is on its way.
    Running,
    /// The runner carried a run through since: it passed.
    Passed,
    /// It failed like the others.
    Failed,
}

/// The state of a runner's breaker. The default is closed, from the beginning of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Breaker {
    /// Retries go through.
    Closed {
        /// Runs before this time do not count: they belong to an outage that is over.
        since: Timestamp,
    },
    /// No retry goes through.
    Open {
        /// When one retry may be tried.
        until: Timestamp,
    },
    /// One retry may go through, and its end decides.
    HalfOpen {
        /// Since when; a probe is a retry that was sent at or after this time.
        since: Timestamp,
        /// Whether it is on its way.
        probing: bool,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed { since: Timestamp::from_ms(0) }
    }
}

impl Breaker {
    /// From when on runs are counted for [`Health`].
    pub fn counted_from(self, rule: &BreakerRule, now: Timestamp) -> Timestamp {
        let window = now.minus(rule.window);
        match self {
            Self::Closed { since } => window.max(since),
            Self::Open { .. } | Self::HalfOpen { .. } => window,
        }
    }

    /// The state at `now`: the same one where nothing has happened.
    #[must_use]
    pub fn step(self, rule: &BreakerRule, health: Health, probe: Probe, now: Timestamp) -> Self {
        let open = Self::Open { until: now.plus(rule.open_for) };
        match self {
            Self::Closed { .. } if fails_broadly(rule, health) => open,
            Self::Closed { .. } => self,
            Self::Open { until } if now < until => self,
            Self::Open { .. } => Self::HalfOpen { since: now, probing: false },
            Self::HalfOpen { since, .. } => match probe {
                Probe::None => Self::HalfOpen { since, probing: false },
                Probe::Running => Self::HalfOpen { since, probing: true },
                Probe::Passed => Self::Closed { since: now },
                Probe::Failed => open,
            },
        }
    }

    /// Whether a retry may go through now.
    pub const fn lets_through(self) -> bool {
        match self {
            Self::Closed { .. } => true,
            Self::Open { .. } => false,
            Self::HalfOpen { probing, .. } => !probing,
        }
    }
}

fn fails_broadly(rule: &BreakerRule, health: Health) -> bool {
    let share = u64::from(health.failing.min(health.heads)) * 100;
    health.heads >= rule.heads_min.max(1) && share >= u64::from(rule.share_percent.max(1)) * u64::from(health.heads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULE: BreakerRule = BreakerRule {
        window: Duration::from_secs(3_600),
        heads_min: 5,
        share_percent: 50,
        open_for: Duration::from_secs(900),
    };

    fn at(s: u64) -> Timestamp {
        Timestamp::from_ms(1_780_000_000_000).plus(Duration::from_secs(s))
    }

    #[test]
    fn it_opens_when_the_share_of_failing_heads_passes_the_threshold() {
        for (heads, failing, opens) in
            [(0, 0, false), (4, 4, false), (5, 2, false), (5, 3, true), (6, 3, true), (100, 49, false)]
        {
            let next = Breaker::default().step(&RULE, Health { heads, failing }, Probe::None, at(0));
            let wanted = if opens { Breaker::Open { until: at(900) } } else { Breaker::default() };
            assert_eq!(next, wanted, "{failing} of {heads}");
        }
    }

    #[test]
    fn it_half_opens_by_time_and_one_retry_decides() {
        let bad = Health { heads: 10, failing: 10 };
        let open = Breaker::default().step(&RULE, bad, Probe::None, at(0));
        assert_eq!(open.step(&RULE, bad, Probe::None, at(899)), open);
        assert!(!open.lets_through());
        let half = open.step(&RULE, bad, Probe::None, at(900));
        assert!(half.lets_through());
        let probing = half.step(&RULE, bad, Probe::Running, at(910));
        assert!(!probing.lets_through(), "one only");
        assert!(probing.step(&RULE, bad, Probe::None, at(915)).lets_through(), "the probe was cancelled");
        assert_eq!(probing.step(&RULE, bad, Probe::Failed, at(920)), Breaker::Open { until: at(1_820) });
        let closed = probing.step(&RULE, bad, Probe::Passed, at(920));
        assert_eq!(closed.counted_from(&RULE, at(921)), at(920), "the outage is not counted again");
        assert_eq!(closed.counted_from(&RULE, at(9_000)), at(5_400));
    }

    proptest! {
        #[test]
        fn a_breaker_is_never_stuck(steps in prop::collection::vec((0_u32..20, 0_u32..20, 0_u64..5_000, 0_u8..4), 1..40)) {
            let (mut breaker, mut now) = (Breaker::default(), 0);
            for (heads, failing, passed, probe) in steps {
                now += passed;
                let probe = [Probe::None, Probe::Running, Probe::Passed, Probe::Failed][usize::from(probe)];
                breaker = breaker.step(&RULE, Health { heads, failing }, probe, at(now));
                if let Breaker::Open { until } = breaker {
                    prop_assert!(until <= at(now).plus(RULE.open_for));
                }
            }
            let later = at(now).plus(RULE.open_for);
            let after = breaker.step(&RULE, Health::default(), Probe::None, later);
            prop_assert!(after.lets_through());
        }
    }
}
