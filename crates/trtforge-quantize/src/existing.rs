//! Models another tool has quantized already.

use trtforge_onnx::{Model, Tensor, attr_tensor, is_op, node_label};

use crate::QuantizeError;

/// Operators that only a quantized model has.
const QUANTIZED_OPERATORS: [&str; 9] = [
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "ConvInteger",
    "QLinearMatMul",
    "QLinearConv",
    "DynamicQuantizeMatMul",
    "MatMulNBits",
];

/// Refuses a model that holds quantization operators, naming the one that says most.
///
/// A nonzero zero point comes first, since it is why TensorRT would refuse the model, then a dynamic operator.
pub(crate) fn refuse_quantized(model: &Model) -> Result<(), QuantizeError> {
    let graph = model.graph();
    let worst = graph
        .nodes()
        .iter()
        .enumerate()
        .filter(|(_, node)| QUANTIZED_OPERATORS.contains(&node.op_type()))
        .map(|(index, node)| {
            let zero_point = zero_point_input(node.op_type())
                .and_then(|input| node.input.get(input))
                .and_then(|name| constant(model, name))
                .and_then(|tensor| tensor.to_i64().ok()?.iter().copied().max_by_key(|z| z.abs()));
            let dynamic = !matches!(node.op_type(), "QuantizeLinear" | "DequantizeLinear");
            let rank = (zero_point.unwrap_or(0) == 0, !dynamic, index);
            (rank, index, node, zero_point)
        })
        .min_by_key(|row| row.0);
    match worst {
        None => Ok(()),
        Some((_, index, node, zero_point)) => Err(QuantizeError::AlreadyQuantized {
            node: node_label(node, index),
            op: node.op_type().to_owned(),
            zero_point,
        }),
    }
}

fn zero_point_input(op: &str) -> Option<usize> {
    matches!(op, "QuantizeLinear" | "DequantizeLinear").then_some(2)
}

fn constant<'m>(model: &'m Model, name: &str) -> Option<Tensor<'m>> {
    let graph = model.graph_proto();
    let initializer = graph.initializer.iter().find(|t| t.name() == name).map(Tensor::from_proto);
    initializer.or_else(|| {
        let node = graph.node.iter().find(|n| n.output.first().is_some_and(|o| o == name))?;
        is_op(node, "Constant").then(|| attr_tensor(node, "value"))?
    })
}
