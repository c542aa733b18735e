//! Every small model of the shared cases, run against the logits recorded for it.

mod common;

use std::fs;
use std::path::Path;

use common::{Rows, cases, feed, inputs, models};
use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, ExecError, Executor, NamedValue, Value};
use trtforge_onnx::{ElementType, Model};

fn largest_difference(outputs: &[NamedValue], feed: &Rows) -> f32 {
    let logits: Vec<Vec<f32>> = serde_json::from_value(feed["logits"].clone()).unwrap();
    let found = outputs[0].1.as_f32().unwrap();
    assert_eq!(found.shape(), [logits.len(), logits[0].len()]);
    found.iter().zip(logits.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn load(path: &Path) -> EmbeddedExecutor {
    EmbeddedExecutor::load(path, EmbeddedOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn run(executor: &dyn Executor, feed: &Rows) -> Vec<NamedValue> {
    executor.run(&inputs(executor, feed)).unwrap()
}

#[test]
fn every_model_gives_its_recorded_logits() {
    let Some(cases) = cases() else { return };
    let mut compared = 0;
    for folder in ["BASE", "B05", "B11", "B12", "B14", "B15", "B20", "B25", "B31"] {
        let feed = feed(&cases.join(folder).join("feed.json"));
        for path in models(&cases.join(folder)) {
            let executor = load(&path);
            let difference = largest_difference(&run(&executor, &feed), &feed);
            assert!(difference <= 1e-4, "{}: {difference}", path.display());
            compared += 1;
        }
    }
    assert!(compared >= 30, "only {compared} models found");
}

#[test]
fn b11_ports_have_the_types_the_graph_declares() {
    let Some(cases) = cases() else { return };
    let types = |name: &str| -> Vec<ElementType> {
        load(&cases.join("B11").join(name)).inputs().iter().map(|port| port.element_type).collect()
    };
    assert_eq!(types("model_int32.onnx"), [ElementType::I32; 3]);
    assert_eq!(types("model_int64.onnx"), [ElementType::I64; 3]);
    assert!(types("model_mixed.onnx").contains(&ElementType::I32));
    assert!(types("model_mixed.onnx").contains(&ElementType::I64));
}

#[test]
fn b22_both_branches_run() {
    let Some(cases) = cases() else { return };
    let executor = load(&cases.join("B22/model.onnx"));
    for branch in ["feed_then.json", "feed_else.json"] {
        let feed = feed(&cases.join("B22").join(branch));
        let difference = largest_difference(&run(&executor, &feed), &feed);
        assert!(difference <= 1e-4, "{branch}: {difference}");
    }
}

#[test]
fn b27_quantized_models_run_near_their_fp32_logits() {
    let Some(cases) = cases() else { return };
    let feed = feed(&cases.join("B27/feed.json"));
    for path in models(&cases.join("B27")) {
        let difference = largest_difference(&run(&load(&path), &feed), &feed);
        assert!(difference > 0.0 && difference <= 0.05, "{}: {difference}", path.display());
    }
}

#[test]
fn b30_external_data_is_read_or_the_fault_is_named() {
    let Some(cases) = cases() else { return };
    let feed = feed(&cases.join("B30/feed.json"));
    let difference =
        largest_difference(&run(&load(&cases.join("B30/good/model.onnx")), &feed), &feed);
    assert!(difference <= 1e-4, "{difference}");
    for folder in ["missing", "truncated", "escape", "absolute"] {
        let path = cases.join("B30").join(folder).join("model.onnx");
        let error = EmbeddedExecutor::load(&path, EmbeddedOptions::default()).err().unwrap();
        assert!(matches!(error, ExecError::Model(_)), "{folder}: {error}");
    }
}

#[test]
fn b31_weights_listed_as_inputs_are_not_asked_for() {
    let Some(cases) = cases() else { return };
    for path in models(&cases.join("B31")) {
        let executor = load(&path);
        let mut names: Vec<&str> =
            executor.inputs().iter().map(|port| port.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["attention_mask", "input_ids", "token_type_ids"], "{}", path.display());
    }
}

#[test]
fn b35_names_with_colons_and_fixed_sizes() {
    let Some(cases) = cases() else { return };
    let feed = feed(&cases.join("BASE/feed.json"));
    let colon = load(&cases.join("B35/model_colon_names.onnx"));
    assert!(colon.inputs().iter().any(|port| port.name == "input_ids:0"));
    assert!(largest_difference(&run(&colon, &feed), &feed).is_finite());
    // Six rows do not fit a batch fixed to four.
    let fixed = load(&cases.join("B35/model_static_batch.onnx"));
    let error = fixed.run(&inputs(&fixed, &feed)).unwrap_err();
    assert!(
        matches!(error, ExecError::ShapeMismatch { ref declared, .. } if declared.starts_with("4, ")),
        "{error}"
    );
}

#[test]
fn b41_a_nan_weight_reaches_the_logits_of_its_rows_and_no_others() {
    let Some(cases) = cases() else { return };
    let executor = load(&cases.join("B41/model.onnx"));
    let vocabulary = fs::read_to_string(cases.join("B41/vocab.txt")).unwrap();
    let quiet = vocabulary.lines().position(|word| word == "quiet").unwrap() as i64;
    let rows = [[2, quiet, 3], [2, 100, 3]].concat();
    let array =
        |values: Vec<i64>| Value::from(ArrayD::from_shape_vec(IxDyn(&[2, 3]), values).unwrap());
    let given: Vec<NamedValue> = vec![
        ("input_ids".into(), array(rows)),
        ("attention_mask".into(), array(vec![1; 6])),
        ("token_type_ids".into(), array(vec![0; 6])),
    ];
    let outputs = executor.run(&given).unwrap();
    let logits: Vec<f32> = outputs[0].1.as_f32().unwrap().iter().copied().collect();
    assert!(
        logits[..2].iter().all(|x| x.is_nan()) && logits[2..].iter().all(|x| x.is_finite()),
        "{logits:?}"
    );
}

/// Every float tensor of every exporter style: `can_tap` says what then happens, and `keep` brings all of them out without
/// changing the result.
#[test]
fn can_tap_is_true_and_keep_brings_out_the_rest() {
    let Some(cases) = cases() else { return };
    let feed = feed(&cases.join("BASE/feed.json"));
    for path in models(&cases.join("BASE")) {
        let executor = load(&path);
        let given = inputs(&executor, &feed);
        let model = Model::open(&path).unwrap();
        let graph = model.graph();
        let tensors: Vec<String> = graph
            .nodes()
            .iter()
            .filter(|node| node.op_type() != "Constant")
            .flat_map(|node| node.output.clone())
            .filter(|name| graph.element_type(name).is_some_and(ElementType::is_float))
            .collect();
        let (open, fused): (Vec<_>, Vec<_>) =
            tensors.iter().cloned().partition(|name| executor.can_tap(name));
        let mut seen = 0;
        executor.run_tapped(&given, &open, &mut |_, _| seen += 1).unwrap();
        assert_eq!(seen, open.len());
        for name in &fused {
            let error = executor
                .run_tapped(&given, std::slice::from_ref(name), &mut |_, _| {})
                .unwrap_err();
            assert!(matches!(error, ExecError::FusedTap { .. }), "{error}");
        }
        eprintln!("{}: {} tappable, {} fused", path.display(), open.len(), fused.len());

        let options = EmbeddedOptions { keep: tensors.clone(), ..Default::default() };
        let keeping = EmbeddedExecutor::load(&path, options).unwrap();
        assert!(tensors.iter().all(|name| keeping.can_tap(name)), "{}", path.display());
        let mut seen = 0;
        let outputs = keeping.run_tapped(&given, &tensors, &mut |_, _| seen += 1).unwrap();
        assert_eq!(seen, tensors.len());
        assert!(largest_difference(&outputs, &feed) <= 1e-4);
    }
}
