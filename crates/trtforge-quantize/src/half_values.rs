//! What FP16 can hold, and fast conversion of whole weights to it.

use bytes::Bytes;
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

/// The largest finite FP16 value.
pub const HALF_MAX: f32 = 65504.0;
/// The smallest FP16 value with full precision; below it every halving costs a bit.
pub const HALF_MIN_NORMAL: f32 = 6.103_515_6e-5;
/// Values at or below half of the smallest subnormal (2⁻²⁴) round to 0.
const HALF_ROUNDS_TO_ZERO: f32 = 2.980_232_2e-8;

/// Elements a thread takes at once: large enough to amortise the hand-over, small enough to balance.
const CHUNK: usize = 1 << 16;

/// What FP16 would do to the values of one constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueStats {
    /// Number of values.
    pub count: usize,
    /// Largest finite magnitude.
    pub absmax: f32,
    /// Infinite values.
    pub infinite: usize,
    /// NaN values.
    pub nan: usize,
    /// Nonzero values that FP16 rounds to 0.
    pub vanishing: usize,
    /// Smallest nonzero magnitude, or infinity.
    pub smallest: f32,
}

impl ValueStats {
    const EMPTY: Self =
        Self { count: 0, absmax: 0.0, infinite: 0, nan: 0, vanishing: 0, smallest: f32::INFINITY };

    /// One pass over raw little-endian FP32, in parallel; the result does not depend on how it was split.
    ///
    /// Raw bytes, since mapped weights need not be aligned and a copy of each is not worth it.
    pub fn of(bytes: &[u8]) -> Self {
        bytes
            .par_chunks(CHUNK * 4)
            .map(|chunk| Self::of_chunk(&floats(chunk)))
            .reduce(|| Self::EMPTY, Self::join)
    }

    fn of_chunk(values: &[f32]) -> Self {
        // Branch-free on the common path, so that the compiler vectorises it; 438 MB of weights pass here.
        let (mut absmax, mut smallest, mut vanishing, mut odd) =
            (0.0f32, f32::INFINITY, 0usize, 0usize);
        for &value in values {
            let magnitude = value.abs();
            let finite = magnitude < f32::INFINITY;
            odd += usize::from(!finite);
            absmax = if finite && magnitude > absmax { magnitude } else { absmax };
            let nonzero = magnitude > 0.0;
            smallest = if nonzero && magnitude < smallest { magnitude } else { smallest };
            vanishing += usize::from(nonzero && magnitude <= HALF_ROUNDS_TO_ZERO);
        }
        let nan = if odd == 0 { 0 } else { values.iter().filter(|v| v.is_nan()).count() };
        Self { count: values.len(), absmax, infinite: odd - nan, nan, vanishing, smallest }
    }

    fn join(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            absmax: self.absmax.max(other.absmax),
            infinite: self.infinite + other.infinite,
            nan: self.nan + other.nan,
            vanishing: self.vanishing + other.vanishing,
            smallest: self.smallest.min(other.smallest),
        }
    }

    /// Whether every value is finite.
    pub fn is_finite(&self) -> bool {
        self.infinite == 0 && self.nan == 0
    }
}

/// Raw FP32 to raw FP16 (both little-endian), rounded to nearest even, in parallel.
///
/// - `limit`: magnitudes above it, infinities included, become `±limit`; infinity changes nothing.
pub fn half_bytes(single: &[u8], limit: f32) -> Bytes {
    let mut bytes = vec![0u8; single.len() / 4 * 2];
    bytes.par_chunks_mut(CHUNK * 2).zip(single.par_chunks(CHUNK * 4)).for_each(|(out, chunk)| {
        let mut values = floats(chunk);
        clamp(&mut values, limit);
        let mut halves = vec![f16::ZERO; values.len()];
        halves.convert_from_f32_slice(&values);
        for (pair, half) in out.chunks_exact_mut(2).zip(&halves) {
            pair.copy_from_slice(&half.to_le_bytes());
        }
    });
    Bytes::from(bytes)
}

/// Raw FP32 with magnitudes above `limit` replaced by `±limit`.
pub fn clamped_bytes(single: &[u8], limit: f32) -> Bytes {
    let mut values = floats(single);
    clamp(&mut values, limit);
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn clamp(values: &mut [f32], limit: f32) {
    if limit < f32::INFINITY {
        // NaN passes through `clamp`: a mask of NaN is the model's own fault and must not be hidden.
        for value in values {
            *value = value.clamp(-limit, limit);
        }
    }
}

/// Decodes raw little-endian FP32; bytes past the last whole value are ignored.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
}

/// The value FP16 would store.
pub fn through_half(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn stats_by_hand() {
        let stats = ValueStats::of(&raw(&[0.0, -3.0, 1e-8, 7e-8, f32::NEG_INFINITY, f32::NAN]));
        assert_eq!((stats.count, stats.absmax, stats.infinite, stats.nan), (6, 3.0, 1, 1));
        // 1e-8 is below 2^-25 and vanishes; 7e-8 is the subnormal 2^-24 and stays.
        assert_eq!((stats.vanishing, stats.smallest), (1, 1e-8));
        assert!(!stats.is_finite());
        assert_eq!(ValueStats::of(&[]), ValueStats::EMPTY);
    }

    #[test]
    fn the_vanishing_limit_is_where_rounding_puts_it() {
        assert_eq!(through_half(HALF_ROUNDS_TO_ZERO), 0.0);
        assert!(through_half(HALF_ROUNDS_TO_ZERO.next_up()) > 0.0);
        assert_eq!(HALF_MAX, f16::MAX.to_f32());
        assert_eq!(HALF_MIN_NORMAL, f16::MIN_POSITIVE.to_f32());
    }

    #[test]
    fn stats_and_bytes_do_not_depend_on_the_split() {
        let values: Vec<f32> = (0..200_000u32).map(|i| ((i % 977) as f32 - 488.0) / 7.0).collect();
        let single = raw(&values);
        let whole = ValueStats::of(&single);
        assert_eq!((whole.count, whole.absmax), (200_000, 488.0 / 7.0));
        let bytes = half_bytes(&single, f32::INFINITY);
        for (i, pair) in bytes.chunks_exact(2).enumerate() {
            assert_eq!(f16::from_le_bytes([pair[0], pair[1]]), f16::from_f32(values[i]), "{i}");
        }
    }

    #[test]
    fn clamping_reaches_infinities_and_leaves_the_rest() {
        let single = raw(&[f32::NEG_INFINITY, f32::MIN, -1.5, 0.0, 1e12]);
        let clamped = [-30000.0, -30000.0, -1.5, 0.0, 30000.0];
        assert_eq!(floats(&clamped_bytes(&single, 30000.0)), clamped);
        let halves = half_bytes(&single, 30000.0);
        let back = halves.as_chunks::<2>().0.iter().map(|&b| f16::from_le_bytes(b).to_f32());
        assert_eq!(back.collect::<Vec<_>>(), clamped);
    }
}
