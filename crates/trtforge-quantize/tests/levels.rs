//! Levels `attention` and `residual`: which tensors get a pair, which scale, what moves, what stays, and what runs.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{
    Feed, cases, check_written, count, difference, initializer, int8_at, magnitudes_at, models,
    producer, quantized_products,
};
use half::f16;
use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, Model};
use trtforge_quantize::{
    Action, Level, Policy, Rewritten, SOFTMAX_SCALE, smooth, smoothable, survey,
};

const LEVELS: [Level; 3] = [Level::Gemm, Level::Attention, Level::Residual];

fn is_dequantized(model: &Model, tensor: &str) -> bool {
    producer(model, tensor).is_some_and(|node| node.op_type() == "DequantizeLinear")
}

/// MatMuls of two activations that both come through a pair.
fn quantized_attention_products(model: &Model) -> Vec<&NodeProto> {
    let nodes = model.graph_proto().node.iter().filter(|node| node.op_type() == "MatMul");
    let weighted: Vec<&NodeProto> = quantized_products(model);
    let quantized = |node: &&NodeProto| node.input.iter().all(|i| is_dequantized(model, i));
    nodes.filter(|n| quantized(n) && !weighted.iter().any(|w| w.output == n.output)).collect()
}

fn quantized_adds(model: &Model) -> usize {
    let adds = model.graph_proto().node.iter().filter(|node| node.op_type() == "Add");
    adds.filter(|node| node.input.iter().all(|i| is_dequantized(model, i))).count()
}

/// The scales of the pairs that a QuantizeLinear of each softmax output has, with their types.
fn softmax_scales(model: &Model) -> Vec<(ElementType, f32)> {
    let quantize = model.graph_proto().node.iter().filter(|n| n.op_type() == "QuantizeLinear");
    let of_softmax =
        quantize.filter(|q| producer(model, &q.input[0]).is_some_and(|n| n.op_type() == "Softmax"));
    let scale = |q: &NodeProto| {
        let scale = initializer(model, &q.input[1]).unwrap();
        (scale.element_type, scale.to_f32().unwrap()[0])
    };
    of_softmax.map(scale).collect()
}

/// Every level of every model of a case: what is quantized, and that the logits stay near.
///
/// - `layers`: attentions per model, each with two residual Adds.
fn every_level(case: &str, feeds: &[&str], layers: usize) {
    let Some(folder) = cases().map(|c| c.join(case)) else { return };
    let feeds: Vec<Feed> = feeds.iter().map(|f| Feed::read(&folder.join(f))).collect();
    for (name, model) in models(&folder) {
        let masked = survey(&model).unwrap().masked;
        let mut before = None;
        for level in LEVELS {
            let what = format!("{case}/{name} at {level}");
            let absmax = magnitudes_at(&model, level, &feeds.iter().collect::<Vec<_>>());
            let int8 = int8_at(&model, level, &absmax);
            check_written(&model, &int8, &what);
            let pairs = count(&int8.model, "QuantizeLinear");
            let before = before.replace(pairs).unwrap_or(pairs);
            let (attention, residual) = match level {
                Level::Gemm => (0, 0),
                Level::Attention => (layers, 0),
                Level::Residual => (layers, layers),
            };
            // Q, Kᵀ, softmax output and V; then the projection side alone, as the other side has a pair already.
            let added = match level {
                Level::Gemm => 0,
                Level::Attention => 4 * layers,
                Level::Residual => 2 * layers,
            };
            assert_eq!(pairs, before + added, "{what}");
            assert_eq!(quantized_attention_products(&int8.model).len(), 2 * attention, "{what}");
            assert_eq!(quantized_adds(&int8.model), 2 * residual, "{what}");
            let expected = (ElementType::F16, f16::from_f32(SOFTMAX_SCALE).to_f32());
            assert_eq!(softmax_scales(&int8.model), vec![expected; attention], "{what}");
            nothing_masked_is_quantized(&int8, &masked, &what);
            scale_is_on_q(&int8.model, attention, &what);
            for feed in &feeds {
                let difference = difference(&int8.model, feed);
                eprintln!("{what}: {difference:.5}");
                assert!(difference < 0.2, "{what}: off by {difference}");
            }
        }
    }
}

fn nothing_masked_is_quantized(int8: &Rewritten, masked: &BTreeSet<String>, what: &str) {
    for decision in &int8.decisions {
        let quantized = matches!(decision.action, Action::Int8Activation { .. });
        assert!(!quantized || !masked.contains(&decision.tensor), "{what}: {decision:?}");
    }
    for node in int8.model.graph_proto().node.iter().filter(|n| n.op_type() == "Softmax") {
        assert!(!is_dequantized(&int8.model, &node.input[0]), "{what}: {}", node.name());
    }
}

