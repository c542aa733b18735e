//! Finding every MatMul and Gemm with a constant weight, whatever the exporter put between the two.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{attr_i, attr_ints, is_op};

use crate::analysis::Analysis;
use crate::half_values::floats;
use crate::layer::guess_layer;
use crate::weight::{Drowned, StoredWeight, drowned_channels};

/// Below this many values per dot product, INT8 tensor cores have nothing to gain.
const LEAST_K: usize = 16;

/// A product stays as it is when one in this many of its output channels would lose nearly all of their weights. One such
/// channel among hundreds is a dead neuron; one of a classifier's two is an answer.
const DROWNED_ONE_IN: usize = 16;

/// A MatMul or Gemm that multiplies an activation by a constant weight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WeightedGemm {
    /// The node's index in the main graph.
    pub node: usize,
    /// Its name, or `OpType(output)` where it has none.
    pub label: String,
    /// Its output tensor.
    pub output: String,
    /// The tensor that gets the Q/DQ pair. It is the node's own input, or the tensor before a Reshape where several
    /// readers reshape the same tensor each for itself: they share one pair then.
    pub activation: String,
    /// The node's own activation input.
    pub direct_input: String,
    /// The name of the constant that holds the weight.
    pub weight: String,
    /// Whether a Transpose stands between constant and node; rewriting folds it into the INT8 values.
    pub transposed: bool,
    /// The output channels' axis in the weight as the node reads it: 1 of `[K, N]`, 0 of a Gemm's `[N, K]`.
    pub channel_axis: usize,
    /// Length of the dot products.
    pub k: usize,
    /// Number of output channels.
    pub n: usize,
    /// The module path, where names tell.
    pub layer: Option<String>,
    /// Why it is never quantized; `None` for a candidate.
    pub barred: Option<String>,
}

/// A constant found behind Identity and Transpose nodes.
struct FoundWeight<'m> {
    name: &'m str,
    dims: Vec<i64>,
    transposed: bool,
}

/// All weighted MatMuls and Gemms of the main graph, in graph order.
pub(crate) fn weighted_gemms(analysis: &Analysis, masked: &BTreeSet<String>) -> Vec<WeightedGemm> {
    let mut gemms: Vec<WeightedGemm> = (0..analysis.nodes().len())
        .filter_map(|node| weighted_gemm(analysis, masked, node))
        .collect();
    share_reshaped_activations(analysis, &mut gemms);
    gemms
}

fn weighted_gemm(
    analysis: &Analysis,
    masked: &BTreeSet<String>,
    index: usize,
) -> Option<WeightedGemm> {
    let node = &analysis.nodes()[index];
    if !is_op(node, "MatMul") && !is_op(node, "Gemm") {
        return None;
    }
    let [left, right] = [node.input.first()?.as_str(), node.input.get(1)?.as_str()];
    let (weight, activation, weight_is_left) = match find_weight(analysis, right) {
        Some(weight) => (weight, left, false),
        None => (find_weight(analysis, left)?, right, true),
    };
    if find_weight(analysis, activation).is_some() {
        return None; // A product of constants is itself a constant.
    }
    let channel_axis = usize::from(attr_i(node, "transB") != Some(1) || is_op(node, "MatMul"));
    let shape = shape_as_read(&weight);
    let (k, n) =
        shape.map_or(
            (0, 0),
            |(rows, columns)| {
                if channel_axis == 1 { (rows, columns) } else { (columns, rows) }
            },
        );
    let barred = why_barred(weight_is_left, shape.is_some(), (k, n), masked.contains(activation))
        .or_else(|| not_finite(analysis, &weight))
        .or_else(|| drowned(analysis, &weight, channel_axis));
    let output = node.output.first()?.clone();
    let bias = bias_name(analysis, node, &output);
    Some(WeightedGemm {
        node: index,
        label: analysis.label(index),
        activation: activation.to_owned(),
        direct_input: activation.to_owned(),
        weight: weight.name.to_owned(),
        transposed: weight.transposed,
        channel_axis,
        k,
        n,
        layer: guess_layer(&[weight.name, bias.unwrap_or("")], node.name(), &output),
        output,
        barred,
    })
}

fn find_weight<'m>(analysis: &Analysis<'m>, operand: &'m str) -> Option<FoundWeight<'m>> {
    let (mut name, mut transposed) = (operand, false);
    loop {
        if let Some(constant) = analysis.constants.get(name) {
            return Some(FoundWeight { name, dims: constant.dims.clone(), transposed });
        }
        let node = &analysis.nodes()[analysis.producer(name)?];
        transposed ^= match node.op_type() {
            "Identity" => false,
            "Transpose" => attr_ints(node, "perm").is_none_or(|perm| perm == [1, 0]),
            _ => return None,
        };
        if is_op(node, "Transpose") && attr_ints(node, "perm").is_some_and(|p| p.len() != 2) {
            return None;
        }
        name = node.input.first()?;
    }
}

