//! Smoothing: FP32 to the bit as before, what is shared, folded, copied or left alone, and what INT8 gains.

mod common;

use std::collections::BTreeMap;

use common::{
    Feed, cases, check_written, count, difference, executor, int8, logits, magnitudes, models,
    producer, quantized_products,
};
use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{Executor, Value};
use trtforge_onnx::build::{
    attr_int, attr_ints, graph, model, node, tensor_f32, tensor_i64, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};
use trtforge_quantize::{
    Action, Policy, QuantizeError, Rewritten, Scales, SmoothTarget, Smoothed, quantize_with,
    smooth, smoothable, survey,
};

/// Channel ranges in which every fourth channel stands out, for every smoothable tensor.
fn uneven(model: &Model) -> BTreeMap<String, Vec<f32>> {
    let targets = smoothable(model, &Policy::default()).unwrap();
    let ranges = |n: usize| (0..n).map(|j| if j % 4 == 1 { 9.0 } else { 0.3 }).collect();
    targets.into_iter().map(|target| (target.tensor, ranges(target.channels))).collect()
}

fn smoothed(model: &Model, channels: &BTreeMap<String, Vec<f32>>) -> Smoothed {
    let smoothed = smooth(model, channels, 0.8, &Policy::default()).unwrap();
    keeps_what_is_seen(model, &smoothed, &Policy::default());
    smoothed
}

/// Inputs, outputs and node names stay; the rewrite as a whole passes the checks of every other.
fn keeps_what_is_seen(model: &Model, smoothed: &Smoothed, policy: &Policy) {
    let rewritten = Rewritten {
        model: smoothed.model.clone(),
        decisions: smoothed.decisions.clone(),
        warnings: smoothed.warnings.clone(),
        scales: vec![],
    };
    check_written(model, &rewritten, "smoothed");
    for old in model.graph_proto().node.iter().filter(|n| !n.name().is_empty()) {
        let kept = smoothed.model.graph_proto().node.iter().any(|n| n.name() == old.name());
        let constant = matches!(old.op_type(), "Constant" | "Transpose" | "Identity");
        assert!(kept || constant, "{}", old.name());
    }
    // Everything downstream finds the same products, and patterns still find what they named.
    let (before, after) = (survey(model).unwrap(), survey(&smoothed.model).unwrap());
    let labels = |s: &trtforge_quantize::Survey| -> Vec<(String, usize, usize)> {
        s.gemms.iter().map(|g| (g.label.clone(), g.k, g.n)).collect()
    };
    assert_eq!(labels(&before), labels(&after));
    assert!(before.observe.len() <= after.observe.len());
    let scales = Scales::min_max(after.observe.iter().map(|n| (n.clone(), 1.0)).collect());
    for tensor in smoothable(model, policy).unwrap().into_iter().map(|target| target.tensor) {
        let only = Policy { only: vec![tensor.clone().into()], ..Policy::default() };
        let int8 = quantize_with(&smoothed.model, &scales, &only).unwrap();
        assert!(int8.int8_weights() > 0, "{tensor}: {:?}", int8.warnings);
    }
}

#[test]
fn base_models_compute_the_same_bits_and_stay_quantizable() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::read(&folder.join("feed.json"));
    for (name, model) in models(&folder) {
        let smoothed = smoothed(&model, &uneven(&model));
        assert_eq!(logits(&model, &feed), logits(&smoothed.model, &feed), "{name}");
        // Two layers of input, context, attention output and GELU, then pooler and classifier.
        assert_eq!(smoothed.decisions.len(), 10, "{name}");
        let folded = smoothed.decisions.iter().filter(|d| d.reason.contains("value projection"));
        assert_eq!(folded.count(), 2, "{name}");
        let muls = count(&smoothed.model, "Mul") - count(&model, "Mul");
        assert_eq!(muls, 8, "{name}: one for each that is not folded");
        let after = survey(&smoothed.model).unwrap().observe;
        assert!(after.iter().all(|tensor| tensor.ends_with("/smoothed")), "{name}: {after:?}");
        let int8 = int8(&smoothed.model, &magnitudes(&smoothed.model, &[&feed]));
        check_written(&smoothed.model, &int8, &name);
        assert_eq!(quantized_products(&int8.model).len(), 14, "{name}");
        assert_eq!(count(&int8.model, "QuantizeLinear"), 10, "{name}: q, k and v still share");
        for quantize in &int8.model.graph_proto().node {
            if quantize.op_type() == "QuantizeLinear" {
                let source = producer(&int8.model, &quantize.input[0]).unwrap();
                let element_type = int8.model.graph().element_type(&quantize.input[0]);
                assert_eq!(element_type, Some(ElementType::F16), "{name}: {}", source.name());
                assert_ne!(source.op_type(), "Cast", "{name}: the division itself is FP16");
            }
        }
    }
}