/// Between the first product and its Softmax there is the mask alone.
fn scale_is_on_q(model: &Model, attentions: usize, what: &str) {
    let softmaxes = model.graph_proto().node.iter().filter(|n| n.op_type() == "Softmax");
    let from_product = softmaxes.filter(|softmax| {
        let add = producer(model, &softmax.input[0]).unwrap();
        assert_eq!(add.op_type(), "Add", "{what}");
        let product = producer(model, &add.input[0]).unwrap();
        let quantize = || producer(model, &producer(model, &product.input[0])?.input[0]);
        product.op_type() == "MatMul"
            && quantize()
                .and_then(|q| producer(model, &q.input[0]))
                .is_some_and(|source| source.op_type() == "Mul")
    });
    assert_eq!(from_product.count(), attentions, "{what}");
}

#[test]
fn base_models_of_every_exporter() {
    every_level("BASE", &["feed.json"], 2);
}

#[test]
fn b05_mask_sentinels() {
    every_level("B05", &["feed.json"], 2);
}

#[test]
fn b14_mask_constants_beyond_half() {
    every_level("B14", &["feed.json"], 2);
}

#[test]
fn b20_unnamed_nodes() {
    every_level("B20", &["feed.json"], 2);
}

#[test]
fn b22_branches_stay_as_they_are() {
    every_level("B22", &["feed_else.json", "feed_then.json"], 2);
    let Some(folder) = cases().map(|c| c.join("B22")) else { return };
    let feed = Feed::read(&folder.join("feed_else.json"));
    for (name, model) in models(&folder) {
        let absmax = magnitudes_at(&model, Level::Residual, &[&feed]);
        let int8 = int8_at(&model, Level::Residual, &absmax);
        let branches = |m: &Model| -> Vec<NodeProto> {
            m.graph_proto().node.iter().filter(|n| n.op_type() == "If").cloned().collect()
        };
        assert!(!branches(&model).is_empty());
        assert_eq!(branches(&model), branches(&int8.model), "{name}");
    }
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::read(&folder.join("feed.json"));
    for (name, model) in models(&folder) {
        let absmax = magnitudes_at(&model, Level::Residual, &[&feed]);
        let (a, b) =
            (int8_at(&model, Level::Residual, &absmax), int8_at(&model, Level::Residual, &absmax));
        assert_eq!(a.model.fingerprint(), b.model.fingerprint(), "{name}");
        assert_eq!(a.decisions, b.decisions, "{name}");
        // Every tensor has one decision, and every pair one too.
        let tensors: Vec<_> = a.decisions.iter().map(|d| (&d.tensor, &d.node)).collect();
        assert_eq!(tensors.iter().collect::<BTreeSet<_>>().len(), tensors.len(), "{name}");
        let pairs =
            a.decisions.iter().filter(|d| matches!(d.action, Action::Int8Activation { .. }));
        assert_eq!(pairs.count(), count(&a.model, "QuantizeLinear"), "{name}");
    }
}

#[test]
fn a_smoothed_branch_does_not_serve_the_residual_side() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::read(&folder.join("feed.json"));
    for (name, model) in models(&folder) {
        let ranges = |n: usize| (0..n).map(|j| if j % 16 == 1 { 1.2 } else { 0.3 }).collect();
        let targets = smoothable(&model, &Policy::default()).unwrap().into_iter();
        let channels: BTreeMap<String, Vec<f32>> =
            targets.map(|target| (target.tensor, ranges(target.channels))).collect();
        let policy = Policy { level: Level::Residual, ..Policy::default() };
        let smoothed = smooth(&model, &channels, 0.8, &policy).unwrap().model;
        let absmax = magnitudes_at(&smoothed, Level::Residual, &[&feed]);
        let int8 = int8_at(&smoothed, Level::Residual, &absmax);
        check_written(&smoothed, &int8, &name);
        // 10 for the products, 4 for each attention, and now both sides of each of four Adds.
        assert_eq!(count(&int8.model, "QuantizeLinear"), 10 + 2 * 4 + 4 * 2, "{name}");
        assert_eq!(quantized_adds(&int8.model), 4, "{name}");
        for decision in int8.decisions.iter().filter(|d| d.reason.contains("identity side")) {
            assert!(!decision.tensor.contains("/smoothed"), "{name}: {decision:?}");
        }
        let difference = difference(&int8.model, &feed);
        assert!(difference < 0.2, "{name}: off by {difference}");
    }
}
