//! Attention and residual Adds by hand: what is recognised, what moves onto Q, what stays in FP16, and what is an error.

mod common;

use std::collections::BTreeMap;

use common::{check_written, count, initializer, int8_at, producer, quantized_products};
use half::f16;
use trtforge_onnx::build::{
    attr_int, attr_ints, graph, model, node, tensor_f32, tensor_i64, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};
use trtforge_quantize::{
    Action, Decision, Level, Policy, QuantizeError, Rewritten, SOFTMAX_SCALE, Scales,
    quantize_with, survey,
};

/// What is unusual about an attention.
struct Build {
    /// Values per head, of two heads.
    head: i64,
    /// Number of positions, where the input states it.
    positions: Dim,
    /// Nodes from `product` to `scaled`, and the constants they read.
    scale: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    /// Further outputs of the graph.
    outputs: Vec<&'static str>,
    /// Nodes from `softmax` to `shares`.
    after: Vec<NodeProto>,
}

fn usual() -> Build {
    Build {
        head: 16,
        positions: Dim::Named("positions".into()),
        scale: vec![op("Div", "scale", &["product", "four"], "scaled")],
        constants: vec![tensor_f32("four", &[], &[4.0])],
        outputs: vec![],
        after: vec![op("Identity", "", &["softmax"], "shares")],
    }
}

fn op(op: &str, name: &str, inputs: &[&str], output: &str) -> NodeProto {
    node(op, name, inputs, &[output], vec![])
}

fn weight(name: &str, size: i64) -> TensorProto {
    let values: Vec<f32> = (0..size * size).map(|i| ((i * 7 % 13) as f32 - 6.0) / 40.0).collect();
    tensor_f32(name, &[size, size], &values)
}

/// `y = x + dense(attention(x))`, without masks and biases.
fn attention(build: Build) -> Model {
    let width = 2 * build.head;
    let mut nodes = vec![];
    for (name, permutation) in [("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])] {
        let [product, split] = [format!("{name}_product"), format!("{name}_split")];
        nodes.push(op("MatMul", name, &["x", &format!("w{name}")], &product));
        nodes.push(op("Reshape", "", &[&product, "heads"], &split));
        let perm = vec![attr_ints("perm", &permutation)];
        nodes.push(node("Transpose", "", &[&split], &[name], perm));
    }
    nodes.push(op("MatMul", "scores", &["q", "k"], "product"));
    nodes.extend(build.scale);
    nodes.push(node("Softmax", "softmax", &["scaled"], &["softmax"], vec![attr_int("axis", -1)]));
    nodes.extend(build.after);
    nodes.push(op("MatMul", "context", &["shares", "v"], "mixed"));
    let back = vec![attr_ints("perm", &[0, 2, 1, 3])];
    nodes.push(node("Transpose", "", &["mixed"], &["back"], back));
    nodes.push(op("Reshape", "", &["back", "flat"], "joined"));
    nodes.push(op("MatMul", "dense", &["joined", "wo"], "projected"));
    nodes.push(op("Add", "residual", &["projected", "x"], "y"));
    let mut constants = build.constants;
    constants.push(tensor_i64("heads", &[4], &[0, 0, 2, build.head]));
    constants.push(tensor_i64("flat", &[3], &[0, 0, width]));
    constants.extend(["wq", "wk", "wv", "wo"].map(|name| weight(name, width)));
    let shape = [Dim::Named("batch".into()), build.positions, Dim::Fixed(width)];
    let x = value("x", ElementType::F32, &shape);
    let more = build.outputs.iter().map(|name| value(name, ElementType::F32, &[]));
    let outputs = std::iter::once(value("y", ElementType::F32, &shape)).chain(more).collect();
    model(17, graph(vec![x], outputs, nodes, constants)).unwrap()
}

fn scales() -> BTreeMap<String, f32> {
    let tensors = ["x", "q", "k", "v", "joined", "projected"];
    tensors.iter().map(|name| ((*name).to_owned(), 1.27)).collect()
}

fn rewritten(model: &Model, level: Level) -> Rewritten {
    let int8 = int8_at(model, level, &scales());
    check_written(model, &int8, "small");
    int8
}

fn about<'r>(rewritten: &'r Rewritten, tensor: &str) -> &'r Decision {
    rewritten.decisions.iter().find(|d| d.tensor == tensor).unwrap()
}

fn by_name<'m>(model: &'m Model, name: &str) -> &'m NodeProto {
    model.graph_proto().node.iter().find(|n| n.name() == name).unwrap()
}

