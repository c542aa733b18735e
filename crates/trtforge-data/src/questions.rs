//! Rows of a question, the context it is asked about, and the right answers.

use std::path::Path;

use crate::cell::{Cell, RawRow, Wanted};
use crate::dataset::is_blank;
use crate::error::{DataError, Place};
use crate::row_error::RowError;
use crate::{source, squad};

/// Which fields hold what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionFields {
    /// The question.
    pub question: String,
    /// The text that holds the answer.
    pub context: String,
    /// The right answers; without it only questions and contexts are read.
    pub answers: Option<String>,
}

/// One checked question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionRow {
    /// Line in a text file or row in a Parquet file, from 1.
    pub line: usize,
    /// The question; it may be empty.
    pub question: String,
    /// The text that holds the answer; never blank.
    pub context: String,
    /// Every right answer; none for a question that has none.
    pub answers: Vec<String>,
}

/// All questions of a data file, in file order.
#[derive(Debug, Clone)]
pub struct QuestionRows {
    /// The rows; never empty.
    pub rows: Vec<QuestionRow>,
    /// BLAKE3 (hex) of questions, contexts and answers in order, whatever the format.
    pub fingerprint: String,
    /// What a person should know about the data, in words.
    pub notes: Vec<String>,
}

impl QuestionRows {
    /// Reads and checks a data file.
    ///
    /// - `path`: `.jsonl` or `.parquet` with one question a row, or SQuAD's own nested `.json`.
    /// - `no_answer`: whether a question may have no answer.
    ///
    /// An answer's start counts Unicode code points of the context, as SQuAD's does; where it is given, the answer must stand there.
    pub fn load(path: &Path, fields: &QuestionFields, no_answer: bool) -> Result<Self, DataError> {
        let mut reader = Reader { path, fields, no_answer, rows: Vec::new() };
        match source::extension(path).as_str() {
            extension @ ("csv" | "tsv") => {
                return Err(RowError::FlatFormat {
                    place: Place::new(path, 1),
                    extension: extension.to_owned(),
                    what: "lists of answers",
                    help: "write .jsonl, .parquet or SQuAD's .json",
                }
                .into());
            }
            "json" if squad::read(path, fields, &mut |raw| reader.add(raw))? => {}
            _ => {
                let mut wanted =
                    vec![Wanted::required(&fields.question), Wanted::required(&fields.context)];
                wanted.extend(fields.answers.as_deref().map(Wanted::required));
                source::read(path, &wanted, &mut |raw| reader.add(raw))?;
            }
        }
        reader.finish()
    }
}

struct Reader<'a> {
    path: &'a Path,
    fields: &'a QuestionFields,
    no_answer: bool,
    rows: Vec<QuestionRow>,
}

impl Reader<'_> {
    fn add(&mut self, raw: RawRow) -> Result<(), DataError> {
        let place = Place::new(self.path, raw.line);
        let mut cells = raw.cells.into_iter();
        let mut next = || cells.next().unwrap_or(Cell::Absent);
        let question = text(next(), &place, &self.fields.question)?;
        let context = text(next(), &place, &self.fields.context)?;
        if is_blank(&context) {
            return Err(RowError::EmptyContext { place, field: self.fields.context.clone() }.into());
        }
        let answers = match &self.fields.answers {
            Some(field) => {
                let found = answers(next(), &context, &place, field)?;
                if found.is_empty() && !self.no_answer {
                    return Err(RowError::NoAnswer { place, field: field.clone() }.into());
                }
                found
            }
            None => Vec::new(),
        };
        self.rows.push(QuestionRow { line: place.line, question, context, answers });
        Ok(())
    }

    fn finish(self) -> Result<QuestionRows, DataError> {
        if self.rows.is_empty() {
            return Err(DataError::Empty { path: self.path.to_owned() });
        }
        let count = self.rows.len();
        let mut notes = Vec::new();
        let blank = self.rows.iter().filter(|row| is_blank(&row.question)).count();
        if blank > 0 {
            notes.push(format!("{blank} of {count} questions have no visible text"));
        }
        let open = self.rows.iter().filter(|row| row.answers.is_empty()).count();
        if open > 0 && self.fields.answers.is_some() {
            notes.push(format!("{open} of {count} questions have no answer"));
        }
        Ok(QuestionRows { fingerprint: fingerprint(&self.rows), rows: self.rows, notes })
    }
}

