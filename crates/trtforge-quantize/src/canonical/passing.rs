//! Nodes that pass their input on unchanged.

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, Graph, attr_i, is_op};

/// Why the first output of a node is its first input, if it is.
pub(super) fn passes_on(graph: &Graph, node: &NodeProto, opset: i64) -> Option<&'static str> {
    let input = node.input.first().filter(|name| !name.is_empty())?;
    let one_output = node.output.iter().skip(1).all(String::is_empty);
    if !one_output || node.output.first().is_none_or(|output| graph.is_output(output)) {
        return None;
    }
    if is_op(node, "Identity") {
        return Some("Identity changes nothing");
    }
    if is_op(node, "Dropout") && is_inference(graph, node, opset) {
        return Some("Dropout does nothing in inference");
    }
    if is_op(node, "Cast") {
        let from = graph.element_type(input)?;
        let to = attr_i(node, "to").and_then(|to| i32::try_from(to).ok())?;
        return (ElementType::from_onnx(to) == from).then_some("a Cast to the type it has already");
    }
    None
}

/// From operator set 12 on an input says so, if there is one; before, only the training operator was another.
fn is_inference(graph: &Graph, node: &NodeProto, opset: i64) -> bool {
    if opset < 7 {
        return false;
    }
    match node.input.get(2).filter(|name| opset >= 12 && !name.is_empty()) {
        None => true,
        Some(training) => {
            let value = graph.constant(training);
            value.is_some_and(|value| value.to_i64().is_ok_and(|v| v.iter().all(|&flag| flag == 0)))
        }
    }
}
