//! How many times as fast one engine is as another, from rounds in which both had a turn.

use super::statistics::median;

/// A speed-up.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// Median over the pairs of baseline time over candidate time: above 1 the candidate is faster.
    pub median: f64,
    /// Bounds of the true median, low then high; each alone holds with the confidence that was asked. None: too few pairs for it.
    pub interval: Option<[f64; 2]>,
    /// Pairs.
    pub pairs: usize,
}

/// The ratio of paired times: those of the same round, so that clocks, heat and neighbours weigh on both.
///
/// The bounds are order statistics: of n pairs, fewer than k lie below the true median with the probability of fewer than k heads in n throws of
/// a coin. Nothing is assumed of the times' distribution, and a single stray round moves nothing.
///
/// None without a pair; pairs in which a time is not above 0 are left out.
pub fn paired_ratio(baseline: &[f64], candidate: &[f64], confidence: f64) -> Option<Ratio> {
    let usable = |(a, b): &(&f64, &f64)| **a > 0.0 && **b > 0.0;
    let pairs = baseline.iter().zip(candidate).filter(usable);
    let mut ratios: Vec<f64> = pairs.map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    let median = median(ratios.iter().copied())?;
    let rank = bound_rank(ratios.len(), confidence);
    let interval = rank.map(|rank| [ratios[rank - 1], ratios[ratios.len() - rank]]);
    Some(Ratio { median, interval, pairs: ratios.len() })
}

/// The largest k such that fewer than k heads in n throws have a probability of at most `1 - confidence`; none when even k = 1 is too likely.
fn bound_rank(n: usize, confidence: f64) -> Option<usize> {
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    let mut rank = 0;
    // After the step for `heads`, `below` is the probability of at most so many, that is of fewer than heads + 1.
    for heads in 0..n.div_ceil(2) {
        below += probability;
        if below > 1.0 - confidence {
            break;
        }
        rank = heads + 1;
        probability *= (n - heads) as f64 / (heads + 1) as f64;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_from_the_table_of_the_sign_test() {
        // By hand for n = 10: P(0) = 1/1024, P(≤ 1) = 11/1024 = 0.0107, P(≤ 2) = 56/1024 = 0.0547: at 95 % the second smallest.
        // n = 5: P(0) = 1/32 = 0.031 fits, P(≤ 1) = 6/32 does not. n = 4: 1/16 = 0.0625 does not fit.
        // n = 20: P(≤ 5) = 21700/2^20 = 0.0207, P(≤ 6) = 60460/2^20 = 0.0577: the sixth.
        let cases = [
            (4, None),
            (5, Some(1)),
            (8, Some(2)),
            (10, Some(2)),
            (20, Some(6)),
            (1, None),
            (0, None),
        ];
        for (n, rank) in cases {
            assert_eq!(bound_rank(n, 0.95), rank, "{n}");
        }
        assert_eq!(bound_rank(10, 0.99), Some(1));
        assert_eq!(bound_rank(6, 0.99), None);
        // At 50 % the bound is the middle and never beyond it.
        assert_eq!(bound_rank(3, 0.5), Some(2));
        assert_eq!(bound_rank(4, 0.5), Some(2));
    }

    #[test]
    fn a_speedup_by_hand() {
        // Ratios: 2.0, 2.0, 1.8, 1.9, 2.2, 2.1, 2.0, 1.7, 40.0 (a stray round), 2.3.
        let baseline = [2.0, 4.0, 1.8, 1.9, 2.2, 2.1, 2.0, 1.7, 40.0, 2.3];
        let candidate = [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let ratio = paired_ratio(&baseline, &candidate, 0.95).unwrap();
        // Sorted: 1.7 1.8 1.9 2.0 2.0 2.0 2.1 2.2 2.3 40: the second from either end.
        assert_eq!(ratio, Ratio { median: 2.0, interval: Some([1.8, 2.3]), pairs: 10 });
    }

    #[test]
    fn drift_that_hits_both_changes_nothing() {
        // The clock falls by half over the rounds; the candidate takes four fifths of the time throughout.
        let baseline: Vec<f64> = (0..10).map(|round| 10.0 + f64::from(round)).collect();
        let candidate: Vec<f64> = baseline.iter().map(|time| time * 0.8).collect();
        let [low, high] = paired_ratio(&baseline, &candidate, 0.95).unwrap().interval.unwrap();
        assert!((low - 1.25).abs() < 1e-12 && (high - 1.25).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn too_few_rounds_have_no_bounds_and_none_no_ratio() {
        let few = paired_ratio(&[2.0, 2.0], &[1.0, 1.0], 0.95).unwrap();
        assert_eq!(few, Ratio { median: 2.0, interval: None, pairs: 2 });
        assert_eq!(paired_ratio(&[], &[], 0.95), None);
        assert_eq!(paired_ratio(&[1.0], &[0.0], 0.95), None);
    }
}
