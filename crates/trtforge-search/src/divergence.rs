//! How far logits moved, row by row, and whether one variant moved them less than another by more than chance.

use trtforge_evaluate::{EvaluateError, Prediction};

/// The mean |candidate − FP32| over the logits of each row.
///
/// The mean and not the largest or the squared shift: an answer flips when its margin, which is near zero for few rows,
/// is crossed, so the share of flips follows the usual shift and not the rare large one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Divergence {
    rows: Vec<f64>,
}

/// The mean gain of one divergence over another on the same rows, and what chance alone gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Mean of the row-by-row differences; positive when the other moved the logits less.
    pub mean: f64,
    /// Standard error of that mean; infinite for fewer than two rows.
    pub noise: f64,
}

impl Divergence {
    /// Compares logits row by row; both sides must have the same rows with as many logits each.
    ///
    /// A row whose FP32 logits are not finite says nothing and counts as 0; one that only the candidate made not finite
    /// is infinitely far.
    pub fn between(
        baseline: &[Prediction],
        candidate: &[Prediction],
    ) -> Result<Self, EvaluateError> {
        same("baseline predictions", baseline.len(), "candidate predictions", candidate.len())?;
        let row = |(before, after): (&Prediction, &Prediction)| {
            let (logits, others) = (before.logits.len(), after.logits.len());
            same("baseline logits", logits, "candidate logits", others)?;
            Ok(row_shift(&before.logits, &after.logits))
        };
        let rows = baseline.iter().zip(candidate).map(row).collect::<Result<_, EvaluateError>>()?;
        Ok(Self { rows })
    }

    /// The mean shift of each row, given.
    #[cfg(test)]
    pub(crate) fn of(rows: Vec<f64>) -> Self {
        Self { rows }
    }

    /// Adds the rows of `other` after these.
    pub fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// Rows compared.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Mean over all rows, in logits; 0 for none.
    pub fn mean(&self) -> f64 {
        if self.rows.is_empty() { 0.0 } else { mean(&self.rows) }
    }

    /// What `other`, on the same rows or the first of them, gains over this.
    pub fn gain(&self, other: &Self) -> Gain {
        let pairs = self.rows.iter().zip(&other.rows);
        // Two infinities are as bad as each other.
        let difference = |(a, b): (&f64, &f64)| if a == b { 0.0 } else { a - b };
        let differences: Vec<f64> = pairs.map(difference).collect();
        if differences.is_empty() {
            return Gain { mean: 0.0, noise: f64::INFINITY };
        }
        let mean = mean(&differences);
        if !mean.is_finite() {
            // Rows that became finite and rows that ceased to be: no gain can be claimed.
            return Gain { mean: if mean.is_nan() { f64::NEG_INFINITY } else { mean }, noise: 0.0 };
        }
        let count = differences.len() as f64;
        let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
        let noise =
            if count < 2.0 { f64::INFINITY } else { (squares / (count - 1.0) / count).sqrt() };
        Gain { mean, noise }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn row_shift(before: &[f32], after: &[f32]) -> f64 {
    if before.is_empty() || before.iter().any(|logit| !logit.is_finite()) {
        return 0.0;
    }
    if after.iter().any(|logit| !logit.is_finite()) {
        return f64::INFINITY;
    }
    let shifts = before.iter().zip(after).map(|(a, b)| (f64::from(*b) - f64::from(*a)).abs());
    shifts.sum::<f64>() / before.len() as f64
}

fn same(
    left_what: &'static str,
    left: usize,
    right_what: &'static str,
    right: usize,
) -> Result<(), EvaluateError> {
    let error = EvaluateError::RowCount { left_what, left, right_what, right };
    if left == right { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(rows: &[&[f32]]) -> Vec<Prediction> {
        rows.iter().map(|row| Prediction { logits: row.to_vec() }).collect()
    }

    fn of(rows: &[f64]) -> Divergence {
        Divergence::of(rows.to_vec())
    }

    #[test]
    fn each_row_counts_alike_whatever_its_length() {
        // Rows of 2 and 4 logits: means (1 + 0)/2 and (0 + 2 + 0 + 2)/4, together (½ + 1)/2.
        let before = predictions(&[&[0.0, 1.0], &[0.0; 4]]);
        let after = predictions(&[&[1.0, 1.0], &[0.0, -2.0, 0.0, 2.0]]);
        let found = Divergence::between(&before, &after).unwrap();
        assert_eq!(found, of(&[0.5, 1.0]));
        assert_eq!((found.mean(), found.rows()), (0.75, 2));
        assert_eq!(of(&[]).mean(), 0.0);
    }

    #[test]
    fn what_is_not_finite_is_infinitely_far_unless_it_always_was() {
        let before = predictions(&[&[f32::NAN, 1.0], &[0.0, 1.0], &[]]);
        let after = predictions(&[&[0.0, 1.0], &[0.0, f32::NAN], &[]]);
        assert_eq!(Divergence::between(&before, &after).unwrap(), of(&[0.0, f64::INFINITY, 0.0]));
    }

    #[test]
    fn rows_and_logits_must_agree() {
        let one = predictions(&[&[0.0, 1.0]]);
        assert!(Divergence::between(&one, &[]).is_err());
        assert!(Divergence::between(&one, &predictions(&[&[0.0]])).is_err());
    }

    #[test]
    fn a_gain_is_judged_against_its_own_spread() {
        // Differences 1, 3: mean 2, standard deviation √2, standard error 1.
        let gain = of(&[3.0, 5.0]).gain(&of(&[2.0, 2.0]));
        assert_eq!((gain.mean, (gain.noise * 1e9).round() / 1e9), (2.0, 1.0));
        assert_eq!(of(&[1.0, 1.0]).gain(&of(&[1.0, 1.0])), Gain { mean: 0.0, noise: 0.0 });
        // The first rows alone.
        assert_eq!(of(&[3.0, 9.0]).gain(&of(&[1.0])).mean, 2.0);
        assert_eq!(of(&[3.0]).gain(&of(&[1.0])).noise, f64::INFINITY);
        assert_eq!(of(&[]).gain(&of(&[])).noise, f64::INFINITY);
    }

    #[test]
    fn gains_of_infinities() {
        let infinite = of(&[f64::INFINITY, 1.0]);
        assert_eq!(infinite.gain(&of(&[1.0, 1.0])).mean, f64::INFINITY);
        assert_eq!(of(&[1.0, 1.0]).gain(&infinite).mean, f64::NEG_INFINITY);
        assert_eq!(infinite.gain(&infinite).mean, 0.0);
        assert_eq!(infinite.gain(&of(&[1.0, f64::INFINITY])).mean, f64::NEG_INFINITY);
    }
}
