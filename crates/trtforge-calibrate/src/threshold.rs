//! From a histogram to the INT8 threshold of a tensor.

use serde::{Deserialize, Serialize};

use crate::entropy;
use crate::error::{CalibrateError, ThresholdError};
use crate::histogram::Histogram;
use crate::mean_square;
use crate::method::Method;
use crate::table::TensorCalibration;

/// Positive INT8 levels; ±127, so that `x` and `-x` quantize alike.
pub const LEVELS: usize = 127;

/// The threshold of a tensor that holds nothing but zeros. Any would do; 1 is harmless in FP16 too.
const THRESHOLD_OF_ZEROS: f32 = 1.0;

/// The magnitude that quantizes to the last level, and what one level is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// In (0, absmax], except where `guard` says why not.
    pub threshold: f32,
    /// `threshold / 127`: positive, finite and normal.
    pub scale: f32,
    /// What was done against a bad choice, in words; `None` where nothing had to be.
    pub guard: Option<String>,
}

/// Limits on what a method may choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guards {
    /// Largest share of a tensor's values that `entropy` may clip; `None` is the plain KL divergence.
    ///
    /// KL weighs a value by how common it is, not by what its clipping costs, and so clips BERT's few large
    /// activations, which matter most. Published: BERT-large loses half its F1 with plain KL, 1.5 % of it when
    /// 0.01 % of the values are clipped, and 5 points with min-max (Wu et al. 2020, arXiv:2004.09602). Measured on a
    /// three-layer MiniLM, 2,500 rows, mean logit shift: min-max 0.060, plain KL 0.041, limits of 0.1, 0.03, 0.01 and
    /// 0.001 %: 0.039, 0.029, 0.030, 0.054. On a six-layer MiniLM the same limit of 0.01 % clips too much (0.182; min-max
    /// 0.121, MSE 0.108), and one of 0.001 % would serve better (0.12): no one limit fits both, which is what `auto` and
    /// SmoothQuant are for (0.052 and 0.018). See `docs/calibration.md`.
    ///
    /// A limit on the squared error instead would undo what entropy is for: where one rare word drives a unit to a hundred
    /// times its usual range, the least squared error keeps that word and loses all others.
    pub most_clipped: Option<f64>,
}

impl Guards {
    /// No limits: every method exactly as defined.
    pub const OFF: Self = Self { most_clipped: None };
}

impl Default for Guards {
    fn default() -> Self {
        Self { most_clipped: Some(1e-4) }
    }
}

/// Chooses a threshold with the default [`Guards`].
pub fn threshold(histogram: &Histogram, method: Method) -> Result<Threshold, ThresholdError> {
    threshold_with(histogram, method, &Guards::default())
}

/// Chooses a threshold.
pub fn threshold_with(
    histogram: &Histogram,
    method: Method,
    guards: &Guards,
) -> Result<Threshold, ThresholdError> {
    if histogram.nonfinite() > 0 {
        let (nonfinite, count) = (histogram.nonfinite(), histogram.count());
        return Err(ThresholdError::NotFinite { nonfinite, count });
    }
    let bins = histogram.bins();
    if bins.is_empty() {
        return Err(ThresholdError::NoValues);
    }
    let Some(width) = histogram.bin_width() else {
        let guard = Some(
            "every value was zero: any scale is exact, this one belongs to threshold 1".to_owned(),
        );
        return Ok(finish(THRESHOLD_OF_ZEROS, guard));
    };
    let edge = |kept: usize| (kept as f64 * width).min(f64::from(histogram.absmax())) as f32;
    let (chosen, guard) = match method {
        Method::Auto | Method::Imported => return Err(ThresholdError::NotChosen),
        Method::MinMax => (histogram.absmax(), None),
        Method::Percentile(percentile) => {
            if !(percentile > 0.0 && percentile <= 100.0) {
                return Err(ThresholdError::PercentileRange { percentile });
            }
            (edge(bins_to_keep(bins, (100.0 - percentile) / 100.0)), None)
        }
        Method::Mse => (edge(mean_square::best(bins, histogram.zeros())), None),
        Method::Entropy => {
            let plain = entropy::best(bins);
            let kept =
                guards.most_clipped.map_or(plain, |share| plain.max(bins_to_keep(bins, share)));
            let guard = (kept > plain).then(|| raised(bins, plain, edge(plain), guards));
            (edge(kept), guard)
        }
    };
    Ok(finish(chosen, guard))
}

/// Chooses a threshold and says which tensor it was when there is none.
pub fn calibrate(
    tensor: &str,
    histogram: &Histogram,
    method: Method,
    guards: &Guards,
) -> Result<TensorCalibration, CalibrateError> {
    let chosen = threshold_with(histogram, method, guards)
        .map_err(|reason| CalibrateError::Tensor { tensor: tensor.to_owned(), reason })?;
    Ok(TensorCalibration {
        absmax: histogram.absmax(),
        threshold: chosen.threshold,
        scale: chosen.scale,
        method,
        values: histogram.count(),
        guard: chosen.guard,
    })
}

/// Divides by the levels, and keeps the scale a normal float, since a subnormal one is flushed to 0 on a GPU.
fn finish(threshold: f32, guard: Option<String>) -> Threshold {
    let scale = threshold / LEVELS as f32;
    if scale >= f32::MIN_POSITIVE {
        return Threshold { threshold, scale, guard };
    }
    let scale = f32::MIN_POSITIVE;
    let guard = format!(
        "the threshold {threshold:e} is too small for a normal scale: raised to the smallest one"
    );
    Threshold { threshold: scale * LEVELS as f32, scale, guard: Some(guard) }
}

fn raised(bins: &[u64], plain: usize, plain_edge: f32, guards: &Guards) -> String {
    let clipped: u64 = bins[plain..].iter().sum();
    let all: u64 = bins.iter().sum();
    format!(
        "raised: plain entropy would take {plain_edge} and clip {:.3} % of the values, more than the {} % allowed",
        100.0 * clipped as f64 / all as f64,
        100.0 * guards.most_clipped.unwrap_or(1.0),
    )
}

/// The fewest bins, at least one, above which lie no more than the given share of all values.
fn bins_to_keep(bins: &[u64], share: f64) -> usize {
    let all: u64 = bins.iter().sum();
    // The relative excess makes up for shares such as 100 - 99.9, which come out a hair below the decimal one.
    let allowed = (share * all as f64 * (1.0 + 1e-9)).floor() as u64;
    let mut above = 0;
    for (bin, count) in bins.iter().enumerate().rev() {
        above += count;
        if above > allowed {
            return bin + 1;
        }
    }
    1
}

#[cfg(test)]
#[path = "threshold_tests.rs"]
mod tests;
