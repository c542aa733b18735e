//! Rows of words with a tag each, for token classification.

use std::path::Path;

use crate::cell::{Cell, RawRow, Wanted};
use crate::error::{DataError, Place};
use crate::label::{LabelRead, read_label};
use crate::row_error::RowError;
use crate::{conll, source};

/// The index that says "this word is not judged" where tags are positions, as PyTorch's losses have it.
const NOT_JUDGED: i64 = -100;

/// Which fields hold the words and their tags; a file with columns has no names, so there they are the first and the last column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordFields {
    /// The list of words.
    pub words: String,
    /// The list of tags; without it only words are read.
    pub tags: Option<String>,
}

/// One checked sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordRow {
    /// Line in a text file (the first of the sentence) or row in a Parquet file, from 1.
    pub line: usize,
    /// The words; there may be none.
    pub words: Vec<String>,
    /// Tag of each word as its logit index, `None` for one that is not judged; empty when tags were not read.
    pub tags: Vec<Option<usize>>,
}

/// All sentences of a data file, in file order.
#[derive(Debug, Clone)]
pub struct WordRows {
    /// The rows; never empty.
    pub rows: Vec<WordRow>,
    /// BLAKE3 (hex) of words and tags in order, whatever the format.
    pub fingerprint: String,
    /// What a person should know about the data, in words.
    pub notes: Vec<String>,
}

impl WordRows {
    /// Reads and checks a data file.
    ///
    /// - `path`: `.jsonl` or `.parquet` with lists, or lines of words (`.conll`, `.bio`, `.iob`, `.iob2`, `.tsv`, `.txt`): a word first,
    ///   its tag last, an empty line behind each sentence.
    /// - `labels`: tag names by logit index.
    ///
    /// The first bad row ends the reading with an error that names it.
    pub fn load(path: &Path, fields: &WordFields, labels: &[String]) -> Result<Self, DataError> {
        let mut reader = Reader { path, fields, labels, columns: false, rows: Vec::new() };
        match source::extension(path).as_str() {
            "conll" | "bio" | "iob" | "iob2" | "tsv" | "txt" => {
                reader.columns = true;
                let tags = fields.tags.as_ref().map(|_| labels);
                conll::read(path, tags, &mut |raw| reader.add(raw))?;
            }
            "csv" => {
                return Err(RowError::FlatFormat {
                    place: Place::new(path, 1),
                    extension: "csv".into(),
                    what: "lists of words and tags",
                    help: "write .jsonl, .parquet or .conll",
                }
                .into());
            }
            _ => {
                let mut wanted = vec![Wanted::required(&fields.words)];
                wanted.extend(fields.tags.as_deref().map(Wanted::required));
                source::read(path, &wanted, &mut |raw| reader.add(raw))?;
            }
        }
        reader.finish()
    }
}

struct Reader<'a> {
    path: &'a Path,
    fields: &'a WordFields,
    labels: &'a [String],
    /// Whether every word has a line of its own.
    columns: bool,
    rows: Vec<WordRow>,
}

impl Reader<'_> {
    fn add(&mut self, raw: RawRow) -> Result<(), DataError> {
        let line = raw.line;
        let mut cells = raw.cells.into_iter();
        let words = self.words(cells.next().unwrap_or(Cell::Absent), line)?;
        let tags = match &self.fields.tags {
            Some(field) => self.tags(cells.next().unwrap_or(Cell::Absent), line, field)?,
            None => Vec::new(),
        };
        if let Some(tags_field) = &self.fields.tags
            && tags.len() != words.len()
        {
            return Err(RowError::TagCount {
                place: Place::new(self.path, line),
                words_field: self.fields.words.clone(),
                words: words.len(),
                tags_field: tags_field.clone(),
                tags: tags.len(),
            }
            .into());
        }
        self.rows.push(WordRow { line, words, tags });
        Ok(())
    }

    fn list(
        &self,
        cell: Cell,
        line: usize,
        field: &str,
        what: &'static str,
    ) -> Result<Vec<Cell>, DataError> {
        match cell {
            Cell::List(cells) => Ok(cells),
            other => Err(RowError::NotList {
                place: Place::new(self.path, line),
                field: field.to_owned(),
                value: other.to_string(),
                what,
            }
            .into()),
        }
    }

    fn words(&self, cell: Cell, line: usize) -> Result<Vec<String>, DataError> {
        let field = &self.fields.words;
        let word = |(index, cell)| match cell {
            Cell::Text(word) => Ok(word),
            other => Err(RowError::Word {
                place: Place::new(self.path, line),
                field: field.clone(),
                index,
                value: other.to_string(),
            }
            .into()),
        };
        self.list(cell, line, field, "words")?.into_iter().enumerate().map(word).collect()
    }

    fn tags(&self, cell: Cell, line: usize, field: &str) -> Result<Vec<Option<usize>>, DataError> {
        let cells = self.list(cell, line, field, "tags")?;
        let name = cells.iter().find(|cell| matches!(cell, Cell::Text(_)));
        let position = cells.iter().find(|cell| matches!(cell, Cell::Integer(_)));
        if let (Some(name), Some(position)) = (name, position) {
            return Err(RowError::MixedTags {
                place: Place::new(self.path, line),
                field: field.to_owned(),
                name: name.to_string(),
                position: position.to_string(),
            }
            .into());
        }
        let tag = |(index, cell): (usize, &Cell)| match (cell, read_label(cell, self.labels)) {
            (Cell::Integer(NOT_JUDGED), _) => Ok(None),
            (_, LabelRead::Index { index, .. }) => Ok(Some(index)),
            _ => Err(RowError::BadTag {
                place: Place::new(self.path, line + if self.columns { index } else { 0 }),
                field: field.to_owned(),
                index,
                value: cell.to_string(),
                known: self.labels.to_vec(),
            }
            .into()),
        };
        cells.iter().enumerate().map(tag).collect()
    }

    fn finish(self) -> Result<WordRows, DataError> {
        if self.rows.is_empty() {
            return Err(DataError::Empty { path: self.path.to_owned() });
        }
        let count = self.rows.len();
        let mut notes = Vec::new();
        let empty = self.rows.iter().filter(|row| row.words.is_empty()).count();
        if empty > 0 {
            notes.push(format!("{empty} of {count} rows have no words"));
        }
        let unjudged = |row: &WordRow| row.tags.iter().filter(|tag| tag.is_none()).count();
        let unjudged: usize = self.rows.iter().map(unjudged).sum();
        if unjudged > 0 {
            notes.push(format!("{unjudged} words have the tag {NOT_JUDGED} and are not judged"));
        }
        Ok(WordRows { fingerprint: fingerprint(&self.rows), rows: self.rows, notes })
    }
}

fn fingerprint(rows: &[WordRow]) -> String {
    let mut hasher = blake3::Hasher::new();
    for row in rows {
        hasher.update(&(row.words.len() as u64).to_le_bytes());
        hasher.update(&(row.tags.len() as u64).to_le_bytes());
        for word in &row.words {
            hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
        }
        for tag in &row.tags {
            hasher.update(&tag.map_or(u64::MAX, |tag| tag as u64).to_le_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}
