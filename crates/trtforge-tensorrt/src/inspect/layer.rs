//! One layer of an engine, in terms that hold for every version of TensorRT.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::inspect::compute::Compute;
use crate::inspect::json::{InspectError, field, layers, text};
use crate::inspect::number::NumberType;
use crate::inspect::{origin, tactic};

/// What an engine says of its layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineLayers {
    /// How much of each layer is told.
    pub detail: Detail,
    /// The layers in the order in which they run.
    pub layers: Vec<EngineLayer>,
}

/// How much an engine says of its layers; its builder decided that (`ProfilingVerbosity`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// Nothing.
    Nothing,
    /// Names alone.
    Names,
    /// Kinds, tensors, tactics.
    Full,
}

/// What a layer does, as far as it concerns the precision of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerRole {
    /// One or more products with weights or between tensors.
    Product,
    /// The products of an attention and its softmax in one kernel.
    Attention,
    /// A region that TensorRT compiled as a whole, whatever is in it.
    Region,
    /// A kernel that was generated for several small operations.
    Generated,
    /// Another format or type for the same values.
    Reformat,
    /// Work on the host or between streams, or none.
    Bookkeeping,
    /// Anything else.
    Other,
}

/// A tensor that a layer reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTensor {
    /// Its name.
    pub name: String,
    /// Its type; none where the inspector does not say (of dynamic shapes it may not).
    #[serde(default)]
    pub number: Option<NumberType>,
    /// Its dimensions, -1 for a dynamic one.
    #[serde(default)]
    pub dims: Vec<i64>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineLayer {
    /// TensorRT's name of it.
    pub name: String,
    /// TensorRT's kind, such as `gemm`, `kgen` or `Reformat`; empty where only names are kept.
    #[serde(default)]
    pub kind: String,
    /// What that means.
    pub role: LayerRole,
    /// The nodes of the ONNX graph that it comes from, by its metadata.
    #[serde(default)]
    pub origin: Vec<String>,
    /// What it reads.
    #[serde(default)]
    pub inputs: Vec<LayerTensor>,
    /// What it writes.
    #[serde(default)]
    pub outputs: Vec<LayerTensor>,
    /// The type of its weights, where they are its own.
    #[serde(default)]
    pub weights: Option<NumberType>,
    /// The kernel that was chosen.
    #[serde(default)]
    pub tactic: Option<String>,
    /// The type it computes in.
    pub compute: Compute,
}

impl EngineLayers {
    /// Reads what [`crate::Engine::inspect`] gives.
    pub fn from_json(json: &str) -> Result<EngineLayers, InspectError> {
        let values = layers(json)?;
        let full = values.iter().any(|layer| {
            layer.as_object().is_some_and(|fields| field(fields, "layertype").is_some())
        });
        let layers: Vec<EngineLayer> = values.iter().map(EngineLayer::read).collect();
        let detail = match (layers.is_empty(), full) {
            (true, _) => Detail::Nothing,
            (_, false) => Detail::Names,
            (_, true) => Detail::Full,
        };
        Ok(EngineLayers { detail, layers })
    }
}

impl EngineLayer {
    fn read(value: &Value) -> EngineLayer {
        let empty = Map::new();
        let fields = value.as_object().unwrap_or(&empty);
        let name = value.as_str().or_else(|| text(fields, "name")).unwrap_or_default();
        let kind = text(fields, "layertype").or_else(|| text(fields, "type")).unwrap_or_default();
        // Where no name was kept, TensorRT writes the value of the tactic alone; it names no kernel.
        let tactic = text(fields, "tacticname");
        let mut layer = EngineLayer {
            name: name.to_owned(),
            kind: kind.to_owned(),
            role: role(name, kind, text(fields, "origin"), tactic),
            origin: origin::of_metadata(text(fields, "metadata").unwrap_or_default()),
            inputs: tensors(field(fields, "inputs")),
            outputs: tensors(field(fields, "outputs")),
            weights: weights(fields),
            tactic: tactic.map(str::to_owned),
            compute: Compute::unproven("only the layer's name was kept"),
        };
        if !kind.is_empty() {
            layer.compute = Compute::of(&layer);
        }
        layer
    }

    /// Whether it may hold a product of the graph.
    pub fn may_multiply(&self) -> bool {
        use LayerRole as R;
        matches!(self.role, R::Product | R::Attention | R::Region | R::Generated)
    }
}

fn tensors(value: Option<&Value>) -> Vec<LayerTensor> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_object).map(tensor).collect()
}

fn tensor(fields: &Map<String, Value>) -> LayerTensor {
    let named = |key| text(fields, key).and_then(NumberType::of_format);
    let number = ["datatype", "formatdatatype", "precision", "format"].into_iter().find_map(named);
    let dims = field(fields, "dimensions").and_then(Value::as_array);
    LayerTensor {
        name: text(fields, "name").unwrap_or_default().to_owned(),
        number,
        dims: dims.into_iter().flatten().filter_map(Value::as_i64).collect(),
    }
}

fn weights(fields: &Map<String, Value>) -> Option<NumberType> {
    match field(fields, "weights")? {
        Value::Object(weights) => NumberType::of_format(text(weights, "type")?),
        Value::String(text) => NumberType::of_format(text),
        _ => None,
    }
}

fn role(name: &str, kind: &str, origin: Option<&str>, tactic: Option<&str>) -> LayerRole {
    let kind = kind.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| kind.contains(name));
    let reformat = origin.is_some_and(|origin| origin.eq_ignore_ascii_case("reformat"));
    let attention = |text: &str| text.contains("_mha") || text.contains("fmha");
    if reformat || kind == "reformat" || name.starts_with("Reformatting CopyNode") {
        return LayerRole::Reformat;
    }
    if is(&["signal", "wait", "shape", "noop", "constant"]) {
        return LayerRole::Bookkeeping;
    }
    if origin::region(name).is_some() || kind == "myelin" {
        return LayerRole::Region;
    }
    if attention(name) || tactic.is_some_and(attention) {
        return LayerRole::Attention;
    }
    if is(&["gemm", "gemv", "matmul", "matrixmultiply", "fullyconnected", "conv"])
        || tactic.is_some_and(tactic::multiplies)
    {
        return LayerRole::Product;
    }
    if kind == "kgen" || kind == "fusion" {
        return LayerRole::Generated;
    }
    LayerRole::Other
}

#[cfg(test)]
#[path = "layer_tests.rs"]
pub(crate) mod tests;