#[test]
fn b22_branches_keep_what_they_read() {
    let Some(folder) = cases().map(|c| c.join("B22")) else { return };
    for (name, model) in models(&folder) {
        let smoothed = smoothed(&model, &uneven(&model));
        let branches = |m: &Model| -> Vec<NodeProto> {
            m.graph_proto().node.iter().filter(|n| n.op_type() == "If").cloned().collect()
        };
        assert!(!branches(&model).is_empty());
        assert_eq!(branches(&model), branches(&smoothed.model), "{name}");
        for feed in ["feed_else.json", "feed_then.json"] {
            let feed = Feed::read(&folder.join(feed));
            assert_eq!(logits(&model, &feed), logits(&smoothed.model, &feed), "{name}");
        }
    }
}

/// Channel ranges of every smoothable tensor on a feed.
fn measured(model: &Model, feed: &Feed) -> BTreeMap<String, Vec<f32>> {
    let targets = smoothable(model, &Policy::default()).unwrap();
    let channels: BTreeMap<String, usize> =
        targets.iter().map(|t| (t.tensor.clone(), t.channels)).collect();
    let taps: Vec<String> = channels.keys().cloned().collect();
    let mut ranges = trtforge_calibrate::ChannelRanges::new(taps.clone());
    let executor = executor(model, taps.clone());
    let mut visit =
        |name: &str, values: &[f32]| ranges.observe(name, values, channels[name]).unwrap();
    executor.run_tapped(&feed.inputs(&executor), &taps, &mut visit).unwrap();
    ranges.absmax()
}

#[test]
fn measured_ranges_keep_the_bits_too() {
    let Some(folder) = cases() else { return };
    for case in ["B15", "B31", "BASE"] {
        let feed = Feed::read(&folder.join(case).join("feed.json"));
        for (name, model) in models(&folder.join(case)) {
            let smoothed = smoothed(&model, &measured(&model, &feed));
            assert_eq!(logits(&model, &feed), logits(&smoothed.model, &feed), "{case}/{name}");
            let plain = int8(&model, &magnitudes(&model, &[&feed]));
            let better = int8(&smoothed.model, &magnitudes(&smoothed.model, &[&feed]));
            let (plain, better) =
                (difference(&plain.model, &feed), difference(&better.model, &feed));
            eprintln!("{case}/{name}: INT8 off by {plain:.5}, smoothed by {better:.5}");
            assert!(better < 0.2, "{case}/{name}: {better}");
        }
    }
}

// Small graphs.

/// `x: [rows, 16]` to `y`.
fn small(nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> Model {
    let x = value("x", ElementType::F32, &[Dim::Named("rows".into()), Dim::Fixed(16)]);
    let y = value("y", ElementType::F32, &[Dim::Named("rows".into()), Dim::Unknown]);
    model(17, graph(vec![x], vec![y], nodes, weights)).unwrap()
}

fn matmul(name: &str, input: &str, weight: &str, output: &str) -> NodeProto {
    node("MatMul", name, &[input, weight], &[output], vec![])
}

/// Values that look random and are the same everywhere.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn weight(name: &str, rows: usize, columns: usize) -> TensorProto {
    tensor_f32(name, &[rows as i64, columns as i64], &noise(rows * columns, name.len() as u32))
}

fn run(model: &Model, x: &[f32]) -> Vec<f32> {
    let executor = executor(model, vec![]);
    let shape = IxDyn(&[x.len() / 16, 16]);
    let x = Value::from(ArrayD::from_shape_vec(shape, x.to_vec()).unwrap());
    let outputs = executor.run(&[("x".to_owned(), x)]).unwrap();
    outputs[0].1.as_f32().unwrap().iter().copied().collect()
}

