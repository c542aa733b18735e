//! Metrics that are a mean over rows or a share of tokens.

use std::collections::BTreeMap;

use super::Statistic;
use crate::metric::Metric;
use crate::scored::{AnswerRow, TaggedRows};

/// Sum over rows divided by sum over rows: a mean where the lower sums are 1.
pub(crate) struct Ratio {
    /// Baseline's and candidate's part above, and what is below, by unit.
    units: Vec<([f64; 2], f64)>,
    counts: Vec<f64>,
}

impl Ratio {
    /// - `rows`: both models' part and the size of each row; - `adverse`: the row that hurts the candidate most.
    fn new(rows: impl Iterator<Item = ([f64; 2], f64)>, adverse: ([f64; 2], f64)) -> Self {
        // The bits order and compare what is otherwise no key; the order of summation depends on the data alone.
        let mut tally: BTreeMap<[u64; 3], f64> = BTreeMap::new();
        for ([before, after], size) in rows {
            *tally.entry([before, after, size].map(f64::to_bits)).or_default() += 1.0;
        }
        let unit = |bits: &[u64; 3]| {
            let [before, after, size] = bits.map(f64::from_bits);
            ([before, after], size)
        };
        let mut units: Vec<_> = tally.keys().map(unit).collect();
        let mut counts: Vec<f64> = tally.into_values().collect();
        let ([before, after], size) = adverse;
        units.extend([adverse, ([after, before], size)]);
        counts.extend([0.0, 0.0]);
        Self { units, counts }
    }
}

impl Statistic for Ratio {
    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn values(&self, weights: &[f64]) -> [f64; 2] {
        let mut above = [0.0, 0.0];
        let mut below = 0.0;
        for ((parts, size), weight) in self.units.iter().zip(weights) {
            above[0] += weight * parts[0];
            above[1] += weight * parts[1];
            below += weight * size;
        }
        above.map(|above| if below > 0.0 { above / below } else { 0.0 })
    }

    fn adverse(&self) -> [usize; 2] {
        [self.units.len() - 2, self.units.len() - 1]
    }
}

/// Mean exact match or F1 of answers; the adverse row is an answer lost as a whole.
pub(super) fn answers(metric: Metric, before: &[AnswerRow], after: &[AnswerRow]) -> Ratio {
    let score = |row: &AnswerRow| if metric == Metric::ExactMatch { row.exact } else { row.f1 };
    let rows = before.iter().zip(after).map(|(before, after)| ([score(before), score(after)], 1.0));
    Ratio::new(rows, ([1.0, 0.0], 1.0))
}

/// Mean cosine; a cosine that is not finite counts 0. The adverse row is the worst of the data: a vector that turned round altogether is not
/// what rounding does.
pub(super) fn cosines(before: &[f64], after: &[f64]) -> Ratio {
    let finite = |cosine: f64| if cosine.is_finite() { cosine } else { 0.0 };
    let worst = |rows: &[f64]| rows.iter().copied().map(finite).fold(1.0, f64::min);
    let lost = f64::min(worst(before), worst(after));
    let pairs = before.iter().zip(after).map(|(&b, &a)| ([finite(b), finite(a)], 1.0));
    Ratio::new(pairs, ([1.0, lost], 1.0))
}

/// The share of tokens with the right tag, tokens of a row together. The adverse row is one of average length, lost as a whole.
pub(super) fn tokens(before: &TaggedRows, after: &TaggedRows) -> Ratio {
    let right = |gold: &[usize], predicted: Option<&[usize]>| {
        let predicted = predicted.unwrap_or_default();
        gold.iter().zip(predicted).filter(|(gold, tag)| gold == tag).count() as f64
    };
    let rows: Vec<([f64; 2], f64)> = before
        .rows
        .iter()
        .zip(&after.rows)
        .map(|(before, after)| {
            let parts = [before, after].map(|row| right(&row.gold, row.predicted.as_deref()));
            (parts, before.gold.len() as f64)
        })
        .collect();
    let mean = rows.iter().map(|row| row.1).sum::<f64>() / rows.len().max(1) as f64;
    Ratio::new(rows.into_iter(), ([mean, 0.0], mean))
}
