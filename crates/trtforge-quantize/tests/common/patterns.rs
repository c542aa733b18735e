//! Small graphs of one FP32 input, for what the canonical form looks for.

use super::spread;
use trtforge_onnx::build::{attr_ints, graph, model, node, tensor_f32, tensor_i64, value};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};

pub const WIDTH: usize = 16;

/// A model of an FP32 input `x` of shape `[batch, 16]`.
pub fn model_of(
    opset: i64,
    outputs: &[&str],
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
) -> Model {
    let shape = [Dim::Named("batch".into()), Dim::Fixed(WIDTH as i64)];
    let inputs = vec![value("x", ElementType::F32, &shape)];
    let outputs = outputs
        .iter()
        .map(|name| value(name, ElementType::F32, &[const { Dim::Unknown }; 2]))
        .collect();
    let model = model(opset, graph(inputs, outputs, nodes, weights)).unwrap();
    model.check().unwrap();
    model
}

pub fn op(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    node(op, &format!("/norm/{output}"), inputs, &[output], vec![])
}

pub fn reduce(input: &str, output: &str) -> NodeProto {
    node("ReduceMean", output, &[input], &[output], vec![attr_ints("axes", &[-1])])
}

pub fn scalar(name: &str, value: f32) -> TensorProto {
    tensor_f32(name, &[], &[value])
}

pub fn weights() -> Vec<TensorProto> {
    vec![
        tensor_f32("gain", &[16], &spread(WIDTH, 1.5)),
        tensor_f32("shift", &[16], &spread(WIDTH, 0.5)),
        scalar("eps", 1e-5),
        scalar("two", 2.0),
        scalar("one", 1.0),
        scalar("half", 0.5),
        scalar("minus_half", -0.5),
        scalar("sqrt2", std::f32::consts::SQRT_2),
        scalar("rsqrt2", std::f32::consts::FRAC_1_SQRT_2),
        scalar("three", 3.0),
        scalar("cubic", 0.044_715),
        scalar("slope", 0.797_884_6),
        tensor_i64("last", &[1], &[-1]),
    ]
}

pub fn with(mut before: Vec<NodeProto>, after: &[(&str, &[&str], &str)]) -> Vec<NodeProto> {
    before.extend(after.iter().map(|(name, inputs, output)| op(name, inputs, output)));
    before
}

/// Replaces the node that makes a tensor.
pub fn replaced(mut nodes: Vec<NodeProto>, new: NodeProto) -> Vec<NodeProto> {
    let at = nodes.iter().position(|node| node.output == new.output).unwrap();
    nodes[at] = new;
    nodes
}

pub type Variant = (&'static str, i64, Vec<NodeProto>);
