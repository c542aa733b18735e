//! Element types, propagated from inputs and initializers through every operator.

use std::collections::HashMap;

use crate::attribute::{attr, attr_i, attr_tensor, is_default_domain, subgraphs};
use crate::element::{ElementType, tensor_type};
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::sort::topological_order;
use crate::tensor::Tensor;

pub(crate) type Types<'m> = HashMap<&'m str, ElementType>;

/// The element type of every tensor of a graph and of the graphs nested in it, where it can be known.
pub(crate) fn infer_types(graph: &GraphProto) -> Types<'_> {
    let mut types = Types::new();
    infer_graph(graph, &mut types);
    types
}

/// Tensor names are unique over a graph and its subgraphs (ONNX is in SSA form), so that one map serves all of them.
fn infer_graph<'m>(graph: &'m GraphProto, types: &mut Types<'m>) {
    for input in &graph.input {
        types.extend(declared(input));
    }
    for tensor in &graph.initializer {
        types.insert(tensor.name(), ElementType::from_onnx(tensor.data_type()));
    }
    let stated: Types<'m> =
        graph.value_info.iter().chain(&graph.output).filter_map(declared).collect();
    // Models that are out of order (allowed while they are looked at) still get their types; those with cycles, as far as it goes.
    let order = topological_order(&graph.node).unwrap_or_else(|_| (0..graph.node.len()).collect());
    for node in order.into_iter().map(|index| &graph.node[index]) {
        let outputs = node_outputs(node, types);
        for (index, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let inferred = outputs
                .get(index)
                .copied()
                .flatten()
                .or_else(|| stated.get(name.as_str()).copied());
            if let Some(element_type) = inferred {
                types.insert(name, element_type);
            }
        }
    }
}

fn declared(info: &ValueInfoProto) -> Option<(&str, ElementType)> {
    match tensor_type(info.r#type.as_ref())?.elem_type() {
        0 => None,
        number => Some((info.name(), ElementType::from_onnx(number))),
    }
}

/// The types of a node's outputs, from those of its inputs.
fn node_outputs<'m>(node: &'m NodeProto, types: &mut Types<'m>) -> Vec<Option<ElementType>> {
    for graph in subgraphs(node) {
        bind_body_inputs(node, graph, types);
        infer_graph(graph, types);
    }
    let input =
        |index: usize| node.input.get(index).and_then(|name| types.get(name.as_str()).copied());
    let all = |element_type| vec![element_type; node.output.len()];
    match node.domain() {
        domain if is_default_domain(domain) => match subgraphs(node).next() {
            Some(body) => body_outputs(node, body, types),
            None => {
                standard_operator(node, &input).unwrap_or_else(|| all(first_known(node, types)))
            }
        },
        "com.microsoft" => contrib_operator(node, &input).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// `Loop` and `Scan` bodies often leave the types of their inputs to the outside.
fn bind_body_inputs<'m>(node: &'m NodeProto, body: &'m GraphProto, types: &mut Types<'m>) {
    let outer: Vec<Option<ElementType>> = match node.op_type() {
        // Iteration number, condition, then the carried values (the node's inputs from 2 on).
        "Loop" => {
            let carried = node.input.iter().skip(2).map(|name| types.get(name.as_str()).copied());
            [Some(ElementType::I64), Some(ElementType::Bool)].into_iter().chain(carried).collect()
        }
        "Scan" => node.input.iter().map(|name| types.get(name.as_str()).copied()).collect(),
        _ => return,
    };
    for (input, element_type) in body.input.iter().zip(outer) {
        if let Some(element_type) = element_type {
            types.insert(input.name(), element_type);
        }
    }
}

/// The outputs of `If`, `Loop` and `Scan` are those of their body; that of `Loop` starts with the condition.
fn body_outputs<'m>(
    node: &NodeProto,
    body: &'m GraphProto,
    types: &Types<'m>,
) -> Vec<Option<ElementType>> {
    let skipped = usize::from(node.op_type() == "Loop");
    body.output.iter().skip(skipped).map(|output| types.get(output.name()).copied()).collect()
}

fn first_known(node: &NodeProto, types: &Types) -> Option<ElementType> {
    node.input
        .iter()
        .find(|name| !name.is_empty())
        .and_then(|name| types.get(name.as_str()).copied())
}

type Input<'i> = &'i dyn Fn(usize) -> Option<ElementType>;

