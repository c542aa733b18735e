//! `trtforge inspect PLAN`: what a plan was made from, where it runs, and on a GPU what its layers compute in.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;
use trtforge_onnx::Model;
use trtforge_tensorrt::{
    Detail, EngineLayers, FileHash, HEADER_BYTES, IoTensor, PlanFile, PlanManifest, PrecisionProof,
    begins_as_plan, deserialize, driver,
};

use super::print;
use crate::cli::InspectArgs;
use crate::error::PipelineError;
use crate::inputs::InputError;
use crate::store::hash_file;

/// Whether a file is a plan, by its first bytes; by its name where they say nothing.
pub fn is_plan(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| {
        // A device or FIFO may never give what is asked of it.
        let regular = file.metadata()?.is_file();
        file.take(if regular { HEADER_BYTES as u64 } else { 0 }).read_to_end(&mut start)
    });
    let named = path.extension().is_some_and(|extension| extension == "plan");
    named || (read.is_ok() && begins_as_plan(&start))
}

/// Shows a plan. No library is needed, unless layers are asked for.
pub fn inspect_plan(args: &InspectArgs) -> Result<(), PipelineError> {
    let plan = PlanFile::open_alone(&args.path)?;
    let layers = if args.layers { Some(ask(&plan)?) } else { None };
    let mut value = plan.manifest().map_or_else(|| json!({}), |manifest| json!(manifest));
    let header = plan.header();
    value["header"] = json!({
        "sdk": header.sdk.to_string(),
        "version": header.version.map(|version| version.to_string()),
        "bytes": plan.bytes().len(),
        "blake3": plan.blake3(),
    });
    value["manifest"] = json!(plan.manifest().is_some());
    let mut text = describe(&plan);
    if let Some(layers) = layers {
        let proof = graph_of(args, &plan)?.map(|model| PrecisionProof::of(&layers, &model));
        value["layers"] = json!(layers.layers);
        value["proof"] = json!(proof);
        text.push_str(&describe_layers(&layers, proof.as_ref()));
    }
    print(args.json, &value, &visible(&text))?;
    Ok(())
}

/// Brings the plan to life and asks it.
fn ask(plan: &PlanFile) -> Result<EngineLayers, PipelineError> {
    let library = plan.locate_library(None)?;
    let gpus = driver()?.gpus;
    for note in
        plan.check(&library, gpus.first()).map_err(trtforge_tensorrt::TensorRtError::from)?
    {
        eprintln!("note: {note}");
    }
    let said = deserialize(&library, plan.bytes())?.inspect()?;
    Ok(EngineLayers::from_json(&said).map_err(InputError::from)?)
}

/// The graph that the plan was built from: the one that is given, or the one its manifest names, if it is still the same.
fn graph_of(args: &InspectArgs, plan: &PlanFile) -> Result<Option<Model>, PipelineError> {
    if let Some(path) = &args.onnx {
        return Ok(Some(Model::open(path)?));
    }
    let Some(manifest) = plan.manifest() else { return Ok(None) };
    let Some(path) = beside(&args.path, &manifest.onnx) else { return Ok(None) };
    match hash_file(&path) {
        Ok((hash, _)) if hash == manifest.onnx.blake3 => Ok(Some(Model::open(&path)?)),
        Ok(_) => {
            let name = &manifest.onnx.name;
            eprintln!("note: `{}` is not the file that the plan was built from", visible(name));
            Ok(None)
        }
        Err(_) => Ok(None),
    }
}

/// A file that a manifest names, in the run folder that the plan lies in.
fn beside(plan: &Path, file: &FileHash) -> Option<PathBuf> {
    let plan = std::path::absolute(plan).ok()?;
    let path = plan.parent()?.parent()?.join(&file.name);
    path.is_file().then_some(path)
}

fn describe(plan: &PlanFile) -> String {
    let header = plan.header();
    let version = plan.version().map_or_else(|| "unknown version".to_owned(), |v| v.to_string());
    let mut lines = vec![
        ("plan", format!("{} {version}, {} bytes", header.sdk, plan.bytes().len())),
        ("BLAKE3", plan.blake3().to_owned()),
    ];
    match plan.manifest() {
        Some(manifest) => lines.extend(of_manifest(manifest)),
        None => lines.push((
            "manifest",
            "none beside it: what it was made from and where it runs is not known".to_owned(),
        )),
    }
    lines.into_iter().map(|(name, words)| format!("{name:<11} {words}\n")).collect()
}

fn of_manifest(manifest: &PlanManifest) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("manifest", format!("this plan's, by {}", manifest.tool)),
        ("precision", manifest.precision.clone()),
    ];
    let files = [
        ("onnx", Some(&manifest.onnx)),
        ("calibration", manifest.calibration.as_ref()),
        ("cache", manifest.timing_cache.as_ref()),
    ];
    for (name, file) in files {
        lines.extend(file.map(|file| (name, format!("{} ({})", file.name, &file.blake3[..16]))));
    }
    let built_on = &manifest.built_on;
    lines.push((
        "built on",
        match &built_on.gpu {
            Some(gpu) => format!("{} (compute capability {})", gpu.name, gpu.compute_capability),
            None => "a machine without a GPU".to_owned(),
        },
    ));
    let driver = [("CUDA", &built_on.cuda), ("driver", &built_on.driver)];
    lines.extend(driver.iter().filter_map(|(name, value)| Some((*name, (*value).clone()?))));
    let runs_on =
        manifest.runs_on.as_ref().map_or_else(|| "not stated".to_owned(), ToString::to_string);
    lines.push(("runs on", runs_on));
    if manifest.version_compatible {
        lines.push(("versions", "later ones of the same major version too".to_owned()));
    }
    let tensor = |tensor: &IoTensor| {
        format!("{} {} [{}]", tensor.name, tensor.element_type, tensor.shape.join(", "))
    };
    lines.extend(manifest.inputs.iter().map(|input| ("input", tensor(input))));
    lines.extend(manifest.outputs.iter().map(|output| ("output", tensor(output))));
    for profile in &manifest.profiles {
        let shapes = profile
            .inputs
            .iter()
            .map(|(name, range)| format!("{name} {:?} {:?} {:?}", range.min, range.opt, range.max));
        lines.push(("profile", shapes.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(
        manifest.options.iter().map(|(name, value)| ("option", format!("{name} = {value}"))),
    );
    if let Some(verdict) = &manifest.verdict {
        lines.push(("verdict", format!("{}: {}", verdict.outcome, verdict.reason)));
    }
    lines
}

fn describe_layers(layers: &EngineLayers, proof: Option<&PrecisionProof>) -> String {
    let mut text = String::from("\n");
    match proof {
        Some(proof) => text.push_str(&format!("{}\n", proof.summary())),
        None => text.push_str(
            "the graph it was built from is not at hand (`--onnx FILE` gives it): layers alone\n",
        ),
    }
    match layers.detail {
        Detail::Nothing => text.push_str("the engine says nothing of its layers\n"),
        Detail::Names => text.push_str("the engine says only the names of its layers\n"),
        Detail::Full => {}
    }
    for layer in &layers.layers {
        let number = layer.compute.number.map_or("-", trtforge_tensorrt::NumberType::name);
        text.push_str(&format!("{number:<5} {:<12} {}\n", layer.kind, layer.name));
    }
    text
}

/// A manifest is a file like any other: what a terminal would take for a command is shown as what it is.
fn visible(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(shown).collect()
}
