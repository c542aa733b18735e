//! The profile: everything one build is made from, checked before any work starts.
//!
//! Field names are the contract of `docs/profile.md`. A profile is read once, by [`Profile::read`], into the types
//! below; from there on no stage looks at YAML again.

mod benchmark;
mod data;
mod decode;
mod engine;
mod error;
mod fallback;
mod gate;
mod read;
mod schema;
mod task;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use trtforge_calibrate::Method;
use trtforge_quantize::Level;

pub use benchmark::BenchmarkSection;
pub use data::{CalibrationData, EvaluationData, RowFields};
pub use engine::{EngineSection, TimingCache};
pub use error::ProfileError;
pub use fallback::FallbackSection;
pub use gate::{BaselineRun, GateSection};
pub use schema::profile_schema;
pub use task::{AnswerRules, Pooling, Task, TextEncoders, Vectors};

/// A checked profile. Paths are already joined to the profile's folder.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The model and its tokenizer.
    pub model: ModelSection,
    /// What the model does.
    pub task: Task,
    /// Rows that calibrate.
    pub calibration: CalibrationData,
    /// Rows that judge; none when the profile has no `data.evaluation`.
    pub evaluation: EvaluationData,
    /// Tokens a row may have, special tokens included.
    pub max_length: usize,
    /// Engines to build, FP16 before INT8.
    pub precisions: Vec<Precision>,
    /// Optimization profiles of the engines.
    pub shapes: Shapes,
    /// How thresholds are chosen.
    pub calibrate: CalibrateSection,
    /// What becomes INT8.
    pub quantize: QuantizeSection,
    /// How rows are batched when accuracy is measured.
    pub evaluate: EvaluateSection,
    /// When an engine is good enough.
    pub gate: GateSection,
    /// How engines are built.
    pub engine: EngineSection,
    /// How they are timed.
    pub benchmark: BenchmarkSection,
    /// Where results go.
    pub output: PathBuf,
    /// The profile as it was read, overrides applied, with its paths as written: for the run record.
    pub as_written: serde_json::Value,
}

impl Profile {
    /// Every file the profile names to be read.
    pub fn input_files(&self) -> Vec<PathBuf> {
        let mut files = vec![
            self.model.onnx.clone(),
            self.model.tokenizer.clone(),
            self.calibration.path.clone(),
            self.evaluation.path.clone(),
        ];
        files.extend(self.calibrate.table.clone());
        files.extend(self.engine.options.plugins.clone());
        files.extend(self.engine.timing_cache.pinned());
        files
    }
}

/// `model:`
#[derive(Debug, Clone)]
pub struct ModelSection {
    /// The FP32 ONNX model.
    pub onnx: PathBuf,
    /// `tokenizer.json` or a WordPiece `vocab.txt`.
    pub tokenizer: PathBuf,
    /// Roles of inputs whose name does not tell: model input name to role.
    pub inputs: BTreeMap<String, String>,
    /// The output that is read, where a model has several; two for question answering, start before end.
    pub outputs: Vec<String>,
    /// Whether every stage works on the canonical form of the graph.
    pub canonical: bool,
}

/// The precision of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// FP16 weights and arithmetic, guarded parts in FP32.
    Fp16,
    /// INT8 matrix multiplications, the rest FP16.
    Int8,
}

impl Precision {
    /// As in file names and the record.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::Fp16 => "fp16",
            Precision::Int8 => "int8",
        }
    }
}

/// `shapes:`
#[derive(Debug, Clone)]
pub enum Shapes {
    /// Planned from the lengths of a data set.
    FromLengths {
        /// Whose lengths.
        from: LengthSource,
        /// Optimization profiles.
        profiles: usize,
        /// Largest batch.
        max_batch: usize,
    },
    /// As given: `[batch, length]` each.
    Explicit(Vec<ExplicitShape>),
}

/// Whose lengths shapes are planned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthSource {
    /// `data.evaluation`
    Evaluation,
    /// `data.calibration`
    Calibration,
}

/// One optimization profile, `[batch, length]` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplicitShape {
    /// Smallest.
    pub min: [usize; 2],
    /// The one tactics are chosen for.
    pub opt: [usize; 2],
    /// Largest.
    pub max: [usize; 2],
}

/// `calibrate:`
#[derive(Debug, Clone)]
pub struct CalibrateSection {
    /// Threshold method.
    pub method: Method,
    /// A recorded table to use instead of calibrating.
    pub table: Option<PathBuf>,
    /// Most rows per forward pass.
    pub batch_size: usize,
    /// What runs the rows.
    pub device: CalibrationDevice,
}

/// `calibrate.device`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalibrationDevice {
    /// The GPU where there is one and the backend can use it, else the CPU.
    Auto,
    /// The embedded executor.
    Cpu,
    /// An FP32 engine.
    Gpu,
}

impl CalibrationDevice {
    /// As it is written.
    pub const NAMES: [(&'static str, CalibrationDevice); 3] = [
        ("auto", CalibrationDevice::Auto),
        ("cpu", CalibrationDevice::Cpu),
        ("gpu", CalibrationDevice::Gpu),
    ];
}

/// `quantize:`
#[derive(Debug, Clone)]
pub struct QuantizeSection {
    /// How far Q/DQ reaches.
    pub level: Level,
    /// Patterns that stay FP16.
    pub skip: Vec<String>,
    /// When not empty: patterns that alone become INT8.
    pub only: Vec<String>,
    /// Strength of SmoothQuant.
    pub smooth: Smooth,
}

/// `quantize.smooth`
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Smooth {
    /// This strength, 0 (off) to 1.
    Strength(f64),
    /// The strength that moves the logits least, found by trial.
    Auto,
}

impl fmt::Display for Smooth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strength(strength) => strength.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// `evaluate:`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluateSection {
    /// Rows per batch.
    pub batch_size: usize,
    /// To what length rows are padded.
    pub padding: Padding,
}

/// To what length rows of a batch are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// The longest row of the batch, rows sorted by length.
    Longest,
    /// Always `max_length`.
    MaxLength,
}
