//! Layer normalization in every form that exporters write, and in forms that are nearly one.

mod common;

use common::patterns::{Variant, WIDTH, model_of, op, reduce, replaced, weights, with};
use common::{canonical, count, spread, unchanged};
use trtforge_onnx::build::{
    attr_graph, attr_int, attr_ints, attr_tensor, graph, node, tensor_f32, value,
};
use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{Dim, ElementType, attr_f};
use trtforge_quantize::{CanonicalOptions, RewriteKind};

/// `x − mean`, squared, averaged, plus epsilon: `d` and `ve`.
fn statistics() -> Vec<NodeProto> {
    vec![
        reduce("x", "mean"),
        op("Sub", &["x", "mean"], "d"),
        op("Pow", &["d", "two"], "sq"),
        reduce("sq", "var"),
        op("Add", &["var", "eps"], "ve"),
    ]
}

fn pytorch() -> Vec<NodeProto> {
    with(
        statistics(),
        &[
            ("Sqrt", &["ve"], "std"),
            ("Div", &["d", "std"], "n"),
            ("Mul", &["n", "gain"], "scaled"),
            ("Add", &["scaled", "shift"], "y"),
        ],
    )
}

fn normalizations() -> Vec<Variant> {
    [divided(), multiplied(), incomplete()].concat()
}

fn divided() -> Vec<Variant> {
    let axes_input =
        |input: &str, output: &str| node("ReduceMean", "", &[input, "last"], &[output], vec![]);
    let positive = |input: &str, output: &str| {
        node(
            "ReduceMean",
            "",
            &[input],
            &[output],
            vec![attr_ints("axes", &[1]), attr_int("keepdims", 1)],
        )
    };
    let cast =
        |input: &str, output: &str| node("Cast", "", &[input], &[output], vec![attr_int("to", 1)]);
    let mut casts = statistics();
    casts.insert(2, cast("d", "d32"));
    let casts = replaced(casts, op("Pow", &["d32", "two"], "sq"));
    vec![
        ("PyTorch", 13, pytorch()),
        ("opset 11", 11, pytorch()),
        (
            "opset 21",
            21,
            replaced(replaced(pytorch(), axes_input("x", "mean")), axes_input("sq", "var")),
        ),
        (
            "axis by its number",
            13,
            replaced(replaced(pytorch(), positive("x", "mean")), positive("sq", "var")),
        ),
        ("square by Mul", 13, replaced(pytorch(), op("Mul", &["d", "d"], "sq"))),
        ("operands the other way", 13, {
            let nodes = replaced(pytorch(), op("Add", &["eps", "var"], "ve"));
            let nodes = replaced(nodes, op("Mul", &["gain", "n"], "scaled"));
            replaced(nodes, op("Add", &["shift", "scaled"], "y"))
        }),
        ("the difference twice", 13, {
            let mut nodes = pytorch();
            nodes.insert(2, op("Sub", &["x", "mean"], "d2"));
            replaced(nodes, op("Div", &["d2", "std"], "n"))
        }),
        ("root by Pow", 13, replaced(pytorch(), op("Pow", &["ve", "half"], "std"))),
        (
            "a cast that changes nothing",
            13,
            with(
                casts,
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Div", &["d", "std"], "n"),
                    ("Mul", &["n", "gain"], "scaled"),
                    ("Add", &["scaled", "shift"], "y"),
                ],
            ),
        ),
    ]
}

fn multiplied() -> Vec<Variant> {
    vec![
        (
            "reciprocal",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Reciprocal", &["std"], "r"),
                    ("Mul", &["d", "r"], "n"),
                    ("Mul", &["n", "gain"], "scaled"),
                    ("Add", &["scaled", "shift"], "y"),
                ],
            ),
        ),
        (
            "one over the root",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Div", &["one", "std"], "r"),
                    ("Mul", &["r", "d"], "n"),
                    ("Mul", &["n", "gain"], "scaled"),
                    ("Add", &["scaled", "shift"], "y"),
                ],
            ),
        ),
        (
            "Pow by −½",
            13,
            with(
                statistics(),
                &[
                    ("Pow", &["ve", "minus_half"], "r"),
                    ("Mul", &["d", "r"], "n"),
                    ("Mul", &["n", "gain"], "scaled"),
                    ("Add", &["scaled", "shift"], "y"),
                ],
            ),
        ),
        (
            "TensorFlow",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Reciprocal", &["std"], "r"),
                    ("Mul", &["r", "gain"], "s"),
                    ("Mul", &["x", "s"], "a"),
                    ("Mul", &["mean", "s"], "b"),
                    ("Sub", &["shift", "b"], "c"),
                    ("Add", &["a", "c"], "y"),
                ],
            ),
        ),
        (
            "TensorFlow without shift",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Reciprocal", &["std"], "r"),
                    ("Mul", &["r", "gain"], "s"),
                    ("Mul", &["x", "s"], "a"),
                    ("Mul", &["mean", "s"], "b"),
                    ("Neg", &["b"], "c"),
                    ("Add", &["c", "a"], "y"),
                ],
            ),
        ),
    ]
}

