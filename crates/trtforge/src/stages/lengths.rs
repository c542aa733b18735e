//! `shapes --lengths`: lengths from a file, for planning without data.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
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
    let mut lengths = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let heading = index == 0 && !line.contains(|c: char| c.is_ascii_digit() || c == '[');
        if heading {
            continue;
        }
        let words = line.split([',', ';', '\t', ' ', '[', ']']).filter(|word| !word.is_empty());
        for word in words {
            match word.parse() {
                Ok(length) if (1..=u64::from(u32::MAX)).contains(&length) => {
                    lengths.push(length as usize);
                }
                _ => {
                    let found = word.chars().take(40).collect();
                    return Err(LengthsError::Value { path, line: index + 1, found });
                }
            }
        }
    }
    if lengths.is_empty() { Err(LengthsError::None { path }) } else { Ok(lengths) }
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
        for text in
            ["6\n60\n6\n", "6,60,6", "[6, 60,\n 6]", "tokens\r\n6\r\n60\r\n6", "6 60\t6\n\n"]
        {
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
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
