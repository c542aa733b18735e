//! What the fields of a data file hold, for someone who does not know the file yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cell::{Cell, RawRow, Wanted};
use crate::error::DataError;
use crate::questions::QuestionFields;
use crate::source::Visit;
use crate::{conll, source, squad};

/// Values of one field that are kept apart; a field with more is no label.
const MOST_VALUES: usize = 256;

/// What all values of a field have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldKind {
    /// No row has a value.
    Empty,
    /// Whole numbers, also those that a CSV file holds as text.
    Integer,
    /// Numbers, at least one with a fraction.
    Number,
    /// Texts.
    Text,
    /// Lists.
    List,
    /// Objects, truth values, or several kinds.
    Other,
}

/// One field of a data file.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldSummary {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: FieldKind,
    /// Rows with a value.
    pub count: usize,
    /// Mean length of the values as text, in characters; of lists, in items.
    pub mean_length: f64,
    /// Different values as text, sorted; empty where there are more than 256. Of lists, those of their items.
    pub values: Vec<String>,
}

/// The fields of a data file in the order of its first row or header, and the number of rows.
///
/// - `path`: as for [`crate::Dataset::load`]; every row is read. Also SQuAD's nested `.json`, whose fields are `question`, `context` and
///   `answers`, and lines of words (`.conll`, `.bio`, `.iob`, `.iob2`, `.txt`), whose fields are called `tokens` and `tags`.
pub fn describe_fields(path: &Path) -> Result<(Vec<FieldSummary>, usize), DataError> {
    match source::extension(path).as_str() {
        "conll" | "bio" | "iob" | "iob2" | "txt" => {
            summarize(&["tokens", "tags"], |visit| conll::read(path, None, visit))
        }
        "json" if squad::is_squad_file(path)? => {
            let names = ["question", "context", "answers"];
            let fields = QuestionFields {
                question: names[0].to_owned(),
                context: names[1].to_owned(),
                answers: Some(names[2].to_owned()),
            };
            summarize(&names, |visit| squad::read(path, &fields, visit).map(drop))
        }
        _ => {
            let names = names(path)?;
            let wanted: Vec<Wanted> = names.iter().map(|name| Wanted::optional(name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            summarize(&names, |visit| source::read(path, &wanted, visit))
        }
    }
}

/// Reads all rows with cells in the order of `names`; a field that no row fills is left out where others are.
fn summarize(
    names: &[&str],
    read: impl FnOnce(&mut Visit<'_>) -> Result<(), DataError>,
) -> Result<(Vec<FieldSummary>, usize), DataError> {
    let mut fields: Vec<Collected> = names.iter().map(|_| Collected::default()).collect();
    let mut rows = 0;
    read(&mut |raw: RawRow| {
        rows += 1;
        for (field, cell) in fields.iter_mut().zip(&raw.cells) {
            field.add(cell);
        }
        Ok(())
    })?;
    let summaries =
        names.iter().zip(fields).map(|(name, field)| field.finish((*name).to_owned())).collect();
    Ok((summaries, rows))
}

/// The names that the complaint about a field which no file has lists.
fn names(path: &Path) -> Result<Vec<String>, DataError> {
    let nobodys = Wanted::required("\u{1}");
    match source::read(path, &[nobodys], &mut |_| Ok(())) {
        Err(DataError::MissingField { found, .. }) => Ok(found),
        Err(error) => Err(error),
        Ok(()) => Ok(Vec::new()),
    }
}

#[derive(Default)]
struct Collected {
    kinds: BTreeMap<FieldKind, usize>,
    length: usize,
    values: BTreeSet<String>,
    too_many: bool,
}

impl Collected {
    fn add(&mut self, cell: &Cell) {
        let kind = match cell {
            Cell::Absent | Cell::Null => return,
            Cell::Integer(_) => FieldKind::Integer,
            Cell::Float(_) => FieldKind::Number,
            Cell::Text(text) if text.trim().is_empty() => return,
            Cell::Text(text) => match text.trim().parse::<f64>() {
                Ok(_) if text.trim().parse::<i64>().is_ok() => FieldKind::Integer,
                Ok(number) if number.is_finite() => FieldKind::Number,
                _ => FieldKind::Text,
            },
            Cell::List(_) => FieldKind::List,
            Cell::Bool(_) | Cell::Object(_) => FieldKind::Other,
        };
        *self.kinds.entry(kind).or_default() += 1;
        match cell {
            Cell::List(items) => {
                self.length += items.len();
                for item in items {
                    self.keep(item);
                }
            }
            other => self.length += self.keep(other),
        }
    }

    /// Keeps a value while there are few; its length in characters.
    fn keep(&mut self, cell: &Cell) -> usize {
        let text = match cell {
            Cell::Text(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        let length = text.chars().count();
        if !self.too_many {
            self.values.insert(text);
            self.too_many = self.values.len() > MOST_VALUES;
        }
        if self.too_many {
            self.values.clear();
        }
        length
    }

    fn finish(self, name: String) -> FieldSummary {
        let count: usize = self.kinds.values().sum();
        let kinds: Vec<FieldKind> = self.kinds.keys().copied().collect();
        let kind = match kinds.as_slice() {
            [] => FieldKind::Empty,
            [one] => *one,
            [FieldKind::Integer, FieldKind::Number] => FieldKind::Number,
            // A text may be a number by chance.
            [.., FieldKind::Text] => FieldKind::Text,
            _ => FieldKind::Other,
        };
        FieldSummary {
            name,
            kind,
            count,
            mean_length: self.length as f64 / count.max(1) as f64,
            values: self.values.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FieldKind::{Empty, Integer, List, Number, Text};
    use super::*;

    fn described(name: &str, content: &str) -> (Vec<FieldSummary>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        describe_fields(&path).unwrap()
    }

    fn kinds(fields: &[FieldSummary]) -> Vec<(&str, FieldKind)> {
        fields.iter().map(|field| (field.name.as_str(), field.kind)).collect()
    }

    #[test]
    fn json_lines_tell_their_kinds() {
        let (fields, rows) = described(
            "a.jsonl",
            "{\"text\": \"ab\", \"label\": 1, \"score\": 2, \"tags\": [\"O\", \"B\"], \"none\": null}\n{\"text\": \"7\", \"label\": 0, \"score\": 2.5, \"tags\": [\"O\"], \"none\": null}\n",
        );
        assert_eq!(rows, 2);
        assert_eq!(
            kinds(&fields),
            [
                ("text", Text),
                ("label", Integer),
                ("score", Number),
                ("tags", List),
                ("none", Empty)
            ]
        );
        assert_eq!(fields[1].values, ["0", "1"]);
        assert_eq!(fields[3].values, ["B", "O"]);
        // By hand: (2 + 1) / 2 characters, (2 + 1) / 2 items.
        assert_eq!((fields[0].mean_length, fields[3].mean_length), (1.5, 1.5));
    }

    #[test]
    fn numbers_of_csv_are_numbers() {
        let (fields, rows) = described("a.csv", "s,label,score\nx,1,0.5\n\"y,z\",2,1\n");
        assert_eq!(rows, 2);
        assert_eq!(kinds(&fields), [("s", Text), ("label", Integer), ("score", Number)]);
    }

    #[test]
    fn many_values_are_not_kept() {
        let rows: String = (0..300).map(|row| format!("{{\"id\": {row}}}\n")).collect();
        let (fields, rows) = described("a.jsonl", &rows);
        assert_eq!((rows, fields[0].count, fields[0].values.len()), (300, 300, 0));
    }

    #[test]
    fn an_empty_file_has_no_fields() {
        assert_eq!(described("a.jsonl", "\n"), (Vec::new(), 0));
    }
}