/// The QuantizeLinear behind an input of a named node.
fn quantize_before<'m>(model: &'m Model, node: &str, input: usize) -> &'m NodeProto {
    let dequantize = producer(model, &by_name(model, node).input[input]).unwrap();
    assert_eq!(dequantize.op_type(), "DequantizeLinear", "{node}");
    producer(model, &dequantize.input[0]).unwrap()
}

fn scale_of(model: &Model, quantize: &NodeProto) -> f32 {
    initializer(model, &quantize.input[1]).unwrap().to_f32().unwrap()[0]
}

fn is_skipped(rewritten: &Rewritten, words: &str) {
    let reason = &about(rewritten, "softmax").reason;
    assert_eq!(about(rewritten, "softmax").action, Action::Skipped, "{reason}");
    assert!(reason.contains(words), "{reason}");
    assert_eq!(count(&rewritten.model, "QuantizeLinear"), 2, "x and joined alone");
    assert!(rewritten.model.graph_proto().node.iter().any(|n| n.name() == "scale"));
}

#[test]
fn each_level_observes_what_it_needs() {
    let survey = survey(&attention(usual())).unwrap();
    assert_eq!(survey.observe, ["x", "joined"]);
    assert_eq!(survey.observe_at(Level::Gemm), survey.observe);
    // The softmax output is not among them.
    assert_eq!(survey.observe_at(Level::Attention), ["x", "joined", "q", "k", "v"]);
    let all = survey.observe_at(Level::Residual);
    assert_eq!(all, ["x", "joined", "q", "k", "v", "projected"]);
    let watch = survey.watch_at(Level::Residual);
    assert!(watch.iter().all(|name| !all.contains(name)), "{watch:?}");
    assert!(survey.watch.iter().all(|name| watch.contains(name) || all.contains(name)));
}

#[test]
fn both_products_are_int8_and_the_scale_moves_onto_q() {
    let model = attention(usual());
    let int8 = rewritten(&model, Level::Attention);
    assert_eq!(count(&int8.model, "QuantizeLinear"), 2 + 4);
    assert_eq!(count(&int8.model, "Div"), 0);
    // Q times 0.25 has a quarter of Q's scale: 1.27 / 127 / 4.
    let q = quantize_before(&int8.model, "scores", 0);
    assert_eq!(scale_of(&int8.model, q), f16::from_f32(0.0025).to_f32());
    let mul = producer(&int8.model, &q.input[0]).unwrap();
    assert_eq!((mul.op_type(), mul.input[0].as_str()), ("Mul", "q"));
    let factor = initializer(&int8.model, &mul.input[1]).unwrap();
    assert_eq!((factor.element_type, factor.to_f32().unwrap()[0]), (ElementType::F16, 0.25));
    assert_eq!(by_name(&int8.model, "scores").output[0], "scaled", "readers stay as they are");
    for (node, input, tensor, scale) in [
        ("scores", 1, "k", 0.01),
        ("context", 0, "shares", SOFTMAX_SCALE),
        ("context", 1, "v", 0.01),
    ] {
        let quantize = quantize_before(&int8.model, node, input);
        assert_eq!(quantize.input[0], tensor);
        assert_eq!(scale_of(&int8.model, quantize), f16::from_f32(scale).to_f32(), "{tensor}");
    }
    for (tensor, words) in [
        ("q", "Q of `scores`, multiplied by 0.25"),
        ("k", "Kᵀ of `scores`"),
        ("v", "V of `context`"),
        ("shares", "fixed at 1/127"),
        ("shares", "its length is not fixed"),
        ("scaled", "Div by 4 became Mul by 0.25 on Q, exact:"),
        ("product", "as `scaled`"),
    ] {
        let reason = &about(&int8, tensor).reason;
        assert!(reason.contains(words), "{tensor}: {reason}");
    }
    assert_eq!(quantized_products(&int8.model).len(), 4);
}

#[test]
fn a_factor_that_is_no_power_of_two_moves_too() {
    for (op_type, number, factor) in [("Mul", 0.3, 0.3), ("Div", 5.0, 0.2), ("Mul", -0.25, -0.25)] {
        let build = Build {
            scale: vec![op(op_type, "scale", &["product", "number"], "scaled")],
            constants: vec![tensor_f32("number", &[1], &[number])],
            ..usual()
        };
        let int8 = rewritten(&attention(build), Level::Attention);
        let q = quantize_before(&int8.model, "scores", 0);
        let scale = f16::from_f32(0.01 * f32::abs(factor)).to_f32();
        assert_eq!(scale_of(&int8.model, q), scale, "{op_type} {number}");
        let exact = about(&int8, "scaled").reason.contains("exact:");
        assert_eq!(exact, factor == -0.25, "{op_type} {number}");
    }
}

