//! One field of one row, before it is known to be a text or a label.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A field's value, in the types that the file formats share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// The row has no such field.
    Absent,
    Null,
    Bool(bool),
    Integer(i64),
    /// A fraction, or an integer beyond 64 bits.
    Float(f64),
    Text(String),
    /// A JSON array or a nested Parquet value.
    List,
    /// A JSON object.
    Object,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            // `{:?}` keeps the point of 2.0, so that the value reads as it was written.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "\"{}\"", shortened(value)),
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}

/// At most 60 characters: an error is read on a terminal.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Cell, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Cell, E> {
        Ok(Cell::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Cell, E> {
        Ok(Cell::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Cell, E> {
        Ok(i64::try_from(value).map_or(Cell::Float(value as f64), Cell::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Cell, E> {
        Ok(Cell::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Cell, E> {
        Ok(Cell::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Cell, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Cell::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Cell, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cell::Object)
    }
}

/// The wanted fields of one row as they came from the file.
#[derive(Debug)]
pub(crate) struct RawRow {
    pub line: usize,
    pub text: Cell,
    pub text_pair: Option<Cell>,
    pub label: Option<Cell>,
}
