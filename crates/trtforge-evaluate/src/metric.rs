//! What can be measured, and what each metric needs to be measured on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::scored::Scored;

/// What is measured. Larger is better for every one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Metric {
    /// The share of rows whose class is right; of tagged rows, the share of tokens.
    #[default]
    Accuracy,
    /// The mean of the F1 of each class, every class counting alike; of tagged rows, of each entity type.
    MacroF1,
    /// F1 over all rows together; of one-label rows this is the accuracy.
    MicroF1,
    /// Matthews correlation coefficient, for any number of classes.
    Mcc,
    /// The share of answers that are exactly one of the accepted ones, after SQuAD's normalisation.
    ExactMatch,
    /// The mean overlap of words between answer and accepted answer, by SQuAD's rules.
    AnswerF1,
    /// F1 over entities: type, start and end must all be right.
    EntityF1,
    /// Pearson correlation of score and gold.
    Pearson,
    /// Spearman correlation of score and gold: Pearson of the ranks, ties sharing their mean rank.
    Spearman,
    /// Mean cosine of each vector to the baseline's vector of the same row; the baseline itself has 1.
    Cosine,
}

impl Metric {
    /// All, in the order of documentation.
    pub const ALL: [Self; 10] = [
        Self::Accuracy,
        Self::MacroF1,
        Self::MicroF1,
        Self::Mcc,
        Self::ExactMatch,
        Self::AnswerF1,
        Self::EntityF1,
        Self::Pearson,
        Self::Spearman,
        Self::Cosine,
    ];

    /// As in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MacroF1 => "macro-f1",
            Self::MicroF1 => "micro-f1",
            Self::Mcc => "mcc",
            Self::ExactMatch => "exact-match",
            Self::AnswerF1 => "f1",
            Self::EntityF1 => "entity-f1",
            Self::Pearson => "pearson",
            Self::Spearman => "spearman",
            Self::Cosine => "cosine",
        }
    }

    /// Whether it goes from −1 to 1.
    pub(crate) const fn is_correlation(self) -> bool {
        matches!(self, Self::Mcc | Self::Pearson | Self::Spearman)
    }

    /// Whether these rows can be measured by it.
    pub fn fits(self, scored: &Scored) -> bool {
        scored.metrics().contains(&self)
    }

    /// Which rows are right, where a row is right or wrong under this metric.
    pub fn right_rows(self, scored: &Scored) -> Option<Vec<bool>> {
        let binary = match scored {
            Scored::Classes(_) => matches!(self, Self::Accuracy | Self::MicroF1),
            Scored::Answers(_) => self == Self::ExactMatch,
            _ => false,
        };
        if binary { scored.right_rows() } else { None }
    }

    /// An error that names what fits instead, unless it [fits](Self::fits).
    pub fn check(self, scored: &Scored) -> Result<(), EvaluateError> {
        if self.fits(scored) {
            return Ok(());
        }
        let fitting = scored.metrics().iter().map(|metric| metric.name()).collect();
        Err(EvaluateError::UnfitMetric { metric: self, rows: scored.kind(), fitting })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = EvaluateError;

    fn from_str(name: &str) -> Result<Self, EvaluateError> {
        Self::ALL
            .into_iter()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| EvaluateError::UnknownMetric(name.to_owned()))
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.name().to_owned()
    }
}

impl TryFrom<String> for Metric {
    type Error = EvaluateError;

    fn try_from(name: String) -> Result<Self, EvaluateError> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for metric in Metric::ALL {
            assert_eq!(metric.to_string().parse(), Ok(metric));
        }
        assert_eq!(
            "acuracy".parse::<Metric>(),
            Err(EvaluateError::UnknownMetric("acuracy".into()))
        );
    }

    #[test]
    fn a_metric_that_does_not_fit_names_those_that_do() {
        let error = Metric::Pearson.check(&Scored::Answers(Vec::new())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`pearson` cannot be measured on answers; `exact-match`, `f1` can"
        );
        assert_eq!(Metric::AnswerF1.check(&Scored::Answers(Vec::new())), Ok(()));
    }
}