#[test]
fn a_scale_on_q_or_none_is_fine() {
    let unscaled = Build {
        scale: vec![op("Identity", "scale", &["product"], "scaled")],
        constants: vec![],
        ..usual()
    };
    let int8 = rewritten(&attention(unscaled), Level::Attention);
    let q = quantize_before(&int8.model, "scores", 0);
    assert_eq!(q.input[0], "q");
    assert_eq!(about(&int8, "q").reason, "Q of `scores`");
}

#[test]
fn a_scale_that_cannot_move_stays_and_says_why() {
    let computed = vec![
        op("ReduceMax", "", &["x"], "largest"),
        op("Div", "scale", &["product", "largest"], "scaled"),
    ];
    let behind = vec![
        op("Identity", "", &["product"], "same"),
        op("Div", "scale", &["same", "four"], "scaled"),
    ];
    for (scale, outputs, words) in [
        (computed, vec![], "no constant number"),
        (behind, vec![], "other operators"),
        (usual().scale, vec!["product"], "read elsewhere"),
    ] {
        let int8 = rewritten(&attention(Build { scale, outputs, ..usual() }), Level::Attention);
        assert_eq!(count(&int8.model, "Div"), 1, "{words}");
        let q = quantize_before(&int8.model, "scores", 0);
        assert_eq!(q.input[0], "q");
        assert_eq!(scale_of(&int8.model, q), f16::from_f32(0.01).to_f32());
        let reason = &about(&int8, "q").reason;
        assert!(reason.contains(words) && reason.contains("may not fuse"), "{reason}");
    }
}

#[test]
fn heads_too_small_and_sequences_too_long_stay_fp16() {
    let small = attention(Build { head: 8, ..usual() });
    is_skipped(&rewritten(&small, Level::Attention), "heads of 8 values");
    let long = attention(Build { positions: Dim::Fixed(513), ..usual() });
    is_skipped(&rewritten(&long, Level::Attention), "513 positions");
    assert_eq!(survey(&long).unwrap().observe_at(Level::Attention), ["x", "joined"]);
    let fits =
        rewritten(&attention(Build { positions: Dim::Fixed(512), ..usual() }), Level::Attention);
    assert_eq!(count(&fits.model, "QuantizeLinear"), 6);
    assert!(!about(&fits, "shares").reason.contains("length"));
}

#[test]
fn other_products_of_a_softmax_are_not_taken_for_attention() {
    // Two products added up before one Softmax.
    let twice = vec![
        op("MatMul", "", &["q", "k"], "again"),
        op("Add", "scale", &["product", "again"], "scaled"),
    ];
    let int8 = rewritten(&attention(Build { scale: twice, ..usual() }), Level::Attention);
    is_skipped(&int8, "2 products lead to its Softmax");
    // Shares that are no longer between 0 and 1.
    let grown = vec![op("Add", "", &["softmax", "four"], "shares")];
    let int8 = rewritten(&attention(Build { after: grown, ..usual() }), Level::Attention);
    assert_eq!(count(&int8.model, "QuantizeLinear"), 2);
    assert!(int8.warnings.iter().any(|w| w.contains("level `attention` adds nothing")));
}

#[test]
fn shares_that_are_guarded_against_nan_are_still_shares() {
    let after = vec![
        op("IsNaN", "", &["softmax"], "missing"),
        op("Where", "", &["missing", "zero", "softmax"], "shares"),
    ];
    let zero = tensor_f32("zero", &[], &[0.0]);
    let constants = usual().constants.into_iter().chain([zero]).collect();
    let int8 = rewritten(&attention(Build { constants, after, ..usual() }), Level::Attention);
    assert_eq!(count(&int8.model, "QuantizeLinear"), 6);
    let shares = quantize_before(&int8.model, "context", 0);
    assert_eq!(shares.input[0], "shares");
    assert_eq!(scale_of(&int8.model, shares), f16::from_f32(SOFTMAX_SCALE).to_f32());
}

