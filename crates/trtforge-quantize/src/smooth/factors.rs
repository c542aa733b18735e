//! The smoothing factors of one group of readers.

use crate::analysis::Analysis;
use crate::gemm::WeightedGemm;
use crate::half_values::floats;

use super::edits::stored_axes;
use super::groups::Group;

/// Factors lie within 2^±8: what FP16 multiplies by without losing range.
const MOST_DOUBLINGS: f64 = 8.0;
/// Weight rows count as at least this share of the largest: a dead row says nothing about how far to scale it.
const LEAST_ROW: f32 = 1.0 / 256.0;

/// One power of two per channel: `max|X_j|^strength / max|W_j|^(1 − strength)`, with a geometric mean near 1.
///
/// - `channels`: largest magnitude of each channel; `rows`: of each row of all weights that read it.
///
/// A channel that was 0 throughout keeps the factor 1: a smaller one would amplify what other rows may bring.
///
/// Source: equation 4 of arXiv:2211.10438. Powers of two instead of the nearest floats cost 4 % of what smoothing gains
/// on the demo and make `X / s` and `s · W` exact.
pub(super) fn factors(channels: &[f32], rows: &[f32], strength: f64) -> Vec<f32> {
    let floor = rows.iter().copied().fold(0.0, f32::max) * LEAST_ROW;
    if floor == 0.0 {
        return vec![1.0; channels.len()];
    }
    let doublings = |(&x, &w): (&f32, &f32)| {
        let wanted = strength * f64::from(x).log2();
        (x > 0.0).then(|| wanted - (1.0 - strength) * f64::from(w.max(floor)).log2())
    };
    let wanted: Vec<Option<f64>> = channels.iter().zip(rows).map(doublings).collect();
    let live = wanted.iter().flatten();
    let mean = live.clone().sum::<f64>() / live.count().max(1) as f64;
    let factor = |wanted: Option<f64>| {
        wanted.map_or(1.0, |w| (w - mean).round().clamp(-MOST_DOUBLINGS, MOST_DOUBLINGS).exp2())
    };
    wanted.into_iter().map(|w| factor(w) as f32).collect()
}

/// The largest magnitude of each row (along the dot products) over the weights of all members.
pub(super) fn row_maxima(analysis: &Analysis, group: &Group, gemms: &[WeightedGemm]) -> Vec<f32> {
    let mut maxima = vec![0.0f32; group.channels];
    for member in &group.members {
        let gemm = &gemms[member.position];
        let values = floats(&analysis.constants[gemm.weight.as_str()].bytes);
        let (along, _) = stored_axes(gemm);
        if along == 0 {
            for (max, row) in maxima.iter_mut().zip(values.chunks_exact(gemm.n)) {
                *max = row.iter().fold(*max, |max, w| max.max(w.abs()));
            }
        } else {
            for row in values.chunks_exact(gemm.k) {
                maxima.iter_mut().zip(row).for_each(|(max, w)| *max = max.max(w.abs()));
            }
        }
    }
    maxima
}

/// How far the largest channel stands above the median one.
pub(super) fn spread(channels: &[f32]) -> f32 {
    let mut sorted = channels.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    let largest = sorted.last().copied().unwrap_or(0.0);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    if largest > 0.0 { largest / median } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_by_hand() {
        // Strength ½: √(x/w) = 4, 1, ¼, whose mean exponent is 0.
        assert_eq!(factors(&[16.0, 1.0, 0.25], &[1.0, 1.0, 4.0], 0.5), [4.0, 1.0, 0.25]);
        // Strength 1: x alone: exponents 4, 0, −2 less their mean ⅔ are 3⅓, −⅔, −2⅔.
        assert_eq!(factors(&[16.0, 1.0, 0.25], &[1.0, 1.0, 4.0], 1.0), [8.0, 0.5, 0.125]);
        // Nothing depends on the units of either side.
        assert_eq!(factors(&[1.6e9, 1e8, 2.5e7], &[1e-9, 1e-9, 4e-9], 0.5), [4.0, 1.0, 0.25]);
    }

    #[test]
    fn dead_channels_and_rows_are_guarded() {
        // A dead channel keeps 1 and does not count in the mean.
        assert_eq!(factors(&[0.0, 16.0, 1.0], &[1.0; 3], 0.5), [1.0, 2.0, 0.5]);
        // A dead row counts as 1/256 of the largest: √256 = 16 between the two.
        assert_eq!(factors(&[1.0, 1.0], &[0.0, 1.0], 0.5), [4.0, 0.25]);
        assert_eq!(factors(&[1.0, 2.0], &[0.0, 0.0], 0.5), [1.0, 1.0]);
        assert_eq!(factors(&[0.0, 0.0], &[1.0, 2.0], 0.5), [1.0, 1.0]);
        assert_eq!(factors(&[1e30, 1e-30], &[1.0, 1.0], 1.0), [256.0, 1.0 / 256.0]);
    }

    #[test]
    fn the_spread_is_the_largest_over_the_median() {
        assert_eq!(spread(&[40.0, 1.0, 2.0]), 20.0);
        assert_eq!(spread(&[0.0, 0.0, 2.0]), f32::INFINITY);
        assert_eq!(spread(&[0.0; 3]), 1.0);
    }
}
