//! Symmetric INT8 weights with one scale per output channel.

use bytes::Bytes;
use rayon::prelude::*;

use crate::half_values::{HALF_MAX, HALF_MIN_NORMAL, through_half};

/// The INT8 level a channel's largest weight maps to; ±127, so that `w` and `-w` quantize alike.
const QMAX: f32 = 127.0;

/// A two-dimensional FP32 weight as stored, and which axis holds the output channels.
#[derive(Debug, Clone, Copy)]
pub struct StoredWeight<'a> {
    /// Row-major values.
    pub values: &'a [f32],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// 0 when a row is an output channel, 1 when a column is.
    pub channel_axis: usize,
}

/// INT8 values with the scales they were made with.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Weight {
    /// One signed byte per value, row-major in the shape of `rows` × `columns`.
    pub values: Bytes,
    /// Rows, after the transposition if one was asked for.
    pub rows: usize,
    /// Columns, likewise.
    pub columns: usize,
    /// Model units per level, one per output channel, exactly as they are to be stored.
    pub scales: Vec<f32>,
    /// The output channels' axis in `rows` × `columns`.
    pub channel_axis: usize,
    /// Whether the scales are FP16 values; otherwise FP16 would lose bits of a small one.
    pub half_scales: bool,
}

/// Scales of a weight: `max|w| / 127` per output channel in FP32, rounded to FP16 where FP16 holds them all.
///
/// A channel of zeros takes the largest scale of the others: any positive value represents it exactly.
pub fn channel_scales(weight: &StoredWeight) -> (Vec<f32>, bool) {
    let mut scales: Vec<f32> = channel_maxima(weight).iter().map(|max| max / QMAX).collect();
    let largest = scales.iter().copied().fold(0.0f32, f32::max);
    let stand_in = if largest > 0.0 { largest } else { 1.0 };
    for scale in &mut scales {
        if *scale == 0.0 {
            *scale = stand_in;
        }
    }
    let half_scales = scales.iter().all(|&s| half_holds_scale(s));
    if half_scales {
        for scale in &mut scales {
            *scale = through_half(*scale);
        }
    }
    (scales, half_scales)
}

/// Whether FP16 stores a scale to its full eleven bits.
pub fn half_holds_scale(scale: f32) -> bool {
    (HALF_MIN_NORMAL..=HALF_MAX).contains(&scale)
}

/// Quantizes with round-half-to-even, as TensorRT and ONNX do, and clamps to ±127.
///
/// - `transpose`: store the values the other way round, so that a Transpose in the graph can go.
pub fn quantize_weight(weight: &StoredWeight, transpose: bool) -> Int8Weight {
    let (scales, half_scales) = channel_scales(weight);
    let mut values = vec![0u8; weight.values.len()];
    let columns = weight.columns.max(1);
    values.par_chunks_mut(columns).zip(weight.values.par_chunks(columns)).enumerate().for_each(
        |(row, (out, line))| match weight.channel_axis {
            0 => quantize_line(line, std::iter::repeat(scales[row]), out),
            _ => quantize_line(line, scales.iter().copied(), out),
        },
    );
    let (rows, columns, channel_axis) = (weight.rows, weight.columns, weight.channel_axis);
    if transpose {
        let values = Bytes::from(transposed(&values, rows, columns));
        let channel_axis = 1 - channel_axis;
        return Int8Weight {
            values,
            rows: columns,
            columns: rows,
            scales,
            channel_axis,
            half_scales,
        };
    }
    Int8Weight { values: Bytes::from(values), rows, columns, scales, channel_axis, half_scales }
}

fn quantize_line(line: &[f32], scales: impl Iterator<Item = f32>, out: &mut [u8]) {
    for ((byte, value), scale) in out.iter_mut().zip(line).zip(scales) {
        *byte = level(value / scale);
    }
}

/// The nearest of −127 … 127, ties to even, as the byte of a signed integer.
///
/// Adding 1.5·2²³ leaves no bits for fractions, so the sum is rounded as IEEE 754 says, and its low byte is the integer.
/// `f32::round_ties_even` is a call per value on processors as old as the default target; this becomes vector code.
fn level(steps: f32) -> u8 {
    const NO_FRACTIONS: f32 = 12_582_912.0;
    (steps.clamp(-QMAX, QMAX) + NO_FRACTIONS).to_bits() as u8
}

/// Output channels in which one weight is so large that INT8 keeps nearly nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Drowned {
    /// How many, of those looked at.
    pub channels: usize,
    /// Channels looked at.
    pub looked_at: usize,
    /// The first of them.
    pub first: Option<DrownedChannel>,
}

