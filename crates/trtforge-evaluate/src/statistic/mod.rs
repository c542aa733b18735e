//! Metrics as functions of weighted rows, for a baseline and a candidate at once.
//!
//! Rows that are alike for a metric share one *unit*; a unit's weight is how often it counts. With the weights of the data this gives the
//! metric itself; with random ones, a draw of the bootstrap.

mod classes;
mod correlation;
mod entities;
mod means;

use crate::error::EvaluateError;
use crate::metric::Metric;
use crate::scored::Scored;

pub(crate) use classes::ClassCells;

/// A metric over the units of two models.
pub(crate) trait Statistic {
    /// Rows by unit. Units of no row at all are the adverse ones.
    fn counts(&self) -> &[f64];

    /// Baseline's and candidate's value where unit `i` weighs `weights[i]`; larger is better.
    fn values(&self, weights: &[f64]) -> [f64; 2];

    /// The unit that hurts the candidate, and the one that hurts the baseline, most: a row such as might have been drawn and was not.
    fn adverse(&self) -> [usize; 2];

    /// Rows in all.
    fn rows(&self) -> f64 {
        self.counts().iter().sum()
    }

    /// Both values on the data as they are.
    fn observed(&self) -> [f64; 2] {
        self.values(self.counts())
    }
}

/// What a metric is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Everything.
    Whole,
    /// The F1 of one class, by index.
    Class(usize),
    /// The F1 of one entity type.
    Kind(&'a str),
}

/// Boils two models' rows down to the units of a metric. Both must be the same rows.
pub(crate) fn statistic(
    metric: Metric,
    part: Part<'_>,
    baseline: &Scored,
    candidate: &Scored,
) -> Result<Box<dyn Statistic>, EvaluateError> {
    metric.check(baseline)?;
    if baseline.is_empty() {
        return Err(EvaluateError::NoRows);
    }
    Ok(match (baseline, candidate) {
        (Scored::Classes(before), Scored::Classes(after)) => {
            Box::new(ClassCells::new(metric, part, before, after))
        }
        (Scored::Tags(before), Scored::Tags(after)) if metric == Metric::Accuracy => {
            Box::new(means::tokens(before, after))
        }
        (Scored::Tags(before), Scored::Tags(after)) => {
            Box::new(entities::EntityCells::new(metric, part, before, after))
        }
        (Scored::Answers(before), Scored::Answers(after)) => {
            Box::new(means::answers(metric, before, after))
        }
        (Scored::Similarities(before), Scored::Similarities(after)) => {
            Box::new(correlation::Correlated::new(metric, before, after))
        }
        (Scored::Cosines(before), Scored::Cosines(after)) => {
            Box::new(means::cosines(before, after))
        }
        _ => {
            let (baseline, candidate) = (baseline.kind(), candidate.kind());
            return Err(EvaluateError::OtherKind { baseline, candidate });
        }
    })
}
