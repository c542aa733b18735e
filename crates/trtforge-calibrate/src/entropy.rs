//! The threshold of smallest KL divergence.
//!
//! For each number of kept bins `i` from 128 up, with `N` values in all:
//!
//! - `P` is the first `i` bins, the mass above added to the last of them; it sums to `N`.
//! - `Q` is the first `i` bins merged into 128 levels, level `l` taking bins `⌊l·i/128⌋ … ⌊(l+1)·i/128⌋ − 1`, each
//!   level's mass spread evenly over its non-empty bins; it sums to `K`, the values that are not clipped.
//! - the divergence is `Σ P/N · ln((P/N) / (Q/K))`.
//!
//! It is infinite where the last kept bin is empty and yet must hold the clipped mass, which says more about the
//! finite sample than about the threshold. There `Q` gets one value in that bin, the least that could have been
//! seen. Equal divergences go to the larger threshold. The histogram itself is never changed.
//!
//! Source: S. Migacz, 8-bit inference with TensorRT, GTC 2017. Written out as sums of `x · ln x`, all but the 128 level
//! terms of a candidate come from prefix sums, and a level term depends only on where the level begins and how wide
//! it is, which is one of two widths for 128 candidates in a row.

/// Levels of the quantized distribution: the 128 magnitudes of a signed byte.
const LEVELS: usize = 128;
/// Differences in nats below this are rounding, not evidence.
const TIE: f64 = 1e-12;

/// Bins to keep.
pub(crate) fn best(bins: &[u64]) -> usize {
    let mut best = bins.len();
    let mut least = f64::INFINITY;
    for (index, divergence) in divergences(bins).into_iter().enumerate().rev() {
        if divergence < least - TIE {
            least = divergence;
            best = LEVELS + index;
        }
    }
    best
}

/// The divergence in nats for every number of kept bins from 128 up; infinite where nothing would be kept.
fn divergences(bins: &[u64]) -> Vec<f64> {
    if bins.len() < LEVELS {
        return Vec::new();
    }
    let sums = Sums::new(bins);
    let mut result = Vec::with_capacity(bins.len() - LEVELS + 1);
    for width in 1..=bins.len() / LEVELS {
        let terms = level_terms(&sums, width);
        let last = (LEVELS * (width + 1) - 1).min(bins.len());
        result.extend(
            (LEVELS * width..=last).map(|kept| divergence(&sums, bins, kept, width, &terms)),
        );
    }
    result
}

/// Prefix sums over bins `0..i`, for every `i`.
struct Sums {
    /// Values.
    mass: Vec<u64>,
    /// Bins that hold a value.
    filled: Vec<u32>,
    /// `Σ n ln n`.
    self_information: Vec<f64>,
}

impl Sums {
    fn new(bins: &[u64]) -> Self {
        let (mut mass, mut filled, mut self_information) = (vec![0], vec![0], vec![0.0]);
        for (i, &count) in bins.iter().enumerate() {
            mass.push(mass[i] + count);
            filled.push(filled[i] + u32::from(count > 0));
            self_information.push(self_information[i] + x_ln_x(count));
        }
        Self { mass, filled, self_information }
    }

    /// Values and non-empty bins of bins `from..to`.
    fn level(&self, from: usize, to: usize) -> (u64, u32) {
        (self.mass[to] - self.mass[from], self.filled[to] - self.filled[from])
    }
}

/// `S · ln(S / c)` of a level that begins at each bin and is `width` or `width + 1` bins wide.
fn level_terms(sums: &Sums, width: usize) -> Vec<[f64; 2]> {
    let bins = sums.mass.len() - 1;
    let ln: Vec<f64> = (0..=width + 1).map(|count| (count as f64).ln()).collect();
    let term = |from: usize, to: usize| {
        let (mass, filled) = sums.level(from, to.min(bins));
        if mass == 0 { 0.0 } else { x_ln_x(mass) - mass as f64 * ln[filled as usize] }
    };
    let starts = bins.min(LEVELS * (width + 1));
    (0..starts).map(|from| [term(from, from + width), term(from, from + width + 1)]).collect()
}

fn divergence(sums: &Sums, bins: &[u64], kept: usize, width: usize, terms: &[[f64; 2]]) -> f64 {
    let all = sums.mass[bins.len()] as f64;
    let mass = sums.mass[kept];
    if mass == 0 {
        return f64::INFINITY;
    }
    let mut quantized = 0.0;
    let mut from = 0;
    for level in 1..=LEVELS {
        let to = level * kept / LEVELS;
        quantized += terms[from][to - from - width];
        if level < LEVELS {
            from = to;
        }
    }
    let last = bins[kept - 1];
    let clipped = sums.mass[bins.len()] - mass;
    let (ln_last, mass) = if last > 0 {
        let (level, filled) = sums.level(from, kept);
        ((level as f64 / f64::from(filled)).ln(), mass)
    } else {
        (0.0, mass + 1)
    };
    quantized += clipped as f64 * ln_last;
    let original = sums.self_information[kept - 1] + x_ln_x(last + clipped);
    (original - quantized) / all + (mass as f64 / all).ln()
}

fn x_ln_x(count: u64) -> f64 {
    let x = count as f64;
    if count < 2 { 0.0 } else { x * x.ln() }
}

#[cfg(test)]
#[path = "entropy_tests.rs"]
mod tests;
