//! `publish`: accepted engines under their names, refused ones beside their verdict, nothing half-written.

use std::collections::BTreeMap;

use serde::Serialize;
use trtforge_evaluate::Verdict;
use trtforge_report::relative_name;
use trtforge_tensorrt::{Library, OptimizationProfile};

use crate::error::PipelineError;
use crate::profile::{EngineSection, Precision};
use crate::stages::engine::Engine;
use crate::stages::judge::Judged;
use crate::stages::rewrite::Graph;
use crate::store::{Store, to_json, write_atomic};

/// What stands beside a plan as `<plan>.json`: what it was made from and what it fits.
#[derive(Debug, Serialize)]
struct Manifest<'a> {
    schema: u32,
    tool: String,
    precision: &'static str,
    plan: FileHash<'a>,
    onnx: FileHash<'a>,
    calibration: &'a str,
    sdk: String,
    sdk_version: String,
    profiles: &'a [OptimizationProfile],
    optimization_level: Option<u8>,
    version_compatible: bool,
    verdict: &'a Verdict,
}

#[derive(Debug, Serialize)]
struct FileHash<'a> {
    name: String,
    bytes: u64,
    blake3: &'a str,
}

/// What publishing needs to know about the whole run.
pub struct Context<'a> {
    /// Where to.
    pub store: &'a Store,
    /// Stem of the published names.
    pub name: &'a str,
    /// Content hash of the calibration table.
    pub table: &'a str,
    /// That built the engines.
    pub library: &'a Library,
    /// That the engines were built for.
    pub profiles: &'a [OptimizationProfile],
    /// How.
    pub engine: &'a EngineSection,
}

/// The published name of a graph, relative to the output folder.
pub fn onnx_name(name: &str, precision: Precision) -> String {
    format!("onnx/{name}.{}.onnx", precision.name())
}

/// Publishes one graph: it is what the engine was built from, accepted or not.
pub fn graph(store: &Store, name: &str, graph: &Graph) -> Result<String, PipelineError> {
    let published = onnx_name(name, graph.precision);
    store.publish(&graph.onnx, &published)?;
    Ok(published)
}

/// Puts one engine where its verdict says, and takes an engine of an earlier run away from where it does not.
///
/// Returns its name relative to the output folder.
pub fn engine(
    context: &Context<'_>,
    graph: &Graph,
    engine: &Engine,
    judged: &Judged,
) -> Result<String, PipelineError> {
    let (to, from) =
        if judged.accepted { ("engines", "rejected") } else { ("rejected", "engines") };
    let file = format!("{}.{}.plan", context.name, engine.precision.name());
    // The old name goes first: at no moment is a refused engine under the accepted name.
    for suffix in ["", ".json"] {
        context.store.unpublish(&format!("{from}/{file}{suffix}"))?;
    }
    let manifest = manifest(context, graph, engine, judged, &file);
    let published = format!("{to}/{file}");
    let beside = context.store.output().join(format!("{published}.json"));
    write_atomic(&beside, to_json(&manifest).as_bytes())?;
    context.store.publish(&engine.plan, &published)?;
    Ok(published)
}

fn manifest<'a>(
    context: &'a Context<'_>,
    graph: &'a Graph,
    engine: &'a Engine,
    judged: &'a Judged,
    file: &str,
) -> Manifest<'a> {
    let onnx = onnx_name(context.name, graph.precision);
    Manifest {
        schema: 1,
        tool: concat!("trtforge ", env!("CARGO_PKG_VERSION")).to_owned(),
        precision: engine.precision.name(),
        plan: FileHash {
            name: file.to_owned(),
            bytes: engine.plan.bytes(),
            blake3: engine.plan.hash(),
        },
        onnx: FileHash {
            name: relative_name(&onnx).to_owned(),
            bytes: graph.onnx.bytes(),
            blake3: graph.onnx.hash(),
        },
        calibration: context.table,
        sdk: context.library.sdk().to_string(),
        sdk_version: context.library.version().to_string(),
        profiles: context.profiles,
        optimization_level: context.engine.optimization_level,
        version_compatible: context.engine.version_compatible,
        verdict: &judged.verdict,
    }
}

/// Removes what an earlier run published and this one, which builds other precisions or none, does not.
pub fn withdraw(
    store: &Store,
    name: &str,
    kept: &BTreeMap<Precision, String>,
) -> Result<(), PipelineError> {
    for precision in [Precision::Fp16, Precision::Int8] {
        if kept.contains_key(&precision) {
            continue;
        }
        for folder in ["engines", "rejected"] {
            for suffix in ["plan", "plan.json"] {
                store.unpublish(&format!("{folder}/{name}.{}.{suffix}", precision.name()))?;
            }
        }
    }
    Ok(())
}
