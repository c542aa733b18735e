//! Models another tool has quantized already.

use trtforge_onnx::proto::GraphProto;
use trtforge_onnx::{Model, Tensor, attr_tensor, is_op, node_label, subgraphs};

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

/// A quantization operator, and how much it says.
struct Finding {
    /// A nonzero zero point comes first, since it is why TensorRT would refuse the model; then a dynamic operator.
    rank: (bool, bool),
    node: String,
    op: String,
    zero_point: Option<i64>,
}

/// Refuses a model that holds quantization operators, in branches too, naming the one that says most.
pub(crate) fn refuse_quantized(model: &Model) -> Result<(), QuantizeError> {
    let mut found = vec![];
    search(model.graph_proto(), &mut found);
    match found.into_iter().min_by_key(|finding| finding.rank) {
        None => Ok(()),
        Some(Finding { node, op, zero_point, .. }) => {
            Err(QuantizeError::AlreadyQuantized { node, op, zero_point })
        }
    }
}

fn search(graph: &GraphProto, found: &mut Vec<Finding>) {
    for (index, node) in graph.node.iter().enumerate() {
        subgraphs(node).for_each(|inner| search(inner, found));
        if !QUANTIZED_OPERATORS.contains(&node.op_type()) {
            continue;
        }
        let zero_point = zero_point_input(node.op_type())
            .and_then(|input| node.input.get(input))
            .and_then(|name| constant(graph, name))
            .and_then(|tensor| tensor.to_i64().ok()?.iter().copied().max_by_key(|z| z.abs()));
        let fixed = matches!(node.op_type(), "QuantizeLinear" | "DequantizeLinear");
        found.push(Finding {
            rank: (zero_point.unwrap_or(0) == 0, fixed),
            node: node_label(node, index),
            op: node.op_type().to_owned(),
            zero_point,
        });
    }
}

fn zero_point_input(op: &str) -> Option<usize> {
    matches!(op, "QuantizeLinear" | "DequantizeLinear").then_some(2)
}

fn constant<'m>(graph: &'m GraphProto, name: &str) -> Option<Tensor<'m>> {
    let initializer = graph.initializer.iter().find(|t| t.name() == name).map(Tensor::from_proto);
    initializer.or_else(|| {
        let node = graph.node.iter().find(|n| n.output.first().is_some_and(|o| o == name))?;
        is_op(node, "Constant").then(|| attr_tensor(node, "value"))?
    })
}