#[test]
fn patterns_take_a_whole_attention_or_add() {
    let model = attention(usual());
    let quantized = |policy: &Policy| {
        let int8 = quantize_with(&model, &Scales::min_max(scales()), policy).unwrap();
        check_written(&model, &int8, "small");
        let adds = int8.decisions.iter().any(|d| d.reason.contains("projection side"));
        (count(&int8.model, "Div") == 0, adds, int8.int8_weights())
    };
    let level = Level::Residual;
    let skip = |pattern: &str| {
        quantized(&Policy { level, skip: vec![pattern.into()], ..Policy::default() })
    };
    let only = |pattern: &str| {
        quantized(&Policy { level, only: vec![pattern.into()], ..Policy::default() })
    };
    for name in ["scores", "context", "softmax", "shares", "v", "scaled"] {
        let (attention, add, weights) = skip(name);
        assert_eq!((attention, add), (false, true), "{name}");
        assert_eq!(weights, if name == "v" { 3 } else { 4 }, "{name}: a node is called v as well");
    }
    for name in ["residual", "y", "projected"] {
        assert!(!skip(name).1, "{name}");
    }
    assert_eq!(skip("dense"), (true, false, 3), "an Add goes with its projection");
    assert_eq!(only("softmax"), (true, false, 0));
    assert_eq!(only("*w?"), (false, false, 4));
    assert_eq!(only("dense"), (false, false, 1), "the Add was not named");
}

#[test]
fn residual_adds_share_what_is_there() {
    let model = attention(usual());
    let int8 = rewritten(&model, Level::Residual);
    assert_eq!(count(&int8.model, "QuantizeLinear"), 2 + 4 + 1);
    assert_eq!(quantize_before(&int8.model, "residual", 0).input[0], "projected");
    let shared = quantize_before(&int8.model, "residual", 1).output[0].clone();
    assert_eq!(quantize_before(&int8.model, "q", 0).output[0], shared);
    let reason = &about(&int8, "x").reason;
    assert_eq!(reason, "one shared pair for 4 readers: `q`, `k`, `v`, `residual`");
    assert_eq!(about(&int8, "projected").reason, "projection side of `residual`");
}

#[test]
fn outliers_on_the_projection_side_are_worth_a_warning() {
    let model = attention(usual());
    // Scales of `x` are 0.01: three times that is fine, five times is not.
    for (projected, warned) in [(3.81, false), (6.35, true)] {
        let mut absmax = scales();
        absmax.insert("projected".to_owned(), projected);
        let warnings = int8_at(&model, Level::Residual, &absmax).warnings;
        let found = warnings.iter().any(|w| w.starts_with("`residual`") && w.contains("5.0 times"));
        assert_eq!(found, warned, "{warnings:?}");
    }
}

#[test]
fn a_sum_of_two_projections_is_no_residual() {
    let nodes = vec![
        op("MatMul", "a", &["x", "wa"], "xa"),
        op("MatMul", "b", &["x", "wb"], "xb"),
        op("Add", "sum", &["xa", "xb"], "y"),
    ];
    let shape = [Dim::Named("batch".into()), Dim::Fixed(32)];
    let [x, y] = ["x", "y"].map(|name| value(name, ElementType::F32, &shape));
    let weights = vec![weight("wa", 32), weight("wb", 32)];
    let model = model(17, graph(vec![x], vec![y], nodes, weights)).unwrap();
    let int8 = rewritten(&model, Level::Residual);
    assert_eq!(count(&int8.model, "QuantizeLinear"), 1);
    let adds_nothing = int8.warnings.iter().filter(|w| w.contains("adds nothing")).count();
    assert_eq!(adds_nothing, 2, "{:?}", int8.warnings);
}

#[test]
fn a_scale_that_half_cannot_hold_keeps_its_product_fp32() {
    let model = attention(usual());
    let mut absmax = scales();
    absmax.insert("q".to_owned(), 1e-4);
    let int8 = int8_at(&model, Level::Residual, &absmax);
    check_written(&model, &int8, "small");
    let q = quantize_before(&int8.model, "scores", 0);
    assert_eq!(scale_of(&int8.model, q), 1e-4 / 127.0 * 0.25);
    assert_eq!(int8.model.graph().element_type("scaled"), Some(ElementType::F32));
    assert_eq!(about(&int8, "scaled").action, Action::KeptFloat32);
}

#[test]
fn a_table_of_a_lower_level_is_refused_by_tensor() {
    let model = attention(usual());
    let policy = Policy { level: Level::Attention, ..Policy::default() };
    let mut absmax = scales();
    absmax.remove("k");
    let error = quantize_with(&model, &Scales::min_max(absmax.clone()), &policy).unwrap_err();
    let QuantizeError::NoScale { tensor, node } = error else { panic!("{error:?}") };
    assert_eq!((tensor.as_str(), node.as_str()), ("k", "scores"));
    absmax.insert("k".to_owned(), 0.0);
    let error = quantize_with(&model, &Scales::min_max(absmax), &policy).unwrap_err();
    assert!(matches!(error, QuantizeError::BadScale { .. }), "{error:?}");
}