/// Smooths with uneven ranges and compares the outputs bit by bit.
fn same_bits(model: &Model) -> Smoothed {
    let smoothed = smoothed(model, &uneven(model));
    let x = noise(16 * 5, 7);
    let bits = |m: &Model| -> Vec<u32> { run(m, &x).into_iter().map(f32::to_bits).collect() };
    assert_eq!(bits(model), bits(&smoothed.model));
    assert!(bits(model).iter().any(|&bits| bits != 0));
    smoothed
}

fn values(model: &Model, name: &str) -> Vec<f32> {
    model.graph().initializer(name).unwrap().to_f32().unwrap().into_owned()
}

#[test]
fn factors_and_weights_by_hand() {
    // Row 0 of the weight has the maximum 4, the others 1; channel 0 reaches 64, channel 1 is dead, the others reach 1.
    // At strength ½: log2 s = ½·6 − ½·2 = 2 for channel 0 and 0 for fourteen others; their mean is 2/15, so 2 and 0.
    let mut w = vec![1.0; 32];
    w[0] = -4.0;
    let model = small(vec![matmul("dense", "x", "w", "y")], vec![tensor_f32("w", &[16, 2], &w)]);
    let targets = smoothable(&model, &Policy::default()).unwrap();
    assert_eq!(targets, [SmoothTarget { tensor: "x".into(), channels: 16 }]);
    let mut x = vec![1.0; 16];
    (x[0], x[1]) = (64.0, 0.0);
    let channels = BTreeMap::from([("x".to_owned(), x)]);
    let smoothed = smooth(&model, &channels, 0.5, &Policy::default()).unwrap();
    let product = producer(&smoothed.model, "y").unwrap();
    assert_eq!(product.input, ["x/smoothed", "w"]);
    let multiply = producer(&smoothed.model, "x/smoothed").unwrap();
    assert_eq!((multiply.op_type(), multiply.input[0].as_str()), ("Mul", "x"));
    let mut inverse = vec![1.0; 16];
    inverse[0] = 0.25;
    assert_eq!(values(&smoothed.model, &multiply.input[1]), inverse);
    (w[0], w[1]) = (-16.0, 4.0);
    assert_eq!(values(&smoothed.model, "w"), w);
    let [decision] = &smoothed.decisions[..] else { panic!() };
    assert_eq!(decision.action, Action::Smoothed { channels: 16, largest: 4.0, smallest: 1.0 });
    assert!(decision.reason.contains("was 64.0 times the median, now 16.0"), "{}", decision.reason);
    // Strength 0 changes nothing at all, nor does a tensor without any signal.
    let none = smooth(&model, &channels, 0.0, &Policy::default()).unwrap();
    assert_eq!(none.model.fingerprint(), model.fingerprint());
    let dead = BTreeMap::from([("x".to_owned(), vec![0.0; 16])]);
    let none = smooth(&model, &dead, 0.8, &Policy::default()).unwrap();
    let left = Action::Smoothed { channels: 16, largest: 1.0, smallest: 1.0 };
    assert_eq!(none.decisions[0].action, left);
    assert!(none.decisions[0].reason.starts_with("left as it is"));
    assert_eq!(none.model.fingerprint(), model.fingerprint());
}

#[test]
fn gemms_either_way_round_and_weights_behind_transposes() {
    for (trans_b, dims) in [(0, [16, 20]), (1, [20, 16])] {
        let attributes = vec![attr_int("transB", trans_b)];
        let gemm = node("Gemm", "dense", &["x", "w", "b"], &["y"], attributes);
        let model = small(
            vec![gemm],
            vec![weight("w", dims[0], dims[1]), tensor_f32("b", &[20], &noise(20, 3))],
        );
        assert_eq!(same_bits(&model).decisions.len(), 1);
    }
    let turn = node("Transpose", "turn", &["w"], &["t"], vec![attr_ints("perm", &[1, 0])]);
    let model = small(vec![turn, matmul("dense", "x", "t", "y")], vec![weight("w", 20, 16)]);
    let smoothed = same_bits(&model);
    assert_eq!(count(&smoothed.model, "Transpose"), 1, "scaled in place, as stored");
    assert_eq!(smoothed.model.graph().initializers().count(), 2);
    // With transA the dot products run along the first axis: not smoothable.
    let gemm = node("Gemm", "dense", &["x", "w"], &["y"], vec![attr_int("transA", 1)]);
    let model = small(vec![gemm], vec![weight("w", 16, 20)]);
    assert!(smoothable(&model, &Policy::default()).unwrap().is_empty());
}

