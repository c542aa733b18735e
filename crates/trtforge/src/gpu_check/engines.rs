//! The steps that need no profile: small engines, built here and run here.

use ndarray::ArrayD;
use serde_json::{Value as Json, json};
use trtforge_exec::conformance::{Check, checks};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue, Value};
use trtforge_onnx::{Dim, Model};
use trtforge_tensorrt::{
    Backend, BuildOptions, Choice, DeviceExecutor, DeviceOptions, Library, OptimizationProfile,
    ShapeRange, build, choose,
};

use crate::commands::print;
use crate::error::{LIBRARY, PipelineError};
use crate::store::StoreError;

/// Rows that the small engines take at most.
const MOST: i64 = 64;

/// One engine, built, loaded and run; its answer is compared with the reference executor's. The error of any of that is the answer.
pub fn runs() -> Result<u8, PipelineError> {
    let library = library()?;
    let Some(first) = checks().into_iter().next() else { return Ok(LIBRARY) };
    let model = first.model()?;
    let engine = engine(&library, &model)?;
    let inputs = [ids("ids", 2), ids("mask", 2)];
    let (found, expected) = (
        engine.run(&inputs)?,
        EmbeddedExecutor::from_model(&model, EmbeddedOptions::default())?.run(&inputs)?,
    );
    let difference = largest_difference(&found, &expected);
    let data = json!({
        "library": format!("{} {}", library.sdk(), library.version()),
        "gpu": engine.gpu().name,
        "compute_capability": engine.gpu().compute_capability,
        "largest_difference": difference,
    });
    print(true, &data, "")?;
    Ok(if difference <= 1e-3 { 0 } else { LIBRARY })
}

/// The suite that every executor passes, on engines.
pub fn conformance() -> Result<u8, PipelineError> {
    let library = library()?;
    let results: Vec<Json> = checks().iter().map(|check| one(&library, check)).collect();
    let failed = results.iter().filter(|result| result["problem"].is_string()).count();
    print(true, &json!({ "checks": results, "failed": failed }), "")?;
    for result in results.iter().filter(|result| result["problem"].is_string()) {
        eprintln!("error: {}: {}", result["check"], result["problem"]);
    }
    Ok(if failed == 0 { 0 } else { LIBRARY })
}

fn one(library: &Library, check: &Check) -> Json {
    // An engine shows nothing of what it computes inside: taps are asked of outputs alone, and those are none.
    if !check.keep.is_empty() && check.name.contains("tap") {
        return json!({ "check": check.name, "skipped": "an engine shows no tensors inside it" });
    }
    let run = || -> Result<(), PipelineError> {
        let engine = engine(library, &check.model()?)?;
        check.run(&engine).map_err(|what| PipelineError::Loop { what })
    };
    match run() {
        Ok(()) => json!({ "check": check.name }),
        Err(error) => json!({ "check": check.name, "problem": error.to_string() }),
    }
}

/// The library that a build would take on this machine.
fn library() -> Result<Library, PipelineError> {
    trtforge_tensorrt::driver()?;
    match choose(Backend::Auto, None)? {
        Choice::Sdk { library, .. } => Ok(library),
        Choice::None => unreachable!("auto chooses a library or says what is missing"),
    }
}

fn engine(library: &Library, model: &Model) -> Result<DeviceExecutor, PipelineError> {
    let folder = tempfile::tempdir()
        .map_err(StoreError::io("create", std::path::Path::new("a temporary folder")))?;
    let onnx = folder.path().join("model.onnx");
    model.save(&onnx)?;
    let profile = OptimizationProfile { inputs: ranges(model) };
    let plan = build(library, &onnx, &[profile], &BuildOptions::default(), &|_| {
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(DeviceExecutor::open(library, plan.bytes(), &DeviceOptions::default())?)
}

/// 1 to 64 for every size that the model leaves open.
fn ranges(model: &Model) -> std::collections::BTreeMap<String, ShapeRange> {
    let mut ranges = std::collections::BTreeMap::new();
    for input in model.graph().inputs() {
        let dims = input.shape.unwrap_or_default();
        if dims.iter().all(|dim| matches!(dim, Dim::Fixed(_))) {
            continue;
        }
        let of = |open: i64| -> Vec<i64> {
            let size = |dim: &Dim| if let Dim::Fixed(size) = dim { *size } else { open };
            dims.iter().map(size).collect()
        };
        ranges.insert(input.name, ShapeRange { min: of(1), opt: of(4), max: of(MOST) });
    }
    ranges
}

fn ids(name: &str, width: usize) -> NamedValue {
    let array =
        ArrayD::from_shape_fn(ndarray::IxDyn(&[2, width]), |at| ((at[0] + at[1]) % 2) as i64);
    (name.to_owned(), Value::I64(array))
}

fn largest_difference(found: &[NamedValue], expected: &[NamedValue]) -> f64 {
    let floats = |values: &[NamedValue]| -> Vec<f32> {
        values
            .iter()
            .filter_map(|(_, value)| value.as_f32())
            .flat_map(|array| array.iter().copied().collect::<Vec<_>>())
            .collect()
    };
    let (found, expected) = (floats(found), floats(expected));
    if found.len() != expected.len() || found.iter().any(|x| !x.is_finite()) {
        return f64::INFINITY;
    }
    found.iter().zip(&expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max)
}
