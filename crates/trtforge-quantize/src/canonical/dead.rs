//! What a graph needs to give its outputs.

use std::collections::{BTreeSet, HashMap};

use trtforge_onnx::proto::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use trtforge_onnx::subgraphs;

/// Tensors of the main graph that the subgraphs of a node read, under any name the subgraphs do not define themselves.
pub(super) fn captured(node: &NodeProto) -> BTreeSet<&str> {
    subgraphs(node).flat_map(free_names).collect()
}

fn free_names(graph: &GraphProto) -> BTreeSet<&str> {
    let own: BTreeSet<&str> = graph
        .node
        .iter()
        .flat_map(|node| node.output.iter().map(String::as_str))
        .chain(graph.input.iter().map(ValueInfoProto::name))
        .chain(graph.initializer.iter().map(TensorProto::name))
        .collect();
    let read = graph.node.iter().flat_map(|node| {
        node.input.iter().map(String::as_str).chain(captured(node)).collect::<Vec<_>>()
    });
    let given = graph.output.iter().map(ValueInfoProto::name);
    read.chain(given).filter(|name| !name.is_empty() && !own.contains(name)).collect()
}

/// Which nodes and tensors are needed, if names mean what `resolve` says and constants are what `constant` says.
pub(super) struct Needed<'m> {
    /// By index.
    pub nodes: Vec<bool>,
    /// Resolved names that a needed node reads, or that are graph outputs.
    pub tensors: BTreeSet<&'m str>,
}

impl<'m> Needed<'m> {
    /// - `stays`: whether a node still computes its outputs.
    pub fn of(
        graph: &'m GraphProto,
        resolve: &dyn Fn(&'m str) -> &'m str,
        stays: &dyn Fn(usize) -> bool,
    ) -> Self {
        let mut producers = HashMap::new();
        for (index, node) in graph.node.iter().enumerate().filter(|(index, _)| stays(*index)) {
            producers.extend(node.output.iter().map(|output| (output.as_str(), index)));
        }
        let mut needed = Self { nodes: vec![false; graph.node.len()], tensors: BTreeSet::new() };
        let mut ahead: Vec<&str> = graph.output.iter().map(ValueInfoProto::name).collect();
        while let Some(name) = ahead.pop() {
            if !needed.tensors.insert(name) {
                continue;
            }
            let Some(&index) = producers.get(name) else { continue };
            if !std::mem::replace(&mut needed.nodes[index], true) {
                let node = &graph.node[index];
                let reads = node.input.iter().map(String::as_str).chain(captured(node));
                ahead.extend(reads.filter(|name| !name.is_empty()).map(resolve));
            }
        }
        needed
    }
}
