//! Finding residual Adds: a projection's output added to a tensor that the projection was computed from.

use std::collections::BTreeSet;

use trtforge_onnx::is_op;

use crate::Level;
use crate::analysis::Analysis;
use crate::gemm::WeightedGemm;
use crate::site::{Role, Scaling, Site, SiteRead, Sources, enclosing};

/// All residual Adds of the main graph, in graph order.
pub(crate) fn residuals(sources: &Sources, masked: &BTreeSet<String>) -> Vec<Site> {
    let nodes = sources.analysis.nodes().iter().enumerate();
    let adds = nodes.filter(|(_, node)| is_op(node, "Add"));
    adds.filter_map(|(index, _)| residual(sources, masked, index)).collect()
}

fn residual(sources: &Sources, masked: &BTreeSet<String>, add: usize) -> Option<Site> {
    let analysis = sources.analysis;
    let node = &analysis.nodes()[add];
    let [left, right] = [node.input.first()?.as_str(), node.input.get(1)?.as_str()];
    let names = [left, right, node.output.first()?.as_str()];
    let plain = [left, right].iter().all(|name| analysis.is_computed(name));
    if !plain || left == right || names.iter().any(|name| masked.contains(*name)) {
        return None;
    }
    let branch = |side: &str, identity: &str| {
        let gemm = sources.product(side)?;
        comes_from(analysis, gemm.node, identity).then_some(gemm)
    };
    let (projection, gemm) =
        branch(left, right).map(|gemm| (0, gemm)).or_else(|| Some((1, branch(right, left)?)))?;
    let read = |input: usize, role: Role| SiteRead {
        node: add,
        input,
        tensor: node.input[input].clone(),
        role,
    };
    Some(Site {
        level: Level::Residual,
        tensor: node.output[0].clone(),
        node: add,
        layer: enclosing(gemm.layer.as_ref()),
        reads: vec![read(projection, Role::Projection), read(1 - projection, Role::Identity)],
        nodes: vec![add],
        serves: Some(gemm.node),
        scaling: Scaling::BeforeProduct,
        note: None,
        barred: barred(gemm),
    })
}

fn barred(gemm: &WeightedGemm) -> Option<String> {
    let reason = gemm.barred.as_ref()?;
    Some(format!("its projection `{}` is never INT8: {reason}", gemm.label))
}

/// Whether a node is computed from a tensor.
fn comes_from(analysis: &Analysis, node: usize, tensor: &str) -> bool {
    // Nodes are in topological order: nothing before the tensor's own producer can come from it.
    let first = analysis.producer(tensor);
    let (mut ahead, mut seen) = (vec![node], BTreeSet::new());
    while let Some(node) = ahead.pop() {
        for input in analysis.computed_inputs(node) {
            if input == tensor {
                return true;
            }
            let source = analysis.producer(input).filter(|source| Some(*source) > first);
            ahead.extend(source.filter(|source| seen.insert(*source)));
        }
    }
    false
}
