//! CSV and TSV with a header line.

use std::io::{BufRead, Read};
use std::path::Path;

use crate::cell::{Cell, RawRow};
use crate::dataset::{Fields, open_text};
use crate::error::{DataError, Place};

type Visit<'a> = dyn FnMut(RawRow) -> Result<(), DataError> + 'a;

/// Reads RFC 4180 text: quoted fields may hold separators, doubled quotes and line ends.
pub(crate) fn read_csv(
    path: &Path,
    reader: impl Read,
    delimiter: u8,
    fields: &Fields,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(reader);
    let header = reader.byte_headers().map_err(|error| failed(path, error))?.clone();
    if header.is_empty() {
        return Ok(());
    }
    let columns = Columns::find(path, header.iter(), fields)?;
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(|error| failed(path, error))? {
        let line = record.position().map_or(0, csv::Position::line) as usize;
        visit(columns.row(path, line, record.len(), &|column| record.get(column))?)?;
    }
    Ok(())
}

/// Reads TSV, which people write in two ways: with CSV quoting, and (GLUE) with quotes as plain characters.
///
/// Where every line splits at its tabs into as many fields as the header, quotes cannot hide a tab or a line end, so lines are rows and
/// only a field that is quoted as a whole loses its quotes: a stray `"` never swallows the rows behind it.
pub(crate) fn read_tsv(
    path: &Path,
    fields: &Fields,
    visit: &mut Visit<'_>,
) -> Result<(), DataError> {
    if !lines_are_rows(path)? {
        return read_csv(path, open_text(path)?, b'\t', fields, visit);
    }
    let mut columns: Option<Columns> = None;
    each_line(path, &mut |line, content| {
        let cells: Vec<Vec<u8>> = content.split(|&byte| byte == b'\t').map(unquoted).collect();
        match &columns {
            None => {
                columns = Some(Columns::find(path, cells.iter().map(Vec::as_slice), fields)?);
                Ok(true)
            }
            Some(columns) => {
                let cell = |column: usize| cells.get(column).map(Vec::as_slice);
                visit(columns.row(path, line, cells.len(), &cell)?)?;
                Ok(true)
            }
        }
    })
}

fn lines_are_rows(path: &Path) -> Result<bool, DataError> {
    let mut tabs = None;
    let mut regular = true;
    each_line(path, &mut |_, content| {
        let count = content.iter().filter(|&&byte| byte == b'\t').count();
        regular = *tabs.get_or_insert(count) == count;
        Ok(regular)
    })?;
    Ok(regular)
}

/// Visits the lines that are not blank, without their ends, until `visit` says `false`.
fn each_line(
    path: &Path,
    visit: &mut dyn FnMut(usize, &[u8]) -> Result<bool, DataError>,
) -> Result<(), DataError> {
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
    text: usize,
    text_pair: Option<usize>,
    label: Option<usize>,
}

impl Columns {
    fn find<'h>(
        path: &Path,
        header: impl Iterator<Item = &'h [u8]>,
        fields: &Fields,
    ) -> Result<Self, DataError> {
        let place = Place::new(path, 1);
        let names: Vec<String> =
            header.map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
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
        Ok(Self {
            count: names.len(),
            text: find(&fields.text)?,
            text_pair: fields.text_pair.as_ref().map(find).transpose()?,
            label: fields.label.as_ref().map(find).transpose()?,
        })
    }

    fn row<'r>(
        &self,
        path: &Path,
        line: usize,
        found: usize,
        cell: &dyn Fn(usize) -> Option<&'r [u8]>,
    ) -> Result<RawRow, DataError> {
        let place = Place::new(path, line);
        if found != self.count {
            return Err(DataError::Columns { place, expected: self.count, found });
        }
        let text = |column: usize| match std::str::from_utf8(cell(column).unwrap_or_default()) {
            Ok(text) => Ok(Cell::Text(text.to_owned())),
            Err(error) => {
                Err(DataError::NotUtf8 { place: place.clone(), column: error.valid_up_to() + 1 })
            }
        };
        Ok(RawRow {
            line,
            text: text(self.text)?,
            text_pair: self.text_pair.map(text).transpose()?,
            label: self.label.map(text).transpose()?,
        })
    }
}
