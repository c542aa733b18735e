//! How times are distributed.

/// A distribution in its own unit. Percentiles are nearest ranks: the smallest sample that so many percent of all do not exceed.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of the samples are no larger.
    pub p50: f64,
    /// 90 % are no larger.
    pub p90: f64,
    /// 95 % are no larger.
    pub p95: f64,
    /// 99 % are no larger; of fewer than 100 samples that is the largest.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// The distribution of samples; none of none.
pub fn spread(samples: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut sorted: Vec<f64> = samples.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let max = *sorted.last()?;
    Some(Spread {
        mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        p50: nearest_rank(&sorted, 50),
        p90: nearest_rank(&sorted, 90),
        p95: nearest_rank(&sorted, 95),
        p99: nearest_rank(&sorted, 99),
        max,
    })
}

/// The smallest of the ascending samples that `percent` of all do not exceed; 0 of none.
pub fn nearest_rank(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// The middle sample, or the mean of the two in the middle; none of none.
pub fn median(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_hand() {
        // 1..=200: the rank of p percent is 2p.
        let found = spread((1..=200).rev().map(f64::from)).unwrap();
        let expected =
            Spread { mean: 100.5, p50: 100.0, p90: 180.0, p95: 190.0, p99: 198.0, max: 200.0 };
        assert_eq!(found, expected);
        // Of five, 90 % of 5 is 4.5: the fifth.
        let few = spread([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(few, Spread { mean: 3.0, p50: 3.0, p90: 5.0, p95: 5.0, p99: 5.0, max: 5.0 });
        let one = spread([7.0]).unwrap();
        assert_eq!((one.mean, one.p50, one.p99), (7.0, 7.0, 7.0));
        assert!(spread([]).is_none());
    }

    #[test]
    fn an_even_count_has_two_in_the_middle() {
        assert_eq!(median([4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([]), None);
    }
}
