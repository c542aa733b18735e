//! The two inner loops of observation: largest magnitude, and counting values per bin.
//!
//! Both are written as plain array loops over fixed-size blocks, which the compiler turns into vector code.

/// Bits of a float without its sign; ordered like the magnitudes they stand for.
const MAGNITUDE: u32 = 0x7fff_ffff;
/// Magnitude bits of infinity; anything above is NaN.
const INFINITY: u32 = 0x7f80_0000;
/// Values the vector loops take at a time.
const BLOCK: usize = 32;

/// What one look at a slice of values says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Magnitude bits of the largest finite value; 0 when there is none.
    pub max_bits: u32,
    /// Values that are exactly zero, of either sign.
    pub zeros: u64,
    /// NaN and infinite values.
    pub nonfinite: u64,
}

/// Looks at at most 2³² values.
pub(crate) fn scan(values: &[f32]) -> Scan {
    let mut largest = [0_i32; BLOCK];
    let mut zeros = [0_i32; BLOCK];
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    for block in blocks {
        for lane in 0..BLOCK {
            let bits = (block[lane].to_bits() & MAGNITUDE) as i32;
            largest[lane] = largest[lane].max(bits);
            zeros[lane] += i32::from(bits == 0);
        }
    }
    let mut scan = scan_each(rest);
    scan.zeros += zeros.iter().map(|&count| u64::from(count as u32)).sum::<u64>();
    let max_bits = largest.into_iter().max().map_or(0, |bits| bits as u32);
    if max_bits >= INFINITY {
        return scan_each(values);
    }
    scan.max_bits = scan.max_bits.max(max_bits);
    scan
}

/// The same one value at a time, for slices that hold NaN or infinity.
fn scan_each(values: &[f32]) -> Scan {
    let mut scan = Scan::default();
    for value in values {
        let bits = value.to_bits() & MAGNITUDE;
        if bits >= INFINITY {
            scan.nonfinite += 1;
        } else {
            scan.max_bits = scan.max_bits.max(bits);
            scan.zeros += u64::from(bits == 0);
        }
    }
    scan
}

/// Calls `count` with the bin `floor(|x| / width)` of every value.
///
/// - `per_width`: `1 / width`, a power of two, so that the product is exact wherever it matters.
/// - every value must be finite and its bin below 2³¹.
#[inline]
pub(crate) fn for_each_bin(values: &[f32], per_width: f32, mut count: impl FnMut(usize, usize)) {
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    for block in blocks {
        let mut bins = [0_i32; BLOCK];
        for lane in 0..BLOCK {
            bins[lane] = (block[lane].abs() * per_width) as i32;
        }
        for (lane, &bin) in bins.iter().enumerate() {
            count(lane, bin as usize);
        }
    }
    for value in rest {
        count(0, (value.abs() * per_width) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(values: &[f32], max: f32, zeros: u64, nonfinite: u64) {
        assert_eq!(scan(values), Scan { max_bits: max.to_bits(), zeros, nonfinite }, "{values:?}");
    }

    #[test]
    fn scan_finds_max_zeros_and_nonfinite() {
        expect(&[], 0.0, 0, 0);
        expect(&[0.0, -0.0, 1.0], 1.0, 2, 0);
        expect(&[-3.0, 2.0], 3.0, 0, 0);
        expect(&[f32::MAX, f32::MIN_POSITIVE], f32::MAX, 0, 0);
        expect(&[f32::NAN, -f32::INFINITY, 0.0, 2.0], 2.0, 1, 2);
    }

    #[test]
    fn scan_is_the_same_in_blocks_and_in_the_rest() {
        for length in [1, 31, 32, 33, 64, 100] {
            for special in [0, length / 2, length - 1] {
                let mut values = vec![0.5_f32; length];
                values[special] = -7.0;
                expect(&values, 7.0, 0, 0);
                values[special] = 0.0;
                expect(&values, if length == 1 { 0.0 } else { 0.5 }, 1, 0);
                values[special] = f32::NAN;
                expect(&values, if length == 1 { 0.0 } else { 0.5 }, 0, 1);
            }
        }
    }

    #[test]
    fn bins_are_the_floor_of_the_scaled_magnitude() {
        let values: Vec<f32> = (0..70).map(|i| -0.25 * i as f32).collect();
        let mut bins = Vec::new();
        for_each_bin(&values, 2.0, |_, bin| bins.push(bin));
        let expected: Vec<usize> = (0..70).map(|i| i / 2).collect();
        assert_eq!(bins, expected);
    }
}
