//! CSV and TSV with a header line.

use std::io::{BufRead, Read};
use std::path::Path;

use crate::cell::{Cell, RawRow, Wanted};
use crate::error::{DataError, Place};
use crate::source::{Visit, open_text};

type VisitLine<'a> = dyn FnMut(usize, &[u8]) -> Result<bool, DataError> + 'a;

/// A record behind the last one. Where it doesn't arrive as a record of its own, an open quote has swallowed it, and rows before it.
const SENTINEL: &[u8] = b"\x01end of the rows\x01";

/// Reads RFC 4180 text: quoted fields may hold separators, doubled quotes and line ends.
pub(crate) fn read_csv(
    path: &Path,
    reader: impl Read,
    delimiter: u8,
    wanted: &[Wanted],
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let reader = reader.chain(&b"\n"[..]).chain(SENTINEL).chain(&b"\n"[..]);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        // The reader's own handling of CRLF counts a line late.
        .terminator(csv::Terminator::Any(b'\n'))
        .from_reader(reader);
    let mut columns: Option<Columns> = None;
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| failed(path, error))? {
        let inside = record.iter().flatten().filter(|&&byte| byte == b'\n').count();
        let line = (reader.position().line() as usize).saturating_sub(inside);
        let mut cells: Vec<&[u8]> = record.iter().collect();
        let Some(last) = cells.last_mut() else { continue };
        if last.strip_suffix(b"\n").is_some_and(|cell| cell.ends_with(SENTINEL)) {
            return Err(DataError::OpenQuote { place: Place::new(path, line) });
        }
        // A blank line with CRLF; one with LF is no record, and a quoted empty field is none of both.
        let blank = *last == b"\r" && record.len() == 1;
        *last = last.strip_suffix(b"\r").unwrap_or(last);
        // The record's own line end is behind the reader.
        let line = line.saturating_sub(1);
        match (cells.as_slice(), &columns) {
            ([SENTINEL], _) => break,
            _ if blank => {}
            (_, None) => columns = Some(Columns::find(path, line, &cells, wanted)?),
            (_, Some(columns)) => visit(columns.row(path, line, &cells)?)?,
        }
    }
    Ok(())
}

/// Reads TSV, which people write in two ways: with CSV quoting, and (GLUE) with quotes as plain characters.
///
/// Where every line splits at its tabs into as many fields as the header, lines are rows and only a field that is quoted as a whole loses
/// its quotes: a stray `"` never swallows the rows behind it. Any other file is read as CSV with tabs.
pub(crate) fn read_tsv(
    path: &Path,
    wanted: &[Wanted],
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    if !lines_are_rows(path)? {
        return read_csv(path, open_text(path)?, b'\t', wanted, visit);
    }
    let mut columns: Option<Columns> = None;
    each_line(path, &mut |line, content| {
        let cells: Vec<Vec<u8>> = content.split(|&byte| byte == b'\t').map(unquoted).collect();
        let cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
        match &columns {
            None => columns = Some(Columns::find(path, line, &cells, wanted)?),
            Some(columns) => visit(columns.row(path, line, &cells)?)?,
        }
        Ok(true)
    })
}

fn lines_are_rows(path: &Path) -> Result<bool, DataError> {
    let mut columns = None;
    let mut regular = true;
    each_line(path, &mut |_, content| {
        let count = content.split(|&byte| byte == b'\t').count();
        regular = *columns.get_or_insert(count) == count;
        Ok(regular)
    })?;
    Ok(regular)
}

/// Visits the lines that are not blank, without their ends, until `visit` says `false`.
fn each_line(path: &Path, visit: &mut VisitLine<'_>) -> Result<(), DataError> {
    let mut reader = open_text(path)?;
    let mut buffer = Vec::new();
    let mut line = 0;
    loop {
        buffer.clear();
        let read = reader.read_until(b'\n', &mut buffer);
        if read.map_err(|source| DataError::Read { path: path.to_owned(), source })? == 0 {
            return Ok(());
        }
        line += 1;
        let content = buffer.strip_suffix(b"\n").unwrap_or(&buffer);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        if !content.is_empty() && !visit(line, content)? {
            return Ok(());
        }
    }
}

/// The content of a field that is quoted as a whole, with its doubled quotes halved; any other field as it is.
fn unquoted(field: &[u8]) -> Vec<u8> {
    let inner = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let Some(inner) = inner else { return field.to_owned() };
    let mut content = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        // A lone quote inside means that the outer ones were plain characters too.
        if byte == b'"' && bytes.next() != Some(b'"') {
            return field.to_owned();
        }
        content.push(byte);
    }
    content
}

fn failed(path: &Path, error: csv::Error) -> DataError {
    let message = error.to_string();
    let source = match error.into_kind() {
        csv::ErrorKind::Io(source) => source,
        _ => std::io::Error::other(message),
    };
    DataError::Read { path: path.to_owned(), source }
}

/// Where the wanted fields are in each record.
struct Columns {
    count: usize,
    wanted: Vec<usize>,
}

impl Columns {
    fn find(
        path: &Path,
        line: usize,
        header: &[&[u8]],
        wanted: &[Wanted],
    ) -> Result<Self, DataError> {
        let place = Place::new(path, line);
        let name = |name: &&[u8]| String::from_utf8_lossy(name).trim().to_owned();
        let names: Vec<String> = header.iter().map(name).collect();
        let find = |field: &String| {
            let mut columns = (0..names.len()).filter(|&column| names[column] == *field);
            match (columns.next(), columns.next()) {
                (Some(column), None) => Ok(column),
                (Some(_), Some(_)) => {
                    Err(DataError::RepeatedField { place: place.clone(), field: field.clone() })
                }
                (None, _) => Err(DataError::MissingField {
                    place: place.clone(),
                    field: field.clone(),
                    found: names.clone(),
                }),
            }
        };
        let wanted = wanted.iter().map(|wanted| find(&wanted.name)).collect::<Result<_, _>>()?;
        Ok(Self { count: names.len(), wanted })
    }

    fn row(&self, path: &Path, line: usize, cells: &[&[u8]]) -> Result<RawRow, DataError> {
        let place = Place::new(path, line);
        if cells.len() != self.count {
            return Err(DataError::Columns { place, expected: self.count, found: cells.len() });
        }
        let text = |column: usize| match std::str::from_utf8(cells[column]) {
            Ok(text) => Ok(Cell::Text(text.to_owned())),
            Err(error) => {
                Err(DataError::NotUtf8 { place: place.clone(), column: error.valid_up_to() + 1 })
            }
        };
        let cells = self.wanted.iter().map(|&column| text(column)).collect::<Result<_, _>>()?;
        Ok(RawRow { line, cells })
    }
}
