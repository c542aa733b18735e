//! What became of one precision: its files, its accuracy and the gate's verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flips::FlippedRow;
use super::gate::{Confusion, McNemar, Part, Rule};
use super::number;
use super::proof::EngineProof;
use super::search::Arithmetic;

/// A numeric precision of the model. The order is the order of every table: the baseline first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// The original model, which the others are judged against.
    Fp32,
    /// 16-bit floating point.
    Fp16,
    /// 8-bit integers where a scale is known, 16-bit floating point elsewhere.
    Int8,
}

impl Precision {
    /// As in file names and JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Int8 => "int8",
        }
    }

    /// As written in prose.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "FP32",
            Self::Fp16 => "FP16",
            Self::Int8 => "INT8",
        }
    }
}

/// Everything one precision left behind. Paths are relative to the run's output folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrecisionRecord {
    /// The ONNX file the engine was built from.
    #[serde(default)]
    pub onnx: Option<String>,
    /// Its size in bytes, external weights included.
    #[serde(default)]
    pub onnx_bytes: Option<u64>,
    /// The serialized engine.
    #[serde(default)]
    pub plan: Option<String>,
    /// Its size in bytes.
    #[serde(default)]
    pub plan_bytes: Option<u64>,
    /// Time the engine took to build, in milliseconds; of the original build when it came from the cache.
    #[serde(default)]
    pub build_ms: Option<u64>,
    /// What the library said while building.
    #[serde(default)]
    pub engine_log: Option<EngineLog>,
    /// Accuracy on the evaluation rows.
    #[serde(default)]
    pub evaluation: Option<Evaluation>,
    /// Every metric of the same rows, the one of `evaluation` first.
    #[serde(default)]
    pub metrics: Vec<Evaluation>,
    /// Which class is taken for which.
    #[serde(default)]
    pub confusion: Option<Confusion>,
    /// What the model answered, row by row, for judging again.
    #[serde(default)]
    pub predictions: Option<String>,
    /// The gate's verdict; the baseline has none.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Rows that FP32 answers in another way, those lost first; there may be more than are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flipped: Vec<FlippedRow>,
    /// How far the logits moved from the baseline's.
    #[serde(default)]
    pub logit_shift: Option<LogitShift>,
    /// How much of the arithmetic is INT8, for a precision that has any.
    #[serde(default)]
    pub arithmetic: Option<Arithmetic>,
    /// What the engine itself says of the precision it runs in; none without an engine.
    #[serde(default)]
    pub proof: Option<EngineProof>,
    /// Whether the engine was published under `engines/`.
    #[serde(default)]
    pub published: bool,
}

/// Where the figures of an evaluation come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The engine itself, on a GPU.
    Device,
    /// The same graph on the embedded reference executor, on the CPU.
    Reference,
}

/// A metric over the evaluation rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// Name of the metric, such as `accuracy`.
    pub metric: String,
    /// Its value; for accuracy a share from 0 to 1.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub value: f64,
    /// Confidence interval of the value, low then high.
    #[serde(with = "number")]
    #[schemars(with = "[f64; 2]")]
    pub interval: [f64; 2],
    /// Confidence of the interval, such as 0.95.
    #[serde(with = "number", default = "usual_confidence")]
    #[schemars(with = "f64")]
    pub confidence: f64,
    /// Rows evaluated.
    pub count: u64,
    /// Rows with a NaN or infinite logit; they count as wrong.
    #[serde(default)]
    pub not_finite: u64,
    /// Where the model ran.
    pub evaluated_on: Place,
}

fn usual_confidence() -> f64 {
    0.95
}

/// What the gate decided, and on what grounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The decision.
    pub outcome: Outcome,
    /// Loss of the metric against the baseline on the same rows; positive is worse.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub drop: f64,
    /// Confidence interval of the drop, low then high; each end alone holds with `confidence`, and the high one decides.
    #[serde(with = "number")]
    #[schemars(with = "[f64; 2]")]
    pub interval: [f64; 2],
    /// The largest drop the profile allows.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub max_drop: f64,
    /// Confidence the decision was taken at, such as 0.95.
    #[serde(with = "number", default = "usual_confidence")]
    #[schemars(with = "f64")]
    pub confidence: f64,
    /// The decision in words.
    pub reason: String,
    /// Whether the engine may be used: accepted, or inconclusive where the profile tolerates that.
    #[serde(default)]
    pub passed: bool,
    /// Evaluation rows that would decide, when these were too few.
    #[serde(default)]
    pub rows_needed: Option<u64>,
    /// How the answers of single rows changed.
    #[serde(default)]
    pub flips: Option<Flips>,
    /// Whether there is a difference at all, by McNemar's exact test.
    #[serde(default)]
    pub mcnemar: Option<McNemar>,
    /// The recorded run that was the baseline, where it was not FP32 of this run.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Every rule with its outcome; the verdict is the worst of them.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Every class by itself.
    #[serde(default)]
    pub classes: Vec<Part>,
    /// Every value of every sliced field by itself.
    #[serde(default)]
    pub slices: Vec<Part>,
}

impl Verdict {
    /// Whether the engine may be used.
    pub fn lets_through(&self) -> bool {
        match self.outcome {
            Outcome::Accepted => true,
            Outcome::Inconclusive => self.passed,
            Outcome::Rejected => false,
        }
    }
}

/// The gate's three answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The drop is within the tolerance, with confidence.
    Accepted,
    /// The drop is too large.
    Rejected,
    /// Too few rows to tell.
    Inconclusive,
}

impl Outcome {
    /// The word shown to a person, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Rows by what the baseline and the candidate answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flips {
    /// Right before, wrong now.
    pub to_wrong: u64,
    /// Wrong before, right now.
    pub to_right: u64,
    /// Wrong before, and wrong in another way now.
    #[serde(default)]
    pub wrong_to_wrong: u64,
    /// Right in both.
    #[serde(default)]
    pub both_right: u64,
    /// Wrong in both, whatever the answer.
    #[serde(default)]
    pub both_wrong: u64,
}

impl Flips {
    /// Rows whose answer changed in any way.
    pub fn changed(&self) -> u64 {
        self.to_wrong + self.to_right + self.wrong_to_wrong
    }
}

/// Absolute difference between the candidate's and the baseline's logits, in logit units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogitShift {
    /// Mean over all rows and classes.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub mean: f64,
    /// Largest.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub max: f64,
}

/// Summary of what the library logged while it built one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EngineLog {
    /// The whole log, relative to the output folder.
    #[serde(default)]
    pub file: Option<String>,
    /// Lines in all.
    #[serde(default)]
    pub lines: u64,
    /// Lines of severity warning.
    #[serde(default)]
    pub warnings: u64,
    /// Lines of severity error or worse.
    #[serde(default)]
    pub errors: u64,
    /// The lines worth reading first, in the order they came.
    #[serde(default)]
    pub notable: Vec<String>,
}
