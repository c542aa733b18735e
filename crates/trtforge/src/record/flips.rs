//! The rows whose answer is another one than FP32's, by their line.

use trtforge_evaluate::{AnswerRow, Outcome, Scored, TagRow};
use trtforge_report::{Change, FlippedRow, RunRecord};

use super::entry;
use crate::profile::Precision;

/// Rows listed for one precision; a record is no data file.
const MOST: usize = 200;

/// Notes them, those lost first, then those won.
///
/// - `lines`: of each row in the evaluation file;
/// - `classes`: names by logit index.
pub fn flipped(
    record: &mut RunRecord,
    precision: Precision,
    lines: &[usize],
    (baseline, candidate): (&Scored, &Scored),
    classes: &[String],
) {
    let rows = lines.iter().enumerate().filter_map(|(row, &line)| {
        let found = changed(row, baseline, candidate, classes)?;
        Some(FlippedRow { line: line as u64, ..found })
    });
    let mut rows: Vec<FlippedRow> = rows.collect();
    rows.sort_by_key(|row| row.change);
    rows.truncate(MOST);
    entry(record, Some(precision)).flipped = rows;
}

/// One row, if both models answer it and differ. Scores and vectors always differ a little; they have no answer that flips.
fn changed(
    row: usize,
    baseline: &Scored,
    candidate: &Scored,
    classes: &[String],
) -> Option<FlippedRow> {
    match (baseline, candidate) {
        (Scored::Classes(before), Scored::Classes(after)) => {
            class(before.get(row)?, after.get(row)?, classes)
        }
        (Scored::Tags(before), Scored::Tags(after)) => {
            tags(before.rows.get(row)?, after.rows.get(row)?)
        }
        (Scored::Answers(before), Scored::Answers(after)) => {
            answer(before.get(row)?, after.get(row)?)
        }
        _ => None,
    }
}

const NO_ANSWER: &str = "no answer";

fn class(before: &Outcome, after: &Outcome, classes: &[String]) -> Option<FlippedRow> {
    let name = |class: Option<usize>| match class {
        Some(class) => classes.get(class).cloned().unwrap_or_else(|| class.to_string()),
        None => NO_ANSWER.to_owned(),
    };
    let label = before.label;
    (before.class != after.class).then(|| FlippedRow {
        label: name(Some(label)),
        baseline: name(before.class),
        candidate: name(after.class),
        change: change(before.class == Some(label), after.class == Some(label)),
        ..FlippedRow::default()
    })
}

fn tags(before: &TagRow, after: &TagRow) -> Option<FlippedRow> {
    let right = |row: &TagRow| {
        let predicted = row.predicted.as_ref()?;
        Some(predicted.iter().zip(&before.gold).filter(|(a, b)| a == b).count())
    };
    let (was, is) = (right(before), right(after));
    let words = |right: Option<usize>| {
        right.map_or_else(|| NO_ANSWER.to_owned(), |right| format!("{right} right"))
    };
    (before.predicted != after.predicted).then(|| FlippedRow {
        label: format!("{} tags", before.gold.len()),
        baseline: words(was),
        candidate: words(is),
        change: change(was > is, is > was),
        ..FlippedRow::default()
    })
}

fn answer(before: &AnswerRow, after: &AnswerRow) -> Option<FlippedRow> {
    let words = |row: &AnswerRow| match row.answer {
        None => NO_ANSWER.to_owned(),
        Some(_) if row.exact > 0.0 => "exact".to_owned(),
        Some(_) => format!("F1 {:.2}", row.f1),
    };
    let label = if before.answerable { "answerable" } else { "no answer to find" };
    (before.answer != after.answer).then(|| FlippedRow {
        label: label.to_owned(),
        baseline: words(before),
        candidate: words(after),
        change: change(before.exact > 0.0, after.exact > 0.0),
        ..FlippedRow::default()
    })
}

const fn change(was_right: bool, is_right: bool) -> Change {
    match (was_right, is_right) {
        (true, false) => Change::Lost,
        (false, true) => Change::Won,
        _ => Change::Other,
    }
}

#[cfg(test)]
mod tests {
    use trtforge_evaluate::TaggedRows;
    use trtforge_report::{Machine, Precision as Key, Tool};

    use super::*;

    fn found(pair: (&Scored, &Scored)) -> Vec<(u64, String, String, String, Change)> {
        let mut record = RunRecord::new("x", Tool::default(), Machine::default());
        let classes = ["dull".to_owned(), "bright".to_owned()];
        flipped(&mut record, Precision::Int8, &[2, 5, 6, 9], pair, &classes);
        let rows = record.precisions[&Key::Int8].flipped.clone();
        rows.into_iter().map(|r| (r.line, r.label, r.baseline, r.candidate, r.change)).collect()
    }

    #[test]
    fn classes_that_changed_are_listed_with_those_lost_first() {
        let rows = |classes: [Option<usize>; 4]| {
            let labels = [0, 1, 0, 1];
            let row = |(label, class)| Outcome { label, class };
            Scored::Classes(labels.into_iter().zip(classes).map(row).collect())
        };
        let before = rows([Some(1), Some(1), Some(0), None]);
        let after = rows([Some(0), Some(1), Some(1), Some(0)]);
        let expected = [
            (6, "dull", "dull", "bright", Change::Lost),
            (2, "dull", "bright", "dull", Change::Won),
            (9, "bright", "no answer", "dull", Change::Other),
        ]
        .map(|(line, a, b, c, d)| (line, a.to_owned(), b.to_owned(), c.to_owned(), d));
        assert_eq!(found((&before, &after)), expected);
    }

    #[test]
    fn tags_are_counted_and_scores_do_not_flip() {
        let rows = |predicted: Option<Vec<usize>>| {
            let rows = vec![TagRow { gold: vec![0, 1, 1], predicted }];
            Scored::Tags(TaggedRows { rows, ..TaggedRows::default() })
        };
        let (before, after) = (rows(Some(vec![0, 1, 1])), rows(Some(vec![0, 0, 1])));
        let row =
            (2, "3 tags".to_owned(), "3 right".to_owned(), "2 right".to_owned(), Change::Lost);
        assert_eq!(found((&before, &after)), [row]);
        assert_eq!(found((&after, &before))[0].4, Change::Won);
        assert_eq!(found((&before, &rows(None)))[0].3, "no answer");
        let cosines = Scored::Cosines(vec![1.0, 0.5]);
        assert_eq!(found((&cosines, &Scored::Cosines(vec![0.5, 1.0]))), []);
    }
}
