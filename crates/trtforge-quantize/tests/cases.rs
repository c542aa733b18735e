//! The shared cases: models of many exporters and of known faults, rewritten and run.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{
    Feed, cases, check_written, count, dequantized_weight, difference, half, int8, logits,
    magnitudes, models, producer, quantized_products,
};
use trtforge_onnx::{ElementType, Model};
use trtforge_quantize::{
    Action, HalfOptions, MASK_IN_HALF, Policy, QuantizeError, Scales, quantize_with, survey,
};

/// FP16 and INT8 of every model of a case stay close to the FP32 logits, and `products` MatMuls are INT8.
fn both_precisions(case: &str, feeds: &[&str], products: usize) {
    let Some(folder) = cases().map(|c| c.join(case)) else { return };
    let feeds: Vec<Feed> = feeds.iter().map(|f| Feed::read(&folder.join(f))).collect();
    for (name, model) in models(&folder) {
        let absmax = magnitudes(&model, &feeds.iter().collect::<Vec<_>>());
        let (half, int8) = (half(&model, &absmax), int8(&model, &absmax));
        check_written(&model, &half, &name);
        check_written(&model, &int8, &name);
        assert_eq!(quantized_products(&int8.model).len(), products, "{name}");
        assert_eq!(int8.int8_weights(), products, "{name}");
        for feed in &feeds {
            let (fp16, q) = (difference(&half.model, feed), difference(&int8.model, feed));
            eprintln!("{case}/{name}: FP16 {fp16:.5}, INT8 {q:.5}");
            assert!(fp16 < 0.05, "{name}: FP16 is off by {fp16}");
            assert!(q < 0.2, "{name}: INT8 is off by {q}");
        }
    }
}

#[test]
fn base_models_of_every_exporter() {
    both_precisions("BASE", &["feed.json"], 14);
}

#[test]
fn b05_mask_sentinels() {
    both_precisions("B05", &["feed.json"], 14);
}

#[test]
fn b14_mask_constants_beyond_half() {
    both_precisions("B14", &["feed.json"], 14);
}

#[test]
fn b15_layer_norm_overflow() {
    both_precisions("B15", &["feed.json"], 14);
}

#[test]
fn b20_unnamed_nodes() {
    both_precisions("B20", &["feed.json"], 14);
}

#[test]
fn b22_branches_that_read_outer_weights() {
    both_precisions("B22", &["feed_else.json", "feed_then.json"], 13);
}

#[test]
fn b31_weights_that_are_inputs() {
    both_precisions("B31", &["feed.json"], 14);
}

/// A model of a case with the magnitudes of its feed.
fn load(case: &str, file: &str, feed: &str) -> Option<(Model, Scales, Feed)> {
    let folder = cases()?.join(case);
    let model = Model::open(&folder.join(file)).unwrap();
    let feed = Feed::read(&folder.join(feed));
    let scales = Scales::min_max(magnitudes(&model, &[&feed]));
    Some((model, scales, feed))
}

#[test]
fn base_models_share_one_pair_for_q_k_v_and_keep_no_float_weight() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::read(&folder.join("feed.json"));
    for (name, model) in models(&folder) {
        let int8 = int8(&model, &magnitudes(&model, &[&feed])).model;
        assert_eq!(count(&int8, "QuantizeLinear"), 10, "{name}: 5 per two layers");
        assert_eq!(count(&int8, "DequantizeLinear"), 10 + 14, "{name}");
        let float_matrices =
            int8.graph_proto().initializer.iter().filter(|t| {
                t.dims.len() == 2 && matches!(t.data_type(), 1 | 10) && t.dims != [1, 64]
            });
        let names: BTreeSet<&str> =
            float_matrices.map(trtforge_onnx::proto::TensorProto::name).collect();
        assert_eq!(names.len(), 3, "{name}: only the embedding tables stay float, not {names:?}");
        assert_eq!(count(&int8, "Transpose"), 2 * 4, "{name}: weight transposes are folded");
        assert!(int8.opset() >= 19, "{name}");
    }
}

