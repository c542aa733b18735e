//! Files of columns as the CoNLL shared tasks have them: a word and its tag a line, an empty line behind each sentence.

use std::io::BufRead;
use std::path::Path;

use crate::cell::{Cell, RawRow};
use crate::error::{DataError, Place};
use crate::row_error::RowError;
use crate::source::{Visit, open_text};

/// Gives every sentence to `visit` as two lists: the first and the last column of its lines.
///
/// `-DOCSTART-` lines separate documents and hold no word. A line that starts with `#` before the first word of a sentence is a comment
/// unless its last column is a tag: `#` is also a word.
///
/// - `tags`: the known tags; `None` when tags are not read, and a line may then be a word alone.
pub(crate) fn read(
    path: &Path,
    tags: Option<&[String]>,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let is_tag = |last: &str| tags.is_some_and(|tags| tags.iter().any(|tag| tag == last));
    let mut reader = open_text(path)?;
    let mut sentence = Sentence::default();
    let mut buffer = Vec::new();
    let mut line = 0;
    loop {
        buffer.clear();
        let read = reader.read_until(b'\n', &mut buffer);
        if read.map_err(|source| DataError::Read { path: path.to_owned(), source })? == 0 {
            return sentence.end(visit);
        }
        line += 1;
        let place = Place::new(path, line);
        let text = std::str::from_utf8(&buffer).map_err(|error| DataError::NotUtf8 {
            place: place.clone(),
            column: error.valid_up_to() + 1,
        })?;
        let columns = columns(text);
        match columns.as_slice() {
            [] | ["-DOCSTART-", ..] => sentence.end(visit)?,
            [first, .., last]
                if first.starts_with('#') && sentence.words.is_empty() && !is_tag(last) => {}
            [word] if tags.is_none() => sentence.add(line, word, ""),
            [only] => {
                let value = Cell::Text((*only).to_owned()).to_string();
                return Err(RowError::OneColumn { place, value }.into());
            }
            [word, .., tag] => sentence.add(line, word, tag),
        }
    }
}

/// The columns of a line. Where there are tabs, they alone separate, since a word may then hold a space.
fn columns(text: &str) -> Vec<&str> {
    let text = text.trim_end_matches(['\r', '\n']);
    if text.trim().is_empty() {
        return Vec::new();
    }
    if text.contains('\t') {
        return text.split('\t').map(str::trim).collect();
    }
    // Only ASCII blanks: a no-break space may be a word's.
    text.split([' ']).filter(|column| !column.is_empty()).collect()
}

#[derive(Default)]
struct Sentence {
    line: usize,
    words: Vec<Cell>,
    tags: Vec<Cell>,
}

impl Sentence {
    fn add(&mut self, line: usize, word: &str, tag: &str) {
        if self.words.is_empty() {
            self.line = line;
        }
        self.words.push(Cell::Text(word.to_owned()));
        self.tags.push(Cell::Text(tag.to_owned()));
    }

    fn end(&mut self, visit: &mut Visit<'_>) -> Result<(), DataError> {
        if self.words.is_empty() {
            return Ok(());
        }
        let Sentence { line, words, tags } = std::mem::take(self);
        visit(RawRow { line, cells: vec![Cell::List(words), Cell::List(tags)] })
    }
}
