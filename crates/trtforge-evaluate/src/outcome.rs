//! What a model answered on a row, against what is right.

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;

/// The logits of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// One logit a class.
    pub logits: Vec<f32>,
}

impl Prediction {
    /// The class with the largest logit, the first of equal ones.
    ///
    /// - returns: `None` when any logit is NaN or infinite: such a row has no prediction, whatever the other logits are.
    pub fn class(&self) -> Option<usize> {
        if self.logits.iter().any(|logit| !logit.is_finite()) {
            return None;
        }
        let better = |best: Option<usize>, class: usize| match best {
            Some(best) if self.logits[best] >= self.logits[class] => Some(best),
            _ => Some(class),
        };
        (0..self.logits.len()).fold(None, better)
    }
}

/// One judged row. As JSON, `[label, class]`: there are many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(usize, Option<usize>)", from = "(usize, Option<usize>)")]
pub struct Outcome {
    /// The right class.
    pub label: usize,
    /// The predicted class; `None` when the logits were not finite.
    pub class: Option<usize>,
}

impl From<Outcome> for (usize, Option<usize>) {
    fn from(outcome: Outcome) -> Self {
        (outcome.label, outcome.class)
    }
}

impl From<(usize, Option<usize>)> for Outcome {
    fn from((label, class): (usize, Option<usize>)) -> Self {
        Self { label, class }
    }
}

impl Outcome {
    /// Whether the prediction is right; a row without a prediction is wrong.
    pub fn is_right(self) -> bool {
        self.class == Some(self.label)
    }
}

/// Judges rows one by one.
///
/// - `labels`: the right class of each row;
/// - `predictions`: of the same rows in the same order.
pub fn outcomes(
    labels: &[usize],
    predictions: &[Prediction],
) -> Result<Vec<Outcome>, EvaluateError> {
    if labels.len() != predictions.len() {
        let (left, right) = (labels.len(), predictions.len());
        let (left_what, right_what) = ("labels", "predictions");
        return Err(EvaluateError::RowCount { left_what, left, right_what, right });
    }
    let judge = |(row, (&label, prediction)): (usize, (&usize, &Prediction))| {
        let logits = prediction.logits.len();
        if logits < 2 {
            return Err(EvaluateError::TooFewLogits { row, logits });
        }
        if label >= logits {
            return Err(EvaluateError::LabelRange { row, label, logits });
        }
        Ok(Outcome { label, class: prediction.class() })
    };
    labels.iter().zip(predictions).enumerate().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(logits: &[f32]) -> Option<usize> {
        Prediction { logits: logits.to_vec() }.class()
    }

    #[test]
    fn the_largest_finite_logit_wins() {
        assert_eq!(class(&[0.1, 0.3, 0.2]), Some(1));
        assert_eq!(class(&[-3.0, -2.0]), Some(1));
        assert_eq!(class(&[1.0, 1.0]), Some(0), "the first of equal ones");
        assert_eq!(class(&[-0.0, 0.0]), Some(0));
        assert_eq!(class(&[]), None);
    }

    #[test]
    fn a_row_with_any_bad_logit_has_no_prediction() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(class(&[bad, 1.0]), None, "{bad}");
            assert_eq!(class(&[1.0, bad]), None, "{bad}");
        }
        let outcome = Outcome { label: 0, class: None };
        assert!(!outcome.is_right());
    }

    #[test]
    fn labels_must_fit_the_logits() {
        let prediction = |logits: &[f32]| Prediction { logits: logits.to_vec() };
        let two = [prediction(&[0.0, 1.0]), prediction(&[1.0, 0.0])];
        let judged = outcomes(&[1, 1], &two).unwrap();
        assert_eq!(
            judged.iter().map(|outcome| outcome.is_right()).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(
            outcomes(&[1, 2], &two),
            Err(EvaluateError::LabelRange { row: 1, label: 2, logits: 2 })
        );
        assert!(matches!(
            outcomes(&[1], &two),
            Err(EvaluateError::RowCount { left: 1, right: 2, .. })
        ));
        assert_eq!(
            outcomes(&[0], &[prediction(&[0.7])]),
            Err(EvaluateError::TooFewLogits { row: 0, logits: 1 })
        );
    }
}
