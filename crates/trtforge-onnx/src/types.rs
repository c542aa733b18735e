//! Type agreement: the operators that need inputs of one type get them, and outputs are of the type they are declared with.
//! Every runtime refuses a graph that fails this; found here, the message names the node.

use crate::attribute::{is_default_domain, node_label, subgraphs};
use crate::element::{ElementType, ValueInfo};
use crate::error::OnnxError;
use crate::infer::{Types, infer_types};
use crate::proto::{GraphProto, NodeProto};

pub(crate) fn check(graph: &GraphProto) -> Result<(), OnnxError> {
    let types = infer_types(graph);
    check_nodes(graph, &types)?;
    for output in graph.output.iter().map(ValueInfo::from_proto) {
        let inferred = types.get(output.name.as_str()).copied();
        if let Some(found) = inferred
            .filter(|&t| t != output.element_type && output.element_type != ElementType::Other(0))
        {
            return Err(OnnxError::OutputType {
                tensor: output.name,
                declared: output.element_type,
                found,
            });
        }
    }
    Ok(())
}

fn check_nodes(graph: &GraphProto, types: &Types) -> Result<(), OnnxError> {
    for (index, node) in graph.node.iter().enumerate() {
        let inputs = equal_inputs(node).filter(|name| !name.is_empty());
        let mut typed = inputs.filter_map(|name| Some((name, *types.get(name)?)));
        if let Some((first, wanted)) = typed.next()
            && let Some((other, found)) = typed.find(|(_, found)| *found != wanted)
        {
            return Err(OnnxError::MixedTypes {
                node: node_label(node, index),
                operator: node.op_type().to_owned(),
                first: format!("`{first}` is {wanted}"),
                second: format!("`{other}` is {found}"),
            });
        }
        subgraphs(node).try_for_each(|inner| check_nodes(inner, types))?;
    }
    Ok(())
}

/// The inputs of a node that must be of one type.
fn equal_inputs(node: &NodeProto) -> impl Iterator<Item = &str> {
    let positions = match node.op_type() {
        _ if !is_default_domain(node.domain()) => 0..0,
        "Add" | "Sub" | "Mul" | "Div" | "MatMul" | "Gemm" | "Concat" | "Min" | "Max" | "Sum"
        | "Mean" | "Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" | "And"
        | "Or" | "Xor" | "Mod" | "PRelu" | "Clip" | "Einsum" | "LayerNormalization" => {
            0..usize::MAX
        }
        "Where" => 1..3,
        _ => 0..0,
    };
    node.input
        .iter()
        .enumerate()
        .filter(move |(at, _)| positions.contains(at))
        .map(|(_, name)| name.as_str())
}
