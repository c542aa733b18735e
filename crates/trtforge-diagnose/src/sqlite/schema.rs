//! The columns of a table, from the statement that made it.

/// A table and its columns in the order in which rows hold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    pub root: u32,
    pub columns: Vec<String>,
    /// The column that is the row's number and not stored with it.
    pub row_id: Option<usize>,
}

/// None for what is no ordinary table with rows of its own.
pub fn table(name: &str, root: u32, sql: &str) -> Option<Table> {
    let open = sql.find('(')?;
    let close = sql.rfind(')')?;
    if root == 0 || close < open || sql[close..].to_ascii_uppercase().contains("WITHOUT ROWID") {
        return None;
    }
    let mut columns = Vec::new();
    let (mut integers, mut row_id) = (Vec::new(), None);
    for part in split(&sql[open + 1..close]) {
        let Some((column, rest)) = first_word(part) else { continue };
        let upper = rest.to_ascii_uppercase();
        let quoted = part.trim_start().starts_with(['"', '[', '`']);
        let constraint = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
        let word = column.to_ascii_uppercase();
        if !quoted && constraint.iter().any(|name| word.starts_with(name)) {
            row_id = row_id.or(primary_key(part).and_then(|key| {
                columns.iter().position(|name| *name == key).filter(|at| integers.contains(at))
            }));
            continue;
        }
        // Only a column of exactly this type is the row's number.
        if upper.split_whitespace().next() == Some("INTEGER") {
            integers.push(columns.len());
            if upper.contains("PRIMARY KEY") {
                row_id = Some(columns.len());
            }
        }
        columns.push(column);
    }
    (!columns.is_empty()).then(|| Table { name: name.to_owned(), root, columns, row_id })
}

/// The only column of a `PRIMARY KEY (column)` that stands for itself.
fn primary_key(constraint: &str) -> Option<String> {
    let at = constraint.to_ascii_uppercase().find("PRIMARY KEY")?;
    let list = constraint[at..].split_once('(')?.1.rsplit_once(')')?.0;
    let (column, rest) = first_word(list)?;
    (!list.contains(',') && rest.trim().is_empty()).then_some(column)
}

/// Pieces between the commas that are in no parentheses or quotes.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start, mut parts) = (0_i32, None, 0, Vec::new());
    for (at, character) in list.char_indices() {
        if let Some(end) = quote {
            if character == end {
                quote = None;
            }
            continue;
        }
        match character {
            '"' | '\'' | '`' => quote = Some(character),
            '[' => quote = Some(']'),
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// A name, its quotes taken off, and what follows it.
fn first_word(part: &str) -> Option<(String, &str)> {
    let part = part.trim();
    let close = match part.chars().next()? {
        '[' => ']',
        quote @ ('"' | '`') => quote,
        _ => {
            let end = part.find(char::is_whitespace).unwrap_or(part.len());
            return Some((part[..end].to_owned(), &part[end..]));
        }
    };
    let end = 1 + part[1..].find(close)?;
    Some((part[1..end].to_owned(), &part[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_by_hand() {
        let sql = "CREATE TABLE \"K\" (start INTEGER NOT NULL, \"end\" INTEGER, [a, b] TEXT DEFAULT ('x,y'), id INTEGER PRIMARY KEY, n DECIMAL(10, 2), PRIMARY KEY (start, \"end\"))";
        let found = table("K", 7, sql).unwrap();
        assert_eq!(found.columns, ["start", "end", "a, b", "id", "n"]);
        assert_eq!((found.root, found.row_id), (7, Some(3)));
        let row_id =
            |columns: &str| table("K", 7, &format!("CREATE TABLE K ({columns})")).unwrap().row_id;
        assert_eq!(row_id("id INTEGER NOT NULL PRIMARY KEY, value TEXT"), Some(0));
        assert_eq!(row_id("value TEXT, id INTEGER, PRIMARY KEY(id)"), Some(1));
        assert_eq!(row_id("value TEXT, id INTEGER, CONSTRAINT k PRIMARY KEY (\"id\")"), Some(1));
        assert_eq!(row_id("id INT PRIMARY KEY, value TEXT"), None);
        assert_eq!(row_id("value TEXT, id INTEGER, PRIMARY KEY (value, id)"), None);
        assert_eq!(table("K", 7, "CREATE TABLE K (a TEXT PRIMARY KEY) WITHOUT ROWID"), None);
        assert_eq!(table("K", 0, "CREATE VIRTUAL TABLE K USING fts5(a)"), None);
        assert_eq!(table("K", 3, "CREATE TABLE K"), None);
    }
}
