//! SQuAD's own JSON: articles of paragraphs of questions, in one object.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::cell::{Cell, RawRow};
use crate::error::{DataError, Place};
use crate::jsonl::without_position;
use crate::questions::QuestionFields;
use crate::row_error::RowError;
use crate::source::{Visit, open_text};

#[derive(Deserialize)]
struct File {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: Cell,
    qas: Vec<Cell>,
}

#[derive(Deserialize)]
struct Head {
    data: Option<IgnoredAny>,
}

/// Whether a file is SQuAD's own. What is wrong with one that is not is said by who reads it.
pub(crate) fn is_squad_file(path: &Path) -> Result<bool, DataError> {
    let mut text = String::new();
    match open_text(path)?.read_to_string(&mut text) {
        Ok(_) => Ok(is_squad(&text)),
        Err(_) => Ok(false),
    }
}

/// Gives every question to `visit`: question, context, answers.
///
/// - returns: whether the file is SQuAD's; if not, nothing was visited.
pub(crate) fn read(
    path: &Path,
    fields: &QuestionFields,
    visit: &mut Visit<'_>,
) -> Result<bool, DataError> {
    let mut bytes = Vec::new();
    let read = open_text(path)?.read_to_end(&mut bytes);
    read.map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        DataError::NotUtf8 {
            place: Place::new(path, lines(before) + 1),
            column: before.len() - line_start + 1,
        }
    })?;
    if !is_squad(text) {
        return Ok(false);
    }
    let file: File = serde_json::from_str(text).map_err(|error| {
        let message = format!("column {}: {}", error.column(), without_position(&error));
        RowError::Squad { place: Place::new(path, error.line()), message }
    })?;
    let mut lines = question_lines(text).into_iter();
    for paragraph in file.data.into_iter().flat_map(|article| article.paragraphs) {
        for question in paragraph.qas {
            let place = Place::new(path, lines.next().unwrap_or(1));
            visit(row(question, &paragraph.context, &place, fields)?)?;
        }
    }
    Ok(true)
}

/// Whether the first value of the file has `data`; a damaged one is told by its `paragraphs`.
fn is_squad(text: &str) -> bool {
    match serde_json::Deserializer::from_str(text).into_iter::<Head>().next() {
        Some(Ok(head)) => head.data.is_some(),
        _ => text.contains("\"paragraphs\""),
    }
}

fn row(
    mut question: Cell,
    context: &Cell,
    place: &Place,
    fields: &QuestionFields,
) -> Result<RawRow, DataError> {
    let squad = |message: String| RowError::Squad { place: place.clone(), message };
    if !matches!(question, Cell::Object(_)) {
        return Err(squad(format!("a question in `qas` is {question}, not an object")).into());
    }
    let impossible = question.take("is_impossible") == Cell::Bool(true);
    let text = question.take(&fields.question);
    if text == Cell::Absent {
        return Err(squad(format!("a question in `qas` has no field `{}`", fields.question)).into());
    }
    let answers = match &fields.answers {
        None => Cell::Absent,
        // What stands there is what a reader might take for one.
        Some(_) if impossible => Cell::Null,
        Some(field) => match question.take(field) {
            Cell::Absent => {
                return Err(squad(format!("a question in `qas` has no field `{field}`")).into());
            }
            cell => cell,
        },
    };
    Ok(RawRow { line: place.line, cells: vec![text, context.clone(), answers] })
}

/// The line of every question, from 1: of every value in a list `qas` of a paragraph.
///
/// - `text`: valid JSON. The parser doesn't say where it stands, so this walks along the brackets.
fn question_lines(text: &str) -> Vec<usize> {
    // Root, `data`, article, `paragraphs`, paragraph, `qas`.
    const QUESTIONS: usize = 6;
    let bytes = text.as_bytes();
    let (mut line, mut depth, mut at) = (1, 0, 0);
    let (mut last_text, mut inside_questions) = ("", false);
    let mut found = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => line += 1,
            b'"' => {
                let end = string_end(bytes, at);
                last_text = text.get(at + 1..end).unwrap_or_default();
                at = end;
            }
            b'[' | b'{' => {
                if inside_questions && depth == QUESTIONS && byte == b'{' {
                    found.push(line);
                }
                depth += 1;
                inside_questions |= depth == QUESTIONS && byte == b'[' && last_text == "qas";
            }
            b']' | b'}' => {
                inside_questions &= depth != QUESTIONS;
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Position of the quote that ends the string beginning at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn lines(bytes: &[u8]) -> usize {
    bytes.split(|&byte| byte == b'\n').count() - 1
}
