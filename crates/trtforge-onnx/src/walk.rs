//! Visiting everything nested in a model: tensors wherever they are, and what subgraphs take from outside.

use std::collections::{BTreeMap, BTreeSet};

use crate::attribute::{subgraphs, subgraphs_mut};
use crate::error::OnnxError;
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
};

type Visit<'v> = &'v mut dyn FnMut(&mut TensorProto) -> Result<(), OnnxError>;

/// Visits every tensor of a model: initializers, attributes, subgraphs, functions, training graphs.
pub(crate) fn for_each_tensor(model: &mut ModelProto, visit: Visit) -> Result<(), OnnxError> {
    for training in &mut model.training_info {
        for graph in training.initialization.iter_mut().chain(&mut training.algorithm) {
            graph_tensors(graph, visit)?;
        }
    }
    for function in &mut model.functions {
        attribute_tensors(&mut function.attribute_proto, visit)?;
        for node in &mut function.node {
            attribute_tensors(&mut node.attribute, visit)?;
        }
    }
    model.graph.iter_mut().try_for_each(|graph| graph_tensors(graph, visit))
}

fn graph_tensors(graph: &mut GraphProto, visit: Visit) -> Result<(), OnnxError> {
    graph.initializer.iter_mut().try_for_each(&mut *visit)?;
    sparse_tensors(graph.sparse_initializer.iter_mut(), visit)?;
    graph.node.iter_mut().try_for_each(|node| attribute_tensors(&mut node.attribute, visit))
}

fn attribute_tensors(attributes: &mut [AttributeProto], visit: Visit) -> Result<(), OnnxError> {
    for attribute in attributes {
        attribute.t.iter_mut().chain(&mut attribute.tensors).try_for_each(&mut *visit)?;
        let sparse = attribute.sparse_tensor.iter_mut().chain(&mut attribute.sparse_tensors);
        sparse_tensors(sparse, visit)?;
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            graph_tensors(graph, visit)?;
        }
    }
    Ok(())
}

fn sparse_tensors<'m>(
    mut tensors: impl Iterator<Item = &'m mut SparseTensorProto>,
    visit: Visit,
) -> Result<(), OnnxError> {
    tensors.try_for_each(|s| s.values.iter_mut().chain(&mut s.indices).try_for_each(&mut *visit))
}

/// Visits the initializers of a graph and of the graphs nested in it.
pub(crate) fn for_each_initializer(
    graph: &mut GraphProto,
    visit: &mut dyn FnMut(&mut TensorProto) -> Result<(), OnnxError>,
) -> Result<(), OnnxError> {
    graph.initializer.iter_mut().try_for_each(&mut *visit)?;
    for node in &mut graph.node {
        subgraphs_mut(node).try_for_each(|inner| for_each_initializer(inner, visit))?;
    }
    Ok(())
}

/// The names that a graph itself defines: inputs, initializers, node outputs.
pub(crate) fn defined_names(graph: &GraphProto) -> BTreeSet<&str> {
    let inputs = graph.input.iter().map(crate::proto::ValueInfoProto::name);
    let initializers = graph.initializer.iter().map(TensorProto::name);
    let sparse = graph.sparse_initializer.iter().filter_map(|s| Some(s.values.as_ref()?.name()));
    let outputs = graph.node.iter().flat_map(|n| &n.output).map(String::as_str);
    inputs.chain(initializers).chain(sparse).chain(outputs).filter(|n| !n.is_empty()).collect()
}

/// The outer tensors that the subgraphs of a node read.
pub(crate) fn captured_names(node: &NodeProto) -> BTreeSet<&str> {
    subgraphs(node).flat_map(free_names).collect()
}

/// The names that a graph reads but does not define.
fn free_names(graph: &GraphProto) -> BTreeSet<&str> {
    let inputs = graph.node.iter().flat_map(|n| &n.input).map(String::as_str);
    let outputs = graph.output.iter().map(crate::proto::ValueInfoProto::name);
    let nested = graph.node.iter().flat_map(captured_names);
    let defined = defined_names(graph);
    let read = inputs.chain(outputs).chain(nested);
    read.filter(|name| !name.is_empty() && !defined.contains(name)).collect()
}

/// Renames what the subgraphs of a node read from outside, according to `names` (old to new).
pub(crate) fn rename_captured(node: &mut NodeProto, names: &BTreeMap<String, String>) {
    for graph in subgraphs_mut(node) {
        let own: BTreeSet<String> = defined_names(graph).into_iter().map(str::to_owned).collect();
        let outer: BTreeMap<String, String> = names
            .iter()
            .filter(|(old, _)| !own.contains(*old))
            .map(|(o, n)| (o.clone(), n.clone()))
            .collect();
        for inner in &mut graph.node {
            for input in &mut inner.input {
                if let Some(new) = outer.get(input) {
                    input.clone_from(new);
                }
            }
            rename_captured(inner, &outer);
        }
        for output in &mut graph.output {
            if let Some(new) = outer.get(output.name()) {
                output.name = Some(new.clone());
            }
        }
    }
}

/// Every name used anywhere in a graph and the graphs nested in it: tensors and nodes.
pub(crate) fn all_names(graph: &GraphProto, into: &mut BTreeSet<String>) {
    into.extend(defined_names(graph).into_iter().map(str::to_owned));
    into.extend(graph.output.iter().chain(&graph.value_info).map(|v| v.name().to_owned()));
    for node in &graph.node {
        into.insert(node.name().to_owned());
        into.extend(node.input.iter().cloned());
        subgraphs(node).for_each(|inner| all_names(inner, into));
    }
}
