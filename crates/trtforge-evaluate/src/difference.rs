//! How two models differ, without a limit to hold the difference to: what a comparison of runs says.

use serde::{Deserialize, Serialize};

use crate::drop::Drop;
use crate::error::EvaluateError;
use crate::metric::Metric;
use crate::normal::normal_quantile;
use crate::paired::{Flips, McNemar, Paired};
use crate::scored::Scored;
use crate::statistic::Part;

/// A metric of two models, and how sure their difference is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What is compared.
    pub metric: Metric,
    /// The first model's value.
    pub before: f64,
    /// The second model's value.
    pub after: f64,
    /// `after − before`: positive is better.
    pub change: f64,
    /// Two-sided interval of `change` at `confidence`; everything is possible where the metric has no value.
    pub interval: [f64; 2],
    /// Of the interval.
    pub confidence: f64,
    /// Rows of the first and of the second model; the same ones when paired.
    pub rows: [usize; 2],
    /// Whether the interval comes from the same rows, one by one.
    pub paired: bool,
    /// Rows whose answer changed, where rows are paired and answers can be equal.
    pub flips: Option<Flips>,
    /// Rows by who is right, where rows are paired and right or wrong.
    pub table: Option<Paired>,
    /// Whether there is a difference at all, where rows are right or wrong.
    pub mcnemar: Option<McNemar>,
}

impl Difference {
    /// Of two models on the same rows: Tango's interval where a row is right or wrong, else by bootstrap over the rows.
    ///
    /// - `confidence`: of the two-sided interval, such as 0.95.
    pub fn paired(
        metric: Metric,
        before: &Scored,
        after: &Scored,
        confidence: f64,
    ) -> Result<Self, EvaluateError> {
        before.same_rows(after)?;
        let drop = Drop::of(metric, Part::Whole, before, after, f64::midpoint(1.0, confidence))?;
        let right = before.right_rows().zip(after.right_rows());
        let table = right.map(|(before, after)| Paired::of(&before, &after));
        // Adding zero turns the negative zero of no drop into zero.
        Ok(Self {
            metric,
            before: drop.baseline,
            after: drop.candidate,
            change: 0.0 - drop.drop(),
            interval: [0.0 - drop.interval[1], 0.0 - drop.interval[0]],
            confidence,
            rows: [drop.count, drop.count],
            paired: true,
            flips: Flips::of(before, after),
            table,
            mcnemar: table.map(|table| McNemar::of(&table)),
        })
    }

    /// Of two models whose rows are not at hand, as if they had been drawn apart.
    ///
    /// Each model's own interval gives its share of the uncertainty: the ends of the interval of the change are `change` minus
    /// or plus the root of the summed squares of the distances from the values to the ends that face it. On shares with Wilson's
    /// intervals that is Newcombe's method 10. For models on the same rows it is wider than the paired interval wherever their
    /// mistakes go together, so what it finds is there, and what it does not find may be.
    ///
    /// Source: Newcombe 1998, Statistics in Medicine 17:873–890; Zou and Donner 2008, Statistics in Medicine 27:1693–1702.
    pub fn unpaired(metric: Metric, before: &Measured, after: &Measured) -> Self {
        let confidence = before.confidence;
        let ([low_1, high_1], [low_2, high_2]) = (before.interval, after.at(confidence));
        let change = after.value - before.value;
        let below = f64::hypot(after.value - low_2, high_1 - before.value);
        let above = f64::hypot(high_2 - after.value, before.value - low_1);
        Self {
            metric,
            before: before.value,
            after: after.value,
            change,
            interval: [change - below, change + above],
            confidence,
            rows: [before.count, after.count],
            paired: false,
            flips: None,
            table: None,
            mcnemar: None,
        }
    }

    /// Which way the models differ, as far as the interval tells.
    pub fn direction(&self) -> Direction {
        match self.interval {
            [low, _] if low > 0.0 => Direction::Better,
            [_, high] if high < 0.0 => Direction::Worse,
            _ => Direction::WithinNoise,
        }
    }
}

/// One model's value as it was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The value.
    pub value: f64,
    /// Its two-sided interval.
    pub interval: [f64; 2],
    /// Of the interval.
    pub confidence: f64,
    /// Rows.
    pub count: usize,
}

impl Measured {
    /// The interval at another confidence, its halves stretched as those of a normal distribution are.
    fn at(&self, confidence: f64) -> [f64; 2] {
        if (self.confidence - confidence).abs() < 1e-12 {
            return self.interval;
        }
        let z = |confidence| normal_quantile(f64::midpoint(1.0, confidence));
        let factor = z(confidence) / z(self.confidence);
        let [low, high] = self.interval;
        [self.value - (self.value - low) * factor, self.value + (high - self.value) * factor]
    }
}

