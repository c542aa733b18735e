//! Pearson and Spearman correlation with the gold scores.

use super::Statistic;
use crate::metric::Metric;
use crate::scored::SimilarityRow;

/// One unit a row, and the worst rows once more.
pub(crate) struct Correlated {
    /// Gold, baseline, candidate: the scores, or for ranks the rows in ascending order, equal scores together.
    columns: [Column; 3],
    counts: Vec<f64>,
    adverse: [usize; 2],
}

struct Column {
    values: Vec<f64>,
    /// Groups of units with equal values, ascending; empty where values count as they are.
    groups: Vec<Vec<usize>>,
}

impl Column {
    fn new(mut values: Vec<f64>, ranked: bool) -> Self {
        // A row without a score is nowhere near its gold; such a model is refused anyway.
        values.iter_mut().filter(|value| !value.is_finite()).for_each(|value| *value = 0.0);
        let mut made = Self { values, groups: Vec::new() };
        if ranked {
            made.groups = made.ascending();
        }
        made
    }

    fn ascending(&self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|&a, &b| self.values[a].total_cmp(&self.values[b]).then(a.cmp(&b)));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for unit in order {
            match groups.last_mut() {
                Some(group) if self.values[group[0]] == self.values[unit] => group.push(unit),
                _ => groups.push(vec![unit]),
            }
        }
        groups
    }

    /// The values, or the weighted mean ranks.
    fn of(&self, weights: &[f64]) -> Vec<f64> {
        if self.groups.is_empty() {
            return self.values.clone();
        }
        let mut ranks = vec![0.0; self.values.len()];
        let mut below = 0.0;
        for group in &self.groups {
            let weight: f64 = group.iter().map(|&unit| weights[unit]).sum();
            for &unit in group {
                ranks[unit] = below + weight / 2.0;
            }
            below += weight;
        }
        ranks
    }
}

impl Correlated {
    pub(crate) fn new(metric: Metric, before: &[SimilarityRow], after: &[SimilarityRow]) -> Self {
        let ranked = metric == Metric::Spearman;
        let mut columns: [Vec<f64>; 3] = [
            before.iter().map(|row| row.gold).collect(),
            before.iter().map(|row| row.score).collect(),
            after.iter().map(|row| row.score).collect(),
        ];
        let rows = before.len();
        let mut counts = vec![1.0; rows];
        let plain = Self {
            columns: columns.clone().map(|values| Column::new(values, ranked)),
            counts: counts.clone(),
            adverse: [0, 0],
        };
        for row in plain.worst_rows() {
            for column in &mut columns {
                column.push(column[row]);
            }
            counts.push(0.0);
        }
        let columns = columns.map(|values| Column::new(values, ranked));
        Self { columns, counts, adverse: [rows, rows + 1] }
    }

    /// The row that costs the candidate most against the baseline, and the other way round, by their influence: for standardised x and y a
    /// row moves r by x·y − r·(x² + y²) / 2.
    fn worst_rows(&self) -> [usize; 2] {
        let [gold, before, after] = [0, 1, 2].map(|column: usize| {
            standardised(&self.columns[column].of(&self.counts), &self.counts)
        });
        let r =
            [correlation(&gold, &before, &self.counts), correlation(&gold, &after, &self.counts)];
        let influence = |row: usize| {
            let of = |other: &[f64], r: f64| {
                gold[row] * other[row] - r * (gold[row].powi(2) + other[row].powi(2)) / 2.0
            };
            of(&before, r[0]) - of(&after, r[1])
        };
        let most = |sign: f64| {
            let better = |best: usize, row: usize| {
                if sign * influence(row) > sign * influence(best) { row } else { best }
            };
            (0..self.counts.len()).fold(0, better)
        };
        [most(1.0), most(-1.0)]
    }
}

impl Statistic for Correlated {
    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn values(&self, weights: &[f64]) -> [f64; 2] {
        let [gold, before, after] = [0, 1, 2].map(|column: usize| self.columns[column].of(weights));
        [correlation(&gold, &before, weights), correlation(&gold, &after, weights)]
    }

    fn adverse(&self) -> [usize; 2] {
        self.adverse
    }
}

fn mean(values: &[f64], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    values.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>() / total
}

/// Mean 0 and variance 1; all 0 where nothing varies.
fn standardised(values: &[f64], weights: &[f64]) -> Vec<f64> {
    let centre = mean(values, weights);
    let squares: Vec<f64> = values.iter().map(|value| (value - centre).powi(2)).collect();
    let deviation = mean(&squares, weights).sqrt();
    let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
    values.iter().map(|value| (value - centre) * scale).collect()
}

/// Weighted Pearson correlation; 0 where either never varies.
fn correlation(x: &[f64], y: &[f64], weights: &[f64]) -> f64 {
    let (mean_x, mean_y) = (mean(x, weights), mean(y, weights));
    let [mut xx, mut yy, mut xy] = [0.0; 3];
    for ((x, y), weight) in x.iter().zip(y).zip(weights) {
        let (x, y) = (x - mean_x, y - mean_y);
        xx += weight * x * x;
        yy += weight * y * y;
        xy += weight * x * y;
    }
    if xx > 0.0 && yy > 0.0 { (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0) } else { 0.0 }
}
