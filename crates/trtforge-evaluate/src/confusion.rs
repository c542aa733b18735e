//! Which class is taken for which.

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// Rows by right and predicted class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// `counts[label][predicted]`; square, as large as the classes that occur or were asked for.
    pub counts: Vec<Vec<usize>>,
    /// Rows without a prediction, by label.
    pub not_finite: Vec<usize>,
}

impl Confusion {
    /// Counts `outcomes` over at least `classes` classes.
    pub fn of(outcomes: &[Outcome], classes: usize) -> Self {
        let classes = outcomes
            .iter()
            .flat_map(|outcome| [Some(outcome.label), outcome.class])
            .flatten()
            .fold(classes, |classes, class| classes.max(class + 1));
        let mut confusion =
            Self { counts: vec![vec![0; classes]; classes], not_finite: vec![0; classes] };
        for outcome in outcomes {
            match outcome.class {
                Some(class) => confusion.counts[outcome.label][class] += 1,
                None => confusion.not_finite[outcome.label] += 1,
            }
        }
        confusion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confusion_by_hand() {
        let outcome = |label, class| Outcome { label, class };
        let rows = [
            outcome(0, Some(0)),
            outcome(0, Some(1)),
            outcome(1, Some(1)),
            outcome(1, None),
            outcome(1, Some(1)),
        ];
        let confusion = Confusion::of(&rows, 2);
        assert_eq!(confusion.counts, [[1, 1], [0, 2]]);
        assert_eq!(confusion.not_finite, [0, 1]);
        assert_eq!(Confusion::of(&rows[..1], 3).counts.len(), 3);
        assert_eq!(Confusion::of(&[outcome(0, Some(4))], 2).counts.len(), 5);
    }
}