fn incomplete() -> Vec<Variant> {
    vec![
        (
            "TensorFlow without gain and shift",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Reciprocal", &["std"], "r"),
                    ("Mul", &["x", "r"], "a"),
                    ("Mul", &["mean", "r"], "b"),
                    ("Sub", &["a", "b"], "y"),
                ],
            ),
        ),
        (
            "no shift",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Div", &["d", "std"], "n"),
                    ("Mul", &["n", "gain"], "y"),
                ],
            ),
        ),
        (
            "no gain",
            13,
            with(
                statistics(),
                &[
                    ("Sqrt", &["ve"], "std"),
                    ("Div", &["d", "std"], "n"),
                    ("Add", &["n", "shift"], "y"),
                ],
            ),
        ),
        (
            "neither",
            13,
            with(statistics(), &[("Sqrt", &["ve"], "std"), ("Div", &["d", "std"], "y")]),
        ),
    ]
}

#[test]
fn every_written_out_layer_normalization_becomes_the_operator() {
    for (name, opset, nodes) in normalizations() {
        let model = model_of(opset, &["y"], nodes, weights());
        let canonical = canonical(&model, name);
        assert_eq!(count(&canonical.model, "LayerNormalization"), 1, "{name}: {canonical:?}");
        assert_eq!(canonical.model.graph_proto().node.len(), 1, "{name}");
        assert_eq!(canonical.near_misses, [], "{name}");
        assert_eq!(canonical.model.opset(), opset.max(17), "{name}");
        let fused = &canonical.model.graph_proto().node[0];
        assert_eq!(attr_f(fused, "epsilon"), Some(1e-5), "{name}");
        let kinds: Vec<_> = canonical.counts().into_keys().collect();
        assert!(kinds.contains(&RewriteKind::LayerNormalizationFused), "{name}: {kinds:?}");
    }
}

#[test]
fn half_precision_normalizations_keep_their_type() {
    let cast = |input: &str, output: &str, to: i64| {
        node("Cast", "", &[input], &[output], vec![attr_int("to", to)])
    };
    let half = |name: &str, values: &[f32]| {
        let bytes: Vec<u8> =
            values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
        trtforge_onnx::build::tensor_raw(name, ElementType::F16, vec![values.len() as i64], bytes)
    };
    let mut nodes = vec![cast("x", "x16", 10), cast("x16", "x32", 1)];
    nodes.extend(statistics().into_iter().map(|mut node| {
        node.input.iter_mut().filter(|input| *input == "x").for_each(|input| *input = "x32".into());
        node
    }));
    nodes.extend([
        op("Sqrt", &["ve"], "std"),
        op("Div", &["d", "std"], "n"),
        cast("n", "n16", 10),
        op("Mul", &["n16", "gain16"], "scaled"),
        op("Add", &["scaled", "shift16"], "y16"),
        cast("y16", "y", 1),
    ]);
    let mut weights = weights();
    weights.extend([half("gain16", &spread(WIDTH, 1.5)), half("shift16", &spread(WIDTH, 0.5))]);
    let canonical = canonical(&model_of(13, &["y"], nodes, weights), "fp16");
    let operators: Vec<_> =
        canonical.model.graph_proto().node.iter().map(NodeProto::op_type).collect();
    assert_eq!(operators, ["Cast", "LayerNormalization", "Cast"]);
    assert_eq!(canonical.model.graph().element_type("y16"), Some(ElementType::F16));
}

