//! Producers that can divide their output by the factors themselves: the gain and shift of a normalization, and for an
//! attention context the projection that made V.

use std::collections::BTreeSet;

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{Use, attr_i, attr_ints, is_op};

use super::edits::{only_read_by, stored_axes};
use super::groups::Group;
use crate::analysis::Analysis;
use crate::gemm::WeightedGemm;

/// A constant input of a node that takes the factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operand {
    pub node: usize,
    pub input: usize,
    pub constant: String,
    /// The axis of the channels.
    pub axis: usize,
}

/// How an activation can be smoothed without a node of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fold {
    /// The node whose output is the activation.
    pub producer: usize,
    pub operands: Vec<Operand>,
    /// What takes the factors, in words.
    pub into: String,
}

/// A fold of the group's activation, if its producer allows one and every reader is a member that moves.
pub(super) fn find_fold(
    analysis: &Analysis,
    gemms: &[WeightedGemm],
    group: &Group,
) -> Option<Fold> {
    let tensor = group.tensor.as_str();
    let reads: BTreeSet<(usize, usize)> = group.moved().map(|member| member.reads).collect();
    let mut uses = analysis.graph.consumers(tensor).iter();
    let follows = |u: &Use| reads.contains(&(u.node, u.input)) || reads_no_value(analysis, u.node);
    if analysis.name_is_fixed(tensor) || !uses.all(follows) {
        return None;
    }
    normalization(analysis, tensor, group.channels)
        .or_else(|| gain_and_shift(analysis, tensor, group.channels))
        .or_else(|| value_projection(analysis, gemms, tensor, group.channels))
}

fn normalization(analysis: &Analysis, tensor: &str, channels: usize) -> Option<Fold> {
    let producer = analysis.producer(tensor)?;
    let node = &analysis.nodes()[producer];
    if !is_op(node, "LayerNormalization") || node.output[0] != tensor {
        return None;
    }
    let mut operands = vec![vector(analysis, producer, 1, channels)?];
    if node.input.get(2).is_some_and(|shift| !shift.is_empty()) {
        operands.push(vector(analysis, producer, 2, channels)?);
    }
    let into = format!("gain and shift of `{}`", analysis.label(producer));
    Some(Fold { producer, operands, into })
}

/// `Mul` by a constant, with or without an `Add` of one: the end of a normalization written out.
fn gain_and_shift(analysis: &Analysis, tensor: &str, channels: usize) -> Option<Fold> {
    let producer = analysis.producer(tensor)?;
    let (gained, shift) = match constant_operand(analysis, producer, "Add", channels) {
        Some((shift, rest)) => (rest, Some(shift)),
        None => (tensor, None),
    };
    let multiply = analysis.producer(gained)?;
    if shift.is_some() && !is_private(analysis, gained) {
        return None;
    }
    let (gain, _) = constant_operand(analysis, multiply, "Mul", channels)?;
    let operands: Vec<Operand> = [Some(gain), shift].into_iter().flatten().collect();
    let into = format!("the constants of `{}`", analysis.label(multiply));
    Some(Fold { producer, operands, into })
}

/// The projection of V, of which an attention context is a weighted mean: context channel `h · depth + d` comes from
/// channel `d` of head `h`, so from V's channel of the same number.
fn value_projection(
    analysis: &Analysis,
    gemms: &[WeightedGemm],
    tensor: &str,
    channels: usize,
) -> Option<Fold> {
    let product = context_product(analysis, tensor, true)?;
    let value = analysis.nodes()[product].input.get(1)?;
    let swap = analysis.producer(value)?;
    if !swaps_heads(&analysis.nodes()[swap]) || !is_private(analysis, value) {
        return None;
    }
    let heads = analysis.nodes()[swap].input.first()?;
    if !has_heads(analysis, heads, channels) {
        return None;
    }
    let flat = before_reshapes(analysis, heads)?;
    let producer = analysis.producer(flat)?;
    let mut operands = vec![];
    let mut projected = flat;
    if let Some((bias, rest)) = constant_operand(analysis, producer, "Add", channels) {
        operands.push(bias);
        projected = rest;
    }
    let gemm = gemms.iter().find(|gemm| gemm.output == projected && gemm.n == channels)?;
    let bias = analysis.nodes()[gemm.node].input.get(2).filter(|bias| !bias.is_empty());
    if bias.is_some() {
        operands.push(vector(analysis, gemm.node, 2, channels)?);
    }
    let node = gemm.node;
    let right = analysis.nodes()[node].input.first() == Some(&gemm.direct_input);
    let lonely = only_read_by(analysis, &gemm.weight, &BTreeSet::from([(node, 1)]));
    if !right || !lonely || !is_private(analysis, projected) || !is_private(analysis, flat) {
        return None;
    }
    let (_, axis) = stored_axes(gemm);
    operands.push(Operand { node, input: 1, constant: gemm.weight.clone(), axis });
    let into = format!("the value projection `{}`", gemm.label);
    Some(Fold { producer: analysis.producer(tensor)?, operands, into })
}

/// Whether an activation is probabilities times V, whatever else is unusual about it.
pub(super) fn is_context(analysis: &Analysis, tensor: &str) -> bool {
    context_product(analysis, tensor, false).is_some()
}

