//! Running from a tensor on: the same outputs as the whole run, to the bit, from every tensor of every exporter's style.

mod common;

use std::collections::BTreeMap;

use common::{cases, feed, inputs, models};
use ndarray::{ArrayD, IxDyn};
use trtforge_exec::{
    EmbeddedExecutor, EmbeddedOptions, ExecError, Executor, HeldTensor, NamedValue, conformance,
    crossing,
};
use trtforge_onnx::Model;

fn bits(tensor: &HeldTensor) -> Vec<u32> {
    tensor.to_f32().expect("a float output").iter().map(|x| x.to_bits()).collect()
}

/// Starts at every tensor that nodes make and compares the output with that of the whole run.
fn every_start(model: &Model, inputs: &dyn Fn(&dyn Executor) -> Vec<NamedValue>) -> usize {
    let graph = model.graph();
    let computed = graph.nodes().iter().filter(|node| node.op_type() != "Constant");
    let tensors: Vec<String> =
        computed.flat_map(|node| node.output.clone()).filter(|name| !name.is_empty()).collect();
    let options = EmbeddedOptions { keep: tensors.clone(), ..EmbeddedOptions::default() };
    let executor = EmbeddedExecutor::from_model(model, options).unwrap();
    let output = executor.outputs()[0].name.clone();
    let inputs = inputs(&executor);
    let names: Vec<String> =
        executor.inputs().iter().map(|port| port.name.clone()).chain(tensors.clone()).collect();
    // Graph inputs can be asked for like anything else, so that they can be given again.
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    let held = executor.run_holding(&inputs, &wanted).unwrap();
    let held: BTreeMap<&str, HeldTensor> = wanted.iter().copied().zip(held).collect();
    let whole = bits(&held[output.as_str()]);
    for start in &tensors {
        let mut given: Vec<&str> = vec![start];
        let crossing = crossing(model, &[start], &[&output]);
        given.extend(crossing.iter().map(String::as_str));
        let given: Vec<(&str, &HeldTensor)> =
            given.iter().map(|name| (*name, &held[name])).collect();
        let again = executor.run_from(&given, &[&output]).unwrap();
        assert_eq!(bits(&again[0]), whole, "from {start}");
    }
    tensors.len()
}

#[test]
fn outputs_of_the_common_suite_s_model_from_each_of_its_tensors() {
    let array = |values: Vec<i64>| ArrayD::from_shape_vec(IxDyn(&[2, 2]), values).unwrap();
    let inputs = |_: &dyn Executor| -> Vec<NamedValue> {
        vec![
            ("ids".into(), array(vec![0, 1, 2, 1]).into()),
            ("mask".into(), array(vec![1, 1, 1, 0]).into()),
        ]
    };
    assert_eq!(every_start(&conformance::checks()[0].model().unwrap(), &inputs), 6);
}

/// The classifier of the suite: `logits` behind `product`, which is computed from `scaled`.
fn classifier() -> EmbeddedExecutor {
    let keep = ["hidden", "scaled", "product"].map(str::to_owned).to_vec();
    let options = EmbeddedOptions { keep, ..EmbeddedOptions::default() };
    EmbeddedExecutor::from_model(&conformance::checks()[0].model().unwrap(), options).unwrap()
}

#[test]
fn a_changed_tensor_changes_what_is_behind_it() {
    let executor = classifier();
    // By hand: [1 0] · W = [1 2], [0 1] · W = [3 4], plus 0.5. Neither ids nor mask are given.
    let scaled = HeldTensor::from_f32(&[1, 2, 2], vec![1.0, 0.0, 0.0, 1.0]);
    let found = executor.run_from(&[("scaled", &scaled)], &["logits", "product"]).unwrap();
    assert_eq!(found[0].to_f32().unwrap(), [1.5, 2.5, 3.5, 4.5]);
    assert_eq!(found[1].to_f32().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(found[0].shape(), [1, 2, 2]);
    let value = found[0].clone().into_value("logits").unwrap();
    assert_eq!(value.as_f32().unwrap().shape(), [1, 2, 2]);
    assert_eq!(found[0].with_f32(|values| values[3]), Some(4.5));
}

#[test]
fn what_is_missing_unknown_or_given_twice_is_an_error() {
    let executor = classifier();
    let tensor = HeldTensor::from_f32(&[1, 2, 2], vec![0.0; 4]);
    let missing = executor.run_from(&[("hidden", &tensor)], &["logits"]).unwrap_err();
    assert!(missing.to_string().contains("mask"), "{missing}");
    for (given, wanted) in [("nothing", "logits"), ("weight", "logits"), ("scaled", "nothing")] {
        let error = executor.run_from(&[(given, &tensor)], &[wanted]).unwrap_err();
        assert!(matches!(error, ExecError::UnknownTap { .. }), "{given} {wanted}: {error}");
    }
    let twice = executor.run_from(&[("scaled", &tensor), ("scaled", &tensor)], &["logits"]);
    assert!(matches!(twice, Err(ExecError::DuplicateInput { ref input }) if input == "scaled"));
    let fused = EmbeddedExecutor::from_model(
        &conformance::checks()[0].model().unwrap(),
        EmbeddedOptions::default(),
    )
    .unwrap();
    let error = fused.run_from(&[("product", &tensor)], &["logits"]).unwrap_err();
    assert!(matches!(error, ExecError::FusedTap { ref tensor } if tensor == "product"), "{error}");
}

#[test]
fn the_logits_of_every_exporter_s_style_from_each_of_its_tensors() {
    let Some(cases) = cases() else { return };
    let feed = feed(&cases.join("BASE/feed.json"));
    let models = models(&cases.join("BASE"));
    assert!(!models.is_empty());
    for path in models {
        let starts = every_start(&Model::open(&path).unwrap(), &|executor| inputs(executor, &feed));
        eprintln!("{}: {starts} starts", path.display());
    }
}