/// Rows and columns as the node reads them, or `None` unless the weight is a matrix.
fn shape_as_read(weight: &FoundWeight) -> Option<(usize, usize)> {
    let [rows, columns] = weight.dims[..] else { return None };
    let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
    Some(if weight.transposed { (columns, rows) } else { (rows, columns) })
}

fn why_barred(
    weight_is_left: bool,
    is_matrix: bool,
    (k, n): (usize, usize),
    masked: bool,
) -> Option<String> {
    if weight_is_left {
        Some(
            "the constant is the left operand; TensorRT takes INT8 weights on the right".to_owned(),
        )
    } else if !is_matrix {
        Some("the weight is not a matrix, so it has no single axis of output channels".to_owned())
    } else if masked {
        Some("its input sees the attention mask's sentinel".to_owned())
    } else if n <= 1 {
        Some("one output channel: a dot product, which TensorRT does not run in INT8".to_owned())
    } else if k < LEAST_K {
        Some(format!(
            "dot products of {k} values are too short for INT8 to pay ({LEAST_K} at least)"
        ))
    } else {
        None
    }
}

fn not_finite(analysis: &Analysis, weight: &FoundWeight) -> Option<String> {
    let stats = analysis.constants.get(weight.name)?.stats;
    (!stats.is_finite()).then(|| {
        format!("the weight holds {} NaN and {} infinite values", stats.nan, stats.infinite)
    })
}

/// Why INT8 would leave next to nothing of a weight: see [`drowned_channels`].
fn drowned(analysis: &Analysis, found: &FoundWeight, channel_axis: usize) -> Option<String> {
    let [rows, columns] = found.dims[..] else { return None };
    let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
    let channel_axis = if found.transposed { 1 - channel_axis } else { channel_axis };
    let values = floats(&analysis.constants.get(found.name)?.bytes);
    let weight = StoredWeight { values: &values, rows, columns, channel_axis };
    let Drowned { channels, looked_at, first } = drowned_channels(&weight);
    let worst = first.filter(|_| channels * DROWNED_ONE_IN >= looked_at)?;
    Some(format!(
        "in {channels} of {looked_at} output channels, such as {}, nearly every weight would become 0 beside the largest, {:e}: the input feature with that weight is all that INT8 would keep",
        worst.channel, worst.largest
    ))
}

/// The bias a Gemm reads, or the constant that an Add puts on a MatMul's output.
fn bias_name<'m>(analysis: &Analysis<'m>, node: &'m NodeProto, output: &str) -> Option<&'m str> {
    if let Some(bias) = node.input.get(2) {
        return Some(bias);
    }
    let add = analysis.readers(output).into_iter().map(|reader| &analysis.nodes()[reader]);
    let mut operands = add.filter(|n| is_op(n, "Add")).flat_map(|n| &n.input);
    operands.find(|name| analysis.is_constant(name)).map(String::as_str)
}

/// Operators that move no value, so that a Q/DQ pair may stand before them as well as after.
fn only_reshapes(node: &NodeProto) -> bool {
    ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"].iter().any(|op| is_op(node, op))
}

/// Where several candidates read different reshapes of one tensor (TensorFlow's 2-D dense layers), they share its pair.
fn share_reshaped_activations(analysis: &Analysis, gemms: &mut [WeightedGemm]) {
    let mut by_root: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let roots: Vec<String> =
        gemms.iter().map(|gemm| reshape_root(analysis, &gemm.direct_input).to_owned()).collect();
    for (position, root) in roots.iter().enumerate() {
        if gemms[position].barred.is_none() {
            by_root.entry(root).or_default().push(position);
        }
    }
    for (root, members) in by_root {
        let inputs: BTreeSet<&str> =
            members.iter().map(|&m| gemms[m].direct_input.as_str()).collect();
        if inputs.len() > 1 {
            for member in members {
                root.clone_into(&mut gemms[member].activation);
            }
        }
    }
}

/// The tensor that `tensor` is only a reshape of.
fn reshape_root<'a>(analysis: &Analysis<'a>, tensor: &'a str) -> &'a str {
    let mut root = tensor;
    while let Some(node) = analysis.producer(root).map(|p| &analysis.nodes()[p]) {
        match node.input.first() {
            Some(input) if only_reshapes(node) && analysis.is_single(input) => root = input,
            _ => break,
        }
    }
    root
}

/// The nodes from `activation` to the gemm that only reshape, the one that reads `activation` first.
pub(crate) fn reshapes_between(analysis: &Analysis, gemm: &WeightedGemm) -> Vec<usize> {
    let mut chain = vec![];
    let mut tensor = gemm.direct_input.as_str();
    while tensor != gemm.activation {
        let Some(node) = analysis.producer(tensor) else { return vec![] };
        chain.push(node);
        tensor = &analysis.nodes()[node].input[0];
    }
    chain.reverse();
    chain
}
