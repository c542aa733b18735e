//! `shapes --lengths`: lengths from a file, for planning without data.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::Deserialize;
use thiserror::Error;

/// Files that hold no lengths.
#[derive(Debug, Diagnostic, Error)]
pub enum LengthsError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    #[diagnostic(code(lengths::read), help("is the path right, and the file text?"))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something that is no length.
    #[error("`{}`, line {line}: `{found}` is not a number of tokens", path.display())]
    #[diagnostic(
        code(lengths::value),
        help(
            "one whole number from 1 a line, several with commas or spaces between them, or a JSON array of them"
        )
    )]
    Value {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// As written.
        found: String,
    },
    /// A JSON array that is none, or holds something else.
    #[error("`{}`, line {line}, column {column}: {reason}", path.display())]
    #[diagnostic(
        code(lengths::array),
        help("a JSON array of whole numbers from 1, closed: is the file cut off?")
    )]
    Array {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// Of the parser.
        reason: String,
    },
    /// No lengths at all.
    #[error("`{}` holds no lengths", path.display())]
    #[diagnostic(code(lengths::none), help("write the tokens of one request on each line"))]
    None {
        /// The file.
        path: PathBuf,
    },
}

/// Reads lengths: numbers between line breaks, commas or spaces, or a JSON array; a first line of words is a heading.
pub fn read(path: &Path) -> Result<Vec<usize>, LengthsError> {
    let path = path.to_owned();
    let text = std::fs::read_to_string(&path)
        .map_err(|source| LengthsError::Read { path: path.clone(), source })?;
    let text = text.trim_start_matches('\u{feff}');
    let lengths =
        if text.trim_start().starts_with('[') { array(&path, text)? } else { words(&path, text)? };
    if lengths.is_empty() { Err(LengthsError::None { path }) } else { Ok(lengths) }
}

/// Numbers between line breaks, commas or spaces.
fn words(path: &Path, text: &str) -> Result<Vec<usize>, LengthsError> {
    let mut lengths = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let heading = index == 0 && !line.contains(|c: char| c.is_ascii_digit());
        if heading {
            continue;
        }
        for word in line.split([',', ';', '\t', ' ']).filter(|word| !word.is_empty()) {
            let length = word.parse::<u64>().ok().and_then(|length| Length::try_from(length).ok());
            let Some(Length(length)) = length else {
                let found = word.chars().take(40).collect();
                return Err(LengthsError::Value { path: path.to_owned(), line: index + 1, found });
            };
            lengths.push(length);
        }
    }
    Ok(lengths)
}

/// A JSON array, or several one after the other.
fn array(path: &Path, text: &str) -> Result<Vec<usize>, LengthsError> {
    let mut lengths = Vec::new();
    for array in serde_json::Deserializer::from_str(text).into_iter::<Vec<Length>>() {
        let array = array.map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let place = format!(" at line {line} column {column}");
            let reason = error.to_string().replace(&place, "");
            LengthsError::Array { path: path.to_owned(), line, column, reason }
        })?;
        lengths.extend(array.into_iter().map(|Length(length)| length));
    }
    Ok(lengths)
}

/// A number of tokens that a row can have.
#[derive(Debug, Deserialize)]
#[serde(try_from = "u64")]
struct Length(usize);

impl TryFrom<u64> for Length {
    type Error = String;

    fn try_from(length: u64) -> Result<Self, String> {
        if (1..=u64::from(u32::MAX)).contains(&length) {
            return Ok(Self(length as usize));
        }
        Err(format!("`{length}` is not a number of tokens"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<usize>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn lengths_in_every_form() {
        for text in [
            "6\n60\n6\n",
            "6,60,6",
            "[6, 60,\n 6]",
            "[6, 60]\n[6]\n",
            "tokens\r\n6\r\n60\r\n6",
            "6 60\t6\n\n",
        ] {
            assert_eq!(of(text), Ok(vec![6, 60, 6]), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_length_is_named_with_its_line() {
        for (text, words) in [
            ("6\nsix\n", "line 2: `six`"),
            ("6\n0\n", "line 2: `0`"),
            ("6\n-3\n", "line 2: `-3`"),
            ("6\n1.5\n", "line 2: `1.5`"),
            ("99999999999\n", "line 1: `99999999999`"),
            ("", "holds no lengths"),
            ("tokens\n", "holds no lengths"),
            ("[]", "holds no lengths"),
            ("[12, 30", "line 1, column 7: EOF while parsing a list"),
            ("[12,\n 30,]", "line 2, column 5: trailing comma"),
            ("[12, 30]]", "line 1, column 9"),
            ("[12, 30], 4", "line 1, column 9"),
            ("[12, [30]]", "line 1, column 5: invalid type: sequence"),
            ("[12, 0]", "`0` is not a number of tokens"),
            ("[12, 1.5]", "invalid type: floating point"),
            ("[12, \"a\"]", "invalid type: string"),
            ("12, 30]", "line 1: `30]`"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
