//! How much of the arithmetic is INT8, what each unit's INT8 costs, and the path a search took between the two.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;
use super::precision::Outcome;

/// Multiply-accumulates of one row, by precision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arithmetic {
    /// Of INT8 products with weights and INT8 attentions.
    pub int8_macs: u64,
    /// Of all products with weights and all attentions.
    pub all_macs: u64,
    /// `int8_macs / all_macs`.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub share: f64,
    /// Tokens of the row counted.
    pub length: u64,
}

/// What quantizing each unit alone costs, the worst first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// Rows measured on; none of them judges a model.
    pub rows: u64,
    /// Of those, the ones that did not calibrate either.
    pub fresh_rows: u64,
    /// One entry per unit that the profile makes INT8.
    pub units: Vec<UnitCost>,
    /// What the profile or the rules leave out.
    #[serde(default)]
    pub left: Vec<LeftUnit>,
}

/// What quantizing one unit alone costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitCost {
    /// The node's name in the ONNX file; an attention's is its softmax.
    pub node: String,
    /// `query`, `key`, `value`, `query-key-value`, `attention-output`, `intermediate`, `output`, `attention`,
    /// `residual-add` or `other`.
    pub kind: String,
    /// The encoder layer, counted from 0.
    #[serde(default)]
    pub encoder_layer: Option<u64>,
    /// The module path, where names tell.
    #[serde(default)]
    pub layer: Option<String>,
    /// The tensors it reads in INT8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Mean |logit − FP32 logit|.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub shift: f64,
    /// The same as a share of the mean |FP32 logit|.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub relative_shift: f64,
    /// Largest |logit − FP32 logit|.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub max_shift: f64,
    /// Signal to quantization noise of the unit's output, in decibels; none where there is no noise.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub snr_db: Option<f64>,
    /// Share of the values it reads that lie beyond the last INT8 level.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub clipped: f64,
    /// Rows whose answer is another one.
    pub flips: u64,
    /// Rows with a logit that is NaN or infinite.
    #[serde(default)]
    pub not_finite: u64,
    /// Its share of all multiply-accumulates.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub share: f64,
}

/// A unit that is not INT8.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftUnit {
    /// The node's name in the ONNX file.
    pub node: String,
    /// As [`UnitCost::kind`].
    pub kind: String,
    /// Why.
    pub reason: String,
}

/// The search for the most INT8 that passes the gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fallback {
    /// Rows on which candidates were compared before any looked at the evaluation rows.
    pub rows: u64,
    /// Confidence of each look at the evaluation rows; the gate's confidence holds for all looks together.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub confidence: f64,
    /// INT8 as a whole, and then every candidate, the one with the least INT8 first: the order of the looks, fixed before
    /// the first at a candidate.
    pub steps: Vec<FallbackStep>,
    /// The candidate that passed with the most INT8, as a position in `steps`.
    #[serde(default)]
    pub chosen: Option<u64>,
    /// Why the search ended, in words.
    pub ended: String,
    /// Whether the verdicts beside it come from other rules than those it searched under. Never written: a record is of its build.
    #[serde(skip)]
    pub judged_again: bool,
}

/// One candidate of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FallbackStep {
    /// Nodes returned to FP16, the worst first.
    pub returned: Vec<String>,
    /// What stays INT8.
    pub arithmetic: Arithmetic,
    /// Mean |logit − FP32 logit| on rows that judge nothing; none for INT8 as a whole.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub shift: Option<f64>,
    /// What the gate said; none for a candidate that was not looked at.
    #[serde(default)]
    pub look: Option<FallbackLook>,
}

/// What the gate said about one candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FallbackLook {
    /// The metric on the evaluation rows.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub value: f64,
    /// Its loss against FP32.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub drop: f64,
    /// Interval of the loss, low then high.
    #[serde(with = "number")]
    #[schemars(with = "[f64; 2]")]
    pub interval: [f64; 2],
    /// The decision.
    pub outcome: Outcome,
    /// Whether the candidate may be used.
    pub passed: bool,
}