/// The product of two activations that `tensor` is a head-swapped, reshaped form of.
///
/// - `private`: nobody may read what lies between.
fn context_product(analysis: &Analysis, tensor: &str, private: bool) -> Option<usize> {
    let mut swapped = tensor;
    loop {
        let node = &analysis.nodes()[analysis.producer(swapped)?];
        if private && swapped != tensor && !is_private(analysis, swapped) {
            return None;
        }
        if !is_op(node, "Reshape") {
            break;
        }
        swapped = node.input.first()?;
    }
    let swap = &analysis.nodes()[analysis.producer(swapped)?];
    if !swaps_heads(swap) {
        return None;
    }
    let mixed = swap.input.first()?;
    let product = analysis.producer(mixed)?;
    let node = &analysis.nodes()[product];
    let of_activations =
        is_op(node, "MatMul") && node.input.iter().all(|i| analysis.is_computed(i));
    (of_activations && (!private || is_private(analysis, mixed))).then_some(product)
}

/// `[batch, length, heads, depth]` to `[batch, heads, length, depth]` or back.
fn swaps_heads(node: &NodeProto) -> bool {
    is_op(node, "Transpose") && attr_ints(node, "perm") == Some(&[0, 2, 1, 3])
}

/// Whether a Reshape splits `channels` into heads and depth, in this order, as its last two axes.
fn has_heads(analysis: &Analysis, tensor: &str, channels: usize) -> bool {
    let Some(node) = analysis.producer(tensor).map(|p| &analysis.nodes()[p]) else { return false };
    let Some(shape) = node.input.get(1).filter(|_| is_op(node, "Reshape")) else { return false };
    let Some([heads, depth]) = last_two(analysis, shape) else { return false };
    heads > 0
        && depth > 0
        && heads.checked_mul(depth) == i64::try_from(channels).ok()
        && attr_i(node, "allowzero").unwrap_or(0) == 0
}

/// The last two elements of a shape that is constant, or put together of pieces that end in constants.
fn last_two(analysis: &Analysis, shape: &str) -> Option<[i64; 2]> {
    let elements = tail(analysis, shape, 2)?;
    <[i64; 2]>::try_from(elements).ok()
}

/// The last `count` elements of a one-dimensional integer tensor.
fn tail(analysis: &Analysis, tensor: &str, count: usize) -> Option<Vec<i64>> {
    if let Some(constant) = analysis.graph.constant(tensor) {
        let values = constant.to_i64().ok()?;
        return values.len().checked_sub(count).map(|from| values[from..].to_vec());
    }
    let node = &analysis.nodes()[analysis.producer(tensor)?];
    match node.op_type() {
        "Concat" => {
            let mut found: Vec<i64> = vec![];
            for piece in node.input.iter().rev() {
                if found.len() >= count {
                    break;
                }
                let piece = analysis
                    .graph
                    .constant(piece)
                    .and_then(|c| Some(c.to_i64().ok()?.to_vec()))
                    .or_else(|| lone_element(analysis, piece))?;
                found.splice(0..0, piece);
            }
            found.len().checked_sub(count).map(|from| found[from..].to_vec())
        }
        "Cast" | "Identity" => tail(analysis, node.input.first()?, count),
        _ => None,
    }
}

/// A constant that an Unsqueeze makes one-dimensional.
fn lone_element(analysis: &Analysis, piece: &str) -> Option<Vec<i64>> {
    let node = &analysis.nodes()[analysis.producer(piece)?];
    let scalar = analysis.graph.constant(node.input.first()?)?;
    (is_op(node, "Unsqueeze") && scalar.len() == 1).then(|| Some(scalar.to_i64().ok()?.to_vec()))?
}

/// What a chain of Reshapes starts from, if nobody else reads what lies between.
fn before_reshapes<'a>(analysis: &Analysis<'a>, tensor: &'a str) -> Option<&'a str> {
    let mut flat = tensor;
    loop {
        let node = &analysis.nodes()[analysis.producer(flat)?];
        if !is_op(node, "Reshape") {
            return Some(flat);
        }
        if !is_private(analysis, flat) {
            return None;
        }
        flat = node.input.first()?;
    }
}

/// Whether one node alone reads a tensor's values, and its name is free.
fn is_private(analysis: &Analysis, tensor: &str) -> bool {
    let uses = analysis.graph.consumers(tensor).iter();
    let readers = uses.filter(|u| !reads_no_value(analysis, u.node)).count();
    readers == 1 && !analysis.name_is_fixed(tensor)
}

/// Whether a node looks at nothing but shapes: exporters split heads by what `Shape` says of the tensor itself.
fn reads_no_value(analysis: &Analysis, node: usize) -> bool {
    matches!(analysis.nodes()[node].op_type(), "Shape" | "Size")
}

/// A node's constant vector operand of `channels` values, with the other operand.
fn constant_operand<'a>(
    analysis: &Analysis<'a>,
    node: usize,
    op: &str,
    channels: usize,
) -> Option<(Operand, &'a str)> {
    let proto = &analysis.nodes()[node];
    if !is_op(proto, op) || proto.input.len() != 2 {
        return None;
    }
    (0..2).find_map(|input| {
        let operand = vector(analysis, node, input, channels)?;
        let rest = proto.input[1 - input].as_str();
        analysis.is_computed(rest).then_some((operand, rest))
    })
}

fn vector(analysis: &Analysis, node: usize, input: usize, channels: usize) -> Option<Operand> {
    let name = analysis.nodes()[node].input.get(input)?;
    let constant = analysis.constants.get(name.as_str())?;
    let fits = constant.dims.len() == 1 && usize::try_from(constant.dims[0]) == Ok(channels);
    fits.then(|| Operand { node, input, constant: name.clone(), axis: 0 })
}