#[test]
fn readers_of_one_activation_share_its_factors() {
    let nodes = vec![
        matmul("query", "x", "q", "a"),
        matmul("key", "x", "kk", "b"),
        node("Add", "sum", &["a", "b"], &["c"], vec![]),
        node("Add", "residual", &["c", "x"], &["y"], vec![]),
    ];
    let model = small(nodes, vec![weight("q", 16, 16), weight("kk", 16, 16)]);
    let smoothed = same_bits(&model);
    assert_eq!(count(&smoothed.model, "Mul"), 1);
    let residual = producer(&smoothed.model, "y").unwrap();
    assert_eq!(residual.input[1], "x", "the residual keeps what it read");
    // A reader the policy leaves out keeps its input and its weight, and the factors do not change for the others.
    let policy = Policy { skip: vec!["query".into()], ..Policy::default() };
    let narrow = smooth(&model, &uneven(&model), 0.8, &policy).unwrap();
    assert_eq!(producer(&narrow.model, "a").unwrap().input, ["x", "q"]);
    assert_eq!(values(&narrow.model, "q"), values(&model, "q"));
    assert_eq!(values(&narrow.model, "kk"), values(&smoothed.model, "kk"));
    let x = noise(32, 5);
    assert_eq!(run(&narrow.model, &x), run(&model, &x));
    let none = Policy { skip: vec!["query".into(), "key".into()], ..Policy::default() };
    assert!(smoothable(&model, &none).unwrap().is_empty());
}

#[test]
fn shared_weights_are_copied_for_whoever_sees_them_differently() {
    // Two activations, one weight: each gets its own copy, and nothing of the old one stays.
    let nodes = vec![
        matmul("first", "x", "w", "a"),
        node("Relu", "relu", &["a"], &["r"], vec![]),
        matmul("second", "r", "w", "y"),
    ];
    let smoothed = same_bits(&small(nodes, vec![weight("w", 16, 16)]));
    let weights = |m: &Model| m.graph().initializers().filter(|t| t.dims == [16, 16]).count();
    assert_eq!(weights(&smoothed.model), 2);
    // One activation, one weight read twice: still one weight, in place.
    let nodes = vec![
        matmul("first", "x", "w", "a"),
        matmul("second", "x", "w", "b"),
        node("Add", "sum", &["a", "b"], &["y"], vec![]),
    ];
    let smoothed = same_bits(&small(nodes, vec![weight("w", 16, 16)]));
    assert_eq!(weights(&smoothed.model), 1);
    // One activation, both ways round: a copy for each.
    let nodes = vec![
        node("Transpose", "turn", &["w"], &["t"], vec![]),
        matmul("first", "x", "w", "a"),
        matmul("second", "x", "t", "b"),
        node("Add", "sum", &["a", "b"], &["y"], vec![]),
    ];
    let smoothed = same_bits(&small(nodes, vec![weight("w", 16, 16)]));
    assert_eq!((weights(&smoothed.model), count(&smoothed.model, "Transpose")), (2, 0));
    assert!(smoothed.decisions[0].reason.contains("1 shared weights copied"));
}

#[test]
fn a_tied_embedding_stays_for_its_gather() {
    let nodes = vec![
        node("Gather", "look", &["table", "ids"], &["e"], vec![attr_int("axis", 0)]),
        node("Add", "add", &["x", "e"], &["h"], vec![]),
        node("Transpose", "turn", &["table"], &["t"], vec![attr_ints("perm", &[1, 0])]),
        matmul("decoder", "h", "t", "y"),
    ];
    let model = small(nodes, vec![weight("table", 20, 16), tensor_i64("ids", &[1], &[2])]);
    let smoothed = same_bits(&model);
    assert_eq!(values(&smoothed.model, "table"), values(&model, "table"));
    assert_eq!(count(&smoothed.model, "Transpose"), 0, "the copy is stored as it is read");
}

