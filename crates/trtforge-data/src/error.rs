//! What can be wrong with a data file or a tokenizer, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

use crate::row_error::RowError;

/// A row of a data file, as a person would look it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was given.
    pub path: PathBuf,
    /// Line (1-based, the header counts) of a text file, or row (1-based) of a Parquet file.
    pub line: usize,
}

impl Place {
    pub(crate) fn new(path: &Path, line: usize) -> Self {
        Self { path: path.to_owned(), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_parquet = self.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("parquet"));
        let (path, line) = (self.path.display(), self.line);
        if is_parquet { write!(f, "{path}, row {line}") } else { write!(f, "{path}:{line}") }
    }
}

/// Why a data file or a tokenizer was refused.
#[derive(Debug, Diagnostic, Error)]
pub enum DataError {
    /// See [`RowError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Row(Box<RowError>),
    /// The file cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    #[diagnostic(code(data::read), help("paths in a profile are relative to the profile's folder"))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The extension is none of the known ones.
    #[error("{}: not a kind of data file that trtforge reads", path.display())]
    #[diagnostic(
        code(data::unknown_format),
        help("known extensions: .jsonl, .ndjson, .csv, .tsv, .parquet")
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file has no data row.
    #[error("{}: the file has no rows", path.display())]
    #[diagnostic(code(data::empty), help("a data file needs at least one row"))]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is one JSON array instead of one object a line.
    #[error("{}: the file is a JSON array, not JSON lines", path.display())]
    #[diagnostic(
        code(data::json_array),
        help("write one object a line, for example with `jq -c '.[]'`")
    )]
    JsonArray {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a JSON object.
    #[error("{place}:{column}: not a JSON object: {message}")]
    #[diagnostic(
        code(data::json),
        help("each line is one whole JSON object, such as {{\"text\": \"…\", \"label\": 0}}")
    )]
    Json {
        /// Where.
        place: Place,
        /// Column in bytes, 1-based.
        column: usize,
        /// What the parser said.
        message: String,
    },
    /// Bytes that are not UTF-8.
    #[error("{place}: not UTF-8 text (byte {column} of the line or field)")]
    #[diagnostic(
        code(data::utf8),
        help("convert the file to UTF-8, for example with `iconv -t UTF-8`")
    )]
    NotUtf8 {
        /// Where.
        place: Place,
        /// The first bad byte, 1-based.
        column: usize,
    },
    /// A UTF-16 or UTF-32 file, recognised by its byte-order mark.
    #[error("{}: the byte-order mark says {encoding}; only UTF-8 is read", path.display())]
    #[diagnostic(
        code(data::encoding),
        help("convert the file to UTF-8, for example with `iconv -f {encoding} -t UTF-8`")
    )]
    OtherEncoding {
        /// The file.
        path: PathBuf,
        /// The encoding that the mark announces.
        encoding: &'static str,
    },
    /// A CSV or TSV row with the wrong number of columns.
    #[error("{place}: {found} columns where the header has {expected}")]
    #[diagnostic(
        code(data::columns),
        help("quote a text that holds the separator or a line end: \"like, this\"")
    )]
    Columns {
        /// Where.
        place: Place,
        /// Columns of the header.
        expected: usize,
        /// Columns of the row.
        found: usize,
    },
    /// A quote that is never closed; it would swallow every row behind it.
    #[error("{place}: a quoted field that starts on this line is never closed")]
    #[diagnostic(
        code(data::open_quote),
        help("close it, or double a quote that is part of a quoted text: \"say \"\"hi\"\"\"")
    )]
    OpenQuote {
        /// The first line of the row.
        place: Place,
    },
    /// A damaged or unsupported Parquet file.
    #[error("{}: cannot be read as Parquet: {message}", path.display())]
    #[diagnostic(code(data::parquet), help("text and label must be plain (not nested) columns"))]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        message: String,
    },
    /// A wanted field is absent.
    #[error("{place}: no field `{field}`; {}", known_fields(found))]
    #[diagnostic(code(data::missing_field), help("{}", field_help(field, found)))]
    MissingField {
        /// Where; the header's line when the whole column is absent.
        place: Place,
        /// The field of the profile.
        field: String,
        /// The fields that are there.
        found: Vec<String>,
    },
    /// A wanted column appears twice in the header.
    #[error("{place}: the header has the column `{field}` more than once")]
    #[diagnostic(code(data::repeated_field), help("rename one of them"))]
    RepeatedField {
        /// Where.
        place: Place,
        /// The column.
        field: String,
    },
    /// A text that is null, a number, a list …
    #[error("{place}: field `{field}` is {value}, not text")]
    #[diagnostic(
        code(data::not_text),
        help("give the row a string (it may be empty) or remove the row")
    )]
    NotText {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// The value, as written.
        value: String,
    },
    /// A row without a label where one is needed.
    #[error(
        "{place}: field `{field}` has no label ({value}); known labels: {}",
        known_labels(known)
    )]
    #[diagnostic(
        code(data::missing_label),
        help("every evaluation row needs a label: complete the row or remove it")
    )]
    MissingLabel {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// What is there instead.
        value: &'static str,
        /// `task.labels`.
        known: Vec<String>,
    },
    /// A label that is none of the known ones.
    #[error(
        "{place}: label {value} in field `{field}` is not a known label; known labels: {}",
        known_labels(known)
    )]
    #[diagnostic(code(data::bad_label), help("{}", label_help(value, known)))]
    BadLabel {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// The value, as written.
        value: String,
        /// `task.labels`.
        known: Vec<String>,
    },
    /// A tokenizer file that cannot be used.
    #[error("{}: not a usable tokenizer: {message}", path.display())]
    #[diagnostic(
        code(data::tokenizer),
        help("`model.tokenizer` is a `tokenizer.json` or a WordPiece `vocab.txt`")
    )]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A vocabulary without the tokens that BERT needs.
    #[error("{}: the vocabulary lacks {}", path.display(), missing.join(", "))]
    #[diagnostic(
        code(data::special_tokens),
        help(
            "a BERT vocabulary holds [UNK], [CLS] and [SEP], one token a line; is this the model's own file?"
        )
    )]
    SpecialTokens {
        /// The file.
        path: PathBuf,
        /// The absent tokens.
        missing: Vec<String>,
    },
    /// A maximum length that leaves no room for text.
    #[error("max_length {max_length} leaves no room beside the {special} special tokens of a row")]
    #[diagnostic(code(data::max_length), help("raise `max_length`"))]
    MaxLength {
        /// The wanted maximum.
        max_length: usize,
        /// Special tokens that every row has.
        special: usize,
    },
    /// The tokenizer failed on a row.
    #[error("the text of row {row} (counted from 0) cannot be tokenized: {message}")]
    #[diagnostic(code(data::encode), help("check that the tokenizer file belongs to the model"))]
    Encode {
        /// Position in the slice that was given.
        row: usize,
        /// What the tokenizer said.
        message: String,
    },
}

