//! What the engine itself says of the precision it runs in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;

/// What an engine's layers prove of its precision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineProof {
    /// In one sentence: "70 of 72 matrix multiplications run in INT8, 2 in FP16", or why there is no proof.
    pub summary: String,
    /// Why the engine could not be asked; the rest is empty then.
    #[serde(default)]
    pub missing: Option<String>,
    /// Matrix multiplications by the type that is proven of them: `INT8`, `FP16`, …, `not INT8`, `not provable`.
    #[serde(default)]
    pub products_by_type: BTreeMap<String, u64>,
    /// Share of the arithmetic that is proven to run in INT8, from 0 to 1.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub int8_share: Option<f64>,
    /// Share of the arithmetic of which nothing is proven.
    #[serde(with = "number", default)]
    #[schemars(with = "Option<f64>")]
    pub unproven_share: Option<f64>,
    /// Every matrix multiplication of the graph.
    #[serde(default)]
    pub products: Vec<ProvenProduct>,
    /// Q and DQ nodes in the graph.
    #[serde(default)]
    pub quantizers: u64,
    /// Engine layers that consist of Q and DQ alone: not fused away.
    #[serde(default)]
    pub quantizers_left: Vec<String>,
    /// Engine layers that only change the format or type of a tensor.
    #[serde(default)]
    pub reformats: u64,
    /// Every layer of the engine, in the order in which they run.
    #[serde(default)]
    pub layers: Vec<LayerRow>,
}

/// What is proven of one matrix multiplication.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvenProduct {
    /// The node's name in the ONNX file.
    pub node: String,
    /// The type its operands have in the ONNX file.
    #[serde(default)]
    pub graph: Option<String>,
    /// The type it is computed in, `not INT8` or `not provable`.
    pub engine: String,
    /// The engine's layer that computes it.
    #[serde(default)]
    pub layer: Option<String>,
    /// What proves that, or why nothing does.
    #[serde(default)]
    pub why: String,
}

/// One layer of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerRow {
    /// TensorRT's name of it.
    pub name: String,
    /// TensorRT's kind, such as `gemm`, `kgen` or `Reformat`.
    #[serde(default)]
    pub kind: String,
    /// The nodes of the ONNX file that it comes from.
    #[serde(default)]
    pub origin: Vec<String>,
    /// Types of what it reads, each once; `?` where the inspector does not say.
    #[serde(default)]
    pub reads: Vec<String>,
    /// Types of what it writes.
    #[serde(default)]
    pub writes: Vec<String>,
    /// The type it multiplies in, where that is proven.
    #[serde(default)]
    pub computes: Option<String>,
    /// The kernel.
    #[serde(default)]
    pub tactic: Option<String>,
    /// What proves the type, or why nothing does.
    #[serde(default)]
    pub why: String,
}

impl EngineProof {
    /// An engine that could not be asked, and why.
    pub fn missing(why: impl Into<String>) -> Self {
        let why = why.into();
        Self {
            summary: format!("which precision the engine runs in is not proven: {why}"),
            missing: Some(why),
            ..Self::default()
        }
    }
}
