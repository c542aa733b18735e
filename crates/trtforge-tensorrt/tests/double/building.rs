//! Plans built by the double of TensorRT 11.4, which with the double's driver needs no GPU.

use std::ops::ControlFlow;
use std::path::Path;

use trtforge_tensorrt::{
    BuildOptions, ErrorKind, OptimizationProfile, Plan, Progress, Sdk, TensorRtError, build,
    deserialize,
};

use crate::common::matmul;
use crate::support::library;

fn profile() -> OptimizationProfile {
    serde_json::from_str(r#"{"x":[[1,8],[4,8],[8,8]]}"#).unwrap()
}

/// The recording that stands for the model `x[batch, 8]` to `y[batch, 4]`.
fn recording() -> trtforge_double::Recording {
    use trtforge_double::{Tensor, TensorType::Float32};
    trtforge_double::Recording {
        inputs: vec![Tensor::new("x", Float32, &["batch", "8"])],
        outputs: vec![Tensor::new("y", Float32, &["batch", "4"])],
        layers: vec!["product".into()],
        ..trtforge_double::Recording::default()
    }
}

/// A model in a folder, and the double told of its recording.
fn model(folder: &Path) -> std::path::PathBuf {
    let (onnx, recorded) = (folder.join("tiny.onnx"), folder.join("tiny.json"));
    matmul().save(&onnx).unwrap();
    recording().save(&recorded);
    trtforge_double::record_from(&recorded);
    onnx
}

fn build_with(
    folder: &Path,
    options: &BuildOptions,
    progress: &(dyn Fn(Progress<'_>) -> ControlFlow<()> + Sync),
) -> Result<Plan, TensorRtError> {
    let onnx = model(folder);
    build(&library(Sdk::TensorRt), &onnx, &[profile()], options, progress)
}

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn tensorrt_builds_a_plan_with_the_profiles_given() {
    let _double = trtforge_double::exclusive();
    let folder = tempfile::tempdir().unwrap();
    let plan = build_with(folder.path(), &BuildOptions::default(), &go_on).unwrap();
    assert_eq!(plan.layers, 1);
    assert!(plan.log[0].message.contains("TEST DOUBLE"), "{:?}", plan.log);
    let engine = deserialize(&library(Sdk::TensorRt), plan.bytes()).unwrap();
    assert_eq!(engine.profiles().unwrap(), [profile()]);
    drop(engine);
    drop(plan);
    trtforge_double::account().assert_clean();
}

#[test]
fn every_call_of_a_build_that_fails_is_an_error_and_leaves_nothing() {
    let _double = trtforge_double::exclusive();
    let calls = [
        ("createInferBuilder", ErrorKind::Failed, "made no builder"),
        ("createInferBuilder/garbage", ErrorKind::Failed, "made no builder"),
        ("createNetworkV2", ErrorKind::Failed, "made no network"),
        ("createBuilderConfig", ErrorKind::Failed, "made no builder configuration"),
        ("createNvOnnxParser", ErrorKind::Failed, "made no ONNX parser"),
        ("parseFromFile", ErrorKind::BadInput, "told to fail"),
        ("parseFromFile/silent", ErrorKind::Failed, "without saying why"),
        ("createOptimizationProfile", ErrorKind::Failed, "made no optimization profile"),
        ("setDimensions", ErrorKind::Failed, "shapes of input `x`"),
        ("isValid", ErrorKind::Failed, "did not take the optimization profile"),
        ("addOptimizationProfile", ErrorKind::Failed, "did not take the optimization profile"),
        ("buildSerializedNetwork", ErrorKind::Failed, "told to fail"),
    ];
    for (call, kind, expected) in calls {
        trtforge_double::reset();
        trtforge_double::fail_at(call, 1);
        let folder = tempfile::tempdir().unwrap();
        let error = build_with(folder.path(), &BuildOptions::default(), &go_on).unwrap_err();
        assert_eq!(error.kind(), kind, "{call}: {error}");
        assert!(error.to_string().contains(expected), "{call}: {error}");
        assert_eq!(trtforge_double::account().calls[call], 1, "{call} was not used");
        drop(error);
        trtforge_double::account().assert_clean();
    }
}

#[test]
fn a_cancelled_build_ends_and_leaves_nothing() {
    let _double = trtforge_double::exclusive();
    let folder = tempfile::tempdir().unwrap();
    let cancel = |progress: Progress<'_>| match progress {
        Progress::Step { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let error = build_with(folder.path(), &BuildOptions::default(), &cancel).unwrap_err();
    assert!(matches!(error, TensorRtError::Cancelled { .. }), "{error}");
    trtforge_double::account().assert_clean();
}
