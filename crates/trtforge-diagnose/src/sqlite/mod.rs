//! Tables of an SQLite database file, read from first to last row.
//!
//! Nothing else of SQL is needed to read an export of Nsight Systems, and this is little code where the library would be nine megabytes of
//! C compiled into every build. Every offset in the file is checked before it is used: a damaged file is an error with its page.
//!
//! Source: the file format as documented by the SQLite project (sqlite.org/fileformat2.html).

mod pages;
mod record;
mod schema;

use std::path::Path;

use pages::{Leaf, Pages};
pub use record::Cell;
use record::cells;
pub use schema::Table;

/// Why a database cannot be read; the caller knows the file's name.
#[derive(Debug)]
pub enum SqliteFault {
    /// The file system.
    Io(std::io::Error),
    /// The file ends before one of its pages.
    Truncated { page: u32 },
    /// What the file says is impossible.
    Corrupt { page: u32, what: &'static str },
    /// A way of storing that this reader does not know.
    Unsupported(&'static str),
}

/// A database file.
pub struct Database {
    pages: Pages,
    tables: Vec<Table>,
}

/// Page of the table of tables.
const SCHEMA_PAGE: u32 = 1;

impl Database {
    /// Opens a file and reads what tables it has.
    pub fn open(path: &Path) -> Result<Self, SqliteFault> {
        let pages = Pages::open(path)?;
        let mut this = Self { pages, tables: Vec::new() };
        let columns = ["type", "name", "tbl_name", "rootpage", "sql"].map(str::to_owned).to_vec();
        let master = Table { name: String::new(), root: SCHEMA_PAGE, columns, row_id: None };
        let mut tables = Vec::new();
        this.scan(&master, &["type", "name", "rootpage", "sql"], |row| {
            let [kind, name, root, sql] = row else { return };
            if kind.text() == Some("table")
                && let (Some(name), Some(root), Some(sql)) =
                    (name.text(), root.integer(), sql.text())
                && let Ok(root) = u32::try_from(root)
                && let Some(table) = schema::table(name, root, sql)
            {
                tables.push(table);
            }
        })?;
        this.tables = tables;
        Ok(this)
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<Table> {
        self.tables.iter().find(|table| table.name == name).cloned()
    }

    /// Shows the named columns of every row; a column that the table does not have is NULL.
    pub fn scan(
        &mut self,
        table: &Table,
        columns: &[&str],
        mut visit: impl FnMut(&[Cell<'_>]),
    ) -> Result<(), SqliteFault> {
        let wanted: Vec<Option<usize>> =
            columns.iter().map(|name| table.columns.iter().position(|c| c == name)).collect();
        let mut all = Vec::new();
        let mut pages = self.pages.walk(table.root);
        while let Some(leaf) = pages.next(&mut self.pages)? {
            let Leaf { page, bytes, cells: offsets } = leaf;
            for offset in offsets {
                let (row_id, payload) = self.pages.payload(page, &bytes, offset)?;
                all.clear();
                cells(&payload, &mut all).ok_or(SqliteFault::Corrupt {
                    page,
                    what: "a record is longer than its cell",
                })?;
                let row: Vec<Cell<'_>> = wanted
                    .iter()
                    .map(|&column| match column {
                        Some(column) if table.row_id == Some(column) => Cell::Integer(row_id),
                        // Columns added later are missing from old rows.
                        Some(column) => {
                            all.get(column).map_or(Cell::Null, |cell| cell.of(&payload))
                        }
                        None => Cell::Null,
                    })
                    .collect();
                visit(&row);
            }
        }
        Ok(())
    }
}
