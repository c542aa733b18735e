//! Normalizations written out in small operators, found by their shape and not by their names.
//!
//! `x − mean`, squared, averaged, plus epsilon, square root, division: in FP16 the square passes 65504 from a deviation
//! of 256 on, and an epsilon of 1e-12 is 0. The whole block therefore stays FP32, scale and shift included, so that an
//! engine builder still sees one normalization and not one cut by casts.

use std::collections::BTreeSet;

use trtforge_onnx::is_op;

use crate::analysis::Analysis;

/// Nodes of every written-out normalization (LayerNorm, RMSNorm, TensorFlow's batch-norm form).
pub(crate) fn normalization_nodes(analysis: &Analysis) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for root in (0..analysis.nodes().len()).filter(|&n| is_root(analysis, n)) {
        if let Some(statistics) = statistics_before(analysis, root) {
            found.extend(statistics);
            found.extend(scaling_after(analysis, root));
        }
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
fn statistics_before(analysis: &Analysis, root: usize) -> Option<Vec<usize>> {
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
    Some(block)
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

/// From the root on: the division and, where nothing else reads between, scale and shift.
fn scaling_after(analysis: &Analysis, root: usize) -> Vec<usize> {
    let nodes = analysis.nodes();
    let mut block = vec![];
    let mut ends = vec![];
    for reader in readers_of(analysis, root) {
        if is_op(&nodes[reader], "Div") || is_op(&nodes[reader], "Mul") {
            block.push(reader);
            ends.push(reader);
        } else if is_op(&nodes[reader], "Reciprocal") {
            block.push(reader);
            let mut factor = reader;
            if let Some(scaled) = only_reader(analysis, factor, "Mul")
                && analysis.computed_inputs(scaled).count() == 1
            {
                block.push(scaled);
                factor = scaled;
            }
            let products = readers_of(analysis, factor).into_iter();
            ends.extend(products.filter(|&n| is_op(&nodes[n], "Mul")));
            block.extend(&ends);
        }
    }
    for end in ends {
        let mut at = end;
        for op in ["Mul", "Sub", "Add"] {
            if let Some(next) = only_reader(analysis, at, op) {
                block.push(next);
                at = next;
            }
        }
    }
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
