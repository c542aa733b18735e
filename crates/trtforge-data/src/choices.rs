//! What each number of length buckets would bring: for choosing how many optimization profiles an engine gets.

use serde::{Deserialize, Serialize};

use crate::bucket::plan_buckets;

/// The best plan of so many buckets, and what it leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BucketChoice {
    /// Buckets asked for.
    pub buckets: usize,
    /// Lengths that rows are padded to, ascending; fewer than asked for when more would bring nothing.
    pub lengths: Vec<usize>,
    /// The share of the tokens that is padding.
    pub padded_tokens: f64,
    /// The share of the work that is padding.
    pub padded_flops: f64,
    /// Work over that of one bucket.
    pub work: f64,
    /// Batches that the rows make, each of rows of one bucket.
    pub batches: usize,
    /// Rows over the rows that these batches could hold.
    pub fill: f64,
}

/// The best plans of 1 to `most` buckets.
///
/// - `lengths`: tokens of each row;
/// - `batch_rows`: rows of a full batch;
/// - `cost`: work of one row padded to a length, in any unit (see `encoder_flops`).
/// - returns: one choice for each number; none for no rows.
pub fn bucket_choices(
    lengths: &[usize],
    most: usize,
    batch_rows: usize,
    cost: &dyn Fn(usize) -> f64,
) -> Vec<BucketChoice> {
    if lengths.is_empty() {
        return Vec::new();
    }
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let one = lengths.len() as f64 * cost(longest);
    let choice = |buckets| choice(lengths, buckets, batch_rows.max(1), cost, one);
    (1..=most).map(choice).collect()
}

fn choice(
    lengths: &[usize],
    buckets: usize,
    batch_rows: usize,
    cost: &dyn Fn(usize) -> f64,
    one: f64,
) -> BucketChoice {
    let bounds = plan_buckets(lengths, buckets, cost);
    let mut rows = vec![0_usize; bounds.len()];
    let (mut real, mut padded, mut needed, mut computed) = (0, 0, 0.0, 0.0);
    for &length in lengths {
        let bucket = bounds.partition_point(|&bound| bound < length);
        rows[bucket] += 1;
        real += length;
        padded += bounds[bucket];
        needed += cost(length);
        computed += cost(bounds[bucket]);
    }
    let batches: usize = rows.iter().map(|rows| rows.div_ceil(batch_rows)).sum();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    BucketChoice {
        buckets,
        lengths: bounds,
        padded_tokens: share((padded - real) as f64, padded as f64),
        padded_flops: share(computed - needed, computed).max(0.0),
        work: share(computed, one),
        batches,
        fill: share(lengths.len() as f64, (batches * batch_rows) as f64),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn choices_by_hand() {
        // 5, 6, 5 and 60, 60 with batches of 2. One bucket: 300 tokens, 136 real, 3 batches for 5 rows.
        let lengths = [5, 6, 5, 60, 60];
        let found = bucket_choices(&lengths, 3, 2, &|length| length as f64);
        assert_eq!(found[0].lengths, [60]);
        assert_eq!((found[0].padded_tokens, found[0].work), (164.0 / 300.0, 1.0));
        assert_eq!((found[0].batches, found[0].fill), (3, 5.0 / 6.0));
        // Two: 6, 6, 6, 60, 60 are 138 tokens; three rows make two batches and two make one.
        assert_eq!(found[1].lengths, [6, 60]);
        assert_eq!((found[1].padded_tokens, found[1].work), (2.0 / 138.0, 138.0 / 300.0));
        assert_eq!((found[1].batches, found[1].fill), (3, 5.0 / 6.0));
        // Three hold every row exactly, and a batch more is not full.
        assert_eq!((found[2].padded_tokens, found[2].padded_flops), (0.0, 0.0));
        assert_eq!((found[2].batches, found[2].fill), (3, 5.0 / 6.0));
        assert!(bucket_choices(&[], 3, 2, &|_| 1.0).is_empty());
    }

    proptest! {
        #[test]
        fn more_buckets_never_cost_more(lengths in prop::collection::vec(1_usize..60, 1..40), batch in 0_usize..9) {
            let found = bucket_choices(&lengths, 8, batch, &|length| (length * length + 9 * length) as f64);
            prop_assert_eq!(found.len(), 8);
            prop_assert!(found.windows(2).all(|pair| pair[1].work <= pair[0].work + 1e-12));
            for choice in &found {
                prop_assert!(choice.lengths.len() <= choice.buckets);
                prop_assert!((0.0..1.0).contains(&choice.padded_tokens) && (0.0..1.0).contains(&choice.padded_flops));
                prop_assert!(choice.fill > 0.0 && choice.fill <= 1.0);
            }
        }
    }
}
