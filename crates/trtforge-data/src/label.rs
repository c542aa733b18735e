//! From a label as written to its logit index.

use crate::cell::Cell;

/// What a label field holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LabelRead {
    /// A usable label.
    Index {
        index: usize,
        /// It was an index in disguise: `1.0`, or the text `"1"`.
        loosely: bool,
    },
    /// Nothing is there: absent, null, or an empty CSV cell.
    Missing(&'static str),
    /// Something is there that is no label.
    Bad,
}

/// Reads one label.
///
/// A label is a name in `known`, or an integer that is a position in it; without names any non-negative integer is one.
/// A whole number such as `1.0` (what pandas writes beside a gap) and a text such as `"1"` or `"1.0"` (all that CSV can hold) are read as that
/// integer, a text only while no label name is itself a number: there `"1"` is a name or nothing.
pub(crate) fn read_label(cell: &Cell, known: &[String]) -> LabelRead {
    match cell {
        Cell::Absent => LabelRead::Missing("the field is absent"),
        Cell::Null => LabelRead::Missing("null"),
        Cell::Integer(value) => position(*value, known, false),
        Cell::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            position(*value as i64, known, true)
        }
        Cell::Text(name) => named(name, known),
        Cell::Float(_) | Cell::Bool(_) | Cell::List(_) | Cell::Object(_) => LabelRead::Bad,
    }
}

fn named(name: &str, known: &[String]) -> LabelRead {
    if let Some(index) = known.iter().position(|label| label == name) {
        return LabelRead::Index { index, loosely: false };
    }
    if name.trim().is_empty() {
        return LabelRead::Missing("the text is empty");
    }
    match name.trim().parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && value.abs() < 1e15 && !has_numeric_name(known) => {
            position(value as i64, known, true)
        }
        _ => LabelRead::Bad,
    }
}

fn position(value: i64, known: &[String], loosely: bool) -> LabelRead {
    match usize::try_from(value) {
        Ok(index) if known.is_empty() || index < known.len() => LabelRead::Index { index, loosely },
        _ => LabelRead::Bad,
    }
}

/// Whether a label name could be mistaken for a position.
pub(crate) fn has_numeric_name(known: &[String]) -> bool {
    known.iter().any(|label| label.trim().parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn text(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }

    #[test]
    fn a_label_is_a_name_or_a_position() {
        let known = names(&["negative", "positive"]);
        let exact = |index| LabelRead::Index { index, loosely: false };
        let loose = |index| LabelRead::Index { index, loosely: true };
        let cases = [
            (text("positive"), exact(1)),
            (Cell::Integer(0), exact(0)),
            (Cell::Integer(1), exact(1)),
            (Cell::Float(1.0), loose(1)),
            (text("0"), loose(0)),
            (text(" 1 "), loose(1)),
            (text("1.0"), loose(1)),
            (text("0.5"), LabelRead::Bad),
            (text("nan"), LabelRead::Bad),
            (text("inf"), LabelRead::Bad),
            (Cell::Integer(-1), LabelRead::Bad),
            (Cell::Integer(2), LabelRead::Bad),
            (Cell::Float(0.5), LabelRead::Bad),
            (Cell::Float(-1.0), LabelRead::Bad),
            (Cell::Float(1e300), LabelRead::Bad),
            (Cell::Float(f64::NAN), LabelRead::Bad),
            (text("Positive"), LabelRead::Bad),
            (text("mixed"), LabelRead::Bad),
            (text("2"), LabelRead::Bad),
            (text("-1"), LabelRead::Bad),
            (Cell::Bool(true), LabelRead::Bad),
            (Cell::List(Vec::new()), LabelRead::Bad),
            (Cell::Object(Vec::new()), LabelRead::Bad),
            (Cell::Null, LabelRead::Missing("null")),
            (Cell::Absent, LabelRead::Missing("the field is absent")),
            (text(" "), LabelRead::Missing("the text is empty")),
        ];
        for (cell, expected) in cases {
            assert_eq!(read_label(&cell, &known), expected, "{cell:?}");
        }
    }

    #[test]
    fn numeric_names_are_names_and_integers_stay_positions() {
        let stars = names(&["1", "2", "3"]);
        assert_eq!(read_label(&text("1"), &stars), LabelRead::Index { index: 0, loosely: false });
        assert_eq!(
            read_label(&Cell::Integer(1), &stars),
            LabelRead::Index { index: 1, loosely: false }
        );
        assert_eq!(read_label(&text("0"), &stars), LabelRead::Bad, "position 0 or a typo?");
    }

    #[test]
    fn without_names_any_position_is_a_label() {
        assert_eq!(
            read_label(&Cell::Integer(7), &[]),
            LabelRead::Index { index: 7, loosely: false }
        );
        assert_eq!(read_label(&Cell::Integer(-1), &[]), LabelRead::Bad);
        assert_eq!(read_label(&text("positive"), &[]), LabelRead::Bad);
    }
}
