//! How often something happens, with what is known of it: a share and Wilson's 95 % interval.
//!
//! Two of three is no rate of 67 %; the interval says so. Wilson's holds its promise also for few observations and near 0 and 1.
//! Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22 (1927).

use serde::Serialize;

/// The standard normal quantile of 97.5 %.
const Z: f64 = 1.959_963_984_540_054;

/// `hits` of `of`, as shares from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// How often it happened; at most `of`.
    pub hits: u64,
    /// How often it could have.
    pub of: u64,
    /// The observed share; 0 when nothing was observed.
    pub share: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Rate {
    /// The rate of `hits` in `of`; more hits than chances count as all of them. Of nothing nothing is known: 0 to 1.
    pub fn new(hits: u64, of: u64) -> Self {
        let hits = hits.min(of);
        if of == 0 {
            return Self { hits, of, share: 0.0, low: 0.0, high: 1.0 };
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^52")]
        let (k, n) = (hits as f64, of as f64);
        let (share, z2) = (k / n, Z * Z);
        let middle = (k + z2 / 2.0) / (n + z2);
        let half = Z / (n + z2) * (share * (1.0 - share) * n + z2 / 4.0).sqrt();
        // At the ends the formula gives 0 and 1 but for rounding.
        let low = if hits == 0 { 0.0 } else { (middle - half).clamp(0.0, share) };
        let high = if hits == of { 1.0 } else { (middle + half).clamp(share, 1.0) };
        Self { hits, of, share, low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values_are_met() {
        // Worked out by hand from the formula; 0 of 10 and 5 of 10 stand in many textbooks.
        for (hits, of, low, high) in
            [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 100, 0.0018, 0.0545)]
        {
            let rate = Rate::new(hits, of);
            assert!((rate.low - low).abs() < 1e-4 && (rate.high - high).abs() < 1e-4, "{rate:?}");
        }
        assert_eq!((Rate::new(0, 0).low, Rate::new(0, 0).high), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_share_and_shrinks_with_evidence(hits in 0_u64..1_000, misses in 0_u64..1_000) {
            let rate = Rate::new(hits, hits + misses);
            prop_assert!(0.0 <= rate.low && rate.low <= rate.share && rate.share <= rate.high && rate.high <= 1.0);
            let more = Rate::new(hits * 10, (hits + misses) * 10);
            prop_assert!(more.high - more.low <= rate.high - rate.low + 1e-12);
        }

        #[test]
        fn hits_and_misses_are_mirrored(hits in 0_u64..1_000, misses in 1_u64..1_000) {
            let (rate, mirrored) = (Rate::new(hits, hits + misses), Rate::new(misses, hits + misses));
            prop_assert!((rate.low - (1.0 - mirrored.high)).abs() < 1e-9);
        }
    }
}
