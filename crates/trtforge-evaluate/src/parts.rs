//! Classes and slices: parts of the rows that are looked at by themselves.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entity::row_counts;
use crate::error::EvaluateError;
use crate::metric::Metric;
use crate::scored::Scored;
use crate::statistic::{Part, statistic};
use crate::verdict::PartFigures;

/// A field with more values than this is no category.
const MOST_VALUES: usize = 200;

/// One data field of every row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Its name in the data.
    pub field: String,
    /// Its different values.
    pub names: Vec<String>,
    /// Which of them each row has.
    pub rows: Vec<usize>,
}

impl Slice {
    /// From the field's value in each row.
    pub fn new(field: &str, values: &[String]) -> Self {
        let mut names = values.to_vec();
        names.sort();
        names.dedup();
        let place = |value: &String| names.binary_search(value).unwrap_or_default();
        let rows = values.iter().map(place).collect();
        Self { field: field.to_owned(), names, rows }
    }

    /// Proves that there is one value a row, and that the field is a category.
    ///
    /// - `rows`: how many there are.
    pub fn check(&self, rows: usize) -> Result<(), EvaluateError> {
        let field = self.field.clone();
        if self.names.len() > MOST_VALUES {
            let values = self.names.len();
            return Err(EvaluateError::ManySlices { field, values, most: MOST_VALUES });
        }
        if self.rows.len() != rows || self.rows.iter().any(|&row| row >= self.names.len()) {
            let (left, right) = (self.rows.len(), rows);
            let (left_what, right_what) = ("the sliced field", "the predictions");
            return Err(EvaluateError::RowCount { left_what, left, right_what, right });
        }
        Ok(())
    }

    /// The values that occur.
    pub(crate) fn values(&self) -> Vec<&String> {
        let occurs = |(index, _): &(usize, &String)| self.rows.contains(index);
        self.names.iter().enumerate().filter(occurs).map(|(_, name)| name).collect()
    }

    /// The rows with this value.
    pub(crate) fn mask(&self, value: &str) -> Vec<bool> {
        let wanted = self.names.iter().position(|name| name == value);
        self.rows.iter().map(|&row| Some(row) == wanted).collect()
    }
}

/// One class to look at.
pub(crate) struct ClassPart {
    pub name: String,
    pub count: usize,
    which: Which,
}

enum Which {
    Class(usize),
    Kind,
    /// Only these rows.
    Rows(Vec<bool>),
}

impl ClassPart {
    pub(crate) fn part(&self) -> Part<'_> {
        match self.which {
            Which::Class(class) => Part::Class(class),
            Which::Kind => Part::Kind(&self.name),
            Which::Rows(_) => Part::Whole,
        }
    }

    pub(crate) fn rows<'s>(&self, scored: &'s Scored) -> Cow<'s, Scored> {
        match &self.which {
            Which::Rows(keep) => Cow::Owned(scored.filtered(keep)),
            _ => Cow::Borrowed(scored),
        }
    }

    /// A class is measured by its F1, which falls when it is missed and when it is answered too often.
    pub(crate) fn metric(&self, metric: Metric) -> Metric {
        match self.which {
            Which::Class(_) => Metric::MacroF1,
            Which::Kind => Metric::EntityF1,
            Which::Rows(_) => metric,
        }
    }
}

/// The classes that have rows.
pub(crate) fn of_classes(
    scored: &Scored,
    names: &[String],
) -> Result<Vec<ClassPart>, EvaluateError> {
    match scored {
        Scored::Classes(rows) => {
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            for row in rows {
                *counts.entry(row.label).or_default() += 1;
            }
            let part = |(class, count)| ClassPart {
                name: class_name(names, class),
                count,
                which: Which::Class(class),
            };
            Ok(counts.into_iter().map(part).collect())
        }
        Scored::Tags(tags) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for (kind, one) in tags.rows.iter().flat_map(|row| row_counts(tags, row)) {
                *counts.entry(kind).or_default() += one.gold as usize;
            }
            counts.retain(|_, count| *count > 0);
            let part = |(name, count)| ClassPart { name, count, which: Which::Kind };
            Ok(counts.into_iter().map(part).collect())
        }
        Scored::Answers(rows) => {
            let part = |(name, answerable): (&str, bool)| {
                let keep: Vec<bool> = rows.iter().map(|row| row.answerable == answerable).collect();
                let count = keep.iter().filter(|keep| **keep).count();
                ClassPart { name: name.to_owned(), count, which: Which::Rows(keep) }
            };
            let both = [("answerable", true), ("no-answer", false)].map(part);
            Ok(both.into_iter().filter(|part| part.count > 0).collect())
        }
        Scored::Similarities(_) | Scored::Cosines(_) => {
            Err(EvaluateError::NoClasses { rows: scored.kind() })
        }
    }
}

/// A class by its name, or by its index where it has none.
pub(crate) fn class_name(names: &[String], class: usize) -> String {
    names.get(class).cloned().unwrap_or_else(|| class.to_string())
}

/// Every class in figures; none where rows have no classes.
pub(crate) fn classes(
    baseline: &Scored,
    candidate: &Scored,
    names: &[String],
) -> Result<Vec<PartFigures>, EvaluateError> {
    let usual = baseline.metrics()[0];
    let Ok(parts) = of_classes(baseline, names) else { return Ok(Vec::new()) };
    let figures = |part: &ClassPart| {
        let metric = part.metric(usual);
        let (before, after) = (part.rows(baseline), part.rows(candidate));
        let [baseline, candidate] = statistic(metric, part.part(), &before, &after)?.observed();
        let measure = if matches!(part.which, Which::Rows(_)) { metric.name() } else { "f1" };
        Ok(PartFigures {
            field: None,
            name: part.name.clone(),
            measure: measure.to_owned(),
            count: part.count,
            baseline,
            candidate,
        })
    };
    parts.iter().map(figures).collect()
}

/// Every value of every sliced field in figures.
pub(crate) fn slices(
    metric: Metric,
    baseline: &Scored,
    candidate: &Scored,
    slices: &[Slice],
) -> Result<Vec<PartFigures>, EvaluateError> {
    let mut figures = Vec::new();
    for slice in slices {
        for value in slice.values() {
            let keep = slice.mask(value);
            let (before, after) = (baseline.filtered(&keep), candidate.filtered(&keep));
            let observed = statistic(metric, Part::Whole, &before, &after)?.observed();
            figures.push(PartFigures {
                field: Some(slice.field.clone()),
                name: value.clone(),
                measure: metric.name().to_owned(),
                count: before.len(),
                baseline: observed[0],
                candidate: observed[1],
            });
        }
    }
    Ok(figures)
}
