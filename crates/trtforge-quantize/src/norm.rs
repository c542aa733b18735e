//! Normalizations written out in small operators, found by their shape and not by their names.
//!
//! `x − mean`, squared, averaged, plus epsilon, square root, division: in FP16 the square passes 65504 from a deviation
//! of 256 on, and an epsilon of 1e-12 is 0. So these statistics stay FP32, from the mean to the division. (Fusing the block
//! into one `LayerNormalization` operator is the business of a canonical form that comes before this.)

use std::collections::BTreeSet;

use trtforge_onnx::is_op;

use crate::analysis::Analysis;

/// Every written-out normalization of a graph (LayerNorm, RMSNorm, TensorFlow's batch-norm form).
#[derive(Debug, Default)]
pub(crate) struct Normalizations {
    /// The nodes that stay FP32.
    pub nodes: BTreeSet<usize>,
    /// The divisions whose result is the normalized vector: of `n` values, none passes √n.
    pub divisions: BTreeSet<usize>,
}

/// Finds them from their square roots.
pub(crate) fn find_normalizations(analysis: &Analysis) -> Normalizations {
    let mut found = Normalizations::default();
    for root in (0..analysis.nodes().len()).filter(|&n| is_root(analysis, n)) {
        let Some((statistics, deviation)) = statistics_before(analysis, root) else { continue };
        let scaling = scaling_after(analysis, root);
        let divides_deviation = |&&n: &&usize| {
            let node = &analysis.nodes()[n];
            is_op(node, "Div") && node.input[0] == deviation
        };
        found.divisions.extend(scaling.iter().filter(divides_deviation));
        found.nodes.extend(statistics);
        found.nodes.extend(scaling);
    }
    found
}

/// `Sqrt`, or a power of ±0.5.
fn is_root(analysis: &Analysis, node: usize) -> bool {
    let proto = &analysis.nodes()[node];
    let half_power =
        || proto.input.get(1).and_then(|p| analysis.scalar(p)).is_some_and(|p| p.abs() == 0.5);
    is_op(proto, "Sqrt") || (is_op(proto, "Pow") && half_power())
}

/// From the root back to the deviation: constants added or multiplied, the average, the square, `x − mean`.
///
/// - returns: these nodes, and the deviation's name.
fn statistics_before<'m>(analysis: &Analysis<'m>, root: usize) -> Option<(Vec<usize>, &'m str)> {
    let nodes = analysis.nodes();
    let mut block = vec![root];
    let mut at = analysis.producer(nodes[root].input.first()?)?;
    while ["Add", "Mul", "Div", "Max", "Clip"].iter().any(|op| is_op(&nodes[at], op)) {
        block.push(at);
        let mut computed = analysis.computed_inputs(at);
        at = analysis.producer(computed.next()?)?;
        if computed.next().is_some() {
            return None;
        }
    }
    if !is_op(&nodes[at], "ReduceMean") && !is_op(&nodes[at], "ReduceSum") {
        return None;
    }
    block.push(at);
    let square = analysis.producer(nodes[at].input.first()?)?;
    let deviation = squared(analysis, square)?;
    block.push(square);
    block.extend(centering(analysis, deviation));
    Some((block, deviation))
}

/// What `node` squares, as `Pow(x, 2)` or `Mul(x, x)`.
fn squared<'m>(analysis: &Analysis<'m>, node: usize) -> Option<&'m str> {
    let proto = &analysis.nodes()[node];
    let (base, factor) = (proto.input.first()?, proto.input.get(1)?);
    let square = (is_op(proto, "Mul") && base == factor)
        || (is_op(proto, "Pow") && analysis.scalar(factor) == Some(2.0));
    square.then_some(base)
}

/// The `x − mean` that makes a deviation, and its mean; empty for RMSNorm.
fn centering(analysis: &Analysis, deviation: &str) -> Vec<usize> {
    let nodes = analysis.nodes();
    let Some(sub) = analysis.producer(deviation).filter(|&n| is_op(&nodes[n], "Sub")) else {
        return vec![];
    };
    let mean = nodes[sub].input.get(1).and_then(|mean| analysis.producer(mean));
    let mean = mean.filter(|&n| is_op(&nodes[n], "ReduceMean"));
    [Some(sub), mean].into_iter().flatten().collect()
}

/// From the root on: the division, or TensorFlow's `x·s + (beta − mean·s)` with `s` the reciprocal times gamma.
///
/// Scale and shift after a division are FP16 again: normalized values are small, and this is the form PyTorch exports
/// for FP16 models, which engine builders and ONNX Runtime fuse. With FP32 scales between casts, ONNX Runtime 1.32 from
/// operator set 17 on fuses the block into a `LayerNormalization` of mixed types and then refuses its own result.
fn scaling_after(analysis: &Analysis, root: usize) -> Vec<usize> {
    let nodes = analysis.nodes();
    let mut block = vec![];
    for reader in readers_of(analysis, root) {
        if is_op(&nodes[reader], "Div") || is_op(&nodes[reader], "Mul") {
            block.push(reader);
        } else if is_op(&nodes[reader], "Reciprocal") {
            block.push(reader);
            block.extend(scaling_by_reciprocal(analysis, reader));
        }
    }
    block
}

fn scaling_by_reciprocal(analysis: &Analysis, reciprocal: usize) -> Vec<usize> {
    let mut block = vec![];
    let mut factor = reciprocal;
    if let Some(scaled) = only_reader(analysis, factor, "Mul")
        && analysis.computed_inputs(scaled).count() == 1
    {
        block.push(scaled);
        factor = scaled;
    }
    let products = readers_of(analysis, factor).into_iter();
    let products: Vec<usize> = products.filter(|&n| is_op(&analysis.nodes()[n], "Mul")).collect();
    for &product in &products {
        let mut at = product;
        for op in ["Sub", "Add"] {
            if let Some(next) = only_reader(analysis, at, op) {
                block.push(next);
                at = next;
            }
        }
    }
    block.extend(products);
    block
}

fn readers_of(analysis: &Analysis, node: usize) -> Vec<usize> {
    analysis.nodes()[node].output.first().map_or(vec![], |output| analysis.readers(output))
}

/// The one node that reads the output of `node`, if it is an `op` and the output goes nowhere else.
///
/// Its other operand must be constant or belong to the same block, or a residual Add would be drawn into FP32.
fn only_reader(analysis: &Analysis, node: usize, op: &str) -> Option<usize> {
    let output = analysis.nodes()[node].output.first()?;
    match analysis.readers(output)[..] {
        [reader] if is_op(&analysis.nodes()[reader], op) && !analysis.name_is_fixed(output) => {
            let computed = analysis.computed_inputs(reader).count();
            (computed == 1 || is_batch_norm_shift(analysis, reader)).then_some(reader)
        }
        _ => None,
    }
}

/// TensorFlow's last step, `x·s + (beta − mean·s)`: the other operand is a Sub from a constant.
fn is_batch_norm_shift(analysis: &Analysis, add: usize) -> bool {
    analysis.computed_inputs(add).any(|input| {
        analysis.producer(input).is_some_and(|n| {
            let node = &analysis.nodes()[n];
            is_op(node, "Sub") && node.input.first().is_some_and(|i| analysis.is_constant(i))
        })
    })
}
