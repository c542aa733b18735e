//! What quantizing one unit alone costs, in figures.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use trtforge_evaluate::Prediction;
use trtforge_quantize::Unit;

/// What quantizing one unit alone costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitCost {
    /// The unit.
    pub unit: Unit,
    /// Mean |logit − FP32 logit|, over the rows where both are finite.
    pub shift: f64,
    /// The same as a share of the mean |FP32 logit|.
    pub relative_shift: f64,
    /// Largest |logit − FP32 logit|.
    pub max_shift: f64,
    /// Power of the unit's output over that of its quantization error, in decibels; none when there is no error.
    pub snr_db: Option<f64>,
    /// Share of the values the unit reads through pairs that lie beyond the last INT8 level.
    pub clipped: f64,
    /// Rows whose answer is another one.
    pub flips: usize,
    /// Rows with a logit that is NaN or infinite where FP32's are finite.
    pub not_finite: usize,
    /// Rows compared.
    pub rows: usize,
}

/// Sorts the worst first: rows that are no numbers, then the mean shift; equal ones stay in graph order.
pub fn rank(costs: &mut [UnitCost]) {
    costs.sort_by(worst_first);
}

fn worst_first(a: &UnitCost, b: &UnitCost) -> Ordering {
    b.not_finite.cmp(&a.not_finite).then_with(|| b.shift.total_cmp(&a.shift))
}

/// How far logits moved, batch by batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShiftSums {
    sum: f64,
    baseline: f64,
    values: usize,
    max: f64,
    pub flips: usize,
    pub not_finite: usize,
    pub rows: usize,
}

impl ShiftSums {
    /// Adds one row; `changed` says whether its answer is another one.
    pub fn add(&mut self, before: &Prediction, after: &Prediction, changed: bool) {
        let finite = |prediction: &Prediction| prediction.logits.iter().all(|x| x.is_finite());
        self.rows += 1;
        self.flips += usize::from(changed);
        // A row that FP32 cannot answer tells nothing about INT8.
        if !finite(before) {
            return;
        }
        if !finite(after) {
            self.not_finite += 1;
            return;
        }
        for (&before, &after) in before.logits.iter().zip(&after.logits) {
            let difference = (f64::from(after) - f64::from(before)).abs();
            self.sum += difference;
            self.max = self.max.max(difference);
            self.baseline += f64::from(before).abs();
            self.values += 1;
        }
    }

    pub fn mean(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.sum / self.values as f64 }
    }

    pub fn relative(&self) -> f64 {
        if self.baseline == 0.0 { 0.0 } else { self.sum / self.baseline }
    }

    pub fn max(&self) -> f64 {
        self.max
    }
}

/// Signal and noise of one tensor, batch by batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SignalSums {
    signal: f64,
    noise: f64,
}

impl SignalSums {
    pub fn add(&mut self, exact: &[f32], quantized: &[f32]) {
        for (&exact, &quantized) in exact.iter().zip(quantized) {
            let (exact, quantized) = (f64::from(exact), f64::from(quantized));
            self.signal += exact * exact;
            self.noise += (exact - quantized) * (exact - quantized);
        }
    }

    /// `10 · log10(signal / noise)`; none without noise.
    pub fn decibels(&self) -> Option<f64> {
        let ratio = self.signal / self.noise;
        (self.noise > 0.0 && ratio > 0.0).then(|| 10.0 * ratio.log10())
    }
}

/// Values beyond the last level, batch by batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClipSums {
    clipped: usize,
    values: usize,
}

impl ClipSums {
    /// Counts what rounds to more than level 127 of a pair with this scale.
    pub fn add(&mut self, values: &[f32], scale: f32) {
        let limit = 127.5 * scale;
        self.clipped += values.iter().filter(|value| value.abs() > limit).count();
        self.values += values.len();
    }

    pub fn share(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.clipped as f64 / self.values as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(logits: &[f32]) -> Prediction {
        Prediction { logits: logits.to_vec() }
    }

    #[test]
    fn shifts_by_hand() {
        let mut sums = ShiftSums::default();
        sums.add(&row(&[1.0, -3.0]), &row(&[1.5, -3.0]), false);
        sums.add(&row(&[2.0, 2.0]), &row(&[1.0, 2.5]), true);
        // 0.5 + 0 + 1 + 0.5 over four logits whose magnitudes add up to 8.
        assert_eq!((sums.mean(), sums.relative(), sums.max()), (0.5, 0.25, 1.0));
        sums.add(&row(&[0.0, 0.0]), &row(&[f32::NAN, 0.0]), true);
        sums.add(&row(&[f32::NAN, 0.0]), &row(&[0.0, 0.0]), false);
        assert_eq!((sums.mean(), sums.rows, sums.flips, sums.not_finite), (0.5, 4, 2, 1));
        assert_eq!(ShiftSums::default().mean(), 0.0);
    }

    #[test]
    fn decibels_by_hand() {
        let mut sums = SignalSums::default();
        assert_eq!(sums.decibels(), None);
        sums.add(&[3.0, 4.0], &[3.0, 4.0]);
        assert_eq!(sums.decibels(), None);
        // 25 + 75 over 1: 20 dB.
        sums.add(&[5.0, -5.0, 5.0], &[4.0, -5.0, 5.0]);
        assert_eq!(sums.decibels(), Some(20.0));
    }

    #[test]
    fn the_last_level_is_not_clipped() {
        let mut sums = ClipSums::default();
        sums.add(&[127.0, -127.5, 127.6, -200.0, 0.0], 1.0);
        assert_eq!(sums.share(), 0.4);
    }
}
