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
    let mut narrow = level_terms(&sums, 1);
    for width in 1..=bins.len() / LEVELS {
        let wide = level_terms(&sums, width + 1);
        let last = (LEVELS * (width + 1) - 1).min(bins.len());
        let terms = Terms { width, by_width: [&narrow, &wide] };
        result.extend((LEVELS * width..=last).map(|kept| divergence(&sums, bins, kept, &terms)));
        narrow = wide;
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

/// Level terms `S · ln(S / c)` by where the level begins, for the two widths a level can have.
struct Terms<'t> {
    /// The smaller width in bins; the other is one more.
    width: usize,
    by_width: [&'t [f64]; 2],
}

/// The terms of levels of one width, for every beginning that a candidate with such levels can have.
fn level_terms(sums: &Sums, width: usize) -> Vec<f64> {
    let bins = sums.mass.len() - 1;
    let ln: Vec<f64> = (0..=width).map(|count| (count as f64).ln()).collect();
    let term = |from: usize| {
        let (mass, filled) = sums.level(from, (from + width).min(bins));
        if mass == 0 { 0.0 } else { x_ln_x(mass) - mass as f64 * ln[filled as usize] }
    };
    (0..bins.min(LEVELS * (width + 1))).map(term).collect()
}

fn divergence(sums: &Sums, bins: &[u64], kept: usize, terms: &Terms) -> f64 {
    let all = sums.mass[bins.len()] as f64;
    let mass = sums.mass[kept];
    if mass == 0 {
        return f64::INFINITY;
    }
    // Four sums side by side: one alone would wait for each addition to finish before the next.
    let mut sums_of_terms = [0.0; 4];
    let mut from = 0;
    for quad in 0..LEVELS / 4 {
        for (lane, sum) in sums_of_terms.iter_mut().enumerate() {
            let to = (4 * quad + lane + 1) * kept / LEVELS;
            *sum += terms.by_width[to - from - terms.width][from];
            from = to;
        }
    }
    let mut quantized: f64 = sums_of_terms.iter().sum();
    let from = (LEVELS - 1) * kept / LEVELS;
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
