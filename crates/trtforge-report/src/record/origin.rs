//! Where a run came from: the tool, the machine, the files that went in and the libraries used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that made the record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Program name, `trtforge`.
    pub name: String,
    /// Its version, as `--version` prints it.
    pub version: String,
}

/// The machine the run happened on. No host name: it says nothing about the result and may be private.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Operating system, as in `std::env::consts::OS`.
    pub os: String,
    /// Processor architecture, as in `std::env::consts::ARCH`.
    pub arch: String,
    /// Processor cores the run could use.
    pub cores: usize,
    /// Name of the GPU, when there is one.
    #[serde(default)]
    pub gpu: Option<String>,
    /// Version of the GPU driver, when there is one.
    #[serde(default)]
    pub driver: Option<String>,
}

/// The files a run read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inputs {
    /// The ONNX model.
    #[serde(default)]
    pub model: Option<InputFile>,
    /// The tokenizer or vocabulary.
    #[serde(default)]
    pub tokenizer: Option<InputFile>,
    /// The calibration data, or the recorded table used in its place.
    #[serde(default)]
    pub calibration: Option<InputFile>,
    /// The evaluation data.
    #[serde(default)]
    pub evaluation: Option<InputFile>,
}

impl Inputs {
    /// The files that are there, each with the role it has, in the order a run reads them.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &InputFile)> {
        [
            ("model", &self.model),
            ("tokenizer", &self.tokenizer),
            ("calibration", &self.calibration),
            ("evaluation", &self.evaluation),
        ]
        .into_iter()
        .filter_map(|(role, file)| file.as_ref().map(|file| (role, file)))
    }
}

/// One file that went in, known by its content and not by its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputFile {
    /// File name without folders.
    pub name: String,
    /// BLAKE3 of the content, in hexadecimal.
    pub fingerprint: String,
    /// Rows, for a data set.
    #[serde(default)]
    pub rows: Option<u64>,
    /// Size in bytes, external weights included.
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl InputFile {
    /// Keeps only the file name of `path`.
    pub fn new(path: &std::path::Path, fingerprint: impl Into<String>) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, fingerprint: fingerprint.into(), rows: None, bytes: None }
    }

    /// Adds the number of rows.
    #[must_use]
    pub fn with_rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Adds the size in bytes.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }
}

/// The library that built the engines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineLibrary {
    /// `tensorrt`, `tensorrt-rtx` or `none`.
    pub backend: String,
    /// Version of the loaded library.
    #[serde(default)]
    pub version: Option<String>,
}

/// One stage of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// The stage's verb, such as `calibrate`.
    pub name: String,
    /// What became of it.
    pub outcome: StageOutcome,
    /// Wall-clock time in milliseconds.
    #[serde(default)]
    pub ms: u64,
}

/// Whether a stage did its work in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StageOutcome {
    /// It ran.
    Ran,
    /// Its artifact was there already, made from the same inputs.
    Cached,
    /// The profile or `--stop-after` left it out.
    Skipped,
    /// It ended with an error.
    Failed,
}

impl StageOutcome {
    /// The word shown to a person.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Cached => "cached",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}
