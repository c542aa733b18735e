//! `predictions/` of an output folder: what every model answered, row by row and without a text, so that a finished run can be judged again
//! and a later one compared with it. The layout is in `docs/gate.md`.

use std::fs;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use trtforge_evaluate::{EvaluatedOn, LogitShift, Scored, Slice};

use crate::error::PipelineError;
use crate::profile::BaselineRun;
use crate::store::{StoreError, to_json, write_atomic};

/// Version of both layouts.
const SCHEMA: u32 = 1;
/// The folder, and the file in it that is about the rows themselves.
pub const FOLDER: &str = "predictions";
/// See [`RowsFile`].
pub const ROWS: &str = "predictions/rows.json";

/// Why recorded predictions cannot be used.
#[derive(Debug, Diagnostic, Error)]
pub enum PredictionsError {
    /// There are none.
    #[error("`{run}` holds no `{file}`")]
    #[diagnostic(
        code(gate::no_predictions),
        help(
            "give the output folder of a `trtforge build` that ran to its verdict on this precision, or build again"
        )
    )]
    Missing {
        /// The run folder.
        run: String,
        /// What is missing.
        file: String,
    },
    /// The file is not one.
    #[error("`{file}` is not what a build writes there: {reason}")]
    #[diagnostic(
        code(gate::predictions),
        help("the file was changed or is incomplete: build again")
    )]
    Malformed {
        /// The file.
        file: String,
        /// In words.
        reason: String,
    },
    /// The recorded run was judged on other data.
    #[error(
        "the baseline `{run}` was evaluated on other data: {rows} rows with fingerprint {found}, and this run has {own_rows} with {own}"
    )]
    #[diagnostic(
        code(gate::other_data),
        help(
            "rows are compared one by one: evaluate both on the same `data.evaluation`, or take FP32 of this run as the baseline"
        )
    )]
    OtherData {
        /// The recorded run.
        run: String,
        /// Its rows.
        rows: usize,
        /// Its fingerprint, shortened.
        found: String,
        /// Rows of this run.
        own_rows: usize,
        /// Its fingerprint, shortened.
        own: String,
    },
}

/// `predictions/rows.json`: the rows that all models of the run answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowsFile {
    /// Version.
    pub schema: u32,
    /// Fingerprint of the evaluation data, texts and labels in order.
    pub data: String,
    /// How many.
    pub rows: usize,
    /// Names of the classes by index.
    pub classes: Vec<String>,
    /// Fields that the gate slices by.
    pub slices: Vec<Slice>,
}

/// `predictions/<precision>.json`: what one model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionsFile {
    /// Version.
    pub schema: u32,
    /// Fingerprint of the evaluation data.
    pub data: String,
    /// What ran the model.
    pub evaluated_on: EvaluatedOn,
    /// How far its logits are from FP32's; absent for FP32 itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shift: Option<LogitShift>,
    /// Whether every row has the same vector; then a comparison by cosine shows nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_vectors: bool,
    /// The rows in the order of the data.
    pub scored: Scored,
}

impl RowsFile {
    /// About these rows.
    pub fn new(data: &str, rows: usize, classes: &[String], slices: Vec<Slice>) -> Self {
        Self { schema: SCHEMA, data: data.to_owned(), rows, classes: classes.to_vec(), slices }
    }

    /// Reads it from a run folder.
    pub fn load(run: &Path) -> Result<Self, PipelineError> {
        Ok(load(run, ROWS)?)
    }

    /// Writes it into the output folder.
    pub fn save(&self, output: &Path) -> Result<(), StoreError> {
        save(self, output, ROWS)
    }
}

impl PredictionsFile {
    /// Of one model on these rows.
    pub fn new(
        rows: &RowsFile,
        scored: Scored,
        shift: Option<LogitShift>,
        evaluated_on: EvaluatedOn,
    ) -> Self {
        Self {
            schema: SCHEMA,
            data: rows.data.clone(),
            evaluated_on,
            shift,
            same_vectors: false,
            scored,
        }
    }

    /// Reads that of one precision from a run folder.
    pub fn load(run: &Path, precision: &str) -> Result<Self, PipelineError> {
        let file = name(precision);
        let found: Self = load(run, &file)?;
        if found.schema != SCHEMA {
            let reason = format!("it has schema {}, and this version reads {SCHEMA}", found.schema);
            return Err(PredictionsError::Malformed { file, reason }.into());
        }
        Ok(found)
    }

    /// Writes it into the output folder.
    pub fn save(&self, output: &Path, precision: &str) -> Result<String, StoreError> {
        let file = name(precision);
        save(self, output, &file)?;
        Ok(file)
    }
}

/// The file of one precision, relative to the output folder.
pub fn name(precision: &str) -> String {
    format!("{FOLDER}/{precision}.json")
}

/// On one line each: a row takes a few bytes.
fn save<T: Serialize>(value: &T, output: &Path, file: &str) -> Result<(), StoreError> {
    let target = output.join(file);
    let folder = output.join(FOLDER);
    fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
    let compact = serde_json::to_string(value).unwrap_or_else(|_| to_json(value));
    write_atomic(&target, format!("{compact}\n").as_bytes())
}

fn load<T: for<'de> Deserialize<'de>>(run: &Path, file: &str) -> Result<T, PredictionsError> {
    let missing =
        || PredictionsError::Missing { run: run.display().to_string(), file: file.to_owned() };
    let bytes = fs::read(run.join(file)).map_err(|_| missing())?;
    serde_json::from_slice(&bytes).map_err(|error| PredictionsError::Malformed {
        file: file.to_owned(),
        reason: error.to_string(),
    })
}

/// An earlier run that candidates are compared with.
#[derive(Debug, Clone)]
pub struct Recorded {
    run: PathBuf,
    precision: Option<String>,
    rows: RowsFile,
}

impl Recorded {
    /// Opens it; its predictions are read when a candidate is judged.
    pub fn open(baseline: &BaselineRun) -> Result<Self, PipelineError> {
        let rows = RowsFile::load(&baseline.run)?;
        Ok(Self { run: baseline.run.clone(), precision: baseline.precision.clone(), rows })
    }

    /// The name of its folder, and of its precision where the gate says which.
    pub fn name(&self) -> String {
        let folder = self.run.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match &self.precision {
            Some(precision) => format!("{folder} {precision}"),
            None => folder,
        }
    }

    /// Its answers on the rows of this run, or an error where it was asked about others.
    pub fn scored(&self, precision: &str, own: &RowsFile) -> Result<Scored, PipelineError> {
        self.check(own)?;
        let precision = self.precision.as_deref().unwrap_or(precision);
        Ok(PredictionsFile::load(&self.run, precision)?.scored)
    }

    /// Proves that both runs have the same rows.
    pub fn check(&self, own: &RowsFile) -> Result<(), PipelineError> {
        if self.rows.data == own.data && self.rows.rows == own.rows {
            return Ok(());
        }
        let short = |fingerprint: &str| fingerprint.chars().take(12).collect();
        Err(PredictionsError::OtherData {
            run: self.run.display().to_string(),
            rows: self.rows.rows,
            found: short(&self.rows.data),
            own_rows: own.rows,
            own: short(&own.data),
        }
        .into())
    }
}
