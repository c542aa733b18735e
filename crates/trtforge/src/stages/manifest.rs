//! The manifest of a plan, from everything that went into it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::json;
use trtforge_evaluate::{EvaluatedOn, Verdict};
use trtforge_onnx::Model;
use trtforge_tensorrt::{
    AMPERE, BuildOptions, BuiltOn, ComputeCapability, DriverInfo, ExactVersion, FileHash, Flag,
    Gpu, HEADER_BYTES, HardwareCompatibility, IoTensor, Library, MANIFEST_SCHEMA, PlanHeader,
    PlanManifest, RunsOn, Sdk, ShortVerdict, driver_version,
};

use crate::error::PipelineError;
use crate::stages::engine::{Engine, build_options};
use crate::stages::judge::Judged;
use crate::stages::publish::{Context, onnx_name};
use crate::stages::rewrite::Graph;
use crate::store::{StoreError, hash_file};

/// What stands beside a plan.
///
/// - `published`: the plan's name, relative to the output folder.
pub fn manifest(
    context: &Context<'_>,
    (graph, engine): (&Graph, &Engine),
    judged: &Judged,
    published: &str,
) -> Result<PlanManifest, PipelineError> {
    let model = Model::open(&graph.onnx.path)?;
    let parts = model.graph();
    let library = context.library;
    let options = build_options(context.engine, library.sdk(), context.store.output());
    let gpu = context.driver.and_then(|driver| driver.gpus.first());
    Ok(PlanManifest {
        schema: MANIFEST_SCHEMA,
        tool: concat!("trtforge ", env!("CARGO_PKG_VERSION")).to_owned(),
        precision: engine.precision.name().to_owned(),
        plan: file(published, engine.plan.bytes(), engine.plan.hash()),
        onnx: file(
            &onnx_name(context.name, graph.precision),
            graph.onnx.files[0].bytes,
            graph.onnx.hash(),
        ),
        calibration: Some(file(
            "calibration.json",
            context.table.len() as u64,
            &hash(context.table),
        )),
        timing_cache: timing_cache(&options, context.store.output())?,
        sdk: library.sdk(),
        sdk_version: version(&engine.plan.path, library)?,
        built_on: built_on(context.driver),
        runs_on: runs_on(library.sdk(), &options, gpu),
        version_compatible: options.has(Flag::VersionCompatible),
        inputs: parts.inputs().iter().map(IoTensor::from).collect(),
        outputs: parts.outputs().iter().map(IoTensor::from).collect(),
        profiles: context.profiles.to_vec(),
        options: stated(&options),
        verdict: Some(short(&judged.verdict, context.evaluated_on)),
    })
}

fn file(name: &str, bytes: u64, blake3: &str) -> FileHash {
    FileHash { name: name.to_owned(), bytes: Some(bytes), blake3: blake3.to_owned() }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The timing cache as the build left it. It is named by its file alone: no folder of this machine leaves it.
fn timing_cache(options: &BuildOptions, output: &Path) -> Result<Option<FileHash>, StoreError> {
    let cache = options.timing_cache.as_ref().map(|cache| &cache.path);
    let Some(path) = cache.filter(|path| path.is_file()) else {
        return Ok(None);
    };
    let (blake3, bytes) = hash_file(path).map_err(StoreError::io("read", path))?;
    let inside = path.strip_prefix(output).ok().or_else(|| path.file_name().map(Path::new));
    let name = inside.unwrap_or(path).to_string_lossy().into_owned();
    Ok(Some(FileHash { name, bytes: Some(bytes), blake3 }))
}

/// The version that built a plan, as the plan states it; one that states none is the library's.
fn version(plan: &Path, library: &Library) -> Result<ExactVersion, StoreError> {
    let mut start = Vec::new();
    File::open(plan)
        .and_then(|file| file.take(HEADER_BYTES as u64).read_to_end(&mut start))
        .map_err(StoreError::io("read", plan))?;
    let stated = PlanHeader::read(&start).ok().and_then(|header| header.version);
    Ok(stated.unwrap_or_else(|| library.exact_version()))
}

fn built_on(driver: Option<&DriverInfo>) -> BuiltOn {
    let Some(driver) = driver else { return BuiltOn::default() };
    BuiltOn {
        cuda: Some(driver.cuda_version.clone()),
        driver: driver_version(),
        gpu: driver.gpus.first().cloned(),
    }
}

/// The GPUs that a plan built with these options runs on.
fn runs_on(sdk: Sdk, options: &BuildOptions, gpu: Option<&Gpu>) -> Option<RunsOn> {
    let here = gpu.and_then(Gpu::capability);
    let ampere = RunsOn::AtLeast { compute_capability: AMPERE };
    match sdk {
        Sdk::TensorRtRtx if options.compute_capabilities.is_empty() => Some(ampere),
        Sdk::TensorRtRtx => {
            let one = |wanted: &ComputeCapability| match wanted {
                ComputeCapability::Current => here,
                named => named.name().to_owned().try_into().ok(),
            };
            let all: Option<_> = options.compute_capabilities.iter().map(one).collect();
            Some(RunsOn::OneOf { compute_capabilities: all? })
        }
        Sdk::TensorRt if options.hardware_compatible == Some(HardwareCompatibility::AmperePlus) => {
            Some(ampere)
        }
        Sdk::TensorRt => here.map(|compute_capability| RunsOn::Exactly { compute_capability }),
    }
}

/// The options that are not left to the library, by their names in a profile.
fn stated(options: &BuildOptions) -> BTreeMap<String, serde_json::Value> {
    let stated = options.stated().into_iter();
    stated.map(|(option, value)| (option.name().to_owned(), json!(value))).collect()
}

fn short(verdict: &Verdict, evaluated_on: EvaluatedOn) -> ShortVerdict {
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    ShortVerdict {
        outcome: word(json!(verdict.outcome)),
        publish: verdict.publish,
        metric: verdict.metric.to_string(),
        baseline: verdict.baseline,
        candidate: verdict.candidate,
        count: verdict.count as u64,
        drop: verdict.drop,
        interval: verdict.interval,
        max_drop: verdict.max_drop,
        evaluated_on: Some(word(json!(evaluated_on))),
        reason: verdict.reason.clone(),
    }
}