#[test]
fn b05_nothing_masked_is_observed_or_quantized() {
    let Some(folder) = cases().map(|c| c.join("B05")) else { return };
    let text = std::fs::read_to_string(folder.join("absmax.json")).unwrap();
    let absmax: BTreeMap<String, f32> = serde_json::from_str(&text).unwrap();
    for (name, model) in models(&folder) {
        let survey = survey(&model).unwrap();
        let observe: BTreeSet<&String> = survey.observe.iter().collect();
        assert_eq!(observe, absmax.keys().collect(), "{name}");
        // Sentinel, mask and, for each of two layers, the masked scores that the Softmax reads.
        for layer in 0..2 {
            let scores = format!("/bert/encoder/layer.{layer}/attention/self/Add_output_0");
            assert!(survey.masked.contains(&scores), "{name}: {:?}", survey.masked);
        }
        let seen = survey.observe.iter().chain(&survey.watch);
        assert!(seen.clone().all(|tensor| !survey.masked.contains(tensor)), "{name}");
        let int8 = int8(&model, &absmax).model;
        for node in int8.graph_proto().node.iter().filter(|n| n.op_type() == "QuantizeLinear") {
            assert!(absmax.contains_key(&node.input[0]), "{name}: {}", node.input[0]);
        }
    }
}

#[test]
fn b14_clamped_constants_are_listed_and_finite() {
    let Some(folder) = cases().map(|c| c.join("B14")) else { return };
    for (name, model) in models(&folder) {
        let half = half(&model, &BTreeMap::default());
        let clamped: Vec<_> = half
            .decisions
            .iter()
            .filter(
                |d| matches!(&d.action, Action::ClampedConstant { to, .. } if *to == -MASK_IN_HALF),
            )
            .collect();
        assert_eq!(clamped.len(), 1, "{name}");
        assert!(half.warnings.iter().any(|w| w.contains("65504")), "{name}: {:?}", half.warnings);
        for node in half.model.graph_proto().node.iter().filter(|n| n.op_type() == "Constant") {
            let value = half.model.graph().constant(&node.output[0]).unwrap();
            if value.element_type.is_float() {
                assert!(value.to_f32().unwrap().iter().all(|v| v.is_finite()), "{name}");
            }
        }
    }
}

#[test]
fn b15_statistics_stay_fp32() {
    let Some((model, scales, _)) = load("B15", "model_decomposed.onnx", "feed.json") else {
        return;
    };
    let half = half(&model, &scales.absmax).model;
    let graph = half.graph();
    for op in ["Pow", "ReduceMean", "Sqrt"] {
        assert!(count(&half, op) > 0);
        for node in graph.nodes().iter().filter(|n| n.op_type() == op) {
            assert_eq!(graph.element_type(&node.output[0]), Some(ElementType::F32), "{op}");
        }
    }
    let epsilon = graph.nodes().iter().filter(|n| n.op_type() == "Sqrt").map(|sqrt| {
        let add = producer(&half, &sqrt.input[0]).unwrap();
        graph.constant(&add.input[1]).unwrap().to_f32().unwrap()[0]
    });
    assert!(epsilon.into_iter().all(|e| e == 1e-12), "epsilon is not rounded to 0");
}

#[test]
fn b15_operators_with_large_squares_stay_fp32() {
    let Some((model, scales, _)) = load("B15", "model_layernorm_op.onnx", "feed.json") else {
        return;
    };
    let half = half(&model, &scales.absmax).model;
    let graph = half.graph();
    let norms = graph.nodes().iter().filter(|n| n.op_type() == "LayerNormalization");
    let types: Vec<_> = norms.map(|n| graph.element_type(&n.output[0]).unwrap()).collect();
    // Only the first one sees the embeddings that are 400 times larger; the others' inputs stay small.
    assert_eq!(
        types,
        [ElementType::F32, ElementType::F16, ElementType::F16, ElementType::F16, ElementType::F16]
    );
}