fn fingerprint(rows: &[QuestionRow]) -> String {
    let mut hasher = blake3::Hasher::new();
    for row in rows {
        hasher.update(&(row.answers.len() as u64).to_le_bytes());
        for text in [&row.question, &row.context].into_iter().chain(&row.answers) {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn text(cell: Cell, place: &Place, field: &str) -> Result<String, DataError> {
    match cell {
        Cell::Text(text) => Ok(text),
        other => Err(DataError::NotText {
            place: place.clone(),
            field: field.to_owned(),
            value: other.to_string(),
        }),
    }
}

/// Reads the answers in every form that is about: `{text: […], answer_start: […]}`, a list of `{text, answer_start}`, a list of texts, a
/// text. Nothing, null, and empty texts are no answers.
fn answers(
    cell: Cell,
    context: &str,
    place: &Place,
    field: &str,
) -> Result<Vec<String>, DataError> {
    let (texts, starts) = match cell {
        Cell::Absent | Cell::Null => return Ok(Vec::new()),
        mut object @ Cell::Object(_) => {
            (list(object.take("text")), list(object.take("answer_start")))
        }
        Cell::List(mut items) if items.iter().any(|item| matches!(item, Cell::Object(_))) => {
            let texts = items.iter_mut().map(|item| item.take("text")).collect();
            let starts = items.iter_mut().map(|item| item.take("answer_start"));
            (texts, starts.filter(|start| *start != Cell::Absent).collect())
        }
        other => (list(other), Vec::new()),
    };
    if !starts.is_empty() && starts.len() != texts.len() {
        let (texts, starts) = (texts.len(), starts.len());
        return Err(RowError::AnswerCount {
            place: place.clone(),
            field: field.into(),
            texts,
            starts,
        }
        .into());
    }
    let bad = |cell: &Cell| -> DataError {
        let (place, field) = (place.clone(), field.to_owned());
        RowError::Answers { place, field, value: cell.to_string() }.into()
    };
    let mut found = Vec::with_capacity(texts.len());
    for (index, cell) in texts.into_iter().enumerate() {
        let Cell::Text(answer) = cell else { return Err(bad(&cell)) };
        if answer.is_empty() {
            continue;
        }
        match starts.get(index) {
            None => {}
            Some(Cell::Integer(start)) => check_start(&answer, *start, context, place, field)?,
            Some(other) => return Err(bad(other)),
        }
        found.push(answer);
    }
    Ok(found)
}

fn list(cell: Cell) -> Vec<Cell> {
    match cell {
        Cell::List(cells) => cells,
        Cell::Absent | Cell::Null => Vec::new(),
        one => vec![one],
    }
}

/// Proves that the answer begins at its start.
fn check_start(
    answer: &str,
    start: i64,
    context: &str,
    place: &Place,
    field: &str,
) -> Result<(), DataError> {
    let at = usize::try_from(start).ok();
    // One position behind the last character is a place too, of nothing.
    let byte = at
        .and_then(|at| context.char_indices().map(|(byte, _)| byte).chain([context.len()]).nth(at));
    if byte.is_some_and(|byte| context[byte..].starts_with(answer)) {
        return Ok(());
    }
    let found = match byte.map(|byte| &context[byte..]) {
        None | Some("") => "no text".to_owned(),
        Some(rest) => Cell::Text(rest.chars().take(answer.chars().count()).collect()).to_string(),
    };
    Err(RowError::AnswerStart {
        place: place.clone(),
        field: field.to_owned(),
        answer: answer.chars().take(60).collect(),
        start,
        found,
        help: start_help(answer, at, context),
    }
    .into())
}

/// What a wrong start may mean.
fn start_help(answer: &str, start: Option<usize>, context: &str) -> String {
    let counted = "`answer_start` counts Unicode characters (code points) from 0";
    let bytes = start.and_then(|start| context.get(start..));
    if bytes.is_some_and(|rest| rest.starts_with(answer)) {
        return format!("{counted}; this one fits as an offset in UTF-8 bytes: convert it");
    }
    let units: Vec<u16> = context.encode_utf16().collect();
    let wanted: Vec<u16> = answer.encode_utf16().collect();
    let wide = start.and_then(|start| units.get(start..));
    if wide.is_some_and(|rest| rest.starts_with(&wanted)) {
        return format!("{counted}; this one fits as an offset in UTF-16 units: convert it");
    }
    match context.find(answer) {
        Some(byte) => {
            format!("{counted}; the answer stands at {}", context[..byte].chars().count())
        }
        None => format!("{counted}; the answer is no part of the context"),
    }
}
