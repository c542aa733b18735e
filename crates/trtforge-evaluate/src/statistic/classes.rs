//! Accuracy, F1 and Matthews correlation over one-label rows.

use std::collections::BTreeMap;

use super::{Part, Statistic};
use crate::metric::Metric;
use crate::outcome::Outcome;

/// Rows by label and by what either model answers.
pub(crate) struct ClassCells {
    metric: Metric,
    class: Option<usize>,
    classes: usize,
    cells: Vec<[Cell; 2]>,
    counts: Vec<f64>,
    /// For either model, the classes that are its labels or answers.
    present: [Vec<bool>; 2],
    adverse: [usize; 2],
}

/// A row's label and its answer by one model.
type Cell = Outcome;

impl ClassCells {
    pub(crate) fn new(
        metric: Metric,
        part: Part<'_>,
        baseline: &[Outcome],
        candidate: &[Outcome],
    ) -> Self {
        let mut tally: BTreeMap<(usize, Option<usize>, Option<usize>), f64> = BTreeMap::new();
        for (before, after) in baseline.iter().zip(candidate) {
            *tally.entry((before.label, before.class, after.class)).or_default() += 1.0;
        }
        let cell = |label, class| Outcome { label, class };
        let cells: Vec<[Cell; 2]> = tally
            .keys()
            .map(|&(label, before, after)| [cell(label, before), cell(label, after)])
            .collect();
        let counts: Vec<f64> = tally.into_values().collect();
        let named = |cell: &Cell| [Some(cell.label), cell.class].into_iter().flatten().max();
        let classes = cells.iter().flatten().filter_map(named).max().map_or(0, |last| last + 1);
        let present = [0, 1].map(|side: usize| {
            let mut present = vec![false; classes];
            for cell in cells.iter().map(|pair| pair[side]) {
                present[cell.label] = true;
                if let Some(class) = cell.class {
                    present[class] = true;
                }
            }
            present
        });
        let class = if let Part::Class(class) = part { Some(class) } else { None };
        let mut made = Self { metric, class, classes, cells, counts, present, adverse: [0, 0] };
        made.add_adverse();
        made
    }

    /// Adds a row of the class where losing one costs most, lost to the class that it harms most.
    fn add_adverse(&mut self) {
        let cost = |made: &Self, lost: (usize, Option<usize>)| {
            let sums = [0, 1].map(|side| {
                let mut sums = made.sums(side, &made.counts);
                let class = if side == 0 { Some(lost.0) } else { lost.1 };
                sums.add(Outcome { label: lost.0, class }, 1.0);
                made.value(side, &sums)
            });
            sums[0] - sums[1]
        };
        let labels: Vec<usize> = match self.class {
            Some(class) => vec![class],
            None => (0..self.classes).filter(|&class| self.is_label(class)).collect(),
        };
        let costliest = |choices: &mut dyn Iterator<Item = (usize, Option<usize>)>| {
            choices.max_by(|one, other| cost(self, *one).total_cmp(&cost(self, *other)))
        };
        let first = costliest(&mut labels.iter().map(|&label| (label, None)));
        let Some((label, _)) = first else { return };
        let others = (0..self.classes).filter(|&class| class != label && self.is_label(class));
        let worst =
            costliest(&mut others.map(|class| (label, Some(class)))).unwrap_or((label, None));
        let right = Outcome { label, class: Some(label) };
        let wrong = Outcome { label, class: worst.1 };
        let next = self.cells.len();
        self.cells.extend([[right, wrong], [wrong, right]]);
        self.counts.extend([0.0, 0.0]);
        self.adverse = [next, next + 1];
    }

    fn is_label(&self, class: usize) -> bool {
        self.cells.iter().any(|pair| pair[0].label == class)
    }

    fn sums(&self, side: usize, weights: &[f64]) -> Sums {
        let mut sums = Sums {
            right: vec![0.0; self.classes],
            labels: vec![0.0; self.classes],
            answers: vec![0.0; self.classes],
            none: 0.0,
        };
        for (pair, &weight) in self.cells.iter().zip(weights) {
            sums.add(pair[side], weight);
        }
        sums
    }

    fn value(&self, side: usize, sums: &Sums) -> f64 {
        if let Some(class) = self.class {
            return if class < self.classes { sums.f1(class) } else { 0.0 };
        }
        let total = |values: &[f64]| values.iter().sum::<f64>();
        match self.metric {
            Metric::MacroF1 => {
                let present = (0..self.classes).filter(|&class| self.present[side][class]);
                let (sum, count) = present
                    .fold((0.0, 0.0), |(sum, count), class| (sum + sums.f1(class), count + 1.0));
                sum / f64::max(count, 1.0)
            }
            Metric::MicroF1 => {
                2.0 * total(&sums.right) / (total(&sums.labels) + total(&sums.answers))
            }
            Metric::Mcc => sums.matthews(),
            _ => total(&sums.right) / total(&sums.labels),
        }
    }
}

impl Statistic for ClassCells {
    fn counts(&self) -> &[f64] {
        &self.counts
    }

    fn values(&self, weights: &[f64]) -> [f64; 2] {
        [0, 1].map(|side| self.value(side, &self.sums(side, weights)))
    }

    fn adverse(&self) -> [usize; 2] {
        self.adverse
    }
}

/// Weights by class: all that these metrics need of a confusion matrix.
struct Sums {
    /// Where label and answer are this class.
    right: Vec<f64>,
    /// Where it is the label.
    labels: Vec<f64>,
    /// Where it is the answer.
    answers: Vec<f64>,
    /// Rows without an answer.
    none: f64,
}

impl Sums {
    fn add(&mut self, cell: Cell, weight: f64) {
        self.labels[cell.label] += weight;
        match cell.class {
            Some(class) => self.answers[class] += weight,
            None => self.none += weight,
        }
        if cell.is_right() {
            self.right[cell.label] += weight;
        }
    }

    /// 2·TP / (2·TP + FP + FN); 0 for a class that is neither label nor answer, as scikit-learn's `zero_division=0`.
    fn f1(&self, class: usize) -> f64 {
        let both = self.labels[class] + self.answers[class];
        if both > 0.0 { 2.0 * self.right[class] / both } else { 0.0 }
    }

    /// Gorodkin's multi-class generalisation, as scikit-learn; 0 where labels or answers never vary. Rows without an answer are a class of
    /// their own.
    fn matthews(&self) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let all: f64 = self.labels.iter().sum();
        let right: f64 = self.right.iter().sum();
        let covariance = right * all - dot(&self.labels, &self.answers);
        let answers = all * all - dot(&self.answers, &self.answers) - self.none * self.none;
        let labels = all * all - dot(&self.labels, &self.labels);
        // The differences of large equal sums may be a sliver off 0.
        let floor = 1e-12 * all * all;
        if answers <= floor || labels <= floor {
            return 0.0;
        }
        covariance / (answers * labels).sqrt()
    }
}
