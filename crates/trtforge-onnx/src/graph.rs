//! A typed view of the main graph: who produces what, who reads it, what is constant, which type flows where.

use std::collections::{BTreeSet, HashMap};

use crate::attribute::is_op;
use crate::element::{Dim, ElementType, ValueInfo};
use crate::infer::infer_types;
use crate::proto::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use crate::shape::Shapes;
use crate::tensor::Tensor;
use crate::walk::captured_names;

/// One place where a tensor is read: input `input` of node `node` of the main graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Use {
    /// Index of the node.
    pub node: usize,
    /// Index of the input.
    pub input: usize,
}

/// The main graph of a model, with indices built once. Nodes are known by their index.
#[derive(Debug)]
pub struct Graph<'m> {
    proto: &'m GraphProto,
    producers: HashMap<&'m str, usize>,
    consumers: HashMap<&'m str, Vec<Use>>,
    captured: HashMap<&'m str, Vec<usize>>,
    initializers: HashMap<&'m str, &'m TensorProto>,
    inputs: BTreeSet<&'m str>,
    outputs: BTreeSet<&'m str>,
    types: HashMap<&'m str, ElementType>,
    shapes: Shapes<'m>,
}

impl<'m> Graph<'m> {
    pub(crate) fn new(graph: &'m GraphProto) -> Self {
        let mut producers = HashMap::new();
        let mut consumers: HashMap<&str, Vec<Use>> = HashMap::new();
        let mut captured: HashMap<&str, Vec<usize>> = HashMap::new();
        for (node_index, node) in graph.node.iter().enumerate() {
            for output in node.output.iter().filter(|o| !o.is_empty()) {
                producers.entry(output.as_str()).or_insert(node_index);
            }
            for (input, name) in node.input.iter().enumerate().filter(|(_, name)| !name.is_empty())
            {
                consumers.entry(name).or_default().push(Use { node: node_index, input });
            }
            for name in captured_names(node) {
                captured.entry(name).or_default().push(node_index);
            }
        }
        Self {
            proto: graph,
            producers,
            consumers,
            captured,
            initializers: graph.initializer.iter().map(|t| (t.name(), t)).collect(),
            inputs: graph.input.iter().map(ValueInfoProto::name).collect(),
            outputs: graph.output.iter().map(ValueInfoProto::name).collect(),
            types: infer_types(graph),
            shapes: Shapes::of(graph),
        }
    }

    /// The nodes, in the order of the file.
    pub fn nodes(&self) -> &'m [NodeProto] {
        &self.proto.node
    }

    /// The node that produces a tensor.
    pub fn producer(&self, tensor: &str) -> Option<usize> {
        self.producers.get(tensor).copied()
    }

    /// Where nodes of the main graph read a tensor; see [`Graph::captured_by_subgraph`] for those inside of nodes.
    pub fn consumers(&self, tensor: &str) -> &[Use] {
        self.consumers.get(tensor).map_or(&[], Vec::as_slice)
    }

    /// Whether a subgraph (of `If`, `Loop`, `Scan`) reads this tensor of the main graph.
    pub fn captured_by_subgraph(&self, tensor: &str) -> bool {
        self.captured.contains_key(tensor)
    }

    /// The nodes whose subgraphs read this tensor of the main graph.
    pub fn capturing_nodes(&self, tensor: &str) -> &[usize] {
        self.captured.get(tensor).map_or(&[], Vec::as_slice)
    }

    /// An initializer. One that is also a graph input is only the default of that input, but counts: callers that run or
    /// rewrite models never feed weights.
    pub fn initializer(&self, tensor: &str) -> Option<Tensor<'m>> {
        self.initializers.get(tensor).map(|proto| Tensor::from_proto(proto))
    }

    /// All initializers, in the order of the file.
    pub fn initializers(&self) -> impl Iterator<Item = Tensor<'m>> {
        self.proto.initializer.iter().map(Tensor::from_proto)
    }

    /// The value of a tensor that never changes: an initializer or a `Constant` node, also behind `Identity`. The name
    /// within is that of the source.
    pub fn constant(&self, tensor: &str) -> Option<Tensor<'m>> {
        let mut name = tensor;
        // As many steps as there are nodes, so that a cycle of `Identity` ends.
        for _ in 0..=self.proto.node.len() {
            if let Some(found) = self.initializer(name) {
                return Some(found);
            }
            let node: &'m NodeProto = &self.proto.node[self.producer(name)?];
            if is_op(node, "Constant") {
                return Tensor::of_constant(node);
            }
            if !is_op(node, "Identity") {
                return None;
            }
            name = node.input.first()?;
        }
        None
    }

    /// The inputs a caller must feed: those that have no initializer.
    pub fn inputs(&self) -> Vec<ValueInfo> {
        let real = self.proto.input.iter().filter(|i| !self.initializers.contains_key(i.name()));
        real.map(ValueInfo::from_proto).collect()
    }

    /// The outputs, with the type that is declared or else inferred.
    pub fn outputs(&self) -> Vec<ValueInfo> {
        let typed = |output: &ValueInfoProto| {
            let info = ValueInfo::from_proto(output);
            match self.element_type(&info.name) {
                Some(element_type) if info.element_type == ElementType::Other(0) => {
                    ValueInfo { element_type, ..info }
                }
                _ => info,
            }
        };
        self.proto.output.iter().map(typed).collect()
    }

    /// Whether a tensor is a graph input, one with a default included.
    pub fn is_input(&self, tensor: &str) -> bool {
        self.inputs.contains(tensor)
    }

    /// Whether a tensor is a graph output.
    pub fn is_output(&self, tensor: &str) -> bool {
        self.outputs.contains(tensor)
    }

    /// The element type of a tensor, of the main graph or a subgraph, as it follows from inputs, initializers and operators;
    /// for operators of unknown domains, as `value_info` states it.
    pub fn element_type(&self, tensor: &str) -> Option<ElementType> {
        self.types.get(tensor).copied()
    }

    /// The shape of a tensor, as declared or as far as it follows from what is declared.
    pub fn shape(&self, tensor: &str) -> Option<Vec<Dim>> {
        self.shapes.get(tensor).map(<[Dim]>::to_vec)
    }
}
