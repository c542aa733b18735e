//! JSON lines: one object a line, read line by line so that a file of any size needs the memory of its longest line.

use std::fmt;
use std::io::BufRead;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::cell::{Cell, RawRow, Wanted};
use crate::error::{DataError, Place};

/// Gives every row of `reader` to `visit`, in order; blank lines are skipped but counted.
pub(crate) fn read(
    path: &Path,
    mut reader: impl BufRead,
    wanted: &[Wanted],
    visit: &mut dyn FnMut(RawRow) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut buffer = Vec::new();
    let mut line = 0;
    loop {
        buffer.clear();
        let read = reader.read_until(b'\n', &mut buffer);
        if read.map_err(|source| DataError::Read { path: path.to_owned(), source })? == 0 {
            return Ok(());
        }
        line += 1;
        let place = Place::new(path, line);
        let text = std::str::from_utf8(&buffer).map_err(|error| DataError::NotUtf8 {
            place: place.clone(),
            column: error.valid_up_to() + 1,
        })?;
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        if text.trim_start().starts_with('[') {
            return Err(DataError::JsonArray { path: path.to_owned() });
        }
        visit(row(text, &place, wanted)?)?;
    }
}

fn row(text: &str, place: &Place, wanted: &[Wanted]) -> Result<RawRow, DataError> {
    let bad = |error: serde_json::Error| DataError::Json {
        place: place.clone(),
        column: error.column(),
        message: without_position(&error),
    };
    let mut parser = serde_json::Deserializer::from_str(text);
    let row = RowSeed { wanted, line: place.line }.deserialize(&mut parser).map_err(bad)?;
    parser.end().map_err(bad)?;
    let mut fields = wanted.iter().zip(&row.cells);
    match fields.find(|(wanted, cell)| wanted.required && **cell == Cell::Absent) {
        None => Ok(row),
        Some((wanted, _)) => Err(DataError::MissingField {
            place: place.clone(),
            field: wanted.name.clone(),
            found: keys(text),
        }),
    }
}

/// The parser's message without its own "at line 1 column 7": the line there is always 1.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.as_str(), |(head, _)| head).to_owned()
}

/// The fields of a line that is known to be an object; only errors ask for them.
fn keys(text: &str) -> Vec<String> {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
        .map(|object| object.keys().cloned().collect())
        .unwrap_or_default()
}

/// Reads the wanted fields of one object and skips the others without keeping them.
struct RowSeed<'a> {
    wanted: &'a [Wanted],
    line: usize,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = RawRow;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawRow, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = RawRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawRow, A::Error> {
        let mut cells = vec![Cell::Absent; self.wanted.len()];
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            let is_here = |place: &usize| self.wanted[*place].name == key.as_ref();
            let places: Vec<usize> = (0..cells.len()).filter(is_here).collect();
            let Some((&last, others)) = places.split_last() else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            let cell: Cell = entries.next_value()?;
            for &place in others {
                cells[place] = cell.clone();
            }
            cells[last] = cell;
        }
        Ok(RawRow { line: self.line, cells })
    }
}
