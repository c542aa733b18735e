//! Raising the operator set: each changed operator gets its new form, everything else stays as it is.

use trtforge_onnx::build::{
    attr_float, attr_graph, attr_int, attr_ints, attr_string, graph, model, node, tensor_f32, value,
};
use trtforge_onnx::proto::{AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto};
use trtforge_onnx::{Dim, ElementType, Model, OnnxError, convert_opset, is_op, subgraphs};

/// A node with its constant inputs and attributes written out: `Op(x, min=[0], axis: 1)`.
fn text(node: &NodeProto, nodes: &[NodeProto]) -> String {
    let constant = |name: &String| {
        let producer = nodes.iter().find(|n| n.output.contains(name) && is_op(n, "Constant"))?;
        let tensor = trtforge_onnx::attr_tensor(producer, "value")?;
        let numbers = tensor
            .to_i64()
            .map(|v| format!("{v:?}"))
            .or_else(|_| tensor.to_f32().map(|v| format!("{v:?}")))
            .unwrap();
        Some(format!("{}{numbers}", if tensor.dims.is_empty() { "scalar " } else { "" }))
    };
    let mut parts: Vec<String> =
        node.input.iter().map(|name| constant(name).unwrap_or_else(|| name.clone())).collect();
    parts.extend(node.attribute.iter().map(|a| match (a.i, &a.s) {
        (Some(i), _) => format!("{}: {i}", a.name()),
        (_, Some(s)) => format!("{}: {}", a.name(), String::from_utf8_lossy(s)),
        _ => format!("{}: {:?}{:?}", a.name(), a.ints, a.f),
    }));
    format!("{}({})", node.op_type(), parts.join(", "))
}

fn texts(model: &Model) -> Vec<String> {
    let nodes = model.graph().nodes();
    nodes.iter().filter(|n| !is_op(n, "Constant")).map(|n| text(n, nodes)).collect()
}

/// One node over `x` (of rank 4), given in operator set `from`.
fn one(from: i64, operator: &str, outputs: &[&str], attributes: Vec<AttributeProto>) -> Model {
    let dims: Vec<Dim> = ["a", "b", "c", "d"].map(|n| Dim::Named(n.into())).to_vec();
    let y = value("y", ElementType::F32, &[]);
    model(
        from,
        graph(
            vec![value("x", ElementType::F32, &dims)],
            vec![y],
            vec![node(operator, "it", &["x"], outputs, attributes)],
            vec![],
        ),
    )
    .unwrap()
}

#[test]
fn each_change_is_made() {
    let axes = || vec![attr_ints("axes", &[1, -1])];
    let cases: Vec<(i64, &str, Vec<AttributeProto>, i64, &str)> = vec![
        (11, "ReduceMean", axes(), 17, "ReduceMean(x, axes: [1, -1]None)"),
        (11, "ReduceMean", axes(), 18, "ReduceMean(x, [1, -1])"),
        (11, "ReduceMean", vec![attr_int("keepdims", 0)], 21, "ReduceMean(x, keepdims: 0)"),
        (11, "ReduceSum", axes(), 13, "ReduceSum(x, [1, -1])"),
        (12, "Squeeze", axes(), 13, "Squeeze(x, [1, -1])"),
        (12, "Unsqueeze", axes(), 21, "Unsqueeze(x, [1, -1])"),
        (13, "ReduceMax", axes(), 19, "ReduceMax(x, [1, -1])"),
        (
            9,
            "Slice",
            vec![attr_ints("starts", &[1]), attr_ints("ends", &[2])],
            19,
            "Slice(x, [1], [2])",
        ),
        (
            9,
            "Slice",
            vec![attr_ints("axes", &[3]), attr_ints("starts", &[1]), attr_ints("ends", &[2])],
            10,
            "Slice(x, [1], [2], [3])",
        ),
        (
            9,
            "Clip",
            vec![attr_float("min", 0.0), attr_float("max", 6.0)],
            11,
            "Clip(x, scalar [0.0], scalar [6.0])",
        ),
        (9, "Clip", vec![attr_float("max", 6.0)], 21, "Clip(x, , scalar [6.0])"),
        (
            10,
            "Pad",
            vec![attr_ints("pads", &[0, 1]), attr_float("value", 2.0)],
            11,
            "Pad(x, [0, 1], scalar [2.0])",
        ),
        (
            10,
            "Pad",
            vec![attr_string("mode", "edge"), attr_ints("pads", &[0, 1])],
            21,
            "Pad(x, [0, 1], mode: edge)",
        ),
        (9, "TopK", vec![attr_int("k", 3)], 21, "TopK(x, [3])"),
        (10, "Dropout", vec![attr_float("ratio", 0.1)], 12, "Dropout(x)"),
        (8, "BatchNormalization", vec![attr_int("spatial", 1)], 21, "BatchNormalization(x)"),
        (12, "Split", vec![attr_ints("split", &[2, 3])], 21, "Split(x, [2, 3])"),
        (12, "Split", vec![], 21, "Split(x, num_outputs: 1)"),
        (13, "Split", vec![], 17, "Split(x)"),
        (10, "Scatter", vec![], 11, "ScatterElements(x)"),
        (
            15,
            "RoiAlign",
            vec![],
            16,
            "RoiAlign(x, coordinate_transformation_mode: output_half_pixel)",
        ),
        (16, "GridSample", vec![attr_string("mode", "bicubic")], 20, "GridSample(x, mode: cubic)"),
        (17, "DFT", vec![attr_int("axis", 2)], 20, "DFT(x, , scalar [2])"),
        (12, "Softmax", vec![attr_int("axis", 3)], 13, "Softmax(x, axis: -1)"),
        (12, "Softmax", vec![attr_int("axis", -1)], 21, "Softmax(x, axis: -1)"),
        (13, "Softmax", vec![attr_int("axis", 1)], 21, "Softmax(x, axis: 1)"),
        (7, "Relu", vec![], 21, "Relu(x)"),
    ];
    for (from, operator, attributes, to, expected) in cases {
        let model = one(from, operator, &["y"], attributes);
        let converted = convert_opset(&model, to).unwrap_or_else(|e| panic!("{operator}: {e}"));
        assert_eq!(texts(&converted), [expected], "{operator} from {from} to {to}");
        assert_eq!(converted.opset(), to);
        assert_eq!(converted.graph().nodes().last().unwrap().name(), "it");
    }
}

