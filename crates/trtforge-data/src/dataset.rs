//! A data file as checked rows: texts, and labels as logit indices.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::cell::{Cell, RawRow};
use crate::error::{DataError, Place};
use crate::label::{LabelRead, has_numeric_name, read_label};
use crate::{delimited, jsonl, parquet_rows};

/// Which fields of a file hold what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// The text, or the first of two.
    pub text: String,
    /// The second text of a pair task.
    pub text_pair: Option<String>,
    /// The label.
    pub label: Option<String>,
}

impl Fields {
    /// Only a text, as calibration needs.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), text_pair: None, label: None }
    }

    /// A text and its label.
    pub fn labelled(text: impl Into<String>, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..Self::text(text) }
    }
}

/// One checked row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Line in a text file or row in a Parquet file, 1-based: for messages.
    pub line: usize,
    /// The text; it may be empty.
    pub text: String,
    /// The second text, where the fields name one.
    pub text_pair: Option<String>,
    /// The label as its logit index, where the row has one.
    pub label: Option<usize>,
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
        let mut visit = |raw| collector.add(raw);
        match Format::of(path)? {
            Format::Jsonl => jsonl::read(path, open_text(path)?, fields, &mut visit)?,
            Format::Csv => delimited::read_csv(path, open_text(path)?, b',', fields, &mut visit)?,
            Format::Tsv => delimited::read_tsv(path, fields, &mut visit)?,
            Format::Parquet => parquet_rows::read(path, fields, &mut visit)?,
        }
        collector.finish()
    }
}

enum Format {
    Jsonl,
    Csv,
    Tsv,
    Parquet,
}

impl Format {
    fn of(path: &Path) -> Result<Self, DataError> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "jsonl" | "ndjson" | "json" => Ok(Self::Jsonl),
            "csv" => Ok(Self::Csv),
            "tsv" => Ok(Self::Tsv),
            "parquet" => Ok(Self::Parquet),
            _ => Err(DataError::UnknownFormat { path: path.to_owned() }),
        }
    }
}

/// Opens a text file behind its byte-order mark, if it has one.
pub(crate) fn open_text(path: &Path) -> Result<BufReader<File>, DataError> {
    let failed = |source| DataError::Read { path: path.to_owned(), source };
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    // A regular file fills the buffer or ends, so the mark is never split.
    let start = reader.fill_buf().map_err(failed)?;
    let other = match start {
        [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => Some("UTF-32"),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => Some("UTF-16"),
        _ => None,
    };
    if let Some(encoding) = other {
        return Err(DataError::OtherEncoding { path: path.to_owned(), encoding });
    }
    let mark = if start.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    reader.consume(mark);
    Ok(reader)
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
        let text = self.text(raw.text, raw.line, &self.fields.text)?;
        let text_pair = match (raw.text_pair, &self.fields.text_pair) {
            (Some(cell), Some(field)) => Some(self.text(cell, raw.line, field)?),
            _ => None,
        };
        let label = match (raw.label, &self.fields.label) {
            (Some(cell), Some(field)) => self.label(&cell, raw.line, field)?,
            _ if self.require_labels => {
                return Err(self.no_label(raw.line, "label", "no field named"));
            }
            _ => None,
        };
        if is_blank(&text) && text_pair.as_deref().is_none_or(is_blank) {
            self.counts.blank += 1;
        }
        let row = Row { line: raw.line, text, text_pair, label };
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
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
    })
}
