//! A data file as checked rows: texts, and labels as logit indices.

use std::collections::HashMap;
use std::path::Path;

use crate::cell::{Cell, RawRow, Wanted};
use crate::error::{DataError, Place};
use crate::label::{LabelRead, has_numeric_name, read_label};
use crate::row_error::RowError;
use crate::source;

/// Which fields of a file hold what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// The text, or the first of two.
    pub text: String,
    /// The second text of a pair task.
    pub text_pair: Option<String>,
    /// The label.
    pub label: Option<String>,
    /// How alike the two texts are, a number on any scale.
    pub score: Option<String>,
}

impl Fields {
    /// Only a text, as calibration needs.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), text_pair: None, label: None, score: None }
    }

    /// A text and its label.
    pub fn labelled(text: impl Into<String>, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..Self::text(text) }
    }

    /// The fields in the order in which a row's cells are taken.
    fn wanted(&self) -> Vec<Wanted> {
        let texts = [Some(&self.text), self.text_pair.as_ref()].into_iter().flatten();
        let others = [self.label.as_ref(), self.score.as_ref()].into_iter().flatten();
        texts
            .map(|name| Wanted::required(name))
            .chain(others.map(|name| Wanted::optional(name)))
            .collect()
    }
}

/// One checked row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Line in a text file or row in a Parquet file, 1-based: for messages.
    pub line: usize,
    /// The text; it may be empty.
    pub text: String,
    /// The second text, where the fields name one.
    pub text_pair: Option<String>,
    /// The label as its logit index, where the row has one.
    pub label: Option<usize>,
    /// How alike the two texts are, where the fields name a score; finite.
    pub score: Option<f64>,
}

/// All rows of a data file, in file order.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The rows; never empty.
    pub rows: Vec<Row>,
    /// BLAKE3 (hex) of the rows' texts and labels in order. It doesn't depend on the file's format, name or other fields.
    pub fingerprint: String,
    /// What a person should know about the data, in words.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Reads and checks a data file.
    ///
    /// - `path`: `.jsonl` (or `.ndjson`, `.json` with one object a line), `.csv`, `.tsv` or `.parquet`, by extension. A byte-order mark,
    ///   CRLF line ends and blank lines change nothing.
    /// - `labels`: label names by logit index; `None` accepts any non-negative integer.
    /// - `require_labels`: whether a row without a label is an error.
    ///
    /// The first bad row ends the reading with an error that names it.
    pub fn load(
        path: &Path,
        fields: &Fields,
        labels: Option<&[String]>,
        require_labels: bool,
    ) -> Result<Self, DataError> {
        let known = labels.unwrap_or_default();
        let mut collector = Collector::new(path, fields, known, require_labels);
        source::read(path, &fields.wanted(), &mut |raw| collector.add(raw))?;
        collector.finish()
    }
}

/// Checks raw rows one by one and keeps what later stages need.
struct Collector<'a> {
    path: &'a Path,
    fields: &'a Fields,
    known: &'a [String],
    require_labels: bool,
    rows: Vec<Row>,
    hasher: blake3::Hasher,
    /// 128 bits of a text's hash, with its first label: enough to count repeats without keeping texts twice.
    seen: HashMap<[u8; 16], Option<usize>>,
    counts: Counts,
}

/// What becomes a note.
#[derive(Default)]
struct Counts {
    blank: usize,
    loose_labels: usize,
    integer_labels: usize,
    repeated: usize,
    contradicting: usize,
}

impl<'a> Collector<'a> {
    fn new(path: &'a Path, fields: &'a Fields, known: &'a [String], require_labels: bool) -> Self {
        Self {
            path,
            fields,
            known,
            require_labels,
            rows: Vec::new(),
            hasher: blake3::Hasher::new(),
            seen: HashMap::new(),
            counts: Counts::default(),
        }
    }

    fn add(&mut self, raw: RawRow) -> Result<(), DataError> {
        let (line, fields) = (raw.line, self.fields);
        let mut cells = raw.cells.into_iter();
        let mut next = || cells.next().unwrap_or(Cell::Absent);
        let text = self.text(next(), line, &fields.text)?;
        let text_pair = match &fields.text_pair {
            Some(field) => Some(self.text(next(), line, field)?),
            None => None,
        };
        let label = match &fields.label {
            Some(field) => self.label(&next(), line, field)?,
            None if self.require_labels => {
                return Err(self.no_label(line, "label", "no field named"));
            }
            None => None,
        };
        let score = match &fields.score {
            Some(field) => Some(self.score(&next(), line, field)?),
            None => None,
        };
        if is_blank(&text) && text_pair.as_deref().is_none_or(is_blank) {
            self.counts.blank += 1;
        }
        let row = Row { line, text, text_pair, label, score };
        self.note_repeat(&row);
        self.rows.push(row);
        Ok(())
    }

