//! Calls that fail once, beyond those of opening, staging and running: graphs, inspector, weights, outputs of unknown shape.

use miette::Diagnostic;
use trtforge_double::{Batch, Recording, Tensor, TensorType, Values};
use trtforge_exec::Executor;
use trtforge_tensorrt::{
    DeviceExecutor, DeviceOptions, ErrorKind, RunHow, Sdk, TensorRtError, deserialize,
};

use crate::support::{floats, library, one_row, with_profiles, with_row};

fn open(recording: &Recording) -> Result<DeviceExecutor, TensorRtError> {
    DeviceExecutor::open(&library(Sdk::TensorRt), &recording.plan(), &DeviceOptions::default())
}

fn recording() -> Recording {
    with_row(with_profiles(), &[1, 2, 3], [0.25, -4.0])
}

/// The text names the call, and there is help.
#[track_caller]
fn assert_told(error: &TensorRtError, call: &str, kind: ErrorKind, expected: &str) {
    assert_eq!(error.kind(), kind, "{call}: {error}");
    assert!(error.to_string().contains(expected), "{call}: {error}");
    assert!(error.help().is_some_and(|help| !help.to_string().is_empty()), "{call} has no help");
}

#[test]
fn where_no_graph_can_be_made_the_run_goes_without_and_says_why() {
    let _double = trtforge_double::exclusive();
    let graph = RunHow { graph: true, ..RunHow::default() };
    for call in
        ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuGraphUpload"]
    {
        trtforge_double::reset();
        let executor = open(&recording()).unwrap();
        let mut staged = executor.stage(&one_row(&[1, 2, 3])).unwrap();
        trtforge_double::fail_at(call, 1);
        let times = staged.run(graph).unwrap_or_else(|error| panic!("{call}: {error}"));
        assert!(!times.graph, "{call}");
        let refusal = staged.graph_refusal().unwrap_or_default().to_owned();
        assert!(refusal.contains(call), "{call}: {refusal}");
        assert_eq!(floats(&staged.outputs().unwrap()), [0.25, -4.0], "{call}");
        drop(staged);
        drop(executor);
        trtforge_double::account().assert_clean();
    }
    // The first run of a shape, outside the capture, and the one inside it.
    for nth in [1, 2] {
        trtforge_double::reset();
        let executor = open(&recording()).unwrap();
        let mut staged = executor.stage(&one_row(&[1, 2, 3])).unwrap();
        trtforge_double::fail_at("enqueueV3", nth);
        let ran = staged.run(graph);
        assert_eq!(ran.is_err(), nth == 1, "{ran:?}");
        drop(staged);
        drop(executor);
        trtforge_double::account().assert_clean();
    }
}

#[test]
fn an_inspector_that_is_missing_or_silent_is_an_error() {
    let _double = trtforge_double::exclusive();
    let cases = [
        ("createEngineInspector", "made no engine inspector"),
        ("getEngineInformation", "said nothing"),
    ];
    for (call, expected) in cases {
        trtforge_double::reset();
        let engine = deserialize(&library(Sdk::TensorRt), &with_profiles().plan()).unwrap();
        trtforge_double::fail_at(call, 1);
        assert_told(&engine.inspect().unwrap_err(), call, ErrorKind::Failed, expected);
        // The next one works.
        engine.inspect().unwrap();
        drop(engine);
        trtforge_double::account().assert_clean();
    }
}

#[test]
fn weights_are_streamed_with_the_budget_the_library_proposes() {
    let _double = trtforge_double::exclusive();
    let streaming = Recording { streamable_weights: Some(1 << 20), ..recording() };
    let executor = open(&streaming).unwrap();
    let account = trtforge_double::account();
    assert_eq!(account.options["weight_streaming_budget"], (1 << 19).to_string());
    drop(executor);
    trtforge_double::account().assert_clean();
    trtforge_double::fail_at("setWeightStreamingBudgetV2", 1);
    let error = open(&streaming).err().unwrap();
    assert_told(&error, "setWeightStreamingBudgetV2", ErrorKind::Failed, "weight streaming budget");
    trtforge_double::account().assert_clean();
}

/// `x` FP32 `[n]` to `y` FP32 of a length that only the values tell.
fn unknown_shape() -> Recording {
    let batch = |x: &[f32], y: &[f32]| Batch {
        inputs: [("x".to_owned(), Values::f32(&[x.len() as i64], x))].into(),
        outputs: [("y".to_owned(), Values::f32(&[y.len() as i64], y))].into(),
    };
    let recording = Recording {
        inputs: vec![Tensor::new("x", TensorType::Float32, &["n"])],
        outputs: vec![Tensor::new("y", TensorType::Float32, &["found"])],
        batches: vec![batch(&[1.0, 0.0], &[1.0]), batch(&[2.0, 3.0], &[2.0, 3.0, 5.0])],
        ..Recording::default()
    };
    recording.with_profile(&[("x", [&[1], &[2], &[2]])])
}

#[test]
fn outputs_of_unknown_shape_get_their_memory_while_the_engine_runs() {
    let _double = trtforge_double::exclusive();
    let executor = open(&unknown_shape()).unwrap();
    let input = |values: Vec<f32>| {
        vec![("x".to_owned(), ndarray::ArrayD::from_shape_vec(vec![2], values).unwrap().into())]
    };
    // Growing and shrinking.
    for (x, y) in [(vec![1.0, 0.0], vec![1.0]), (vec![2.0, 3.0], vec![2.0, 3.0, 5.0])] {
        for _ in 0..2 {
            assert_eq!(floats(&executor.run(&input(x.clone())).unwrap()), y);
        }
    }
    let mut staged = executor.stage(&input(vec![1.0, 0.0])).unwrap();
    let times = staged.run(RunHow { graph: true, ..RunHow::default() }).unwrap();
    assert!(!times.graph && staged.graph_refusal().is_some());
    assert_eq!(floats(&staged.outputs().unwrap()), [1.0]);
    drop(staged);
    drop(executor);
    trtforge_double::account().assert_clean();
}

#[test]
fn no_memory_for_an_output_of_unknown_shape_is_told_as_such() {
    let _double = trtforge_double::exclusive();
    let executor = open(&unknown_shape()).unwrap();
    let input = vec![(
        "x".to_owned(),
        ndarray::ArrayD::from_shape_vec(vec![2], vec![2.0, 3.0]).unwrap().into(),
    )];
    let mut staged = executor.stage(&input).unwrap();
    trtforge_double::fail_at("cuMemAlloc", 1);
    let error = staged.run(RunHow::default()).unwrap_err();
    assert_told(&error, "cuMemAlloc", ErrorKind::Failed, "CUDA_ERROR_OUT_OF_MEMORY");
    drop(staged);
    drop(executor);
    trtforge_double::account().assert_clean();
    trtforge_double::reset();
    let executor = open(&unknown_shape()).unwrap();
    trtforge_double::fail_at("setOutputAllocator", 1);
    let error = executor.stage(&input).err().unwrap();
    assert_told(&error, "setOutputAllocator", ErrorKind::Failed, "setOutputAllocator");
    drop(executor);
    trtforge_double::account().assert_clean();
}
