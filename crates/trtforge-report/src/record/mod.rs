//! `run.json`: everything one run did, in one value.
//!
//! The layout is a contract: adding an optional field is free, anything else raises [`SCHEMA`] and adds a step to `read.rs`, so
//! that records of every earlier layout still open. Unknown fields are ignored on reading; a record of a later layout is refused
//! by name. `run.schema.json` beside this crate's manifest is the same layout for everybody else.

mod auto;
mod benchmark;
mod canonical;
mod flips;
mod gate;
pub mod number;
mod origin;
mod precision;
mod proof;
mod read;
mod schema;
mod search;
mod shapes;
mod tensors;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use auto::{MethodChange, Search, Tried};
pub use benchmark::{
    Benchmark, BenchmarkDevice, BenchmarkResult, BenchmarkSettings, BenchmarkShape, DeviceState,
    Speedup, Spread,
};
pub use canonical::{CanonicalForm, GraphRewrite, NearMiss};
pub use flips::{Change, FlippedRow};
pub use gate::{Confusion, McNemar, Part, Rule};
pub use origin::{EngineLibrary, InputFile, Inputs, Machine, Stage, StageOutcome, Tool};
pub use precision::{
    EngineLog, Evaluation, Flips, LogitShift, Outcome, Place, Precision, PrecisionRecord, Verdict,
};
pub use proof::{EngineProof, LayerRow, ProvenProduct};
pub use read::{RecordError, SCHEMA};
pub use schema::run_schema;
pub use search::{
    Arithmetic, Fallback, FallbackLook, FallbackStep, LeftUnit, Sensitivity, UnitCost,
};
pub use shapes::{LengthBin, LengthSummary, PaddingFigure, ShapeProfile, ShapeRange, Shapes};
pub use tensors::{Action, CalibrationSummary, Decision, HistogramSketch, TensorCalibration};

/// Everything one run did: `run.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Layout version, [`SCHEMA`].
    pub schema: u32,
    /// The published name, such as `sentiment`.
    #[serde(default)]
    pub name: String,
    /// The program that ran.
    pub tool: Tool,
    /// Where it ran.
    pub machine: Machine,
    /// The library that built the engines.
    #[serde(default)]
    pub engine: Option<EngineLibrary>,
    /// When the run began, RFC 3339 in UTC; the only time stamp in the record.
    #[serde(default)]
    pub started: Option<String>,
    /// The files that went in.
    #[serde(default)]
    pub inputs: Inputs,
    /// The profile with defaults filled in and overrides applied.
    #[serde(default)]
    pub profile: Value,
    /// What became of each precision.
    #[serde(default)]
    pub precisions: BTreeMap<Precision, PrecisionRecord>,
    /// What was done to the graph before anything else; none when the profile turned that off.
    #[serde(default)]
    pub canonical: Option<CanonicalForm>,
    /// What was done with each tensor, and why.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// The calibration table in brief.
    #[serde(default)]
    pub calibration: Option<CalibrationSummary>,
    /// What quantizing each unit alone costs, where it was measured.
    #[serde(default)]
    pub sensitivity: Option<Sensitivity>,
    /// The search that `gate.on_reject: fallback` asks for, where INT8 as a whole was refused.
    #[serde(default)]
    pub fallback: Option<Fallback>,
    /// Optimization profiles, lengths and padding.
    #[serde(default)]
    pub shapes: Option<Shapes>,
    /// Latency and throughput, once measured.
    #[serde(default)]
    pub benchmark: Option<Benchmark>,
    /// Where the time goes, once measured.
    #[serde(default)]
    pub diagnosis: Option<Value>,
    /// What a person should know, most important first.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The stages in the order they ran.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Finer timings by name, in milliseconds.
    #[serde(default)]
    pub timings_ms: BTreeMap<String, u64>,
    /// The stage named by `--stop-after`, when the run ended early.
    #[serde(default)]
    pub stopped_after: Option<String>,
}

/// The run's result in one word, for exit codes and headlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// Every judged precision was accepted, or inconclusive where the profile tolerates that.
    Accepted,
    /// The gate refused at least one precision.
    Refused,
    /// Nothing was judged.
    NotJudged,
}

impl RunRecord {
    /// An empty record of this version's schema.
    pub fn new(name: impl Into<String>, tool: Tool, machine: Machine) -> Self {
        Self { schema: SCHEMA, name: name.into(), tool, machine, ..Self::default() }
    }

    /// Reads a `run.json` of this or an earlier layout. The schema is checked before anything else, so that a newer layout
    /// is named as such.
    pub fn from_json(json: &str) -> Result<Self, RecordError> {
        read::record(json)
    }

    /// The text of `run.json`: indented, one trailing newline, absolute paths of the profile cut to their file names.
    #[expect(
        clippy::missing_panics_doc,
        reason = "a record has only string keys, and `number` keeps NaN out"
    )]
    pub fn to_json(&self) -> String {
        let record = Self { profile: self.relative_profile(), ..self.clone() };
        let mut json = serde_json::to_string_pretty(&record)
            .expect("a record has only string keys and values JSON can hold");
        json.push('\n');
        json
    }

    /// The profile as an artifact may show it: absolute paths cut to their file names.
    pub fn relative_profile(&self) -> Value {
        let mut profile = self.profile.clone();
        cut_absolute_paths(&mut profile);
        profile
    }

    /// The verdicts in brief.
    pub fn outcome(&self) -> RunOutcome {
        let mut outcome = RunOutcome::NotJudged;
        for precision in self.precisions.values() {
            match &precision.verdict {
                None => {}
                Some(verdict) if verdict.lets_through() => outcome = RunOutcome::Accepted,
                Some(_) => return RunOutcome::Refused,
            }
        }
        outcome
    }
}

/// What an artifact may say about a path: a relative one as it is, an absolute one by its file name alone.
pub fn relative_name(path: &str) -> &str {
    let drive = path.as_bytes().get(1) == Some(&b':')
        && path.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    if path.starts_with(['/', '\\']) || drive {
        path.rsplit(['/', '\\']).next().unwrap_or(path)
    } else {
        path
    }
}

/// Fields of a profile that hold a path. Named, because a tensor pattern such as `/encoder/*` looks like one too.
const PATH_FIELDS: [&str; 7] =
    ["onnx", "tokenizer", "path", "table", "timing_cache", "library", "output"];

/// Cuts every absolute path in a path field to its file name.
fn cut_absolute_paths(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(cut_absolute_paths),
        Value::Object(fields) => {
            for (key, field) in fields {
                match field {
                    Value::String(path) if PATH_FIELDS.contains(&key.as_str()) => {
                        *path = relative_name(path).to_owned();
                    }
                    _ => cut_absolute_paths(field),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
