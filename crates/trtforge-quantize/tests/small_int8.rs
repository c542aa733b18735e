//! Small graphs by hand: where weights hide, what shares a pair, what is left out, and what is an error.

mod common;

use std::collections::BTreeMap;

use common::{check_written, count, dequantized_weight, int8, producer, quantized_products};
use trtforge_onnx::build::{
    attr_int, attr_ints, graph, model, node, tensor_f32, tensor_i64, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};
use trtforge_quantize::{
    Action, Level, Policy, QuantizeError, Rewritten, Scales, quantize, quantize_with, survey,
};

/// A model with one FP32 input `x` of `[batch, 16]` and one output `y`.
fn small(nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> Model {
    let x = value("x", ElementType::F32, &[Dim::Named("batch".into()), Dim::Fixed(16)]);
    let y = value("y", ElementType::F32, &[Dim::Named("batch".into()), Dim::Unknown]);
    model(17, graph(vec![x], vec![y], nodes, weights)).unwrap()
}

/// A weight whose column `j` has the maximum `j + 1`.
fn weight(name: &str, rows: usize, columns: usize) -> TensorProto {
    let values: Vec<f32> = (0..rows * columns)
        .map(|i| (1 + i % columns) as f32 * if i / columns == 0 { -1.0 } else { 0.5 })
        .collect();
    tensor_f32(name, &[rows as i64, columns as i64], &values)
}

fn matmul(input: &str, weight: &str, output: &str) -> NodeProto {
    node("MatMul", "", &[input, weight], &[output], vec![])
}

fn absmax(of: &[(&str, f32)]) -> BTreeMap<String, f32> {
    of.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

fn quantized(model: &Model, of: &[(&str, f32)]) -> Rewritten {
    let rewritten = int8(model, &absmax(of));
    check_written(model, &rewritten, "small");
    rewritten
}

#[test]
fn a_shared_weight_is_stored_once() {
    let nodes = vec![
        matmul("x", "w", "a"),
        node("Relu", "", &["a"], &["r"], vec![]),
        matmul("r", "w", "y"),
    ];
    let model = small(nodes, vec![weight("w", 16, 16)]);
    let int8 = quantized(&model, &[("x", 1.0), ("r", 2.0)]);
    assert_eq!(quantized_products(&int8.model).len(), 2);
    // Two activations and one weight.
    assert_eq!(count(&int8.model, "DequantizeLinear"), 3);
    let stored = int8.model.graph().initializers().filter(|t| t.dims == [16, 16]).count();
    assert_eq!(stored, 1, "no float copy stays");
}

#[test]
fn a_tied_embedding_keeps_a_half_copy_for_its_gather() {
    let ids = tensor_i64("ids", &[1], &[2]);
    let nodes = vec![
        node("Gather", "", &["table", "ids"], &["e"], vec![attr_int("axis", 0)]),
        node("Add", "", &["x", "e"], &["h"], vec![]),
        node("Transpose", "", &["table"], &["t"], vec![attr_ints("perm", &[1, 0])]),
        matmul("h", "t", "y"),
    ];
    let model = small(nodes, vec![weight("table", 20, 16), ids]);
    let gemm = survey(&model).unwrap().gemms.remove(0);
    assert_eq!((gemm.weight.as_str(), gemm.transposed, gemm.channel_axis), ("table", true, 1));
    assert_eq!((gemm.k, gemm.n), (16, 20));
    let int8 = quantized(&model, &[("h", 1.0)]);
    let table = int8.model.graph().initializer("table").unwrap();
    assert_eq!(table.element_type, ElementType::F16);
    let product = quantized_products(&int8.model)[0];
    let stored = dequantized_weight(&int8.model, product).unwrap();
    assert_eq!(
        (stored.dims.as_slice(), stored.axis, stored.scales.len()),
        ([16, 20].as_slice(), 1, 20)
    );
    // Row 0 of the table holds the column maxima, so channel 0 is −127 along K where the column is the largest.
    let at = |k: usize, n: usize| stored.values[k * 20 + n];
    assert_eq!((at(15, 0), at(15, 1), at(0, 1)), (-127, 127, 8));
    assert_eq!(count(&int8.model, "Transpose"), 0);
}

#[test]
fn identities_before_a_weight_are_seen_through() {
    let nodes = vec![node("Identity", "", &["w"], &["v"], vec![]), matmul("x", "v", "y")];
    let model = small(nodes, vec![weight("w", 16, 32)]);
    let int8 = quantized(&model, &[("x", 1.0)]);
    assert_eq!(quantized_products(&int8.model).len(), 1);
    assert_eq!(count(&int8.model, "Identity"), 0);
}

fn reshaped() -> Model {
    let shape = || tensor_i64("flat", &[2], &[-1, 16]);
    let nodes = vec![
        node("Reshape", "", &["x", "flat"], &["xq"], vec![]),
        node("MatMul", "query", &["xq", "wq"], &["q"], vec![]),
        node("Reshape", "", &["x", "flat"], &["xk"], vec![]),
        node("MatMul", "key", &["xk", "wk"], &["k"], vec![]),
        node("Add", "", &["q", "k"], &["y"], vec![]),
    ];
    small(nodes, vec![weight("wq", 16, 32), weight("wk", 16, 32), shape()])
}

#[test]
fn readers_of_reshapes_share_the_pair_before_them() {
    let model = reshaped();
    assert_eq!(survey(&model).unwrap().observe, ["x"]);
    let int8 = quantized(&model, &[("x", 1.0)]);
    assert_eq!(count(&int8.model, "QuantizeLinear"), 1);
    assert_eq!(quantized_products(&int8.model).len(), 2);
    for name in ["xq", "xk"] {
        let reshape = producer(&int8.model, name).unwrap();
        assert_eq!(producer(&int8.model, &reshape.input[0]).unwrap().op_type(), "DequantizeLinear");
    }
}

#[test]
fn a_skipped_reader_gets_what_it_always_read() {
    let policy = Policy { skip: vec!["query".into()], ..Policy::default() };
    let scales = Scales::min_max(absmax(&[("x", 1.0)]));
    let int8 = quantize_with(&reshaped(), &scales, &policy).unwrap();
    let query = int8.model.graph_proto().node.iter().find(|n| n.name() == "query").unwrap();
    let reshape = producer(&int8.model, &query.input[0]).unwrap();
    assert_eq!(producer(&int8.model, &reshape.input[0]).unwrap().op_type(), "Cast");
    assert_eq!(quantized_products(&int8.model).len(), 1);
}

#[test]
fn what_int8_cannot_do_is_skipped_with_a_reason() {
    let nan = tensor_f32("nan", &[16, 16], &[f32::NAN; 256]);
    let cube = tensor_f32("cube", &[2, 16, 16], &[1.0; 512]);
    // In one of two output channels, one weight of 16 is ten thousand times the others.
    let mut values = [1.0; 32];
    values[5] = 1e4;
    let giant = tensor_f32("giant", &[16, 2], &values);
    for (inputs, weight, words) in [
        (["left", "x"], weight("left", 16, 16), "left operand"),
        (["x", "one"], weight("one", 16, 1), "one output channel"),
        (["x", "nan"], nan, "256 NaN"),
        (["x", "cube"], cube, "not a matrix"),
        (["x", "giant"], giant, "in 1 of 2 output channels, such as 1,"),
        (["x", "short"], weight("short", 8, 16), "too short"),
    ] {
        let nodes = vec![node("MatMul", "product", &inputs, &["y"], vec![])];
        let model = small(nodes, vec![weight]);
        let survey = survey(&model).unwrap();
        assert!(survey.observe.is_empty(), "{words}");
        let int8 = quantized(&model, &[]);
        let skipped = int8.decisions.iter().find(|d| d.action == Action::Skipped).unwrap();
        assert!(skipped.reason.contains(words), "{}", skipped.reason);
        assert_eq!(skipped.node.as_deref(), Some("product"));
        assert_eq!(count(&int8.model, "QuantizeLinear"), 0);
        assert!(int8.warnings.iter().any(|w| w.contains("nothing is quantized")));
    }
}

#[test]
fn a_scale_half_cannot_hold_keeps_its_product_fp32() {
    let model = small(vec![matmul("x", "w", "y")], vec![weight("w", 16, 16)]);
    // 0.001 / 127 is 7.9e-6, below FP16's normal range.
    let int8 = quantized(&model, &[("x", 0.001)]);
    let product = quantized_products(&int8.model)[0];
    let graph = int8.model.graph();
    assert!(product.input.iter().all(|i| graph.element_type(i) == Some(ElementType::F32)));
    let quantize = int8.model.graph_proto().node.iter().find(|n| n.op_type() == "QuantizeLinear");
    let scale = graph.initializer(&quantize.unwrap().input[1]).unwrap();
    assert_eq!(scale.to_f32().unwrap()[0], 0.001 / 127.0);
    assert!(int8.decisions.iter().any(|d| d.reason.contains("the activation scale is")));
    // With a scale FP16 holds, everything around it is FP16, and the stored scale is the decision's.
    let int8 = quantized(&model, &[("x", 1.0)]);
    let product = quantized_products(&int8.model)[0];
    assert_eq!(int8.model.graph().element_type(&product.input[0]), Some(ElementType::F16));
    assert!(
        int8.decisions.iter().any(|d| d.action == Action::Int8Activation { scale: 0.007_873_535 })
    );
}

#[test]
fn gemms_keep_their_bias_and_their_attributes() {
    let gemm = node(
        "Gemm",
        "dense",
        &["x", "w", "b"],
        &["y"],
        vec![attr_int("transB", 1), trtforge_onnx::build::attr_float("alpha", 0.5)],
    );
    let bias = tensor_f32("b", &[3], &[1.0, 2.0, 3.0]);
    let model = small(vec![gemm], vec![weight("w", 3, 16), bias]);
    let int8 = quantized(&model, &[("x", 1.0)]);
    let product = quantized_products(&int8.model)[0];
    assert_eq!(product.attribute.len(), 2);
    let weight = dequantized_weight(&int8.model, product).unwrap();
    assert_eq!(
        (weight.axis, weight.scales.len(), weight.dims.as_slice()),
        (0, 3, [3, 16].as_slice())
    );
    let bias = int8.model.graph().initializer(&product.input[2]).unwrap();
    assert_eq!(bias.element_type, ElementType::F16, "a bias is never INT8 or INT32");
}

#[test]
fn errors_say_what_is_missing() {
    let model = small(
        vec![node("MatMul", "dense", &["x", "w"], &["y"], vec![])],
        vec![weight("w", 16, 16)],
    );
    let with =
        |scales: &Scales, policy: &Policy| quantize_with(&model, scales, policy).unwrap_err();
    let good = Scales::min_max(absmax(&[("x", 1.0)]));
    let none = with(&Scales::default(), &Policy::default());
    assert!(
        matches!(&none, QuantizeError::NoScale { tensor, node } if tensor == "x" && node == "dense")
    );
    for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = with(&Scales::min_max(absmax(&[("x", bad)])), &Policy::default());
        assert!(matches!(error, QuantizeError::BadScale { .. }), "{bad}");
    }
    let policy = Policy { skip: vec!["dens".into()], ..Policy::default() };
    let QuantizeError::PatternMatchesNothing { near, .. } = with(&good, &policy) else { panic!() };
    assert_eq!(near[0], "dense");
    assert_eq!("gemm".parse::<Level>().unwrap(), Level::Gemm);
    assert!("matmul".parse::<Level>().unwrap_err().to_string().contains("matmul"));
}

#[test]
fn only_names_what_to_quantize() {
    let nodes = vec![
        node("MatMul", "first", &["x", "w"], &["a"], vec![]),
        node("MatMul", "second", &["a", "v"], &["y"], vec![]),
    ];
    let model = small(nodes, vec![weight("w", 16, 16), weight("v", 16, 16)]);
    let scales = Scales::min_max(absmax(&[("x", 1.0), ("a", 1.0)]));
    let policy = Policy { only: vec!["v".into()], ..Policy::default() };
    let int8 = quantize_with(&model, &scales, &policy).unwrap();
    assert_eq!(quantized_products(&int8.model)[0].name(), "second");
    assert_eq!(int8.int8_weights(), 1);
    // A pattern on something that exists but is not quantized is no error, but not silent either.
    let policy = Policy { skip: vec!["y*".into(), "a".into(), "x".into()], ..Policy::default() };
    let int8 = quantize_with(&model, &scales, &policy).unwrap();
    assert_eq!(int8.int8_weights(), 0);
}

#[test]
fn the_same_inputs_give_the_same_bytes_and_a_table_works_like_scales() {
    use trtforge_calibrate::{CalibrationTable, Method, TableOptions, TensorCalibration};
    let model = reshaped();
    let method = Method::MinMax;
    let x = TensorCalibration {
        absmax: 1.27,
        threshold: 1.27,
        scale: 0.01,
        method,
        values: 16,
        guard: None,
    };
    let table = CalibrationTable {
        schema: 1,
        tool: String::new(),
        model: String::new(),
        data: String::new(),
        tokenizer: None,
        lines: None,
        device: None,
        imported: None,
        search: None,
        options: TableOptions {
            method,
            samples: 1,
            seed: 0,
            strategy: "first".into(),
            max_length: 1,
            smooth: 0.0,
        },
        tensors: BTreeMap::from([("x".to_owned(), x)]),
        ranges: absmax(&[("q", 3.0)]),
        channels: BTreeMap::new(),
    };
    let scales = Scales::from(&table);
    assert_eq!(scales.absmax, absmax(&[("q", 3.0), ("x", 1.27)]));
    let a = quantize(&model, &table, &Policy::default()).unwrap();
    let b = quantize_with(&model, &scales, &Policy::default()).unwrap();
    assert_eq!(a.model.fingerprint(), b.model.fingerprint());
    assert_eq!(a.decisions, b.decisions);
}
