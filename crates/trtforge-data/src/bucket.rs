//! Length buckets that waste the least work.

use serde::{Deserialize, Serialize};

use crate::lengths::LengthStats;

/// Rows that are padded to the same length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Shortest length that belongs here.
    pub from: usize,
    /// The length that rows are padded to.
    pub length: usize,
    /// Rows.
    pub count: usize,
    /// Tokens of the rows themselves.
    pub real_tokens: usize,
    /// The share of the bucket's tokens that is padding.
    pub padding_share: f64,
}

/// Chooses at most `k` padded lengths so that the rows together cost as little as possible.
///
/// - `lengths`: tokens of each row;
/// - `cost`: work of one row padded to a length, in any unit (see `encoder_flops`).
/// - returns: the lengths, ascending; the last one is the longest row. Empty for no rows or `k` = 0.
///
/// Each row goes to the smallest bucket that holds it, so buckets are intervals of the sorted distinct lengths and dynamic programming over
/// them is exact: O(k d²) for d distinct lengths. Of equally good plans the one with fewer buckets is taken.
pub fn plan_buckets(lengths: &[usize], k: usize, cost: &dyn Fn(usize) -> f64) -> Vec<usize> {
    let rows: Vec<(usize, usize)> = LengthStats::of(lengths).histogram.into_iter().collect();
    let distinct = rows.len();
    let k = k.min(distinct);
    if k == 0 {
        return Vec::new();
    }
    let mut rows_before = vec![0; distinct + 1];
    for (index, (_, count)) in rows.iter().enumerate() {
        rows_before[index + 1] = rows_before[index] + count;
    }
    let price: Vec<f64> = rows.iter().map(|&(length, _)| cost(length)).collect();
    // The cost of the bucket that holds the distinct lengths from..to, padded to the last of them.
    let bucket =
        |from: usize, to: usize| (rows_before[to] - rows_before[from]) as f64 * price[to - 1];

    // best[j][end]: the least cost of the first `end` distinct lengths in j + 1 buckets; start[j][end]: where the last of them begins.
    let one: Vec<f64> =
        (0..=distinct).map(|end| if end == 0 { 0.0 } else { bucket(0, end) }).collect();
    let (mut best, mut start) = (vec![one], vec![vec![0; distinct + 1]]);
    for j in 1..k {
        let ends = (0..=distinct).map(|end| {
            let splits = (j..end).map(|from| (best[j - 1][from] + bucket(from, end), from));
            splits
                .fold((f64::INFINITY, 0), |kept, split| if split.0 < kept.0 { split } else { kept })
        });
        let (costs, starts) = ends.unzip();
        best.push(costs);
        start.push(starts);
    }
    let better =
        |kept: usize, j: usize| if best[j][distinct] < best[kept][distinct] { j } else { kept };
    let fewest = (1..k).fold(0, better);
    let mut ends = vec![distinct];
    for j in (1..=fewest).rev() {
        ends.push(start[j][ends[ends.len() - 1]]);
    }
    ends.iter().rev().map(|&end| rows[end - 1].0).collect()
}

/// Says what each bucket of a plan holds.
///
/// - `bounds`: ascending padded lengths, as `plan_buckets` gives them; rows longer than the last are not counted.
pub fn describe_buckets(lengths: &[usize], bounds: &[usize]) -> Vec<Bucket> {
    let mut from = 1;
    let mut describe = |&length: &usize| {
        let inside = || lengths.iter().filter(|&&row| (from..=length).contains(&row));
        let (count, real_tokens) = (inside().count(), inside().sum::<usize>());
        let all = count * length;
        let padding_share = if all == 0 { 0.0 } else { (all - real_tokens) as f64 / all as f64 };
        let bucket = Bucket { from, length, count, real_tokens, padding_share };
        from = length + 1;
        bucket
    };
    bounds.iter().map(&mut describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn linear(length: usize) -> f64 {
        length as f64
    }

    #[test]
    fn buckets_by_hand() {
        // 1 bucket: 5 * 60 = 300. 2 buckets at 6 | 60: 3 * 6 + 2 * 60 = 138; at 5 | 60: 10 + 180 = 190.
        let lengths = [5, 6, 5, 60, 60];
        assert_eq!(plan_buckets(&lengths, 1, &linear), [60]);
        assert_eq!(plan_buckets(&lengths, 2, &linear), [6, 60]);
        assert_eq!(plan_buckets(&lengths, 9, &linear), [5, 6, 60]);
        assert_eq!(plan_buckets(&[], 3, &linear), [0; 0]);
        assert_eq!(plan_buckets(&lengths, 0, &linear), [0; 0]);
        assert_eq!(plan_buckets(&[7, 7], 3, &linear), [7]);
        // A cost that does not depend on the length gains nothing from a second bucket.
        assert_eq!(plan_buckets(&lengths, 3, &|_| 1.0), [60]);
    }

    #[test]
    fn descriptions_by_hand() {
        let buckets = describe_buckets(&[5, 6, 5, 60, 50], &[6, 60]);
        let expected = |from, length, count, real_tokens, padding_share| Bucket {
            from,
            length,
            count,
            real_tokens,
            padding_share,
        };
        assert_eq!(
            buckets,
            [expected(1, 6, 3, 16, 2.0 / 18.0), expected(7, 60, 2, 110, 10.0 / 120.0)]
        );
    }

    /// The cost of a plan, row by row.
    fn plan_cost(lengths: &[usize], bounds: &[usize], cost: &dyn Fn(usize) -> f64) -> f64 {
        let bound = |length: usize| bounds.iter().find(|&&bound| bound >= length).copied().unwrap();
        lengths.iter().map(|&length| cost(bound(length))).sum()
    }

    proptest! {
        #[test]
        fn no_choice_of_lengths_is_better(lengths in prop::collection::vec(1usize..10, 1..25), k in 1usize..5, quadratic in 0u32..4) {
            let cost = |length: usize| (length + length * length * quadratic as usize) as f64;
            let plan = plan_buckets(&lengths, k, &cost);
            let longest = *lengths.iter().max().unwrap();
            prop_assert!(plan.len() <= k);
            prop_assert_eq!(*plan.last().unwrap(), longest);
            prop_assert!(plan.windows(2).all(|pair| pair[0] < pair[1]));
            // Every set of at most k - 1 lengths below the longest, as bits.
            let best = (0u32..1 << (longest - 1))
                .filter(|set| (set.count_ones() as usize) < k)
                .map(|set| {
                    let mut bounds: Vec<usize> = (1..longest).filter(|l| set >> (l - 1) & 1 == 1).collect();
                    bounds.push(longest);
                    plan_cost(&lengths, &bounds, &cost)
                })
                .fold(f64::INFINITY, f64::min);
            prop_assert_eq!(plan_cost(&lengths, &plan, &cost), best);
        }
    }
}
