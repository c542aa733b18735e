//! The attention mask: which tensors see its sentinel, the large negative number that stands for "ignore".
//!
//! A histogram of such a tensor is a histogram of the sentinel, so none of them may be observed or quantized, and FP16
//! must not turn the sentinel into an infinity that the next sum makes NaN.

use std::collections::BTreeSet;

use trtforge_onnx::{ElementType, attr_tensor, is_op};

use crate::analysis::Analysis;

/// From here on a negative constant that reaches a Softmax is taken for a mask: e^-1000 is 0 in every precision.
const SENTINEL: f32 = 1000.0;

/// Where FP16 keeps mask sentinels: e^-30000 is still exactly 0, and two masks (padding and causal) plus scores down to
/// −5504 add up to a finite FP16 value. With −65504 itself, a score of −16 would already give −inf, and a row that is
/// masked everywhere would become NaN.
pub const MASK_IN_HALF: f32 = 30000.0;

/// Tensors on a path from a mask sentinel to a Softmax input, both ends included.
///
/// Found by what flows, not by names: the sentinel may be a constant, a `ConstantOfShape` or a branch of `Where`.
pub(crate) fn masked_tensors(analysis: &Analysis) -> BTreeSet<String> {
    let ahead = tensors_before_softmax(analysis);
    let mut masked: BTreeSet<String> = analysis
        .constants
        .iter()
        .filter(|(name, constant)| {
            let stats = &constant.stats;
            ahead.contains(**name) && (stats.absmax >= SENTINEL || stats.infinite > 0)
        })
        .map(|(name, _)| (*name).to_owned())
        .collect();
    for node in analysis.nodes() {
        let from_input =
            carries_mask(node.op_type()) && node.input.iter().any(|i| masked.contains(i));
        if from_input || fills_with_sentinel(node) {
            masked.extend(node.output.iter().filter(|o| ahead.contains(o.as_str())).cloned());
        }
    }
    masked
}

/// Everything that reaches a Softmax through operators a mask can pass.
fn tensors_before_softmax<'m>(analysis: &Analysis<'m>) -> BTreeSet<&'m str> {
    let mut ahead = BTreeSet::new();
    for node in analysis.nodes().iter().rev() {
        let ends = is_softmax(node.op_type());
        let passes = carries_mask(node.op_type())
            && node.output.iter().any(|output| ahead.contains(output.as_str()));
        if ends || passes {
            ahead.extend(node.input.iter().map(String::as_str));
        }
    }
    ahead
}

/// `Exp` ends the path as well: it is the heart of a softmax written out.
fn is_softmax(op: &str) -> bool {
    matches!(op, "Softmax" | "LogSoftmax" | "Exp")
}

fn carries_mask(op: &str) -> bool {
    matches!(
        op,
        "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Neg"
            | "Sum"
            | "Where"
            | "Min"
            | "Max"
            | "Clip"
            | "Identity"
            | "Cast"
            | "Expand"
            | "Tile"
            | "Reshape"
            | "Flatten"
            | "Squeeze"
            | "Unsqueeze"
            | "Transpose"
            | "Slice"
            | "Split"
            | "Gather"
            | "Concat"
            | "Pad"
            | "Trilu"
            | "ScatterND"
            | "ScatterElements"
            | "ReduceMax"
    )
}

fn fills_with_sentinel(node: &trtforge_onnx::proto::NodeProto) -> bool {
    is_op(node, "ConstantOfShape")
        && attr_tensor(node, "value").is_some_and(|tensor| {
            tensor.element_type == ElementType::F32
                && tensor.to_f32().is_ok_and(|v| v.iter().any(|x| x.abs() >= SENTINEL))
        })
}
