//! One field of one row, before it is known to be a text, a label or a list.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

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
    /// A JSON array or a Parquet list.
    List(Vec<Cell>),
    /// A JSON object or a nested Parquet value, its entries in the order of the file.
    Object(Vec<(String, Cell)>),
}

impl Cell {
    /// The value at `key` of an object, the last where a key repeats; `Absent` where there is none.
    pub(crate) fn take(&mut self, key: &str) -> Self {
        let Self::Object(entries) = self else { return Self::Absent };
        let found = entries.iter_mut().rev().find(|(name, _)| name == key);
        found.map_or(Self::Absent, |(_, cell)| std::mem::replace(cell, Self::Absent))
    }
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
            Self::List(_) => f.write_str("a list"),
            Self::Object(_) => f.write_str("an object"),
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
        let mut cells = Vec::new();
        while let Some(cell) = items.next_element()? {
            cells.push(cell);
        }
        Ok(Cell::List(cells))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Cell, A::Error> {
        let mut cells = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            cells.push(entry);
        }
        Ok(Cell::Object(cells))
    }
}

/// A field to read from every row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its name in the file.
    pub name: String,
    /// Whether a JSON row without it is an error; in a file with columns the column must be there either way.
    pub required: bool,
}

impl Wanted {
    pub(crate) fn required(name: &str) -> Self {
        Self { name: name.to_owned(), required: true }
    }

    pub(crate) fn optional(name: &str) -> Self {
        Self { name: name.to_owned(), required: false }
    }
}

/// The wanted fields of one row as they came from the file.
#[derive(Debug)]
pub(crate) struct RawRow {
    pub line: usize,
    /// One for each wanted field, in their order.
    pub cells: Vec<Cell>,
}