/// The operators whose outputs differ from their first input; `None`: all outputs are of the type of the first input.
fn standard_operator(node: &NodeProto, input: Input) -> Option<Vec<Option<ElementType>>> {
    use ElementType::{Bool, F32, I32, I64, U8};
    let to = |name: &str| {
        attr_i(node, name).filter(|&n| n != 0).map(|n| ElementType::from_onnx(n as i32))
    };
    let one = |element_type| vec![Some(element_type)];
    Some(match node.op_type() {
        "Shape" | "Size" | "NonZero" | "ArgMax" | "ArgMin" | "NonMaxSuppression" => one(I64),
        "Equal" | "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" | "And" | "Or" | "Xor"
        | "Not" | "IsNaN" | "IsInf" | "RegexFullMatch" | "OptionalHasElement" => one(Bool),
        "Cast" | "BitCast" => vec![to("to")],
        "CastLike" | "Where" => vec![input(1)],
        "Constant" => vec![
            Tensor::of_constant(node).map(|t| t.element_type).or_else(|| constant_string(node)),
        ],
        "ConstantOfShape" => vec![Some(attr_tensor(node, "value").map_or(F32, |t| t.element_type))],
        "RandomUniform" | "RandomNormal" | "HannWindow" | "HammingWindow" | "BlackmanWindow"
        | "MelWeightMatrix" => {
            vec![to("dtype").or_else(|| to("output_datatype")).or(Some(F32))]
        }
        "EyeLike" | "RandomUniformLike" | "RandomNormalLike" | "Bernoulli" => {
            vec![to("dtype").or_else(|| input(0))]
        }
        "Multinomial" => vec![to("dtype").or(Some(I32))],
        "OneHot" => vec![input(2)],
        "QuantizeLinear" => vec![input(2).or_else(|| to("output_dtype")).or(Some(U8))],
        "DequantizeLinear" => vec![to("output_dtype").or_else(|| input(1))],
        "DynamicQuantizeLinear" => vec![Some(U8), Some(F32), Some(U8)],
        "MatMulInteger" | "ConvInteger" => one(I32),
        "QLinearMatMul" | "QLinearConv" => vec![input(7)],
        "TopK" | "MaxPool" => vec![input(0), Some(I64)],
        "Unique" => vec![input(0), Some(I64), Some(I64), Some(I64)],
        "Dropout" => vec![input(0), Some(Bool)],
        "LayerNormalization" => {
            let stash = to("stash_type").or(Some(F32));
            vec![input(0), stash, stash]
        }
        "ImageDecoder" => one(U8),
        "StringSplit" => vec![Some(ElementType::String), Some(I64)],
        "TfIdfVectorizer" => one(F32),
        // Sequences and optionals are no tensors.
        "SequenceAt" | "SequenceConstruct" | "SequenceEmpty" | "SequenceInsert"
        | "SequenceErase" | "SequenceLength" | "SplitToSequence" | "ConcatFromSequence"
        | "Optional" | "OptionalGetElement" => Vec::new(),
        _ => return None,
    })
}

fn constant_string(node: &NodeProto) -> Option<ElementType> {
    let strings = attr(node, "value_string").or_else(|| attr(node, "value_strings"));
    strings.map(|_| ElementType::String)
}

/// The fused operators of ONNX Runtime that transformers are exported with.
fn contrib_operator(node: &NodeProto, input: Input) -> Option<Vec<Option<ElementType>>> {
    let to = |name: &str| attr_i(node, name).map(|n| ElementType::from_onnx(n as i32));
    Some(match node.op_type() {
        "FusedMatMul"
        | "BiasGelu"
        | "FastGelu"
        | "QuickGelu"
        | "Gelu"
        | "Attention"
        | "MultiHeadAttention"
        | "SkipLayerNormalization"
        | "SkipSimplifiedLayerNormalization"
        | "BiasSoftmax"
        | "MatMulNBits"
        | "GroupQueryAttention"
        | "RotaryEmbedding"
        | "FusedGemm" => vec![input(0); node.output.len()],
        // Output, mask index, and the sum before the normalization; inputs: ids, segments, then the tables.
        "EmbedLayerNormalization" => vec![input(2), Some(ElementType::I32), input(2)],
        "QuantizeLinear" => vec![input(2).or_else(|| to("output_dtype")).or(Some(ElementType::U8))],
        "DequantizeLinear" => vec![input(1)],
        "QAttention" | "MatMulIntegerToFloat" => vec![input(3)],
        "DynamicQuantizeMatMul" => vec![input(0)],
        _ => return None,
    })
}
