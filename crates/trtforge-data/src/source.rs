//! The rows of a data file of any format, as the wanted fields of each.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::cell::{RawRow, Wanted};
use crate::error::DataError;
use crate::{delimited, jsonl, parquet_rows};

/// What takes the rows, in file order; its first error ends the reading.
pub(crate) type Visit<'a> = dyn FnMut(RawRow) -> Result<(), DataError> + 'a;

/// Reads the wanted fields of every row.
pub(crate) fn read(path: &Path, wanted: &[Wanted], visit: &mut Visit<'_>) -> Result<(), DataError> {
    match Format::of(path)? {
        Format::Jsonl => jsonl::read(path, open_text(path)?, wanted, visit),
        Format::Csv => delimited::read_csv(path, open_text(path)?, b',', wanted, visit),
        Format::Tsv => delimited::read_tsv(path, wanted, visit),
        Format::Parquet => parquet_rows::read(path, wanted, visit),
    }
}

enum Format {
    Jsonl,
    Csv,
    Tsv,
    Parquet,
}

/// The file's extension in lower case.
pub(crate) fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

impl Format {
    fn of(path: &Path) -> Result<Self, DataError> {
        match extension(path).as_str() {
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
