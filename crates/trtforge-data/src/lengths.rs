//! How long the rows are, in tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Statistics of token counts; all zero for no rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LengthStats {
    /// Rows.
    pub count: usize,
    /// Tokens in all rows.
    pub tokens: usize,
    /// Mean tokens a row.
    pub mean: f64,
    /// Shortest row.
    pub min: usize,
    /// Longest row.
    pub max: usize,
    /// Half of the rows are no longer than this (nearest rank, like the next three).
    pub p50: usize,
    /// 90 % of the rows are no longer than this.
    pub p90: usize,
    /// 95 % of the rows are no longer than this.
    pub p95: usize,
    /// 99 % of the rows are no longer than this.
    pub p99: usize,
    /// Rows of each length that occurs.
    pub histogram: BTreeMap<usize, usize>,
}

impl LengthStats {
    /// Counts `lengths` (tokens of each row, special tokens included).
    pub fn of(lengths: &[usize]) -> Self {
        let mut histogram = BTreeMap::new();
        for &length in lengths {
            *histogram.entry(length).or_insert(0) += 1;
        }
        let count = lengths.len();
        let tokens: usize = lengths.iter().sum();
        let percentile = |percent: usize| {
            // Nearest rank: the smallest length that `percent` of the rows do not exceed.
            let rank = (count * percent).div_ceil(100);
            let mut below = 0;
            let reached = |(&length, &rows): (&usize, &usize)| {
                below += rows;
                (below >= rank).then_some(length)
            };
            histogram.iter().find_map(reached).unwrap_or(0)
        };
        Self {
            count,
            tokens,
            mean: if count == 0 { 0.0 } else { tokens as f64 / count as f64 },
            min: histogram.keys().next().copied().unwrap_or(0),
            max: histogram.keys().next_back().copied().unwrap_or(0),
            p50: percentile(50),
            p90: percentile(90),
            p95: percentile(95),
            p99: percentile(99),
            histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_by_hand() {
        // 1..=100: nearest ranks are the percents themselves, the mean is 50.5.
        let stats = LengthStats::of(&(1..=100).rev().collect::<Vec<_>>());
        assert_eq!((stats.count, stats.tokens, stats.mean), (100, 5_050, 50.5));
        assert_eq!(
            (stats.min, stats.p50, stats.p90, stats.p95, stats.p99, stats.max),
            (1, 50, 90, 95, 99, 100)
        );
        // Three rows: rank ceil(1.5) = 2 of 2, 2, 9 for the median, 3 for the rest.
        let stats = LengthStats::of(&[9, 2, 2]);
        assert_eq!((stats.min, stats.p50, stats.p90, stats.p99, stats.max), (2, 2, 9, 9, 9));
        assert_eq!(stats.histogram, BTreeMap::from([(2, 2), (9, 1)]));
    }

    #[test]
    fn no_rows_have_no_lengths() {
        assert_eq!(LengthStats::of(&[]), LengthStats::default());
    }
}
