//! Validity: every tensor has exactly one source, before its first use, its data fits its shape, and types agree.

use std::collections::{BTreeSet, HashMap};

use crate::attribute::{is_default_domain, node_label, subgraphs};
use crate::error::OnnxError;
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::sort::topological_order;
use crate::tensor::Tensor;
use crate::types;

pub(crate) fn model(model: &ModelProto) -> Result<(), OnnxError> {
    let missing = |what: &str| Err(OnnxError::Incomplete { what: what.to_owned() });
    if model.ir_version.is_none() {
        return missing("ir_version");
    }
    let Some(main) = &model.graph else { return missing("graph") };
    if main.output.is_empty() {
        return missing("graph output");
    }
    let domains: BTreeSet<&str> =
        model.opset_import.iter().map(|i| plain_domain(i.domain())).collect();
    if !domains.contains("") {
        return Err(OnnxError::NoOpset);
    }
    graph(main, &Scope { outer: None, sources: HashMap::new() }, &domains)?;
    types::check(main)
}

fn plain_domain(domain: &str) -> &str {
    if is_default_domain(domain) { "" } else { domain }
}

/// Where a tensor comes from, to be named in errors.
#[derive(Clone, Copy)]
enum Source<'m> {
    Input,
    Initializer,
    Node(&'m NodeProto, usize),
}

impl Source<'_> {
    fn describe(self) -> String {
        match self {
            Self::Input => "a graph input".to_owned(),
            Self::Initializer => "an initializer".to_owned(),
            Self::Node(node, index) => format!("node `{}`", node_label(node, index)),
        }
    }
}

/// The tensors visible at one point of a graph, those of the surrounding graphs included.
struct Scope<'m, 's> {
    outer: Option<&'s Scope<'m, 's>>,
    sources: HashMap<&'m str, Source<'m>>,
}

impl<'m> Scope<'m, '_> {
    fn contains(&self, name: &str) -> bool {
        self.sources.contains_key(name) || self.outer.is_some_and(|outer| outer.contains(name))
    }

    fn define(&mut self, name: &'m str, source: Source<'m>) -> Result<(), OnnxError> {
        match self.sources.insert(name, source) {
            None => Ok(()),
            Some(first) => Err(OnnxError::Duplicate {
                tensor: name.to_owned(),
                first: first.describe(),
                second: source.describe(),
            }),
        }
    }
}

fn graph<'m>(
    graph: &'m GraphProto,
    outer: &Scope<'m, '_>,
    domains: &BTreeSet<&str>,
) -> Result<(), OnnxError> {
    let mut scope = Scope { outer: Some(outer), sources: HashMap::new() };
    for tensor in &graph.initializer {
        if tensor.name().is_empty() {
            return Err(OnnxError::Incomplete {
                what: "name for one of its initializers".to_owned(),
            });
        }
        Tensor::from_proto(tensor).check()?;
        scope.define(tensor.name(), Source::Initializer)?;
    }
    for values in graph.sparse_initializer.iter().filter_map(|s| s.values.as_ref()) {
        scope.define(values.name(), Source::Initializer)?;
    }
    define_inputs(graph, &mut scope)?;
    for (index, node) in graph.node.iter().enumerate() {
        check_node(graph, node, index, &scope, domains)?;
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            scope.define(output, Source::Node(node, index))?;
        }
    }
    match graph.output.iter().find(|o| !scope.contains(o.name())) {
        Some(output) => Err(OnnxError::OutputMissing { tensor: output.name().to_owned() }),
        None => Ok(()),
    }
}

/// An initializer of an input's name is its default value, not a second source.
fn define_inputs<'m>(graph: &'m GraphProto, scope: &mut Scope<'m, '_>) -> Result<(), OnnxError> {
    let mut seen = BTreeSet::new();
    for input in &graph.input {
        if !seen.insert(input.name()) {
            let input_source = || "a graph input".to_owned();
            let tensor = input.name().to_owned();
            return Err(OnnxError::Duplicate {
                tensor,
                first: input_source(),
                second: input_source(),
            });
        }
        scope.sources.entry(input.name()).or_insert(Source::Input);
    }
    Ok(())
}

fn check_node<'m>(
    all: &'m GraphProto,
    node: &'m NodeProto,
    index: usize,
    scope: &Scope<'m, '_>,
    domains: &BTreeSet<&str>,
) -> Result<(), OnnxError> {
    let label = || node_label(node, index);
    if node.op_type().is_empty() {
        return Err(OnnxError::Incomplete { what: format!("operator for node `{}`", label()) });
    }
    if !domains.contains(plain_domain(node.domain())) {
        return Err(OnnxError::OpsetMissing { node: label(), domain: node.domain().to_owned() });
    }
    if let Some(tensor) = node.input.iter().find(|name| !name.is_empty() && !scope.contains(name)) {
        return Err(unavailable(all, index, tensor));
    }
    for tensor in node.attribute.iter().flat_map(|a| a.t.iter().chain(&a.tensors)) {
        let name = if tensor.name().is_empty() { label() } else { tensor.name().to_owned() };
        Tensor::from_proto(tensor).named(&name).check()?;
    }
    subgraphs(node).try_for_each(|inner| graph(inner, scope, domains))
}

/// Why a node's input is not there yet: never produced, produced later, or produced from this node's own output.
fn unavailable(graph: &GraphProto, index: usize, tensor: &str) -> OnnxError {
    let node = node_label(&graph.node[index], index);
    let later = graph
        .node
        .iter()
        .enumerate()
        .skip(index)
        .find(|(_, n)| n.output.iter().any(|o| o == tensor));
    let Some((at, producer)) = later else {
        return OnnxError::Dangling { node, tensor: tensor.to_owned() };
    };
    match topological_order(&graph.node) {
        Err(cycle) => cycle,
        Ok(_) => OnnxError::Unsorted {
            node,
            tensor: tensor.to_owned(),
            producer: node_label(producer, at),
        },
    }
}
