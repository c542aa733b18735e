//! Parquet: only the wanted columns are read, row group by row group.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;

use crate::cell::{Cell, RawRow, Wanted};
use crate::error::{DataError, Place};
use crate::source::Visit;

/// Gives every row to `visit`; a row's `line` is its number, counted from 1.
pub(crate) fn read(path: &Path, wanted: &[Wanted], visit: &mut Visit<'_>) -> Result<(), DataError> {
    // The library asserts on some damaged metadata instead of returning an error.
    catch_unwind(AssertUnwindSafe(|| read_rows(path, wanted, visit))).unwrap_or_else(|_| {
        Err(DataError::Parquet { path: path.to_owned(), message: "the file is damaged".to_owned() })
    })
}

fn read_rows(path: &Path, wanted: &[Wanted], visit: &mut Visit<'_>) -> Result<(), DataError> {
    let failed = |error: ParquetError| DataError::Parquet {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let file =
        File::open(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    let reader = SerializedFileReader::new(file).map_err(failed)?;
    let projection = projection(path, reader.metadata().file_metadata().schema(), wanted)?;
    let rows = RowIter::from_file(Some(projection), &reader).map_err(failed)?;
    for (index, row) in rows.enumerate() {
        let line = index + 1;
        let mut cells = vec![Cell::Absent; wanted.len()];
        for (name, value) in row.map_err(failed)?.into_columns() {
            let cell = cell(value, &Place::new(path, line))?;
            for (_, slot) in wanted.iter().zip(&mut cells).filter(|(wanted, _)| wanted.name == name)
            {
                slot.clone_from(&cell);
            }
        }
        visit(RawRow { line, cells })?;
    }
    Ok(())
}

/// The file's schema cut down to the wanted columns.
fn projection(path: &Path, schema: &Type, wanted: &[Wanted]) -> Result<Type, DataError> {
    let columns = schema.get_fields();
    let find = |field: &String| -> Result<Arc<Type>, DataError> {
        columns.iter().find(|column| column.name() == field).cloned().ok_or_else(|| {
            DataError::MissingField {
                place: Place::new(path, 1),
                field: field.clone(),
                found: columns.iter().map(|column| column.name().to_owned()).collect(),
            }
        })
    };
    let mut found: Vec<Arc<Type>> = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let column = find(&wanted.name)?;
        if found.iter().all(|other| other.name() != column.name()) {
            found.push(column);
        }
    }
    let group = Type::group_type_builder(schema.name()).with_fields(found).build();
    group.map_err(|error| DataError::Parquet { path: path.to_owned(), message: error.to_string() })
}

fn cell(value: Field, place: &Place) -> Result<Cell, DataError> {
    Ok(match value {
        Field::Null => Cell::Null,
        Field::Bool(value) => Cell::Bool(value),
        Field::Byte(value) => Cell::Integer(value.into()),
        Field::Short(value) => Cell::Integer(value.into()),
        Field::Int(value) => Cell::Integer(value.into()),
        Field::Long(value) => Cell::Integer(value),
        Field::UByte(value) => Cell::Integer(value.into()),
        Field::UShort(value) => Cell::Integer(value.into()),
        Field::UInt(value) => Cell::Integer(value.into()),
        Field::ULong(value) => {
            i64::try_from(value).map_or(Cell::Float(value as f64), Cell::Integer)
        }
        Field::Float(value) => Cell::Float(value.into()),
        Field::Double(value) => Cell::Float(value),
        Field::Str(value) => Cell::Text(value),
        // Writers before logical types stored text as plain bytes.
        Field::Bytes(value) => match std::str::from_utf8(value.data()) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(error) => {
                return Err(DataError::NotUtf8 {
                    place: place.clone(),
                    column: error.valid_up_to() + 1,
                });
            }
        },
        Field::ListInternal(list) => Cell::List(
            list.elements()
                .iter()
                .map(|element| cell(element.clone(), place))
                .collect::<Result<_, _>>()?,
        ),
        Field::Group(row) => Cell::Object(
            row.into_columns()
                .into_iter()
                .map(|(name, value)| Ok((name, cell(value, place)?)))
                .collect::<Result<_, DataError>>()?,
        ),
        // A map, a date, a decimal: none of them is text, a label or a list of these.
        _ => Cell::Object(Vec::new()),
    })
}
