//! What the rewriters need to know about a model before they change it: its FP32 constants and their values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rayon::prelude::*;
use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{
    ElementType, Graph, Model, Tensor, attr, attr_f, attr_floats, attr_tensor, is_op, node_label,
};

use crate::canonical::Origins;
use crate::half_values::ValueStats;
use crate::norm::{Normalizations, find_normalizations};

/// Where a constant is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// In the graph's initializers.
    Initializer,
    /// In the `Constant` node of this index.
    Node(usize),
}

/// One FP32 constant of the main graph.
#[derive(Debug, Clone)]
pub(crate) struct Constant<'m> {
    pub dims: Vec<i64>,
    /// Raw little-endian values.
    pub bytes: Cow<'m, [u8]>,
    pub stats: ValueStats,
    pub source: Source,
}

impl Constant<'_> {
    /// The only value of a constant with one element.
    pub fn scalar(&self) -> Option<f32> {
        <[u8; 4]>::try_from(self.bytes.as_ref()).ok().map(f32::from_le_bytes)
    }
}

/// A model's main graph with its FP32 constants and the normalizations written out in it.
pub(crate) struct Analysis<'m> {
    pub graph: Graph<'m>,
    pub constants: BTreeMap<&'m str, Constant<'m>>,
    pub norms: Normalizations,
    /// What became of names that the original graph had and this canonical one does not.
    pub origins: Origins,
}

impl<'m> Analysis<'m> {
    pub fn new(model: &'m Model) -> Self {
        let initializers = model.graph_proto().initializer.iter().map(|proto| {
            let tensor = Tensor::from_proto(proto);
            (
                tensor.name,
                Source::Initializer,
                tensor.element_type,
                tensor.dims.clone(),
                tensor.bytes(),
            )
        });
        let nodes = model.graph_proto().node.iter().enumerate().filter_map(|(index, node)| {
            let output = node.output.first()?;
            let (element_type, dims, bytes) = constant_value(node)?;
            Some((output.as_str(), Source::Node(index), element_type, dims, bytes))
        });
        let single: Vec<_> =
            initializers.chain(nodes).filter(|row| row.2 == ElementType::F32).collect();
        let constants = single
            .into_par_iter()
            .map(|(name, source, _, dims, bytes)| {
                let stats = ValueStats::of(&bytes);
                (name, Constant { dims, bytes, stats, source })
            })
            .collect();
        let norms = Normalizations::default();
        let mut this = Self { graph: model.graph(), constants, norms, origins: Origins::of(model) };
        this.norms = find_normalizations(&this);
        this
    }

    pub fn nodes(&self) -> &'m [NodeProto] {
        self.graph.nodes()
    }

    pub fn label(&self, node: usize) -> String {
        node_label(&self.nodes()[node], node)
    }

    /// The node that computes `tensor`; constants have none.
    pub fn producer(&self, tensor: &str) -> Option<usize> {
        if self.constants.contains_key(tensor) { None } else { self.graph.producer(tensor) }
    }

    pub fn is_constant(&self, tensor: &str) -> bool {
        self.constants.contains_key(tensor)
    }

    pub fn scalar(&self, tensor: &str) -> Option<f32> {
        self.constants.get(tensor)?.scalar()
    }

    pub fn is_single(&self, tensor: &str) -> bool {
        self.graph.element_type(tensor) == Some(ElementType::F32)
    }

    /// Whether the tensor is an FP32 activation: not a constant.
    pub fn is_computed(&self, tensor: &str) -> bool {
        self.is_single(tensor) && !self.is_constant(tensor)
    }

    /// FP32 inputs of a node that are computed, not constant.
    pub fn computed_inputs(&self, node: usize) -> impl Iterator<Item = &'m str> + '_ {
        self.nodes()[node].input.iter().map(String::as_str).filter(|name| self.is_computed(name))
    }

    /// The nodes of the main graph that read `tensor`, each once, in order.
    pub fn readers(&self, tensor: &str) -> Vec<usize> {
        let mut readers: Vec<usize> = self.graph.consumers(tensor).iter().map(|u| u.node).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// Whether the tensor must stay FP32 under its own name: graph outputs, and what subgraphs read.
    pub fn name_is_fixed(&self, tensor: &str) -> bool {
        self.graph.is_output(tensor) || self.graph.captured_by_subgraph(tensor)
    }
}

/// Type, shape and raw values of a `Constant` node that holds a numeric tensor.
fn constant_value(node: &NodeProto) -> Option<(ElementType, Vec<i64>, Cow<'_, [u8]>)> {
    if !is_op(node, "Constant") {
        return None;
    }
    if let Some(tensor) = attr_tensor(node, "value") {
        return Some((tensor.element_type, tensor.dims.clone(), tensor.bytes()));
    }
    if let Some(value) = attr_f(node, "value_float") {
        return Some((ElementType::F32, vec![], Cow::Owned(value.to_le_bytes().to_vec())));
    }
    attr(node, "value_floats")?;
    let values = attr_floats(node, "value_floats")?;
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Some((ElementType::F32, vec![values.len() as i64], Cow::Owned(bytes)))
}
