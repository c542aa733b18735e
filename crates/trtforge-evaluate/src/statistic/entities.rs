//! F1 over entities.

use std::collections::{BTreeMap, BTreeSet};

use super::{Part, Statistic};
use crate::entity::row_counts;
use crate::metric::Metric;
use crate::scored::TaggedRows;

/// Gold entities, then predicted and right ones of the baseline, then of the candidate.
type Counts = [u32; 5];

/// Rows by how many entities of each type they have and either model finds.
pub(crate) struct EntityCells {
    mean_of_kinds: bool,
    kinds: usize,
    /// For either model, the types that occur in its rows or in the gold.
    present: [Vec<bool>; 2],
    /// Types and their counts, by unit.
    units: Vec<Vec<(usize, Counts)>>,
    counts: Vec<f64>,
}

impl EntityCells {
    pub(crate) fn new(
        metric: Metric,
        part: Part<'_>,
        baseline: &TaggedRows,
        candidate: &TaggedRows,
    ) -> Self {
        let mut rows: Vec<BTreeMap<String, Counts>> = Vec::new();
        for (before, after) in baseline.rows.iter().zip(&candidate.rows) {
            let mut row: BTreeMap<String, Counts> = BTreeMap::new();
            for (kind, one) in row_counts(baseline, before) {
                row.insert(kind, [one.gold, one.predicted, one.right, 0, 0]);
            }
            for (kind, one) in row_counts(candidate, after) {
                let slot = row.entry(kind).or_default();
                (slot[3], slot[4]) = (one.predicted, one.right);
            }
            if let Part::Kind(wanted) = part {
                row.retain(|kind, _| kind == wanted);
            }
            rows.push(row);
        }
        let names: BTreeSet<&str> =
            rows.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
        let index: BTreeMap<&str, usize> =
            names.iter().enumerate().map(|(index, &name)| (name, index)).collect();
        let mut tally: BTreeMap<Vec<(usize, Counts)>, f64> = BTreeMap::new();
        for row in &rows {
            let unit = row.iter().map(|(kind, counts)| (index[kind.as_str()], *counts)).collect();
            *tally.entry(unit).or_default() += 1.0;
        }
        let mut made = Self {
            mean_of_kinds: metric == Metric::MacroF1 && part == Part::Whole,
            kinds: index.len(),
            present: [vec![false; index.len()], vec![false; index.len()]],
            units: tally.keys().cloned().collect(),
            counts: tally.into_values().collect(),
        };
        made.note_present();
        made.add_adverse();
        made
    }

    fn note_present(&mut self) {
        for (kind, counts) in self.units.iter().flatten() {
            self.present[0][*kind] |= counts[0] + counts[1] > 0;
            self.present[1][*kind] |= counts[0] + counts[3] > 0;
        }
    }

    /// Adds a row with an average number of entities, of the rarest type where types count alike, each found by one model and misplaced by
    /// the other.
    fn add_adverse(&mut self) {
        let mut gold = vec![0.0; self.kinds];
        for (unit, count) in self.units.iter().zip(&self.counts) {
            for (kind, counts) in unit {
                gold[*kind] += count * f64::from(counts[0]);
            }
        }
        let with = |unit: &&Vec<(usize, Counts)>| unit.iter().any(|(_, counts)| counts[0] > 0);
        let rows: f64 = self
            .units
            .iter()
            .zip(&self.counts)
            .filter(|(unit, _)| with(unit))
            .map(|(_, n)| n)
            .sum();
        let mean = (gold.iter().sum::<f64>() / rows.max(1.0)).round().max(1.0) as u32;
        let mean = if self.mean_of_kinds { 1 } else { mean };
        let rarest = (0..self.kinds)
            .filter(|&kind| gold[kind] > 0.0)
            .min_by(|&one, &other| gold[one].total_cmp(&gold[other]));
        let kind = rarest.unwrap_or(0);
        self.units.push(vec![(kind, [mean, mean, mean, mean, 0])]);
        self.units.push(vec![(kind, [mean, mean, 0, mean, mean])]);
        self.counts.extend([0.0, 0.0]);
    }

    fn f1(gold: f64, predicted: f64, right: f64) -> f64 {
        if gold + predicted > 0.0 { 2.0 * right / (gold + predicted) } else { 0.0 }
    }
}

impl Statistic for EntityCells {
    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn values(&self, weights: &[f64]) -> [f64; 2] {
        let mut sums = vec![[0.0; 5]; self.kinds.max(1)];
        for (unit, weight) in self.units.iter().zip(weights) {
            for (kind, counts) in unit {
                for (sum, count) in sums[*kind].iter_mut().zip(counts) {
                    *sum += weight * f64::from(*count);
                }
            }
        }
        [[1, 2], [3, 4]].map(|[predicted, right]| {
            if self.mean_of_kinds {
                let side = predicted / 2;
                let present = (0..self.kinds).filter(|&kind| self.present[side][kind]);
                let scores: Vec<f64> = present
                    .map(|kind| Self::f1(sums[kind][0], sums[kind][predicted], sums[kind][right]))
                    .collect();
                scores.iter().sum::<f64>() / scores.len().max(1) as f64
            } else {
                let total = |index: usize| sums.iter().map(|sum| sum[index]).sum::<f64>();
                Self::f1(total(0), total(predicted), total(right))
            }
        })
    }

    fn adverse(&self) -> [usize; 2] {
        [self.units.len() - 2, self.units.len() - 1]
    }
}