/// What an interval says of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// All of it is above 0.
    Better,
    /// All of it is below 0.
    Worse,
    /// It holds 0, or is none.
    WithinNoise,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::paired::tango_interval;
    use crate::wilson_interval;

    fn classes(rows: &[(usize, usize)]) -> Scored {
        let outcome = |&(class, count): &(usize, usize)| {
            std::iter::repeat_n(Outcome { label: 0, class: Some(class) }, count)
        };
        Scored::Classes(rows.iter().flat_map(outcome).collect())
    }

    fn share(right: usize, count: usize, confidence: f64) -> Measured {
        let interval = wilson_interval(right, count, confidence);
        Measured { value: right as f64 / count as f64, interval, confidence, count }
    }

    fn unpaired(before: &Measured, after: &Measured) -> Difference {
        Difference::unpaired(Metric::Accuracy, before, after)
    }

    #[test]
    fn paired_rows_by_hand() {
        // 100 rows: 90 right in both, 2 lost, 6 won, 2 wrong in both.
        let before = classes(&[(0, 90), (0, 2), (1, 6), (1, 2)]);
        let after = classes(&[(0, 90), (1, 2), (0, 6), (1, 2)]);
        let found = Difference::paired(Metric::Accuracy, &before, &after, 0.95).unwrap();
        assert!((found.before - 0.92).abs() < 1e-12 && (found.after - 0.96).abs() < 1e-12);
        assert!((found.change - 0.04).abs() < 1e-12, "{found:?}");
        // 2 · (1 + 8 + 28) / 2⁸: at most two heads of eight, twice.
        assert!((found.mcnemar.unwrap().p_two_sided - 74.0 / 256.0).abs() < 1e-12);
        assert_eq!(found.flips.unwrap().changed, 8);
        assert_eq!(found.direction(), Direction::WithinNoise);
        let table = Paired { both_right: 90, baseline_only: 2, candidate_only: 6, both_wrong: 2 };
        // A little wider than Tango's as published, and turned round.
        let published = tango_interval(&table, 0.975);
        assert!(found.interval[0] < -published[1] && -published[0] < found.interval[1]);
        assert!((found.interval[0] + published[1]).abs() < 0.01, "{found:?} {published:?}");
    }

    #[test]
    fn the_same_answers_are_no_change() {
        let rows = classes(&[(0, 9), (1, 1)]);
        let found = Difference::paired(Metric::Accuracy, &rows, &rows, 0.95).unwrap();
        assert!(found.change == 0.0 && found.change.is_sign_positive());
        assert_eq!((found.flips.unwrap().changed, found.direction()), (0, Direction::WithinNoise));
        let macro_f1 = Difference::paired(Metric::MacroF1, &rows, &rows, 0.95).unwrap();
        assert!(
            macro_f1.change == 0.0 && macro_f1.interval[0] <= 0.0 && macro_f1.interval[1] >= 0.0
        );
    }

    #[test]
    fn what_is_clear_has_a_direction() {
        let (good, bad) = (classes(&[(0, 100)]), classes(&[(0, 70), (1, 30)]));
        for (before, after, expected) in
            [(&bad, &good, Direction::Better), (&good, &bad, Direction::Worse)]
        {
            let found = Difference::paired(Metric::Accuracy, before, after, 0.95).unwrap();
            assert_eq!(found.direction(), expected, "{found:?}");
        }
    }

    #[test]
    fn other_rows_are_refused() {
        let error =
            Difference::paired(Metric::Accuracy, &classes(&[(0, 2)]), &classes(&[(0, 3)]), 0.95);
        assert!(matches!(error, Err(EvaluateError::RowCount { .. })), "{error:?}");
    }

    #[test]
    fn unpaired_shares_match_newcombes_examples() {
        // Newcombe 1998, table II, method 10: 56/70 − 48/80 and 9/10 − 3/10, at 95 %.
        let cases = [
            ((48, 80), (56, 70), [0.0524, 0.3339]),
            ((3, 10), (9, 10), [0.1705, 0.8090]),
            ((0, 10), (10, 10), [0.6075, 1.0]),
        ];
        for ((right_1, count_1), (right_2, count_2), expected) in cases {
            let before = share(right_1, count_1, 0.95);
            let after = share(right_2, count_2, 0.95);
            let found = unpaired(&before, &after);
            for (end, expected) in found.interval.iter().zip(expected) {
                assert!((end - expected).abs() < 5e-5, "{found:?}");
            }
            assert!(!found.paired && found.flips.is_none());
        }
    }

    #[test]
    fn another_confidence_is_stretched() {
        let before = share(500, 1_000, 0.95);
        let same = unpaired(&before, &share(500, 1_000, 0.95));
        let stretched = unpaired(&before, &share(500, 1_000, 0.99));
        for (end, other) in same.interval.iter().zip(stretched.interval) {
            assert!((end - other).abs() < 1e-3, "{same:?} {stretched:?}");
        }
    }

    #[test]
    fn what_is_no_number_is_within_noise() {
        let lost = Measured { value: f64::NAN, interval: [f64::NAN; 2], ..share(1, 2, 0.95) };
        let found = unpaired(&share(1, 2, 0.95), &lost);
        assert!(found.change.is_nan());
        assert_eq!(found.direction(), Direction::WithinNoise);
    }
}
