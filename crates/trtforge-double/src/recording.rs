//! What the double's engine plays back.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Element types a recording can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "named as they are")]
pub enum TensorType {
    Float32,
    Float16,
    Int8,
    Int32,
    Int64,
    Uint8,
    Bool,
}

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its element type.
    #[serde(rename = "type")]
    pub element_type: TensorType,
    /// −1 where dynamic.
    pub dims: Vec<i64>,
    /// One name per dimension, empty where it has none; outputs get their sizes from the inputs by these names.
    pub dim_names: Vec<String>,
    /// Not an output: shown to a debug listener only.
    #[serde(default)]
    pub debug: bool,
}

impl Tensor {
    /// A tensor whose dimensions are numbers, or names where dynamic.
    pub fn new(name: &str, element_type: TensorType, dims: &[&str]) -> Tensor {
        let sizes = dims.iter().map(|dim| dim.parse::<i64>().unwrap_or(-1)).collect();
        let name_of =
            |dim: &&str| if dim.parse::<i64>().is_ok() { String::new() } else { (*dim).to_owned() };
        Tensor {
            name: name.to_owned(),
            element_type,
            dims: sizes,
            dim_names: dims.iter().map(name_of).collect(),
            debug: false,
        }
    }
}

/// The bytes of one tensor (in hexadecimal), and their shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// The shape.
    pub dims: Vec<i64>,
    /// Little-endian elements, two digits a byte.
    pub bytes: String,
}

impl Values {
    /// From bytes.
    pub fn new(dims: &[i64], bytes: &[u8]) -> Values {
        let bytes = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Values { dims: dims.to_vec(), bytes }
    }

    /// FP32 values.
    pub fn f32(dims: &[i64], values: &[f32]) -> Values {
        Values::new(dims, &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }

    /// 64-bit integers.
    pub fn i64(dims: &[i64], values: &[i64]) -> Values {
        Values::new(dims, &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())
    }
}

/// These inputs, bit for bit, give these outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// By name.
    pub inputs: BTreeMap<String, Values>,
    /// By name.
    pub outputs: BTreeMap<String, Values>,
}

/// One row of a text model, so that any batch it comes in, however padded, gives its outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// For each of [`Recording::keys`], the values where the mask is 1.
    pub key: Vec<Vec<i64>>,
    /// By name, without the batch axis; with one entry per token where the output has positions.
    pub outputs: BTreeMap<String, Values>,
}

/// The shapes of one input in one profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Smallest.
    pub min: Vec<i64>,
    /// Most likely.
    pub opt: Vec<i64>,
    /// Largest.
    pub max: Vec<i64>,
}

/// What an engine of the double has and gives.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recording {
    /// In the model's order.
    pub inputs: Vec<Tensor>,
    /// In the model's order.
    pub outputs: Vec<Tensor>,
    /// One map from input to `{min, opt, max}` per optimization profile; a build puts its own here.
    pub profiles: Vec<BTreeMap<String, Range>>,
    /// What the inspector says of each layer: an object, or just a name.
    #[serde(default)]
    pub layers: Vec<Json>,
    /// Exact inputs with their outputs.
    #[serde(default)]
    pub batches: Vec<Batch>,
    /// The input that is 1 where a row has a token.
    #[serde(default)]
    pub mask: Option<String>,
    /// The inputs that identify a row.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Rows with their outputs.
    #[serde(default)]
    pub rows: Vec<Row>,
    /// Simulated time of one run, in microseconds; 100 where not given.
    #[serde(default)]
    pub compute_us: Option<f64>,
    /// Scratch memory of a context, in bytes; 4096 where not given.
    #[serde(default)]
    pub device_memory: Option<u64>,
    /// Weights that can be streamed, in bytes; none where not given.
    #[serde(default)]
    pub streamable_weights: Option<u64>,
}

/// Versions of the headers that the double was compiled from.
const TENSORRT_VERSION: i64 = 110_400;
const RTX_VERSION: i64 = 10_701;

impl Recording {
    /// Adds a profile.
    #[must_use]
    pub fn with_profile(mut self, ranges: &[(&str, [&[i64]; 3])]) -> Recording {
        let range = |[min, opt, max]: &[&[i64]; 3]| Range {
            min: min.to_vec(),
            opt: opt.to_vec(),
            max: max.to_vec(),
        };
        let ranges = ranges.iter().map(|(name, shapes)| ((*name).to_owned(), range(shapes)));
        self.profiles.push(ranges.collect());
        self
    }

    /// A plan that the double of TensorRT 11.4 deserializes.
    pub fn plan(&self) -> Vec<u8> {
        self.serialized("ftrt", TENSORRT_VERSION)
    }

    /// A plan that the double of TensorRT-RTX 1.7 deserializes.
    pub fn rtx_plan(&self) -> Vec<u8> {
        self.serialized("vtrt", RTX_VERSION)
    }

    /// A plan that claims to be built by another version.
    pub fn plan_of_version(&self, version: i64) -> Vec<u8> {
        self.serialized("ftrt", version)
    }

    /// Writes what the double of the ONNX parser reads.
    pub fn save(&self, path: &Path) {
        let json = serde_json::to_string(self).expect("a recording is JSON");
        std::fs::write(path, json).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn serialized(&self, magic: &str, version: i64) -> Vec<u8> {
        let mut json = serde_json::to_value(self).expect("a recording is JSON");
        json["sdk_version"] = version.into();
        format!("{magic}{json}").into_bytes()
    }
}
