//! Constants, nodes that pass tensors on, dead nodes, and what patterns of `quantize.skip` still mean after them.

mod common;

use common::patterns::{op, weights, with};
use common::{canonical, canonical_of, count, outputs_of, same_interface, spread};
use proptest::prelude::*;
use trtforge_onnx::build::{
    attr_float, attr_int, attr_ints, attr_tensor, graph, model, node, tensor_f32, tensor_i64, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};
use trtforge_quantize::{
    Action, HalfOptions, Level, Policy, RewriteKind, Scales, quantize_with, smooth, smoothable,
    survey, to_half,
};

fn model_of(outputs: &[&str], nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> Model {
    common::patterns::model_of(13, outputs, nodes, weights)
}

fn matrix(name: &str) -> TensorProto {
    tensor_f32(name, &[16, 16], &spread(256, 0.3))
}

fn transpose(input: &str, output: &str) -> NodeProto {
    node("Transpose", output, &[input], &[output], vec![attr_ints("perm", &[1, 0])])
}

fn operators(model: &Model) -> Vec<&str> {
    model.graph_proto().node.iter().map(NodeProto::op_type).collect()
}

#[test]
fn weights_behind_transposes_and_identities_are_the_weights() {
    for nodes in [
        vec![transpose("w", "t"), op("MatMul", &["x", "t"], "y")],
        vec![op("Identity", &["w"], "i"), op("MatMul", &["x", "i"], "y")],
        vec![op("Identity", &["w"], "i"), transpose("i", "t"), op("MatMul", &["x", "t"], "y")],
        // One weight behind two equal Transposes is one weight.
        vec![
            transpose("w", "t"),
            transpose("w", "t2"),
            op("MatMul", &["x", "t"], "h"),
            op("MatMul", &["h", "t2"], "y"),
        ],
    ] {
        let canonical = canonical(&model_of(&["y"], nodes, vec![matrix("w")]), "weights");
        assert!(operators(&canonical.model).iter().all(|op| *op == "MatMul"), "{canonical:?}");
        let initializers: Vec<&str> =
            canonical.model.graph_proto().initializer.iter().map(TensorProto::name).collect();
        assert_eq!(initializers, ["w"]);
        let gemms = survey(&canonical.model).unwrap().gemms;
        assert!(gemms.iter().all(|gemm| gemm.weight == "w" && !gemm.transposed));
    }
}

#[test]
fn a_large_weight_that_is_read_both_ways_round_is_stored_once() {
    let large = tensor_f32("tied", &[2048, 16], &spread(2048 * 16, 0.3));
    let nodes = vec![
        node("ArgMax", "ids", &["x"], &["ids"], vec![attr_int("axis", 1), attr_int("keepdims", 0)]),
        node("Gather", "embedding", &["tied", "ids"], &["e"], vec![attr_int("axis", 0)]),
        transpose("tied", "t"),
        op("MatMul", &["e", "t"], "y"),
    ];
    let canonical = canonical(&model_of(&["y"], nodes, vec![large]), "tied");
    assert_eq!(count(&canonical.model, "Transpose"), 1);
    let miss = &canonical.near_misses[0];
    assert_eq!(miss.nodes, ["t"]);
    assert!(miss.reason.contains("`tied` is read elsewhere too"), "{}", miss.reason);
    assert!(survey(&canonical.model).unwrap().gemms[0].transposed, "still one weight for INT8");
}

#[test]
fn folding_never_multiplies_a_model() {
    let shape = tensor_i64("shape", &[2], &[1 << 20, 16]);
    let fill = attr_tensor("value", tensor_f32("", &[1], &[2.0]));
    for (name, nodes) in [
        ("Expand", vec![op("Expand", &["row", "shape"], "big")]),
        ("ConstantOfShape", vec![node("ConstantOfShape", "big", &["shape"], &["big"], vec![fill])]),
        ("Tile", vec![op("Tile", &["row", "shape"], "big")]),
        (
            "Range",
            vec![
                op("Range", &["zero", "many", "one_step"], "r"),
                node("Cast", "", &["r"], &["big"], vec![attr_int("to", 1)]),
            ],
        ),
    ] {
        let mut nodes = nodes;
        nodes.push(node("ReduceMax", "top", &["big"], &["m"], vec![attr_int("keepdims", 0)]));
        nodes.push(op("Add", &["x", "m"], "y"));
        let weights = vec![
            shape.clone(),
            tensor_f32("row", &[1, 1], &[1.0]),
            tensor_i64("zero", &[], &[0]),
            tensor_i64("many", &[], &[1 << 24]),
            tensor_i64("one_step", &[], &[1]),
        ];
        let model = model_of(&["y"], nodes, weights);
        let canonical = canonical_of(&model);
        assert_eq!(count(&canonical.model, name), 1, "{name}");
        let reason = &canonical.near_misses[0].reason;
        assert!(reason.contains("it would enlarge the model"), "{name}: {reason}");
    }
}

#[test]
fn many_small_constants_do_not_add_up_to_a_large_model() {
    let nodes: Vec<NodeProto> = (0..200)
        .flat_map(|n| {
            let (big, out) = (format!("big{n}"), format!("a{n}"));
            let input = if n == 0 { "x".to_owned() } else { format!("a{}", n - 1) };
            let scalar = format!("k{n}");
            [
                node("Constant", "", &[], &[&scalar], vec![attr_float("value_float", n as f32)]),
                op("Expand", &[&scalar, "shape"], &big),
                node("ReduceMax", "", &[&big], &[&format!("m{n}")], vec![attr_int("keepdims", 0)]),
                op("Add", &[&input, &format!("m{n}")], &out),
            ]
        })
        .collect();
    let weights = vec![tensor_i64("shape", &[2], &[1000, 16])];
    let model = model_of(&["a199"], nodes, weights);
    let canonical = canonical_of(&model);
    let bytes: usize =
        canonical.model.graph().initializers().map(|tensor| tensor.bytes().len()).sum();
    assert!(bytes < 5 << 20, "{bytes}");
    assert!(count(&canonical.model, "Expand") > 100, "the rest stays");
}

#[test]
fn shape_arithmetic_on_constants_becomes_one_constant() {
    let constant = |name: &str, values: &[i64]| {
        let value = tensor_i64("", &[values.len() as i64], values);
        node("Constant", "", &[], &[name], vec![attr_tensor("value", value)])
    };
    let nodes = vec![
        constant("a", &[2, 8]),
        constant("minus", &[-1]),
        constant("zero", &[0]),
        node("Gather", "", &["a", "zero"], &["two"], vec![attr_int("axis", 0)]),
        op("Mul", &["two", "two"], "four"),
        node("Concat", "", &["minus", "four", "four"], &["shape"], vec![attr_int("axis", 0)]),
        op("Reshape", &["x", "shape"], "r"),
        op("Neg", &["r"], "y"),
    ];
    let shape = [Dim::Named("batch".into()), Dim::Fixed(16)];
    let inputs = vec![value("x", ElementType::F32, &shape)];
    let outputs = vec![value("y", ElementType::F32, &[const { Dim::Unknown }; 3])];
    let model = model(13, graph(inputs, outputs, nodes, vec![])).unwrap();
    let canonical = canonical(&model, "shapes");
    assert_eq!(operators(&canonical.model), ["Reshape", "Neg"]);
    let shape = canonical.model.graph().constant("shape").unwrap();
    assert_eq!(shape.to_i64().unwrap().as_ref(), [-1, 4, 4]);
    let folded = canonical.rewrites.iter().find(|r| r.tensor == "shape").unwrap();
    assert_eq!((folded.kind, folded.nodes.len()), (RewriteKind::ConstantFolded, 6));
}

#[test]
fn what_passes_on_goes_unless_someone_sees_it() {
    let dropout = |training: bool| {
        let flag = trtforge_onnx::build::tensor_raw(
            "on",
            ElementType::Bool,
            vec![],
            vec![u8::from(training)],
        );
        (vec![op("Dropout", &["x", "half", "on"], "d"), op("Neg", &["d"], "y")], flag)
    };
    let (nodes, flag) = dropout(false);
    let mut all = weights();
    all.push(flag);
    let gone = canonical_of(&model_of(&["y"], nodes, all));
    assert_eq!(operators(&gone.model), ["Neg"]);
    let (nodes, flag) = dropout(true);
    let mut all = weights();
    all.push(flag);
    let training = canonical_of(&model_of(&["y"], nodes, all));
    assert_eq!(operators(&training.model), ["Dropout", "Neg"]);
    let nodes =
        vec![op("Neg", &["x"], "n"), op("Identity", &["n"], "y"), op("Identity", &["x"], "z")];
    let shown = canonical(&model_of(&["y", "z"], nodes, vec![]), "outputs");
    assert_eq!(operators(&shown.model), ["Neg", "Identity", "Identity"]);
    let constant = node("Constant", "", &[], &["k"], vec![attr_float("value_float", 3.0)]);
    let constant = canonical(
        &model_of(&["k", "y"], vec![constant, op("Neg", &["x"], "y")], vec![]),
        "constant",
    );
    assert_eq!(operators(&constant.model), ["Constant", "Neg"]);
}

#[test]
fn dead_nodes_and_weights_are_dropped_and_told() {
    let nodes = vec![
        op("Neg", &["x"], "y"),
        op("MatMul", &["x", "unused_weight"], "dead"),
        op("Neg", &["dead"], "deader"),
    ];
    let model = model_of(&["y"], nodes, vec![matrix("unused_weight"), matrix("lonely")]);
    let canonical = canonical(&model, "dead");
    assert_eq!(operators(&canonical.model), ["Neg"]);
    assert_eq!(canonical.model.graph().initializers().count(), 0);
    let dead: Vec<&str> = canonical
        .rewrites
        .iter()
        .filter(|r| r.kind == RewriteKind::DeadRemoved)
        .map(|r| r.nodes.first().map_or(r.tensor.as_str(), String::as_str))
        .collect();
    assert_eq!(dead, ["/norm/dead", "/norm/deader", "lonely"]);
}

#[test]
fn patterns_mean_what_the_original_graph_shows() {
    let nodes = with(
        vec![op("Identity", &["x"], "passed"), transpose("w", "weight_T")],
        &[
            ("MatMul", &["passed", "weight_T"], "h"),
            ("Div", &["h", "sqrt2"], "u"),
            ("Erf", &["u"], "e"),
            ("Add", &["e", "one"], "p"),
            ("Mul", &["h", "p"], "q"),
            ("Mul", &["q", "half"], "g"),
            ("MatMul", &["g", "w2"], "y"),
        ],
    );
    let mut all = weights();
    all.extend([matrix("w"), matrix("w2")]);
    let canonical = canonical(&model_of(&["y"], nodes, all), "patterns");
    let scales = Scales::min_max([("x".to_owned(), 3.0), ("g".to_owned(), 1.0)].into());
    let int8 = |pattern: &str| {
        let policy = Policy { skip: vec![pattern.into()], ..Policy::default() };
        quantize_with(&canonical.model, &scales, &policy)
    };
    // Names that only pass a tensor on, and the Transpose of a weight, still take their product.
    for pattern in ["passed", "/norm/passed", "weight_T", "w", "/norm/h"] {
        let skipped = int8(pattern).unwrap();
        let reasons: Vec<_> =
            skipped.decisions.iter().filter(|d| d.action == Action::Skipped).collect();
        assert_eq!(reasons.len(), 1, "{pattern}");
        assert_eq!((skipped.int8_weights(), reasons[0].tensor.as_str()), (1, "w"), "{pattern}");
    }
    for pattern in ["e", "/norm/q", "*/norm/p"] {
        let told = int8(pattern).unwrap();
        assert_eq!(told.int8_weights(), 2, "{pattern}");
        let warning = told.warnings.iter().find(|w| w.contains("matches nothing that level"));
        let warning = warning.unwrap();
        assert!(warning.contains("is part of the Gelu that makes `g`"), "{warning}");
        assert!(warning.contains("model.canonical"), "{warning}");
    }
    assert!(int8("nowhere").is_err());
}

#[test]
fn readers_of_one_tensor_share_a_pair_whatever_name_they_read() {
    let nodes = vec![
        op("Tanh", &["x"], "t"),
        op("Identity", &["t"], "i"),
        op("MatMul", &["t", "w"], "a"),
        op("MatMul", &["i", "w"], "b"),
        op("Add", &["a", "b"], "y"),
    ];
    let canonical = canonical(&model_of(&["y"], nodes, vec![matrix("w")]), "shared");
    let scales = Scales::min_max([("t".to_owned(), 1.0)].into());
    let int8 = quantize_with(&canonical.model, &scales, &Policy::default()).unwrap();
    assert_eq!(count(&int8.model, "QuantizeLinear"), 1);
    // One for the activation and one for the weight, which is shared too.
    assert_eq!(count(&int8.model, "DequantizeLinear"), 2);
}

/// One choice of how an exporter writes each part.
fn written(norm: usize, gelu: usize, weight: usize, shown: usize) -> Model {
    let mut nodes = vec![op("Neg", &["x"], "n")];
    if norm > 0 {
        let reduce = common::patterns::reduce;
        nodes = vec![
            reduce("x", "mean"),
            op("Sub", &["x", "mean"], "d"),
            op("Pow", &["d", "two"], "sq"),
            reduce("sq", "var"),
            op("Add", &["var", "eps"], "ve"),
            op("Sqrt", &["ve"], "std"),
        ];
        nodes.extend(if norm == 1 {
            vec![op("Div", &["d", "std"], "v")]
        } else {
            vec![op("Reciprocal", &["std"], "r"), op("Mul", &["d", "r"], "v")]
        });
        nodes.extend([op("Mul", &["v", "gain"], "s"), op("Add", &["s", "shift"], "n")]);
    }
    nodes.extend(match weight {
        0 => vec![op("MatMul", &["n", "w"], "h")],
        1 => vec![transpose("w", "t"), op("MatMul", &["n", "t"], "h")],
        2 => vec![op("Identity", &["w"], "t"), op("MatMul", &["n", "t"], "h")],
        _ => vec![op("Identity", &["n"], "t"), op("Gemm", &["t", "w", "shift"], "h")],
    });
    nodes.extend([
        op("Div", &["h", "sqrt2"], "u"),
        op("Erf", &["u"], "e"),
        op("Add", &["e", "one"], "p"),
    ]);
    nodes.extend(if gelu == 0 {
        vec![op("Mul", &["h", "p"], "q"), op("Mul", &["q", "half"], "g")]
    } else {
        vec![op("Mul", &["h", "half"], "q"), op("Mul", &["p", "q"], "g")]
    });
    nodes.push(op("MatMul", &["g", "w"], "y"));
    let inner = ["y", "n", "h", "e", "q", "g", "u"];
    let outputs: Vec<&str> = inner
        .iter()
        .enumerate()
        .filter(|(bit, _)| *bit == 0 || shown >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect();
    let mut all = weights();
    all.push(matrix("w"));
    model_of(&outputs, nodes, all)
}

#[test]
fn a_fused_normalization_takes_the_factors_of_smoothing() {
    let canonical = canonical(&written(1, 0, 0, 0), "smooth").model;
    let policy = Policy::default();
    let channels = (0..16).map(|c| if c == 3 { 50.0 } else { 1.0 }).collect();
    let channels = [("n".to_owned(), channels), ("g".to_owned(), vec![1.0; 16])].into();
    let smoothed = smooth(&canonical, &channels, 0.5, &policy).unwrap();
    let reason = &smoothed.decisions[0].reason;
    assert!(reason.starts_with("folded into gain and shift of `/norm/n`"), "{reason}");
    let rows = spread(32, 2.0);
    assert_eq!(outputs_of(&canonical, &rows), outputs_of(&smoothed.model, &rows));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_rewrite_keeps_what_the_user_sees(
        (norm, gelu, weight) in (0..3_usize, 0..2_usize, 0..4_usize),
        shown in 0..128_usize,
        level in 0..3_usize,
    ) {
        let model = written(norm, gelu, weight, shown);
        let canonical = canonical(&model, "any").model;
        let level = Level::ALL[level];
        let policy = Policy { level, ..Policy::default() };
        let found = survey(&canonical).unwrap();
        let seen = found.observe_at(level).into_iter().chain(found.watch_at(level));
        let absmax: std::collections::BTreeMap<String, f32> = seen.map(|name| (name, 4.0)).collect();
        let half = to_half(&canonical, &absmax, &HalfOptions::default()).unwrap().model;
        let scales = Scales::min_max(absmax);
        let int8 = quantize_with(&canonical, &scales, &policy).unwrap().model;
        let channels = smoothable(&canonical, &policy).unwrap().into_iter();
        let channels = channels.map(|t| (t.tensor, (0..t.channels).map(|c| 1.0 + (c % 5) as f32).collect())).collect();
        let smoothed = smooth(&canonical, &channels, 0.5, &policy).unwrap().model;
        for rewritten in [&half, &int8, &smoothed] {
            same_interface(&model, rewritten, "any");
        }
        let rows = spread(32, 2.0);
        let (a, b) = (outputs_of(&canonical, &rows), outputs_of(&smoothed, &rows));
        prop_assert_eq!(a, b, "smoothing is exact");
    }
}