/// One thing broken in each, and a word of the reason that must name it.
fn broken_normalizations() -> Vec<(&'static str, &'static [&'static str], Vec<NodeProto>)> {
    let over = |output: &str, input: &str, attributes| {
        node("ReduceMean", output, &[input], &[output], attributes)
    };
    let y: &[&str] = &["y"];
    vec![
        (
            "exponent of the deviation is 3",
            y,
            replaced(pytorch(), op("Pow", &["d", "three"], "sq")),
        ),
        (
            "averages over the axes [0]",
            y,
            replaced(pytorch(), over("var", "sq", vec![attr_ints("axes", &[0])])),
        ),
        (
            "averages over the axes [0, 1]",
            y,
            replaced(pytorch(), over("mean", "x", vec![attr_ints("axes", &[0, 1])])),
        ),
        ("or over all", y, replaced(pytorch(), over("mean", "x", vec![]))),
        ("is not its mean", y, replaced(pytorch(), reduce("gain", "mean"))),
        (
            "no difference from a mean",
            y,
            replaced(
                replaced(pytorch(), op("Pow", &["x", "two"], "sq")),
                op("Div", &["x", "std"], "n"),
            ),
        ),
        ("no epsilon", y, replaced(pytorch(), op("Sqrt", &["var"], "std"))),
        ("expected one number", y, replaced(pytorch(), op("Add", &["var", "minus_half"], "ve"))),
        ("expected one number", y, replaced(pytorch(), op("Add", &["var", "gain"], "ve"))),
        (
            "summed",
            y,
            replaced(pytorch(), {
                let mut node = over("var", "sq", vec![attr_ints("axes", &[-1])]);
                node.op_type = Some("ReduceSum".into());
                node
            }),
        ),
        ("not the deviation", y, replaced(pytorch(), op("Div", &["x", "std"], "n"))),
        ("divides nothing", y, replaced(pytorch(), op("Mul", &["d", "std"], "n"))),
        ("`n` is an output of the model", &["y", "n"], pytorch()),
        ("`std` is an output of the model", &["y", "std"], pytorch()),
        ("`mean` is an output of the model", &["y", "mean"], pytorch()),
        (
            "`d`, inside of it, is read by `/norm/z`",
            &["y", "z"],
            with(pytorch(), &[("Neg", &["d"], "z")]),
        ),
        ("2 nodes read `scaled`", &["y", "z"], with(pytorch(), &[("Neg", &["scaled"], "z")])),
        ("2 nodes read `std`", &["y", "z"], with(pytorch(), &[("Neg", &["std"], "z")])),
    ]
}

#[test]
fn nearly_a_layer_normalization_stays_and_says_why() {
    for (reason, outputs, nodes) in broken_normalizations() {
        let opset = if reason == "summed" { 12 } else { 13 };
        let model = model_of(opset, outputs, nodes, weights());
        let canonical = unchanged(&model, reason);
        let reasons: Vec<_> = canonical.near_misses.iter().map(|miss| &miss.reason).collect();
        assert!(reasons.iter().any(|found| found.contains(reason)), "{reason}: {reasons:?}");
        assert!(canonical.near_misses.iter().all(|miss| !miss.nodes.is_empty()), "{reason}");
    }
}

#[test]
fn an_operator_set_that_cannot_be_raised_is_a_near_miss() {
    let resize = node(
        "Resize",
        "resize",
        &["x", "none", "scales"],
        &["resized"],
        vec![attr_int("unused", 0)],
    );
    let mut weights = weights();
    weights.extend([tensor_f32("none", &[0], &[]), tensor_f32("scales", &[2], &[1.0, 1.0])]);
    let mut nodes = pytorch();
    nodes.push(resize);
    let model = model_of(11, &["y", "resized"], nodes, weights);
    let canonical = trtforge_quantize::canonicalize(&model, &CanonicalOptions::default()).unwrap();
    assert_eq!(count(&canonical.model, "LayerNormalization"), 0);
    let reason = &canonical.near_misses[0].reason;
    assert!(reason.contains("LayerNormalization needs operator set 17"), "{reason}");
    assert!(reason.contains("Resize"), "{reason}");
    assert_eq!(canonical.model.opset(), 11);
}

#[test]
fn the_last_name_stays_and_the_inner_ones_go() {
    let canonical = canonical(&model_of(13, &["y"], pytorch(), weights()), "names");
    let node = &canonical.model.graph_proto().node[0];
    assert_eq!((node.name(), &node.output[..]), ("/norm/y", &["y".to_owned()][..]));
    assert_eq!(node.input, ["x", "gain", "shift"]);
    let fused = canonical.rewrites.iter().find(|r| r.kind == RewriteKind::LayerNormalizationFused);
    let fused = fused.unwrap();
    assert_eq!((fused.nodes.len(), fused.tensor.as_str()), (9, "y"));
    assert!(fused.reason.contains("gain `gain`, shift `shift`"), "{}", fused.reason);
}

#[test]
fn a_subgraph_that_reads_inside_keeps_the_pattern() {
    let out = || vec![value("branch", ElementType::F32, &[const { Dim::Unknown }; 2])];
    let body = |input: &str| {
        graph(vec![], out(), vec![node("Neg", "", &[input], &["branch"], vec![])], vec![])
    };
    let mut nodes = pytorch();
    let condition = attr_tensor(
        "value",
        trtforge_onnx::build::tensor_raw("", ElementType::Bool, vec![], vec![1]),
    );
    nodes.push(node("Constant", "", &[], &["flag"], vec![condition]));
    let branches = vec![attr_graph("then_branch", body("d")), attr_graph("else_branch", body("x"))];
    let mut other = node("If", "", &["flag"], &["z"], branches);
    if let Some(graph) = &mut other.attribute[1].g {
        graph.node[0].output[0] = "other".into();
        graph.output[0].name = Some("other".into());
    }
    nodes.push(other);
    let model = model_of(13, &["y", "z"], nodes, weights());
    let canonical = trtforge_quantize::canonicalize(&model, &CanonicalOptions::default()).unwrap();
    assert_eq!(count(&canonical.model, "LayerNormalization"), 0);
    assert!(canonical.near_misses[0].reason.contains("a subgraph reads `d`"), "{canonical:?}");
}
