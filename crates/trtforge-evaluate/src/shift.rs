//! How far a candidate's logits are from the baseline's, right or wrong.

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::outcome::Prediction;

/// Absolute differences of logits, over the rows where both sides are finite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogitShift {
    /// Mean |candidate − baseline|; 0 when no row can be compared.
    pub mean_abs: f64,
    /// Largest |candidate − baseline|.
    pub max_abs: f64,
    /// The row (counted from 0) of the largest.
    pub worst_row: Option<usize>,
    /// Rows compared.
    pub compared: usize,
    /// Rows left out because a logit of either side is NaN or infinite.
    pub not_finite: usize,
}

/// Compares logits row by row; both sides must have the same rows and classes.
pub fn logit_shift(
    baseline: &[Prediction],
    candidate: &[Prediction],
) -> Result<LogitShift, EvaluateError> {
    let same = |left: usize, right: usize, left_what, right_what| {
        let error = EvaluateError::RowCount { left_what, left, right_what, right };
        if left == right { Ok(()) } else { Err(error) }
    };
    same(baseline.len(), candidate.len(), "baseline predictions", "candidate predictions")?;
    let mut shift =
        LogitShift { mean_abs: 0.0, max_abs: 0.0, worst_row: None, compared: 0, not_finite: 0 };
    let (mut sum, mut values) = (0.0, 0_usize);
    for (row, (before, after)) in baseline.iter().zip(candidate).enumerate() {
        same(before.logits.len(), after.logits.len(), "baseline logits", "candidate logits")?;
        if before.logits.iter().chain(&after.logits).any(|logit| !logit.is_finite()) {
            shift.not_finite += 1;
            continue;
        }
        shift.compared += 1;
        for (&before, &after) in before.logits.iter().zip(&after.logits) {
            let difference = (f64::from(after) - f64::from(before)).abs();
            sum += difference;
            values += 1;
            if difference > shift.max_abs || shift.worst_row.is_none() {
                shift.max_abs = difference;
                shift.worst_row = Some(row);
            }
        }
    }
    shift.mean_abs = if values == 0 { 0.0 } else { sum / values as f64 };
    Ok(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(rows: &[[f32; 2]]) -> Vec<Prediction> {
        rows.iter().map(|row| Prediction { logits: row.to_vec() }).collect()
    }

    #[test]
    fn shift_by_hand() {
        // Differences 0.5, 0, 0, 1.5: mean 2 / 4; the NaN row is left out.
        let baseline = predictions(&[[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]);
        let candidate = predictions(&[[1.5, 2.0], [0.0, -1.5], [f32::NAN, 0.0]]);
        let expected = LogitShift {
            mean_abs: 0.5,
            max_abs: 1.5,
            worst_row: Some(1),
            compared: 2,
            not_finite: 1,
        };
        assert_eq!(logit_shift(&baseline, &candidate), Ok(expected));
    }

    #[test]
    fn different_shapes_have_no_shift() {
        let two = predictions(&[[1.0, 2.0], [0.0, 0.0]]);
        assert!(logit_shift(&two, &two[..1]).is_err());
        let three = [Prediction { logits: vec![0.0; 3] }];
        assert!(logit_shift(&two[..1], &three).is_err());
        assert_eq!(logit_shift(&[], &[]).unwrap().worst_row, None);
    }
}
