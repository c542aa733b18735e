//! The canonical form of the base model in every exporter's style, and what the other rewrites make of it.

mod common;

use common::{
    Feed, canonical_of, cases, check_written, count, difference, executor, half, int8_at,
    magnitudes_at, models, quantized_products, same_interface, worst,
};
use trtforge_exec::Executor;
use trtforge_onnx::{ElementType, Model};
use trtforge_quantize::{Level, RewriteKind, smooth, smoothable, survey};

fn logits(model: &Model, feed: &Feed) -> Vec<f32> {
    let executor = executor(model, vec![]);
    let outputs = executor.run(&feed.inputs(&executor)).unwrap();
    outputs[0].1.as_f32().unwrap().iter().copied().collect()
}

#[test]
fn base_models_compute_the_same() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    for (name, model) in models(&folder) {
        let canonical = canonical_of(&model);
        same_interface(&model, &canonical.model, &name);
        assert_eq!(count(&canonical.model, "LayerNormalization"), 5, "{name}");
        assert_eq!(count(&canonical.model, "Gelu"), 2, "{name}");
        for gone in ["Constant", "Identity", "Sqrt", "Erf", "ReduceMean"] {
            assert_eq!(count(&canonical.model, gone), 0, "{name}: {gone}");
        }
        assert_eq!(canonical.near_misses, [], "{name}");
        let before = model.graph_proto().node.len();
        let after = canonical.model.graph_proto().node.len();
        let recorded = Feed::read(&folder.join("feed.json"));
        let mut furthest = 0.0;
        for feed in [Feed::of_any_ids(3, 17, 200), Feed::of_any_ids(1, 1, 200), recorded] {
            let pairs = logits(&model, &feed).into_iter().zip(logits(&canonical.model, &feed));
            furthest = pairs.map(|(a, b)| (a - b).abs()).fold(furthest, worst);
        }
        eprintln!("{name}: {before} nodes become {after}, outputs differ by {furthest:e}");
        assert!(furthest <= 1e-5, "{name}: {furthest}");
        let again = canonical_of(&canonical.model);
        assert_eq!(again.rewrites, [], "{name}");
        assert_eq!(again.model.fingerprint(), canonical.model.fingerprint(), "{name}");
    }
}

/// Every style gives the same counts: 5 pairs of two layers at `gemm`, 4 more per attention, 2 more per layer.
#[test]
fn base_models_are_recognised_at_every_level() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::read(&folder.join("feed.json"));
    for (name, model) in models(&folder) {
        let model = canonical_of(&model).model;
        assert_eq!(survey(&model).unwrap().gemms.len(), 14, "{name}");
        for (level, pairs) in [(Level::Gemm, 10), (Level::Attention, 18), (Level::Residual, 22)] {
            let absmax = magnitudes_at(&model, level, &[&feed]);
            let int8 = int8_at(&model, level, &absmax);
            check_written(&model, &int8, &name);
            assert_eq!(count(&int8.model, "QuantizeLinear"), pairs, "{name} at {level}");
            assert_eq!(quantized_products(&int8.model).len(), 14, "{name} at {level}");
            let off = difference(&int8.model, &feed);
            assert!(off < 0.2, "{name} at {level}: {off}");
        }
    }
}

#[test]
fn base_models_in_half_run_the_fused_operators_in_half() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::read(&folder.join("feed.json"));
    for (name, model) in models(&folder) {
        let model = canonical_of(&model).model;
        let half = half(&model, &magnitudes_at(&model, Level::Gemm, &[&feed]));
        let graph = half.model.graph();
        for node in graph.nodes() {
            let statistics = ["LayerNormalization", "Gelu"].contains(&node.op_type());
            let element_type = graph.element_type(&node.output[0]);
            assert!(!statistics || element_type == Some(ElementType::F16), "{name}: {node:?}");
        }
        let metadata = &half.model.proto().metadata_props;
        assert!(metadata.iter().all(|entry| entry.key() != "trtforge.canonical"), "{name}");
        let off = difference(&half.model, &feed);
        assert!(off < 0.05, "{name}: {off}");
    }
}

#[test]
fn base_models_are_smoothed_to_the_bit() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let feed = Feed::of_any_ids(2, 16, 200);
    for (name, model) in models(&folder) {
        let model = canonical_of(&model).model;
        let targets = smoothable(&model, &trtforge_quantize::Policy::default()).unwrap();
        let channels = targets
            .iter()
            .map(|target| {
                let ranges = (0..target.channels).map(|c| if c % 7 == 0 { 40.0 } else { 1.0 });
                (target.tensor.clone(), ranges.collect::<Vec<f32>>())
            })
            .collect();
        let smoothed =
            smooth(&model, &channels, 0.8, &trtforge_quantize::Policy::default()).unwrap();
        same_interface(&model, &smoothed.model, &name);
        let folded =
            smoothed.decisions.iter().filter(|d| d.reason.starts_with("folded into")).count();
        assert_eq!((smoothed.decisions.len(), folded), (10, 2), "{name}");
        let same = logits(&model, &feed) == logits(&smoothed.model, &feed);
        assert!(same, "{name}: factors are powers of two");
    }
}

#[test]
fn transposed_weights_are_folded_under_their_own_names() {
    let Some(folder) = cases().map(|c| c.join("BASE")) else { return };
    let path = folder.join("ts_opset13_runtime_transpose.onnx");
    let model = Model::open(&path).unwrap();
    let canonical = canonical_of(&model);
    let folded: Vec<_> =
        canonical.rewrites.iter().filter(|r| r.kind == RewriteKind::ConstantFolded).collect();
    assert_eq!(folded.len(), 12);
    for rewrite in folded {
        assert!(rewrite.tensor.ends_with(".weight"), "{rewrite:?}");
        let dims = |model: &Model| model.graph().initializer(&rewrite.tensor).unwrap().dims;
        let (mut before, after) = (dims(&model), dims(&canonical.model));
        before.reverse();
        assert_eq!(before, after, "{rewrite:?}");
    }
}