/// One such channel.
#[derive(Debug, Clone, PartialEq)]
pub struct DrownedChannel {
    /// Its number.
    pub channel: usize,
    /// Its weight of the largest magnitude.
    pub largest: f32,
}

/// Finds channels of which at most 2 % of the weights that are not 0 (but one at least) are more than half a level.
///
/// A classifier fitted on features of which some hardly move has such channels: the weight of a dead feature grows without
/// bound, FP32 multiplies it by next to nothing, and INT8 spends all its levels on it. Of normally distributed weights 1 to 2 %
/// become 0, not 98 %. Of large weights 256 channels are looked at, evenly spread.
pub fn drowned_channels(weight: &StoredWeight) -> Drowned {
    const LOOKED_AT: usize = 256;
    const FEWEST: usize = 16;
    let (all, others) = match weight.channel_axis {
        0 => (weight.rows, weight.columns),
        _ => (weight.columns, weight.rows),
    };
    let looked_at = all.min(LOOKED_AT);
    let mut found = Drowned { channels: 0, looked_at, first: None };
    for number in 0..looked_at {
        let channel = number * all / looked_at;
        let at = |other: usize| match weight.channel_axis {
            0 => weight.values[channel * weight.columns + other],
            _ => weight.values[other * weight.columns + channel],
        };
        let largest =
            (0..others).map(at).fold(0.0f32, |max, w| if w.abs() > max.abs() { w } else { max });
        let half_a_level = largest.abs() / QMAX / 2.0;
        let used = (0..others).filter(|&other| at(other) != 0.0).count();
        let kept = (0..others).filter(|&other| at(other).abs() > half_a_level).count();
        if used >= FEWEST && kept <= (used / 50).max(1) {
            found.channels += 1;
            found.first.get_or_insert(DrownedChannel { channel, largest });
        }
    }
    found
}

fn channel_maxima(weight: &StoredWeight) -> Vec<f32> {
    let columns = weight.columns.max(1);
    if weight.channel_axis == 0 {
        let largest = |line: &[f32]| line.iter().fold(0.0f32, |max, v| max.max(v.abs()));
        return weight.values.par_chunks(columns).map(largest).collect();
    }
    // Many rows per task: a vector of column maxima each is then a small share of the work.
    weight
        .values
        .par_chunks(columns * 64)
        .map(|block| {
            let mut maxima = vec![0.0f32; weight.columns];
            for line in block.chunks_exact(columns) {
                maxima.iter_mut().zip(line).for_each(|(max, v)| *max = max.max(v.abs()));
            }
            maxima
        })
        .reduce(
            || vec![0.0f32; weight.columns],
            |mut a, b| {
                a.iter_mut().zip(&b).for_each(|(max, v)| *max = max.max(*v));
                a
            },
        )
}

