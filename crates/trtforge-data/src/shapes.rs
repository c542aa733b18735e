//! TensorRT optimization profiles from the lengths that occur.

use serde::{Deserialize, Serialize};

use crate::bucket::plan_buckets;

/// What the profiles must cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapeOptions {
    /// How many profiles at most.
    pub profiles: usize,
    /// Largest batch, in rows.
    pub max_batch: usize,
    /// Longest row, in tokens; rows up to it must run even if none was seen.
    pub max_length: usize,
}

/// One optimization profile; shapes are `[rows, tokens]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShapeProfile {
    /// Smallest shape: one row, one token more than the profile before.
    pub min: [usize; 2],
    /// The shape that kernels are tuned for.
    pub opt: [usize; 2],
    /// Largest shape.
    pub max: [usize; 2],
    /// Rows of the data that belong here.
    pub rows: usize,
    /// The share of their tokens that would be padding if each were padded to the longest of them.
    pub padding_share: f64,
}

/// Plans profiles that together cover every batch of 1 to `max_batch` rows and 1 to `max_length` tokens, each length by exactly one.
///
/// - `lengths`: tokens of each row of representative data; longer ones than `max_length` count as `max_length`;
/// - `cost`: work of one row of a length (see `encoder_flops`).
///
/// The borders come from `plan_buckets`. A profile is tuned for the longest row seen in it (rounded up to a multiple of 8, which Tensor
/// Cores prefer) and for half of the largest batch, since the last batch and a waiting server send less than a full one;
/// never for more rows than the data has there.
pub fn plan_shapes(
    lengths: &[usize],
    options: &ShapeOptions,
    cost: &dyn Fn(usize) -> f64,
) -> Vec<ShapeProfile> {
    let max_length = options.max_length.max(1);
    let lengths: Vec<usize> = lengths.iter().map(|&length| length.clamp(1, max_length)).collect();
    let mut bounds = plan_buckets(&lengths, options.profiles.max(1), cost);
    if bounds.is_empty() {
        bounds.push(max_length);
    }
    let last = bounds.len() - 1;
    let mut from = 1;
    let mut profiles = Vec::with_capacity(bounds.len());
    for (index, &bound) in bounds.iter().enumerate() {
        let to = if index == last { max_length } else { bound };
        profiles.push(profile(&lengths, from, bound, to, options.max_batch.max(1)));
        from = to + 1;
    }
    profiles
}

/// The profile of lengths `from..=to`, of which `longest` is the longest that the data holds.
fn profile(
    lengths: &[usize],
    from: usize,
    longest: usize,
    to: usize,
    max_batch: usize,
) -> ShapeProfile {
    let inside: Vec<usize> =
        lengths.iter().copied().filter(|length| (from..=to).contains(length)).collect();
    let padded = inside.len() * longest;
    let real: usize = inside.iter().sum();
    let batch = max_batch.div_ceil(2).min(inside.len().max(1));
    ShapeProfile {
        min: [1, from],
        opt: [batch, longest.next_multiple_of(8).clamp(from, to)],
        max: [max_batch, to],
        rows: inside.len(),
        padding_share: if padded == 0 { 0.0 } else { (padded - real) as f64 / padded as f64 },
    }
}

/// Floating-point operations of one row of `length` tokens through a BERT encoder (a multiply and an add are two).
///
/// Per layer: the q, k, v and output projections 4·2·L·H², the feed-forward pair 2·2·L·H·I, and the attention products QKᵀ and PV
/// 2·2·L²·H. Norms, softmax and embeddings are linear and small, and left out.
pub fn encoder_flops(length: usize, hidden: usize, layers: usize, intermediate: usize) -> f64 {
    let (l, h, i) = (length as f64, hidden as f64, intermediate as f64);
    layers as f64 * (8.0 * l * h * h + 4.0 * l * h * i + 4.0 * l * l * h)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flops_by_hand() {
        // L 2, H 3, I 5, one layer: 8·2·9 + 4·2·3·5 + 4·4·3 = 144 + 120 + 48.
        assert_eq!(encoder_flops(2, 3, 1, 5), 312.0);
        assert_eq!(encoder_flops(2, 3, 4, 5), 4.0 * 312.0);
        // BERT-base at 128 tokens is known to be about 22.4 GFLOP.
        assert!((encoder_flops(128, 768, 12, 3072) / 1e9 - 22.35).abs() < 0.05);
    }

    #[test]
    fn profiles_by_hand() {
        let lengths = [5, 6, 5, 60, 60];
        let options = ShapeOptions { profiles: 2, max_batch: 64, max_length: 128 };
        let planned = plan_shapes(&lengths, &options, &|length| length as f64);
        let expected = [
            ShapeProfile {
                min: [1, 1],
                opt: [3, 6],
                max: [64, 6],
                rows: 3,
                padding_share: 2.0 / 18.0,
            },
            ShapeProfile { min: [1, 7], opt: [2, 64], max: [64, 128], rows: 2, padding_share: 0.0 },
        ];
        assert_eq!(planned, expected);
    }

    #[test]
    fn without_data_one_profile_covers_all() {
        let options = ShapeOptions { profiles: 3, max_batch: 8, max_length: 100 };
        let planned = plan_shapes(&[], &options, &|length| length as f64);
        assert_eq!(planned.len(), 1);
        assert_eq!((planned[0].min, planned[0].opt, planned[0].max), ([1, 1], [1, 100], [8, 100]));
    }

    proptest! {
        #[test]
        fn every_length_has_exactly_one_profile(
            lengths in prop::collection::vec(0usize..200, 0..50),
            profiles in 0usize..5,
            max_batch in 0usize..70,
            max_length in 1usize..150,
        ) {
            let options = ShapeOptions { profiles, max_batch, max_length };
            let planned = plan_shapes(&lengths, &options, &|length| encoder_flops(length, 64, 2, 256));
            prop_assert!(planned.len() <= profiles.max(1));
            for length in 1..=max_length {
                let covering = planned.iter().filter(|p| (p.min[1]..=p.max[1]).contains(&length)).count();
                prop_assert_eq!(covering, 1, "length {}", length);
            }
            for p in &planned {
                for axis in 0..2 {
                    prop_assert!(1 <= p.min[axis] && p.min[axis] <= p.opt[axis] && p.opt[axis] <= p.max[axis], "{:?}", p);
                }
                prop_assert_eq!(p.max[0], max_batch.max(1));
                prop_assert!((0.0..1.0).contains(&p.padding_share));
            }
            prop_assert_eq!(planned.iter().map(|p| p.rows).sum::<usize>(), lengths.len());
        }
    }
}
