//! What the tests share: the libraries that scripts/setup brings, small models, and libraries that lie.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use trtforge_onnx::proto::{ModelProto, NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model, build};
use trtforge_tensorrt::{
    BuildOptions, Library, OptimizationProfile, Plan, Progress, Sdk, TensorRtError,
};

/// TensorRT-RTX, or the test fails: a machine that runs the tests has run scripts/setup.
pub fn rtx() -> Library {
    Library::locate(Sdk::TensorRtRtx, None)
        .unwrap_or_else(|error| panic!("run scripts/setup: {error}"))
}

pub fn case(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: no shared cases here");
    None
}

pub fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub fn build_plan(onnx: &Path, profiles: &[OptimizationProfile]) -> Result<Plan, TensorRtError> {
    trtforge_tensorrt::build(&rtx(), onnx, profiles, &BuildOptions::default(), &go_on)
}

/// `x[batch, 8]` through `nodes` to `y[batch, 4]`; `w[8, 4]` is a weight.
pub fn model_of(nodes: Vec<NodeProto>, mut initializers: Vec<TensorProto>) -> Model {
    let batch = || Dim::Named("batch".to_owned());
    let x = build::value("x", ElementType::F32, &[batch(), Dim::Fixed(8)]);
    let y = build::value("y", ElementType::F32, &[batch(), Dim::Fixed(4)]);
    let weights: Vec<f32> = (0..32_u8).map(|i| f32::from(i) / 32.0 - 0.5).collect();
    initializers.push(build::tensor_f32("w", &[8, 4], &weights));
    build::model(13, build::graph(vec![x], vec![y], nodes, initializers)).unwrap()
}

pub fn matmul() -> Model {
    model_of(vec![build::node("MatMul", "product", &["x", "w"], &["y"], vec![])], vec![])
}

/// The proto bytes of a model that `check` would refuse to write.
pub fn unchecked(mut model: ModelProto, change: impl FnOnce(&mut ModelProto)) -> Vec<u8> {
    use prost::Message;
    change(&mut model);
    model.encode_to_vec()
}

pub fn batches(min: i64, opt: i64, max: i64) -> OptimizationProfile {
    let json = format!(r#"{{"x":[[{min},8],[{opt},8],[{max},8]]}}"#);
    serde_json::from_str(&json).unwrap()
}

/// Compiles `source` into a shared library at `path`.
pub fn compile_library(path: &Path, source: &str) {
    let code = path.with_extension("c");
    std::fs::write(&code, source).unwrap();
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(path).arg(&code).status();
    assert!(status.unwrap().success());
}