#[test]
fn a_weight_in_a_constant_node_becomes_an_initializer() {
    let constant = trtforge_onnx::build::attr_tensor("value", weight("", 16, 20));
    let nodes = vec![
        node("Constant", "stored", &[], &["w"], vec![constant]),
        matmul("dense", "x", "w", "y"),
    ];
    let smoothed = same_bits(&small(nodes, vec![]));
    assert_eq!(count(&smoothed.model, "Constant"), 0);
}

fn normalized(reader: NodeProto) -> Model {
    let nodes = vec![
        node(
            "LayerNormalization",
            "norm",
            &["x", "gain", "shift"],
            &["n"],
            vec![attr_int("axis", -1)],
        ),
        matmul("dense", "n", "w", "d"),
        reader,
    ];
    let vector = |name: &str, seed| tensor_f32(name, &[16], &noise(16, seed));
    small(nodes, vec![vector("gain", 1), vector("shift", 2), weight("w", 16, 16)])
}

#[test]
fn a_normalization_takes_the_factors_where_nobody_else_reads_it() {
    let smoothed = same_bits(&normalized(node("Relu", "relu", &["d"], &["y"], vec![])));
    assert_eq!(count(&smoothed.model, "Mul"), 0);
    assert!(smoothed.decisions[0].reason.contains("gain and shift of `norm`"));
    assert_eq!(producer(&smoothed.model, "d").unwrap().input[0], "n/smoothed");
    // With a residual it cannot.
    let smoothed = same_bits(&normalized(node("Add", "residual", &["d", "n"], &["y"], vec![])));
    assert_eq!(count(&smoothed.model, "Mul"), 1);
    assert_eq!(producer(&smoothed.model, "y").unwrap().input[1], "n");
}

#[test]
fn gain_and_shift_written_out_take_the_factors() {
    let shared = |name: &str| node("Mul", "gained", &["x", name], &["g"], vec![]);
    for (gain, readers) in [("gain", 1), ("shift", 2)] {
        let nodes = vec![
            shared(gain),
            node("Add", "shifted", &["g", "shift"], &["n"], vec![]),
            matmul("dense", "n", "w", "y"),
        ];
        let vector = |name: &str, seed| tensor_f32(name, &[16], &noise(16, seed));
        let mut weights = vec![vector("shift", 2), weight("w", 16, 16)];
        if readers == 1 {
            weights.push(vector("gain", 1));
        }
        let smoothed = same_bits(&small(nodes, weights));
        assert_eq!(count(&smoothed.model, "Mul"), 1);
        // A vector that is both gain and shift is copied for each.
        assert_eq!(smoothed.model.graph().initializers().count(), 3);
    }
}

#[test]
fn readers_behind_their_own_reshapes_share_one_division() {
    let model = |last: &str| {
        let nodes = vec![
            node("Relu", "relu", &["x"], &["h"], vec![]),
            node("Add", "bias", &["h", "b"], &["z"], vec![]),
            node("Reshape", "flat_q", &["z", "flat"], &["zq"], vec![]),
            matmul("query", "zq", "q", "a"),
            node("Reshape", "flat_k", &["z", "flat"], &["zk"], vec![]),
            matmul("key", "zk", "kk", "k"),
            node("Add", "sum", &["a", last], &["y"], vec![]),
        ];
        let bias = tensor_f32("b", &[16], &noise(16, 4));
        let flat = tensor_i64("flat", &[2], &[-1, 16]);
        small(nodes, vec![weight("q", 16, 16), weight("kk", 16, 16), bias, flat])
    };
    let shared = same_bits(&model("k"));
    assert_eq!(count(&shared.model, "Mul"), 1);
    assert_eq!(survey(&shared.model).unwrap().observe, ["z/smoothed"]);
    // Someone else reads a reshaped form: each reader is divided behind its own Reshape.
    let apart = same_bits(&model("zk"));
    assert_eq!(count(&apart.model, "Mul"), 2);
    assert_eq!(survey(&apart.model).unwrap().observe, ["zq/smoothed", "zk/smoothed"]);
}

