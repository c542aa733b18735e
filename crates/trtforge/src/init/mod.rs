//! `trtforge init`: what a model and its data tell about the profile that they need.

mod data;
mod model;
mod text;

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;
use trtforge_data::{Dataset, Fields, LengthStats, TextEncoder};

use crate::error::PipelineError;

pub use data::{Chosen, DataFile};
pub use model::{Kind, ModelFacts};

/// Why no profile was written.
#[derive(Debug, Diagnostic, Error)]
pub enum InitError {
    /// There is one already.
    #[error("`{path}` exists")]
    #[diagnostic(code(init::exists), help("add --force to write over it, or -o for another file"))]
    Exists {
        /// The profile.
        path: String,
    },
    /// More files than roles.
    #[error("{} data files were given: {}", files.len(), files.join(", "))]
    #[diagnostic(
        code(init::too_many_files),
        help(
            "give one file that calibrates and one that judges; put the rows of several files for one of them together first"
        )
    )]
    TooManyFiles {
        /// As given.
        files: Vec<String>,
    },
    /// A data file without rows or fields.
    #[error("`{path}` has no rows")]
    #[diagnostic(
        code(init::no_rows),
        help("give a file with rows, or leave --data out and fill the fields in")
    )]
    NoRows {
        /// The file.
        path: String,
    },
}

/// Everything that was found out.
#[derive(Debug)]
pub struct Draft {
    /// Of the model.
    pub model: ModelFacts,
    /// Where its tokenizer lies.
    pub tokenizer: Option<PathBuf>,
    /// What the model does.
    pub kind: Kind,
    /// Class names by logit index, where the task has some.
    pub labels: Vec<String>,
    /// Where the names come from, for a comment.
    pub labels_from: &'static str,
    /// The fields of the rows.
    pub fields: Chosen,
    /// Rows that calibrate, and rows that judge.
    pub calibration: Option<DataFile>,
    /// See `calibration`.
    pub evaluation: Option<DataFile>,
    /// Tokens of the rows, where they could be counted.
    pub lengths: Option<LengthStats>,
    /// Tokens a row may have.
    pub max_length: usize,
    /// What a person has to settle.
    pub todo: Vec<String>,
}

impl Draft {
    /// Looks at a model, its tokenizer and its data.
    pub fn of(
        onnx: &Path,
        tokenizer: Option<&Path>,
        files: &[PathBuf],
    ) -> Result<Draft, PipelineError> {
        if files.len() > 2 {
            let files = files.iter().map(|path| path.display().to_string()).collect();
            return Err(InitError::TooManyFiles { files }.into());
        }
        let mut todo = Vec::new();
        let model = ModelFacts::open(onnx, &mut todo)?;
        let tokenizer = tokenizer.map(Path::to_owned).or_else(|| beside(onnx));
        if tokenizer.is_none() {
            todo.push("no tokenizer.json or vocab.txt lies beside the model: name it".to_owned());
        }
        let files = files.iter().map(|path| DataFile::open(path)).collect::<Result<Vec<_>, _>>()?;
        let (calibration, evaluation) = data::roles(files, &mut todo);
        let seen = evaluation.as_ref().map(|file| file.fields.as_slice()).unwrap_or_default();
        let kind = model.kind(seen, &mut todo);
        let fields = Chosen::of(seen, kind, &mut todo);
        let (labels, labels_from) = model.labels(kind, fields.gold(seen), &mut todo);
        let most = model.positions.unwrap_or(512);
        let files = [calibration.as_ref(), evaluation.as_ref()];
        let lengths = match &tokenizer {
            Some(tokenizer) if kind.reads_texts() => lengths(tokenizer, most, &fields, files)?,
            _ => None,
        };
        let max_length = max_length(lengths.as_ref(), most, kind, &mut todo);
        Ok(Draft {
            model,
            tokenizer,
            kind,
            labels,
            labels_from,
            fields,
            calibration,
            evaluation,
            lengths,
            max_length,
            todo,
        })
    }

    /// The profile, its paths relative to `folder`.
    pub fn profile(&self, folder: &Path) -> String {
        text::profile(self, folder)
    }
}

/// The tokenizer in the model's folder or the one above, where exporters leave it.
fn beside(onnx: &Path) -> Option<PathBuf> {
    let folder = onnx.parent().unwrap_or(Path::new(""));
    let above = folder.join("..");
    [folder, &above]
        .into_iter()
        .flat_map(|folder| ["tokenizer.json", "vocab.txt"].map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Tokens of every row of all files, cut to what the model takes.
fn lengths(
    tokenizer: &Path,
    most: usize,
    fields: &Chosen,
    files: [Option<&DataFile>; 2],
) -> Result<Option<LengthStats>, PipelineError> {
    let Some(text) = &fields.text else { return Ok(None) };
    let encoder = TextEncoder::open(tokenizer, most)?;
    let wanted = Fields { text_pair: fields.pair.clone(), ..Fields::text(text) };
    let mut lengths = Vec::new();
    for file in files.into_iter().flatten() {
        let Ok(rows) = Dataset::load(&file.path, &wanted, None, false) else { continue };
        let texts: Vec<_> =
            rows.rows.iter().map(|row| (row.text.as_str(), row.text_pair.as_deref())).collect();
        lengths.extend(encoder.encode_all(&texts)?.iter().map(|row| row.ids.len()));
    }
    Ok((!lengths.is_empty()).then(|| LengthStats::of(&lengths)))
}

/// Tensor cores like multiples of 8, and the model takes no more than it has positions.
fn max_length(
    lengths: Option<&LengthStats>,
    most: usize,
    kind: Kind,
    todo: &mut Vec<String>,
) -> usize {
    if let Some(lengths) = lengths {
        return lengths.max.next_multiple_of(8).clamp(8, most.max(2)).min(most);
    }
    let usual = if kind == Kind::Answers { 384 } else { 128 };
    let length = most.min(usual);
    todo.push(format!("max_length is {length}, which no data was measured for: check it"));
    length
}

#[cfg(test)]
mod tests;
