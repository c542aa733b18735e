//! Reading a node: attributes by name, its label for people, its subgraphs.

use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, GraphProto, NodeProto};
use crate::tensor::Tensor;

/// The attribute `name` of a node.
pub fn attr<'m>(node: &'m NodeProto, name: &str) -> Option<&'m AttributeProto> {
    node.attribute.iter().find(|a| a.name() == name)
}

/// An integer attribute.
pub fn attr_i(node: &NodeProto, name: &str) -> Option<i64> {
    let attribute = attr(node, name)?;
    // Writers that follow proto3 leave out a zero.
    attribute.i.or_else(|| (attribute.r#type() == AttributeType::Int).then_some(0))
}

/// A float attribute.
pub fn attr_f(node: &NodeProto, name: &str) -> Option<f32> {
    let attribute = attr(node, name)?;
    attribute.f.or_else(|| (attribute.r#type() == AttributeType::Float).then_some(0.0))
}

/// A list-of-integers attribute (empty when present and empty).
pub fn attr_ints<'m>(node: &'m NodeProto, name: &str) -> Option<&'m [i64]> {
    attr(node, name).map(|a| a.ints.as_slice())
}

/// A list-of-floats attribute (empty when present and empty).
pub fn attr_floats<'m>(node: &'m NodeProto, name: &str) -> Option<&'m [f32]> {
    attr(node, name).map(|a| a.floats.as_slice())
}

/// A string attribute; `None` also when it is not UTF-8.
pub fn attr_s<'m>(node: &'m NodeProto, name: &str) -> Option<&'m str> {
    std::str::from_utf8(attr(node, name)?.s.as_deref()?).ok()
}

/// A tensor attribute.
pub fn attr_tensor<'m>(node: &'m NodeProto, name: &str) -> Option<Tensor<'m>> {
    attr(node, name)?.t.as_ref().map(Tensor::from_proto)
}

/// Whether a node is `operator` of the default ONNX domain.
pub fn is_op(node: &NodeProto, operator: &str) -> bool {
    node.op_type() == operator && is_default_domain(node.domain())
}

/// ONNX gives its default domain two spellings.
pub(crate) fn is_default_domain(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// What to call a node in front of people: its name, or `OpType(first output)` when it has none.
pub fn node_label(node: &NodeProto, index: usize) -> String {
    if !node.name().is_empty() {
        return node.name().to_owned();
    }
    match node.output.iter().find(|o| !o.is_empty()) {
        Some(output) => format!("{}({output})", node.op_type()),
        None => format!("{}#{index}", node.op_type()),
    }
}

/// The graphs inside a node: the branches of `If`, the bodies of `Loop` and `Scan`.
pub fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|a| a.g.iter().chain(&a.graphs))
}

/// The graphs inside a node, to be changed.
pub(crate) fn subgraphs_mut(node: &mut NodeProto) -> impl Iterator<Item = &mut GraphProto> {
    node.attribute.iter_mut().flat_map(|a| a.g.iter_mut().chain(&mut a.graphs))
}
