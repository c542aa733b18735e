//! One model's quality as one number with its interval.

use serde::{Deserialize, Serialize};

use crate::bootstrap;
use crate::error::EvaluateError;
use crate::interval::wilson_interval;
use crate::metric::Metric;
use crate::scored::Scored;
use crate::statistic::{Part, statistic};

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
    /// From 0 to 1; correlations from −1.
    pub value: f64,
    /// Two-sided interval of `value` at `confidence`: Wilson's where a row is right or wrong, else by bootstrap.
    pub interval: [f64; 2],
    /// Confidence of the interval.
    pub confidence: f64,
    /// Rows.
    pub count: usize,
    /// Rows that are right, where a row is right or wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub right: Option<usize>,
    /// Rows with a NaN or infinite logit; they count as wrong.
    pub not_finite: usize,
    /// What ran the model.
    pub evaluated_on: EvaluatedOn,
}

impl Evaluation {
    /// Measures all rows together (never a mean of batch means).
    ///
    /// - `confidence`: of the two-sided interval, such as 0.95.
    pub fn of(
        metric: Metric,
        scored: &Scored,
        confidence: f64,
        evaluated_on: EvaluatedOn,
    ) -> Result<Self, EvaluateError> {
        metric.check(scored)?;
        let count = scored.len();
        if count == 0 {
            return Err(EvaluateError::NoRows);
        }
        let right =
            metric.right_rows(scored).map(|rows| rows.iter().filter(|right| **right).count());
        let (value, interval) = if let Some(right) = right {
            (right as f64 / count as f64, wilson_interval(right, count, confidence))
        } else {
            let statistic = statistic(metric, Part::Whole, scored, scored)?;
            (
                statistic.observed()[0],
                bootstrap::value_interval(&*statistic, confidence, bootstrap::DRAWS),
            )
        };
        let not_finite = scored.not_finite();
        Ok(Self { metric, value, interval, confidence, count, right, not_finite, evaluated_on })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn rows(right: usize, wrong: usize, not_finite: usize) -> Scored {
        let outcome = |class| move |_| Outcome { label: 0, class };
        let rows = (0..right)
            .map(outcome(Some(0)))
            .chain((0..wrong).map(outcome(Some(1))))
            .chain((0..not_finite).map(outcome(None)));
        Scored::Classes(rows.collect())
    }

    fn accuracy(outcomes: &Scored) -> Evaluation {
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
        let none = Evaluation::of(
            Metric::Accuracy,
            &Scored::Classes(Vec::new()),
            0.95,
            EvaluatedOn::Device,
        );
        assert_eq!(none, Err(EvaluateError::NoRows));
    }
}
