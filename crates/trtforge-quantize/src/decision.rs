//! What was done to each tensor, and why.

use serde::{Deserialize, Serialize};
use trtforge_onnx::Model;

use crate::half_values::through_half;
use crate::weight::half_holds_scale;

/// What a rewrite did with one tensor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// An activation got a Q/DQ pair with one scale.
    Int8Activation {
        /// Model units per INT8 level, exactly as stored in the graph.
        scale: f32,
    },
    /// A weight became an INT8 initializer with a scale per output channel.
    Int8Weight {
        /// The output channels' axis in the stored weight.
        axis: usize,
        /// How many output channels, so how many scales.
        channels: usize,
    },
    /// Stored or computed in FP16.
    Half,
    /// Left in FP32.
    KeptFloat32,
    /// A constant FP16 cannot hold was replaced by one it can.
    ClampedConstant {
        /// The value it had, as text since it may be infinite.
        from: String,
        /// The value it has now.
        to: f32,
    },
    /// An activation was divided by a factor per channel, and the weights that read it were multiplied, before calibration.
    Smoothed {
        /// How many channels, so how many factors.
        channels: usize,
        /// The largest factor, a power of two.
        largest: f32,
        /// The smallest.
        smallest: f32,
    },
    /// Not quantized though the level has a pair for it; it follows the FP16 rules instead.
    Skipped,
}

/// One tensor, what was done to it, and the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The tensor's name in the model as it was given.
    pub tensor: String,
    /// The node that the decision is about, by name or by `OpType(output)` where it has none.
    pub node: Option<String>,
    /// The layer it belongs to, guessed from weight, bias or node names.
    pub layer: Option<String>,
    /// What was done.
    #[serde(flatten)]
    pub action: Action,
    /// Why, in words for the report.
    pub reason: String,
}

/// A rewritten model with the account of how it came about.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The new model; it passes `Model::check`.
    pub model: Model,
    /// One entry per tensor considered, in graph order.
    pub decisions: Vec<Decision>,
    /// What a person should look at: clamped constants, lost values, unknown ranges.
    pub warnings: Vec<String>,
    /// Where the scales of activations are stored; fixed ones and those of weights are not among them.
    pub scales: Vec<ScaleSlot>,
}

/// A constant of a rewritten graph that holds the scale of one Q or DQ of an activation.
#[derive(Debug, Clone, PartialEq)]
pub struct ScaleSlot {
    /// The constant's name.
    pub constant: String,
    /// The tensor whose calibrated scale it follows from.
    pub tensor: String,
    /// What that scale is multiplied by: other than 1 where attention's factor moved onto Q.
    pub factor: f32,
}

impl ScaleSlot {
    /// What the graph stores for a calibrated scale: rounded to FP16 where FP16 holds it.
    pub fn stored(&self, calibrated: f32) -> f32 {
        let scale = calibrated * self.factor;
        if half_holds_scale(scale) { through_half(scale) } else { scale }
    }
}

impl Rewritten {
    /// How many weights are INT8 now.
    pub fn int8_weights(&self) -> usize {
        self.decisions.iter().filter(|d| matches!(d.action, Action::Int8Weight { .. })).count()
    }
}
