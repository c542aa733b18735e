//! Tables of an SQLite database, read from first to last row.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::ffi::{Error, SQLITE_CORRUPT};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'r> {
    /// A signed integer.
    Integer(i64),
    /// Text; none where it is not UTF-8.
    Text(Option<&'r str>),
    /// No value, or one of a kind that no table here needs.
    Other,
}

impl<'r> Cell<'r> {
    fn of(value: ValueRef<'r>) -> Self {
        match value {
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Text(bytes) => Self::Text(std::str::from_utf8(bytes).ok()),
            _ => Self::Other,
        }
    }

    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&'r str> {
        match self {
            Self::Text(text) => *text,
            _ => None,
        }
    }
}

/// A database file, never written to.
pub struct Database {
    connection: Connection,
}

/// A table and the columns it has.
pub struct Table {
    name: String,
    /// Their names, as the table has them.
    pub columns: Vec<String>,
}

impl Database {
    /// Opens a file.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        // Read-only, and no SQL of the file's own (views, triggers, functions in its schema) is trusted: it may come from anywhere.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        let this = Self { connection };
        this.is_whole(path)?;
        Ok(this)
    }

    /// SQLite fills a page that the file ends within with zeros: rows would be missing without a word.
    fn is_whole(&self, path: &Path) -> rusqlite::Result<()> {
        let pragma =
            |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let expected = pragma("page_count")?.saturating_mul(pragma("page_size")?);
        let mode: String =
            self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let found = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        // The last pages of a database with a write-ahead log may still be there only.
        if mode == "wal" || i128::from(expected) <= i128::from(found) {
            return Ok(());
        }
        let text = format!("the file has {found} of its {expected} bytes");
        Err(rusqlite::Error::SqliteFailure(Error::new(SQLITE_CORRUPT), Some(text)))
    }

    /// A table by its name; a view is none.
    pub fn table(&self, name: &str) -> rusqlite::Result<Option<Table>> {
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let count: i64 = self.connection.query_row(tables, [name], |row| row.get(0))?;
        if count == 0 {
            return Ok(None);
        }
        let mut statement = self.connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = statement.query_map([name], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Some(Table { name: name.to_owned(), columns }))
    }

    /// Shows the named columns of every row, in the order of the table; a column that the table does not have is [`Cell::Other`].
    pub fn scan(
        &self,
        table: &Table,
        columns: &[&str],
        mut visit: impl FnMut(&[Cell<'_>]),
    ) -> rusqlite::Result<()> {
        let column = |name: &&str| {
            let known = table.columns.iter().any(|column| column == name);
            if known { quoted(name) } else { "NULL".to_owned() }
        };
        let columns: Vec<String> = columns.iter().map(column).collect();
        let query = format!("SELECT {} FROM {}", columns.join(", "), quoted(&table.name));
        let mut statement = self.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cells: Vec<Cell<'_>> = (0..columns.len())
                .map(|index| row.get_ref(index).map(Cell::of))
                .collect::<Result<_, _>>()?;
            visit(&cells);
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