    fn text(&self, cell: Cell, line: usize, field: &str) -> Result<String, DataError> {
        match cell {
            Cell::Text(text) => Ok(text),
            other => Err(DataError::NotText {
                place: Place::new(self.path, line),
                field: field.to_owned(),
                value: other.to_string(),
            }),
        }
    }

    fn label(&mut self, cell: &Cell, line: usize, field: &str) -> Result<Option<usize>, DataError> {
        match read_label(cell, self.known) {
            LabelRead::Index { index, loosely } => {
                self.counts.loose_labels += usize::from(loosely);
                self.counts.integer_labels += usize::from(matches!(cell, Cell::Integer(_)));
                Ok(Some(index))
            }
            LabelRead::Missing(value) if self.require_labels => {
                Err(self.no_label(line, field, value))
            }
            LabelRead::Missing(_) => Ok(None),
            LabelRead::Bad => Err(DataError::BadLabel {
                place: Place::new(self.path, line),
                field: field.to_owned(),
                value: cell.to_string(),
                known: self.known.to_vec(),
            }),
        }
    }

    /// A number, or a text that is one: CSV holds nothing else.
    fn score(&self, cell: &Cell, line: usize, field: &str) -> Result<f64, DataError> {
        let score = match cell {
            Cell::Integer(value) => *value as f64,
            Cell::Float(value) => *value,
            Cell::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
            _ => f64::NAN,
        };
        if score.is_finite() {
            return Ok(score);
        }
        let place = Place::new(self.path, line);
        Err(RowError::Score { place, field: field.to_owned(), value: cell.to_string() }.into())
    }

    fn no_label(&self, line: usize, field: &str, value: &'static str) -> DataError {
        DataError::MissingLabel {
            place: Place::new(self.path, line),
            field: field.to_owned(),
            value,
            known: self.known.to_vec(),
        }
    }

    /// Adds the row to the fingerprint and counts it when its texts were there before.
    fn note_repeat(&mut self, row: &Row) {
        let mut content = blake3::Hasher::new();
        for text in [Some(row.text.as_str()), row.text_pair.as_deref()] {
            // Lengths keep ("ab", "c") apart from ("a", "bc"), and an absent pair apart from an empty one.
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            content.update(&length.to_le_bytes()).update(text.unwrap_or_default().as_bytes());
        }
        let content = content.finalize();
        let label = row.label.map_or(u64::MAX, |label| label as u64);
        self.hasher.update(content.as_bytes()).update(&label.to_le_bytes());
        if let Some(score) = row.score {
            self.hasher.update(&score.to_le_bytes());
        }
        let mut key = [0; 16];
        key.copy_from_slice(&content.as_bytes()[..16]);
        match self.seen.get(&key) {
            None => {
                self.seen.insert(key, row.label);
            }
            Some(first) => {
                self.counts.repeated += 1;
                self.counts.contradicting += usize::from(*first != row.label);
            }
        }
    }

    fn finish(self) -> Result<Dataset, DataError> {
        if self.rows.is_empty() {
            return Err(DataError::Empty { path: self.path.to_owned() });
        }
        let notes = self.counts.notes(self.rows.len(), self.known);
        Ok(Dataset {
            rows: self.rows,
            fingerprint: self.hasher.finalize().to_hex().to_string(),
            notes,
        })
    }
}

impl Counts {
    fn notes(&self, rows: usize, known: &[String]) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: usize, what: &str| {
            if count > 0 {
                notes.push(format!("{count} of {rows} rows {what}"));
            }
        };
        note(self.blank, "have no visible text; they are kept as empty texts");
        note(self.repeated, "repeat the text of an earlier row");
        note(self.contradicting, "repeat an earlier text with another label");
        note(self.loose_labels, "give the label as 1.0 or \"1\"; read as the position 1");
        if has_numeric_name(known) {
            note(
                self.integer_labels,
                "give the label as an integer: it is a position, although label names are numbers",
            );
        }
        notes
    }
}

/// Whether nothing of a text is visible: white space, control and format characters (zero-width space, direction marks) only.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
    })
}
