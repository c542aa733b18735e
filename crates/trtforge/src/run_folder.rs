//! The output folder of a finished build, as other commands are given it.

use std::fs;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;
use trtforge_report::{InputFile, RecordError, RunRecord};

use crate::error::PipelineError;
use crate::store::StoreError;

/// A record of a thousand tensors has three megabytes.
const LARGEST: u64 = 1 << 30;

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
    /// A file that is no record.
    #[error("`{path}` cannot be read as a run")]
    #[diagnostic(
        code(run::record),
        help(
            "give a run folder or its `run.json` as `trtforge build` wrote it; one of a later layout needs the version that wrote it, or another build"
        )
    )]
    Record {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: RecordError,
    },
    /// Bytes that are no text.
    #[error("`{path}` is not UTF-8, and every run.json is")]
    #[diagnostic(
        code(run::not_text),
        help("give a run folder or its `run.json` as `trtforge build` wrote it")
    )]
    NotText {
        /// The file.
        path: String,
    },
    /// More than any run leaves behind.
    #[error("`{path}` has {bytes} bytes; a run.json has {LARGEST} at most")]
    #[diagnostic(
        code(run::too_large),
        help("give a run folder or its `run.json` as `trtforge build` wrote it")
    )]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
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

/// Reads a record, whatever its file is called.
pub fn read_record(file: &Path) -> Result<RunRecord, PipelineError> {
    let path = || file.display().to_string();
    let bytes = fs::metadata(file).map_err(StoreError::io("read", file))?.len();
    if bytes > LARGEST {
        return Err(RunFolderError::TooLarge { path: path(), bytes }.into());
    }
    let bytes = fs::read(file).map_err(StoreError::io("read", file))?;
    let text = String::from_utf8(bytes).map_err(|_| RunFolderError::NotText { path: path() })?;
    Ok(RunRecord::from_json(&text)
        .map_err(|source| RunFolderError::Record { path: path(), source })?)
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
        if !file.is_file() {
            return Err(RunFolderError::NoRecord { path: given.display().to_string() }.into());
        }
        Ok(Self { path: path.to_owned(), record: read_record(&file)? })
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
