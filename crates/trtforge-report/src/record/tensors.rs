//! What was decided and measured for each tensor.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Precision, Search, number};

/// What the rewriter did with one tensor, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The graph it was made for.
    pub precision: Precision,
    /// The tensor, named as in the original model.
    pub tensor: String,
    /// The node it belongs to.
    #[serde(default)]
    pub node: Option<String>,
    /// The encoder layer, such as `layer.3`; none for the embeddings and the head.
    #[serde(default)]
    pub layer: Option<String>,
    /// What was done.
    pub action: Action,
    /// Why, in words.
    pub reason: String,
}

/// What a tensor became. An action this version does not know is kept under its own name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// An activation in INT8, with one scale.
    Int8Activation,
    /// A weight in INT8, with one scale per channel.
    Int8Weight,
    /// In FP16.
    Half,
    /// Kept in FP32.
    KeptFloat32,
    /// A constant beyond the range of FP16, moved to its end.
    ClampedConstant,
    /// Left as it was because the policy said so.
    Skipped,
    /// Any other.
    #[serde(untagged)]
    Other(String),
}

impl Action {
    /// The words shown to a person.
    pub fn words(&self) -> &str {
        match self {
            Self::Int8Activation => "INT8 activation",
            Self::Int8Weight => "INT8 weight",
            Self::Half => "FP16",
            Self::KeptFloat32 => "kept FP32",
            Self::ClampedConstant => "clamped constant",
            Self::Skipped => "skipped",
            Self::Other(name) => name,
        }
    }

    /// Whether the tensor is stored in eight bits.
    pub fn is_int8(&self) -> bool {
        matches!(self, Self::Int8Activation | Self::Int8Weight)
    }
}

/// The calibration table in brief; the whole of it is `calibration.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationSummary {
    /// Threshold method, as in the profile.
    pub method: String,
    /// Rows observed.
    pub rows: u64,
    /// Seed the rows were sampled with.
    #[serde(default)]
    pub seed: Option<u64>,
    /// How the rows were sampled, as in the profile.
    #[serde(default)]
    pub strategy: Option<String>,
    /// Which rows ran: their lines in the calibration file, as ranges such as `1-40,43`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
    /// The GPU and the library that ran the rows; none when the CPU did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What `auto` compared; none where the profile left nothing open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// Per observed tensor.
    #[serde(default)]
    pub tensors: BTreeMap<String, TensorCalibration>,
}

/// What calibration found for one tensor; magnitudes in model units.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TensorCalibration {
    /// Largest magnitude observed.
    #[serde(with = "number")]
    #[schemars(with = "f32")]
    pub absmax: f32,
    /// Largest magnitude INT8 represents; anything larger saturates.
    #[serde(with = "number")]
    #[schemars(with = "f32")]
    pub threshold: f32,
    /// Model units per INT8 level, `threshold / 127`.
    #[serde(with = "number")]
    #[schemars(with = "f32")]
    pub scale: f32,
    /// Method that chose the threshold.
    pub method: String,
    /// Values observed.
    pub values: u64,
    /// What kept the method from its own choice, if anything did.
    #[serde(default)]
    pub guard: Option<String>,
    /// The distribution, coarse enough to draw.
    #[serde(default)]
    pub histogram: Option<HistogramSketch>,
}

/// A coarse histogram of magnitudes: bin `i` counts `width * i <= |x| < width * (i + 1)`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramSketch {
    /// Width of each bin, in model units.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub width: f64,
    /// Values in each bin.
    pub counts: Vec<u64>,
}

impl HistogramSketch {
    /// Merges neighbouring bins of a fine histogram until at most `bins` are left.
    ///
    /// - `width`: width of each fine bin, in model units.
    /// - `counts`: the fine counts from zero up; empty bins at the end are dropped first.
    pub fn from_fine(width: f64, counts: &[u64], bins: usize) -> Self {
        let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let merge = used.div_ceil(bins.max(1)).max(1);
        let counts = counts[..used].chunks(merge).map(|chunk| chunk.iter().sum()).collect();
        Self { width: width * merge as f64, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_merges_bins_and_drops_the_empty_end() {
        // By hand: five used bins into at most two make bins of three: 1+2+3 and 0+4.
        let sketch = HistogramSketch::from_fine(0.5, &[1, 2, 3, 0, 4, 0, 0], 2);
        assert_eq!(sketch, HistogramSketch { width: 1.5, counts: vec![6, 4] });
        assert_eq!(HistogramSketch::from_fine(0.5, &[0, 0], 2).counts, Vec::<u64>::new());
        assert_eq!(HistogramSketch::from_fine(0.5, &[7], 0).counts, [7]);
    }
}
