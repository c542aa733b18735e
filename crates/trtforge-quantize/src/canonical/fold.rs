//! Which nodes have a constant value, and what it is.

use std::collections::{BTreeSet, HashMap, HashSet};

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{Graph, is_op, node_label};

use super::dead::captured;
use super::evaluate::{evaluate, is_known};
use super::literal::{Literal, Refusal};
use super::{CanonicalOptions, NearMiss};

/// Bytes of a constant from which on it matters whether something else still reads it.
const WORTH_COUNTING: u64 = 1024;

/// The value of a node's output.
#[derive(Debug)]
pub(super) struct Folded<'m> {
    pub value: Literal,
    /// The nodes it comes from, itself last.
    pub nodes: Vec<usize>,
    /// The weight that it is only another form of.
    pub source: Option<&'m str>,
}

/// Tensors by the names they have once nodes that pass them on are gone.
#[derive(Debug, Default)]
pub(super) struct Names<'m> {
    pub same: HashMap<&'m str, &'m str>,
}

impl<'m> Names<'m> {
    pub fn resolve(&self, name: &'m str) -> &'m str {
        let mut name = name;
        // Entries point to names before them in the graph: no cycle.
        while let Some(next) = self.same.get(name) {
            name = next;
        }
        name
    }
}

/// Every node with a constant value.
#[derive(Debug, Default)]
pub(super) struct Folds<'m> {
    /// By output name.
    pub values: HashMap<&'m str, Folded<'m>>,
    /// Nodes that compute what another one does: output to the other's output.
    pub twins: Vec<(usize, &'m str)>,
    pub near_misses: Vec<NearMiss>,
}

/// Finds them in graph order; twins enter `names`.
pub(super) fn fold<'m>(
    graph: &Graph<'m>,
    names: &mut Names<'m>,
    passing: &HashSet<usize>,
    options: &CanonicalOptions,
) -> Folds<'m> {
    let folder = Folder {
        graph,
        readers: readers(graph, names, passing),
        growth_left: options.growth,
        largest: options.largest_constant,
        known: HashMap::new(),
        folds: Folds::default(),
    };
    folder.run(names, passing)
}

/// The nodes that read each tensor under its resolved name; subgraphs count as readers of another kind.
fn readers<'m>(
    graph: &Graph<'m>,
    names: &Names<'m>,
    passing: &HashSet<usize>,
) -> HashMap<&'m str, Vec<Option<usize>>> {
    let mut readers: HashMap<&str, Vec<Option<usize>>> = HashMap::new();
    for (index, node) in graph.nodes().iter().enumerate().filter(|(i, _)| !passing.contains(i)) {
        for input in node.input.iter().filter(|name| !name.is_empty()) {
            readers.entry(names.resolve(input)).or_default().push(Some(index));
        }
        for name in captured(node) {
            readers.entry(names.resolve(name)).or_default().push(None);
        }
    }
    readers
}

struct Folder<'g, 'm> {
    graph: &'g Graph<'m>,
    readers: HashMap<&'m str, Vec<Option<usize>>>,
    growth_left: u64,
    largest: u64,
    /// What nodes compute, to the output that has it.
    known: HashMap<String, &'m str>,
    folds: Folds<'m>,
}

