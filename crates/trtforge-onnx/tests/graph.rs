//! The graph view: indices, constants, and how types and shapes follow through operators.

use trtforge_onnx::build::{
    attr_float, attr_graph, attr_int, attr_ints, attr_string, attr_tensor, graph, model, node,
    tensor_f32, tensor_i8, tensor_i64, tensor_raw, value,
};
use trtforge_onnx::proto::{AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use trtforge_onnx::{
    Dim, ElementType, Model, Use, attr_f, attr_i, attr_ints as ints_of, attr_s, node_label,
};

use ElementType::{Bf16, Bool, F16, F32, F64, I8, I32, I64, U8};

fn shaped(name: &str, element_type: ElementType, shape: &str) -> ValueInfoProto {
    let dim = |text: &str| {
        text.parse().map_or_else(
            |_| if text == "?" { Dim::Unknown } else { Dim::Named(text.into()) },
            Dim::Fixed,
        )
    };
    value(name, element_type, &shape.split_whitespace().map(dim).collect::<Vec<_>>())
}

fn of(inputs: Vec<ValueInfoProto>, nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> Model {
    model(17, graph(inputs, vec![], nodes, weights)).unwrap()
}

/// A model of one node over `inputs` (type and shape), named a, b, c …, and weights; its outputs are y0, y1 …
fn one(
    operator: &str,
    inputs: &[(ElementType, &str)],
    weights: &[TensorProto],
    attributes: Vec<AttributeProto>,
    outputs: usize,
) -> Model {
    let names: Vec<String> =
        (0..inputs.len()).map(|i| char::from(b'a' + i as u8).to_string()).collect();
    let values = names.iter().zip(inputs).map(|(n, (t, s))| shaped(n, *t, s)).collect();
    let reads: Vec<&str> =
        names.iter().map(String::as_str).chain(weights.iter().map(TensorProto::name)).collect();
    let outputs: Vec<String> = (0..outputs).map(|i| format!("y{i}")).collect();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    of(values, vec![node(operator, "", &reads, &outputs, attributes)], weights.to_vec())
}

fn shape_text(model: &Model, tensor: &str) -> String {
    match model.graph().shape(tensor) {
        None => "unknown".to_owned(),
        Some(dims) => dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn indices_and_constants() {
    let nodes = vec![
        node("Constant", "", &[], &["two"], vec![attr_float("value_float", 2.0)]),
        node("Identity", "", &["two"], &["also"], vec![]),
        node("Identity", "", &["w"], &["w_too"], vec![]),
        node("Mul", "", &["x", "also"], &["m"], vec![]),
        node("Add", "", &["m", "m"], &["s"], vec![]),
        node("Clip", "", &["s", "", "w"], &["y"], vec![]),
    ];
    let main = graph(
        vec![shaped("x", F32, "n"), shaped("w", F32, "1")],
        vec![shaped("y", F32, "n")],
        nodes,
        vec![tensor_f32("w", &[1], &[3.0])],
    );
    let model = model(17, main).unwrap();
    let graph = model.graph();
    assert_eq!(graph.producer("m"), Some(3));
    assert_eq!(graph.producer("x"), None);
    assert_eq!(graph.consumers("m"), [Use { node: 4, input: 0 }, Use { node: 4, input: 1 }]);
    assert_eq!(graph.consumers("w"), [Use { node: 2, input: 0 }, Use { node: 5, input: 2 }]);
    assert_eq!(graph.consumers(""), []);
    assert_eq!(*graph.constant("also").unwrap().to_f32().unwrap(), [2.0]);
    assert_eq!(graph.constant("w_too").unwrap().name, "w");
    assert!(graph.constant("m").is_none() && graph.initializer("two").is_none());
    // `w` is listed as an input, but has a value: nobody feeds it.
    let inputs: Vec<_> = graph.inputs().into_iter().map(|i| i.name).collect();
    assert_eq!(inputs, ["x"]);
    assert!(graph.is_output("y") && !graph.is_output("s") && graph.is_input("w"));
    assert_eq!(node_label(&graph.nodes()[3], 3), "Mul(m)");
}

#[test]
fn attributes_left_out_by_proto3_writers_are_zero() {
    let bare = |kind: AttributeProto| AttributeProto { i: None, f: None, ..kind };
    let odd = node(
        "Odd",
        "",
        &[],
        &[],
        vec![
            bare(attr_int("i", 5)),
            bare(attr_float("f", 5.0)),
            attr_string("s", "text"),
            attr_ints("l", &[]),
        ],
    );
    assert_eq!(
        (attr_i(&odd, "i"), attr_f(&odd, "f"), attr_s(&odd, "s")),
        (Some(0), Some(0.0), Some("text"))
    );
    assert_eq!(
        (attr_i(&odd, "s"), attr_i(&odd, "none"), ints_of(&odd, "l")),
        (None, None, Some(&[][..]))
    );
}

/// Operator, input types, weights, attributes, output types.
type TypeCase =
    (&'static str, Vec<ElementType>, Vec<TensorProto>, Vec<AttributeProto>, Vec<ElementType>);

#[test]
fn element_types_follow_from_operators() {
    let zero_point = tensor_i8("zp", &[], &[0]);
    let scale = tensor_raw("scale", F16, vec![], vec![0, 60]);
    let cases: Vec<TypeCase> = vec![
        ("Add", vec![F16, F16], vec![], vec![], vec![F16]),
        ("Shape", vec![F32], vec![], vec![], vec![I64]),
        ("Cast", vec![I64], vec![], vec![attr_int("to", 16)], vec![Bf16]),
        ("CastLike", vec![I64, F16], vec![], vec![], vec![F16]),
        ("Where", vec![Bool, F64, F64], vec![], vec![], vec![F64]),
        ("Equal", vec![I64, I64], vec![], vec![], vec![Bool]),
        ("Gather", vec![F16, I64], vec![], vec![], vec![F16]),
        ("ArgMax", vec![F32], vec![], vec![], vec![I64]),
        ("OneHot", vec![I64, I64, F16], vec![], vec![], vec![F16]),
        ("ConstantOfShape", vec![I64], vec![], vec![], vec![F32]),
        (
            "ConstantOfShape",
            vec![I64],
            vec![],
            vec![attr_tensor("value", tensor_i64("", &[1], &[1]))],
            vec![I64],
        ),
        ("QuantizeLinear", vec![F32], vec![scale.clone(), zero_point.clone()], vec![], vec![I8]),
        ("QuantizeLinear", vec![F32], vec![scale.clone()], vec![], vec![U8]),
        (
            "QuantizeLinear",
            vec![F32],
            vec![scale.clone()],
            vec![attr_int("output_dtype", 3)],
            vec![I8],
        ),
        ("DequantizeLinear", vec![I8], vec![scale, zero_point], vec![], vec![F16]),
        ("DynamicQuantizeLinear", vec![F32], vec![], vec![], vec![U8, F32, U8]),
        ("MatMulInteger", vec![U8, I8], vec![], vec![], vec![I32]),
        ("TopK", vec![F16, I64], vec![], vec![], vec![F16, I64]),
        ("Dropout", vec![F16], vec![], vec![], vec![F16, Bool]),
        ("LayerNormalization", vec![F16, F16], vec![], vec![], vec![F16, F32, F32]),
        ("Split", vec![I32], vec![], vec![], vec![I32, I32]),
        ("EyeLike", vec![I32], vec![], vec![attr_int("dtype", 7)], vec![I64]),
        ("IsNaN", vec![F32], vec![], vec![], vec![Bool]),
    ];
    for (operator, inputs, weights, attributes, expected) in cases {
        let inputs: Vec<_> = inputs.into_iter().map(|t| (t, "n")).collect();
        let model = one(operator, &inputs, &weights, attributes, expected.len());
        let graph = model.graph();
        let found: Vec<_> =
            (0..expected.len()).map(|i| graph.element_type(&format!("y{i}")).unwrap()).collect();
        assert_eq!(found, expected, "{operator}");
    }
}

#[test]
fn element_types_cross_subgraphs() {
    let body = |value: &str| {
        graph(
            vec![],
            vec![ValueInfoProto {
                name: Some(format!("{value}_out")),
                ..ValueInfoProto::default()
            }],
            vec![node("Relu", "", &["x"], &[&format!("{value}_out")], vec![])],
            vec![],
        )
    };
    let choose = node(
        "If",
        "",
        &["c"],
        &["y"],
        vec![attr_graph("then_branch", body("t")), attr_graph("else_branch", body("e"))],
    );
    // A loop over f16 state whose body leaves the types to the outside, and collects a cast of it.
    let nameless =
        |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
    let loop_nodes = vec![
        node("Identity", "", &["go"], &["go_on"], vec![]),
        node("Neg", "", &["state"], &["next"], vec![]),
        node("Cast", "", &["state"], &["scan"], vec![attr_int("to", 1)]),
    ];
    let loop_body = graph(
        vec![nameless("i"), nameless("go"), nameless("state")],
        vec![nameless("go_on"), nameless("next"), nameless("scan")],
        loop_nodes,
        vec![],
    );
    let looped =
        node("Loop", "", &["", "c", "x"], &["last", "all"], vec![attr_graph("body", loop_body)]);
    let model =
        of(vec![shaped("x", F16, "n"), shaped("c", Bool, "")], vec![choose, looped], vec![]);
    let graph = model.graph();
    for (tensor, expected) in [
        ("y", F16),
        ("t_out", F16),
        ("last", F16),
        ("all", F32),
        ("next", F16),
        ("i", I64),
        ("go", Bool),
    ] {
        assert_eq!(graph.element_type(tensor), Some(expected), "{tensor}");
    }
}

#[test]
fn unknown_operators_have_the_type_that_is_stated() {
    let custom = NodeProto {
        domain: Some("com.example".into()),
        ..node("Magic", "", &["x"], &["y", "z"], vec![])
    };
    let mut proto: ModelProto =
        of(vec![shaped("x", F32, "n")], vec![custom], vec![]).proto().clone();
    proto.graph.as_mut().unwrap().value_info = vec![shaped("y", F16, "2 n")];
    let model = Model::from_proto(proto).unwrap();
    assert_eq!(model.graph().element_type("y"), Some(F16));
    assert_eq!(model.graph().element_type("z"), None);
    assert_eq!(shape_text(&model, "y"), "2 n");
}

/// Operator, input shapes, weights, attributes, shape of the first output.
type ShapeCase =
    (&'static str, Vec<&'static str>, Vec<TensorProto>, Vec<AttributeProto>, &'static str);

#[test]
fn shapes_follow_from_operators() {
    let axes = |list: &[i64]| vec![attr_ints("axes", list)];
    let list = |name: &str, values: &[i64]| tensor_i64(name, &[values.len() as i64], values);
    let w = |dims: &[i64]| tensor_f32("w", dims, &vec![0.0; dims.iter().product::<i64>() as usize]);
    let cases: Vec<ShapeCase> = vec![
        ("Relu", vec!["n 3"], vec![], vec![], "n 3"),
        ("Add", vec!["n 1 4", "3 1"], vec![], vec![], "n 3 4"),
        ("Add", vec!["n", "m"], vec![], vec![], "?"),
        ("Add", vec!["n", "5"], vec![], vec![], "5"),
        ("Add", vec!["2", "3"], vec![], vec![], "unknown"),
        ("MatMul", vec!["b s 64"], vec![w(&[64, 128])], vec![], "b s 128"),
        ("MatMul", vec!["b 4 s 16", "b 4 16 s"], vec![], vec![], "b 4 s s"),
        ("Gemm", vec!["b 8"], vec![w(&[2, 8])], vec![attr_int("transB", 1)], "b 2"),
        ("Transpose", vec!["b s 4 16"], vec![], vec![attr_ints("perm", &[0, 2, 3, 1])], "b 4 16 s"),
        ("Transpose", vec!["a b"], vec![], vec![], "b a"),
        ("Reshape", vec!["b s 64"], vec![list("to", &[0, 0, 4, 16])], vec![], "b s 4 16"),
        ("Reshape", vec!["b s 64"], vec![list("to", &[0, -1, 64])], vec![], "b s 64"),
        ("Reshape", vec!["2 6"], vec![list("to", &[-1, 4])], vec![], "3 4"),
        ("Reshape", vec!["b s 64"], vec![list("to", &[-1, 64])], vec![], "? 64"),
        ("Gather", vec!["200 64", "b s"], vec![], vec![], "b s 64"),
        (
            "Gather",
            vec!["b s 64"],
            vec![tensor_i64("at", &[], &[0])],
            vec![attr_int("axis", 1)],
            "b 64",
        ),
        ("Unsqueeze", vec!["b s"], vec![], axes(&[1, 2]), "b 1 1 s"),
        ("Unsqueeze", vec!["b s"], vec![list("axes", &[-1])], vec![], "b s 1"),
        ("Squeeze", vec!["b 1 s"], vec![list("axes", &[1])], vec![], "b s"),
        ("Squeeze", vec!["2 1 1"], vec![], vec![], "2"),
        ("Concat", vec!["b 2", "b 3"], vec![], vec![attr_int("axis", -1)], "b 5"),
        ("Concat", vec!["b s", "b 3"], vec![], vec![attr_int("axis", 1)], "b ?"),
        (
            "Slice",
            vec!["10 s"],
            vec![list("from", &[2]), list("to", &[-3]), list("axes", &[0])],
            vec![],
            "5 s",
        ),
        (
            "Slice",
            vec!["10"],
            vec![
                list("from", &[0]),
                list("to", &[i64::MAX]),
                list("axes", &[0]),
                list("step", &[2]),
            ],
            vec![],
            "?",
        ),
        ("ReduceMean", vec!["b s 64"], vec![], axes(&[-1]), "b s 1"),
        (
            "ReduceSum",
            vec!["b s 64"],
            vec![list("axes", &[1])],
            vec![attr_int("keepdims", 0)],
            "b 64",
        ),
        ("ReduceMax", vec!["b s"], vec![], vec![attr_int("keepdims", 0)], ""),
        (
            "ArgMax",
            vec!["b s 9"],
            vec![],
            vec![attr_int("axis", -1), attr_int("keepdims", 0)],
            "b s",
        ),
        ("Split", vec!["b 6"], vec![list("parts", &[2, 4])], vec![attr_int("axis", 1)], "b 2"),
        ("Split", vec!["b 6"], vec![], vec![attr_int("axis", 1)], "b 6"),
        ("Shape", vec!["b s 64"], vec![], vec![], "3"),
        ("Expand", vec!["b 1"], vec![list("to", &[1, 7])], vec![], "b 7"),
        ("ConstantOfShape", vec![], vec![list("to", &[2, 3])], vec![], "2 3"),
        ("Relu", vec!["-1 2"], vec![], vec![], "? 2"),
        ("Transpose", vec!["a b"], vec![], vec![attr_ints("perm", &[7, -1])], "? ?"),
        ("Gather", vec!["3", "b"], vec![], vec![attr_int("axis", 9)], "unknown"),
        ("Unsqueeze", vec!["b"], vec![list("axes", &[i64::MIN])], vec![], "unknown"),
    ];
    for (operator, inputs, weights, attributes, expected) in cases {
        let typed: Vec<_> = inputs.iter().map(|s| (F32, *s)).collect();
        let model = one(operator, &typed, &weights, attributes, 1);
        assert_eq!(shape_text(&model, "y0"), expected, "{operator} {inputs:?}");
    }
}

#[test]
fn shapes_follow_through_the_arithmetic_of_exporters() {
    // Shape → Gather → Unsqueeze → Concat → Reshape, as torch writes `x.view(x.shape[0], x.shape[1], 4, 16)`.
    let index = |name: &str, at: i64| {
        node("Constant", "", &[], &[name], vec![attr_tensor("value", tensor_i64("", &[], &[at]))])
    };
    let nodes = vec![
        node("Shape", "", &["x"], &["shape"], vec![]),
        index("zero", 0),
        index("one", 1),
        node("Gather", "", &["shape", "zero"], &["batch"], vec![]),
        node("Gather", "", &["shape", "one"], &["length"], vec![]),
        node("Unsqueeze", "", &["batch"], &["batch1"], vec![attr_ints("axes", &[0])]),
        node("Unsqueeze", "", &["length"], &["length1"], vec![attr_ints("axes", &[0])]),
        node("Concat", "", &["batch1", "length1", "heads"], &["target"], vec![attr_int("axis", 0)]),
        node("Reshape", "", &["x", "target"], &["y"], vec![]),
        node("Slice", "", &["target", "from", "to"], &["tail"], vec![]),
        node("ConstantOfShape", "", &["tail"], &["ones"], vec![]),
    ];
    let weights = vec![
        tensor_i64("heads", &[2], &[4, 16]),
        tensor_i64("from", &[1], &[1]),
        tensor_i64("to", &[1], &[-1]),
    ];
    let model = of(vec![shaped("x", F32, "batch sequence 64")], nodes, weights);
    assert_eq!(shape_text(&model, "y"), "batch sequence 4 16");
    assert_eq!(shape_text(&model, "ones"), "sequence 4");
}

#[test]
fn branches_give_the_shape_they_agree_on() {
    let branch = |permutation: &[i64], out: &str| {
        let turn = node("Transpose", "", &["x"], &[out], vec![attr_ints("perm", permutation)]);
        graph(
            vec![],
            vec![ValueInfoProto { name: Some(out.into()), ..ValueInfoProto::default() }],
            vec![turn],
            vec![],
        )
    };
    let branches = vec![
        attr_graph("then_branch", branch(&[0, 2, 1], "t")),
        attr_graph("else_branch", branch(&[0, 1, 2], "e")),
    ];
    let choose = node("If", "", &["c"], &["y"], branches);
    let model = of(vec![shaped("x", F32, "b 4 s"), shaped("c", Bool, "")], vec![choose], vec![]);
    assert_eq!(shape_text(&model, "y"), "b ? ?");
}

#[test]
fn ranks_do_not_explode() {
    let gathers = (0..60)
        .map(|i| {
            node(
                "Gather",
                "",
                &[&format!("t{i}"), &format!("t{i}")],
                &[&format!("t{}", i + 1)],
                vec![],
            )
        })
        .collect();
    let model = of(vec![shaped("t0", I64, "2 2")], gathers, vec![]);
    // 2, 3, 5, 9, 17, 33 axes, then too many to be true.
    assert_eq!(model.graph().shape("t5").unwrap().len(), 33);
    assert_eq!(model.graph().shape("t6"), None);
}
