//! The output folder of a finished build, as other commands are given it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;
use trtforge_report::{InputFile, RunRecord};

use crate::error::PipelineError;
use crate::store::StoreError;

/// Why a folder is not the run that is meant.
#[derive(Debug, Diagnostic, Error)]
pub enum RunFolderError {
    /// No record.
    #[error("not a run folder: no run.json in `{path}`")]
    #[diagnostic(code(run::no_record), help("give the output folder of a `trtforge build`"))]
    NoRecord {
        /// What was given.
        path: String,
    },
    /// The run read another file than the profile names.
    #[error(
        "the run `{run}` was made from another {what}: {recorded}, and the profile has {given}"
    )]
    #[diagnostic(
        code(run::other_input),
        help("give the output folder of this profile's own build, or build again")
    )]
    OtherInput {
        /// The folder.
        run: String,
        /// `model` or `evaluation data`.
        what: &'static str,
        /// In the record: file name and the start of the fingerprint.
        recorded: String,
        /// In the profile: the same.
        given: String,
    },
}

/// A run folder with its record.
#[derive(Debug)]
pub struct RunFolder {
    /// The folder.
    pub path: PathBuf,
    /// Its `run.json`.
    pub record: RunRecord,
}

impl RunFolder {
    /// Opens it.
    ///
    /// - `given`: the folder, or the record in it.
    pub fn open(given: &Path) -> Result<Self, PipelineError> {
        let path = if given.is_file() { trtforge_files::folder_of(given) } else { given };
        let file = path.join("run.json");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                return Err(RunFolderError::NoRecord { path: given.display().to_string() }.into());
            }
            Err(error) => return Err(StoreError::io("read", &file)(error).into()),
        };
        Ok(Self { path: path.to_owned(), record: RunRecord::from_json(&text)? })
    }

    /// Where its record lies.
    pub fn record_file(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// Proves that the run read this file; a run that was stopped before it read one proves nothing.
    ///
    /// - `file`, `fingerprint`: what the profile names.
    pub fn check_input(
        &self,
        what: &'static str,
        recorded: Option<&InputFile>,
        file: &Path,
        fingerprint: &str,
    ) -> Result<(), RunFolderError> {
        let Some(recorded) = recorded.filter(|recorded| recorded.fingerprint != fingerprint) else {
            return Ok(());
        };
        let named = |file: &InputFile| {
            format!("`{}` ({})", file.name, file.fingerprint.chars().take(12).collect::<String>())
        };
        Err(RunFolderError::OtherInput {
            run: self.path.display().to_string(),
            what,
            recorded: named(recorded),
            given: named(&InputFile::new(file, fingerprint)),
        })
    }
}
