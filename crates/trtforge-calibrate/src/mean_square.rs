//! The threshold of smallest expected squared error of quantizing and dequantizing.
//!
//! A magnitude `x` becomes the nearest of `k · t / 127`, `k = 0 … 127`. Within a bin, values are taken as evenly spread;
//! exact zeros, which cost nothing under any threshold, are left out. Both rounding and clipping are counted exactly
//! under that assumption, so a step much wider than most values, which rounds them to 0, is seen for what it costs.

use crate::histogram::Histogram;
use crate::threshold::LEVELS;

/// The thresholds tried lie at most this fraction apart: the error is flat around its minimum.
const RESOLUTION: usize = 256;

/// Bins to keep. Equal errors go to the larger threshold.
pub(crate) fn best(bins: &[u64], zeros: u64) -> usize {
    let moments = Moments::new(bins, zeros);
    let (mut best, mut least) = (bins.len(), f64::INFINITY);
    let mut kept = bins.len();
    while kept > 0 {
        let error = moments.squared_error(kept as f64);
        if error < least {
            (best, least) = (kept, error);
        }
        kept -= (kept / RESOLUTION).max(1);
    }
    best
}

/// What quantizing and dequantizing with a threshold costs: the expected squared error as a share of the sum of squares.
///
/// - returns: 0 for values that are all zero.
pub fn noise_to_signal(histogram: &Histogram, threshold: f32) -> f64 {
    let Some(width) = histogram.bin_width() else { return 0.0 };
    let moments = Moments::new(histogram.bins(), histogram.zeros());
    moments.squared_error(f64::from(threshold) / width) / moments.all[2]
}

/// Running moments of the magnitudes, in units of one bin.
struct Moments {
    /// For each bin: values in it, values below it, sum of the values below it.
    below: Vec<[f64; 3]>,
    /// Values, their sum and their sum of squares.
    all: [f64; 3],
}

impl Moments {
    fn new(bins: &[u64], zeros: u64) -> Self {
        let mut below = Vec::with_capacity(bins.len());
        let mut all = [0.0; 3];
        for (bin, &count) in bins.iter().enumerate() {
            let count = (if bin == 0 { count - zeros } else { count }) as f64;
            below.push([count, all[0], all[1]]);
            let low = bin as f64;
            all[0] += count;
            all[1] += count * (low + 0.5);
            all[2] += count * (low * low + low + 1.0 / 3.0);
        }
        Self { below, all }
    }

    /// Values below `x` and their sum.
    fn below(&self, x: f64) -> (f64, f64) {
        let Some([count, mass, sum]) = self.below.get(x as usize) else {
            return (self.all[0], self.all[1]);
        };
        let low = (x as usize) as f64;
        let part = x - low;
        (mass + count * part, sum + count * part * (low + 0.5 * part))
    }

    /// `Σ (x − Q(x))²` for the threshold `t`: `Σ x² − 2Δ Σ k x + Δ² Σ k²`, where the level `k` of a value is the number
    /// of decision points `(j − ½)Δ`, `j = 1 … 127`, at or below it, and `k²` the sum of `2j − 1` over them.
    fn squared_error(&self, t: f64) -> f64 {
        let step = t / LEVELS as f64;
        let (mut level_sum, mut level_squares) = (0.0, 0.0);
        for j in 1..=LEVELS {
            let (mass, sum) = self.below((j as f64 - 0.5) * step);
            level_sum += self.all[1] - sum;
            level_squares += (2 * j - 1) as f64 * (self.all[0] - mass);
        }
        self.all[2] - 2.0 * step * level_sum + step * step * level_squares
    }
}

#[cfg(test)]
#[path = "mean_square_tests.rs"]
mod tests;