/// Transposes in square blocks that stay in the first cache level.
fn transposed(values: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut out = vec![0u8; values.len()];
    out.par_chunks_mut((rows * BLOCK).max(1)).enumerate().for_each(|(stripe, out)| {
        let first = stripe * BLOCK;
        let width = out.len() / rows.max(1);
        for top in (0..rows).step_by(BLOCK) {
            for row in top..(top + BLOCK).min(rows) {
                let line = &values[row * columns + first..][..width];
                for (column, &value) in line.iter().enumerate() {
                    out[column * rows + row] = value;
                }
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(weight: &Int8Weight) -> Vec<i8> {
        weight.values.iter().map(|b| b.cast_signed()).collect()
    }

    #[test]
    fn columns_are_channels_of_a_matmul() {
        // By hand: column maxima 127 and 254 give scales 1 and 2; 0.5 and 2.5 round to even, 3/2 = 1.5 to 2.
        let values = [127.0, 3.0, 0.5, -254.0, 2.5, 5.0];
        let weight = StoredWeight { values: &values, rows: 3, columns: 2, channel_axis: 1 };
        let quantized = quantize_weight(&weight, false);
        assert_eq!(quantized.scales, [1.0, 2.0]);
        assert_eq!(signed(&quantized), [127, 2, 0, -127, 2, 2]);
        assert!(quantized.half_scales);
    }

    #[test]
    fn rows_are_channels_of_a_transposed_gemm() {
        let values = [127.0, 0.5, 2.5, 3.0, -254.0, 5.0];
        let weight = StoredWeight { values: &values, rows: 2, columns: 3, channel_axis: 0 };
        let kept = quantize_weight(&weight, false);
        assert_eq!(
            (kept.scales.as_slice(), signed(&kept)),
            ([1.0, 2.0].as_slice(), vec![127, 0, 2, 2, -127, 2])
        );
        let turned = quantize_weight(&weight, true);
        assert_eq!((turned.rows, turned.columns, turned.channel_axis), (3, 2, 1));
        assert_eq!(signed(&turned), [127, 2, 0, -127, 2, 2]);
    }

    #[test]
    fn levels_round_half_to_even_and_clamp() {
        let eighths = (-2400..=2400).map(|i| i as f32 / 8.0);
        for steps in eighths.chain([f32::MAX, f32::MIN, 0.5f32.next_down(), 0.5f32.next_up()]) {
            let expected = steps.round_ties_even().clamp(-127.0, 127.0) as i8;
            assert_eq!(level(steps).cast_signed(), expected, "{steps}");
        }
    }

    #[test]
    fn a_channel_of_zeros_gets_a_harmless_scale() {
        let weight =
            StoredWeight { values: &[0.0, 1.27, 0.0, 0.0], rows: 2, columns: 2, channel_axis: 1 };
        let quantized = quantize_weight(&weight, false);
        assert_eq!(quantized.scales[0], quantized.scales[1]);
        let zeros = StoredWeight { values: &[0.0; 4], rows: 2, columns: 2, channel_axis: 0 };
        assert_eq!(channel_scales(&zeros), (vec![1.0, 1.0], true));
    }

    #[test]
    fn channels_with_one_giant_weight_are_found() {
        // Two channels of 100 weights. Half a level of the second is 1000/254 = 3.9: of its others, all 1, none stays.
        let mut values = [1.0f32; 200];
        values[100 + 7] = -1000.0;
        let rows = StoredWeight { values: &values, rows: 2, columns: 100, channel_axis: 0 };
        let first = Some(DrownedChannel { channel: 1, largest: -1000.0 });
        let expected = Drowned { channels: 1, looked_at: 2, first };
        assert_eq!(drowned_channels(&rows), expected);
        let turned: Vec<f32> =
            (0..200).map(|index| values[(index % 2) * 100 + index / 2]).collect();
        let columns = StoredWeight { values: &turned, rows: 100, columns: 2, channel_axis: 1 };
        assert_eq!(drowned_channels(&columns), expected);
        // 2 % may stay, 3 of 100 may not; zeros count for nothing; 200 leaves the ones at one level.
        for (values, drowned) in [
            ([vec![900.0; 2], vec![1.0; 98]].concat(), true),
            ([vec![900.0; 3], vec![1.0; 97]].concat(), false),
            ([vec![900.0; 1], vec![1.0; 14], vec![0.0; 85]].concat(), false),
            ([vec![200.0; 1], vec![1.0; 99]].concat(), false),
            (vec![0.0; 100], false),
        ] {
            let weight = StoredWeight { values: &values, rows: 1, columns: 100, channel_axis: 0 };
            assert_eq!(drowned_channels(&weight).channels == 1, drowned, "{values:?}");
        }
    }

    #[test]
    fn a_small_scale_stays_in_fp32() {
        let weight =
            StoredWeight { values: &[1.612e-3, 0.68], rows: 2, columns: 1, channel_axis: 0 };
        let (scales, half_scales) = channel_scales(&weight);
        assert!(!half_scales);
        assert_eq!(scales[0], 1.612e-3 / 127.0);
    }

    #[test]
    fn the_stored_scale_is_the_one_used() {
        // 0.3/127 rounds in FP16; the weight must be divided by the rounded value, and still clamp at 127.
        let values = [0.3, 0.1];
        let weight = StoredWeight { values: &values, rows: 1, columns: 2, channel_axis: 0 };
        let quantized = quantize_weight(&weight, false);
        assert_eq!(quantized.scales, [through_half(0.3 / 127.0)]);
        let by_hand = (0.1 / quantized.scales[0]).round_ties_even() as i8;
        assert_eq!(signed(&quantized), [127, by_hand]);
    }

    proptest::proptest! {
        #[test]
        fn no_weight_moves_by_more_than_half_a_step(
            values in proptest::collection::vec(-3.0f32..3.0, 96),
            axis in 0usize..2,
            transpose: bool,
        ) {
            let weight = StoredWeight { values: &values, rows: 8, columns: 12, channel_axis: axis };
            let quantized = quantize_weight(&weight, transpose);
            let levels = signed(&quantized);
            for row in 0..8 {
                for column in 0..12 {
                    let scale = quantized.scales[if axis == 0 { row } else { column }];
                    let at = if transpose { column * 8 + row } else { row * 12 + column };
                    let error = (f32::from(levels[at]) * scale - values[row * 12 + column]).abs();
                    // The FP16 rounding of the scale can clip the largest weight a little beyond half a step.
                    proptest::prop_assert!(error <= scale * (0.5 + 127.0 / 2048.0), "{error} {scale}");
                }
            }
        }
    }
}