impl From<RowError> for DataError {
    fn from(error: RowError) -> Self {
        Self::Row(Box::new(error))
    }
}

fn known_fields(found: &[String]) -> String {
    match found {
        [] => "no fields are there".to_owned(),
        fields => format!("the fields there are {}", quoted(fields)),
    }
}

pub(crate) fn known_labels(known: &[String]) -> String {
    let named: Vec<String> =
        known.iter().enumerate().map(|(index, name)| format!("{name} ({index})")).collect();
    if named.is_empty() { "none (`task.labels` is not set)".to_owned() } else { named.join(", ") }
}

fn field_help(field: &str, found: &[String]) -> String {
    match nearest(field, found) {
        Some(name) => format!("did you mean `{name}`? Set it in the profile's `data` section"),
        None => "name the field of the text (and the label) in the profile's `data` section".into(),
    }
}

pub(crate) fn label_help(value: &str, known: &[String]) -> String {
    if known.is_empty() {
        return "list the label names under `task.labels`, in the order of the logits".to_owned();
    }
    match nearest(value.trim_matches('"'), known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "a label is one of `task.labels` or, as an integer, its position".to_owned(),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The known name most like `name`, when one is like it at all.
pub(crate) fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let likeness =
        |candidate: &String| strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase());
    known
        .iter()
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