#[test]
fn b20_a_node_is_skipped_by_its_output() {
    let Some((model, scales, feed)) = load("B20", "model.onnx", "feed.json") else { return };
    let gemms = survey(&model).unwrap().gemms;
    assert_eq!(gemms.len(), 14);
    let labels: BTreeSet<&String> = gemms.iter().map(|g| &g.label).collect();
    assert_eq!(labels.len(), 14, "labels tell nodes apart");
    assert!(gemms.iter().all(|g| g.layer.is_some()), "layers are told by their parameters");
    let policy = Policy { skip: vec![gemms[3].output.as_str().into()], ..Policy::default() };
    let int8 = quantize_with(&model, &scales, &policy).unwrap();
    check_written(&model, &int8, "B20");
    assert_eq!(quantized_products(&int8.model).len(), 13);
    let skipped: Vec<_> = int8.decisions.iter().filter(|d| d.action == Action::Skipped).collect();
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0].tensor, gemms[3].weight);
    assert!(difference(&int8.model, &feed) < 0.2);
    for rewritten in [&int8, &half(&model, &scales.absmax)] {
        let nodes = &rewritten.model.graph_proto().node;
        let added = nodes.iter().filter(|n| n.op_type() == "Cast" && !n.name().is_empty());
        assert!(added.count() > 0, "added nodes have names though the others have none");
    }
}

#[test]
fn b22_the_outer_weight_stays_for_the_branches() {
    let Some((model, scales, _)) = load("B22", "model.onnx", "feed_else.json") else { return };
    for rewritten in [half(&model, &scales.absmax), int8(&model, &scales.absmax)] {
        let weight = rewritten.model.graph().initializer("classifier.weight_T").unwrap();
        assert_eq!(weight.element_type, ElementType::F32, "branches are FP32");
        let tanh = "/bert/pooler/activation/Tanh_output_0";
        assert_eq!(rewritten.model.graph().element_type(tanh), Some(ElementType::F32));
    }
}

#[test]
fn b25_scales_lie_on_the_axis_of_the_output_channels() {
    const SCALES: [f32; 3] = [1.269_223_5e-5, 0.005_351_872, 0.054_907_862];
    let mut outputs = vec![];
    for (file, axis, dims) in
        [("model_transB1.onnx", 0, [3, 64]), ("model_transB0.onnx", 1, [64, 3])]
    {
        let Some((model, scales, feed)) = load("B25", file, "feed.json") else { return };
        let int8 = quantize_with(&model, &scales, &Policy::default()).unwrap();
        check_written(&model, &int8, file);
        let products = quantized_products(&int8.model);
        assert_eq!(products.len(), 14);
        let classifier = dequantized_weight(&int8.model, products[13]).unwrap();
        assert_eq!((classifier.axis, classifier.dims.as_slice()), (axis, dims.as_slice()));
        for (found, expected) in classifier.scales.iter().zip(SCALES) {
            assert!((found / expected - 1.0).abs() < 1e-3, "{:?}", classifier.scales);
        }
        // The first channel's scale is below FP16's normal range, so this product is FP32, and says so.
        assert_eq!(classifier.scale_type, ElementType::F32);
        let decision =
            int8.decisions.iter().find(|d| d.tensor.starts_with("classifier.weight")).unwrap();
        assert!(decision.reason.contains("full precision"), "{}", decision.reason);
        outputs.push(logits(&int8.model, &feed));
    }
    let [a, b] = &outputs[..] else { panic!() };
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5), "{a:?} {b:?}");
}

#[test]
fn b27_quantized_models_are_refused_by_node_and_reason() {
    let Some(folder) = cases().map(|c| c.join("B27")) else { return };
    for (file, node, words) in [
        ("model_uint8.onnx", "act_QuantizeLinear", "zero point 128"),
        ("model_int8.onnx", "QuantizeLinear", "already quantized"),
        ("model_dynamic.onnx", "dyn_q", "DynamicQuantizeLinear"),
    ] {
        let model = Model::open(&folder.join(file)).unwrap();
        let errors = [
            survey(&model).unwrap_err(),
            quantize_with(&model, &Scales::default(), &Policy::default()).unwrap_err(),
            trtforge_quantize::to_half(&model, &BTreeMap::new(), &HalfOptions::default())
                .unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, QuantizeError::AlreadyQuantized { .. }), "{file}: {error}");
            let text = error.to_string();
            assert!(text.contains(node) && text.contains(words), "{file}: {text}");
        }
    }
}