#[test]
fn a_softmax_over_several_axes_is_flattened() {
    let converted = convert_opset(&one(11, "Softmax", &["y"], vec![]), 13).unwrap();
    let expected = [
        "Shape(x)",
        "Flatten(x, axis: 1)",
        "Softmax(y_flat, axis: -1)",
        "Reshape(y_flat_result, y_shape)",
    ];
    assert_eq!(texts(&converted), expected);
    assert_eq!(converted.graph().nodes()[3].output, ["y"]);
}

#[test]
fn what_cannot_be_converted_is_named() {
    let refusal = |from, operator, outputs: &[&str], attributes| {
        convert_opset(&one(from, operator, outputs, attributes), 21).unwrap_err().to_string()
    };
    for (message, reason) in [
        (refusal(8, "Upsample", &["y"], vec![]), "Resize"),
        (refusal(10, "Resize", &["y"], vec![]), "coordinate"),
        (refusal(10, "Dropout", &["y", "mask"], vec![]), "mask"),
        (refusal(8, "BatchNormalization", &["y"], vec![attr_int("spatial", 0)]), "spatial"),
        (refusal(9, "BatchNormalization", &["y", "mean"], vec![]), "training"),
        (refusal(9, "TopK", &["y"], vec![]), "`k`"),
        (refusal(18, "GroupNormalization", &["y"], vec![]), "per channel"),
    ] {
        assert!(
            message.starts_with("node `it` (")
                && message.contains("to 21")
                && message.contains(reason),
            "{message}"
        );
    }
    let old = convert_opset(&one(6, "Relu", &["y"], vec![]), 13).unwrap_err();
    assert!(matches!(old, OnnxError::OpsetRange { found: 6, .. }));
    let new = convert_opset(&one(13, "Relu", &["y"], vec![]), 22).unwrap_err();
    assert!(matches!(new, OnnxError::OpsetRange { found: 22, .. }));
    // The same name in another domain is another operator.
    let mut foreign = one(8, "Upsample", &["y"], vec![]).proto().clone();
    foreign.graph.as_mut().unwrap().node[0].domain = Some("com.example".into());
    foreign
        .opset_import
        .push(OperatorSetIdProto { domain: Some("com.example".into()), version: Some(1) });
    assert!(convert_opset(&Model::from_proto(foreign).unwrap(), 21).is_ok());
}

#[test]
fn nothing_happens_to_a_model_that_is_new_enough() {
    let model = one(19, "ReduceMean", &["y"], vec![]);
    assert_eq!(convert_opset(&model, 19).unwrap().proto(), model.proto());
    assert_eq!(convert_opset(&model, 13).unwrap().opset(), 19);
}

#[test]
fn subgraphs_and_functions_are_converted_too() {
    let y = || value("y_in", ElementType::F32, &[]);
    let reduce = || node("ReduceMean", "inner", &["x"], &["y_in"], vec![attr_ints("axes", &[1])]);
    let branch = || graph(vec![], vec![y()], vec![reduce()], vec![]);
    let mut proto = one(
        11,
        "If",
        &["y"],
        vec![attr_graph("then_branch", branch()), attr_graph("else_branch", branch())],
    )
    .proto()
    .clone();
    let imports = proto.opset_import.clone();
    proto.opset_import.push(OperatorSetIdProto { domain: Some("local".into()), version: Some(1) });
    proto.functions.push(FunctionProto {
        name: Some("Mean".into()),
        domain: Some("local".into()),
        input: vec!["x".into()],
        output: vec!["y_in".into()],
        node: vec![reduce()],
        opset_import: imports,
        ..FunctionProto::default()
    });
    let converted = convert_opset(&Model::from_proto(proto).unwrap(), 18).unwrap();
    let inner: Vec<_> =
        subgraphs(&converted.graph().nodes()[0]).map(|g| text(&g.node[1], &g.node)).collect();
    assert_eq!(inner, ["ReduceMean(x, [1])", "ReduceMean(x, [1])"]);
    let function = &converted.proto().functions[0];
    assert_eq!(text(&function.node[1], &function.node), "ReduceMean(x, [1])");
    assert_eq!(function.opset_import[0].version(), 18);
    // Constants made for both branches have names of their own.
    let names: std::collections::BTreeSet<_> =
        subgraphs(&converted.graph().nodes()[0]).map(|g| g.node[0].output[0].clone()).collect();
    assert_eq!(names.len(), 2);
}

#[test]
fn made_names_avoid_those_in_use() {
    let nodes = vec![
        node("ReduceMean", "", &["x"], &["y"], vec![attr_ints("axes", &[0])]),
        node("Relu", "", &["x"], &["y_axes"], vec![]),
    ];
    let outputs = ["y", "y_axes"].map(|n| value(n, ElementType::F32, &[])).to_vec();
    let weights = vec![tensor_f32("x", &[1], &[1.0])];
    let converted =
        convert_opset(&model(13, graph(vec![], outputs, nodes, weights)).unwrap(), 18).unwrap();
    assert_eq!(converted.graph().nodes()[1].input, ["x", "y_axes_1"]);
}
