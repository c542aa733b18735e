//! A graph as the pattern matchers look at it.

use std::collections::BTreeSet;

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{Dim, ElementType, Graph, Model, is_op, node_label};

use super::NearMiss;

pub(super) struct View<'m> {
    pub graph: Graph<'m>,
}

impl<'m> View<'m> {
    pub fn new(model: &'m Model) -> Self {
        Self { graph: model.graph() }
    }

    pub fn node(&self, index: usize) -> &'m NodeProto {
        &self.graph.nodes()[index]
    }

    pub fn is(&self, index: usize, op: &str) -> bool {
        is_op(self.node(index), op)
    }

    /// Input `at` of a node, if it has one.
    pub fn input(&self, index: usize, at: usize) -> Option<&'m str> {
        self.node(index).input.get(at).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The only output of a node.
    pub fn output(&self, index: usize) -> &'m str {
        self.node(index).output.first().map_or("", String::as_str)
    }

    pub fn label(&self, index: usize) -> String {
        node_label(self.node(index), index)
    }

    pub fn producer(&self, tensor: &str) -> Option<usize> {
        self.graph.producer(tensor)
    }

    /// The node that makes a tensor, if it is an `op`.
    pub fn made_by(&self, tensor: &str, op: &str) -> Option<usize> {
        self.producer(tensor).filter(|&index| self.is(index, op))
    }

    /// The nodes that read a tensor, each once, in order.
    pub fn readers(&self, tensor: &str) -> Vec<usize> {
        let uses = self.graph.consumers(tensor).iter().map(|reader| reader.node);
        uses.collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub fn is_constant(&self, tensor: &str) -> bool {
        self.graph.constant(tensor).is_some()
    }

    /// The value of a constant with one element, as far as it adds no axes to what it is combined with.
    pub fn scalar(&self, tensor: &str) -> Option<f64> {
        let constant = self.graph.constant(tensor)?;
        if constant.len() != 1 || constant.dims.len() > 1 {
            return None;
        }
        if constant.element_type.is_float() {
            return constant.to_f32().ok()?.first().map(|&value| f64::from(value));
        }
        constant.to_i64().ok()?.first().map(|&value| value as f64)
    }

    /// The length of a constant vector of floats with more than one element.
    pub fn vector(&self, tensor: &str) -> Option<i64> {
        let constant = self.graph.constant(tensor)?;
        match constant.dims[..] {
            [length] if length > 1 && constant.element_type.is_float() => Some(length),
            _ => None,
        }
    }

    pub fn rank(&self, tensor: &str) -> Option<usize> {
        self.graph.shape(tensor).map(|shape| shape.len())
    }

    /// The length of the last axis, where it is known.
    pub fn last_axis(&self, tensor: &str) -> Option<i64> {
        self.graph.shape(tensor)?.last().and_then(Dim::fixed)
    }

    pub fn is_single(&self, tensor: &str) -> bool {
        self.graph.element_type(tensor) == Some(ElementType::F32)
    }

    /// The other input of a node with two, and whether `tensor` is the first.
    pub fn other(&self, index: usize, tensor: &str) -> Option<(&'m str, bool)> {
        match &self.node(index).input[..] {
            [a, b] if a == tensor => Some((b, true)),
            [a, b] if b == tensor => Some((a, false)),
            _ => None,
        }
    }

    /// Why a tensor must stay, whoever reads it.
    pub fn shown(&self, tensor: &str) -> Option<String> {
        if self.graph.is_output(tensor) {
            return Some(format!("`{tensor}` is an output of the model"));
        }
        let captured = self.graph.captured_by_subgraph(tensor);
        captured.then(|| format!("a subgraph reads `{tensor}`"))
    }

    /// Why nodes cannot become one that makes `result`: something else needs a tensor between them.
    pub fn needed_outside(&self, nodes: &BTreeSet<usize>, result: &str) -> Option<String> {
        let inner = nodes.iter().flat_map(|&index| &self.node(index).output);
        for tensor in inner.filter(|name| *name != result && !name.is_empty()) {
            if let Some(reason) = self.shown(tensor) {
                return Some(reason);
            }
            let outside = self.readers(tensor).into_iter().find(|reader| !nodes.contains(reader));
            if let Some(reader) = outside {
                let label = self.label(reader);
                return Some(format!("`{tensor}`, inside of it, is read by `{label}` too"));
            }
        }
        None
    }

    pub fn miss(&self, nodes: impl IntoIterator<Item = usize>, reason: String) -> NearMiss {
        let nodes = nodes.into_iter().map(|index| self.label(index)).collect();
        NearMiss { nodes, reason }
    }
}
