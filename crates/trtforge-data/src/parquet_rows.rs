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

use crate::cell::{Cell, RawRow};
use crate::dataset::Fields;
use crate::error::{DataError, Place};

type Visit<'a> = dyn FnMut(RawRow) -> Result<(), DataError> + 'a;

/// Gives every row to `visit`; a row's `line` is its number, counted from 1.
pub(crate) fn read(path: &Path, fields: &Fields, visit: &mut Visit<'_>) -> Result<(), DataError> {
    // The library asserts on some damaged metadata instead of returning an error.
    catch_unwind(AssertUnwindSafe(|| read_rows(path, fields, visit))).unwrap_or_else(|_| {
        Err(DataError::Parquet { path: path.to_owned(), message: "the file is damaged".to_owned() })
    })
}

fn read_rows(path: &Path, fields: &Fields, visit: &mut Visit<'_>) -> Result<(), DataError> {
    let failed = |error: ParquetError| DataError::Parquet {
        path: path.to_owned(),
        message: error.to_string(),
    };
    let file =
        File::open(path).map_err(|source| DataError::Read { path: path.to_owned(), source })?;
    let reader = SerializedFileReader::new(file).map_err(failed)?;
    let projection = projection(path, reader.metadata().file_metadata().schema(), fields)?;
    let rows = RowIter::from_file(Some(projection), &reader).map_err(failed)?;
    for (index, row) in rows.enumerate() {
        let line = index + 1;
        let mut raw = RawRow {
            line,
            text: Cell::Absent,
            text_pair: fields.text_pair.as_ref().map(|_| Cell::Absent),
            label: fields.label.as_ref().map(|_| Cell::Absent),
        };
        for (name, value) in row.map_err(failed)?.into_columns() {
            let cell = cell(value, &Place::new(path, line))?;
            if name == fields.text {
                raw.text = cell;
            } else if Some(&name) == fields.text_pair.as_ref() {
                raw.text_pair = Some(cell);
            } else {
                raw.label = Some(cell);
            }
        }
        visit(raw)?;
    }
    Ok(())
}

/// The file's schema cut down to the wanted columns.
fn projection(path: &Path, schema: &Type, fields: &Fields) -> Result<Type, DataError> {
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
    let mut wanted = vec![find(&fields.text)?];
    for field in [&fields.text_pair, &fields.label].into_iter().flatten() {
        let column = find(field)?;
        if wanted.iter().all(|other| other.name() != column.name()) {
            wanted.push(column);
        }
    }
    let group = Type::group_type_builder(schema.name()).with_fields(wanted).build();
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
        Field::Group(_) | Field::MapInternal(_) => Cell::Object,
        _ => Cell::List,
    })
}
