//! Why a model cannot be rewritten.

use miette::Diagnostic;
use thiserror::Error;
use trtforge_onnx::OnnxError;

/// Why a survey or a rewrite stopped; no output exists then.
#[derive(Debug, Diagnostic, Error)]
pub enum QuantizeError {
    /// The graph itself is at fault.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Onnx(#[from] OnnxError),
    /// The model holds quantization operators of another tool.
    #[error(
        "the model is already quantized: node `{node}` is a {op}{}",
        zero_point_clause(*zero_point)
    )]
    #[diagnostic(
        code(quantize::already_quantized),
        help(
            "give the FP32 model this one was made from: TensorRT takes only zero points of 0 and static scales, and Q/DQ on top of Q/DQ would lose accuracy twice"
        )
    )]
    AlreadyQuantized {
        /// The node's name, or `OpType(output)`.
        node: String,
        /// Its operator.
        op: String,
        /// Its zero point where one is known.
        zero_point: Option<i64>,
    },
    /// A `skip` or `only` pattern fits no name of the model.
    #[error("`quantize.{option}` pattern `{pattern}` matches no node or tensor")]
    #[diagnostic(code(quantize::pattern_matches_nothing), help("{}", near_clause(near)))]
    PatternMatchesNothing {
        /// `skip` or `only`.
        option: &'static str,
        /// The pattern.
        pattern: String,
        /// The most similar names of the model.
        near: Vec<String>,
    },
    /// The calibration table says nothing about a tensor that gets a Q/DQ pair.
    #[error("no scale for tensor `{tensor}`, the input of `{node}`")]
    #[diagnostic(
        code(quantize::no_scale),
        help(
            "calibrate this model again at the level to be quantized, or list the node under `quantize.skip`"
        )
    )]
    NoScale {
        /// The activation.
        tensor: String,
        /// A node that reads it.
        node: String,
    },
    /// A scale that no INT8 arithmetic can use.
    #[error("the scale of tensor `{tensor}` is {scale}")]
    #[diagnostic(
        code(quantize::bad_scale),
        help(
            "a scale is finite and above 0: calibrate again, or list the readers under `quantize.skip`"
        )
    )]
    BadScale {
        /// The activation.
        tensor: String,
        /// The scale given.
        scale: f32,
    },
    /// The channels of a tensor to be smoothed were not measured.
    #[error("no channel ranges for tensor `{tensor}`, which is to be smoothed")]
    #[diagnostic(
        code(quantize::no_channels),
        help("calibrate this model again with smoothing, or set its strength to 0")
    )]
    NoChannels {
        /// The activation.
        tensor: String,
    },
    /// Channel ranges that cannot be of this tensor.
    #[error(
        "tensor `{tensor}` has {expected} channels; {found} ranges were given, or some that are negative or not finite"
    )]
    #[diagnostic(code(quantize::bad_channels), help("calibrate this model again"))]
    BadChannels {
        /// The activation.
        tensor: String,
        /// How many ranges there are.
        found: usize,
        /// How many channels.
        expected: usize,
    },
    /// A smoothing strength outside of 0 to 1.
    #[error("the smoothing strength is {strength}")]
    #[diagnostic(
        code(quantize::bad_strength),
        help("give a number from 0 (none) to 1; 0.8 is good for BERT")
    )]
    BadStrength {
        /// What was given.
        strength: f64,
    },
}

fn zero_point_clause(zero_point: Option<i64>) -> String {
    zero_point.map_or_else(String::new, |value| format!(" with zero point {value}"))
}

fn near_clause(near: &[String]) -> String {
    if near.is_empty() {
        return "the model has no MatMul or Gemm with a constant weight".to_owned();
    }
    format!("near names: {}", near.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "))
}