impl<'m> Folder<'_, 'm> {
    fn run(mut self, names: &mut Names<'m>, passing: &HashSet<usize>) -> Folds<'m> {
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let shown = node.output.iter().any(|output| self.graph.is_output(output));
            if shown || passing.contains(&index) {
                continue;
            }
            if is_op(node, "Constant") {
                self.store(index, node);
            } else if is_known(node) {
                self.compute(index, node, names);
            }
        }
        self.folds
    }

    fn store(&mut self, index: usize, node: &'m NodeProto) {
        let Some(output) = node.output.first() else { return };
        let tensor = self.graph.constant(output);
        if let Some(value) = tensor.and_then(|tensor| Literal::of(&tensor)) {
            let folded = Folded { value, nodes: vec![index], source: None };
            self.folds.values.insert(output, folded);
        }
    }

    fn value(&self, name: &str) -> Option<Literal> {
        match self.folds.values.get(name) {
            Some(folded) => Some(folded.value.clone()),
            None => Literal::of(&self.graph.initializer(name)?),
        }
    }

    fn is_constant(&self, name: &str) -> bool {
        self.folds.values.contains_key(name) || self.graph.initializer(name).is_some()
    }

    fn compute(&mut self, index: usize, node: &'m NodeProto, names: &mut Names<'m>) {
        let inputs: Vec<&'m str> = node.input.iter().map(|name| names.resolve(name)).collect();
        let present = || inputs.iter().filter(|name| !name.is_empty());
        if present().next().is_none() || !present().all(|name| self.is_constant(name)) {
            return;
        }
        let key = key(node, names);
        let output = node.output[0].as_str();
        if let Some(twin) = self.known.get(&key) {
            names.same.insert(output, twin);
            self.folds.twins.push((index, twin));
            return;
        }
        let values: Option<Vec<Option<Literal>>> = inputs
            .iter()
            .map(|name| if name.is_empty() { Some(None) } else { self.value(name).map(Some) })
            .collect();
        let Some(values) = values else { return };
        let going = self.going(&inputs, &values, &key, names);
        let limit = going.max(self.largest.min(self.growth_left));
        match evaluate(node, &values, limit) {
            Ok(value) => {
                self.growth_left = self
                    .growth_left
                    .saturating_sub((value.bytes.len() as u64).saturating_sub(going));
                let folded = Folded {
                    nodes: self.cone(index, &inputs),
                    source: self.source(node, &inputs),
                    value,
                };
                self.folds.values.insert(output, folded);
                self.known.insert(key, output);
            }
            Err(Refusal::TooLarge(bytes)) => self.miss(index, node, &inputs, bytes),
            Err(Refusal::Unknown) => {}
        }
    }

    /// The size of the largest input that nothing else reads: twins of the node do not count.
    fn going(
        &self,
        inputs: &[&'m str],
        values: &[Option<Literal>],
        key_here: &str,
        names: &Names<'m>,
    ) -> u64 {
        let goes = |name: &str| {
            let readers = self.readers.get(name).map_or(&[][..], Vec::as_slice);
            let alike = |reader: &Option<usize>| {
                reader.is_some_and(|reader| {
                    let node = &self.graph.nodes()[reader];
                    let shown = node.output.iter().any(|output| self.graph.is_output(output));
                    !shown && key(node, names) == key_here
                })
            };
            !self.graph.is_output(name) && readers.iter().all(alike)
        };
        // Small ones make no difference, and hundreds of nodes may read them.
        let sizes = inputs.iter().zip(values).filter_map(|(name, value)| {
            let bytes = value.as_ref()?.bytes.len() as u64;
            (bytes > WORTH_COUNTING && goes(name)).then_some(bytes)
        });
        sizes.max().unwrap_or(0)
    }

    fn cone(&self, index: usize, inputs: &[&str]) -> Vec<usize> {
        let before = inputs.iter().filter_map(|name| self.folds.values.get(name));
        let mut nodes: BTreeSet<usize> = before.flat_map(|folded| &folded.nodes).copied().collect();
        nodes.insert(index);
        nodes.into_iter().collect()
    }

    /// The weight that a node only brings into another form.
    fn source(&self, node: &NodeProto, inputs: &[&'m str]) -> Option<&'m str> {
        let reshapes = ["Transpose", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze"];
        let first = *inputs.first().filter(|_| reshapes.iter().any(|op| is_op(node, op)))?;
        match self.folds.values.get(first) {
            Some(folded) => folded.source,
            None => {
                self.graph.initializer(first).filter(|t| t.element_type.is_float()).map(|_| first)
            }
        }
    }

    fn miss(&mut self, index: usize, node: &NodeProto, inputs: &[&str], bytes: u64) {
        let large = inputs
            .iter()
            .find(|name| self.value(name).is_some_and(|value| value.bytes.len() as u64 >= bytes));
        let reason = match large {
            Some(weight) => format!(
                "its result is constant, but `{weight}` is read elsewhere too: both would have to be stored, {bytes} bytes more"
            ),
            None => format!(
                "its result is constant, but of {bytes} bytes: stored, it would enlarge the model"
            ),
        };
        self.folds.near_misses.push(NearMiss { nodes: vec![node_label(node, index)], reason });
    }
}

/// What a node computes: nodes with the same key give the same.
fn key(node: &NodeProto, names: &Names) -> String {
    let inputs: Vec<&str> = node.input.iter().map(|name| names.resolve(name)).collect();
    format!("{}\n{}\n{inputs:?}\n{:?}", node.domain(), node.op_type(), node.attribute)
}
