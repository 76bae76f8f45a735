//! GitHub's rate limits: reads them off every answer and remembers until when nothing may be sent.
//!
//! Primary and secondary limits look alike (403 or 429); headers and text decide (forge-github reference, section 11).
//! Going on while limited can get the App banned, so a limited installation is not called at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::domain::Timestamp;
use crate::ports::Clock;

/// Wait when a secondary limit names no time; doubled at every strike in a row.
const SECONDARY_WAIT: Duration = Duration::from_secs(60);
/// Longest such wait.
const SECONDARY_WAIT_MAX: Duration = Duration::from_secs(16 * 60);
/// Longest wait that we believe; primary windows last an hour.
const WAIT_MAX: Duration = Duration::from_secs(2 * 3_600);

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    until: Timestamp,
    strikes: u32,
}

/// Until when which installation must be left alone. The key `None` is the App itself, or the token.
#[derive(Debug)]
pub(super) struct Limits {
    clock: Arc<dyn Clock>,
    standings: Mutex<HashMap<Option<u64>, Standing>>,
}

impl Limits {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, standings: Mutex::default() }
    }

    /// How long the installation must still be left alone.
    pub fn blocked(&self, key: Option<u64>) -> Option<Duration> {
        let until = self.until(key)?;
        Some(until.since(self.clock.now())).filter(|wait| !wait.is_zero())
    }

    /// The time before which nothing may be sent, if it is still to come.
    pub fn until(&self, key: Option<u64>) -> Option<Timestamp> {
        let now = self.clock.now();
        self.with(key, |standing| Some(standing.until).filter(|until| *until > now))
    }

    /// Sets that time; an earlier one never shortens a longer wait.
    pub fn block_until(&self, key: Option<u64>, until: Timestamp) {
        self.with(key, |standing| standing.until = standing.until.max(until));
    }

    /// Learns from an answer. The wait, when the answer is the refusal of a limit.
    pub fn learn(&self, key: Option<u64>, status: StatusCode, headers: &HeaderMap, text: &str) -> Option<Duration> {
        let now = self.clock.now();
        let exhausted = number(headers, "x-ratelimit-remaining") == Some(0);
        let reset = number(headers, "x-ratelimit-reset").and_then(|s| i64::try_from(s).ok());
        let reset = reset.map(|s| Timestamp::from_ms(s.saturating_mul(1_000)));
        if !is_limit(status, headers, exhausted, text) {
            self.with(key, |standing| {
                if status.is_success() {
                    standing.strikes = 0;
                }
                // The last request of the window went through: the next one would not.
                if let (true, Some(reset)) = (exhausted && of_core(headers), reset) {
                    standing.until = standing.until.max(reset.min(now.plus(WAIT_MAX)));
                }
            });
            return None;
        }
        let asked = number(headers, "retry-after").map(Duration::from_secs);
        let until_reset = reset.filter(|_| exhausted).map(|reset| reset.since(now));
        Some(self.with(key, |standing| {
            standing.strikes = standing.strikes.saturating_add(1);
            let doubled = SECONDARY_WAIT.saturating_mul(1 << (standing.strikes - 1).min(8)).min(SECONDARY_WAIT_MAX);
            let wait = asked.or(until_reset).unwrap_or(doubled).clamp(Duration::from_secs(1), WAIT_MAX);
            standing.until = standing.until.max(now.plus(wait));
            wait
        }))
    }

    fn with<T>(&self, key: Option<u64>, act: impl FnOnce(&mut Standing) -> T) -> T {
        let mut standings = self.standings.lock().unwrap_or_else(PoisonError::into_inner);
        act(standings.entry(key).or_default())
    }
}

/// 429 is always a limit; 403 only with an exhausted budget, a `Retry-After`, or a text that says so.
fn is_limit(status: StatusCode, headers: &HeaderMap, exhausted: bool, text: &str) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::FORBIDDEN => {
            let text = text.to_ascii_lowercase();
            exhausted
                || headers.contains_key("retry-after")
                || ["secondary rate limit", "rate limit exceeded", "abuse detection"].iter().any(|p| text.contains(p))
        }
        _ => false,
    }
}

fn of_core(headers: &HeaderMap) -> bool {
    headers.get("x-ratelimit-resource").is_none_or(|resource| resource == "core")
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::ManualClock;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().expect("name"), value.parse().expect("value"))).collect()
    }

    #[test]
    fn the_kinds_of_limits_are_told_from_refusals_by_headers_and_text() {
        let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        let table = [
            (403, headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1090")]), "", Some(90), "primary"),
            (
                429,
                headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1090")]),
                "",
                Some(90),
                "primary, 429",
            ),
            (403, headers(&[("retry-after", "17")]), secondary, Some(17), "secondary with a time"),
            (429, headers(&[("retry-after", "17"), ("x-ratelimit-remaining", "0")]), "", Some(17), "asked time wins"),
            (403, headers(&[("x-ratelimit-remaining", "4000")]), secondary, Some(60), "secondary without a time"),
            (429, headers(&[]), "", Some(60), "bare 429"),
            (403, headers(&[("retry-after", "0")]), secondary, Some(1), "never at once"),
            (403, headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")]), "", Some(1), "reset passed"),
            (403, headers(&[("x-ratelimit-remaining", "4999")]), "This workflow is already running", None, "refused"),
            (404, headers(&[]), "", None, "not found"),
            (503, headers(&[("retry-after", "9")]), "", None, "an outage is no limit"),
        ];
        for (status, headers, text, wait, why) in table {
            let limits = Limits::new(Arc::new(ManualClock::at(Timestamp::from_ms(1_000_000))));
            let status = StatusCode::from_u16(status).expect("status");
            assert_eq!(limits.learn(Some(1), status, &headers, text).map(|w| w.as_secs()), wait, "{why}");
            assert_eq!(limits.blocked(Some(1)).map(|w| w.as_secs()), wait, "{why}");
            assert_eq!(limits.blocked(Some(2)), None, "{why}: other installations go on");
        }
    }

    #[test]
    fn strikes_in_a_row_double_the_wait_and_a_success_forgets_them() {
        let clock = ManualClock::at(Timestamp::from_ms(0));
        let limits = Limits::new(Arc::new(clock.clone()));
        let strike = || limits.learn(None, StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), "").map(|w| w.as_secs());
        assert_eq!([strike(), strike(), strike()], [Some(60), Some(120), Some(240)]);
        for _ in 0..100 {
            strike();
        }
        assert_eq!(strike(), Some(960), "there is a longest wait");
        limits.learn(None, StatusCode::OK, &HeaderMap::new(), "");
        assert_eq!(strike(), Some(60));
    }

    #[test]
    fn an_answer_that_spends_the_last_request_blocks_until_the_reset() {
        let clock = ManualClock::at(Timestamp::from_ms(0));
        let limits = Limits::new(Arc::new(clock.clone()));
        let last = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")]);
        assert_eq!(limits.learn(None, StatusCode::OK, &last, ""), None, "the answer itself is good");
        assert_eq!(limits.until(None), Some(Timestamp::from_ms(30_000)));
        clock.advance(Duration::from_secs(30));
        assert_eq!(limits.blocked(None), None);
    }

    #[test]
    fn a_restored_block_holds_and_is_never_shortened() {
        let limits = Limits::new(Arc::new(ManualClock::at(Timestamp::from_ms(0))));
        limits.block_until(Some(3), Timestamp::from_ms(9_000));
        limits.block_until(Some(3), Timestamp::from_ms(4_000));
        assert_eq!(limits.until(Some(3)), Some(Timestamp::from_ms(9_000)));
    }
}