#[test]
fn an_outlier_channel_no_longer_costs_the_others_their_bits() {
    let Some(folder) = cases() else { return };
    let feed = Feed::of_any_ids(64, 16, 100);
    let open = |file: &str| Model::open(&folder.join(file)).unwrap();
    let made = with_outlier(&open("BASE/ts_opset17_layernorm.onnx"), 7, 40.0);
    let models = [
        ("made", made, 0.7),
        ("B06", open("B06/model_channel.onnx"), 0.6),
        ("even", open("BASE/ts_opset17.onnx"), 1.05),
    ];
    for (name, model, most) in models {
        let plain = int8(&model, &magnitudes(&model, &[&feed]));
        let smoothed = smoothed(&model, &measured(&model, &feed)).model;
        assert_eq!(logits(&model, &feed), logits(&smoothed, &feed), "{name}");
        let better = int8(&smoothed, &magnitudes(&smoothed, &[&feed]));
        let (plain, better) =
            (shift(&model, &plain.model, &feed), shift(&model, &better.model, &feed));
        eprintln!("{name}: mean logit shift {plain:.5}, smoothed {better:.5}");
        assert!(better < plain * most, "{name}: {plain} {better}");
    }
}

/// Mean distance of two models' logits.
fn shift(reference: &Model, model: &Model, feed: &Feed) -> f32 {
    let (reference, logits) = (logits(reference, feed), logits(model, feed));
    let sum: f32 = reference.iter().zip(&logits).map(|(a, b)| (a - b).abs()).sum();
    sum / logits.len() as f32
}

/// One channel of every normalization's gain and shift made `times` larger.
fn with_outlier(model: &Model, channel: usize, times: f32) -> Model {
    let mut patch = trtforge_onnx::Patch::new(model);
    let norms = model.graph_proto().node.iter().filter(|n| n.op_type() == "LayerNormalization");
    for name in norms.flat_map(|n| &n.input[1..3]) {
        let tensor = model.graph().initializer(name).unwrap();
        let mut values = tensor.to_f32().unwrap().into_owned();
        values[channel] *= times;
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        patch.set_initializer(name, ElementType::F32, tensor.dims.clone(), bytes);
    }
    patch.finish().unwrap()
}

#[test]
fn errors_name_the_tensor() {
    let model = small(vec![matmul("dense", "x", "w", "y")], vec![weight("w", 16, 16)]);
    let fails = |channels: &[f32], strength| {
        let channels = BTreeMap::from([("x".to_owned(), channels.to_vec())]);
        smooth(&model, &channels, strength, &Policy::default()).unwrap_err()
    };
    let none = smooth(&model, &BTreeMap::new(), 0.5, &Policy::default()).unwrap_err();
    assert!(matches!(none, QuantizeError::NoChannels { tensor } if tensor == "x"));
    for channels in [&[1.0; 15][..], &[f32::NAN; 16], &[-1.0; 16], &[f32::INFINITY; 16]] {
        let error = fails(channels, 0.5);
        assert!(matches!(error, QuantizeError::BadChannels { expected: 16, .. }), "{error}");
    }
    for strength in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(fails(&[1.0; 16], strength), QuantizeError::BadStrength { .. }));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(40))]
    #[test]
    fn any_ranges_keep_the_bits_and_the_names(
        exponents in proptest::collection::vec(-20i32..20, 16),
        strength in 0.0f64..=1.0,
        skip: bool,
    ) {
        let model = normalized(node("Add", "residual", &["d", "n"], &["y"], vec![]));
        let ranges: Vec<f32> =
            exponents.iter().map(|&e| if e == 0 { 0.0 } else { 1.3 * (e as f32).exp2() }).collect();
        let channels = BTreeMap::from([("n".to_owned(), ranges)]);
        let policy =
            Policy { skip: if skip { vec!["n".into()] } else { vec![] }, ..Policy::default() };
        let smoothed = smooth(&model, &channels, strength, &policy).unwrap();
        keeps_what_is_seen(&model, &smoothed, &policy);
        let x = noise(48, 11);
        proptest::prop_assert_eq!(run(&model, &x), run(&smoothed.model, &x));
    }
}
