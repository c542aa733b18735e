//! One model's quality as one number with its interval.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::interval::wilson_interval;
use crate::outcome::Outcome;

/// What is measured. A new metric is a variant here, its value in [`Evaluation::of`], and its bound of the paired drop in `judge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The share of rows whose class is right.
    #[default]
    Accuracy,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accuracy => f.write_str("accuracy"),
        }
    }
}

impl FromStr for Metric {
    type Err = EvaluateError;

    fn from_str(name: &str) -> Result<Self, EvaluateError> {
        match name {
            "accuracy" => Ok(Self::Accuracy),
            _ => Err(EvaluateError::UnknownMetric(name.to_owned())),
        }
    }
}

/// What ran the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluatedOn {
    /// The engine itself, on a GPU.
    Device,
    /// The same graph on the embedded executor.
    Reference,
}

/// How good one model is on the evaluation rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// What `value` is.
    pub metric: Metric,
    /// From 0 to 1.
    pub value: f64,
    /// Two-sided Wilson score interval of `value` at `confidence`.
    pub interval: [f64; 2],
    /// Confidence of the interval.
    pub confidence: f64,
    /// Rows.
    pub count: usize,
    /// Rows that are right.
    pub right: usize,
    /// Rows with a NaN or infinite logit; they count as wrong.
    pub not_finite: usize,
    /// What ran the model.
    pub evaluated_on: EvaluatedOn,
}

impl Evaluation {
    /// Counts the outcomes of all rows (never a mean of batch means).
    ///
    /// - `confidence`: of the two-sided interval, such as 0.95.
    pub fn of(
        metric: Metric,
        outcomes: &[Outcome],
        confidence: f64,
        evaluated_on: EvaluatedOn,
    ) -> Result<Self, EvaluateError> {
        let count = outcomes.len();
        if count == 0 {
            return Err(EvaluateError::NoRows);
        }
        let right = outcomes.iter().filter(|outcome| outcome.is_right()).count();
        let not_finite = outcomes.iter().filter(|outcome| outcome.class.is_none()).count();
        let (value, interval) = match metric {
            Metric::Accuracy => {
                (right as f64 / count as f64, wilson_interval(right, count, confidence))
            }
        };
        Ok(Self { metric, value, interval, confidence, count, right, not_finite, evaluated_on })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(right: usize, wrong: usize, not_finite: usize) -> Vec<Outcome> {
        let outcome = |class| move |_| Outcome { label: 0, class };
        (0..right)
            .map(outcome(Some(0)))
            .chain((0..wrong).map(outcome(Some(1))))
            .chain((0..not_finite).map(outcome(None)))
            .collect()
    }

    fn accuracy(outcomes: &[Outcome]) -> Evaluation {
        Evaluation::of(Metric::Accuracy, outcomes, 0.95, EvaluatedOn::Reference).unwrap()
    }

    #[test]
    fn every_row_counts_once() {
        // The figures of case B43: 32 right and 5 wrong; their mean of batch means would be 0.8 or 1.0.
        let evaluation = accuracy(&rows(32, 5, 0));
        assert_eq!((evaluation.value, evaluation.count), (32.0 / 37.0, 37));
        assert!(
            evaluation.interval[0] < evaluation.value && evaluation.value < evaluation.interval[1]
        );
    }

    #[test]
    fn rows_that_are_not_finite_are_wrong() {
        // The figures of case B41: 18 of 30 rows are NaN, the rest are right.
        let evaluation = accuracy(&rows(12, 0, 18));
        assert_eq!((evaluation.value, evaluation.not_finite, evaluation.count), (0.4, 18, 30));
    }

    #[test]
    fn no_rows_have_no_accuracy() {
        let none = Evaluation::of(Metric::Accuracy, &[], 0.95, EvaluatedOn::Device);
        assert_eq!(none, Err(EvaluateError::NoRows));
    }

    #[test]
    fn names_round_trip() {
        assert_eq!(Metric::Accuracy.to_string().parse(), Ok(Metric::Accuracy));
        assert_eq!(
            "acuracy".parse::<Metric>(),
            Err(EvaluateError::UnknownMetric("acuracy".into()))
        );
    }
}
